/* SPDX-License-Identifier: Apache-2.0 */
/* A whole step of a model, measured and beside its prediction: what `headroom step` shows.
 *
 * Thread safety: one measurement at a time for each device. */
#ifndef HEADROOM_EXPERIMENTAL_STEP_H
#define HEADROOM_EXPERIMENTAL_STEP_H

#include <headroom/experimental/measure.h>
#include <headroom/experimental/run.h>
#include <headroom/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_step_options {
  size_t struct_size;      /* sizeof(hr_step_options), set by hr_step_options_default() */
  const char *weights;     /* as hr_executor_load() takes them; NULL: random ones */
  uint64_t seed;           /* of random weights and of the tokens */
  double budget_ns;        /* approximate time for the runs, without loading */
  hr_progress_fn progress; /* may be NULL */
  void *context;
  bool no_graph;  /* as hr_executor_options.no_graph */
  int64_t output; /* of a prefill: tokens of each sequence, the first from the prefill, each other from a decode step of
                     the same run; 0, the default, is 1 */
  int64_t pieces; /* as hr_executor_options.pieces */
  struct hr_communicator *communicator; /* of `device` (<headroom/experimental/communicator.h>) and of the workload's
                     number of ranks: each is a process that makes the same call, and gets its own times. NULL: ranks
                     are threads */
  bool no_persistent;                   /* as hr_executor_options.no_persistent */
} hr_step_options;

/** Random weights from seed 1, ten seconds. */
HR_API void hr_step_options_init(hr_step_options *options, size_t size);
HR_DEFAULT(hr_step_options)

/** An operator of the step with all its executions. */
typedef struct hr_step_row {
  hr_operator op;
  double predicted_ns, measured_ns;
  double share; /* of the sum of all operators as measured */
} hr_step_row;

typedef struct hr_step_times {
  hr_workload workload;       /* that ran: fused attention, Headroom's kernels */
  hr_measurement measurement; /* runs of the whole step; of operands, energy and kernels it has nothing */
  double predicted_ns;        /* the sum of all operators as predicted; of stages the time of the step */
  double operators_ns;        /* the sum of all operators as measured; 0: the device does not time them one by one */
  double between_share;    /* of the median: what passes between operators; below 0 where they take longer one by one,
                                 as between the events of a GPU; 0 if they were not timed */
  double tokens_per_s;     /* new tokens of all sequences */
  double load_ns;          /* filling the weights */
  int64_t weight_bytes;    /* as hr_executor_bytes(): and the KV cache, or what trains them */
  int64_t allocated_bytes; /* of all buffers: with activations, logits, tables, and in decode what the prefill took */
  int64_t estimated_bytes; /* of the same by hr_memory_estimate() */
  size_t count;
  hr_step_row rows[HR_OPERATORS_MAX];
} hr_step_times;

/** Runs the step of subject->workload, of which phase, dtype, batch, microbatches of training and of stages, sequence,
 *  context, recomputation, tensor, expert and data parallelism, pipeline stages and the ZeRO stage count: forward,
 *  prefill, decode of one token behind context − 1 others, or training, whose steps follow each other. With
 *  tensor_parallel t the GPUs behind `device` take part, cuda:0 to cuda:t − 1, or t ranks share the cores of a CPU;
 *  with pipeline_stages or with data_parallel replicas, that train, so many. Bytes are those of the first, and so are
 *  times but those of stages: until the last is done, without times of operators. The caller frees *times.
 *  HR_ERROR_UNSUPPORTED for devices that share something else; HR_ERROR_INVALID for a communicator of another number
 *  of ranks; errors of hr_executor_open(), hr_executor_load() and hr_executor_step(). `options` NULL: the default. */
HR_API hr_status hr_step_measure(hr_device *device, const hr_subject *subject, const hr_step_options *options,
                                 hr_step_times **times, hr_error *error);

/** Tokens that follow a prompt. */
typedef struct hr_generated {
  int64_t prompt_count, count;
  int32_t *ids;     /* [count] */
  double first_ns;  /* from the prompt to the first one */
  double others_ns; /* all others together */
} hr_generated;

/** Runs `prompt`, a prefill of one sequence, and appends `count` times the id with the largest logit, of equal ones the
 *  first. The slot has room for all. The caller frees *generated. HR_ERROR_OUT_OF_MEMORY; errors of
 *  hr_executor_step(). */
HR_API hr_status hr_generate(hr_executor *executor, const hr_executor_input *prompt, int64_t count,
                             hr_generated **generated, hr_error *error);

typedef struct hr_generate_options {
  size_t struct_size;    /* sizeof(hr_generate_options), set by hr_generate_options_default() */
  const int32_t *prompt; /* [prompt_count]: rows of the token embedding */
  int64_t prompt_count;
  int64_t count;       /* tokens that follow */
  hr_dtype dtype;      /* as hr_executor_options.dtype */
  const char *weights; /* as hr_step_options has them, and the next three */
  uint64_t seed;
  hr_progress_fn progress;
  void *context;
  int64_t tensor_parallel;              /* ranks that share each layer, as hr_step_measure() opens them */
  struct hr_communicator *communicator; /* as hr_step_options.communicator: each process gets the ids */
  int64_t expert_parallel;              /* as hr_executor_options.expert_parallel */
  int64_t pipeline_stages;              /* ranks that have some of the layers each; of these or of those there is one */
} hr_generate_options;

/** 16 tokens in fp32 from random weights of seed 1, on one device. */
HR_API void hr_generate_options_init(hr_generate_options *options, size_t size);
HR_DEFAULT(hr_generate_options)

/** hr_generate() by executors that it opens and loads, of every rank. The caller frees *generated. HR_ERROR_INVALID for
 *  a prompt without tokens; errors of hr_step_measure() and hr_generate(). */
HR_API hr_status hr_generate_on(hr_device *device, const hr_model *model, const hr_generate_options *options,
                                hr_generated **generated, hr_error *error);

/** Frees it; NULL is ignored. */
HR_API void hr_generated_free(hr_generated *generated);

/** Frees it; NULL is ignored. */
HR_API void hr_step_times_free(hr_step_times *times);

#ifdef __cplusplus
}
#endif
#endif
