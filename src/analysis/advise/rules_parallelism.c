/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about splitting a model over devices: heads per device, the tensor-parallel degree, pipeline stages. */
#include "analysis/advise/rules.h"
#include "base/checked.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/split.h"
#include "model/reshape/reshape.h"

#include <headroom/experimental/hardware.h>
#include <headroom/experimental/model.h>
#include <headroom/memory.h>
#include <inttypes.h>
#include <math.h>

/* The largest degree of parallelism tried, so that the loops end for absurd sizes, too. */
#define DEGREES_MAX 4096
static double bytes_needed(const hr_advice *advice, const hr_workload *workload)
{
  hr_memory memory;
  return hr_memory_estimate(&advice->model, workload, &memory, NULL) == HR_OK ? (double)memory.total_bytes : INFINITY;
}

static bool fits(const hr_advice *advice, const hr_workload *workload)
{
  double capacity = (double)hr_hardware_usable_memory_bytes(&advice->hardware);
  return capacity <= 0 || bytes_needed(advice, workload) <= capacity;
}

/* Whether the step fits under `workload`, or does not fit as it is either. */
static bool keeps_fitting(const hr_advice *advice, const hr_workload *workload)
{
  return fits(advice, workload) || !fits(advice, &advice->workload);
}

/* The nearest smaller degree over which the model splits, else the nearest larger one; 1 if none fits. */
static int64_t splitting_degree(const hr_advice *advice)
{
  hr_workload changed = advice->workload;
  int64_t *degree = &changed.tensor_parallel, t = *degree,
          heads = hr_heads_of(hr_model_main_group(&advice->model)).q_heads;
  for (*degree = hr_min64(t - 1, DEGREES_MAX); *degree > 1; --*degree) {
    if (hr_split_of_workload(&advice->model, &changed).whole && keeps_fitting(advice, &changed))
      return *degree;
  }
  if (keeps_fitting(advice, &changed))
    return 1;
  for (*degree = t + 1; *degree <= hr_min64(heads, DEGREES_MAX); ++*degree) {
    if (hr_split_of_workload(&advice->model, &changed).whole)
      return *degree;
  }
  return 1;
}

/* "the most loaded device would have 10 query heads, 9.33 on average", for the first kind of heads that does not
 * split. */
static hr_text192 format_max_loaded(const hr_mixer_attention *layer, int64_t t)
{
  const struct {
    int64_t count;
    const char *name;
  } heads[] = {{layer->q_heads, "query"}, {layer->k_heads, "K"}, {layer->v_heads, "V"}};
  size_t i = 0;
  while (i < 2 && heads[i].count % t == 0)
    i++;
  return hr_format_text("the most loaded device would have %" PRId64 " %s heads, against %.2f on average",
                        hr_ceil_div(heads[i].count, t), heads[i].name, (double)heads[i].count / (double)t);
}

/* "32 query, 8 K and 8 V heads", of latent attention "128 heads". */
static hr_text192 format_heads(const hr_model *model, const hr_layer_group *layer)
{
  const hr_mixer_attention heads = hr_heads_of(layer);
  hr_text192 layers = hr_format_layers_with_heads(model, &heads);
  if (layer->latent.q_heads > 0)
    return hr_format_text("%" PRId64 " heads%s", heads.q_heads, layers.text);
  return hr_format_text("%" PRId64 " query, %" PRId64 " K and %" PRId64 " V heads%s", heads.q_heads, heads.k_heads,
                        heads.v_heads, layers.text);
}

void hr_rule_batch_heads_per_device(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_model *model = &advice->model;
  int64_t t = advice->workload.tensor_parallel, b = advice->workload.batch;
  const hr_operator_set matmuls = hr_attention_matmuls(&advice->step);
  const hr_layer_group *unsplit = hr_unsplit_layer(model, t), *layer = unsplit ? unsplit : hr_model_main_group(model);
  const hr_mixer_attention heads = hr_heads_of(layer);
  if (heads.q_heads == 0 && hr_lacks_heads(context))
    return;
  hr_text192 counts = format_heads(model, layer);
  hr_text192 current = hr_format_text("%s, t = %" PRId64, counts.text, t);
  if (!unsplit) {
    int64_t heads_per_device = heads.q_heads / t;
    hr_add_satisfied(context, matmuls, current.text,
                     "(b·a)/t = %.0f is an integer and every device has %" PRId64 " heads",
                     (double)b * (double)heads_per_device, heads_per_device);
    return;
  }
  hr_workload changed = advice->workload;
  hr_trial trial;
  changed.tensor_parallel = splitting_degree(advice);
  bool tried = hr_evaluate(context, NULL, &changed, &trial);
  hr_add_infeasible(context, tried ? &trial : NULL, HR_CHANGED_TENSOR_PARALLEL, matmuls, current.text,
                    hr_format_text("t = %" PRId64, changed.tensor_parallel).text,
                    "%s do not split over %" PRId64 " devices: Megatron-LM and vLLM refuse this, and %s", counts.text,
                    t, format_max_loaded(&heads, t).text);
}

/* The smallest divisor of t over which the model splits and whose step fits; 0 if there is none. *needed is the memory
 * per device of the last degree that splits. */
