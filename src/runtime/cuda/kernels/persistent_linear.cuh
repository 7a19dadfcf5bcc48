/* SPDX-License-Identifier: Apache-2.0 */
/* persistent.cu's linear layers. A block has consecutive rows of W; a slot has up to 8 of them in up to 2048 bytes,
 * with a gate first those of W, then those of the gate. The warps share the columns of each slot and keep their sums of
 * some tiles of 8 rows; then a thread adds up those of a row and a token in the order of the warps, so that results
 * depend on no timing. HR_FP8 is the sum of the formats of fp8 that there are; scales of blocks come with the slots,
 * behind their first two rows, which are those of at most two blocks.
 *
 * W is the first operand of mma.sync, whose 16 rows are the 8 of a tile in two halves of a thread's columns, so that a
 * block may have any number of rows; the second operand's 8 columns are 4 tokens in both halves. Half of the products
 * are not used, and all take half as many instructions as with tokens as the first operand. A thread's 8 elements of a
 * row are next to each other in memory, which permutes the columns of both operands alike. */

typedef hr_persistent_linear linear;

#define TILE HR_PERSISTENT_ROWS
#define STEP HR_PERSISTENT_STEP
#define PITCH HR_PERSISTENT_PITCH
#define ELEMENTS_OF_SLOT (HR_PERSISTENT_BYTES / (int)sizeof(element)) /* of a row */
#ifndef HR_FP8
#define HR_FP8 0
#endif

static_assert(TOKENS <= 4, "an mma.sync has no more tokens");

/* A thread's sums of a tile, of row lane / 4 and token lane % 4: the first and the last of an mma.sync; two of them, so
 * that neither waits for the other. */
struct tile_sums {
  float of[2][4];

  __device__ tile_sums() : of()
  {
  }
  __device__ float of_token() const
  {
    return of[0][0] + of[0][3] + (of[1][0] + of[1][3]);
  }
};

#include "runtime/cuda/kernels/persistent_fp8.cuh"

template <int FORMAT> struct stored_as {
  typedef unsigned char type;
};
template <> struct stored_as<HR_PERSISTENT_ELEMENTS> {
  typedef element type;
};

/* The block's rows of W. */
struct row_range {
  int first, end;

  __device__ explicit row_range(const linear &l)
  {
    const int block = (int)blockIdx.x;
    first = l.unit * (l.units_each * block + min(l.units_more, block));
    end = min(first + l.unit * (l.units_each + (block < l.units_more)), (int)l.n);
  }
};

/* The row and token of element i of the results of `rows` rows. */
struct y_place {
  int row, token;

  __device__ y_place(int i, int rows)
  {
    row = TOKENS == 1 ? i : i % rows;
    token = TOKENS == 1 ? 0 : i / rows;
  }
};

/* Columns that follow each other in memory: of the layer, or of one of several experts. */
__device__ inline int columns_of_matrix(const linear &l)
{
#ifdef HR_EXPERTS
  return l.width > 0 && !l.logits ? l.width : (int)l.k;
#else
  return (int)l.k;
#endif
}

/* Whether a slot has rows whole. They are copied at once, as they lie in memory: a copy takes the warp about 60 ns, and
 * in eight of them the memory would bring more than short rows are. Rows with logits may be of two experts. */
__device__ inline bool has_whole_rows(const linear &l)
{
  return columns_of_matrix(l) <= ELEMENTS_OF_SLOT && !l.logits;
}

/* Bytes from a row of a slot to the next. */
__device__ inline int row_pitch(const linear &l)
{
  return has_whole_rows(l) ? columns_of_matrix(l) * (int)sizeof(element) : PITCH;
}

/* ---- the warp that copies ---- */

/* The scales of a slot: of `rows` blocks of rows, which follow each other. */
struct slot_scales {
  const float *from;
  int64 stride;
  int rows;
  unsigned bytes;
};

