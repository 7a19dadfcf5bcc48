/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "devices.h"
#include "hardware/hardware.h"

#include <headroom/experimental/offer.h>
#include <math.h>

#define COUNT 4

static void assert_near(double value, double expected, double tolerance)
{
  if (!(fabs(value - expected) <= tolerance))
    fail_msg("%.17g instead of %.17g", value, expected);
}

/* V100, A100, H100 and B200: each next one has faster GEMMs. */
typedef struct generations {
  hr_hardware devices[COUNT];
  hr_offer offers[COUNT];
} generations;

static generations four_generations(const double work[COUNT])
{
  static const char *const names[COUNT] = {"v100-sxm2-32gb", "a100-sxm4-80gb", "h100-sxm", "b200"};
  generations made;
  for (size_t i = 0; i < COUNT; i++) {
    made.devices[i] = device(names[i]);
    made.offers[i] = hr_offer_of(NULL);
    made.offers[i].dtype = HR_FP16;
    made.offers[i].devices = 1;
    made.offers[i].work_per_s.value = work[i];
  }
  return made;
}

static double correlation(generations *of)
{
  hr_offers offers = {.offers = of->offers, .count = COUNT};
  hr_error error;
  for (size_t i = 0; i < COUNT; i++)
    of->offers[i].hardware = &of->devices[i];
  assert_ok(hr_offers_compare(&offers, &error), error);
  return offers.rank_correlation;
}

static void ranks_of_gemm_rates_and_of_work_are_correlated(void **state)
{
  (void)state;
  static const struct {
    double work[COUNT], expected;
  } cases[] = {
      {{10, 20, 30, 1000}, 1},                          /* ranks, not sizes */
      {{4, 3, 2, 1}, -1},          {{2, 1, 3, 4}, 0.8}, /* 1 − 6 · (1 + 1) / (4 · 15) */
      {{1, 4, 2, 3}, 0.4},                              /* 1 − 6 · (0 + 4 + 1 + 1) / (4 · 15) */
      {{1, 2, 2, 3}, 0.948683298},                      /* ranks 1, 2.5, 2.5, 4: 4.5 / √(5 · 4.5) */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    generations of = four_generations(cases[i].work);
    assert_near(correlation(&of), cases[i].expected, 1e-6);
  }
  generations equal = four_generations((const double[COUNT]){5, 5, 5, 5});
  assert_true(isnan(correlation(&equal)));
}

static void a_device_without_a_plan_has_no_rank(void **state)
{
  (void)state;
  generations of = four_generations((const double[COUNT]){4, 2, 1, 3});
  of.offers[0].devices = 0;
  assert_near(correlation(&of), 0.5, 1e-9);         /* 2, 1, 3: 1 − 6 · (1 + 1) / (3 · 8) */
  of.offers[1].devices = 2;                         /* work of one device: 1, 1, 3 */
  assert_near(correlation(&of), 0.866025404, 1e-6); /* ranks 1.5, 1.5, 3: 1.5 / √(2 · 1.5) */
}

static void the_gemm_set_is_a_layers_gemms_of_three_sizes(void **state)
{
  (void)state;
  const int64_t hidden[] = {2048, 4096, 8192};
  hr_hardware h200 = device("h200");
  hr_offer offer = hr_offer_of(&h200);
  hr_offers offers = {.offers = &offer, .count = 1};
  double flops = 0, time_ns = 0;
  for (size_t i = 0; i < 3; i++) {
    int64_t h = hidden[i];
    const int64_t sizes[][2] = {{3 * h, h}, {h, h}, {4 * h, h}, {h, 4 * h}}; /* n, k */
    for (size_t k = 0; k < 4; k++) {
      hr_gemm gemm = hr_gemm_default();
      hr_prediction prediction;
      gemm.m = 8192, gemm.n = sizes[k][0], gemm.k = sizes[k][1], gemm.dtype = HR_BF16, gemm.transpose_b = true;
      assert_int_equal(hr_predict_gemm(&h200, &gemm, &prediction, NULL), HR_OK);
      time_ns += prediction.time_ns;
    }
    flops += 2.0 * 8192 * 12 * (double)h * (double)h; /* 3 + 1 + 4 + 4 */
  }
  assert_int_equal(hr_offers_compare(&offers, NULL), HR_OK);
  assert_near(offer.gemm_flops_per_s / (flops / time_ns * 1e9), 1, 1e-9);
  assert_true(isnan(offers.rank_correlation));
}

static void work_is_divided_by_what_all_devices_cost_and_draw(void **state)
{
  (void)state;
  hr_hardware h200 = device("h200");
  hr_offer offer = hr_offer_of(&h200);
  hr_offers offers = {.offers = &offer, .count = 1};
  assert_near(offer.power_w, 700, 0);
  offer.devices = 8, offer.price_per_hour = 4.5;
  offer.work_per_s = (hr_offer_value){5600, 2800, 11200};
  assert_int_equal(hr_offers_compare(&offers, NULL), HR_OK);
  assert_near(offer.work_per_money.value, 560000, 1e-6); /* 8 · 4.5 / 3600 = 0.01 a second */
  assert_near(offer.work_per_money.low, 280000, 1e-6);
  assert_near(offer.work_per_joule.value, 1, 1e-12); /* 8 · 700 W */
  assert_near(offer.work_per_joule.high, 2, 1e-12);
  offer.price_per_hour = 0; /* nothing is not a price to divide by */
  assert_int_equal(hr_offers_compare(&offers, NULL), HR_OK);
  assert_true(isnan(offer.work_per_money.value));
}

static void more_offers_than_a_table_has_columns_are_refused(void **state)
{
  (void)state;
  hr_hardware h200 = device("h200");
  hr_offer offer = hr_offer_of(&h200);
  hr_offers offers = {.offers = &offer, .count = HR_OFFERS_MAX + 1};
  hr_error error;
  assert_int_equal(hr_offers_compare(&offers, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "offers: at most 16 with 16 figures, found 17 with 0");
  offers.count = 1, offers.figure_count = HR_OFFER_FIGURES_MAX + 1;
  assert_int_equal(hr_offers_compare(&offers, &error), HR_ERROR_INVALID);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_of_gemm_rates_and_of_work_are_correlated),
      cmocka_unit_test(a_device_without_a_plan_has_no_rank),
      cmocka_unit_test(the_gemm_set_is_a_layers_gemms_of_three_sizes),
      cmocka_unit_test(more_offers_than_a_table_has_columns_are_refused),
      cmocka_unit_test(work_is_divided_by_what_all_devices_cost_and_draw),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
