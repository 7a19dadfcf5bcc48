/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/predict/microbatches.h"

#include <headroom/experimental/workload.h>
#include <math.h>

double *hr_part_of(hr_part_times *times, const hr_operator *op)
{
  if (op->in_layer)
    return &times->layers;
  if (op->id == HR_OP_PIPELINE_SEND)
    return &times->between;
  return op->id < HR_OP_ATTENTION_NORM ? &times->before : &times->behind;
}

double hr_microbatch_ns(const hr_part_times *times)
{
  return times->layers + (times->before + times->behind) + times->between;
}

double hr_slowest_stage_ns(const hr_part_times *times, int64_t stages)
{
  if (stages == 1)
    return hr_microbatch_ns(times);
  return times->layers / (double)stages + fmax(times->before, times->behind) + times->between / (double)(stages - 1);
}

/* Microbatches that add the time of a stage to that of the first one. */
static double further_microbatches(const hr_workload *workload)
{
  double m = (double)hr_workload_microbatches(workload), p = (double)workload->pipeline_stages;
  return workload->phase == HR_PHASE_DECODE ? fmax(0, m - p) : m - 1;
}

double hr_all_microbatches_ns(const hr_part_times *times, const hr_workload *workload)
{
  return hr_microbatch_ns(times) +
         further_microbatches(workload) * hr_slowest_stage_ns(times, workload->pipeline_stages);
}
