/* SPDX-License-Identifier: Apache-2.0 */
/* The properties of each family, read from its fields. */
#include "reading.h"

#include <headroom/experimental/model.h>

/* The fields that most families share: 12 layers, hidden size 64, 8 heads, an MLP of 256, 1000 tokens. */
#define SIZES                                                                                                       \
  "\"num_hidden_layers\":12,\"hidden_size\":64,\"num_attention_heads\":8,\"intermediate_size\":256,\"vocab_size\":" \
  "1000,"                                                                                                           \
  "\"max_position_embeddings\":512"
#define GPT2_SIZES "\"n_layer\":12,\"n_embd\":64,\"n_head\":8,\"vocab_size\":1000,\"n_positions\":512"

static void gpt2_is_learned_positions_biases_and_tied_embeddings(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"gpt2\",\"n_inner\":null," GPT2_SIZES "}");
  const hr_layer_group *layer = &m.groups[0];
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_string_equal(m.family, "gpt2");
  assert_string_equal(m.name, "config.json");
  assert_string_equal(m.activation, "gelu_new");
  assert_int_equal(m.positions, HR_POSITIONS_LEARNED);
  assert_int_equal(m.position_rows, 512);
  assert_int_equal(mlp->width, 256); /* n_inner null: 4·64 */
  assert_true(a->q_bias && a->k_bias && a->v_bias && a->output_bias && mlp->bias && m.tied_embeddings && m.final_norm);
  assert_false(mlp->gated || layer->parallel_block || m.logit_bias);
}

static void gpt2_accepts_the_field_names_of_the_base_class(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"gpt2\"," SIZES "}");
  assert_int_equal(hr_model_layers(&m), 12);
  assert_int_equal(m.hidden, 64);
  assert_int_equal(m.max_positions, 512);
}

static void gpt_neo_has_windows_where_attention_types_says_local(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"gpt_neo\",\"num_layers\":12,\"num_heads\":8,\"hidden_size\":64,"
                          "\"vocab_size\":1000,\"window_size\":128,"
                          "\"attention_types\":[[[\"global\",\"local\"],3],[[\"local\"],6]]}");
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_int_equal(layers_with_window(&m, 128), 9); /* 3·1 + 6 */
  assert_false(a->q_bias || a->k_bias || a->v_bias);
  assert_true(a->output_bias && mlp->bias && m.tied_embeddings);
}

static void gptj_is_a_parallel_block_with_one_norm_and_a_logit_bias(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"gptj\",\"rotary_dim\":4," GPT2_SIZES "}");
  const hr_layer_group *layer = &m.groups[0];
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_true(layer->parallel_block && m.logit_bias && mlp->bias);
  assert_false(m.tied_embeddings || a->q_bias || a->output_bias);
  assert_int_equal(layer->norms, 1);
  assert_int_equal(m.positions, HR_POSITIONS_ROTARY);
  assert_int_equal(a->rotary_dim, 4);
}

static void gpt_neox_is_parallel_with_two_norms_by_default(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"gpt_neox\",\"rotary_pct\":0.25," SIZES "}");
  const hr_layer_group *layer = &m.groups[0];
  const hr_mixer_attention *a = &m.groups[0].attention;
  assert_true(layer->parallel_block && a->q_bias && a->output_bias);
  assert_false(m.tied_embeddings);
  assert_int_equal(layer->norms, 2);
  assert_int_equal(a->rotary_dim, 2); /* a quarter of 64 / 8 */
  m = read_model("{\"model_type\":\"gpt_neox\",\"use_parallel_residual\":false,\"attention_bias\":false,"
                 "\"rope_parameters\":{\"partial_rotary_factor\":0.5}," SIZES "}");
  assert_false(layer->parallel_block || a->q_bias);
  assert_int_equal(a->rotary_dim, 4);
}

