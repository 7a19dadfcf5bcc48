/* What the CUDA attention kernels share on the host. */
#ifndef HR_RUNTIME_CUDA_ATTENTION_ATTENTION_H
#define HR_RUNTIME_CUDA_ATTENTION_ATTENTION_H

#include "runtime/cuda/driver/module.h"
#include "runtime/device/attention.h"

/** The parameter of the programs: attention_call of kernels/attention.cuh, member by member. */
typedef struct hr_cuda_attention {
  cu_address q, k, v, o, lse, slopes, q_offsets, kv_offsets, counters;
  hr_strides q_at, k_at, v_at, o_at, lse_at;
  int32_t q_len, kv_len;
  int32_t q_heads, k_group, v_group;
  int32_t qk_dim, v_dim;
  int32_t causal, window;
  int32_t row_tiles, heads, items, band_heads;
  float scale, softcap;
} hr_cuda_attention;

/** The call without its addresses, in row tiles of `rows`. The problem has passed hr_cuda_attention_fits(). */
hr_cuda_attention hr_cuda_attention_describe(const hr_attention *attention, int64_t rows);

/** Sets the addresses; those that the problem does not need become 0. */
void hr_cuda_attention_address(hr_cuda_attention *call, const hr_attention *attention,
                               const hr_attention_arguments *arguments);

#define HR_CUDA_ATTENTION_DIM_MOST 256

/** Whether head sizes are at most HR_CUDA_ATTENTION_DIM_MOST; `why` says so if not. */
bool hr_cuda_attention_dims_fit(const hr_attention *attention, char *why, size_t why_size);

/** Whether lengths fit 31 bits and row tiles of `rows` a grid; `why` says what does not. */
bool hr_cuda_attention_fits(const hr_attention *attention, int64_t rows, char *why, size_t why_size);

/** The function "attention" of a program, allowed `shared_bytes` of shared memory; as hr_cuda_function(). */
hr_status hr_cuda_attention_function(const hr_cuda *cuda, const char *source, hr_dtype dtype, const char *defines,
                                     size_t shared_bytes, cu_function *function, hr_error *error);

/** One launch of such a function. */
typedef struct hr_cuda_attention_launch {
  cu_function function;
  unsigned blocks, threads, shared_bytes;
  const hr_cuda_attention *call; /* with its addresses */
  void *maps;                    /* a second parameter; NULL: none */
} hr_cuda_attention_launch;

/** Starts it in the device's context. */
hr_status hr_cuda_attention_start(const hr_cuda *cuda, const hr_cuda_attention_launch *launch, hr_error *error);

/** How a program with a block for each row tile of each head is cut for a problem. */
typedef struct hr_cuda_attention_cut {
  const char *source;
  hr_dtype dtype;
  int64_t rows; /* of a tile */
  unsigned threads;
  size_t shared_bytes;
  int blocks;   /* of a multiprocessor at a time, for a program that takes heads by bands; otherwise 0 */
  bool aligned; /* the program counts on addresses and strides that are multiples of 16 bytes */
  char defines[HR_DEFINES_SIZE], text[128];
} hr_cuda_attention_cut;

/** Cuts a problem for blocks of up to `shared_most` bytes of shared memory; `aligned`: strides and head sizes allow a
 *  program that counts on it. */
typedef hr_cuda_attention_cut hr_cuda_attention_cutter(const hr_attention *attention, size_t shared_most, bool aligned);

/** How many heads have their row tiles dealt out together, the longest first, so that the blocks of a causal call end
 *  together: two row tiles for each of the `places` that run at a time, as long as half of `cache_bytes`, the L2, holds
 *  their K and V, and as many in every band. 1 without a mask. */
int32_t hr_cuda_attention_band(const hr_attention *attention, int64_t row_tiles, int64_t places, size_t cache_bytes);

/** Bytes of shared memory that a block may have on the device. */
hr_status hr_cuda_attention_shared_most(const hr_cuda *cuda, size_t *bytes, hr_error *error);

/** The state of a plan that is one launch, a block for each row tile, and needs no workspace. */
typedef struct hr_cuda_attention_tiled {
  const hr_cuda *cuda;
  hr_cuda_attention_cutter *cutter;
  hr_cuda_attention_cut cut;
  cu_function function;
  hr_cuda_attention call;
} hr_cuda_attention_tiled;

/** What hr_kernel_functions wants of such a kernel. Runs at addresses that are less aligned than the strides build
 *  another program when the first is met. */
hr_status hr_cuda_attention_prepare(hr_device *device, const hr_problem *problem, hr_cuda_attention_cutter *cutter,
                                    void *state, size_t *workspace_bytes, hr_error *error);
