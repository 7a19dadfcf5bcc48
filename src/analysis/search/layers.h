/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a shape: parameters and times of a layer of each group, and their mixture at a depth. Both are sums
 * over the layers, so each is determined once for a group and is exact at every depth. */
#ifndef HR_ANALYSIS_SEARCH_LAYERS_H
#define HR_ANALYSIS_SEARCH_LAYERS_H

#include "analysis/search/space.h"
#include "analysis/search/step_time.h"

/** The groups of layers by their MLP part, which is the same in groups that differ in attention alone. */
typedef struct hr_search_mlp_kinds {
  size_t count;
  size_t group[HR_LAYER_GROUPS_MAX]; /* the first group of each kind */
  size_t of[HR_LAYER_GROUPS_MAX];    /* the kind of each group */
} hr_search_mlp_kinds;

void hr_search_find_mlp_kinds(const hr_model *model, hr_search_mlp_kinds *kinds);

/** A layer of a group: its parameters are layer + Σ column · width of that part. */
typedef struct hr_search_layer {
  int64_t layer, column[HR_FFN_PARTS];
  double attention_ns; /* the attention part of its time */
} hr_search_layer;

/** A hidden size with its heads, and what does not depend on the number of layers and the MLP width. */
typedef struct hr_search_heads {
  hr_search_layout layout;
  hr_model model; /* restored by every function that changes it */
  int64_t fixed;  /* parameters outside of layers with the model's own vocabulary */
  int64_t fixed_with[HR_SEARCH_VOCABULARIES_MAX];
  hr_search_layer groups[HR_LAYER_GROUPS_MAX];
} hr_search_heads;

/** Fills everything but the model. False if it cannot be predicted or counted. */
bool hr_search_fit_heads(hr_search_predictor *predictor, const hr_search_space *space, hr_search_heads *heads);

/** Time of the MLP part of a layer of this group with another MLP width, in ns; negative if it cannot be predicted. */
double hr_search_mlp_ns(hr_search_predictor *predictor, const hr_search_space *space, hr_search_heads *heads,
                        size_t group, int64_t width);

/** The parameters of the smallest and of the largest layer with an MLP width between these, or somewhat less and
 *  more. */
void hr_search_layer_bounds(const hr_search_space *space, const hr_search_heads *heads, int64_t min_width,
                            int64_t max_width, double *smallest, double *largest);

/** A number of layers, and what does not depend on the MLP width. */
typedef struct hr_search_depth {
  int64_t layers;
  int64_t layer;                                      /* parameters of all layers are layer + Σ column · width */
  int64_t column[HR_LAYER_GROUPS_MAX * HR_FFN_PARTS]; /* of each width of space->widths */
  double attention_ns;                                /* of a layer, the mean of all */
  double mlp_share[HR_LAYER_GROUPS_MAX];              /* share of the layers with each kind of MLP */
} hr_search_depth;

/** Mixes so many layers. False if none has an MLP of the width that is searched, or the parameters overflow. */
bool hr_search_mix_layers(const hr_search_space *space, const hr_search_heads *heads, const hr_search_mlp_kinds *kinds,
                          int64_t layers, hr_search_depth *depth);

/** The MLP widths that can have between `least` and `most` parameters in all layers: bounds that may be too wide. */
void hr_search_solve_widths(const hr_search_space *space, const hr_search_depth *depth, double least, double most,
                            double *narrowest, double *widest);

/** Exact parameters of all layers with this MLP width, and of so many outside of layers; false if they overflow. */
bool hr_search_count(const hr_search_space *space, const hr_search_depth *depth, int64_t width, int64_t outside,
                     int64_t *parameters);

#endif
