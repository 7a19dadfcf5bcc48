/* From times of products to gains of operators and of the step. */
#include "confirm/confirming.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Which end of each ratio's interval a sum is formed with. */
typedef enum ratio_end { RATIO_MEDIAN, RATIO_LOW, RATIO_HIGH, RATIO_END_COUNT } ratio_end;

/* Time of a step, and of the operator that a finding is mainly about. NAN where something has no time. */
typedef struct step_time {
  double whole_ns, main_ns;
} step_time;

static bool same_attention(const hr_attention *a, const hr_attention *b)
{
  return a->batch == b->batch && a->q_len == b->q_len && a->kv_len == b->kv_len && a->q_heads == b->q_heads &&
         a->k_heads == b->k_heads && a->v_heads == b->v_heads && a->qk_dim == b->qk_dim && a->v_dim == b->v_dim &&
         a->dtype == b->dtype && a->mask == b->mask && a->window == b->window && a->scale == b->scale &&
         a->softcap == b->softcap && a->alibi == b->alibi;
}

/* The time of a product of the shape as it is: measured alone, or in the first pair that has it. */
static double measured_before(const hr_confirming *c, const hr_gemm *gemm)
{
  for (size_t i = 0; i < c->job_count; i++) {
    const hr_confirm_job *job = &c->jobs[i];
    if (job->done && hr_same_gemm(&job->before, gemm) && job->result.before.median_ns > 0)
      return job->result.before.median_ns;
  }
  return (double)NAN;
}

static double ratio_of(const hr_confirm_job *pair, ratio_end end)
{
  if (!pair || !pair->done)
    return (double)NAN;
  const double ratios[RATIO_END_COUNT] = {pair->result.ratio, pair->result.ratio_low, pair->result.ratio_high};
  return ratios[end];
}

/* A changed product's time is its time as it is over the ratio: both were taken by turns, so that a drift of the
 * machine between this pair and another measurement cancels out. */
static double product_after(const hr_confirming *c, const hr_operator *op, ratio_end end)
{
  const hr_operator *before = hr_confirm_counterpart(&c->before.operators, &c->after.operators, op);
  if (!before || !hr_is_product(before) || hr_same_gemm(&before->gemm, &op->gemm))
    return measured_before(c, &op->gemm);
  return measured_before(c, &before->gemm) / ratio_of(hr_confirm_pair(c, &before->gemm, &op->gemm), end);
}

/* Fused attention enters with its predicted time while it stays as it is; a change of it would only repeat the
 * prediction. */
static double attention_after(const hr_confirming *c, const hr_operator *op, double predicted_ns)
{
  const hr_operator *before = hr_confirm_counterpart(&c->before.operators, &c->after.operators, op);
  return before && same_attention(&before->attention, &op->attention) ? predicted_ns : (double)NAN;
}

static double stretch_of(const hr_model *model, const hr_workload *workload)
{
  return (double)hr_round_up(model->layers, workload->pipeline_stages) / (double)model->layers;
}

static bool is_main(const hr_finding *finding, hr_operator_id id)
{
  const char *name = hr_operator_id_name(id);
  size_t length = strcspn(finding->operators, " ");
  return strlen(name) == length && strncmp(name, finding->operators, length) == 0;
}

typedef enum time_source { TIME_PREDICTED, TIME_BEFORE, TIME_AFTER } time_source;

static double time_of(const hr_confirming *c, const hr_step *step, size_t index, time_source source, ratio_end end)
{
  const hr_operator *op = &step->operators.items[index];
  double predicted_ns = step->predictions[index].time_ns;
  if (source == TIME_PREDICTED)
    return predicted_ns;
  if (hr_is_product(op))
    return source == TIME_BEFORE ? measured_before(c, &op->gemm) : product_after(c, op, end);
  if (op->kind == HR_KIND_ATTENTION && source == TIME_AFTER)
    return attention_after(c, op, predicted_ns);
  return predicted_ns;
}

static step_time sum_step(const hr_confirming *c, const hr_step *step, double stretch, const hr_finding *finding,
                          time_source source, ratio_end end)
{
  step_time sum = {0, 0};
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    double time_ns = (double)op->count * (op->in_layer ? stretch : 1) * time_of(c, step, i, source, end);
    sum.whole_ns += time_ns;
    if (is_main(finding, op->id))
      sum.main_ns += time_ns;
  }
  return sum;
}

/* Device time a token, as the advice reckons it: all devices of a tensor-parallel group work for the step's time. */
static double per_token(double time_ns, const hr_workload *workload)
{
  double tokens = (double)workload->batch * (workload->phase == HR_PHASE_DECODE ? 1.0 : (double)workload->sequence);
  return time_ns * (double)workload->tensor_parallel / tokens;
}