template <class WEIGHT>
__device__ inline void copy_part(const rooms &r, ring &at, const WEIGHT *row_of_lane, int rows, int columns,
                                 const slot_scales &scales)
{
  const unsigned full = r.full + 8 * at.slot, bytes = columns * (unsigned)sizeof(WEIGHT);
  const unsigned to = shared_address(r.slots) + at.slot * HR_PERSISTENT_SLOT + lane_of() * PITCH;
  r.cycles.note(HR_CYCLES_COPIES);
  await_slot(r, at);
  r.cycles.note(HR_CYCLES_SLOTS);
  if (lane_of() == 0)
    mbarrier_arrive_expect_tx(full, rows * bytes + scales.rows * scales.bytes);
  __syncwarp();
  if (lane_of() < rows)
    bulk_load_once(to, row_of_lane, bytes, full);
  else if (lane_of() >= TILE && lane_of() - TILE < scales.rows)
    bulk_load(to - TILE * PITCH + HR_PERSISTENT_BYTES, scales.from + (lane_of() - TILE) * scales.stride, scales.bytes,
              full);
  at.advance(r.count);
}

/* Rows of scales are of whole 16 bytes. */
__device__ inline slot_scales scales_of_slot(const linear &l, const float *scales, int row, int rows, int column,
                                             int columns)
{
  const int first = row >> l.scale_rows_log2, last = (row + rows - 1) >> l.scale_rows_log2;
  const unsigned blocks = (unsigned)(columns + (1 << SCALED_LOG2) - 1) >> SCALED_LOG2;
  return {scales + first * l.scale_row + (column >> SCALED_LOG2), l.scale_row, last - first + 1, (blocks + 3) / 4 * 16};
}

template <int FORMAT> __device__ inline void copy_rows_of(const linear &l, const rooms &r, ring &at)
{
  typedef typename stored_as<FORMAT>::type weight;
  constexpr int COLUMNS = HR_PERSISTENT_BYTES / (int)sizeof(weight);
  const row_range mine(l);
  const int k = (int)l.k;
  const bool whole = FORMAT == HR_PERSISTENT_ELEMENTS && has_whole_rows(l);
  const weight *const w = (const weight *)(const void *)l.w, *const gate = (const weight *)(const void *)l.gate;
#pragma unroll 1
  for (int row = mine.first; row < mine.end; row += TILE)
    for (const weight *matrix = w; matrix; matrix = matrix == w ? gate : nullptr)
#pragma unroll 1
      for (int column = 0; column < k; column += COLUMNS) {
        const int rows = min(TILE, mine.end - row), columns = min(COLUMNS, k - column);
        slot_scales scales = {nullptr, 0, 0, 0};
        if (FORMAT == HR_PERSISTENT_FP8_BLOCKS)
          scales = scales_of_slot(l, matrix == w ? l.scales : l.gate_scales, row, rows, column, columns);
        copy_part(r, at, matrix + (int64)(row + lane_of()) * k + column, whole ? 1 : rows, whole ? rows * k : columns,
                  scales);
      }
}

/* Whether the layer has a format that the program may have. */
template <int FORMAT> __device__ inline bool is_of(const linear &l)
{
  return (HR_FP8 & FORMAT) != 0 && l.format == FORMAT;
}

__device__ inline void copy_rows(const linear &l, const rooms &r, ring &at)
{
  if (is_of<HR_PERSISTENT_FP8_ROWS>(l))
    copy_rows_of<HR_PERSISTENT_FP8_ROWS>(l, r, at);
  else if (is_of<HR_PERSISTENT_FP8_BLOCKS>(l))
    copy_rows_of<HR_PERSISTENT_FP8_BLOCKS>(l, r, at);
  else
    copy_rows_of<HR_PERSISTENT_ELEMENTS>(l, r, at);
}

/* ---- x ---- */

__device__ inline int pitch_of(const linear &l)
{
  return (int)l.k + HR_PERSISTENT_X_PADDING;
}

/* Calls `what` with each of the thread's chunks of a row. */
template <class WHAT> __device__ inline void each_chunk(int k, WHAT what)
{
#pragma unroll 1
  for (int i = (int)threadIdx.x * CHUNK; i < k; i += THREADS * CHUNK)
    what(i);
}

