/* SPDX-License-Identifier: Apache-2.0 */
/* Template: gradients of row-wise operations, the loss and the optimizer, part of rowwise_body.h.
 *
 * Bound: memory bandwidth. Inputs are read from memory once: the passes over a row behind the first find it in L1 or
 * L2. A part of the rows adds its sums over them in `sums`, pairs of vectors as they are loaded; a second phase adds
 * those of the parts in order. So the bits do not depend on which thread took which part. */

/* Rows and results that are whole vectors are streamed; spans begin at column 0. */
HR_INLINE bool streams_rows(hr_dtype dtype, const hr_rowwise_job *j, const void *out)
{
  const size_t row = (size_t)j->rows->columns * (dtype == HR_FP32 ? 4 : 2);
  return j->stream && row % sizeof(simd_f32) == 0 && (uintptr_t)out % sizeof(simd_f32) == 0;
}

HR_INLINE simd_pair times(simd_pair x, simd_pair y)
{
  return (simd_pair){x.a * y.a, x.b * y.b};
}

HR_INLINE void add_product(simd_pair *sum, simd_pair x, simd_pair y)
{
  sum->a = simd_fma(x.a, y.a, sum->a);
  sum->b = simd_fma(x.b, y.b, sum->b);
}

HR_INLINE float total(simd_pair sum)
{
  return simd_reduce_add(sum.a + sum.b);
}

/* ---- element by element ---- */

/* Φ(x) + x φ(x). */
HR_INLINE simd_f32 gelu_slope(hr_dtype dtype, simd_f32 x)
{
  const simd_f32 exponent = x * x * -0.5f;
  const simd_f32 e = dtype == HR_FP32 ? simd_exp_negative(exponent) : simd_exp_for_16_bits(exponent);
  return normal_distribution(x) + x * e * 0.3989422804f;
}

/* The activation is x s, where s is 1 / (1 + e^(−2u)). */
HR_INLINE simd_f32 gelu_tanh_slope(hr_dtype dtype, simd_f32 x)
{
  const float root = 0.7978845608f, cubic = 0.044715f;
  const simd_f32 twice = x * simd_fma(simd_set1(-2 * root * cubic), x * x, simd_set1(-2 * root));
  const simd_f32 s = 1.0f / (1.0f + exp_for(dtype, twice));
  return simd_fma(x * s * (1.0f - s), simd_fma(simd_set1(6 * root * cubic), x * x, simd_set1(2 * root)), s);
}

HR_INLINE simd_f32 zero_below(simd_f32 x, simd_f32 value)
{
  return simd_zero_where(simd_less(x, simd_set1(0x1p-149f)), value);
}

/* The gradient of an activation of x whose own is dy. */
HR_INLINE simd_f32 gradient_of(hr_dtype dtype, hr_rowwise_operation operation, simd_f32 factor, simd_f32 dy, simd_f32 x)
{
  simd_f32 t;
  switch (operation) {
  case HR_ROWWISE_RELU_BACKWARD: return zero_below(x, dy);
  case HR_ROWWISE_RELU2_BACKWARD: return zero_below(x, 2.0f * dy * x);
  case HR_ROWWISE_SOFTCAP_BACKWARD: t = simd_tanh(x / factor); return dy * (1.0f - t * t);
  case HR_ROWWISE_GELU_TANH_BACKWARD:
  case HR_ROWWISE_GEGLU_TANH_BACKWARD: return dy * gelu_tanh_slope(dtype, x);
  default: return dy * gelu_slope(dtype, x);
  }
}

HR_INLINE void activation_backward(hr_dtype dtype, hr_rowwise_operation operation, const hr_rowwise_job *j,
                                   int64_t first, int64_t last)
{
  const simd_f32 factor = simd_set1((float)hr_rowwise_cap(j->rows));
  int64_t end = first + first_span(dtype, j->outputs[0], first, j->stream);
  for (int64_t at = first; at < last; at = end, end += SIMD_PAIR) {
    const int64_t count = lesser(end, last) - at;
    simd_pair dy = simd_load_span(dtype, j->inputs[0], at, count), x = simd_load_span(dtype, j->inputs[1], at, count);
    simd_pair dx = {gradient_of(dtype, operation, factor, dy.a, x.a), gradient_of(dtype, operation, factor, dy.b, x.b)};
    simd_store_span(dtype, j->outputs[0], at, dx, count, j->stream);
  }
}

