/* SPDX-License-Identifier: Apache-2.0 */
#include "properties.h"

#include "expect.h"

#include <math.h>

static int64_t at_most(int64_t value, int64_t most)
{
  return value < most ? value : most;
}

static void expect_point(const hr_serve_result *plan, const hr_serve_point *point)
{
  EXPECT(point->batch >= 1 && point->sequences >= point->batch && point->prefill_batch >= 1 &&
         point->prefill_batch <= point->batch);
  EXPECT(isfinite(point->ttft_ns) && point->ttft_ns > 0 && isfinite(point->tpot_ns) && point->tpot_ns >= 0);
  EXPECT(point->ttft_low_ns <= point->ttft_ns && point->ttft_ns <= point->ttft_high_ns);
  EXPECT(point->tpot_low_ns <= point->tpot_ns && point->tpot_ns <= point->tpot_high_ns);
  EXPECT(isfinite(point->requests_per_s) && point->requests_per_s > 0);
  EXPECT(point->prefill_share > 0 && point->prefill_share <= 1);
  EXPECT(point->memory_bytes > 0);
  EXPECT(point->memory_bytes <= plan->capacity_bytes || plan->options.engine == HR_SERVE_SGLANG); /* steps beside it */
  EXPECT(isfinite(point->output_tokens_per_s_per_device) && point->output_tokens_per_s_per_device > 0);
  if (plan->cheapest && point->meets_ttft && point->meets_tpot)
    EXPECT(point->output_tokens_per_s_per_device <= plan->cheapest->output_tokens_per_s_per_device);
}

void expect_servable(const hr_model *model, const hr_workload *workload, const hr_hardware *hardware)
{
  hr_serve_options options = hr_serve_options_default();
  options.prompt_tokens = at_most(workload->sequence, HR_SERVE_TOKENS_MAX);
  options.output_tokens = at_most(workload->context, HR_SERVE_TOKENS_MAX);
  options.tpot_limit_ns = workload->batch % 2 == 0 ? 20e6 : 0;
  options.disaggregated = workload->batch % 3 == 0;
  options.devices_max = 2;
  options.engine = (hr_serve_engine)(workload->batch % HR_SERVE_ENGINE_COUNT);
  hr_serve_result *plan = NULL;
  hr_error error = {.status = HR_OK};
  hr_status status = hr_serve_plan(hardware, model, workload, &options, &plan, &error);
  if (status != HR_OK) {
    expect_clear_failure(status, &error);
    EXPECT(!plan);
    return;
  }
  bool front = false;
  for (size_t i = 0; i < plan->count; i++) {
    expect_point(plan, &plan->points[i]);
    front = front || plan->points[i].pareto;
  }
  EXPECT(plan->layout_count >= 1 && front == (plan->count > 0));
  EXPECT((plan->latency != NULL) == (plan->cheapest != NULL) && (plan->latency != NULL) == (plan->throughput != NULL));
  EXPECT((plan->latency || plan->nearest) == (plan->count > 0));
  hr_serve_result_free(plan);
}