/* The sums over all threads, in every one, in an order that depends on no timing. */
__device__ inline void sum_over_threads(float (&values)[TOKENS])
{
  __shared__ float of_warps[TOKENS][WARPS];
  meet(); /* sums from before have been read */
#pragma unroll
  for (int token = 0; token < TOKENS; token++) {
    values[token] = sum_of_lanes(values[token]);
    if (lane_of() == 0)
      of_warps[token][warp_of()] = values[token];
  }
  meet();
#pragma unroll
  for (int token = 0; token < TOKENS; token++) {
    values[token] = 0;
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++)
      values[token] += of_warps[token][warp];
  }
}

__device__ inline uint4 *chunk_of(element *x, int pitch, int token, int i)
{
  return (uint4 *)(void *)(x + token * pitch + i);
}

/* What no other instruction writes, for a norm of up to HR_NORM_CHUNKS of a thread's chunks, and for the thread's first
 * row of y, as it is in memory: who converts it waits for it. */
struct constants {
  uint4 weights[HR_NORM_CHUNKS], biases[HR_NORM_CHUNKS];
  unsigned bias, gate_bias;

  __device__ constants(const linear &l, int row, bool stores)
  {
    bias = stores && l.bias ? read_element(l.bias + row) : 0;
    gate_bias = stores && l.gate_bias ? read_element(l.gate_bias + row) : 0;
#pragma unroll
    for (int n = 0; n < HR_NORM_CHUNKS; n++) {
      const int i = ((int)threadIdx.x + n * THREADS) * CHUNK;
      const bool there = i < (int)l.k;
      weights[n] = biases[n] = make_uint4(0, 0, 0, 0);
      if (there && l.norm != HR_PERSISTENT_NO_NORM)
        weights[n] = *(const uint4 *)(const void *)(l.norm_weight + i);
      if (there && l.norm == HR_PERSISTENT_LAYER_NORM)
        biases[n] = *(const uint4 *)(const void *)(l.norm_bias + i);
    }
  }
};

#define ASKED 4 /* chunks of a thread at once */

/* Puts x into shared memory once it is there. */
__device__ inline void take_row(const linear &l, const element *from, element *to)
{
#pragma unroll 1
  for (int first = (int)threadIdx.x * CHUNK; first < (int)l.k; first += ASKED * THREADS * CHUNK) {
    bool missing[ASKED], any;
#pragma unroll
    for (int n = 0; n < ASKED; n++)
      missing[n] = first + n * THREADS * CHUNK < (int)l.k;
    do {
      uint4 chunks[ASKED];
      any = false;
#pragma unroll
      for (int n = 0; n < ASKED; n++)
        if (missing[n])
          chunks[n] = read_chunk(from + first + n * THREADS * CHUNK);
#pragma unroll
      for (int n = 0; n < ASKED; n++) {
        if (missing[n] && !(l.x_arrives && has_absent(chunks[n]))) {
          *(uint4 *)(void *)(to + first + n * THREADS * CHUNK) = chunks[n];
          missing[n] = false;
        }
        any |= missing[n];
      }
    } while (any);
  }
}

__device__ inline void take_x(const linear &l, element *x, const post &p)
{
  const element *const from = l.x + (l.x_arrives ? p.here : 0);
#pragma unroll 1
  for (int token = 0; token < TOKENS; token++)
    take_row(l, from + token * l.x_row, x + token * pitch_of(l));
}

/* Adds up elements or, of an RMS norm, squares. */
__device__ inline void sum_x(const linear &l, element *x, float (&sums)[TOKENS])
{
  const bool squares = l.norm == HR_PERSISTENT_RMS_NORM;
#pragma unroll
  for (int token = 0; token < TOKENS; token++) {
    sums[token] = 0;
    each_chunk((int)l.k, [&](int i) {
      float values[CHUNK];
      unpack(*chunk_of(x, pitch_of(l), token, i), values);
#pragma unroll
      for (int j = 0; j < CHUNK; j++)
        sums[token] += squares ? values[j] * values[j] : values[j];
    });
  }
  sum_over_threads(sums);
}

