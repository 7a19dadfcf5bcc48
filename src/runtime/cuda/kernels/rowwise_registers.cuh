/* SPDX-License-Identifier: Apache-2.0 */
/* Row-wise operations whose rows stay in registers and shared memory. A tensor is [rows, COLUMNS], packed; its address
 * needs no more alignment than an element.
 *
 *   pack: 16 bytes of the result at a multiple of 16, one store. Pack p of a row has the columns p · PACK_ELEMENTS −
 *   lead …, where
 *   lead is the number of elements between the cache line and the row's first element, so that a warp's access touches
 *   as few lines
 *   as possible. A pack at a row's end may contain elements of the next row, which passes mask; nothing outside of the
 *   tensor is
 *   read.
 *
 *   row group: the threads of a row: a part of a warp, a block, or a cluster of blocks; thread t has the packs t,
 *   t + GROUP_THREADS, …
 *
 *   ROWS: a row group processes as many rows at a time, with equal leads, so that weights are read once for all of
 *   them.
 *
 *   A row is read from memory once. A thread keeps its first REGISTER_PACKS packs of each row in registers, the next
 *   SHARED_PACKS
 *   in shared memory, and reads the others (STREAMED) again in each pass, from the L2 while they fit.
 *
 *   Every warp reduces its own packs (a maximum, a mean); these results are combined once, so that a row waits for one
 *   barrier
 *   between reading and writing.
 *
 * A program is compiled for one problem (rowwise.c): HR_COLUMNS, HR_THREADS of a row group in a block, HR_GROUPS per
 * block, HR_CLUSTER blocks per row group, HR_ROWS, HR_REGISTER_PACKS, HR_SHARED_PACKS, HR_ALIGNMENT (rowwise_layout.h),
 * HR_SHIFTED: weights were shifted to every offset within a pack before, and HR_CAUSAL of a softmax. So strides are
 * constants, and only packs that may be partial have the code for it.
 *
 * Bound on an H200 at 1.8 GHz in 16 bits: a copy of 4.18 TB/s moves 4.4 elements per clock and multiprocessor, 29
 * instructions each; one exponential takes 0.27 of its unit's time, and a softmax computes it twice (in fp8 these take
 * all of the unit). Softmax and norms of aligned rows up to 16384 elements reach 97 to 101% of a copy in bf16
 * (2026-11-22); docs/notes/rowwise.md has all lengths, and what was tried and lost. */
#include "runtime/cuda/kernels/rowwise_reduce.cuh"

#define COLUMNS HR_COLUMNS
#define GROUPS HR_GROUPS
#define GROUP_THREADS (THREADS * CLUSTER)
#define REGISTER_PACKS HR_REGISTER_PACKS
#define SHARED_PACKS HR_SHARED_PACKS
#define ROWS_ALIGNED (HR_ALIGNMENT == HR_ROWS_ALIGNED)
#define BASE_ALIGNED (HR_ALIGNMENT <= HR_BASE_ALIGNED)
#define SHIFTED_COLUMNS ((COLUMNS + PACK_ELEMENTS - 1 + PACK_ELEMENTS - 1) / PACK_ELEMENTS * PACK_ELEMENTS)
#define STEP ((column_index)GROUP_THREADS * PACK_ELEMENTS)
#define LINE (HR_ROWWISE_LINE_BYTES / (int)sizeof(element)) /* elements of a cache line */
#define SPACING HR_ROWWISE_SPACING(HR_ALIGNMENT, (int)sizeof(element))
#define STREAMED                                                                   \
  ((COLUMNS + (ROWS_ALIGNED ? 0 : LINE - 1) + PACK_ELEMENTS - 1) / PACK_ELEMENTS > \
   (int64)GROUP_THREADS * (REGISTER_PACKS + SHARED_PACKS))

#if HR_COLUMNS > 0x7F000000
typedef int64 column_index;
#else
typedef int column_index;
#endif

/* The unit of a pass. */
typedef pack unit;
#define UNIT PACK_ELEMENTS
#define KEEPS_FLOATS 0

static_assert(ROWS_ALIGNED || STEP >= LINE, "only a thread's first pack may begin before its row");

struct row_group {
  const element *from; /* the first row */
  element *to;
  int64 number;                  /* of the first row */
  int rows;                      /* of the row group, up to ROWS */
  column_index visible;          /* columns that are not masked */
  column_index readable_columns; /* columns from the last row's start to the tensor's end, or enough */
  int lead;
  column_index column0; /* of the thread's first pack */
  pack in_registers[REGISTER_PACKS > 0 ? REGISTER_PACKS : 1][ROWS];
  uint4 *in_shared; /* this thread's packs, THREADS apart */

