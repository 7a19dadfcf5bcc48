/* SPDX-License-Identifier: Apache-2.0 */
/* Routed and shared experts: parameters, operators, memory, prediction. */
#include "analysis/advise/advice.h"
#include "reading.h"

#include "experiment/operator_problem.h"

#include <headroom/advise.h>
#include <headroom/experimental/operators.h>
#include <headroom/experimental/predict.h>
#include <headroom/hardware.h>
#include <headroom/memory.h>
#include <headroom/resolve.h>

/* Hidden size 64, 2 of 8 experts of 32, shared experts of 48, all gated; two layers. */
static hr_model small_experts(void)
{
  hr_layer_group layer = {
      .count = 2,
      .norms = 2,
      .attention = {.q_heads = 4, .k_heads = 2, .v_heads = 2, .qk_dim = 16, .v_dim = 16, .rotary_dim = 16},
      .experts = {.experts = 8, .active = 2, .width = 32, .gated = true, .shared_width = 48, .shared_gate = true}};
  return (hr_model){.struct_size = sizeof(hr_model),
                    .hidden = 64,
                    .vocabulary = 1000,
                    .positions = HR_POSITIONS_ROTARY,
                    .norm = HR_NORM_RMS,
                    .norm_weight = true,
                    .final_norm = true,
                    .group_count = 1,
                    .groups = {layer}};
}

static hr_workload workload_of(const hr_model *model, hr_phase phase, int64_t batch, int64_t sequence)
{
  hr_workload workload = hr_workload_default(model);
  workload.phase = phase;
  workload.batch = batch;
  workload.sequence = workload.context = sequence;
  return workload;
}

/* Until the next call. */
static const hr_operators *listed(const hr_model *model, const hr_workload *workload)
{
  static hr_operators operators;
  hr_error error;
  assert_ok(hr_operators_list(model, workload, &operators, &error), error);
  return &operators;
}

static const hr_operator *found_pass(const hr_operators *operators, hr_operator_id id, hr_pass pass)
{
  const hr_operator *op = hr_operators_find(operators, id, pass);
  if (!op)
    fail_msg("no %s", hr_operator_id_name(id));
  return op;
}

static const hr_operator *found(const hr_operators *operators, hr_operator_id id)
{
  return found_pass(operators, id, HR_PASS_FORWARD);
}

static void assert_gemm(const hr_operator *op, int64_t m, int64_t n, int64_t k, int64_t batch)
{
  const hr_gemm *g = &op->gemm;
  if (g->m != m || g->n != n || g->k != k || g->batch != batch)
    fail_msg("%s: (%d, %d, %d) × %d", hr_operator_id_name(op->id), (int)g->m, (int)g->n, (int)g->k, (int)g->batch);
}

static void parameters_are_all_experts_and_active_ones_those_of_a_token(void **state)
{
  (void)state;
  hr_model model = small_experts();
  hr_parameters p;
  hr_error error;
  assert_ok(hr_model_parameters(&model, &p, &error), error);
  assert_int_equal(p.experts, 2 * 8 * 3 * 64 * 32);               /* gate, up and down of 8 experts in 2 layers */
  assert_int_equal(p.mlp, 2 * (8 * 64 + 3 * 64 * 48 + 64));       /* router, shared experts, their gate */
  assert_int_equal(p.attention, 2 * (64 * 64 * 2 + 64 * 32 * 2)); /* Q and O, K and V */
  assert_int_equal(p.norm, 5 * 64);
  assert_int_equal(p.total, p.experts + p.mlp + p.attention + p.norm + 2 * 64000);
  assert_int_equal(p.excluding_embeddings, p.total - 2 * 64000);
  assert_int_equal(p.active, p.total - 2 * 6 * 3 * 64 * 32); /* 6 of 8 experts idle */

  hr_ffn_experts *m = &model.groups[0].experts;
  int64_t before = p.total;
  m->bias = m->shared_bias = m->router_bias = true;
  assert_ok(hr_model_parameters(&model, &p, &error), error);
  assert_int_equal(p.total - before, 2 * (8 * (2 * 32 + 64) + 2 * 48 + 64 + 8));
  m->gated = false;
  assert_ok(hr_model_parameters(&model, &p, &error), error);
  assert_int_equal(p.experts, 2 * 8 * (2 * 64 * 32 + 32 + 64));
}

