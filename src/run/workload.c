/* SPDX-License-Identifier: Apache-2.0 */
#include "run/program.h"

#include <headroom/experimental/workload.h>

hr_workload hr_run_workload(const hr_executor *x, const hr_run_shape *shape)
{
  hr_workload w = hr_workload_default(&x->whole);
  const bool decode = shape->phase == HR_PHASE_DECODE;
  w.phase = shape->phase;
  w.attention = HR_ATTENTION_FUSED;
  w.framework = HR_FRAMEWORK_HEADROOM;
  w.dtype = x->options.dtype;
  w.dropout = HR_DROPOUT_NONE;
  w.recompute = shape->phase == HR_PHASE_TRAIN ? x->options.recompute : HR_RECOMPUTE_NONE;
  w.batch = decode ? shape->batch * shape->tokens : shape->batch;
  w.sequence = shape->tokens;
  w.context = x->options.tokens;
  w.tensor_parallel = x->ranks;
  w.sequence_parallel = hr_run_splits_rows(x);
  w.expert_parallel = hr_run_expert_ranks(x);
  w.data_parallel = x->replicas;
  w.zero_stage = shape->phase == HR_PHASE_TRAIN ? x->options.zero_stage : 0;
  w.pipeline_stages = x->stages;
  return w;
}
