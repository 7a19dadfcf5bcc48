/* What a backend fills in, and what the functions of <headroom/device.h> work on. */
#ifndef HR_RUNTIME_DEVICE_DEVICE_H
#define HR_RUNTIME_DEVICE_DEVICE_H

#include <headroom/device.h>

typedef struct hr_kernel hr_kernel; /* runtime/device/plan.h */

/** Starts one run of something. */
typedef hr_status (*hr_run_fn)(void *context, hr_error *error);

/** A caller who looks on at a part of long work, from `first` to `first` + `share` of the whole. */
typedef struct hr_watch {
  hr_progress_fn progress; /* may be NULL */
  void *context;
  double first, share;
} hr_watch;

/** HR_ERROR_INTERRUPTED once the caller says stop. `done` runs from 0 to 1 over the part, `what` is the step. */
hr_status hr_watch_ask(const hr_watch *watch, double done, const char *what, hr_error *error);

/** What one kind of device does. Functions that are NULL are not offered. */
typedef struct hr_backend {
  const char *name; /* as hr_kernel_info.device */
  hr_status (*open)(hr_device *device, hr_error *error);
  void (*close)(hr_device *device);
  /** Whether the machine has what a word of hr_kernel_info.needs names. */
  bool (*has)(const hr_device *device, const char *need);
  hr_status (*detect)(const hr_device *device, hr_hardware *hardware, hr_error *error);
  /** Bytes per second, read and written, of a copy that no cache holds. About 0.2 s. */
  hr_status (*copy_rate)(hr_device *device, double *bytes_per_s, hr_error *error);
  /** Instruction ceilings: appends a row to `ceilings`, which has room for HR_CEILINGS_MAX, for each loop that the
   *  device has. HR_ERROR_UNSUPPORTED where none can be built. A second or two, in which the watch is asked every some
   *  milliseconds; the clock has settled before. */
  hr_status (*measure_ceilings)(hr_device *device, const hr_watch *watch, hr_ceiling *ceilings, size_t *count,
                                hr_error *error);
  /** Time that the process's threads have spent ready to run but without a core, all together, since some moment; NAN
   *  where the system does not tell. */
  double (*waited_ns)(const hr_device *device);
  /** Bytes that buffers may still take. */
  size_t (*memory_available)(const hr_device *device);
  hr_status (*allocate)(hr_device *device, size_t bytes, void **data, hr_error *error);
  void (*release)(hr_device *device, void *data, size_t bytes);
  hr_status (*write)(hr_device *device, void *to, const void *from, size_t bytes, hr_error *error);
  hr_status (*read)(hr_device *device, void *to, const void *from, size_t bytes, hr_error *error);
  /** Sets every byte; NULL: written from the host. */
  hr_status (*set_bytes)(hr_device *device, void *to, unsigned char value, size_t bytes, hr_error *error);
  /** Writes `count` elements as hr_numbers_uniform() does. HR_ERROR_UNSUPPORTED, or NULL: made on the host. */
  hr_status (*fill_uniform)(hr_device *device, void *to, hr_dtype dtype, uint64_t seed, size_t count, hr_error *error);
  /** Time of one of `count` runs that follow each other, by the device's clock; NULL: runs are over when they return,
   *  and the host's clock is right. *recording, NULL at first, is the backend's from one call to the next of the same
   *  runs; once `count` is above 1 it stays the same, and the runs of the first such call are repeated. */
  hr_status (*time_runs)(hr_device *device, hr_run_fn run, void *context, int64_t count, void **recording,
                         double *time_ns, hr_error *error);
  /** Waits until all runs that were started are over; NULL: they are when they return. */
  hr_status (*wait)(hr_device *device, hr_error *error);
  /** Frees a recording; NULL is allowed. */
  void (*forget)(hr_device *device, void *recording);
  /** As hr_device_stream(). */
  void *(*stream)(const hr_device *device);
  /** Fills in what is known; the rest stays. */
  void (*conditions)(const hr_device *device, hr_conditions *conditions);
  int64_t sets_max; /* sets of buffers that may rotate, as recordings of all are kept; 0: any number */
  double settle_ns; /* how long the device works before its clock stays the same; 0: it does not matter */
  bool own_memory;  /* the host cannot read what hr_buffer_data() points to */
} hr_backend;

#define HR_POWER_CAP "power cap" /* in hr_conditions.throttled_by: the work itself draws all power that there is */

extern const hr_backend hr_backend_reference, hr_backend_cpu, hr_backend_cuda; /* what registry.c opens */

/** hr_libraries() of the CUDA backend, and the one of the CPU. */
void hr_cuda_libraries(hr_library libraries[HR_LIBRARIES_MAX], size_t *count);
void hr_cpu_library(hr_library *library);

struct hr_device {
  const hr_backend *backend;
  char name[32];
  int threads;              /* as asked for; open() replaces 0 by what it found */
  int part, parts;          /* of processes that share the machine: 0 of 1 when alone */
  size_t cache_bytes;       /* last-level cache, set by open(); what "cold" is reckoned from */
  const hr_kernel *kernels; /* rows of all backends; those of other devices are skipped. Tests put their own here */
  size_t kernel_count;
  void *state;             /* the backend's own */
  bool settled;            /* has worked for settle_ns; set by measuring */
  double settled_clock_hz; /* its clock then; NAN: not known */
};

/** Bytes that buffers on the device may still take. On the host, memory that is free, less what a control group
 *  forbids. */
size_t hr_device_memory_available(const hr_device *device);

#endif
