/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM kernels against a GEMM in float64: awkward sizes, all transposes, batches, strides, infinities and NaN; and the
 * algorithms of a GPU's library. */
#include "call.h"

#include "runtime/measure/error_bounds.h"
#include "shape/number.h"

#include <headroom/experimental/measure.h>
#include <headroom/experimental/plan.h>

#include <math.h>

static hr_problem plain(hr_dtype dtype)
{
  hr_gemm g = hr_gemm_default();
  g.dtype = dtype;
  return hr_gemm_problem(&g);
}

static hr_gemm gemm_of(hr_dtype dtype, const int64_t size[3], int transposes, int64_t batch)
{
  hr_gemm g = hr_gemm_default();
  g.dtype = dtype;
  g.m = size[0], g.n = size[1], g.k = size[2];
  g.batch = batch;
  g.transpose_a = transposes & 1, g.transpose_b = transposes >> 1;
  g.bias = dtype != HR_FP8_E4M3 && (size[0] + size[1] + transposes + batch) % 3 == 0;
  return g;
}

/* ---- elements ---- */

/* Index of an element in the stored matrix; computed here independently of the tested code. */
static size_t element_index(const hr_gemm *g, char operand, int64_t batch, int64_t row, int64_t column)
{
  int64_t rows = operand == 'b' ? g->k : g->m, columns = operand == 'a' ? g->k : g->n;
  int64_t leading = operand == 'a' ? g->lda : operand == 'b' ? g->ldb : g->ldc;
  int64_t stride = operand == 'a' ? g->stride_a : operand == 'b' ? g->stride_b : g->stride_c;
  bool transposed = operand == 'a' ? g->transpose_a : operand == 'b' ? g->transpose_b : false;
  bool broadcast = operand == 'a' ? g->broadcast_a : operand == 'b' ? g->broadcast_b : false;
  leading = leading ? leading : transposed ? rows : columns;
  stride = broadcast ? 0 : stride ? stride : leading * (transposed ? columns : rows);
  return (size_t)(batch * stride + (transposed ? column * leading + row : row * leading + column));
}

/* C comes behind the inputs, of which the third is the bias. */
static size_t index_of(const call *c, char operand)
{
  return operand == 'c' ? c->operands.inputs : (size_t)(operand - 'a');
}

static double element_of(const call *c, char operand, int64_t batch, int64_t row, int64_t column)
{
  return call_element(c, index_of(c, operand), element_index(&c->problem.gemm, operand, batch, row, column));
}

/* Marks the elements of an operand that belong to the matrix; the others are gaps between strides. */
static bool *used_elements(const call *c, char operand)
{
  const hr_gemm *g = &c->problem.gemm;
  int64_t rows = operand == 'b' ? g->k : g->m, columns = operand == 'a' ? g->k : g->n;
  size_t elements = c->operands.bytes[index_of(c, operand)] / hr_dtype_bytes(g->dtype);
  bool *used = calloc(elements, sizeof *used);
  assert_non_null(used);
  for (int64_t batch = 0; batch < g->batch; batch++)
    for (int64_t row = 0; row < rows; row++)
      for (int64_t column = 0; column < columns; column++) {
        size_t at = element_index(g, operand, batch, row, column);
        assert_true(at < elements);
        used[at] = true;
      }
  return used;
}

/* NaN in the gaps of an input must reach nothing. */
static void poison_gaps(const call *c, char operand)
{
  size_t element = hr_dtype_bytes(c->problem.dtype), elements = c->operands.bytes[operand - 'a'] / element;
  bool *used = used_elements(c, operand);
  for (size_t i = 0; i < elements; i++)
    if (!used[i])
      memset(c->places[operand - 'a'].host + i * element, POISON, element);
  free(used);
}

/* ---- the comparison ---- */

