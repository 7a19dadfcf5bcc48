/* SPDX-License-Identifier: Apache-2.0 */
/* Changes a model's shape together with the sizes that depend on the change. Where a model has several groups of
 * layers, a change is stated for the main group (hr_model_main_group()), and the others follow in proportion. */
#ifndef HR_MODEL_RESHAPE_RESHAPE_H
#define HR_MODEL_RESHAPE_RESHAPE_H

#include <headroom/model.h>

/** The main group's attention and dense feed-forward network: all zeros where it has none. */
const hr_mixer_attention *hr_main_attention(const hr_model *model);
const hr_ffn_dense *hr_main_dense(const hr_model *model); /* see hr_main_attention() */

/** The model with another hidden size and number of query heads.
 *
 *  These ratios are kept: q_heads · qk_dim to hidden, v_dim to qk_dim, K and V heads to query heads (a single K or V
 *  head stays single), rotary_dim to qk_dim (rounded down to an even number), q_rank to hidden (rounded to a multiple
 *  of 64), the query heads of other groups to those of the main group. Layers and feed-forward widths stay. Returns
 *  false and leaves *changed untouched if a head size or head count would not be an integer, or if the model has no
 *  attention. `hidden` and `q_heads` are positive. */
bool hr_reshape_heads(const hr_model *model, int64_t hidden, int64_t q_heads, hr_model *changed);

/** What the number of K and V heads becomes when that of the query heads changes. */
typedef enum hr_kv_follow {
  HR_KV_RATIO, /* as many query heads to each as before; a single head stays single */
  HR_KV_COUNT, /* as many as before */
  HR_KV_EQUAL  /* as many as query heads */
} hr_kv_follow;

/** The new width of all heads together over the present one. */
typedef struct hr_width_ratio {
  int64_t after, before;
} hr_width_ratio;

/** hr_reshape_heads() for which the caller chooses how K and V heads follow, and how wide all heads together become:
 *  q_heads · qk_dim, and q_rank with it. */
bool hr_reshape_attention(const hr_model *model, int64_t hidden, hr_width_ratio width, int64_t q_heads,
                          hr_kv_follow follow, hr_model *changed);

/** The model with another number of layers: each group's share is kept, rounded; a group that is left without layers
 *  goes. */
hr_model hr_reshape_layers(const hr_model *model, int64_t layers);

/** Gives recurrent mixers whose channels follow hidden (hr_scan_follows_hidden()) as many heads for each element of
 *  hidden as `own` has; the rank of Mamba-1's step sizes follows. `model` is `own` with another hidden size. Returns
 *  false and leaves *model untouched if heads, or heads of a group, would not be integers. */
bool hr_reshape_scans(const hr_model *own, hr_model *model);

/** Gives every group with attention k_heads and v_heads, in proportion to its query heads where they differ from the
 *  main group's. Returns false and leaves *model untouched if a group's heads would not be integers that divide its
 *  query heads. */
bool hr_set_kv_heads(hr_model *model, int64_t k_heads, int64_t v_heads);

/** Halves the size of Q and K heads in every group with attention, and their rotary part with it; V keeps its size.
 *  Returns false and leaves *model untouched if a size is odd. */
bool hr_halve_k_heads(hr_model *model);

/** The parts of a layer's feed-forward network that have a width of their own. */
typedef enum hr_ffn_part {
  HR_FFN_DENSE,
  HR_FFN_EXPERTS, /* each routed expert */
  HR_FFN_SHARED,  /* all shared experts together */
  HR_FFN_PARTS
} hr_ffn_part;

/** The width of a part; 0 if the layer has none. */
int64_t hr_ffn_width(const hr_layer_group *layer, hr_ffn_part part);

/** The width that changes are stated for: that of the main group's routed experts, or of its dense feed-forward
 *  network; 0 if it has neither. */
int64_t hr_main_mlp_width(const hr_model *model);

/** What a width becomes when the main width goes from `main` to `width`: its share of it, rounded to the nearest
 *  multiple of `granule`, at least one. One equal to the main one stays equal, and all stay if the main one does. */
int64_t hr_scale_mlp_width(int64_t own, int64_t main, int64_t width, int64_t granule);

/** Gives the main group's feed-forward network `width`, and all others theirs by hr_scale_mlp_width(). Counts of
 *  experts stay. Changes nothing if the main group has none. */
void hr_set_mlp_width(hr_model *model, int64_t width, int64_t granule);

#endif
