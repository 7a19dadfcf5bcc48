/* SPDX-License-Identifier: Apache-2.0 */
/* NVML's interface (runtime/cuda/driver/nvml.h) of the emulated GPU: a board that always draws 250 W of 700, at
 * 1.5 GHz. Its energy counter advances in steps of 100 ms, as that of an H200 does. */
#include <cmath>
#include <cstdio>
#include <ctime>

extern "C" {
#include "runtime/cuda/driver/nvml.h"

#define DECLARE(name, parameters) nvml_result name parameters;
HR_NVML_LIST(DECLARE)
HR_NVML_OPTIONAL_LIST(DECLARE)
#undef DECLARE
}

constexpr unsigned POWER_MW = 250000, LIMIT_MW = 700000, CLOCK_MHZ = 1500, MEMORY_MHZ = 3200, CELSIUS = 40;
constexpr double STEP_S = 0.1;

nvml_result nvmlInit_v2()
{
  return NVML_SUCCESS;
}

nvml_result nvmlShutdown()
{
  return NVML_SUCCESS;
}

nvml_result nvmlSystemGetDriverVersion(char *version, unsigned size)
{
  snprintf(version, size, "emulated");
  return NVML_SUCCESS;
}

nvml_result nvmlDeviceGetHandleByPciBusId_v2(const char *, nvml_device *device)
{
  static int board;
  *device = reinterpret_cast<nvml_device>(&board);
  return NVML_SUCCESS;
}

nvml_result nvmlDeviceGetClockInfo(nvml_device, int clock, unsigned *mhz)
{
  *mhz = clock == NVML_CLOCK_MEMORY ? MEMORY_MHZ : CLOCK_MHZ;
  return NVML_SUCCESS;
}

nvml_result nvmlDeviceGetPowerUsage(nvml_device, unsigned *milliwatts)
{
  *milliwatts = POWER_MW;
  return NVML_SUCCESS;
}

nvml_result nvmlDeviceGetTemperature(nvml_device, int, unsigned *celsius)
{
  *celsius = CELSIUS;
  return NVML_SUCCESS;
}

nvml_result nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device, unsigned long long *reasons)
{
  *reasons = 0;
  return NVML_SUCCESS;
}

nvml_result nvmlDeviceGetTotalEnergyConsumption(nvml_device, unsigned long long *millijoules)
{
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  double steps = std::floor((static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec)) / STEP_S);
  *millijoules = static_cast<unsigned long long>(std::llround(steps * STEP_S * POWER_MW));
  return NVML_SUCCESS;
}

nvml_result nvmlDeviceGetEnforcedPowerLimit(nvml_device, unsigned *milliwatts)
{
  *milliwatts = LIMIT_MW;
  return NVML_SUCCESS;
}
