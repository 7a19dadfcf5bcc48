/* SPDX-License-Identifier: Apache-2.0 */
/* Dense families that are read by their row: parameters, windows, layers that differ, and what is refused. */
#include "reading.h"

#include <headroom/experimental/operators.h>
#include <headroom/experimental/workload.h>
#include <headroom/memory.h>
#include <inttypes.h>

/* 4 layers, hidden size 64, 8 heads, an MLP of 256, 1000 tokens. */
#define SIZES                                                                                                      \
  "\"num_hidden_layers\":4,\"hidden_size\":64,\"num_attention_heads\":8,\"intermediate_size\":256,\"vocab_size\":" \
  "1000,\"max_position_embeddings\":128"

#define GPT_SIZES "\"n_layer\":4,\"n_embd\":64,\"n_head\":8,\"vocab_size\":1000,\"n_positions\":128"

/* Layers of their own sizes: 64·8·(2·8 + 2·2) + 3·64·256 + 2·64 = 59520, with a width of 2·6·64/3 = 256; no attention:
 * 3·64·512 + 64 = 98368, with 2·7·64/3 = 298 rounded up; no network: 64·8·(2·8 + 2·1) + 64 = 9280.
 * With 2·1000·64 + 64: 295232. */
#define NEMOTRON_NAS                                                                                       \
  "{\"model_type\":\"nemotron-nas\",\"num_hidden_layers\":3,\"hidden_size\":64,\"num_attention_heads\":8," \
  "\"vocab_size\":1000,\"intermediate_size\":null,\"num_key_value_heads\":null,\"block_configs\":["        \
  "{\"attention\":{\"n_heads_in_group\":4,\"no_op\":false},\"ffn\":{\"ffn_mult\":6.0,\"no_op\":false}},"   \
  "{\"attention\":{\"n_heads_in_group\":null,\"no_op\":true},\"ffn\":{\"ffn_mult\":7}},"                   \
  "{\"attention\":{\"n_heads_in_group\":8,\"window_length\":32},\"ffn\":{\"no_op\":true}}]}"

/* Query heads 0.5, 0.75 and 1 times 64, in multiples of 2·8: 4, 6, 8, and half as many K and V heads; widths 0.5, 2.25
 * and 4 times 64, in multiples of 16: 32, 144, 256. A layer has 2·64·8·(q + kv) + 3·64·w + 2·64 + 2·8 parameters:
 * 12432, 37008, 61584. With 1000·64 + 64: 175088. */
#define OPENELM                                                                                                   \
  "{\"model_type\":\"openelm\",\"num_transformer_layers\":3,\"model_dim\":64,\"head_dim\":8,\"vocab_size\":1000," \
  "\"num_gqa_groups\":2,\"qkv_multipliers\":[0.5,1.0],\"ffn_multipliers\":[0.5,4.0],\"ffn_dim_divisor\":16,"      \
  "\"normalize_qk_projections\":true}"

