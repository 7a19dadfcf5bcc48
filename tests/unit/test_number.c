/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "shape/number.h"

#include <math.h>

static double load_bits(hr_dtype dtype, unsigned bits)
{
  uint16_t wide = (uint16_t)bits;
  uint8_t narrow = (uint8_t)bits;
  return dtype == HR_FP8_E4M3 ? hr_number_load(dtype, &narrow, 0) : hr_number_load(dtype, &wide, 0);
}

static unsigned store_bits(hr_dtype dtype, double value)
{
  uint16_t wide = 0;
  uint8_t narrow = 0;
  hr_number_store(dtype, dtype == HR_FP8_E4M3 ? (void *)&narrow : (void *)&wide, 0, value);
  return dtype == HR_FP8_E4M3 ? narrow : wide;
}

static void every_number_of_a_format_survives_a_round_trip(void **state)
{
  (void)state;
  const hr_dtype dtypes[] = {HR_FP16, HR_BF16, HR_FP8_E4M3};
  for (size_t i = 0; i < 3; i++) {
    unsigned count = dtypes[i] == HR_FP8_E4M3 ? 256 : 65536;
    for (unsigned bits = 0; bits < count; bits++) {
      double value = load_bits(dtypes[i], bits);
      if (!isnan(value))
        assert_int_equal(store_bits(dtypes[i], value), bits);
      else
        assert_true(isnan(load_bits(dtypes[i], store_bits(dtypes[i], value))));
    }
  }
}

/* Bit patterns derived from the definitions of the formats. */
static void known_bits_have_known_values(void **state)
{
  (void)state;
  assert_true(load_bits(HR_BF16, 0x3F80) == 1 && load_bits(HR_BF16, 0xC040) == -3);
  assert_true(load_bits(HR_FP16, 0x3C00) == 1 && load_bits(HR_FP16, 0x7BFF) == 65504);
  assert_true(load_bits(HR_FP16, 0x0001) == 0x1p-24 && load_bits(HR_FP16, 0x0400) == 0x1p-14);
  assert_true(load_bits(HR_FP8_E4M3, 0x38) == 1 && load_bits(HR_FP8_E4M3, 0x7E) == 448);
  assert_true(load_bits(HR_FP8_E4M3, 0x01) == 0x1p-9 && isnan(load_bits(HR_FP8_E4M3, 0x7F)));
  assert_true(isinf(load_bits(HR_FP16, 0x7C00)) && isnan(load_bits(HR_FP16, 0x7C01)));
}

static void rounding_is_to_nearest_and_ties_go_to_even(void **state)
{
  (void)state;
  /* bf16 steps by 2⁻⁷ from 1 on. */
  assert_true(load_bits(HR_BF16, store_bits(HR_BF16, 1 + 0x1p-8)) == 1);                    /* tie, down to even */
  assert_true(load_bits(HR_BF16, store_bits(HR_BF16, 1 + 3 * 0x1p-8)) == 1 + 0x1p-6);       /* tie, up to even */
  assert_true(load_bits(HR_BF16, store_bits(HR_BF16, 1 + 0x1p-8 + 0x1p-40)) == 1 + 0x1p-7); /* once, from double */
  assert_true(load_bits(HR_FP16, store_bits(HR_FP16, 65519.9)) == 65504);
  assert_true(isinf(load_bits(HR_FP16, store_bits(HR_FP16, 65520))));
  assert_true(load_bits(HR_FP16, store_bits(HR_FP16, 0x1p-25)) == 0);
  assert_true(load_bits(HR_FP16, store_bits(HR_FP16, 0x1.8p-25)) == 0x1p-24);
  assert_true(load_bits(HR_FP8_E4M3, store_bits(HR_FP8_E4M3, -1e9)) == -448);
  assert_true(isnan(load_bits(HR_FP8_E4M3, store_bits(HR_FP8_E4M3, (double)INFINITY))));
  assert_int_equal(store_bits(HR_BF16, -0.0), 0x8000);
}

/* A format's numbers, the ties between neighbours, and their neighbours in float. */
static void store_floats_of(hr_dtype dtype)
{
  unsigned element = (unsigned)hr_dtype_bytes(dtype), count = element == 1 ? 256 : 65536;
  for (unsigned bits = 0; bits < count; bits++) {
    double here = load_bits(dtype, bits), next = load_bits(dtype, bits + 1);
    float tie = (float)((here + next) / 2),
          floats[4] = {(float)here, tie, nextafterf(tie, 0), nextafterf(tie, 2 * tie)};
    unsigned char stored[10] = {0xCD, 0xCD};
    hr_floats_store(dtype, stored, 1, 4, floats);
    assert_true(stored[0] == 0xCD && stored[element - 1] == 0xCD);
    for (unsigned i = 0; i < 4; i++) {
      unsigned low = stored[element * (i + 1)], found = element == 1 ? low : low | stored[element * (i + 1) + 1] * 256u;
      if (isnan(floats[i]))
        assert_true(isnan(load_bits(dtype, found)));
      else
        assert_int_equal(found, store_bits(dtype, (double)floats[i]));
    }
  }
}

