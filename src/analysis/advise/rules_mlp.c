/* SPDX-License-Identifier: Apache-2.0 */
/* The width of the MLP: a brute-force search near the usual one. */
#include "analysis/advise/rules.h"
#include "base/checked.h"
#include "base/error.h"
#include "model/reshape/reshape.h"

#include <headroom/experimental/operators.h>
#include <headroom/experimental/predict.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MLP_OPERATORS                                                                                  \
  (HR_OPERATOR_BIT(HR_OP_MLP_UP) | HR_OPERATOR_BIT(HR_OP_MLP_GATE) | HR_OPERATOR_BIT(HR_OP_MLP_DOWN) | \
   HR_OPERATOR_BIT(HR_OP_ACTIVATION))

/* The search covers this range to both sides, as a share of the width. */
#define RANGE 0.03
/* A width counts as one of the best if its rate is within this share of the best rate; predictions are no finer. */
#define AMONG_BEST 0.03
/* A width that at most this share of the others beats is fast enough, too. */
#define FEW_FASTER 0.02
#define WIDTHS_MAX 4096

#define PASSES (HR_PASS_BGRAD + 1)

/* The last operator of each pass. Those of gate and up are equal, and a GEMM's tiles take long to find. */
typedef struct last_operators {
  const hr_operator *op[PASSES];
  double time_ns[PASSES];
} last_operators;

static bool are_equal(const hr_operator *a, const hr_operator *b)
{
  return a && a->kind == HR_KIND_GEMM && b->kind == HR_KIND_GEMM && a->bytes == b->bytes &&
         a->activations == HR_ACTIVATIONS_UNQUANTIZED && b->activations == HR_ACTIVATIONS_UNQUANTIZED &&
         /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-*): padding costs at most a prediction */
         memcmp(&a->gemm, &b->gemm, sizeof a->gemm) == 0;
}

/* Sets last->time_ns[op->pass]. */
static hr_status predict_after(const hr_advice *advice, const hr_operator *op, last_operators *last)
{
  hr_prediction prediction;
  if (!are_equal(last->op[op->pass], op)) {
    HR_TRY(hr_predict_operator(&advice->hardware, op, &prediction, NULL));
    last->time_ns[op->pass] = prediction.time_ns;
  }
  last->op[op->pass] = op;
  return HR_OK;
}

/* Width per ns of the GEMMs and the activation of a layer's MLP; 0 if they cannot be predicted. */
static double rate_at(hr_advice_context *context, int64_t width)
{
  const hr_advice *advice = context->advice;
  hr_operators *operators = &context->after.operators;
  hr_model model = advice->model;
  hr_set_mlp_width(&model, width, advice->workload.tensor_parallel);
  if (hr_operators_list(&model, &advice->workload, operators, NULL) != HR_OK)
    return 0;
  last_operators last = {.op = {NULL}};
  double time_ns = 0;
  for (size_t i = 0; i < operators->count; i++) {
    const hr_operator *op = &operators->items[i];
    if (!(HR_OPERATOR_BIT(op->id) & MLP_OPERATORS))
      continue;
    if (predict_after(advice, op, &last) != HR_OK)
      return 0;
    time_ns += (double)op->count * last.time_ns[op->pass];
  }
  return time_ns > 0 ? (double)width / time_ns : 0;
}

typedef struct width_search {
  double usual;           /* 8h/3 or 4h; the model's own width if that is far from it */
  int64_t tried, faster;  /* number of widths tried, and of those with a higher rate than the model's own */
  double rate, best_rate; /* of the model's own width; of the best multiple of 64·t */
  int64_t suggested;      /* the width nearest to the model's own that is nearly as fast as the best */
} width_search;

static double usual_width(const hr_model *model)
{
  const hr_ffn_dense *own = hr_main_dense(model);
  double width = (own->gated ? 8.0 / 3 : 4.0) * (double)model->hidden;
  return fabs((double)own->width / width - 1) <= RANGE ? width : (double)own->width;
}

