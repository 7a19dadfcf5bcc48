/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about the structure of a layer: fused attention, parallel layers. */
#include "analysis/advise/rules.h"
#include "model/layers/layer_kinds.h"

#include <headroom/experimental/hardware.h>
#include <headroom/experimental/model.h>
#include <inttypes.h>

void hr_rule_fused_attention(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_operator_set parts = hr_attention_matmuls(&advice->step) | HR_OPERATOR_BIT(HR_OP_SOFTMAX);
  const hr_operator_set fused = HR_OPERATOR_BIT(HR_OP_ATTENTION);
  int64_t stages = advice->workload.pipeline_stages;
  if (!hr_operators_present(&advice->step, parts | fused)) {
    hr_add_satisfied(context, 0, "no attention", "no layer has score, softmax and attention over value (AOV) to fuse");
    return;
  }
  double before_ns = hr_time_of(&advice->step, &advice->model, stages, parts | fused);
  double share = 100 * before_ns / advice->step.about.microbatch_time_ns;
  if (advice->workload.attention == HR_ATTENTION_FUSED) {
    hr_add_satisfied(context, fused, "fused attention", "attention is fused and takes %.1f%% of the step", share);
    return;
  }
  if (!hr_hardware_has_fused_attention(&advice->hardware, advice->workload.dtype)) {
    hr_add_not_applicable(context, parts, "unfused attention", "libraries have no fused attention in %s for GPUs",
                          hr_dtype_name(advice->workload.dtype));
    return;
  }
  hr_workload workload = advice->workload;
  hr_trial trial;
  workload.attention = HR_ATTENTION_FUSED;
  if (!hr_evaluate(context, NULL, &workload, &trial)) {
    hr_add_satisfied(context, parts, "unfused attention", "the time of a fused kernel cannot be predicted on %s",
                     advice->hardware.about.name);
    return;
  }
  hr_text32 after = hr_format_time(hr_time_of(&context->after, &advice->model, stages, parts | fused));
  if (!hr_is_worthwhile(&trial)) {
    hr_add_not_applicable(
        context, parts, "unfused attention",
        "score, softmax and attention over value (AOV) take %s as separate kernels and %s fused (%s of the step)",
        hr_format_time(before_ns).text, after.text, hr_format_gain(trial.gain).text);
    return;
  }
  hr_add_suggestion(context, &trial, parts | fused, 0, "unfused attention", "fused attention",
                    "score, softmax and attention over value (AOV) move the scores through memory and take %s (%.0f%% "
                    "of the step); one "
                    "fused kernel takes %s",
                    hr_format_time(before_ns).text, share, after.text);
}

#define NORMS_AND_RESIDUALS                                                          \
  (HR_OPERATOR_BIT(HR_OP_ATTENTION_NORM) | HR_OPERATOR_BIT(HR_OP_MLP_NORM) |         \
   HR_OPERATOR_BIT(HR_OP_ATTENTION_RESIDUAL) | HR_OPERATOR_BIT(HR_OP_MLP_RESIDUAL) | \
   HR_OPERATOR_BIT(HR_OP_ATTENTION_ALL_REDUCE) | HR_OPERATOR_BIT(HR_OP_MLP_ALL_REDUCE))

/* The model with every layer in parallel form that has one: a mixer and a feed-forward network, one after the other,
 * each with one norm. */
typedef struct parallel_form {
  hr_model model;
  int64_t changed, parallel, without; /* layers; `without`: others with a mixer and a feed-forward network */
  int64_t norms;                      /* of those without */
} parallel_form;

static void make_parallel(const hr_model *model, parallel_form *form)
{
  *form = (parallel_form){.model = *model};
  for (size_t i = 0; i < model->group_count; i++) {
    hr_layer_group *layer = &form->model.groups[i];
    if (!hr_has_mixer(layer) || !hr_has_ffn(layer))
      continue;
    if (layer->parallel_block) {
      form->parallel += layer->count;
    } else if (layer->norms != 2 || model->residual_streams > 0) {
      form->norms = layer->norms;
      form->without += layer->count;
    } else {
      layer->parallel_block = true;
      layer->norms = 1;
      form->changed += layer->count;
    }
  }
}

static void report_no_parallel_form(hr_advice_context *context, const parallel_form *form)
{
  if (form->model.residual_streams > 0)
    hr_add_satisfied(context, NORMS_AND_RESIDUALS, "sequential layers",
                     "a layer with several residual streams has no known parallel form");
  else if (form->without > 0)
    hr_add_satisfied(context, NORMS_AND_RESIDUALS, "sequential layers",
                     "a layer with %" PRId64 " norms has no known parallel form", form->norms);
  else if (form->parallel > 0)
    hr_add_satisfied(context, NORMS_AND_RESIDUALS, "parallel layers", "attention and MLP already read the same input");
  else
    hr_add_satisfied(context, NORMS_AND_RESIDUALS, "attention and MLP in separate layers",
                     "no layer has both attention and an MLP that could run in parallel");
}

/* Parallel layers share one norm and one all-reduce (PaLM, GPT-J). */
void hr_rule_parallel_layers(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_operator_set norm = NORMS_AND_RESIDUALS;
  parallel_form form;
  hr_trial trial;
  make_parallel(&advice->model, &form);
  if (form.changed == 0) {
    report_no_parallel_form(context, &form);
    return;
  }
  if (!hr_evaluate(context, &form.model, NULL, &trial))
    return;
  const char *parts = advice->workload.tensor_parallel > 1 ? "norms, residuals and all-reduces" : "norms and residuals";
  int64_t stages = advice->workload.pipeline_stages;
  hr_text32 before = hr_format_time(hr_time_of(&advice->step, &advice->model, stages, norm));
  hr_text32 after = hr_format_time(hr_time_of(&context->after, &form.model, stages, norm));
  int64_t layers = hr_model_layers(&advice->model);
  hr_text192 current = hr_format_text("sequential layers");
  if (form.changed < layers)
    current = hr_format_text("%" PRId64 " of %" PRId64 " layers sequential", form.changed, layers);
  if (!hr_is_worthwhile(&trial)) {
    hr_add_not_applicable(context, norm, current.text,
                          "%s take %s in sequential layers and %s in parallel ones (%s of the step)", parts,
                          before.text, after.text, hr_format_gain(trial.gain).text);
    return;
  }
  hr_add_suggestion(context, &trial, norm, 0, current.text, "parallel layers (one norm for attention and MLP)",
                    "%s take %s; with attention and MLP in parallel %s", parts, before.text, after.text);
}
