/* Every GEMM kernel of the table against a product written out in float64, on values that are new each time in shape
 * and sign: awkward sizes, all transposes, batches, poisoned outputs, infinities and NaN. */
#include "test.h"

#include "runtime/device/device.h"
#include "runtime/device/number.h"

#include <headroom/measure.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct product {
  hr_gemm gemm;
  hr_buffer *a, *b, *c;
  void *a_values, *b_values, *c_values; /* the same on the host; C's once the kernel has run */
} product;

static size_t count_of(int64_t batch, int64_t rows, int64_t columns)
{
  return (size_t)(batch * rows * columns);
}

static void *values_of(const hr_buffer *buffer, size_t bytes)
{
  hr_error error;
  void *values = malloc(bytes);
  assert_non_null(values);
  assert_ok(hr_buffer_read(buffer, values, bytes, &error), error);
  return values;
}

static void make_product(hr_device *device, const hr_gemm *g, uint64_t seed, product *p)
{
  hr_error error;
  size_t element = hr_dtype_bytes(g->dtype);
  *p = (product){.gemm = *g};
  assert_ok(hr_buffer_create(device, element * count_of(g->batch, g->m, g->k), &p->a, &error), error);
  assert_ok(hr_buffer_create(device, element * count_of(g->batch, g->k, g->n), &p->b, &error), error);
  assert_ok(hr_buffer_create(device, element * count_of(g->batch, g->m, g->n), &p->c, &error), error);
  assert_ok(hr_buffer_fill_uniform(p->a, g->dtype, seed, &error), error);
  assert_ok(hr_buffer_fill_uniform(p->b, g->dtype, seed + 1, &error), error);
  assert_ok(hr_buffer_poison(p->c, g->dtype, &error), error);
  p->a_values = values_of(p->a, element * count_of(g->batch, g->m, g->k));
  p->b_values = values_of(p->b, element * count_of(g->batch, g->k, g->n));
}

static void free_product(product *p)
{
  free(p->a_values);
  free(p->b_values);
  free(p->c_values);
  hr_buffer_free(p->a);
  hr_buffer_free(p->b);
  hr_buffer_free(p->c);
}

static double element_a(const product *p, int64_t batch, int64_t row, int64_t inner)
{
  const hr_gemm *g = &p->gemm;
  int64_t at = batch * g->m * g->k + (g->transpose_a ? inner * g->m + row : row * g->k + inner);
  return hr_number_load(g->dtype, p->a_values, (size_t)at);
}

static double element_b(const product *p, int64_t batch, int64_t inner, int64_t column)
{
  const hr_gemm *g = &p->gemm;
  int64_t at = batch * g->k * g->n + (g->transpose_b ? column * g->k + inner : inner * g->n + column);
  return hr_number_load(g->dtype, p->b_values, (size_t)at);
}

/* Runs the kernel; false where this machine or the kernel says beforehand that it cannot. */
static bool run_kernel(hr_device *device, const char *kernel, product *p)
{
  hr_plan *plan = NULL;
  hr_buffer *workspace = NULL;
  hr_error error = {.message = ""};
  hr_status status = hr_plan_gemm(device, &p->gemm, kernel, &plan, &error);
  if (status == HR_ERROR_UNSUPPORTED)
    return false;
  if (status != HR_OK)
    fail_msg("%s: %s", kernel, error.message);
  assert_string_equal(hr_plan_kernel(plan), kernel);
  if (hr_plan_workspace_bytes(plan) > 0)
    assert_ok(hr_buffer_create(device, hr_plan_workspace_bytes(plan), &workspace, &error), error);
  assert_ok(hr_plan_run_gemm(plan, hr_buffer_data(p->a), hr_buffer_data(p->b), hr_buffer_data(p->c),
                             workspace ? hr_buffer_data(workspace) : NULL, &error),
            error);
  p->c_values = values_of(p->c, hr_dtype_bytes(p->gemm.dtype) * count_of(p->gemm.batch, p->gemm.m, p->gemm.n));
  hr_plan_free(plan);
  hr_buffer_free(workspace);
  return true;
}

