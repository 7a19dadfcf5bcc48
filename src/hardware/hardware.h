/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a device; src/hardware/figures.inc has their bounds. */
#ifndef HR_HARDWARE_HARDWARE_H
#define HR_HARDWARE_HARDWARE_H

#include <headroom/experimental/collective.h>
#include <headroom/experimental/hardware.h>

#define HR_ALIGNMENTS_MAX 10
#define HR_TILES_MAX 24
#define HR_ATTENTION_SHARES_MAX 10
#define HR_CEILINGS_MAX 16
#define HR_COLLECTIVE_RATES_MAX 96

#define HR_INTERVALS_MAX 192

/** Speed of GEMMs whose contiguous dimensions are multiples of `bytes` but not of the next larger class. */
typedef struct hr_alignment_class {
  int64_t bytes;       /* a power of two */
  double gemm_share;   /* of the rate of the best class, in tiles of 128 × 256: plain GEMMs */
  double bmm_share;    /* the same for batched GEMMs */
  double result_share; /* plain GEMMs whose operands are of the best class, but not the result; 0: gemm_share */
} hr_alignment_class;

/** A tile of the result that one multiprocessor (one core of a CPU) computes at a time. */
typedef struct hr_tile {
  int64_t m, n;
  double share; /* of the library's best rate that this tile reaches when every slot is busy */
} hr_tile;

/** Speed of the fused attention kernel for heads of at most `head_dim` elements (the larger of qk_dim and v_dim). */
typedef struct hr_attention_share {
  int64_t head_dim;
  double forward_share, backward_share; /* of the library's best GEMM, long sequences without a mask */
  double headroom_share;                /* forward_share of Headroom's own kernel; 0: as forward_share */
  double short_share; /* the same with tiles of up to 64 keys for up to 1024, on Hopper; 0: as headroom_share */
  double headroom_backward_share; /* backward_share of Headroom's own kernel; 0: as backward_share */
  double full_share;              /* forward_share of calls without a mask; 0: as forward_share */
} hr_attention_share;

/** Cost of attention with one or a few queries per sequence (split-KV). "A pair" is a K or V head of one sequence. */
typedef struct hr_decode_cost {
  double launch_ns;       /* the shortest call */
  double bandwidth_share; /* at which K and V are read; 0: as hr_hardware.bandwidth_share */
  double one_head_share;  /* of bandwidth_share: pairs of one query head, which have other kernels; 0: 1 */
  double pair_ns;         /* of a multiprocessor, for each pair */
  double element_ns;      /* of a multiprocessor, for each element of a pair's head; where thread blocks are known, of
                             each wave of these */
  double split_ns;        /* each time that the keys double beyond 128, where pairs leave all multiprocessors idle */
  double compute_share;   /* of the library's best GEMM; 0: hr_attention_share.forward_share of the head size */
  double key_ns;          /* of kernels that do not split the keys: of a multiprocessor, for each key beyond 64 of 64
                             query heads of a pair; 0: the keys are split */

  /* Headroom's kernel for GPUs, whose thread blocks are known; hr_predict_decode() defines the terms. */
  double wave_ns;            /* of each wave of blocks after the first; 0: by pairs, as above */
  double busy_ns;            /* of a launch that gives every multiprocessor a block; of a smaller one in proportion */
  double combine_ns;         /* of combining splits of the keys through global memory */
  double cluster_ns;         /* of combining them within clusters of blocks; 0: there are no clusters */
  double combine_element_ns; /* of combining, for each element of O that a group of query heads has, besides */
  double read_latency_ns;    /* from the start of a copy to its data, while all multiprocessors read */
  double fill_share; /* of the time that reading l2_bytes takes at the full bandwidth: added while the cache fills */
  double reach;      /* bandwidth of one multiprocessor, over its share of the whole; 0: no limit */
} hr_decode_cost;

