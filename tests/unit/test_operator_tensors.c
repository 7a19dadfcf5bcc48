/* SPDX-License-Identifier: Apache-2.0 */
/* What operators read and write, and their weights. */
#include "reading.h"

#include "model/layers/weight_shapes.h"

#include <headroom/experimental/catalog.h>
#include <headroom/experimental/operators.h>
#include <headroom/experimental/workload.h>
#include <stdlib.h>
#include <string.h>

static hr_operators operators;

static hr_model shipped(const hr_catalog_entry *entry)
{
  const hr_input input = {.name = entry->name, .text = entry->text, .length = entry->length};
  hr_model model;
  hr_error error;
  if (hr_model_from_json(&input, NULL, NULL, &model, &error) != HR_OK)
    fail_msg("%s", error.message);
  return model;
}

static void list(const hr_model *model, hr_phase phase)
{
  hr_workload workload = hr_workload_default(model);
  workload.phase = phase;
  workload.tensor_parallel = workload.pipeline_stages = 1;
  hr_error error;
  if (hr_operators_list(model, &workload, &operators, &error) != HR_OK)
    fail_msg("%s: %s", model->name, error.message);
}

static bool has_scan(const hr_model *model)
{
  for (size_t i = 0; i < model->group_count; i++)
    if (model->groups[i].scan.heads > 0)
      return true;
  return false;
}

/* ---- weights ---- */

static int64_t elements_of(const hr_weight_shape *shape)
{
  return shape->count * shape->rows * shape->columns;
}

/* A router's bias that only chooses experts is a buffer of the checkpoint, which no gradient moves. */
static bool is_buffer(const hr_model *model, int group, hr_weight_role weight)
{
  return weight == HR_WEIGHT_ROUTER_BIAS && group >= 0 && !model->groups[group].experts.router_bias;
}

/* One operator has the norms that Gemma 4 has beside experts, and the weights of one of them. */
static int64_t weights_of_more_norms(const hr_model *model, int group)
{
  const int64_t norms = group < 0 ? 0 : model->groups[group].norms;
  return norms > 4 ? (norms - 4) * model->hidden : 0;
}

/* Weights that several operators read (tied logits, the maps of latent attention) count once. */
static int64_t weights_of_group(const hr_model *model, int group)
{
  hr_weight_shapes shapes;
  bool counted[HR_WEIGHT_ROLE_COUNT] = {false};
  int64_t sum = weights_of_more_norms(model, group);
  hr_list_weights(model, group < 0 ? NULL : &model->groups[group], &shapes);
  for (size_t i = 0; i < operators.count; i++) {
    const hr_operator *op = &operators.items[i];
    if (group < 0 ? op->in_layer : !(op->groups >> group & 1))
      continue;
    for (size_t w = 0; w < HR_OPERATOR_WEIGHTS_MAX && op->weights[w]; w++) {
      const bool counts = !counted[op->weights[w]] && !is_buffer(model, group, op->weights[w]);
      sum += counts ? elements_of(&shapes.of[op->weights[w]]) : 0;
      counted[op->weights[w]] = true;
    }
  }
  return sum;
}

static void the_weights_of_the_operators_are_all_parameters_of_a_model(void **state)
{
  (void)state;
  size_t count;
  const hr_catalog_entry *entries = hr_catalog_models(&count);
  for (size_t i = 0; i < count; i++) {
    const hr_model model = shipped(&entries[i]);
    hr_parameters parameters;
    assert_int_equal(hr_model_parameters(&model, &parameters, NULL), HR_OK);
    if (has_scan(&model))
      continue;
    list(&model, HR_PHASE_FORWARD);
    int64_t sum = weights_of_group(&model, -1);
    for (size_t g = 0; g < model.group_count; g++)
      sum += model.groups[g].count * weights_of_group(&model, (int)g);
    if (sum != parameters.total)
      fail_msg("%s: operators have %lld weights, the model %lld parameters", model.name, (long long)sum,
               (long long)parameters.total);
  }
}

/* ---- tensors ---- */

/* What an operator reads is an input of the step or has been written before. */
static void check_flow(const hr_model *model, int group, const char *phase)
{
  uint64_t written = 1u << HR_TENSOR_TOKENS | 1u << HR_TENSOR_POSITIONS;
  for (size_t i = 0; i < operators.count; i++) {
    const hr_operator *op = &operators.items[i];
    char name[48];
    hr_operator_name(op, name, sizeof name);
    if (op->in_layer && !(op->groups >> group & 1))
      continue;
    assert_true(op->writes[0] != HR_TENSOR_NONE);
    for (size_t r = 0; r < HR_OPERATOR_READS_MAX && op->reads[r]; r++)
      if (!(written >> op->reads[r] & 1))
        fail_msg("%s, %s, group %d: %s reads %s, which nothing has written", model->name, phase, group, name,
                 hr_step_tensor_name(op->reads[r]));
    for (size_t w = 0; w < HR_OPERATOR_WRITES_MAX && op->writes[w]; w++)
      written |= (uint64_t)1 << op->writes[w];
  }
  if (model->head != HR_HEAD_NONE)
    assert_true(written >> HR_TENSOR_LOGITS & 1);
}