/* 32 tokens to 2 of 8 experts each: 64 copies, 8 an expert; (1 − 2/8)³² leaves none of them without one. */
static void a_forward_step_has_grouped_gemms_of_equal_load(void **state)
{
  (void)state;
  hr_model model = small_experts();
  hr_workload workload = workload_of(&model, HR_PHASE_FORWARD, 2, 16);
  const hr_operators *ops = listed(&model, &workload);
  assert_gemm(found(ops, HR_OP_ROUTER), 32, 8, 64, 1);
  assert_int_equal(found(ops, HR_OP_ROUTER_TOP_K)->bytes, (32 * 8 + 2 * 64) * 2);
  assert_int_equal(found(ops, HR_OP_DISPATCH)->bytes, (32 + 64) * 64 * 2);
  const hr_operator *up = found(ops, HR_OP_EXPERT_UP);
  assert_gemm(up, 8, 32, 64, 8);
  assert_int_equal(up->kind, HR_KIND_GROUPED_GEMM);
  assert_int_equal(up->rows, 64);
  assert_int_equal(up->count, 2);
  assert_int_equal(up->flops, 2 * 64 * 32 * 64);
  assert_int_equal(up->bytes, (64 * 64 + 8 * 64 * 32 + 64 * 32) * 2);
  assert_gemm(found(ops, HR_OP_EXPERT_GATE), 8, 32, 64, 8);
  assert_gemm(found(ops, HR_OP_EXPERT_DOWN), 8, 64, 32, 8);
  assert_int_equal(found(ops, HR_OP_EXPERT_ACTIVATION)->bytes, 64 * 32 * 3 * 2);
  assert_gemm(found(ops, HR_OP_SHARED_UP), 32, 48, 64, 1);
  assert_gemm(found(ops, HR_OP_SHARED_DOWN), 32, 64, 48, 1);
  assert_gemm(found(ops, HR_OP_SHARED_OUTPUT_GATE), 32, 1, 64, 1);
  /* Reads 64 copies and 32 rows of the shared experts, writes 32 sums. */
  assert_int_equal(found(ops, HR_OP_COMBINE)->bytes, (64 + 32 + 32) * 64 * 2);
  assert_null(hr_operators_find(ops, HR_OP_MLP_UP, HR_PASS_FORWARD));
  assert_null(hr_operators_find(ops, HR_OP_DISPATCH_ALL_TO_ALL, HR_PASS_FORWARD));
}

/* One token hits 2 experts. 3 tokens hit 8·(1 − (6/8)³) = 4.6: 5 experts with 6 copies, two of one expert at most. */
static void decode_reads_the_experts_that_are_hit(void **state)
{
  (void)state;
  hr_model model = small_experts();
  hr_workload workload = workload_of(&model, HR_PHASE_DECODE, 1, 16);
  const hr_operator *up = found(listed(&model, &workload), HR_OP_EXPERT_UP);
  assert_gemm(up, 1, 32, 64, 2);
  assert_int_equal(up->bytes, (2 * 64 + 2 * 64 * 32 + 2 * 32) * 2);
  workload.batch = 3;
  up = found(listed(&model, &workload), HR_OP_EXPERT_UP);
  assert_gemm(up, 2, 32, 64, 5);
  assert_int_equal(up->rows, 6);
  assert_int_equal(up->flops, 2 * 6 * 32 * 64);
  assert_int_equal(up->bytes, (6 * 64 + 5 * 64 * 32 + 6 * 32) * 2);
}

