/* SPDX-License-Identifier: Apache-2.0 */
/* What a backend implements, and the state of a device. */
#ifndef HR_RUNTIME_DEVICE_DEVICE_H
#define HR_RUNTIME_DEVICE_DEVICE_H

#include "base/private.h"
#include "hardware/hardware.h"

#include <headroom/device.h>

typedef struct hr_kernel hr_kernel; /* runtime/device/kernel.h */
/* runtime/device/kv_cache.h */
typedef struct hr_kv_cache hr_kv_cache;
typedef struct hr_kv_writes hr_kv_writes;
typedef struct hr_kv_numbers hr_kv_numbers;
/* runtime/device/q8.h */
typedef struct hr_q8_arguments hr_q8_arguments;
/* runtime/device/fp8.h */
typedef struct hr_fp8_arguments hr_fp8_arguments;
typedef struct hr_fp8_gemm hr_fp8_gemm;
/* runtime/device/linear.h */
typedef struct hr_linear_arguments hr_linear_arguments;
/* runtime/device/persistent.h */
typedef struct hr_persistent_part hr_persistent_part;
/* runtime/device/experts.h */
typedef struct hr_route_arguments hr_route_arguments;
typedef struct hr_router_arguments hr_router_arguments;
typedef struct hr_largest_arguments hr_largest_arguments;
typedef struct hr_squares_arguments hr_squares_arguments; /* runtime/device/squares.h */
typedef struct hr_route_backward_arguments hr_route_backward_arguments;
typedef struct hr_grouped_gradient_arguments hr_grouped_gradient_arguments;
typedef struct hr_grouped_arguments hr_grouped_arguments;

/* <headroom/experimental/communicator.h> */
typedef struct hr_communicator hr_communicator;
typedef struct hr_collective_call hr_collective_call;

/** Starts one run of something. */
typedef hr_status (*hr_run_fn)(void *context, hr_error *error);

/** Starts one run of part `part` of something. */
typedef hr_status (*hr_part_fn)(void *context, size_t part, hr_error *error);

/** Progress of one part of a long task: the part covers `first` to `first` + `share` of the whole, 0 … 1. */
typedef struct hr_progress_range {
  hr_progress_fn progress; /* may be NULL */
  void *context;
  double first, share;
} hr_progress_range;

/** Reports that `done` (0 … 1) of the part is done and `what` is the current step. HR_ERROR_INTERRUPTED once the caller
 *  asks to stop. */
hr_status hr_progress_range_report(const hr_progress_range *range, double done, const char *what, hr_error *error);

/** A matrix of uniform numbers: (row, column) is number first + row · pitch + column of the seed's. */
typedef struct hr_uniform {
  hr_dtype dtype;
  float bound;
  uint64_t seed;
  size_t rows, columns, first, pitch;
} hr_uniform;

#define HR_SIDE_MARKS 8

