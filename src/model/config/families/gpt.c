/* SPDX-License-Identifier: Apache-2.0 */
/* The GPT line: what its families have of their own. */
#include "model/config/config_layers.h"
#include "model/config/families.h"

#include <inttypes.h>
#include <string.h>

/* The layers of attention_types: [[["global", "local"], 12]] gives the kinds of a run of layers and how often the run
 * is repeated. */
static bool is_local_by_runs(const json_t *runs, int64_t index)
{
  for (size_t i = 0; i < json_array_size(runs); i++) {
    const json_t *kinds = json_array_get(json_array_get(runs, i), 0);
    int64_t length = (int64_t)json_array_size(kinds);
    int64_t layers = length * json_integer_value(json_array_get(json_array_get(runs, i), 1));
    if (index < layers)
      return strcmp(json_string_value(json_array_get(kinds, (size_t)(index % length))), "local") == 0;
    index -= layers;
  }
  return false;
}

static size_t gpt_neo_type(const void *runs, int64_t index)
{
  return runs ? (size_t)is_local_by_runs(runs, index) : (size_t)(index % 2 == 1);
}

static hr_status check_kinds(const hr_config *config, const char *field, const json_t *kinds)
{
  for (size_t i = 0; i < json_array_size(kinds); i++) {
    const char *kind = json_string_value(json_array_get(kinds, i));
    if (!kind || (strcmp(kind, "local") != 0 && strcmp(kind, "global") != 0))
      return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "expected kinds \"global\" and \"local\"");
  }
  return HR_OK;
}

static hr_status check_attention_types(const hr_config *config, const json_t *runs, int64_t layers)
{
  static const char field[] = "attention_types";
  int64_t described = 0;
  for (size_t i = 0; i < json_array_size(runs); i++) {
    const json_t *run = json_array_get(runs, i), *times = json_array_get(run, 1), *kinds = json_array_get(run, 0);
    if (!json_is_array(kinds) || !json_is_integer(times) || json_integer_value(times) < 0 ||
        json_integer_value(times) > layers)
      return hr_json_fail(&config->json, field, HR_ERROR_INVALID,
                          "expected a list of [kinds, repetitions] with at most num_layers, %" PRId64 ", repetitions",
                          layers);
    HR_TRY(check_kinds(config, field, kinds));
    described += (int64_t)json_array_size(kinds) * json_integer_value(times);
  }
  if (described != layers)
    return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "describes %" PRId64 " layers, num_layers is %" PRId64,
                        described, layers);
  return HR_OK;
}

static hr_status read_gpt_neo_layers(hr_config *config, hr_model *model)
{
  const json_t *runs = NULL;
  hr_config_mark(config, "attention_types");
  hr_config_mark(config, "attention_layers"); /* the same, expanded */
  if (hr_json_has(&config->json, "attention_types")) {
    runs = json_object_get(config->json.object, "attention_types");
    HR_TRY(check_attention_types(config, runs, model->groups[0].count));
  } else {
    hr_config_note(config, "attention_types: is missing, every second layer is assumed to be local");
  }
  hr_layer_pattern pattern = hr_window_pattern(model);
  pattern.field = NULL;
  pattern.type_of = gpt_neo_type;
  pattern.context = runs;
  return hr_config_windows(config, &pattern, model);
}

hr_status hr_read_gpt_neo(hr_config *config, const hr_family *family, hr_model *model)
{
  static const hr_config_names names = {"num_layers", "hidden_size", "num_heads", "max_position_embeddings"};
  (void)family;
  HR_TRY(hr_config_sizes(config, &names, 2048, model));
  HR_TRY(hr_config_kv_heads(config, &names, NULL, 0, model));
  HR_TRY(hr_config_head_dim(config, &names, NULL, 0, model));
  HR_TRY(hr_config_mlp(config, "intermediate_size", 4 * model->hidden, "activation_function", "gelu_new", model));
  HR_TRY(hr_config_size_or(config, "window_size", 256, &model->groups[0].attention.window));
  hr_config_learned(model, 0);
  hr_config_attention_bias(model, false, true);
  model->groups[0].dense.bias = true;
  HR_TRY(hr_config_tied(config, true, model));
  return read_gpt_neo_layers(config, model);
}

/* The rotated elements of a head are given as their number. */
hr_status hr_finish_gptj(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_mixer_attention *attention = &model->groups[0].attention;
  (void)family;
  hr_config_mark(config, "rotary_dim");
  if (!hr_config_present(config, "rotary_dim"))
    return hr_config_size_or(config, "rotary_dim", attention->qk_dim < 64 ? attention->qk_dim : 64,
                             &attention->rotary_dim);
  return hr_config_size_derived(config, "rotary_dim", attention->qk_dim, &attention->rotary_dim);
}

static void share_one_kv_head(hr_model *model)
{
  model->groups[0].attention.k_heads = model->groups[0].attention.v_heads = 1;
}

/* SantaCoder was first published as a gpt2 with this field. */
hr_status hr_finish_gpt2(hr_config *config, const hr_family *family, hr_model *model)
{
  static const char field[] = "attention_head_type";
  const char *kind;
  (void)family;
  HR_TRY(hr_config_text(config, field, "multihead", &kind));
  if (strcmp(kind, "multiquery") == 0)
    share_one_kv_head(model);
  else if (strcmp(kind, "multihead") != 0)
    return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED, "expected \"multihead\" or \"multiquery\"");
  return HR_OK;
}

hr_status hr_finish_gpt_bigcode(hr_config *config, const hr_family *family, hr_model *model)
{
  bool multi_query;
  (void)family;
  HR_TRY(hr_config_flag(config, "multi_query", true, &multi_query));
  if (multi_query)
    share_one_kv_head(model);
  return HR_OK;
}

hr_status hr_finish_openai_gpt(hr_config *config, const hr_family *family, hr_model *model)
{
  (void)config;
  (void)family;
  model->final_norm = false;
  return HR_OK;
}

/* The output projection has a bias in the last layer only. */
static void add_last_bias(const void *layers, int64_t index, hr_layer_group *layer)
{
  layer->attention.output_bias = index == *(const int64_t *)layers - 1;
}

hr_status hr_finish_gpt_neox_japanese(hr_config *config, const hr_family *family, hr_model *model)
{
  static const char field[] = "intermediate_multiple_size";
  hr_layer_group *layer = &model->groups[0];
  double factor;
  (void)family;
  hr_config_mark(config, field);
  HR_TRY(hr_json_number_or(&config->json, field, 0.0, 1000.0, 4.0, &factor));
  layer->dense.width = (int64_t)((double)model->hidden * factor);
  hr_layer_pattern pattern = {.layers = layer->count, .type_count = 1, .types = {{"", *layer}}};
  int64_t layers = layer->count;
  pattern.change = add_last_bias;
  pattern.change_context = &layers;
  return hr_config_layers(config, &pattern, model);
}
