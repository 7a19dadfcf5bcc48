/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/advise/findings.h"

#include "base/names.h"
#include "base/text.h"
#include "model/reshape/reshape.h"

#include <headroom/experimental/change.h>
#include <headroom/experimental/model.h>
#include <headroom/experimental/operators.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void append_operator(char *text, size_t size, hr_operator_id id)
{
  size_t used = strlen(text);
  const char *name = hr_operator_id_name(id);
  if (used + strlen(name) + 2 <= size)
    snprintf(text + used, size - used, "%s%s", used ? " " : "", name);
}

static void name_operators(char *text, size_t size, hr_operator_set main, hr_operator_set others)
{
  text[0] = '\0';
  for (int id = 0; id < HR_OPERATOR_ID_COUNT; id++) {
    if (main & HR_OPERATOR_BIT(id))
      append_operator(text, size, (hr_operator_id)id);
  }
  for (int id = 0; id < HR_OPERATOR_ID_COUNT; id++) {
    if (others & ~main & HR_OPERATOR_BIT(id))
      append_operator(text, size, (hr_operator_id)id);
  }
}

static hr_finding *add_finding(hr_advice_context *context, hr_operator_set main, hr_operator_set others,
                               const char *current, const char *suggested, const char *why, va_list arguments)
{
  hr_advice *advice = context->advice;
  if (advice->about.finding_count == HR_FINDINGS_MAX)
    return NULL;
  hr_finding *finding = &advice->findings[advice->about.finding_count++];
  *finding = (hr_finding){.rule = context->rule->rule.name,
                          .source = context->rule->rule.source,
                          .change_class = context->rule->rule.change_class,
                          .cost = "",
                          .cost_source = "",
                          .model = advice->model,
                          .workload = advice->workload,
                          .eager_gain = NAN,
                          .main_operators = {(uint64_t)main, (uint64_t)(main >> 64)},
                          .measured_gain = NAN,
                          .measured_operator_gain = NAN};
  name_operators(finding->operators, sizeof finding->operators, hr_operators_present(&advice->step, main),
                 hr_operators_present(&advice->step, others));
  hr_copy_text(finding->current, sizeof finding->current, current);
  hr_copy_text(finding->suggested, sizeof finding->suggested, suggested);
  char sentence[1024];
  hr_write_text_v(sentence, sizeof sentence, why, arguments);
  hr_copy_text(finding->why, sizeof finding->why, sentence);
  return finding;
}

void hr_add_satisfied(hr_advice_context *context, hr_operator_set operators, const char *current, const char *why, ...)
{
  va_list arguments;
  va_start(arguments, why);
  add_finding(context, operators, 0, current, "", why, arguments);
  va_end(arguments);
}

void hr_add_not_applicable(hr_advice_context *context, hr_operator_set operators, const char *current, const char *why,
                           ...)
{
  va_list arguments;
  va_start(arguments, why);
  hr_finding *finding = add_finding(context, operators, 0, current, "", why, arguments);
  va_end(arguments);
  if (finding)
    finding->not_applicable = true;
}

/* The sizes of latent attention depend on each other in other ways than those of heads with K and V of their own. */
static void report_latent(hr_advice_context *context, const hr_mixer_latent *m)
{
  char current[160];
  snprintf(current, sizeof current, "%" PRId64 " heads of %" PRId64 " + %" PRId64 " over a latent of %" PRId64,
           m->q_heads, m->nope_dim, m->rope_dim, m->kv_rank);
  hr_add_not_applicable(context, hr_attention_matmuls(&context->advice->step), current,
                        "latent attention shares one latent of %" PRId64 " + %" PRId64
                        " elements among all heads, and Headroom does not vary its sizes",
                        m->kv_rank, m->rope_dim);
}

bool hr_lacks_heads(hr_advice_context *context)
{
  const hr_layer_group *main = hr_model_main_group(&context->advice->model);
  if (main->attention.q_heads > 0)
    return false;
  if (main->latent.q_heads > 0) {
    report_latent(context, &main->latent);
    return true;
  }
  hr_add_satisfied(context, 0, "no MHA, MQA or GQA", "no layer has multi-head, multi-query or grouped-query attention");
  return true;
}

bool hr_lacks_mlp(hr_advice_context *context)
{
  if (hr_main_dense(&context->advice->model)->width > 0)
    return false;
  hr_add_satisfied(context, 0, "no dense MLP", "the main layers have no dense feed-forward network");
  return true;
}

