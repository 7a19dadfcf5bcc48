/* SPDX-License-Identifier: Apache-2.0 */
/* Weights where there is no checkpoint. */
#include "test.h"

#include "model/checkpoint/random_weights.h"

#include <math.h>

#define ROWS 64
#define COLUMNS 300

static hr_weight_request matrix(hr_weight_role role, int64_t layer)
{
  return (hr_weight_request){role, layer, NULL, 1, ROWS, COLUMNS, HR_FP32, NULL};
}

/* 19,200 numbers: their mean is within 5/√(19200 · 300) = 0.0021 of 0, their variance within 4.5% of 1/300. */
static void matrices_have_the_variance_of_an_initialisation_by_fan_in(void **state)
{
  (void)state;
  static float values[ROWS * COLUMNS];
  static const hr_weight_role roles[] = {HR_WEIGHT_TOKEN_EMBEDDING, HR_WEIGHT_Q, HR_WEIGHT_EXPERT_DOWN,
                                         HR_WEIGHT_SHARED_OUTPUT_GATE};
  for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) {
    double sum = 0, squares = 0;
    hr_weight_request request = matrix(roles[r], 3);
    hr_weight_randomize(&request, 1, 0, ROWS * COLUMNS, values);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
      assert_true(fabsf(values[i]) <= 0.1F); /* √(3/300) */
      sum += (double)values[i];
      squares += (double)values[i] * (double)values[i];
    }
    assert_true(fabs(sum / (ROWS * COLUMNS)) < 0.0021);
    assert_true(fabs(squares / (ROWS * COLUMNS) * COLUMNS - 1) < 0.045);
  }
}

static void an_element_does_not_depend_on_what_is_filled_before(void **state)
{
  (void)state;
  static float whole[ROWS * COLUMNS], part[700];
  hr_weight_request request = matrix(HR_WEIGHT_Q, 1);
  hr_weight_randomize(&request, 7, 0, ROWS * COLUMNS, whole);
  hr_weight_randomize(&request, 7, 1001, 700, part);
  assert_memory_equal(part, whole + 1001, sizeof part);
}

static void seed_role_and_layer_make_other_weights(void **state)
{
  (void)state;
  float values[4][8];
  hr_weight_request q = matrix(HR_WEIGHT_Q, 1), k = matrix(HR_WEIGHT_K, 1), later = matrix(HR_WEIGHT_Q, 2);
  hr_weight_randomize(&q, 7, 0, 8, values[0]);
  hr_weight_randomize(&q, 8, 0, 8, values[1]);
  hr_weight_randomize(&k, 7, 0, 8, values[2]);
  hr_weight_randomize(&later, 7, 0, 8, values[3]);
  for (int i = 0; i < 4; i++) {
    for (int j = 0; j < i; j++)
      assert_memory_not_equal(values[i], values[j], sizeof values[i]);
  }
}

static void norms_are_one_and_biases_zero(void **state)
{
  (void)state;
  static const struct {
    hr_weight_role role;
    uint16_t bf16;
  } constants[] = {{HR_WEIGHT_ATTENTION_NORM, 0x3F80}, {HR_WEIGHT_FINAL_NORM, 0x3F80}, {HR_WEIGHT_Q_RANK_NORM, 0x3F80},
                   {HR_WEIGHT_MLP_NORM_BIAS, 0},       {HR_WEIGHT_Q_BIAS, 0},          {HR_WEIGHT_SINKS, 0},
                   {HR_WEIGHT_ACTIVATION, 0}};
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
    uint16_t values[600];
    hr_weight_request request = {constants[i].role, 0, NULL, 1, 1, 600, HR_BF16, NULL};
    hr_weight_randomize(&request, 7, 0, 600, values);
    for (int j = 0; j < 600; j++)
      assert_int_equal(values[j], constants[i].bf16);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(matrices_have_the_variance_of_an_initialisation_by_fan_in),
      cmocka_unit_test(an_element_does_not_depend_on_what_is_filled_before),
      cmocka_unit_test(seed_role_and_layer_make_other_weights),
      cmocka_unit_test(norms_are_one_and_biases_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
