/* SPDX-License-Identifier: Apache-2.0 */
/* Selective V in the float64 reference: which keys are chosen, by hand and against a sort; what close scores may
 * change; how a measurement states what is lost. */
#include "machine.h"

#include "base/checked.h"
#include "runtime/reference/reference.h"
#include "shape/number.h"

#include <headroom/experimental/measure.h>
#include <math.h>
#include <stdlib.h>

/* ---- the choice ---- */

#define COUNT 60

typedef struct scored {
  double score;
  int place;
} scored;

static int by_rank(const void *a, const void *b)
{
  const scored *x = a, *y = b;
  int x_nan = isnan(x->score), y_nan = isnan(y->score);
  if (x_nan != y_nan)
    return y_nan - x_nan;
  if (!x_nan && x->score != y->score)
    return x->score > y->score ? -1 : 1;
  return x->place - y->place;
}

static int by_place(const void *a, const void *b)
{
  return ((const scored *)a)->place - ((const scored *)b)->place;
}

/* Few different values, among them NaN and infinities. */
static double some_score(uint64_t *state, int values)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  int value = (int)((*state >> 33) % (uint64_t)values);
  return value == 0 ? (double)NAN : value == 1 ? (double)INFINITY : value == 2 ? -(double)INFINITY : value * 0.37;
}

static void the_largest_are_chosen_and_of_equal_ones_the_first(void **state)
{
  (void)state;
  uint64_t random = 1;
  for (int trial = 0; trial < 200; trial++) {
    double scores[COUNT], places[COUNT];
    scored sorted[COUNT];
    int count = 1 + trial % COUNT, k = 1 + trial * 7 % count;
    for (int i = 0; i < count; i++)
      sorted[i] = (scored){scores[i] = some_score(&random, 4 + trial % 40), i};
    qsort(sorted, (size_t)count, sizeof *sorted, by_rank);
    double kth = hr_reference_choose(scores, count, k, places);
    assert_true(kth == sorted[k - 1].score || (isnan(kth) && isnan(sorted[k - 1].score)));
    qsort(sorted, (size_t)k, sizeof *sorted, by_place);
    for (int i = 0; i < k; i++)
      assert_int_equal((int)places[i], sorted[i].place);
  }
}

/* ---- one row by hand ---- */

#define KEYS 5

static hr_decode one_head(void)
{
  hr_decode d = hr_decode_default();
  hr_error error;
  d.dtype = HR_FP64, d.kv_len = KEYS;
  d.qk_dim = 1, d.v_dim = 2, d.scale = 1;
  assert_ok(hr_decode_set_pages(&d, 0, &error), error);
  return d;
}

static hr_reference_query row_of(const hr_decode *d, const double *k, const double *v, double *out, double *swapped)
{
  static const double q[] = {1};
  static const float sinks[] = {0.5f};
  double scratch[64];
  assert_true(hr_reference_decode_scratch(d) <= 64);
  hr_decode_arguments x = hr_decode_arguments_default();
  x.q = q, x.k = k, x.v = v, x.sinks = sinks;
  hr_reference_query row = {.out = out, .norm = out + 2};
  hr_reference_decode_row(d, &x, 0, 0, 0, scratch, &row);
  if (swapped)
    hr_reference_decode_swaps(d, &x, 0, 0, 0, 0.001, row.lse, scratch, swapped);
  return row;
}