/* Parameters as transformers 5.23 builds the model. */
static const struct {
  const char *config;
  int64_t parameters;
} counts[] = {
    {"{\"model_type\":\"cohere\",\"use_qk_norm\":true,\"num_key_value_heads\":2,\"attention_bias\":true," SIZES "}",
     302848},
    {"{\"model_type\":\"cohere2\",\"num_key_value_heads\":2," SIZES "}", 301888},
    {"{\"model_type\":\"cohere2\",\"num_key_value_heads\":2,\"head_dim\":16," SIZES "}", 342848},
    {"{\"model_type\":\"glm\",\"num_key_value_heads\":2,\"head_dim\":null," SIZES "}", 366528},
    {"{\"model_type\":\"glm\",\"num_key_value_heads\":2,\"head_dim\":16," SIZES "}", 407872},
    {"{\"model_type\":\"glm4\",\"attention_bias\":false," SIZES "}", 981056},
    {"{\"model_type\":\"granite\",\"num_key_value_heads\":4,\"attention_bias\":true,\"mlp_bias\":true," SIZES "}",
     377408},
    {"{\"model_type\":\"granite_swa\",\"num_key_value_heads\":2,\"tie_word_embeddings\":false," SIZES "}", 366176},
    {"{\"model_type\":\"smollm3\",\"num_key_value_heads\":2,\"attention_bias\":true," SIZES "}", 302784},
    {"{\"model_type\":\"ernie4_5\",\"use_bias\":true,\"head_dim\":16," SIZES "}", 346432},
    {"{\"model_type\":\"seed_oss\",\"attention_out_bias\":true,\"head_dim\":16," SIZES "}", 458048},
    {"{\"model_type\":\"arcee\",\"mlp_bias\":true," SIZES "}", 326464},
    {"{\"model_type\":\"nemotron\",\"num_key_value_heads\":2,\"attention_bias\":true," SIZES "}", 301824},
    {"{\"model_type\":\"jais2\",\"num_key_value_heads\":2," SIZES "}", 303104},
    {"{\"model_type\":\"helium\",\"num_key_value_heads\":2,\"head_dim\":8,\"attention_bias\":true," SIZES "}", 366528},
    {"{\"model_type\":\"hunyuan_v1_dense\",\"num_key_value_heads\":2,\"head_dim\":16," SIZES "}", 407232},
    {"{\"model_type\":\"ministral\",\"num_key_value_heads\":2,\"head_dim\":16," SIZES "}", 407104},
    {"{\"model_type\":\"ministral3\",\"head_dim\":16," SIZES "}", 456256},
    {"{\"model_type\":\"cwm\",\"head_dim\":16,\"mlp_bias\":true," SIZES "}", 458560},
    {"{\"model_type\":\"iquestcoder\",\"head_dim\":16,\"attention_bias\":true," SIZES "}", 458048},
    {"{\"model_type\":\"hyperclovax\",\"num_key_value_heads\":2," SIZES "}", 366656},
    {"{\"model_type\":\"hyperclovax\",\"use_post_norm\":false,\"attention_bias\":true," SIZES "}", 391744},
    {"{\"model_type\":\"exaone4\",\"num_key_value_heads\":2," SIZES "}", 366208},
    {"{\"model_type\":\"gemma3_text\",\"num_key_value_heads\":2,\"head_dim\":16," SIZES "}", 343744},
    {"{\"model_type\":\"vaultgemma\",\"num_key_value_heads\":2,\"head_dim\":16,\"attention_bias\":true," SIZES "}",
     344128},
    {"{\"model_type\":\"olmo3\",\"num_key_value_heads\":2," SIZES "}", 366464},
    {"{\"model_type\":\"gpt2\",\"n_inner\":200," GPT_SIZES "}", 243360},
    {"{\"model_type\":\"gpt-sw3\"," GPT_SIZES "}", 272256},
    {"{\"model_type\":\"gpt_bigcode\"," GPT_SIZES "}", 243136},
    {"{\"model_type\":\"gpt_bigcode\",\"multi_query\":false,\"n_inner\":100," GPT_SIZES "}", 191760},
    {"{\"model_type\":\"openai-gpt\"," GPT_SIZES "}", 272128},
    {"{\"model_type\":\"codegen\",\"rotary_dim\":8," GPT_SIZES "}", 327528},
    {"{\"model_type\":\"gpt_neox_japanese\",\"intermediate_multiple_size\":3," SIZES "}", 229056},
    {"{\"model_type\":\"ctrl\",\"dff\":200," GPT_SIZES "}", 236168},
    {"{\"model_type\":\"xglm\",\"num_layers\":4,\"d_model\":64,\"attention_heads\":8,\"ffn_dim\":200,\"vocab_size\":"
     "1000}",
     235168},
    {"{\"model_type\":\"biogpt\"," SIZES "}", 272384},
    {"{\"model_type\":\"mpt\",\"n_layers\":4,\"d_model\":64,\"n_heads\":8,\"vocab_size\":1000,\"max_seq_len\":128}",
     261184},
    {"{\"model_type\":\"persimmon\"," SIZES "}", 328192},
    {"{\"model_type\":\"persimmon\",\"qk_layernorm\":false," SIZES "}", 328064},
    {"{\"model_type\":\"internlm3\",\"qkv_bias\":true,\"bias\":true,\"head_dim\":16," SIZES "}", 410432},
    {"{\"model_type\":\"nanochat\",\"num_key_value_heads\":2," SIZES "}", 300032},
    /* as qwen2, beside layers for multi-token prediction that are left out */
    {"{\"model_type\":\"mimo\",\"num_key_value_heads\":2,\"attention_bias\":true,\"num_nextn_predict_layers\":1," SIZES
     "}",
     366528},
    {"{\"model_type\":\"qwen2_vl_text\",\"num_key_value_heads\":2," SIZES "}", 366528},
    {"{\"model_type\":\"qwen2_5_vl_text\",\"num_key_value_heads\":2," SIZES "}", 366528},
    {"{\"model_type\":\"qwen2_5_omni_text\",\"num_key_value_heads\":2,\"tie_word_embeddings\":true," SIZES "}", 302528},
    {"{\"model_type\":\"qwen3_vl_text\",\"num_key_value_heads\":2,\"head_dim\":16," SIZES "}", 407232},
    {"{\"model_type\":\"glm4v_text\",\"num_key_value_heads\":2," SIZES "}", 367040},
    {"{\"model_type\":\"glm_ocr_text\",\"num_key_value_heads\":2," SIZES "}", 366656},
    {"{\"model_type\":\"granite4_vision_text\",\"num_key_value_heads\":2,\"attention_bias\":true,\"mlp_bias\":"
     "true," SIZES "}",
     369088},
    {"{\"model_type\":\"granite_docling_text\",\"num_key_value_heads\":2," SIZES "}", 302144},
    {"{\"model_type\":\"hunyuan_vl_text\",\"num_key_value_heads\":2,\"head_dim\":16," SIZES "}", 343232},
    {"{\"model_type\":\"paddleocr_vl_text\",\"num_key_value_heads\":2,\"head_dim\":16,\"use_bias\":true," SIZES "}",
     346432},
    {"{\"model_type\":\"cosmos3_edge_text\",\"num_key_value_heads\":2,\"head_dim\":128,\"attention_bias\":true," SIZES
     "}",
     921408},
    {"{\"model_type\":\"cohere_compass_text\",\"num_key_value_heads\":2," SIZES "}", 301888},
    {"{\"model_type\":\"emu3_text_model\",\"num_key_value_heads\":2," SIZES "}", 366144},
    {"{\"model_type\":\"emu3_text_model\",\"num_key_value_heads\":2,\"attention_bias\":true,\"mlp_bias\":true," SIZES
     "}",
     369088},
    {"{\"model_type\":\"apertus\",\"num_key_value_heads\":2,\"attention_bias\":true," SIZES "}", 301320},
    {"{\"model_type\":\"apertus\",\"num_key_value_heads\":2,\"hidden_act\":\"relu2\"," SIZES "}", 300672},
    {"{\"model_type\":\"gemma4_text\",\"hidden_size_per_layer_input\":0,\"num_key_value_heads\":4,\"head_dim\":16,"
     "\"global_head_dim\":32,\"attention_k_eq_v\":true,\"num_global_key_value_heads\":2,\"sliding_window\":32,\"layer_"
     "types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\"]," SIZES "}",
     384768},
    {"{\"model_type\":\"gemma4_text\",\"hidden_size_per_layer_input\":0,\"num_key_value_heads\":4,\"head_dim\":16,"
     "\"global_head_dim\":32,\"num_kv_shared_layers\":2,\"use_double_wide_mlp\":true,\"sliding_window\":32,\"layer_"
     "types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\"]," SIZES "}",
     483024},
    {"{\"model_type\":\"gemma4_unified_text\",\"num_key_value_heads\":4,\"head_dim\":16,\"attention_bias\":true," SIZES
     "}",
     1132192},
    /* These models have code of their own and are counted by hand: llama with 8 K and V heads has 4·(4·64² + 3·64·256 +
     * 2·64) + 64 + 2·1000·64 = 390720, with 2 of them 4·2·64·(8 − 2)·8 = 24576 fewer. */
    {"{\"model_type\":\"baichuan\"," SIZES "}", 390720},
    {"{\"model_type\":\"internlm\"," SIZES "}", 390720 + 4 * 4 * 64},
    {"{\"model_type\":\"internlm2\",\"num_key_value_heads\":2,\"bias\":false," SIZES "}", 366144},
    {"{\"model_type\":\"minicpm\",\"num_key_value_heads\":2," SIZES "}", 366144 - 64000},
    {"{\"model_type\":\"exaone\",\"num_layers\":4,\"hidden_size\":64,\"num_attention_heads\":8,\"num_key_value_heads\":"
     "2,\"intermediate_size\":256,\"vocab_size\":1000,\"tie_word_embeddings\":false}",
     366144},
    {"{\"model_type\":\"qwen\",\"kv_channels\":8,\"num_hidden_layers\":4,\"hidden_size\":64,\"num_attention_heads\":8,"
     "\"intermediate_size\":512,\"vocab_size\":1000}",
     390720 + 4 * 3 * 64},
    {"{\"model_type\":\"chatglm\",\"num_layers\":4,\"hidden_size\":64,\"num_attention_heads\":8,\"kv_channels\":8,"
     "\"ffn_hidden_size\":256,\"padded_vocab_size\":1000,\"multi_query_attention\":true,\"multi_query_group_num\":2,"
     "\"add_bias_linear\":false,\"add_qkv_bias\":true}",
     366144 + 4 * (8 + 2 * 2) * 8},
    {"{\"model_type\":\"deci\",\"num_key_value_heads_per_layer\":[4,2,1,8]," SIZES "}",
     390720 - (4 + 6 + 7) * 2 * 64 * 8}, /* K and V heads fewer than 8 */
    {NEMOTRON_NAS, 295232},
    {OPENELM, 175088},
};

