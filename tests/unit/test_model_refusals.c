/* SPDX-License-Identifier: Apache-2.0 */
/* Unsupported and invalid models are refused with one line that names the input and the field. */
#include "reading.h"

#include <stdlib.h>

#define SIZES                                                                                                       \
  "\"num_hidden_layers\":12,\"hidden_size\":64,\"num_attention_heads\":8,\"intermediate_size\":256,\"vocab_size\":" \
  "1000,"                                                                                                           \
  "\"max_position_embeddings\":512"
#define COVERED ", which are not supported for this family (docs/models.md)"

static void each_kind_of_model_is_refused_by_its_field(void **state)
{
  (void)state;
  const struct {
    const char *fields, *message;
  } cases[] = {
      {"\"model_type\":\"llama\",\"num_local_experts\":8", "num_local_experts: 8 means mixture-of-experts layers"},
      {"\"model_type\":\"llama\",\"num_experts\":2", "num_experts: 2 means mixture-of-experts layers"},
      {"\"model_type\":\"llama\",\"n_routed_experts\":256,\"kv_lora_rank\":512",
       "n_routed_experts: 256 means mixture-of-experts layers"},
      {"\"model_type\":\"llama\",\"moe_intermediate_size\":1408",
       "moe_intermediate_size: 1408 means mixture-of-experts layers"},
      {"\"model_type\":\"llama\",\"moe\":true", "moe: true means mixture-of-experts layers"},
      {"\"model_type\":\"switch_transformers\"", "model_type: \"switch_transformers\" means mixture-of-experts layers"},
      {"\"model_type\":\"axk2\",\"n_routed_experts\":256,\"kv_lora_rank\":512",
       "model_type: \"axk2\" means sparse attention indexers"},
      {"\"model_type\":\"llama\",\"kv_lora_rank\":256", "kv_lora_rank: 256 means latent attention (MLA) layers"},
      {"\"model_type\":\"llama\",\"q_lora_rank\":1536", "q_lora_rank: 1536 means latent attention (MLA) layers"},
      {"\"model_type\":\"llama\",\"state_size\":16", "state_size: 16 means state-space models"},
      {"\"model_type\":\"other\",\"ssm_cfg\":{\"layer\":\"Mamba2\"}",
       "ssm_cfg: an object means state-space models in mamba_ssm's format"},
      {"\"model_type\":\"llama\",\"block_types\":[\"recurrent\",\"attention\"]",
       "block_types: a list means hybrids of attention and recurrent layers"},
      {"\"model_type\":\"llama\",\"mamba_d_state\":16",
       "mamba_d_state: 16 means hybrids of attention and recurrent layers"},
      {"\"model_type\":\"rwkv\"", "model_type: \"rwkv\" means recurrent models"},
      {"\"model_type\":\"t5\",\"is_encoder_decoder\":true", "is_encoder_decoder: true means encoder-decoder models"},
      {"\"model_type\":\"bart\"", "model_type: \"bart\" means encoder-decoder models"},
      {"\"model_type\":\"gpt2\",\"add_cross_attention\":true",
       "add_cross_attention: true means encoder-decoder models"},
      {"\"model_type\":\"bert\"", "model_type: \"bert\" means encoder-only models"},
      {"\"model_type\":\"llama\",\"index_topk\":2048", "index_topk: 2048 means sparse attention indexers"},
      {"\"model_type\":\"new\",\"hc_mult\":4", "hc_mult: 4 means hyper-connections"},
      {"\"model_type\":\"gpt2\",\"pruned_heads\":{\"0\":[1,3]}", "pruned_heads: an object means pruned heads"},
      {"\"model_type\":\"llama\",\"medusa_num_heads\":3", "medusa_num_heads: 3 means Medusa heads"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[600], message[600];
    snprintf(text, sizeof text, "{%s," SIZES "}", cases[i].fields);
    snprintf(message, sizeof message, "config.json: %s" COVERED, cases[i].message);
    assert_refused(text, HR_ERROR_UNSUPPORTED, message);
  }
}

static void disabled_fields_of_unsupported_kinds_are_accepted(void **state)
{
  (void)state;
  read_model("{\"model_type\":\"llama\",\"num_local_experts\":1,\"num_experts\":0,\"n_routed_experts\":null,"
             "\"q_lora_rank\":null,\"kv_lora_rank\":0,\"is_encoder_decoder\":false,\"add_cross_attention\":false,"
             "\"ssm_cfg\":{},\"pruned_heads\":{},\"moe_layer_freq\":[],\"text_config\":null," SIZES "}");
}

static void an_unknown_family_gets_similar_names(void **state)
{
  (void)state;
  assert_refused("{\"model_type\":\"new\\u001b[31m\"," SIZES "}", HR_ERROR_UNSUPPORTED,
                 "config.json: model_type: \"new?[31m\" is not a supported family; docs/models.md "
                 "lists the families, and how to give a shape without one");
  assert_refused("{\"model_type\":\"lama\"," SIZES "}", HR_ERROR_UNSUPPORTED,
                 "config.json: model_type: \"lama\" is not a supported family; did you mean llama,"
                 " mamba or bamba? docs/models.md lists the families, and how to give a shape without one");
  assert_refused("{\"architectures\":[\"OtherForCausalLM\"]," SIZES "}", HR_ERROR_UNSUPPORTED,
                 "config.json: architectures: \"OtherForCausalLM\" is not a supported family; docs"
                 "/models.md lists the families, and how to give a shape without one");
}

/* Experts and latent attention are supported: what is not known is the family. */
static void an_unknown_family_is_unknown_whatever_its_layers(void **state)
{
  (void)state;
  static const char *const layers[] = {"\"num_local_experts\":8", "\"kv_lora_rank\":512",
                                       "\"layer_types\":[\"sliding_attention\",\"full_attention\"]"};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    char text[600];
    snprintf(text, sizeof text, "{\"model_type\":\"newest\",%s," SIZES "}", layers[i]);
    assert_refused(text, HR_ERROR_UNSUPPORTED,
                   "config.json: model_type: \"newest\" is not a supported family; docs/models.md "
                   "lists the families, and how to give a shape without one");
  }
}

