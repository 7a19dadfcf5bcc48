/* SPDX-License-Identifier: Apache-2.0 */
/* Every GEMM kernel of the table against a GEMM in float64, with new random shapes and values each time: awkward sizes,
 * all transposes, batches, strides, poisoned outputs, infinities and NaN. */
#include "gemm_operands.h"

#include "runtime/measure/error_bounds.h"

#include <headroom/buffer.h>
#include <headroom/measure.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Runs the kernel; false if this machine or the kernel does not support the GEMM. */
static bool run_kernel(hr_device *device, const char *kernel, gemm_operands *p)
{
  hr_plan *plan = NULL;
  hr_error error = {.message = ""};
  hr_status status = hr_plan_gemm(device, &p->gemm, kernel, &plan, &error);
  if (status == HR_ERROR_UNSUPPORTED)
    return false;
  if (status != HR_OK)
    fail_msg("%s: %s", kernel, error.message);
  assert_string_equal(hr_plan_kernel(plan), kernel);
  run_plan(device, plan, p);
  hr_plan_free(plan);
  return true;
}

/* A kernel adds k terms in fp32 (u = 2⁻²⁴; fp64: 2⁻⁵³) in any order. Whatever the order, the error is at most
 * k·u·Σ|a·b| to first order (Higham, Accuracy and Stability, 3.1). The bound is doubled for higher orders and for
 * instructions that also round each term. tf32 first rounds both inputs to 10 bits, or truncates them. Tensor Cores add
 * fp8 terms with 14 bits (bounds.c). The result is then rounded to the format. This bound holds for all values;
 * measurements use a sharper one for uniform values. */
static double worst_case_bound(hr_dtype dtype, int64_t k, double exact, double magnitude)
{
  double u = dtype == HR_FP64 ? 0x1p-53 : dtype == HR_FP8_E4M3 ? 0x1p-14 : 0x1p-24;
  double sum = 2 * (double)k * u * magnitude + (dtype == HR_TF32 ? 0x1p-9 * magnitude : 0);
  return sum + hr_dtype_rounding_error(dtype, fabs(exact) + sum);
}

/* Row `row` of A, then the columns of B one after the other: an element of B is read once, not once a row. */
static void load_row_of_a(const gemm_operands *p, int64_t batch, int64_t row, double *values)
{
  for (int64_t inner = 0; inner < p->gemm.k; inner++)
    values[inner] = element_a(p, batch, row, inner);
}

static void load_b(const gemm_operands *p, int64_t batch, double *values)
{
  for (int64_t column = 0; column < p->gemm.n; column++)
    for (int64_t inner = 0; inner < p->gemm.k; inner++)
      values[column * p->gemm.k + inner] = element_b(p, batch, inner, column);
}

static void assert_gemm(const char *kernel, const gemm_operands *p)
{
  const hr_gemm *g = &p->gemm;
  double *a = malloc((size_t)(g->k * (g->n + 1)) * sizeof *a), *b = a + g->k;
  assert_non_null(a);
  for (int64_t batch = 0; batch < g->batch; batch++) {
    load_b(p, batch, b);
    for (int64_t row = 0; row < g->m; row++) {
      load_row_of_a(p, batch, row, a);
      for (int64_t column = 0; column < g->n; column++) {
        double exact = 0, magnitude = 0;
        for (int64_t inner = 0; inner < g->k; inner++) {
          double term = a[inner] * b[column * g->k + inner];
          exact += term;
          magnitude += fabs(term);
        }
        double found = hr_number_load(g->dtype, p->c_values, element_index(g, 'c', batch, row, column));
        double bound = worst_case_bound(g->dtype, g->k, exact, magnitude);
        if (!(fabs(found - exact) <= bound))
          fail_msg("%s %s m %d n %d k %d batch %d transposes %d %d ld %d %d %d strides %d %d %d: [%d, %d, %d] is %g, "
                   "exactly %g, allowed ±%g",
                   kernel, hr_dtype_name(g->dtype), (int)g->m, (int)g->n, (int)g->k, (int)g->batch, g->transpose_a,
                   g->transpose_b, (int)g->lda, (int)g->ldb, (int)g->ldc, (int)g->stride_a, (int)g->stride_b,
                   (int)g->stride_c, (int)batch, (int)row, (int)column, found, exact, bound);
      }
    }
  }
  free(a);
}

