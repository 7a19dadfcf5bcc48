/* SPDX-License-Identifier: Apache-2.0 */
/* RecurrentGemma: an RG-LRU in most layers, attention with a window in the others. */
#include "model/config/config_scan.h"

#include <string.h>

static hr_status read_recurrence(hr_config *config, hr_model *model)
{
  hr_mixer_scan *m = &model->groups[0].scan;
  int64_t width, heads = model->groups[0].attention.q_heads;
  *m = (hr_mixer_scan){.recurrence = HR_RECURRENCE_RG_LRU,
                       .heads = heads,
                       .state = 1,
                       .in_bias = true,
                       .out_bias = true,
                       .conv_bias = true};
  HR_TRY(hr_config_size_derived(config, "lru_width", model->hidden, &width));
  if (width % heads != 0)
    return hr_json_fail(&config->json, "lru_width", HR_ERROR_INVALID, "is not a multiple of num_attention_heads");
  m->head_dim = width / heads;
  return hr_config_size_derived(config, "conv1d_width", 4, &m->kernel);
}

/* The kinds of the first layers, which repeat. */
typedef struct block_types {
  const json_t *list;
} block_types;

static size_t type_of(const void *context, int64_t index)
{
  const json_t *list = ((const block_types *)context)->list;
  size_t count = json_array_size(list);
  if (count == 0)
    return index % 3 == 2 ? HR_TYPE_ATTENTION : HR_TYPE_SCAN;
  const char *name = json_string_value(json_array_get(list, (size_t)index % count));
  return name && strcmp(name, "recurrent") == 0 ? HR_TYPE_SCAN : HR_TYPE_ATTENTION;
}

hr_status hr_finish_recurrent_gemma(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_layer_group *layer = &model->groups[0];
  block_types types = {json_object_get(config->json.object, "block_types")};
  (void)family;
  hr_config_mark(config, "block_types");
  layer->dense.width /= 2; /* "intermediate_size" is that of gate and up together */
  bool other_name = !hr_config_present(config, "attention_window_size") && hr_config_present(config, "sliding_window");
  HR_TRY(hr_config_window(config, other_name ? "sliding_window" : "attention_window_size", 2048, model));
  HR_TRY(read_recurrence(config, model));
  hr_layer_pattern pattern = hr_scan_pattern(config, model, "recurrent");
  pattern.type_of = type_of;
  pattern.context = &types;
  return hr_config_layers(config, &pattern, model);
}