__device__ inline void sum_squares(const linear &l, element *x, const float (&means)[TOKENS], float (&sums)[TOKENS])
{
#pragma unroll
  for (int token = 0; token < TOKENS; token++) {
    sums[token] = 0;
    each_chunk((int)l.k, [&](int i) {
      float values[CHUNK];
      unpack(*chunk_of(x, pitch_of(l), token, i), values);
#pragma unroll
      for (int j = 0; j < CHUNK; j++)
        sums[token] += (values[j] - means[token]) * (values[j] - means[token]);
    });
  }
  sum_over_threads(sums);
}

/* Writes the norm of each row over it. */
__device__ inline void scale_rows(const linear &l, const constants &c, element *x, const float (&means)[TOKENS],
                                  const float (&scales)[TOKENS])
{
#pragma unroll
  for (int n = 0; n < HR_NORM_CHUNKS; n++) {
    const int i = ((int)threadIdx.x + n * THREADS) * CHUNK;
    float weights[CHUNK], biases[CHUNK];
    unpack(c.weights[n], weights);
    unpack(c.biases[n], biases);
#pragma unroll
    for (int token = 0; token < TOKENS && i < (int)l.k; token++) {
      uint4 *const at = chunk_of(x, pitch_of(l), token, i);
      float values[CHUNK];
      unpack(*at, values);
#pragma unroll
      for (int j = 0; j < CHUNK; j++)
        values[j] = (values[j] - means[token]) * scales[token] * weights[j] + biases[j];
      *at = make_uint4(word_of(values), word_of(values + 2), word_of(values + 4), word_of(values + 6));
    }
  }
}

/* Puts the norm of x over it. */
__device__ inline void norm_x(const linear &l, const constants &c, element *x)
{
  const float share = 1.0f / (float)l.k;
  float means[TOKENS] = {0}, scales[TOKENS];
  sum_x(l, x, scales);
  if (l.norm == HR_PERSISTENT_LAYER_NORM) {
#pragma unroll
    for (int token = 0; token < TOKENS; token++)
      means[token] = scales[token] * share;
    sum_squares(l, x, means, scales);
  }
#pragma unroll
  for (int token = 0; token < TOKENS; token++)
    scales[token] = rsqrtf(scales[token] * share + l.epsilon);
  scale_rows(l, c, x, means, scales);
}

/* ---- products ---- */

/* Multiplies the warp's part of a slot, all of whose columns are there with FULL. */
template <bool FULL>
__device__ inline void multiply_part(tile_sums &sums, const char *slot, int slot_pitch, const element *x, int pitch,
                                     int columns)
{
  const int row = lane_of() / 4, first = warp_of() * STEP, chunk = first + lane_of() % 4 * CHUNK;
  const char *const w = slot + row * slot_pitch + chunk * (int)sizeof(element);
#pragma unroll
  for (int n = 0; n < ELEMENTS_OF_SLOT / (WARPS * STEP); n++) {
    const int column = n * WARPS * STEP;
    if (!FULL && first + column >= columns)
      break;
    const uint4 of_w = *(const uint4 *)(const void *)(w + column * (int)sizeof(element));
    const unsigned rows[4] = {of_w.x, of_w.y, of_w.z, of_w.w};
    const element *const of_x = x + min(row / 2, TOKENS - 1) * pitch + chunk + column + row % 2 * 2;
    mma_sync(sums.of[n % 2], rows, *(const unsigned *)(const void *)of_x, *(const unsigned *)(const void *)(of_x + 4));
  }
}

/* The warp's sums of a tile are at [tile][warp][token][row]. */
__device__ inline float *sums_of(const rooms &r, int tile, int warp, int token)
{
  return r.sums + ((tile * WARPS + warp) * TOKENS + token) * TILE;
}

/* The warp's slots of a tile: `what` is called with each one's place, its first column and the number of them. */
template <int COLUMNS, class WHAT>
__device__ inline void each_slot(const linear &l, const rooms &r, ring &at, WHAT what)
{
  const int k = (int)l.k, each = columns_of_matrix(l);
  for (int first = 0; first < k; first += each)
#pragma unroll 1
    for (int column = first; column < first + each; column += COLUMNS) {
      mbarrier_wait(r.full + 8 * at.slot, at.parity);
      what(r.slots + at.slot * HR_PERSISTENT_SLOT, column, min(COLUMNS, first + each - column));
      __syncwarp();
      if (lane_of() == 0)
        mbarrier_arrive(r.empty + 8 * at.slot);
      at.advance(r.count);
    }
}

