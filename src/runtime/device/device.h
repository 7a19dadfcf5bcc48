/* What a backend fills in, and what the functions of <headroom/device.h> work on. */
#ifndef HR_RUNTIME_DEVICE_H
#define HR_RUNTIME_DEVICE_H

#include <headroom/device.h>

typedef enum hr_operation {
  HR_OPERATION_GEMM,
  HR_OPERATION_ATTENTION,
  HR_OPERATION_ROWS,
  HR_OPERATION_COUNT
} hr_operation;

/** One problem of any kind; `operation` says which member holds. */
typedef struct hr_problem {
  hr_operation operation;
  hr_dtype dtype;
  hr_gemm gemm;
  hr_attention attention;
  hr_rows rows;
} hr_problem;

/** The problem of a product, of an attention call, of an operation on rows. */
hr_problem hr_gemm_problem(const hr_gemm *gemm);
hr_problem hr_attention_problem(const hr_attention *attention);
hr_problem hr_rows_problem(const hr_rows *rows);

#define HR_OPERANDS_MAX 5

/** Operands of a problem, inputs first, the output last: A, B, C or Q, K, V, O, with ALiBi Q, K, V, slopes, O, or what
 *  an operation on rows has. `bytes` reach from the first element to behind the last, with the gaps that strides leave.
 *  The problem has been checked, so that the sizes fit. Attention of variable lengths, whose offsets are of no number
 *  format, has no operands here. */
typedef struct hr_operands {
  size_t count;
  size_t bytes[HR_OPERANDS_MAX];
} hr_operands;
hr_operands hr_problem_operands(const hr_problem *problem);

/** How a kernel adds up the products of an element. All 0: one after the other, each sum rounded. */
typedef struct hr_summation {
  int64_t parts;         /* sums that k is split into, all about as long; 0 as 1 */
  int64_t rounded_parts; /* of these, rounded to the result's format before they are added up; 0: all stay in fp32 */
  int64_t cut_every;     /* products between two moments at which a sum is cut to fp32, not rounded; 0: never */
  int64_t narrow;        /* of fp8: products that are added up in 14 bits before the sum goes to fp32; 0: all */
} hr_summation;

/** What a kernel is made of. `state` is the kernel's own part of a plan: state_bytes bytes, all 0 until prepare fills
 *  them; release lets go of what they refer to, also where prepare failed half way (either may be NULL).
 *  *workspace_bytes is 0 before prepare. `inputs` are 1 to 3 device addresses. A kernel for attention has run_attention
 *  instead of run: its arguments have been checked (offsets where the host reads them), and addresses of operands
 *  without rows may be NULL. */
typedef struct hr_kernel_functions {
  size_t state_bytes; /* 0: NULL is passed as the state */
  /** Whether the kernel can run this problem, of a dtype that its row lists; if not, `why` says it in a few words. */
  bool (*supports)(const hr_device *device, const hr_problem *problem, char *why, size_t why_size);
  hr_status (*prepare)(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                       hr_error *error);
  hr_status (*run)(const hr_plan *plan, const void *const *inputs, void *output, void *workspace, hr_error *error);
  hr_status (*run_attention)(const hr_plan *plan, const hr_attention_arguments *arguments, void *workspace,
                             hr_error *error);
  void (*release)(void *state);
  /** Of a prepared problem: looks for the `most` configurations that the kernel thinks best, *found of which there are
   *  (at least 1), and sets the kernel to the choice-th, from 0; until then it is on the first. HR_ERROR_NOT_FOUND
   *  where there are not so many. NULL: there is one. */
  hr_status (*choose)(void *state, int64_t choice, int64_t most, int64_t *found, size_t *workspace_bytes,
                      hr_error *error);
  /** How a prepared kernel adds up; NULL: each sum is rounded. */
  hr_summation (*summation)(const void *state);
  /** Says how a prepared kernel is set; may be NULL. */
  void (*describe)(const void *state, char *text, size_t size);
} hr_kernel_functions;

typedef struct hr_kernel {
  const hr_kernel_info *info;
  const hr_kernel_functions *functions;
} hr_kernel;

/** Whether the words of a row ("fp32 bf16") contain `word`. */
bool hr_has_word(const char *words, const char *word);

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

struct hr_plan {
  hr_device *device;
  const hr_kernel *kernel;
  hr_problem problem;
  size_t workspace_bytes;
  void *state;            /* the kernel's own, hr_kernel_functions.state_bytes */
  hr_summation summation; /* as hr_kernel_functions has it */
  int64_t choices;        /* as hr_plan_choices() */
  char passed_over[512];
  char configuration[128];
};

/** Prepares any problem; the public hr_plan_gemm() and hr_plan_attention() check and call this. */
hr_status hr_plan_create(hr_device *device, const hr_problem *problem, const char *kernel, hr_plan **plan,
                         hr_error *error);

/** Sets a plan that nobody runs yet to another configuration, as hr_plan_gemm_choice() says. */
hr_status hr_plan_choose(hr_plan *plan, int64_t choice, int64_t choices, hr_error *error);

/** Runs any plan whose problem has hr_problem_operands(), on their addresses. */
hr_status hr_plan_run(const hr_plan *plan, const void *const *inputs, void *output, void *workspace, hr_error *error);

/** Bytes that buffers on the device may still take. On the host, memory that is free, less what a control group
 *  forbids. */
size_t hr_device_memory_available(const hr_device *device);

#endif
