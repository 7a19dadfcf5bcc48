/* SPDX-License-Identifier: Apache-2.0 */
/* Mamba 1 and 2: layers of one norm and one recurrent mixer. */
#include "model/config/config_scan.h"

/* Other names of sizes, and fields of mamba_ssm, that transformers does not look at. */
static void mark_unused(hr_config *config)
{
  static const char *const fields[] = {
      "d_inner",       "d_model",          "fused_add_norm",          "intermediate_size",
      "n_layer",       "norm_before_gate", "pad_vocab_size_multiple", "rms_norm",
      "time_step_rank"};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    hr_config_mark(config, fields[i]);
}

hr_status hr_read_mamba(hr_config *config, const hr_family *family, hr_model *model)
{
  HR_TRY(hr_config_size(config, "num_hidden_layers", NULL, &model->groups[0].count));
  HR_TRY(hr_config_size(config, "hidden_size", NULL, &model->hidden));
  HR_TRY(hr_config_size(config, "vocab_size", NULL, &model->vocabulary));
  HR_TRY(hr_config_scan(config, &family->scan, model));
  HR_TRY(hr_config_activation(config, "hidden_act", "silu", model));
  HR_TRY(hr_config_tied(config, family->tied.value, model));
  mark_unused(config);
  hr_config_rms_norm(model);
  model->groups[0].norms = 1;
  return HR_OK;
}