static void each_kernel(void (*check)(hr_device *device, const hr_kernel_info *info, hr_dtype dtype))
{
  size_t count, opened = 0;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(kernels[i].operation, "gemm") != 0 || (test_asks_for("gpu") && strcmp(kernels[i].device, "cuda") != 0))
      continue;
    hr_device *device = open_for_kernel(&kernels[i]);
    opened += device != NULL;
    for (int dtype = 0; device && dtype < HR_DTYPE_COUNT; dtype++)
      if (hr_has_word(kernels[i].dtypes, hr_dtype_name((hr_dtype)dtype)))
        check(device, &kernels[i], (hr_dtype)dtype);
    hr_device_close(device);
  }
  assert_true(opened > 0 || test_asks_for("gpu")); /* at least the reference */
}

/* Sizes around vectors of 16 and 32 and tiles of 64 and 128, and 0; the last are multiples of 16, for formats that need
 * them. */
static const int64_t sizes[][3] = {{1, 1, 1},     {1, 17, 3},    {3, 1, 17},    {17, 3, 1},    {2, 2, 64},
                                   {16, 32, 64},  {17, 33, 65},  {64, 64, 64},  {63, 65, 127}, {127, 130, 17},
                                   {130, 127, 3}, {128, 1, 130}, {1, 130, 128}, {5, 129, 257}, {48, 80, 272}};

static void check_sizes(hr_device *device, const hr_kernel_info *info, hr_dtype dtype)
{
  uint64_t seed = 100;
  int ran = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int transposes = 0; transposes < 4; transposes++)
      for (int64_t batch = 1; batch <= 3; batch += 2) {
        if (!test_takes((int64_t)i + transposes + batch / 2))
          continue;
        hr_gemm g = hr_gemm_default();
        g.m = sizes[i][0], g.n = sizes[i][1], g.k = sizes[i][2];
        g.batch = batch;
        g.dtype = dtype;
        g.transpose_a = transposes & 1, g.transpose_b = transposes >> 1;
        gemm_operands p;
        make_operands(device, &g, seed += 2, &p);
        if (run_kernel(device, info->name, &p)) {
          assert_gemm(info->name, &p);
          ran++;
        }
        free_operands(&p);
      }
  assert_true(ran > 0);
}

static void every_kernel_agrees_with_a_gemm_in_float64(void **state)
{
  (void)state;
  each_kernel(check_sizes);
}

/* ---- strides ---- */

static bool *used_elements(const hr_gemm *g, char operand, hr_matrix matrix)
{
  int64_t rows = operand == 'b' ? g->k : g->m, columns = operand == 'a' ? g->k : g->n;
  bool *used = calloc((size_t)matrix.elements, sizeof *used);
  assert_non_null(used);
  for (int64_t batch = 0; batch < g->batch; batch++)
    for (int64_t row = 0; row < rows; row++)
      for (int64_t column = 0; column < columns; column++) {
        size_t place = element_index(g, operand, batch, row, column);
        assert_true(place < (size_t)matrix.elements);
        used[place] = true;
      }
  return used;
}

/* NaN in the gaps of an input must reach nothing. */
static void poison_gaps(const hr_gemm *g, char operand, hr_matrix matrix, hr_buffer *buffer, void *values)
{
  hr_error error;
  bool *used = used_elements(g, operand, matrix);
  for (size_t i = 0; i < (size_t)matrix.elements; i++)
    if (!used[i])
      hr_number_store(g->dtype, values, i, (double)NAN);
  assert_ok(hr_buffer_write(buffer, values, bytes_of(g, matrix), &error), error);
  free(used);
}