static double gain(double before_ns, const hr_workload *before, double after_ns, const hr_workload *after)
{
  double value = per_token(before_ns, before) / per_token(after_ns, after) - 1;
  return isfinite(value) ? value : (double)NAN;
}

static bool changes_a_product(const hr_confirming *c)
{
  const hr_operators *sides[2] = {&c->before.operators, &c->after.operators};
  for (int side = 0; side < 2; side++) {
    for (size_t i = 0; i < sides[side]->count; i++) {
      const hr_operator *op = &sides[side]->items[i];
      const hr_operator *other = hr_confirm_counterpart(sides[1 - side], sides[side], op);
      if (hr_is_product(op) && (!other || !hr_same_gemm(&other->gemm, &op->gemm)))
        return true;
    }
  }
  return false;
}

static bool changes_attention(const hr_confirming *c)
{
  for (size_t i = 0; i < c->after.operators.count; i++) {
    const hr_operator *op = &c->after.operators.items[i];
    if (op->kind == HR_KIND_ATTENTION && isnan(attention_after(c, op, 0)))
      return true;
  }
  return false;
}

/* Why a gain could not be formed, by the first product that has no time. */
static void explain(const hr_confirming *c, hr_confirmed *confirmed)
{
  confirmed->status = HR_ERROR_INTERRUPTED;
  snprintf(confirmed->reason, sizeof confirmed->reason, "stopped before its products were measured");
  for (size_t i = 0; i < c->job_count; i++) {
    const hr_confirm_job *job = &c->jobs[i];
    const hr_measurement *failed = job->result.before.median_ns > 0 ? &job->result.after : &job->result.before;
    bool timed = job->result.before.median_ns > 0 && (!job->pair || job->result.ratio > 0);
    if (!job->done || timed)
      continue;
    confirmed->status = failed->status;
    snprintf(confirmed->reason, sizeof confirmed->reason, "%s: %.120s", hr_operator_id_name(job->id), failed->reason);
    return;
  }
}

static void refuse(hr_confirmed *confirmed, const char *reason)
{
  confirmed->status = HR_ERROR_UNSUPPORTED;
  hr_copy_text(confirmed->reason, sizeof confirmed->reason, reason);
}

static void measure_gains(const hr_confirming *c, const hr_confirm_subject *s, double stretch_before,
                          double stretch_after, hr_confirmed *confirmed)
{
  const hr_finding *f = s->source;
  step_time before = sum_step(c, &c->before, stretch_before, f, TIME_BEFORE, RATIO_MEDIAN);
  double gains[RATIO_END_COUNT];
  for (ratio_end end = RATIO_MEDIAN; end < RATIO_END_COUNT; end++) {
    step_time after = sum_step(c, &c->after, stretch_after, f, TIME_AFTER, end);
    gains[end] = gain(before.whole_ns, &c->workload, after.whole_ns, &s->workload);
    if (end == RATIO_MEDIAN)
      confirmed->measured_operator_gain = gain(before.main_ns, &c->workload, after.main_ns, &s->workload);
  }
  confirmed->measured_gain = gains[RATIO_MEDIAN];
  confirmed->measured_gain_low = gains[RATIO_LOW];
  confirmed->measured_gain_high = gains[RATIO_HIGH];
  if (isnan(confirmed->measured_gain))
    explain(c, confirmed);
}

hr_status hr_confirm_gains(hr_confirming *c, const hr_confirm_subject *s, hr_confirmed *confirmed, hr_error *error)
{
  const hr_finding *f = s->source;
  double none = (double)NAN;
  *confirmed = (hr_confirmed){.finding = s->finding,
                              .measured_gain = none,
                              .measured_operator_gain = none,
                              .measured_gain_low = none,
                              .measured_gain_high = none};
  HR_TRY(hr_predict_step(&c->advice->hardware, &f->model, &s->workload, &c->after, error));
  double stretch_before = stretch_of(&c->advice->model, &c->workload),
         stretch_after = stretch_of(&f->model, &s->workload);
  step_time before = sum_step(c, &c->before, stretch_before, f, TIME_PREDICTED, RATIO_MEDIAN);
  step_time after = sum_step(c, &c->after, stretch_after, f, TIME_PREDICTED, RATIO_MEDIAN);
  confirmed->predicted_gain = gain(before.whole_ns, &c->workload, after.whole_ns, &s->workload);
  confirmed->predicted_operator_gain = gain(before.main_ns, &c->workload, after.main_ns, &s->workload);
  if (!changes_a_product(c))
    refuse(confirmed, "changes no product at the measured size, and only products are measured");
  else if (changes_attention(c))
    refuse(confirmed, "changes fused attention, and only products are measured");
  else
    measure_gains(c, s, stretch_before, stretch_after, confirmed);
  return HR_OK;
}
