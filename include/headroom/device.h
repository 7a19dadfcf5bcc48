/* Devices of this machine, buffers on them, and kernels that run there.
 *
 * Thread safety: an hr_device may be used from several threads for everything but hr_device_close(); an hr_plan is
 * immutable and may be run from several threads at once, each with its own workspace; a buffer belongs to its users. */
#ifndef HEADROOM_DEVICE_H
#define HEADROOM_DEVICE_H

#include <headroom/attention.h>
#include <headroom/gemm.h>
#include <headroom/hardware.h>
#include <headroom/rows.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_device hr_device;
typedef struct hr_buffer hr_buffer;
typedef struct hr_plan hr_plan;

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

/** Memory of `bytes` bytes on the device, 64-byte aligned, not initialised. The caller owns *buffer and frees it before
 *  the device is closed. HR_ERROR_OUT_OF_MEMORY; HR_ERROR_INVALID for 0 bytes. */
HR_API hr_status hr_buffer_create(hr_device *device, size_t bytes, hr_buffer **buffer, hr_error *error);

/** Frees a buffer; NULL is allowed. */
HR_API void hr_buffer_free(hr_buffer *buffer);

/** The address on the device; for "cpu" and "reference" one of the host. */
HR_API void *hr_buffer_data(const hr_buffer *buffer);

/** Copies `bytes` bytes from the host to the buffer's start, or back, once all runs that were started before are over:
 *  a run that went wrong on the device may be told of here. HR_ERROR_INVALID beyond the buffer's end. */
HR_API hr_status hr_buffer_write(hr_buffer *buffer, const void *from, size_t bytes, hr_error *error);
/** As hr_buffer_write(). */
HR_API hr_status hr_buffer_read(const hr_buffer *buffer, void *to, size_t bytes, hr_error *error);

/** Fills the buffer with uniform values in [-1, 1] of a format, as many as fit; the same seed gives the same values on
 *  every device. HR_ERROR_INVALID for a dtype outside the list, HR_ERROR_OUT_OF_MEMORY, HR_ERROR_BACKEND. */
HR_API hr_status hr_buffer_fill_uniform(hr_buffer *buffer, hr_dtype dtype, uint64_t seed, hr_error *error);

/** Fills the buffer with NaN of a format, so that a kernel that leaves an element out is seen. Errors as
 *  hr_buffer_fill_uniform(). */
HR_API hr_status hr_buffer_poison(hr_buffer *buffer, hr_dtype dtype, hr_error *error);

/** A kernel of a device, best first. Static storage throughout. */
typedef struct hr_kernel_info {
  const char *name;      /* "gemm_onednn" */
  const char *operation; /* "gemm", "attention" or "rows" */
  const char *device;    /* "cpu", "reference", "cuda" */
  const char *dtypes;    /* "fp32 bf16" */
  const char *needs;     /* what the machine must have ("avx512_bf16"), empty for nothing */
  const char *summary;   /* one line */
} hr_kernel_info;

/** All kernels of all devices, whether or not this machine can run them; *count is how many. */
HR_API const hr_kernel_info *hr_kernels(size_t *count);

/** Whether `name` is the kernel's, or that of its family: its beginning up to an underscore, "attention_flash" of
 *  "attention_flash_avx512". */
HR_API bool hr_kernel_is(const hr_kernel_info *kernel, const char *name);

/** Whether `device` can run the kernel called `kernel`; if not, `why` (at least 160 bytes) says what is missing. */
HR_API bool hr_kernel_runs(const hr_device *device, const char *kernel, char *why, size_t why_size);

/** Prepares C = A B; hr_gemm_a(), hr_gemm_b() and hr_gemm_c() say how large its operands are. `kernel` is a name of
 *  hr_kernels() or of a family (hr_kernel_is()), of which the best that supports the problem is taken, or NULL for the
 *  best of all; the plan says which was taken and why better ones were passed over. The caller owns *plan.
 *  HR_ERROR_UNSUPPORTED with the reason when none does; errors of hr_gemm_check(). */
HR_API hr_status hr_plan_gemm(hr_device *device, const hr_gemm *gemm, const char *kernel, hr_plan **plan,
                              hr_error *error);

/** Prepares C = A B as hr_plan_gemm(), but in the choice-th (from 0) of the `choices` configurations that the kernel
 *  thinks best: cuBLASLt's heuristic knows several, and its first, which hr_plan_gemm() takes, is not always the
 *  fastest. HR_ERROR_INVALID unless 0 ≤ choice < choices, HR_ERROR_NOT_FOUND where the kernel knows fewer. */
