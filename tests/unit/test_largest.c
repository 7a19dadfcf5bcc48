/* SPDX-License-Identifier: Apache-2.0 */
/* The largest element of each row, of the host and with HEADROOM_TEST=gpu of a GPU: the first of equal ones, NaN and
 * infinities. */
#include "device_tensors.h"

#include "runtime/device/largest.h"

#include <math.h>

/* The host goes through all of them. */
static int32_t expected_of(hr_dtype dtype, const void *x, int64_t row, int64_t columns)
{
  int64_t best = 0;
  for (int64_t i = 1; i < columns; i++)
    if (hr_number_load(dtype, x, (size_t)(row * columns + i)) >
        hr_number_load(dtype, x, (size_t)(row * columns + best)))
      best = i;
  return (int32_t)best;
}

/* Parts of the columns, as ranks have them, in the place of whole rows. */
static void find_in_parts(const tensor *x, hr_largest_arguments whole, int64_t part, int32_t *found)
{
  const size_t element = hr_dtype_bytes(whole.dtype), rows = (size_t)whole.rows;
  tensor to = tensor_of(rows * 8);
  float *best = malloc(rows * sizeof *best);
  hr_error error;
  assert_non_null(best);
  for (int64_t first = 0; first < whole.stride + part; first += part) { /* the last has no column */
    hr_largest_arguments a = whole;
    a.first = first;
    a.columns = first + part < whole.stride ? part : first < whole.stride ? whole.stride - first : 0;
    a.x = (const char *)hr_buffer_data(x->buffer) + (size_t)(a.columns > 0 ? first : 0) * element;
    a.to = hr_buffer_data(to.buffer);
    a.values = (float *)(a.to + whole.rows);
    assert_ok(hr_device_find_largest(device, &a, hr_device_stream(device), &error), error);
    fetch(&to);
    for (size_t row = 0; row < rows; row++) {
      const float value = ((const float *)to.host)[rows + row];
      if (first == 0 || value > best[row])
        best[row] = value, found[row] = ((const int32_t *)to.host)[row];
    }
  }
  free(best);
  tensor_free(&to);
}

/* Rows in turn: as they are, all equal, all NaN, all -inf but NaN, a first NaN, NaN among others, two infinities, the
 * largest at the end. */
static void put_specials(hr_dtype dtype, void *x, int64_t row, int64_t columns)
{
  const size_t first = (size_t)(row * columns), last = first + (size_t)columns - 1;
  const double all[] = {0, 0.5, (double)NAN, -(double)INFINITY};
  for (size_t i = first; row % 8 > 0 && row % 8 < 4 && i <= last; i++)
    hr_number_store(dtype, x, i, all[row % 8]);
  if (row % 8 == 3 || row % 8 == 5)
    hr_number_store(dtype, x, first + (size_t)columns / 2, (double)NAN);
  if (row % 8 == 4)
    hr_number_store(dtype, x, first, (double)NAN);
  if (row % 8 == 6)
    hr_number_store(dtype, x, first + (size_t)columns / 3, (double)INFINITY),
        hr_number_store(dtype, x, last, (double)INFINITY);
  if (row % 8 == 7)
    hr_number_store(dtype, x, last, 2);
}

static void check_rows(hr_dtype dtype, int64_t rows, int64_t columns)
{
  hr_error error;
  tensor x = random_tensor(dtype, 7, rows * columns), to = tensor_of((size_t)rows * 4);
  for (int64_t row = 0; row < rows; row++)
    put_specials(dtype, x.host, row, columns);
  assert_ok(hr_buffer_write(x.buffer, x.host, x.bytes, &error), error);
  const hr_largest_arguments a = {dtype, rows, columns, columns, 0, hr_buffer_data(x.buffer), hr_buffer_data(to.buffer),
                                  NULL};
  int32_t in_parts[16];
  assert_ok(hr_device_find_largest(device, &a, hr_device_stream(device), &error), error);
  fetch(&to);
  find_in_parts(&x, a, columns / 3 + 1, in_parts);
  for (int64_t row = 0; row < rows; row++) {
    const int32_t found = ((const int32_t *)to.host)[row], expected = expected_of(dtype, x.host, row, columns);
    if (found != expected)
      fail_msg("%s, %d columns: the largest of row %d is %d, not %d", hr_dtype_name(dtype), (int)columns, (int)row,
               expected, found);
    assert_int_equal(in_parts[row], expected);
  }
  tensor_free(&x);
  tensor_free(&to);
}

/* Less than a warp and a block, whole packs and not, more than a thread has in flight. */
static void the_first_largest_of_each_row_is_found(void **state)
{
  (void)state;
  static const hr_dtype dtypes[] = {HR_BF16, HR_FP32, HR_FP16};
  static const int64_t columns[] = {1, 2, 7, 40, 513, 1024, 8200, 50257, 70008};
  for (int i = 0; i < 27; i++)
    if (test_takes(i))
      check_rows(dtypes[i % 3], 1 + i % 4 * 5, columns[i / 3]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_largest_of_each_row_is_found)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
