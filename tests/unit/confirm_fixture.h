/* SPDX-License-Identifier: Apache-2.0 */
/* A small shape, findings about it, and times set by hand, for tests of the confirmation. */
#ifndef HEADROOM_TEST_CONFIRM_FIXTURE_H
#define HEADROOM_TEST_CONFIRM_FIXTURE_H
#include "test.h"

#include "analysis/advise/advice.h"
#include "models.h"

#include "experiment/confirm/jobs.h"

#include <headroom/device_file.h>
#include <headroom/experimental/catalog.h>
#include <headroom/experimental/operators.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two layers of h = 64 with 4 heads of 16, and 100 words: small enough for the reference. */
static const char small_model[] = "{\"h\":64,\"a\":4,\"L\":2,\"v\":100,\"s\":32,\"b\":1,\"t\":1,\"mlp\":\"gelu\"}";

static inline hr_hardware some_cpu(void)
{
  size_t count;
  const hr_catalog_entry *entries = hr_catalog_hardware(&count);
  hr_hardware hardware;
  hr_error error;
  for (size_t i = 0; i < count; i++) {
    if (strcmp(entries[i].name, "xeon-sapphire-rapids") == 0) {
      assert_ok(hr_hardware_from_json(&(hr_input){.text = entries[i].text, .length = entries[i].length, .name = "test"},
                                      &hardware, &error),
                error);
      return hardware;
    }
  }
  fail_msg("xeon-sapphire-rapids is not shipped");
  return hr_hardware_default();
}

static inline hr_advice *make_advice(void)
{
  hr_advice *advice = calloc(1, sizeof *advice);
  hr_error error;
  assert_non_null(advice);
  advice->hardware = some_cpu();
  assert_ok(hr_model_from_json(&(hr_input){.text = small_model, .length = sizeof small_model - 1, .name = "test"}, NULL,
                               NULL, &advice->model, &error),
            error);
  advice->workload = unfused_workload(&advice->model);
  advice->workload.dtype = HR_FP32;
  return advice;
}

/* A finding whose main operators have these names. */
static inline hr_finding *add_finding(hr_advice *advice, const char *operators)
{
  hr_finding *finding = &advice->findings[advice->about.finding_count++];
  *finding = (hr_finding){.rule = "a rule",
                          .has_change = true,
                          .model = advice->model,
                          .workload = advice->workload,
                          .measured_gain = NAN,
                          .measured_operator_gain = NAN};
  strcpy(finding->operators, operators);
  for (const char *at = operators; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
    for (int id = 0; id < HR_OPERATOR_ID_COUNT; id++) {
      const char *name = hr_operator_id_name((hr_operator_id)id);
      if (strlen(name) == strcspn(at, " ") && strncmp(name, at, strlen(name)) == 0)
        finding->main_operators[id / 64] |= (uint64_t)1 << id % 64;
    }
  }
  return finding;
}

static inline hr_confirm_run *choose(hr_device *device, hr_advice *advice, double budget_ns)
{
  hr_confirm_run *c = calloc(1, sizeof *c);
  hr_error error;
  assert_non_null(c);
  c->device = device, c->advice = advice, c->budget_ns = budget_ns, c->slowdown = 1;
  hr_confirm_list(c);
  assert_ok(hr_confirm_choose(c, &error), error);
  return c;
}

static inline void free_all(hr_confirm_run *c, hr_advice *advice, hr_device *device)
{
  free(c->jobs);
  free(c);
  free(advice);
  hr_device_close(device);
}

static inline hr_device *open_reference(void)
{
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  return device;
}

static inline void set_times(hr_confirm_run *c, double alone_ns, double pair_ns, double ratio, double low, double high)
{
  for (size_t i = 0; i < c->job_count; i++) {
    hr_confirm_job *job = &c->jobs[i];
    job->done = true;
    job->result.before.median_ns = job->pair ? pair_ns : alone_ns;
    job->result.after.median_ns = 123456789; /* not used for gains, because it may have drifted */
    job->result.ratio = ratio, job->result.ratio_low = low, job->result.ratio_high = high;
  }
}

static inline double predicted_rest(const hr_step *step)
{
  double sum = 0;
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    if (!hr_confirm_is_timed(op))
      sum += (double)op->count * step->predictions[i].time_ns;
  }
  return sum;
}

#define assert_near(found, expected) assert_true(fabs((found) - (expected)) < 1e-9)

#endif
