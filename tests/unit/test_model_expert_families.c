/* SPDX-License-Identifier: Apache-2.0 */
/* Families with experts: a small model of each. Totals and active parameters are those of transformers 5.23; the KV
 * cache is 2 · K/V heads · head size of every layer. */
#include "listed.h"
#include "reading.h"

#include <headroom/memory.h>

/* 4 layers, hidden size 64, 4 query heads over 2 K and V heads. */
#define SIZES \
  "\"num_hidden_layers\":4,\"hidden_size\":64,\"num_attention_heads\":4,\"vocab_size\":100,\"num_key_value_heads\":2,"

/* clang-format off */
static const struct {
  const char *family, *fields;
  int64_t parameters, active, cache_elements; /* of a token */
  size_t groups;
} rows[] = {
    {"qwen2_moe",
     SIZES "\"intermediate_size\":96,\"num_experts\":6,\"num_experts_per_tok\":2,\"moe_intermediate_size\":40,"
     "\"shared_expert_intermediate_size\":56,\"decoder_sparse_step\":2,\"qkv_bias\":false",
     213952, 152512, 256, 2},
    {"qwen3_vl_moe_text",
     SIZES "\"head_dim\":24,\"intermediate_size\":96,\"num_experts\":6,\"num_experts_per_tok\":2,"
     "\"moe_intermediate_size\":40,\"mlp_only_layers\":[1],\"attention_bias\":true,"
     "\"tie_word_embeddings\":false",
     246144, 153984, 384, 2},
    {"qwen3_omni_moe_text",
     SIZES "\"tie_word_embeddings\":false,\"intermediate_size\":96,\"num_experts\":6,"
     "\"num_experts_per_tok\":2,\"moe_intermediate_size\":40,\"decoder_sparse_step\":2",
     192448, 131008, 256, 2},
    {"olmoe",
     SIZES "\"intermediate_size\":40,\"num_experts\":6,\"num_experts_per_tok\":2,\"attention_bias\":true",
     249536, 126656, 256, 1},
    {"flex_olmo",
     SIZES "\"intermediate_size\":40,\"num_experts\":6,\"num_experts_per_tok\":2",
     248768, 125888, 256, 1},
    {"phimoe",
     SIZES "\"intermediate_size\":40,\"num_local_experts\":6,\"num_experts_per_tok\":2,"
     "\"attention_bias\":true,\"lm_head_bias\":true",
     249828, 126948, 256, 1},
    {"gpt_oss",
     SIZES "\"head_dim\":24,\"intermediate_size\":40,\"num_local_experts\":6,\"num_experts_per_tok\":2,"
     "\"sliding_window\":16",
     277480, 152296, 384, 2},
    {"glm4_moe",
     SIZES "\"head_dim\":24,\"intermediate_size\":96,\"n_routed_experts\":6,\"num_experts_per_tok\":2,"
     "\"moe_intermediate_size\":40,\"n_shared_experts\":2,\"first_k_dense_replace\":3,\"n_group\":2,"
     "\"topk_group\":1,\"use_qk_norm\":true,\"attention_bias\":true",
     205184, 174464, 384, 2},
    {"glm4v_moe_text",
     SIZES "\"intermediate_size\":96,\"n_routed_experts\":6,\"num_experts_per_tok\":2,"
     "\"moe_intermediate_size\":40,\"first_k_dense_replace\":1",
     243904, 151744, 256, 2},
    {"dots1",
     SIZES "\"intermediate_size\":96,\"n_routed_experts\":6,\"num_experts_per_tok\":2,"
     "\"moe_intermediate_size\":40,\"n_shared_experts\":2,\"first_k_dense_replace\":1,"
     "\"attention_bias\":true",
     267328, 175168, 256, 2},
    {"solar_open",
     SIZES "\"head_dim\":24,\"n_routed_experts\":6,\"num_experts_per_tok\":2,\"moe_intermediate_size\":40,"
     "\"n_shared_experts\":2,\"attention_bias\":true",
     335168, 212288, 384, 1},
    {"exaone_moe",
     SIZES "\"head_dim\":24,\"intermediate_size\":96,\"num_experts\":6,\"num_experts_per_tok\":2,"
     "\"moe_intermediate_size\":40,\"num_shared_experts\":2,\"mlp_layer_types\":[\"sparse\",\"dense\","
     "\"sparse\",\"dense\"],\"sliding_window\":16",
     247808, 186368, 384, 3},
    {"minimax_m2",
     SIZES "\"head_dim\":24,\"intermediate_size\":40,\"num_local_experts\":6,\"num_experts_per_tok\":2",
     273536, 150656, 384, 1},
    {"granitemoe",
     SIZES "\"intermediate_size\":40,\"num_local_experts\":6,\"num_experts_per_tok\":2,\"attention_bias\":true",
     249152, 126272, 256, 1},
    {"granitemoeshared",
     SIZES "\"intermediate_size\":40,\"num_local_experts\":6,\"num_experts_per_tok\":2,"
     "\"shared_intermediate_size\":56",
     291392, 168512, 256, 1},
    {"granitemoe_swa",
     SIZES "\"intermediate_size\":40,\"num_local_experts\":6,\"num_experts_per_tok\":2,"
     "\"shared_intermediate_size\":56,\"sliding_window\":16",
     291408, 168528, 256, 2},
    {"aria_text",
     SIZES "\"intermediate_size\":40,\"moe_num_experts\":6,\"moe_topk\":2,\"moe_num_shared_experts\":3,"
     "\"mlp_bias\":true",
     341760, 218880, 256, 1},
    {"afmoe",
     SIZES "\"head_dim\":24,\"intermediate_size\":96,\"num_experts\":6,\"num_experts_per_tok\":2,"
     "\"moe_intermediate_size\":40,\"num_shared_experts\":1,\"num_dense_layers\":2,"
     "\"attention_bias\":true,\"sliding_window\":16",
     258572, 197132, 384, 3},
    {"hy_v3",
     SIZES "\"head_dim\":24,\"intermediate_size\":96,\"num_experts\":6,\"num_experts_per_tok\":2,"
     "\"moe_intermediate_size\":40,\"num_shared_experts\":2,\"mlp_bias\":true,\"attention_bias\":true",
     293152, 200992, 384, 2},
    {"kolibri1",
     SIZES "\"head_dim\":24,\"num_experts\":6,\"num_experts_per_tok\":2,\"moe_intermediate_size\":40,"
     "\"shared_expert_intermediate_size\":56,\"sliding_window\":17",
     316672, 193792, 384, 1},
    {"mellum",
     SIZES "\"head_dim\":24,\"intermediate_size\":96,\"num_experts\":6,\"num_experts_per_tok\":2,"
     "\"moe_intermediate_size\":40,\"mlp_layer_types\":[\"dense\",\"sparse\",\"sparse\",\"dense\"],"
     "\"layer_types\":[\"full_attention\",\"sliding_attention\",\"full_attention\",\"full_attention\"],"
     "\"sliding_window\":16,\"attention_bias\":true",
     218112, 156672, 384, 3},
    {"llama4_text",
     "\"num_hidden_layers\":8,\"hidden_size\":64,\"num_attention_heads\":4,\"vocab_size\":100,"
     "\"num_key_value_heads\":2,\"head_dim\":24,\"intermediate_size\":40,\"intermediate_size_mlp\":96,"
     "\"num_local_experts\":6,\"num_experts_per_tok\":1,\"interleave_moe_layer_step\":2,"
     "\"attention_chunk_size\":16",
     451648, 298048, 768, 3},
    {"ernie4_5_moe",
     SIZES "\"intermediate_size\":96,\"moe_num_experts\":6,\"moe_k\":2,\"moe_intermediate_size\":40,"
     "\"moe_num_shared_experts\":2,\"moe_layer_start_index\":1,\"moe_layer_end_index\":3,"
     "\"moe_layer_interval\":2,\"use_bias\":true",
     218480, 157040, 256, 2},
    {"hunyuan_v1_moe",
     SIZES "\"head_dim\":24,\"intermediate_size\":40,\"num_experts\":6,\"moe_topk\":2,\"attention_bias\":true",
     304896, 182016, 384, 1},
    {"dbrx",
     "\"d_model\":64,\"n_heads\":4,\"n_layers\":4,\"vocab_size\":100,\"max_seq_len\":512,"
     "\"attn_config\":{\"kv_n_heads\":2,\"clip_qkv\":8,\"rope_theta\":500000},"
     "\"ffn_config\":{\"ffn_hidden_size\":40,\"moe_num_experts\":6,\"moe_top_k\":2}",
     248384, 125504, 256, 1},
    {"mimo_v2_flash",
     "\"num_hidden_layers\":4,\"hidden_size\":64,\"num_attention_heads\":4,\"vocab_size\":100,"
     "\"num_key_value_heads\":1,\"head_dim\":24,\"v_head_dim\":16,\"intermediate_size\":96,"
     "\"n_routed_experts\":6,\"num_experts_per_tok\":2,\"moe_intermediate_size\":40,"
     "\"sliding_window\":17,\"attention_bias\":true",
     230756, 138596, 280, 2},
    {"laguna",
     SIZES "\"head_dim\":24,\"intermediate_size\":96,\"num_experts\":6,\"num_experts_per_tok\":2,"
     "\"moe_intermediate_size\":40,\"shared_expert_intermediate_size\":56,"
     "\"num_attention_heads_per_layer\":[4,6,6,4],\"layer_types\":[\"full_attention\","
     "\"sliding_attention\",\"sliding_attention\",\"full_attention\"],\"sliding_window\":16,"
     "\"attention_bias\":true",
     292082, 199922, 384, 3},
    {"step3p5", /* in the names of published files: a list with a layer that predicts, and one as a text */
     SIZES "\"head_dim\":24,\"intermediate_size\":96,\"moe_num_experts\":6,\"num_experts_per_tok\":2,"
     "\"moe_intermediate_size\":40,\"share_expert_dim\":56,\"sliding_window\":16,\"attention_bias\":true,"
     "\"layer_types\":[\"full_attention\",\"sliding_attention\",\"sliding_attention\",\"full_attention\","
     "\"full_attention\"],\"num_nextn_predict_layers\":1,\"moe_layers_enum\":\"1,2\","
     "\"attention_other_setting\":{\"num_attention_heads\":6}",
     253280, 191840, 384, 2},
    {"minimax_m3", /* in the names of published files */
     SIZES "\"head_dim\":24,\"dense_intermediate_size\":96,\"intermediate_size\":40,\"num_local_experts\":6,"
     "\"num_experts_per_tok\":2,\"shared_intermediate_size\":56,\"rotary_dim\":12,\"moe_layer_freq\":[0,1,1,1],"
     "\"sparse_attention_config\":{\"sparse_attention_freq\":[0,0,1,1],\"sparse_num_index_heads\":2,"
     "\"sparse_index_dim\":20,\"sparse_block_size\":4,\"sparse_topk_blocks\":3,\"sparse_score_type\":\"max\","
     "\"sparse_disable_index_value\":[0,0,1,1],\"use_sparse_attention\":true}",
     285136, 192976, 424, 3},
    {"minimax_m3_vl_text", /* in those of transformers */
     SIZES "\"head_dim\":24,\"dense_intermediate_size\":96,\"intermediate_size\":40,\"num_local_experts\":6,"
     "\"num_experts_per_tok\":2,\"shared_intermediate_size\":56,\"index_n_heads\":2,\"index_head_dim\":16,"
     "\"index_block_size\":4,\"index_topk_blocks\":3,\"mlp_layer_types\":[\"dense\",\"sparse\",\"dense\","
     "\"sparse\"],\"layer_types\":[\"full_attention\",\"minimax_m3_sparse\",\"minimax_m3_sparse\","
     "\"minimax_m3_sparse\"]",
     247904, 186464, 432, 3},
    {"cohere2_moe",
     SIZES "\"head_dim\":24,\"intermediate_size\":40,\"prefix_dense_intermediate_size\":96,"
     "\"first_k_dense_replace\":1,\"num_experts\":6,\"num_experts_per_tok\":2,\"num_shared_experts\":2,"
     "\"sliding_window\":16,\"attention_bias\":true",
     285376, 193216, 384, 2},
    {"flint",
     SIZES "\"head_dim\":24,\"intermediate_size\":96,\"num_experts\":6,\"num_experts_per_tok\":2,"
     "\"moe_intermediate_size\":40,\"shared_expert_intermediate_size\":56,\"sliding_window\":17,"
     "\"attention_bias\":true",
     239632, 178192, 384, 3},
};
/* clang-format on */