static void an_operator_reads_what_one_before_it_has_written(void **state)
{
  (void)state;
  static const hr_phase phases[] = {HR_PHASE_FORWARD, HR_PHASE_PREFILL, HR_PHASE_DECODE};
  size_t count;
  const hr_catalog_entry *entries = hr_catalog_models(&count);
  for (size_t i = 0; i < count; i++) {
    const hr_model model = shipped(&entries[i]);
    for (int p = 0; p < 3; p++) {
      list(&model, phases[p]);
      for (size_t g = 0; g < model.group_count; g++)
        check_flow(&model, (int)g, hr_phase_name(phases[p]));
    }
  }
}

/* Mechanisms that no built-in model has. */
static void flows_of_other_mechanisms_are_whole(void **state)
{
  (void)state;
#define SIZES                                                                                                       \
  "\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":4,\"intermediate_size\":96,\"vocab_size\":" \
  "100,"
  static const char *const rows[] = {
      "{\"model_type\":\"nemotron_h\"," SIZES "\"hybrid_override_pattern\":\"ME*-\",\"head_dim\":16,"
      "\"mamba_num_heads\":8,\"mamba_head_dim\":16,\"n_routed_experts\":8,\"num_experts_per_tok\":2,"
      "\"moe_intermediate_size\":40,\"moe_shared_expert_intermediate_size\":48,\"moe_latent_size\":24}",
      "{\"model_type\":\"kimi_linear\"," SIZES "\"num_hidden_layers\":5,\"kv_lora_rank\":24,\"num_experts\":8,"
      "\"num_experts_per_token\":2,\"moe_intermediate_size\":48}",
      "{\"model_type\":\"hunyuan\"," SIZES "\"num_hidden_layers\":3,\"use_qk_norm\":true,\"use_cla\":true,"
      "\"cla_share_factor\":2}"};
  static const hr_phase phases[] = {HR_PHASE_FORWARD, HR_PHASE_PREFILL, HR_PHASE_DECODE};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const hr_model model = read_model(rows[i]);
    for (int p = 0; p < 3; p++) {
      list(&model, phases[p]);
      for (size_t g = 0; g < model.group_count; g++)
        check_flow(&model, (int)g, hr_phase_name(phases[p]));
    }
  }
  const hr_model model = read_model(rows[0]); /* in a latent's width the sum is not the network's result yet */
  list(&model, HR_PHASE_FORWARD);
  const hr_operator *combine = hr_operators_find(&operators, HR_OP_COMBINE, HR_PASS_FORWARD);
  assert_non_null(combine);
  assert_true(combine->writes[0] == HR_TENSOR_EXPERT_LATENT && combine->reads[1] == HR_TENSOR_ROUTES);
  assert_int_equal(combine->reads[2], HR_TENSOR_NONE);
}

static const hr_operator *find(hr_operator_id id)
{
  const hr_operator *op = hr_operators_find(&operators, id, HR_PASS_FORWARD);
  assert_non_null(op);
  return op;
}

static hr_model named(const char *name)
{
  size_t count;
  const hr_catalog_entry *entries = hr_catalog_models(&count);
  for (size_t i = 0; i < count; i++)
    if (strcmp(entries[i].name, name) == 0)
      return shipped(&entries[i]);
  fail_msg("no model %s", name);
  return hr_model_default();
}

static void a_parallel_block_adds_attention_and_network_at_once(void **state)
{
  (void)state;
  const hr_model pythia = named("pythia-1b");
  list(&pythia, HR_PHASE_FORWARD);
  const uint8_t terms[] = {HR_TENSOR_HIDDEN, HR_TENSOR_ATTENTION, HR_TENSOR_MLP, 0};
  assert_memory_equal(find(HR_OP_MLP_RESIDUAL)->reads, terms, sizeof terms);
  const hr_model llama = named("llama-3-8b");
  list(&llama, HR_PHASE_FORWARD);
  const uint8_t two[] = {HR_TENSOR_HIDDEN, HR_TENSOR_MLP, 0};
  assert_memory_equal(find(HR_OP_MLP_RESIDUAL)->reads, two, sizeof two);
}

static void tied_logits_read_the_token_embedding(void **state)
{
  (void)state;
  const hr_model gpt2 = named("gpt2");
  list(&gpt2, HR_PHASE_DECODE);
  const uint8_t weights[] = {HR_WEIGHT_TOKEN_EMBEDDING, 0};
  assert_memory_equal(find(HR_OP_LOGIT)->weights, weights, sizeof weights);
  assert_string_equal(hr_weight_role_name(find(HR_OP_EMBEDDING)->weights[1]), "position_embedding");
  assert_string_equal(hr_weight_role_name(find(HR_OP_QKV_TRANSFORM)->weights[3]), "q_bias");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_weights_of_the_operators_are_all_parameters_of_a_model),
      cmocka_unit_test(an_operator_reads_what_one_before_it_has_written),
      cmocka_unit_test(flows_of_other_mechanisms_are_whole),
      cmocka_unit_test(a_parallel_block_adds_attention_and_network_at_once),
      cmocka_unit_test(tied_logits_read_the_token_embedding),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