/** The functions of one kind of device. NULL functions are not offered. */
typedef struct hr_backend {
  const char *name; /* as hr_kernel_info.device */
  hr_status (*open)(hr_device *device, hr_error *error);
  void (*close)(hr_device *device);
  /** Whether the machine has a feature, one word of hr_kernel_info.needs. */
  bool (*has)(const hr_device *device, const char *need);
  hr_status (*detect)(const hr_device *device, hr_hardware *hardware, hr_error *error);
  /** Rate of a copy larger than the caches, bytes read plus bytes written per second. Takes about 0.2 s. */
  hr_status (*copy_rate)(hr_device *device, double *bytes_per_s, hr_error *error);
  /** Measures instruction ceilings: appends one row to `ceilings` (room for HR_CEILINGS_MAX) for each benchmark loop of
   *  the device. HR_ERROR_UNSUPPORTED if none can be built. Takes 1 to 2 s and reports progress every few milliseconds;
   *  the clock has settled before. */
  hr_status (*measure_ceilings)(hr_device *device, const hr_progress_range *range, hr_ceiling *ceilings, size_t *count,
                                hr_error *error);
  /** Total time that the threads of the process have been ready to run but had no core, since an arbitrary start; NAN
   *  if the system does not report it. */
  double (*waited_ns)(const hr_device *device);
  /** Bytes that buffers may still take. */
  size_t (*memory_available)(const hr_device *device);
  hr_status (*allocate)(hr_device *device, size_t bytes, void **data, hr_error *error);
  void (*release)(hr_device *device, void *data, size_t bytes);
  hr_status (*write)(hr_device *device, void *to, const void *from, size_t bytes, hr_error *error);
  hr_status (*read)(hr_device *device, void *to, const void *from, size_t bytes, hr_error *error);
  /** Compiles what a KV cache needs. NULL: nothing is compiled. */
  hr_status (*prepare_cache)(hr_device *device, hr_kv_cache *cache, hr_error *error);
  /** Writes ranges of numbers of a KV cache as part of a stream, if there are few of them at once and without waiting
   *  for what is before them; `from` may change afterwards. NULL: `write`. */
  hr_status (*queue_numbers)(const hr_kv_cache *cache, const hr_kv_numbers *ranges, size_t count, void *stream,
                             hr_error *error);
  /** Writes new tokens to a KV cache, as a run. NULL: no caches. */
  hr_status (*append_tokens)(const hr_kv_cache *cache, const hr_kv_writes *writes, void *stream, hr_error *error);
  bool appends_heads; /* append_tokens takes hr_kv_writes.heads */
  /** Chooses the experts of tokens, as a run. NULL: hr_host_route(). */
  hr_status (*route)(hr_device *device, const hr_route_arguments *route, void *stream, hr_error *error);
  /** Whether route_few takes a router of such sizes, of those that multiply_linear takes; NULL: none. Addresses are not
   *  known yet. */
  bool (*routes_few)(const hr_device *device, const hr_router_arguments *router);
  /** A router's linear layer and route() in one, as a run. */
  hr_status (*route_few)(hr_device *device, const hr_router_arguments *router, void *stream, hr_error *error);
  /** Multiplies the copies of each expert, as a run. NULL: a GEMM for each of them. */
  hr_status (*multiply_groups)(hr_device *device, const hr_grouped_arguments *grouped, void *stream, hr_error *error);
  /** Their gradients, as runs. NULL: hr_host_route_backward(), a GEMM for each expert. */
  hr_status (*route_backward)(hr_device *device, const hr_route_backward_arguments *route, void *stream,
                              hr_error *error);
  hr_status (*group_gradients)(hr_device *device, const hr_grouped_gradient_arguments *grouped, void *stream,
                               hr_error *error);
  /** A linear layer of few rows with what is fused with it, as a run. NULL: they are apart. */
  hr_status (*multiply_linear)(hr_device *device, const hr_linear_arguments *linear, void *stream, hr_error *error);
  /** Whether a kernel that runs several launches takes one, whose addresses are not known yet. NULL: there is none. */
  bool (*persists)(const hr_device *device, const hr_persistent_part *part);
  /** Makes that kernel, *kernel, of launches one after another, that persists() takes. Their plans and addresses stay.
   *  HR_ERROR_UNSUPPORTED if it does not take all of them together. */
  hr_status (*persist)(hr_device *device, const hr_persistent_part *parts, size_t count, void **kernel,
                       hr_error *error);
  hr_status (*run_persistent)(hr_device *device, void *kernel, void *stream, hr_error *error);
  void (*forget_persistent)(hr_device *device, void *kernel); /* NULL is allowed */
  /** The index of the largest element of each row, as a run. NULL: the host looks for it. */
  hr_status (*find_largest)(hr_device *device, const hr_largest_arguments *largest, void *stream, hr_error *error);
  /** Adds up squares, as a run. NULL: the host does. */
  hr_status (*add_squares)(hr_device *device, const hr_squares_arguments *squares, void *stream, hr_error *error);
  /** Products with weights in q8_0, and rows of them in another format. NULL: no such weights. */
  hr_status (*multiply_q8)(hr_device *device, const hr_q8_arguments *arguments, hr_error *error);
  hr_status (*widen_q8)(hr_device *device, const hr_q8_arguments *arguments, hr_error *error);
  /** Whether multiply_linear takes weights in fp8; NULL: never. */
  bool (*keeps_fp8)(const hr_device *device);
  /** Rows of weights in fp8 in another format, and rows of another format in fp8, as runs. */
  hr_status (*widen_fp8)(hr_device *device, const hr_fp8_arguments *arguments, void *stream, hr_error *error);
  hr_status (*quantize_fp8)(hr_device *device, const hr_fp8_arguments *arguments, void *stream, hr_error *error);
  /** Chooses an algorithm that multiplies with weights in fp8, freed by free_fp8(); HR_ERROR_UNSUPPORTED: there is none
   *  and they have to be widened. */
  hr_status (*plan_fp8)(hr_device *device, const hr_fp8_gemm *gemm, void **plan, size_t *workspace_bytes,
                        hr_error *error);
  hr_status (*multiply_fp8)(hr_device *device, const hr_fp8_arguments *arguments, void *workspace, void *stream,
                            hr_error *error);
  void (*free_fp8)(hr_device *device, void *plan);
  /** Connects the ranks of this process; what they need is in their `state`, which disconnect() frees. NULL: ranks meet
   *  in the memory of the host. */
  hr_status (*connect)(hr_communicator *const *communicators, int64_t count, hr_error *error);
  void (*disconnect)(hr_communicator *communicator);
  /** Loads what a call needs. A GPU loads programs once none of its kernels waits for others. */
  hr_status (*prepare_call)(hr_communicator *communicator, const hr_collective_call *call, hr_error *error);
  /** A call that has been checked, as a run; await_ranks() is hr_communicator_wait(). */
  hr_status (*communicate)(hr_communicator *communicator, const hr_collective_call *call, void *stream,
                           hr_error *error);
  bool (*takes_norm)(const hr_communicator *communicator, const hr_collective_call *call);   /* NULL: always */
  bool (*sends_beside)(const hr_communicator *communicator, const hr_collective_call *call); /* NULL: never */
  hr_status (*await_ranks)(hr_communicator *communicator, void *stream, hr_error *error);
  /** Queues zeros on a stream of the context. NULL where counter_bytes is 0. */
  hr_status (*queue_zeros)(hr_device *device, void *to, size_t bytes, void *stream, hr_error *error);
  /** Sets every byte. NULL: the host writes them. */
  hr_status (*set_bytes)(hr_device *device, void *to, unsigned char value, size_t bytes, hr_error *error);
  /** Writes a packed matrix of what hr_numbers_uniform() makes in fp32, times a bound. HR_ERROR_UNSUPPORTED or NULL:
   *  the host makes it. */
  hr_status (*fill_uniform)(hr_device *device, void *to, const hr_uniform *uniform, hr_error *error);
  /** Time of one of `count` consecutive runs by the device's clock. NULL: runs are over when they return, and the
   *  host's clock is used. *recording, NULL at first, belongs to the backend and is passed again with the same runs;
   *  once `count` exceeds 1 it stays the same, and the runs of the first such call are repeated. */
  hr_status (*time_runs)(hr_device *device, hr_run_fn run, void *context, int64_t count, void **recording,
                         double *time_ns, hr_error *error);
  /** Runs shorter than this are timed in groups though the device's clock could time one: one by one, launches show in
   *  them. 0: none. NULL: none. */
  double (*group_below_ns)(const hr_device *device);
  /** Waits until all started runs are over. NULL: runs are over when they return. */
  hr_status (*wait)(hr_device *device, hr_error *error);
  /** A second queue beside the device's stream, whose kernels go first where both have some. What follows on *stream of
   *  fork() begins once all that is on the device's stream is over; what follows on that behind join() begins once all
   *  is over that was on the second before mark(). Marks: 0 to HR_SIDE_MARKS − 1. NULL: there is none. */
  hr_status (*fork)(hr_device *device, void **stream, hr_error *error);
  hr_status (*mark)(hr_device *device, int mark, hr_error *error);
  hr_status (*join)(hr_device *device, int mark, hr_error *error);
  /** Records what `run` puts on the device's stream, without running it, for replay(), which starts it there.
   *  *recording stays NULL on a stream that cannot be recorded. NULL: every run is started anew. */
  hr_status (*record)(hr_device *device, hr_run_fn run, void *context, void **recording, hr_error *error);
  hr_status (*replay)(hr_device *device, void *recording, hr_error *error);
  /** Times of parts that run one after another on the device's stream, each between two events of a recording, which
   *  take a microsecond or two themselves. NULL: runs are over when they return. */
  hr_status (*time_parts)(hr_device *device, hr_part_fn run, void *context, size_t count, double *times_ns,
                          hr_error *error);
  /** Frees a recording; NULL is allowed. */
  void (*forget)(hr_device *device, void *recording);
  /** Returns what hr_device_stream() returns. */
  void *(*stream)(const hr_device *device);
  /** Sets the members that are known and leaves the others. */
  void (*conditions)(const hr_device *device, hr_conditions *conditions);
  /** Joules consumed since an arbitrary start, in steps of about energy_step_ns; NAN if unknown. Called from another
   *  thread than the one that runs. */
  double (*energy_j)(const hr_device *device);
  double energy_step_ns;
  int64_t sets_max;     /* most buffer sets that rotate, since all are part of a recording; 0: no limit */
  double settle_ns;     /* time under load until the clock is stable; 0: the device needs none */
  bool own_memory;      /* the host cannot read the addresses of hr_buffer_data() */
  size_t counter_bytes; /* HR_WORKSPACE_COUNTER_BYTES where kernels count, 0 elsewhere: the first part of a workspace */
} hr_backend;