static void each_family_has_the_parameters_and_cache_of_its_class(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[900];
    snprintf(text, sizeof text, "{\"model_type\":\"%s\",%s}", rows[i].family, rows[i].fields);
    hr_model model = read_model(text);
    hr_parameters p = read_parameters(text);
    hr_workload workload = hr_workload_default(&model);
    hr_memory memory;
    hr_error error;
    assert_ok(hr_memory_estimate(&model, &workload, &memory, &error), error);
    if (p.total != rows[i].parameters || p.active != rows[i].active || model.group_count != rows[i].groups ||
        memory.kv_cache_bytes_per_token != 2 * rows[i].cache_elements)
      fail_msg("%s: %lld parameters, %lld active, %lld cache bytes, %zu groups", rows[i].family, (long long)p.total,
               (long long)p.active, (long long)memory.kv_cache_bytes_per_token, model.group_count);
  }
}

static void layers_of_a_text_are_numbers_of_layers(void **state)
{
  (void)state;
#define STEP "{\"model_type\":\"step3p5\"," SIZES "\"intermediate_size\":96,\"moe_layers_enum\":"
  assert_refused(STEP "\"1,x\"}", HR_ERROR_INVALID,
                 "config.json: moe_layers_enum: expected layers from 0 to 3 with commas, found \"x\"");
  assert_refused(STEP "\"3,4\"}", HR_ERROR_INVALID,
                 "config.json: moe_layers_enum: expected layers from 0 to 3 with commas, found \"4\"");
  assert_refused(STEP "\"1;2\"}", HR_ERROR_INVALID,
                 "config.json: moe_layers_enum: expected layers from 0 to 3 with commas, found \"1;2\"");
  assert_int_equal(read_model(STEP "[2,3]}").groups[1].experts.experts, 288);
#undef STEP
}

