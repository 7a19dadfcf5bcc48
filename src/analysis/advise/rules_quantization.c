/* Rules about the grain of the device: tiles that reach over a product's edge, waves that do not fill it.
 *
 * Both look at the product that loses most and at the one size nearby that would change it: the MLP's width, the
 * vocabulary, else the microbatch (which all other products' rows follow). */
#include "analysis/advise/rules.h"
#include "analysis/predict/terms.h"
#include "base/checked.h"

#include <inttypes.h>

/* A loss below this share of the step is not worth a word. */
#define LOSS_LEAST 0.01

/* Widths tried at most. */
#define WIDTHS_MAX 256
/* A size nearby has to take away this share of the loss, or it is faster for another reason. */
#define LOSS_TAKEN_AWAY 0.25

typedef double (*loss_part)(const hr_prediction *prediction);

typedef struct loss {
  const hr_operator *op;
  const hr_prediction *prediction;
  double time_ns; /* over the step */
} loss;

/* What a part adds to the time: nothing where memory takes longer than the whole product. */
static double shown_ns(const hr_prediction *prediction, double part_ns)
{
  double product_ns = prediction->matrix_ns + prediction->tile_ns + prediction->wave_ns + prediction->alignment_ns;
  return hr_overlap(product_ns, prediction->memory_ns) - hr_overlap(product_ns - part_ns, prediction->memory_ns);
}

/* Where no tile reaches over the edge, tile_ns is only that a smaller tile is a slower one: nothing to fill. */
static double tile_loss_ns(const hr_prediction *prediction)
{
  return prediction->tile_waste > 0 ? shown_ns(prediction, prediction->tile_ns) : 0;
}

static double wave_loss_ns(const hr_prediction *prediction)
{
  return shown_ns(prediction, prediction->wave_ns);
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
  return id == HR_OP_MLP_UP || id == HR_OP_MLP_GATE || id == HR_OP_MLP_DOWN;
}

/* Whether the operator loses clearly less a token in the trial, whose step is in context->after. */
static bool takes_loss_away(const hr_advice_context *context, const loss *worst, loss_part part, const hr_trial *trial)
{
  double after_ns = 0;
  for (size_t i = 0; i < context->after.operators.count; i++) {
    const hr_operator *op = &context->after.operators.items[i];
    if (op->id == worst->op->id && op->pass == worst->op->pass)
      after_ns += (double)op->count * part(&context->after.predictions[i]);
  }
  double before = worst->time_ns / (double)hr_tokens_per_step(&context->advice->workload);
  return after_ns / (double)hr_tokens_per_step(&trial->workload) <= (1 - LOSS_TAKEN_AWAY) * before;
}

/* Keeps the trial of a change in *best if it gains more and takes the loss away. */
static void try_change(hr_advice_context *context, const loss *worst, loss_part part, const hr_model *model,
                       const hr_workload *workload, hr_trial *best)
{
  hr_trial trial;
  if (hr_evaluate(context, model, workload, &trial) && (best->time_ns == 0 || trial.net_gain > best->net_gain + 1e-4) &&
      takes_loss_away(context, worst, part, &trial))
    *best = trial;
}

/* The best of the sizes near the model's own that change this product's tiles. */
static hr_trial pull_lever(hr_advice_context *context, const loss *worst, loss_part part)
{
  hr_operator_id id = worst->op->id;
  const hr_advice *advice = context->advice;
  hr_trial best = {.time_ns = 0};
  int64_t granule = 64 * advice->workload.tensor_parallel;
  if (is_mlp(id)) {
    hr_model changed = advice->model;
    double width = (double)advice->model.mlp_width;
    int64_t least = (int64_t)(0.97 * width) / granule, most = (int64_t)(1.03 * width) / granule;
    for (int64_t i = least; i <= most; i += 1 + (most - least) / WIDTHS_MAX) {
      changed.mlp_width = i * granule;
      if (i > 0 && changed.mlp_width != advice->model.mlp_width)
        try_change(context, worst, part, &changed, NULL, &best);
    }
  } else if (id == HR_OP_LOGIT) {
    hr_model changed = advice->model;
    for (int64_t multiple = granule; multiple <= 8 * granule; multiple *= 2) {
      changed.vocabulary = hr_round_up(advice->model.vocabulary, multiple);
      if (changed.vocabulary != advice->model.vocabulary)
        try_change(context, worst, part, &changed, NULL, &best);
    }
  } else {
    hr_workload changed = advice->workload;
    for (int64_t more = 1; more <= hr_min64(advice->workload.batch, 8); more++) {
      changed.batch = advice->workload.batch + more;
      try_change(context, worst, part, NULL, &changed, &best);
    }
  }
  return best;
}

