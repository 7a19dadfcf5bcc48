/* Short rows that are no whole packs. CHUNK of them are, together: a block brings them to shared memory as they lie, a warp
 * takes a row from there, one column a thread at a time, keeps it as floats, and puts the result in its place; then the
 * block writes the chunk. Partial packs at the ends of rows, two of a few, would cost more: on an H200
 * (2026-11-21), tensors of 256 MiB, rows of 129 columns in bf16 reach 89 to 92% of a copy this way and 54 to 66% by row.cuh,
 * layer norms of 1023 90% and 69%. Chunks of half the size lose 7 to 10%.
 *
 * A program is compiled for one problem (rows.c): HR_COLUMNS, HR_THREADS = 32, HR_TEAMS of a block, HR_CHUNK, HR_LIE (1: the
 * tensors begin at multiples of 16 bytes, 2: anywhere), HR_CAUSAL. */
#include "runtime/cuda/kernels/over_row.cuh"

#define COLUMNS HR_COLUMNS
#define TEAMS HR_TEAMS
#define CHUNK HR_CHUNK
#define EACH ((COLUMNS + THREADS - 1) / THREADS)

/* What passes are over: one column. */
struct unit {
  float value;
  __device__ float at(int) const { return value; }
};
#define UNIT 1

struct team {
  element *row; /* in shared memory */
  bool there;   /* the last teams of a chunk may have no row; they come along, as warps reduce together */
  int seen;     /* columns that are read */
  unit kept[EACH][1];

  __device__ team(const task &t, element *shared, int64 number, bool is_there) : row(shared), there(is_there)
  {
    int64 masked = HR_CAUSAL ? t.period - 1 - number % t.period : 0;
    seen = masked < COLUMNS ? (int)(COLUMNS - masked) : 0;
#pragma unroll
    for (int i = 0; i < EACH; i++)
      kept[i][0].value = there && has(i) ? to_float(row[column(i)]) : 0;
  }

  __device__ int column(int i) const { return i * THREADS + (int)threadIdx.x; }

  /* Whether every thread has a column i: known when the program is compiled. */
  static constexpr __device__ bool surely(int i) { return (i + 1) * THREADS <= COLUMNS; }

  /* use(units, i) for the columns before `end`. */
  template <class USE> __device__ void each_unit(int end, USE use)
  {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      if ((surely(i) && !HR_CAUSAL) || column(i) < end)
        use(kept[i], i);
    }
  }

  /* use(0, value) for every column that is seen. */
  template <class USE> __device__ void each(USE use)
  {
    each_unit(seen, [&](const unit(&p)[1], int) { use(0, p[0].value); });
  }

  __device__ bool has(int i) const { return surely(i) || column(i) < COLUMNS; }
  __device__ unit shared_unit(const element *vector, int i) const { return {to_float(vector[column(i)])}; }

  __device__ void store(int i, int, const float (&values)[1])
  {
    bool hidden = HR_CAUSAL && column(i) >= seen; /* 0 also where the row is NaN */
    if (there)
      row[column(i)] = from_float(hidden ? 0.0f : values[0]);
  }
};

/* `count` elements to shared memory, and back, by all threads of the block. */
__device__ inline void bring_chunk(element *shared, const element *from, int count)
{
  int thread = (int)(threadIdx.y * THREADS + threadIdx.x), packs = HR_LIE == 1 ? count / WIDE : 0;
  for (int i = thread; i < packs; i += THREADS * TEAMS)
    copy_async((uint4 *)shared + i, from + i * WIDE);
  for (int i = packs * WIDE + thread; i < count; i += THREADS * TEAMS)
    shared[i] = from[i];
  wait_for_copies();
  __syncthreads();
}

__device__ inline void write_chunk(element *to, const element *shared, int count)
{
  int thread = (int)(threadIdx.y * THREADS + threadIdx.x), packs = HR_LIE == 1 ? count / WIDE : 0;
  __syncthreads();
  for (int i = thread; i < packs; i += THREADS * TEAMS)
    *((uint4 *)to + i) = ((const uint4 *)shared)[i];
  for (int i = packs * WIDE + thread; i < count; i += THREADS * TEAMS)
    to[i] = shared[i];
}

/* The kernel NAME of an operation RUN(team, task). */
#define ROW_ENTRY(NAME, RUN)                                                                       \
  extern "C" __global__ void __launch_bounds__(THREADS *TEAMS, HR_RESIDENT) NAME PARAMETERS  \
  {                                                                                                \
    extern __shared__ uint4 shared[];                                                              \
    task t = TASK;                                                                                 \
    int64 first = (int64)blockIdx.x * CHUNK;                                                       \
    int there = t.rows - first < CHUNK ? (int)(t.rows - first) : CHUNK;                            \
    element *chunk = (element *)shared;                                                            \
    bring_chunk(chunk, t.a + first * COLUMNS, there *COLUMNS);                                     \
    for (int i = (int)threadIdx.y; i - (int)threadIdx.y < there; i += TEAMS) {                    \
      team x(t, chunk + i * COLUMNS, first + i, i < there);                                       \
      RUN(x, t);                                                                                  \
    }                                                                                             \
    write_chunk(t.out + first * COLUMNS, chunk, there *COLUMNS);                                   \
  }