/* C: NaN in the result elements, and values in the gaps that no kernel may change. Returns a copy of all elements. */
static void *poison_result(gemm_operands *p, uint64_t seed)
{
  const hr_gemm *g = &p->gemm;
  hr_error error;
  hr_matrix c = hr_gemm_c(g);
  assert_ok(hr_buffer_fill_uniform(p->c, g->dtype, seed, &error), error);
  void *values = values_of(p->c, bytes_of(g, c));
  bool *used = used_elements(g, 'c', c);
  for (size_t i = 0; i < (size_t)c.elements; i++)
    if (used[i])
      hr_number_store(g->dtype, values, i, (double)NAN);
  assert_ok(hr_buffer_write(p->c, values, bytes_of(g, c), &error), error);
  free(used);
  return values;
}

static void assert_gaps_untouched(const char *kernel, const gemm_operands *p, const void *before)
{
  const hr_gemm *g = &p->gemm;
  size_t element = hr_dtype_bytes(g->dtype);
  bool *used = used_elements(g, 'c', hr_gemm_c(g));
  for (size_t i = 0; i < (size_t)hr_gemm_c(g).elements; i++)
    if (!used[i] && memcmp((const char *)before + i * element, (const char *)p->c_values + i * element, element) != 0)
      fail_msg("%s %s: wrote to element %zu of C, in a gap", kernel, hr_dtype_name(g->dtype), i);
  free(used);
}

/* Memory layouts of the three operands; `unit` divides every stride. */
static void gaps_in_rows(hr_gemm *g, int64_t unit)
{
  g->lda = hr_gemm_a(g).columns + unit;
  g->ldb = hr_gemm_b(g).columns + 3 * unit;
  g->ldc = g->n + 2 * unit;
}

static void gaps_everywhere(hr_gemm *g, int64_t unit)
{
  gaps_in_rows(g, unit);
  g->stride_a = hr_gemm_a(g).batch_stride + 5 * unit;
  g->stride_b = hr_gemm_b(g).batch_stride + unit;
  g->stride_c = hr_gemm_c(g).batch_stride + 3 * unit;
}

/* Rows begin at multiples of 16 elements whatever their length, as in padded tensors. */
static void padded_rows(hr_gemm *g, int64_t unit)
{
  (void)unit;
  g->lda = (hr_gemm_a(g).columns + 15) / 16 * 16;
  g->ldb = (hr_gemm_b(g).columns + 15) / 16 * 16;
  g->ldc = (g->n + 15) / 16 * 16;
}

/* Heads of [tokens, heads, size] with room for one more head; rows begin at multiples of 16, batches do not. */
static void side_by_side(hr_gemm *g, int64_t unit)
{
  (void)unit;
  g->stride_a = hr_gemm_a(g).columns, g->lda = (g->stride_a * (g->batch + 1) + 15) / 16 * 16;
  g->stride_b = hr_gemm_b(g).columns, g->ldb = (g->stride_b * (g->batch + 1) + 15) / 16 * 16;
  g->stride_c = g->n, g->ldc = (g->n * (g->batch + 1) + 15) / 16 * 16;
}

static void one_a_for_all(hr_gemm *g, int64_t unit)
{
  g->broadcast_a = true;
  g->lda = hr_gemm_a(g).columns + unit;
}

static void one_b_for_all(hr_gemm *g, int64_t unit)
{
  g->broadcast_b = true;
  g->ldc = g->n + unit;
}

/* Each batch begins a few elements after the one before. */
static void overlapping_inputs(hr_gemm *g, int64_t unit)
{
  g->stride_a = g->stride_b = unit;
}

static void (*const arrangements[])(hr_gemm *g, int64_t unit) = {
    gaps_in_rows, gaps_everywhere, padded_rows, side_by_side, one_a_for_all, one_b_for_all, overlapping_inputs};

