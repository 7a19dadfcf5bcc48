/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the gains of operators and of the step from measured times. */
#include "experiment/confirm/jobs.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/names.h"
#include "model/layers/operator_builder.h"
#include "model/layers/shard.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/operators.h>
#include <headroom/experimental/workload.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The end of each ratio's confidence interval that a sum uses. */
typedef enum ratio_end { RATIO_MEDIAN, RATIO_LOW, RATIO_HIGH, RATIO_END_COUNT } ratio_end;

/* Time of a step, and of the operators that a finding is mainly about. NAN if an operator has no time. */
typedef struct step_time {
  double whole_ns, main_ns;
} step_time;

static bool has_time(const hr_confirm_job *job)
{
  return job && job->done && job->result.before.median_ns > 0;
}

/* The measured time of an operator of the present step: alone, or in the first pair that has it. */
static double measured_before(const hr_confirm_run *c, const hr_operator *op)
{
  const hr_confirm_job *job = hr_confirm_job_of(c, op);
  return has_time(job) ? job->result.before.median_ns : (double)NAN;
}

/* An unchanged attention or softmax that the device has no kernel for enters with its predicted time. */
static double time_before(const hr_confirm_run *c, const hr_operator *op, double predicted_ns)
{
  const hr_confirm_job *job = hr_confirm_job_of(c, op);
  bool no_kernel = !hr_confirm_is_gemm(op) && job && job->done && !has_time(job) &&
                   job->result.before.status == HR_ERROR_UNSUPPORTED;
  return no_kernel ? predicted_ns : measured_before(c, op);
}

static double ratio_of(const hr_confirm_job *pair, ratio_end end)
{
  if (!pair || !pair->done)
    return (double)NAN;
  const double ratios[RATIO_END_COUNT] = {pair->result.ratio, pair->result.ratio_low, pair->result.ratio_high};
  return ratios[end];
}

/* A changed operator's time is the time of the operators that it replaces over the ratio of the pair. The halves of a
 * pair are interleaved, so that a drift of the machine between this pair and another measurement cancels out. */
static double time_after(const hr_confirm_run *c, const hr_operator *op, double predicted_ns, ratio_end end)
{
  const hr_confirm_replaced before = hr_confirm_replaces(c, op);
  if (hr_confirm_unchanged(&before, op))
    return time_before(c, op, predicted_ns);
  if (before.count == 0)
    return measured_before(c, op);
  double before_ns = 0;
  for (size_t i = 0; i < before.count; i++)
    before_ns += measured_before(c, before.items[i]);
  return before_ns / ratio_of(hr_confirm_pair(c, &before, op), end);
}

static double stretch_of(const hr_model *model, const hr_workload *workload)
{
  int64_t layers = hr_model_layers(model);
  return (double)hr_round_up(layers, workload->pipeline_stages) / (double)layers;
}

static bool is_main(const hr_finding *finding, hr_operator_id id)
{
  return finding->main_operators[id / 64] >> id % 64 & 1;
}

typedef enum time_source { TIME_PREDICTED, TIME_BEFORE, TIME_AFTER } time_source;

static double time_of(const hr_confirm_run *c, const hr_step *step, size_t index, time_source source, ratio_end end)
{
  const hr_operator *op = &step->operators.items[index];
  double predicted_ns = step->predictions[index].time_ns;
  if (source == TIME_PREDICTED || !hr_confirm_is_timed(op))
    return predicted_ns;
  return source == TIME_BEFORE ? time_before(c, op, predicted_ns) : time_after(c, op, predicted_ns, end);
}

static step_time sum_step(const hr_confirm_run *c, const hr_step *step, double stretch, const hr_finding *finding,
                          time_source source, ratio_end end)
{
  step_time sum = {0, 0};
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    if (!hr_runs_with_microbatches(op->id)) /* once a step, or beside its passes */
      continue;
    double time_ns = (double)op->count * (op->in_layer ? stretch : 1) * time_of(c, step, i, source, end);
    sum.whole_ns += time_ns;
    if (is_main(finding, op->id))
      sum.main_ns += time_ns;
  }
  return sum;
}

/* Device time per token, as in the advice: all devices of a tensor-parallel group work for the time of the step. */
static double per_token(double time_ns, const hr_workload *workload)
{
  double tokens = (double)workload->batch * (workload->phase == HR_PHASE_DECODE ? 1.0 : (double)workload->sequence);
  return time_ns * (double)workload->tensor_parallel / tokens;
}

