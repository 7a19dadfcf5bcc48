/* Rules about splitting a model over devices: tensor parallelism, pipeline stages, nodes of six. */
#include "analysis/advise/rules.h"
#include "analysis/model/reshape.h"
#include "base/checked.h"

#include <headroom/memory.h>
#include <inttypes.h>
#include <math.h>

/* Degrees of parallelism are looked through up to here, so that absurd sizes are answered too. */
#define DEGREES_MAX 4096
/* No size of a model may be larger (hr_model_check()). */
#define SIZE_MOST 0x1p40

/* The model with another hidden size, its MLP in proportion (a multiple of 64 a device). */
static bool with_hidden(const hr_advice *advice, int64_t hidden, int64_t heads, hr_model *changed)
{
  if (hidden < 1 || heads < 1 || !hr_reshape_heads(&advice->model, hidden, heads, changed))
    return false;
  double granule = 64.0 * (double)advice->workload.tensor_parallel;
  double width = (double)advice->model.mlp_width * (double)hidden / (double)advice->model.hidden;
  if (width > SIZE_MOST || granule > SIZE_MOST)
    return false;
  changed->mlp_width = hr_max64((int64_t)(width / granule + 0.5), 1) * (int64_t)granule;
  return hr_heads_split(changed, advice->workload.tensor_parallel);
}

/* Heads for a hidden size: as many as now, else heads of the size they have, else of 64 or 128. */
static void try_hidden(hr_advice_context *context, int64_t hidden, hr_trial *best)
{
  const hr_advice *advice = context->advice;
  const hr_model *model = &advice->model;
  double width = (double)model->q_heads * (double)model->qk_dim * (double)hidden / (double)model->hidden;
  int64_t dims[] = {model->qk_dim, 128, 64};
  hr_model changed;
  if (width > SIZE_MOST)
    return;
  if (with_hidden(advice, hidden, model->q_heads, &changed) && changed.qk_dim % 8 == 0)
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
  if (t % 3 == 0) {
    hr_add_satisfied(context, gemms, current.text, "h/t = %.2f is no multiple of 64: see six_gpu_node",
                     (double)h / (double)t);
    return;
  }
  hr_trial best = {.time_ns = 0};
  try_hidden(context, h / (64 * t) * (64 * t), &best);
  try_hidden(context, hr_round_up(h, 64 * t), &best);
  if (!hr_is_worthwhile(&best)) {
    hr_add_not_applicable(context, gemms, current.text,
                          "h/t = %.2f is not a multiple of 64, but %s and no hidden size next to it is faster",
                          (double)h / (double)t,
                          hr_explain_no_loss(&advice->hardware, hr_ceil_div(h, t), advice->workload.dtype, false).text);
    return;
  }
  hr_add_suggestion(context, &best, gemms, 0, current.text,
                    hr_format_text("h = %" PRId64 ", %s, MLP width %" PRId64, best.model.hidden,
                                   hr_format_heads(&best.model).text, best.model.mlp_width)
                        .text,
                    "h/t = %.2f is not a multiple of 64: the step takes %s, with h = %" PRId64 " %s",
                    (double)h / (double)t, hr_format_time(advice->step.time_ns).text, best.model.hidden,
                    hr_format_time(best.time_ns).text);
}

static double bytes_needed(const hr_advice *advice, const hr_workload *workload)
{
  hr_memory memory;
  return hr_memory_estimate(&advice->model, workload, &memory, NULL) == HR_OK ? (double)memory.total_bytes : INFINITY;
}

static bool fits(const hr_advice *advice, const hr_workload *workload)
{
  double capacity = (double)hr_usable_memory_bytes(&advice->hardware);
  return capacity <= 0 || bytes_needed(advice, workload) <= capacity;
}

/* Whether a step that fits still does under `workload`. */
static bool keeps_fitting(const hr_advice *advice, const hr_workload *workload)
{
  return fits(advice, workload) || !fits(advice, &advice->workload);
}

