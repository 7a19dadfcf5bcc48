/* SPDX-License-Identifier: Apache-2.0 */
/* DeepSeek-V4: attention over compressed entries, several residual streams. Totals and active parameters are those of
 * transformers 5.17. */
#include "listed.h"
#include "reading.h"

#include <headroom/memory.h>

/* Without the kinds of layers: four of hidden size 64, Q heads of 32, a window of 16. */
#define SIZES                                                                                                          \
  "{\"model_type\":\"deepseek_v4\",\"num_hidden_layers\":4,\"hidden_size\":64,\"num_attention_heads\":4,"              \
  "\"vocab_size\":100,\"num_key_value_heads\":1,\"head_dim\":32,\"q_lora_rank\":24,\"o_groups\":2,\"o_lora_rank\":12," \
  "\"index_n_heads\":2,\"index_head_dim\":16,\"index_topk\":8,\"sliding_window\":16,\"n_routed_experts\":6,"           \
  "\"num_experts_per_tok\":2,\"moe_intermediate_size\":40,"

static void parameters_are_those_of_transformers(void **state)
{
  (void)state;
  /* A token of each layer adds 32 elements, and its share of entries of 32 (with an indexer 48). */
  const struct {
    const char *fields;
    int64_t parameters, active, cache_bytes;
    size_t groups;
  } rows[] = {
      {"\"compress_ratios\":[0,4,128,4,0],\"num_hash_layers\":1,\"hc_mult\":3,\"mlp_bias\":true}", 328900, 206020,
       2 * (4 * 32 + 2 * 48 / 4 + 32 / 128), 3},
      {"\"layer_types\":[\"heavily_compressed_attention\",\"sliding_attention\",\"compressed_sparse_attention\","
       "\"compressed_sparse_attention\"],\"compress_rates\":{\"compressed_sparse_attention\":2,"
       "\"heavily_compressed_attention\":8},\"mlp_layer_types\":[\"hash_moe\",\"moe\",\"moe\",\"moe\"]}",
       350733, 227853, 2 * (4 * 32 + 2 * 48 / 2 + 32 / 8), 3},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[1024];
    hr_parameters p;
    hr_memory memory;
    hr_error error;
    snprintf(text, sizeof text, "%s%s", SIZES, rows[i].fields);
    hr_model model = read_model(text);
    hr_workload workload = hr_workload_default(&model);
    assert_ok(hr_model_parameters(&model, &p, &error), error);
    assert_ok(hr_memory_estimate(&model, &workload, &memory, &error), error);
    if (p.total != rows[i].parameters || p.active != rows[i].active || model.group_count != rows[i].groups ||
        memory.kv_cache_bytes_per_token != rows[i].cache_bytes)
      fail_msg("%zu: %lld parameters, %lld active, %lld bytes, %zu groups", i, (long long)p.total, (long long)p.active,
               (long long)memory.kv_cache_bytes_per_token, model.group_count);
  }
}

static void without_a_list_two_heavy_layers_precede_both_kinds_by_turns(void **state)
{
  (void)state;
  hr_model model = read_model(SIZES "\"hc_mult\":2}");
  assert_int_equal(model.residual_streams, 2);
  assert_true(model.group_count == 2 && model.groups[0].count == 3 && model.groups[1].count == 1);
  assert_true(model.groups[0].compressed.ratio == 128 && model.groups[0].compressed.index_heads == 0);
  assert_true(model.groups[1].compressed.ratio == 4 && model.groups[1].compressed.overlaps);
  assert_int_equal(model.order[3], 1);
  assert_int_equal(model.groups[0].compressed.rope_dim, 4); /* an eighth of the head */
}

/* A model of one sparse layer. */
static hr_model sparse(void)
{
  hr_model model = read_model(SIZES "\"compress_ratios\":[4,4,4,4]}");
  assert_int_equal(model.group_count, 1);
  return model;
}

static hr_workload step(const hr_model *model, hr_phase phase, int64_t batch, int64_t tokens)
{
  hr_workload workload = hr_workload_default(model);
  workload.phase = phase, workload.attention = HR_ATTENTION_FUSED, workload.batch = batch;
  workload.sequence = workload.context = tokens;
  return workload;
}