static void every_row_counts_as_transformers_does(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    int64_t total = read_parameters(counts[i].config).total;
    if (total != counts[i].parameters)
      fail_msg("%" PRId64 " parameters, expected %" PRId64 ": %s", total, counts[i].parameters, counts[i].config);
  }
}

/* ---- windows and positions ---- */

/* Layers whose heads are rotated on this many elements. */
static int64_t layers_rotated(const hr_model *model, int64_t elements)
{
  int64_t layers = 0;
  for (size_t i = 0; i < model->group_count; i++)
    layers += model->groups[i].attention.rotary_dim == elements ? model->groups[i].count : 0;
  return layers;
}

/* The KV cache of one sequence in bf16 after this many tokens, in bytes. */
static int64_t cache_bytes(const hr_model *model, int64_t tokens)
{
  hr_workload workload = hr_workload_default(model);
  workload.batch = 1;
  workload.phase = HR_PHASE_DECODE;
  workload.context = tokens;
  hr_memory memory;
  hr_error error;
  assert_ok(hr_memory_estimate(model, &workload, &memory, &error), error);
  return memory.kv_cache_bytes;
}

#define WINDOWS(list, layers)                                                                              \
  "{\"model_type\":\"mistral\",\"hidden_size\":64,\"num_attention_heads\":8,\"num_hidden_layers\":" layers \
  ",\"intermediate_size\":128,\"vocab_size\":100,\"max_position_embeddings\":2048,\"sliding_window\":" list "}"