/* Layers 0, 2, … have the window of 16, all have sinks and biases. */
static void gpt_oss_has_sinks_biases_and_a_window_on_every_other_layer(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"gpt_oss\"," SIZES
                          "\"head_dim\":24,\"intermediate_size\":40,\"num_local_experts\":6,\"sliding_window\":16}");
  assert_int_equal(m.group_count, 2);
  assert_true(m.groups[0].attention.window == 16 && m.groups[1].attention.window == 0);
  assert_true(m.groups[0].count == 2 && m.groups[1].count == 2);
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_experts *e = &m.groups[0].experts;
  assert_true(a->sinks && a->q_bias && a->output_bias && e->bias && e->router_bias && e->active == 4);
}

/* Layer 3 sees all tokens and has no positions; layers 1 and 3 have experts. */
static void llama4_has_chunks_layers_without_positions_and_experts_in_some(void **state)
{
  (void)state;
#define LLAMA4 \
  "{\"model_type\":\"llama4_text\"," SIZES "\"intermediate_size\":40,\"intermediate_size_mlp\":96,\"head_dim\":16,"
  hr_model m = read_model(LLAMA4 "\"interleave_moe_layer_step\":2,\"attention_chunk_size\":16}");
  assert_int_equal(m.group_count, 3);
  const hr_layer_group *dense = &m.groups[0], *experts = &m.groups[1], *full = &m.groups[2];
  assert_true(dense->count == 2 && dense->dense.width == 96 && dense->experts.experts == 0);
  assert_true(dense->attention.window == 16 && dense->attention.window_kind == HR_WINDOW_CHUNKED);
  assert_true(experts->count == 1 && experts->experts.shared_width == 40 && experts->attention.rotary_dim == 16);
  assert_true(full->count == 1 && full->attention.window == 0 && full->attention.rotary_dim == 0);
  assert_true(dense->attention.qk_norm == HR_QK_NORM_ROTATED && full->attention.qk_norm == HR_QK_NORM_NONE);
  assert_true(m.numerics.rotary_interleaved && m.numerics.router.sigmoid && m.numerics.router.weighs_inputs);
  assert_float_equal(m.numerics.query_growth, 0.1, 0);
  assert_float_equal(m.numerics.query_floor, 8192, 0);
  m = read_model(LLAMA4 "\"attn_temperature_tuning\":4,\"attn_scale\":0.2,\"floor_scale\":64,\"use_qk_norm\":false}");
  assert_float_equal(m.numerics.query_growth, 0.2, 0);
  assert_float_equal(m.numerics.query_floor, 64, 0);
  assert_int_equal(m.groups[0].attention.qk_norm, HR_QK_NORM_NONE);
  m = read_model(LLAMA4 "\"attn_temperature_tuning\":false}");
  assert_float_equal(m.numerics.query_growth, 0, 0);
  m = read_model(LLAMA4 "\"moe_layers\":[0],\"no_rope_layers\":[0,1,1,1]}");
  assert_true(m.groups[0].experts.experts == 16 && m.groups[0].attention.rotary_dim == 0);
  assert_true(m.group_count == 2 && m.groups[1].count == 3 && m.groups[1].attention.window == 8192);
  m = read_model(LLAMA4 "\"num_local_experts\":0,\"num_experts_per_tok\":0,\"moe_layers\":[],"
                        "\"interleave_moe_layer_step\":0}"); /* Llama Guard 4 */
  assert_true(m.group_count == 2 && m.groups[0].dense.width == 96 && m.groups[0].experts.experts == 0);
  assert_true(m.groups[1].dense.width == 96 && m.groups[1].experts.shared_width == 0);
  assert_refused(LLAMA4 "\"num_local_experts\":0}", HR_ERROR_INVALID,
                 "config.json: num_local_experts: is 0, but layer 0 has experts; expected moe_layers to be empty");
  assert_refused(LLAMA4 "\"no_rope_layers\":[0,1]}", HR_ERROR_INVALID,
                 "config.json: no_rope_layers: expected a list with 0 or 1 for each layer");
}