static void find_nearest(hr_advice_context *context, width_search *search, int64_t least, int64_t most, int64_t step)
{
  int64_t own = hr_main_dense(&context->advice->model)->width;
  for (int64_t width = hr_round_up(least, step); width <= most; width += step)
    search->best_rate = fmax(search->best_rate, rate_at(context, width));
  for (int64_t width = hr_round_up(least, step); width <= most; width += step) {
    bool nearer = search->suggested == 0 || llabs(width - own) < llabs(search->suggested - own);
    if (nearer && rate_at(context, width) >= 0.98 * search->best_rate)
      search->suggested = width;
  }
}

static width_search search_widths(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  int64_t t = advice->workload.tensor_parallel;
  width_search search = {.usual = usual_width(&advice->model)};
  int64_t least = hr_max64((int64_t)(search.usual * (1 - RANGE)), 1);
  int64_t most = (int64_t)(search.usual * (1 + RANGE));
  int64_t step = hr_round_up(hr_ceil_div(most - least + 1, WIDTHS_MAX), t);
  search.rate = rate_at(context, hr_main_dense(&advice->model)->width);
  for (int64_t width = hr_round_up(least, step); width <= most; width += step) {
    search.tried++;
    search.faster += rate_at(context, width) > search.rate * (1 + 1e-9);
  }
  find_nearest(context, &search, least, most, hr_round_up(step, 64 * t));
  return search;
}

void hr_rule_mlp_width(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  int64_t width = hr_main_dense(&advice->model)->width, stages = advice->workload.pipeline_stages;
  const hr_operator_set gemms = hr_operators_present(&advice->step, MLP_OPERATORS & ~HR_OPERATOR_BIT(HR_OP_ACTIVATION));
  if (hr_advise_expert_width(context) || hr_lacks_mlp(context))
    return;
  hr_text192 current = hr_format_text("%s (%.3f h)", hr_format_mlp_width(&advice->model).text,
                                      (double)width / (double)advice->model.hidden);
  width_search search = search_widths(context);
  bool among_best =
      search.rate >= search.best_rate * (1 - AMONG_BEST) || (double)search.faster < FEW_FASTER * (double)search.tried;
  if (search.suggested == 0 || among_best) {
    hr_add_satisfied(context, gemms, current.text,
                     "width %" PRId64 " ranks %" PRId64 " of %" PRId64
                     " by speed, among the widths within 3%% of %.0f; the best multiple of 64 is %.1f%% faster",
                     width, search.faster + 1, search.tried, search.usual,
                     search.suggested ? 100 * fmax(search.best_rate / search.rate - 1, 0) : 0.0);
    return;
  }
  hr_model changed = advice->model;
  hr_set_mlp_width(&changed, search.suggested, 64 * advice->workload.tensor_parallel);
  hr_trial trial;
  if (!hr_evaluate(context, &changed, NULL, &trial))
    return;
  hr_text32 before = hr_format_time(hr_time_of(&advice->step, &advice->model, stages, gemms));
  hr_text32 after = hr_format_time(hr_time_of(&context->after, &changed, stages, gemms));
  if (!hr_is_worthwhile(&trial)) {
    hr_add_not_applicable(context, gemms, current.text,
                          "width %" PRId64 " ranks %" PRId64 " of %" PRId64
                          " by speed, among the widths within 3%% of %.0f, but the step "
                          "takes %s, and %s with %" PRId64,
                          width, search.faster + 1, search.tried, search.usual,
                          hr_format_time(advice->step.about.time_ns).text, hr_format_time(trial.time_ns).text,
                          search.suggested);
    return;
  }
  hr_add_suggestion(
      context, &trial, gemms, 0, current.text, hr_format_mlp_width(&changed).text,
      "width %" PRId64 " ranks %" PRId64 " of %" PRId64
      " by speed, among the widths within 3%% of %.0f: the MLP's GEMMs take %s (%s), with %" PRId64 " %s (%s)",
      width, search.faster + 1, search.tried, search.usual, before.text, hr_format_rate(&advice->step, gemms).text,
      search.suggested, after.text, hr_format_rate(&context->after, gemms).text);
}