typedef struct gated_gradients {
  simd_f32 gate, up;
} gated_gradients;

HR_INLINE gated_gradients gated_gradients_of(hr_dtype dtype, hr_rowwise_operation operation, simd_f32 dy, simd_f32 gate,
                                             simd_f32 up)
{
  if (operation == HR_ROWWISE_GEGLU_BACKWARD)
    return (gated_gradients){up * dy * gelu_slope(dtype, gate), dy * gelu_of(gate)};
  if (operation == HR_ROWWISE_GEGLU_TANH_BACKWARD)
    return (gated_gradients){up * dy * gelu_tanh_slope(dtype, gate), dy * gelu_tanh_of(dtype, gate)};
  const simd_f32 s = 1.0f / (1.0f + (dtype == HR_FP32 ? simd_exp(-gate) : simd_exp_for_16_bits(-gate)));
  return (gated_gradients){dy * up * s * (1.0f + gate * (1.0f - s)), dy * gate * s};
}

/* Both results are streamed if both begin at a vector. */
HR_INLINE void gated_backward(hr_dtype dtype, hr_rowwise_operation operation, const hr_rowwise_job *j, int64_t first,
                              int64_t last)
{
  const bool stream = j->stream && ((uintptr_t)j->outputs[0] | (uintptr_t)j->outputs[1]) % sizeof(simd_f32) == 0;
  for (int64_t at = first; at < last; at += SIMD_PAIR) {
    const int64_t count = lesser(SIMD_PAIR, last - at);
    simd_pair dy = simd_load_span(dtype, j->inputs[0], at, count), x = simd_load_span(dtype, j->inputs[1], at, count);
    simd_pair up = simd_load_span(dtype, j->inputs[2], at, count);
    gated_gradients a = gated_gradients_of(dtype, operation, dy.a, x.a, up.a),
                    b = gated_gradients_of(dtype, operation, dy.b, x.b, up.b);
    simd_store_span(dtype, j->outputs[0], at, (simd_pair){a.gate, b.gate}, count, stream);
    simd_store_span(dtype, j->outputs[1], at, (simd_pair){a.up, b.up}, count, stream);
  }
}

/* ---- AdamW: vectors in the order of memory ---- */

HR_INLINE simd_f32 load_in_order(hr_dtype dtype, const void *from, int64_t at)
{
  if (dtype == HR_FP32)
    return simd_load((const float *)from + at);
  const simd_u16 elements = simd_load_u16((const uint16_t *)from + at);
  return dtype == HR_BF16 ? simd_f32_from_bf16(elements) : simd_f32_from_fp16(elements);
}

HR_INLINE void store_in_order(hr_dtype dtype, void *to, int64_t at, simd_f32 v, bool stream)
{
  simd_u16 elements = dtype == HR_BF16 ? simd_bf16_from_f32(v) : simd_fp16_from_f32(v);
  simd_put_u16((uint16_t *)to + at, elements, stream);
}

/* Squares of the gradient in one order: the norm that clips it is of their sum. */
HR_INLINE void gradient_squares(hr_dtype dtype, const hr_rowwise_job *j, int64_t first, int64_t last)
{
  simd_pair sum = {simd_set1(0), simd_set1(0)};
  for (int64_t at = first; at < last; at += SIMD_PAIR) {
    simd_pair g = simd_load_span(dtype, j->inputs[0], at, lesser(SIMD_PAIR, last - at));
    add_product(&sum, g, g);
  }
  j->sums[0] = total(sum);
}

typedef struct adamw_state {
  simd_f32 weight, mean, variance;
} adamw_state;

