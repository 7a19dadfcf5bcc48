/* SPDX-License-Identifier: Apache-2.0 */
/* Template: a residual and the norm of its sum. Included by rowwise_body.h.
 *
 * Bound: memory bandwidth. x and z are read and the sum and y are written once: 4 moves of each element, 5 apart. The
 * sum stays as fp32 in `scratch` until y is written. */

/* Writes x + z to `out`, and as floats to `to`. Returns its sum, or with `squares` that of its squares. */
HR_INLINE float add_rows(hr_dtype dtype, const void *x, const void *z, int64_t columns, bool squares, bool stream,
                         void *out, float *to)
{
  simd_pair sum = {simd_set1(0), simd_set1(0)};
  for (int64_t at = 0; at < columns; at += SIMD_PAIR) {
    const int64_t count = lesser(SIMD_PAIR, columns - at);
    const simd_pair a = simd_load_span(dtype, x, at, count), b = simd_load_span(dtype, z, at, count);
    const simd_pair v = {a.a + b.a, a.b + b.b};
    prefetch_span(dtype, x, at + AHEAD);
    prefetch_span(dtype, z, at + AHEAD);
    simd_store_pair(HR_FP32, to, at, v, false);
    simd_store_span(dtype, out, at, v, count, stream);
    sum.a = squares ? simd_fma(v.a, v.a, sum.a) : sum.a + v.a;
    sum.b = squares ? simd_fma(v.b, v.b, sum.b) : sum.b + v.b;
  }
  return simd_reduce_add(sum.a + sum.b);
}

/* Whether rows of both results begin where streaming stores may. */
HR_INLINE bool streams_both(hr_dtype dtype, const hr_rowwise_job *j)
{
  const size_t row_bytes = (size_t)j->rows->columns * (dtype == HR_FP32 ? 4 : 2);
  return j->stream && (row_bytes | (uintptr_t)j->outputs[0] | (uintptr_t)j->outputs[1]) % sizeof(simd_f32) == 0;
}

HR_INLINE void residual_norm(hr_dtype dtype, bool rms, const hr_rowwise_job *j, int64_t first, int64_t last,
                             float *scratch)
{
  const int64_t columns = j->rows->columns;
  hr_rowwise_job of_norm = *j; /* whose weights come behind its one tensor */
  of_norm.inputs[1] = j->inputs[2], of_norm.inputs[2] = j->inputs[3];
  of_norm.stream = streams_both(dtype, j);
  for (int64_t i = first; i < last; i++) {
    void *out = (void *)(uintptr_t)row_of(dtype, j->outputs[0], i, columns);
    const float sum =
        add_rows(dtype, row_of(dtype, j->inputs[0], i, columns), row_of(dtype, j->inputs[1], i, columns), columns, rms,
                 of_norm.stream, (void *)(uintptr_t)row_of(dtype, j->outputs[1], i, columns), scratch);
    const norm_row how = norm_of(dtype, rms, (float)hr_rowwise_epsilon(j->rows), scratch, sum, columns, SIMD_PAIR);
    const void *next = row_of(dtype, j->inputs[0], i + 1, columns);
    norm_pipelined(dtype, rms, &of_norm, how, false, next, out, SIMD_PAIR, scratch);
  }
}

HR_INLINE bool run_fused(hr_rowwise_operation operation, hr_dtype dtype, const hr_rowwise_job *j, int64_t first,
                         int64_t last, float *scratch)
{
  const bool rms = operation == HR_ROWWISE_RESIDUAL_RMS_NORM;
  if (!rms && operation != HR_ROWWISE_RESIDUAL_LAYER_NORM)
    return false;
  residual_norm(dtype, rms, j, first, last, scratch);
  return true;
}