/* A change of the number of devices is at most medium: the step itself gains nothing. */
static hr_severity severity_of(double gain, double net_gain, bool per_device)
{
  if (net_gain >= HR_GAIN_HIGH && !per_device)
    return HR_SEVERITY_HIGH;
  if (net_gain >= HR_GAIN_MEDIUM)
    return HR_SEVERITY_MEDIUM;
  return gain >= HR_GAIN_MIN ? HR_SEVERITY_LOW : HR_SEVERITY_NONE;
}

/* Time before / time after − 1 per token, like the gain of the step; 0 if the change removes the operators. */
static double operator_gain(hr_advice_context *context, const hr_trial *trial, hr_operator_set operators)
{
  const hr_advice *advice = context->advice;
  hr_trial again;
  if (!hr_evaluate(context, &trial->model, &trial->workload, &again))
    return 0;
  double before = hr_time_of(&advice->step, &advice->model, advice->workload.pipeline_stages, operators);
  double after = hr_time_of(&context->after, &trial->model, trial->workload.pipeline_stages, operators);
  if (before <= 0 || after <= 0)
    return 0;
  return hr_device_time_per_token(before, &advice->workload) / hr_device_time_per_token(after, &trial->workload) - 1;
}

static void set_cost(hr_finding *finding, hr_changed changed)
{
  const hr_change_cost *cost = hr_change_cost_of(changed);
  finding->change_class = cost->change_class;
  finding->cost = cost->cost;
  finding->cost_source = cost->source;
}

/* Multiplies in double: valid degrees may have a product beyond int64_t. */
static double devices_of(const hr_workload *w)
{
  return (double)w->tensor_parallel * (double)w->pipeline_stages * (double)w->context_parallel *
         (double)w->data_parallel;
}

static void set_change(hr_advice_context *context, hr_finding *finding, const hr_trial *trial, hr_operator_set main)
{
  const hr_advice *advice = context->advice;
  set_cost(finding,
           hr_costliest_change(hr_changes_between(&advice->model, &advice->workload, &trial->model, &trial->workload)));
  finding->has_change = true;
  finding->model = trial->model;
  finding->workload = trial->workload;
  finding->parameter_change = trial->parameter_change;
  finding->predicted_gain = trial->gain;
  finding->eager_gain = trial->eager_gain;
  finding->predicted_operator_gain = operator_gain(context, trial, main);
  finding->predicted_time_ns = trial->time_ns;
  finding->gain_per_device = devices_of(&trial->workload) != devices_of(&advice->workload);
  finding->own_severity = severity_of(trial->gain, trial->net_gain, finding->gain_per_device);
  finding->severity = severity_of(fmax(trial->gain, trial->eager_gain), fmax(trial->net_gain, trial->eager_net_gain),
                                  finding->gain_per_device); /* NAN counts as less */
}

hr_finding *hr_add_suggestion(hr_advice_context *context, const hr_trial *trial, hr_operator_set main,
                              hr_operator_set others, const char *current, const char *suggested, const char *why, ...)
{
  va_list arguments;
  va_start(arguments, why);
  hr_finding *finding = add_finding(context, main, others, current, suggested, why, arguments);
  va_end(arguments);
  if (finding)
    set_change(context, finding, trial, main);
  return finding;
}

hr_finding *hr_add_infeasible(hr_advice_context *context, const hr_trial *trial, hr_changed needed,
                              hr_operator_set main, const char *current, const char *suggested, const char *why, ...)
{
  va_list arguments;
  va_start(arguments, why);
  hr_finding *finding = add_finding(context, main, 0, current, suggested, why, arguments);
  va_end(arguments);
  if (!finding)
    return NULL;
  set_cost(finding, needed);
  if (trial)
    set_change(context, finding, trial, main);
  finding->severity = finding->own_severity = HR_SEVERITY_HIGH;
  finding->cannot_run = true;
  return finding;
}

bool hr_already_suggested(const hr_advice_context *context, const hr_trial *trial)
{
  const hr_advice *advice = context->advice;
  const hr_model *own = &advice->model;
  int64_t own_width = hr_main_mlp_width(own);
  for (size_t i = 0; i < advice->about.finding_count; i++) {
    const hr_finding *finding = &advice->findings[i];
    bool vocabulary = finding->model.vocabulary != own->vocabulary && trial->model.vocabulary != own->vocabulary;
    bool width = hr_main_mlp_width(&finding->model) != own_width && hr_main_mlp_width(&trial->model) != own_width;
    bool batch = finding->workload.batch != advice->workload.batch && trial->workload.batch != advice->workload.batch;
    if (finding->has_change && (vocabulary || width || batch))
      return true;
  }
  return false;
}
