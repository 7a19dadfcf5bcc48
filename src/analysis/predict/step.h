/* SPDX-License-Identifier: Apache-2.0 */
/* What an hr_step has, for callers that bring their own memory. */
#ifndef HR_ANALYSIS_PREDICT_STEP_H
#define HR_ANALYSIS_PREDICT_STEP_H

#include "analysis/predict/step_sums.h"

/* About half a megabyte: too large for a small stack. */
struct hr_step {
  hr_step_about about;
  hr_operators operators;
  hr_prediction predictions[HR_OPERATORS_MAX]; /* of one execution, same index as operators.items */
  uint8_t libraries[HR_OPERATORS_MAX];         /* hr_collective_library of communication; else 0 */
};

#define HR_KNOWN_OPERATORS 16384

/** An operator whose prediction is known. */
typedef struct hr_known_operator {
  hr_operator op;
  hr_prediction prediction;
} hr_known_operator;

/** A microbatch of training steps of a model on a device, which workloads have in common that differ in stages,
 *  microbatches, replicas, ZeRO stage and overlap alone. Several megabytes. */
typedef struct hr_microbatch {
  hr_step_sums sums;                           /* without what is between stages and replicas; of none: not known */
  const struct hr_held_parameters *held;       /* hr_parameters_on_device() of the workload; NULL: not known */
  hr_operators operators;                      /* to work with */
  hr_known_operator known[HR_KNOWN_OPERATORS]; /* of all microbatches; of those with the same place the last */
} hr_microbatch;

/** hr_predict_operator() of an operator between others of a step of a phase. */
hr_status hr_predict_step_operator(const hr_hardware *hardware, hr_phase phase, const hr_operator *op,
                                   hr_prediction *prediction, hr_error *error);

/** hr_is_persistent() of a device, for which the workload's list then has hr_persist_operators(). */
bool hr_predict_persists(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload);

/** The part of a message's predicted time that passes while other rows of the step are computed: sums of long prefills
 *  by this library, where devices of a node send them in pieces. */
double hr_hidden_ns(const hr_hardware *hardware, hr_phase phase, const hr_operator *op, double time_ns);

/** hr_predict_step() into a step of the caller, which is undefined after an error. */
hr_status hr_fill_step(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload, hr_step *step,
                       hr_error *error);

/** What hr_predict_step() says of a training step whose device, model and workload have been checked. Takes what
 *  `microbatch` knows, and adds what it lacks; its zeros know nothing. */
hr_status hr_time_step(const hr_subject *subject, hr_microbatch *microbatch, hr_step_about *about, hr_error *error);

/** hr_fill_step(); `apart`: with kernels apart, as they are measured one by one. `known`: without libraries, on a
 *  device that has been checked. Takes the predictions of operators that it has, HR_KNOWN_OPERATORS of the device and
 *  phase, and adds others; its zeros know nothing; NULL: there are none. */
hr_status hr_fill_step_of(const hr_subject *subject, bool apart, hr_known_operator *known, hr_step *step,
                          hr_error *error);

#endif
