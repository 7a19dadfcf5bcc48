/* The host as a device: what the CPU backends share. */
#ifndef HR_RUNTIME_HOST_H
#define HR_RUNTIME_HOST_H

#include "runtime/device/device.h"

/** Bytes that this process may still take: the kernel's estimate of what is free without swapping, and what is left
 *  under each memory control group (v1 and v2). SIZE_MAX where nothing says. */
size_t hr_host_memory_available(void);

/** Forgets the largest resident memory that the process has had, and gives what it has now; 0 where the system does not
 *  let it. */
size_t hr_host_peak_begin(void);

/** How far resident memory has risen above `before` at most since hr_host_peak_begin() gave it. The system counts in
 *  lots of some pages for each thread. NAN where it does not tell. */
double hr_host_peak_since(size_t before);

/** Processors' worth of time that the CPU control group grants, rounded up; 0: no quota. */
int hr_host_cpu_quota(void);

/** As hr_backend.waited_ns: from the scheduler's statistics of each thread of the process. */
double hr_host_waited_ns(const hr_device *device);

/** As hr_backend.memory_available. */
size_t hr_host_device_memory(const hr_device *device);

/** The four buffer functions of a backend whose memory is the host's. Allocation refuses what
 *  hr_host_memory_available() does not cover, so that a request fails with HR_ERROR_OUT_OF_MEMORY rather than by the
 *  kernel's killer. */
hr_status hr_host_allocate(hr_device *device, size_t bytes, void **data, hr_error *error);
void hr_host_release(hr_device *device, void *data, size_t bytes);
hr_status hr_host_write(hr_device *device, void *to, const void *from, size_t bytes, hr_error *error);
hr_status hr_host_read(hr_device *device, void *to, const void *from, size_t bytes, hr_error *error);

#endif