/** Cost of fused attention over many queries. */
typedef struct hr_prefill_cost {
  double launch_ns;     /* the shortest call; 0: this cost is not known */
  double block_ns;      /* overhead of one Q tile */
  double share;         /* of the library's best GEMM, long sequences without a mask; 0: by forward_share */
  double forward_share; /* times that of hr_attention_share, for the head size; 0: 1 */
  double element_ns;    /* overhead of one Q tile for each element of its head, besides block_ns; of 128 rows */

  /* Headroom's kernel for Hopper, whose work items are known; hr_predict_attention_by() defines the terms. */
  double busy_ns;    /* of a launch that gives every multiprocessor a Q tile; of a smaller one in proportion */
  double load_share; /* of the bandwidth, at which it reads and writes; 0: as hr_hardware.bandwidth_share */
} hr_prefill_cost;

/** Cost of the routed experts of a layer by the kernels of inference servers: grouped GEMMs, whose experts' rows are
 *  padded to whole tiles, and the kernels around them, which sort the tokens by expert. */
typedef struct hr_expert_cost {
  double routing_ns;   /* of choosing the experts and sorting the tokens, however few; 0: this cost is not known */
  double matrix_share; /* of the library's rate of plain GEMMs, which a grouped GEMM reaches */
  double load_share;   /* of the bandwidth, at which it reads its operands */
  double expert_ns;    /* of a grouped GEMM, for each expert that has rows */
  double moved_share;  /* of the bandwidth, at which tokens are copied to their experts and back */

  double matrix_share_8bit, load_share_8bit, expert_ns_8bit; /* the same of 8 bit operands; 0: as the others */
} hr_expert_cost;

/** Cost of one family of a library's GEMM kernels, which share their cost and differ in their tiles. In ns at the clock
 *  of large GEMMs (tma, simt) or at its limit (aligned_4, aligned_2). A step is one along k; a multiprocessor runs the
 *  blocks of a wave together. src/analysis/predict/gemm_tile_time.c adds the terms up. */
typedef struct hr_gemm_kernel_cost {
  double launch_ns;        /* the shortest such GEMM; 0: this cost is not known */
  double busy_ns;          /* launch: added where every multiprocessor has a tile, else the busy share of it */
  double matrix_share;     /* arithmetic: times the library's rate that a tile reaches; 0: 1 */
  double row_ns;           /* loads: of each row that is contiguous along k, in a step */
  double column_ns;        /* loads: of each row that is contiguous along m or n, in a step; 0: as row_ns */
  double short_k;          /* loads: 1 − exp(−k / short_k) of row_ns, since short rows share cache lines; 0: all */
  double load_16, load_32; /* loads: times as long for rows aligned to 16 and 32 bytes; 0: 1 */
  double latency_ns;       /* latency: that a step takes at least */
  double row_latency_ns;   /* latency: the same for each row and column of the tile, of which fewer are under way */
  double step_ns;          /* of a block, for each step, besides */
  double store_bytes_per_ns;  /* stores: at which a multiprocessor writes a tile; compute does not hide it */
  double wave_ns;             /* waves: pipelines of the blocks of a multiprocessor fill and drain */
  double refill_ns;           /* waves: added once where tiles fill more than two */
  double split_ns, part_ns;   /* split: of splitting k, and of each part */
  double sector_bytes_per_ns; /* memory: of all, where rows of the result are multiples of 16 bytes, not of 32 */
} hr_gemm_kernel_cost;

/** Cost of 8 bit GEMMs whose activations are rounded by a kernel of its own, as in eager mode. */
typedef struct hr_rounding_cost {
  double launch_ns;       /* of that kernel; 0: this cost is not known */
  double bandwidth_share; /* at which the elements are read, and written rounded */
  double element_ns;      /* of a row's elements, one after the other, where multiprocessors idle */
  double matrix_share;    /* of the library's rate, which the GEMM reaches; 0: 1 */
} hr_rounding_cost;

