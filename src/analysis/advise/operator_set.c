/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/advise/operator_set.h"

#include "analysis/predict/step.h"
#include "base/checked.h"

#include <headroom/experimental/model.h>

hr_operator_set hr_operators_present(const hr_step *step, hr_operator_set operators)
{
  hr_operator_set present = 0;
  for (size_t i = 0; i < step->operators.count; i++)
    present |= HR_OPERATOR_BIT(step->operators.items[i].id);
  return present & operators;
}

static hr_operator_set gemms_with_weights(const hr_step *step, bool in_layers_only)
{
  hr_operator_set set = 0;
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    if (op->kind == HR_KIND_GEMM && (op->in_layer || !in_layers_only))
      set |= HR_OPERATOR_BIT(op->id);
  }
  return set;
}

hr_operator_set hr_weight_gemms(const hr_step *step)
{
  return gemms_with_weights(step, false);
}

hr_operator_set hr_layer_gemms(const hr_step *step)
{
  return gemms_with_weights(step, true);
}

hr_operator_set hr_attention_matmuls(const hr_step *step)
{
  return hr_operators_present(step, HR_OPERATOR_BIT(HR_OP_ATTENTION_SCORE) |
                                        HR_OPERATOR_BIT(HR_OP_ATTENTION_OVER_VALUE) | HR_OPERATOR_BIT(HR_OP_ATTENTION));
}

/* Every stage takes as long as the one with the most layers, see hr_step. */
static double layer_factor(const hr_model *model, int64_t stages)
{
  int64_t layers = hr_model_layers(model);
  return (double)(stages * hr_ceil_div(layers, stages)) / (double)layers;
}

double hr_time_of(const hr_step *step, const hr_model *model, int64_t pipeline_stages, hr_operator_set operators)
{
  double time_ns = 0;
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    if (operators & HR_OPERATOR_BIT(op->id))
      time_ns +=
          (double)op->count * step->predictions[i].time_ns * (op->in_layer ? layer_factor(model, pipeline_stages) : 1);
  }
  return time_ns;
}

double hr_flops_per_s_of(const hr_step *step, hr_operator_set operators)
{
  double flops = 0, time_ns = 0;
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    if (operators & HR_OPERATOR_BIT(op->id)) {
      flops += (double)op->count * (double)op->flops;
      time_ns += (double)op->count * step->predictions[i].time_ns;
    }
  }
  return time_ns > 0 ? flops / time_ns * 1e9 : 0;
}
