/* SPDX-License-Identifier: Apache-2.0 */
/* A step: every operator times its executions. */
#include "analysis/predict/terms.h"
#include "base/checked.h"
#include "base/error.h"

/* Every pipeline stage waits for the one with the most layers. */
static double layer_stretch(int64_t layers, int64_t stages)
{
  return (double)hr_round_up(layers, stages) / (double)layers;
}

static void sum_step(hr_step *step, const hr_model *model, const hr_workload *workload)
{
  double layers_ns = 0, outside_ns = 0, low = 0, high = 0;
  int64_t layers = hr_model_layers(model);
  double stretch = layer_stretch(layers, workload->pipeline_stages);
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    const hr_prediction *p = &step->predictions[i];
    double executions = (double)op->count * (op->in_layer ? stretch : 1);
    *(op->in_layer ? &layers_ns : &outside_ns) += (double)op->count * p->time_ns;
    low += executions * p->low_ns;
    high += executions * p->high_ns;
  }
  step->layer_time_ns = layers_ns / (double)layers;
  step->logit_time_ns = outside_ns;
  step->time_ns = layers_ns * stretch + outside_ns;
  step->low_ns = low;
  step->high_ns = high;
}

hr_status hr_predict_step(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                          hr_step *step, hr_error *error)
{
  HR_NEED(error, hardware, model, workload, step);
  HR_TRY(hr_hardware_check(hardware, error));
  HR_TRY(hr_operators_list(model, workload, &step->operators, error));
  for (size_t i = 0; i < step->operators.count; i++)
    HR_TRY(hr_predict_operator(hardware, &step->operators.items[i], &step->predictions[i], error));
  sum_step(step, model, workload);
  double tokens = (double)workload->batch * (workload->phase == HR_PHASE_DECODE ? 1.0 : (double)workload->sequence);
  double peak = hr_predict_peak(hardware, workload->dtype);
  double seconds = step->time_ns / 1e9;
  step->tokens_per_s = seconds > 0 ? tokens / seconds : 0;
  step->model_efficiency = seconds > 0 && peak > 0 ? (double)step->operators.flops / seconds / peak : 0;
  return HR_OK;
}