HR_API hr_status hr_plan_gemm_choice(hr_device *device, const hr_gemm *gemm, const char *kernel, int64_t choice,
                                     int64_t choices, hr_plan **plan, hr_error *error);

/** How many of the configurations that were asked for there are: 1 to `choices` of hr_plan_gemm_choice(), else 1. */
HR_API int64_t hr_plan_choices(const hr_plan *plan);

/** Prepares O = attention(Q, K, V), as hr_plan_gemm(); errors of hr_attention_check() instead of hr_gemm_check(). */
HR_API hr_status hr_plan_attention(hr_device *device, const hr_attention *attention, const char *kernel, hr_plan **plan,
                                   hr_error *error);

/** Prepares an operation on rows, as hr_plan_gemm(); errors of hr_rows_check() instead of hr_gemm_check(). */
HR_API hr_status hr_plan_rows(hr_device *device, const hr_rows *rows, const char *kernel, hr_plan **plan,
                              hr_error *error);

/** Frees a plan; NULL is allowed. */
HR_API void hr_plan_free(hr_plan *plan);

/** The kernel that the plan runs, and why better ones do not ("" if none is better). Live as long as the plan. */
HR_API const char *hr_plan_kernel(const hr_plan *plan);
HR_API const char *hr_plan_passed_over(const hr_plan *plan); /* see hr_plan_kernel() */

/** What the kernel is set to for this problem ("algo 66, tile 128x256, …, choice 3 of 8"), "" where there is nothing to
 *  set. Lives as long as the plan. */
HR_API const char *hr_plan_configuration(const hr_plan *plan);

/** Bytes of workspace that a run needs; 0 for none. */
HR_API size_t hr_plan_workspace_bytes(const hr_plan *plan);

/** Runs a GEMM plan on device addresses: a, b in, c out, laid out as hr_gemm says. Allocates no memory for
 *  data and locks nothing (oneDNN below makes a small handle around each address). `workspace` has
 *  hr_plan_workspace_bytes() bytes, 64-byte aligned, used by no other run meanwhile; NULL where that is 0.
 *  On a GPU the run is started and goes on by itself, after those started before.
 *  HR_ERROR_INVALID for a NULL address, a workspace that is not aligned or a plan of another kind, HR_ERROR_BACKEND. */
HR_API hr_status hr_plan_run_gemm(const hr_plan *plan, const void *a, const void *b, void *c, void *workspace,
                                  hr_error *error);

/** What an attention plan works on: device addresses, owned by the caller, of what hr_attention describes. */
typedef struct hr_attention_arguments {
  size_t struct_size;        /* sizeof(hr_attention_arguments), set by hr_attention_arguments_default() */
  const void *q, *k, *v;     /* NULL is allowed where an operand has no rows */
  void *o;                   /* written from the first element to the last, gaps between strides left alone */
  float *lse;                /* the log-sum-exp, packed; NULL: not wanted */
  const float *alibi_slopes; /* [q_heads], with `alibi`; otherwise not looked at */
  /* [batch + 1] each, with variable lengths, otherwise not looked at: sequence b has rows offsets[b] to
   * offsets[b + 1] − 1. They rise from 0 or more to the total at most, no sequence is longer than q_len or kv_len, and
   * rows that belong to none are left alone. Checked where the host can read them, trusted on a GPU. */
  const int32_t *q_offsets, *kv_offsets;
} hr_attention_arguments;

/** All NULL. */
HR_API hr_attention_arguments hr_attention_arguments_default(void);

/** Runs an attention plan. `workspace` and asynchrony as hr_plan_run_gemm(). HR_ERROR_INVALID, before anything runs,
 *  for an address that is needed and NULL, a workspace that is not aligned, offsets that cannot be, or a plan of
 *  another kind; HR_ERROR_BACKEND. */
HR_API hr_status hr_plan_run_attention(const hr_plan *plan, const hr_attention_arguments *arguments, void *workspace,
                                       hr_error *error);

/** Runs a plan for an operation on rows: hr_rows_inputs() addresses in, one out. `workspace`, asynchrony and errors as
 *  hr_plan_run_gemm(). */
HR_API hr_status hr_plan_run_rows(const hr_plan *plan, const void *const *inputs, void *output, void *workspace,
                                  hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
