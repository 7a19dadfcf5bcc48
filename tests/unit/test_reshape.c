/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "model/reshape/reshape.h"
#include "models.h"

#include <headroom/experimental/model.h>

static void fewer_heads_at_the_same_width_are_larger(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b(), changed;
  model.groups[0].attention.rotary_dim = 20; /* Pythia rotates a quarter of each head of 80 */
  assert_true(hr_reshape_heads(&model, 2560, 20, &changed));
  assert_int_equal(changed.groups[0].attention.q_heads, 20);
  assert_int_equal(changed.groups[0].attention.k_heads, 20);
  assert_int_equal(changed.groups[0].attention.v_heads, 20);
  assert_int_equal(changed.groups[0].attention.qk_dim, 128); /* 32 · 80 / 20 */
  assert_int_equal(changed.groups[0].attention.v_dim, 128);
  assert_int_equal(changed.groups[0].attention.rotary_dim, 32); /* 20 · 128 / 80 */
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
  assert_int_equal(changed.groups[0].attention.k_heads, 16);
  assert_int_equal(changed.groups[0].attention.qk_dim, 64);
  model.groups[0].attention.k_heads = model.groups[0].attention.v_heads = 1;
  assert_true(hr_reshape_heads(&model, 4096, 64, &changed));
  assert_int_equal(changed.groups[0].attention.k_heads, 1);
  model = sigma_1_5b(); /* 4 K and 16 V heads under 32 */
  assert_true(hr_reshape_heads(&model, 2048, 16, &changed));
  assert_int_equal(changed.groups[0].attention.k_heads, 2);
  assert_int_equal(changed.groups[0].attention.v_heads, 8);
}

static void fractional_heads_are_refused(void **state)
{
  (void)state;
  hr_model model = llama3_8b(), changed = gpt3_2_7b();
  assert_false(hr_reshape_heads(&model, 4096, 48, &changed)); /* 4096 / 48 */
  assert_false(hr_reshape_heads(&model, 4096, 2, &changed));  /* 8 · 2 / 32 K heads */
  assert_int_equal(changed.hidden, 2560);                     /* untouched */
}

static void augmented_q_follows_the_hidden_size(void **state)
{
  (void)state;
  hr_model model = sigma_1_5b(), changed;
  assert_true(hr_reshape_heads(&model, 2560, 40, &changed));
  assert_int_equal(changed.groups[0].attention.q_rank, 3840); /* 3072 · 2560 / 2048 */
}

/* Llama 3 8B with `windowed` of its layers under a window of 4096, after the others. */
static hr_model with_windows(int64_t windowed)
{
  hr_model model = llama3_8b();
  model.group_count = 2;
  model.groups[1] = model.groups[0];
  model.groups[0].count -= windowed;
  model.groups[1].count = windowed;
  model.groups[1].attention.window = 4096;
  return model;
}

static void every_group_keeps_its_share_of_the_layers(void **state)
{
  (void)state;
  hr_model model = with_windows(16), changed = hr_reshape_layers(&model, 30);
  assert_int_equal(changed.group_count, 2);
  assert_int_equal(changed.groups[0].count, 15);
  assert_int_equal(changed.groups[1].count, 15);
  changed = hr_reshape_layers(&model, 7);
  assert_int_equal(hr_model_layers(&changed), 7); /* 3.5 of each */
  model = with_windows(24);
  changed = hr_reshape_layers(&model, 22);
  assert_int_equal(changed.groups[0].count, 6); /* 22 · 8/32 = 5.5 */
  assert_int_equal(changed.groups[1].count, 16);
}

static void a_group_without_layers_goes(void **state)
{
  (void)state;
  hr_model model = with_windows(1), changed = hr_reshape_layers(&model, 8);
  assert_int_equal(changed.group_count, 1); /* 8/32 of a layer */
  assert_int_equal(changed.groups[0].count, 8);
  assert_int_equal(changed.groups[0].attention.window, 0);
}

static void heads_and_widths_of_other_groups_follow_in_proportion(void **state)
{
  (void)state;
  hr_model model = with_windows(8), changed; /* the main group has 24 layers, 32 heads of 128 over 8 */
  model.groups[1].attention.q_heads = 16;
  model.groups[1].dense.width = 7168; /* half */
  assert_true(hr_reshape_heads(&model, 4096, 64, &changed));
  assert_int_equal(changed.groups[1].attention.q_heads, 32);
  assert_int_equal(changed.groups[1].attention.k_heads, 16);
  assert_int_equal(changed.groups[1].attention.qk_dim, 64);
  hr_set_mlp_width(&model, 10000, 1);
  assert_int_equal(model.groups[0].dense.width, 10000);
  assert_int_equal(model.groups[1].dense.width, 5000);
  assert_true(hr_set_kv_heads(&model, 4, 2));
  assert_int_equal(model.groups[1].attention.k_heads, 2);
  assert_int_equal(model.groups[1].attention.v_heads, 1);
  assert_false(hr_set_kv_heads(&model, 1, 1)); /* half a head in the other group */
  assert_int_equal(model.groups[0].attention.k_heads, 4);
}

static void widths_of_dense_layers_and_shared_experts_follow_the_experts(void **state)
{
  (void)state;
  hr_model model = with_windows(8); /* the main group has 24 layers */
  hr_ffn_experts *experts = &model.groups[0].experts;
  *experts = (hr_ffn_experts){.experts = 64, .active = 6, .width = 1408, .shared_width = 2816, .gated = true};
  model.groups[0].dense.width = 0;
  model.groups[1].dense.width = 10944;
  assert_int_equal(hr_main_mlp_width(&model), 1408);
  hr_set_mlp_width(&model, 1408, 64);
  assert_int_equal(model.groups[1].dense.width, 10944); /* its own, rounded to nothing */
  hr_set_mlp_width(&model, 1280, 64);
  assert_int_equal(experts->width, 1280);
  assert_int_equal(experts->shared_width, 2560);
  assert_int_equal(model.groups[1].dense.width, 9920); /* 10944 · 1280 / 1408 = 9949.1 = 155.45 · 64 */
  assert_int_equal(experts->experts, 64);
  assert_int_equal(model.groups[0].dense.width, 0);
  hr_set_mlp_width(&model, 8, 64);
  assert_int_equal(experts->shared_width, 64); /* at least one granule */
}

static void a_model_without_attention_keeps_its_heads_of_none(void **state)
{
  (void)state;
  hr_model model = llama3_8b(), changed = gpt3_2_7b();
  model.groups[0].attention = (hr_mixer_attention){0};
  assert_false(hr_reshape_heads(&model, 2048, 16, &changed));
  assert_int_equal(changed.hidden, 2560); /* untouched */
  hr_set_mlp_width(&model, 9999, 1);
  assert_int_equal(model.groups[0].dense.width, 9999);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fewer_heads_at_the_same_width_are_larger),
      cmocka_unit_test(heads_keep_the_count_of_parameters_without_norms_on_them),
      cmocka_unit_test(shared_heads_keep_their_ratio_and_a_single_one_stays_single),
      cmocka_unit_test(fractional_heads_are_refused),
      cmocka_unit_test(augmented_q_follows_the_hidden_size),
      cmocka_unit_test(every_group_keeps_its_share_of_the_layers),
      cmocka_unit_test(a_group_without_layers_goes),
      cmocka_unit_test(heads_and_widths_of_other_groups_follow_in_proportion),
      cmocka_unit_test(widths_of_dense_layers_and_shared_experts_follow_the_experts),
      cmocka_unit_test(a_model_without_attention_keeps_its_heads_of_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
