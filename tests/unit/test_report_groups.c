/* SPDX-License-Identifier: Apache-2.0 */
/* How reports show a model whose layers are not all equal. */
#include "json_keys.h"
#include "models.h"

#include "model/layers/layer_kinds.h"

#include <headroom/experimental/report.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Four groups of Llama-3-8B's 32 layers: as they are, with chunks, without attention, and without an MLP. */
static hr_model model_of_groups(void)
{
  hr_model model = llama3_8b();
  model.group_count = 4;
  for (size_t i = 1; i < 4; i++)
    model.groups[i] = model.groups[0];
  model.groups[0].count = 20;
  model.groups[1].count = 9;
  model.groups[1].attention.window = 8192;
  model.groups[1].attention.window_kind = HR_WINDOW_CHUNKED;
  model.groups[2].count = 2;
  model.groups[2].attention = (hr_mixer_attention){.q_heads = 0};
  model.groups[3].count = 1;
  model.groups[3].dense = (hr_ffn_dense){.width = 0};
  return model;
}

/* The caller frees the text. */
static char *described_as(const hr_model *model, hr_format format)
{
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  hr_report_options options = hr_report_options_default();
  hr_workload workload = hr_workload_default(model);
  hr_error error;
  assert_non_null(out);
  options.format = format;
  assert_ok(hr_report_description(out, &options, &(hr_subject){.model = model, .workload = &workload, .hardware = NULL},
                                  NULL, &error),
            error);
  fclose(out);
  return text;
}

/* Parsed; the caller decrefs. */
static json_t *description(const hr_model *model)
{
  char *text = described_as(model, HR_FORMAT_JSON);
  json_t *document = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
  assert_non_null(document);
  free(text);
  return document;
}

static void the_models_groups_have_the_documented_keys(void **state)
{
  static const key_row keys[] = {{"layers", "i"},     {"parameters_per_layer", "i"},
                                 {"norms", "i"},      {"parallel_block", "b"},
                                 {"attention", "on"}, {"dense", "on"},
                                 {"experts", "on"},   {"scan", "on"},
                                 {"latent", "on"},    {"compressed", "on"}};
  static const key_row attention_keys[] = {
      {"q_heads", "i"},       {"k_heads", "i"},       {"v_heads", "i"},      {"qk_dim", "i"},
      {"v_dim", "i"},         {"q_rank", "i"},        {"window", "i"},       {"window_kind", "sn"},
      {"rotary_dim", "i"},    {"qk_norm", "s"},       {"qk_norm_bias", "b"}, {"q_bias", "b"},
      {"k_bias", "b"},        {"v_bias", "b"},        {"output_bias", "b"},  {"output_gate", "b"},
      {"gate_per_head", "b"}, {"gate_unbiased", "b"}, {"sinks", "b"},        {"shared_kv", "b"},
      {"shared_k_norm", "b"}, {"v_is_k", "b"},        {"index_topk", "i"},   {"index_block", "i"},
      {"index_dim", "i"}};
  static const key_row dense_keys[] = {{"width", "i"}, {"gated", "b"}, {"bias", "b"}, {"activation_parameters", "i"}};
  (void)state;
  hr_model described = model_of_groups();
  json_t *document = description(&described);
  const json_t *groups = json_object_get(json_object_get(document, "model"), "groups"), *group;
  int64_t layers = 0, parameters = 4096; /* the final norm */
  size_t i;
  assert_int_equal(json_array_size(groups), 4);
  json_array_foreach(groups, i, group)
  {
    const json_t *attention = json_object_get(group, "attention"), *dense = json_object_get(group, "dense");
    CHECK_KEYS(group, "groups[]", keys);
    assert_int_equal(json_object_size(group), 4 + hr_layer_kind_count()); /* an object for each kind */
    if (i != 2)
      CHECK_KEYS(attention, "groups[].attention", attention_keys);
    if (i != 3)
      CHECK_KEYS(dense, "groups[].dense", dense_keys);
    assert_true(json_is_null(attention) == (i == 2) && json_is_null(dense) == (i == 3));
    int64_t count = json_integer_value(json_object_get(group, "layers"));
    layers += count;
    parameters += count * json_integer_value(json_object_get(group, "parameters_per_layer"));
  }
  assert_int_equal(layers, 32);
  assert_int_equal(parameters, json_integer_value(json_object_get(document, "parameters_excluding_embeddings")));
  const json_t *chunked = json_object_get(json_array_get(groups, 1), "attention");
  assert_string_equal(json_string_value(json_object_get(chunked, "window_kind")), "chunked");
  json_decref(document);
}

static void what_differs_between_groups_is_null(void **state)
{
  static const key_row keys[] = {{"layers", "i"},    {"hidden", "i"},  {"q_heads", "n"},   {"qk_dim", "n"},
                                 {"q_rank", "i"},    {"window", "n"},  {"mlp_width", "n"}, {"window_layers", "i"},
                                 {"mlp_gated", "n"}, {"qk_norm", "s"}, {"rotary_dim", "n"}};
  (void)state;
  hr_model described = model_of_groups();
  json_t *document = description(&described);
  const json_t *model = json_object_get(document, "model");
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    if (!is_of(json_object_get(model, keys[i].key), keys[i].types[0]))
      fail_msg("model.%s is not of type %s", keys[i].key, keys[i].types);
  }
  assert_int_equal(json_integer_value(json_object_get(model, "layers")), 32);
  assert_int_equal(json_integer_value(json_object_get(model, "window_layers")), 9);
  json_decref(document);
}

