/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about tile and wave quantization.
 *
 * Both take the operator that loses most and vary the one size that changes its tiles: the MLP's width, the vocabulary,
 * otherwise the microbatch (the rows of all other GEMMs). */
#include "analysis/advise/rules.h"
#include "analysis/predict/terms.h"
#include "base/checked.h"
#include "model/reshape/reshape.h"

#include <inttypes.h>
#include <math.h>

/* Losses below this share of the step are not followed up. */
#define LOSS_MIN 0.01

/* Number of widths tried. */
#define WIDTHS_MAX 256
/* A nearby size has to remove this share of the loss; otherwise it is faster for another reason. */
#define LOSS_REMOVED 0.25

typedef double (*loss_part)(const hr_prediction *prediction);

typedef struct loss {
  const hr_operator *op;
  const hr_prediction *prediction;
  double time_ns; /* over the step */
} loss;

/* The time that a part adds; memory may hide it, and the clock that rises because of the losses makes up for a share of
 * each. */
static double exposed_ns(const hr_prediction *prediction, double part_ns)
{
  double lost_ns = prediction->tile_ns + prediction->wave_ns + prediction->alignment_ns;
  double compute_ns = prediction->matrix_ns + lost_ns + prediction->reduction_ns + prediction->clock_ns;
  if (lost_ns > 0)
    part_ns *= fmax(1 + prediction->clock_ns / lost_ns, 0);
  return hr_overlap(compute_ns, prediction->memory_ns) - hr_overlap(compute_ns - part_ns, prediction->memory_ns);
}

/* Without tiles beyond the edge, tile_ns only means that the tile is a slower one. */
static double tile_loss_ns(const hr_prediction *prediction)
{
  return prediction->tile_waste > 0 ? exposed_ns(prediction, prediction->tile_ns) : 0;
}

static double wave_loss_ns(const hr_prediction *prediction)
{
  return exposed_ns(prediction, prediction->wave_ns);
}

static loss largest_loss(const hr_step *step, loss_part part)
{
  loss worst = {.time_ns = 0};
  for (size_t i = 0; i < step->operators.count; i++) {
    double time_ns = (double)step->operators.items[i].count * part(&step->predictions[i]);
    if (time_ns > worst.time_ns)
      worst = (loss){&step->operators.items[i], &step->predictions[i], time_ns};
  }
  return worst;
}

static bool is_mlp(hr_operator_id id)
{
  const hr_operator_set gemms =
      HR_OPERATOR_BIT(HR_OP_MLP_UP) | HR_OPERATOR_BIT(HR_OP_MLP_GATE) | HR_OPERATOR_BIT(HR_OP_MLP_DOWN) |
      HR_OPERATOR_BIT(HR_OP_EXPERT_UP) | HR_OPERATOR_BIT(HR_OP_EXPERT_GATE) | HR_OPERATOR_BIT(HR_OP_EXPERT_DOWN) |
      HR_OPERATOR_BIT(HR_OP_SHARED_UP) | HR_OPERATOR_BIT(HR_OP_SHARED_GATE) | HR_OPERATOR_BIT(HR_OP_SHARED_DOWN);
  return HR_OPERATOR_BIT(id) & gemms;
}

/* What this operator and pass loses in a step, in all its sizes. */
static double loss_of(const hr_step *step, const hr_operator *which, loss_part part)
{
  double time_ns = 0;
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    if (op->id == which->id && op->pass == which->pass)
      time_ns += (double)op->count * part(&step->predictions[i]);
  }
  return time_ns;
}

/* Whether the operator loses clearly less per token in the trial, whose step is in context->after. */
static bool removes_loss(const hr_advice_context *context, const loss *worst, loss_part part, const hr_trial *trial)
{
  const hr_advice *advice = context->advice;
  double before = loss_of(&advice->step, worst->op, part) / (double)hr_tokens_per_microbatch(&advice->workload);
  double after = loss_of(&context->after, worst->op, part) / (double)hr_tokens_per_microbatch(&trial->workload);
  return after <= (1 - LOSS_REMOVED) * before;
}

/* Keeps the change in *best if it gains more and removes the loss. */
static void try_change(hr_advice_context *context, const loss *worst, loss_part part, const hr_model *model,
                       const hr_workload *workload, hr_trial *best)
{
  hr_trial trial;
  if (hr_evaluate(context, model, workload, &trial) && (best->time_ns == 0 || trial.net_gain > best->net_gain + 1e-4) &&
      removes_loss(context, worst, part, &trial))
    *best = trial;
}

static hr_trial best_nearby_width(hr_advice_context *context, const loss *worst, loss_part part, int64_t granule)
{
  const hr_model *model = &context->advice->model;
  hr_trial best = {.time_ns = 0};
  int64_t own = hr_main_mlp_width(model);
  int64_t least = (int64_t)(0.97 * (double)own) / granule, most = (int64_t)(1.03 * (double)own) / granule;
  for (int64_t i = least; i <= most; i += 1 + (most - least) / WIDTHS_MAX) {
    hr_model changed = *model;
    if (i <= 0 || i * granule == own)
      continue;
    hr_set_mlp_width(&changed, i * granule, granule);
    try_change(context, worst, part, &changed, NULL, &best);
  }
  return best;
}