static void opt_has_two_more_position_rows_and_may_leave_out_the_final_norm(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"opt\",\"ffn_dim\":256," SIZES "}");
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_int_equal(m.position_rows, 514);
  assert_int_equal(m.max_positions, 512);
  assert_string_equal(m.activation, "relu");
  assert_true(m.final_norm && m.tied_embeddings && a->q_bias && m.norm_weight);
  assert_int_equal(m.embedding_dim, 0);
  m = read_model("{\"model_type\":\"opt\",\"ffn_dim\":256,\"do_layer_norm_before\":false,\"enable_bias\":false,"
                 "\"layer_norm_elementwise_affine\":false,\"word_embed_proj_dim\":32," SIZES "}");
  assert_int_equal(m.embedding_dim, 32);
  assert_false(m.final_norm || a->q_bias || mlp->bias || m.norm_weight || m.norm_bias);
}

static void bloom_is_alibi_with_a_norm_after_the_embedding(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"bloom\",\"n_embed\":64,\"n_layer\":12,\"n_head\":8,\"n_inner\":null,"
                          "\"vocab_size\":1000,\"seq_length\":2048}");
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_int_equal(m.positions, HR_POSITIONS_ALIBI);
  assert_int_equal(m.position_rows, 0);
  assert_int_equal(m.max_positions, 2048);
  assert_true(m.embedding_norm && m.tied_embeddings && a->q_bias && mlp->bias);
  assert_int_equal(mlp->width, 256);
}

static void falcon_7b_shares_one_key_head_and_one_norm(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"falcon\",\"multi_query\":true,\"parallel_attn\":true," SIZES "}");
  const hr_layer_group *layer = &m.groups[0];
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_int_equal(a->k_heads, 1);
  assert_int_equal(a->v_heads, 1);
  assert_int_equal(layer->norms, 1);
  assert_true(layer->parallel_block && m.tied_embeddings);
  assert_false(a->q_bias || mlp->bias);
  assert_int_equal(m.positions, HR_POSITIONS_ROTARY);
}

static void falcon_40b_groups_its_heads_and_has_two_norms(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"falcon\",\"new_decoder_architecture\":true,\"multi_query\":true,"
                          "\"num_kv_heads\":2," SIZES "}");
  const hr_layer_group *layer = &m.groups[0];
  const hr_mixer_attention *a = &m.groups[0].attention;
  assert_int_equal(a->k_heads, 2);
  assert_int_equal(layer->norms, 2);
  assert_true(layer->parallel_block);
  m = read_model("{\"model_type\":\"falcon\",\"new_decoder_architecture\":true,\"num_ln_in_parallel_attn\":1,"
                 "\"num_kv_heads\":2," SIZES "}");
  assert_int_equal(layer->norms, 1); /* Falcon 2 11B */
}

static void falcon_rw_is_sequential_with_alibi_and_biases(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"falcon\",\"alibi\":true,\"bias\":true,\"multi_query\":false,"
                          "\"parallel_attn\":false," SIZES "}");
  const hr_layer_group *layer = &m.groups[0];
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_int_equal(m.positions, HR_POSITIONS_ALIBI);
  assert_int_equal(a->k_heads, 8);
  assert_int_equal(layer->norms, 2);
  assert_true(a->q_bias && a->output_bias && mlp->bias);
  assert_false(layer->parallel_block);
}

static void the_former_names_of_falcon_are_read_too(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"RefinedWeb\",\"hidden_size\":64,\"n_layer\":12,\"n_head\":8,"
                          "\"n_head_kv\":2,\"vocab_size\":1000,\"parallel_attn\":true}");
  const hr_layer_group *layer = &m.groups[0];
  const hr_mixer_attention *a = &m.groups[0].attention;
  assert_int_equal(a->k_heads, 2);
  assert_int_equal(layer->norms, 2);
  m = read_model("{\"model_type\":\"RefinedWebModel\",\"hidden_size\":64,\"n_layer\":12,\"n_head\":8,"
                 "\"multi_query\":true,\"vocab_size\":1000,\"parallel_attn\":true}");
  assert_int_equal(a->k_heads, 1);
  assert_int_equal(layer->norms, 1);
}