static void lists_with_one_size_for_each_layer_are_that_size(void **state)
{
  (void)state;
#define HUNYUAN                               \
  "{\"model_type\":\"hunyuan_v1_moe\"," SIZES \
  "\"intermediate_size\":40,\"num_experts\":6,\"num_shared_expert\":[2,2,2,2],"
  hr_model m = read_model(HUNYUAN "\"moe_topk\":[3,3,3,3],\"moe_intermediate_size\":[40,40,40,40],\"use_cla\":false,"
                                  "\"cla_share_factor\":2}");
  assert_true(m.groups[0].experts.active == 3 && m.groups[0].experts.shared_width == 80);
  assert_refused(HUNYUAN "\"moe_topk\":[3,3,3,2]}", HR_ERROR_UNSUPPORTED,
                 "config.json: moe_topk: has layers that differ, which is not supported");
  assert_refused(HUNYUAN "\"moe_topk\":[]}", HR_ERROR_INVALID, "config.json: moe_topk: expected sizes of at least 1");
  assert_refused(HUNYUAN "\"moe_intermediate_size\":48}", HR_ERROR_UNSUPPORTED,
                 "config.json: moe_intermediate_size: 48 is not intermediate_size, 40");
}

static void minimax_m2_refuses_what_only_its_own_code_knows(void **state)
{
  (void)state;
#define MINIMAX "{\"model_type\":\"minimax_m2\"," SIZES "\"intermediate_size\":40,\"num_local_experts\":16,"
  hr_model m = read_model(MINIMAX "\"rotary_dim\":8,\"attn_type_list\":[1,1,1,1],\"use_qk_norm\":true}");
  assert_int_equal(m.groups[0].attention.rotary_dim, 8);
  assert_refused(MINIMAX "\"attn_type_list\":[1,0,1,1]}", HR_ERROR_UNSUPPORTED,
                 "config.json: attn_type_list: has layer types other than 1 (attention)");
  assert_refused(MINIMAX "\"shared_intermediate_size\":8}", HR_ERROR_UNSUPPORTED,
                 "config.json: shared_intermediate_size: shared experts of 8 are not supported");
}

