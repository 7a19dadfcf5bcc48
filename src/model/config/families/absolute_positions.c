/* SPDX-License-Identifier: Apache-2.0 */
/* Families whose positions are added to the embedding, or to the scores (MPT). */
#include "model/config/families.h"

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

/* Fields of MPT's own code that transformers ignores: the two disagree on every value but the usual one. */
static hr_status check_mpt_attention(hr_config *config)
{
  hr_json_reader inner = config->json;
  hr_config_mark(config, "attn_config");
  inner.object = json_object_get(config->json.object, "attn_config");
  inner.path = "attn_config.";
  const char *kind;
  HR_TRY(hr_json_string_or(&inner, "attn_type", "multihead_attention", &kind));
  if (strcmp(kind, "multihead_attention") != 0)
    return hr_json_fail(&inner, "attn_type", HR_ERROR_UNSUPPORTED, "only \"multihead_attention\" is supported");
  HR_TRY(refuse_unless(&inner, "alibi", true, true));
  return refuse_unless(&inner, "qk_ln", false, false);
}

hr_status hr_finish_mpt(hr_config *config, const hr_family *family, hr_model *model)
{
  int64_t ratio;
  (void)family;
  hr_config_mark(config, "no_bias");
  hr_config_mark(config, "learned_pos_emb"); /* of models without ALiBi */
  HR_TRY(refuse_unless(&config->json, "no_bias", true, true));
  HR_TRY(hr_config_size_derived(config, "expansion_ratio", 4, &ratio));
  if (ratio != 4)
    return hr_json_fail(&config->json, "expansion_ratio", HR_ERROR_UNSUPPORTED, "only 4 is supported");
  model->groups[0].dense.width = 4 * model->hidden;
  return check_mpt_attention(config);
}