static void floats_are_stored_as_single_numbers_are(void **state)
{
  (void)state;
  for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++)
    if (hr_dtype_bytes((hr_dtype)dtype) <= 2)
      store_floats_of((hr_dtype)dtype);
  unsigned char large[2];
  hr_floats_store(HR_FP8_E4M3, large, 0, 2, (const float[]){-INFINITY, 1e9f});
  assert_true(large[0] == 0xFF && large[1] == 0x7E);
  float numbers[2] = {1.5f, -0.0f};
  float copied[2] = {0};
  hr_floats_store(HR_FP32, copied, 0, 2, numbers);
  assert_memory_equal(copied, numbers, sizeof numbers);
}

static void rounding_errors_stay_within_the_documented_bound(void **state)
{
  (void)state;
  const hr_dtype dtypes[] = {HR_FP16, HR_BF16, HR_FP8_E4M3};
  for (size_t i = 0; i < 3; i++)
    for (double value = 1e-4; value < 400; value *= 1.01) {
      double found = load_bits(dtypes[i], store_bits(dtypes[i], value));
      assert_true(fabs(found - value) <= hr_dtype_rounding_error(dtypes[i], value));
    }
}

static void fp8_saturates_at_its_largest_number(void **state)
{
  (void)state;
  assert_true(hr_dtype_saturate(HR_FP8_E4M3, 448) == 448 && hr_dtype_saturate(HR_FP8_E4M3, -1e9) == -448);
  assert_true(hr_dtype_saturate(HR_FP8_E4M3, -1.3) == -1.3 && hr_dtype_saturate(HR_FP16, 1e9) == 1e9);
  assert_true(isnan(hr_dtype_saturate(HR_FP8_E4M3, (double)NAN)));
}

static void uniform_values_fill_their_interval_and_follow_the_seed(void **state)
{
  (void)state;
  float values[4096], again[4096], others[4096];
  hr_numbers_uniform(HR_FP32, 1, 0, 4096, values);
  hr_numbers_uniform(HR_FP32, 2, 0, 4096, others);
  hr_numbers_uniform(HR_FP32, 1, 0, 1001, again); /* in two parts, split at an odd index */
  hr_numbers_uniform(HR_FP32, 1, 1001, 4096 - 1001, again + 1001);
  assert_memory_equal(values, again, sizeof values);
  double sum = 0, squares = 0, product = 0;
  for (int i = 0; i < 4096; i++) {
    double x = (double)values[i], y = (double)others[i];
    assert_true(x >= -1 && x <= 1);
    sum += x, squares += x * x, product += x * y;
  }
  /* Deviations: mean √(1/3/4096) = 0.009, mean square √(4/45/4096) = 0.0047, product (1/3)/64 = 0.0052; five of
   * each. */
  assert_true(fabs(sum / 4096) < 0.045);
  assert_true(fabs(squares / 4096 - 1.0 / 3) < 0.024);
  assert_true(fabs(product / 4096) < 0.026);
}

static void formats_round_the_same_sequence(void **state)
{
  (void)state;
  float single[512];
  hr_numbers_uniform(HR_FP32, 3, 0, 512, single);
  for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++) {
    double values[512];
    hr_numbers_uniform((hr_dtype)dtype, 3, 0, 512, values);
    for (size_t i = 0; i < 512; i++) {
      double rounded;
      uint64_t bits = 0;
      hr_number_store((hr_dtype)dtype, &bits, 0, (double)single[i]);
      rounded = hr_number_load((hr_dtype)dtype, &bits, 0);
      assert_true(hr_number_load((hr_dtype)dtype, values, i) == rounded);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_number_of_a_format_survives_a_round_trip),
      cmocka_unit_test(known_bits_have_known_values),
      cmocka_unit_test(rounding_is_to_nearest_and_ties_go_to_even),
      cmocka_unit_test(floats_are_stored_as_single_numbers_are),
      cmocka_unit_test(rounding_errors_stay_within_the_documented_bound),
      cmocka_unit_test(fp8_saturates_at_its_largest_number),
      cmocka_unit_test(uniform_values_fill_their_interval_and_follow_the_seed),
      cmocka_unit_test(formats_round_the_same_sequence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