/* A kernel adds k terms in fp32 (u = 2⁻²⁴; fp64: 2⁻⁵³) in any order. Whatever the order, the error is at most
 * k·u·Σ|a·b| to first order (Higham, Accuracy and Stability, 3.1). The bound is doubled for higher orders and for
 * instructions that also round each term. tf32 first rounds both inputs to 10 bits, or truncates them. Tensor Cores add
 * fp8 terms with 14 bits (error_bounds.c). The result is then rounded to the format. This bound holds for all values;
 * measurements use a sharper one for uniform values. */
static double worst_case_bound(hr_dtype dtype, int64_t k, double exact, double magnitude)
{
  double u = dtype == HR_FP64 ? 0x1p-53 : dtype == HR_FP8_E4M3 ? 0x1p-14 : 0x1p-24;
  double sum = 2 * (double)k * u * magnitude + (dtype == HR_TF32 ? 0x1p-9 * magnitude : 0);
  return sum + hr_dtype_rounding_error(dtype, fabs(exact) + sum);
}

/* `summation`: with the sharper bound for uniform values, which allows for rounded split-K partial results. */
static void compare_element(const call *c, const hr_summation *summation, const int64_t at[3], const double *a,
                            const double *b)
{
  const hr_gemm *g = &c->problem.gemm;
  double exact = 0, magnitude = 0, squares = 0;
  char text[512];
  for (int64_t inner = 0; inner < g->k; inner++) {
    double term = a[inner] * b[inner];
    exact += term;
    magnitude += fabs(term);
    squares += term * term;
  }
  const double bias = g->bias ? call_element(c, 2, (size_t)at[2]) : 0;
  exact += bias;
  magnitude += fabs(bias);
  squares += bias * bias;
  double found = element_of(c, 'c', at[0], at[1], at[2]);
  double bound = summation ? hr_gemm_error_bound(g->dtype, g->k, summation, exact, sqrt(squares))
                           : worst_case_bound(g->dtype, g->k, exact, magnitude);
  if (g->bias) /* which may be added to a rounded sum */
    bound += hr_dtype_rounding_error(g->dtype, fabs(exact - bias) + bound);
  if (!(fabs(found - exact) <= bound))
    fail_msg("%s %s ld %d %d %d strides %d %d %d: [%d, %d, %d] is %g, exactly %g, allowed ±%g", c->kernel,
             problem_words(&c->problem, text), (int)g->lda, (int)g->ldb, (int)g->ldc, (int)g->stride_a,
             (int)g->stride_b, (int)g->stride_c, (int)at[0], (int)at[1], (int)at[2], found, exact, bound);
}

/* An element of B is read once, not once a row. */
static void compare(const call *c, const hr_summation *summation)
{
  const hr_gemm *g = &c->problem.gemm;
  double *a = malloc((size_t)(g->k * (g->n + 1)) * sizeof *a), *b = a + g->k;
  assert_non_null(a);
  for (int64_t batch = 0; batch < g->batch; batch++) {
    for (int64_t i = 0; i < g->n * g->k; i++)
      b[i] = element_of(c, 'b', batch, i % g->k, i / g->k);
    for (int64_t row = 0; row < g->m; row++) {
      for (int64_t inner = 0; inner < g->k; inner++)
        a[inner] = element_of(c, 'a', batch, row, inner);
      for (int64_t column = 0; column < g->n; column++)
        compare_element(c, summation, (const int64_t[]){batch, row, column}, a, b + column * g->k);
    }
  }
  free(a);
}

/* Runs with NaN in the gaps of inputs and compares. */
static bool try_gemm(hr_device *device, const char *kernel, const hr_gemm *g, uint64_t seed)
{
  call c;
  const hr_problem problem = hr_gemm_problem(g);
  call_open(device, kernel, &problem, NULL, seed, &c);
  poison_gaps(&c, 'a');
  poison_gaps(&c, 'b');
  bool *written = used_elements(&c, 'c');
  bool ran = call_run(&c, written);
  if (ran)
    compare(&c, NULL);
  free(written);
  call_close(&c);
  return ran;
}

