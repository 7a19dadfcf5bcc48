/* Rows in registers: what the operations on rows share. A tensor is [rows, columns], packed; its address needs no more
 * alignment than an element has.
 *
 *   pack:    16 bytes of the result at a multiple of 16 (8 of fp8), what one store writes. Pack p of a row has the columns
 *            p · WIDE − lead …, lead being the elements between such a multiple and the row's first
 *   load:    the same 16 bytes of an input; where its elements lie elsewhere among multiples of 16, two loads and a shift.
 *            Elements of the neighbouring rows come along and are masked; nothing outside the tensor is read
 *   team:    the threads of a row: a part of a warp, a block, or a cluster of 8 blocks; thread t owns the packs t, t + team, …
 *   each():  calls a function for every pack of the thread, of a row that is kept in registers as it was loaded, and of one
 *            that is too long for that (read again each time, from the L2 where that holds it)
 *   over_row(): a sum or maximum over the team: shuffles, then one word a warp through shared memory
 *
 * Ceilings on an H200 at 1.8 GHz in 16 bits: a copy of 4.18 TB/s moves 4.4 elements a clock and multiprocessor, which may
 * take 29 instructions each; one exponential is 0.27 of its unit's time, and a softmax computes it twice.
 * Measured there (driver 580.159, 2026-11-21, share of a copy, bf16, rows of 1024 to 32768): softmax 91 to 97%, RMS norm
 * 96 to 98%, layer norm 76 to 86%; clusters 67 to 78%, 57 to 62% in the layer norm. docs/gpu.md has the table.
 * Tried and lost: rows as floats, half as many a multiprocessor (softmax 73%, layer norm 75% at 4096); addresses worked out
 * anew for every pack (88% and 70%); loads that do not stay in the L1 (−3 to −20% where weights share it); clusters of 128
 * threads a block where one block holds the row (−20%); 4 packs a thread (+6% at 1024, −30% at 32768); blocks that stay and
 * fetch the next row into shared memory meanwhile, by copies of 16 bytes (−15 to −25%) or by the copy engine, with weights
 * kept in shared memory (softmax 85% at 32768 with a block a row; at 50304 72% in clusters of 2, 64% of 4 and 60% of 8, the
 * layer norm 50%, spilling): rows then wait for their own barriers. Sums and squares of a layer norm merged over the warps,
 * with one barrier instead
 * of two: −26% at 128, +4% at 5120, no more elsewhere. The same for maximum and sum of a softmax: +2 to +4% in clusters,
 * nothing else. Clusters of 4: +3% at 50257, and too small for fp32. */
#include "runtime/cuda/kernels/number.cuh"

#define WIDE (4 * PER_WORD)
#define PACK_BYTES (WIDE * (int)sizeof(element))
#define RAW (PACK_BYTES / 4)
#define CLUSTER 8
#define LOG2_E 1.4426950408889634f

typedef long long int64;

struct task {
  const element *a, *b, *c;
  element *out;
  int64 rows, columns, period, group;
};

__device__ inline float minus_infinity() { return __uint_as_float(0xFF800000u); }

/* 2^x; results below 2^-126 are 0. */
__device__ inline float power_of_2(float x)
{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/* ---- packs ---- */

struct kept {
  unsigned word[4];
  __device__ float at(int i) const { return value_in(word[i / PER_WORD], i % PER_WORD); }
};

__device__ inline int offset_of(const element *at)
{
  return (int)((size_t)at % PACK_BYTES) / (int)sizeof(element);
}

__device__ inline void load_raw(const element *at, unsigned *raw)
{
  if (RAW == 4) {
    uint4 v = *(const uint4 *)at;
    raw[0] = v.x;
    raw[1] = v.y;
    raw[RAW - 2] = v.z;
    raw[RAW - 1] = v.w;
  } else {
    uint2 v = *(const uint2 *)at;
    raw[0] = v.x;
    raw[1] = v.y;
  }
}

/* The words of two packs, without the first `bytes`. */
__device__ inline void shift_raw(unsigned *raw, int bytes)
{
#pragma unroll
  for (int step = RAW / 2; step > 0; step /= 2) {
#pragma unroll
    for (int i = 0; i < RAW + step; i++)
      raw[i] = bytes / 4 & step ? raw[i + step] : raw[i];
  }
#pragma unroll
  for (int i = 0; i < RAW; i++)
    raw[i] = __funnelshift_r(raw[i], raw[i + 1], 8 * (bytes % 4));
}

__device__ inline kept keep(const unsigned *raw)
{
  kept k;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if (RAW == 4) {
      k.word[i] = raw[i % RAW];
    } else {
      unsigned two = raw[i / 2] >> (16 * (i % 2));
      float values[2] = {to_float((element)(two & 0xFF)), to_float((element)(two >> 8 & 0xFF))};
      k.word[i] = word_of(values);
    }
  }
  return k;
}