  __device__ row_group(const task &t, uint4 *shared)
  {
    int64 group = (int64)(blockIdx.x / CLUSTER) * GROUPS + threadIdx.y;
    number = group / SPACING * (SPACING * ROWS) + group % SPACING;
    int64 there = number < t.rows ? (t.rows - number + SPACING - 1) / SPACING : 0;
    rows = there < ROWS ? (int)there : ROWS;
    from = t.a + number * COLUMNS;
    to = t.out + number * COLUMNS;
    int64 masked = HR_CAUSAL ? t.period - 1 - number % t.period : 0;
    visible = masked < COLUMNS ? (column_index)(COLUMNS - masked) : 0;
    int64 left = (t.rows - number - (rows - 1) * SPACING) * COLUMNS;
    readable_columns = left < COLUMNS + PACK_ELEMENTS ? (column_index)left : (column_index)COLUMNS + PACK_ELEMENTS;
    lead = ROWS_ALIGNED ? 0 : (int)((size_t)to % HR_ROWWISE_LINE_BYTES / sizeof(element));
    column0 = (column_index)(threadIdx.x + (CLUSTER > 1 ? cluster_rank() * THREADS : 0)) * PACK_ELEMENTS - lead;
    in_shared = shared + threadIdx.x;
    load_registers();
    load_shared();
  }

  __device__ column_index column(int i) const
  {
    return column0 + i * STEP;
  }

  /* Address of pack i of row j. */
  __device__ const element *source(int i, int j) const
  {
    return from + j * ((int64)SPACING * COLUMNS) + column(i);
  }

  /* Whether pack i of every thread is full, whatever the lead; known at compile time. */
  static constexpr __device__ bool always_full(int i)
  {
    return !HR_CAUSAL && (ROWS_ALIGNED || i > 0) && (i + 1) * STEP <= COLUMNS;
  }

  /* Whether the packs before and after it are within the row, too. */
  static constexpr __device__ bool always_interior(int i)
  {
    return always_full(i) && i * STEP >= LINE + PACK_ELEMENTS && (i + 1) * STEP + PACK_ELEMENTS <= COLUMNS;
  }

  __device__ bool full(int i) const
  {
    return always_full(i) || ((ROWS_ALIGNED || i > 0 || column(i) >= 0) && column(i) + PACK_ELEMENTS <= visible);
  }

  /* Whether all 16 bytes may be read. In front of a row they may, where the tensor begins at a multiple of 16. */
  __device__ bool readable(int i) const
  {
    return always_full(i) || ROWS_ALIGNED || column(i) + PACK_ELEMENTS <= readable_columns;
  }

  /* Whether pack i has columns before `end`. */
  __device__ bool has(int i, column_index end = COLUMNS) const
  {
    return always_full(i) || (column(i) < end && (ROWS_ALIGNED || i > 0 || column(i) > -PACK_ELEMENTS));
  }

  /* Whether pack i of row j exists. */
  __device__ bool there(int i, int j, column_index end) const
  {
    return (ROWS * GROUPS == 1 || j < rows) && has(i, end);
  }

  __device__ pack load(int i, int j) const
  {
    if (BASE_ALIGNED && readable(i))
      return load_aligned(source(i, j));
    if (!BASE_ALIGNED && always_interior(i))
      return load_interior(source(i, j));
    return load_unaligned(source(i, j) - column(i), column(i), visible);
  }

  __device__ void load_registers()
  {
#pragma unroll
    for (int i = 0; i < REGISTER_PACKS; i++) {
#pragma unroll
      for (int j = 0; j < ROWS; j++) {
        in_registers[i][j] = {0, 0, 0, 0};
        if (there(i, j, visible))
          in_registers[i][j] = load(i, j);
      }
    }
  }

  /* Copies by cp.async if packs have the alignment that it needs. */
  __device__ void load_shared()
  {
    if (SHARED_PACKS == 0)
      return;
#pragma unroll 2
    for (int i = REGISTER_PACKS; i < REGISTER_PACKS + SHARED_PACKS; i++) {
#pragma unroll
      for (int j = 0; j < ROWS; j++) {
        uint4 *to = in_shared + ((i - REGISTER_PACKS) * ROWS + j) * THREADS;
        if (BASE_ALIGNED && readable(i) && there(i, j, visible))
          cp_async_16(to, source(i, j));
        else if (there(i, j, visible))
          *to = load(i, j).words();
      }
    }
  }

  /* Calls use(packs of all rows, i) for the packs that begin before column `end`. */
  template <class USE> __device__ void for_each_unit(column_index end, USE use)
  {
#pragma unroll
    for (int i = 0; i < REGISTER_PACKS; i++) {
#pragma unroll
      for (int j = 0; j < ROWS; j++)
        in_registers[i][j].pin();
      if (has(i, end))
        use(in_registers[i], i);
    }
    pack p[ROWS];
    if (SHARED_PACKS > 0)
      cp_async_wait_all();
#pragma unroll 2
    for (int i = REGISTER_PACKS; i < REGISTER_PACKS + SHARED_PACKS; i++) {
#pragma unroll
      for (int j = 0; j < ROWS; j++)
        p[j] = pack(in_shared[((i - REGISTER_PACKS) * ROWS + j) * THREADS]);
      if (has(i, end))
        use(p, i);
    }
    if (STREAMED) {
#pragma unroll 4
      for (int i = REGISTER_PACKS + SHARED_PACKS; column(i) < end; i++) {
#pragma unroll
        for (int j = 0; j < ROWS; j++)
          p[j] = there(i, j, visible) ? load(i, j) : pack();
        use(p, i);
      }
    }
  }

