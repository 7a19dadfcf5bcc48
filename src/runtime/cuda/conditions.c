/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks, power, energy, temperature and throttle reasons of the GPU, from NVML. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/driver/context.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Throttle reasons: the clock is lower than the load alone would have it. Source: NVML's nvmlClocksThrottleReason
 * constants. */
static const struct {
  unsigned long long bit;
  const char *name;
} reasons[] = {{0x4, HR_POWER_CAP},
               {0x8, "hardware slowdown"},
               {0x20, "temperature"},
               {0x40, "hardware temperature"},
               {0x80, "power brake"}};

static void add_reason(hr_conditions *c, const char *name)
{
  size_t length = strlen(c->throttled_by);
  snprintf(c->throttled_by + length, sizeof c->throttled_by - length, "%s%s", length ? ", " : "", name);
}

static double clock_hz(const hr_cuda *cuda, int clock)
{
  unsigned mhz = 0;
  return cuda->nvml.nvmlDeviceGetClockInfo(cuda->nvml_device, clock, &mhz) == NVML_SUCCESS ? mhz * 1e6 : (double)NAN;
}

void hr_cuda_conditions(const hr_device *device, hr_conditions *c)
{
  const hr_cuda *cuda = device->state;
  if (!cuda->nvml_device)
    return;
  unsigned milliwatts = 0, celsius = 0;
  unsigned long long throttled = 0;
  c->clock_hz = clock_hz(cuda, NVML_CLOCK_SM);
  c->memory_clock_hz = clock_hz(cuda, NVML_CLOCK_MEMORY);
  if (cuda->nvml.nvmlDeviceGetPowerUsage(cuda->nvml_device, &milliwatts) == NVML_SUCCESS)
    c->power_w = milliwatts * 1e-3;
  if (cuda->nvml.nvmlDeviceGetTemperature(cuda->nvml_device, NVML_TEMPERATURE_GPU, &celsius) == NVML_SUCCESS)
    c->temperature_c = celsius;
  if (cuda->nvml.nvmlDeviceGetCurrentClocksThrottleReasons(cuda->nvml_device, &throttled) != NVML_SUCCESS)
    return;
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
    if (throttled & reasons[i].bit)
      add_reason(c, reasons[i].name);
  }
}

double hr_cuda_energy_j(const hr_device *device)
{
  const hr_cuda *cuda = device->state;
  unsigned long long millijoules = 0;
  if (!cuda->nvml_device || !cuda->nvml.nvmlDeviceGetTotalEnergyConsumption ||
      cuda->nvml.nvmlDeviceGetTotalEnergyConsumption(cuda->nvml_device, &millijoules) != NVML_SUCCESS)
    return (double)NAN;
  return (double)millijoules * 1e-3;
}