static void layers_repeat_a_list_of_windows(void **state)
{
  (void)state;
  hr_model model = read_model(WINDOWS("[64,null,null,32]", "6")); /* 64, -, -, 32, 64, - */
  assert_int_equal(layers_with_window(&model, 64), 2);
  assert_int_equal(layers_with_window(&model, 32), 1);
  assert_int_equal(layers_with_window(&model, 0), 3);
  model = read_model(WINDOWS("[null]", "6"));
  assert_int_equal(model.group_count, 1);
  assert_int_equal(layers_with_window(&model, 0), 6);
  assert_refused(WINDOWS("[64,true]", "6"), HR_ERROR_INVALID,
                 "config.json: sliding_window[1]: expected a positive integer, found true");
  assert_refused(WINDOWS("[]", "6"), HR_ERROR_INVALID,
                 "config.json: sliding_window: expected a window, found an empty list");
  assert_refused(WINDOWS("[64]", "1000000"), HR_ERROR_UNSUPPORTED,
                 "config.json: sliding_window: Headroom takes a list only for at most 100000 layers that are equal "
                 "otherwise");
}

static void windows_alternate_in_the_familys_rhythm(void **state)
{
  (void)state;
  const struct {
    const char *fields;
    int64_t window, windowed, first; /* the window; layers of 12 that have it; the first layer's window */
  } cases[] = {
      {"\"model_type\":\"gemma3_text\",\"sliding_window\":32", 32, 10, 32},
      {"\"model_type\":\"gemma3_text\",\"sliding_window\":32,\"sliding_window_pattern\":3", 32, 8, 32},
      {"\"model_type\":\"vaultgemma\"", 4096, 6, 4096},
      {"\"model_type\":\"cohere2\",\"sliding_window\":32", 32, 9, 32},
      {"\"model_type\":\"olmo3\"", 4096, 9, 4096},
      {"\"model_type\":\"exaone4\",\"num_key_value_heads\":8,\"sliding_window\":16", 16, 9, 16},
      {"\"model_type\":\"exaone4\",\"num_key_value_heads\":8,\"sliding_window\":null", 0, 12, 0},
      {"\"model_type\":\"cwm\"", 8192, 9, 0},
      {"\"model_type\":\"granite_swa\"", 128, 9, 0},
      {"\"model_type\":\"ministral\"", 4096, 12, 4096},
      {"\"model_type\":\"ministral3\"", 0, 12, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[400];
    snprintf(text, sizeof text,
             "{%s,\"num_hidden_layers\":12,\"hidden_size\":64,\"num_attention_heads\":8,\"intermediate_size\":256,"
             "\"vocab_size\":1000}",
             cases[i].fields);
    hr_model m = read_model(text);
    assert_int_equal(layers_with_window(&m, cases[i].window), cases[i].windowed);
    assert_int_equal(m.groups[0].attention.window, cases[i].first);
  }
}

/* Gemma 3: 2 of 4 layers keep all 1000 tokens, 2 keep 32; K and V have 2 heads of 16 in 2 bytes. */
static void layers_with_a_window_keep_only_its_tokens(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"gemma3_text\",\"num_key_value_heads\":2,\"head_dim\":16,"
                          "\"sliding_window\":32,\"sliding_window_pattern\":2," SIZES "}");
  assert_int_equal(cache_bytes(&m, 1000), (2 * 1000 + 2 * 32) * (2 + 2) * 16 * 2);
}

