/* SPDX-License-Identifier: Apache-2.0 */
/* Experts whose inputs and outputs have another width than the stream (LatentMoE of Nemotron 3, arXiv 2512.20856). */
#include "listed.h"
#include "reading.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/operators.h>
#include <headroom/memory.h>

/* NVIDIA-Nemotron-3-Super-120B-A12B, without fields that no count depends on. */
#define SUPER                                                                                                \
  "{\"architectures\":[\"NemotronHForCausalLM\"],\"model_type\":\"nemotron_h\",\"hidden_size\":4096,"        \
  "\"num_attention_heads\":32,\"num_key_value_heads\":2,\"head_dim\":128,\"vocab_size\":131072,"             \
  "\"hybrid_override_pattern\":\"MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*"     \
  "EMEMEMEM*EMEMEMEME\",\"n_routed_experts\":512,\"num_experts_per_tok\":22,\"moe_intermediate_size\":2688," \
  "\"moe_latent_size\":1024,\"moe_shared_expert_intermediate_size\":5376,\"n_shared_experts\":1,"            \
  "\"mlp_hidden_act\":\"relu2\",\"ssm_state_size\":128,\"conv_kernel\":4,\"mamba_num_heads\":128,"           \
  "\"mamba_head_dim\":64,\"n_groups\":8,\"chunk_size\":128,\"expand\":2,\"n_group\":1,\"topk_group\":1}"

/* One layer of 8 experts of 40 in a latent of 24, of which a token passes 2, beside a shared one of 48. */
#define SMALL(more)                                                                                          \
  "{\"model_type\":\"nemotron_h\",\"hidden_size\":64,\"vocab_size\":100,\"hybrid_override_pattern\":\"*E\"," \
  "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,\"intermediate_size\":96,"            \
  "\"mamba_num_heads\":4,\"mamba_head_dim\":16,\"n_routed_experts\":8,\"num_experts_per_tok\":2,"            \
  "\"moe_intermediate_size\":40,\"moe_shared_expert_intermediate_size\":48" more "}"
#define LATENT ",\"moe_latent_size\":24"

static hr_workload step_of(const hr_model *model, hr_phase phase)
{
  hr_workload workload = hr_workload_default(model);
  workload.phase = phase;
  workload.batch = 2;
  workload.sequence = workload.context = 16;
  return workload;
}

/* Counts of transformers 5.17. */
static void counts_are_those_of_transformers(void **state)
{
  (void)state;
  hr_parameters p = read_parameters(SUPER);
  assert_int_equal(p.total, 120668687360);
  assert_int_equal(p.active, 12770216960);
  /* Up and down of 512 experts in 40 layers; a router, both maps and the shared expert. */
  assert_int_equal(p.experts, INT64_C(40) * 512 * 2 * 1024 * 2688);
  assert_int_equal(p.mlp, INT64_C(40) * (512 * 4096 + 2 * 1024 * 4096 + 2 * 4096 * 5376));
  p = read_parameters("{\"model_type\":\"nemotron_h\",\"hidden_size\":64,\"vocab_size\":100,"
                      "\"hybrid_override_pattern\":\"MEE*E-\",\"num_attention_heads\":4,\"num_key_value_heads\":2,"
                      "\"head_dim\":16,\"intermediate_size\":96,\"mamba_num_heads\":4,\"mamba_head_dim\":16,"
                      "\"ssm_state_size\":16,\"n_groups\":2,\"conv_kernel\":4,\"n_routed_experts\":8,"
                      "\"num_experts_per_tok\":2,\"moe_intermediate_size\":40,\"mlp_bias\":true,"
                      "\"moe_shared_expert_intermediate_size\":48" LATENT "}");
  assert_true(p.total == 131204 && p.active == 96644);
}