/* Times a microbatch that a step of one takes with the bubble of its stages. */
static double rounds_of(const hr_workload *workload)
{
  double microbatches = (double)hr_workload_microbatches(workload);
  return (microbatches + ((double)workload->pipeline_stages - 1) / (double)hr_virtual_stages(workload)) / microbatches;
}

double hr_confirm_token_ratio(const hr_workload *before, const hr_workload *after)
{
  return per_token(1, before) / per_token(1, after);
}

static double gain(double before_ns, const hr_workload *before, double after_ns, const hr_workload *after)
{
  double bubbles = rounds_of(before) / rounds_of(after);
  double value = before_ns / after_ns * bubbles * hr_confirm_token_ratio(before, after) - 1;
  return isfinite(value) ? value : (double)NAN;
}

/* Whether the subject changes an operator that `counts`. */
static bool changes(const hr_confirm_run *c, bool (*counts)(const hr_operator *op))
{
  const hr_operators *sides[2] = {&c->before.operators, &c->after.operators};
  for (int side = 0; side < 2; side++) {
    for (size_t i = 0; i < sides[side]->count; i++) {
      const hr_operator *op = &sides[side]->items[i];
      const hr_operator *other = hr_confirm_counterpart(sides[1 - side], sides[side], op);
      if (counts(op) && (!other || !hr_confirm_same(other, op)))
        return true;
    }
  }
  return false;
}

static bool is_attention_backward(const hr_operator *op)
{
  return op->kind == HR_KIND_ATTENTION && op->pass != HR_PASS_FORWARD;
}

/* Whether the subject changes how a GEMM of attention shares K and V heads, among the operators that the finding is
 * mainly about or among all: measured GEMMs have a K and V of their own for each Q head. */
static bool is_sharing_changed(const hr_confirm_run *c, const hr_finding *of)
{
  for (size_t i = 0; i < c->after.operators.count; i++) {
    const hr_operator *op = &c->after.operators.items[i];
    const hr_confirm_replaced before = hr_confirm_replaces(c, op);
    if ((!of || is_main(of, op->id)) && hr_confirm_is_gemm(op) && hr_confirm_unchanged(&before, op) &&
        before.items[0]->bytes != op->bytes)
      return true;
  }
  return false;
}

static void blame(hr_confirmed *confirmed, const hr_operator *op, const hr_confirm_job *job)
{
  confirmed->status = HR_ERROR_INTERRUPTED;
  snprintf(confirmed->reason, sizeof confirmed->reason, "stopped before every operator that it needs was measured");
  if (!job || !job->done)
    return;
  const hr_measurement *failed = has_time(job) ? &job->result.after : &job->result.before;
  char name[48];
  hr_operator_name(op, name, sizeof name);
  confirmed->status = failed->status;
  snprintf(confirmed->reason, sizeof confirmed->reason, "%s: %.*s", name,
           (int)(sizeof confirmed->reason - sizeof name - 3), failed->reason);
}

/* The reason why there is no gain: the first operator that has no time. */
static void explain(const hr_confirm_run *c, hr_confirmed *confirmed)
{
  for (size_t i = 0; i < c->before.operators.count; i++) {
    const hr_operator *op = &c->before.operators.items[i];
    if (hr_confirm_is_timed(op) && isnan(time_before(c, op, 0))) {
      blame(confirmed, op, hr_confirm_job_of(c, op));
      return;
    }
  }
  for (size_t i = 0; i < c->after.operators.count; i++) {
    const hr_operator *op = &c->after.operators.items[i];
    if (hr_confirm_is_timed(op) && isnan(time_after(c, op, 0, RATIO_MEDIAN))) {
      const hr_confirm_replaced before = hr_confirm_replaces(c, op);
      blame(confirmed, op, before.count > 0 ? hr_confirm_pair(c, &before, op) : hr_confirm_job_of(c, op));
      return;
    }
  }
}

static void refuse(hr_confirmed *confirmed, const char *reason)
{
  confirmed->status = HR_ERROR_UNSUPPORTED;
  hr_copy_text(confirmed->reason, sizeof confirmed->reason, reason);
}

