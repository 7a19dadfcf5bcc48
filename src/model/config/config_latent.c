/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the sizes of latent attention. */
#include "model/config/families.h"

#include <inttypes.h>

/* A missing rank of Q is the family's, if it has one; a null one means that Q is one linear layer. */
static hr_status read_q_rank(hr_config *config, int64_t fallback, hr_mixer_latent *latent)
{
  if (!hr_config_present(config, "q_lora_rank") && fallback > 0)
    return hr_config_size_or(config, "q_lora_rank", fallback, &latent->q_rank);
  return hr_config_size_derived(config, "q_lora_rank", 0, &latent->q_rank);
}

static hr_status read_v_dim(hr_config *config, int64_t fallback, const hr_model *model, hr_mixer_latent *latent)
{
  if (fallback > 0 || hr_json_has(&config->json, "v_head_dim"))
    return hr_config_size_or(config, "v_head_dim", fallback, &latent->v_dim);
  if (model->hidden % latent->q_heads != 0)
    return hr_json_fail(&config->json, "v_head_dim", HR_ERROR_INVALID,
                        "is missing, and hidden_size, %" PRId64 ", is not a multiple of num_attention_heads, %" PRId64,
                        model->hidden, latent->q_heads);
  return hr_config_size_derived(config, "v_head_dim", model->hidden / latent->q_heads, &latent->v_dim);
}

/* Both names may be given if they agree. */
static hr_status read_rope_dim(hr_config *config, const hr_latent_sizes *missing, hr_mixer_latent *latent)
{
  const char *field = "qk_rope_head_dim", *other = "head_dim";
  hr_config_mark(config, other);
  if (!missing->head_dim || !hr_json_has(&config->json, other))
    return hr_config_size_or(config, field, missing->rope_dim, &latent->rope_dim);
  HR_TRY(hr_config_size(config, other, NULL, &latent->rope_dim));
  int64_t own;
  HR_TRY(hr_config_size_derived(config, field, latent->rope_dim, &own));
  if (own == latent->rope_dim)
    return HR_OK;
  return hr_json_fail(&config->json, other, HR_ERROR_INVALID, "%" PRId64 " is not qk_rope_head_dim, %" PRId64,
                      latent->rope_dim, own);
}

/* Every query head has its own part of the maps to K and V. */
static hr_status note_kv_heads(hr_config *config, int64_t q_heads)
{
  int64_t kv_heads;
  HR_TRY(hr_config_size_derived(config, "num_key_value_heads", q_heads, &kv_heads));
  if (kv_heads != q_heads)
    hr_config_note(config,
                   "num_key_value_heads: %" PRId64 " is ignored: latent attention has %" PRId64 " K and V heads",
                   kv_heads, q_heads);
  return HR_OK;
}

hr_status hr_config_latent(hr_config *config, const hr_latent_sizes *missing, hr_model *model)
{
  hr_mixer_latent *latent = &model->groups[0].latent;
  *latent = (hr_mixer_latent){.q_heads = model->groups[0].attention.q_heads};
  model->groups[0].attention.q_heads = 0;
  hr_config_mark(config, "qk_head_dim"); /* the sum of its parts */
  HR_TRY(note_kv_heads(config, latent->q_heads));
  HR_TRY(read_q_rank(config, missing->q_rank, latent));
  HR_TRY(hr_config_size_or(config, "kv_lora_rank", missing->kv_rank, &latent->kv_rank));
  HR_TRY(hr_config_size_or(config, "qk_nope_head_dim", missing->nope_dim, &latent->nope_dim));
  HR_TRY(read_rope_dim(config, missing, latent));
  HR_TRY(read_v_dim(config, missing->v_dim, model, latent));
  HR_TRY(hr_config_flag(config, "attention_bias", false, &latent->down_bias));
  latent->output_bias = latent->down_bias;
  return HR_OK;
}
