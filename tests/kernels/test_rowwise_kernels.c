/* SPDX-License-Identifier: Apache-2.0 */
/* Row-wise operations: the reference against values computed by hand, and every other kernel of the table against the
 * reference, in all formats and in lengths around those that a thread, a warp and a block hold. */
#include "machine.h"

#include "runtime/device/number.h"
#include "runtime/device/plan.h"
#include "runtime/measure/error_bounds.h"
#include "runtime/reference/reference.h"

#include <headroom/buffer.h>
#include <headroom/measure.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the reference ---- */

static hr_rowwise rows_of(hr_rowwise_operation operation, int64_t rows, int64_t columns)
{
  hr_rowwise r = hr_rowwise_default();
  r.operation = operation;
  r.rows = rows;
  r.columns = columns;
  r.dtype = HR_FP64;
  r.period = operation == HR_ROWWISE_ROTARY ? 1 : 0;
  return r;
}

static void assert_row(const hr_rowwise *r, int64_t row, const double *a, const double *b, const double *c,
                       const double *expected)
{
  const void *inputs[] = {a, b, c};
  double scratch[64], out[16], norm[16];
  assert_true(r->columns <= 16 && hr_reference_rowwise_scratch(r) <= 64);
  hr_reference_rowwise_row(r, inputs, row, scratch, out, norm);
  for (int64_t i = 0; i < r->columns; i++) {
    if (!(fabs(out[i] - expected[i]) <= 1e-12))
      fail_msg("%s: column %d is %.15g, not %.15g", hr_rowwise_operation_name(r->operation), (int)i, out[i],
               expected[i]);
  }
}

static void the_reference_agrees_with_values_computed_by_hand(void **state)
{
  (void)state;
  hr_rowwise r = rows_of(HR_ROWWISE_SOFTMAX, 1, 2);
  assert_row(&r, 0, (double[]){0, log(3)}, NULL, NULL, (double[]){0.25, 0.75}); /* 1 : 3 */
  r = rows_of(HR_ROWWISE_LAYER_NORM, 1, 2);                                     /* mean 2, variance 1 */
  double scale = 1 / sqrt(1 + 1e-5);
  assert_row(&r, 0, (double[]){1, 3}, (double[]){2, 3}, (double[]){1, -1}, (double[]){1 - 2 * scale, 3 * scale - 1});
  r = rows_of(HR_ROWWISE_RMS_NORM, 1, 2); /* mean of squares (9 + 16) / 2 = 12.5 */
  assert_row(&r, 0, (double[]){3, 4}, (double[]){1, 2}, NULL, (double[]){3 / sqrt(12.5 + 1e-5), 8 / sqrt(12.5 + 1e-5)});
  r = rows_of(HR_ROWWISE_ROTARY, 1, 4); /* a quarter turn for the first pair, none for the second */
  assert_row(&r, 0, (double[]){1, 2, 3, 4}, (double[]){0, 1, 1, 0}, NULL, (double[]){-3, 2, 1, 4});
  r = rows_of(HR_ROWWISE_GELU, 1, 3); /* Φ(1) = 0.841344746068543 */
  assert_row(&r, 0, (double[]){0, 1, -1}, NULL, NULL, (double[]){0, 0.841344746068543, -0.158655253931457});
  r = rows_of(HR_ROWWISE_SWIGLU, 1, 2); /* 1 / (1 + 1/3) = 0.75 */
  assert_row(&r, 0, (double[]){0, log(3)}, (double[]){5, 2}, NULL, (double[]){0, 2 * log(3) * 0.75});
  r = rows_of(HR_ROWWISE_RESIDUAL, 1, 2);
  assert_row(&r, 0, (double[]){1, 2}, (double[]){10, 20}, NULL, (double[]){11, 22});
}

/* Philox4x32-7 of counter and key 0: 5f6fb709 0d893f64 4f121f81 4f730a48, among the known answers of its authors
 * (Random123, kat_vectors). Rate 0.3 drops bits below 19661 = 0x4ccd: of b709 5f6f 3f64 0d89 1f81 4f12 0a48 4f73 the
 * third, the fourth, the fifth and the seventh. */
