/* SPDX-License-Identifier: Apache-2.0 */
/* DBRX: sizes of attention and experts in objects of their own. */
#include "base/names.h"
#include "model/config/families.h"
#include "model/layers/sizes.h"

/* The object `field`; an absent one is empty. */
static hr_json_reader inner(hr_config *config, const char *field, const char *path)
{
  hr_config_mark(config, field);
  hr_json_reader reader = config->json;
  reader.object = json_object_get(config->json.object, field);
  reader.path = path;
  return reader;
}

hr_status hr_read_dbrx(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_layer_group *layer = &model->groups[0];
  hr_json_reader attention = inner(config, "attn_config", "attn_config."),
                 ffn = inner(config, "ffn_config", "ffn_config.");
  HR_TRY(hr_config_sizes(config, &family->names, 2048, model));
  HR_TRY(hr_config_head_dim(config, &family->names, NULL, 0, model));
  HR_TRY(hr_json_integer_or(&attention, "kv_n_heads", 1, HR_MODEL_SIZE_MAX, 1, &layer->attention.k_heads));
  layer->attention.v_heads = layer->attention.k_heads;
  HR_TRY(hr_json_integer_or(&ffn, "moe_num_experts", 1, HR_MODEL_SIZE_MAX, 4, &layer->experts.experts));
  HR_TRY(hr_json_integer_or(&ffn, "moe_top_k", 1, HR_MODEL_SIZE_MAX, 1, &layer->experts.active));
  HR_TRY(hr_json_integer_or(&ffn, "ffn_hidden_size", 1, HR_MODEL_SIZE_MAX, 3584, &layer->experts.width));
  layer->experts.gated = true;
  hr_copy_text(model->activation, sizeof model->activation, "silu");
  model->norm_bias = false;
  HR_TRY(hr_config_rotary(config, NULL, 1, model));
  return hr_config_tied(config, false, model);
}