/* 1000 tokens have 250 entries, of which 8 are attended to beside 16 tokens; the indexer scores all. */
static void decode_reads_the_window_and_chosen_entries(void **state)
{
  (void)state;
  hr_model model = sparse();
  hr_workload workload = step(&model, HR_PHASE_DECODE, 3, 1003);
  const hr_operators *operators = listed(&model, &workload);
  const hr_operator *read = found(operators, HR_OP_ATTENTION), *score = found(operators, HR_OP_INDEX_SCORE);
  assert_int_equal(read->attention.kv_len, 16 + 8);
  assert_true(read->latent && read->attention.k_heads == 1);
  assert_int_equal(read->flops, 4LL * 3 * 4 * 24 * 32);
  assert_int_equal(score->flops, 2LL * 3 * 2 * 250 * 16);
  assert_int_equal(score->bytes, 2LL * 3 * (2 * 16 + 250 * 16) + 4LL * 3 * 250);
  assert_gemm(operators, HR_OP_Q_UP, 3, 4 * 32, 24);
  assert_gemm(operators, HR_OP_COMPRESS_IN, 3, 2 * 2 * 32, 64);
  assert_gemm(operators, HR_OP_INDEX_K, 3, 4 * 16, 64);
  assert_gemm(operators, HR_OP_O_DOWN, 3, 12, 2 * 32);
  assert_int_equal(found(operators, HR_OP_O_DOWN)->gemm.batch, 2);
  assert_gemm(operators, HR_OP_LINEAR_PROJECTION, 3, 64, 2 * 12);
  workload = step(&model, HR_PHASE_DECODE, 3, 3); /* there is no entry yet */
  operators = listed(&model, &workload);
  assert_int_equal(found(operators, HR_OP_ATTENTION)->attention.kv_len, 3);
  assert_null(hr_operators_find(operators, HR_OP_INDEX_SCORE, HR_PASS_FORWARD));
}

/* Token t of 1 to `tokens` sees floor(t / 4) entries, `most` at most. */
static int64_t pairs(int64_t tokens, int64_t most)
{
  int64_t sum = 0;
  for (int64_t t = 1; t <= tokens; t++)
    sum += t / 4 < most ? t / 4 : most;
  return sum;
}

static void prefill_counts_each_pair_of_a_token_and_an_entry(void **state)
{
  (void)state;
  hr_model model = sparse();
  for (int64_t tokens = 4; tokens < 120; tokens += 5) {
    hr_workload workload = step(&model, HR_PHASE_PREFILL, 2, tokens);
    const hr_operators *operators = listed(&model, &workload);
    int64_t flops = 0, window = 0;
    for (size_t i = 0; i < operators->count; i++)
      flops += operators->items[i].id == HR_OP_ATTENTION ? operators->items[i].flops : 0;
    for (int64_t t = 1; t <= tokens; t++)
      window += t < 16 ? t : 16;
    assert_int_equal(flops, 4LL * 2 * 4 * 32 * (window + pairs(tokens, 8)));
    assert_int_equal(found(operators, HR_OP_INDEX_SCORE)->flops, 2LL * 2 * 2 * 16 * pairs(tokens, tokens));
  }
}

/* Weights of 4 streams: 4 of the input, 4 of the output, 16 between streams, of all streams of a token. */
static void streams_are_mixed_before_and_behind_each_block(void **state)
{
  (void)state;
  hr_model model = sparse();
  hr_workload workload = step(&model, HR_PHASE_PREFILL, 1, 10);
  const hr_operators *operators = listed(&model, &workload);
  assert_gemm(operators, HR_OP_ATTENTION_HC_WEIGHTS, 10, 24, 4 * 64);
  assert_gemm(operators, HR_OP_MLP_HC_WEIGHTS, 10, 24, 4 * 64);
  assert_gemm(operators, HR_OP_FINAL_HC_WEIGHTS, 10, 4, 4 * 64);
  assert_int_equal(found(operators, HR_OP_MLP_HC_PRE)->bytes, 2LL * 10 * 64 * (4 + 1));
  assert_int_equal(found(operators, HR_OP_MLP_RESIDUAL)->bytes, 2LL * 10 * 64 * (4 + 1 + 4));
  assert_int_equal(found(operators, HR_OP_EMBEDDING)->bytes, 2LL * 10 * 64 * (1 + 4));
  model.residual_streams = 0;
  workload = step(&model, HR_PHASE_PREFILL, 1, 10);
  operators = listed(&model, &workload);
  assert_null(hr_operators_find(operators, HR_OP_MLP_HC_PRE, HR_PASS_FORWARD));
  assert_int_equal(found(operators, HR_OP_MLP_RESIDUAL)->bytes, 2LL * 10 * 64 * 3);
}