/* Cohere 2, EXAONE 4: layers that see all tokens have no positions where the others have a window. */
static void full_layers_are_not_rotated_beside_windows(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"cohere2\"," SIZES "}");
  assert_int_equal(layers_rotated(&m, 8), 3);
  assert_int_equal(layers_rotated(&m, 0), 1);
  m = read_model("{\"model_type\":\"exaone4\",\"num_key_value_heads\":2,\"sliding_window\":null," SIZES "}");
  assert_int_equal(layers_rotated(&m, 8), 4);
}

static void smollm3_leaves_listed_layers_unrotated(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"smollm3\"," SIZES "}");
  assert_int_equal(layers_rotated(&m, 8), 3);
  m = read_model("{\"model_type\":\"smollm3\",\"no_rope_layers\":[1,0,0,1],\"use_sliding_window\":true,"
                 "\"sliding_window\":32," SIZES "}");
  assert_int_equal(layers_rotated(&m, 8), 2);
  assert_int_equal(layers_with_window(&m, 32), 2); /* those without positions */
  assert_int_equal(m.groups[1].attention.window, 32);
  assert_refused("{\"model_type\":\"smollm3\",\"no_rope_layers\":[1,0,2,1]," SIZES "}", HR_ERROR_INVALID,
                 "config.json: no_rope_layers: expected a list of 4 numbers 0 or 1");
}

/* 4 layers, K and V of one head of 8 in bf16. */
static void multi_query_attention_has_the_cache_of_one_head(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"gpt_bigcode\"," GPT_SIZES "}");
  assert_int_equal(cache_bytes(&m, 100), 100 * 4 * 2 * 8 * 2);
  m = read_model("{\"model_type\":\"gpt2\",\"attention_head_type\":\"multiquery\"," GPT_SIZES "}");
  assert_int_equal(cache_bytes(&m, 100), 100 * 4 * 2 * 8 * 2);
  assert_int_equal(m.groups[0].attention.q_heads, 8);
}

static void layers_of_their_own_sizes_are_groups(void **state)
{
  (void)state;
  hr_model m = read_model(NEMOTRON_NAS);
  assert_int_equal(m.group_count, 3);
  assert_int_equal(m.groups[0].norms, 2);
  assert_int_equal(m.groups[1].attention.q_heads, 0);
  assert_int_equal(m.groups[1].norms, 1);
  assert_int_equal(m.groups[2].dense.width, 0);
  /* 100 tokens of 2·2 heads of 8 in 2 bytes, and 32 of 2·1 heads */
  assert_int_equal(cache_bytes(&m, 100), 100 * 4 * 8 * 2 + 32 * 2 * 8 * 2);

  m = read_model(OPENELM);
  assert_int_equal(m.group_count, 3);
  assert_int_equal(m.groups[1].attention.q_heads, 6);
  assert_int_equal(m.groups[1].attention.k_heads, 3);
  assert_int_equal(m.groups[1].dense.width, 144);
  assert_int_equal(cache_bytes(&m, 1), 2 * (2 + 3 + 4) * 8 * 2);
}

