/* SPDX-License-Identifier: Apache-2.0 */
/* Squares of parts of a gradient, of the host and with HEADROOM_TEST=gpu of a GPU; AdamW that is clipped by them. */
#include "device_tensors.h"

#include "runtime/device/squares.h"

#include <headroom/rowwise.h>
#include <math.h>
#include <string.h>

static double squares_of(const tensor *x, hr_dtype dtype, int64_t count)
{
  double sum = 0;
  for (int64_t i = 0; i < count; i++)
    sum += hr_number_load(dtype, x->host, (size_t)i) * hr_number_load(dtype, x->host, (size_t)i);
  return sum;
}

static void add_squares(const tensor *x, hr_dtype dtype, int64_t count, bool adds, tensor *sums)
{
  hr_error error;
  const hr_squares_arguments a = {dtype, count, hr_buffer_data(x->buffer), hr_buffer_data(sums->buffer), adds};
  assert_ok(hr_device_add_squares(device, &a, hr_device_stream(device), &error), error);
  fetch(sums);
}

static double sum_of(const tensor *sums)
{
  double sum = 0;
  for (int i = 0; i < HR_SQUARES_SUMS; i++)
    sum += (double)((const float *)sums->host)[i];
  return sum;
}

static void squares_of_parts_are_those_of_all(void **state)
{
  (void)state;
  static const hr_dtype dtypes[] = {HR_BF16, HR_FP32, HR_FP16};
  static const int64_t counts[] = {1, 7, 600, 4096, 70001, 300000};
  for (int i = 0; i < 18; i++) {
    if (!test_takes(i))
      continue;
    const hr_dtype dtype = dtypes[i % 3];
    const int64_t count = counts[i / 3];
    tensor x = random_tensor(dtype, (uint64_t)i, count), y = random_tensor(dtype, 99, count);
    tensor sums = tensor_of(HR_SQUARES_SUMS * sizeof(float)); /* of which nothing is 0 before */
    hr_error error;
    memset(sums.host, 0x41, sums.bytes);
    assert_ok(hr_buffer_write(sums.buffer, sums.host, sums.bytes, &error), error);
    float first[HR_SQUARES_SUMS];
    const double of_x = squares_of(&x, dtype, count), of_both = of_x + squares_of(&y, dtype, count);
    add_squares(&x, dtype, count, false, &sums);
    assert_true(fabs(sum_of(&sums) - of_x) <= 1e-5 * of_x);
    add_squares(&y, dtype, count, true, &sums);
    assert_true(fabs(sum_of(&sums) - of_both) <= 1e-5 * of_both);
    memcpy(first, sums.host, sizeof first);
    add_squares(&x, dtype, count, false, &sums);
    add_squares(&y, dtype, count, true, &sums);
    assert_memory_equal(first, sums.host, sizeof first);
    tensor_free(&x);
    tensor_free(&y);
    tensor_free(&sums);
  }
}

#define ROWS 6
#define COLUMNS 512

/* A step over rows of a gradient, which moves weights of 0. */
static void take_step(int64_t rows, const tensor *gradient, int64_t first_row, const tensor *squares, tensor *weights)
{
  hr_rowwise r = hr_rowwise_default();
  hr_rowwise_arguments a = hr_rowwise_arguments_default();
  hr_plan *plan = NULL;
  hr_error error;
  tensor means = tensor_of(ROWS * COLUMNS * sizeof(float)), variances = tensor_of(ROWS * COLUMNS * sizeof(float));
  tensor *const zeros[] = {weights, &means, &variances};
  for (int i = 0; i < 3; i++) {
    memset(zeros[i]->host, 0, zeros[i]->bytes);
    assert_ok(hr_buffer_write(zeros[i]->buffer, zeros[i]->host, zeros[i]->bytes, &error), error);
  }
  r.operation = HR_ROWWISE_ADAMW;
  r.dtype = HR_FP32;
  r.rows = rows, r.columns = COLUMNS;
  r.learning_rate = 0.1, r.beta1 = 0.9, r.beta2 = 0.999;
  r.max_norm = 1e-7; /* so that epsilon counts, and the step depends on the norm */
  assert_ok(hr_plan_rowwise(device, &r, NULL, &plan, &error), error);
  tensor workspace = tensor_of(hr_plan_workspace_bytes(plan) + 16);
  a.inputs[0] = (const float *)hr_buffer_data(gradient->buffer) + first_row * COLUMNS;
  a.inputs[1] = a.output = hr_buffer_data(weights->buffer);
  a.inputs[2] = a.more_outputs[0] = hr_buffer_data(means.buffer);
  a.more_inputs[0] = a.more_outputs[1] = hr_buffer_data(variances.buffer);
  a.squares = squares ? hr_buffer_data(squares->buffer) : NULL;
  a.squares_count = HR_SQUARES_SUMS;
  assert_ok(hr_plan_run_rowwise(plan, &a, hr_buffer_data(workspace.buffer), hr_device_stream(device), &error), error);
  fetch(weights);
  hr_plan_free(plan);
  tensor_free(&workspace);
  tensor_free(&means);
  tensor_free(&variances);
}

static void parts_are_clipped_as_the_whole(void **state)
{
  (void)state;
  tensor gradient = random_tensor(HR_FP32, 5, ROWS * COLUMNS), squares = tensor_of(HR_SQUARES_SUMS * sizeof(float));
  tensor whole = tensor_of(ROWS * COLUMNS * sizeof(float)), part = tensor_of(ROWS * COLUMNS * sizeof(float));
  add_squares(&gradient, HR_FP32, ROWS * COLUMNS, false, &squares);
  take_step(ROWS, &gradient, 0, NULL, &whole);
  for (int64_t first = 0; first < ROWS; first += 2) {
    take_step(2, &gradient, first, &squares, &part);
    for (int64_t i = 0; i < 2 * COLUMNS; i++) {
      const float expected = ((const float *)whole.host)[first * COLUMNS + i], found = ((const float *)part.host)[i];
      if (!(fabsf(found - expected) <= 1e-5f * fabsf(expected)))
        fail_msg("row %d, element %d moves to %g, not %g", (int)first, (int)i, (double)found, (double)expected);
    }
  }
  tensor_free(&gradient);
  tensor_free(&squares);
  tensor_free(&whole);
  tensor_free(&part);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(squares_of_parts_are_those_of_all),
                                     cmocka_unit_test(parts_are_clipped_as_the_whole)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