static void dropout_drops_by_the_known_random_numbers(void **state)
{
  (void)state;
  hr_rowwise r = rows_of(HR_ROWWISE_DROPOUT, 1, 8);
  r.rate = 0.3;
  assert_int_equal(hr_rowwise_dropped(&r), 19661);
  const double s = 65536.0 / (65536 - 19661);
  assert_row(&r, 0, (double[]){1, 2, 3, 4, 5, 6, 7, 8}, NULL, NULL, (double[]){s, 2 * s, 0, 0, 0, 6 * s, 0, 8 * s});
  r.rate = 0;
  assert_row(&r, 0, (double[]){1, 2, 3, 4, 5, 6, 7, 8}, NULL, NULL, (double[]){1, 2, 3, 4, 5, 6, 7, 8});
  hr_error error;
  r.rate = 1;
  assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "rate"));
}

/* A tenth of 2^20 elements is dropped, within 5 standard deviations of 307. */
static void dropout_drops_the_share_that_was_asked_for(void **state)
{
  (void)state;
  enum { columns = 1 << 20 };
  hr_rowwise r = rows_of(HR_ROWWISE_DROPOUT, 1, columns);
  r.rate = 0.1;
  double *values = malloc(6 * (size_t)columns * sizeof *values), *x = values, *out = x + columns, *norm = out + columns;
  int64_t dropped = 0;
  for (int64_t i = 0; i < columns; i++)
    x[i] = 1;
  hr_reference_rowwise_row(&r, (const void *[]){x, NULL, NULL}, 0, norm + columns, out, norm);
  for (int64_t i = 0; i < columns; i++)
    dropped += out[i] == 0;
  free(values);
  assert_in_range(dropped, 104858 - 1536, 104858 + 1536);
}

static void a_causal_softmax_sees_up_to_its_own_query(void **state)
{
  (void)state;
  hr_rowwise r =
      rows_of(HR_ROWWISE_SOFTMAX, 4, 3); /* two queries, three keys, two sequences: the last query sees all */
  r.period = 2;
  double zeros[12] = {0};
  zeros[2] = (double)NAN; /* masked, so it must be ignored */
  assert_row(&r, 0, zeros, NULL, NULL, (double[]){0.5, 0.5, 0});
  assert_row(&r, 3, zeros, NULL, NULL, (double[]){1.0 / 3, 1.0 / 3, 1.0 / 3});
  r = rows_of(HR_ROWWISE_SOFTMAX, 3, 1); /* three queries over one key: the first two see none */
  r.period = 3;
  assert_row(&r, 1, zeros, NULL, NULL, (double[]){0});
  assert_row(&r, 2, zeros + 3, NULL, NULL, (double[]){1});
}

static void heads_share_a_row_of_the_rotary_table(void **state)
{
  (void)state;
  hr_rowwise r =
      rows_of(HR_ROWWISE_ROTARY, 8, 2); /* two positions, two heads, two sequences: positions 0 0 1 1 0 0 1 1 */
  r.period = 2;
  r.group = 2;
  const double x[16] = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0}, table[] = {1, 0, 0, 1};
  for (int64_t row = 0; row < 8; row++)
    assert_row(&r, row, x, table, NULL, row / 2 % 2 ? (double[]){0, 1} : (double[]){1, 0});
}

static void impossible_sizes_are_refused_by_name(void **state)
{
  (void)state;
  hr_error error;
  hr_rowwise r = rows_of(HR_ROWWISE_ROTARY, 1, 3);
  assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "columns"));
  r = rows_of(HR_ROWWISE_GELU, INT64_MAX / 2, 4);
  assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_OVERFLOW);
  r = rows_of(HR_ROWWISE_GELU, 0, 4);
  assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_INVALID);
  r.operation = HR_ROWWISE_COUNT;
  assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_INVALID);
  int64_t bytes = 0;
  r = rows_of(HR_ROWWISE_LAYER_NORM, 10, 4);
  assert_int_equal(hr_rowwise_bytes(&r, &bytes), HR_OK);
  assert_int_equal(bytes, (40 + 4 + 4 + 40) * 8);
}

