/* SPDX-License-Identifier: Apache-2.0 */
/* Advice for models whose layers differ, and for models without attention or without MLPs. */
#include "test.h"

#include "advice.h"
#include "models.h"

/* The model with its last `others` layers as a second group, equal at first. */
static hr_model split_off(hr_model model, int64_t others)
{
  model.group_count = 2;
  model.groups[1] = model.groups[0];
  model.groups[0].count -= others;
  model.groups[1].count = others;
  return model;
}

/* Llama 3 8B with 4 K/V heads, not 8, and half the MLP in 8 of its 32 layers. */
static hr_model uneven_llama(void)
{
  hr_model model = split_off(llama3_8b(), 8);
  model.groups[1].attention.k_heads = model.groups[1].attention.v_heads = 4;
  model.groups[1].dense.width = 7168;
  return model;
}

static hr_model without_attention(hr_model model)
{
  model.groups[0].attention = (hr_mixer_attention){.q_heads = 0};
  model.groups[0].norms = 1;
  return model;
}

static hr_model without_mlp(hr_model model)
{
  model.groups[0].dense = (hr_ffn_dense){.width = 0};
  model.groups[0].norms = 1;
  return model;
}

/* Attention and MLPs in layers of their own. */
static hr_model alternating(hr_model model)
{
  hr_model attention = without_mlp(model), mlp = without_attention(model);
  attention.group_count = 2;
  attention.groups[1] = mlp.groups[0];
  return attention;
}

static void every_rule_answers_for_layers_of_every_kind(void **state)
{
  (void)state;
  const hr_model models[] = {
      uneven_llama(),
      split_off(gpt3_2_7b(), 16),
      without_attention(gpt3_2_7b()),
      without_mlp(gpt3_2_7b()),
      alternating(paper_model(2500, 20, 16, 50257)),
  };
  const int64_t degrees[] = {1, 4, 6};
  hr_hardware hardware = device("h200");
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    for (size_t j = 0; j < 3; j++) {
      hr_workload workload = workload_of(&models[i], degrees[j]);
      workload.phase = (hr_phase)((i + j) % 4);
      workload.attention = j == 1 ? HR_ATTENTION_FUSED : HR_ATTENTION_UNFUSED;
      workload.pipeline_stages = j == 2 ? 3 : 1;
      hr_advice *advice = advise_under(&hardware, &models[i], &workload);
      assert_findings_hold(advice);
      hr_advice_free(advice);
    }
  }
}

static void a_finding_says_in_how_many_layers_its_sizes_are(void **state)
{
  (void)state;
  hr_model model = uneven_llama();
  hr_advice *advice = advise("h200", &model);
  assert_string_equal(found(advice, "head_size")->current, "32 heads of 128, 8 KV heads in 24 of 32 layers");
  assert_string_equal(found(advice, "mlp_width")->current, "MLP width 14336 in 24 of 32 layers (3.500 h)");
  hr_advice_free(advice);
  model = split_off(llama3_8b(), 8);
  model.groups[1].attention.window = 1024; /* the sizes are the same */
  advice = advise("h200", &model);
  assert_string_equal(found(advice, "head_size")->current, "32 heads of 128, 8 KV heads");
  hr_advice_free(advice);
}

static void heads_and_vocabulary_of_all_layers_are_combined(void **state)
{
  (void)state;
  hr_model model = split_off(gpt3_2_7b(), 16);
  model.groups[1].attention.window = 256;
  hr_advice *advice = advise("h200", &model);
  assert_int_equal(advice->about.combined_count, 1);
  const hr_model *combined = &advice->combined[0].model;
  assert_int_equal(combined->group_count, 2);
  assert_int_equal(combined->vocabulary, 50304);
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(combined->groups[i].attention.q_heads, 20); /* 2560 / 20 = 128 */
    assert_int_equal(combined->groups[i].attention.qk_dim, 128);
  }
  assert_int_equal(combined->groups[1].attention.window, 256);
  hr_advice_free(advice);
}

static void a_width_is_changed_in_every_group_in_proportion(void **state)
{
  (void)state;
  hr_model model = split_off(llama3_8b(), 8);
  model.groups[0].dense.width = 10922; /* 8h/3 */
  model.groups[1].dense.width = 5461;
  hr_advice *advice = advise("h200", &model);
  const hr_finding *finding = found(advice, "mlp_width");
  assert_int_equal(finding->severity, HR_SEVERITY_HIGH);
  int64_t width = finding->model.groups[0].dense.width;
  assert_int_equal(width % 64, 0);
  assert_int_equal(finding->model.groups[1].dense.width, (width / 2 + 32) / 64 * 64); /* a multiple of 64, too */
  hr_advice_free(advice);
}