/* 8 sequences of 4000 tokens: each K head reads the 2048 keys of its 16 blocks, the indexer all of them. */
static void minimax_m3_reads_chosen_blocks_of_keys(void **state)
{
  (void)state;
#define M3                                                                                                           \
  "{\"model_type\":\"minimax_m3\"," SIZES "\"intermediate_size\":40,\"dense_intermediate_size\":96,\"head_dim\":24," \
  "\"rotary_dim\":12,"
#define SPARSE "\"sparse_attention_config\":{\"sparse_num_index_heads\":2,\"sparse_attention_freq\":[0,0,1,1]"
  hr_model m = read_model(M3 SPARSE "}}");
  const hr_mixer_attention *a = &m.groups[1].attention;
  assert_true(a->index_topk == 2048 && a->index_block == 128 && a->index_dim == 128 && m.groups[1].count == 2);
  assert_int_equal(m.groups[0].attention.index_topk, 0);
  m.group_count = 1, m.groups[0] = m.groups[1];
  hr_workload workload = hr_workload_default(&m);
  workload.phase = HR_PHASE_DECODE, workload.attention = HR_ATTENTION_FUSED, workload.batch = 8,
  workload.context = 4000;
  const hr_operators *operators = listed(&m, &workload);
  const hr_operator *read = found(operators, HR_OP_ATTENTION), *score = found(operators, HR_OP_INDEX_SCORE);
  assert_int_equal(read->attention.kv_len, 2048);
  assert_int_equal(score->flops, 2LL * 8 * 2 * 4000 * 128);
  assert_int_equal(score->bytes, 2LL * 8 * (2 * 128 + 4000 * 128) + 8LL * 2 * 32 * 4); /* of 32 blocks the largest */
  assert_int_equal(found(operators, HR_OP_INDEX_TOP_K)->bytes, 4LL * 8 * 2 * (32 + 16));
  assert_null(hr_operators_find(operators, HR_OP_INDEX_WEIGHTS, HR_PASS_FORWARD));
  assert_refused(M3 "\"index_n_heads\":4}", HR_ERROR_UNSUPPORTED,
                 "config.json: index_n_heads: 4 is not num_key_value_heads, 2");
  assert_refused(M3 SPARSE ",\"sparse_disable_index_value\":[0,0,0,1]}}", HR_ERROR_UNSUPPORTED,
                 "config.json: sparse_attention_config.sparse_disable_index_value: 0 means an indexer with values, "
                 "which is not supported");
  assert_refused(M3 SPARSE ",\"sparse_score_type\":\"mean\"}}", HR_ERROR_UNSUPPORTED,
                 "config.json: sparse_attention_config.sparse_score_type: \"mean\" is not supported, only \"max\" is");
  assert_refused(M3 SPARSE ",\"use_sparse_attention\":false}}", HR_ERROR_UNSUPPORTED,
                 "config.json: sparse_attention_config.use_sparse_attention: only true is supported");
  assert_refused(M3 SPARSE "},\"moe_intermediate_size\":48}", HR_ERROR_UNSUPPORTED,
                 "config.json: moe_intermediate_size: 48 instead of 40 is not supported");
#undef SPARSE
#undef M3
}

