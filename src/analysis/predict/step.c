/* SPDX-License-Identifier: Apache-2.0 */
/* A step: every operator times its executions. */
#include "analysis/predict/step.h"

#include "analysis/predict/terms.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"
#include "model/layers/operator_builder.h"
#include "model/operators/fused.h"

#include <headroom/experimental/operators.h>
#include <headroom/experimental/predict.h>
#include <stdlib.h>
#include <string.h>

static size_t place_of(const hr_operator *op)
{
  const int64_t sizes[] = {op->gemm.m, op->gemm.n, op->gemm.k, op->bytes, ((int64_t)op->id << 8) + (int64_t)op->pass};
  return (size_t)(hr_hash_sizes(sizes, sizeof sizes / sizeof *sizes) % HR_KNOWN_OPERATORS);
}

/* Steps of many layouts, batches and contexts have most GEMMs in common, whose tiles take long to find. `operators` may
 * be NULL. */
static hr_status predict_once(const hr_subject *subject, const hr_operator *op, hr_known_operator *operators,
                              hr_prediction *prediction, hr_error *error)
{
  if (!operators)
    return hr_predict_step_operator(subject->hardware, subject->workload->phase, op, prediction, error);
  hr_known_operator *known = &operators[place_of(op)];
  /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-*): padding costs at most a prediction */
  if (memcmp(&known->op, op, sizeof *op) != 0) {
    known->op.kernels = -1; /* no operator's, if the prediction fails */
    HR_TRY(hr_predict_step_operator(subject->hardware, subject->workload->phase, op, &known->prediction, error));
    known->op = *op;
  }
  *prediction = known->prediction;
  return HR_OK;
}

static hr_status name_libraries(const hr_hardware *hardware, hr_step *step, hr_error *error)
{
  for (size_t i = 0; i < step->operators.count; i++) {
    hr_collective collective = hr_collective_default();
    hr_prediction prediction;
    if (step->operators.items[i].kind == HR_KIND_COMMUNICATION)
      HR_TRY(hr_predict_communication(hardware, &step->operators.items[i], &collective, &prediction, error));
    step->libraries[i] = (uint8_t)collective.library;
  }
  return HR_OK;
}

/* Whether the numbers of stages and replicas leave it as it is. */
static bool is_of_microbatch(const hr_operator *op)
{
  return hr_runs_with_microbatches(op->id) && op->id != HR_OP_PIPELINE_SEND;
}

/* What follows from the operators' predictions. A microbatch's come first, as in hr_time_step(). */
static void sum_all(const hr_subject *subject, hr_step *step)
{
  hr_step_sums sums = {.operator_count = 0};
  for (int others = 0; others < 2; others++) {
    for (size_t i = 0; i < step->operators.count; i++) {
      if (is_of_microbatch(&step->operators.items[i]) == !others)
        hr_add_to_step(subject, &step->operators.items[i], &step->predictions[i], &sums);
    }
  }
  hr_describe_step(subject, &sums, &step->about);
}

/* A step of one kernel has no operators in common with those that have many. */
hr_status hr_fill_step_of(const hr_subject *subject, bool apart, hr_known_operator *known, hr_step *step,
                          hr_error *error)
{
  if (!known)
    HR_TRY(hr_hardware_check(subject->hardware, error));
  HR_TRY(hr_operators_list(subject->model, subject->workload, &step->operators, error));
  if (!apart && hr_predict_persists(subject->hardware, subject->model, subject->workload))
    hr_persist_operators(&step->operators);
  for (size_t i = 0; i < step->operators.count; i++)
    HR_TRY(predict_once(subject, &step->operators.items[i], known, &step->predictions[i], error));
  memset(step->libraries, 0, sizeof step->libraries);
  if (!known) /* no report lists the operators of many steps */
    HR_TRY(name_libraries(subject->hardware, step, error));
  sum_all(subject, step);
  return HR_OK;
}

hr_status hr_fill_step(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload, hr_step *step,
                       hr_error *error)
{
  const hr_subject subject = {.model = model, .workload = workload, .hardware = hardware};
  return hr_fill_step_of(&subject, false, NULL, step, error);
}

/* ---- many layouts of one model ---- */

static hr_status add_operators(const hr_subject *subject, hr_microbatch *microbatch, bool others, hr_step_sums *sums,
                               hr_error *error)
{
  for (size_t i = 0; i < microbatch->operators.count; i++) {
    const hr_operator *op = &microbatch->operators.items[i];
    hr_prediction prediction;
    if (is_of_microbatch(op) == others)
      continue;
    HR_TRY(predict_once(subject, op, microbatch->known, &prediction, error));
    hr_add_to_step(subject, op, &prediction, sums);
  }
  return HR_OK;
}

hr_status hr_time_step(const hr_subject *subject, hr_microbatch *microbatch, hr_step_about *about, hr_error *error)
{
  if (microbatch->sums.operator_count == 0) {
    HR_TRY(hr_list_operators(subject->model, subject->workload, &microbatch->operators, error));
    microbatch->sums = (hr_step_sums){.operator_count = 0};
    HR_TRY(add_operators(subject, microbatch, false, &microbatch->sums, error));
  }
  hr_step_sums sums = microbatch->sums;
  HR_TRY(hr_list_operators_between(subject->model, subject->workload, microbatch->held, &microbatch->operators, error));
  HR_TRY(add_operators(subject, microbatch, true, &sums, error));
  hr_describe_step(subject, &sums, about);
  return HR_OK;
}

hr_status hr_predict_step(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                          hr_step **step, hr_error *error)
{
  HR_NEED(error, hardware, model, workload, step);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  hr_step *filled = malloc(sizeof *filled);
  if (!filled)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the operators of a step");
  hr_status status = hr_fill_step(hardware, model, workload, filled, error);
  if (status == HR_OK)
    *step = filled;
  else
    hr_step_free(filled);
  return status;
}

void hr_step_free(hr_step *step)
{
  free(step);
}

const hr_step_about *hr_step_describe(const hr_step *step)
{
  return &step->about;
}

const hr_operator *hr_step_operator(const hr_step *step, size_t index)
{
  return index < step->operators.count ? &step->operators.items[index] : NULL;
}

const hr_prediction *hr_step_prediction(const hr_step *step, size_t index)
{
  return index < step->operators.count ? &step->predictions[index] : NULL;
}
