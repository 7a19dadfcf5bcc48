/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/advise.h>

#include "analysis/advise/rules.h"
#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"

#include <headroom/experimental/parallel_layouts.h>
#include <stdlib.h>
#include <string.h>

const char *hr_severity_name(hr_severity severity)
{
  static const char *const names[] = {"none", "low", "medium", "high"};
  return hr_name_of(names, sizeof names / sizeof *names, (int)severity);
}

/* Rules that hold come last, with `retrain_last` after what needs new weights; otherwise by severity, then gain.
 * Equal ones keep the order of the rules. */
static int64_t rank_of(const hr_advice *advice, const hr_finding *finding)
{
  if (finding->cannot_run)
    return INT64_MAX;
  bool found = finding->severity > HR_SEVERITY_NONE;
  bool late = advice->about.retrain_last && finding->change_class == HR_CHANGE_RETRAIN;
  return !found ? 0 : (int64_t)finding->severity + (late ? 0 : HR_SEVERITY_HIGH);
}

static bool sorts_before(const hr_advice *advice, const hr_finding *a, const hr_finding *b)
{
  int64_t rank_a = rank_of(advice, a), rank_b = rank_of(advice, b);
  return rank_a != rank_b ? rank_a > rank_b : a->predicted_gain > b->predicted_gain;
}

static void sort_findings(hr_advice *advice)
{
  for (size_t i = 1; i < advice->about.finding_count; i++) {
    hr_finding moved = advice->findings[i];
    size_t place = i;
    for (; place > 0 && sorts_before(advice, &moved, &advice->findings[place - 1]); place--)
      advice->findings[place] = advice->findings[place - 1];
    advice->findings[place] = moved;
  }
}

static bool is_left_out(const hr_advise_options *options, const hr_finding *finding)
{
  size_t count;
  const ptrdiff_t rule = hr_rule_row_of(finding) - hr_rule_rows(&count);
  return (options->without_classes >> finding->change_class & 1) || (options->without_rules >> rule & 1);
}

static void leave_out(hr_advice *advice, const hr_advise_options *options)
{
  size_t kept = 0;
  for (size_t i = 0; i < advice->about.finding_count; i++) {
    const hr_finding *finding = &advice->findings[i];
    if (!is_left_out(options, finding)) {
      advice->findings[kept++] = *finding;
      continue;
    }
    advice->about.left_out += finding->severity > HR_SEVERITY_NONE;
    advice->about.left_out_high += finding->severity == HR_SEVERITY_HIGH;
  }
  advice->about.finding_count = kept;
}

static hr_status apply_rules(hr_advice_context *context, const hr_advise_options *options, hr_error *error)
{
  hr_advice *advice = context->advice;
  hr_parameters parameters;
  HR_TRY(hr_fill_step(&advice->hardware, &advice->model, &advice->workload, &advice->step, error));
  HR_TRY(hr_model_parameters(&advice->model, &parameters, error));
  context->parameters = parameters.total;
  size_t rule_count;
  const hr_rule_row *rows = hr_rule_rows(&rule_count);
  for (size_t i = 0; i < rule_count; i++) {
    context->rule = &rows[i];
    size_t before = advice->about.finding_count;
    rows[i].apply(context);
    if (advice->about.finding_count == before)
      hr_add_satisfied(context, 0, "", "no shape near this one can be predicted");
  }
  HR_TRY(hr_compare_parallel_layouts(&advice->hardware, &advice->model, &advice->workload, options->nodes,
                                     &advice->layouts, error));
  sort_findings(advice);
  leave_out(advice, options);
  hr_combine_findings(context);
  return HR_OK;
}

void hr_advise_options_init(hr_advise_options *options, size_t size)
{
  HR_INIT(options, size, (hr_advise_options){0});
}

hr_status hr_advise(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload, hr_advice **advice,
                    hr_error *error)
{
  HR_NEED(error, hardware, model, workload, advice);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  const hr_advise_options options = hr_advise_options_default();
  return hr_advise_with(hardware, model, workload, &options, advice, error);
}

hr_status hr_advise_with(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                         const hr_advise_options *options, hr_advice **advice, hr_error *error)
{
  HR_NEED(error, hardware, model, workload, options, advice);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  HR_TAKE(hr_advise_options, options, error);
  hr_advice *result = calloc(1, sizeof *result);
  hr_advice_context *context = calloc(1, sizeof *context);
  hr_status status = HR_OK;
  if (result && context) {
    result->hardware = *hardware;
    result->model = *model;
    result->workload = *workload;
    result->about = (hr_advice_about){.hardware = &result->hardware,
                                      .model = &result->model,
                                      .workload = &result->workload,
                                      .step = &result->step,
                                      .layouts = &result->layouts};
    result->about.retrain_last = (model->origin != HR_ORIGIN_DESIGN || options->trained) && !options->design;
    context->advice = result;
    status = apply_rules(context, options, error);
  } else {
    status = hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the advice");
  }
  free(context);
  if (status == HR_OK)
    *advice = result;
  else
    free(result);
  return status;
}

void hr_advice_free(hr_advice *advice)
{
  free(advice);
}

const hr_advice_about *hr_advice_describe(const hr_advice *advice)
{
  return &advice->about;
}

const hr_finding *hr_advice_finding(const hr_advice *advice, size_t index)
{
  const size_t merged = index - advice->about.finding_count;
  if (index < advice->about.finding_count)
    return &advice->findings[index];
  return merged < advice->about.combined_count ? &advice->combined[merged] : NULL;
}
