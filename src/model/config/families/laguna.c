/* SPDX-License-Identifier: Apache-2.0 */
/* Laguna: query heads of each layer, a gate of the attention's output. */
#include "model/config/config_experts.h"
#include "model/layers/sizes.h"

#include <inttypes.h>
#include <string.h>

typedef struct laguna_layers {
  hr_layer_set experts;
  const json_t *heads; /* of each layer; NULL: all have the same number */
} laguna_layers;

static void change(const void *context, int64_t index, hr_layer_group *layer)
{
  const laguna_layers *layers = context;
  if (layers->heads)
    layer->attention.q_heads = json_integer_value(json_array_get(layers->heads, (size_t)index));
  hr_change_to_experts(&layers->experts, index, layer);
}

/* Without a list of types every layer sees all tokens. */
static size_t type_of(const void *context, int64_t index)
{
  (void)context;
  (void)index;
  return 0;
}

static hr_status read_heads(hr_config *config, int64_t count, const json_t **heads)
{
  const char *field = "num_attention_heads_per_layer";
  const json_t *list = json_object_get(config->json.object, field);
  hr_config_mark(config, field);
  *heads = NULL;
  if (!hr_json_has(&config->json, field))
    return HR_OK;
  if (!json_is_array(list) || (int64_t)json_array_size(list) != count)
    return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "expected a list with the heads of each layer");
  for (int64_t i = 0; i < count; i++) {
    int64_t number = json_integer_value(json_array_get(list, (size_t)i));
    if (number < 1 || number > HR_MODEL_SIZE_MAX)
      return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "expected a positive integer for layer %" PRId64, i);
  }
  *heads = list;
  return HR_OK;
}

/* true and "per-head": a number for each head; otherwise one for each of its elements. */
static void read_gate(hr_config *config, hr_mixer_attention *attention)
{
  const json_t *gating = json_object_get(config->json.object, "gating");
  hr_config_mark(config, "gating");
  attention->output_gate = attention->gate_unbiased = true;
  attention->gate_per_head =
      !gating || json_is_true(gating) || (json_is_string(gating) && strcmp(json_string_value(gating), "per-head") == 0);
}

hr_status hr_finish_laguna(hr_config *config, const hr_family *family, hr_model *model)
{
  int64_t count = model->groups[0].count;
  laguna_layers layers;
  read_gate(config, &model->groups[0].attention);
  HR_TRY(hr_config_window(config, "sliding_window", 512, model));
  HR_TRY(hr_config_expert_layers(config, &family->experts, count, &layers.experts));
  HR_TRY(read_heads(config, count, &layers.heads));
  hr_layer_pattern pattern = hr_window_pattern(model);
  pattern.type_of = type_of;
  pattern.change = change;
  pattern.change_context = &layers;
  return hr_config_windows(config, &pattern, model);
}
