/* SPDX-License-Identifier: Apache-2.0 */
/* Short rows that are not whole packs, staged through shared memory: a block loads STAGED_ROWS rows, which are whole
 * packs together, as they are in memory; THREADS of a warp take a row from there word by word, keep it as floats and
 * write the result in its place; then the block stores the rows. With partial packs at both ends rowwise_registers.cuh
 * would reach 54 to 70% of a copy.
 *
 * A word has PER_WORD elements. The first and the last word of a row may contain elements of neighbouring rows, which
 * other threads change; those are accessed by element. The rows of a warp are APART rows from each other, so that they
 * fall into different banks.
 *
 * A program is compiled for one problem (rowwise.c): HR_COLUMNS, HR_THREADS of a row (1 to 32), HR_GROUPS per block,
 * HR_STAGED_ROWS, HR_ALIGNMENT (rowwise_layout.h; HR_BASE_ALIGNED or HR_UNALIGNED), HR_CAUSAL. */
#include "runtime/cuda/kernels/rowwise_reduce.cuh"

#define COLUMNS HR_COLUMNS
#define GROUPS HR_GROUPS
#define STAGED_ROWS HR_STAGED_ROWS
#define SPLIT (COLUMNS % PER_WORD != 0) /* whether rows share words */
#define WORDS ((COLUMNS + SPLIT * (PER_WORD - 1) + PER_WORD - 1) / PER_WORD)
#define EACH ((WORDS + THREADS - 1) / THREADS)
#define ROWS_OF_WARP (32 / THREADS)
#define APART_WANTED (PER_WORD * THREADS / (COLUMNS & -COLUMNS))
#define APART \
  (APART_WANTED < 1 ? 1 : APART_WANTED < STAGED_ROWS / ROWS_OF_WARP ? APART_WANTED : STAGED_ROWS / ROWS_OF_WARP)

/* The unit of a pass: a word. */
struct unit {
  float value[PER_WORD];
  __device__ float at(int k) const
  {
    return value[k];
  }
};
#define UNIT PER_WORD
#define KEEPS_FLOATS 1
#ifndef STORES_ROWS
#define STORES_ROWS 1 /* 0: the operation has a result of its own */
#endif

struct row_group {
  int64 number;
  element *words; /* the row's first word in shared memory */
  bool there;     /* false: the last block has no such row; the threads still take part in warp reductions */
  int lead;       /* elements of that word before the row */
  int visible;    /* columns that are not masked */
  unit in_registers[EACH];

  __device__ row_group(const task &t, element *chunk, int row, int64 number_of_row, bool is_there)
  {
    number = number_of_row;
    lead = SPLIT ? row * COLUMNS % PER_WORD : 0;
    words = chunk + row * COLUMNS - lead;
    there = is_there;
    int64 masked = HR_CAUSAL ? t.period - 1 - number % t.period : 0;
    visible = masked < COLUMNS ? (int)(COLUMNS - masked) : 0;
#pragma unroll
    for (int i = 0; i < EACH; i++)
      load(i);
  }

  __device__ int word(int i) const
  {
    return i * THREADS + (int)threadIdx.x;
  }
  __device__ int column(int i) const
  {
    return word(i) * PER_WORD - lead;
  }

  /* Whether word i of every thread belongs to this row only; known at compile time. */
  static constexpr __device__ bool always_full(int i)
  {
    return (i > 0 || !SPLIT) && (i + 1) * THREADS * PER_WORD <= COLUMNS;
  }

  __device__ bool has_column(int i, int k) const
  {
    return always_full(i) || (column(i) + k >= 0 && column(i) + k < COLUMNS);
  }

  __device__ void load(int i)
  {
    if (always_full(i)) {
      unsigned bits = ((const unsigned *)words)[word(i)];
#pragma unroll
      for (int k = 0; k < PER_WORD; k++)
        in_registers[i].value[k] = value_in(bits, k);
      return;
    }
#pragma unroll
    for (int k = 0; k < PER_WORD; k++)
      in_registers[i].value[k] = has_column(i, k) ? to_float(words[word(i) * PER_WORD + k]) : 0.0f;
  }

