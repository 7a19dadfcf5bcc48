/* SPDX-License-Identifier: Apache-2.0 */
/* Hunyuan: cross-layer attention, experts, and fields that say the same of every layer, or that it is as usual. */
#include "model/config/config_experts.h"

#include <inttypes.h>
#include <string.h>

/* ---- layers ---- */

enum { OWN, SHARED };

/* The first of `factor` layers has K and V of its own. */
static size_t type_of(const void *factor, int64_t index)
{
  return index % *(const int64_t *)factor == 0 ? OWN : SHARED;
}

/* Cross-layer attention (CLA, arXiv 2405.12981). A layer that shares K and V keeps its norm of K: modeling_hunyuan.py
 * of Hunyuan-Large, hunyuan_v1.py of vLLM. Both keep normalized K for each layer; Hunyuan-Large's report (arXiv
 * 2411.02265, section 2.1) counts one cache for all that share it, as is done here. */
static hr_status read_layers(hr_config *config, const hr_family *family, hr_model *model)
{
  bool shared;
  int64_t factor = 1;
  HR_TRY(hr_config_flag(config, "use_cla", false, &shared));
  if (shared)
    HR_TRY(hr_config_size_or(config, "cla_share_factor", 1, &factor));
  hr_config_mark(config, "cla_share_factor");
  hr_layer_pattern pattern = {.layers = model->groups[0].count,
                              .type_count = 2,
                              .types = {[OWN] = {"", model->groups[0]}, [SHARED] = {"", model->groups[0]}},
                              .type_of = factor > 1 ? type_of : NULL,
                              .context = &factor};
  pattern.types[SHARED].layer.attention.shared_kv = true;
  pattern.types[SHARED].layer.attention.shared_k_norm = model->groups[0].attention.qk_norm != HR_QK_NORM_NONE;
  return hr_config_apply(config, family, &pattern, hr_config_layers, model);
}

static hr_status check_head_dim(hr_config *config, const char *field, const hr_model *model)
{
  int64_t own = model->groups[0].attention.qk_dim, head_dim;
  HR_TRY(hr_config_size_derived(config, field, own, &head_dim));
  if (head_dim == own)
    return HR_OK;
  return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "%" PRId64 " is not the head size, %" PRId64, head_dim,
                      own);
}

hr_status hr_finish_hunyuan(hr_config *config, const hr_family *family, hr_model *model)
{
  HR_TRY(check_head_dim(config, "attention_head_dim", model));
  HR_TRY(hr_config_expect(config, "mlp_bias", false));
  HR_TRY(hr_config_expect(config, "use_qk_norm", true));
  return read_layers(config, family, model);
}

/* ---- experts ---- */

static hr_status check_width(hr_config *config, const hr_model *model)
{
  int64_t width = model->groups[0].experts.width, given = width;
  HR_TRY(hr_config_size_of_layers(config, "moe_intermediate_size", width, &given));
  if (given == width)
    return HR_OK;
  return hr_json_fail(&config->json, "moe_intermediate_size", HR_ERROR_UNSUPPORTED,
                      "%" PRId64 " is not intermediate_size, %" PRId64, given, width);
}

hr_status hr_finish_hunyuan_moe(hr_config *config, const hr_family *family, hr_model *model)
{
  int64_t skipped = 0;
  HR_TRY(check_width(config, model));
  HR_TRY(check_head_dim(config, "attention_head_dim", model));
  HR_TRY(hr_config_expect(config, "use_qk_norm", true));
  hr_config_mark(config, "moe_layer_num_skipped");
  HR_TRY(hr_json_integer_or(&config->json, "moe_layer_num_skipped", 0, INT64_MAX, 0, &skipped));
  if (skipped > 0)
    return hr_json_fail(&config->json, "moe_layer_num_skipped", HR_ERROR_UNSUPPORTED,
                        "%" PRId64 " layers without experts are not supported", skipped);
  return read_layers(config, family, model);
}

/* ---- Hunyuan-Large ---- */

/* Other mechanisms of the same code, all of which are off in published configurations. */
static hr_status check_mechanisms(hr_config *config)
{
  static const char *const off[] = {"add_classification_head", "group_limited_greedy", "mamba", "mlp_bias", "use_mla"};
  const char *norm;
  for (size_t i = 0; i < sizeof off / sizeof *off; i++)
    HR_TRY(hr_config_expect(config, off[i], false));
  HR_TRY(hr_config_expect(config, "use_rotary_pos_emb", true));
  HR_TRY(hr_config_text(config, "norm_type", "hf_rms", &norm));
  if (strcmp(norm, "hf_rms") != 0 && strcmp(norm, "rms") != 0)
    return hr_json_fail(&config->json, "norm_type", HR_ERROR_UNSUPPORTED, "only rms and hf_rms are supported");
  static const char *const unused[] = {
      "class_num",     "dense_list", "hybrid_override_pattern", "kv_lora_rank", "q_lora_rank",
      "mamba_d_state", "pool_type",  "qk_nope_head_dim",        "v_head_dim",   "qk_rope_head_dim"};
  for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
    hr_config_mark(config, unused[i]); /* of those mechanisms */
  return HR_OK;
}

/* One expert means none. */
hr_status hr_finish_hunyuan_large(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_ffn_experts *experts = &model->groups[0].experts;
  bool shared;
  HR_TRY(check_mechanisms(config));
  HR_TRY(check_width(config, model));
  HR_TRY(check_head_dim(config, "head_dim", model));
  HR_TRY(hr_config_flag(config, "use_mixed_mlp_moe", false, &shared));
  if (!shared) {
    if (experts->experts > 1 && hr_json_has(&config->json, "num_shared_expert"))
      hr_config_note_left_out(config, "num_shared_expert: is ignored without use_mixed_mlp_moe, as in Tencent's code");
    experts->shared_width = 0;
  }
  if (experts->experts == 1) {
    *experts = (hr_ffn_experts){.experts = 0};
    hr_config_mark(config, family->experts.first.field);
  }
  return read_layers(config, family, model);
}