/* Gemma 4: 2 layers keep 100 tokens of 2·2 heads of 32, 2 layers 32 tokens of 2·4 heads of 16, in 2 bytes. V that is K
 * is kept beside it, since only K is rotated. */
static void gemma4_has_other_heads_without_a_window(void **state)
{
  (void)state;
  const char *text = "{\"model_type\":\"gemma4_text\",\"hidden_size_per_layer_input\":0,\"num_key_value_heads\":4,"
                     "\"head_dim\":16,\"global_head_dim\":32,\"attention_k_eq_v\":true,\"sliding_window\":32,"
                     "\"num_global_key_value_heads\":2,\"layer_types\":[\"sliding_attention\",\"full_attention\","
                     "\"sliding_attention\",\"full_attention\"]," SIZES "}";
  hr_model m = read_model(text);
  assert_int_equal(m.group_count, 2);
  assert_true(m.groups[1].attention.v_is_k);
  assert_int_equal(m.groups[1].attention.rotary_dim, 8); /* a quarter */
  assert_int_equal(cache_bytes(&m, 100), 2 * 100 * 2 * 2 * 32 * 2 + 2 * 32 * 2 * 4 * 16 * 2);
}

/* Gemma 4 26B-A4B: transformers 5.17 has as many parameters. A layer has 3 norms more before and behind its networks, a
 * scale of the router's input, and one of each expert; a token passes 8 of 128 experts and the MLP. */
static void gemma4_has_experts_beside_the_mlp(void **state)
{
  (void)state;
  static const char text[] =
      "{\"model_type\":\"gemma4_text\",\"hidden_size_per_layer_input\":0,\"enable_moe_block\":true,\"num_experts\":128,"
      "\"top_k_experts\":8,\"moe_intermediate_size\":704,\"intermediate_size\":2112,\"hidden_size\":2816,"
      "\"num_hidden_layers\":30,\"num_attention_heads\":16,\"num_key_value_heads\":8,\"head_dim\":256,"
      "\"global_head_dim\":512,\"num_global_key_value_heads\":2,\"attention_k_eq_v\":true,\"sliding_window\":1024,"
      "\"vocab_size\":262144}";
  hr_model m = read_model(text);
  static hr_operators list;
  int64_t mlp_norms = 0;
  hr_parameters p;
  hr_workload workload = hr_workload_default(&m);
  hr_error error;
  assert_int_equal(m.group_count, 2);
  assert_true(m.groups[0].dense.width == 2112 && m.groups[1].experts.width == 704);
  assert_ok(hr_model_parameters(&m, &p, &error), error);
  assert_int_equal(p.total, 25233141760);
  assert_int_equal(p.total - p.active, 30 * INT64_C(120) * 3 * 704 * 2816);
  assert_ok(hr_operators_list(&m, &workload, &list, &error), error);
  for (size_t i = 0; i < list.count; i++)
    mlp_norms +=
        list.items[i].id == HR_OP_MLP_NORM || list.items[i].id == HR_OP_MLP_POST_NORM ? list.items[i].count : 0;
  assert_int_equal(mlp_norms, 30 * 6);
}

static void layers_that_share_k_and_v_have_no_cache(void **state)
{
  (void)state;
  hr_model m =
      read_model("{\"model_type\":\"gemma4_unified_text\",\"num_kv_shared_layers\":2,\"num_key_value_heads\":4,"
                 "\"head_dim\":16,\"global_head_dim\":16,\"layer_types\":[\"full_attention\","
                 "\"full_attention\",\"full_attention\",\"full_attention\"]," SIZES "}");
  assert_int_equal(m.group_count, 2);
  assert_true(m.groups[1].attention.shared_kv);
  assert_int_equal(cache_bytes(&m, 100), 2 * 100 * 2 * 4 * 16 * 2);
}

