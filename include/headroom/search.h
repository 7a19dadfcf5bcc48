/* SPDX-License-Identifier: Apache-2.0 */
/* Search for faster shapes near a model. Thread safety: an hr_search_result belongs to one caller. */
#ifndef HEADROOM_SEARCH_H
#define HEADROOM_SEARCH_H

#include <headroom/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_SEARCH_LIMIT_MAX 4096 /* shapes that a search returns */

/** The bounds of a search. A range of 0, 0 means near the model's own value (docs/search.md); a minimum equal to the
 *  maximum fixes the value. */
typedef struct hr_search_options {
  size_t struct_size; /* sizeof(hr_search_options), set by hr_search_options_default() */
  double
      parameter_band; /* relative; shapes whose parameters, with all experts, differ more are excluded. Default 0.02 */
  int64_t hidden_min, hidden_max, hidden_step; /* step 0: 64 · t, or 8 · t if 64 · t leaves too few */
  int64_t layers_min, layers_max;
  int64_t heads_min, heads_max;                   /* query heads */
  int64_t head_dim_min, head_dim_max;             /* of Q and K; default 64 … 128, and the model's own */
  int64_t mlp_width_min, mlp_width_max, mlp_step; /* of the main layers' MLP or routed experts. Step 0: as for hidden */
  int64_t vocabulary_multiple; /* the vocabulary is padded up to a multiple of this; 0: tries 1, 64 · t and 128 · t */
  int64_t query_heads_per_kv;  /* q_heads / kv_heads to keep; 0: the model's own ratio */
  bool keep_vocabulary;        /* no padding */
  bool require_divisible;      /* heads, hidden and MLP width divisible by t, layers by p. Default true */
  size_t limit;                /* maximum number of shapes returned, up to HR_SEARCH_LIMIT_MAX. Default 20 */
  uint64_t evaluations_max;    /* stops after so many shapes; 0: 5,000,000 */
} hr_search_options;

/** The defaults above. */
HR_API hr_search_options hr_search_options_default(void);

typedef struct hr_search_shape {
  hr_model model;
  int64_t parameters;
  double parameter_change; /* new / old − 1 */
  double step_time_ns;
  double predicted_gain; /* old time / new time − 1 */
  bool pareto;           /* on the Pareto front: no shape tried is faster and larger, without vocabulary padding */
} hr_search_shape;

typedef struct hr_search_result {
  uint64_t evaluated;  /* shapes predicted */
  bool complete;       /* false: stopped by the limit or by the caller */
  double base_time_ns; /* of the original model */
  int64_t base_parameters;
  size_t count;
  hr_search_shape *shapes; /* fastest first, none slower than the model; owned by the result */
} hr_search_result;

/** Searches hidden, heads, MLP width, vocabulary padding and layers; latent attention keeps its heads and ranks. Where
 *  the main layers (hr_model_main_group()) have experts, the MLP width is that of each routed one. Other widths follow
 *  in proportion, rounded to mlp_step. Deterministic: the same input gives the same result. `progress` may be NULL; if
 *  it stops the search, the function returns HR_OK with complete = false.
 *  On HR_OK the caller owns *result and frees it with hr_search_result_free(). Errors of hr_predict_step(),
 *  HR_ERROR_INVALID for impossible bounds, HR_ERROR_UNSUPPORTED for layers that a search cannot vary (no attention,
 *  main layers without a feed-forward network), HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_search(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                           const hr_search_options *options, hr_progress_fn progress, void *context,
                           hr_search_result **result, hr_error *error);

/** Frees a result; NULL is allowed. */
HR_API void hr_search_result_free(hr_search_result *result);

#ifdef __cplusplus
}
#endif
#endif