/* The next degree down, else up, over which the heads split; 1 where none fits. */
static int64_t splitting_degree(const hr_advice *advice)
{
  hr_workload changed = advice->workload;
  int64_t *degree = &changed.tensor_parallel, t = *degree;
  for (*degree = hr_min64(t - 1, DEGREES_MAX); *degree > 1; --*degree) {
    if (hr_heads_split(&advice->model, *degree) && keeps_fitting(advice, &changed))
      return *degree;
  }
  if (keeps_fitting(advice, &changed))
    return 1;
  for (*degree = t + 1; *degree <= hr_min64(advice->model.q_heads, DEGREES_MAX); ++*degree) {
    if (hr_heads_split(&advice->model, *degree))
      return *degree;
  }
  return 1;
}

/* "the fullest device would have 10 query heads where the average is 9.33", of the heads that do not split. */
static hr_text192 say_fullest(const hr_model *model, int64_t t)
{
  const struct {
    int64_t count;
    const char *name;
  } heads[] = {{model->q_heads, "query"}, {model->k_heads, "K"}, {model->v_heads, "V"}};
  size_t i = 0;
  while (i < 2 && heads[i].count % t == 0)
    i++;
  return hr_format_text("the fullest device would have %" PRId64 " %s heads where the average is %.2f",
                        hr_ceil_div(heads[i].count, t), heads[i].name, (double)heads[i].count / (double)t);
}

void hr_rule_batch_heads_per_device(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_model *model = &advice->model;
  int64_t t = advice->workload.tensor_parallel, b = advice->workload.batch;
  const hr_operator_set matmuls = hr_attention_matmuls(&advice->step);
  hr_text192 current = hr_format_text("%" PRId64 " query, %" PRId64 " K and %" PRId64 " V heads, t = %" PRId64,
                                      model->q_heads, model->k_heads, model->v_heads, t);
  if (hr_heads_split(model, t)) {
    int64_t heads_per_device = model->q_heads / t;
    hr_add_satisfied(context, matmuls, current.text,
                     "(b·a)/t = %.0f is an integer and every device has %" PRId64 " heads",
                     (double)b * (double)heads_per_device, heads_per_device);
    return;
  }
  hr_workload changed = advice->workload;
  hr_trial trial;
  changed.tensor_parallel = splitting_degree(advice);
  bool tried = hr_evaluate(context, NULL, &changed, &trial);
  hr_add_infeasible(context, tried ? &trial : NULL, matmuls, current.text,
                    hr_format_text("t = %" PRId64, changed.tensor_parallel).text,
                    "%" PRId64 " query, %" PRId64 " K and %" PRId64 " V heads do not split over %" PRId64
                    " devices: Megatron refuses, and %s",
                    model->q_heads, model->k_heads, model->v_heads, t, say_fullest(model, t).text);
}

void hr_rule_tensor_parallel_small(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  int64_t t = advice->workload.tensor_parallel;
  const hr_operator_set gemms = hr_layer_gemms(&advice->step);
  hr_text192 current = hr_format_text("t = %" PRId64, t);
  double capacity = (double)hr_usable_memory_bytes(&advice->hardware);
  if (t == 1) {
    hr_add_satisfied(context, gemms, current.text, "t = 1 is as small as it gets");
    return;
  }
  hr_workload changed = advice->workload;
  double needed = 0;
  int64_t smaller = 1, largest = hr_min64(t, DEGREES_MAX);
  for (; smaller < largest; smaller++) {
    changed.tensor_parallel = smaller;
    if (t % smaller != 0 || !hr_heads_split(&advice->model, smaller))
      continue;
    needed = bytes_needed(advice, &changed);
    if (capacity <= 0 || needed <= capacity)
      break;
  }
  if (smaller == largest) {
    hr_add_satisfied(context, gemms, current.text,
                     "no smaller t fits: the least that was tried needs %s of %s usable on a device",
                     hr_format_bytes(needed).text, hr_format_bytes(capacity).text);
    return;
  }
  hr_trial trial;
  if (!hr_evaluate(context, NULL, &changed, &trial))
    return;
  if (!hr_is_worthwhile(&trial)) {
    hr_add_not_applicable(context, gemms, current.text,
                          "t = %" PRId64 " fits as well, but tokens a second of a device change by %s only", smaller,
                          hr_format_gain(trial.gain).text);
    return;
  }
  int64_t node = advice->hardware.devices_per_node;
  hr_text192 beyond = hr_format_text("%s", "");
  if (node > 0 && t > node)
    beyond = hr_format_text("; links between nodes of %" PRId64 " devices are slower than predicted here", node);
  hr_add_suggestion(
      context, &trial, gemms, HR_OPERATOR_BIT(HR_OP_ATTENTION_ALL_REDUCE) | HR_OPERATOR_BIT(HR_OP_MLP_ALL_REDUCE),
      current.text, hr_format_text("t = %" PRId64, smaller).text,
      "the step fits at t = %" PRId64 " (%s a device); on %" PRId64 " times the devices it takes %s instead "
      "of %s, so that each does %.1f%% less for its narrower products and all-reduces%s",
      smaller, hr_format_bytes(needed).text, t / smaller, hr_format_time(advice->step.time_ns).text,
      hr_format_time(trial.time_ns).text, 100 * (1 - 1 / (1 + trial.gain)), beyond.text);
}