/* A kernel sums k products in fp32 (u = 2⁻²⁴; fp64: 2⁻⁵³) in an order of its own: whatever the order, the sum is off by
 * at most k·u·Σ|a·b| to first order (Higham, Accuracy and Stability, 3.1), doubled here for the higher orders and for
 * instructions that round each product too. tf32 rounds both factors to 10 bits first, or cuts them. Matrix units add
 * products of fp8 with 14 bits (check.c). The result is then rounded to the format. This is the bound that holds for any values; measuring uses a sharper one for uniform ones. */
static double worst_case_bound(hr_dtype dtype, int64_t k, double exact, double magnitude)
{
  double u = dtype == HR_FP64 ? 0x1p-53 : dtype == HR_FP8_E4M3 ? 0x1p-14 : 0x1p-24;
  double sum = 2 * (double)k * u * magnitude + (dtype == HR_TF32 ? 0x1p-9 * magnitude : 0);
  return sum + hr_dtype_rounding_error(dtype, fabs(exact) + sum);
}

static void assert_product(const char *kernel, const product *p)
{
  const hr_gemm *g = &p->gemm;
  for (int64_t batch = 0; batch < g->batch; batch++)
    for (int64_t row = 0; row < g->m; row++)
      for (int64_t column = 0; column < g->n; column++) {
        double exact = 0, magnitude = 0;
        for (int64_t inner = 0; inner < g->k; inner++) {
          double term = element_a(p, batch, row, inner) * element_b(p, batch, inner, column);
          exact += term;
          magnitude += fabs(term);
        }
        size_t at = (size_t)((batch * g->m + row) * g->n + column);
        double found = hr_number_load(g->dtype, p->c_values, at);
        double bound = worst_case_bound(g->dtype, g->k, exact, magnitude);
        if (!(fabs(found - exact) <= bound))
          fail_msg("%s %s m %d n %d k %d batch %d transposes %d %d: [%d, %d, %d] is %g, exactly %g, allowed ±%g",
                   kernel, hr_dtype_name(g->dtype), (int)g->m, (int)g->n, (int)g->k, (int)g->batch, g->transpose_a,
                   g->transpose_b, (int)batch, (int)row, (int)column, found, exact, bound);
      }
}

static void each_kernel(void (*check)(hr_device *device, const hr_kernel_info *info, hr_dtype dtype))
{
  size_t count, opened = 0;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(kernels[i].operation, "gemm") != 0)
      continue;
    hr_device *device = NULL;
    hr_error error;
    hr_status status = hr_device_open(kernels[i].device, 0, &device, &error);
    if (status == HR_ERROR_UNAVAILABLE) {
      print_message("%s: not on this machine: %s\n", kernels[i].name, error.message);
      continue;
    }
    assert_ok(status, error);
    char why[160] = "";
    if (hr_kernel_runs(device, kernels[i].name, why, sizeof why)) {
      opened++;
      for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++)
        if (hr_has_word(kernels[i].dtypes, hr_dtype_name((hr_dtype)dtype)))
          check(device, &kernels[i], (hr_dtype)dtype);
    } else {
      print_message("%s: not on this machine: %s\n", kernels[i].name, why);
    }
    hr_device_close(device);
  }
  assert_true(opened > 0); /* the reference at least */
}

/* Around vectors of 16 and 32, tiles of 64 and 128, and nothing at all; the last is for formats that want multiples of
 * 16. */
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
        hr_gemm g = hr_gemm_default();
        g.m = sizes[i][0], g.n = sizes[i][1], g.k = sizes[i][2];
        g.batch = batch;
        g.dtype = dtype;
        g.transpose_a = transposes & 1, g.transpose_b = transposes >> 1;
        product p;
        make_product(device, &g, seed += 2, &p);
        if (run_kernel(device, info->name, &p)) {
          assert_product(info->name, &p);
          ran++;
        }
        free_product(&p);
      }
  assert_true(ran > 0);
}

static void every_kernel_agrees_with_the_sum_written_out(void **state)
{
  (void)state;
  each_kernel(check_sizes);
}

