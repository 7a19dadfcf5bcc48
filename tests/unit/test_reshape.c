/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "analysis/model/reshape.h"
#include "models.h"

static void fewer_heads_at_the_same_width_are_larger(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b(), changed;
  model.rotary_dim = 20; /* Pythia rotates a quarter of each head of 80 */
  assert_true(hr_reshape_heads(&model, 2560, 20, &changed));
  assert_int_equal(changed.q_heads, 20);
  assert_int_equal(changed.k_heads, 20);
  assert_int_equal(changed.v_heads, 20);
  assert_int_equal(changed.qk_dim, 128); /* 32 · 80 / 20 */
  assert_int_equal(changed.v_dim, 128);
  assert_int_equal(changed.rotary_dim, 32); /* 20 · 128 / 80 */
  assert_int_equal(changed.hidden, 2560);
}

static void heads_keep_the_count_of_parameters_without_norms_on_them(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b(), changed;
  hr_parameters before, after;
  hr_error error;
  assert_true(hr_reshape_heads(&model, 2560, 20, &changed));
  assert_ok(hr_model_parameters(&model, &before, &error), error);
  assert_ok(hr_model_parameters(&changed, &after, &error), error);
  assert_int_equal(before.total, after.total);
}

static void shared_heads_keep_their_ratio_and_a_single_one_stays_single(void **state)
{
  (void)state;
  hr_model model = llama3_8b(), changed;
  assert_true(hr_reshape_heads(&model, 4096, 64, &changed)); /* 32 over 8 becomes 64 over 16 */
  assert_int_equal(changed.k_heads, 16);
  assert_int_equal(changed.qk_dim, 64);
  model.k_heads = model.v_heads = 1;
  assert_true(hr_reshape_heads(&model, 4096, 64, &changed));
  assert_int_equal(changed.k_heads, 1);
  model = sigma_1_5b(); /* 4 K and 16 V heads under 32 */
  assert_true(hr_reshape_heads(&model, 2048, 16, &changed));
  assert_int_equal(changed.k_heads, 2);
  assert_int_equal(changed.v_heads, 8);
}

static void fractional_heads_are_refused(void **state)
{
  (void)state;
  hr_model model = llama3_8b(), changed = gpt3_2_7b();
  assert_false(hr_reshape_heads(&model, 4096, 48, &changed)); /* 4096 / 48 */
  assert_false(hr_reshape_heads(&model, 4096, 2, &changed));  /* 8 · 2 / 32 K heads */
  assert_int_equal(changed.hidden, 2560);                     /* untouched */
}

static void augmented_q_follows_the_hidden_size_and_windows_the_depth(void **state)
{
  (void)state;
  hr_model model = sigma_1_5b(), changed;
  assert_true(hr_reshape_heads(&model, 2560, 40, &changed));
  assert_int_equal(changed.q_rank, 3840); /* 3072 · 2560 / 2048 */
  model.window = 4096;
  model.window_layers = 13;
  changed = hr_reshape_layers(&model, 30);
  assert_int_equal(changed.layers, 30);
  assert_int_equal(changed.window_layers, 15); /* half of them */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fewer_heads_at_the_same_width_are_larger),
      cmocka_unit_test(heads_keep_the_count_of_parameters_without_norms_on_them),
      cmocka_unit_test(shared_heads_keep_their_ratio_and_a_single_one_stays_single),
      cmocka_unit_test(fractional_heads_are_refused),
      cmocka_unit_test(augmented_q_follows_the_hidden_size_and_windows_the_depth),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
