/* SPDX-License-Identifier: Apache-2.0 */
/* Advice for a device by name, its findings by rule, and what holds for all of them. */
#ifndef HEADROOM_TEST_ADVICE_H
#define HEADROOM_TEST_ADVICE_H

#include "test.h"

#include "analysis/advise/advice.h"
#include "devices.h"

#include <headroom/experimental/advise.h>
#include <headroom/experimental/workload.h>
#include <math.h>
#include <string.h>

static inline hr_workload workload_of(const hr_model *model, int64_t t)
{
  hr_workload workload = hr_workload_default(model);
  workload.batch = 4;
  workload.sequence = 2048;
  workload.tensor_parallel = t;
  return workload;
}

static inline hr_advice *advise_under(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload)
{
  hr_advice *advice;
  hr_error error;
  assert_ok(hr_advise(hardware, model, workload, &advice, &error), error);
  return advice;
}

/* With attention as the paper has it. */
static inline hr_advice *advise_unfused(const char *name, const hr_model *model)
{
  hr_hardware hardware = device(name);
  hr_workload workload = workload_of(model, 1);
  workload.attention = HR_ATTENTION_UNFUSED;
  return advise_under(&hardware, model, &workload);
}

static inline hr_advice *advise(const char *name, const hr_model *model)
{
  hr_hardware hardware = device(name);
  hr_workload workload = workload_of(model, 1);
  return advise_under(&hardware, model, &workload);
}

/* The first finding of a rule. */
static inline const hr_finding *found(const hr_advice *advice, const char *rule)
{
  for (size_t i = 0; i < advice->about.finding_count; i++) {
    if (strcmp(advice->findings[i].rule, rule) == 0)
      return &advice->findings[i];
  }
  fail_msg("no finding of %s", rule);
  return NULL;
}

static inline double step_ns(const hr_advice *advice, const hr_model *model, const hr_workload *workload)
{
  static hr_step step;
  hr_error error;
  assert_ok(hr_fill_step(&advice->hardware, model, workload, &step, &error), error);
  return step.about.microbatch_time_ns;
}

static inline hr_change_class class_of_rule(const char *name)
{
  size_t count, i = 0;
  const hr_rule *rules = hr_rules(&count);
  while (i < count && strcmp(rules[i].name, name) != 0)
    i++;
  assert_true(i < count);
  return rules[i].change_class;
}

/* Time of the whole step on all devices of a replica, per token. */
static inline double device_ns_per_token(const hr_advice *advice, const hr_model *model, hr_workload workload,
                                         hr_framework framework)
{
  static hr_step step;
  hr_error error;
  workload.framework = framework;
  assert_ok(hr_fill_step(&advice->hardware, model, &workload, &step, &error), error);
  double sequence = workload.phase == HR_PHASE_DECODE ? 1 : (double)workload.sequence;
  double tokens = (double)workload.batch * (double)hr_workload_microbatches(&workload) * sequence;
  return step.about.time_ns * (double)workload.tensor_parallel * (double)workload.pipeline_stages *
         (double)workload.context_parallel / tokens;
}

static inline void assert_gain_is_of_the_step(const hr_advice *advice, const hr_finding *finding,
                                              hr_framework framework, double gain)
{
  double before = device_ns_per_token(advice, &advice->model, advice->workload, framework);
  double after = device_ns_per_token(advice, &finding->model, finding->workload, framework);
  assert_true(fabs(before / after - 1 - gain) < 1e-9);
}

/* Every rule has a finding, and every gain that is shown is what hr_predict_step() says about the suggestion, per token
 * and device. */
static inline void assert_findings_hold(const hr_advice *advice)
{
  size_t rules;
  const hr_rule *table = hr_rules(&rules);
  for (size_t i = 0; i < rules; i++)
    found(advice, table[i].name);
  for (size_t i = 0; i < advice->about.finding_count; i++) {
    const hr_finding *finding = &advice->findings[i];
    hr_error error;
    assert_true(strlen(finding->why) > 10 && strlen(finding->why) < sizeof finding->why - 1); /* not cut */
    assert_null(strchr(finding->why, '\n'));
    assert_true(isnan(finding->measured_gain));
    assert_non_null(finding->cost);
    assert_true(finding->change_class <= class_of_rule(finding->rule));
    assert_true(!finding->has_change || strlen(finding->cost) > 10);
    const hr_finding *previous = &advice->findings[i > 0 ? i - 1 : 0];
    bool later = finding->change_class == HR_CHANGE_RETRAIN && previous->change_class != HR_CHANGE_RETRAIN &&
                 previous->severity > HR_SEVERITY_NONE;
    assert_true(previous->severity >= finding->severity || (advice->about.retrain_last && later));
    if (!finding->has_change)
      continue;
    assert_ok(hr_model_check(&finding->model, &error), error);
    assert_true(finding->suggested[0] != '\0');
    assert_gain_is_of_the_step(advice, finding, HR_FRAMEWORK_COMPILED, finding->predicted_gain);
    assert_true(advice->workload.framework == HR_FRAMEWORK_COMPILED);
    if (!isnan(finding->eager_gain))
      assert_gain_is_of_the_step(advice, finding, HR_FRAMEWORK_EAGER, finding->eager_gain);
    if (finding->severity < HR_SEVERITY_HIGH) /* a gain in one of the frameworks is enough */
      assert_true(fmax(finding->predicted_gain, finding->eager_gain) >= 0);
  }
}

#endif
