/* SPDX-License-Identifier: Apache-2.0 */
/* Kimi Linear (arXiv 2510.26692): Kimi delta attention beside latent attention. */
#include "hardware/hardware.h"
#include "listed.h"
#include "reading.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/operators.h>
#include <headroom/experimental/predict.h>
#include <headroom/memory.h>
#include <headroom/resolve.h>

/* Kimi-Linear-48B-A3B-Instruct, without fields that no count depends on. */
#define FEW_LISTS                                                                           \
  "\"linear_attn_config\":{\"full_attn_layers\":[4,8,12,16,20,24,27],\"head_dim\":128,"     \
  "\"kda_layers\":[1,2,3,5,6,7,9,10,11,13,14,15,17,18,19,21,22,23,25,26],\"num_heads\":32," \
  "\"short_conv_kernel_size\":4}"
#define PUBLISHED                                                                                                  \
  "{\"architectures\":[\"KimiLinearForCausalLM\"],\"model_type\":\"kimi_linear\",\"hidden_size\":2304,"            \
  "\"num_hidden_layers\":27,\"num_attention_heads\":32,\"num_key_value_heads\":32,\"head_dim\":72,"                \
  "\"intermediate_size\":9216,\"moe_intermediate_size\":1024,\"num_experts\":256,\"num_experts_per_token\":8,"     \
  "\"num_shared_experts\":1,\"first_k_dense_replace\":1,\"moe_layer_freq\":1,\"num_expert_group\":1,"              \
  "\"topk_group\":1,\"use_grouped_topk\":true,\"q_lora_rank\":null,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128," \
  "\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"mla_use_nope\":true,\"tie_word_embeddings\":false,"                \
  "\"vocab_size\":163840,\"model_max_length\":1048576," FEW_LISTS "}"

/* Five layers; scans of 2 heads of 16. */
#define SMALL                                                                                                        \
  "\"model_type\":\"kimi_linear\",\"hidden_size\":64,\"num_hidden_layers\":5,\"num_attention_heads\":4,"             \
  "\"num_key_value_heads\":4,\"intermediate_size\":96,\"vocab_size\":100,\"kv_lora_rank\":24,"                       \
  "\"qk_nope_head_dim\":12,\"qk_rope_head_dim\":8,\"v_head_dim\":20,\"moe_intermediate_size\":48,\"num_experts\":8," \
  "\"num_experts_per_token\":2"
#define LINEAR(delta, attention)                                                                                 \
  ",\"linear_attn_config\":{\"num_heads\":2,\"head_dim\":16,\"short_conv_kernel_size\":4,\"kda_layers\":[" delta \
  "],\"full_attn_layers\":[" attention "]}"

static hr_workload step_of(const hr_model *model, hr_phase phase, int64_t batch, int64_t tokens)
{
  hr_workload workload = hr_workload_default(model);
  workload.phase = phase;
  workload.batch = batch;
  workload.sequence = workload.context = tokens;
  return workload;
}

static hr_memory memory_of(const hr_model *model, const hr_workload *workload)
{
  hr_memory memory;
  hr_error error;
  assert_ok(hr_memory_estimate(model, workload, &memory, &error), error);
  return memory;
}

/* Counts of transformers 5.17, which calls some fields otherwise and counts layers from 0. */
static void counts_are_those_of_transformers(void **state)
{
  (void)state;
  hr_parameters p = read_parameters(PUBLISHED);
  assert_true(p.total == 49122675072 && p.active == 3484453248);
  p = read_parameters("{" SMALL ",\"num_shared_experts\":2" LINEAR("1,2,4", "3,5") "}");
  assert_true(p.total == 468870 && p.active == 247686);
  hr_model m =
      read_model("{\"model_type\":\"kimi_linear\",\"hidden_size\":64,\"num_hidden_layers\":5,"
                 "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"intermediate_size\":96,\"vocab_size\":100,"
                 "\"q_lora_rank\":40,\"kv_lora_rank\":24,\"qk_nope_head_dim\":12,\"qk_rope_head_dim\":8,"
                 "\"v_head_dim\":20,\"num_local_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":48,"
                 "\"n_shared_experts\":1,\"linear_num_heads\":3,\"linear_head_dim\":8,\"linear_conv_kernel_dim\":3,"
                 "\"mlp_layer_types\":[\"dense\",\"sparse\",\"dense\",\"sparse\",\"sparse\"],\"layer_types\":["
                 "\"linear_attention\",\"full_attention\",\"linear_attention\",\"linear_attention\","
                 "\"linear_attention\"],\"max_position_embeddings\":77}");
  hr_error error;
  assert_ok(hr_model_parameters(&m, &p, &error), error);
  assert_true(p.total == 348780 && p.active == 182892 && m.max_positions == 77);
}