/* 32 tokens to 2 of 8 experts: 64 copies of 24 elements. The router and the shared expert see 64 elements. */
static void routed_experts_work_in_the_latent_s_width(void **state)
{
  (void)state;
  hr_model m = read_model(SMALL(LATENT));
  hr_workload workload = step_of(&m, HR_PHASE_FORWARD);
  const hr_operators *ops = listed(&m, &workload);
  assert_gemm(ops, HR_OP_ROUTER, 32, 8, 64);
  assert_gemm(ops, HR_OP_EXPERT_LATENT_DOWN, 32, 24, 64);
  assert_int_equal(found(ops, HR_OP_DISPATCH)->bytes, (32 + 64) * 24 * 2);
  assert_gemm(ops, HR_OP_EXPERT_UP, 8, 40, 24);
  assert_gemm(ops, HR_OP_EXPERT_DOWN, 8, 24, 40);
  assert_gemm(ops, HR_OP_SHARED_UP, 32, 48, 64);
  assert_int_equal(found(ops, HR_OP_COMBINE)->bytes, (64 + 32) * 24 * 2); /* copies, and their sums */
  assert_gemm(ops, HR_OP_EXPERT_LATENT_UP, 32, 64, 24);
  assert_int_equal(found(ops, HR_OP_SHARED_ADD)->bytes, 3 * 32 * 64 * 2);
  m = read_model(SMALL(""));
  ops = listed(&m, &workload);
  assert_null(hr_operators_find(ops, HR_OP_EXPERT_LATENT_DOWN, HR_PASS_FORWARD));
  assert_null(hr_operators_find(ops, HR_OP_SHARED_ADD, HR_PASS_FORWARD));
  assert_int_equal(found(ops, HR_OP_DISPATCH)->bytes, (32 + 64) * 64 * 2);
}

/* What devices exchange has the latent's width, and each has both maps whole. */
static void devices_exchange_latents(void **state)
{
  (void)state;
  hr_model m = read_model(SMALL(LATENT));
  hr_workload workload = step_of(&m, HR_PHASE_DECODE);
  workload.expert_parallel = 2;
  const hr_operators *ops = listed(&m, &workload);
  assert_int_equal(found(ops, HR_OP_DISPATCH_ALL_TO_ALL)->bytes, 2 * 2 * 24 * 2); /* 2 tokens to 2 experts */
  assert_int_equal(found(ops, HR_OP_COMBINE_ALL_TO_ALL)->bytes, 2 * 2 * 24 * 2);
  assert_gemm(ops, HR_OP_EXPERT_LATENT_UP, 2, 64, 24);
  workload.expert_parallel = 1, workload.tensor_parallel = 2;
  ops = listed(&m, &workload);
  assert_gemm(ops, HR_OP_EXPERT_UP, 1, 20, 24);
  assert_gemm(ops, HR_OP_EXPERT_LATENT_DOWN, 2, 24, 64);
  assert_int_equal(found(ops, HR_OP_MLP_ALL_REDUCE)->bytes, 2 * 64 * 2);
}

static void training_has_the_gradients_of_both_maps(void **state)
{
  (void)state;
  hr_model m = read_model(SMALL(LATENT));
  hr_workload workload = step_of(&m, HR_PHASE_TRAIN);
  const hr_operators *ops = listed(&m, &workload);
  const hr_operator *weight = hr_operators_find(ops, HR_OP_EXPERT_LATENT_UP, HR_PASS_WGRAD);
  assert_non_null(weight);
  assert_true(weight->gemm.m == 64 && weight->gemm.n == 24 && weight->gemm.k == 32);
  assert_non_null(hr_operators_find(ops, HR_OP_EXPERT_LATENT_DOWN, HR_PASS_DGRAD));
}

static void other_families_refuse_a_latent(void **state)
{
  (void)state;
  assert_refused("{\"model_type\":\"mixtral\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
                 "\"num_key_value_heads\":2,\"intermediate_size\":40,\"vocab_size\":100" LATENT "}",
                 HR_ERROR_UNSUPPORTED,
                 "config.json: moe_latent_size: 24 means experts of another width than the stream's, which are not "
                 "supported for this family (docs/models.md)");
  assert_refused(SMALL(",\"moe_latent_size\":0"), HR_ERROR_INVALID,
                 "config.json: moe_latent_size: expected a positive integer, found 0");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_are_those_of_transformers), cmocka_unit_test(routed_experts_work_in_the_latent_s_width),
      cmocka_unit_test(devices_exchange_latents),         cmocka_unit_test(training_has_the_gradients_of_both_maps),
      cmocka_unit_test(other_families_refuse_a_latent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
