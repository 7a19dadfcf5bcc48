/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/experimental/workload.h>

int64_t hr_workload_microbatches(const hr_workload *workload)
{
  if (workload->microbatches > 0)
    return workload->microbatches;
  return workload->phase == HR_PHASE_TRAIN ? workload->pipeline_stages : 1;
}
