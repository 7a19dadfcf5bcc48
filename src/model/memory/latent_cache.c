/* SPDX-License-Identifier: Apache-2.0 */
/* The KV cache of latent attention beside those of the attention that it replaces. */
#include <headroom/experimental/memory.h>

#include "base/error.h"
#include "base/struct_size.h"
#include "model/memory/activation_memory.h"

/* Llama 3, Mistral, Qwen 2.5 and others have so many. */
#define KV_HEADS_USUAL 8

static int64_t grouped_heads(const hr_mixer_latent *m)
{
  return hr_divisor_at_min(m->q_heads, hr_min64(KV_HEADS_USUAL, m->q_heads));
}

/* The model with K and V heads instead of latents: one for each query head, or shared by groups of query heads. */
static hr_model with_heads(const hr_model *model, bool grouped)
{
  hr_model changed = *model;
  for (size_t i = 0; i < changed.group_count; i++) {
    hr_layer_group *layer = &changed.groups[i];
    if (layer->latent.q_heads == 0)
      continue;
    layer->attention = hr_expanded_attention(&layer->latent);
    if (grouped)
      layer->attention.k_heads = layer->attention.v_heads = grouped_heads(&layer->latent);
    layer->latent.q_heads = 0;
  }
  return changed;
}

/* The first layers that have latent attention decide. */
static int64_t kv_heads_of(const hr_model *model)
{
  for (size_t i = 0; i < model->group_count; i++) {
    if (model->groups[i].latent.q_heads > 0)
      return grouped_heads(&model->groups[i].latent);
  }
  return 0;
}

hr_status hr_memory_latent_cache(const hr_model *model, const hr_workload *workload, hr_latent_cache *cache,
                                 hr_error *error)
{
  HR_NEED(error, model, workload, cache);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  HR_TRY(hr_model_check(model, error));
  HR_TRY(hr_workload_check(workload, model, error));
  const hr_model multi_head = with_heads(model, false), grouped = with_heads(model, true);
  hr_latent_cache result = {.kv_heads = kv_heads_of(model)};
  if (hr_checked_take(hr_cache_bytes_per_token(model, workload), &result.bytes_per_token) != HR_OK ||
      hr_checked_take(hr_cache_bytes_per_token(&multi_head, workload), &result.multi_head_bytes_per_token) != HR_OK ||
      hr_checked_take(hr_cache_bytes_per_token(&grouped, workload), &result.grouped_query_bytes_per_token) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the bytes of a token's keys and values do not fit into 63 bits");
  *cache = result;
  return HR_OK;
}