static void positions_are_those_of_the_family(void **state)
{
  (void)state;
  const struct {
    const char *config;
    hr_positions positions;
    int64_t rotated; /* elements of a head */
  } cases[] = {
      {"{\"model_type\":\"xglm\"," SIZES "}", HR_POSITIONS_NONE, 0},
      {"{\"model_type\":\"ctrl\",\"dff\":64," GPT_SIZES "}", HR_POSITIONS_NONE, 0},
      {"{\"model_type\":\"mpt\"," SIZES "}", HR_POSITIONS_ALIBI, 0},
      {"{\"model_type\":\"biogpt\"," SIZES "}", HR_POSITIONS_LEARNED, 0},
      {"{\"model_type\":\"baichuan\"," SIZES "}", HR_POSITIONS_ROTARY, 8},
      {"{\"model_type\":\"baichuan\",\"model_max_length\":4096,\"num_hidden_layers\":4,\"hidden_size\":64,"
       "\"num_attention_heads\":8,\"intermediate_size\":256,\"vocab_size\":1000}",
       HR_POSITIONS_ALIBI, 0},
      {"{\"model_type\":\"glm\",\"num_key_value_heads\":2,\"head_dim\":16," SIZES "}", HR_POSITIONS_ROTARY, 8},
      {"{\"model_type\":\"nemotron\",\"partial_rotary_factor\":0.25," SIZES "}", HR_POSITIONS_ROTARY, 2},
      {"{\"model_type\":\"persimmon\"," SIZES "}", HR_POSITIONS_ROTARY, 4},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_model m = read_model(cases[i].config);
    assert_int_equal(m.positions, cases[i].positions);
    assert_int_equal(m.groups[0].attention.rotary_dim, cases[i].rotated);
  }
}

/* The counts follow MosaicML's code, not transformers. h = 64, 4 layers: 4h² of attention, 2·r·h² of the MLP, biases
 * 4h and r·h + h, and those of two norms, 2h; of the last norm h. */