static void llama_reads_grouped_heads_biases_and_head_sizes(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"llama\"," SIZES "}");
  const hr_layer_group *layer = &m.groups[0];
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_int_equal(m.norm, HR_NORM_RMS);
  assert_true(mlp->gated && m.norm_weight && m.final_norm);
  assert_false(m.norm_bias || a->q_bias || mlp->bias || m.tied_embeddings || layer->parallel_block);
  assert_int_equal(a->k_heads, 8);
  assert_int_equal(a->rotary_dim, 8);
  m = read_model("{\"model_type\":\"llama\",\"num_key_value_heads\":2,\"attention_bias\":true,\"mlp_bias\":true,"
                 "\"head_dim\":16,\"tie_word_embeddings\":true," SIZES "}");
  assert_int_equal(a->v_heads, 2);
  assert_int_equal(a->qk_dim, 16);
  assert_true(a->q_bias && a->output_bias && mlp->bias && m.tied_embeddings);
}

static void mistral_has_its_window_in_every_layer_unless_it_is_null(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"mistral\",\"sliding_window\":4096," SIZES "}");
  const hr_mixer_attention *a = &m.groups[0].attention;
  assert_int_equal(layers_with_window(&m, 4096), 12);
  m = read_model("{\"model_type\":\"mistral\",\"sliding_window\":null," SIZES "}");
  assert_int_equal(layers_with_window(&m, 0), 12);
  m = read_model("{\"model_type\":\"mistral\"," SIZES "}"); /* the class's defaults */
  assert_int_equal(layers_with_window(&m, 4096), 12);
  assert_int_equal(a->k_heads, 8);
}

static void qwen2_has_biases_on_q_k_v_and_a_window_only_if_enabled(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"qwen2\",\"num_key_value_heads\":2,\"use_sliding_window\":false,"
                          "\"sliding_window\":4096,\"max_window_layers\":4," SIZES "}");
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_true(a->q_bias && a->k_bias && a->v_bias);
  assert_false(a->output_bias || mlp->bias || m.tied_embeddings);
  assert_int_equal(layers_with_window(&m, 0), 12);
  m = read_model("{\"model_type\":\"qwen2\",\"num_key_value_heads\":2,\"use_sliding_window\":true,"
                 "\"sliding_window\":4096,\"max_window_layers\":4," SIZES "}");
  assert_int_equal(layers_with_window(&m, 4096), 8); /* layers 4 to 11 */
  m = read_model("{\"model_type\":\"qwen2\",\"num_key_value_heads\":2,\"use_sliding_window\":true,"
                 "\"sliding_window\":4096,\"max_window_layers\":12," SIZES "}");
  assert_int_equal(layers_with_window(&m, 0), 12);
}

static void qwen3_normalises_each_heads_q_and_k(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"qwen3\",\"num_key_value_heads\":2,\"head_dim\":32," SIZES "}");
  const hr_mixer_attention *a = &m.groups[0].attention;
  assert_int_equal(a->qk_norm, HR_QK_NORM_SHARED);
  assert_int_equal(a->qk_dim, 32);
  assert_false(a->q_bias || a->qk_norm_bias || m.tied_embeddings);
}

static void gemma_is_tied_with_heads_of_256(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"gemma\",\"num_key_value_heads\":1,\"hidden_act\":\"gelu\"," SIZES "}");
  const hr_layer_group *layer = &m.groups[0];
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_true(m.tied_embeddings && mlp->gated);
  assert_int_equal(a->qk_dim, 256);
  assert_int_equal(a->k_heads, 1);
  assert_int_equal(layer->norms, 2);
  assert_string_equal(m.activation, "gelu");
}

