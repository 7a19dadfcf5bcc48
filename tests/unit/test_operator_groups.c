/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of models whose layers are not all equal. */
#include "test.h"

#include "listed.h"
#include "models.h"

#include <headroom/experimental/operators.h>

static size_t count_of(const hr_operators *operators, hr_operator_id id, hr_pass pass)
{
  size_t count = 0;
  for (size_t i = 0; i < operators->count; i++)
    count += operators->items[i].id == id && operators->items[i].pass == pass;
  return count;
}

/* 20 layers without and 12 with a window: only the fused attention differs. */
static void equal_operators_of_groups_are_one(void **state)
{
  (void)state;
  hr_model model = mistral_7b();
  model.groups[0].attention.window = 0;
  give_window(&model, 12, 4096);
  hr_workload workload = hr_workload_default(&model);
  workload.sequence = 8192;
  workload.attention = HR_ATTENTION_FUSED;
  workload.phase = HR_PHASE_TRAIN;
  const hr_operators *operators = listed(&model, &workload);
  for (size_t i = 0; i < operators->count; i++) {
    const hr_operator *op = &operators->items[i];
    bool differs = op->id == HR_OP_ATTENTION;
    assert_int_equal(count_of(operators, op->id, op->pass), differs ? 2 : 1);
    if (op->in_layer && !differs)
      assert_int_equal(op->count, 32);
  }
  const hr_operator *full = found(operators, HR_OP_ATTENTION);
  assert_true(full[0].attention.window == 0 && full[0].count == 20);
  assert_true(full[1].attention.window == 4096 && full[1].count == 12);
  int64_t flops = operators->flops;
  model.groups[1].attention.window = 0; /* the same layers twice */
  operators = listed(&model, &workload);
  assert_int_equal(count_of(operators, HR_OP_ATTENTION, HR_PASS_FORWARD), 1);
  assert_true(operators->flops > flops);
}

/* Layers without attention and layers without an MLP have one norm and one residual each. */
static void a_layer_of_one_branch_has_its_norm_and_residual_only(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  model.group_count = 2;
  model.groups[1] = model.groups[0];
  model.groups[0].count = 20, model.groups[0].norms = 1, model.groups[0].dense = (hr_ffn_dense){.width = 0};
  model.groups[1].count = 12, model.groups[1].norms = 1, model.groups[1].attention = (hr_mixer_attention){.q_heads = 0};
  hr_workload workload = hr_workload_default(&model);
  const hr_operators *operators = listed(&model, &workload);
  static const struct {
    hr_operator_id id;
    int64_t count;
  } expected[] = {{HR_OP_ATTENTION_NORM, 20}, {HR_OP_QKV_TRANSFORM, 20}, {HR_OP_ATTENTION_RESIDUAL, 20},
                  {HR_OP_MLP_NORM, 12},       {HR_OP_MLP_UP, 12},        {HR_OP_MLP_RESIDUAL, 12}};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
    assert_int_equal(found(operators, expected[i].id)->count, expected[i].count);
}

static void layers_that_all_differ_are_too_long_a_list(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  model.group_count = HR_LAYER_GROUPS_MAX;
  for (size_t i = 0; i < model.group_count; i++) {
    model.groups[i] = model.groups[0];
    model.groups[i].count = 1;
    model.groups[i].attention.q_heads = model.groups[i].attention.k_heads = model.groups[i].attention.v_heads =
        (int64_t)i + 1;
    model.groups[i].dense.width = 64 * (int64_t)(i + 1);
  }
  hr_workload workload = hr_workload_default(&model);
  workload.phase = HR_PHASE_PREFILL;
  workload.attention = HR_ATTENTION_FUSED;
  /* 64 each of qkv_transform, rotary, attention, linear_projection, mlp_up, mlp_gate, activation and mlp_down */
  assert_int_equal(count_of(listed(&model, &workload), HR_OP_ROTARY, HR_PASS_FORWARD), 64);
  workload.phase = HR_PHASE_TRAIN;
  static hr_operators operators;
  hr_error error;
  assert_int_equal(hr_operators_list(&model, &workload, &operators, &error), HR_ERROR_UNSUPPORTED);
  assert_string_equal(error.message, "the layers differ so much that a step has more than 768 operators");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_operators_of_groups_are_one),
      cmocka_unit_test(a_layer_of_one_branch_has_its_norm_and_residual_only),
      cmocka_unit_test(layers_that_all_differ_are_too_long_a_list),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