/* The pack at `at`, of which the elements from ≤ … < to may be read, from wherever; what else is in it is anything. */
template <class INDEX> __device__ inline kept load_any(const element *at, INDEX from, INDEX to)
{
  int off = offset_of(at);
  unsigned raw[2 * RAW] = {0};
  if (off <= -from && 2 * WIDE - off <= to) {
    load_raw(at - off, raw);
    load_raw(at - off + WIDE, raw + RAW);
    shift_raw(raw, off * (int)sizeof(element));
  } else {
#pragma unroll
    for (int j = 0; j < WIDE; j++) {
      int byte = j * (int)sizeof(element);
      if (j >= from && j < to)
        raw[byte / 4] |= bits_of(at[j]) << (8 * (byte % 4));
    }
  }
  return keep(raw);
}

/* The same where it is rare: not inlined, as it is long. */
template <class INDEX> __device__ __noinline__ uint4 load_rarely(const element *at, INDEX from, INDEX to)
{
  kept k = load_any<INDEX>(at, from, to);
  return make_uint4(k.word[0], k.word[1], k.word[2], k.word[3]);
}

/* One at a multiple of PACK_BYTES. */
__device__ inline kept load_aligned(const element *at)
{
  unsigned raw[RAW];
  load_raw(at, raw);
  return keep(raw);
}

/* row[column …], of which the elements first ≤ … < last may be read. */
template <class INDEX> __device__ inline kept load_pack(const element *row, INDEX column, INDEX first, INDEX last)
{
  const element *at = row + column;
  if (offset_of(at) == 0 && column >= first && column + WIDE <= last)
    return load_aligned(at);
  uint4 v = load_rarely<INDEX>(at, first - column, last - column);
  return {v.x, v.y, v.z, v.w};
}

/* The same of a vector of `columns` that all rows share; off: offset_of() all its packs. */
template <class INDEX> __device__ inline kept load_shared(const element *vector, INDEX column, INDEX columns, int off)
{
  const element *at = vector + column;
  INDEX begin = column - off;
  if (begin >= 0 && begin + (off > 0 ? 2 * WIDE : WIDE) <= columns) {
    unsigned raw[2 * RAW];
    load_raw(at - off, raw);
    if (off > 0) {
      load_raw(at - off + WIDE, raw + RAW);
      shift_raw(raw, off * (int)sizeof(element));
    }
    return keep(raw);
  }
  uint4 v = load_rarely<INDEX>(at, -column, columns - column);
  return {v.x, v.y, v.z, v.w};
}

/* Elements outside of first ≤ column < last become what is in `otherwise`. */
template <class INDEX> __device__ inline void mask_pack(kept &k, INDEX column, INDEX last, unsigned otherwise)
{
  if (column >= 0 && column + WIDE <= last)
    return;
#pragma unroll
  for (int j = 0; j < WIDE; j++) {
    unsigned part = PER_WORD == 1 ? 0xFFFFFFFFu : 0xFFFFu << (16 * (j % PER_WORD));
    if (column + j < 0 || column + j >= last)
      k.word[j / PER_WORD] = (k.word[j / PER_WORD] & ~part) | (otherwise & part);
  }
}