/* ---- the other kernels ---- */

/* Inputs and the result in device buffers, each shifted by `skew` elements (of the result) and by its own number, with
 * GUARD elements after the result. */
#define GUARD 64

typedef struct tensors {
  hr_buffer *buffers[HR_OPERANDS_MAX];
  void *values[HR_OPERANDS_MAX]; /* of the whole buffers, on the host */
  size_t bytes[HR_OPERANDS_MAX], offset[HR_OPERANDS_MAX], count;
} tensors;

static void *values_of(const tensors *t, size_t i)
{
  return (char *)t->values[i] + t->offset[i];
}

static void create_tensors(hr_device *device, const hr_rowwise *r, const size_t *skew, tensors *t)
{
  hr_problem problem = {.operation = HR_OPERATION_ROWWISE, .dtype = r->dtype, .rows = *r};
  hr_operands operands = hr_problem_operands(&problem);
  size_t element = hr_dtype_bytes(r->dtype);
  hr_error error;
  *t = (tensors){.count = operands.count};
  for (size_t i = 0; i < t->count; i++) {
    bool output = i + 1 == t->count;
    t->offset[i] = skew ? skew[i] * element : 0;
    t->bytes[i] = t->offset[i] + operands.bytes[i] + (output && skew ? GUARD * element : 0);
    t->values[i] = malloc(t->bytes[i]);
    assert_ok(hr_buffer_create(device, t->bytes[i], &t->buffers[i], &error), error);
    assert_ok(output ? hr_buffer_poison(t->buffers[i], r->dtype, &error)
                     : hr_buffer_fill_uniform(t->buffers[i], r->dtype, 7 + i, &error),
              error);
    assert_ok(hr_buffer_read(t->buffers[i], t->values[i], t->bytes[i], &error), error);
  }
}

static void free_tensors(tensors *t)
{
  for (size_t i = 0; i < t->count; i++) {
    hr_buffer_free(t->buffers[i]);
    free(t->values[i]);
  }
}

static void run_plan(hr_device *device, const char *kernel, const hr_rowwise *r, const tensors *t)
{
  size_t last = t->count - 1;
  hr_plan *plan = NULL;
  hr_buffer *workspace = NULL;
  hr_error error;
  hr_rowwise problem = *r;
  for (size_t i = 0; i <= last; i++)
    problem.alignment = t->offset[i] > 0 ? (int64_t)hr_dtype_bytes(r->dtype) : problem.alignment;
  assert_ok(hr_plan_rowwise(device, &problem, kernel, &plan, &error), error);
  if (hr_plan_workspace_bytes(plan) > 0)
    assert_ok(hr_buffer_create(device, hr_plan_workspace_bytes(plan), &workspace, &error), error);
  hr_rowwise_arguments x = hr_rowwise_arguments_default();
  for (size_t i = 0; i < last; i++)
    x.inputs[i] = (const char *)hr_buffer_data(t->buffers[i]) + t->offset[i];
  x.output = (char *)hr_buffer_data(t->buffers[last]) + t->offset[last];
  assert_ok(hr_plan_run_rowwise(plan, &x, workspace ? hr_buffer_data(workspace) : NULL, NULL, &error), error);
  hr_buffer_free(workspace);
  hr_plan_free(plan);
}

static void compare(const char *kernel, const hr_rowwise *r, const tensors *t)
{
  const void *inputs[3] = {NULL}, *result = values_of(t, t->count - 1);
  for (size_t i = 0; i + 1 < t->count; i++)
    inputs[i] = values_of(t, i);
  size_t columns = (size_t)r->columns;
  double *scratch = calloc(hr_reference_rowwise_scratch(r) + 2 * columns, sizeof *scratch);
  double *expected = scratch + hr_reference_rowwise_scratch(r), *norm = expected + columns;
  for (int64_t row = 0; row < r->rows; row++) {
    hr_reference_rowwise_row(r, inputs, row, scratch, expected, norm);
    for (size_t i = 0; i < columns; i++) {
      double found = hr_number_load(r->dtype, result, (size_t)row * columns + i);
      double bound = hr_rowwise_error_bound(r->dtype, r->columns, expected[i], norm[i]);
      bool same = found == expected[i] || (isnan(found) && isnan(expected[i])); /* or both infinite */
      if (!same && !(fabs(found - expected[i]) <= bound))
        fail_msg("%s %s %s, %d rows of %d, period %d: [%d, %d] is %g, exactly %g, allowed ±%g", kernel,
                 hr_rowwise_operation_name(r->operation), hr_dtype_name(r->dtype), (int)r->rows, (int)columns,
                 (int)r->period, (int)row, (int)i, found, expected[i], bound);
    }
  }
  free(scratch);
}

