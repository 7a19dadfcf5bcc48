/* Devices of this machine: opening and describing them. <headroom/buffer.h> has memory on a device, <headroom/plan.h>
 * kernels that run there.
 *
 * Thread safety: an hr_device may be used from several threads for everything but hr_device_close(). */
#ifndef HEADROOM_DEVICE_H
#define HEADROOM_DEVICE_H

#include <headroom/hardware.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_device hr_device;

/** Opens "cpu" (the machine's fast libraries), "reference" (plain C in float64) or "cuda:N". The caller owns *device
 *  and closes it after its buffers and plans. `threads`: 0 for all cores that the process may use.
 *  HR_ERROR_NOT_FOUND for another name, HR_ERROR_UNAVAILABLE where the machine lacks it. */
HR_API hr_status hr_device_open(const char *name, int threads, hr_device **device, hr_error *error);

/** As hr_device_open() for one of `parts` processes of this machine that measure at the same time, the part-th from 0.
 *  A CPU has cores / parts threads then, at least one. Where nothing has bound the process (its affinity mask holds the
 *  whole machine), it is bound to that many cores of its own: calling thread, and threads that it starts afterwards.
 *  With more processes than cores several have the same. Other devices are opened as they are. HR_ERROR_INVALID unless
 *  0 ≤ part < parts. */
HR_API hr_status hr_device_open_part(const char *name, int part, int parts, hr_device **device, hr_error *error);

/** Closes a device; NULL is allowed. */
HR_API void hr_device_close(hr_device *device);

/** The name it was opened by. Lives as long as the device. */
HR_API const char *hr_device_name(const hr_device *device);

/** Describes the device without measuring: topology, caches, memory, rates from the instruction set.
 *  HR_ERROR_UNSUPPORTED for "reference", which has no speed to describe. */
HR_API hr_status hr_device_detect(const hr_device *device, hr_hardware *hardware, hr_error *error);

/** As hr_device_detect(), then measures for two seconds, on a GPU six: what its instructions reach (`ceilings`), and
 *  the library's best products and a streaming copy, which replace the estimated rates. A rate that other programs kept
 *  from settling stays an estimate, and hardware->calibration then HR_CALIBRATION_ESTIMATED. HR_ERROR_UNSUPPORTED for a
 *  device without rates, HR_ERROR_UNAVAILABLE where it has neither a kernel for products nor loops. `progress` (may be
 *  NULL) is asked every some milliseconds; HR_ERROR_INTERRUPTED once it says stop, *hardware is then untouched. */
HR_API hr_status hr_device_probe(hr_device *device, hr_progress_fn progress, void *context, hr_hardware *hardware,
                                 hr_error *error);

/** The queue that runs are started on: for "cuda:N" the CUstream (the runtime's cudaStream_t), in the GPU's primary
 *  context, so that another library can put its own work there or capture both in a graph. NULL for the others, whose
 *  runs are over when they return. Lives as long as the device. */
HR_API void *hr_device_stream(const hr_device *device);

/** What a device is doing. NAN and "" where the machine does not tell. */
typedef struct hr_conditions {
  double clock_hz, memory_clock_hz;
  double power_w, temperature_c;
  char throttled_by[96]; /* what holds the clock down at the moment: "power cap, temperature" */
} hr_conditions;

/** Reads them; takes up to some milliseconds. */
HR_API void hr_device_conditions(const hr_device *device, hr_conditions *conditions);

/** A library that a device stands on: what it is needed for, and its version or what is missing. */
typedef struct hr_library {
  char name[32];
  char device[16]; /* whose: "cpu", "cuda" */
  char purpose[64];
  hr_status status; /* HR_OK or HR_ERROR_UNAVAILABLE */
  char version[32];
  char detail[256]; /* why it is not there, and how to get it */
} hr_library;

#define HR_LIBRARIES_MAX 8

/** Looks for those of a kind of device ("cpu", "cuda"; NULL: for all); *count is how many there are to look for. */
HR_API void hr_libraries(const char *device, hr_library libraries[HR_LIBRARIES_MAX], size_t *count);

#ifdef __cplusplus
}
#endif
#endif
