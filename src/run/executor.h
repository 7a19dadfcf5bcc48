/* SPDX-License-Identifier: Apache-2.0 */
/* What an executor has. */
#ifndef HR_RUN_EXECUTOR_H
#define HR_RUN_EXECUTOR_H

#include "weights/weights.h"

#include <headroom/buffer.h>
#include <headroom/experimental/communicator.h>
#include <headroom/experimental/run.h>
#include <headroom/kv_cache.h>
#include <headroom/plans.h>
#include <headroom/rowwise.h>

#define HR_RUN_PROGRAMS 8     /* shapes of steps that are kept */
#define HR_RUN_PAGE_TOKENS 16 /* of the caches */

typedef struct hr_run_program hr_run_program;
typedef struct hr_run_bucket hr_run_bucket; /* training/buckets.h */

struct hr_executor {
  hr_device *device;
  hr_model model; /* the rank's share of it */
  hr_model whole;
  int64_t rank, ranks;       /* of the communicator; 0 of 1 without one */
  int64_t replica, replicas; /* the same of options.replicas */
  int64_t stage, stages;     /* the same of options.stages */
  hr_executor_options options;
  int64_t layers;
  int64_t bytes; /* of weights and caches */
  bool loaded;   /* the weights are filled */
  hr_placed_weights weights;
  hr_buffer *ones, *zeros;   /* a norm's weight and bias where the model has none */
  hr_buffer *angles[2];      /* cosines and sines of every position: [tokens, rotary_dim]; NULL: none; the second of
                              layers with a window, where they have others */
  hr_buffer *angles_back[2]; /* of an executor that trains: the same of the opposite angles */
  int64_t rotary_dim;
  hr_buffer *gradients, *means, *variances; /* of an executor that trains: training/training.h */
  hr_buffer *copy;                          /* the same: of weights of 16 bits in fp32 */
  hr_buffer *squares;     /* the same: of gradients that are clipped in parts or by ranks; NULL: none */
  hr_run_bucket *buckets; /* the same: training/buckets.h; the last ones of the memory first */
  int bucket_count;
  int64_t steps;                                /* the same: that were taken */
  bool began;                                   /* the same: the buffers are filled */
  hr_kv_cache **caches;                         /* [layers]; of NULL in an executor that trains */
  int64_t *lengths, *slot_numbers, *new_tokens; /* [slots] */
  void *numbers;                                /* of the tokens of a step: hr_run_number */
  void *staging;                                /* logits that are converted */
  size_t number_room, staging_room;             /* bytes */
  hr_plans *plans;
  hr_buffer *slopes;            /* of ALiBi; NULL: none */
  hr_buffer *workspace, *arena; /* as large as the programs need */
  size_t workspace_bytes, arena_bytes;
  hr_run_program *programs[HR_RUN_PROGRAMS]; /* the last used first */
  hr_operators *listed;                      /* of a forward step of one token */
};

/** hr_placed_weight() of the executor's. */
static inline void *hr_run_weight(const hr_executor *x, int64_t layer, int role)
{
  return hr_placed_weight(&x->weights, layer, role);
}

/** Ranks that have whole experts; 1: each rank has columns of all. */
static inline int64_t hr_run_expert_ranks(const hr_executor *x)
{
  return x->options.expert_parallel > 1 ? x->options.expert_parallel : 1;
}

/** Whether a rank has its own rows of the stream between blocks. */
static inline bool hr_run_splits_rows(const hr_executor *x)
{
  return x->ranks > 1 && x->options.sequence_parallel;
}

static inline bool hr_run_is_last(const hr_executor *x)
{
  return x->stage + 1 == x->stages;
}

/** Fills x->angles. */
hr_status hr_run_make_angles(hr_executor *x, hr_error *error);

/** Makes x->model of x->whole, and says in x->weights which part it is. HR_ERROR_UNSUPPORTED, saying what it is, for a
 *  model that the ranks cannot share; HR_ERROR_INVALID for fewer layers than stages. */
hr_status hr_run_take_share(hr_executor *x, hr_error *error);

/** The group of a layer. */
const hr_layer_group *hr_run_group(const hr_executor *x, int64_t layer);

/** What a model has that is not supported. */
typedef struct hr_refusal {
  bool applies;
  const char *what;
} hr_refusal;

/** HR_ERROR_UNSUPPORTED with the first that applies, which "cannot be run yet" or another participle. */
hr_status hr_refuse(const hr_refusal *refusals, size_t count, const char *what_for, hr_error *error);

/** HR_ERROR_UNSUPPORTED, saying what it is, if the model cannot be run. */
hr_status hr_run_check_model(const hr_model *model, hr_error *error);

/** Whether all weights are of the step's format or in fp8, which is widened as it is read. */
bool hr_run_widens(const hr_model *model);

/** Whether linear layers and logits have weights in q8_0, which they are quantized to as they are read. */
bool hr_run_has_q8(const hr_model *model);

/** Tokens of the chunks of attention; 0: none. */
int64_t hr_run_chunk(const hr_model *model);

/** The operation of the model's activation; false if there is none. */
bool hr_run_activation(const hr_model *model, bool gated, hr_rowwise_operation *operation);

#endif