  /* Calls use(j, value) for every visible column of row j. */
  template <class USE> __device__ void for_each(USE use)
  {
    for_each_unit(visible, [&](const pack(&p)[ROWS], int i) {
#pragma unroll
      for (int j = 0; j < ROWS; j++) {
        if (full(i)) {
#pragma unroll
          for (int k = 0; k < PACK_ELEMENTS; k++)
            use_value(use, j, p[j].at(k));
        } else {
#pragma unroll
          for (int k = 0; k < PACK_ELEMENTS; k++) {
            if (column(i) + k >= 0 && column(i) + k < visible)
              use_value(use, j, p[j].at(k));
          }
        }
      }
    });
  }

  template <class USE> static __device__ void use_value(USE &use, int j, float value)
  {
    use(j, value);
  }

  /* The maximum of the thread's visible values of each row, two 16-bit elements at a time. */
  __device__ void largest(float (&most)[ROWS])
  {
    unsigned words[ROWS][4];
#pragma unroll
    for (int w = 0; w < ROWS * 4; w++)
      words[w / 4][w % 4] = LOWEST_WORD;
    for_each_unit(visible, [&](const pack(&p)[ROWS], int i) {
#pragma unroll
      for (int j = 0; j < ROWS; j++) {
        if (full(i)) {
#pragma unroll
          for (int w = 0; w < 4; w++)
            words[j][w] = larger_words(words[j][w], p[j].word[w]);
        } else {
#pragma unroll
          for (int k = 0; k < PACK_ELEMENTS; k++) {
            if (column(i) + k >= 0 && column(i) + k < visible)
              most[j] = fmaxf(most[j], p[j].at(k));
          }
        }
      }
    });
#pragma unroll
    for (int w = 0; w < ROWS * 4; w++)
      most[w / 4] = fmaxf(most[w / 4], largest_in(words[w / 4][w % 4]));
  }

  /* Any of the thread's values of row j. */
  __device__ float any_value(int j) const
  {
    return always_full(0) || column0 + PACK_ELEMENTS <= COLUMNS ? in_registers[0][j].at(PACK_ELEMENTS - 1)
           : column0 < COLUMNS                                  ? in_registers[0][j].at(0)
                                                                : 0.0f;
  }

  /* The columns of pack i of a weight vector, which may have been shifted to every lead before. */
  __device__ unit weight_unit(const element *vector, int i) const
  {
    if (ROWS_ALIGNED)
      return load_aligned(vector + column(i));
    if (HR_SHIFTED)
      return load_aligned(vector + (int64)(lead % PACK_ELEMENTS) * SHIFTED_COLUMNS + column(i) + lead % PACK_ELEMENTS);
    return always_interior(i) ? load_interior(vector + column(i))
                              : load_unaligned(vector, column(i), (column_index)COLUMNS);
  }

  /* Stores pack i of row j of the result. */
  __device__ void store(int i, int j, float (&values)[UNIT])
  {
    if (!(ROWS * GROUPS == 1 || j < rows))
      return;
#pragma unroll
    for (int k = 0; k < PACK_ELEMENTS && HR_CAUSAL; k++) /* 0 even if the row is NaN */
      values[k] = column(i) + k < visible ? values[k] : 0.0f;
    element *row = to + j * ((int64)SPACING * COLUMNS);
    if (always_full(i))
      store_aligned(row + column(i), values);
    else
      store_pack(row, column(i), (column_index)COLUMNS, values);
  }
};

#if HR_CLUSTER > 1
#define IN_CLUSTERS __cluster_dims__(CLUSTER, 1, 1)
#else
#define IN_CLUSTERS
#endif

/* Defines the kernel NAME of an operation RUN(row_group, task). */
#define ROWWISE_KERNEL(NAME, RUN)                                                          \
  extern "C" __global__ void IN_CLUSTERS __launch_bounds__(THREADS *GROUPS, HR_MIN_BLOCKS) \
  NAME PARAMETERS                                                                          \
  {                                                                                        \
    extern __shared__ uint4 shared[];                                                      \
    task t = TASK;                                                                         \
    follow_kernel_before();                                                                \
    if (CLUSTER > 1)                                                                       \
      cluster_arrive();                                                                    \
    row_group x(t, shared);                                                                \
    RUN(x, t);                                                                             \
  }
