/* SPDX-License-Identifier: Apache-2.0 */
/* Granite, and the other families with scale factors: what the variants have of their own. */
#include "model/config/families.h"

#include <inttypes.h>

/* A base of 0 in layer_rope_theta means that the layer is not rotated. */
hr_status hr_finish_granite_swa(hr_config *config, const hr_family *family, hr_model *model)
{
  static const char field[] = "layer_rope_theta";
  (void)family;
  model->groups[0].attention.sinks = true;
  hr_config_mark(config, field);
  const json_t *list = json_object_get(config->json.object, field);
  for (size_t i = 0; i < json_array_size(list); i++) {
    if (json_number_value(json_array_get(list, i)) <= 0)
      return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED,
                          "layer %zu is not rotated; only models with all layers rotated are supported", i);
  }
  return HR_OK;
}

/* Norms before and after attention and MLP, or only before. */
hr_status hr_finish_hyperclovax(hr_config *config, const hr_family *family, hr_model *model)
{
  bool has_post_norms;
  (void)family;
  HR_TRY(hr_config_flag(config, "use_post_norm", true, &has_post_norms));
  model->groups[0].norms = has_post_norms ? 4 : 2;
  return HR_OK;
}

/* Helium's output projection is hidden × hidden whatever the size of a head. */
hr_status hr_finish_helium(hr_config *config, const hr_family *family, hr_model *model)
{
  const hr_mixer_attention *attention = &model->groups[0].attention;
  (void)family;
  if (attention->q_heads != model->hidden / attention->v_dim || model->hidden % attention->v_dim != 0)
    return hr_json_fail(&config->json, "head_dim", HR_ERROR_INVALID,
                        "%" PRId64 " heads of %" PRId64 " are not hidden_size, %" PRId64 ", wide", attention->q_heads,
                        attention->v_dim, model->hidden);
  return HR_OK;
}