static void gemma2_has_four_norms_and_a_window_on_every_other_layer(void **state)
{
  (void)state;
  hr_model m =
      read_model("{\"model_type\":\"gemma2\",\"num_key_value_heads\":4,\"head_dim\":16,\"sliding_window\":4096,"
                 "\"hidden_act\":\"gelu\",\"hidden_activation\":\"gelu_pytorch_tanh\","
                 "\"num_hidden_layers\":11,\"hidden_size\":64,\"num_attention_heads\":8,"
                 "\"intermediate_size\":256,\"vocab_size\":1000,\"max_position_embeddings\":512}");
  const hr_layer_group *layer = &m.groups[0];
  assert_int_equal(layer->norms, 4);
  assert_int_equal(layers_with_window(&m, 4096), 6); /* 0, 2, …, 10 */
  assert_true(m.tied_embeddings);
  assert_string_equal(m.activation, "gelu_pytorch_tanh");
}

static void layer_types_say_which_layers_have_the_window(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"gemma2\",\"num_key_value_heads\":4,\"sliding_window\":64,"
                          "\"layer_types\":[\"full_attention\",\"full_attention\",\"sliding_attention\"],"
                          "\"num_hidden_layers\":3,\"hidden_size\":64,\"num_attention_heads\":8,"
                          "\"intermediate_size\":256,\"vocab_size\":1000,\"max_position_embeddings\":512}");
  assert_int_equal(layers_with_window(&m, 64), 1);
  assert_int_equal(layers_with_window(&m, 0), 2);
}

static void phi_has_biases_everywhere_and_one_norm(void **state)
{
  (void)state;
  hr_model m =
      read_model("{\"model_type\":\"phi\",\"partial_rotary_factor\":0.5,\"num_key_value_heads\":null," SIZES "}");
  const hr_layer_group *layer = &m.groups[0];
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_true(layer->parallel_block && a->q_bias && a->output_bias && mlp->bias && m.logit_bias && m.norm_bias);
  assert_false(m.tied_embeddings || mlp->gated);
  assert_int_equal(layer->norms, 1);
  assert_int_equal(a->rotary_dim, 4);
  assert_int_equal(a->qk_norm, HR_QK_NORM_NONE);
  m = read_model("{\"model_type\":\"phi\",\"qk_layernorm\":true," SIZES "}");
  assert_int_equal(a->qk_norm, HR_QK_NORM_SHARED);
  assert_true(a->qk_norm_bias);
}

static void phi3_is_gated_without_biases(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"phi3\",\"sliding_window\":2047,\"num_key_value_heads\":2," SIZES "}");
  const hr_layer_group *layer = &m.groups[0];
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_true(mlp->gated);
  assert_false(a->q_bias || m.logit_bias || layer->parallel_block);
  assert_int_equal(m.norm, HR_NORM_RMS);
  assert_int_equal(layers_with_window(&m, 2047), 12);
}

static void stablelm_is_layer_norm_with_a_gated_mlp(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"stablelm\",\"num_key_value_heads\":8,\"use_qkv_bias\":true," SIZES "}");
  const hr_layer_group *layer = &m.groups[0];
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_int_equal(m.norm, HR_NORM_LAYER);
  assert_true(m.norm_bias && mlp->gated && a->q_bias);
  assert_false(a->output_bias || mlp->bias || layer->parallel_block);
  assert_int_equal(a->rotary_dim, 2);
  m = read_model("{\"model_type\":\"stablelm\",\"num_key_value_heads\":2,\"use_parallel_residual\":true,"
                 "\"qk_layernorm\":true," SIZES "}");
  assert_true(layer->parallel_block);
  assert_int_equal(layer->norms, 1);
  assert_int_equal(a->qk_norm, HR_QK_NORM_PER_HEAD);
}

static void starcoder2_is_plain_grouped_and_tied(void **state)
{
  (void)state;
  hr_model m =
      read_model("{\"model_type\":\"starcoder2\",\"num_key_value_heads\":2,\"sliding_window\":4096," SIZES "}");
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_true(m.tied_embeddings && a->q_bias && a->output_bias && mlp->bias && m.norm_bias);
  assert_false(mlp->gated);
  assert_int_equal(a->k_heads, 2);
  assert_int_equal(layers_with_window(&m, 4096), 12);
}