static void measure_gains(const hr_confirm_run *c, const hr_confirm_subject *s, double stretch_before,
                          double stretch_after, hr_confirmed *confirmed)
{
  const hr_finding *f = s->source;
  step_time before = sum_step(c, &c->before, stretch_before, f, TIME_BEFORE, RATIO_MEDIAN);
  double gains[RATIO_END_COUNT];
  for (ratio_end end = RATIO_MEDIAN; end < RATIO_END_COUNT; end++) {
    step_time after = sum_step(c, &c->after, stretch_after, f, TIME_AFTER, end);
    gains[end] = gain(before.whole_ns, &c->size.workload, after.whole_ns, &s->workload);
    if (end == RATIO_MEDIAN)
      confirmed->measured_operator_gain = gain(before.main_ns, &c->size.workload, after.main_ns, &s->workload);
  }
  confirmed->measured_gain = gains[RATIO_MEDIAN];
  confirmed->measured_gain_low = gains[RATIO_LOW];
  confirmed->measured_gain_high = gains[RATIO_HIGH];
  if (is_sharing_changed(c, f)) /* the gain would be 0 only because of how GEMMs are measured */
    confirmed->measured_operator_gain = (double)NAN;
  if (isnan(confirmed->measured_gain))
    explain(c, confirmed);
  else if (is_sharing_changed(c, NULL))
    hr_copy_text(confirmed->reason, sizeof confirmed->reason,
                 "without the gain of attention's GEMMs: each is measured with its own K and V, not with shared ones");
}

/* ---- whole steps ---- */

static double main_ns(const hr_operators *list, const hr_finding *finding, const double *times_ns)
{
  double sum_ns = 0;
  for (size_t i = 0; i < list->count; i++)
    sum_ns += is_main(finding, list->items[i].id) ? times_ns[i] : 0;
  return sum_ns;
}

static void take_steps(const hr_confirm_run *c, const hr_confirm_subject *s, hr_confirmed *confirmed)
{
  const hr_workload *before = &c->size.workload, *after = &s->workload;
  if (!s->done) {
    blame(confirmed, NULL, NULL);
    return;
  }
  confirmed->measured_gain = gain(s->steps.ratio, before, 1, after);
  confirmed->measured_gain_low = gain(s->steps.ratio_low, before, 1, after);
  confirmed->measured_gain_high = gain(s->steps.ratio_high, before, 1, after);
  if (s->timed)
    confirmed->measured_operator_gain = gain(main_ns(&c->before.operators, s->source, s->operators_ns[0]), before,
                                             main_ns(&c->after.operators, s->source, s->operators_ns[1]), after);
}

hr_status hr_confirm_gains(hr_confirm_run *c, const hr_confirm_subject *s, hr_confirmed *confirmed, hr_error *error)
{
  const hr_finding *f = s->source;
  double none = (double)NAN;
  *confirmed = (hr_confirmed){.finding = s->finding,
                              .by_steps = s->by_steps,
                              .measured_gain = none,
                              .measured_operator_gain = none,
                              .measured_gain_low = none,
                              .measured_gain_high = none};
  HR_TRY(hr_fill_step(&c->advice->hardware, &f->model, &s->workload, &c->after, error));
  double stretch_before = stretch_of(&c->advice->model, &c->size.workload),
         stretch_after = stretch_of(&f->model, &s->workload);
  step_time before = sum_step(c, &c->before, stretch_before, f, TIME_PREDICTED, RATIO_MEDIAN);
  step_time after = sum_step(c, &c->after, stretch_after, f, TIME_PREDICTED, RATIO_MEDIAN);
  confirmed->predicted_gain = gain(before.whole_ns, &c->size.workload, after.whole_ns, &s->workload);
  confirmed->predicted_operator_gain = gain(before.main_ns, &c->size.workload, after.main_ns, &s->workload);
  if (s->by_steps)
    take_steps(c, s, confirmed);
  else if (!changes(c, hr_confirm_is_timed))
    refuse(confirmed, "changes no GEMM, softmax or fused attention at the measured size, and only these are measured");
  else if (changes(c, is_attention_backward))
    refuse(confirmed, "changes the backward pass of fused attention, which is not measured here");
  else
    measure_gains(c, s, stretch_before, stretch_after, confirmed);
  if (!s->by_steps && !confirmed->reason[0])
    snprintf(confirmed->reason, sizeof confirmed->reason, "by operators: %s", s->why);
  return HR_OK;
}