static void check_special(hr_device *device, const hr_kernel_info *info, hr_dtype dtype)
{
  hr_gemm g = hr_gemm_default();
  g.m = 5, g.n = 19, g.k = 33, g.dtype = dtype;
  product p;
  make_product(device, &g, 7, &p);
  hr_number_store(dtype, p.a_values, 1 * 33 + 4, (double)NAN); /* row 1 */
  bool infinities = dtype != HR_FP8_E4M3;
  if (infinities)
    hr_number_store(dtype, p.a_values, 3 * 33 + 30, (double)INFINITY); /* row 3 */
  hr_error error;
  assert_ok(hr_buffer_write(p.a, p.a_values, hr_dtype_bytes(dtype) * count_of(1, g.m, g.k), &error), error);
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
  free_product(&p);
}

static void nan_and_infinity_reach_exactly_the_rows_that_they_are_in(void **state)
{
  (void)state;
  each_kernel(check_special);
}

/* Libraries split sums of which too few fill the GPU, and may round the parts: the check has to know. */
static void products_that_a_gpu_splits_pass_their_check(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_error error;
  if (hr_device_open("cuda:0", 0, &device, &error) != HR_OK) {
    print_message("%s\n", error.message);
    skip();
  }
  static const struct {
    int64_t m, n, k;
    hr_dtype dtype;
    bool transpose_a, transpose_b;
  } cases[] = {{1536, 128, 15, HR_BF16, false, false},  {500, 1023, 1025, HR_BF16, true, false},
               {384, 65, 2047, HR_FP16, false, true},   {513, 31, 500, HR_FP16, false, false},
               {4096, 256, 8192, HR_BF16, true, false}, {100, 16, 1025, HR_FP32, true, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_gemm g = hr_gemm_default();
    g.m = cases[i].m, g.n = cases[i].n, g.k = cases[i].k, g.dtype = cases[i].dtype;
    g.transpose_a = cases[i].transpose_a, g.transpose_b = cases[i].transpose_b;
    hr_measure_options options = hr_measure_options_default();
    options.time_limit_ns = 1e7;
    hr_measurement measured;
    assert_ok(hr_measure_gemm(device, &g, &options, &measured, &error), error);
    print_message("%s %s\n", hr_dtype_name(g.dtype), measured.configuration);
    if (measured.status != HR_OK && measured.status != HR_ERROR_NOISY)
      fail_msg("%s: %s", hr_status_name(measured.status), measured.reason);
    assert_true(measured.rows_checked > 0);
  }
  hr_device_close(device);
}

/* ---- one plan, several threads ---- */

#define THREADS 3

typedef struct runner {
  const hr_plan *plan;
  const product *p;
  hr_buffer *result, *workspace;
  int runs_failed;
} runner;

static void *run_repeatedly(void *argument)
{
  runner *r = argument;
  void *workspace = r->workspace ? hr_buffer_data(r->workspace) : NULL;
  for (int i = 0; i < 20; i++) {
    if (hr_plan_run_gemm(r->plan, hr_buffer_data(r->p->a), hr_buffer_data(r->p->b), hr_buffer_data(r->result),
                         workspace, NULL) != HR_OK)
      r->runs_failed++;
  }
  return NULL;
}

static void check_threads(hr_device *device, const hr_kernel_info *info, hr_dtype dtype)
{
  hr_gemm g = hr_gemm_default();
  g.m = 33, g.n = 50, g.k = 40, g.dtype = dtype;
  product p;
  hr_plan *plan = NULL;
  hr_error error;
  make_product(device, &g, 9, &p);
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
      assert_product(info->name, &p);
      hr_buffer_free(runners[i].result);
      hr_buffer_free(runners[i].workspace);
    }
    hr_plan_free(plan);
  }
  free_product(&p);
}

static void a_plan_runs_in_several_threads_at_once(void **state)
{
  (void)state;
  each_kernel(check_threads);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kernel_agrees_with_the_sum_written_out),
      cmocka_unit_test(nan_and_infinity_reach_exactly_the_rows_that_they_are_in),
      cmocka_unit_test(products_that_a_gpu_splits_pass_their_check),
      cmocka_unit_test(a_plan_runs_in_several_threads_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