static void a_device_has_its_heads_and_groups_and_all_entries(void **state)
{
  (void)state;
  hr_model model = sparse();
  hr_workload workload = step(&model, HR_PHASE_DECODE, 3, 1000);
  workload.tensor_parallel = 2;
  const hr_operators *operators = listed(&model, &workload);
  assert_gemm(operators, HR_OP_Q_UP, 3, 2 * 32, 24);
  assert_gemm(operators, HR_OP_KV_DOWN, 3, 32, 64);
  assert_gemm(operators, HR_OP_O_DOWN, 3, 12, 2 * 32);
  assert_int_equal(found(operators, HR_OP_O_DOWN)->gemm.batch, 1);
  assert_gemm(operators, HR_OP_LINEAR_PROJECTION, 3, 64, 12);
}

/* Other linear layers are in fp8; experts are half a byte and a byte for each 32 or 16 inputs. */
static void experts_have_a_format_of_their_own(void **state)
{
  (void)state;
#define FP8 "\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]"
  hr_model model = read_model(SIZES "\"expert_dtype\":\"fp4\"," FP8 "}}");
  const hr_layer_group *layer = &model.groups[0];
  assert_int_equal(model.quantization.format_count, 2);
  assert_true(layer->formats[HR_LINEAR_EXPERT_UP] == 2 && layer->formats[HR_LINEAR_SHARED_UP] == 1);
  assert_true(layer->formats[HR_LINEAR_O_DOWN] == 1 && layer->formats[HR_LINEAR_KV_DOWN] == 1);
  assert_string_equal(model.quantization.formats[1].name, "mxfp4");
  model = read_model(SIZES "\"expert_dtype\":\"fp4\"," FP8 ",\"moe_quant_algo\":\"NVFP4\"}}");
  assert_int_equal(model.quantization.format_count, 2);
  assert_string_equal(model.quantization.formats[1].name, "nvfp4");
  assert_refused(SIZES "\"expert_dtype\":\"int4\"," FP8 "}}", HR_ERROR_UNSUPPORTED,
                 "config.json: expert_dtype: \"int4\" is not supported, only fp4 and fp8");
  assert_refused(SIZES FP8 ",\"moe_quant_algo\":\"FP8\"}}", HR_ERROR_UNSUPPORTED,
                 "config.json: quantization_config.moe_quant_algo: \"FP8\" is not supported, only NVFP4");
#undef FP8
}

static void what_is_not_covered_is_refused_by_its_field(void **state)
{
  (void)state;
  assert_refused(SIZES "\"compress_ratios\":[0,4,8,128]}", HR_ERROR_UNSUPPORTED,
                 "config.json: compress_ratios: has 8; only 0, 4 and 128 are supported");
  assert_refused(SIZES "\"compress_ratios\":[0,4]}", HR_ERROR_INVALID,
                 "config.json: compress_ratios: expected a list with one for each of 4 layers");
  assert_refused(SIZES "\"n_shared_experts\":2}", HR_ERROR_UNSUPPORTED,
                 "config.json: n_shared_experts: 2 is not supported, only 1");
  assert_refused(SIZES "\"intermediate_size\":48}", HR_ERROR_UNSUPPORTED,
                 "config.json: intermediate_size: 48 is not moe_intermediate_size, 40");
  assert_refused(SIZES "\"mlp_layer_types\":[\"moe\",\"moe\",\"moe\",\"dense\"]}", HR_ERROR_UNSUPPORTED,
                 "config.json: mlp_layer_types: has a layer of type \"dense\"; only moe and hash_moe are supported");
  assert_refused(SIZES "\"qk_rope_head_dim\":64}", HR_ERROR_INVALID,
                 "config.json: qk_rope_head_dim: 64 is more than head_dim, 32");
  assert_refused(SIZES "\"compress_rates\":5}", HR_ERROR_INVALID, "config.json: compress_rates: expected an object");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parameters_are_those_of_transformers),
      cmocka_unit_test(without_a_list_two_heavy_layers_precede_both_kinds_by_turns),
      cmocka_unit_test(decode_reads_the_window_and_chosen_entries),
      cmocka_unit_test(prefill_counts_each_pair_of_a_token_and_an_entry),
      cmocka_unit_test(streams_are_mixed_before_and_behind_each_block),
      cmocka_unit_test(a_device_has_its_heads_and_groups_and_all_entries),
      cmocka_unit_test(experts_have_a_format_of_their_own),
      cmocka_unit_test(what_is_not_covered_is_refused_by_its_field),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