/* Without experts in parallel, each is split over the tensor-parallel group. */
static void tensor_parallelism_splits_every_expert(void **state)
{
  (void)state;
  hr_model model = small_experts();
  hr_workload workload = workload_of(&model, HR_PHASE_FORWARD, 2, 16);
  workload.tensor_parallel = 2;
  const hr_operators *ops = listed(&model, &workload);
  assert_gemm(found(ops, HR_OP_EXPERT_UP), 8, 16, 64, 8);
  assert_gemm(found(ops, HR_OP_EXPERT_DOWN), 8, 64, 16, 8);
  assert_gemm(found(ops, HR_OP_SHARED_UP), 32, 24, 64, 1);
  assert_gemm(found(ops, HR_OP_ROUTER), 32, 8, 64, 1);
  assert_int_equal(found(ops, HR_OP_MLP_ALL_REDUCE)->bytes, 32 * 64 * 2);
}

/* 4 devices with 3 tokens each hold 2 experts each: 12 tokens make 24 copies, 6 a device. 2·(1 − (6/8)¹²) = 1.9. */
static void expert_parallelism_spreads_whole_experts(void **state)
{
  (void)state;
  hr_model model = small_experts();
  hr_workload workload = workload_of(&model, HR_PHASE_DECODE, 3, 16);
  workload.expert_parallel = 4;
  const hr_operators *ops = listed(&model, &workload);
  assert_gemm(found(ops, HR_OP_EXPERT_UP), 3, 32, 64, 2);
  const hr_operator *sent = found(ops, HR_OP_DISPATCH_ALL_TO_ALL);
  assert_int_equal(sent->bytes, 6 * 64 * 2);
  assert_int_equal(sent->devices, 4);
  assert_true(sent->copies == 2 && sent->served);
  assert_int_equal(found(ops, HR_OP_COMBINE_ALL_TO_ALL)->bytes, 6 * 64 * 2);

  workload.expert_imbalance = 2; /* the most loaded device has 12 copies; this device still sends 6 */
  ops = listed(&model, &workload);
  assert_gemm(found(ops, HR_OP_EXPERT_UP), 6, 32, 64, 2);
  assert_int_equal(found(ops, HR_OP_DISPATCH_ALL_TO_ALL)->bytes, 12 * 64 * 2);
  assert_int_equal(found(ops, HR_OP_DISPATCH)->bytes, (3 + 6) * 64 * 2);
  workload.expert_imbalance = 4; /* all 12 tokens to both experts of the device */
  assert_int_equal(found(listed(&model, &workload), HR_OP_EXPERT_UP)->rows, 24);

  /* Two groups of 2 devices share the experts: a device routes half of its group's 3 tokens, 6 in all. */
  workload.expert_imbalance = 1;
  workload.tensor_parallel = 2;
  ops = listed(&model, &workload);
  assert_gemm(found(ops, HR_OP_ROUTER), 2, 8, 64, 1);
  assert_int_equal(found(ops, HR_OP_EXPERT_UP)->rows, 3);
  assert_gemm(found(ops, HR_OP_EXPERT_UP), 2, 32, 64, 2);
  assert_gemm(found(ops, HR_OP_SHARED_UP), 3, 24, 64, 1);
}

/* Each of 4 devices routes all 3 tokens and makes the copies of its own experts, a quarter of 6; they sum the results.
 * Each has tokens of its own to send with sequence parallelism. */
static void one_group_with_whole_experts_only_sums_their_results(void **state)
{
  (void)state;
  hr_model model = small_experts();
  hr_workload workload = workload_of(&model, HR_PHASE_DECODE, 3, 16);
  workload.tensor_parallel = workload.expert_parallel = 4;
  const hr_operators *ops = listed(&model, &workload);
  assert_gemm(found(ops, HR_OP_ROUTER), 3, 8, 64, 1);
  assert_int_equal(found(ops, HR_OP_DISPATCH)->bytes, (3 + 2) * 64 * 2);
  assert_int_equal(found(ops, HR_OP_EXPERT_UP)->rows, 2);
  assert_int_equal(found(ops, HR_OP_EXPERT_UP)->gemm.n, 32);
  assert_int_equal(found(ops, HR_OP_MLP_ALL_REDUCE)->bytes, 3 * 64 * 2);
  assert_null(hr_operators_find(ops, HR_OP_DISPATCH_ALL_TO_ALL, HR_PASS_FORWARD));
  assert_null(hr_operators_find(ops, HR_OP_COMBINE_ALL_TO_ALL, HR_PASS_FORWARD));
  workload.sequence_parallel = true;
  assert_int_equal(found(listed(&model, &workload), HR_OP_DISPATCH_ALL_TO_ALL)->devices, 4);
}

