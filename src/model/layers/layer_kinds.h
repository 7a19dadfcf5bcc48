/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of mixers and feed-forward networks: one row of layer_kinds.c each, and one file that says what the kind
 * adds to a layer. `layer` is the whole layer in check() and parameters(), and elsewhere what one device has of it
 * (hr_shard_layer()). Thread safety: pure functions. */
#ifndef HR_MODEL_LAYERS_LAYER_KINDS_H
#define HR_MODEL_LAYERS_LAYER_KINDS_H

#include "base/checked.h"
#include "model/layers/linears.h"
#include "model/layers/operator_builder.h"

/** Parameters of a layer by part; a kind adds to them. Norms are those inside the kind, not the layer's own. */
typedef struct hr_layer_parameters {
  hr_checked64 attention, scan, mlp, norm, experts;
  hr_checked64 idle_experts; /* of the routed experts, those that a token does not pass */
} hr_layer_parameters;

/** A layer's share of a device in a step. */
typedef struct hr_layer_context {
  const hr_model *model;
  const hr_workload *workload;
  const hr_shard *shard;
  const hr_layer_group *layer;
} hr_layer_context;

typedef struct hr_layer_kind {
  bool is_mixer; /* else a feed-forward network */

  /** Whether the layer has one. The other functions are only called if it has. */
  bool (*present)(const hr_layer_group *layer);

  /** Sizes that do not fit each other; that each is within its range has been checked. */
  hr_status (*check)(const hr_layer_group *layer, hr_error *error);

  void (*parameters)(const hr_model *model, const hr_layer_group *layer, hr_layer_parameters *parameters);

  /** Appends the linear layers that may be quantized; NULL: none may. Their parameters are among those above. */
  void (*linears)(const hr_model *model, const hr_layer_group *layer, hr_linears *linears);

  /** Reduces the sizes to those of the most loaded device. */
  void (*shard)(hr_layer_group *layer, const hr_workload *workload);

  /** Appends the operators of builder->layer, builder->layer->count executions each. */
  void (*operators)(hr_operator_builder *builder);

  /** Bytes that a microbatch keeps for the backward pass, without the norms' and the kind's own hidden-sized input. */
  hr_checked64 (*saved_bytes)(const hr_layer_context *context);

  /** Elements that are live at once in the forward pass, without the residual stream. */
  hr_checked64 (*live_elements)(const hr_layer_context *context);

  /** Elements that a sequence of `tokens` keeps for decoding; a mixer's only. NULL: none. */
  hr_checked64 (*cache_elements)(const hr_layer_group *layer, int64_t tokens);

  /** Bytes of what a sequence keeps whatever its length; NULL: nothing. */
  hr_checked64 (*state_bytes)(const hr_layer_group *layer, const hr_workload *workload);
} hr_layer_kind;

/** The kinds in the order in which a layer runs them, 0 to hr_layer_kind_count() − 1. Static storage. */
size_t hr_layer_kind_count(void);
const hr_layer_kind *hr_layer_kind_at(size_t index); /* see hr_layer_kind_count() */

extern const hr_layer_kind hr_mixer_attention_kind;
extern const hr_layer_kind hr_mixer_latent_kind;
extern const hr_layer_kind hr_mixer_compressed_kind;
extern const hr_layer_kind hr_mixer_scan_kind;
extern const hr_layer_kind hr_ffn_dense_kind;
extern const hr_layer_kind hr_ffn_experts_kind;

/** The attention of latent attention's expanded form: a K and V head for each query head. */
hr_mixer_attention hr_expanded_attention(const hr_mixer_latent *m);

/** The attention of its absorbed form: one K head, which begins with the V head. */
hr_mixer_attention hr_absorbed_attention(const hr_mixer_latent *m);

/** The attention of a compressed mixer: one K head, which is the V head. */
hr_mixer_attention hr_compressed_heads(const hr_mixer_compressed *m);

/** The heads of a layer: of its attention, of the expanded form of its latent attention or of its compressed one; zeros
 *  if it has none. */
hr_mixer_attention hr_heads_of(const hr_layer_group *layer);

/** Mixers of the layer. */
int64_t hr_count_mixers(const hr_layer_group *layer);

/** Whether the layer has a mixer, and whether it has a feed-forward network. */
bool hr_has_mixer(const hr_layer_group *layer);
bool hr_has_ffn(const hr_layer_group *layer); /* see hr_has_mixer() */

/** What the most loaded device has of each layer of the group, with the padding of quantized experts. */
hr_layer_group hr_shard_layer(const hr_model *model, const hr_layer_group *layer, const hr_workload *workload);

/** HR_ERROR_INVALID naming the member if the group's sizes are out of range or do not fit each other. */
hr_status hr_check_layer(const hr_layer_group *layer, hr_error *error);

/** Whether two layers are equal in everything but the count of their groups. */
bool hr_same_layer(const hr_layer_group *a, const hr_layer_group *b);

/** Adds layer->count layers: to the group of equal ones, or as a new group. Returns false if there are
 *  HR_LAYER_GROUPS_MAX groups already. */
bool hr_add_layers(hr_model *model, const hr_layer_group *layer);

#endif
