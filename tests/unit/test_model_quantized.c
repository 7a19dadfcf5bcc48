/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of quantized weights: one of each format by hand, and which layers have it. */
#include "analysis/predict/step.h"
#include "hardware/hardware.h"
#include "reading.h"

#include <headroom/experimental/operators.h>
#include <headroom/experimental/quantization.h>
#include <headroom/experimental/workload.h>
#include <headroom/memory.h>
#include <headroom/predict.h>
#include <headroom/resolve.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Hidden 512, 8 heads of 64 with 2 K and V heads, width 1024, 2 layers, vocabulary 1000. A layer's matrices (outputs ×
 * inputs): q and o 512 × 512, k and v 128 × 512, gate and up 1024 × 512, down 512 × 1024: 2,228,224 weights. */
#define LLAMA                                                                                                \
  "\"model_type\":\"llama\",\"hidden_size\":512,\"num_attention_heads\":8,\"num_key_value_heads\":2,"        \
  "\"intermediate_size\":1024,\"num_hidden_layers\":2,\"vocab_size\":1000,\"max_position_embeddings\":2048," \
  "\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":false"
#define WEIGHTS 2228224
#define OUTPUTS (512 + 512 + 128 + 128 + 1024 + 1024 + 512)
#define INPUTS (6 * 512 + 1024)
#define MATRICES 7
/* Embedding and logits 1000 × 512 each, norms 2 × 2 × 512 + 512, in 16 bits. */
#define REST (2 * (2 * 1000 * 512 + 5 * 512))

static hr_memory memory_of(const hr_model *model, int64_t t, int64_t p)
{
  hr_workload workload = hr_workload_default(model);
  hr_memory memory;
  hr_error error;
  workload.tensor_parallel = t;
  workload.pipeline_stages = p;
  assert_ok(hr_memory_estimate(model, &workload, &memory, &error), error);
  return memory;
}

static hr_model read_quantized(const char *shape, const char *quantization)
{
  char text[4096];
  snprintf(text, sizeof text, "{%s,\"quantization_config\":{%s}}", shape, quantization);
  return read_model(text);
}

