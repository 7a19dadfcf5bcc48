/* SPDX-License-Identifier: Apache-2.0 */
/* The host as a device: shared by the CPU and reference backends. */
#ifndef HR_RUNTIME_HOST_H
#define HR_RUNTIME_HOST_H

#include "runtime/device/device.h"

/** Bytes that this process may still allocate: the smaller of the kernel's estimate without swapping and what every
 *  memory control group (v1 and v2) leaves. SIZE_MAX if unknown. */
size_t hr_host_memory_available(void);

/** Resets the process's peak of resident memory and returns its current size; 0 if the system does not allow it. */
size_t hr_host_peak_begin(void);

/** Peak of resident memory above `before`, the result of hr_host_peak_begin(). The system counts in batches of a few
 *  pages per thread. NAN if unknown. */
double hr_host_peak_since(size_t before);

/** Writes the processors that the CPU control group leaves, as Linux lists them ("0-3,8"). False if it has none. */
bool hr_host_group_processors(char *list, size_t size);

/** Quota of the CPU control group in processors, rounded up; 0: none. */
int hr_host_cpu_quota(void);

/** hr_backend.waited_ns, from the scheduler's statistics of the process's threads. */
double hr_host_waited_ns(const hr_device *device);

/** hr_backend.memory_available. */
size_t hr_host_device_memory(const hr_device *device);

/** The buffer functions of a backend in host memory. Allocation fails with HR_ERROR_OUT_OF_MEMORY beyond
 *  hr_host_memory_available(), before the kernel's out-of-memory killer ends the process. */
hr_status hr_host_allocate(hr_device *device, size_t bytes, void **data, hr_error *error);
void hr_host_release(hr_device *device, void *data, size_t bytes);
hr_status hr_host_write(hr_device *device, void *to, const void *from, size_t bytes, hr_error *error);
hr_status hr_host_read(hr_device *device, void *to, const void *from, size_t bytes, hr_error *error);

#endif