static void olmo_has_norms_without_parameters_and_olmo2_norms_all_of_q(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"olmo\"," SIZES "}");
  const hr_mixer_attention *a = &m.groups[0].attention;
  assert_false(m.norm_weight || m.norm_bias);
  assert_int_equal(m.norm, HR_NORM_LAYER);
  m = read_model("{\"model_type\":\"olmo2\"," SIZES "}");
  assert_int_equal(m.norm, HR_NORM_RMS);
  assert_true(m.norm_weight);
  assert_int_equal(a->qk_norm, HR_QK_NORM_FULL);
}

static void the_short_form_reads_every_letter(void **state)
{
  (void)state;
  hr_model m = read_model("{\"name\":\"mine\",\"h\":2560,\"a\":32,\"L\":32,\"v\":50257,\"s\":2048,\"b\":4,\"t\":2,"
                          "\"p\":8,\"mlp\":\"swiglu\",\"k_heads\":4,\"v_heads\":16,\"head_dim\":64}");
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_string_equal(m.name, "mine");
  assert_string_equal(m.family, "short");
  assert_int_equal(mlp->width, 6826); /* 8·2560/3 = 6826.67, rounded down */
  assert_true(mlp->gated && m.tied_embeddings);
  assert_false(mlp->bias || m.final_norm);
  assert_int_equal(a->k_heads, 4);
  assert_int_equal(a->v_heads, 16);
  assert_int_equal(a->qk_dim, 64);
  assert_int_equal(m.position_rows, 2048);
  assert_int_equal(m.default_batch, 4);
  assert_int_equal(m.default_sequence, 2048);
  assert_int_equal(m.default_tensor_parallel, 2);
  assert_int_equal(m.default_pipeline_stages, 8);
}

static void the_short_form_needs_only_four_letters(void **state)
{
  (void)state;
  hr_model m = read_model("{\"h\":2560,\"a\":20,\"L\":32,\"v\":50257}");
  const hr_mixer_attention *a = &m.groups[0].attention;
  const hr_ffn_dense *mlp = &m.groups[0].dense;
  assert_string_equal(m.name, "config.json");
  assert_int_equal(a->qk_dim, 128);
  assert_int_equal(mlp->width, 10240);
  assert_false(mlp->gated);
  assert_int_equal(m.default_batch, 0);
  assert_int_equal(m.default_sequence, 0);
  m = read_model("{\"h\":2560,\"a\":32,\"L\":32,\"v\":50257,\"d_ff\":6912,\"kv_heads\":8,\"mlp\":\"swiglu\"}");
  assert_int_equal(mlp->width, 6912);
  assert_int_equal(a->k_heads, 8);
  assert_int_equal(a->v_heads, 8);
}

static void a_family_is_known_by_its_architecture_where_model_type_is_missing(void **state)
{
  (void)state;
  static const char text[] = "{\"architectures\":[\"LlamaForCausalLM\"]," SIZES "}";
  assert_string_equal(read_model(text).family, "llama");
  test_notes notes = read_notes(text);
  assert_string_equal(notes.text, "config.json: model_type: is missing, \"llama\" is assumed from architectures\n");
}

static void ignored_and_assumed_fields_are_noted(void **state)
{
  (void)state;
  test_notes notes = read_notes("{\"model_type\":\"mistral\",\"num_hidden_layers\":12,\"hidden_size\":64,"
                                "\"num_attention_heads\":8,\"intermediate_size\":256,\"vocab_size\":1000,"
                                "\"sliding_window\":null,\"head_dim\":null,\"torch_dtype\":\"bfloat16\","
                                "\"_comment\":\"mine\",\"nothing\":null,\"quantization_config\":{},\"two\\nlines\":1}");
  assert_string_equal(notes.text,
                      "config.json: max_position_embeddings: is missing, its documented default 131072 is assumed\n"
                      "config.json: num_key_value_heads: is missing, its documented default 8 is assumed\n"
                      "config.json: fields \"quantization_config\", \"two?lines\" are ignored: not known to change "
                      "the shape\n");
}

