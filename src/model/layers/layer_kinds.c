/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kinds, and what is done to a layer for all of them. */
#include "model/layers/layer_kinds.h"

#include "base/error.h"
#include "model/layers/sizes.h"
#include "model/layers/split_rules.h"

#include <inttypes.h>
#include <string.h>

static const hr_layer_kind *const kinds[] = {
    &hr_mixer_attention_kind, &hr_mixer_latent_kind, &hr_mixer_compressed_kind,
    &hr_mixer_scan_kind,      &hr_ffn_dense_kind,    &hr_ffn_experts_kind,
};

size_t hr_layer_kind_count(void)
{
  return sizeof kinds / sizeof *kinds;
}

const hr_layer_kind *hr_layer_kind_at(size_t index)
{
  return kinds[index];
}

static int64_t count_of(const hr_layer_group *layer, bool mixers)
{
  int64_t count = 0;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    count += kinds[i]->is_mixer == mixers && kinds[i]->present(layer);
  return count;
}

int64_t hr_count_mixers(const hr_layer_group *layer)
{
  return count_of(layer, true);
}

bool hr_has_mixer(const hr_layer_group *layer)
{
  return count_of(layer, true) > 0;
}

bool hr_has_ffn(const hr_layer_group *layer)
{
  return count_of(layer, false) > 0;
}

hr_mixer_attention hr_heads_of(const hr_layer_group *layer)
{
  if (layer->compressed.q_heads > 0)
    return hr_compressed_heads(&layer->compressed);
  return layer->latent.q_heads > 0 ? hr_expanded_attention(&layer->latent) : layer->attention;
}

hr_layer_group hr_shard_layer(const hr_model *model, const hr_layer_group *layer, const hr_workload *workload)
{
  hr_layer_group share = *layer;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (kinds[i]->present(layer))
      kinds[i]->shard(&share, workload);
  }
  if (workload->phase != HR_PHASE_TRAIN && share.experts.width > 0)
    share.experts.width = hr_padded_expert_width(model, layer, share.experts.width);
  return share;
}

/* ---- members ---- */

/* Every size of a layer; none may be negative. */
#define SIZE(member)                          \
  {                                           \
#member, offsetof(hr_layer_group, member) \
  }
static const struct {
  const char *name;
  size_t offset;
} sizes[] = {
    SIZE(norms),
    SIZE(attention.q_heads),
    SIZE(attention.k_heads),
    SIZE(attention.v_heads),
    SIZE(attention.qk_dim),
    SIZE(attention.v_dim),
    SIZE(attention.q_rank),
    SIZE(attention.window),
    SIZE(attention.rotary_dim),
    SIZE(attention.index_topk),
    SIZE(attention.index_block),
    SIZE(attention.index_dim),
    SIZE(latent.q_heads),
    SIZE(latent.q_rank),
    SIZE(latent.kv_rank),
    SIZE(latent.nope_dim),
    SIZE(latent.rope_dim),
    SIZE(latent.v_dim),
    SIZE(latent.index_topk),
    SIZE(latent.index_heads),
    SIZE(latent.index_dim),
    SIZE(compressed.q_heads),
    SIZE(compressed.head_dim),
    SIZE(compressed.rope_dim),
    SIZE(compressed.q_rank),
    SIZE(compressed.window),
    SIZE(compressed.ratio),
    SIZE(compressed.index_topk),
    SIZE(compressed.index_heads),
    SIZE(compressed.index_dim),
    SIZE(compressed.o_groups),
    SIZE(compressed.o_rank),
    SIZE(scan.heads),
    SIZE(scan.head_dim),
    SIZE(scan.groups),
    SIZE(scan.state),
    SIZE(scan.kernel),
    SIZE(scan.rank),
    SIZE(scan.chunk),
    SIZE(dense.width),
    SIZE(dense.activation_parameters),
    SIZE(experts.experts),
    SIZE(experts.active),
    SIZE(experts.width),
    SIZE(experts.groups),
    SIZE(experts.active_groups),
    SIZE(experts.shared_width),
    SIZE(experts.latent),
    SIZE(experts.held),
};
#undef SIZE

