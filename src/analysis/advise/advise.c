/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/advise.h>

#include "analysis/advise/rules.h"
#include "base/error.h"
#include "base/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const hr_rule_row rows[] = {
#define HR_RULE(name, combines, summary, source) {{#name, summary, source}, hr_rule_##name, combines},
#include "analysis/advise/advise_rules.inc"
#undef HR_RULE
};

static const hr_rule rules[] = {
#define HR_RULE(name, combines, summary, source) {#name, summary, source},
#include "analysis/advise/advise_rules.inc"
#undef HR_RULE
};

#define RULE_COUNT (sizeof rows / sizeof *rows)

const hr_rule *hr_rules(size_t *count)
{
  *count = RULE_COUNT;
  return rules;
}

const char *hr_severity_name(hr_severity severity)
{
  static const char *const names[] = {"none", "low", "medium", "high"};
  return hr_name_of(names, sizeof names / sizeof *names, (int)severity);
}

static bool combines(const hr_advice *advice, const hr_finding *finding)
{
  if (finding->workload.batch != advice->workload.batch)
    return false;
  for (size_t i = 0; i < RULE_COUNT; i++) {
    if (strcmp(rows[i].rule.name, finding->rule) == 0)
      return rows[i].combines && finding->has_change;
  }
  return false;
}

/* The order of findings: by severity, then gain; equal ones keep the order of the rules. */
static bool sorts_before(const hr_finding *a, const hr_finding *b)
{
  if (a->severity != b->severity)
    return a->severity > b->severity;
  return a->predicted_gain > b->predicted_gain;
}

static void sort_findings(hr_advice *advice)
{
  for (size_t i = 1; i < advice->finding_count; i++) {
    hr_finding moved = advice->findings[i];
    size_t place = i;
    for (; place > 0 && sorts_before(&moved, &advice->findings[place - 1]); place--)
      advice->findings[place] = advice->findings[place - 1];
    advice->findings[place] = moved;
  }
}

/* The members that combinable rules change: of a model, and of its groups of layers, whose number they keep. */
static const size_t combined_members[] = {offsetof(hr_model, vocabulary)};
static const size_t combined_layer_members[] = {
    offsetof(hr_layer_group, attention.q_heads),    offsetof(hr_layer_group, attention.k_heads),
    offsetof(hr_layer_group, attention.v_heads),    offsetof(hr_layer_group, attention.qk_dim),
    offsetof(hr_layer_group, attention.v_dim),      offsetof(hr_layer_group, attention.rotary_dim),
    offsetof(hr_layer_group, dense.width),          offsetof(hr_layer_group, experts.width),
    offsetof(hr_layer_group, experts.shared_width),
};

static int64_t size_at(const void *owner, size_t offset)
{
  int64_t value;
  memcpy(&value, (const char *)owner + offset, sizeof value);
  return value;
}

/* Copies the members that `change` has changed. False if `combined` has another value there already. */
static bool merge_members(void *combined, const void *base, const void *change, const size_t *offsets, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    int64_t suggested = size_at(change, offsets[i]), original = size_at(base, offsets[i]);
    if (suggested == original)
      continue;
    if (size_at(combined, offsets[i]) != original)
      return false;
    memcpy((char *)combined + offsets[i], &suggested, sizeof suggested);
  }
  return true;
}

/* Merges a finding's changes into `combined`. Returns false, and `combined` is of no use, if another finding changed
 * the same member. */
static bool merge_change(hr_model *combined, const hr_model *base, const hr_model *change)
{
  const size_t members = sizeof combined_members / sizeof *combined_members;
  const size_t layer_members = sizeof combined_layer_members / sizeof *combined_layer_members;
  if (!merge_members(combined, base, change, combined_members, members))
    return false;
  for (size_t i = 0; i < base->group_count; i++) {
    if (!merge_members(&combined->groups[i], &base->groups[i], &change->groups[i], combined_layer_members,
                       layer_members))
      return false;
  }
  return true;
}

static void append(char *text, size_t size, const char *part)
{
  size_t used = strlen(text);
  if (part[0] && used + strlen(part) + 3 <= size)
    snprintf(text + used, size - used, "%s%s", used ? ", " : "", part);
}