static void each_format_has_the_bytes_of_its_layout(void **state)
{
  (void)state;
  const struct {
    const char *config;
    int64_t bytes; /* of the matrices of both layers */
  } rows[] = {
      /* 4 bits, and for 128 inputs a scale of 16 and a zero point of 4 bits */
      {"\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128,\"zero_point\":true",
       2 * (WEIGHTS / 2 + WEIGHTS / 128 * 20 / 8)},
      /* also g_idx, an int32 for each input */
      {"\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":128,\"desc_act\":false",
       2 * (WEIGHTS / 2 + WEIGHTS / 128 * 20 / 8 + 4 * INPUTS)},
      /* one group of all inputs */
      {"\"quant_method\":\"gptq\",\"bits\":8,\"group_size\":-1", 2 * (WEIGHTS + OUTPUTS * 24 / 8 + 4 * INPUTS)},
      {"\"quant_method\":\"auto-round\",\"bits\":2,\"group_size\":64,\"packing_format\":\"auto_round:auto_awq\"",
       2 * (WEIGHTS / 4 + WEIGHTS / 64 * 18 / 8)},
      /* blocks of 128 × 128 with an fp32 scale: all sizes are multiples */
      {"\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]", 2 * (WEIGHTS + WEIGHTS / 128 / 128 * 4)},
      {"\"quant_method\":\"fp8\",\"activation_scheme\":\"static\",\"weight_block_size\":null",
       2 * (WEIGHTS + MATRICES * 8)},
      {"\"quant_method\":\"fbgemm_fp8\"", 2 * (WEIGHTS + OUTPUTS * 4)},
      {"\"quant_method\":\"eetq\"", 2 * (WEIGHTS + OUTPUTS * 2)},
      /* blocks of 64 with one byte, 256 of which share an fp32; tables of 16 and 256 fp32. Blocks of q and o: 4096, 16
       * fp32; of k and v: 1024, 4 fp32; of gate, up and down: 8192, 32 fp32 */
      {"\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,\"bnb_4bit_quant_type\":\"nf4\","
       "\"bnb_4bit_use_double_quant\":true",
       2 * (WEIGHTS / 2 + WEIGHTS / 64 + 4 * (2 * 16 + 2 * 4 + 3 * 32) + MATRICES * 272 * 4)},
      {"\"load_in_4bit\":true,\"bnb_4bit_quant_type\":\"fp4\"", 2 * (WEIGHTS / 2 + WEIGHTS / 64 * 4 + MATRICES * 64)},
      {"\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true", 2 * (WEIGHTS + OUTPUTS * 4)},
      {"\"quant_method\":\"hqq\",\"quant_config\":{\"weight_quant_params\":{\"nbits\":4,\"group_size\":64}}",
       2 * (WEIGHTS / 2 + WEIGHTS / 64 * 4)},
      /* packed values with weight_shape, two int64 */
      {"\"quant_method\":\"compressed-tensors\",\"ignore\":[\"lm_head\"],\"config_groups\":{\"group_0\":{"
       "\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":4,\"type\":\"int\",\"strategy\":\"group\","
       "\"group_size\":128,\"symmetric\":true}}}",
       2 * (WEIGHTS / 2 + WEIGHTS / 128 * 2 + MATRICES * 16)},
      {"\"quant_method\":\"compressed-tensors\",\"ignore\":[\"lm_head\"],\"config_groups\":{\"group_0\":{"
       "\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":8,\"type\":\"int\",\"strategy\":\"channel\"},"
       "\"input_activations\":{\"num_bits\":8,\"type\":\"int\",\"strategy\":\"token\",\"dynamic\":true}}}",
       2 * (WEIGHTS + OUTPUTS * 2)},
      /* blocks of 16 with an E4M3 scale; an fp32 scale of the matrix and one of its inputs */
      {"\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\",\"ignore\":[\"lm_head\"]",
       2 * (WEIGHTS / 2 + WEIGHTS / 16 + MATRICES * 8)},
      /* inputs stay in 16 bits, and have no scale */
      {"\"quant_algo\":\"W4A16_NVFP4\",\"group_size\":16,\"ignore\":[\"lm_head\"]",
       2 * (WEIGHTS / 2 + WEIGHTS / 16 + MATRICES * 4)},
      {"\"quant_algo\":\"FP8\",\"ignore\":[\"lm_head\"]", 2 * (WEIGHTS + MATRICES * 8)},
      {"\"producer\":{\"name\":\"modelopt\"},\"quantization\":{\"quant_algo\":\"FP8\",\"exclude_modules\":[\"lm_head\"]"
       "}",
       2 * (WEIGHTS + MATRICES * 8)},
      {"\"quant_method\":\"modelopt\",\"quantization\":{\"quant_algo\":\"FP8\",\"exclude_modules\":[\"*lm_head*\"]}",
       2 * (WEIGHTS + MATRICES * 8)},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    hr_model model = read_quantized(LLAMA, rows[i].config);
    int64_t bytes = memory_of(&model, 1, 1).weight_bytes;
    if (bytes != rows[i].bytes + REST)
      fail_msg("%s: %" PRId64 " bytes, expected %" PRId64, rows[i].config, bytes, rows[i].bytes + REST);
  }
}