/* The number of stages nearest to p, between p/2 and 2p, that divides the layers and needs no memory that is not there;
 * 0 if there is none. */
static int64_t dividing_stages(const hr_advice *advice)
{
  int64_t layers = advice->model.layers, p = advice->workload.pipeline_stages;
  hr_workload changed = advice->workload;
  for (int64_t distance = 1; distance <= hr_min64(hr_min64(p, layers), DEGREES_MAX); distance++) {
    changed.pipeline_stages = p - distance;
    if (p - distance >= hr_ceil_div(p, 2) && p - distance > 1 && layers % (p - distance) == 0 &&
        keeps_fitting(advice, &changed))
      return p - distance;
    if (p + distance <= layers && layers % (p + distance) == 0)
      return p + distance;
  }
  return 0;
}

void hr_rule_pipeline_divides_layers(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  int64_t layers = advice->model.layers, p = advice->workload.pipeline_stages;
  const hr_operator_set gemms = hr_layer_gemms(&advice->step);
  hr_text192 current = hr_format_text("%" PRId64 " layers, p = %" PRId64, layers, p);
  if (p == 1) {
    hr_add_satisfied(context, gemms, current.text, "one stage has all %" PRId64 " layers", layers);
    return;
  }
  if (layers % p == 0) {
    hr_add_satisfied(context, gemms, current.text, "each of %" PRId64 " stages has %" PRId64 " layers", p, layers / p);
    return;
  }
  int64_t fullest = hr_ceil_div(layers, p), stages = dividing_stages(advice);
  hr_workload workload = advice->workload;
  hr_model model = advice->model;
  hr_trial trial;
  hr_text192 suggested;
  if (stages > 0) {
    workload.pipeline_stages = stages;
    suggested = hr_format_text("p = %" PRId64 " (or %" PRId64 " layers)", stages, fullest * p);
  } else {
    model = hr_reshape_layers(&model, (fullest - 1) * p);
    suggested =
        hr_format_text("%" PRId64 " layers (or %" PRId64 " in the same time as now)", model.layers, fullest * p);
  }
  if (!hr_evaluate(context, &model, &workload, &trial))
    return;
  hr_add_suggestion(context, &trial, gemms, 0, current.text, suggested.text,
                    "%" PRId64 " layers over %" PRId64 " stages: each waits for one with %" PRId64
                    " layers, so %.1f%% of the devices' time is idle",
                    layers, p, fullest, 100 * (1 - (double)layers / (double)(fullest * p)));
}

/* A hidden size that is a multiple of 64·t, heads that t divides, and as many layers as keep the parameters about the
 * same. */
static void try_six(hr_advice_context *context, int64_t hidden, int64_t dim, hr_trial *best)
{
  const hr_advice *advice = context->advice;
  int64_t p = advice->workload.pipeline_stages;
  double ratio = (double)advice->model.hidden / (double)hidden;
  double width = (double)advice->model.q_heads * (double)advice->model.qk_dim / ratio;
  hr_model changed;
  if (width > SIZE_MOST || !with_hidden(advice, hidden, (int64_t)(width / (double)dim), &changed) ||
      changed.qk_dim != dim)
    return;
  int64_t layers = hr_max64((int64_t)((double)advice->model.layers * ratio * ratio / (double)p + 0.5), 1) * p;
  changed = hr_reshape_layers(&changed, layers);
  hr_keep_better(context, &changed, NULL, best);
}

