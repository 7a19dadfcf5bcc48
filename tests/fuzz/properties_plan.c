/* SPDX-License-Identifier: Apache-2.0 */
#include "properties.h"

#include "expect.h"

#include <headroom/experimental/training.h>
#include <math.h>

static bool is_share(double value)
{
  return value >= 0 && value <= 1;
}

static void expect_layout(const hr_training_plan *plan, const hr_training_layout *layout)
{
  const hr_workload *w = &layout->workload;
  EXPECT(w->tensor_parallel * w->pipeline_stages * w->context_parallel * w->data_parallel == layout->devices);
  EXPECT(w->batch * w->microbatches * w->data_parallel == plan->options.global_batch);
  EXPECT(layout->memory_bytes > 0 && layout->memory_bytes <= plan->capacity_bytes && layout->accepted_by != 0);
  EXPECT(isfinite(layout->tokens_per_s) && layout->tokens_per_s > 0);
  EXPECT(layout->low_ns <= layout->time_ns && layout->time_ns <= layout->high_ns);
  EXPECT(is_share(layout->communication_share) && is_share(layout->bubble) && layout->model_efficiency >= 0);
  EXPECT(isfinite(layout->days) && layout->days > 0 && isnan(layout->cost));
}

void expect_trainable(const hr_model *model, const hr_workload *workload, const hr_hardware *hardware)
{
  hr_training_options options = hr_training_options_default();
  options.device_counts = 2, options.devices[0] = 4, options.devices[1] = 1;
  options.global_batch = 4, options.tokens = 1e9;
  hr_training_plan *plan = NULL;
  hr_error error = {.status = HR_OK};
  hr_status status = hr_plan_training(&(hr_subject){model, workload, hardware}, &options, &plan, &error);
  if (status != HR_OK) {
    expect_clear_failure(status, &error);
    EXPECT(!plan);
    return;
  }
  for (size_t i = 0; i < plan->layout_count; i++) {
    expect_layout(plan, &plan->layouts[i]);
    EXPECT(i == 0 || plan->layouts[i].devices > plan->layouts[i - 1].devices ||
           plan->layouts[i].tokens_per_s <= plan->layouts[i - 1].tokens_per_s);
  }
  EXPECT((hr_training_plan_best(plan) != NULL) == (plan->layout_count > 0));
  hr_training_plan_free(plan);
}
