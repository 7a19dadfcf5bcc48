/* What a program meets when it runs on the emulated GPU: its threads' numbers, what waits for others, and the
 * instructions that need more than a thread. Programs include it through device.h; the emulated driver (libcuda.so.1)
 * has the other side. Functions without another word concern the thread that calls them.
 *
 * Addresses of shared memory are numbers of 32 bits, as in PTX: offsets in the block's window, with the block's rank in
 * its cluster above (SHARED_RANK). */
#pragma once

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace emulation {

typedef unsigned char byte;
typedef unsigned long long word64;

constexpr unsigned SHARED_WINDOW = 1u << 18, SHARED_DYNAMIC_AT = 1024, SHARED_RANK = 24;
constexpr int LANES = 32;

/** Ends the launch: the driver's answer is an error with this text, the kernel's name, the block and the thread. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- kernels of a program ---- */

struct kernel {
  const char *name; /* NULL: the end of a list */
  void (*run)(void **arguments);
  unsigned most_threads; /* __launch_bounds__; 0: not said */
  unsigned cluster[3];   /* __cluster_dims__ */
};

/* ---- shared memory ---- */

/** The dynamic shared memory of the block. */
void *dynamic_shared();

/** A place in every block's static shared memory; called once for each variable. */
unsigned reserve_shared(unsigned bytes, unsigned alignment);
void *static_shared(unsigned place);

unsigned shared_address(const void *data);

/** The bytes at an address; fails where they are not the block's or not a multiple of `alignment` away from 0. */
byte *shared_bytes(unsigned address, unsigned bytes, unsigned alignment, const char *what);

/** The same for all blocks of the cluster. */
byte *cluster_bytes(unsigned address, unsigned bytes, unsigned alignment, const char *what);

/** Fails where `bytes` of the device's memory are not in one buffer, or not aligned. */
void check_global(const void *data, unsigned bytes, unsigned alignment, const char *what);

unsigned cluster_rank();

/* ---- threads that wait for each other ---- */

/** The barrier of that number, from 0: `threads` arrive, those that wait go on together. */
void barrier(unsigned number, unsigned threads, bool waits);

/** Barrier 0 of all threads of the block; whether any of them votes for it. */
bool barrier_any(bool vote);
void cluster_arrive();
void cluster_wait();

/** All lanes of `mask` meet; `what` is the same for all of them, or it is an error. */
void meet_lanes(unsigned mask, const char *what);

/** `value` becomes that of another lane of the warp. */
void take_from_lane(unsigned mask, void *value, unsigned bytes, int lane, const char *what);

/** Bit l: whether lane l says so; 0 for lanes that are not in the mask. */
unsigned ballot(unsigned mask, bool vote);

unsigned lane();

/** Now and then: other warps go on first. Where a thread has told others that they may. */
void pause();

/* ---- copies without registers (cp.async) ---- */

void copy_async(unsigned to, const void *from, unsigned bytes, unsigned taken);
void copies_commit();
void copies_wait(unsigned groups_left); /* ~0u: also for what is not committed */

/* ---- matrices ---- */

enum class format { f16, bf16, tf32, e4m3 };

/** Rows of 8 × 8 numbers of 16 bits; lane l gives the address of row l % 8 of matrix l / 8. */
void load_matrices(unsigned *const *to, unsigned count, unsigned address, bool transposed);
void store_matrices(unsigned address, const unsigned *from, unsigned count, bool transposed);

/** d = a · b + c, of 16 × depth by depth × 8; depth is 32 bytes of the format. */
void multiply(format type, float *const *d, const unsigned *a, const unsigned *b, const float *c);

/* ---- barriers in shared memory and the copy engine (sm_90) ---- */

void mbarrier_create(unsigned address, unsigned count);
void mbarriers_publish();
void mbarrier_arrive(unsigned address, unsigned expected_bytes);
bool mbarrier_try_wait(unsigned address, unsigned parity);

/** A box of a tensor of four dimensions, from element first[0 … 3] on, and back. */
void copy_box(unsigned to, const void *map, unsigned barrier, const int *first);
void store_box(const void *map, unsigned from, const int *first);
void stores_commit();
void stores_wait(unsigned groups_left);
void writes_publish();

/* ---- products of warpgroups (sm_90) ---- */

/** d += a · b (adds) or d = a · b, 64 × 16 by 16 × columns, a in registers or by its descriptor. */
void multiply_group(format type, unsigned columns, float *const *d, unsigned *const *a_words, word64 a, word64 b,
                    bool adds, bool across);
void products_fence();
void products_commit();
void products_wait(unsigned groups_left);
void registers_change(unsigned count);

/* ---- number formats ---- */

float from_half(unsigned short bits);
unsigned short to_half(float value);
unsigned short to_bfloat(float value);
float from_e4m3(byte bits);
byte to_e4m3(float value);
unsigned to_tf32(float value, bool ties_away);

} // namespace emulation