static void mpt_may_have_biases_and_learned_positions(void **state)
{
  (void)state;
#define MPT \
  "{\"model_type\":\"mpt\",\"n_layers\":4,\"d_model\":64,\"n_heads\":8,\"vocab_size\":1000,\"max_seq_len\":128"
  const int64_t h = 64, usual = 1000 * h + 4 * (12 * h * h + 2 * h) + h;
  const struct {
    const char *text;
    int64_t more;
  } rows[] = {
      {MPT "}", 0},
      {MPT ",\"attn_config\":{\"alibi\":true},\"learned_pos_emb\":true}", 0},
      {MPT ",\"attn_config\":{\"alibi\":false}}", 128 * h},
      {MPT ",\"no_bias\":false}", 4 * (4 * h + 5 * h + 2 * h) + h},
      {MPT ",\"expansion_ratio\":2}", -4 * (4 * h * h)},
      {MPT ",\"no_bias\":false,\"expansion_ratio\":2,\"attn_config\":{\"alibi\":false}}",
       128 * h + 4 * (4 * h + 3 * h + 2 * h - 4 * h * h) + h},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_int_equal(read_parameters(rows[i].text).total, usual + rows[i].more);
  assert_int_equal(read_model(rows[2].text).positions, HR_POSITIONS_LEARNED);
  assert_int_equal(read_model(rows[1].text).positions, HR_POSITIONS_ALIBI);
}

/* ---- refused ---- */

static void what_a_row_cannot_say_is_refused_by_its_field(void **state)
{
  (void)state;
  const struct {
    const char *fields, *beginning;
  } cases[] = {
      {"\"model_type\":\"gemma3_text\",\"use_bidirectional_attention\":true",
       "c.json: use_bidirectional_attention: true means encoder-only models"},
      {"\"model_type\":\"llama\",\"per_layer_config\":{\"0\":{\"intermediate_size\":64}}",
       "c.json: per_layer_config: an object means fields that override single layers"},
      {"\"model_type\":\"mpt\",\"learned_pos_emb\":false,\"attn_config\":{\"alibi\":false}",
       "c.json: learned_pos_emb: false without ALiBi is not supported"},
      {"\"model_type\":\"mpt\",\"attn_config\":{\"alibi\":false,\"rope\":true}",
       "c.json: attn_config.rope: only false is supported"},
      {"\"model_type\":\"mpt\",\"attn_config\":{\"qk_ln\":true}", "c.json: attn_config.qk_ln: only false is supported"},
      {"\"model_type\":\"mpt\",\"expansion_ratio\":34359738368", "c.json: expansion_ratio: 34359738368 is too large"},
      {"\"model_type\":\"mpt\",\"attn_config\":{\"attn_type\":\"multiquery_attention\"}",
       "c.json: attn_config.attn_type: only \"multihead_attention\" is supported"},
      {"\"model_type\":\"internlm3\",\"num_key_value_heads\":2,\"bias\":true", "c.json: bias: differs from qkv_bias"},
      {"\"model_type\":\"minicpm\",\"sparse_config\":{\"topk\":64}", "c.json: sparse_config: selects sparse attention"},
      {"\"model_type\":\"chatglm\",\"inner_hidden_size\":256",
       "c.json: inner_hidden_size: is a field of the first ChatGLM, which is not supported"},
      {"\"model_type\":\"gpt2\",\"attention_head_type\":\"grouped\"", "c.json: attention_head_type: expected"},
      {"\"model_type\":\"nemotron-nas\",\"block_configs\":[{\"attention\":{\"no_op\":true},\"ffn\":{\"ffn_mult\":2}},{}"
       ",{},{}]",
       "c.json: block_configs[1].attention.n_heads_in_group: "},
      {"\"model_type\":\"nemotron-nas\",\"block_configs\":[{\"attention\":{\"replace_with_linear\":true}},{},{},{}]",
       "c.json: block_configs[0].attention.replace_with_linear: means a linear layer in place of attention"},
      {"\"model_type\":\"nemotron-nas\",\"block_configs\":[{}]",
       "c.json: block_configs: expected a list with one value for each of 4 layers"},
      {"\"model_type\":\"deci\",\"num_key_value_heads_per_layer\":[4,3,1,8]",
       "c.json: num_key_value_heads_per_layer: 3 of layer 1 does not divide num_attention_heads, 8"},
      {"\"model_type\":\"deci\",\"num_key_value_heads_per_layer\":[4,\"x\",1,8]",
       "c.json: num_key_value_heads_per_layer[1]: expected a positive integer, found \"x\""},
      {"\"model_type\":\"openelm\",\"qkv_multipliers\":[1,2,3],\"ffn_multipliers\":4",
       "c.json: qkv_multipliers: expected one number, two, or one for each of 4 layers"},
      {"\"model_type\":\"gemma4_text\",\"num_key_value_heads\":8",
       "c.json: hidden_size_per_layer_input: is missing, which means per-layer embeddings of 256"},
      {"\"model_type\":\"gemma4_text\",\"num_key_value_heads\":8,\"hidden_size_per_layer_input\":0,\"enable_moe_"
       "block\":true",
       "c.json: num_experts: is missing"},
      {"\"model_type\":\"apertus\",\"post_norm\":true", "c.json: post_norm: only false is supported"},
      {"\"model_type\":\"hunyuan_v1_dense\",\"use_qk_norm\":false", "c.json: use_qk_norm: only true is supported"},
      {"\"model_type\":\"bitnet\"", "c.json: model_type: \"bitnet\" means norms within attention and MLP"},
      {"\"model_type\":\"helium\",\"num_key_value_heads\":8,\"head_dim\":16",
       "c.json: head_dim: 8 heads of 16 are not hidden_size, 64, wide"},
      {"\"model_type\":\"granite_swa\",\"num_key_value_heads\":8,\"layer_rope_theta\":[1e4,0,1e4,1e4]",
       "c.json: layer_rope_theta: layer 1 is not rotated; only models with all layers rotated are supported"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[400];
    hr_model model;
    hr_error error = {.message = ""};
    snprintf(text, sizeof text, "{%s,%s}", cases[i].fields, SIZES);
    assert_int_not_equal(hr_model_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "c.json"}, NULL,
                                            NULL, &model, &error),
                         HR_OK);
    if (strncmp(error.message, cases[i].beginning, strlen(cases[i].beginning)) != 0)
      fail_msg("expected \"%s…\", found \"%s\"", cases[i].beginning, error.message);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_counts_as_transformers_does),
      cmocka_unit_test(layers_repeat_a_list_of_windows),
      cmocka_unit_test(windows_alternate_in_the_familys_rhythm),
      cmocka_unit_test(layers_with_a_window_keep_only_its_tokens),
      cmocka_unit_test(full_layers_are_not_rotated_beside_windows),
      cmocka_unit_test(smollm3_leaves_listed_layers_unrotated),
      cmocka_unit_test(multi_query_attention_has_the_cache_of_one_head),
      cmocka_unit_test(layers_of_their_own_sizes_are_groups),
      cmocka_unit_test(gemma4_has_other_heads_without_a_window),
      cmocka_unit_test(gemma4_has_experts_beside_the_mlp),
      cmocka_unit_test(layers_that_share_k_and_v_have_no_cache),
      cmocka_unit_test(positions_are_those_of_the_family),
      cmocka_unit_test(mpt_may_have_biases_and_learned_positions),
      cmocka_unit_test(what_a_row_cannot_say_is_refused_by_its_field),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