/* row[column …] = v, as far as that is in 0 ≤ … < columns; row + column is a multiple of 16 bytes. */
template <class INDEX>
__device__ inline void store_pack(element *row, INDEX column, INDEX columns, const float (&v)[WIDE])
{
  element *at = row + column;
  if (column < 0 || column + WIDE > columns) {
#pragma unroll
    for (int j = 0; j < WIDE; j++) {
      if (column + j >= 0 && column + j < columns)
        at[j] = from_float(v[j]);
    }
    return;
  }
  unsigned word[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if (RAW == 4)
      word[i] = word_of(v + i * PER_WORD);
    else
      word[i] = bits_of(from_float(v[2 * i])) | bits_of(from_float(v[2 * i + 1])) << 8;
  }
  if (RAW == 4)
    *(uint4 *)at = make_uint4(word[0], word[1], word[2], word[3]);
  else
    *(uint2 *)at = make_uint2(word[0] | word[1] << 16, word[2] | word[3] << 16);
}

/* ---- rows ---- */

__device__ inline int cluster_rank()
{
  unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return (int)rank;
}

template <class INDEX> struct row {
  typedef INDEX index;
  const element *from;
  element *to;
  INDEX columns, seen, first, last; /* read are seen of the columns; first and last: where the tensor ends, or beyond */
  int lead, thread, team;

  /* Teams of `blocks` blocks; a row of no columns where there are no more. */
  __device__ row(const task &t, int blocks)
  {
    int64 number = (int64)(blockIdx.x / blocks) * blockDim.y + threadIdx.y;
    bool there = number < t.rows;
    from = t.a + number * t.columns;
    to = t.out + number * t.columns;
    columns = there ? (INDEX)t.columns : 0;
    int64 masked = t.period > 0 ? t.period - 1 - number % t.period : 0;
    seen = columns > masked ? columns - (INDEX)masked : 0;
    int64 before = number * t.columns, after = (t.rows - number) * t.columns;
    first = before < 2 * WIDE ? -(INDEX)before : -2 * WIDE;
    last = after < t.columns + 2 * WIDE ? (INDEX)after : (INDEX)t.columns + 2 * WIDE;
    lead = offset_of(to);
    thread = (int)threadIdx.x + (blocks > 1 ? cluster_rank() * (int)blockDim.x : 0);
    team = (int)blockDim.x * blocks;
  }

  __device__ INDEX column_of(int i) const { return ((INDEX)thread + (INDEX)i * team) * WIDE - lead; }

  __device__ kept load(INDEX column, unsigned otherwise) const
  {
    kept k = load_pack<INDEX>(from, column, first, last);
    mask_pack(k, column, seen, otherwise);
    return k;
  }
};

/* A row of at most PACKS packs a thread. */
template <int PACKS> struct row_in_registers : row<int> {
  kept pack[PACKS];
  int column0, step;

  __device__ row_in_registers(const task &t, int blocks, unsigned otherwise) : row<int>(t, blocks)
  {
    column0 = column_of(0);
    step = team * WIDE;
#pragma unroll
    for (int i = 0; i < PACKS; i++)
      pack[i] = {otherwise, otherwise, otherwise, otherwise};
    /* Whole rows: as the result lies, and not at the tensor's ends. */
    if (offset_of(from) == lead && first <= -lead && last >= columns + WIDE - 1 - (lead + columns - 1) % WIDE) {
      const element *at = from + column0;
#pragma unroll
      for (int i = 0; i < PACKS; i++) {
        if (column0 + i * step < seen)
          pack[i] = load_aligned(at + i * step);
      }
    } else {
#pragma unroll
      for (int i = 0; i < PACKS; i++) {
        if (column0 + i * step < seen)
          pack[i] = load_pack<int>(from, column0 + i * step, first, last);
      }
    }
#pragma unroll
    for (int i = 0; i < PACKS; i++)
      mask_pack(pack[i], column0 + i * step, seen, otherwise);
  }

  /* use(pack, column) for the packs that begin before column `end`. */
  template <class USE> __device__ void each(int end, USE use)
  {
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      /* As if it were changed: or the compiler keeps every value of a pass as a float for the next, and spills. */
      asm volatile("" : "+r"(pack[i].word[0]), "+r"(pack[i].word[1]), "+r"(pack[i].word[2]), "+r"(pack[i].word[3]));
      if (column0 + i * step < end)
        use(pack[i], column0 + i * step);
    }
  }
};