/* ---- in words ---- */

static void assert_shape(const hr_model *model, const char *words)
{
  char *text = described_as(model, HR_FORMAT_TABLE);
  char *line = strstr(text, "shape ");
  assert_non_null(line);
  line[strcspn(line, "\n")] = '\0';
  assert_string_equal(line + strlen("shape         "), words);
  free(text);
}

#define LLAMA "hidden 4096, 32 heads of 128, 8 KV heads, MLP 14336 (gated silu), vocabulary 128,256"

static void the_shape_line_says_how_layers_differ(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  assert_shape(&model, "llama: 32 layers, " LLAMA);
  model.groups[0].attention.window = 4096; /* of all layers */
  assert_shape(&model, "llama: 32 layers, " LLAMA);
  model.groups[0].attention.window = 0;
  give_window(&model, 13, 4096);
  assert_shape(&model, "llama: 32 layers (13 with a window of 4096), " LLAMA);
  give_window(&model, 1, 4096); /* counted with the others that have it */
  model.groups[2].attention.rotary_dim = 0;
  model.groups[2].dense.width = 512;
  model.groups[2].dense.gated = false;
  assert_shape(&model, "llama: 32 layers (14 with a window of 4096, 1 without positions, 1 with MLP 512), " LLAMA);
  model = model_of_groups();
  assert_shape(&model, "llama: 32 layers (9 with chunks of 8192, 2 without attention, 1 without MLP), " LLAMA);
}

static void many_differences_are_left_to_the_table(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  for (int i = 1; i <= 5; i++)
    give_window(&model, 1, 100 * i);
  assert_shape(&model, "llama: 32 layers (in 6 groups), " LLAMA);
  model = llama3_8b();
  give_window(&model, 5, 0);
  model.groups[1].norms = 4; /* which the line has no words for */
  assert_shape(&model, "llama: 32 layers (in 2 groups), " LLAMA);
}

static void attention_that_differs_in_details_is_named_by_them(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  give_window(&model, 12, 0);
  model.groups[1].attention.shared_kv = true;
  assert_shape(&model, "llama: 32 layers (12 with shared KV), " LLAMA);
  model.groups[1].attention.k_heads = model.groups[1].attention.v_heads = 1;
  assert_shape(&model, "llama: 32 layers (12 with 32 heads of 128, 1 KV head), " LLAMA);
}

static void a_model_without_attention_or_without_mlp_says_so(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  model.groups[0].dense = (hr_ffn_dense){.width = 0};
  assert_shape(&model, "llama: 32 layers, hidden 4096, 32 heads of 128, 8 KV heads, no MLP, vocabulary 128,256");
  model = llama3_8b(); /* layers are either attention or an MLP */
  give_window(&model, 12, 0);
  model.groups[0].dense = (hr_ffn_dense){.width = 0};
  model.groups[1].attention = (hr_mixer_attention){.q_heads = 0};
  assert_shape(&model, "llama: 32 layers (12 without attention, 20 without MLP), " LLAMA);
}

static void the_table_has_a_row_for_each_group(void **state)
{
  (void)state;
  hr_model model = model_of_groups();
  char *text = described_as(&model, HR_FORMAT_MARKDOWN);
  /* attention 2·4096² + 2·4096·1024, MLP 3·4096·14336, two norms of 4096 */
  static const char *const rows[] = {
      "| 0 | 20 | 32 heads of 128, 8 KV heads | - | rotary 128 | MLP 14336, gated | 218,112,000 | 4,362,240,000 |",
      ("| 1 | 9 | 32 heads of 128, 8 KV heads | chunks of 8192 | rotary 128 | MLP 14336, gated | 218,112,000 | "
       "1,963,008,000 |"),
      "| 2 | 2 | - | - | - | MLP 14336, gated | 176,168,960 | 352,337,920 |",
      "| 3 | 1 | 32 heads of 128, 8 KV heads | - | rotary 128 | - | 41,951,232 | 41,951,232 |"};
  for (size_t i = 0; i < 4; i++) {
    if (!strstr(text, rows[i]))
      fail_msg("\"%s\" is not in:\n%s", rows[i], text);
  }
  free(text);
  model = llama3_8b();
  text = described_as(&model, HR_FORMAT_MARKDOWN);
  assert_null(strstr(text, "## Layers"));
  free(text);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_models_groups_have_the_documented_keys),
      cmocka_unit_test(what_differs_between_groups_is_null),
      cmocka_unit_test(the_shape_line_says_how_layers_differ),
      cmocka_unit_test(many_differences_are_left_to_the_table),
      cmocka_unit_test(attention_that_differs_in_details_is_named_by_them),
      cmocka_unit_test(a_model_without_attention_or_without_mlp_says_so),
      cmocka_unit_test(the_table_has_a_row_for_each_group),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