#define LLAMA_LIKE SIZES ",\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"num_key_value_heads\":2"

/* The offer is exact only if no field is left over, and if its text is read as the same shape. */
static void an_unknown_family_with_llamas_fields_gets_its_short_form(void **state)
{
  (void)state;
  static const struct {
    const char *more, *offered;
  } cases[] = {
      {"", ""},
      {",\"attention_bias\":true,\"head_dim\":16,\"tie_word_embeddings\":true,\"rope_theta\":1e6",
       ",\"head_dim\":16,\"qkv_bias\":true,\"o_bias\":true"},
      {",\"mlp_bias\":true", ",\"mlp_bias\":true"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char unknown[600], known[600];
    snprintf(unknown, sizeof unknown, "{\"model_type\":\"newest\"," LLAMA_LIKE "%s}", cases[i].more);
    snprintf(known, sizeof known, "{\"model_type\":\"llama\"," LLAMA_LIKE "%s}", cases[i].more);
    hr_model model;
    hr_error error;
    assert_int_equal(hr_model_from_json(&(hr_input){.text = unknown, .length = strlen(unknown), .name = "config.json"},
                                        NULL, NULL, &model, &error),
                     HR_ERROR_UNSUPPORTED);
    char *form = strchr(error.message, '{'), *end = strrchr(error.message, '}');
    assert_non_null(form);
    assert_non_null(end);
    end[1] = '\0';
    assert_non_null(strstr(form, cases[i].offered));
    hr_parameters want = read_parameters(known), have = read_parameters(form);
    assert_memory_equal(&have, &want, sizeof want);
  }
}

static void an_unknown_family_with_a_field_of_its_own_gets_no_short_form(void **state)
{
  (void)state;
  static const char *const more[] = {",\"residual_lanes\":4",
                                     ",\"quantization_config\":{\"quant_method\":\"awq\"}",
                                     ",\"num_local_experts\":8",
                                     ",\"sliding_window\":[1,2]",
                                     ",\"architectures\":[\"NewestForSequenceClassification\"]",
                                     ",\"architectures\":[\"NewestModel\"]",
                                     ",\"partial_rotary_factor\":0.5",
                                     ",\"rope_parameters\":{\"partial_rotary_factor\":0.5}"};
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    char text[600];
    snprintf(text, sizeof text, "{\"model_type\":\"newest\"," LLAMA_LIKE "%s}", more[i]);
    hr_model model;
    hr_error error;
    assert_int_equal(hr_model_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "config.json"}, NULL,
                                        NULL, &model, &error),
                     HR_ERROR_UNSUPPORTED);
    assert_null(strstr(error.message, "short form"));
  }
  const char *wrapped = "{\"model_type\":\"newest_vl\",\"tie_word_embeddings\":true,\"text_config\":{"
                        "\"model_type\":\"newest\"," LLAMA_LIKE "}}";
  hr_model model;
  hr_error error;
  assert_int_equal(hr_model_from_json(&(hr_input){.text = wrapped, .length = strlen(wrapped), .name = "config.json"},
                                      NULL, NULL, &model, &error),
                   HR_ERROR_UNSUPPORTED);
  assert_null(strstr(error.message, "short form"));
}

