/* Short rows that are no whole packs. CHUNK of them are, together: a block brings them to shared memory as they lie, THREADS
 * of a warp take a row from there a word at a time, keep it as floats, and put the result in its place; then the block writes
 * the chunk. Partial packs at the ends of rows, two of a few, would cost more (row.cuh reaches 54 to 70% of a copy).
 *
 * A word has PER_WORD elements. The first and the last of a row may have elements of its neighbours, which other threads
 * change: those go an element at a time. The rows of a warp lie APART, so that they fall into different banks.
 *
 * A program is compiled for one problem (rows.c): HR_COLUMNS, HR_THREADS of a row (1 to 32), HR_TEAMS of a block, HR_CHUNK,
 * HR_LIE (1: the tensors begin at multiples of 16 bytes, 2: anywhere), HR_CAUSAL. */
#include "runtime/cuda/kernels/over_row.cuh"

#define COLUMNS HR_COLUMNS
#define TEAMS HR_TEAMS
#define CHUNK HR_CHUNK
#define SPLIT (COLUMNS % PER_WORD != 0) /* whether rows share words */
#define WORDS ((COLUMNS + SPLIT * (PER_WORD - 1) + PER_WORD - 1) / PER_WORD)
#define EACH ((WORDS + THREADS - 1) / THREADS)
#define ROWS_OF_WARP (32 / THREADS)
#define APART_WANTED (PER_WORD * THREADS / (COLUMNS & -COLUMNS))
#define APART (APART_WANTED < 1 ? 1 : APART_WANTED < CHUNK / ROWS_OF_WARP ? APART_WANTED : CHUNK / ROWS_OF_WARP)

/* What passes are over: a word. */
struct unit {
  float value[PER_WORD];
  __device__ float at(int k) const { return value[k]; }
};
#define UNIT PER_WORD
#define KEEPS_FLOATS 1

struct team {
  element *words; /* where the row's first begins, in shared memory */
  bool there;     /* the last teams of a chunk may have no row; they come along, as warps reduce together */
  int lead;       /* elements of that word before the row */
  int seen;       /* columns that are read */
  unit kept[EACH];

  __device__ team(const task &t, element *chunk, int row, int64 number, bool is_there)
  {
    lead = SPLIT ? row * COLUMNS % PER_WORD : 0;
    words = chunk + row * COLUMNS - lead;
    there = is_there;
    int64 masked = HR_CAUSAL ? t.period - 1 - number % t.period : 0;
    seen = masked < COLUMNS ? (int)(COLUMNS - masked) : 0;
#pragma unroll
    for (int i = 0; i < EACH; i++)
      load(i);
  }

  __device__ int word(int i) const { return i * THREADS + (int)threadIdx.x; }
  __device__ int column(int i) const { return word(i) * PER_WORD - lead; }

  /* Whether word i of every thread is the row's alone: known when the program is compiled. */
  static constexpr __device__ bool surely(int i)
  {
    return (i > 0 || !SPLIT) && (i + 1) * THREADS * PER_WORD <= COLUMNS;
  }

  __device__ bool has_column(int i, int k) const { return surely(i) || (column(i) + k >= 0 && column(i) + k < COLUMNS); }

  __device__ void load(int i)
  {
    if (surely(i)) {
      unsigned bits = ((const unsigned *)words)[word(i)];
#pragma unroll
      for (int k = 0; k < PER_WORD; k++)
        kept[i].value[k] = value_in(bits, k);
      return;
    }
#pragma unroll
    for (int k = 0; k < PER_WORD; k++)
      kept[i].value[k] = has_column(i, k) ? to_float(words[word(i) * PER_WORD + k]) : 0.0f;
  }

  /* use(unit, i) for the words that have columns before `end`. */
  template <class USE> __device__ void each_unit(int, USE use)
  {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      if (surely(i) || column(i) < COLUMNS)
        use((const unit(&)[1])kept[i], i);
    }
  }

  /* use(0, value) for every column that is seen; it may change what is kept. */
  template <class USE> __device__ void each(USE use)
  {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
#pragma unroll
      for (int k = 0; k < PER_WORD; k++) {
        if ((surely(i) && !HR_CAUSAL) || (column(i) + k >= 0 && column(i) + k < seen))
          use(0, kept[i].value[k]);
      }
    }
  }

  __device__ void largest(float (&most)[1])
  {
    each([&](int, float value) { most[0] = fmaxf(most[0], value); });
  }

  /* A value of those that the thread has. */
  __device__ float sample(int) const { return has_column(0, PER_WORD - 1) ? kept[0].at(PER_WORD - 1) : kept[0].at(0); }

  __device__ bool has(int) const { return true; }

  __device__ unit shared_unit(const element *vector, int i) const
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
    for (int k = 0; k < PER_WORD && HR_CAUSAL; k++) /* 0 also where the row is NaN */
      values[k] = column(i) + k < seen ? values[k] : 0.0f;
    if (surely(i)) {
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
#define ROW_ENTRY(NAME, RUN)                                                                  \
  extern "C" __global__ void __launch_bounds__(THREADS *TEAMS, HR_RESIDENT) NAME PARAMETERS  \
  {                                                                                           \
    extern __shared__ uint4 shared[];                                                         \
    task t = TASK;                                                                            \
    int64 first = (int64)blockIdx.x * CHUNK;                                                  \
    int there = t.rows - first < CHUNK ? (int)(t.rows - first) : CHUNK;                       \
    element *chunk = (element *)shared;                                                       \
    bring_chunk(chunk, t.a + first * COLUMNS, there *COLUMNS);                                \
    int among = (int)threadIdx.y % ROWS_OF_WARP * APART;                                      \
    for (int i = (int)threadIdx.y / ROWS_OF_WARP; i < CHUNK / ROWS_OF_WARP; i += TEAMS / ROWS_OF_WARP) { \
      int row = i / APART * APART * ROWS_OF_WARP + i % APART + among;                         \
      team x(t, chunk, row, first + row, row < there);                                        \
      RUN(x, t);                                                                        \
    }                                                                                         \
    write_chunk(t.out + first * COLUMNS, chunk, there *COLUMNS);                              \
  }