static void a_complete_configuration_is_read_without_notes(void **state)
{
  (void)state;
  assert_string_equal(read_notes("{\"model_type\":\"llama\",\"transformers_version\":\"4.40.0\",\"bos_token_id\":1,"
                                 "\"pretraining_tp\":1," SIZES "}")
                          .text,
                      "");
}

static void classes_have_weights_of_their_own_and_embedding_models_have_no_head(void **state)
{
  (void)state;
  const char *start = "{\"model_type\":\"llama\",\"tie_word_embeddings\":true,";
  const struct {
    const char *fields;
    int64_t logit, classes;
    hr_head head;
  } cases[] = {
      {"\"architectures\":[\"LlamaForCausalLM\"]", 0, 0, HR_HEAD_LANGUAGE},
      {"\"architectures\":[\"LlamaForSequenceClassification\"]", 2 * 64, 2, HR_HEAD_CLASSES},
      {"\"architectures\":[\"LlamaForSequenceClassification\"],\"id2label\":{\"0\":\"LABEL_0\"}", 64, 1,
       HR_HEAD_CLASSES},
      {"\"architectures\":[\"LlamaForTokenClassification\"],\"num_labels\":9", 9 * 64 + 9, 9, HR_HEAD_CLASSES},
      {"\"architectures\":[\"LlamaForQuestionAnswering\"]", 2 * 64 + 2, 2, HR_HEAD_CLASSES},
      {"\"architectures\":[\"LlamaModel\"]", 0, 0, HR_HEAD_NONE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[600];
    snprintf(text, sizeof text, "%s%s," SIZES "}", start, cases[i].fields);
    hr_model model = read_model(text);
    assert_int_equal(model.head, cases[i].head);
    assert_int_equal(model.classes, cases[i].classes);
    assert_int_equal(read_parameters(text).logit, cases[i].logit);
  }
}

static void the_language_model_of_a_wrapper_is_read(void **state)
{
  (void)state;
  const char *text = "{\"model_type\":\"mistral3\",\"architectures\":[\"Mistral3ForConditionalGeneration\"],"
                     "\"tie_word_embeddings\":true,\"vision_config\":{\"hidden_size\":9},\"image_token_index\":10,"
                     "\"text_config\":{\"num_key_value_heads\":8,\"sliding_window\":null," SIZES "}}";
  hr_model model = read_model(text);
  assert_string_equal(model.family, "mistral");
  assert_int_equal(model.hidden, 64);
  assert_true(model.tied_embeddings); /* the outer one counts where the inner has none */
  assert_string_equal(read_notes(text).text,
                      "config.json: only the language model in text_config is read; vision_config is left out\n");
  model = read_model("{\"model_type\":\"gemma3\",\"architectures\":[\"Gemma3ForSequenceClassification\"],"
                     "\"id2label\":{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\"},\"text_config\":{" SIZES "}}");
  assert_int_equal(model.classes, 3);
  model = read_model("{\"model_type\":\"internvl_chat\",\"architectures\":[\"InternVLChatModel\"],\"llm_config\":{"
                     "\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"]," SIZES "}}");
  assert_int_equal(model.head, HR_HEAD_LANGUAGE);
  assert_refused("{\"model_type\":\"clip\",\"text_config\":{\"model_type\":\"t5_of_images\"}}", HR_ERROR_UNSUPPORTED,
                 "config.json: text_config.model_type: \"t5_of_images\" is not a supported family;"
                 " docs/models.md lists the families, and how to give a shape without one");
}

static void layers_for_multi_token_prediction_are_noted_in_every_family(void **state)
{
  (void)state;
  assert_string_equal(read_notes("{\"model_type\":\"llama\",\"num_nextn_predict_layers\":1," SIZES "}").text,
                      "config.json: num_nextn_predict_layers: the 1 layer that predicts further tokens (multi-token "
                      "prediction) is not counted\n");
  assert_string_equal(read_notes("{\"model_type\":\"llama\",\"num_mtp_modules\":0," SIZES "}").text, "");
}