static void check_strides(hr_device *device, const hr_kernel_info *info, hr_dtype dtype)
{
  static const int64_t few_sizes[][3] = {{1, 17, 3}, {17, 33, 65}, {1, 130, 128}, {48, 32, 80}};
  uint64_t seed = 900;
  for (size_t way = 0; way < sizeof arrangements / sizeof *arrangements; way++) {
    int ran = 0;
    for (size_t i = 0; i < sizeof few_sizes / sizeof *few_sizes; i++)
      for (int transposes = 0; transposes < 4; transposes++)
        for (int64_t batch = 1; batch <= 3; batch += 2) {
          if (!test_takes((int64_t)(i + way) + transposes + batch / 2))
            continue;
          hr_gemm g = hr_gemm_default();
          hr_error error;
          g.m = few_sizes[i][0], g.n = few_sizes[i][1], g.k = few_sizes[i][2];
          g.batch = batch;
          g.dtype = dtype;
          g.transpose_a = transposes & 1, g.transpose_b = transposes >> 1;
          arrangements[way](&g, dtype == HR_FP8_E4M3 ? 16 : 1);
          assert_ok(hr_gemm_check(&g, &error), error);
          gemm_operands p;
          make_operands(device, &g, seed += 3, &p);
          poison_gaps(&g, 'a', hr_gemm_a(&g), p.a, p.a_values);
          poison_gaps(&g, 'b', hr_gemm_b(&g), p.b, p.b_values);
          void *before = poison_result(&p, seed + 2);
          if (run_kernel(device, info->name, &p)) {
            assert_gemm(info->name, &p);
            assert_gaps_untouched(info->name, &p, before);
            ran++;
          }
          free(before);
          free_operands(&p);
        }
    if (ran == 0)
      fail_msg("%s %s: refused every GEMM of layout %zu", info->name, hr_dtype_name(dtype), way);
  }
}

static void strides_are_respected_and_gaps_neither_read_nor_written(void **state)
{
  (void)state;
  each_kernel(check_strides);
}

static void check_measured(hr_device *device, size_t way)
{
  hr_gemm g = hr_gemm_default();
  hr_measurement measured;
  hr_error error;
  g.m = 37, g.n = 80, g.k = 64, g.batch = 5, g.dtype = HR_FP32;
  g.transpose_a = way % 2 == 1, g.transpose_b = way % 2 == 0;
  arrangements[way / 2](&g, 4);
  hr_measure_options options = hr_measure_options_default();
  options.time_limit_ns = 5e6;
  options.warm = true;
  assert_ok(hr_measure_gemm(device, &g, &options, &measured, &error), error);
  if (measured.status == HR_ERROR_WRONG_RESULT || measured.status == HR_ERROR_BACKEND)
    fail_msg("%s, layout %zu: %s", hr_device_name(device), way / 2, measured.reason);
  if (measured.status != HR_ERROR_UNSUPPORTED)
    assert_true(measured.rows_checked == 16);
}

/* The check of a measurement must use the strides, also in memory that the host cannot read. */
static void strided_gemms_pass_the_check_of_a_measurement(void **state)
{
  (void)state;
  static const char *const devices[] = {"reference", "cpu", "cuda:0"};
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    hr_device *device = NULL;
    if (hr_device_open(devices[d], 0, &device, NULL) != HR_OK)
      continue;
    for (size_t way = 0; way < 2 * sizeof arrangements / sizeof *arrangements; way++)
      check_measured(device, way);
    hr_device_close(device);
  }
}