/** Cost of a recurrent mixer's scan, or of its short convolution, by the kernels that frameworks run. A sequence takes
 *  launch + busy + max(0, token_ns · tokens − busy / 4), where busy is bytes / (bandwidth_share · bandwidth) +
 *  FLOPs / (matrix_share · library's rate) and bytes contain the states of chunks; a decode step takes update_ns +
 *  bytes / (update_share · bandwidth). */
typedef struct hr_scan_cost {
  double launch_ns;       /* of all kernels over a sequence, however short; 0: this cost is not known */
  double bandwidth_share; /* at which operands, results and final states move; 0: as hr_hardware.bandwidth_share */
  double matrix_share;    /* of the library's rate of plain GEMMs, at which FLOPs are computed; 0: they take no time */
  double token_ns;        /* of a token of a sequence: states follow one another, however many units are idle */
  double update_ns;       /* the shortest decode step; 0: the cost of one is not known */
  double update_share; /* of the bandwidth, at which it moves operands and states; 0: as hr_hardware.bandwidth_share */
} hr_scan_cost;

/** The rate of a loop over one instruction: an upper bound for kernels built on it. */
typedef struct hr_ceiling {
  hr_ceiling_kind kind;
  hr_dtype dtype;       /* of HR_CEILING_GEMM; HR_FP32 otherwise */
  char instruction[32]; /* "wgmma", "vfmadd213ps zmm"; of an exponential on a CPU also its polynomial */
  double per_s;         /* of all multiprocessors or cores */
  double core_per_s;    /* of one core alone; 0: not measured, as on a GPU */
  double clock_hz;      /* of the multiprocessors during the loop; 0: unknown */
  double power_w;       /* of the whole board during the loop, run until the power cap had settled; 0: not measured */
} hr_ceiling;

/** Time of a library's collective between so many devices of one node: with τ = bytes × hr_collective_bus_share() /
 *  bus_bytes_per_s it is α + τ + ramp · √(α·τ). The last term is that of small and middle messages, whose transfer is
 *  cut into pieces: √(α·τ) is what the best number of pieces costs. Several rows of the same library, kind and devices
 *  are its ways, of which the fastest counts. Rows of several nodes are of DeepEP, and the whole time. */
typedef struct hr_collective_rate {
  hr_collective_kind kind;
  int64_t devices;
  double latency_ns;      /* α */
  double bus_bytes_per_s; /* as nccl-tests defines bus bandwidth */
  double ramp;            /* 0: α + τ alone; 2: pieces of the best size */
  double error_band;      /* relative, of the time, as hr_hardware.error_band */
  int64_t nodes;          /* 0: one */
  hr_collective_library library;
} hr_collective_rate;

/** Where nine of ten measured times lie: low … high times the predicted one. */
typedef struct hr_interval {
  hr_interval_kind kind;
  hr_dtype dtype;  /* of GEMMs of this format alone; HR_DTYPE_COUNT: of every format without rows of its own */
  double below_ns; /* of predicted times below this, and not below the row before of the same kind and dtype */
  double low, high;
} hr_interval;

/** Costs of a server's own kernels, in place of the common ones, which are taken where a launch or routing_ns
 *  is 0. The rounding has all kernels that the server runs around the GEMM of a linear layer. */
typedef struct hr_server_cost {
  char version[24]; /* of the server that they are fitted to; "": none is */
  hr_rounding_cost rounding;
  hr_expert_cost experts;
  hr_prefill_cost prefill;
  hr_decode_cost decode;
} hr_server_cost;

struct hr_hardware {
  hr_hardware_about about;
  double error_band; /* relative, where `intervals` has no row: a time is expected within time / (1 + band) … time ·
                        (1 + band) */