/* Keeps a thread's sum of a tile, of row lane / 4 and token lane % 4. */
__device__ inline void put_sum(const rooms &r, int tile, float sum)
{
  const int token = lane_of() % 4;
  if (token < TOKENS)
    sums_of(r, tile, warp_of(), token)[lane_of() / 4] = sum;
}

__device__ inline void multiply_tile(const linear &l, const rooms &r, ring &at, int tile)
{
  tile_sums sums;
  const int pitch = pitch_of(l), slot_pitch = row_pitch(l);
  each_slot<ELEMENTS_OF_SLOT>(l, r, at, [&](const char *slot, int first, int columns) {
    if (columns == ELEMENTS_OF_SLOT)
      multiply_part<true>(sums, slot, slot_pitch, r.x + first, pitch, columns);
    else
      multiply_part<false>(sums, slot, slot_pitch, r.x + first, pitch, columns);
  });
  put_sum(r, tile, sums.of_token());
}

/* The tile has rows of W or the gate from `first` on. */
template <int FORMAT>
__device__ inline void multiply_fp8_tile(const linear &l, const rooms &r, ring &at, int tile, int first,
                                         const float *scales)
{
  const int row = min(first + lane_of() / 4, (int)l.n - 1), pitch = pitch_of(l);
  const bool rows = FORMAT == HR_PERSISTENT_FP8_ROWS;
  const int block = rows ? 0 : (row >> l.scale_rows_log2) - (first >> l.scale_rows_log2);
  const float scale = rows ? scales[row] : 1;
  tile_sums sums;
  float scaled = 0;
  each_slot<HR_PERSISTENT_BYTES>(l, r, at, [&](const char *slot, int column, int columns) {
    const float *const of_row = (const float *)(const void *)(slot + block * PITCH + HR_PERSISTENT_BYTES);
    multiply_fp8<FORMAT>(sums, scaled, slot, of_row, r.x + column, pitch, columns);
  });
  put_sum(r, tile, rows ? sums.of_token() * scale : scaled);
}

__device__ inline void multiply_one(const linear &l, const rooms &r, ring &at, int tile, int first, const float *scales)
{
  if (is_of<HR_PERSISTENT_FP8_ROWS>(l))
    multiply_fp8_tile<HR_PERSISTENT_FP8_ROWS>(l, r, at, tile, first, scales);
  else if (is_of<HR_PERSISTENT_FP8_BLOCKS>(l))
    multiply_fp8_tile<HR_PERSISTENT_FP8_BLOCKS>(l, r, at, tile, first, scales);
  else
    multiply_tile(l, r, at, tile);
}

/* ---- results ---- */

#include "runtime/cuda/kernels/activation.cuh"

#ifdef HR_EXPERTS
#include "runtime/cuda/kernels/persistent_experts.cuh"
#endif

__device__ inline float activated(const linear &l, float value, float gate)
{
  switch (l.activation) {
  case HR_PERSISTENT_GELU: return gelu_of()(value, 0);
  case HR_PERSISTENT_GELU_TANH: return gelu_tanh_of()(value, 0);
  case HR_PERSISTENT_RELU: return relu_of()(value, 0);
  case HR_PERSISTENT_RELU2: return relu2_of()(value, 0);
  case HR_PERSISTENT_SWIGLU: return swiglu_of()(gate, value);
  case HR_PERSISTENT_SWIGLU_CLAMPED: return swiglu_clamped_by{l.limit}(gate, value);
  case HR_PERSISTENT_GEGLU: return geglu_of()(gate, value);
  case HR_PERSISTENT_GEGLU_TANH: return geglu_tanh_of()(gate, value);
  default: return value;
  }
}