static void training_has_three_grouped_gemms_of_equal_work(void **state)
{
  (void)state;
  hr_model model = small_experts();
  hr_workload workload = workload_of(&model, HR_PHASE_TRAIN, 2, 16);
  workload.expert_parallel = 2;
  const hr_operators *ops = listed(&model, &workload);
  const hr_operator *up = found(ops, HR_OP_EXPERT_UP);
  const hr_operator *input = found_pass(ops, HR_OP_EXPERT_UP, HR_PASS_DGRAD);
  const hr_operator *weight = found_pass(ops, HR_OP_EXPERT_UP, HR_PASS_WGRAD);
  assert_gemm(up, 16, 32, 64, 4);
  assert_gemm(input, 16, 64, 32, 4);  /* dX = dY W */
  assert_gemm(weight, 32, 64, 16, 4); /* dW = dYᵀ X */
  assert_true(weight->gemm.transpose_a && !weight->gemm.transpose_b && !input->gemm.transpose_b);
  assert_true(input->flops == up->flops && weight->flops == up->flops && weight->bytes == up->bytes);
  assert_true(input->rows == 64 && weight->rows == 64 && weight->count == 2);
  const hr_operator *back = found_pass(ops, HR_OP_DISPATCH_ALL_TO_ALL, HR_PASS_DGRAD);
  assert_true(back->devices == 2 && back->copies == 2 && !back->served);
  /* Reads 32 gradients and 64 copies, writes 64 gradients; the same for 32 rows of the shared experts. */
  assert_int_equal(found_pass(ops, HR_OP_COMBINE, HR_PASS_DGRAD)->bytes, (32 + 64 + 64 + 32) * 64 * 2);
}

static hr_memory estimated(const hr_model *model, const hr_workload *workload)
{
  hr_memory memory;
  hr_error error;
  assert_ok(hr_memory_estimate(model, workload, &memory, &error), error);
  return memory;
}

static void memory_has_the_experts_of_one_device_and_the_copies_of_tokens(void **state)
{
  (void)state;
  hr_model model = small_experts();
  hr_workload workload = workload_of(&model, HR_PHASE_PREFILL, 2, 16);
  hr_memory alone = estimated(&model, &workload);
  /* The residual stream, the input, and 64 copies with gate, up and result; larger than the logits of 2 tokens. */
  assert_int_equal(alone.activation_bytes, (2 * 32 * 64 + 64 * (64 + 3 * 32)) * 2);
  workload.expert_parallel = 4;
  assert_int_equal(alone.weight_bytes - estimated(&model, &workload).weight_bytes, 2 * 6 * 3 * 64 * 32 * 2);

  workload = workload_of(&model, HR_PHASE_TRAIN, 2, 16);
  int64_t with = estimated(&model, &workload).activation_bytes;
  model.groups[0].experts = (hr_ffn_experts){.experts = 0};
  model.groups[0].dense = (hr_ffn_dense){.width = 48, .gated = true};
  /* Beyond a dense network of the shared experts' width: the logits, each copy before and behind its expert, gate, up
   * and result, and the shared experts' output, which its gate needs. */
  int64_t beyond = 2 * (32 * 8 + 2 * 64 * 64 + 64 * 3 * 32 + 32 * 64) * 2;
  assert_int_equal(with - estimated(&model, &workload).activation_bytes, beyond);
}