static hr_trial best_nearby_vocabulary(hr_advice_context *context, const loss *worst, loss_part part, int64_t granule)
{
  hr_model changed = context->advice->model;
  hr_trial best = {.time_ns = 0};
  int64_t own = changed.vocabulary;
  for (int64_t multiple = granule; multiple <= 8 * granule; multiple *= 2) {
    changed.vocabulary = hr_round_up(own, multiple);
    if (changed.vocabulary != own)
      try_change(context, worst, part, &changed, NULL, &best);
  }
  return best;
}

static hr_trial best_nearby_batch(hr_advice_context *context, const loss *worst, loss_part part)
{
  hr_workload changed = context->advice->workload;
  hr_trial best = {.time_ns = 0};
  int64_t own = changed.batch;
  for (int64_t more = 1; more <= hr_min64(own, 8); more++) {
    changed.batch = own + more;
    try_change(context, worst, part, NULL, &changed, &best);
  }
  return best;
}

/* The best nearby value of the size that changes this operator's tiles. */
static hr_trial best_nearby_size(hr_advice_context *context, const loss *worst, loss_part part)
{
  int64_t granule = 64 * context->advice->workload.tensor_parallel;
  if (is_mlp(worst->op->id))
    return best_nearby_width(context, worst, part, granule);
  if (worst->op->id == HR_OP_LOGIT)
    return best_nearby_vocabulary(context, worst, part, granule);
  return best_nearby_batch(context, worst, part);
}

/* The size that the trial changes, with its value in `model` and `workload`. */
static hr_text192 format_size(const hr_advice *advice, const hr_trial *trial, const hr_model *model,
                              const hr_workload *workload)
{
  if (hr_main_mlp_width(&trial->model) != hr_main_mlp_width(&advice->model))
    return hr_format_mlp_width(model);
  if (trial->model.vocabulary != advice->model.vocabulary)
    return hr_format_text("vocabulary %" PRId64, model->vocabulary);
  return hr_format_text("b = %" PRId64, workload->batch);
}

/* A GEMM has m × n × k, attention queries × keys × head size. */
static hr_text192 format_dimensions(const hr_operator *op, const char *name)
{
  const hr_attention *call = &op->attention;
  bool is_gemm = op->kind != HR_KIND_ATTENTION;
  return hr_format_text("%s %" PRId64 " × %" PRId64 " × %" PRId64, name, is_gemm ? op->gemm.m : call->q_len,
                        is_gemm ? op->gemm.n : call->kv_len, is_gemm ? op->gemm.k : call->qk_dim);
}

static void report_loss(hr_advice_context *context, const loss *worst, loss_part part, const char *what,
                        const char *how)
{
  const hr_advice *advice = context->advice;
  hr_operator_set main = HR_OPERATOR_BIT(worst->op->id);
  double share = 100 * worst->time_ns / advice->step.about.microbatch_time_ns;
  char name[48];
  hr_operator_name(worst->op, name, sizeof name);
  hr_text192 current = format_dimensions(worst->op, name);
  if (share < 100 * LOSS_MIN) {
    hr_add_satisfied(context, main, current.text, "%s costs at most %s, in %s (%.1f%% of the step)", what,
                     hr_format_time(worst->time_ns).text, name, share);
    return;
  }
  hr_trial trial = best_nearby_size(context, worst, part);
  if (!hr_is_worthwhile(&trial) || hr_already_suggested(context, &trial)) {
    hr_add_satisfied(context, main, current.text, "%s costs %s %s, %.1f%% of the step (%s); %s", what, name,
                     hr_format_time(worst->time_ns).text, share, how,
                     hr_is_worthwhile(&trial) ? "another rule already changes the size" : "no nearby size is better");
    return;
  }
  hr_text192 now = format_size(advice, &trial, &advice->model, &advice->workload);
  hr_text192 then = format_size(advice, &trial, &trial.model, &trial.workload);
  hr_add_suggestion(context, &trial, main, 0, now.text, then.text,
                    "%s costs %s %s, %.1f%% of the step (%s); with %s the step takes %.1f%% less time per token", what,
                    name, hr_format_time(worst->time_ns).text, share, how, then.text, 100 * (1 - 1 / (1 + trial.gain)));
}

void hr_rule_tile_quantization(hr_advice_context *context)
{
  loss worst = largest_loss(&context->advice->step, tile_loss_ns);
  if (!worst.op) {
    hr_add_satisfied(context, 0, "no tile waste", "every GEMM fills its tiles");
    return;
  }
  hr_text192 how =
      hr_format_text("tiles of %" PRId64 " × %" PRId64 ", %.1f%% of their area outside the result",
                     worst.prediction->tile_m, worst.prediction->tile_n, 100 * worst.prediction->tile_waste);
  report_loss(context, &worst, tile_loss_ns, "tile quantization", how.text);
}

void hr_rule_wave_quantization(hr_advice_context *context)
{
  loss worst = largest_loss(&context->advice->step, wave_loss_ns);
  if (!worst.op) {
    hr_add_satisfied(context, 0, "no wave waste", "the tiles of every GEMM fill their waves");
    return;
  }
  hr_text192 how =
      hr_format_text("%" PRId64 " tile%s in %" PRId64 " wave%s, %.1f%% of the slots empty", worst.prediction->tiles,
                     worst.prediction->tiles == 1 ? "" : "s", worst.prediction->waves,
                     worst.prediction->waves == 1 ? "" : "s", 100 * worst.prediction->wave_waste);
  report_loss(context, &worst, wave_loss_ns, "wave quantization", how.text);
}