/* Puts a NaN, infinities and a row of −∞ among the values; needs at least four rows and two columns. */
static void put_specials(const hr_rowwise *r, const tensors *t)
{
  size_t columns = (size_t)r->columns;
  hr_error error;
  hr_number_store(r->dtype, values_of(t, 0), 1, (double)NAN);
  hr_number_store(r->dtype, values_of(t, 0), columns + 1, (double)INFINITY);
  hr_number_store(r->dtype, values_of(t, 0), 2 * columns + 1, -(double)INFINITY);
  for (size_t i = 0; i < columns; i++)
    hr_number_store(r->dtype, values_of(t, 0), 3 * columns + i, -(double)INFINITY);
  assert_ok(hr_buffer_write(t->buffers[0], t->values[0], t->bytes[0], &error), error);
}

/* The elements before and after the result must be unchanged. */
static void assert_guarded(const tensors *t, const char *before, const hr_rowwise *r)
{
  size_t last = t->count - 1, end = t->bytes[last] - GUARD * hr_dtype_bytes(r->dtype);
  const char *after = t->values[last];
  assert_memory_equal(after, before, t->offset[last]);
  assert_memory_equal(after + end, before + end, t->bytes[last] - end);
}

static void check_one(hr_device *device, const char *kernel, const hr_rowwise *r, const size_t *skew, bool special)
{
  tensors t;
  hr_error error;
  create_tensors(device, r, skew, &t);
  if (special)
    put_specials(r, &t);
  size_t last = t.count - 1;
  char *before = malloc(t.bytes[last]);
  memcpy(before, t.values[last], t.bytes[last]);
  run_plan(device, kernel, r, &t);
  assert_ok(hr_buffer_read(t.buffers[last], t.values[last], t.bytes[last], &error), error);
  compare(kernel, r, &t);
  if (skew)
    assert_guarded(&t, before, r);
  free(before);
  free_tensors(&t);
}

/* Lengths around those that a pack, a thread, part of a warp, a warp, a block and a cluster hold, aligned and not. */
static const int64_t sizes[][2] = {
    {1, 1},     {1, 2},     {3, 64},     {5, 98},     {7, 99},     {70, 128},  {17, 513},  {17, 1000}, {6, 1025},
    {4, 2048},  {5, 2055},  {3, 4099},   {2, 8192},   {3, 8202},   {2, 16384}, {2, 16386}, {2, 32768}, {3, 32769},
    {2, 50257}, {2, 50258}, {3, 131072}, {2, 131073}, {1, 262145}, {700, 16},  {1100, 3},  {40, 33001}};

/* Large tensors are distributed over the formats; with HEADROOM_TEST=thorough each format gets all. */
#define LARGE 4096          /* elements */
#define LONG_ON_A_CPU 20000 /* longer rows take no other path on a CPU */

typedef struct subject {
  hr_device *device;
  const char *kernel;
  hr_dtype dtype;
  int turn, turns; /* index of the format among those of the kernel */
  int cases, seen;
} subject;

static bool has_a_turn(subject *s, int64_t rows, int64_t columns)
{
  bool cpu = strncmp(hr_device_name(s->device), "cuda", 4) != 0;
  if (test_asks_for("thorough"))
    return !cpu || columns <= 60000;
  if (cpu && columns > LONG_ON_A_CPU)
    return false;
  return rows * columns <= LARGE || s->cases++ % s->turns == s->turn;
}