/* Every choice of a layer. */
#define CHOICE(member)                                                      \
  {                                                                         \
    offsetof(hr_layer_group, member), sizeof(((hr_layer_group *)0)->member) \
  }
static const struct {
  size_t offset, size;
} choices[] = {
    CHOICE(parallel_block),
    CHOICE(norms_behind),
    CHOICE(attention.window_kind),
    CHOICE(attention.qk_norm),
    CHOICE(attention.qk_norm_bias),
    CHOICE(attention.q_bias),
    CHOICE(attention.k_bias),
    CHOICE(attention.v_bias),
    CHOICE(attention.output_bias),
    CHOICE(attention.output_gate),
    CHOICE(attention.gate_per_head),
    CHOICE(attention.gate_unbiased),
    CHOICE(attention.sinks),
    CHOICE(attention.shared_kv),
    CHOICE(attention.shared_k_norm),
    CHOICE(attention.v_is_k),
    CHOICE(latent.down_bias),
    CHOICE(latent.output_bias),
    CHOICE(compressed.overlaps),
    CHOICE(scan.recurrence),
    CHOICE(scan.in_bias),
    CHOICE(scan.out_bias),
    CHOICE(scan.conv_bias),
    CHOICE(scan.norm),
    CHOICE(scan.norm_weight),
    CHOICE(dense.gated),
    CHOICE(dense.bias),
    CHOICE(experts.gated),
    CHOICE(experts.bias),
    CHOICE(experts.shared_bias),
    CHOICE(experts.latent_bias),
    CHOICE(experts.router_bias),
    CHOICE(experts.shared_gate),
    CHOICE(experts.output_norm),
    CHOICE(formats),
};
#undef CHOICE

static int64_t size_at(const hr_layer_group *layer, size_t offset)
{
  int64_t value;
  memcpy(&value, (const char *)layer + offset, sizeof value);
  return value;
}

bool hr_same_layer(const hr_layer_group *a, const hr_layer_group *b)
{
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (size_at(a, sizes[i].offset) != size_at(b, sizes[i].offset))
      return false;
  }
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
    if (memcmp((const char *)a + choices[i].offset, (const char *)b + choices[i].offset, choices[i].size) != 0)
      return false;
  }
  return true;
}

static void set_order(hr_model *model, int64_t first, int64_t count, size_t group)
{
  for (int64_t i = first; i < first + count && i < HR_LAYER_ORDER_MAX; i++)
    model->order[i] = (uint8_t)group;
}

bool hr_add_layers(hr_model *model, const hr_layer_group *layer)
{
  int64_t first = 0;
  for (size_t i = 0; i < model->group_count; i++)
    first += model->groups[i].count;
  for (size_t i = 0; i < model->group_count; i++) {
    if (hr_same_layer(&model->groups[i], layer)) {
      set_order(model, first, layer->count, i);
      model->groups[i].count += layer->count;
      return true;
    }
  }
  if (model->group_count == HR_LAYER_GROUPS_MAX)
    return false;
  set_order(model, first, layer->count, model->group_count);
  model->groups[model->group_count++] = *layer;
  return true;
}

hr_status hr_check_layer(const hr_layer_group *layer, hr_error *error)
{
  HR_TRY(hr_check_range("count", layer->count, 1, error));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    HR_TRY(hr_check_range(sizes[i].name, size_at(layer, sizes[i].offset), 0, error));
  HR_TRY(hr_check_at_most("norms", layer->norms, "the most a layer can have", 8, error));
  if (!hr_has_mixer(layer) && !hr_has_ffn(layer))
    return hr_fail(error, HR_ERROR_INVALID,
                   "has neither a mixer (attention.q_heads, latent.q_heads, compressed.q_heads, scan.heads) nor a "
                   "feed-forward network (dense.width, experts.experts)");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (kinds[i]->present(layer))
      HR_TRY(kinds[i]->check(layer, error));
  }
  return HR_OK;
}
