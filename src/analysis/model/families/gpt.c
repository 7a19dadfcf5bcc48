/* SPDX-License-Identifier: Apache-2.0 */
/* The GPT line: gpt2, gpt_neo, gptj, gpt_neox. */
#include "analysis/model/families.h"

#include <inttypes.h>
#include <string.h>

static const hr_config_names gpt2_names = {"n_layer", "n_embd", "n_head", "n_positions"};

hr_status hr_read_gpt2(hr_config *config, hr_model *model)
{
  HR_TRY(hr_config_sizes(config, &gpt2_names, 1024, model));
  HR_TRY(hr_config_kv_heads(config, &gpt2_names, NULL, 0, model));
  HR_TRY(hr_config_head_dim(config, &gpt2_names, NULL, 0, model));
  HR_TRY(hr_config_mlp(config, "n_inner", 4 * model->hidden, "activation_function", "gelu_new", model));
  hr_config_learned(model, 0);
  hr_config_attention_bias(model, true, true);
  model->mlp_bias = true;
  return hr_config_tied(config, true, model);
}

/* Each entry is "local" (with a window) or "global", one per layer. */
static hr_status count_local(hr_config *config, const char *field, const json_t *kinds, int64_t times, int64_t *layers,
                             int64_t *local)
{
  for (size_t i = 0; i < json_array_size(kinds); i++) {
    const char *kind = json_string_value(json_array_get(kinds, i));
    bool is_local = kind && strcmp(kind, "local") == 0;
    if (!is_local && (!kind || strcmp(kind, "global") != 0))
      return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "expected kinds \"global\" and \"local\"");
    *layers += times;
    *local += is_local ? times : 0;
  }
  return HR_OK;
}

/* [[["global", "local"], 12]]: the kinds of a run of layers and how often the run is repeated. */
static hr_status read_attention_types(hr_config *config, hr_model *model)
{
  static const char field[] = "attention_types";
  const json_t *runs = json_object_get(config->json.object, field);
  int64_t layers = 0, local = 0;
  for (size_t i = 0; i < json_array_size(runs); i++) {
    const json_t *run = json_array_get(runs, i), *times = json_array_get(run, 1);
    if (!json_is_array(json_array_get(run, 0)) || !json_is_integer(times) || json_integer_value(times) < 0 ||
        json_integer_value(times) > model->layers)
      return hr_json_fail(&config->json, field, HR_ERROR_INVALID,
                          "expected a list of [kinds, repetitions] with at most num_layers, %" PRId64 ", repetitions",
                          model->layers);
    HR_TRY(count_local(config, field, json_array_get(run, 0), json_integer_value(times), &layers, &local));
  }
  if (layers != model->layers)
    return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "describes %" PRId64 " layers, num_layers is %" PRId64,
                        layers, model->layers);
  model->window_layers = local;
  return HR_OK;
}

hr_status hr_read_gpt_neo(hr_config *config, hr_model *model)
{
  static const hr_config_names names = {"num_layers", "hidden_size", "num_heads", "max_position_embeddings"};
  HR_TRY(hr_config_sizes(config, &names, 2048, model));
  HR_TRY(hr_config_kv_heads(config, &names, NULL, 0, model));
  HR_TRY(hr_config_head_dim(config, &names, NULL, 0, model));
  HR_TRY(hr_config_mlp(config, "intermediate_size", 4 * model->hidden, "activation_function", "gelu_new", model));
  HR_TRY(hr_config_size_or(config, "window_size", 256, &model->window));
  hr_config_mark(config, "attention_types");
  hr_config_mark(config, "attention_layers"); /* the same, expanded */
  if (hr_json_has(&config->json, "attention_types")) {
    HR_TRY(read_attention_types(config, model));
  } else {
    model->window_layers = model->layers / 2;
    hr_config_note(config, "attention_types: is missing, every second layer is assumed to be local");
  }
  if (model->window_layers == 0)
    model->window = 0;
  hr_config_learned(model, 0);
  hr_config_attention_bias(model, false, true);
  model->mlp_bias = true;
  return hr_config_tied(config, true, model);
}

hr_status hr_read_gptj(hr_config *config, hr_model *model)
{
  HR_TRY(hr_config_sizes(config, &gpt2_names, 2048, model));
  HR_TRY(hr_config_kv_heads(config, &gpt2_names, NULL, 0, model));
  HR_TRY(hr_config_head_dim(config, &gpt2_names, NULL, 0, model));
  HR_TRY(hr_config_mlp(config, "n_inner", 4 * model->hidden, "activation_function", "gelu_new", model));
  HR_TRY(hr_config_rotary(config, NULL, 1.0, model));
  int64_t rotary = model->qk_dim < 64 ? model->qk_dim : 64;
  hr_config_mark(config, "rotary_dim");
  if (!hr_config_present(config, "rotary_dim"))
    HR_TRY(hr_config_size_or(config, "rotary_dim", rotary, &model->rotary_dim));
  else
    HR_TRY(hr_config_size_derived(config, "rotary_dim", model->qk_dim, &model->rotary_dim));
  model->parallel_block = true;
  model->layer_norms = 1;
  model->mlp_bias = true;
  HR_TRY(hr_config_tied(config, false, model));
  model->logit_bias = true;
  return HR_OK;
}

hr_status hr_read_gpt_neox(hr_config *config, hr_model *model)
{
  bool bias;
  HR_TRY(hr_config_sizes(config, &hr_config_standard_names, 2048, model));
  HR_TRY(hr_config_kv_heads(config, &hr_config_standard_names, NULL, 0, model));
  HR_TRY(hr_config_head_dim(config, &hr_config_standard_names, NULL, 0, model));
  HR_TRY(hr_config_mlp(config, "intermediate_size", 0, "hidden_act", "gelu", model));
  HR_TRY(hr_config_rotary(config, "rotary_pct", 0.25, model));
  HR_TRY(hr_config_flag(config, "use_parallel_residual", true, &model->parallel_block));
  HR_TRY(hr_config_flag(config, "attention_bias", true, &bias));
  hr_config_attention_bias(model, bias, bias);
  model->mlp_bias = true;
  return hr_config_tied(config, false, model);
}