HR_INLINE adamw_state adamw_step(const hr_adamw *w, simd_f32 gradient, adamw_state s)
{
  const simd_f32 mean = simd_fma(simd_set1((float)w->beta1), s.mean, (float)(1 - w->beta1) * gradient);
  const simd_f32 square = (float)(1 - w->beta2) * gradient * gradient;
  const simd_f32 variance = simd_fma(simd_set1((float)w->beta2), s.variance, square);
  const simd_f32 root = simd_fma(simd_sqrt(variance), simd_set1((float)w->root), simd_set1((float)w->epsilon));
  return (adamw_state){s.weight * (float)w->decay - (float)w->rate * mean / root, mean, variance};
}

HR_INLINE void adamw_vector(hr_dtype dtype, const hr_rowwise_job *j, const void *const *in, void *const *out,
                            int64_t at, bool stream)
{
  adamw_state s = {simd_load((const float *)in[1] + at), simd_load((const float *)in[2] + at),
                   simd_load((const float *)in[3] + at)};
  s = adamw_step(&j->adamw, load_in_order(dtype, in[0], at) * j->clip, s);
  simd_put((float *)out[0] + at, s.weight, stream);
  simd_put((float *)out[1] + at, s.mean, stream);
  simd_put((float *)out[2] + at, s.variance, stream);
  if (dtype != HR_FP32)
    store_in_order(dtype, out[3], at, s.weight, stream);
}

/* The elements that are no whole vector, by copies that are. */
HR_INLINE void adamw_rest(hr_dtype dtype, const hr_rowwise_job *j, int64_t at, int64_t count)
{
  float in[4][SIMD_LANES] = {{0}}, out[4][SIMD_LANES];
  const size_t element = dtype == HR_FP32 ? 4 : 2;
  const void *from[] = {in[0], in[1], in[2], in[3]};
  void *to[] = {out[0], out[1], out[2], out[3]};
  for (int i = 0; i < 4; i++) {
    const size_t size = i == 0 ? element : 4;
    memcpy(in[i], (const char *)j->inputs[i] + (size_t)at * size, (size_t)count * size);
  }
  adamw_vector(dtype, j, from, to, 0, false);
  for (int i = 0; i < (dtype == HR_FP32 ? 3 : 4); i++) {
    const size_t size = i == 3 ? element : 4;
    memcpy((char *)j->outputs[i] + (size_t)at * size, out[i], (size_t)count * size);
  }
}

HR_INLINE void adamw(hr_dtype dtype, const hr_rowwise_job *j, int64_t first, int64_t last)
{
  uintptr_t addresses = 0;
  for (int i = 0; i < (dtype == HR_FP32 ? 3 : 4); i++)
    addresses |= (uintptr_t)j->outputs[i];
  const bool stream = j->stream && addresses % sizeof(simd_f32) == 0;
  int64_t at = first;
  for (; at + SIMD_LANES <= last; at += SIMD_LANES)
    adamw_vector(dtype, j, j->inputs, j->outputs, at, stream);
  if (at < last)
    adamw_rest(dtype, j, at, last - at);
}

/* ---- row by row ---- */

HR_INLINE void softmax_backward(hr_dtype dtype, const hr_rowwise_job *j, int64_t first, int64_t last)
{
  const int64_t columns = j->rows->columns;
  for (int64_t row = first; row < last; row++) {
    const void *dy = row_of(dtype, j->inputs[0], row, columns), *y = row_of(dtype, j->inputs[1], row, columns);
    void *dx = (void *)(uintptr_t)row_of(dtype, j->outputs[0], row, columns);
    const int64_t seen = seen_by(j->rows, row);
    const bool stream = streams_rows(dtype, j, dx);
    simd_pair sum = {simd_set1(0), simd_set1(0)};
    for (int64_t at = 0; at < seen; at += SIMD_PAIR) {
      const int64_t count = lesser(SIMD_PAIR, seen - at);
      add_product(&sum, simd_load_span(dtype, y, at, count), simd_load_span(dtype, dy, at, count));
      prefetch_span(dtype, y, at + columns);
      prefetch_span(dtype, dy, at + columns);
    }
    const float t = total(sum);
    for (int64_t at = 0; at < columns; at += SIMD_PAIR) {
      simd_pair out = {simd_set1(0), simd_set1(0)};
      const int64_t count = lesser(SIMD_PAIR, seen - at);
      if (at < seen) {
        simd_pair d = simd_load_span(dtype, dy, at, count);
        out = times(simd_load_span(dtype, y, at, count), (simd_pair){d.a - t, d.b - t});
      }
      if (at < seen && count < SIMD_PAIR)
        out = simd_fill_from(dtype, out, count, 0);
      simd_store_span(dtype, dx, at, out, lesser(SIMD_PAIR, columns - at), stream);
    }
  }
}

