/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that change the hidden size: its part per device, and nodes of six devices. */
#include "analysis/advise/rules.h"
#include "base/checked.h"
#include "model/reshape/reshape.h"

#include <headroom/experimental/model.h>
#include <inttypes.h>

/* No size of a model may be larger (hr_model_check()). */
#define SIZE_MAX_OF_MODEL 0x1p40

/* The model with another hidden size and the MLP in proportion (a multiple of 64·t). */
static bool with_hidden(const hr_advice *advice, int64_t hidden, int64_t heads, hr_model *changed)
{
  if (hidden < 1 || heads < 1 || !hr_reshape_heads(&advice->model, hidden, heads, changed))
    return false;
  double granule = 64.0 * (double)advice->workload.tensor_parallel;
  double width = (double)hr_main_mlp_width(&advice->model) * (double)hidden / (double)advice->model.hidden;
  if (width > SIZE_MAX_OF_MODEL || granule > SIZE_MAX_OF_MODEL)
    return false;
  if (width > 0)
    hr_set_mlp_width(changed, hr_max64((int64_t)(width / granule + 0.5), 1) * (int64_t)granule, (int64_t)granule);
  return hr_heads_split(changed, advice->workload.tensor_parallel);
}

/* "h = 2560, 20 heads of 128, MLP width 10240" */
static hr_text192 format_shape(const hr_model *model)
{
  hr_text192 heads = hr_format_heads(model), width = hr_format_mlp_width(model);
  bool has_mlp = hr_main_mlp_width(model) > 0;
  return hr_format_text("h = %" PRId64 ", %s%s%s", model->hidden, heads.text, has_mlp ? ", " : "",
                        has_mlp ? width.text : "");
}

/* Tries a hidden size with the same number of heads, and with heads of the same size, 128 and 64. */
static void try_hidden(hr_advice_context *context, int64_t hidden, hr_trial *best)
{
  const hr_advice *advice = context->advice;
  const hr_mixer_attention *heads = hr_main_attention(&advice->model);
  double width = (double)heads->q_heads * (double)heads->qk_dim * (double)hidden / (double)advice->model.hidden;
  int64_t dims[] = {heads->qk_dim, 128, 64};
  hr_model changed;
  if (width > SIZE_MAX_OF_MODEL)
    return;
  if (with_hidden(advice, hidden, heads->q_heads, &changed) && hr_main_attention(&changed)->qk_dim % 8 == 0)
    hr_keep_better(context, &changed, NULL, best);
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
    if (with_hidden(advice, hidden, (int64_t)(width / (double)dims[i]), &changed))
      hr_keep_better(context, &changed, NULL, best);
  }
}

void hr_rule_hidden_per_device(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  int64_t h = advice->model.hidden, t = advice->workload.tensor_parallel;
  const hr_operator_set gemms = hr_layer_gemms(&advice->step);
  hr_text192 current = hr_format_text("h/t = %" PRId64 "/%" PRId64, h, t);
  if (h % (64 * t) == 0) {
    hr_add_satisfied(context, gemms, current.text, "h/t = %" PRId64 " is a multiple of 64", h / t);
    return;
  }
  if (hr_main_attention(&advice->model)->q_heads == 0) {
    hr_add_satisfied(context, gemms, current.text,
                     "h/t = %.2f is not a multiple of 64, but other hidden sizes are tried only with multi-head, "
                     "multi-query or grouped-query attention, which no layer has",
                     (double)h / (double)t);
    return;
  }
  if (t % 3 == 0) {
    hr_add_satisfied(context, gemms, current.text, "h/t = %.2f is not a multiple of 64: see six_gpu_node",
                     (double)h / (double)t);
    return;
  }
  hr_trial best = {.time_ns = 0};
  try_hidden(context, h / (64 * t) * (64 * t), &best);
  try_hidden(context, hr_round_up(h, 64 * t), &best);
  if (!hr_is_worthwhile(&best)) {
    hr_add_not_applicable(context, gemms, current.text,
                          "h/t = %.2f is not a multiple of 64, but %s, and no neighbouring hidden size is faster",
                          (double)h / (double)t,
                          hr_explain_no_loss(&advice->hardware, hr_ceil_div(h, t), advice->workload.dtype, false).text);
    return;
  }
  hr_add_suggestion(context, &best, gemms, 0, current.text, format_shape(&best.model).text,
                    "h/t = %.2f is not a multiple of 64: the step takes %s, with h = %" PRId64 " %s",
                    (double)h / (double)t, hr_format_time(advice->step.about.time_ns).text, best.model.hidden,
                    hr_format_time(best.time_ns).text);
}

/* Tries a hidden size that is a multiple of 64·t, heads that t divides, and the number of layers that keeps the
 * parameters about the same. */
