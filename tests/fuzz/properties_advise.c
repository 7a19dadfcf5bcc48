/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/advise/advice.h"
#include "properties.h"

#include "expect.h"

#include <math.h>
#include <string.h>

static void expect_finding(const hr_finding *f)
{
  EXPECT(f->rule && f->rule[0] && f->source && f->source[0]);
  EXPECT(f->severity >= HR_SEVERITY_NONE && f->severity <= HR_SEVERITY_HIGH);
  EXPECT(f->why[0]);
  expect_printable(f->why);
  expect_printable(f->current);
  expect_printable(f->suggested);
  expect_printable(f->operators);
  EXPECT(isfinite(f->parameter_change) && isfinite(f->predicted_gain) && isfinite(f->predicted_operator_gain));
  EXPECT(f->predicted_gain > -1);
  EXPECT(isnan(f->eager_gain) || (isfinite(f->eager_gain) && f->eager_gain > -1));
  EXPECT(isnan(f->measured_gain) && isnan(f->measured_operator_gain));
  if (!f->has_change)
    return;
  EXPECT(f->suggested[0]);
  EXPECT(hr_model_check(&f->model, NULL) == HR_OK);
  EXPECT(hr_workload_check(&f->workload, &f->model, NULL) == HR_OK);
}

static void expect_combined(const hr_finding *f)
{
  expect_finding(f);
  EXPECT(f->predicted_gain > 0 && !f->gain_per_device);
}

static void expect_layouts(const hr_parallel_layouts *layouts)
{
  int count = (int)layouts->count;
  EXPECT(count >= 1 && count <= HR_PARALLEL_LAYOUTS_MAX && layouts->current >= 0 && layouts->current < count);
  EXPECT(layouts->fastest < count && layouts->max_per_device < count && layouts->fewest_devices < count);
  const hr_parallel_layout *fastest = layouts->fastest < 0 ? NULL : &layouts->items[layouts->fastest];
  EXPECT(!fastest || (fastest->fits && fastest->splits));
  for (int i = 0; i < count; i++) {
    const hr_parallel_layout *layout = &layouts->items[i];
    EXPECT(layout->time_ns > 0 && layout->low_ns <= layout->time_ns && layout->time_ns <= layout->high_ns);
    EXPECT(layout->communication_share >= 0 && layout->communication_share <= 1 + 1e-9);
    EXPECT(layout->bubble >= 0 && layout->bubble < 1 && layout->devices >= 1 && layout->nodes >= 1);
    EXPECT(!layout->fits || !layout->splits || (fastest && fastest->time_ns <= layout->time_ns));
  }
}

static bool same_finding(const hr_finding *a, const hr_finding *b)
{
  return strcmp(a->rule, b->rule) == 0 && strcmp(a->why, b->why) == 0 && strcmp(a->suggested, b->suggested) == 0 &&
         a->severity == b->severity && a->predicted_gain == b->predicted_gain;
}

static void expect_advice(const hr_model *model, const hr_workload *workload, const hr_hardware *hardware)
{
  hr_advice *advice = NULL, *again = NULL;
  hr_error error = {.status = HR_OK};
  hr_status status = hr_advise(hardware, model, workload, &advice, &error);
  if (status != HR_OK) {
    expect_clear_failure(status, &error);
    EXPECT(!advice);
    return;
  }
  EXPECT(advice->about.finding_count <= HR_FINDINGS_MAX);
  EXPECT(hr_advise(hardware, model, workload, &again, NULL) == HR_OK);
  EXPECT(again->about.finding_count == advice->about.finding_count);
  for (size_t i = 0; i < advice->about.finding_count; i++) {
    expect_finding(&advice->findings[i]);
    EXPECT(same_finding(&advice->findings[i], &again->findings[i]));
  }
  expect_layouts(&advice->layouts);
  EXPECT(advice->about.combined_count <= HR_COMBINED_MAX);
  for (size_t i = 0; i < advice->about.combined_count; i++)
    expect_combined(&advice->combined[i]);
  hr_advice_free(advice);
  hr_advice_free(again);
}

static void expect_shapes(const hr_search_result *result, const hr_search_options *options)
{
  EXPECT(result->count <= options->limit);
  EXPECT(isfinite(result->base_time_ns) && result->base_time_ns > 0 && result->base_parameters > 0);
  for (size_t i = 0; i < result->count; i++) {
    const hr_search_shape *shape = &result->shapes[i];
    hr_parameters parameters;
    EXPECT(hr_model_parameters(&shape->model, &parameters, NULL) == HR_OK);
    EXPECT(parameters.total == shape->parameters);
    EXPECT(isfinite(shape->step_time_ns) && shape->step_time_ns > 0 && isfinite(shape->predicted_gain));
    EXPECT(shape->step_time_ns <= result->base_time_ns * (1 + 1e-9));
    EXPECT(i == 0 || shape[-1].step_time_ns <= shape->step_time_ns);
  }
}

static void expect_search(const hr_model *model, const hr_workload *workload, const hr_hardware *hardware)
{
  hr_search_options options = hr_search_options_default();
  options.evaluations_max = 300;
  options.limit = 5;
  hr_search_result *result = NULL;
  hr_error error = {.status = HR_OK};
  hr_status status = hr_search(hardware, model, workload, &options, &result, &error);
  if (status != HR_OK) {
    expect_clear_failure(status, &error);
    EXPECT(!result);
    return;
  }
  EXPECT(result->evaluated <= options.evaluations_max + 1); /* the model itself */
  expect_shapes(result, &options);
  hr_search_result_free(result);
}

void expect_advisable(const hr_model *model, const hr_workload *workload, const hr_hardware *hardware)
{
  expect_advice(model, workload, hardware);
  expect_search(model, workload, hardware);
}