/* Keys 1 and 3 of scores 2 and 1 weigh e² and e; key 4, of score 1 as well, is later than key 3. */
static void the_softmax_is_over_the_chosen_keys(void **state)
{
  (void)state;
  const double k[] = {-1, 2, 0, 1, 1}, v[] = {NAN, NAN, 10, 20, NAN, NAN, 30, 50, NAN, NAN};
  double out[4], e = exp(1);
  hr_decode d = one_head();
  d.top_k = 2;
  hr_reference_query row = row_of(&d, k, v, out, NULL);
  assert_true(fabs(out[0] - (10 * e + 30) / (e + 1)) < 1e-13);
  assert_true(fabs(out[1] - (20 * e + 50) / (e + 1)) < 1e-13);
  assert_true(fabs(row.lse - log(e * e + e)) < 1e-14);
  d.sinks = true; /* takes part, and is not one of the two */
  row = row_of(&d, k, v, out, NULL);
  assert_true(fabs(out[0] - (10 * e * e + 30 * e) / (e * e + e + exp(0.5))) < 1e-13);
  assert_true(fabs(row.lse - log(e * e + e + exp(0.5))) < 1e-14);
  d.sinks = false, d.scale = -1, d.top_k = 1; /* the smallest product */
  const double other[] = {7, 8, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
  row_of(&d, k, other, out, NULL);
  assert_true(out[0] == 7 && out[1] == 8);
}

static void a_nan_score_is_chosen_first(void **state)
{
  (void)state;
  const double k[] = {INFINITY, 2, NAN, 1, 1}, v[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  double out[4];
  hr_decode d = one_head();
  d.top_k = 1;
  hr_reference_query row = row_of(&d, k, v, out, NULL);
  assert_true(isnan(out[0]) && isnan(row.lse));
  const double infinite[] = {-INFINITY, 2, -INFINITY, 1, -INFINITY}; /* −inf has no weight beside finite scores */
  d.top_k = 4;
  row = row_of(&d, infinite, v, out, NULL);
  assert_true(out[0] == 1 && fabs(row.lse - log(exp(2) + exp(1))) < 1e-14);
}

/* Keys 3 and 4 are within 0.002 of each other, so that either may be the second; they weigh 1 / (e + 1) and their V
 * differ by 2 and 0. */
static void close_scores_may_be_exchanged(void **state)
{
  (void)state;
  const double k[] = {-1, 2, 0, 1, 0.999}, v[] = {0, 0, 10, 20, 0, 0, 30, 50, 32, 50};
  double out[4], swapped[2], weight = 1 / (exp(1) + 1);
  hr_decode d = one_head();
  d.top_k = 2;
  row_of(&d, k, v, out, swapped);
  assert_true(swapped[0] >= 2 * weight && swapped[0] < 2.3 * weight);
  assert_true(swapped[1] > 0 && swapped[1] < 0.5 * weight);
  d.top_k = 3; /* both are chosen */
  row_of(&d, k, v, out, swapped);
  assert_true(swapped[0] == 0 && swapped[1] == 0);
}

/* ---- measurements ---- */

static void a_measurement_states_what_the_selection_loses(void **state)
{
  (void)state;
  hr_device *device;
  hr_error error;
  hr_measurement m;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  hr_decode d = hr_decode_default();
  d.dtype = HR_FP32, d.kv_len = 50, d.q_heads = 4, d.k_heads = 1, d.v_heads = 2;
  assert_ok(hr_decode_set_pages(&d, 16, &error), error);
  hr_measure_options options = hr_measure_options_default();
  options.time_limit_ns = 20e6;
  options.warm = true;
  static const int64_t ks[] = {0, 50, 49, 5};
  double errors[4];
  for (size_t i = 0; i < 4; i++) {
    d.top_k = ks[i];
    assert_ok(hr_measure_decode(device, &d, &options, &m, &error), error);
    if (m.status != HR_OK && m.status != HR_ERROR_NOISY)
      fail_msg("%s", m.reason);
    errors[i] = m.selection_error;
  }
  assert_true(isnan(errors[0]));
  assert_true(errors[1] == 0);
  assert_true(errors[2] > 0 && errors[2] < 0.2);
  assert_true(errors[3] > errors[2] && errors[3] < 10);
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_largest_are_chosen_and_of_equal_ones_the_first),
      cmocka_unit_test(the_softmax_is_over_the_chosen_keys),
      cmocka_unit_test(a_nan_score_is_chosen_first),
      cmocka_unit_test(close_scores_may_be_exchanged),
      cmocka_unit_test(a_measurement_states_what_the_selection_loses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
