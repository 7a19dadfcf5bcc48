/* SPDX-License-Identifier: Apache-2.0 */
/* Template: row-wise operations on the vectors of simd.h. Included once for each instruction set, with ROWWISE_TABLE as
 * the name of the table.
 *
 * Bound: memory bandwidth. Each input is read from memory once: a row of a softmax or a norm is kept as fp32 in
 * `scratch`, which stays in L1 or L2. Results too large for the caches are written with streaming stores, as a copy of
 * that size is by the C library: an ordinary store would first read each line.
 *
 * Reading, computing and writing a row one after the other leaves memory idle half of the time. So one loop reads the
 * next row, computes this one and writes the previous one: softmax gained a quarter to a half, long rows of RMS norm a
 * fifth. Without prefetches AHEAD such loops lost as much where rows are long. */
#include "runtime/cpu/rowwise/dropout_bits.h"
#include "runtime/cpu/rowwise/rowwise.h"
#include "runtime/cpu/simd/elements.h"
#include "runtime/cpu/simd/exp.h"

#include <math.h>

#define AHEAD 1024 /* elements: far enough for memory, and near enough to stay in the first cache until then */

/* Loops go over spans of a pair of vectors. The first span is shorter where that aligns the result for streaming
 * stores; the last takes the rest. In scratch each span occupies a whole pair. */
HR_INLINE int64_t first_span(hr_dtype dtype, const void *out, int64_t at, bool stream)
{
  uintptr_t element = dtype == HR_FP32 ? 4 : 2, address = (uintptr_t)out + (uintptr_t)at * element;
  int64_t head = stream ? (int64_t)(-address % sizeof(simd_f32) / element) : 0;
  return head > 0 ? head : SIMD_PAIR;
}