#define HR_POWER_CAP "power cap" /* in hr_conditions.throttled_by: the work itself draws all available power */

extern const hr_backend hr_backend_reference, hr_backend_cpu, hr_backend_cuda; /* opened by registry.c */

/** hr_libraries() of the CUDA backend, and the one library of the CPU backend. */
void hr_cuda_libraries(hr_library libraries[HR_LIBRARIES_MAX], size_t *count);
void hr_cpu_library(hr_library *library);

struct hr_device {
  const hr_backend *backend;
  char name[32];
  int threads;              /* as requested; open() replaces 0 */
  void *stream, *context;   /* the caller's, as in hr_device_options; NULL: none. For open() */
  int part, parts;          /* of the processes that share the machine; 0 of 1 if there is one */
  size_t cache_bytes;       /* last-level cache, set by open(); cold measurements exceed it */
  const hr_kernel *kernels; /* of all backends; those of other backends are skipped. Tests replace them */
  size_t kernel_count;
  _Atomic size_t buffer_bytes; /* of all buffers that are allocated */
  void *state;                 /* the backend's own */
  bool settled;                /* has worked for settle_ns; set when measuring */
  double settled_clock_hz;     /* the clock after that; NAN: unknown */
};

/** Bytes that buffers on the device may still take. For the host: free memory within the limits of control groups. */
HR_PRIVATE size_t hr_device_memory_available(const hr_device *device);

#endif
