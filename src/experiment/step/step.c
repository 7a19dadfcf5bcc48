/* SPDX-License-Identifier: Apache-2.0 */
/* Measures a step of a whole model: run after run within the budget, then operator by operator. */
#include "analysis/predict/step.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "experiment/step/runner.h"
#include "run/executor.h"

#include <headroom/experimental/operators.h>
#include <headroom/experimental/predict.h>
#include <headroom/experimental/workload.h>
#include <headroom/memory.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define BUDGET_NS 10e9

void hr_step_options_init(hr_step_options *options, size_t size)
{
  HR_INIT(options, size, (hr_step_options){.seed = 1, .budget_ns = BUDGET_NS});
}

typedef struct step_run {
  const hr_hardware *hardware; /* NULL: nothing is predicted */
  hr_step_options options;
  hr_step_runner runner;
  hr_step_times *times;
} step_run;

/* Runs of an operator in a step: once for each microbatch, but for the optimizer's and messages between replicas. */
static double runs_in_step(const step_run *s, const hr_operator *op)
{
  const bool once = op->id == HR_OP_OPTIMIZER || hr_operator_between_replicas(op->id);
  return once ? 1 : (double)hr_workload_microbatches(&s->runner.workload);
}

static hr_status time_operators(step_run *s, hr_error *error)
{
  double times_ns[HR_OPERATORS_MAX];
  bool timed;
  HR_TRY(hr_step_runner_time(&s->runner, s->times->count, times_ns, &timed, error));
  for (size_t i = 0; i < s->times->count && timed; i++) {
    hr_step_row *row = &s->times->rows[i];
    row->measured_ns = times_ns[i] * runs_in_step(s, &row->op);
    s->times->operators_ns += row->measured_ns;
  }
  return HR_OK;
}

/* ---- the result ---- */

static double hidden_ns(const step_run *s, const hr_step_row *row)
{
  const bool apart = s->options.pieces == 1 || !s->hardware;
  return apart ? 0 : hr_hidden_ns(s->hardware, s->runner.workload.phase, &row->op, row->predicted_ns);
}

/* Stages work at the same time, and wait for each other. */
static hr_status predict_stages(step_run *s, hr_error *error)
{
  hr_step *step;
  HR_TRY(hr_predict_step(s->hardware, &s->runner.executor->whole, &s->runner.workload, &step, error));
  s->times->predicted_ns = hr_step_describe(step)->time_ns;
  hr_step_free(step);
  return HR_OK;
}

/* What ran is what is predicted: the executor's own list. */
static hr_status predict_operators(step_run *s, hr_error *error)
{
  const hr_operators *list = hr_executor_operators(s->runner.executor);
  s->times->count = list->count;
  for (size_t i = 0; i < list->count; i++) {
    hr_step_row *row = &s->times->rows[i];
    hr_prediction prediction = {.time_ns = (double)NAN};
    row->op = list->items[i];
    if (s->hardware)
      HR_TRY(hr_predict_step_operator(s->hardware, s->runner.workload.phase, &row->op, &prediction, error));
    row->predicted_ns = prediction.time_ns * (double)row->op.count * runs_in_step(s, &row->op);
    s->times->predicted_ns += row->predicted_ns - hidden_ns(s, row);
  }
  return s->runner.workload.pipeline_stages > 1 && s->hardware ? predict_stages(s, error) : HR_OK;
}

static void sum_up(step_run *s)
{
  hr_step_times *t = s->times;
  const double median_ns = t->measurement.median_ns;
  const hr_executor_input *input = &s->runner.input;
  const int64_t sequences = input->batch * input->microbatches * s->runner.workload.data_parallel;
  t->tokens_per_s = (double)(sequences * (input->tokens + s->runner.decodes)) / median_ns * 1e9;
  if (t->operators_ns > 0)
    t->between_share = (median_ns - t->operators_ns) / median_ns;
  for (size_t i = 0; i < t->count && t->operators_ns > 0; i++)
    t->rows[i].share = t->rows[i].measured_ns / t->operators_ns;
  t->workload = s->runner.workload;
  t->weight_bytes = hr_executor_bytes(s->runner.executor);
  t->allocated_bytes = hr_step_runner_bytes(&s->runner);
}

