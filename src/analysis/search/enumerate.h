/* SPDX-License-Identifier: Apache-2.0 */
/* Enumerates the search space and collects the best shapes. */
#ifndef HR_ANALYSIS_SEARCH_ENUMERATE_H
#define HR_ANALYSIS_SEARCH_ENUMERATE_H

#include "analysis/search/candidates.h"
#include "analysis/search/heads.h"
#include "analysis/search/layers.h"

#define HR_SEARCH_MLP_CACHE 4096

/** A cached time of the MLP part at one hidden size; the latest width and kind that map to an entry replace it. */
typedef struct hr_search_mlp_time {
  int64_t key; /* width and kind; 0: none */
  double time_ns;
} hr_search_mlp_time;

/** A search: its input (space, predictor, evaluations_max, progress), its results and its caches. Zeroed before use. */
typedef struct hr_search_state {
  hr_search_space space;
  hr_search_predictor predictor;
  uint64_t evaluations_max;
  hr_progress_fn progress; /* may be NULL */
  void *context;

  hr_search_front front;
  hr_search_pool pool;
  uint64_t evaluated;
  bool stopped; /* by the limit or by the caller */

  hr_search_layouts layouts; /* at the current hidden size */
  hr_search_mlp_kinds mlp_kinds;
  hr_search_mlp_time mlp_cache[HR_SEARCH_MLP_CACHE];
  double outside_ns[HR_SEARCH_VOCABULARIES_MAX]; /* at the current hidden size */
  double layer_runs;                             /* hr_search_layer_runs() */
  uint64_t work;
  double done; /* share of the hidden sizes enumerated */
} hr_search_state;

/** Evaluates every shape of the space until it is stopped. */
void hr_search_enumerate(hr_search_state *state);

#endif