/* A row of a norm: dy and x, and what its passes find. */
typedef struct norm_gradient {
  const void *dy, *x;
  float mean, scale, along, level; /* means of x, 1 / deviation, of g h and, of a layer norm, of g */
} norm_gradient;

HR_INLINE float mean_of(hr_dtype dtype, const void *x, int64_t columns)
{
  simd_pair sum = {simd_set1(0), simd_set1(0)};
  for (int64_t at = 0; at < columns; at += SIMD_PAIR) {
    simd_pair v = simd_load_span(dtype, x, at, lesser(SIMD_PAIR, columns - at));
    sum = (simd_pair){sum.a + v.a, sum.b + v.b};
  }
  return total(sum) / (float)columns;
}

HR_INLINE void find_norm_sums(hr_dtype dtype, bool rms, const hr_rowwise_job *j, norm_gradient *n)
{
  const int64_t columns = j->rows->columns;
  const simd_pair zero = {simd_set1(0), simd_set1(0)};
  simd_pair squares = zero, along = zero, level = zero;
  n->mean = rms ? 0 : mean_of(dtype, n->x, columns);
  for (int64_t at = 0; at < columns; at += SIMD_PAIR) {
    const int64_t count = lesser(SIMD_PAIR, columns - at);
    simd_pair x = simd_load_span(dtype, n->x, at, count), from = {x.a - n->mean, x.b - n->mean};
    simd_pair g = times(simd_load_span(dtype, n->dy, at, count), simd_load_span(dtype, j->inputs[2], at, count));
    if (!rms && count < SIMD_PAIR)
      from = simd_fill_from(dtype, from, count, 0);
    add_product(&squares, from, from);
    add_product(&along, g, from);
    if (!rms)
      level = (simd_pair){level.a + g.a, level.b + g.b};
  }
  n->scale = 1 / sqrtf(total(squares) / (float)columns + (float)hr_rowwise_epsilon(j->rows));
  n->along = total(along) * n->scale / (float)columns;
  n->level = rms ? 0 : total(level) / (float)columns;
}

HR_INLINE void add_to_sums(float *sums, int64_t at, simd_pair v)
{
  simd_pair sum = simd_load_pair(HR_FP32, sums, at);
  simd_store_pair(HR_FP32, sums, at, (simd_pair){sum.a + v.a, sum.b + v.b}, false);
}

/* Writes dx and adds the row to the sums; prefetches the next row. */
HR_INLINE void write_norm_gradient(hr_dtype dtype, bool rms, const hr_rowwise_job *j, const norm_gradient *n, void *dx)
{
  const int64_t columns = j->rows->columns;
  const bool stream = streams_rows(dtype, j, dx);
  float *dweight = j->sums, *dbias = j->sums + j->sums_width;
  for (int64_t at = 0; at < columns; at += SIMD_PAIR) {
    const int64_t count = lesser(SIMD_PAIR, columns - at);
    simd_pair x = simd_load_span(dtype, n->x, at, count), dy = simd_load_span(dtype, n->dy, at, count);
    simd_pair g = times(dy, simd_load_span(dtype, j->inputs[2], at, count));
    simd_pair h = {(x.a - n->mean) * n->scale, (x.b - n->mean) * n->scale};
    simd_pair out = {(g.a - n->level - h.a * n->along) * n->scale, (g.b - n->level - h.b * n->along) * n->scale};
    prefetch_span(dtype, n->x, at + columns);
    prefetch_span(dtype, n->dy, at + columns);
    add_to_sums(dweight, at, times(dy, h));
    if (!rms)
      add_to_sums(dbias, at, dy);
    simd_store_span(dtype, dx, at, out, count, stream);
  }
}