static void try_hidden_for_six(hr_advice_context *context, int64_t hidden, int64_t dim, hr_trial *best)
{
  const hr_advice *advice = context->advice;
  int64_t p = advice->workload.pipeline_stages;
  double ratio = (double)advice->model.hidden / (double)hidden;
  const hr_mixer_attention *heads = hr_main_attention(&advice->model);
  double width = (double)heads->q_heads * (double)heads->qk_dim / ratio;
  hr_model changed;
  if (width > SIZE_MAX_OF_MODEL || !with_hidden(advice, hidden, (int64_t)(width / (double)dim), &changed) ||
      hr_main_attention(&changed)->qk_dim != dim)
    return;
  int64_t layers =
      hr_max64((int64_t)((double)hr_model_layers(&advice->model) * ratio * ratio / (double)p + 0.5), 1) * p;
  changed = hr_reshape_layers(&changed, layers);
  hr_keep_better(context, &changed, NULL, best);
}

static void report_six(hr_advice_context *context, const char *current)
{
  const hr_advice *advice = context->advice;
  const hr_model *model = &advice->model;
  int64_t own_heads = hr_main_attention(model)->q_heads;
  int64_t t = advice->workload.tensor_parallel, granule = 64 * t;
  const hr_operator_set gemms = hr_layer_gemms(&advice->step) | hr_attention_matmuls(&advice->step);
  hr_trial best = {.time_ns = 0};
  for (int64_t hidden = hr_max64(model->hidden / granule, 1) * granule; hidden <= hr_round_up(model->hidden, granule);
       hidden += granule) {
    try_hidden_for_six(context, hidden, 128, &best);
    try_hidden_for_six(context, hidden, 64, &best);
  }
  bool possible = hr_heads_split(model, t) && model->hidden % t == 0;
  if (best.time_ns <= 0 && !possible) {
    hr_add_infeasible(context, NULL, HR_CHANGED_HIDDEN, gemms, current, "another h and number of heads",
                      "h = %" PRId64 " and %" PRId64 " heads do not split over t = %" PRId64
                      ", and neither do the neighbouring hidden sizes with heads of 64 or 128 in the same groups",
                      model->hidden, own_heads, t);
    return;
  }
  if (best.time_ns <= 0 || (possible && !hr_is_worthwhile(&best))) {
    hr_add_not_applicable(context, gemms, current,
                          "h = %" PRId64 " is not a multiple of %" PRId64
                          " (64·t), but no neighbouring hidden size is faster on %" PRId64 " devices",
                          model->hidden, granule, t);
    return;
  }
  hr_text192 suggested =
      hr_format_text("%s, %" PRId64 " layers", format_shape(&best.model).text, hr_model_layers(&best.model));
  const char *why =
      "h = %" PRId64 " and %" PRId64 " heads over t = %" PRId64 " give a device %.2f columns and %.2f heads; a node "
      "of six needs h divisible by %" PRId64 ", which on 8 devices gives each %.2f columns and %.2f heads";
  double on_eight = (double)best.model.hidden / 8, heads_on_eight = (double)hr_main_attention(&best.model)->q_heads / 8;
  double share = (double)model->hidden / (double)t, heads = (double)own_heads / (double)t;
  if (possible)
    hr_add_suggestion(context, &best, gemms, 0, current, suggested.text, why, model->hidden, own_heads, t, share, heads,
                      granule, on_eight, heads_on_eight);
  else
    hr_add_infeasible(context, &best, HR_CHANGED_HIDDEN, gemms, current, suggested.text, why, model->hidden, own_heads,
                      t, share, heads, granule, on_eight, heads_on_eight);
}

void hr_rule_six_gpu_node(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_model *model = &advice->model;
  int64_t t = advice->workload.tensor_parallel, node = advice->hardware.devices_per_node;
  const hr_operator_set gemms = hr_layer_gemms(&advice->step);
  int64_t heads = hr_main_attention(model)->q_heads;
  hr_text192 current = hr_format_text("h = %" PRId64 ", a = %" PRId64 ", t = %" PRId64, model->hidden, heads, t);
  if (hr_lacks_heads(context))
    return;
  if (t % 3 != 0 && (node == 0 || node % 6 != 0)) {
    hr_add_satisfied(context, gemms, current.text,
                     "t = %" PRId64 " is not a multiple of 3, so h need not "
                     "be divisible by 3",
                     t);
    return;
  }
  if (t % 3 != 0) {
    hr_add_satisfied(context, gemms, current.text,
                     "a node has %" PRId64 " devices: t = 6 would need h divisible by 384 (h = %" PRId64
                     " is%s) and heads divisible by 6 (%" PRId64 ")",
                     node, model->hidden, model->hidden % 384 == 0 ? "" : " not", heads);
    return;
  }
  if (model->hidden % (64 * t) == 0 && hr_heads_split(model, t)) {
    hr_add_satisfied(context, gemms, current.text,
                     "h/t = %" PRId64 " is a multiple of 64 on %" PRId64 " devices; on 8, h/8 = %.2f and a/8 = %.2f",
                     model->hidden / t, t, (double)model->hidden / 8, (double)heads / 8);
    return;
  }
  report_six(context, current.text);
}