/* Python's json writes them; JSON has no such numbers. */
static void numbers_that_only_python_writes_count_where_they_matter(void **state)
{
  (void)state;
  hr_model model = read_model("{\"model_type\":\"llama\",\"router_jitter_noise\":Infinity,\"initializer_range\" : NaN,"
                              "\"other\":[-Infinity,\"a \\\" NaN,Infinity\",Infinity ],\"last\":NaN," SIZES "}");
  assert_int_equal(model.hidden, 64);
  assert_refused("{\"model_type\":\"llama\",\"sliding_window\":1,\"num_key_value_heads\":-Infinity," SIZES "}",
                 HR_ERROR_INVALID,
                 "config.json: num_key_value_heads: expected a positive integer, found \"-Infinity\"");
}

static void a_head_of_another_kind_is_refused(void **state)
{
  (void)state;
  assert_refused(
      "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForRewardModel\"]," SIZES "}", HR_ERROR_UNSUPPORTED,
      "config.json: architectures: \"LlamaForRewardModel\" has a head that is not supported; supported are language "
      "models, models without a head, and classification of sequences and tokens");
  assert_refused("{\"model_type\":\"llama\",\"architectures\":\"LlamaForSequenceClassification\"," SIZES "}",
                 HR_ERROR_INVALID, "config.json: architectures: expected a list of classes");
}

static void layers_of_an_unread_kind_are_refused(void **state)
{
  (void)state;
  read_model("{\"model_type\":\"llama\",\"layer_types\":[\"full_attention\"]," SIZES "}");
  assert_refused("{\"model_type\":\"llama\",\"layer_types\":[\"full_attention\",\"linear_attention\"]," SIZES "}",
                 HR_ERROR_UNSUPPORTED,
                 "config.json: layer_types: has a layer of type \"linear_attention\", which is not supported for this "
                 "family (docs/models.md)");
}

static void a_layer_of_another_kind_is_refused(void **state)
{
  (void)state;
  assert_refused(
      "{\"model_type\":\"qwen3\",\"num_key_value_heads\":8,\"head_dim\":8,\"layer_types\":[\"full_attention\","
      "\"linear_attention\"],\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":8,"
      "\"intermediate_size\":256,\"vocab_size\":1000}",
      HR_ERROR_UNSUPPORTED,
      "config.json: layer_types: has a layer of type \"linear_attention\"; only full_attention and "
      "sliding_attention are supported");
}

/* `text` is unreadable, and the message has this beginning; the rest is the parser's text. */
static void assert_unreadable(const char *text, size_t length, const char *beginning)
{
  hr_model model;
  hr_error error = {.message = ""};
  assert_int_equal(hr_model_from_json(&(hr_input){.text = text, .length = length, .name = "config.json"}, NULL, NULL,
                                      &model, &error),
                   HR_ERROR_UNREADABLE);
  if (strncmp(error.message, beginning, strlen(beginning)) != 0)
    fail_msg("expected \"%s…\", found \"%s\"", beginning, error.message);
  assert_null(strchr(error.message, '\n'));
}