/* The scan has 32 heads of N = P = 128, so that D is 4096. */
static void every_weight_of_a_scan_is_counted(void **state)
{
  (void)state;
  const int64_t h = 2304, d = 4096, n = 128;
  hr_parameters p = read_parameters(PUBLISHED);
  int64_t projections = 4 * h * d + 2 * (h * n + n * d) + h * 32;    /* Q, K, V, O; decays, gates; learning rates */
  assert_int_equal(p.scan, 20 * (projections + 3 * d * 4 + d + 32)); /* convolution, bias of the decays, A */
  assert_int_equal(p.norm, 27 * 2 * h + h + 20 * n + 7 * 512);
}

/* 7 layers cache 512 + 64 elements of a token; 20 keep 32 states of 128 × 128 in fp32, and 4 inputs of 12,288 channels.
 */
static void latents_and_states_are_the_cache(void **state)
{
  (void)state;
  hr_model m = read_model(PUBLISHED);
  hr_workload workload = step_of(&m, HR_PHASE_DECODE, 2, 64);
  hr_memory memory = memory_of(&m, &workload);
  assert_int_equal(memory.kv_cache_bytes_per_token, 7 * 576 * 2);
  assert_int_equal(memory.state_bytes_per_sequence, 20 * (32 * 128 * 128 * 4 + 3 * 4096 * 4 * 2));
  assert_int_equal(m.positions, HR_POSITIONS_NONE);
  assert_null(hr_operators_find(listed(&m, &workload), HR_OP_ROTARY, HR_PASS_FORWARD));
}

static void operators_are_those_of_the_layer(void **state)
{
  (void)state;
  hr_model m = read_model(PUBLISHED);
  hr_workload workload = step_of(&m, HR_PHASE_PREFILL, 1, 256);
  const hr_operators *ops = listed(&m, &workload);
  assert_gemm(ops, HR_OP_IN_PROJ, 256, 3 * 4096 + 2 * 128 + 32, 2304);
  assert_gemm(ops, HR_OP_SCAN_DECAY_UP, 256, 4096, 128);
  assert_gemm(ops, HR_OP_SCAN_GATE_UP, 256, 4096, 128);
  assert_gemm(ops, HR_OP_OUT_PROJ, 256, 2304, 4096);
  const hr_operator *scan = found(ops, HR_OP_SCAN);
  assert_int_equal(scan->count, 20);
  /* A token in chunks of 64: 2 · 64 · (3 · 128 + 2 · 128) and 64² / 3 in a head, and 6 of each element of the state. */
  assert_int_equal(scan->flops, INT64_C(256) * (32 * (2 * 64 * 5 * 128 + 1365) + 6 * 32 * 128 * 128));
  /* Q, K, V and a decay of each element, 32 learning rates, the result; the states are left. */
  assert_int_equal(scan->bytes, INT64_C(256) * (5 * 4096 + 32) * 2 + 32 * 128 * 128 * 4);
  workload = step_of(&m, HR_PHASE_DECODE, 3, 256);
  scan = found(listed(&m, &workload), HR_OP_SCAN);
  assert_int_equal(scan->flops, INT64_C(3) * 7 * 32 * 128 * 128);
  assert_int_equal(scan->bytes, INT64_C(3) * ((5 * 4096 + 32) * 2 + 2 * 32 * 128 * 128 * 4));
}

/* Both ranks are on every device. */
static void tensor_parallelism_splits_heads_but_not_ranks(void **state)
{
  (void)state;
  hr_model m = read_model(PUBLISHED);
  hr_workload workload = step_of(&m, HR_PHASE_PREFILL, 1, 256);
  workload.tensor_parallel = 4;
  const hr_operators *ops = listed(&m, &workload);
  assert_gemm(ops, HR_OP_IN_PROJ, 256, 3 * 1024 + 2 * 128 + 8, 2304);
  assert_gemm(ops, HR_OP_SCAN_DECAY_UP, 256, 1024, 128);
  assert_gemm(ops, HR_OP_OUT_PROJ, 256, 2304, 1024);
}

/* No measured rows are behind Kimi's kernels: they take the time of a gated delta net's, in a wider band. */
static void a_scan_is_predicted_as_a_gated_delta_net(void **state)
{
  (void)state;
  hr_hardware hardware;
  hr_error error;
  hr_prediction kimi, delta;
  hr_scan_call call = hr_scan_call_default();
  assert_ok(hr_resolve_hardware("h200", &hardware, &error), error);
  call.recurrence = HR_RECURRENCE_KIMI_DELTA, call.batch = 4, call.tokens = 4096, call.heads = call.groups = 32;
  call.head_dim = call.state = 128, call.chunk = 64;
  assert_ok(hr_predict_scan(&hardware, &call, &kimi, &error), error);
  call.recurrence = HR_RECURRENCE_GATED_DELTA;
  assert_ok(hr_predict_scan(&hardware, &call, &delta, &error), error);
  assert_true(kimi.time_ns > delta.time_ns && kimi.time_ns < 1.5 * delta.time_ns); /* it reads more decays */
  assert_true(kimi.high_ns / kimi.time_ns > delta.high_ns / delta.time_ns);
}

