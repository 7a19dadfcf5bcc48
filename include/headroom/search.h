/* SPDX-License-Identifier: Apache-2.0 */
/* Search for faster shapes near a model. Thread safety: an hr_search_result belongs to one caller. */
#ifndef HEADROOM_SEARCH_H
#define HEADROOM_SEARCH_H

#include <headroom/change.h>
#include <headroom/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_SEARCH_LIMIT_MAX 4096    /* shapes that a search returns */
#define HR_SEARCH_HEAD_SIZES_MAX 16 /* hr_search_options.head_sizes */
#define HR_SEARCH_SERVE_ON_MAX 16   /* hr_search_options.serve_on */

/** Sizes that a search may vary. Enumerator, bit, name. */
#define HR_SEARCH_SIZE_LIST(ROW)                                                                  \
  ROW(HR_SEARCH_HIDDEN, 1, "hidden")                                                              \
  ROW(HR_SEARCH_HEADS, 2, "heads") /* number and size of the query heads; K and V heads follow */ \
  ROW(HR_SEARCH_MLP, 4, "mlp")                                                                    \
  ROW(HR_SEARCH_VOCABULARY, 8, "vocabulary") /* padding */                                        \
  ROW(HR_SEARCH_LAYERS, 16, "layers")                                                             \
  ROW(HR_SEARCH_KV_HEADS, 32, "kv-heads") /* K and V heads apart from the query heads */

typedef enum hr_search_size {
#define HR_SEARCH_SIZE_ENUM(enumerator, bit, name) enumerator = bit,
  HR_SEARCH_SIZE_LIST(HR_SEARCH_SIZE_ENUM)
#undef HR_SEARCH_SIZE_ENUM
} hr_search_size;

/** The bounds of a search. A range of 0, 0 means near the model's own value (docs/search.md), or that value if `vary`
 *  leaves the size out; a minimum equal to the maximum fixes the value. */
typedef struct hr_search_options {
  size_t struct_size; /* sizeof(hr_search_options), set by hr_search_options_default() */
  double
      parameter_band; /* relative; shapes whose parameters, with all experts, differ more are excluded. Default 0.02 */
  int64_t hidden_min, hidden_max, hidden_step; /* step 0: what the device and `serve_on` want (docs/search.md) */
  int64_t layers_min, layers_max;
  int64_t heads_min, heads_max;                   /* query heads */
  int64_t head_dim_min, head_dim_max;             /* of Q and K, multiples of 8; 0, 0: head_sizes instead */
  int64_t mlp_width_min, mlp_width_max, mlp_step; /* of the main layers' MLP or routed experts. Step 0: as for hidden */
  int64_t vocabulary_multiple; /* the vocabulary is padded up to a multiple of this; 0: to several (docs/search.md) */
  int64_t query_heads_per_kv;  /* q_heads / kv_heads to keep; 0: the model's own ratio, or its own K and V heads */
  bool keep_vocabulary;        /* no padding */
  bool require_divisible;      /* heads, widths and vocabulary divisible by t and serve_on, layers by p. Default true */
  size_t limit;                /* maximum number of shapes returned, up to HR_SEARCH_LIMIT_MAX. Default 20 */
  uint64_t evaluations_max;    /* stops after so many shapes; 0: 5,000,000 */
  uint32_t vary;               /* bits of hr_search_size. Default hidden, heads, mlp and vocabulary */
  size_t head_size_count;      /* 0: the model's own size alone */
  int64_t head_sizes[HR_SEARCH_HEAD_SIZES_MAX]; /* of Q and K, beside the model's own. Default 64, 96, 128, 192, 256 */
  size_t serve_on_count; /* 0: 1, 2, 4 and 8, without those over which heads that the search keeps do not spread */
  int64_t serve_on[HR_SEARCH_SERVE_ON_MAX]; /* degrees of tensor parallelism, beside the workload's t, over which every
                                               shape spreads evenly */
  hr_progress_fn progress;
  void *context; /* of `progress`, which may be NULL */
} hr_search_options;

/** The defaults above. */
HR_API void hr_search_options_init(hr_search_options *options, size_t size);
HR_DEFAULT(hr_search_options)

typedef struct hr_search_shape {
  hr_model model;
  int64_t parameters;
  double parameter_change; /* new / old − 1 */
  double step_time_ns;
  double predicted_gain; /* old time / new time − 1 */
  bool pareto;           /* on the Pareto front: no shape tried is faster and larger, without vocabulary padding */
  double cache_change;   /* of the KV cache's bytes per token, new / old − 1; 0 if there is none */
  char differs[320];     /* from the model: "MLP 14336 → 14848, vocabulary +768"; empty: in nothing */
  hr_change_class change_class; /* of what differs; HR_CHANGE_FREE if nothing does */
} hr_search_shape;

typedef struct hr_search_result {
  uint64_t evaluated;  /* shapes predicted */
  bool complete;       /* false: stopped by the limit or by the caller */
  double base_time_ns; /* of the original model */
  int64_t base_parameters;
  size_t count;
  hr_search_shape *shapes; /* fastest first, none slower than the model; owned by the result */
  uint32_t varied;         /* bits of hr_search_size: sizes with more than one value */
  size_t served_count;
  int64_t served[HR_SEARCH_SERVE_ON_MAX + 1]; /* t over which every shape spreads, ascending; none if uneven ones are
                                                 allowed */
  size_t unserved_count;
  int64_t unserved_on[HR_SEARCH_SERVE_ON_MAX]; /* default degrees over which the heads that were kept do not spread */
  bool has_free;                               /* padding the vocabulary and the MLP alone makes the model faster */
  hr_search_shape free; /* the model with the padding that gains most; it may not spread over `served` */
  uint64_t unserved;    /* combinations of hidden size and heads left out since they do not spread over these */
} hr_search_result;

/** "hidden", "heads", …; "unknown" for another value. Static storage. */
HR_API const char *hr_search_size_name(hr_search_size size);

/** Searches the sizes of `vary`; latent attention keeps its heads and ranks. Where the main layers
 *  (hr_model_main_group()) have experts, the MLP width is that of each routed one. Other widths follow in proportion,
 *  rounded to mlp_step. Deterministic: the same input gives the same result. `progress` may be NULL; if it stops the
 *  search, the function returns HR_OK with complete = false.
 *  On HR_OK the caller owns *result and frees it with hr_search_result_free(). Errors of hr_predict_step(),
 *  HR_ERROR_INVALID for impossible bounds, HR_ERROR_UNSUPPORTED for layers that a search cannot vary (no attention,
 *  main layers without a feed-forward network), HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_search(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                           const hr_search_options *options, hr_search_result **result, hr_error *error);

/** Frees a result; NULL is allowed. */
HR_API void hr_search_result_free(hr_search_result *result);

#ifdef __cplusplus
}
#endif
#endif