  /* Calls use(unit, i) for the words of the row. */
  template <class USE> __device__ void for_each_unit(int, USE use)
  {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      if (always_full(i) || column(i) < COLUMNS)
        use((const unit(&)[1])in_registers[i], i);
    }
  }

  /* Calls use(0, value) for every visible column; it may change the value. */
  template <class USE> __device__ void for_each(USE use)
  {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
#pragma unroll
      for (int k = 0; k < PER_WORD; k++) {
        if ((always_full(i) && !HR_CAUSAL) || (column(i) + k >= 0 && column(i) + k < visible))
          use(0, in_registers[i].value[k]);
      }
    }
  }

  __device__ void largest(float (&most)[1])
  {
    for_each([&](int, float value) { most[0] = fmaxf(most[0], value); });
  }

  /* Any of the thread's values. */
  __device__ float any_value(int) const
  {
    return has_column(0, PER_WORD - 1) ? in_registers[0].at(PER_WORD - 1) : in_registers[0].at(0);
  }

  __device__ bool has(int) const
  {
    return true;
  }

  __device__ unit weight_unit(const element *vector, int i) const
  {
    unit u;
#pragma unroll
    for (int k = 0; k < PER_WORD; k++)
      u.value[k] = has_column(i, k) ? to_float(vector[column(i) + k]) : 0.0f;
    return u;
  }

  __device__ void store(int i, int, float (&values)[UNIT])
  {
    if (!there)
      return;
#pragma unroll
    for (int k = 0; k < PER_WORD && HR_CAUSAL; k++) /* 0 even if the row is NaN */
      values[k] = column(i) + k < visible ? values[k] : 0.0f;
    if (always_full(i)) {
      ((unsigned *)words)[word(i)] = word_of(values);
      return;
    }
#pragma unroll
    for (int k = 0; k < PER_WORD; k++) {
      if (has_column(i, k))
        words[word(i) * PER_WORD + k] = from_float(values[k]);
    }
  }
};

/* Copies `count` elements to shared memory, and back, by all threads of the block. */
__device__ inline void load_staged_rows(element *shared, const element *from, int count)
{
  int thread = (int)(threadIdx.y * THREADS + threadIdx.x),
      packs = HR_ALIGNMENT == HR_BASE_ALIGNED ? count / PACK_ELEMENTS : 0;
  for (int i = thread; i < packs; i += THREADS * GROUPS)
    cp_async_16((uint4 *)shared + i, from + i * PACK_ELEMENTS);
  for (int i = packs * PACK_ELEMENTS + thread; i < count; i += THREADS * GROUPS)
    shared[i] = from[i];
  cp_async_wait_all();
  __syncthreads();
}

__device__ inline void store_staged_rows(element *to, const element *shared, int count)
{
  int thread = (int)(threadIdx.y * THREADS + threadIdx.x),
      packs = HR_ALIGNMENT == HR_BASE_ALIGNED ? count / PACK_ELEMENTS : 0;
  __syncthreads();
  for (int i = thread; i < packs; i += THREADS * GROUPS)
    *((uint4 *)to + i) = ((const uint4 *)shared)[i];
  for (int i = packs * PACK_ELEMENTS + thread; i < count; i += THREADS * GROUPS)
    to[i] = shared[i];
}

/* Defines the kernel NAME of an operation RUN(row_group, task). */
#define ROWWISE_KERNEL(NAME, RUN)                                                                               \
  extern "C" __global__ void __launch_bounds__(THREADS *GROUPS, HR_MIN_BLOCKS) NAME PARAMETERS                  \
  {                                                                                                             \
    extern __shared__ uint4 shared[];                                                                           \
    task t = TASK;                                                                                              \
    follow_kernel_before();                                                                                     \
    int64 first = (int64)blockIdx.x * STAGED_ROWS;                                                              \
    int there = t.rows - first < STAGED_ROWS ? (int)(t.rows - first) : STAGED_ROWS;                             \
    element *chunk = (element *)shared;                                                                         \
    load_staged_rows(chunk, t.a + first * COLUMNS, there * COLUMNS);                                            \
    int among = (int)threadIdx.y % ROWS_OF_WARP * APART;                                                        \
    for (int i = (int)threadIdx.y / ROWS_OF_WARP; i < STAGED_ROWS / ROWS_OF_WARP; i += GROUPS / ROWS_OF_WARP) { \
      int row = i / APART * APART * ROWS_OF_WARP + i % APART + among;                                           \
      row_group x(t, chunk, row, first + row, row < there);                                                     \
      RUN(x, t);                                                                                                \
    }                                                                                                           \
    if (STORES_ROWS)                                                                                            \
      store_staged_rows(t.out + first * COLUMNS, chunk, there * COLUMNS);                                       \
  }
