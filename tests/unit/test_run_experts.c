/* SPDX-License-Identifier: Apache-2.0 */
/* The experts that a router chooses, and the places of tokens that are sorted by them. */
#include "test.h"

#include "run/experts.h"

#include <math.h>

enum { TOKENS = 3, EXPERTS = 4, ACTIVE = 2 };

typedef struct routes {
  float weights[TOKENS * ACTIVE];
  int32_t places[TOKENS * ACTIVE], copied[TOKENS * ACTIVE], experts_of[TOKENS * ACTIVE], offsets[EXPERTS + 1];
} routes;

static routes route(hr_route_arguments r)
{
  routes to = {0};
  union {
    hr_arguments arguments;
    hr_route_arguments route;
  } of;
  r.tokens = TOKENS, r.experts = EXPERTS, r.active = ACTIVE;
  r.dtype = HR_FP32;
  r.weights = to.weights, r.places = to.places, r.copied = to.copied;
  r.experts_of = to.experts_of, r.offsets = to.offsets;
  of.route = r;
  assert_int_equal(hr_run_route(NULL, &of.arguments, NULL, NULL), HR_OK);
  return to;
}

static void assert_weights(const routes *found, const double *expected)
{
  for (int i = 0; i < TOKENS * ACTIVE; i++)
    if (!(fabs((double)found->weights[i] - expected[i]) < 1e-6))
      fail_msg("weight %d is %g, expected %g", i, (double)found->weights[i], expected[i]);
}

/* Softmax of logarithms: shares 4 3 2 1, 1 2 3 4 and 5 1 1 3 of 10. */
static const float logits[TOKENS][EXPERTS] = {
    {1.3862944F, 1.0986123F, 0.6931472F, 0}, {0, 0.6931472F, 1.0986123F, 1.3862944F}, {1.6094379F, 0, 0, 1.0986123F}};

static void tokens_are_sorted_by_their_experts(void **state)
{
  (void)state;
  const routes r = route((hr_route_arguments){.logits = logits});
  static const int32_t offsets[] = {0, 2, 3, 4, 6}, copied[] = {0, 2, 0, 1, 1, 2}, places[] = {0, 2, 4, 3, 1, 5};
  assert_weights(&r, (double[]){0.4, 0.3, 0.4, 0.3, 0.5, 0.3});
  assert_memory_equal(r.offsets, offsets, sizeof offsets);
  assert_memory_equal(r.copied, copied, sizeof copied);
  assert_memory_equal(r.places, places, sizeof places);
}

/* Sums of the two groups of two: 0.7 and 0.3, 0.3 and 0.7, 0.6 and 0.4; a bias of 0.5 of the last expert turns the
 * first, 0.8, and the third, 0.9, but not the weights. */
static void experts_are_of_the_best_groups_with_the_bias_for_the_choice_alone(void **state)
{
  (void)state;
  const float bias[EXPERTS] = {0, 0, 0, 0.5F};
  hr_route_arguments r = {.logits = logits, .groups = 2, .active_groups = 1, .how = {.group_pairs = true}};
  routes to = route(r);
  assert_weights(&to, (double[]){0.4, 0.3, 0.4, 0.3, 0.5, 0.1});
  r.bias = bias;
  to = route(r);
  assert_weights(&to, (double[]){0.1, 0.2, 0.4, 0.3, 0.3, 0.1});
}

/* Equal sigmoids: a half of 2.5 each; of equal experts the first are chosen. */
static void weights_are_divided_by_their_sum_and_scaled(void **state)
{
  (void)state;
  const float equal[TOKENS][EXPERTS] = {{0}};
  const hr_router how = {.sigmoid = true, .normalized = true, .scale = 2.5};
  const routes r = route((hr_route_arguments){.logits = equal, .how = how});
  assert_weights(&r, (double[]){1.25, 1.25, 1.25, 1.25, 1.25, 1.25});
  assert_int_equal(r.offsets[1], TOKENS);
  assert_int_equal(r.offsets[2], 2 * TOKENS);
}

static void logits_that_are_no_numbers_choose_experts_that_exist(void **state)
{
  (void)state;
  float broken[TOKENS][EXPERTS];
  for (int i = 0; i < TOKENS * EXPERTS; i++)
    broken[i / EXPERTS][i % EXPERTS] = NAN;
  const routes r = route((hr_route_arguments){.logits = broken, .groups = 2, .active_groups = 1});
  for (int i = 0; i < TOKENS * ACTIVE; i++)
    assert_true(r.places[i] >= 0 && r.places[i] < TOKENS * ACTIVE && isnan(r.weights[i]));
  assert_int_equal(r.offsets[EXPERTS], TOKENS * ACTIVE);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tokens_are_sorted_by_their_experts),
      cmocka_unit_test(experts_are_of_the_best_groups_with_the_bias_for_the_choice_alone),
      cmocka_unit_test(weights_are_divided_by_their_sum_and_scaled),
      cmocka_unit_test(logits_that_are_no_numbers_choose_experts_that_exist)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