/* xAI's 314 billion parameters are those outside of the embeddings. Another port calls the experts otherwise, and has
 * logits of its own. */
static void grok_has_four_norms_and_ties(void **state)
{
  (void)state;
#define GROK                                                                                                        \
  "{\"model_type\":\"grok-1\",\"architectures\":[\"Grok1ModelForCausalLM\"],\"vocab_size\":131072,\"hidden_size\":" \
  "6144,"                                                                                                           \
  "\"intermediate_size\":32768,\"num_hidden_layers\":64,\"num_attention_heads\":48,\"num_key_value_heads\":8,"      \
  "\"attn_output_multiplier\":0.08838834764831845,\"embedding_multiplier_scale\":78.38367176906169,"                \
  "\"output_multiplier_scale\":0.5773502691896257,\"max_attn_value\":30.0,\"max_position_embeddings\":8192,"
  const int64_t expert = INT64_C(3) * 6144 * 32768;
  hr_parameters p = read_parameters(GROK "\"num_experts\":8,\"num_experts_per_tok\":2}");
  assert_int_equal(p.experts, 64 * 8 * expert);
  assert_int_equal(p.attention, INT64_C(64) * (2 * 6144 * 6144 + 2 * 6144 * 1024));
  assert_int_equal(p.norm, (64 * 4 + 1) * 6144);
  assert_int_equal(p.excluding_embeddings, 314879514624);
  assert_int_equal(p.total, p.excluding_embeddings + INT64_C(131072) * 6144);
  assert_int_equal(p.active, p.total - 64 * 6 * expert);
  assert_refused(GROK "\"num_local_experts\":8}", HR_ERROR_UNSUPPORTED,
                 "config.json: num_local_experts: 8 means mixture-of-experts layers, which are not supported for this "
                 "family (docs/models.md)");
}