__device__ inline float sum_of_row(const rooms &r, int tile, int token, int row)
{
  float sum = sums_of(r, tile, 0, token)[row];
#pragma unroll
  for (int warp = 1; warp < WARPS; warp++)
    sum += sums_of(r, tile, warp, token)[row];
  return sum;
}

/* What is added to a row of y. */
struct added {
  float bias, gate_bias, residual;
};

__device__ inline added load_added(const linear &l, int token, int row, const post &p)
{
  return {l.bias ? to_float(l.bias[row]) : 0, l.gate_bias ? to_float(l.gate_bias[row]) : 0,
          l.residual ? await_element(l.residual + token * l.residual_row + row, l.residual_arrives, p) : 0};
}

/* Stores `rows` rows of y from `first` on, whose sums are in tiles from 0 on; with `knows_own` what is added to the
 * thread's first one is `own`. */
__device__ inline void store_rows(const linear &l, const rooms &r, int first, int rows, bool knows_own, const added own,
                                  const post &p)
{
  const int matrices = l.gate ? 2 : 1;
#pragma unroll 1
  for (int i = (int)threadIdx.x; i < rows * TOKENS; i += THREADS) {
    const y_place y(i, rows);
    const int token = y.token, row = y.row, tile = row / TILE * matrices;
    const added a = knows_own && i == (int)threadIdx.x ? own : load_added(l, token, first + row, p);
    const float gate = l.gate ? sum_of_row(r, tile + 1, token, row % TILE) + a.gate_bias : 0;
    float value = activated(l, sum_of_row(r, tile, token, row % TILE) + a.bias, gate);
#ifdef HR_EXPERTS
    if (l.logits)
      value *= r.shares[(first + row) / l.width];
#endif
    if (l.residual)
      value = a.residual + l.factor * value;
    if (l.posted)
      post_element(l.posted + token * l.n + first + row, value, p);
    if (l.y)
      l.y[token * l.n + first + row] = from_float(value);
  }
}

/* `l` is in registers: its members were loaded from shared memory one after another, between branches. */
__device__ inline void multiply_rows(const linear l, const rooms &r, ring &at, const post &p)
{
  const row_range mine(l);
  const int matrices = l.gate ? 2 : 1, most = HR_TILES / matrices * TILE; /* rows whose sums there is room for */
  const int at_first = min(most, mine.end - mine.first);
  const y_place y((int)threadIdx.x, max(at_first, 1));
  const bool stores = (int)threadIdx.x < at_first * TOKENS, adds = stores && l.residual;
  const constants c(l, mine.first + y.row, stores);
  const element *const residual = l.residual + y.token * l.residual_row + mine.first + y.row;
  const unsigned early = adds ? read_element(residual + (l.residual_arrives ? p.here : 0)) : 0;
  r.cycles.note(HR_CYCLES_BEGIN);
  take_x(l, r.x, p);
  r.cycles.note(HR_CYCLES_X);
  added own = {to_float((element)c.bias), to_float((element)c.gate_bias), to_float((element)early)};
  if (adds && l.residual_arrives && early == HR_PERSISTENT_ABSENT)
    own.residual = await_element(residual, true, p);
  if (l.norm != HR_PERSISTENT_NO_NORM)
    norm_x(l, c, r.x);
#ifdef HR_EXPERTS
  if (l.logits && warp_of() == 0)
    put_shares(l, p, r.shares);
#endif
  meet();
  r.cycles.note(HR_CYCLES_NORM);
#pragma unroll 1
  for (int first = mine.first; first < mine.end; first += most) {
    const int rows = min(most, mine.end - first);
    if (first > mine.first)
      meet();
#pragma unroll 1
    for (int tile = 0; tile < (rows + TILE - 1) / TILE * matrices; tile++)
      multiply_one(l, r, at, tile, first + (tile >> (matrices - 1)) * TILE,
                   l.gate && tile % 2 ? l.gate_scales : l.scales);
    meet();
    r.cycles.note(HR_CYCLES_TILES);
    store_rows(l, r, first, rows, first == mine.first, own, p);
    r.cycles.note(HR_CYCLES_RESULTS);
  }
}
