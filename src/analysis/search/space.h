/* SPDX-License-Identifier: Apache-2.0 */
/* The search space: bounds with all defaults filled in, and the model of a point. */
#ifndef HR_ANALYSIS_SEARCH_SPACE_H
#define HR_ANALYSIS_SEARCH_SPACE_H

#include "model/reshape/reshape.h"

#include <headroom/search.h>

/** The heads of the main layers: all that a search tries at a hidden size follows from these. */
typedef struct hr_search_layout {
  int64_t q_heads, head_dim, k_heads;
  hr_width_ratio width; /* of all heads together, to the model's */
  hr_kv_follow follow;  /* HR_KV_EQUAL: k_heads were chosen by themselves */
} hr_search_layout;

/** A shape as the sizes that the search varies. */
typedef struct hr_search_point {
  double time_ns;
  int64_t parameters;
  int64_t useful; /* parameters without the rows that pad the vocabulary */
  hr_search_layout heads;
  int64_t hidden, layers, vocabulary;
  int64_t mlp_width; /* see hr_main_mlp_width() */
} hr_search_point;

#define HR_SEARCH_HIDDEN_MAX 4096
#define HR_SEARCH_VOCABULARIES_MAX 4
#define HR_SEARCH_HEAD_DIMS_MAX 1024

/** The different widths of feed-forward networks in the model. The first is that which a search varies
 *  (hr_main_mlp_width()); the others follow it. */
typedef struct hr_search_widths {
  size_t count;
  int64_t own[HR_LAYER_GROUPS_MAX * HR_FFN_PARTS];
  bool split[HR_LAYER_GROUPS_MAX * HR_FFN_PARTS]; /* tensor-parallel devices share it */
  size_t of[HR_LAYER_GROUPS_MAX][HR_FFN_PARTS];   /* the width of each part that a group has */
} hr_search_widths;

/** Bounds, all set and inclusive. */
typedef struct hr_search_space {
  const hr_model *model;
  const hr_workload *workload;
  int64_t parameters, parameters_min, parameters_max; /* of the model; limits of the band */
  size_t hidden_count;
  int64_t hidden[HR_SEARCH_HIDDEN_MAX]; /* nearest to the model's own first */
  int64_t layers_min, layers_max, layers_step;
  int64_t heads_min, heads_max;
  size_t head_dim_count;
  int64_t head_dims[HR_SEARCH_HEAD_DIMS_MAX]; /* ascending, with the model's own */
  int64_t mlp_min, mlp_max, mlp_step;         /* min or max 0: in proportion to hidden, see hr_search_mlp_bounds() */
  hr_search_widths widths;
  size_t vocabulary_count;
  int64_t vocabularies[HR_SEARCH_VOCABULARIES_MAX];
  int64_t query_heads_per_kv; /* 0: the model's own ratio, or its own K and V heads */
  bool varies_kv_heads;       /* and any other number that divides the query heads */
  bool frees_width;           /* also heads that together are as wide as the model's at another hidden size, and as
                                 many heads as the model's of another size */
  bool require_divisible;
  size_t served_count;
  int64_t
      served[HR_SEARCH_SERVE_ON_MAX + 1]; /* degrees of tensor parallelism that every shape spreads over, ascending */
  size_t unserved_count;
  int64_t unserved_on[HR_SEARCH_SERVE_ON_MAX]; /* see hr_search_result */
  int64_t share;                               /* least common multiple of these; 1 if uneven shapes are allowed */
  int64_t granule, block;                      /* hr_search_granule(), hr_search_block() */
  int64_t width_unit;                          /* of a split width: whole blocks on each device of all degrees */
} hr_search_space;

/** Fills the bounds. HR_ERROR_INVALID names the invalid option; HR_ERROR_UNSUPPORTED says why the model's layers cannot
 *  be searched. Keeps pointers to `model` and `workload`. */
hr_status hr_search_space_make(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                               const hr_search_options *options, hr_search_space *space, hr_error *error);

/** Width number `index` of space->widths where the first one is `width`. */
int64_t hr_search_width(const hr_search_space *space, size_t index, int64_t width);

/** Whether the constraints allow this MLP width and those that follow it. */
bool hr_search_width_fits(const hr_search_space *space, int64_t width);

/** The MLP widths allowed at a hidden size. */
void hr_search_mlp_bounds(const hr_search_space *space, int64_t hidden, int64_t *least, int64_t *most);

/** The sizes that have more than one value, or another than the model's: bits of hr_search_size. */
uint32_t hr_search_varied(const hr_search_space *space);

/** The model of a point. */
hr_model hr_search_model(const hr_search_space *space, const hr_search_point *point);

#endif
