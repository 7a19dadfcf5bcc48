/* SPDX-License-Identifier: Apache-2.0 */
/* BLOOM. */
#include "model/config/families.h"

hr_status hr_read_bloom(hr_config *config, const hr_family *family, hr_model *model)
{
  const char *hidden = hr_json_has(&config->json, "n_embed") ? "n_embed" : "hidden_size"; /* both names are in use */
  const hr_config_names names = {"n_layer", hidden, "n_head", "seq_length"};
  (void)family;
  HR_TRY(hr_config_sizes(config, &names, 2048, model));
  HR_TRY(hr_config_kv_heads(config, &names, NULL, 0, model));
  HR_TRY(hr_config_head_dim(config, &names, NULL, 0, model));
  hr_config_mark(config, "n_inner"); /* the class ignores it: the MLP width is always 4h */
  HR_TRY(hr_config_mlp(config, "intermediate_size", 4 * model->hidden, "hidden_act", "gelu", model));
  model->positions = HR_POSITIONS_ALIBI;
  model->embedding_norm = true;
  hr_config_attention_bias(model, true, true);
  model->groups[0].dense.bias = true;
  return hr_config_tied(config, true, model);
}