static void partial_blocks_have_a_scale_of_their_own(void **state)
{
  (void)state;
  const hr_weight_format fp8 = {.bits = 8, .block_inputs = 128, .block_outputs = 128, .block_bits = 32};
  const hr_weight_format int3 = {.bits = 3, .block_inputs = 128, .block_outputs = 1, .block_bits = 16};
  int64_t bytes = -1;
  assert_int_equal(hr_weight_format_bytes(&fp8, 130, 300, 2, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * (130 * 300 + 2 * 3 * 4));
  assert_int_equal(hr_weight_format_bytes(&int3, 5, 129, 1, &bytes), HR_OK);
  assert_int_equal(bytes, (5 * 129 * 3 + 7) / 8 + 5 * 2 * 2);
  assert_int_equal(hr_weight_format_bytes(&fp8, INT64_MAX / 2, 4, 1, &bytes), HR_ERROR_OVERFLOW);
  assert_int_equal(hr_weight_format_bytes(&fp8, -1, 4, 1, &bytes), HR_ERROR_INVALID);
  assert_int_equal(bytes, (5 * 129 * 3 + 7) / 8 + 5 * 2 * 2);
}

#define AWQ "\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128"

/* Layers whose linear layer `id` is quantized. */
static int64_t layers_quantized(const hr_model *model, hr_linear_id id)
{
  int64_t layers = 0;
  for (size_t i = 0; i < model->group_count; i++)
    layers += model->groups[i].formats[id] > 0 ? model->groups[i].count : 0;
  return layers;
}

static void modules_that_are_listed_stay_unquantized(void **state)
{
  (void)state;
  const struct {
    const char *list;
    int64_t q, o, up, down; /* layers of two that are quantized */
  } rows[] = {
      {"\"lm_head\",\"model.embed_tokens\",\"model.norm\"", 2, 2, 2, 2},
      {"\"self_attn\"", 0, 0, 2, 2},
      {"\"gate\"", 2, 2, 2, 2},
      {"\"mlp.down_proj\"", 2, 2, 2, 0},
      {"\"model.layers.1.self_attn\",\"model.layers.0.mlp.up_proj\"", 1, 1, 1, 2},
      {"\"model.layers.1\"", 1, 1, 1, 1},
      {"\"model.layers.10.mlp\"", 2, 2, 2, 2},
      {"\"model.layers.*.self_attn\"", 0, 0, 2, 2},
      {"\"model.layers.1*\"", 1, 1, 1, 1},
      {"\"*o_proj\"", 2, 0, 2, 2},
      {"\"re:.*self_attn.*\"", 0, 0, 2, 2},
      {"\"re:model\\\\.layers\\\\.(0|7)\\\\.mlp\\\\.(gate|up|gate_up)_proj$\"", 2, 2, 1, 2},
      {"\"re:.*[ou]p?_proj\"", 2, 0, 0, 2},
      {"\"re:self_attn\"", 2, 2, 2, 2},
      {"\"re:(model.)?layers.\\\\d+.mlp.*\"", 2, 2, 0, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char config[512];
    snprintf(config, sizeof config, AWQ ",\"modules_to_not_convert\":[%s]", rows[i].list);
    hr_model model = read_quantized(LLAMA, config);
    int64_t q = layers_quantized(&model, HR_LINEAR_Q), o = layers_quantized(&model, HR_LINEAR_O);
    int64_t up = layers_quantized(&model, HR_LINEAR_UP), down = layers_quantized(&model, HR_LINEAR_DOWN);
    if (q != rows[i].q || o != rows[i].o || up != rows[i].up || down != rows[i].down)
      fail_msg("%s: %d %d %d %d", rows[i].list, (int)q, (int)o, (int)up, (int)down);
  }
}

static void groups_of_modules_have_formats_of_their_own(void **state)
{
  (void)state;
  hr_model model = read_quantized(
      LLAMA, "\"quant_method\":\"compressed-tensors\",\"config_groups\":{"
             "\"group_0\":{\"targets\":[\"re:.*self_attn.*\"],\"weights\":{\"num_bits\":8,\"type\":\"float\","
             "\"strategy\":\"channel\"},\"input_activations\":{\"num_bits\":8,\"type\":\"float\",\"dynamic\":true}},"
             "\"group_1\":{\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":4,\"type\":\"int\","
             "\"strategy\":\"group\",\"group_size\":32}}},"
             "\"kv_cache_scheme\":{\"num_bits\":8,\"type\":\"float\"}");
  assert_int_equal(model.quantization.format_count, 2);
  assert_int_equal(model.groups[0].formats[HR_LINEAR_K], 1);
  assert_int_equal(model.groups[0].formats[HR_LINEAR_GATE], 2);
  assert_int_equal(model.quantization.logit, 2);
  assert_int_equal(model.quantization.kv_cache, HR_KV_FP8);
  assert_int_equal(model.quantization.formats[0].activations, HR_ACTIVATIONS_FP8);
  assert_int_equal(model.quantization.formats[1].activations, HR_ACTIVATIONS_UNQUANTIZED);
}

static void parameters_count_weights_not_packed_integers(void **state)
{
  (void)state;
  hr_model plain = read_model("{" LLAMA "}"), packed = read_quantized(LLAMA, AWQ);
  hr_parameters a, b;
  hr_error error;
  assert_ok(hr_model_parameters(&plain, &a, &error), error);
  assert_ok(hr_model_parameters(&packed, &b, &error), error);
  assert_int_equal(a.total, b.total);
}

static void devices_share_quantized_weights(void **state)
{
  (void)state;
  hr_model model = read_quantized(LLAMA, AWQ);
  int64_t layer = WEIGHTS / 2 + WEIGHTS / 128 * 20 / 8;
  assert_int_equal(memory_of(&model, 2, 1).weight_bytes, layer + 2 * 1000 * 512 + 2 * 5 * 512);
  assert_int_equal(memory_of(&model, 1, 2).weight_bytes, layer + 2 * 2 * 512 + 2 * 1000 * 512 + 2 * 512);
  hr_workload train = hr_workload_default(&model);
  hr_memory memory;
  hr_error error;
  train.phase = HR_PHASE_TRAIN;
  assert_ok(hr_memory_estimate(&model, &train, &memory, &error), error);
  assert_int_equal(memory.weight_bytes, 2 * 2 * WEIGHTS + REST);
}

static void a_preset_replaces_the_formats_of_a_checkpoint(void **state)
{
  (void)state;
  hr_model model = read_quantized(LLAMA, AWQ);
  hr_error error;
  assert_ok(hr_model_set_weights(&model, "bf16", &error), error);
  assert_int_equal(memory_of(&model, 1, 1).weight_bytes, 2 * 2 * WEIGHTS + REST);
  assert_ok(hr_model_set_weights(&model, "mxfp4", &error), error);
  assert_int_equal(memory_of(&model, 1, 1).weight_bytes, 2 * (WEIGHTS / 2 + WEIGHTS / 32) + REST);
  assert_ok(hr_model_set_weights(&model, "fp8", &error), error);
  assert_int_equal(memory_of(&model, 1, 1).weight_bytes, 2 * (WEIGHTS + OUTPUTS * 2) + REST);
  assert_int_equal(hr_model_set_weights(&model, "int5", &error), HR_ERROR_NOT_FOUND);
  assert_string_equal(error.message, "\"int5\" is none of bf16, int4, int8, fp8, mxfp4, nvfp4, nf4, q8_0");
}

/* The logits' 1000 × 512 weights as well, in memory once where they are the token embedding. */
static void q8_0_is_the_format_of_logits_too(void **state)
{
  (void)state;
  const int64_t logit = 1000 * 512;
  hr_error error;
  hr_model model = read_quantized(LLAMA, AWQ);
  assert_ok(hr_model_set_weights(&model, "q8_0", &error), error);
  assert_int_equal(memory_of(&model, 1, 1).weight_bytes, 2 * WEIGHTS * 34 / 32 + logit * 34 / 32 + REST - 2 * logit);
  model.tied_embeddings = true;
  assert_int_equal(memory_of(&model, 1, 1).weight_bytes,
                   2 * WEIGHTS * 34 / 32 + logit * 34 / 32 + REST - 2 * 2 * logit);
  assert_ok(hr_model_set_weights(&model, "int8", &error), error);
  assert_int_equal(memory_of(&model, 1, 1).weight_bytes, 2 * (WEIGHTS + OUTPUTS * 2) + REST - 2 * logit);
}

static void a_model_in_fp8_keeps_the_formats_that_it_has(void **state)
{
  (void)state;
  hr_model quantized = read_quantized(LLAMA, AWQ), plain = read_quantized(LLAMA, AWQ);
  hr_error error;
  assert_ok(hr_model_set_weights(&plain, "bf16", &error), error);
  assert_int_equal(hr_model_store_in_fp8(&plain, HR_PHASE_TRAIN, true, true, &error), HR_ERROR_UNSUPPORTED);
  assert_ok(hr_model_store_in_fp8(&plain, HR_PHASE_DECODE, false, false, &error), error);
  assert_int_equal(plain.quantization.format_count, 0);
  assert_int_equal(plain.quantization.kv_cache, HR_KV_UNQUANTIZED);
  assert_ok(hr_model_store_in_fp8(&plain, HR_PHASE_DECODE, true, true, &error), error);
  assert_string_equal(plain.quantization.formats[0].name, "fp8");
  assert_ok(hr_model_store_in_fp8(&quantized, HR_PHASE_DECODE, true, true, &error), error);
  assert_string_equal(quantized.quantization.formats[0].name, "int4");
  assert_int_equal(quantized.quantization.kv_cache, HR_KV_FP8);
}

static void operators_read_the_stored_weights_and_cache(void **state)
{
  (void)state;
  static hr_operators operators;
  hr_model model = read_quantized(LLAMA, AWQ);
  hr_workload w = hr_workload_default(&model);
  hr_error error;
  w.phase = HR_PHASE_DECODE;
  w.attention = HR_ATTENTION_UNFUSED;
  w.batch = 3;
  w.context = 100;
  w.kv_cache = HR_KV_FP8;
  assert_ok(hr_operators_list(&model, &w, &operators, &error), error);
  const hr_operator *up = hr_operators_find(&operators, HR_OP_MLP_UP, HR_PASS_FORWARD);
  assert_int_equal(up->bytes, 3 * (512 + 1024) * 2 + 512 * 1024 / 2 + 4 * 1024 * 20 / 8);
  const hr_operator *logit = hr_operators_find(&operators, HR_OP_LOGIT, HR_PASS_FORWARD);
  assert_int_equal(logit->bytes, 2 * (3 * (512 + 1000) + 512 * 1000));
  /* 24 query heads: Q, scores; 6 K heads of 100 × 64 in one byte */
  const hr_operator *score = hr_operators_find(&operators, HR_OP_ATTENTION_SCORE, HR_PASS_FORWARD);
  assert_int_equal(score->bytes, 24 * (64 + 100) * 2 + 6 * 100 * 64);
  w.attention = HR_ATTENTION_FUSED;
  assert_ok(hr_operators_list(&model, &w, &operators, &error), error);
  const hr_operator *attention = hr_operators_find(&operators, HR_OP_ATTENTION, HR_PASS_FORWARD);
  assert_int_equal(attention->bytes, 24 * (64 + 64) * 2 + 2 * 6 * 100 * 64);
  w.kv_cache = HR_KV_Q8_0;
  assert_ok(hr_operators_list(&model, &w, &operators, &error), error);
  attention = hr_operators_find(&operators, HR_OP_ATTENTION, HR_PASS_FORWARD);
  assert_int_equal(attention->bytes, 24 * (64 + 64) * 2 + 2 * 6 * 100 * 2 * 34);
  w.kv_cache = HR_KV_FP8;
  hr_memory memory;
  assert_ok(hr_memory_estimate(&model, &w, &memory, &error), error);
  assert_int_equal(memory.kv_cache_bytes, 3 * 100 * 2 * 2 * 2 * 64);
  assert_int_equal(memory.kv_cache_bytes_per_token, 2 * 2 * 2 * 64);
}

/* 8 experts of width 128, of which a token has 2. */
#define EXPERTS                                                                                           \
  "\"model_type\":\"qwen3_moe\",\"hidden_size\":512,\"num_attention_heads\":8,\"num_key_value_heads\":2," \
  "\"intermediate_size\":1024,\"moe_intermediate_size\":128,\"num_experts\":8,\"num_experts_per_tok\":2," \
  "\"num_hidden_layers\":2,\"vocab_size\":1000,\"max_position_embeddings\":2048,\"tie_word_embeddings\":false"

/* This library multiplies fp8 in linear layers of one device; experts have it widened, and everything on several. */
static void own_kernels_read_experts_of_fp8_in_16_bits(void **state)
{
  (void)state;
  static hr_operators servers, own;
  hr_model model = read_model("{" EXPERTS "}");
  hr_error error;
  hr_memory memory[2];
  assert_ok(hr_model_set_weights(&model, "fp8", &error), error);
  hr_workload w = hr_workload_default(&model);
  w.phase = HR_PHASE_DECODE, w.batch = 64, w.context = 100;
  assert_ok(hr_operators_list(&model, &w, &servers, &error), error);
  assert_ok(hr_memory_estimate(&model, &w, &memory[0], &error), error);
  w.framework = HR_FRAMEWORK_HEADROOM;
  assert_ok(hr_operators_list(&model, &w, &own, &error), error);
  assert_ok(hr_memory_estimate(&model, &w, &memory[1], &error), error);
  const hr_operator *of_servers = hr_operators_find(&servers, HR_OP_EXPERT_UP, HR_PASS_FORWARD);
  const hr_operator *of_own = hr_operators_find(&own, HR_OP_EXPERT_UP, HR_PASS_FORWARD);
  /* 8 experts of 512 × 128, a scale of 2 bytes for each output; 128 rows that are read, in 16 bits also as input */
  assert_int_equal(of_servers->bytes, 8 * (512 * 128 + 128 * 2) + 128 * 512 + 128 * 128 * 2);
  assert_int_equal(of_own->bytes, 2 * (8 * 512 * 128 + 128 * 512 + 128 * 128));
  assert_true(of_servers->activations == HR_ACTIVATIONS_FP8 && of_own->activations == HR_ACTIVATIONS_UNQUANTIZED);
  assert_int_equal(hr_operators_find(&own, HR_OP_QKV_TRANSFORM, HR_PASS_FORWARD)->bytes,
                   hr_operators_find(&servers, HR_OP_QKV_TRANSFORM, HR_PASS_FORWARD)->bytes);
  /* gate, up and down of 8 experts in 2 layers: a byte more for each weight, no scales of gate and up, and of down */
  assert_int_equal(memory[1].weight_bytes - memory[0].weight_bytes, 2 * 8 * (3 * 512 * 128 - 2 * (2 * 128 + 512)));
  w.tensor_parallel = 2;
  assert_ok(hr_operators_list(&model, &w, &own, &error), error);
  assert_int_equal(hr_operators_find(&own, HR_OP_QKV_TRANSFORM, HR_PASS_FORWARD)->activations,
                   HR_ACTIVATIONS_UNQUANTIZED);
}

static void rates_are_those_of_the_activations(void **state)
{
  (void)state;
  static hr_step step[2];
  hr_model model = read_model("{" LLAMA "}");
  hr_workload w = hr_workload_default(&model);
  hr_hardware h100, a100;
  hr_error error;
  assert_ok(hr_resolve_hardware("h100", &h100, &error), error);
  assert_ok(hr_resolve_hardware("a100", &a100, &error), error);
  assert_ok(hr_model_set_weights(&model, "int4", &error), error);
  assert_ok(hr_fill_step(&a100, &model, &w, &step[0], &error), error);
  assert_ok(hr_model_set_weights(&model, "fp8", &error), error);
  assert_ok(hr_fill_step(&a100, &model, &w, &step[1], &error), error); /* widened, as int4 is */
  assert_ok(hr_model_set_weights(&model, "bf16", &error), error);
  assert_ok(hr_fill_step(&a100, &model, &w, &step[0], &error), error);
  assert_true(step[1].about.time_ns > 0.9 * step[0].about.time_ns);
  assert_ok(hr_model_set_weights(&model, "fp8", &error), error);
  w.framework = HR_FRAMEWORK_HEADROOM;
  assert_int_equal(hr_fill_step(&a100, &model, &w, &step[1], &error), HR_ERROR_UNSUPPORTED);
  assert_non_null(strstr(error.message, "has no matrix rate for fp8"));
  w.framework = HR_FRAMEWORK_COMPILED, w.batch = 64;
  assert_ok(hr_fill_step(&h100, &model, &w, &step[1], &error), error);
  assert_ok(hr_model_set_weights(&model, "int4", &error), error);
  assert_ok(hr_fill_step(&h100, &model, &w, &step[0], &error), error);
  assert_true(step[1].about.time_ns < step[0].about.time_ns);
  model.quantization.formats[0].activations = HR_ACTIVATIONS_INT8;
  assert_ok(hr_fill_step(&h100, &model, &w, &step[1], &error), error);
  assert_true(step[1].about.time_ns < step[0].about.time_ns);
  h100.int8_ops_per_s = 0;
  assert_int_equal(hr_fill_step(&h100, &model, &w, &step[1], &error), HR_ERROR_UNSUPPORTED);
}

/* A B200 multiplies fp4 at twice the rate of fp8; an H100 widens the weights. */
static void nvfp4_is_multiplied_where_a_device_has_units_for_it(void **state)
{
  (void)state;
  static hr_step step[2];
  const char *const devices[] = {"b200", "h100"}, *const other[] = {"fp8", "mxfp4"};
  hr_model model = read_model("{" LLAMA "}");
  hr_workload w = hr_workload_default(&model);
  hr_error error;
  w.batch = 64;
  for (size_t d = 0; d < 2; d++) {
    hr_hardware device;
    assert_ok(hr_resolve_hardware(devices[d], &device, &error), error);
    for (size_t i = 0; i < 2; i++) {
      assert_ok(hr_model_set_weights(&model, i ? other[d] : "nvfp4", &error), error);
      assert_ok(hr_fill_step(&device, &model, &w, &step[i], &error), error);
    }
    double ratio = step[0].about.time_ns / step[1].about.time_ns;
    if (d == 0 ? ratio > 0.97 : fabs(ratio - 1) > 0.03) /* mxfp4 has half as many scales, and widened as many FLOPs */
      fail_msg("%s: nvfp4 takes %g times %s", devices[d], ratio, other[d]);
  }
}

/* Layer 0 has FP8 in attention's output and NVFP4 in the MLP's, layer 1 FP8 in the MLP's; the rest is not listed. */
static void modules_of_a_mixed_checkpoint_have_the_formats_they_are_listed_with(void **state)
{
  (void)state;
  hr_model model =
      read_quantized(LLAMA, "\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{"
                            "\"model.layers.0.self_attn.o_proj\":{\"quant_algo\":\"FP8\"},"
                            "\"model.layers.0.mlp.down_proj\":{\"quant_algo\":\"NVFP4\",\"group_size\":16},"
                            "\"model.layers.1.mlp.down_proj\":{\"quant_algo\":\"FP8\"}}");
  assert_int_equal(model.quantization.format_count, 2);
  assert_string_equal(model.quantization.formats[0].name, "fp8");
  assert_string_equal(model.quantization.formats[1].name, "nvfp4");
  assert_int_equal(model.quantization.logit, 0);
  assert_int_equal(model.group_count, 2);
  const uint8_t *first = model.groups[0].formats, *second = model.groups[1].formats;
  assert_true(first[HR_LINEAR_O] == 1 && first[HR_LINEAR_DOWN] == 2 && first[HR_LINEAR_UP] == 0);
  assert_true(second[HR_LINEAR_O] == 0 && second[HR_LINEAR_DOWN] == 1 && second[HR_LINEAR_Q] == 0);
  model = read_quantized(LLAMA, "\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{"
                                "\"model.layers.0.mlp.up_proj\":{\"quant_algo\":\"W4A16_NVFP4\",\"group_size\":16},"
                                "\"model.layers.0.mlp.down_proj\":{\"quant_algo\":\"NVFP4\",\"group_size\":16}}");
  assert_int_equal(model.quantization.format_count, 2); /* with and without activations in 4 bits */
  assert_int_equal(model.quantization.formats[0].activations, HR_ACTIVATIONS_UNQUANTIZED);
  assert_int_equal(model.quantization.formats[1].activations, HR_ACTIVATIONS_FP4);
  model = read_quantized(LLAMA, "\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{"
                                "\"model.layers.0.mlp.up_proj\":{\"quant_algo\":\"MXFP8\"}}");
  int64_t bytes;
  assert_int_equal(hr_weight_format_bytes(&model.quantization.formats[0], 3, 64, 1, &bytes), HR_OK);
  assert_int_equal(bytes, 3 * (64 + 2)); /* a byte for each 32 inputs */
}

static void a_wrapper_s_quantization_counts_beside_null_in_its_text_config(void **state)
{
  (void)state;
  hr_model model = read_model("{\"model_type\":\"llava\",\"quantization_config\":{" AWQ "},\"text_config\":{" LLAMA
                              ",\"quantization_config\":null}}");
  assert_int_equal(model.quantization.format_count, 1);
}

static void what_is_not_covered_is_refused(void **state)
{
  (void)state;
  const struct {
    const char *config, *message;
  } rows[] = {
      {"\"quant_method\":\"aqlm\"",
       "quant_method: the bytes of \"aqlm\" are not supported; those of awq, gptq, auto-round, bitsandbytes, fp8, "
       "fbgemm_fp8, compressed-tensors, modelopt, mxfp4, eetq, hqq are. Without quantization_config the "
       "shape is read, and --weights says how it is stored"},
      {"\"bits\":4", "quant_method: is missing"},
      {"\"quant_method\":\"awq\",\"bits\":5", "bits: 5 bits are not supported, only 2, 3, 4 and 8"},
      {"\"quant_method\":\"gptq\",\"bits\":4,\"dynamic\":{\"a\":{}}",
       "dynamic: an object sets a format for single layers, which is not supported"},
      {"\"quant_method\":\"modelopt\",\"quant_algo\":\"MIXED_PRECISION\"",
       "quantized_layers: expected an object with the format of each module"},
      {"\"quant_method\":\"modelopt\",\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{\"a\":{\"quant_algo\":"
       "\"X\"}}",
       "quantized_layers.quant_algo: \"X\" is not supported, only FP8, MXFP8, NVFP4, W4A16_NVFP4 and "
       "W4A16_AWQ"},
      {"\"quant_method\":\"modelopt\",\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{"
       "\"model.layers.1.self_attn.qkv_proj\":{\"quant_algo\":\"FP8\"},"
       "\"model.layers.1.self_attn.k_proj\":{\"quant_algo\":\"NVFP4\"}}",
       "quantized_layers: has parts of one linear layer in several formats, in layer 1"},
      {AWQ ",\"modules_to_not_convert\":[\"re:(?!x)\"]",
       "(modules that are not quantized): the expression \"re:(?!x)\" is not supported"},
      {AWQ ",\"modules_to_not_convert\":[7]", "(modules that are not quantized): expected names of modules"},
      {"\"quant_method\":\"fp8\",\"weight_block_size\":[128]", "weight_block_size: expected two positive integers"},
      {"\"quant_method\":\"compressed-tensors\",\"config_groups\":{}",
       "config_groups: expected an object with a group of modules"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[2048], expected[400];
    hr_model model;
    hr_error error;
    snprintf(text, sizeof text, "{" LLAMA ",\"quantization_config\":{%s}}", rows[i].config);
    snprintf(expected, sizeof expected, "config.json: quantization_config.%s", rows[i].message);
    assert_int_not_equal(hr_model_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "config.json"},
                                            NULL, NULL, &model, &error),
                         HR_OK);
    assert_string_equal(error.message, expected);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(modules_of_a_mixed_checkpoint_have_the_formats_they_are_listed_with),
      cmocka_unit_test(nvfp4_is_multiplied_where_a_device_has_units_for_it),
      cmocka_unit_test(each_format_has_the_bytes_of_its_layout),
      cmocka_unit_test(partial_blocks_have_a_scale_of_their_own),
      cmocka_unit_test(modules_that_are_listed_stay_unquantized),
      cmocka_unit_test(groups_of_modules_have_formats_of_their_own),
      cmocka_unit_test(parameters_count_weights_not_packed_integers),
      cmocka_unit_test(devices_share_quantized_weights),
      cmocka_unit_test(a_preset_replaces_the_formats_of_a_checkpoint),
      cmocka_unit_test(q8_0_is_the_format_of_logits_too),
      cmocka_unit_test(a_model_in_fp8_keeps_the_formats_that_it_has),
      cmocka_unit_test(operators_read_the_stored_weights_and_cache),
      cmocka_unit_test(own_kernels_read_experts_of_fp8_in_16_bits),
      cmocka_unit_test(rates_are_those_of_the_activations),
      cmocka_unit_test(a_wrapper_s_quantization_counts_beside_null_in_its_text_config),
      cmocka_unit_test(what_is_not_covered_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