static void answer_six(hr_advice_context *context, const char *current)
{
  const hr_advice *advice = context->advice;
  const hr_model *model = &advice->model;
  int64_t t = advice->workload.tensor_parallel, granule = 64 * t;
  const hr_operator_set gemms = hr_layer_gemms(&advice->step) | hr_attention_matmuls(&advice->step);
  hr_trial best = {.time_ns = 0};
  for (int64_t hidden = hr_max64(model->hidden / granule, 1) * granule; hidden <= hr_round_up(model->hidden, granule);
       hidden += granule) {
    try_six(context, hidden, 128, &best);
    try_six(context, hidden, 64, &best);
  }
  bool possible = hr_heads_split(model, t) && model->hidden % t == 0;
  if (best.time_ns <= 0 && !possible) {
    hr_add_infeasible(context, NULL, gemms, current, "another h and number of heads",
                      "h = %" PRId64 " and %" PRId64 " heads do not split over t = %" PRId64
                      ", nor does a hidden size next to it with heads of 64 or 128 and as many to a K and V head",
                      model->hidden, model->q_heads, t);
    return;
  }
  if (best.time_ns <= 0 || (possible && !hr_is_worthwhile(&best))) {
    hr_add_not_applicable(context, gemms, current,
                          "h = %" PRId64 " is no multiple of %" PRId64
                          " (64·t), but no hidden size next to it is faster on %" PRId64 " devices",
                          model->hidden, granule, t);
    return;
  }
  hr_text192 suggested =
      hr_format_text("h = %" PRId64 ", %s, MLP width %" PRId64 ", %" PRId64 " layers", best.model.hidden,
                     hr_format_heads(&best.model).text, best.model.mlp_width, best.model.layers);
  const char *why =
      "h = %" PRId64 " and %" PRId64 " heads over t = %" PRId64 " leave %.2f and %.2f to a device; a node of "
      "six wants h divisible by %" PRId64 ", which on 8 devices leaves %.2f columns and %.2f heads to each";
  double on_eight = (double)best.model.hidden / 8, heads_on_eight = (double)best.model.q_heads / 8;
  double share = (double)model->hidden / (double)t, heads = (double)model->q_heads / (double)t;
  if (possible)
    hr_add_suggestion(context, &best, gemms, 0, current, suggested.text, why, model->hidden, model->q_heads, t, share,
                      heads, granule, on_eight, heads_on_eight);
  else
    hr_add_infeasible(context, &best, gemms, current, suggested.text, why, model->hidden, model->q_heads, t, share,
                      heads, granule, on_eight, heads_on_eight);
}

void hr_rule_six_gpu_node(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_model *model = &advice->model;
  int64_t t = advice->workload.tensor_parallel, node = advice->hardware.devices_per_node;
  const hr_operator_set gemms = hr_layer_gemms(&advice->step);
  hr_text192 current =
      hr_format_text("h = %" PRId64 ", a = %" PRId64 ", t = %" PRId64, model->hidden, model->q_heads, t);
  if (t % 3 != 0 && (node == 0 || node % 6 != 0)) {
    hr_add_satisfied(context, gemms, current.text,
                     "t = %" PRId64 " is no multiple of 3, so nothing asks for h "
                     "divisible by 3",
                     t);
    return;
  }
  if (t % 3 != 0) {
    hr_add_satisfied(context, gemms, current.text,
                     "a node here has %" PRId64 " devices: t = 6 would want h divisible by 384 (h = %" PRId64
                     " is%s) and 6 to divide the heads (%" PRId64 ")",
                     node, model->hidden, model->hidden % 384 == 0 ? "" : " not", model->q_heads);
    return;
  }
  if (model->hidden % (64 * t) == 0 && hr_heads_split(model, t)) {
    hr_add_satisfied(context, gemms, current.text,
                     "h/t = %" PRId64 " is a multiple of 64 on %" PRId64 " devices; on 8, h/8 = %.2f and a/8 = %.2f",
                     model->hidden / t, t, (double)model->hidden / 8, (double)model->q_heads / 8);
    return;
  }
  answer_six(context, current.text);
}