static void assert_workload_refused(const hr_model *model, const hr_workload *workload, const char *message)
{
  hr_error error = {.message = ""};
  assert_int_equal(hr_workload_check(workload, model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, message);
}

static void a_workload_that_experts_cannot_follow_is_refused(void **state)
{
  (void)state;
  hr_model model = small_experts();
  hr_workload workload = workload_of(&model, HR_PHASE_FORWARD, 2, 16);
  workload.expert_parallel = 3;
  assert_workload_refused(&model, &workload, "expert_parallel: 3 devices cannot share 8 experts equally");
  workload.expert_parallel = 2, workload.tensor_parallel = 4;
  assert_workload_refused(&model, &workload,
                          "expert_parallel: 2 is not a multiple of tensor_parallel, 4; 1 splits every expert over the "
                          "tensor-parallel group");
  workload.expert_parallel = 0;
  assert_workload_refused(&model, &workload, "expert_parallel: expected at least 1, found 0");
  workload = workload_of(&model, HR_PHASE_FORWARD, 2, 16);
  workload.expert_imbalance = 4.5;
  assert_workload_refused(&model, &workload,
                          "expert_imbalance: 4.5 is more than 4, which one of a token's 2 of 8 experts can have");
  workload.expert_imbalance = 0.5;
  assert_workload_refused(&model, &workload, "expert_imbalance: expected at least 1, found 0.5");
  model.groups[0].experts = (hr_ffn_experts){.experts = 0};
  model.groups[0].dense.width = 64;
  workload.expert_imbalance = 1, workload.expert_parallel = 2;
  assert_workload_refused(&model, &workload, "expert_parallel: the model has no experts");
}

static void experts_that_do_not_fit_each_other_are_refused(void **state)
{
  (void)state;
  static const struct {
    hr_ffn_experts experts;
    const char *message;
  } cases[] = {
      {{.experts = 4, .active = 5, .width = 8}, "groups[0]: experts.active: 5 is more than experts.experts, 4"},
      {{.experts = 4, .active = 0, .width = 8}, "groups[0]: experts.active: expected at least 1, found 0"},
      {{.experts = 4, .active = 1}, "groups[0]: experts.width: expected at least 1, found 0"},
      {{.experts = 4, .active = 1, .width = 8, .groups = 3, .active_groups = 1},
       "groups[0]: experts.groups: 3 does not divide experts.experts, 4"},
      {{.experts = 4, .active = 3, .width = 8, .groups = 2, .active_groups = 1},
       "groups[0]: experts.active: 3 is more than the experts of experts.active_groups groups, 2"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_model model = small_experts();
    hr_error error = {.message = ""};
    model.groups[0].experts = cases[i].experts;
    assert_int_equal(hr_model_check(&model, &error), HR_ERROR_INVALID);
    assert_string_equal(error.message, cases[i].message);
  }
}

static hr_prediction predicted(const hr_hardware *hardware, const hr_operator *op)
{
  hr_prediction prediction;
  hr_error error;
  assert_ok(hr_predict_operator(hardware, op, &prediction, &error), error);
  return prediction;
}

/* Mixtral 8x7B, 16 tokens: 8·(1 − 0.75¹⁶) = 7.92 experts of 3·4096·14336·2 bytes are read. */
static void decoding_with_experts_takes_the_time_of_their_weights(void **state)
{
  (void)state;
  hr_model model;
  hr_hardware h200;
  hr_error error;
  assert_ok(hr_resolve_model("mixtral-8x7b-v0.1", NULL, NULL, &model, &error), error);
  assert_ok(hr_resolve_hardware("h200", &h200, &error), error);
  hr_workload workload = workload_of(&model, HR_PHASE_DECODE, 16, 1024);
  const hr_operators *ops = listed(&model, &workload);
  const hr_operator *up = found(ops, HR_OP_EXPERT_UP);
  assert_gemm(up, 4, 14336, 4096, 8);
  hr_operator own = *up; /* Headroom's grouped GEMM is a batched one */
  own.framework = HR_FRAMEWORK_HEADROOM;
  hr_prediction batched, grouped = predicted(&h200, &own), server = predicted(&h200, up);
  assert_ok(hr_predict_gemm(&h200, &up->gemm, &batched, &error), error);
  assert_true(grouped.time_ns > 0.99 * batched.time_ns && grouped.time_ns < 1.01 * batched.time_ns);
  double weights_ns = 8.0 * 4096 * 14336 * 2 / h200.bandwidth_bytes_per_s * 1e9;
  assert_true(grouped.time_ns > weights_ns && grouped.time_ns < 1.6 * weights_ns);
  assert_int_equal(grouped.bound_by, HR_BOUND_MEMORY);
  assert_true(server.time_ns > weights_ns && server.time_ns < 1.6 * weights_ns);

  workload.expert_parallel = 8; /* each device sends 7/8 of 32 copies of 4096 elements */
  const hr_operator *sent = found(listed(&model, &workload), HR_OP_DISPATCH_ALL_TO_ALL);
  double sent_ns = 7.0 / 8 * 32 * 4096 * 2 / h200.interconnect_bytes_per_s * 1e9;
  assert_int_equal(sent->collective, HR_ALL_TO_ALL);
  assert_int_equal(sent->devices, 8);
  assert_int_equal(sent->bytes, 32 * 4096 * 2);
  assert_true(predicted(&h200, sent).time_ns > sent_ns); /* fitted: a small message does not fill the links */
}

static void experts_of_equal_load_are_measured_as_a_batched_gemm_and_others_not(void **state)
{
  (void)state;
  hr_model model = small_experts();
  hr_workload workload = workload_of(&model, HR_PHASE_TRAIN, 2, 16);
  hr_problem problem;
  hr_error error = {.message = ""};
  const hr_operator *weight = found_pass(listed(&model, &workload), HR_OP_EXPERT_UP, HR_PASS_WGRAD);
  assert_ok(hr_operator_problem(&model, &workload, weight, &problem, &error), error);
  assert_true(problem.gemm.batch == 8 && problem.gemm.k == 8);
  const hr_operator *activation = found(listed(&model, &workload), HR_OP_EXPERT_ACTIVATION);
  assert_ok(hr_operator_problem(&model, &workload, activation, &problem, &error), error);
  assert_true(problem.rows.rows == 64 && problem.rows.columns == 32);
  workload = workload_of(&model, HR_PHASE_DECODE, 3, 16);
  const hr_operator *up = found(listed(&model, &workload), HR_OP_EXPERT_UP);
  assert_int_equal(hr_operator_problem(&model, &workload, up, &problem, &error), HR_ERROR_UNSUPPORTED);
  assert_string_equal(error.message, "no kernel for experts of unequal load: 6 tokens over 5 experts");
}

/* 3001 is slow and 3008 is not; of 3008 columns a device with t = 2 has 1504, unless its experts are whole. */
static void advice_aligns_the_width_of_experts(void **state)
{
  (void)state;
  hr_model model = read_model("{\"model_type\":\"mixtral\",\"num_hidden_layers\":16,\"hidden_size\":4096,"
                              "\"num_attention_heads\":32,\"intermediate_size\":3001,\"vocab_size\":32000}");
  hr_hardware h200;
  hr_advice *advice;
  hr_error error;
  assert_ok(hr_resolve_hardware("h200", &h200, &error), error);
  hr_workload workload = workload_of(&model, HR_PHASE_FORWARD, 4, 2048);
  const struct {
    int64_t width, t, e;
    const char *current, *suggested;
  } cases[] = {{3001, 1, 1, "experts of 3001", "experts of 3008"},
               {3072, 2, 1, "experts of 3072", ""},
               {3008, 2, 2, "experts of 3008", ""}}; /* whole experts */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    model.groups[0].experts.width = cases[i].width;
    workload.tensor_parallel = cases[i].t, workload.expert_parallel = cases[i].e;
    assert_ok(hr_advise(&h200, &model, &workload, &advice, &error), error);
    const hr_finding *finding = NULL;
    for (size_t f = 0; f < advice->about.finding_count && !finding; f++)
      finding = strcmp(advice->findings[f].rule, "mlp_width") == 0 ? &advice->findings[f] : NULL;
    assert_non_null(finding);
    assert_string_equal(finding->current, cases[i].current);
    assert_string_equal(finding->suggested, cases[i].suggested);
    hr_advice_free(advice);
  }
}

/* Layers 1 and 3 by decoder_sparse_step, of which mlp_only_layers takes 3 away. Attention: 64·(128 + 32 + 32) + 128·64,
 * a norm of 16 for Q and for K, two norms; dense 3·64·128; experts 8·(3·64·32 + 64); embedding and logits 2·64000. */
static void some_layers_have_experts_and_others_a_dense_network(void **state)
{
  (void)state;
  const char *text = "{\"model_type\":\"qwen3_moe\",\"num_hidden_layers\":4,\"hidden_size\":64,\"vocab_size\":1000,"
                     "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":16,\"intermediate_size\":128,"
                     "\"moe_intermediate_size\":32,\"num_experts\":8,\"num_experts_per_tok\":2,"
                     "\"decoder_sparse_step\":2,\"mlp_only_layers\":[3]}";
  hr_model model = read_model(text);
  assert_int_equal(model.group_count, 2);
  assert_true(model.groups[0].count == 3 && model.groups[0].dense.width == 128 && model.groups[0].experts.experts == 0);
  assert_true(model.groups[1].count == 1 && model.groups[1].dense.width == 0 && model.groups[1].experts.experts == 8);
  hr_parameters p = read_parameters(text);
  assert_int_equal(p.total, 4 * (20480 + 32 + 128) + 3 * 24576 + 8 * (6144 + 64) + 64 + 128000);
  assert_int_equal(p.active, p.total - 6 * 6144);
}

#define QWEN3                                                                                          \
  "\"model_type\":\"qwen3_moe\",\"num_hidden_layers\":4,\"hidden_size\":64,\"num_attention_heads\":8," \
  "\"num_key_value_heads\":2,\"head_dim\":16,\"intermediate_size\":128,\"vocab_size\":1000"

static void lists_of_layers_are_checked(void **state)
{
  (void)state;
  assert_refused("{" QWEN3 ",\"mlp_only_layers\":[4]}", HR_ERROR_INVALID,
                 "config.json: mlp_only_layers: expected layers from 0 to 3, found 4");
  assert_refused("{" QWEN3 ",\"mlp_only_layers\":[\"0\"]}", HR_ERROR_INVALID,
                 "config.json: mlp_only_layers: expected layers from 0 to 3, found \"0\"");
  assert_refused("{" QWEN3 ",\"mlp_only_layers\":2}", HR_ERROR_INVALID,
                 "config.json: mlp_only_layers: expected a list of layers");
  assert_refused("{" QWEN3 ",\"num_experts_per_tok\":129}", HR_ERROR_INVALID,
                 "config.json: num_experts_per_tok: 129 is more than num_experts, 128");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parameters_are_all_experts_and_active_ones_those_of_a_token),
      cmocka_unit_test(a_forward_step_has_grouped_gemms_of_equal_load),
      cmocka_unit_test(decode_reads_the_experts_that_are_hit),
      cmocka_unit_test(tensor_parallelism_splits_every_expert),
      cmocka_unit_test(expert_parallelism_spreads_whole_experts),
      cmocka_unit_test(one_group_with_whole_experts_only_sums_their_results),
      cmocka_unit_test(training_has_three_grouped_gemms_of_equal_work),
      cmocka_unit_test(memory_has_the_experts_of_one_device_and_the_copies_of_tokens),
      cmocka_unit_test(a_workload_that_experts_cannot_follow_is_refused),
      cmocka_unit_test(experts_that_do_not_fit_each_other_are_refused),
      cmocka_unit_test(decoding_with_experts_takes_the_time_of_their_weights),
      cmocka_unit_test(experts_of_equal_load_are_measured_as_a_batched_gemm_and_others_not),
      cmocka_unit_test(advice_aligns_the_width_of_experts),
      cmocka_unit_test(some_layers_have_experts_and_others_a_dense_network),
      cmocka_unit_test(lists_of_layers_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