HR_INLINE int64_t lesser(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* ---- element by element ---- */

/* Φ(x). Φ(x) − 1/2 ≈ x P(x²) / Q(x²) within 5.7e-8 on [-5.2, 5.2], fitted for the least largest error; beyond, Φ is 1
 * and 0 within that error. */
HR_INLINE simd_f32 normal_distribution(simd_f32 x)
{
  simd_f32 c = simd_min(simd_set1(5.2f), simd_max(simd_set1(-5.2f), x)), s = c * c;
  simd_f32 p = simd_fma(simd_set1(5.83048387e-6f), s, simd_set1(3.136874934e-4f));
  simd_f32 q = simd_fma(simd_set1(5.011518177e-7f), s, simd_set1(1.125123512e-4f));
  p = simd_fma(p, s, simd_set1(5.515165739e-3f));
  q = simd_fma(q, s, simd_set1(2.700523279e-3f));
  p = simd_fma(p, s, simd_set1(4.954353967e-2f));
  q = simd_fma(q, s, simd_set1(3.730993652e-2f));
  p = simd_fma(p, s, simd_set1(0.3989419238f));
  q = simd_fma(q, s, simd_set1(0.2908480799f));
  q = simd_fma(q, s, simd_set1(1.0f));
  return simd_zero_where(simd_less(x, simd_set1(-5.2f)), simd_fma(c, p / q, simd_set1(0.5f)));
}

HR_INLINE simd_f32 gelu_of(simd_f32 x)
{
  return x * normal_distribution(x);
}

HR_INLINE simd_f32 exp_for(hr_dtype dtype, simd_f32 x)
{
  return dtype == HR_FP32 ? simd_exp(x) : simd_exp_for_16_bits(x);
}

/* x (1 + tanh(u)) / 2 = x / (1 + e^(−2u)), u = sqrt(2/π) (x + 0.044715 x³). */
HR_INLINE simd_f32 gelu_tanh_of(hr_dtype dtype, simd_f32 x)
{
  simd_f32 twice = x * simd_fma(simd_set1(-2 * 0.7978845608f * 0.044715f), x * x, simd_set1(-2 * 0.7978845608f));
  return x / (1.0f + exp_for(dtype, twice));
}

/* x, or 0 below 0; NaN stays. */
HR_INLINE simd_f32 relu_of(simd_f32 x)
{
  return simd_zero_where(simd_less(x, simd_set1(0)), x);
}

/* Comparisons with a NaN are false, so that it stays. */
HR_INLINE simd_f32 at_most(simd_f32 x, simd_f32 limit)
{
  return simd_select(simd_less(limit, x), limit, x);
}

HR_INLINE simd_f32 swiglu_clamped_of(hr_dtype dtype, simd_f32 limit, simd_f32 gate, simd_f32 up)
{
  const simd_f32 g = at_most(gate, limit), u = -at_most(-at_most(up, limit), limit);
  return g / (1.0f + exp_for(dtype, g * -1.702f)) * (u + 1.0f);
}

HR_INLINE simd_f32 element_of(hr_dtype dtype, hr_rowwise_operation operation, simd_f32 factor, simd_f32 x, simd_f32 z)
{
  switch (operation) {
  case HR_ROWWISE_GELU: return gelu_of(x);
  case HR_ROWWISE_GELU_TANH: return gelu_tanh_of(dtype, x);
  case HR_ROWWISE_RELU: return relu_of(x);
  case HR_ROWWISE_RELU2: return relu_of(x) * relu_of(x);
  case HR_ROWWISE_SWIGLU: return x / (1.0f + exp_for(dtype, -x)) * z;
  case HR_ROWWISE_GEGLU: return gelu_of(x) * z;
  case HR_ROWWISE_GEGLU_TANH: return gelu_tanh_of(dtype, x) * z;
  case HR_ROWWISE_SCALE: return x * factor;
  case HR_ROWWISE_SOFTCAP: return factor * simd_tanh(x / factor);
  case HR_ROWWISE_SWIGLU_CLAMPED: return swiglu_clamped_of(dtype, factor, x, z);
  default: return x + z; /* residual */
  }
}

HR_INLINE void by_element(hr_dtype dtype, hr_rowwise_operation operation, const hr_rowwise_job *j, int64_t first,
                          int64_t last)
{
  const simd_f32 factor = simd_set1((float)(operation == HR_ROWWISE_SCALE ? j->rows->factor : hr_rowwise_cap(j->rows)));
  int64_t end = first + first_span(dtype, j->outputs[0], first, j->stream);
  for (int64_t at = first; at < last; at = end, end += SIMD_PAIR) {
    int64_t count = lesser(end, last) - at;
    simd_pair x = simd_load_span(dtype, j->inputs[0], at, count), z = x;
    if (hr_rowwise_inputs(operation) > 1)
      z = simd_load_span(dtype, j->inputs[1], at, count);
    simd_pair y = {element_of(dtype, operation, factor, x.a, z.a), element_of(dtype, operation, factor, x.b, z.b)};
    simd_store_span(dtype, j->outputs[0], at, y, count, j->stream);
  }
}

/* The pattern of 1 in a format. */
HR_INLINE uint32_t one_of(hr_dtype dtype)
{
  return dtype == HR_FP32 ? 0x3F800000 : dtype == HR_FP16 ? 0x3C00 : 0x3F80;
}

/* Writes 1 for elements that stay and 0 for dropped ones, in the format of x, so that they come into vectors in the
 * same order as x. */
HR_INLINE void keep_mask(hr_dtype dtype, const hr_rowwise_job *j, int64_t block, int64_t dropped, void *keep)
{
  uint16_t bits[HR_DROPOUT_BLOCK], *narrow = keep;
  uint32_t *wide = keep;
  hr_dropout_bits(j->rows->seed, block, bits);
  for (int i = 0; i < HR_DROPOUT_BLOCK; i++) {
    if (dtype == HR_FP32)
      wide[i] = bits[i] < dropped ? 0 : one_of(dtype);
    else
      narrow[i] = bits[i] < dropped ? 0 : (uint16_t)one_of(dtype);
  }
}

HR_INLINE void dropout(hr_dtype dtype, const hr_rowwise_job *j, int64_t first, int64_t last)
{
  const int64_t dropped = hr_rowwise_dropped(j->rows);
  const simd_f32 scale = simd_set1(65536.0f / (float)(65536 - dropped)), half = simd_set1(0.5f);
  _Alignas(64) float keep[HR_DROPOUT_BLOCK];
  for (int64_t block = first / HR_DROPOUT_BLOCK * HR_DROPOUT_BLOCK; block < last; block += HR_DROPOUT_BLOCK) {
    const int64_t begin = first > block ? first : block, stop = lesser(block + HR_DROPOUT_BLOCK, last);
    keep_mask(dtype, j, block, dropped, keep);
    int64_t end = begin + first_span(dtype, j->outputs[0], begin, j->stream);
    for (int64_t at = begin; at < stop; at = end, end += SIMD_PAIR) {
      int64_t count = lesser(end, stop) - at;
      simd_pair x = simd_load_span(dtype, j->inputs[0], at, count), k = simd_load_span(dtype, keep, at - block, count);
      simd_pair y = {simd_zero_where(simd_less(k.a, half), x.a * scale),
                     simd_zero_where(simd_less(k.b, half), x.b * scale)};
      simd_store_span(dtype, j->outputs[0], at, y, count, j->stream);
    }
  }
}

/* ---- row by row ---- */

HR_INLINE const void *row_of(hr_dtype dtype, const void *from, int64_t row, int64_t columns)
{
  return (const char *)from + (size_t)(row * columns) * (dtype == HR_FP32 ? 4 : 2);
}

/* Visible columns of a row of a causal softmax; period 0: all. */
HR_INLINE int64_t seen_by(const hr_rowwise *r, int64_t row)
{
  int64_t seen = r->period > 0 ? row % r->period + r->columns - r->period + 1 : r->columns;
  return seen > 0 ? seen : 0;
}

HR_INLINE float largest_in(hr_dtype dtype, const void *x, int64_t seen, int64_t head)
{
  simd_pair most = {simd_set1(-INFINITY), simd_set1(-INFINITY)};
  for (int64_t at = 0, end = head; at < seen; at = end, end += SIMD_PAIR) {
    int64_t count = lesser(end, seen) - at;
    simd_pair v = simd_load_span(dtype, x, at, count);
    if (count < SIMD_PAIR)
      v = simd_fill_from(dtype, v, count, -INFINITY);
    most.a = simd_max(v.a, most.a); /* a NaN is skipped here; the sum becomes NaN */
    most.b = simd_max(v.b, most.b);
  }
  return simd_reduce_max(simd_max(most.a, most.b));
}

/* Prefetches a span that is needed soon. */
HR_INLINE void prefetch_span(hr_dtype dtype, const void *from, int64_t at)
{
  const char *elements = (const char *)from + at * (dtype == HR_FP32 ? 4 : 2);
  __builtin_prefetch(elements);
  if (sizeof(simd_f32) == 64 && dtype == HR_FP32)
    __builtin_prefetch(elements + 64);
}

/* e^(v − most), which is 1 at most. */
HR_INLINE simd_pair exponentials_of(hr_dtype dtype, simd_pair v, float most)
{
  simd_f32 a = v.a - most, b = v.b - most;
  if (dtype == HR_FP32 || SIMD_LANES < 16)
    return (simd_pair){simd_exp_negative(a), simd_exp_negative(b)};
  return (simd_pair){simd_exp_for_16_bits(a), simd_exp_for_16_bits(b)};
}

/* Writes e^(x − most) to `to`, padded with 0 to whole spans, and returns the sum. */
HR_INLINE float exponentials(hr_dtype dtype, const void *x, int64_t seen, int64_t head, float most, int64_t ahead,
                             float *to)
{
  simd_pair sum = {simd_set1(0), simd_set1(0)};
  for (int64_t at = 0, end = head; at < seen; at = end, end += SIMD_PAIR, to += SIMD_PAIR) {
    int64_t count = lesser(end, seen) - at;
    simd_pair v = simd_load_span(dtype, x, at, count), e = exponentials_of(dtype, v, most);
    prefetch_span(dtype, x, at + ahead);
    if (count < SIMD_PAIR)
      e = simd_fill_from(dtype, e, count, 0);
    simd_store_pair(HR_FP32, to, 0, e, false);
    sum.a += e.a;
    sum.b += e.b;
  }
  return simd_reduce_add(sum.a + sum.b);
}

/* The first `seen` exponentials times `scale`, and zeros behind them. */
HR_INLINE void write_exponentials(hr_dtype dtype, const float *e, int64_t seen, float scale, void *out, int64_t columns,
                                  int64_t head, bool stream)
{
  for (int64_t at = 0, end = head; at < columns; at = end, end += SIMD_PAIR, e += SIMD_PAIR) {
    simd_pair y = {simd_set1(0), simd_set1(0)};
    if (at < seen) {
      y = simd_load_pair(HR_FP32, e, 0);
      y = (simd_pair){y.a * scale, y.b * scale};
    }
    simd_store_span(dtype, out, at, y, lesser(end, columns) - at, stream);
  }
}

/* Whether all rows have the same alignment and length, so that one loop can handle several of them. */
HR_INLINE bool can_pipeline(hr_dtype dtype, const hr_rowwise_job *j)
{
  size_t row = (size_t)j->rows->columns * (dtype == HR_FP32 ? 4 : 2);
  return j->rows->period == 0 && (!j->stream || row % sizeof(simd_f32) == 0);
}

/* Maximum and sum of a softmax row. */
typedef struct softmax_row {
  float most, sum;
} softmax_row;

/* One loop over three rows: it finds the maximum of `next`, replaces the previous row's exponentials in `scratch` by
 * those of `x`, whose maximum is `most`, and writes the previous row's to `out`. So memory is read and written while
 * the processor computes. */
HR_INLINE softmax_row softmax_pipelined(hr_dtype dtype, const void *next, const void *x, float most, float *scratch,
                                        float scale, void *out, int64_t columns, int64_t head, bool stream)
{
  simd_pair sum = {simd_set1(0), simd_set1(0)}, largest = {simd_set1(-INFINITY), simd_set1(-INFINITY)};
  for (int64_t at = 0, end = head; at < columns; at = end, end += SIMD_PAIR, scratch += SIMD_PAIR) {
    int64_t count = lesser(end, columns) - at;
    simd_pair y = simd_load_pair(HR_FP32, scratch, 0), v = simd_load_span(dtype, x, at, count);
    simd_pair w = simd_load_span(dtype, next, at, count);
    simd_pair e = exponentials_of(dtype, v, most);
    prefetch_span(dtype, next, at + AHEAD);
    if (count < SIMD_PAIR) {
      e = simd_fill_from(dtype, e, count, 0);
      w = simd_fill_from(dtype, w, count, -INFINITY);
    }
    y = (simd_pair){y.a * scale, y.b * scale};
    simd_store_pair(HR_FP32, scratch, 0, e, false);
    simd_store_span(dtype, out, at, y, count, stream);
    sum.a += e.a;
    sum.b += e.b;
    largest.a = simd_max(w.a, largest.a);
    largest.b = simd_max(w.b, largest.b);
  }
  return (softmax_row){simd_reduce_max(simd_max(largest.a, largest.b)), simd_reduce_add(sum.a + sum.b)};
}

/* Computes the first row's exponentials, then those of the next row in each loop. */
HR_INLINE void softmax_rows_pipelined(hr_dtype dtype, const hr_rowwise_job *j, int64_t first, int64_t last,
                                      float *scratch)
{
  const int64_t columns = j->rows->columns;
  const void *x = row_of(dtype, j->inputs[0], first, columns);
  void *out = (void *)(uintptr_t)row_of(dtype, j->outputs[0], first, columns);
  const int64_t head = first_span(dtype, out, 0, j->stream);
  softmax_row now = {largest_in(dtype, x, columns, head), 0};
  now.sum = exponentials(dtype, x, columns, head, now.most, 0, scratch);
  if (first + 1 < last)
    now.most = largest_in(dtype, row_of(dtype, j->inputs[0], first + 1, columns), columns, head);
  for (int64_t row = first + 1; row < last; row++) {
    x = row_of(dtype, j->inputs[0], row, columns);
    const void *next = row_of(dtype, j->inputs[0], lesser(row + 1, last - 1), columns);
    now = softmax_pipelined(dtype, next, x, now.most, scratch, 1 / now.sum, out, columns, head, j->stream);
    out = (void *)(uintptr_t)row_of(dtype, j->outputs[0], row, columns);
  }
  write_exponentials(dtype, scratch, columns, 1 / now.sum, out, columns, head, j->stream);
}

HR_INLINE void softmax(hr_dtype dtype, const hr_rowwise_job *j, int64_t first, int64_t last, float *scratch)
{
  const int64_t columns = j->rows->columns;
  if (can_pipeline(dtype, j) && first < last) {
    softmax_rows_pipelined(dtype, j, first, last, scratch);
    return;
  }
  for (int64_t row = first; row < last; row++) {
    const void *x = row_of(dtype, j->inputs[0], row, columns);
    void *out = (void *)(uintptr_t)row_of(dtype, j->outputs[0], row, columns);
    const int64_t seen = seen_by(j->rows, row), head = first_span(dtype, out, 0, j->stream);
    float most = largest_in(dtype, x, seen, head);
    float scale = 1 / exponentials(dtype, x, seen, head, most, columns, scratch);
    write_exponentials(dtype, scratch, seen, scale, out, columns, head, j->stream);
  }
}

/* Writes the row as floats to `to` and returns its sum, or with `squares` that of its squares. */
HR_INLINE float widen_and_sum(hr_dtype dtype, const void *x, int64_t columns, int64_t head, bool squares, float *to)
{
  simd_pair sum = {simd_set1(0), simd_set1(0)};
  for (int64_t at = 0, end = head; at < columns; at = end, end += SIMD_PAIR, to += SIMD_PAIR) {
    simd_pair v = simd_load_span(dtype, x, at, lesser(end, columns) - at); /* 0 beyond the end */
    simd_store_pair(HR_FP32, to, 0, v, false);
    sum.a = squares ? simd_fma(v.a, v.a, sum.a) : sum.a + v.a;
    sum.b = squares ? simd_fma(v.b, v.b, sum.b) : sum.b + v.b;
  }
  return simd_reduce_add(sum.a + sum.b);
}

HR_INLINE float squares_around(hr_dtype dtype, const float *x, int64_t columns, int64_t head, float mean)
{
  simd_pair sum = {simd_set1(0), simd_set1(0)};
  for (int64_t at = 0, end = head; at < columns; at = end, end += SIMD_PAIR, x += SIMD_PAIR) {
    int64_t count = lesser(end, columns) - at;
    simd_pair v = simd_load_pair(HR_FP32, x, 0), d = {v.a - mean, v.b - mean};
    if (count < SIMD_PAIR)
      d = simd_fill_from(dtype, d, count, 0);
    sum.a = simd_fma(d.a, d.a, sum.a);
    sum.b = simd_fma(d.b, d.b, sum.b);
  }
  return simd_reduce_add(sum.a + sum.b);
}

/* y = (x − mean) · scale · weight + bias. */
typedef struct norm_row {
  float mean, scale;
} norm_row;

/* `sum` is the sum of the row in scratch, with `rms` the sum of its squares. */
HR_INLINE norm_row norm_of(hr_dtype dtype, bool rms, float epsilon, const float *scratch, float sum, int64_t columns,
                           int64_t head)
{
  float mean = rms ? 0 : sum / (float)columns;
  float squares = rms ? sum : squares_around(dtype, scratch, columns, head, mean);
  return (norm_row){mean, 1 / sqrtf(squares / (float)columns + epsilon)};
}

/* Writes the row in scratch. With `take`, replaces it there by `next` in the same loop, so that memory is read and
 * written at once, and returns the sum of `next`; otherwise only prefetches `next`. */
HR_INLINE float norm_pipelined(hr_dtype dtype, bool rms, const hr_rowwise_job *j, norm_row how, bool take,
                               const void *next, void *out, int64_t head, float *scratch)
{
  const int64_t columns = j->rows->columns;
  simd_pair sum = {simd_set1(0), simd_set1(0)};
  for (int64_t at = 0, end = head; at < columns; at = end, end += SIMD_PAIR, scratch += SIMD_PAIR) {
    int64_t count = lesser(end, columns) - at;
    simd_pair x = simd_load_pair(HR_FP32, scratch, 0), weight = simd_load_span(dtype, j->inputs[1], at, count);
    simd_pair y = {(x.a - how.mean) * how.scale, (x.b - how.mean) * how.scale}, bias = {simd_set1(0), simd_set1(0)};
    if (!rms)
      bias = simd_load_span(dtype, j->inputs[2], at, count);
    y = (simd_pair){simd_fma(y.a, weight.a, bias.a), simd_fma(y.b, weight.b, bias.b)};
    prefetch_span(dtype, next, at + (take ? AHEAD : 0));
    if (take) {
      simd_pair v = simd_load_span(dtype, next, at, count); /* 0 beyond the end */
      simd_store_pair(HR_FP32, scratch, 0, v, false);
      sum.a = rms ? simd_fma(v.a, v.a, sum.a) : sum.a + v.a;
      sum.b = rms ? simd_fma(v.b, v.b, sum.b) : sum.b + v.b;
    }
    simd_store_span(dtype, out, at, y, count, j->stream);
  }
  return simd_reduce_add(sum.a + sum.b);
}

HR_INLINE void norm(hr_dtype dtype, bool rms, const hr_rowwise_job *j, int64_t first, int64_t last, float *scratch)
{
  const int64_t columns = j->rows->columns;
  const bool pipelined = can_pipeline(dtype, j);
  const float epsilon = (float)hr_rowwise_epsilon(j->rows);
  float sum = 0;
  for (int64_t i = first; i < last; i++) {
    void *out = (void *)(uintptr_t)row_of(dtype, j->outputs[0], i, columns);
    const int64_t head = first_span(dtype, out, 0, j->stream);
    const void *next = row_of(dtype, j->inputs[0], i + 1, columns);
    if (i == first || !pipelined)
      sum = widen_and_sum(dtype, row_of(dtype, j->inputs[0], i, columns), columns, head, rms, scratch);
    norm_row how = norm_of(dtype, rms, epsilon, scratch, sum, columns, head);
    if (pipelined && i + 1 < last)
      sum = norm_pipelined(dtype, rms, j, how, true, next, out, head, scratch);
    else
      norm_pipelined(dtype, rms, j, how, false, next, out, head, scratch);
  }
}

/* Row `row` of x, which may have strides. */
HR_INLINE const void *x_of(hr_dtype dtype, const hr_rowwise_job *j, int64_t row)
{
  return (const char *)j->inputs[0] + (size_t)hr_rowwise_x_at(j->rows, row) * (dtype == HR_FP32 ? 4 : 2);
}

HR_INLINE void *y_of(hr_dtype dtype, const hr_rowwise_job *j, int64_t row)
{
  return (char *)j->outputs[0] + (size_t)hr_rowwise_y_at(j->rows, row) * (dtype == HR_FP32 ? 4 : 2);
}

HR_INLINE void copy_span(hr_dtype dtype, const void *x, int64_t first, int64_t last, void *out)
{
  for (int64_t at = first; at < last; at += SIMD_PAIR) {
    int64_t count = lesser(SIMD_PAIR, last - at);
    simd_store_span(dtype, out, at, simd_load_span(dtype, x, at, count), count, false);
  }
}

HR_INLINE float number_at(hr_dtype dtype, const void *x, int64_t at)
{
  return simd_load_span(dtype, x, at, 1).a[0];
}

/* A row is multiplied by the sigmoid of its gate, or by the share of its softmax that is not the sink's. */
HR_INLINE float share_of(hr_dtype dtype, hr_rowwise_operation operation, const hr_rowwise_job *j, int64_t row)
{
  const hr_rowwise *r = j->rows;
  const float *lse = j->inputs[1], *sinks = j->inputs[2];
  const float exponent = operation == HR_ROWWISE_GATE ? -number_at(dtype, j->inputs[1], row)
                                                      : sinks[row % r->group] - lse[hr_rowwise_lse_at(r, row)];
  return 1 / (1 + expf(exponent));
}

HR_INLINE void share_rows(hr_dtype dtype, hr_rowwise_operation operation, const hr_rowwise_job *j, int64_t first,
                          int64_t last)
{
  const int64_t columns = j->rows->columns;
  for (int64_t row = first; row < last; row++) {
    const void *x = row_of(dtype, j->inputs[0], row, columns);
    void *out = (void *)(uintptr_t)row_of(dtype, j->outputs[0], row, columns);
    const simd_f32 share = simd_set1(share_of(dtype, operation, j, row));
    for (int64_t at = 0; at < columns; at += SIMD_PAIR) {
      const int64_t count = lesser(SIMD_PAIR, columns - at);
      simd_pair v = simd_load_span(dtype, x, at, count);
      simd_store_span(dtype, out, at, (simd_pair){v.a * share, v.b * share}, count, false);
    }
  }
}

/* Sums of rows of a table, each with its weight; without weights all have 1. A negative number is no row. One function
 * of a dtype for both. */
static __attribute__((noinline)) void combine(hr_dtype dtype, const hr_rowwise_job *j, int64_t first, int64_t last)
{
  const int64_t columns = j->rows->columns, terms = j->rows->group;
  for (int64_t row = first; row < last; row++) {
    const int32_t *numbers = (const int32_t *)j->inputs[0] + row * terms;
    const float *weights = j->inputs[2] ? (const float *)j->inputs[2] + row * terms : NULL;
    void *out = (void *)(uintptr_t)row_of(dtype, j->outputs[0], row, columns);
    for (int64_t at = 0; at < columns; at += SIMD_PAIR) {
      const int64_t count = lesser(SIMD_PAIR, columns - at);
      simd_pair sum = {simd_set1(0), simd_set1(0)};
      for (int64_t term = 0; term < terms; term++) {
        if (numbers[term] < 0)
          continue;
        const void *x = row_of(dtype, j->inputs[1], numbers[term], columns);
        simd_pair v = simd_load_span(dtype, x, at, count);
        const simd_f32 weight = simd_set1(weights ? weights[term] : 1);
        sum.a = simd_fma(v.a, weight, sum.a);
        sum.b = simd_fma(v.b, weight, sum.b);
      }
      simd_store_span(dtype, out, at, sum, count, false);
    }
  }
}

/* x plus a bias, or times a weight. */
HR_INLINE simd_pair with_row(hr_rowwise_operation operation, simd_pair x, simd_pair z)
{
  if (operation == HR_ROWWISE_WEIGHT)
    return (simd_pair){x.a * z.a, x.b * z.b};
  return (simd_pair){x.a + z.a, x.b + z.b};
}

/* Rows of x, of x with a bias or a weight, or of a table: zeros for a negative number. */
HR_INLINE void move_rows(hr_dtype dtype, hr_rowwise_operation operation, const hr_rowwise_job *j, int64_t first,
                         int64_t last)
{
  const int64_t columns = j->rows->columns;
  const int32_t *numbers = j->inputs[0];
  for (int64_t row = first; row < last; row++) {
    void *out = y_of(dtype, j, row);
    if (operation == HR_ROWWISE_GATHER && numbers[row] < 0) {
      memset(out, 0, (size_t)columns * hr_dtype_bytes(dtype));
      continue;
    }
    const void *x =
        operation == HR_ROWWISE_GATHER ? row_of(dtype, j->inputs[1], numbers[row], columns) : x_of(dtype, j, row);
    if (operation != HR_ROWWISE_BIAS && operation != HR_ROWWISE_WEIGHT) {
      copy_span(dtype, x, 0, columns, out);
      continue;
    }
    for (int64_t at = 0; at < columns; at += SIMD_PAIR) {
      int64_t count = lesser(SIMD_PAIR, columns - at);
      simd_pair v = simd_load_span(dtype, x, at, count), b = simd_load_span(dtype, j->inputs[1], at, count);
      simd_store_span(dtype, out, at, with_row(operation, v, b), count, false);
    }
  }
}

/* SIMD_LANES elements; a pair of vectors has those of bf16 in another order. */
HR_INLINE simd_f32 in_order(hr_dtype dtype, const void *x, int64_t at)
{
  simd_u32 words;
  if (dtype == HR_FP32)
    return simd_load((const float *)x + at);
  if (dtype == HR_FP16)
    return simd_f32_from_fp16(simd_load_u16((const uint16_t *)x + at));
  for (int i = 0; i < SIMD_LANES; i++)
    words[i] = (uint32_t)((const uint16_t *)x)[at + i] << 16;
  return (simd_f32)words;
}

/* Neighbours in a pair of vectors: in bf16 one vector has the even elements, and the other the odd ones. */
HR_INLINE simd_pair rotated_neighbours(hr_dtype dtype, simd_pair x, simd_f32 c, simd_f32 s)
{
  simd_pair y;
  const float *from = (const float *)&x;
  float *to = (float *)&y;
  if (dtype == HR_BF16)
    return (simd_pair){simd_fma(x.a, c, -(x.b * s)), simd_fma(x.b, c, x.a * s)};
  for (int i = 0; i < SIMD_LANES; i++) {
    to[2 * i] = from[2 * i] * c[i] - from[2 * i + 1] * s[i];
    to[2 * i + 1] = from[2 * i + 1] * c[i] + from[2 * i] * s[i];
  }
  return y;
}

/* Columns 2i and 2i + 1, the last ones pair by pair. */
HR_INLINE void rotate_neighbours(hr_dtype dtype, const void *x, const void *table, int64_t half, void *out)
{
  int64_t i = 0;
  for (; i + SIMD_LANES <= half; i += SIMD_LANES) {
    simd_f32 c = in_order(dtype, table, i), s = in_order(dtype, table, half + i);
    simd_store_pair(dtype, out, 2 * i, rotated_neighbours(dtype, simd_load_pair(dtype, x, 2 * i), c, s), false);
  }
  for (; i < half; i++) {
    float u = number_at(dtype, x, 2 * i), v = number_at(dtype, x, 2 * i + 1);
    float c = number_at(dtype, table, i), s = number_at(dtype, table, half + i);
    simd_pair left = {simd_set1(u * c - v * s), simd_set1(0)}, right = {simd_set1(v * c + u * s), simd_set1(0)};
    simd_store_span(dtype, out, 2 * i, left, 1, false);
    simd_store_span(dtype, out, 2 * i + 1, right, 1, false);
  }
}

/* Columns i and half + i. `back`: by the opposite angle. */
HR_INLINE void rotate_halves(hr_dtype dtype, bool back, const void *x, const void *table, int64_t half, void *out,
                             bool stream)
{
  for (int64_t at = 0; at < half; at += SIMD_PAIR) {
    int64_t count = lesser(SIMD_PAIR, half - at);
    simd_pair u = simd_load_span(dtype, x, at, count), v = simd_load_span(dtype, x, half + at, count);
    simd_pair c = simd_load_span(dtype, table, at, count), s = simd_load_span(dtype, table, half + at, count);
    if (back)
      s = (simd_pair){-s.a, -s.b};
    prefetch_span(dtype, x, at + AHEAD);
    prefetch_span(dtype, x, half + at + AHEAD);
    simd_pair left = {simd_fma(u.a, c.a, -(v.a * s.a)), simd_fma(u.b, c.b, -(v.b * s.b))};
    simd_pair right = {simd_fma(v.a, c.a, u.a * s.a), simd_fma(v.b, c.b, u.b * s.b)};
    simd_store_span(dtype, out, at, left, count, stream);
    simd_store_span(dtype, out, half + at, right, count, stream);
  }
}

/* One function of a dtype for both directions: 30 KB less. */
static __attribute__((noinline)) void rotary(hr_dtype dtype, const hr_rowwise_job *j, int64_t first, int64_t last)
{
  const hr_rowwise *r = j->rows;
  const bool back = r->operation == HR_ROWWISE_ROTARY_BACKWARD;
  const int64_t columns = r->columns, rotated = hr_rowwise_rotated(r), half = rotated / 2;
  const size_t element = dtype == HR_FP32 ? 4 : 2;
  const bool whole_lines =
                 (size_t)half * element % sizeof(simd_f32) == 0 && (uintptr_t)j->outputs[0] % sizeof(simd_f32) == 0,
             stream = j->stream && whole_lines && rotated == columns && r->y_stride == 0;
  for (int64_t row = first; row < last; row++) {
    const void *x = x_of(dtype, j, row);
    const void *table = row_of(dtype, j->inputs[1], row / r->group % r->period, rotated);
    void *out = y_of(dtype, j, row);
    copy_span(dtype, x, rotated, columns, out);
    if (r->interleaved)
      rotate_neighbours(dtype, x, table, half, out);
    else
      rotate_halves(dtype, back, x, table, half, out, stream);
  }
}

/* Columns of x before a part that is rotated. */
HR_INLINE void join_rotated(hr_dtype dtype, const hr_rowwise_job *j, int64_t first, int64_t last)
{
  const hr_rowwise *r = j->rows;
  const size_t element = dtype == HR_FP32 ? 4 : 2;
  const int64_t before = hr_rowwise_x_columns(r);
  for (int64_t row = first; row < last; row++) {
    const void *part = (const char *)j->inputs[1] + (size_t)hr_rowwise_z_at(r, row) * element;
    const void *table = row_of(dtype, j->inputs[2], row / r->group % r->period, r->rotated);
    char *out = (char *)(uintptr_t)row_of(dtype, j->outputs[0], row, r->columns);
    copy_span(dtype, x_of(dtype, j, row), 0, before, out);
    if (r->interleaved)
      rotate_neighbours(dtype, part, table, r->rotated / 2, out + (size_t)before * element);
    else
      rotate_halves(dtype, false, part, table, r->rotated / 2, out + (size_t)before * element, false);
  }
}

#include "runtime/cpu/rowwise/rowwise_backward_body.h"
#include "runtime/cpu/rowwise/rowwise_fused_body.h"

/* ---- the table ---- */

HR_INLINE void run_forward(hr_rowwise_operation operation, hr_dtype dtype, const hr_rowwise_job *j, int64_t first,
                           int64_t last, float *scratch)
{
  if (operation == HR_ROWWISE_SOFTMAX)
    softmax(dtype, j, first, last, scratch);
  else if (operation == HR_ROWWISE_LAYER_NORM || operation == HR_ROWWISE_RMS_NORM)
    norm(dtype, operation == HR_ROWWISE_RMS_NORM, j, first, last, scratch);
  else if (operation == HR_ROWWISE_ROTARY)
    rotary(dtype, j, first, last);
  else if (operation == HR_ROWWISE_ROTARY_JOIN)
    join_rotated(dtype, j, first, last);
  else if (operation == HR_ROWWISE_DROPOUT)
    dropout(dtype, j, first, last);
  else if (operation == HR_ROWWISE_COPY || operation == HR_ROWWISE_BIAS || operation == HR_ROWWISE_GATHER ||
           operation == HR_ROWWISE_WEIGHT)
    move_rows(dtype, operation, j, first, last);
  else if (operation == HR_ROWWISE_GATE || operation == HR_ROWWISE_SINK)
    share_rows(dtype, operation, j, first, last);
  else if (operation == HR_ROWWISE_COMBINE)
    combine(dtype, j, first, last);
  else
    by_element(dtype, operation, j, first, last);
}

HR_INLINE void run_rows(hr_rowwise_operation operation, hr_dtype dtype, const hr_rowwise_job *j, int64_t first,
                        int64_t last, float *scratch)
{
  if (j->phase == HR_ROWWISE_SUMS)
    run_sums(operation, dtype, j, first, last);
  else if (!run_backward(operation, dtype, j, first, last, scratch) &&
           !run_fused(operation, dtype, j, first, last, scratch))
    run_forward(operation, dtype, j, first, last, scratch);
  if (j->stream)
    simd_stream_fence();
}

#define OPERATION(enumerator, name, inputs, sentence) \
  VARIANT(enumerator, HR_FP32) VARIANT(enumerator, HR_FP16) VARIANT(enumerator, HR_BF16)

#define VARIANT(operation, dtype)                                                                             \
  static void run_##operation##_##dtype(const hr_rowwise_job *j, int64_t first, int64_t last, float *scratch) \
  {                                                                                                           \
    run_rows(operation, dtype, j, first, last, scratch);                                                      \
  }
HR_ROWWISE_LIST(OPERATION)
#undef VARIANT

hr_rowwise_table ROWWISE_TABLE = {
#define VARIANT(operation, dtype) [operation][dtype] = run_##operation##_##dtype,
    HR_ROWWISE_LIST(OPERATION)
#undef VARIANT
};
