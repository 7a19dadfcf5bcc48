/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the module: the state of one hr_plan_training(). */
#ifndef HR_ANALYSIS_PLAN_PLAN_H
#define HR_ANALYSIS_PLAN_PLAN_H

#include "analysis/plan/rules.h"
#include "analysis/predict/step.h"
#include "model/memory/memory_basis.h"

/** What is planned. */
typedef struct hr_training_state {
  const hr_hardware *hardware;
  const hr_model *model;
  const hr_model *split;     /* the same without quantized weights, whose blocks training does not have */
  hr_workload workload;      /* a training step on one device */
  hr_microbatch *microbatch; /* of the layouts that differ in stages and replicas alone */
  hr_memory_basis memory;    /* of the layouts that differ in their ZeRO stage alone */
  bool knows_memory;
  hr_training_plan *plan;
  size_t capacity; /* of plan->layouts */
} hr_training_state;

/* ---- layouts.c ---- */

/** Appends the layouts on counts[index].devices devices to plan->layouts, in no order. */
hr_status hr_training_list_layouts(hr_training_state *state, size_t index, hr_error *error);

/* ---- layout.c ---- */

/** Counts the layout and, if it fits, predicts and appends it. */
hr_status hr_training_add_layout(hr_training_state *state, hr_training_count *count, const hr_workload *workload,
                                 unsigned accepted_by, hr_error *error);

#endif