HR_INLINE void norm_backward(hr_dtype dtype, bool rms, const hr_rowwise_job *j, int64_t first, int64_t last)
{
  const int64_t columns = j->rows->columns;
  for (int64_t row = first; row < last; row++) {
    norm_gradient n = {.dy = row_of(dtype, j->inputs[0], row, columns), .x = row_of(dtype, j->inputs[1], row, columns)};
    find_norm_sums(dtype, rms, j, &n);
    write_norm_gradient(dtype, rms, j, &n, (void *)(uintptr_t)row_of(dtype, j->outputs[0], row, columns));
  }
}

HR_INLINE void bias_backward(hr_dtype dtype, const hr_rowwise_job *j, int64_t first, int64_t last)
{
  const int64_t columns = j->rows->columns;
  for (int64_t row = first; row < last; row++) {
    const void *dy = row_of(dtype, j->inputs[0], row, columns);
    for (int64_t at = 0; at < columns; at += SIMD_PAIR) {
      prefetch_span(dtype, dy, at + AHEAD);
      add_to_sums(j->sums, at, simd_load_span(dtype, dy, at, lesser(SIMD_PAIR, columns - at)));
    }
  }
}

/* Adds the sums of the parts for columns first … last − 1; the last vectors of `outputs` are their results. */
HR_INLINE void add_parts(hr_dtype dtype, const hr_rowwise_job *j, int64_t first, int64_t last)
{
  const int64_t part = j->vectors * j->sums_width;
  for (int vector = 0; vector < j->vectors; vector++)
    for (int64_t at = first; at < last; at += SIMD_PAIR) {
      const float *sums = j->sums + vector * j->sums_width;
      simd_pair sum = simd_load_pair(HR_FP32, sums, at);
      for (int64_t i = 1; i < j->parts; i++) {
        simd_pair v = simd_load_pair(HR_FP32, sums + i * part, at);
        sum = (simd_pair){sum.a + v.a, sum.b + v.b};
      }
      simd_store_span(dtype, j->outputs[j->first_vector + vector], at, sum, lesser(SIMD_PAIR, last - at), false);
    }
}

/* ---- the loss ---- */

/* Where exponentials() leaves the exponential of a column. */
HR_INLINE int64_t place_in_scratch(hr_dtype dtype, int64_t column, int64_t head)
{
  const int64_t span = column < head ? 0 : 1 + (column - head) / SIMD_PAIR;
  const int64_t in = column < head ? column : (column - head) % SIMD_PAIR;
  return span * SIMD_PAIR + (dtype == HR_BF16 ? in % 2 * SIMD_LANES + in / 2 : in);
}

/* One function of a dtype for the loss with its gradient and without: 25 KB less. */
static __attribute__((noinline)) void cross_entropy(hr_dtype dtype, const hr_rowwise_job *j, int64_t first,
                                                    int64_t last, float *scratch)
{
  const bool gradient = j->rows->operation == HR_ROWWISE_CROSS_ENTROPY_BACKWARD;
  const int64_t columns = j->rows->columns;
  const float scale = j->rows->scale == 0 ? 1 : (float)j->rows->scale;
  float *losses = j->outputs[gradient ? 1 : 0];
  for (int64_t row = first; row < last; row++) {
    const void *x = row_of(dtype, j->inputs[0], row, columns);
    void *dx = (void *)(uintptr_t)row_of(dtype, j->outputs[0], row, columns);
    const int64_t head = gradient ? first_span(dtype, dx, 0, j->stream) : SIMD_PAIR;
    const int32_t target = ((const int32_t *)j->inputs[1])[row];
    const bool counts = target >= 0 && target < columns;
    float most = 0, sum = 1, logit = 0;
    if (counts) {
      logit = simd_load_partial(dtype, x, target, 1).a[0];
      most = largest_in(dtype, x, columns, head);
      sum = exponentials(dtype, x, columns, head, most, columns, scratch);
      scratch[place_in_scratch(dtype, target, head)] -= sum;
    }
    losses[row] = counts ? most + logf(sum) - logit : 0;
    if (gradient)
      write_exponentials(dtype, scratch, counts ? columns : 0, scale / sum, dx, columns, head, j->stream);
  }
}