static void text_other_than_a_json_object_is_unreadable(void **state)
{
  (void)state;
  const struct {
    const char *text, *beginning;
  } cases[] = {
      {"", "config.json: is empty"},
      {"  \n", "config.json: line 2: "},
      {"{\"hidden_size\": 64,", "config.json: line 1: "},
      {"{\n\"hidden_size\": NaNs}", "config.json: line 2: "},
      {"{\"a\": +Infinity}", "config.json: line 1: "},
      {"[1, 2]", "config.json: expected a JSON object, found a list"},
      {"12", "config.json: expected a JSON object, found 12"},
      {"null", "config.json: expected a JSON object, found null"},
      {"\"gpt2\"", "config.json: expected a JSON object, found \"gpt2\""},
      {"{} {}", "config.json: line 1: "},
      {"{\"a\": \"\xff\xfe\"}", "config.json: line 1: "},
      {"{\"\x1b\": 1}", "config.json: line 1: "},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_unreadable(cases[i].text, strlen(cases[i].text), cases[i].beginning);
}

static void a_number_too_large_for_any_field_is_reported_by_its_field(void **state)
{
  (void)state;
  const struct {
    const char *text, *beginning;
  } cases[] = {
      {"{\"h\": 1,\n \"hidden_size\": 9223372036854775808}", "config.json: hidden_size: line 2: "},
      {"{\"hidden_size\" : -1e999}", "config.json: hidden_size: line 1: "},
      {"{\"hidden_size\" : [1, 1e999]}", "config.json: line 1: "}, /* in a list: the line number is enough */
      {"1e999", "config.json: line 1: "},
      {":1e999", "config.json: line 1: "},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_unreadable(cases[i].text, strlen(cases[i].text), cases[i].beginning);
}

static void unlimited_nesting_is_unreadable(void **state)
{
  (void)state;
  enum { DEPTH = 1000000 };
  char *text = malloc(DEPTH);
  assert_non_null(text);
  memset(text, '[', DEPTH);
  assert_unreadable(text, DEPTH, "config.json: line 1: ");
  for (size_t i = 0; i + 5 <= DEPTH; i += 5)
    memcpy(text + i, "{\"a\":", 5);
  assert_unreadable(text, DEPTH, "config.json: line 1: ");
  free(text);
}

static void a_zero_byte_does_not_end_the_text(void **state)
{
  (void)state;
  static const char text[] = "{\"h\":64,\"a\":8,\"L\":3,\"v\":10}\0garbage";
  assert_unreadable(text, sizeof text - 1, "config.json: line 1: ");
}

static void more_text_than_a_configuration_may_have_is_unreadable(void **state)
{
  (void)state;
  size_t length = ((size_t)16 << 20) + 1;
  char *text = calloc(1, length);
  assert_non_null(text);
  assert_refused_bytes(text, length, HR_ERROR_UNREADABLE,
                       "config.json: 16777217 bytes, more than the limit of 16777216");
  free(text);
}

/* A field of a llama configuration that is otherwise valid. */
static void assert_llama_field(const char *field, const char *value, const char *message)
{
  static const char *const fields[][2] = {{"num_hidden_layers", "12"},  {"hidden_size", "64"},
                                          {"num_attention_heads", "8"}, {"intermediate_size", "256"},
                                          {"vocab_size", "1000"},       {"max_position_embeddings", "512"}};
  char text[800] = "{\"model_type\":\"llama\"", expected[300];
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (strcmp(fields[i][0], field) != 0)
      snprintf(text + strlen(text), sizeof text - strlen(text), ",\"%s\":%s", fields[i][0], fields[i][1]);
  }
  if (value)
    snprintf(text + strlen(text), sizeof text - strlen(text), ",\"%s\":%s", field, value);
  snprintf(text + strlen(text), sizeof text - strlen(text), "}");
  snprintf(expected, sizeof expected, "config.json: %s: %s", field, message);
  assert_refused(text, HR_ERROR_INVALID, expected);
}

static void an_invalid_size_is_named_with_its_value(void **state)
{
  (void)state;
  static const char *const required[] = {"num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size",
                                         "vocab_size"};
  static const char *const values[][2] = {
      {NULL, "is missing"},
      {"null", "is missing"},
      {"\"32\"", "expected a positive integer, found \"32\""},
      {"\"a\\nb\"", "expected a positive integer, found \"a?b\""},
      {"0", "expected a positive integer, found 0"},
      {"-4", "expected a positive integer, found -4"},
      {"32.0", "expected a positive integer, found 32.0"},
      {"1e30", "expected a positive integer, found 1e+30"},
      {"true", "expected a positive integer, found true"},
      {"[64]", "expected a positive integer, found a list"},
      {"{}", "expected a positive integer, found an object"},
      {"1099511627776", "expected an integer of at most 1099511627775, found 1099511627776"},
      {"9223372036854775807", "expected an integer of at most 1099511627775, found 9223372036854775807"},
  };
  for (size_t i = 0; i < sizeof required / sizeof *required; i++)
    for (size_t j = 0; j < sizeof values / sizeof *values; j++)
      assert_llama_field(required[i], values[j][0], values[j][1]);
}

static void other_fields_have_their_types_too(void **state)
{
  (void)state;
  assert_llama_field("tie_word_embeddings", "\"yes\"", "expected true or false, found \"yes\"");
  assert_llama_field("attention_bias", "1", "expected true or false, found 1");
  assert_llama_field("hidden_act", "7", "expected a string, found 7");
  assert_llama_field("head_dim", "-1", "expected a positive integer, found -1");
  assert_llama_field("num_key_value_heads", "3", "3 does not divide num_attention_heads, 8");
  assert_llama_field("num_key_value_heads", "16", "16 does not divide num_attention_heads, 8");
  assert_llama_field("hidden_size", "68", "68 is not a multiple of num_attention_heads, 8");
  assert_refused("{\"model_type\":7}", HR_ERROR_INVALID, "config.json: model_type: expected a string, found 7");
  assert_refused("{\"hidden_size\":7}", HR_ERROR_INVALID,
                 "config.json: model_type: is missing; the short form has \"h\" and \"a\" instead");
  assert_refused("{\"model_type\":\"gpt_neox\",\"rotary_pct\":1.5," SIZES "}", HR_ERROR_INVALID,
                 "config.json: rotary_pct: expected a number from 0 to 1, found 1.5");
}

static void lists_of_layers_must_fit_the_layers(void **state)
{
  (void)state;
#define NEO "{\"model_type\":\"gpt_neo\",\"num_layers\":4,\"num_heads\":8,\"hidden_size\":64,\"vocab_size\":1000,"
  assert_refused(NEO "\"attention_types\":[[[\"global\",\"local\"],3]]}", HR_ERROR_INVALID,
                 "config.json: attention_types: describes 6 layers, num_layers is 4");
  assert_refused(NEO "\"attention_types\":[[[\"global\",\"odd\"],2]]}", HR_ERROR_INVALID,
                 "config.json: attention_types: expected kinds \"global\" and \"local\"");
  assert_refused(NEO "\"attention_types\":[[[\"global\"],9223372036854775807]]}", HR_ERROR_INVALID,
                 "config.json: attention_types: expected a list of [kinds, repetitions] with at most num_layers, 4, "
                 "repetitions");
  assert_refused("{\"model_type\":\"mistral\",\"layer_types\":[\"full_attention\"]," SIZES "}", HR_ERROR_INVALID,
                 "config.json: layer_types: has 1 kinds for 12 layers");
  assert_refused("{\"model_type\":\"mistral\",\"layer_types\":7," SIZES "}", HR_ERROR_INVALID,
                 "config.json: layer_types: expected a list with one kind per layer");
}

static void the_short_form_has_its_own_errors(void **state)
{
  (void)state;
  const struct {
    const char *text, *message;
  } cases[] = {
      {"{\"h\":2560,\"a\":32,\"v\":50257}", "L: is missing"},
      {"{\"h\":2560,\"a\":32,\"L\":32}", "v: is missing"},
      {"{\"h\":\"2560\",\"a\":32,\"L\":32,\"v\":50257}", "h: expected a positive integer, found \"2560\""},
      {"{\"h\":2560,\"a\":48,\"L\":32,\"v\":50257}",
       "h: 2560 is not a multiple of a, 48; give head_dim if this is intended"},
      {"{\"h\":2560,\"a\":32,\"L\":32,\"v\":50257,\"kv_heads\":5}", "kv_heads: 5 does not divide a, 32"},
      {"{\"h\":2560,\"a\":32,\"L\":32,\"v\":50257,\"k_heads\":5}", "k_heads: 5 does not divide a, 32"},
      {"{\"h\":2560,\"a\":32,\"L\":32,\"v\":50257,\"v_heads\":64}", "v_heads: 64 does not divide a, 32"},
      {"{\"h\":2560,\"a\":32,\"L\":32,\"v\":50257,\"mlp\":\"relu\"}",
       "mlp: expected one of gelu, swiglu, found \"relu\""},
      {"{\"h\":2560,\"a\":32,\"L\":32,\"v\":50257,\"b\":0}", "b: expected a positive integer, found 0"},
      {"{\"h\":2560,\"a\":32,\"L\":32,\"v\":50257,\"t\":-1}", "t: expected a positive integer, found -1"},
      {"{\"h\":1099511627775,\"a\":1,\"L\":1,\"v\":1}", "h: 1099511627775 is too large"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char message[300];
    snprintf(message, sizeof message, "config.json: %s", cases[i].message);
    assert_refused(cases[i].text, HR_ERROR_INVALID, message);
  }
}

static void sizes_whose_multiplication_overflows_are_an_error(void **state)
{
  (void)state;
  assert_refused("{\"h\":100000000000,\"a\":1,\"L\":1,\"v\":1}", HR_ERROR_OVERFLOW,
                 "config.json: the parameters of attention do not fit into 63 bits");
  assert_refused("{\"h\":1048576,\"a\":1,\"L\":1099511627775,\"v\":1}", HR_ERROR_OVERFLOW,
                 "config.json: the parameters of attention do not fit into 63 bits");
}

/* A truncated text gives a model or a one-line error. */
static void a_configuration_truncated_anywhere_is_an_error_in_one_line(void **state)
{
  (void)state;
  static const char text[] =
      "{\"model_type\": \"falcon\", \"new_decoder_architecture\": true, \"num_kv_heads\": 2, " SIZES "}";
  for (size_t length = 0; length < sizeof text - 1; length++) {
    char *cut = malloc(length + 1); /* a separate allocation, so that the address sanitizer sees a read past the end */
    assert_non_null(cut);
    memcpy(cut, text, length);
    assert_unreadable(cut, length, "config.json: ");
    free(cut);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_kind_of_model_is_refused_by_its_field),
      cmocka_unit_test(disabled_fields_of_unsupported_kinds_are_accepted),
      cmocka_unit_test(an_unknown_family_gets_similar_names),
      cmocka_unit_test(an_unknown_family_is_unknown_whatever_its_layers),
      cmocka_unit_test(an_unknown_family_with_llamas_fields_gets_its_short_form),
      cmocka_unit_test(an_unknown_family_with_a_field_of_its_own_gets_no_short_form),
      cmocka_unit_test(numbers_that_only_python_writes_count_where_they_matter),
      cmocka_unit_test(a_head_of_another_kind_is_refused),
      cmocka_unit_test(layers_of_an_unread_kind_are_refused),
      cmocka_unit_test(a_layer_of_another_kind_is_refused),
      cmocka_unit_test(text_other_than_a_json_object_is_unreadable),
      cmocka_unit_test(a_number_too_large_for_any_field_is_reported_by_its_field),
      cmocka_unit_test(unlimited_nesting_is_unreadable),
      cmocka_unit_test(a_zero_byte_does_not_end_the_text),
      cmocka_unit_test(more_text_than_a_configuration_may_have_is_unreadable),
      cmocka_unit_test(an_invalid_size_is_named_with_its_value),
      cmocka_unit_test(other_fields_have_their_types_too),
      cmocka_unit_test(lists_of_layers_must_fit_the_layers),
      cmocka_unit_test(the_short_form_has_its_own_errors),
      cmocka_unit_test(sizes_whose_multiplication_overflows_are_an_error),
      cmocka_unit_test(a_configuration_truncated_anywhere_is_an_error_in_one_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