  int64_t multiprocessors;                  /* SMs, compute units or cores */
  int64_t blocks_per_multiprocessor;        /* matrix tiles in flight on each */
  double clock_hz;                          /* boost clock */
  double dense_flops_per_s[HR_DTYPE_COUNT]; /* datasheet, without sparsity; 0: the device has no such units. For
                                               this machine's CPU: instruction set × cores × the clock that the
                                               system reports */
  double library_share[HR_DTYPE_COUNT];     /* best library GEMM / dense rate; 0: unknown, 0.75 is assumed. Above 1 if
                                               a probed CPU runs at a higher clock than the system reports */

  double fp4_flops_per_s; /* E2M1 with a scale for each block, without sparsity; 0: the device has no such units */
  double int8_ops_per_s;  /* int8 × int8, without sparsity; 0: the device has no such units, or unknown */
  double bandwidth_bytes_per_s; /* main memory, datasheet */
  double bandwidth_share;       /* a streaming copy reaches this share of it */
  double load_share;            /* of the bandwidth: a GEMM reading its operands; 0: as bandwidth_share */
  double store_share;           /* of the bandwidth: a GEMM writing its result; 0: as bandwidth_share */
  int64_t memory_bytes;
  int64_t l2_bytes;                                   /* last-level cache */
  int64_t shared_bytes;                               /* shared memory (LDS) of a multiprocessor; CPU: L2 of a core */
  double softmax_share, norm_share, activation_share; /* of the bandwidth, of these kernels; 0: as bandwidth_share */
  double store_exposed;      /* part of the time to write a result that compute does not hide; 0 … 1 */
  double boost;              /* largest rise of the clock when few multiprocessors are busy, relative to the clock of
                                   large GEMMs, which power limits; 0: none */
  double launch_ns;          /* the shortest kernel: interval between kernels in a stream */
  double gemm_launch_ns;     /* the shortest GEMM; 0: as launch_ns */
  double gemm_busy_ns;       /* added where every multiprocessor has a tile, else the busy share of it */
  double gemm_step_ns;       /* of a tile, added for each step along k, however small the tile */
  double attention_block_ns; /* overhead of one Q tile of fused attention; of a hr_prefill_cost without its own, too */
  int64_t tile_k_bytes;      /* step along k; 0: none */

  size_t alignment_count;
  hr_alignment_class alignments[HR_ALIGNMENTS_MAX]; /* ascending bytes; the last is full speed */
  size_t tile_count;
  hr_tile tiles[HR_TILES_MAX];
  size_t attention_count;                                 /* 0: a share of 0.6 is assumed */
  hr_attention_share attentions[HR_ATTENTION_SHARES_MAX]; /* ascending head_dim */

  int64_t devices_per_node;        /* usual count; 0: not given */
  double interconnect_bytes_per_s; /* one direction, of one device to its node; 0: none */

  size_t ceiling_count; /* 0: not measured */
  hr_ceiling ceilings[HR_CEILINGS_MAX];

  int64_t numa_nodes;  /* of this machine's CPU: NUMA nodes of the usable cores; 0: unknown */
  char placement[192]; /* of this machine's CPU, a phrase: placement of its threads and memory; "": unknown */

  double interconnect_latency_ns; /* of a collective that has no fitted rates; 0: as launch_ns */
  double network_bytes_per_s;     /* one direction, of one device to other nodes; 0: all devices are on one node */
  double network_latency_ns;      /* of a message between two nodes */
  size_t collective_count;        /* 0: not measured; times follow from interconnect_bytes_per_s as of a ring */
  hr_collective_rate collectives[HR_COLLECTIVE_RATES_MAX]; /* by library, kind, then ascending devices */

  double power_limit_w; /* of this machine's GPU, as its driver enforces it; else what the maker states; 0: unknown */

  hr_decode_cost decode_framework;  /* kernels of PyTorch, vLLM, SGLang, TensorRT-LLM */
  hr_decode_cost decode_headroom;   /* Headroom's own; launch_ns 0: as decode_framework */
  hr_prefill_cost prefill_headroom; /* Headroom's own fused attention; launch_ns 0: hr_hardware.launch_ns and
                                       attention_block_ns */