static void check_special(hr_device *device, const hr_kernel_info *info, hr_dtype dtype)
{
  hr_gemm g = hr_gemm_default();
  g.m = 5, g.n = 19, g.k = 33, g.dtype = dtype;
  gemm_operands p;
  make_operands(device, &g, 7, &p);
  hr_number_store(dtype, p.a_values, 1 * 33 + 4, (double)NAN); /* row 1 */
  bool infinities = dtype != HR_FP8_E4M3;
  if (infinities)
    hr_number_store(dtype, p.a_values, 3 * 33 + 30, (double)INFINITY); /* row 3 */
  hr_error error;
  assert_ok(hr_buffer_write(p.a, p.a_values, bytes_of(&g, hr_gemm_a(&g)), &error), error);
  if (run_kernel(device, info->name, &p)) {
    for (int64_t column = 0; column < g.n; column++) {
      double plain = hr_number_load(dtype, p.c_values, (size_t)(0 * g.n + column));
      double with_nan = hr_number_load(dtype, p.c_values, (size_t)(1 * g.n + column));
      double with_infinity = hr_number_load(dtype, p.c_values, (size_t)(3 * g.n + column));
      assert_true(isfinite(plain));
      assert_true(isnan(with_nan));
      double factor = element_b(&p, 0, 30, column);
      if (infinities && factor != 0)
        assert_true(isinf(with_infinity) && (with_infinity > 0) == (factor > 0));
    }
  }
  free_operands(&p);
}

static void nan_and_infinity_reach_exactly_the_rows_that_they_are_in(void **state)
{
  (void)state;
  each_kernel(check_special);
}

/* ---- concurrency ---- */

#define THREADS 3

typedef struct runner {
  const hr_plan *plan;
  const gemm_operands *p;
  hr_buffer *result, *workspace;
  int runs_failed;
} runner;

static void *run_repeatedly(void *argument)
{
  runner *r = argument;
  void *workspace = r->workspace ? hr_buffer_data(r->workspace) : NULL;
  for (int i = 0; i < 20; i++) {
    if (hr_plan_run_gemm(r->plan,
                         &(hr_gemm_arguments){sizeof(hr_gemm_arguments), hr_buffer_data(r->p->a),
                                              hr_buffer_data(r->p->b), hr_buffer_data(r->result)},
                         workspace, NULL, NULL) != HR_OK)
      r->runs_failed++;
  }
  return NULL;
}

static void check_threads(hr_device *device, const hr_kernel_info *info, hr_dtype dtype)
{
  hr_gemm g = hr_gemm_default();
  g.m = 33, g.n = 50, g.k = 40, g.dtype = dtype;
  gemm_operands p;
  hr_plan *plan = NULL;
  hr_error error;
  make_operands(device, &g, 9, &p);
  if (hr_plan_gemm(device, &g, info->name, &plan, &error) == HR_OK) {
    runner runners[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
      runners[i] = (runner){.plan = plan, .p = &p};
      assert_ok(hr_buffer_create(device, hr_dtype_bytes(dtype) * 33 * 50, &runners[i].result, &error), error);
      assert_ok(hr_buffer_poison(runners[i].result, dtype, &error), error);
      if (hr_plan_workspace_bytes(plan) > 0)
        assert_ok(hr_buffer_create(device, hr_plan_workspace_bytes(plan), &runners[i].workspace, &error), error);
      assert_int_equal(pthread_create(&threads[i], NULL, run_repeatedly, &runners[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
      pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
      assert_int_equal(runners[i].runs_failed, 0);
      free(p.c_values);
      p.c_values = values_of(runners[i].result, hr_dtype_bytes(dtype) * 33 * 50);
      assert_gemm(info->name, &p);
      hr_buffer_free(runners[i].result);
      hr_buffer_free(runners[i].workspace);
    }
    hr_plan_free(plan);
  }
  free_operands(&p);
}

static void one_plan_runs_in_several_threads_at_once(void **state)
{
  (void)state;
  each_kernel(check_threads);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kernel_agrees_with_a_gemm_in_float64),
      cmocka_unit_test(strides_are_respected_and_gaps_neither_read_nor_written),
      cmocka_unit_test(strided_gemms_pass_the_check_of_a_measurement),
      cmocka_unit_test(nan_and_infinity_reach_exactly_the_rows_that_they_are_in),
      cmocka_unit_test(one_plan_runs_in_several_threads_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