static hr_rowwise rows_for(int operation, hr_dtype dtype, int64_t rows, int64_t columns)
{
  hr_rowwise r = rows_of((hr_rowwise_operation)operation, rows, columns);
  r.dtype = dtype;
  if (operation == HR_ROWWISE_DROPOUT) {
    r.rate = 0.3;
    r.seed = 0x123456789ABCDEFu;
  }
  if (operation == HR_ROWWISE_ROTARY) {
    r.columns += columns % 2;
    r.period = 7;
    r.group = 3;
  }
  return r;
}

static void check_case(subject *s, const hr_rowwise *r, const size_t *skew, bool special)
{
  if (test_takes(s->seen++) && has_a_turn(s, r->rows, r->columns))
    check_one(s->device, s->kernel, r, skew, special);
}

static void check_sizes(subject *s, int operation)
{
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    hr_rowwise r = rows_for(operation, s->dtype, sizes[i][0], sizes[i][1]);
    check_case(s, &r, NULL, false);
    if (operation != HR_ROWWISE_SOFTMAX)
      continue;
    r.period = r.rows > r.columns ? r.rows : 2; /* the first rows may see no key */
    check_case(s, &r, NULL, false);
    r.period = r.columns; /* the first row sees one key */
    check_case(s, &r, NULL, false);
  }
}

/* Addresses aligned to one element only: all operands alike, each with its own shift, and the result alone. The lengths
 * are for a part of a warp, a block and a cluster. */
static void check_addresses(subject *s, int operation)
{
  static const size_t skews[][HR_OPERANDS_MAX] = {{1, 1, 1, 1}, {1, 2, 3, 7}, {5, 4, 6, 3}, {0, 0, 0, 1}, {3, 0, 0, 0}};
  static const int64_t lengths[] = {24, 512, 1021, 4096, 33000};
  for (size_t i = 0; i < sizeof skews / sizeof *skews; i++) {
    for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++) {
      hr_rowwise r = rows_for(operation, s->dtype, 3, lengths[j]);
      check_case(s, &r, skews[i], false);
    }
  }
}

static void check_kernel(subject *s)
{
  static const int64_t lengths[] = {32, 100, 2049, 16400, 40001};
  s->cases = 0;
  for (int operation = 0; operation < HR_ROWWISE_COUNT; operation++) {
    check_sizes(s, operation);
    check_addresses(s, operation);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths && s->dtype != HR_FP8_E4M3; i++) {
      hr_rowwise r = rows_for(operation, s->dtype, 5, lengths[i]);
      check_case(s, &r, NULL, true);
    }
  }
}

static void check_formats(hr_device *device, const hr_kernel_info *info)
{
  subject s = {.device = device, .kernel = info->name};
  for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++)
    s.turns += hr_has_word(info->dtypes, hr_dtype_name((hr_dtype)dtype));
  for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++) {
    if (!hr_has_word(info->dtypes, hr_dtype_name((hr_dtype)dtype)))
      continue;
    s.dtype = (hr_dtype)dtype;
    if (test_leaves_out(s.dtype)) {
      s.turn++;
      continue;
    }
    check_kernel(&s);
    if (strcmp(info->device, "cpu") == 0) { /* results larger than the caches use streaming stores */
      size_t cache_bytes = device->cache_bytes;
      device->cache_bytes = 0;
      check_kernel(&s);
      device->cache_bytes = cache_bytes;
    }
    s.turn++;
  }
}

static void every_kernel_agrees_with_the_reference(void **state)
{
  (void)state;
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(kernels[i].operation, "rowwise") != 0 ||
        (test_asks_for("gpu") && strcmp(kernels[i].device, "cuda") != 0))
      continue;
    hr_device *device = open_for_kernel(&kernels[i]);
    if (device)
      check_formats(device, &kernels[i]);
    hr_device_close(device);
  }
}

/* The second softmax value of two columns 0 and −x is e^-x / (1 + e^-x), from 1/2 down to the denormal numbers, so
 * errors of the exponential are visible. fp32: three roundings and its own error of 3 · 2^-24 make 6, and one step of
 * denormal numbers. Values rounded to 16 bits may have a relative error of 5e-8 for every unit of x before the
 * rounding. */