hr_status hr_cuda_attention_run(const hr_plan *plan, const hr_attention_arguments *arguments, void *workspace,
                                hr_error *error);
void hr_cuda_attention_describe_cut(const void *state, char *text, size_t size);

/** Runs a call without a plan, at addresses of any alignment: builds the program when it is first met. */
hr_status hr_cuda_attention_run_unaligned(const hr_cuda *cuda, const hr_attention *attention,
                                          hr_cuda_attention_cutter *cutter, const hr_attention_arguments *arguments,
                                          hr_error *error);

/** Whether scores need more than a positive factor before the softmax: HR_MODIFIED. */
bool hr_cuda_attention_modified(const hr_attention *attention);

/** Whether head sizes and strides keep every row of every head at multiples of 16 bytes from its operand's address. */
bool hr_cuda_attention_aligned(const hr_attention *attention);

/** Whether the addresses of Q, K, V and O are multiples of 16 bytes. */
bool hr_cuda_attention_addresses_aligned(const hr_attention_arguments *arguments);

/** How attention_flash_sm80.cu is cut for a problem. */
typedef struct hr_flash_sm80 {
  int qk, v;            /* padded head sizes */
  int warps, row_tiles; /* of a block; of 16 rows, of a team */
  int team;             /* warps that share rows: 1, or 2, each with half of a tile's keys and half of O's columns */
  int columns;          /* keys of a tile */
  int blocks;           /* of a multiprocessor that registers are held down for */
  int stages;           /* of K and V: 2, or 1 of each, filled by turns */
  size_t shared_bytes;
} hr_flash_sm80;

/** The tiles for a problem on a device that gives a block `shared_most` bytes. Head sizes up to 256. */
hr_flash_sm80 hr_flash_sm80_choose(const hr_attention *attention, size_t shared_most);

/** Their definitions for hr_program. */
void hr_flash_sm80_defines(const hr_flash_sm80 *tiles, bool modified, bool aligned, char text[HR_DEFINES_SIZE]);

/** hr_flash_sm80_choose() for a program, which runs any call that attention_flash_sm80 supports. */
hr_cuda_attention_cut hr_flash_sm80_cut(const hr_attention *attention, size_t shared_most, bool aligned);

/** How attention_flash_fp32.cu is cut for a problem. */
typedef struct hr_flash_fp32 {
  int qk, v;   /* padded head sizes */
  int columns; /* keys of a tile */
  size_t shared_bytes;
} hr_flash_fp32;

/** As hr_flash_sm80_choose() and hr_flash_sm80_defines(). */
hr_flash_fp32 hr_flash_fp32_choose(const hr_attention *attention, size_t shared_most);
void hr_flash_fp32_defines(const hr_flash_fp32 *tiles, bool modified, bool aligned, char text[HR_DEFINES_SIZE]);

/** How attention_blocked.cu, or in exact fp32 attention_blocked_fp32.cu, is cut for a problem. */
typedef struct hr_blocked {
  int v;             /* head size of V, rounded up to 16 */
  int rows, columns; /* queries and keys of a tile */
  int threads;       /* of a block */
  int blocks;        /* of a multiprocessor */
  size_t shared_bytes;
} hr_blocked;

/** As hr_flash_sm80_choose() and hr_flash_sm80_defines(), and the program's name. Head sizes of V up to 256. */
hr_blocked hr_blocked_choose(const hr_attention *attention, size_t shared_most);
void hr_blocked_defines(const hr_blocked *tiles, hr_dtype dtype, bool modified, bool aligned,
                        char text[HR_DEFINES_SIZE]);
const char *hr_blocked_source(hr_dtype dtype);

/** The definitions of attention_naive.cu for a problem. */
void hr_naive_cuda_defines(const hr_attention *attention, char text[HR_DEFINES_SIZE]);

/** How attention_flash_sm90.cu is cut for a problem. */
typedef struct hr_flash_sm90 {
  int qk, v;                               /* head sizes, rounded up to 16 */
  int groups;                              /* warpgroups of 64 rows */
  int columns;                             /* keys of a tile */
  int stages, q_stages;                    /* of K and V; of Q */
  bool out_apart;                          /* O goes through shared memory of its own, otherwise from registers */
  bool turns;                              /* the warpgroups issue products by turns */
  bool causal, window, variable, modified; /* what the program has to reckon with */
  size_t shared_bytes;
} hr_flash_sm90;

/** The tiles for a problem. Head sizes up to 256. */
hr_flash_sm90 hr_flash_sm90_choose(const hr_attention *attention);

/** Their definitions for hr_program. */
void hr_flash_sm90_defines(const hr_flash_sm90 *tiles, char text[HR_DEFINES_SIZE]);

#endif
