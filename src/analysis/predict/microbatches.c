/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/predict/microbatches.h"

#include "model/layers/shard.h"

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

double hr_slowest_stage_ns(const hr_part_times *times, const hr_workload *workload)
{
  int64_t stages = workload->pipeline_stages, parts = hr_virtual_stages(workload);
  if (stages == 1)
    return hr_microbatch_ns(times);
  return times->layers / (double)stages + fmax(times->before, times->behind) +
         times->between / (double)(stages * parts - 1) * (double)parts;
}

double hr_first_microbatch_rounds(const hr_workload *workload)
{
  return ((double)workload->pipeline_stages - 1) / (double)hr_virtual_stages(workload);
}

/* Microbatches that add the time of a stage to that of the first one. */
static double further_microbatches(const hr_workload *workload)
{
  double m = (double)hr_workload_microbatches(workload), p = (double)workload->pipeline_stages;
  return workload->phase == HR_PHASE_DECODE ? fmax(0, m - p) : m - 1;
}

/* The other stages wait until the first of v parts of a microbatch has reached them: a v-th of what a whole one takes.
 * Source: Narayanan et al. 2021 (arXiv 2104.04473), section 2.2. */
double hr_all_microbatches_ns(const hr_part_times *times, const hr_workload *workload)
{
  double microbatch_ns = hr_microbatch_ns(times), stage_ns = hr_slowest_stage_ns(times, workload);
  double saved_ns = (1 - 1 / (double)hr_virtual_stages(workload)) * (microbatch_ns - stage_ns);
  return microbatch_ns - saved_ns + further_microbatches(workload) * stage_ns;
}
