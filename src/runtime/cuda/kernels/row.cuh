/* Rows on their way from memory to memory: what the operations on rows share. A tensor is [rows, COLUMNS], packed; its
 * address needs no more alignment than an element has.
 *
 *   pack:  16 bytes of the result at a multiple of 16, what one store writes. Pack p of a row has the columns p · WIDE − lead
 *          …, lead being the elements between a line of the caches and the row's first: so that what a warp moves at once
 *          touches as few lines as may be. A pack at a row's end may hold elements of the next row, which passes leave out;
 *          nothing outside of the tensor is read
 *   team:  the threads of a row: a part of a warp, a block, or a cluster of blocks; thread t owns the packs t, t + TEAM, …
 *   ROWS:  a team has as many rows at a time, with equal leads, so that what all rows share (weights) is read once for them
 *   tiers: a row is read from memory once. A thread keeps its first KEPT packs of each row in registers, the next HELD in
 *          shared memory, and reads what is beyond (REST) again for each pass, from the L2 while that holds it
 *   parts: every warp finds what it can of its own packs (a largest value, a mean); these are put together once, so that a
 *          row waits for one barrier between reading and writing
 *
 * A program is compiled for one problem (rows.c): HR_COLUMNS, HR_THREADS of a team's block, HR_TEAMS of a block, HR_BLOCKS of a
 * team, HR_ROWS, HR_KEPT, HR_HELD, HR_LIE: how rows lie (0: all packs of all tensors are whole and at multiples of 16 bytes,
 * 1: x and the result begin at multiples of 16, 2: anyhow), HR_SHIFTED: whether weights were shifted to every offset within a
 * pack before, and HR_CAUSAL of a softmax. So strides are constants and only packs that may be partial have the code for it.
 *
 * Ceilings on an H200 at 1.8 GHz in 16 bits: a copy of 4.18 TB/s moves 4.4 elements a clock and multiprocessor, which may
 * take 29 instructions each; one exponential is 0.27 of its unit's time, and a softmax computes it twice (in fp8 that is all
 * the exponentials that there are). What is reached is in docs/rowwise.md, made by bench/rowwise_rates.
 * Tried and lost there (driver 580.159, 2026-11-21 and 22, shares of a copy): one program for all lengths, whose thread counts
 * fit few of them and whose masks spill (layer norm 76 to 86%, rows of 4099 51 to 78%, of 50257 49 to 73%); rows as floats
 * (softmax 73% at 4096); loads that do not stay in the L1 (−3 to −20% where weights share it); 4 packs a thread and 1024
 * threads for 32768 (−10%); all of a row in shared memory (32 registers, 2048 threads: −2 to −7%); 3 blocks of 384 threads
 * instead of 2 of 512 (−1 to −9%); a cluster where one block holds the row (−2 to −14%), 4 rows at a time (−4 to −10%); two
 * barriers a row (−2 to −12%); a pass for the mean and one for the squares (spills); weights shifted where they are used (odd layer
 * norms −8 to −22%); blocks that have rows one after another, with weights in shared memory and the next row on its way there
 * (−4 to −25%). */
#include "runtime/cuda/kernels/over_row.cuh"

#define COLUMNS HR_COLUMNS
#define TEAMS HR_TEAMS
#define TEAM (THREADS * BLOCKS)
#define KEPT HR_KEPT
#define HELD HR_HELD
#define WHOLE (HR_LIE == 0)
#define ALIKE (HR_LIE <= 1)
#define SHIFTED_COLUMNS ((COLUMNS + WIDE - 1 + WIDE - 1) / WIDE * WIDE)
#define STEP ((column_index)TEAM * WIDE)
#define LINE_BYTES 128
#define LINE (LINE_BYTES / (int)sizeof(element)) /* elements of a line of the caches, where a warp's packs begin */
#define SPACING (WHOLE ? 1 : LINE)               /* of the rows that a team has at a time: so that they have the same lead */
#define REST ((COLUMNS + (WHOLE ? 0 : LINE - 1) + WIDE - 1) / WIDE > (int64)TEAM * (KEPT + HELD))

#if HR_COLUMNS > 0x7F000000
typedef int64 column_index;
#else
typedef int column_index;
#endif

/* What passes are over. */
typedef pack unit;
#define UNIT WIDE
#define KEEPS_FLOATS 0

static_assert(WHOLE || STEP >= LINE, "only a thread's first pack may begin before its row");