/* A row of any length. */
struct row_in_memory : row<int64> {
  unsigned otherwise;

  __device__ row_in_memory(const task &t, unsigned masked) : row<int64>(t, 1), otherwise(masked) {}

  template <class USE> __device__ void each(int64 end, USE use)
  {
    for (int64 column = column_of(0); column < end; column += (int64)team * WIDE)
      use(load(column, otherwise), column);
  }
};

/* ---- over a team ---- */

struct add {
  static __device__ float none() { return 0; }
  __device__ float operator()(float x, float y) const { return x + y; }
};

struct larger {
  static __device__ float none() { return minus_infinity(); }
  __device__ float operator()(float x, float y) const { return fmaxf(x, y); }
};

__device__ inline void cluster_arrive()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

__device__ inline void cluster_wait()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* *shared = value in block `rank` of the cluster. */
__device__ inline void store_in_block(float *shared, int rank, float value)
{
#if __CUDA_ARCH__ >= 900
  unsigned here = (unsigned)__cvta_generic_to_shared(shared), there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
#endif
}

/* The same value in all threads of a team; all of a block come here. Calls differ in TURN, so that none waits for the
 * readers of the last. A cluster has arrived once before the first and waits then, as its blocks must have begun. */
template <int BLOCKS, int TURN, class OPERATION> __device__ float over_row(float value, OPERATION combine)
{
  __shared__ float partial[BLOCKS * 32];
  int warps = (int)blockDim.x / 32, warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  for (int distance = (blockDim.x < 32 ? blockDim.x : 32) / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
  if (BLOCKS == 1 && blockDim.x <= 32)
    return value;
  if (BLOCKS > 1) {
    if (TURN == 0)
      cluster_wait();
    if (lane < BLOCKS)
      store_in_block(partial + cluster_rank() * warps + warp, lane, value);
    cluster_arrive();
    cluster_wait();
  } else {
    if (lane == 0)
      partial[warp] = value;
    __syncthreads();
  }
  value = OPERATION::none();
  for (int i = lane; i < BLOCKS * warps; i += 32)
    value = combine(value, partial[i]);
  for (int distance = 16; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
  return value;
}

/* ---- entry points ---- */

#define PARAMETERS                                                                                                \
  (const element *a, const element *b, const element *c, element *out, int64 rows, int64 columns, int64 period, \
   int64 group)
#define TASK {a, b, c, out, rows, columns, period, group}

#if __CUDA_ARCH__ >= 900
#define IN_CLUSTERS __cluster_dims__(CLUSTER, 1, 1)
#else
#define IN_CLUSTERS
#endif

/* Of an operation RUN<BLOCKS>(row, task). Short rows: 2 packs a thread, 2048 threads on a multiprocessor; long ones 8 packs,
 * 1024 threads: 32 and 128 KB of loads on their way. */
#define ROW_ENTRIES(name, RUN, otherwise)                                             \
  extern "C" __global__ void __launch_bounds__(128, 16) name##_short PARAMETERS       \
  {                                                                                   \
    task t = TASK;                                                                    \
    row_in_registers<2> x(t, 1, otherwise);                                           \
    RUN<1>(x, t);                                                                     \
  }                                                                                   \
  extern "C" __global__ void __launch_bounds__(512, 2) name##_block PARAMETERS        \
  {                                                                                   \
    task t = TASK;                                                                    \
    row_in_registers<8> x(t, 1, otherwise);                                           \
    RUN<1>(x, t);                                                                     \
  }                                                                                   \
  extern "C" __global__ void IN_CLUSTERS __launch_bounds__(512, 2) name##_cluster PARAMETERS \
  {                                                                                   \
    task t = TASK;                                                                    \
    cluster_arrive();                                                                 \
    row_in_registers<8> x(t, CLUSTER, otherwise);                                     \
    RUN<CLUSTER>(x, t);                                                               \
  }                                                                                   \
  extern "C" __global__ void __launch_bounds__(1024, 1) name##_stream PARAMETERS      \
  {                                                                                   \
    task t = TASK;                                                                    \
    row_in_memory x(t, otherwise);                                                    \
    RUN<1>(x, t);                                                                     \
  }