/* The size that the trial changes, as it is in `model` and `workload`. */
static hr_text192 say_size(const hr_advice *advice, const hr_trial *trial, const hr_model *model,
                           const hr_workload *workload)
{
  if (trial->model.mlp_width != advice->model.mlp_width)
    return hr_format_text("MLP width %" PRId64, model->mlp_width);
  if (trial->model.vocabulary != advice->model.vocabulary)
    return hr_format_text("vocabulary %" PRId64, model->vocabulary);
  return hr_format_text("b = %" PRId64, workload->batch);
}

static void answer_loss(hr_advice_context *context, const loss *worst, loss_part part, const char *what,
                        const char *how)
{
  const hr_advice *advice = context->advice;
  const hr_gemm *gemm = &worst->op->gemm;
  hr_operator_set main = HR_OPERATOR_BIT(worst->op->id);
  double share = 100 * worst->time_ns / advice->step.time_ns;
  char name[48];
  hr_operator_name(worst->op, name, sizeof name);
  hr_text192 current = hr_format_text("%s %" PRId64 " × %" PRId64 " × %" PRId64, name, gemm->m, gemm->n, gemm->k);
  if (share < 100 * LOSS_LEAST) {
    hr_add_satisfied(context, main, current.text, "the most that %s costs is %s in %s, %.1f%% of the step", what,
                     hr_format_time(worst->time_ns).text, name, share);
    return;
  }
  hr_trial trial = pull_lever(context, worst, part);
  if (!hr_is_worthwhile(&trial) || hr_already_suggested(context, &trial)) {
    hr_add_satisfied(context, main, current.text, "%s costs %s %s, %.1f%% of the step (%s); %s", what, name,
                     hr_format_time(worst->time_ns).text, share, how,
                     hr_is_worthwhile(&trial) ? "another rule suggests the size that changes it"
                                              : "no size nearby is better");
    return;
  }
  hr_text192 now = say_size(advice, &trial, &advice->model, &advice->workload);
  hr_text192 then = say_size(advice, &trial, &trial.model, &trial.workload);
  hr_add_suggestion(context, &trial, main, 0, now.text, then.text,
                    "%s costs %s %s, %.1f%% of the step (%s); with %s the step's time a token falls by %.1f%%", what,
                    name, hr_format_time(worst->time_ns).text, share, how, then.text, 100 * (1 - 1 / (1 + trial.gain)));
}

void hr_rule_tile_quantization(hr_advice_context *context)
{
  loss worst = largest_loss(&context->advice->step, tile_loss_ns);
  if (!worst.op) {
    hr_add_satisfied(context, 0, "no tile waste", "every product fills its tiles");
    return;
  }
  hr_text192 how =
      hr_format_text("tiles of %" PRId64 " × %" PRId64 ", %.1f%% of their area outside", worst.prediction->tile_m,
                     worst.prediction->tile_n, 100 * worst.prediction->tile_waste);
  answer_loss(context, &worst, tile_loss_ns, "tile quantization", how.text);
}

void hr_rule_wave_quantization(hr_advice_context *context)
{
  loss worst = largest_loss(&context->advice->step, wave_loss_ns);
  if (!worst.op) {
    hr_add_satisfied(context, 0, "no wave waste", "the tiles of every product fill their waves");
    return;
  }
  hr_text192 how = hr_format_text("%" PRId64 " tiles in %" PRId64 " wave%s, %.1f%% of the slots empty",
                                  worst.prediction->tiles, worst.prediction->waves,
                                  worst.prediction->waves == 1 ? "" : "s", 100 * worst.prediction->wave_waste);
  answer_loss(context, &worst, wave_loss_ns, "wave quantization", how.text);
}
