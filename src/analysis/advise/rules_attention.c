/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about the structure of a layer: fused attention, parallel layers. */
#include "analysis/advise/rules.h"

#include <inttypes.h>

void hr_rule_fused_attention(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_operator_set parts = hr_attention_matmuls(&advice->step) | HR_OPERATOR_BIT(HR_OP_SOFTMAX);
  const hr_operator_set fused = HR_OPERATOR_BIT(HR_OP_ATTENTION);
  int64_t stages = advice->workload.pipeline_stages;
  double before_ns = hr_time_of(&advice->step, &advice->model, stages, parts | fused);
  double share = 100 * before_ns / advice->step.time_ns;
  if (advice->workload.attention == HR_ATTENTION_FUSED) {
    hr_add_satisfied(context, fused, "fused attention", "attention is fused and takes %.1f%% of the step", share);
    return;
  }
  hr_workload workload = advice->workload;
  hr_trial trial;
  workload.attention = HR_ATTENTION_FUSED;
  if (!hr_evaluate(context, NULL, &workload, &trial)) {
    hr_add_satisfied(context, parts, "unfused attention", "the time of a fused kernel cannot be predicted on %s",
                     advice->hardware.name);
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

/* Parallel layers share one norm and one all-reduce (PaLM, GPT-J). */
void hr_rule_parallel_layers(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_operator_set norm = HR_OPERATOR_BIT(HR_OP_ATTENTION_NORM) | HR_OPERATOR_BIT(HR_OP_MLP_NORM) |
                               HR_OPERATOR_BIT(HR_OP_ATTENTION_RESIDUAL) | HR_OPERATOR_BIT(HR_OP_MLP_RESIDUAL) |
                               HR_OPERATOR_BIT(HR_OP_ATTENTION_ALL_REDUCE) | HR_OPERATOR_BIT(HR_OP_MLP_ALL_REDUCE);
  if (advice->model.parallel_block) {
    hr_add_satisfied(context, norm, "parallel layers", "attention and MLP already read the same input");
    return;
  }
  if (advice->model.layer_norms != 2) {
    hr_add_satisfied(context, norm, "sequential layers", "a layer with %" PRId64 " norms has no known parallel form",
                     advice->model.layer_norms);
    return;
  }
  hr_model changed = advice->model;
  hr_trial trial;
  changed.parallel_block = true;
  changed.layer_norms = 1;
  if (!hr_evaluate(context, &changed, NULL, &trial))
    return;
  const char *parts = advice->workload.tensor_parallel > 1 ? "norms, residuals and all-reduces" : "norms and residuals";
  int64_t stages = advice->workload.pipeline_stages;
  hr_text32 before = hr_format_time(hr_time_of(&advice->step, &advice->model, stages, norm));
  hr_text32 after = hr_format_time(hr_time_of(&context->after, &changed, stages, norm));
  if (!hr_is_worthwhile(&trial)) {
    hr_add_not_applicable(context, norm, "sequential layers",
                          "%s take %s in sequential layers and %s in parallel ones (%s of the step)", parts,
                          before.text, after.text, hr_format_gain(trial.gain).text);
    return;
  }
  hr_add_suggestion(context, &trial, norm, 0, "sequential layers", "parallel layers (one norm for attention and MLP)",
                    "%s take %s; with attention and MLP in parallel %s", parts, before.text, after.text);
}