static bool is_same_work(const hr_operator *a, const hr_operator *b)
{
  return a->id == b->id && a->pass == b->pass && a->gemm.m == b->gemm.m && a->gemm.n == b->gemm.n &&
         a->gemm.k == b->gemm.k && a->gemm.batch == b->gemm.batch && a->attention.q_heads == b->attention.q_heads &&
         a->attention.qk_dim == b->attention.qk_dim;
}

/* The operators that have another size after a change. */
static hr_operator_set changed_operators(const hr_step *before, const hr_step *after)
{
  hr_operator_set changed = 0;
  for (size_t i = 0; i < before->operators.count; i++) {
    size_t same = 0;
    while (same < after->operators.count && !is_same_work(&before->operators.items[i], &after->operators.items[same]))
      same++;
    if (same == after->operators.count)
      changed |= HR_OPERATOR_BIT(before->operators.items[i].id);
  }
  return changed;
}

typedef struct combination {
  hr_model model;
  int merged; /* number of findings */
  char current[96], suggested[192];
} combination;

/* Merges findings in order, each only if it makes the step faster. */
static combination merge_findings(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  double best_gain = 0;
  combination all = {.model = advice->model};
  for (size_t i = 0; i < advice->finding_count; i++) {
    const hr_finding *finding = &advice->findings[i];
    hr_model with = all.model;
    hr_trial trial;
    if (!combines(advice, finding) || !merge_change(&with, &advice->model, &finding->model))
      continue;
    if (!hr_evaluate(context, &with, NULL, &trial) || (all.merged && trial.net_gain <= best_gain))
      continue;
    all.model = with;
    best_gain = trial.net_gain;
    all.merged++;
    append(all.current, sizeof all.current, finding->current);
    append(all.suggested, sizeof all.suggested, finding->suggested);
  }
  return all;
}

static void combine(hr_advice_context *context)
{
  static const hr_rule_row row = {
      {"combined", "all compatible suggestions together", "the findings above"}, NULL, false};
  hr_advice *advice = context->advice;
  combination all = merge_findings(context);
  hr_trial trial;
  if (all.merged < 2 || !hr_evaluate(context, &all.model, NULL, &trial))
    return;
  hr_operator_set changed = changed_operators(&advice->step, &context->after);
  context->rule = &row;
  hr_finding *finding = hr_add_suggestion(
      context, &trial, changed, 0, all.current, all.suggested, "%d changes together reduce the step from %s to %s",
      all.merged, hr_format_time(advice->step.time_ns).text, hr_format_time(trial.time_ns).text);
  if (!finding)
    return;
  advice->combined = *finding;
  advice->has_combined = true;
  advice->finding_count--; /* it is advice->combined, not part of the list */
}

static hr_status apply_rules(hr_advice_context *context, hr_error *error)
{
  hr_advice *advice = context->advice;
  hr_parameters parameters;
  HR_TRY(hr_predict_step(&advice->hardware, &advice->model, &advice->workload, &advice->step, error));
  HR_TRY(hr_model_parameters(&advice->model, &parameters, error));
  context->parameters = parameters.total;
  for (size_t i = 0; i < RULE_COUNT; i++) {
    context->rule = &rows[i];
    size_t before = advice->finding_count;
    rows[i].apply(context);
    if (advice->finding_count == before)
      hr_add_satisfied(context, 0, "", "no shape near this one can be predicted");
  }
  HR_TRY(hr_compare_parallel_layouts(&advice->hardware, &advice->model, &advice->workload, 0, &advice->layouts, error));
  sort_findings(advice);
  combine(context);
  return HR_OK;
}

hr_status hr_advise(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload, hr_advice **advice,
                    hr_error *error)
{
  HR_NEED(error, hardware, model, workload, advice);
  hr_advice *result = calloc(1, sizeof *result);
  hr_advice_context *context = calloc(1, sizeof *context);
  hr_status status = HR_OK;
  if (result && context) {
    result->hardware = *hardware;
    result->model = *model;
    result->workload = *workload;
    context->advice = result;
    status = apply_rules(context, error);
  } else {
    status = hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "no memory for the advice");
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
