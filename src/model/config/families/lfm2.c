/* SPDX-License-Identifier: Apache-2.0 */
/* LFM2: attention in some layers, a gated short convolution in the others. */
#include "base/checked.h"
#include "model/config/config_experts.h"
#include "model/config/config_scan.h"
#include "model/layers/sizes.h"

#include <inttypes.h>
#include <string.h>

static hr_status read_convolution(hr_config *config, hr_model *model)
{
  hr_mixer_scan *m = &model->groups[0].scan;
  *m = (hr_mixer_scan){.recurrence = HR_RECURRENCE_CONVOLUTION, .heads = model->hidden, .head_dim = 1};
  HR_TRY(hr_config_size_derived(config, "conv_L_cache", 3, &m->kernel));
  HR_TRY(hr_config_flag(config, "conv_bias", false, &m->conv_bias));
  m->in_bias = m->out_bias = m->conv_bias;
  hr_config_mark(config, "tie_embedding");
  return hr_json_boolean_or(&config->json, "tie_embedding", model->tied_embeddings, &model->tied_embeddings);
}

/* Two thirds of the width, times a factor, rounded up to a multiple. */
static hr_status adjust_width(hr_config *config, int64_t *width)
{
  double factor;
  int64_t multiple;
  hr_config_mark(config, "block_ffn_dim_multiplier");
  HR_TRY(hr_json_number_or(&config->json, "block_ffn_dim_multiplier", 0.0, 1e6, 1.0, &factor));
  HR_TRY(hr_config_size_derived(config, "block_multiple_of", 256, &multiple));
  int64_t two_thirds = *width * 2 / 3;
  double exact = factor * (double)two_thirds;
  if (exact + (double)multiple > (double)HR_MODEL_SIZE_MAX || exact < 1)
    return hr_json_fail(&config->json, "block_ffn_dim_multiplier", HR_ERROR_INVALID, "%g is out of range", factor);
  *width = hr_round_up((int64_t)exact, multiple);
  return HR_OK;
}

static hr_status read_width(hr_config *config, hr_model *model)
{
  int64_t *width = &model->groups[0].dense.width;
  bool adjust;
  if (hr_json_has(&config->json, "block_ff_dim"))
    HR_TRY(hr_config_size(config, "block_ff_dim", NULL, width));
  else if (!hr_json_has(&config->json, "intermediate_size"))
    HR_TRY(hr_config_size_or(config, "intermediate_size", 12288, width));
  HR_TRY(hr_config_flag(config, "block_auto_adjust_ff_dim", true, &adjust));
  hr_config_mark(config, "block_ffn_dim_multiplier");
  hr_config_mark(config, "block_multiple_of");
  return adjust ? adjust_width(config, width) : HR_OK;
}

/* Fields that transformers does not look at. */
static void mark_unused(hr_config *config)
{
  static const char *const fields[] = {"block_dim", "conv_dim",         "conv_dim_out",
                                       "num_heads", "block_use_swiglu", "use_pos_enc"};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    hr_config_mark(config, fields[i]);
}

hr_status hr_finish_lfm2(hr_config *config, const hr_family *family, hr_model *model)
{
  static const hr_expert_fields listed = {.expert_layers = "full_attn_idxs"};
  hr_layer_set attention;
  (void)family;
  mark_unused(config);
  HR_TRY(read_convolution(config, model));
  HR_TRY(read_width(config, model));
  memset(&attention, 0xff, sizeof attention); /* all of them */
  if (hr_json_has(&config->json, listed.expert_layers))
    HR_TRY(hr_config_expert_layers(config, &listed, model->groups[0].count, &attention));
  hr_config_mark(config, listed.expert_layers);
  hr_layer_pattern pattern = hr_scan_pattern(config, model, "conv");
  pattern.type_of = hr_scan_unless_in_set;
  pattern.context = &attention;
  return hr_config_layers(config, &pattern, model);
}

hr_status hr_finish_lfm2_moe(hr_config *config, const hr_family *family, hr_model *model)
{
  HR_TRY(read_convolution(config, model));
  if (!hr_json_has(&config->json, "layer_types"))
    return hr_json_fail(&config->json, "layer_types", HR_ERROR_INVALID, "is missing");
  hr_config_mark(config, "use_expert_bias"); /* a buffer */
  hr_layer_pattern pattern = hr_scan_pattern(config, model, "conv");
  return hr_config_apply(config, family, &pattern, hr_config_layers, model);
}