  size_t interval_count;                   /* 0: not measured */
  hr_interval intervals[HR_INTERVALS_MAX]; /* by kind, then dtype, then ascending below_ns */

  double cache_bytes_per_s; /* a GEMM reading operands from the last-level cache; 0: twice main memory's rate */
  double l2_bytes_per_s;    /* attention, scans and copies reading what the last-level cache holds; 0: as a GEMM does */
  double reach;             /* of one multiprocessor that loads alone: times its share of the bandwidth; 0: no limit */
  double split_ns;          /* of a GEMM that splits k: the second kernel, or waiting for the other splits */
  int64_t split_k_bytes;    /* least bytes of k that a split gets; 0: 2048 */
  int64_t split_gemm_size;  /* m × n × k up to which the library does not split k; 0: it splits any */
  double burst;             /* the clock of HR_CLOCK_BURST over the settled one, in large GEMMs; 0: 1 */
  /* Kernels for GEMMs whose operands and result are aligned to 16 bytes, to 4 or 8 bytes, and to 2 bytes; launch_ns 0:
   * such GEMMs run in `tiles`, slowed down by their alignment class. */
  hr_gemm_kernel_cost tma, aligned_4, aligned_2;
  bool simt_formats[HR_DTYPE_COUNT]; /* kernels load single elements: alignment costs nothing */
  size_t simt_tile_count;            /* 0: as tiles */
  hr_tile simt_tiles[HR_TILES_MAX];  /* of the SIMT formats */
  int64_t simt_batched_tiles;        /* of them, the first so many are those of batched GEMMs; 0: all */
  hr_gemm_kernel_cost simt;          /* of the same formats, in tiles of their own; launch_ns 0: in `simt_tiles` */
  double row_share; /* of load_share: B of [n, k] whose rows do not lie a power of two apart; not of batched GEMMs
                          * and SIMT formats; 0: 1 */
  double small_tile_share; /* of the rate, in batched GEMMs for which the library takes small tiles: SIMT formats, k
                            * up to 512 the longest side; 0: 1 */
  int64_t long_row_bytes;  /* rows along k that lie further apart load slower; 0: at any distance the same */

  /* Kernels of frameworks; without them latent attention is predicted as other attention, a grouped GEMM as a batched
   * one, and rounding to 8 bits is left out. */
  hr_decode_cost decode_latent;          /* latent attention in its absorbed form */
  hr_decode_cost decode_latent_headroom; /* the same by Headroom's kernels; launch_ns 0: as decode_headroom by pairs */
  hr_prefill_cost prefill_latent;        /* latent attention in its expanded form: V heads smaller than K heads */
  hr_prefill_cost prefill_server;        /* of inference servers, which writes a KV cache of pages */
  hr_prefill_cost prefill_fp8;           /* the same of 8 bit operands */
  hr_prefill_cost prefill_full;          /* without a mask and a cache, as in an encoder */
  hr_decode_cost decode_fp8;             /* over a cache of 8 bits; launch_ns 0: as decode_framework */
  hr_expert_cost experts;
  hr_rounding_cost rounding;
  hr_server_cost trtllm, vllm, sglang;

  /* The same of recurrent mixers, by hr_recurrence. A GPU whose file has none of a recurrence takes an H200's, with a
   * wider band; a CPU takes the lower bound (hr_predict_scan()). */
  hr_scan_cost scan_mamba, scan_mamba2, scan_gated_delta, scan_lightning, scan_rg_lru, scan_convolution;
};

/** Whether the costs of all families of GEMM kernels are known, so that no GEMM runs in `tiles`. */
bool hr_hardware_has_families(const hr_hardware *hardware);

/** An empty device. */
static inline hr_hardware hr_hardware_default(void)
{
  return (hr_hardware){.error_band = 0};
}

#endif