/* Published MiMo-V2-Flash has attention_chunk_size beside a window of that size. */
static void mimo_s_chunk_is_its_window(void **state)
{
  (void)state;
#define MIMO                                                                                    \
  "{\"model_type\":\"mimo_v2_flash\"," SIZES "\"intermediate_size\":96,\"n_routed_experts\":6," \
  "\"num_experts_per_tok\":2,\"moe_intermediate_size\":40,\"sliding_window\":16,\"attention_chunk_size\":"
  const hr_model m = read_model(MIMO "16}");
  assert_int_equal(layers_with_window(&m, 16), 3);
  assert_refused(MIMO "32}", HR_ERROR_UNSUPPORTED,
                 "config.json: attention_chunk_size: 32 instead of sliding_window, 16, is not supported");
}

static void groups_of_experts_limit_a_token(void **state)
{
  (void)state;
  const char *text =
      "{\"model_type\":\"glm4_moe\"," SIZES "\"intermediate_size\":96,\"n_routed_experts\":6,\"num_experts_per_tok\":2,"
      "\"moe_intermediate_size\":40,\"n_group\":%d,\"topk_group\":1}";
  char with[600];
  snprintf(with, sizeof with, text, 2);
  hr_model m = read_model(with);
  const hr_ffn_experts *e = &m.groups[1].experts;
  assert_true(e->groups == 2 && e->active_groups == 1 && e->shared_width == 40 && !e->shared_gate);
  assert_int_equal(m.groups[1].attention.rotary_dim, 8); /* half of 16 */
  snprintf(with, sizeof with, text, 1);                  /* one group is no limit */
  m = read_model(with);
  assert_int_equal(m.groups[1].experts.groups, 0);
}

/* Published files have the field, which its class does not read. */
static void dots1_reads_how_often_layers_have_experts(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"dots1\"," SIZES "\"intermediate_size\":96,\"n_routed_experts\":6,"
                          "\"num_experts_per_tok\":2,\"first_k_dense_replace\":1,\"moe_layer_freq\":1}");
  assert_true(m.group_count == 2 && m.groups[0].count == 1 && m.groups[1].count == 3);
}

static void kinds_of_layers_are_checked(void **state)
{
  (void)state;
#define EXAONE                                                                                \
  "{\"model_type\":\"exaone_moe\"," SIZES "\"intermediate_size\":96,\"sliding_window\":null," \
  "\"mlp_layer_types\":"
  assert_refused(EXAONE "[\"dense\"]}", HR_ERROR_INVALID,
                 "config.json: mlp_layer_types: expected a list of 4 kinds, one per layer");
  assert_refused(EXAONE "[\"dense\",\"sparse\",\"hash\",\"sparse\"]}", HR_ERROR_UNSUPPORTED,
                 "config.json: mlp_layer_types: has a layer of type \"hash\"; only dense and sparse are supported");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_family_has_the_parameters_and_cache_of_its_class),
      cmocka_unit_test(layers_of_a_text_are_numbers_of_layers),
      cmocka_unit_test(gpt_oss_has_sinks_biases_and_a_window_on_every_other_layer),
      cmocka_unit_test(llama4_has_chunks_layers_without_positions_and_experts_in_some),
      cmocka_unit_test(lists_with_one_size_for_each_layer_are_that_size),
      cmocka_unit_test(minimax_m2_refuses_what_only_its_own_code_knows),
      cmocka_unit_test(minimax_m3_reads_chosen_blocks_of_keys),
      cmocka_unit_test(grok_has_four_norms_and_ties),
      cmocka_unit_test(mimo_s_chunk_is_its_window),
      cmocka_unit_test(groups_of_experts_limit_a_token),
      cmocka_unit_test(dots1_reads_how_often_layers_have_experts),
      cmocka_unit_test(kinds_of_layers_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