/* What `describe` says of what the executor has: its formats of weights, room for K and V in every phase, also of
 * tokens behind windows, and in decode for the prefill before it. */
static hr_status estimate_memory(step_run *s, hr_error *error)
{
  hr_workload filling = s->runner.workload;
  hr_model had = s->runner.executor->whole;
  const hr_model *model = &had;
  for (size_t i = 0; i < had.group_count; i++)
    had.groups[i].attention.window = 0;
  hr_memory ran, filled;
  if (filling.phase == HR_PHASE_TRAIN) {
    HR_TRY(hr_memory_estimate(model, &filling, &ran, error));
    s->times->estimated_bytes = ran.total_bytes;
    return HR_OK;
  }
  filling.phase = HR_PHASE_PREFILL;
  filling.sequence = s->runner.longest;
  HR_TRY(hr_memory_estimate(model, &s->runner.workload, &ran, error));
  HR_TRY(hr_memory_estimate(model, &filling, &filled, error));
  const bool forward = s->runner.workload.phase == HR_PHASE_FORWARD;
  s->times->estimated_bytes = forward ? ran.total_bytes + filled.kv_cache_bytes : filled.total_bytes;
  return HR_OK;
}

static hr_status run_steps(step_run *s, hr_error *error)
{
  const hr_step_sampling sampling = {
      .limit_ns = s->options.budget_ns, .progress = s->options.progress, .context = s->options.context};
  hr_step_runner *const one[] = {&s->runner};
  hr_comparison comparison;
  HR_TRY(hr_step_sample(one, 1, &sampling, &comparison, error));
  s->times->measurement = comparison.before;
  return HR_OK;
}

static hr_status measure(step_run *s, hr_error *error)
{
  HR_TRY(run_steps(s, error));
  HR_TRY(predict_operators(s, error));
  HR_TRY(time_operators(s, error));
  sum_up(s);
  return estimate_memory(s, error);
}

static hr_status measure_on(hr_device *device, const hr_subject *subject, const hr_step_options *options,
                            hr_step_times **times, hr_error *error)
{
  const hr_model *model = subject->model;
  const hr_workload *workload = subject->workload;
  HR_TRY(hr_model_check(model, error));
  HR_TRY(hr_workload_check(workload, model, error));
  step_run s = {.hardware = subject->hardware, .options = options ? *options : hr_step_options_default()};
  s.times = calloc(1, sizeof *s.times);
  if (!s.times)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the times of a step");
  hr_status status = hr_step_runner_open(&s.runner, device, model, workload, &s.options, error);
  s.times->load_ns = s.runner.load_ns;
  if (status == HR_OK)
    status = measure(&s, error);
  hr_step_runner_close(&s.runner);
  if (status == HR_OK)
    *times = s.times;
  else
    free(s.times);
  return status;
}

hr_status hr_step_time(hr_device *device, const hr_model *model, const hr_workload *workload,
                       const hr_step_options *options, hr_step_times **times, hr_error *error)
{
  return measure_on(device, &(hr_subject){.model = model, .workload = workload}, options, times, error);
}

hr_status hr_step_measure(hr_device *device, const hr_subject *subject, const hr_step_options *options,
                          hr_step_times **times, hr_error *error)
{
  HR_NEED(error, device, subject, times);
  const hr_model *model = subject->model;
  const hr_workload *workload = subject->workload;
  const hr_hardware *hardware = subject->hardware;
  HR_NEED(error, hardware, model, workload);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  HR_TAKE(hr_step_options, options, error);
  return measure_on(device, &(hr_subject){.hardware = hardware, .model = model, .workload = workload}, options, times,
                    error);
}

void hr_step_times_free(hr_step_times *times)
{
  free(times);
}
