/* SPDX-License-Identifier: Apache-2.0 */
/* Merges findings into one suggestion for each class of change. */
#include "analysis/advise/rules.h"

#include <headroom/experimental/change.h>
#include <headroom/experimental/hardware.h>
#include <headroom/memory.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The members that combinable rules change: of a model, of a workload beside the form of attention, and of a model's
 * groups of layers, whose number they keep. */
static const size_t combined_members[] = {offsetof(hr_model, vocabulary)};
static const size_t combined_workload_members[] = {offsetof(hr_workload, batch), offsetof(hr_workload, microbatches)};
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

static bool merge_workload(hr_workload *combined, const hr_workload *base, const hr_workload *change)
{
  if (change->attention != base->attention)
    combined->attention = change->attention;
  return merge_members(combined, base, change, combined_workload_members,
                       sizeof combined_workload_members / sizeof *combined_workload_members);
}

/* Merges a finding's changes into `combined`. Returns false, and `combined` is of no use, if another finding changed
 * the same member. */
static bool merge_model(hr_model *combined, const hr_model *base, const hr_model *change)
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
  hr_trial trial; /* time_ns 0: nothing is merged yet */
  int merged;     /* number of findings */
  bool taken[HR_FINDINGS_MAX];
  bool retrain; /* one of them needs new weights */
  char current[96], suggested[192];
} combination;

static bool merge(hr_model *model, hr_workload *workload, const hr_advice *advice, const hr_finding *finding)
{
  return merge_model(model, &advice->model, &finding->model) &&
         merge_workload(workload, &advice->workload, &finding->workload);
}

/* Whether merging keeps the whole change: a part of it may cost what the whole gains. */
static bool merges_whole(const hr_advice *advice, const hr_finding *finding)
{
  hr_model model = advice->model;
  hr_workload workload = advice->workload;
  return finding->model.group_count == model.group_count && merge(&model, &workload, advice, finding) &&
         hr_changes_between(&model, &workload, &finding->model, &finding->workload) == 0;
}

static bool enters(const hr_advice *advice, const hr_finding *finding, hr_change_class most)
{
  const hr_rule_row *row = hr_rule_row_of(finding);
  return row && row->combines && finding->has_change && finding->change_class <= most &&
         finding->change_class != HR_CHANGE_DEPLOY && merges_whole(advice, finding);
}

/* A larger batch may fit with its own change only. */
static bool fits(const hr_advice *advice, const hr_model *model, const hr_workload *workload)
{
  hr_memory memory;
  int64_t usable = hr_hardware_usable_memory_bytes(&advice->hardware);
  return usable <= 0 || workload->batch <= advice->workload.batch ||
         (hr_memory_estimate(model, workload, &memory, NULL) == HR_OK && memory.total_bytes <= usable);
}

/* Whether the finding agrees with the merged ones, fits and makes the step faster; *trial then has all of them. */
static bool improves(hr_advice_context *context, const combination *all, const hr_finding *finding, hr_trial *trial)
{
  const hr_advice *advice = context->advice;
  hr_model model = all->trial.model;
  hr_workload workload = all->trial.workload;
  return merge(&model, &workload, advice, finding) && fits(advice, &model, &workload) &&
         hr_evaluate(context, &model, &workload, trial) && trial->net_gain > all->trial.net_gain;
}

/* Merges the finding that gains most beside those that are merged, at first the best one. False if none gains. */
static bool merge_best(hr_advice_context *context, combination *all, hr_change_class most)
{
  const hr_advice *advice = context->advice;
  hr_trial best = all->trial, trial;
  size_t chosen = advice->about.finding_count;
  for (size_t i = 0; i < advice->about.finding_count; i++) {
    const hr_finding *finding = &advice->findings[i];
    if (all->taken[i] || !enters(advice, finding, most) || !improves(context, all, finding, &trial) ||
        trial.net_gain <= best.net_gain)
      continue;
    best = trial;
    chosen = i;
  }
  if (chosen == advice->about.finding_count)
    return false;
  all->trial = best;
  all->taken[chosen] = true;
  all->retrain = all->retrain || advice->findings[chosen].change_class == HR_CHANGE_RETRAIN;
  all->merged++;
  return true;
}

/* Lists the changes in the order of the findings. */
static void describe(const hr_advice *advice, combination *all)
{
  for (size_t i = 0; i < advice->about.finding_count; i++) {
    if (!all->taken[i])
      continue;
    append(all->current, sizeof all->current, advice->findings[i].current);
    append(all->suggested, sizeof all->suggested, advice->findings[i].suggested);
  }
}

/* Net gains choose the members, so that one that removes parameters may gain more by itself. */
static bool is_best(const hr_advice *advice, const combination *all, hr_change_class most)
{
  for (size_t i = 0; i < advice->about.finding_count; i++) {
    const hr_finding *finding = &advice->findings[i];
    if (enters(advice, finding, most) && finding->predicted_gain > all->trial.gain)
      return false;
  }
  return all->trial.gain > 0;
}

/* "reduce the step from 97.6 ms to 78.7 ms"; with other tokens "reduce the time of a token from …". */
static hr_text192 format_times(const hr_advice *advice, const hr_trial *trial)
{
  double before = advice->step.about.time_ns, after = trial->time_ns;
  if (hr_tokens_per_step(&trial->workload) == hr_tokens_per_step(&advice->workload))
    return hr_format_text("the step from %s to %s", hr_format_time(before).text, hr_format_time(after).text);
  return hr_format_text("the time of a token from %s to %s",
                        hr_format_time(before / (double)hr_tokens_per_step(&advice->workload)).text,
                        hr_format_time(after / (double)hr_tokens_per_step(&trial->workload)).text);
}

static void combine(hr_advice_context *context, const hr_rule_row *row)
{
  hr_advice *advice = context->advice;
  const hr_change_class most = row->rule.change_class;
  combination all = {.trial = {.model = advice->model, .workload = advice->workload}};
  while (merge_best(context, &all, most)) {
  }
  hr_trial trial;
  bool of_class = all.retrain == (most == HR_CHANGE_RETRAIN);
  if (all.merged < 2 || !of_class || !is_best(advice, &all, most) ||
      !hr_evaluate(context, &all.trial.model, &all.trial.workload, &trial))
    return;
  describe(advice, &all);
  hr_operator_set changed = changed_operators(&advice->step, &context->after);
  context->rule = row;
  hr_finding *finding =
      hr_add_suggestion(context, &trial, changed, 0, all.current, all.suggested, "%d changes together reduce %s",
                        all.merged, format_times(advice, &trial).text);
  if (!finding)
    return;
  advice->combined[advice->about.combined_count++] = *finding;
  advice->about.finding_count--; /* it is not part of the list */
}

void hr_combine_findings(hr_advice_context *context)
{
  static const hr_rule_row rows[HR_COMBINED_MAX] = {
      {{"combined_free", "all free suggestions together", "the findings above", HR_CHANGE_FREE}, NULL, false},
      {{"combined_retrain", "all compatible suggestions together", "the findings above", HR_CHANGE_RETRAIN},
       NULL,
       false},
  };
  for (size_t i = 0; i < HR_COMBINED_MAX; i++)
    combine(context, &rows[i]);
}