/* ---- rows of a table ---- */

/* What sums are added to, in all rows of the table, unless it is there already. */
HR_INLINE void begin_table(hr_dtype dtype, const hr_rowwise_job *j, int64_t first, int64_t last)
{
  const size_t row = (size_t)j->rows->columns * (dtype == HR_FP32 ? 4 : 2);
  const size_t from = (size_t)first * row, bytes = (size_t)(last - first) * row;
  if (j->rows->factor == 0)
    memset((char *)j->outputs[0] + from, 0, bytes);
  else if (j->outputs[0] != j->inputs[2])
    memcpy((char *)j->outputs[0] + from, (const char *)j->inputs[2] + from, bytes);
}

HR_INLINE bool occurs_before(const int32_t *numbers, int64_t row)
{
  bool found = false;
  for (int64_t i = 0; i < row && !found; i++)
    found = numbers[i] == numbers[row];
  return found;
}

/* The first row of each number adds all of them up, in order. */
HR_INLINE void gather_backward(hr_dtype dtype, const hr_rowwise_job *j, int64_t first, int64_t last, float *sums)
{
  const int64_t columns = j->rows->columns;
  const int32_t *numbers = j->inputs[0];
  for (int64_t row = first; row < last; row++) {
    void *to = (void *)(uintptr_t)row_of(dtype, j->outputs[0], numbers[row], columns);
    if (occurs_before(numbers, row))
      continue;
    for (int64_t at = 0; at < columns; at += SIMD_PAIR)
      simd_store_pair(HR_FP32, sums, at, simd_load_span(dtype, to, at, lesser(SIMD_PAIR, columns - at)), false);
    for (int64_t i = row; i < j->rows->rows; i++) {
      if (numbers[i] != numbers[row])
        continue;
      for (int64_t at = 0; at < columns; at += SIMD_PAIR)
        add_to_sums(
            sums, at,
            simd_load_span(dtype, row_of(dtype, j->inputs[1], i, columns), at, lesser(SIMD_PAIR, columns - at)));
    }
    for (int64_t at = 0; at < columns; at += SIMD_PAIR)
      simd_store_span(dtype, to, at, simd_load_pair(HR_FP32, sums, at), lesser(SIMD_PAIR, columns - at), false);
  }
}

/* ---- rows with a factor ---- */

/* Writes dx = dy factor; returns the sum of x dy. One function of a dtype for both operations. */
static __attribute__((noinline)) float scale_row(hr_dtype dtype, const void *dy, const void *x, float factor, void *dx,
                                                 int64_t columns)
{
  simd_pair sum = {simd_set1(0), simd_set1(0)};
  for (int64_t at = 0; at < columns; at += SIMD_PAIR) {
    const int64_t count = lesser(SIMD_PAIR, columns - at);
    simd_pair d = simd_load_span(dtype, dy, at, count);
    add_product(&sum, d, simd_load_span(dtype, x, at, count));
    simd_store_span(dtype, dx, at, (simd_pair){d.a * factor, d.b * factor}, count, false);
  }
  return total(sum);
}

