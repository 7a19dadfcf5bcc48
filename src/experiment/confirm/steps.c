/* SPDX-License-Identifier: Apache-2.0 */
/* Whole steps of a confirmation: the model as it is and as suggested, interleaved, with random weights. */
#include "experiment/confirm/jobs.h"

#include "base/error.h"
#include "base/names.h"
#include "runtime/device/device.h"

#include <headroom/experimental/workload.h>
#include <headroom/memory.h>
#include <stdlib.h>

#define PRECISION 0.005

static const char *what_does_not_run(const hr_workload *w)
{
  if (w->framework != HR_FRAMEWORK_HEADROOM)
    return "whole steps run with Headroom's kernels";
  if (w->attention != HR_ATTENTION_FUSED)
    return "unfused attention is not run in whole steps";
  if (w->tensor_parallel > 1 || w->pipeline_stages > 1)
    return "whole steps are compared on one device";
  if (hr_workload_drops(w))
    return "dropout is not run in whole steps";
  return w->kv_cache != HR_KV_UNQUANTIZED && w->phase != HR_PHASE_FORWARD ? "whole steps keep K and V as they compute"
                                                                          : NULL;
}

bool hr_confirm_runs(const hr_model *model, const hr_workload *workload, char *why, size_t size)
{
  hr_error error = {.status = HR_OK};
  const char *what = what_does_not_run(workload);
  if (!what && hr_step_check(model, workload, &error) != HR_OK)
    what = error.message;
  hr_copy_text(why, size, what ? what : "");
  return !what;
}

/* ---- estimates ---- */

static hr_status bytes_of(const hr_model *model, const hr_workload *workload, double *bytes, hr_error *error)
{
  hr_memory memory;
  HR_TRY(hr_memory_estimate(model, workload, &memory, error));
  *bytes = (double)memory.total_bytes;
  return HR_OK;
}

/* Predicted time of the prefill that comes before a decode step. */
static hr_status prefill_ns(const hr_confirm_run *c, const hr_model *model, const hr_workload *decode, double *time_ns,
                            hr_error *error)
{
  hr_workload prefill = *decode;
  hr_step *step = NULL;
  *time_ns = 0;
  if (decode->phase != HR_PHASE_DECODE)
    return HR_OK;
  prefill.phase = HR_PHASE_PREFILL;
  prefill.sequence = decode->context - 1;
  HR_TRY(hr_predict_step(&c->advice->hardware, model, &prefill, &step, error));
  *time_ns = hr_step_describe(step)->time_ns;
  hr_step_free(step);
  return HR_OK;
}

hr_status hr_confirm_steps_job(const hr_confirm_run *c, hr_confirm_subject *s, hr_confirm_job *job, hr_error *error)
{
  const bool on_device = c->device->backend->fill_uniform != NULL;
  double before, after, filling_ns;
  HR_TRY(bytes_of(&c->advice->model, &c->size.workload, &before, error));
  HR_TRY(bytes_of(&s->source->model, &s->workload, &after, error));
  HR_TRY(prefill_ns(c, &s->source->model, &s->workload, &filling_ns, error));
  *job = (hr_confirm_job){.steps = s,
                          .pair = true,
                          .bytes = before + after,
                          .prepare_ns = hr_budget_fill_ns(on_device, after) + filling_ns * c->slowdown,
                          .estimate_ns = c->before.about.time_ns + c->after.about.time_ns};
  return HR_OK;
}

/* ---- running ---- */

static hr_status open_present(hr_confirm_run *c, const hr_step_options *options, hr_error *error)
{
  if (c->present.executor)
    return HR_OK;
  return hr_step_runner_open(&c->present, c->device, &c->advice->model, &c->size.workload, options, error);
}

static hr_status measure_pair(hr_confirm_run *c, hr_confirm_subject *s, hr_step_runner *after,
                              const hr_step_sampling *sampling, hr_error *error)
{
  hr_step_runner *const pair[] = {&c->present, after};
  const hr_operators *const lists[] = {&c->before.operators, &c->after.operators};
  HR_TRY(hr_step_sample(pair, 2, sampling, &s->steps, error));
  s->done = s->timed = true;
  for (int i = 0; i < 2 && s->timed; i++)
    HR_TRY(hr_step_runner_time(pair[i], lists[i]->count, s->operators_ns[i], &s->timed, error));
  return HR_OK;
}

hr_status hr_confirm_run_steps(hr_confirm_run *c, hr_confirm_subject *s, double limit_ns, hr_progress *progress,
                               hr_error *error)
{
  const hr_step_sampling sampling = {
      .limit_ns = limit_ns, .precision = PRECISION, .progress = hr_progress_of_part, .context = progress};
  hr_step_options options = hr_step_options_default();
  hr_step_runner after = {.executor = NULL};
  options.progress = hr_progress_of_part, options.context = progress;
  HR_TRY(open_present(c, &options, error));
  HR_TRY(hr_fill_step(&c->advice->hardware, &s->source->model, &s->workload, &c->after, error));
  hr_status status = hr_step_runner_open(&after, c->device, &s->source->model, &s->workload, &options, error);
  if (status == HR_OK)
    status = measure_pair(c, s, &after, &sampling, error);
  hr_step_runner_close(&after);
  return status;
}