static void the_short_form_has_experts(void **state)
{
  (void)state;
  const char *text = "{\"h\":64,\"a\":8,\"L\":5,\"v\":1000,\"mlp\":\"swiglu\",\"d_ff\":256,\"experts\":16,\"active\":2,"
                     "\"d_expert\":32,\"d_shared\":64,\"dense_layers\":1}";
  hr_model model = read_model(text);
  assert_int_equal(model.group_count, 2);
  assert_int_equal(model.groups[0].dense.width, 256);
  assert_int_equal(model.groups[1].count, 4);
  hr_parameters parameters = read_parameters(text);
  assert_int_equal(parameters.experts, 4 * 16 * 3 * 64 * 32);
  assert_int_equal(parameters.mlp, 3 * 64 * 256 + 4 * (64 * 16 + 3 * 64 * 64));
  assert_int_equal(parameters.total - parameters.active, 4 * 14 * 3 * 64 * 32);
  assert_refused("{\"h\":64,\"a\":8,\"L\":2,\"v\":1000,\"active\":2}", HR_ERROR_INVALID,
                 "config.json: active: needs experts");
  assert_refused("{\"h\":64,\"a\":8,\"L\":2,\"v\":1000,\"experts\":8,\"active\":2,\"dense_layers\":2}",
                 HR_ERROR_INVALID, "config.json: dense_layers: 2 leaves no layer with experts");
}

static void an_inner_configuration_may_leave_out_the_sizes_of_its_class(void **state)
{
  (void)state;
  hr_model model =
      read_model("{\"model_type\":\"llava\",\"text_config\":{\"model_type\":\"llama\",\"vocab_size\":32064}}");
  assert_int_equal(model.hidden, 4096);
  assert_int_equal(model.vocabulary, 32064);
  assert_int_equal(hr_model_layers(&model), 32);
  assert_refused("{\"model_type\":\"llama\",\"vocab_size\":32064}", HR_ERROR_INVALID,
                 "config.json: num_hidden_layers: is missing");
}

static void parts_in_the_same_object_are_left_out_in_one_note(void **state)
{
  (void)state;
  assert_string_equal(
      read_notes("{\"model_type\":\"qwen2_vl\",\"num_key_value_heads\":2,\"vision_config\":{\"depth\":32}," SIZES "}")
          .text,
      "config.json: only the language model of \"qwen2_vl\" is read; vision_config is left out\n");
}

static void the_short_form_says_what_differs_from_the_paper(void **state)
{
  (void)state;
  hr_model model =
      read_model("{\"h\":64,\"a\":8,\"L\":2,\"v\":1000,\"s\":128,\"tied\":false,\"norm\":\"rms\",\"positions\":"
                 "\"rotary\",\"rotary\":4,\"bias\":false,\"qkv_bias\":true,\"mlp\":\"swiglu\",\"final_norm\":"
                 "true,\"qk_norm\":\"shared\",\"window\":32,\"parallel\":true,\"qk_dim\":4,\"v_dim\":16}");
  const hr_layer_group *layer = &model.groups[0];
  assert_false(model.tied_embeddings);
  assert_int_equal(model.norm, HR_NORM_RMS);
  assert_true(model.final_norm && !model.norm_bias && layer->parallel_block);
  assert_int_equal(layer->norms, 1);
  assert_int_equal(model.positions, HR_POSITIONS_ROTARY);
  assert_int_equal(layer->attention.rotary_dim, 4);
  assert_int_equal(layer->attention.qk_dim, 4);
  assert_int_equal(layer->attention.v_dim, 16);
  assert_int_equal(layer->attention.window, 32);
  assert_true(layer->attention.q_bias && !layer->attention.output_bias && !layer->dense.bias && layer->dense.gated);
  assert_int_equal(layer->attention.qk_norm, HR_QK_NORM_SHARED);
  assert_refused(
      "{\"h\":64,\"a\":8,\"L\":2,\"v\":1000,\"kvheads\":2}", HR_ERROR_INVALID,
      "config.json: \"kvheads\" is not a field of the short form; did you mean kv_heads, k_heads or v_heads?");
  assert_refused("{\"h\":64,\"a\":8,\"L\":2,\"v\":1000,\"norm\":\"batch\"}", HR_ERROR_INVALID,
                 "config.json: norm: expected one of layer, rms, found \"batch\"");
}

