/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/predict/step.h"
#include "hardware/hardware.h"
#include "properties.h"

#include "expect.h"

#include <math.h>
#include <string.h>

static void read_shipped(const char *name, hr_hardware *hardware)
{
  size_t count;
  const hr_catalog_entry *entries = hr_catalog_hardware(&count);
  size_t i = 0;
  while (i < count && strcmp(entries[i].name, name) != 0)
    i++;
  EXPECT(i < count);
  EXPECT(hr_hardware_from_json(&(hr_input){.text = entries[i].text, .length = entries[i].length, .name = name},
                               hardware, NULL) == HR_OK);
}

const hr_hardware *fuzz_devices(void)
{
  static hr_hardware devices[FUZZ_DEVICES];
  static const char *const names[FUZZ_DEVICES] = {"h200", "v100-sxm2-16gb", "mi300x", "xeon-sapphire-rapids"};
  for (size_t i = 0; devices[FUZZ_DEVICES - 1].multiprocessors == 0 && i < FUZZ_DEVICES; i++)
    read_shipped(names[i], &devices[i]);
  return devices;
}

static bool is_time(double ns)
{
  return isfinite(ns) && ns >= 0;
}

static bool is_share(double share)
{
  return share >= 0 && share <= 1 + 1e-9;
}

static void expect_prediction(const hr_prediction *p)
{
  EXPECT(is_time(p->time_ns) && p->time_ns > 0);
  EXPECT(is_time(p->low_ns) && p->low_ns <= p->time_ns && p->time_ns <= p->high_ns && is_time(p->high_ns));
  EXPECT(is_time(p->matrix_ns) && is_time(p->tile_ns) && is_time(p->wave_ns) && is_time(p->alignment_ns));
  EXPECT(is_time(p->store_ns) && is_time(p->pair_ns) && is_time(p->split_ns) && is_time(p->cache_ns));
  EXPECT(is_time(p->memory_ns) && is_time(p->launch_ns) && is_time(p->reduction_ns) && is_time(p->rounding_ns));
  EXPECT(p->clock_ns <= 0);
  EXPECT(is_share(p->efficiency) && is_share(p->tile_waste) && is_share(p->wave_waste));
  EXPECT(is_share(p->alignment_loss));
  EXPECT(p->tiles >= 0 && p->waves >= 0 && p->splits >= 0);
  EXPECT(p->waves <= p->tiles || (p->splits > 0 && p->waves / p->splits <= p->tiles)); /* splits fill waves, too */
  EXPECT(strcmp(hr_bound_name(p->bound_by), "unknown") != 0);
}

void expect_predictable(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload)
{
  static hr_step step;
  hr_error error = {.status = HR_OK};
  hr_status status = hr_fill_step(hardware, model, workload, &step, &error);
  if (status != HR_OK) {
    expect_clear_failure(status, &error);
    return;
  }
  for (size_t i = 0; i < step.operators.count; i++)
    expect_prediction(&step.predictions[i]);
  EXPECT(is_time(step.about.time_ns) && step.about.time_ns > 0);
  EXPECT(step.about.low_ns <= step.about.time_ns * (1 + 1e-9) && step.about.time_ns <= step.about.high_ns * (1 + 1e-9));
  EXPECT(is_time(step.about.high_ns) && is_time(step.about.layer_time_ns) && is_time(step.about.logit_time_ns));
  EXPECT(isfinite(step.about.tokens_per_s) && step.about.tokens_per_s > 0);
  EXPECT(is_share(step.about.model_efficiency));
}