/* Q, K, V and O have the names of attention's: in fp8 with their scales of 128 × 128 blocks. The small maps beside them
 * stay in the workload's format, but within the one GEMM into the scan have that of Q. */
static void quantized_projections_are_those_of_attention(void **state)
{
  (void)state;
#define QUANTIZED(more)                                                                  \
  "{" SMALL LINEAR("1,2,4", "3,5") ",\"quantization_config\":{\"quant_method\":\"fp8\"," \
                                   "\"activation_scheme\":\"dynamic\",\"weight_block_size\":[128,128]" more "}}"
  hr_model m = read_model(QUANTIZED(""));
  hr_workload workload = step_of(&m, HR_PHASE_DECODE, 1, 64);
  const hr_operators *ops = listed(&m, &workload);
  const int64_t columns = 3 * 32 + 2 * 16 + 2;
  /* One row of 64 inputs in fp8, the weights and two blocks' fp32 scales, the outputs in bf16. */
  assert_int_equal(found(ops, HR_OP_IN_PROJ)->bytes, 64 + columns * 64 + 2 * 4 + columns * 2);
  m = read_model(QUANTIZED(",\"modules_to_not_convert\":[\"self_attn\"]"));
  ops = listed(&m, &workload);
  assert_int_equal(found(ops, HR_OP_IN_PROJ)->bytes, (64 + columns * 64 + columns) * 2);
  assert_int_equal(found(ops, HR_OP_SCAN_GATE_UP)->bytes, (16 + 32 * 16 + 32) * 2);
}

static void lists_name_every_layer_once(void **state)
{
  (void)state;
  hr_model m = read_model("{" SMALL "}"); /* without lists attention in layers 4, 8, … */
  assert_true(m.group_count == 3 && m.groups[2].count == 1 && m.groups[2].latent.q_heads == 4 && m.order[4] == 2);
#define FAULT "config.json: linear_attn_config."
  assert_refused("{" SMALL LINEAR("1,2,4,5", "3,5") "}", HR_ERROR_INVALID,
                 FAULT "kda_layers: expected layers from 1 to 5, each once, found 5");
  assert_refused("{" SMALL LINEAR("1,2", "3,5") "}", HR_ERROR_INVALID,
                 FAULT "kda_layers: neither it nor full_attn_layers has layer 4");
  assert_refused("{" SMALL LINEAR("1,2,4", "3,0") "}", HR_ERROR_INVALID,
                 FAULT "full_attn_layers: expected layers from 1 to 5, each once, found 0");
  assert_refused("{" SMALL ",\"linear_attn_config\":{\"kda_layers\":2,\"full_attn_layers\":[1]}}", HR_ERROR_INVALID,
                 FAULT "kda_layers: expected a list of layers");
  assert_refused("{" SMALL ",\"linear_attn_config\":[1]}", HR_ERROR_INVALID,
                 "config.json: linear_attn_config: expected an object");
}

/* Kimi K3's text part has the same model_type and other layers. */
static void mechanisms_of_other_models_are_refused(void **state)
{
  (void)state;
#define MEANS(what) " means " what ", which are not supported for this family (docs/models.md)"
  static const struct {
    const char *field, *message;
  } rows[] = {
      {"\"attn_res_block_size\":2", "attn_res_block_size: 2" MEANS("attention residuals")},
      {"\"mla_use_output_gate\":true", "mla_use_output_gate: true" MEANS("gates of latent attention's outputs")},
      {"\"routed_expert_hidden_size\":32",
       "routed_expert_hidden_size: 32" MEANS("experts of another width than the stream's")},
      {"\"linear_attn_config\":{\"use_full_rank_gate\":true}",
       "linear_attn_config.use_full_rank_gate: true means gates of full rank (Kimi K3), which are not supported"},
      {"\"mla_use_nope\":false", "mla_use_nope: only true is supported"},
      {"\"tie_word_embeddings\":true", "tie_word_embeddings: only false is supported"},
      {"\"moe_layer_freq\":2", "moe_layer_freq: 2 means dense layers between those with experts; only 1 is supported"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[1024], message[256];
    snprintf(text, sizeof text, "{" SMALL ",%s}", rows[i].field);
    snprintf(message, sizeof message, "config.json: %s", rows[i].message);
    assert_refused(text, HR_ERROR_UNSUPPORTED, message);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_are_those_of_transformers),
      cmocka_unit_test(every_weight_of_a_scan_is_counted),
      cmocka_unit_test(latents_and_states_are_the_cache),
      cmocka_unit_test(operators_are_those_of_the_layer),
      cmocka_unit_test(tensor_parallelism_splits_heads_but_not_ranks),
      cmocka_unit_test(a_scan_is_predicted_as_a_gated_delta_net),
      cmocka_unit_test(quantized_projections_are_those_of_attention),
      cmocka_unit_test(lists_name_every_layer_once),
      cmocka_unit_test(mechanisms_of_other_models_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
