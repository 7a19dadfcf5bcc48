/* SPDX-License-Identifier: Apache-2.0 */
/* A step: every operator times its executions. */
#include "analysis/predict/terms.h"
#include "base/checked.h"
#include "base/error.h"

#include <math.h>

/* Every pipeline stage waits for the one with the most layers. */
static double layer_stretch(int64_t layers, int64_t stages)
{
  return (double)hr_round_up(layers, stages) / (double)layers;
}

/* Times of a microbatch: in all layers, and at the two ends of the pipeline. */
typedef struct part_times {
  double layers, before, behind;
} part_times;

static double *part_of(part_times *times, const hr_operator *op)
{
  return op->in_layer ? &times->layers : op->id < HR_OP_ATTENTION_NORM ? &times->before : &times->behind;
}

/* One stage at a time, each as long as the one with the most layers. */
static double microbatch_ns(const part_times *times, double stretch)
{
  return times->layers * stretch + (times->before + times->behind);
}

static double slowest_stage_ns(const part_times *times, double stretch, int64_t stages)
{
  if (stages == 1)
    return microbatch_ns(times, stretch);
  return times->layers * stretch / (double)stages + fmax(times->before, times->behind);
}

/* Microbatches that add the time of a stage to that of the first one. */
static double further_microbatches(const hr_workload *workload)
{
  double m = (double)hr_workload_microbatches(workload), p = (double)workload->pipeline_stages;
  return workload->phase == HR_PHASE_DECODE ? fmax(0, m - p) : m - 1;
}

static double all_microbatches_ns(const part_times *times, double stretch, const hr_workload *workload)
{
  return microbatch_ns(times, stretch) +
         further_microbatches(workload) * slowest_stage_ns(times, stretch, workload->pipeline_stages);
}

static void sum_step(hr_step *step, const hr_model *model, const hr_workload *workload)
{
  part_times times = {0, 0, 0}, low = times, high = times, communication = times;
  int64_t layers = hr_model_layers(model), stages = workload->pipeline_stages;
  double stretch = layer_stretch(layers, stages);
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    const hr_prediction *p = &step->predictions[i];
    *part_of(&times, op) += (double)op->count * p->time_ns;
    *part_of(&low, op) += (double)op->count * p->low_ns;
    *part_of(&high, op) += (double)op->count * p->high_ns;
    if (op->kind == HR_KIND_COMMUNICATION)
      *part_of(&communication, op) += (double)op->count * p->time_ns;
  }
  step->layer_time_ns = times.layers / (double)layers;
  step->logit_time_ns = times.before + times.behind;
  step->microbatch_time_ns = microbatch_ns(&times, stretch);
  step->stage_time_ns = slowest_stage_ns(&times, stretch, stages);
  step->time_ns = all_microbatches_ns(&times, stretch, workload);
  step->communication_ns = all_microbatches_ns(&communication, stretch, workload);
  step->low_ns = all_microbatches_ns(&low, stretch, workload);
  step->high_ns = all_microbatches_ns(&high, stretch, workload);
}

/* Rates of the step: a device has the FLOPs of one of the p stages. */
static void rate_step(hr_step *step, const hr_workload *workload, double peak)
{
  double m = (double)hr_workload_microbatches(workload), p = (double)workload->pipeline_stages;
  double sequence = workload->phase == HR_PHASE_DECODE ? 1 : (double)workload->sequence;
  double replicas = (double)workload->data_parallel, seconds = step->time_ns / 1e9;
  double devices = replicas * (double)workload->tensor_parallel * p * (double)workload->context_parallel;
  step->tokens_per_s = seconds > 0 ? replicas * m * (double)workload->batch * sequence / seconds : 0;
  step->tokens_per_s_per_device = step->tokens_per_s / devices;
  step->model_efficiency = seconds > 0 && peak > 0 ? m * (double)step->operators.flops / p / seconds / peak : 0;
  step->bubble = p > 1 && step->time_ns > 0 ? fmax(0, 1 - m * step->stage_time_ns / step->time_ns) : 0;
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
  rate_step(step, workload, hr_predict_peak(hardware, workload->dtype));
  return HR_OK;
}
