/* SPDX-License-Identifier: Apache-2.0 */
/* GEMMs of a GPU's library beyond its first choice: every algorithm, split-K, large k. */
#include "gemm_operands.h"

#include "runtime/measure/error_bounds.h"

#include <headroom/measure.h>

#include <math.h>

/* With the sharper error bound for uniform values, which allows for rounded split-K partial results. */
static void assert_uniform_gemm(const char *what, const gemm_operands *p, const hr_summation *summation)
{
  const hr_gemm *g = &p->gemm;
  for (int64_t batch = 0; batch < g->batch; batch++)
    for (int64_t row = 0; row < g->m; row++)
      for (int64_t column = 0; column < g->n; column++) {
        double exact = 0, squares = 0;
        for (int64_t inner = 0; inner < g->k; inner++) {
          double term = element_a(p, batch, row, inner) * element_b(p, batch, inner, column);
          exact += term;
          squares += term * term;
        }
        double found = hr_number_load(g->dtype, p->c_values, element_index(g, 'c', batch, row, column));
        double bound = hr_gemm_error_bound(g->dtype, g->k, summation, exact, sqrt(squares));
        if (!(fabs(found - exact) <= bound))
          fail_msg("%s, m %d n %d k %d: [%d, %d, %d] is %g, exactly %g, allowed ±%g", what, (int)g->m, (int)g->n,
                   (int)g->k, (int)batch, (int)row, (int)column, found, exact, bound);
      }
}

/* Every algorithm that cuBLASLt's heuristic returns for a GEMM, not only the first. */
static void every_algorithm_that_a_gpu_can_be_tuned_with_is_right(void **state)
{
  (void)state;
  static const int64_t shapes[][4] = {{384, 512, 320, 1}, {65, 129, 514, 1}, {8, 1024, 2048, 1}, {100, 96, 72, 7}};
  hr_device *device = open_gpu();
  hr_error error;
  int64_t checked = 0;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int64_t choice = 0, choices = 1; choice < choices; choice++) {
      hr_gemm g = hr_gemm_default();
      hr_plan *plan = NULL;
      g.m = shapes[i][0], g.n = shapes[i][1], g.k = shapes[i][2], g.batch = shapes[i][3], g.transpose_b = true;
      assert_ok(hr_plan_gemm_choice(device, &g, "gemm_cublaslt", choice, 32, &plan, &error), error);
      choices = hr_plan_choices(plan);
      if (choice == 0)
        print_message("%s\n", hr_plan_configuration(plan));
      gemm_operands p;
      make_operands(device, &g, (uint64_t)(50 * choice), &p);
      run_plan(device, plan, &p);
      assert_uniform_gemm(hr_plan_configuration(plan), &p, &plan->summation);
      hr_plan_free(plan);
      free_operands(&p);
      checked++;
    }
  print_message("%d algorithms\n", (int)checked);
  hr_device_close(device);
}

/* Libraries use split-K for GEMMs whose tiles do not fill the GPU, and may round the partial results: the check must
 * allow for that. */
static void split_k_gemms_of_a_gpu_pass_their_check(void **state)
{
  (void)state;
  hr_device *device = open_gpu();
  hr_error error;
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

/* Tensor Cores truncate their accumulators. Enough tiles to fill the GPU keep cuBLASLt from using split-K. */
static void gemms_with_large_k_on_a_gpu_pass_their_check(void **state)
{
  (void)state;
  hr_device *device = open_gpu();
  hr_error error;
  static const hr_dtype dtypes[] = {HR_BF16, HR_FP16, HR_TF32, HR_FP8_E4M3};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    hr_gemm g = hr_gemm_default();
    g.m = g.n = 2048, g.k = 1 << 19, g.dtype = dtypes[i], g.transpose_b = true;
    hr_measure_options options = hr_measure_options_default();
    options.time_limit_ns = 1e8;
    hr_measurement measured;
    assert_ok(hr_measure_gemm(device, &g, &options, &measured, &error), error);
    print_message("%s %s\n", hr_dtype_name(g.dtype), measured.configuration);
    if (measured.status == HR_ERROR_WRONG_RESULT || measured.status == HR_ERROR_BACKEND)
      fail_msg("%s: %s", hr_status_name(measured.status), measured.reason);
  }
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_algorithm_that_a_gpu_can_be_tuned_with_is_right),
      cmocka_unit_test(split_k_gemms_of_a_gpu_pass_their_check),
      cmocka_unit_test(gemms_with_large_k_on_a_gpu_pass_their_check),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
