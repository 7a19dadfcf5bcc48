/* SPDX-License-Identifier: Apache-2.0 */
#include "report/findings.h"

#include "analysis/advise/advice.h"

#include <headroom/experimental/change.h>
#include <math.h>
#include <string.h>

static void main_operator(const void *row, hr_cell *cell)
{
  const hr_finding *f = row;
  hr_cell_format(cell, "%.*s", (int)strcspn(f->operators, " "), f->operators);
}

#define FINDING(member) HR_MEMBER(hr_finding, member)
#define OPTIONAL(member) HR_OPTIONAL(hr_finding, member)
static const hr_column columns[] = {
    {"rule", "rule", HR_PLAIN, 0, FINDING(rule)},
    {"severity", "severity", HR_PLAIN, 0, FINDING(severity)},
    {"class", "class", HR_PLAIN, 0, FINDING(change_class)},
    {"not_applicable", NULL, HR_PLAIN, 0, FINDING(not_applicable)},
    {"cannot_run", NULL, HR_PLAIN, 0, FINDING(cannot_run)},
    {"operator", "operator", HR_PLAIN, 0, HR_COMPUTED(TEXT, main_operator), .optional = true},
    {"operators", NULL, HR_PLAIN, 0, OPTIONAL(operators)},
    {"why", "why", HR_PLAIN, 0, FINDING(why)},
    {"current", "now", HR_PLAIN, 0, OPTIONAL(current)},
    {"suggested", "change to", HR_PLAIN, 0, OPTIONAL(suggested)},
    {"parameter_change", "parameters", HR_GAIN, 0, FINDING(parameter_change)},
    {"predicted_operator_gain", "operator gain", HR_GAIN, 0, FINDING(predicted_operator_gain)},
    {"predicted_gain", "gain", HR_GAIN, 0, FINDING(predicted_gain)},
    {"eager_gain", "gain, eager", HR_GAIN, 0, FINDING(eager_gain), .rare = true},
    {"gain_per_device", NULL, HR_PLAIN, 0, FINDING(gain_per_device)},
    {"predicted_time_ns", "step", HR_TIME, 0, FINDING(predicted_time_ns)},
    {"measured_operator_gain", "operator gain, measured", HR_GAIN, 0, FINDING(measured_operator_gain)},
    {"measured_gain", "step gain, measured", HR_GAIN, 0, FINDING(measured_gain)},
    {"cost", "what it takes", HR_PLAIN, 0, OPTIONAL(cost)},
    {"cost_source", NULL, HR_PLAIN, 0, OPTIONAL(cost_source)},
    {"source", NULL, HR_PLAIN, 0, OPTIONAL(source)},
};

static void change(const void *row, hr_cell *cell)
{
  const hr_finding *f = row;
  if (f->suggested[0])
    hr_cell_format(cell, "%s%s%s", f->current, f->current[0] ? " → " : "", f->suggested);
}

/* A comment of a pull request says first the change, then its gain, last the reason. */
static const hr_column brief_columns[] = {
    {NULL, "severity", HR_PLAIN, 0, FINDING(severity)},
    {NULL, "rule", HR_PLAIN, 0, FINDING(rule)},
    {NULL, "change", HR_PLAIN, 0, HR_COMPUTED(TEXT, change)},
    {NULL, "class", HR_PLAIN, 0, FINDING(change_class)},
    {NULL, "parameters", HR_GAIN, 0, FINDING(parameter_change)},
    {NULL, "gain", HR_GAIN, 0, FINDING(predicted_gain)},
    {NULL, "gain, eager", HR_GAIN, 0, .rare = true, FINDING(eager_gain)},
    {NULL, "measured", HR_GAIN, 0, .rare = true, FINDING(measured_gain)},
    {NULL, "why", HR_PLAIN, 0, FINDING(why)},
    {NULL, "what it takes", HR_PLAIN, 0, OPTIONAL(cost)},
};

static const hr_column change_columns[] = {
    {"predicted_gain", "gain", HR_GAIN, 0, FINDING(predicted_gain)},
    {NULL, "change", HR_PLAIN, 0, HR_COMPUTED(TEXT, change)},
    {"current", NULL, HR_PLAIN, 0, OPTIONAL(current)},
    {"suggested", NULL, HR_PLAIN, 0, OPTIONAL(suggested)},
    {"class", "class", HR_PLAIN, 0, FINDING(change_class)},
    {"parameter_change", "parameters", HR_GAIN, 0, FINDING(parameter_change)},
    {"rule", "rule", HR_PLAIN, 1, FINDING(rule)},
    {"why", NULL, HR_PLAIN, 0, FINDING(why)},
};

/* Whether the model alone changes, not how it is run. */
static bool is_of_model(const hr_advice *advice, const hr_finding *finding)
{
  uint64_t changes = hr_changes_between(&advice->model, &advice->workload, &finding->model, &finding->workload),
           of_run = 0;
  static const hr_changed run[] = {HR_CHANGED_ATTENTION,       HR_CHANGED_RECOMPUTE,        HR_CHANGED_SHARING,
                                   HR_CHANGED_MICROBATCH,      HR_CHANGED_SEQUENCE,         HR_CHANGED_MICROBATCHES,
                                   HR_CHANGED_DATA_PARALLEL,   HR_CHANGED_CONTEXT_PARALLEL, HR_CHANGED_EXPERT_PARALLEL,
                                   HR_CHANGED_PIPELINE_STAGES, HR_CHANGED_TENSOR_PARALLEL};
  for (size_t i = 0; i < HR_COUNT_OF(run); i++)
    of_run |= (uint64_t)1 << run[i];
  return (changes & of_run) == 0;
}

bool hr_finding_is_shown(const hr_finding *finding, const hr_report_options *options)
{
  bool for_people = options->format != HR_FORMAT_JSON && options->format != HR_FORMAT_CSV;
  return !for_people || options->verbose || finding->severity > HR_SEVERITY_NONE;
}

hr_table *hr_finding_table(const hr_advice *advice, const hr_report_options *options)
{
  bool brief = options->format == HR_FORMAT_MARKDOWN;
  hr_table *table = brief ? HR_TABLE_OF(brief_columns, hr_finding) : HR_TABLE_OF(columns, hr_finding);
  for (size_t i = 0; i < advice->about.finding_count; i++) {
    hr_finding f = advice->findings[i];
    if (!f.has_change)
      f.parameter_change = f.predicted_operator_gain = f.predicted_gain = f.predicted_time_ns = (double)NAN;
    if (hr_finding_is_shown(&f, options))
      hr_table_add(table, &f);
  }
  return table;
}

hr_table *hr_change_table(const hr_advice *advice)
{
  hr_table *table = HR_TABLE_OF(change_columns, hr_finding);
  for (size_t i = 0; i < advice->about.finding_count; i++) {
    const hr_finding *finding = &advice->findings[i];
    if (finding->has_change && finding->severity > HR_SEVERITY_NONE && finding->predicted_gain > 0 &&
        is_of_model(advice, finding))
      hr_table_add(table, finding);
  }
  return table;
}