HR_INLINE void combine_backward(hr_dtype dtype, const hr_rowwise_job *j, int64_t first, int64_t last)
{
  const int64_t columns = j->rows->columns;
  const int32_t *numbers = j->inputs[0];
  const float *weights = j->inputs[3];
  float *dweights = j->outputs[1];
  for (int64_t row = first; row < last; row++) {
    void *dx = (void *)(uintptr_t)row_of(dtype, j->outputs[0], row, columns);
    dweights[row] = scale_row(dtype, row_of(dtype, j->inputs[1], numbers[row], columns),
                              row_of(dtype, j->inputs[2], row, columns), weights[row], dx, columns);
  }
}

HR_INLINE void gate_backward(hr_dtype dtype, const hr_rowwise_job *j, int64_t first, int64_t last)
{
  const int64_t columns = j->rows->columns;
  for (int64_t row = first; row < last; row++) {
    const float s = 1 / (1 + expf(-number_at(dtype, j->inputs[2], row)));
    void *dx = (void *)(uintptr_t)row_of(dtype, j->outputs[0], row, columns);
    const float sum = scale_row(dtype, row_of(dtype, j->inputs[0], row, columns),
                                row_of(dtype, j->inputs[1], row, columns), s, dx, columns);
    const simd_f32 slope = simd_set1(s * (1 - s) * sum);
    simd_store_span(dtype, j->outputs[1], row, (simd_pair){slope, slope}, 1, false);
  }
}

/* ---- the phases ---- */

/* Returns false for an operation of the forward pass. */
HR_INLINE bool run_backward(hr_rowwise_operation operation, hr_dtype dtype, const hr_rowwise_job *j, int64_t first,
                            int64_t last, float *scratch)
{
  switch (operation) {
  case HR_ROWWISE_SOFTMAX_BACKWARD: softmax_backward(dtype, j, first, last); return true;
  case HR_ROWWISE_LAYER_NORM_BACKWARD: norm_backward(dtype, false, j, first, last); return true;
  case HR_ROWWISE_RMS_NORM_BACKWARD: norm_backward(dtype, true, j, first, last); return true;
  case HR_ROWWISE_ROTARY_BACKWARD: rotary(dtype, j, first, last); return true;
  case HR_ROWWISE_GELU_BACKWARD:
  case HR_ROWWISE_GELU_TANH_BACKWARD:
  case HR_ROWWISE_RELU_BACKWARD:
  case HR_ROWWISE_RELU2_BACKWARD:
  case HR_ROWWISE_SOFTCAP_BACKWARD: activation_backward(dtype, operation, j, first, last); return true;
  case HR_ROWWISE_SWIGLU_BACKWARD:
  case HR_ROWWISE_GEGLU_BACKWARD:
  case HR_ROWWISE_GEGLU_TANH_BACKWARD: gated_backward(dtype, operation, j, first, last); return true;
  case HR_ROWWISE_GATHER_BACKWARD: gather_backward(dtype, j, first, last, scratch); return true;
  case HR_ROWWISE_GATHER_SUM: combine(dtype, j, first, last); return true;
  case HR_ROWWISE_COMBINE_BACKWARD: combine_backward(dtype, j, first, last); return true;
  case HR_ROWWISE_GATE_BACKWARD: gate_backward(dtype, j, first, last); return true;
  case HR_ROWWISE_BIAS_BACKWARD: bias_backward(dtype, j, first, last); return true;
  case HR_ROWWISE_CROSS_ENTROPY:
  case HR_ROWWISE_CROSS_ENTROPY_BACKWARD: cross_entropy(dtype, j, first, last, scratch); return true;
  case HR_ROWWISE_ADAMW: adamw(dtype, j, first, last); return true;
  default: return false;
  }
}

/* The phase before or after it, of operations that have one. */
HR_INLINE void run_sums(hr_rowwise_operation operation, hr_dtype dtype, const hr_rowwise_job *j, int64_t first,
                        int64_t last)
{
  if (operation == HR_ROWWISE_ADAMW)
    gradient_squares(dtype, j, first, last);
  else if (operation == HR_ROWWISE_GATHER_BACKWARD)
    begin_table(dtype, j, first, last);
  else
    add_parts(dtype, j, first, last);
}
