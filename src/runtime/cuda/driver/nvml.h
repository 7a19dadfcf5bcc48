/* SPDX-License-Identifier: Apache-2.0 */
/* The part of NVML that is used: clocks, power, energy, temperature and throttle reasons. */
#ifndef HR_RUNTIME_CUDA_DRIVER_NVML_H
#define HR_RUNTIME_CUDA_DRIVER_NVML_H

#include <headroom/status.h>
#include <stddef.h>

typedef int nvml_result;
typedef struct nvml_device_st *nvml_device;

enum { NVML_SUCCESS = 0, NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2, NVML_TEMPERATURE_GPU = 0 };

#define HR_NVML_LIST(ROW)                                                            \
  ROW(nvmlInit_v2, (void))                                                           \
  ROW(nvmlShutdown, (void))                                                          \
  ROW(nvmlSystemGetDriverVersion, (char *version, unsigned size))                    \
  ROW(nvmlDeviceGetHandleByPciBusId_v2, (const char *id, nvml_device *device))       \
  ROW(nvmlDeviceGetClockInfo, (nvml_device device, int clock, unsigned *mhz))        \
  ROW(nvmlDeviceGetPowerUsage, (nvml_device device, unsigned *milliwatts))           \
  ROW(nvmlDeviceGetTemperature, (nvml_device device, int sensor, unsigned *celsius)) \
  ROW(nvmlDeviceGetCurrentClocksThrottleReasons, (nvml_device device, unsigned long long *reasons))

/* Functions of drivers since 2018 and GPUs since Volta; they are NULL elsewhere. */
#define HR_NVML_OPTIONAL_LIST(ROW)                                                                \
  ROW(nvmlDeviceGetTotalEnergyConsumption, (nvml_device device, unsigned long long *millijoules)) \
  ROW(nvmlDeviceGetEnforcedPowerLimit, (nvml_device device, unsigned *milliwatts))

typedef struct hr_nvml {
  void *handle;
  char driver_version[32]; /* "580.65.06" */
#define HR_NVML_MEMBER(name, parameters) nvml_result(*name) parameters;
  HR_NVML_LIST(HR_NVML_MEMBER)
  HR_NVML_OPTIONAL_LIST(HR_NVML_MEMBER)
#undef HR_NVML_MEMBER
} hr_nvml;

/** Loads and initialises NVML. HR_ERROR_UNAVAILABLE with what is missing; *nvml is then closed. */
hr_status hr_nvml_open(hr_nvml *nvml, hr_error *error);
void hr_nvml_close(hr_nvml *nvml); /* a closed one is allowed */

#endif
