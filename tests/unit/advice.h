/* SPDX-License-Identifier: Apache-2.0 */
/* Advice for a device by name, and its findings by rule. */
#ifndef HEADROOM_TEST_ADVICE_H
#define HEADROOM_TEST_ADVICE_H

#include "test.h"

#include "devices.h"

#include <headroom/advise.h>
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

static inline hr_advice *advise(const char *name, const hr_model *model)
{
  hr_hardware hardware = device(name);
  hr_workload workload = workload_of(model, 1);
  return advise_under(&hardware, model, &workload);
}

/* The first finding of a rule. */
static inline const hr_finding *found(const hr_advice *advice, const char *rule)
{
  for (size_t i = 0; i < advice->finding_count; i++) {
    if (strcmp(advice->findings[i].rule, rule) == 0)
      return &advice->findings[i];
  }
  fail_msg("no finding of %s", rule);
  return NULL;
}

#endif