struct team {
  const element *from; /* the first row */
  element *to;
  int rows;            /* that there are for the team, up to ROWS */
  column_index seen;   /* columns that are read */
  column_index room;   /* columns from the last of the rows on to the tensor's end, or enough */
  int lead;
  column_index column0; /* of the thread's first pack */
  pack kept[KEPT > 0 ? KEPT : 1][ROWS];
  uint4 *held; /* the thread's, THREADS apart */

  __device__ team(const task &t, uint4 *shared)
  {
    int64 group = (int64)(blockIdx.x / BLOCKS) * TEAMS + threadIdx.y;
    int64 number = group / SPACING * (SPACING * ROWS) + group % SPACING;
    int64 there = number < t.rows ? (t.rows - number + SPACING - 1) / SPACING : 0;
    rows = there < ROWS ? (int)there : ROWS;
    from = t.a + number * COLUMNS;
    to = t.out + number * COLUMNS;
    int64 masked = HR_CAUSAL ? t.period - 1 - number % t.period : 0;
    seen = masked < COLUMNS ? (column_index)(COLUMNS - masked) : 0;
    int64 left = (t.rows - number - (rows - 1) * SPACING) * COLUMNS;
    room = left < COLUMNS + WIDE ? (column_index)left : (column_index)COLUMNS + WIDE;
    lead = WHOLE ? 0 : (int)((size_t)to % LINE_BYTES / sizeof(element));
    column0 = (column_index)(threadIdx.x + (BLOCKS > 1 ? cluster_rank() * THREADS : 0)) * WIDE - lead;
    held = shared + threadIdx.x;
    load_kept();
    load_held();
  }

  __device__ column_index column(int i) const { return column0 + i * STEP; }

  /* Pack i of row j, in memory. */
  __device__ const element *source(int i, int j) const { return from + j * ((int64)SPACING * COLUMNS) + column(i); }

  /* Whether pack i of every thread is whole, whatever the lead: known when the program is compiled. */
  static constexpr __device__ bool surely(int i)
  {
    return !HR_CAUSAL && (WHOLE || i > 0) && (i + 1) * STEP <= COLUMNS;
  }

  /* Whether two packs around it lie within the row too. */
  static constexpr __device__ bool surely_inside(int i)
  {
    return surely(i) && i * STEP >= LINE + WIDE && (i + 1) * STEP + WIDE <= COLUMNS;
  }

  __device__ bool whole(int i) const
  {
    return surely(i) || ((WHOLE || i > 0 || column(i) >= 0) && column(i) + WIDE <= seen);
  }

  /* Whether all 16 bytes around may be read: where the tensor begins at a multiple of 16, they may before its rows too. */
  __device__ bool readable(int i) const { return surely(i) || WHOLE || column(i) + WIDE <= room; }

  /* Whether pack i has columns before `end`. */
  __device__ bool has(int i, column_index end = COLUMNS) const
  {
    return surely(i) || (column(i) < end && (WHOLE || i > 0 || column(i) > -WIDE));
  }

  /* Whether pack i is of the row j. */
  __device__ bool there(int i, int j, column_index end) const
  {
    return (ROWS * TEAMS == 1 || j < rows) && has(i, end);
  }

  __device__ pack load(int i, int j) const
  {
    if (ALIKE && readable(i))
      return load_aligned(source(i, j));
    if (!ALIKE && surely_inside(i))
      return load_inside(source(i, j));
    return load_anyhow(source(i, j) - column(i), column(i), seen);
  }

  __device__ void load_kept()
  {
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
#pragma unroll
      for (int j = 0; j < ROWS; j++) {
        kept[i][j] = {0, 0, 0, 0};
        if (there(i, j, seen))
          kept[i][j] = load(i, j);
      }
    }
  }

  /* Copies that need no registers where packs lie as in memory. */
  __device__ void load_held()
  {
    if (HELD == 0)
      return;
#pragma unroll 2
    for (int i = KEPT; i < KEPT + HELD; i++) {
#pragma unroll
      for (int j = 0; j < ROWS; j++) {
        uint4 *to = held + ((i - KEPT) * ROWS + j) * THREADS;
        if (ALIKE && readable(i) && there(i, j, seen))
          copy_async(to, source(i, j));
        else if (there(i, j, seen))
          *to = load(i, j).words();
      }
    }
  }

  /* use(packs of all rows, i) for the packs that begin before column `end`. */
  template <class USE> __device__ void each_unit(column_index end, USE use)
  {
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
#pragma unroll
      for (int j = 0; j < ROWS; j++)
        kept[i][j].pin();
      if (has(i, end))
        use(kept[i], i);
    }
    pack p[ROWS];
    if (HELD > 0)
      wait_for_copies();