static void a_long_name_is_truncated_and_stays_on_one_line(void **state)
{
  (void)state;
  char name[300];
  memset(name, 'n', sizeof name);
  name[3] = '\n';
  name[sizeof name - 1] = '\0';
  static const char text[] = "{\"h\":64,\"a\":8,\"L\":3,\"v\":10,\"s\":4}";
  hr_model model;
  hr_error error;
  assert_ok(hr_model_from_json(&(hr_input){.text = text, .length = sizeof text - 1, .name = name}, NULL, NULL, &model,
                               &error),
            error);
  assert_int_equal(strlen(model.name), sizeof model.name - 1);
  assert_int_equal(model.name[3], '?');
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gpt2_is_learned_positions_biases_and_tied_embeddings),
      cmocka_unit_test(gpt2_accepts_the_field_names_of_the_base_class),
      cmocka_unit_test(gpt_neo_has_windows_where_attention_types_says_local),
      cmocka_unit_test(gptj_is_a_parallel_block_with_one_norm_and_a_logit_bias),
      cmocka_unit_test(gpt_neox_is_parallel_with_two_norms_by_default),
      cmocka_unit_test(opt_has_two_more_position_rows_and_may_leave_out_the_final_norm),
      cmocka_unit_test(bloom_is_alibi_with_a_norm_after_the_embedding),
      cmocka_unit_test(falcon_7b_shares_one_key_head_and_one_norm),
      cmocka_unit_test(falcon_40b_groups_its_heads_and_has_two_norms),
      cmocka_unit_test(falcon_rw_is_sequential_with_alibi_and_biases),
      cmocka_unit_test(the_former_names_of_falcon_are_read_too),
      cmocka_unit_test(llama_reads_grouped_heads_biases_and_head_sizes),
      cmocka_unit_test(mistral_has_its_window_in_every_layer_unless_it_is_null),
      cmocka_unit_test(qwen2_has_biases_on_q_k_v_and_a_window_only_if_enabled),
      cmocka_unit_test(qwen3_normalises_each_heads_q_and_k),
      cmocka_unit_test(gemma_is_tied_with_heads_of_256),
      cmocka_unit_test(gemma2_has_four_norms_and_a_window_on_every_other_layer),
      cmocka_unit_test(layer_types_say_which_layers_have_the_window),
      cmocka_unit_test(phi_has_biases_everywhere_and_one_norm),
      cmocka_unit_test(phi3_is_gated_without_biases),
      cmocka_unit_test(stablelm_is_layer_norm_with_a_gated_mlp),
      cmocka_unit_test(starcoder2_is_plain_grouped_and_tied),
      cmocka_unit_test(olmo_has_norms_without_parameters_and_olmo2_norms_all_of_q),
      cmocka_unit_test(the_short_form_reads_every_letter),
      cmocka_unit_test(the_short_form_needs_only_four_letters),
      cmocka_unit_test(a_family_is_known_by_its_architecture_where_model_type_is_missing),
      cmocka_unit_test(ignored_and_assumed_fields_are_noted),
      cmocka_unit_test(a_complete_configuration_is_read_without_notes),
      cmocka_unit_test(classes_have_weights_of_their_own_and_embedding_models_have_no_head),
      cmocka_unit_test(the_language_model_of_a_wrapper_is_read),
      cmocka_unit_test(layers_for_multi_token_prediction_are_noted_in_every_family),
      cmocka_unit_test(the_short_form_has_experts),
      cmocka_unit_test(an_inner_configuration_may_leave_out_the_sizes_of_its_class),
      cmocka_unit_test(parts_in_the_same_object_are_left_out_in_one_note),
      cmocka_unit_test(the_short_form_says_what_differs_from_the_paper),
      cmocka_unit_test(a_long_name_is_truncated_and_stays_on_one_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