static void a_small_group_with_an_odd_head_size_is_found(void **state)
{
  (void)state;
  hr_model model = split_off(paper_model(2560, 20, 32, 50304), 8); /* heads of 128 */
  hr_mixer_attention *heads = &model.groups[1].attention;
  heads->q_heads = heads->k_heads = heads->v_heads = 32;
  heads->qk_dim = heads->v_dim = 80;
  hr_advice *advice = advise("a100-sxm4-40gb", &model);
  const hr_finding *finding = found(advice, "head_size");
  assert_non_null(strstr(finding->why, "h/a = 80 in 8 of 32 layers is divisible by 16 but not 32"));
  hr_advice_free(advice);
}

static void heads_that_do_not_split_are_named_with_their_layers(void **state)
{
  (void)state;
  hr_model model = split_off(llama3_8b(), 8);
  model.groups[1].attention.q_heads = 30;
  model.groups[1].attention.k_heads = model.groups[1].attention.v_heads = 10;
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 4);
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  const hr_finding *finding = found(advice, "batch_heads_per_device");
  assert_int_equal(finding->severity, HR_SEVERITY_HIGH);
  assert_string_equal(finding->current, "30 query, 10 K and 10 V heads in 8 of 32 layers, t = 4");
  assert_int_equal(finding->workload.tensor_parallel, 2); /* 3 divides 30, but not 32 */
  assert_non_null(strstr(finding->why, "8 query heads, against 7.50 on average"));
  hr_advice_free(advice);
}

static void shared_kv_heads_are_left_where_the_layers_share_them_differently(void **state)
{
  (void)state;
  hr_model model = uneven_llama();
  hr_advice *advice = advise("h200", &model);
  const hr_finding *finding = found(advice, "kv_heads");
  assert_false(finding->has_change);
  /* 2 bytes · 2 · 128 · (24 · 8 + 8 · 4) */
  assert_non_null(strstr(finding->why, "the layers differ"));
  assert_non_null(strstr(finding->why, "114688 bytes per token"));
  hr_advice_free(advice);
  model = split_off(gpt3_2_7b(), 8); /* every query head has its own, whatever their number */
  model.groups[1].attention.q_heads = model.groups[1].attention.k_heads = model.groups[1].attention.v_heads = 16;
  advice = advise("h200", &model);
  finding = found(advice, "kv_heads");
  assert_int_equal(finding->model.groups[0].attention.k_heads, 8);
  assert_int_equal(finding->model.groups[1].attention.k_heads, 4);
  hr_advice_free(advice);
}

static void only_sequential_layers_become_parallel(void **state)
{
  (void)state;
  hr_model model = split_off(gpt3_2_7b(), 8);
  model.groups[1].parallel_block = true;
  model.groups[1].norms = 1;
  hr_advice *advice = advise("h200", &model);
  const hr_finding *finding = found(advice, "parallel_layers");
  assert_true(finding->has_change);
  assert_string_equal(finding->current, "24 of 32 layers sequential");
  assert_true(finding->model.groups[0].parallel_block);
  assert_int_equal(finding->model.groups[0].norms, 1);
  hr_advice_free(advice);
  model = alternating(gpt3_2_7b());
  advice = advise("h200", &model);
  assert_non_null(strstr(found(advice, "parallel_layers")->why, "no layer has both"));
  hr_advice_free(advice);
}

static void rules_about_what_the_layers_lack_say_so(void **state)
{
  (void)state;
  const char *const about_heads[] = {"head_size", "fewer_heads", "batch_heads_per_device", "six_gpu_node", "kv_heads"};
  hr_model model = without_attention(gpt3_2_7b());
  hr_advice *advice = advise("h200", &model);
  for (size_t i = 0; i < sizeof about_heads / sizeof *about_heads; i++) {
    const hr_finding *finding = found(advice, about_heads[i]);
    assert_int_equal(finding->severity, HR_SEVERITY_NONE);
    assert_non_null(strstr(finding->why, "no layer has"));
  }
  assert_non_null(strstr(found(advice, "fused_attention")->why, "no layer has score"));
  assert_true(found(advice, "vocabulary_alignment")->has_change); /* 50257 */
  hr_advice_free(advice);
  model = without_mlp(gpt3_2_7b());
  advice = advise("h200", &model);
  assert_non_null(strstr(found(advice, "mlp_width")->why, "the main layers have no dense feed-forward network"));
  assert_int_equal(found(advice, "head_size")->model.groups[0].attention.q_heads, 20);
  hr_advice_free(advice);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_rule_answers_for_layers_of_every_kind),
      cmocka_unit_test(a_finding_says_in_how_many_layers_its_sizes_are),
      cmocka_unit_test(heads_and_vocabulary_of_all_layers_are_combined),
      cmocka_unit_test(a_width_is_changed_in_every_group_in_proportion),
      cmocka_unit_test(a_small_group_with_an_odd_head_size_is_found),
      cmocka_unit_test(heads_that_do_not_split_are_named_with_their_layers),
      cmocka_unit_test(shared_kv_heads_are_left_where_the_layers_share_them_differently),
      cmocka_unit_test(only_sequential_layers_become_parallel),
      cmocka_unit_test(rules_about_what_the_layers_lack_say_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
