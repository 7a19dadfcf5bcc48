/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of this machine: opening and describing them. <headroom/buffer.h> is memory on a device, <headroom/plan.h>
 * kernels.
 *
 * Thread safety: several threads may use one hr_device at the same time, except for hr_device_close(). */
#ifndef HEADROOM_DEVICE_H
#define HEADROOM_DEVICE_H

#include <headroom/hardware.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_device hr_device;

/** Opens "cpu", "reference" (plain C in float64) or "cuda:N". The caller owns *device and closes it after freeing its
 *  buffers and plans. `threads` is the number of CPU threads; 0: all cores that the process may use.
 *  HR_ERROR_NOT_FOUND for another name, HR_ERROR_UNAVAILABLE if the machine lacks the device. */
HR_API hr_status hr_device_open(const char *name, int threads, hr_device **device, hr_error *error);

/** How hr_device_open_with() opens a device. */
typedef struct hr_device_options {
  size_t struct_size; /* sizeof(hr_device_options), set by hr_device_options_default() */
  int threads;        /* as in hr_device_open() */
  void *stream;       /* "cuda:N" only: a CUstream (cudaStream_t) for its own work; NULL: one that the device makes */
  void *context;      /* "cuda:N" only: a CUcontext of that GPU; NULL: that of `stream`, or the GPU's primary context */
} hr_device_options;

/** All cores; a stream and the context of the device's own choice. */
HR_API void hr_device_options_init(hr_device_options *options, size_t size);
HR_DEFAULT(hr_device_options)

/** Opens a device as hr_device_open() does, in a context or with a stream that a program has already:
 *
 *  - Buffers are allocated in that context. Runs may be put on any of its streams (<headroom/plan.h>); `stream` is the
 *    one for the device's own work: copies, random numbers, and runs whose time is measured.
 *  - Stream and context stay the caller's: hr_device_close() waits for the stream and destroys neither. Both have to
 *    outlive the device. The calling thread's current context is the same after each call.
 *  - The default stream of the context is 1 (cudaStreamLegacy) here, as NULL asks for a new one. It cannot be captured,
 *    and runs below 20 µs cannot be measured on it (HR_ERROR_UNSUPPORTED).
 *
 *  HR_ERROR_INVALID with the reason if a device other than "cuda:N" is given a stream or a context, if the stream
 *  belongs to another context or the context to another GPU, for the per-thread default stream (2), which is several,
 *  and for threads < 0; HR_ERROR_BACKEND if the driver refuses them, such as 1 without a context while none is current;
 *  errors of hr_device_open(). */
HR_API hr_status hr_device_open_with(const char *name, const hr_device_options *options, hr_device **device,
                                     hr_error *error);

/** Closes a device; NULL is allowed. A child of fork() may close its copy of a CPU device, which frees its memory; it
 *  has none of the threads and runs plans only after opening the device itself. */
HR_API void hr_device_close(hr_device *device);

/** The name that it was opened by. Valid until the device is closed. */
HR_API const char *hr_device_name(const hr_device *device);

/** Describes the device without measuring: topology, caches, memory, rates estimated from the instruction set.
 *  HR_ERROR_UNSUPPORTED for "reference", which has no rates. */
HR_API hr_status hr_device_detect(const hr_device *device, hr_hardware *hardware, hr_error *error);

/** Describes the device as hr_device_detect() does, and measures for about two seconds, on a GPU eight: instruction
 *  ceilings (`ceilings`), and the library's best GEMMs and a streaming copy, which replace the estimated rates. If
 *  other programs keep a rate from being precise, its estimate stays and hr_hardware_about.calibration is
 *  HR_CALIBRATION_ESTIMATED. `progress` (may be NULL) is called every few milliseconds. HR_ERROR_UNSUPPORTED for a
 *  device without rates, HR_ERROR_UNAVAILABLE if it has neither a GEMM kernel nor ceilings, HR_ERROR_INTERRUPTED once
 *  `progress` asks to stop; *hardware is then untouched. */
HR_API hr_status hr_device_probe(hr_device *device, hr_progress_fn progress, void *context, hr_hardware *hardware,
                                 hr_error *error);

/** The stream of the device's own work (copies, random numbers, measuring): for "cuda:N" a CUstream (cudaStream_t), the
 *  caller's or one that was made when the device was opened. That one waits for the context's default stream, and the
 *  default stream for it. NULL for other devices. Valid until the device is closed. */
HR_API void *hr_device_stream(const hr_device *device);

/** The current state of a device; NAN and "" where unknown. */
typedef struct hr_conditions {
  double clock_hz, memory_clock_hz;
  double power_w, temperature_c;
  char throttled_by[96]; /* what limits the clock now: "power cap, temperature" */
} hr_conditions;

/** Reads the state of a device. Takes up to a few milliseconds. */
HR_API void hr_device_conditions(const hr_device *device, hr_conditions *conditions);

/** A library that a device uses: its purpose, and its version or what is missing. */
typedef struct hr_library {
  char name[32];
  char device[16]; /* that uses it: "cpu", "cuda" */
  char purpose[64];
  hr_status status; /* HR_OK or HR_ERROR_UNAVAILABLE */
  char version[32];
  char detail[256]; /* why it is unavailable, and how to get it */
} hr_library;

#define HR_LIBRARIES_MAX 8

/** Lists the libraries of a kind of device ("cpu", "cuda"; NULL: of all), available or not; *count is their number. */
HR_API void hr_libraries(const char *device, hr_library libraries[HR_LIBRARIES_MAX], size_t *count);

#ifdef __cplusplus
}
#endif
#endif
