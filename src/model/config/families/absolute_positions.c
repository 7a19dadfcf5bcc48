/* SPDX-License-Identifier: Apache-2.0 */
/* Families whose positions are added to the embedding, or to the scores (MPT). */
#include "model/config/families.h"
#include "model/layers/sizes.h"

#include <inttypes.h>
#include <string.h>

/* Sine and cosine of the position are computed, not stored. */
hr_status hr_finish_sinusoidal(hr_config *config, const hr_family *family, hr_model *model)
{
  (void)config;
  (void)family;
  model->positions = HR_POSITIONS_NONE;
  model->groups[0].attention.rotary_dim = 0;
  return HR_OK;
}

/* BioGPT counts positions from 2. */
hr_status hr_finish_biogpt(hr_config *config, const hr_family *family, hr_model *model)
{
  (void)config;
  (void)family;
  model->position_rows += 2;
  return HR_OK;
}

/* ---- MPT ---- */

static hr_status refuse_unless(const hr_json_reader *json, const char *field, bool usual, bool missing)
{
  bool value;
  HR_TRY(hr_json_boolean_or(json, field, missing, &value));
  if (value == usual)
    return HR_OK;
  return hr_json_fail(json, field, HR_ERROR_UNSUPPORTED, "only %s is supported", usual ? "true" : "false");
}

/* Tables of learned positions are those of models without ALiBi; older code has one whatever learned_pos_emb says. */
static hr_status read_mpt_positions(hr_config *config, const hr_json_reader *inner, hr_model *model)
{
  bool alibi, learned;
  HR_TRY(hr_json_boolean_or(inner, "alibi", true, &alibi));
  HR_TRY(hr_config_flag(config, "learned_pos_emb", true, &learned));
  HR_TRY(refuse_unless(inner, "rope", false, false));
  if (alibi)
    return HR_OK;
  if (!learned)
    return hr_json_fail(&config->json, "learned_pos_emb", HR_ERROR_UNSUPPORTED, "false without ALiBi is not supported");
  hr_config_learned(model, 0);
  return HR_OK;
}

static hr_status read_mpt_attention(hr_config *config, hr_model *model)
{
  hr_json_reader inner = config->json;
  hr_config_mark(config, "attn_config");
  inner.object = json_object_get(config->json.object, "attn_config");
  inner.path = "attn_config.";
  const char *kind;
  HR_TRY(hr_json_string_or(&inner, "attn_type", "multihead_attention", &kind));
  if (strcmp(kind, "multihead_attention") != 0)
    return hr_json_fail(&inner, "attn_type", HR_ERROR_UNSUPPORTED, "only \"multihead_attention\" is supported");
  HR_TRY(refuse_unless(&inner, "qk_ln", false, false));
  return read_mpt_positions(config, &inner, model);
}

/* The fields mean what they do in MosaicML's code beside the checkpoints; transformers ignores no_bias, expansion_ratio
 * and the kinds of positions, and builds the usual model whatever they say. no_bias is of norms, too. */
hr_status hr_finish_mpt(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_layer_group *layer = &model->groups[0];
  int64_t ratio;
  bool plain;
  (void)family;
  HR_TRY(hr_config_flag(config, "no_bias", true, &plain));
  HR_TRY(hr_config_size_derived(config, "expansion_ratio", 4, &ratio));
  if (ratio > HR_MODEL_SIZE_MAX / model->hidden)
    return hr_json_fail(&config->json, "expansion_ratio", HR_ERROR_INVALID, "%" PRId64 " is too large", ratio);
  layer->dense.width = ratio * model->hidden;
  layer->dense.bias = model->norm_bias = !plain;
  hr_config_attention_bias(model, !plain, !plain);
  return read_mpt_attention(config, model);
}