static int64_t smallest_fitting_degree(const hr_advice *advice, double *needed)
{
  double capacity = (double)hr_hardware_usable_memory_bytes(&advice->hardware);
  hr_workload changed = advice->workload;
  int64_t t = advice->workload.tensor_parallel, *degree = &changed.tensor_parallel;
  for (*degree = 1; *degree < hr_min64(t, DEGREES_MAX); ++*degree) {
    if (t % *degree != 0 || !hr_split_of_workload(&advice->model, &changed).whole)
      continue;
    *needed = bytes_needed(advice, &changed);
    if (capacity <= 0 || *needed <= capacity)
      return *degree;
  }
  return 0;
}

static void suggest_smaller_degree(hr_advice_context *context, const hr_trial *trial, double needed)
{
  const hr_advice *advice = context->advice;
  const hr_operator_set all_reduces =
      HR_OPERATOR_BIT(HR_OP_ATTENTION_ALL_REDUCE) | HR_OPERATOR_BIT(HR_OP_MLP_ALL_REDUCE);
  int64_t t = advice->workload.tensor_parallel, smaller = trial->workload.tensor_parallel;
  hr_add_suggestion(context, trial, hr_layer_gemms(&advice->step), all_reduces, hr_format_text("t = %" PRId64, t).text,
                    hr_format_text("t = %" PRId64, smaller).text,
                    "t = %" PRId64
                    " also fits (%s per device): tokens/s per device %s, since GEMMs are wider and less is "
                    "communicated, but the step takes %s instead of %s",
                    smaller, hr_format_bytes(needed).text, hr_format_gain(trial->gain).text,
                    hr_format_time(trial->time_ns).text, hr_format_time(advice->step.about.time_ns).text);
}

void hr_rule_tensor_parallel_small(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  int64_t t = advice->workload.tensor_parallel;
  const hr_operator_set gemms = hr_layer_gemms(&advice->step);
  hr_text192 current = hr_format_text("t = %" PRId64, t);
  double capacity = (double)hr_hardware_usable_memory_bytes(&advice->hardware);
  if (t == 1) {
    hr_add_satisfied(context, gemms, current.text, "t = 1 is the minimum");
    return;
  }
  double needed = 0;
  hr_workload changed = advice->workload;
  changed.tensor_parallel = smallest_fitting_degree(advice, &needed);
  if (changed.tensor_parallel == 0) {
    hr_add_satisfied(context, gemms, current.text,
                     "no smaller t over which the model splits fits: a device would need at least %s, %s are usable",
                     hr_format_bytes(needed).text, hr_format_bytes(capacity).text);
    return;
  }
  hr_trial trial;
  if (!hr_evaluate(context, NULL, &changed, &trial))
    return;
  if (!hr_is_worthwhile(&trial)) {
    hr_add_not_applicable(context, gemms, current.text,
                          "t = %" PRId64 " also fits, but the tokens per second and device change by only %s",
                          changed.tensor_parallel, hr_format_gain(trial.gain).text);
    return;
  }
  suggest_smaller_degree(context, &trial, needed);
}

/* Whether `stages` divide the layers, fit into memory and gain. */
static bool try_stages(hr_advice_context *context, int64_t stages, hr_trial *trial)
{
  const hr_advice *advice = context->advice;
  int64_t layers = hr_model_layers(&advice->model);
  hr_workload changed = advice->workload;
  changed.pipeline_stages = stages, changed.virtual_stages = 1;
  return stages > 1 && stages <= layers && layers % stages == 0 && keeps_fitting(advice, &changed) &&
         hr_evaluate(context, NULL, &changed, trial) && hr_is_worthwhile(trial);
}

/* The number of stages nearest to p, between p/2 and 2p, that divides the layers, still fits into memory and gains; 0
 * if there is none. */
static int64_t dividing_stages(hr_advice_context *context, hr_trial *trial)
{
  int64_t layers = hr_model_layers(&context->advice->model), p = context->advice->workload.pipeline_stages;
  for (int64_t distance = 1; distance <= hr_min64(hr_min64(p, layers), DEGREES_MAX); distance++) {
    if (p - distance >= hr_ceil_div(p, 2) && try_stages(context, p - distance, trial))
      return p - distance;
    if (try_stages(context, p + distance, trial))
      return p + distance;
  }
  return 0;
}

void hr_rule_pipeline_divides_layers(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  int64_t layers = hr_model_layers(&advice->model), p = advice->workload.pipeline_stages;
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
  hr_trial trial;
  int64_t fullest = hr_ceil_div(layers, p), stages = dividing_stages(context, &trial);
  hr_text192 suggested;
  if (stages > 0) {
    suggested = hr_format_text("p = %" PRId64 " (or %" PRId64 " layers)", stages, fullest * p);
  } else {
    const hr_model model = hr_reshape_layers(&advice->model, (fullest - 1) * p);
    if (!hr_evaluate(context, &model, NULL, &trial))
      return;
    suggested = hr_format_text("%" PRId64 " layers (or %" PRId64 " in the same time as now)", hr_model_layers(&model),
                               fullest * p);
  }
  hr_add_suggestion(context, &trial, gemms, 0, current.text, suggested.text,
                    "%" PRId64 " layers over %" PRId64 " stages: every stage waits for one with %" PRId64
                    " layers, so %.1f%% of the devices' time is idle",
                    layers, p, fullest, 100 * (1 - (double)layers / (double)(fullest * p)));
}