#pragma unroll 2
    for (int i = KEPT; i < KEPT + HELD; i++) {
#pragma unroll
      for (int j = 0; j < ROWS; j++)
        p[j] = pack(held[((i - KEPT) * ROWS + j) * THREADS]);
      if (has(i, end))
        use(p, i);
    }
    if (REST) {
#pragma unroll 4
      for (int i = KEPT + HELD; column(i) < end; i++) {
#pragma unroll
        for (int j = 0; j < ROWS; j++)
          p[j] = there(i, j, seen) ? load(i, j) : pack();
        use(p, i);
      }
    }
  }

  /* use(j, value) for every column of row j that is seen. */
  template <class USE> __device__ void each(USE use)
  {
    each_unit(seen, [&](const pack(&p)[ROWS], int i) {
#pragma unroll
      for (int j = 0; j < ROWS; j++) {
        if (whole(i)) {
#pragma unroll
          for (int k = 0; k < WIDE; k++)
            use_value(use, j, p[j].at(k));
        } else {
#pragma unroll
          for (int k = 0; k < WIDE; k++) {
            if (column(i) + k >= 0 && column(i) + k < seen)
              use_value(use, j, p[j].at(k));
          }
        }
      }
    });
  }

  template <class USE> static __device__ void use_value(USE &use, int j, float value) { use(j, value); }

  /* The largest value that the thread sees of each row, two of 16 bits at a time. */
  __device__ void largest(float (&most)[ROWS])
  {
    unsigned words[ROWS][4];
#pragma unroll
    for (int w = 0; w < ROWS * 4; w++)
      words[w / 4][w % 4] = LOWEST_WORD;
    each_unit(seen, [&](const pack(&p)[ROWS], int i) {
#pragma unroll
      for (int j = 0; j < ROWS; j++) {
        if (whole(i)) {
#pragma unroll
          for (int w = 0; w < 4; w++)
            words[j][w] = larger_words(words[j][w], p[j].word[w]);
        } else {
#pragma unroll
          for (int k = 0; k < WIDE; k++) {
            if (column(i) + k >= 0 && column(i) + k < seen)
              most[j] = fmaxf(most[j], p[j].at(k));
          }
        }
      }
    });
#pragma unroll
    for (int w = 0; w < ROWS * 4; w++)
      most[w / 4] = fmaxf(most[w / 4], largest_in(words[w / 4][w % 4]));
  }

  /* A value of those that the thread has of row j. */
  __device__ float sample(int j) const
  {
    return surely(0) || column0 + WIDE <= COLUMNS ? kept[0][j].at(WIDE - 1)
           : column0 < COLUMNS                    ? kept[0][j].at(0)
                                                  : 0.0f;
  }

  /* The columns of pack i of a vector that all rows share; it may have been shifted to every lead before. */
  __device__ unit shared_unit(const element *vector, int i) const
  {
    if (WHOLE)
      return load_aligned(vector + column(i));
    if (HR_SHIFTED)
      return load_aligned(vector + (int64)(lead % WIDE) * SHIFTED_COLUMNS + column(i) + lead % WIDE);
    return surely_inside(i) ? load_inside(vector + column(i))
                            : load_anyhow(vector, column(i), (column_index)COLUMNS);
  }

  /* Pack i of row j of the result. */
  __device__ void store(int i, int j, float (&values)[UNIT])
  {
    if (!(ROWS * TEAMS == 1 || j < rows))
      return;
#pragma unroll
    for (int k = 0; k < WIDE && HR_CAUSAL; k++) /* 0 also where the row is NaN */
      values[k] = column(i) + k < seen ? values[k] : 0.0f;
    element *row = to + j * ((int64)SPACING * COLUMNS);
    if (surely(i))
      store_aligned(row + column(i), values);
    else
      store_pack(row, column(i), (column_index)COLUMNS, values);
  }
};

#if HR_BLOCKS > 1
#define IN_CLUSTERS __cluster_dims__(BLOCKS, 1, 1)
#else
#define IN_CLUSTERS
#endif

/* The kernel NAME of an operation RUN(team, task). */
#define ROW_ENTRY(NAME, RUN)                                                                                    \
  extern "C" __global__ void IN_CLUSTERS __launch_bounds__(THREADS *TEAMS, HR_RESIDENT) NAME PARAMETERS \
  {                                                                                                             \
    extern __shared__ uint4 shared[];                                                                           \
    task t = TASK;                                                                                              \
    if (BLOCKS > 1)                                                                                             \
      cluster_arrive();                                                                                         \
    team x(t, shared);                                                                                          \
    RUN(x, t);                                                                                                  \
  }