static double lost(hr_dtype dtype, double x, double exact)
{
  double before = exact * 6 * 0x1p-24;
  return dtype == HR_FP32 ? before + 0x1p-149 : before + exact * 5e-8 * fabs(x) + hr_dtype_rounding_error(dtype, exact);
}

static void check_exponentials(hr_device *device, const char *kernel, hr_dtype dtype)
{
  enum { rows = 20000 };
  static float x[2 * rows], y[2 * rows]; /* of `dtype`; large enough for fp32 */
  for (size_t i = 0; i < rows; i++) {
    hr_number_store(dtype, x, 2 * i, 0.0);
    hr_number_store(dtype, x, 2 * i + 1, -104.5 * (double)i / rows);
  }
  hr_rowwise r = rows_of(HR_ROWWISE_SOFTMAX, rows, 2);
  r.dtype = dtype;
  hr_error error;
  tensors t = {.count = 2};
  size_t bytes = 2 * rows * hr_dtype_bytes(dtype);
  for (int j = 0; j < 2; j++)
    assert_ok(hr_buffer_create(device, bytes, &t.buffers[j], &error), error);
  assert_ok(hr_buffer_write(t.buffers[0], x, bytes, &error), error);
  run_plan(device, kernel, &r, &t);
  assert_ok(hr_buffer_read(t.buffers[1], y, bytes, &error), error);
  for (size_t j = 0; j < rows; j++) {
    double of = hr_number_load(dtype, x, 2 * j + 1), e = exp(of), exact = e / (1 + e);
    double found = hr_number_load(dtype, y, 2 * j + 1);
    if (!(fabs(found - exact) <= lost(dtype, of, exact)))
      fail_msg("%s %s: softmax of 0 and %g: %g, exactly %g", kernel, hr_dtype_name(dtype), of, found, exact);
  }
  free_tensors(&t);
}

static void exponentials_are_accurate_down_to_denormal_numbers(void **state)
{
  (void)state;
  static const hr_dtype formats[] = {HR_FP32, HR_BF16, HR_FP16};
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open("cpu", 0, &device, &error), error);
  for (size_t i = 0; i < count; i++) {
    char why[160];
    if (strcmp(kernels[i].operation, "rowwise") != 0 || strcmp(kernels[i].device, "cpu") != 0 ||
        !hr_kernel_runs(device, kernels[i].name, why, sizeof why))
      continue;
    for (int j = 0; j < 3; j++)
      check_exponentials(device, kernels[i].name, formats[j]);
  }
  hr_device_close(device);
}

static void a_measurement_checks_and_counts_bytes(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  for (int operation = 0; operation < HR_ROWWISE_COUNT; operation++) {
    hr_rowwise r = rows_of((hr_rowwise_operation)operation, 20, 64);
    r.dtype = HR_BF16;
    hr_measure_options options = hr_measure_options_default();
    options.time_limit_ns = 20e6;
    hr_measurement m;
    assert_ok(hr_measure_rowwise(device, &r, &options, &m, &error), error);
    if (m.status != HR_OK && m.status != HR_ERROR_NOISY)
      fail_msg("%s: %s", hr_rowwise_operation_name(r.operation), m.reason);
    int64_t bytes;
    assert_int_equal(hr_rowwise_bytes(&r, &bytes), HR_OK);
    assert_true(m.rows_checked == 16 && m.median_ns > 0);
    assert_true(fabs(m.bytes_per_s * m.median_ns * 1e-9 - (double)bytes) < 1);
    assert_true(isnan(m.flops_per_s));
  }
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_reference_agrees_with_values_computed_by_hand),
      cmocka_unit_test(dropout_drops_by_the_known_random_numbers),
      cmocka_unit_test(dropout_drops_the_share_that_was_asked_for),
      cmocka_unit_test(a_causal_softmax_sees_up_to_its_own_query),
      cmocka_unit_test(heads_share_a_row_of_the_rotary_table),
      cmocka_unit_test(impossible_sizes_are_refused_by_name),
      cmocka_unit_test(every_kernel_agrees_with_the_reference),
      cmocka_unit_test(exponentials_are_accurate_down_to_denormal_numbers),
      cmocka_unit_test(a_measurement_checks_and_counts_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
