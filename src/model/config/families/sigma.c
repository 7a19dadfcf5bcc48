/* SPDX-License-Identifier: Apache-2.0 */
/* SIGMA's DiffQKV attention, with Headroom's names for the columns of Table 7 (arXiv 2501.13629): K may have fewer and
 * smaller heads than V, and Q is two linear layers, hidden → augmented_q_dim → heads. */
#include "model/config/families.h"

#include <inttypes.h>

static hr_status read_kv_heads(hr_config *config, const char *field, int64_t q_heads, int64_t *heads)
{
  HR_TRY(hr_config_size(config, field, NULL, heads));
  if (q_heads % *heads == 0)
    return HR_OK;
  return hr_json_fail(&config->json, field, HR_ERROR_INVALID,
                      "%" PRId64 " does not divide num_attention_heads, %" PRId64, *heads, q_heads);
}

hr_status hr_read_sigma(hr_config *config, const hr_family *family, hr_model *model)
{
  const hr_config_names *names = &hr_config_standard_names;
  (void)family;
  HR_TRY(hr_config_sizes(config, names, 4096, model));
  HR_TRY(
      read_kv_heads(config, "num_key_heads", model->groups[0].attention.q_heads, &model->groups[0].attention.k_heads));
  HR_TRY(read_kv_heads(config, "num_value_heads", model->groups[0].attention.q_heads,
                       &model->groups[0].attention.v_heads));
  HR_TRY(hr_config_head_dim(config, names, "value_head_dim", 0, model));
  HR_TRY(hr_config_size_derived(config, "key_head_dim", model->groups[0].attention.v_dim,
                                &model->groups[0].attention.qk_dim));
  HR_TRY(hr_config_size_derived(config, "augmented_q_dim", 0, &model->groups[0].attention.q_rank));
  HR_TRY(hr_config_mlp(config, "intermediate_size", 0, "hidden_act", "silu", model));
  HR_TRY(hr_config_rotary(config, NULL, 1.0, model));
  model->groups[0].dense.gated = true;
  hr_config_rms_norm(model);
  return hr_config_tied(config, false, model);
}