/* ---- sizes and layouts ---- */

/* Sizes around vectors of 16 and 32 and tiles of 64 and 128, and 0; the last are multiples of 16, for formats that need
 * them. */
static const int64_t sizes[][3] = {{1, 1, 1},     {1, 17, 3},    {3, 1, 17},    {17, 3, 1},    {2, 2, 64},
                                   {16, 32, 64},  {17, 33, 65},  {64, 64, 64},  {63, 65, 127}, {127, 130, 17},
                                   {130, 127, 3}, {128, 1, 130}, {1, 130, 128}, {5, 129, 257}, {48, 80, 272}};

static void check_sizes(hr_device *device, const char *kernel, hr_dtype dtype)
{
  uint64_t seed = 100;
  int ran = 0;
  for (int64_t i = 0; i < LENGTH(sizes); i++)
    for (int transposes = 0; transposes < 4; transposes++)
      for (int64_t batch = 1; batch <= 3; batch += 2) {
        const hr_gemm g = gemm_of(dtype, sizes[i], transposes, batch);
        if (test_takes(i + transposes + batch / 2))
          ran += try_gemm(device, kernel, &g, seed += 2);
      }
  assert_true(ran > 0);
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

static void (*const layouts[])(hr_gemm *g, int64_t unit) = {
    gaps_in_rows, gaps_everywhere, padded_rows, side_by_side, one_a_for_all, one_b_for_all, overlapping_inputs};

/* Each number of rows that a GEMV takes, with fewer and more rows of B than its blocks have, and k around its steps; a
 * layout each. */
static void check_few_rows(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int64_t few_sizes[][2] = {{1, 8},     {15, 32},  {16, 96},   {33, 1000},
                                         {70, 2056}, {3, 4104}, {47, 1001}, {18, 250}};
  int64_t tried = 0, ran = 0;
  for (int64_t i = 0; i < LENGTH(few_sizes); i++)
    for (int64_t m = 1; m <= 8; m++) {
      hr_gemm g = gemm_of(dtype, (const int64_t[]){m, few_sizes[i][0], few_sizes[i][1]}, 2, 1 + (i + m) % 2);
      if ((i + m) % 3 == 0)
        layouts[tried % LENGTH(layouts)](&g, dtype == HR_FP8_E4M3 ? 16 : 1);
      if (test_takes(tried++))
        ran += try_gemm(device, kernel, &g, 500 + 2 * (uint64_t)tried);
    }
  assert_true(ran > 0 || !test_takes(1) || dtype == HR_FP8_E4M3);
}

/* Returns how many GEMMs of the layout the kernel took. */
static int try_layout(hr_device *device, const char *kernel, hr_dtype dtype, int64_t layout)
{
  static const int64_t few_sizes[][3] = {{1, 17, 3}, {17, 33, 65}, {1, 130, 128}, {48, 32, 80}};
  hr_error error;
  int ran = 0;
  for (int64_t i = 0; i < LENGTH(few_sizes); i++)
    for (int transposes = 0; transposes < 4; transposes++)
      for (int64_t batch = 1; batch <= 3; batch += 2) {
        if (!test_takes(i + layout + transposes + batch / 2))
          continue;
        hr_gemm g = gemm_of(dtype, few_sizes[i], transposes, batch);
        layouts[layout](&g, dtype == HR_FP8_E4M3 ? 16 : 1);
        assert_ok(hr_gemm_check(&g, &error), error);
        ran += try_gemm(device, kernel, &g, 900 + (uint64_t)((layout * 4 + i) * 4 + transposes) * 10);
      }
  return ran;
}

static void check_layouts(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for (int64_t layout = 0; layout < LENGTH(layouts); layout++)
    if (try_layout(device, kernel, dtype, layout) == 0)
      fail_msg("%s %s: refused every GEMM of layout %d", kernel, hr_dtype_name(dtype), (int)layout);
}

static void check_measured(hr_device *device, int64_t layout, bool transpose_a)
{
  hr_gemm g = gemm_of(HR_FP32, (const int64_t[]){37, 80, 64}, transpose_a ? 1 : 2, 5);
  hr_measurement measured;
  hr_error error;
  layouts[layout](&g, 4);
  hr_measure_options options = hr_measure_options_default();
  options.time_limit_ns = 5e6;
  options.warm = true;
  assert_ok(hr_measure_gemm(device, &g, &options, &measured, &error), error);
  if (measured.status == HR_ERROR_WRONG_RESULT || measured.status == HR_ERROR_BACKEND)
    fail_msg("%s, layout %d: %s", hr_device_name(device), (int)layout, measured.reason);
  if (measured.status != HR_ERROR_UNSUPPORTED)
    assert_true(measured.rows_checked == 16);
}

/* The check of a measurement must use the strides, also in memory that the host cannot read. */
static void check_measurements(void)
{
  static const char *const devices[] = {"reference", "cpu", "cuda:0"};
  for (int64_t d = 0; d < LENGTH(devices); d++) {
    hr_device *device = NULL;
    if (hr_device_open(devices[d], 0, &device, NULL) != HR_OK)
      continue;
    for (int64_t i = 0; i < 2 * LENGTH(layouts); i++)
      check_measured(device, i / 2, i % 2);
    hr_device_close(device);
  }
}

/* ---- special values ---- */

static bool try_specials(hr_device *device, const char *kernel, const hr_gemm *of)
{
  const hr_gemm g = *of;
  const hr_problem problem = hr_gemm_problem(&g);
  const hr_dtype dtype = g.dtype;
  const bool infinities = dtype != HR_FP8_E4M3;
  call c;
  call_open(device, kernel, &problem, NULL, 7, &c);
  hr_number_store(dtype, c.places[0].host, (size_t)(1 * g.k + 4), (double)NAN); /* row 1 */
  if (infinities)
    hr_number_store(dtype, c.places[0].host, (size_t)(3 * g.k + 30), (double)INFINITY); /* row 3 */
  bool ran = call_run(&c, NULL);
  for (int64_t column = 0; ran && column < g.n; column++) {
    double infinity = element_of(&c, 'c', 0, 3, column), factor = element_of(&c, 'b', 0, 30, column);
    assert_true(isfinite(element_of(&c, 'c', 0, 0, column)));
    assert_true(isnan(element_of(&c, 'c', 0, 1, column)));
    if (infinities && factor != 0)
      assert_true(isinf(infinity) && (infinity > 0) == (factor > 0));
  }
  call_close(&c);
  return ran;
}

static void check_specials(hr_device *device, const char *kernel, hr_dtype dtype)
{
  int ran = 0;
  for (int i = 0; i < 4; i++) { /* B plain and transposed, k odd and a multiple of vectors */
    const hr_gemm g = gemm_of(dtype, (const int64_t[]){5, 19, i < 2 ? 33 : 96}, i % 2 * 2, 1);
    ran += try_specials(device, kernel, &g);
  }
  assert_true(ran > 0 || dtype == HR_FP8_E4M3);
}

static const fact facts[] = {
    FACT(every_kernel_agrees_with_a_gemm_in_float64, check_sizes),
    FACT(strides_are_respected_and_gaps_neither_read_nor_written, check_layouts),
    FACT_OF_NO_KERNEL(strided_gemms_pass_the_check_of_a_measurement, check_measurements),
};
const fact_group gemm_facts = {.name = "gemm", .operation = "gemm", .facts = facts, .count = LENGTH(facts)};

/* ---- configurations of a GPU's kernel ---- */

static int64_t check_choice(hr_device *device, const char *kernel, const hr_gemm *g, int64_t choice)
{
  hr_plan *plan = NULL;
  hr_error error;
  call c;
  const hr_problem problem = hr_gemm_problem(g);
  const hr_plan_choice one = {.kernel = kernel, .choice = choice, .choices = 32};
  assert_ok(hr_plan_gemm_choice(device, g, &one, &plan, &error), error);
  int64_t choices = hr_plan_choices(plan);
  if (choice == 0)
    print_message("%s\n", hr_plan_configuration(plan));
  call_open(device, hr_plan_configuration(plan), &problem, NULL, (uint64_t)(50 * choice), &c);
  call_run_plan(&c, plan, NULL);
  compare(&c, &plan->summation);
  call_close(&c);
  hr_plan_free(plan);
  return choices;
}

/* More rows of B than the largest block has, and k that is no whole number of steps. */
static void check_tilings(void)
{
  static const int64_t shapes[][3] = {{1, 70, 1032}, {8, 70, 1032}, {3, 45, 1033}, {7, 45, 1033}};
  hr_device *device = open_gpu();
  for (int64_t i = 0; i < LENGTH(shapes); i++) {
    const hr_gemm g = gemm_of(HR_BF16, shapes[i], 2, 1);
    for (int64_t choice = 0, choices = 1; choice < choices; choice++)
      choices = check_choice(device, "gemv_cuda", &g, choice);
  }
  hr_device_close(device);
}

static const fact few_rows_facts[] = {
    FACT(few_rows_agree_with_a_gemm_in_float64, check_few_rows),
    FACT_OF_NO_KERNEL(every_tiling_of_few_rows_is_right, check_tilings),
    FACT(nan_and_infinity_reach_exactly_the_rows_that_they_are_in, check_specials),
};
const fact_group gemm_few_rows_facts = {
    .name = "gemm_few_rows", .operation = "gemm", .facts = few_rows_facts, .count = LENGTH(few_rows_facts)};

/* ---- the algorithms of a GPU's library ---- */

/* Every algorithm that cuBLASLt's heuristic returns for a GEMM, not only the first. */
static void check_choices(void)
{
  static const int64_t shapes[][4] = {{384, 512, 320, 1}, {65, 129, 514, 1}, {8, 1024, 2048, 1}, {100, 96, 72, 7}};
  hr_device *device = open_gpu();
  int64_t checked = 0;
  for (int64_t i = 0; i < LENGTH(shapes); i++) {
    const hr_gemm g = gemm_of(HR_BF16, shapes[i], 2, shapes[i][3]);
    for (int64_t choice = 0, choices = 1; choice < choices; choice++, checked++)
      choices = check_choice(device, "gemm_cublaslt", &g, choice);
  }
  print_message("%d algorithms\n", (int)checked);
  hr_device_close(device);
}

static hr_measurement measured_on_gpu(hr_device *device, const hr_gemm *g, double limit_ns)
{
  hr_measure_options options = hr_measure_options_default();
  hr_measurement measured;
  hr_error error;
  options.time_limit_ns = limit_ns;
  assert_ok(hr_measure_gemm(device, g, &options, &measured, &error), error);
  print_message("%s %s\n", hr_dtype_name(g->dtype), measured.configuration);
  return measured;
}

/* Libraries use split-K for GEMMs whose tiles do not fill the GPU, and may round the partial results: the check must
 * allow for that. */
static void check_split_k(void)
{
  static const struct {
    int64_t size[3];
    hr_dtype dtype;
    int transposes;
  } cases[] = {{{1536, 128, 15}, HR_BF16, 0}, {{500, 1023, 1025}, HR_BF16, 1}, {{384, 65, 2047}, HR_FP16, 2},
               {{513, 31, 500}, HR_FP16, 0},  {{4096, 256, 8192}, HR_BF16, 1}, {{100, 16, 1025}, HR_FP32, 1}};
  hr_device *device = open_gpu();
  for (int64_t i = 0; i < LENGTH(cases); i++) {
    const hr_gemm g = gemm_of(cases[i].dtype, cases[i].size, cases[i].transposes, 1);
    const hr_measurement measured = measured_on_gpu(device, &g, 1e7);
    if (measured.status != HR_OK && measured.status != HR_ERROR_NOISY)
      fail_msg("%s: %s", hr_status_name(measured.status), measured.reason);
    assert_true(measured.rows_checked > 0);
  }
  hr_device_close(device);
}

/* Tensor Cores truncate their accumulators. Enough tiles to fill the GPU keep cuBLASLt from using split-K. */
static void check_large_k(void)
{
  static const hr_dtype dtypes[] = {HR_BF16, HR_FP16, HR_TF32, HR_FP8_E4M3};
  hr_device *device = open_gpu();
  for (int64_t i = 0; i < LENGTH(dtypes); i++) {
    const hr_gemm g = gemm_of(dtypes[i], (const int64_t[]){2048, 2048, 1 << 19}, 2, 1);
    const hr_measurement measured = measured_on_gpu(device, &g, 1e8);
    if (measured.status == HR_ERROR_WRONG_RESULT || measured.status == HR_ERROR_BACKEND)
      fail_msg("%s: %s", hr_status_name(measured.status), measured.reason);
  }
  hr_device_close(device);
}

static const fact gpu_facts[] = {
    FACT_OF_NO_KERNEL(every_algorithm_that_a_gpu_can_be_tuned_with_is_right, check_choices),
    FACT_OF_NO_KERNEL(split_k_gemms_of_a_gpu_pass_their_check, check_split_k),
    FACT_OF_NO_KERNEL(gemms_with_large_k_on_a_gpu_pass_their_check, check_large_k),
};
const fact_group gemm_gpu_facts = {
    .name = "gemm_gpu", .operation = "gemm", .facts = gpu_facts, .count = LENGTH(gpu_facts)};

/* ---- shapes ---- */

static void small(hr_dtype dtype, problem_taker *take, void *context)
{
  /* fp8 is multiplied in multiples of 16 alone on a GPU. */
  static const int64_t few[][3] = {{1, 1, 1}, {7, 13, 5}, {33, 50, 40}, {17, 129, 31}, {64, 3, 257}, {48, 16, 80}};
  for (int i = 0; i < (int)LENGTH(few) * 4; i++) {
    const hr_gemm g = gemm_of(dtype, few[i / 4], i % 4, i % 4 == 0 ? 3 : 1);
    const hr_problem problem = hr_gemm_problem(&g);
    take(&problem, context);
  }
}

static hr_status check_problem(const hr_problem *problem, hr_error *error)
{
  return hr_gemm_check(&problem->gemm, error);
}

static const shape_member members[] = {
    {"m", COUNT_MEMBER, offsetof(hr_problem, gemm.m)},
    {"n", COUNT_MEMBER, offsetof(hr_problem, gemm.n)},
    {"k", COUNT_MEMBER, offsetof(hr_problem, gemm.k)},
    {"batch", COUNT_MEMBER, offsetof(hr_problem, gemm.batch)},
    {"transpose_a", FLAG_MEMBER, offsetof(hr_problem, gemm.transpose_a)},
    {"transpose_b", FLAG_MEMBER, offsetof(hr_problem, gemm.transpose_b)},
    {"lda", COUNT_MEMBER, offsetof(hr_problem, gemm.lda)},
    {"ldb", COUNT_MEMBER, offsetof(hr_problem, gemm.ldb)},
    {"ldc", COUNT_MEMBER, offsetof(hr_problem, gemm.ldc)},
};
static const char *const shapes[] = {"m=512,n=512,k=512",
                                     "m=2048,n=2048,k=2048",
                                     "m=2048,n=2048,k=2048,transpose_b=1",
                                     "m=1,n=4096,k=4096,transpose_b=1",
                                     "m=128,n=128,k=64,batch=32",
                                     NULL};
const operation_cases gemm_cases = {.plain = plain,
                                    .members = members,
                                    .member_count = LENGTH(members),
                                    .check = check_problem,
                                    .shapes = shapes,
                                    .small = small};
