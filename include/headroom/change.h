/* SPDX-License-Identifier: Apache-2.0 */
/* What a change of a model's shape or of its workload costs beside time and parameters.
 *
 * Thread safety: pure functions. */
#ifndef HEADROOM_CHANGE_H
#define HEADROOM_CHANGE_H

#include <headroom/workload.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Cheapest first. */
typedef enum hr_change_class {
  HR_CHANGE_FREE,   /* the same weights on the same devices give the same results */
  HR_CHANGE_DEPLOY, /* the same weights; latency, the work at hand or the number of devices changes */
  HR_CHANGE_RETRAIN /* new weights, whose quality has to be checked */
} hr_change_class;

#define HR_CHANGE_CLASS_COUNT 3

/** What can change, cheapest first. */
typedef enum hr_changed {
  HR_CHANGED_ATTENTION,   /* fused or not */
  HR_CHANGED_VOCABULARY,  /* padded */
  HR_CHANGED_MLP_PADDING, /* a wider MLP, also of experts */
  HR_CHANGED_RECOMPUTE,
  HR_CHANGED_SHARING,      /* of norms over t (sequence_parallel), of states between replicas (zero_stage) */
  HR_CHANGED_MICROBATCH,   /* of a training step */
  HR_CHANGED_BATCH,        /* of any other step */
  HR_CHANGED_SEQUENCE,     /* its length, or the context of a decode step */
  HR_CHANGED_MICROBATCHES, /* their number in a step */
  HR_CHANGED_DATA_PARALLEL,
  HR_CHANGED_CONTEXT_PARALLEL,
  HR_CHANGED_EXPERT_PARALLEL,
  HR_CHANGED_PIPELINE_STAGES,
  HR_CHANGED_TENSOR_PARALLEL,
  HR_CHANGED_MLP_WIDTH, /* a narrower one */
  HR_CHANGED_HEADS,     /* number or size of query heads */
  HR_CHANGED_KV_HEADS,  /* V heads, alone or with K heads, for the same query heads */
  HR_CHANGED_K_HEADS,   /* K heads for the same query and V heads (DiffQKV) */
  HR_CHANGED_K_SIZE,    /* size of K heads, and of Q with it, for the same heads and the same V (DiffQKV) */
  HR_CHANGED_PARALLEL_LAYERS,
  HR_CHANGED_LAYERS,
  HR_CHANGED_HIDDEN,
  HR_CHANGED_OTHER, /* anything else that is weights: a smaller vocabulary, another mixer, other experts */
  HR_CHANGED_COUNT
} hr_changed;

/** "free", "deploy", "retrain". Static storage. */
HR_API const char *hr_change_class_name(hr_change_class change_class);

/** Reads such a name. HR_ERROR_NOT_FOUND for any other; the output is then untouched. */
HR_API hr_status hr_change_class_parse(const char *name, hr_change_class *change_class);

#ifdef __cplusplus
}
#endif
#endif
