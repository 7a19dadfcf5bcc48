/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels, and plans: a problem prepared for one kernel of a device, which can be run repeatedly.
 *
 * Runs. hr_plan_run_gemm() and its siblings take the operands (device addresses, the caller's), a workspace and a
 * stream. On a GPU a call puts the run on the stream and returns; on a CPU the run is over when it returns. A run takes
 * no lock but that of a CPU device's thread pool, allocates nothing, compiles nothing and never waits for the device;
 * all of that has happened when the plan was made, which touches no stream. (oneDNN's kernels allocate some handles in
 * a run, and compile in the first.) So a run can be captured in a CUDA graph, which keeps the addresses; the plan has
 * to outlive the graph.
 *
 * `stream` is a CUstream (cudaStream_t) of the device's context; NULL is the context's default stream, as everywhere in
 * CUDA. Devices without streams ("cpu", "reference") take NULL alone. Copies from and to buffers are put on
 * hr_device_stream(), which waits for the default stream; what ran on another stream has to be waited for.
 *
 * `workspace` is memory of the device, of hr_plan_workspace_bytes() bytes and 64-byte aligned, which no other run uses
 * at the same time; NULL if that is 0. On a GPU its first HR_WORKSPACE_COUNTER_BYTES are counters: they have to be 0
 * before the first run (hr_workspace_clear()), and each run leaves them 0, so that one workspace, as large as the
 * largest needs, serves any number of plans one after another. hr_buffer_create() returns memory that is cleared so.
 *
 * Sizes of a plan are bounds: a run of an attention or decode plan may have fewer sequences and, with variable lengths,
 * fewer rows than the plan (members `batch`, `q_rows`, `kv_rows`; lengths and offsets on the device say the rest, so
 * that a graph's replay reads new ones). attention_materialized and attention_blocked, which multiply by libraries, run
 * all of the plan's (HR_ERROR_UNSUPPORTED).
 *
 * Every run checks its arguments: HR_ERROR_INVALID, before anything runs, for an address that is NULL or less aligned
 * than the problem says, an output at the address of an input, a workspace that is missing or not aligned, a stream
 * where there is none, offsets, lengths and pages out of range where the host can read them (on a GPU they are
 * trusted), and a plan of another operation; HR_ERROR_BACKEND if the driver refuses the run. No element of the output
 * may be one of an input or the workspace, or the result is undefined; gaps between strides may.
 *
 * Thread safety: an hr_plan is immutable; several threads may run it at the same time, on several streams, each with
 * its own workspace. */
#ifndef HEADROOM_PLAN_H
#define HEADROOM_PLAN_H

#include <headroom/attention.h>
#include <headroom/device.h>
#include <headroom/gemm.h>
#include <headroom/rowwise.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_plan hr_plan;

/** A kernel of a device. All of it has static storage. */
typedef struct hr_kernel_info {
  const char *name;      /* "gemm_onednn" */
  const char *operation; /* "gemm", "attention", "attention_backward", "decode" or "rowwise" */
  const char *device;    /* "cpu", "reference", "cuda" */
  const char *dtypes;    /* "fp32 bf16" */
  const char *needs;     /* required features, separated by spaces: "avx512_bf16"; "" for none */
  const char *summary;   /* one line */
} hr_kernel_info;

/** The kernels of all devices, whether or not this machine can run them, best first for each device and operation;
 *  *count is their number. */
HR_API const hr_kernel_info *hr_kernels(size_t *count);

/** Whether `name` is the kernel's name or that of its family, the beginning of the name up to an underscore:
 *  "attention_flash" of "attention_flash_avx512". Former names of renamed kernels are accepted. */
HR_API bool hr_kernel_is(const hr_kernel_info *kernel, const char *name);

/** Whether `device` has what the kernel called `kernel` needs; if not, `why` (at least 160 bytes) gives the reason. */
HR_API bool hr_kernel_runs(const hr_device *device, const char *kernel, char *why, size_t why_size);

/** Prepares C = A B; hr_gemm_a(), hr_gemm_b() and hr_gemm_c() give the sizes of its operands. `kernel` is the name of a
 *  kernel, or that of a family (hr_kernel_is()) for the best of it that supports the problem, or NULL for the best of
 *  all. hr_plan_kernel() and hr_plan_passed_over() tell which one was chosen and why. The caller owns *plan.
 *  HR_ERROR_NOT_FOUND for an unknown name, HR_ERROR_UNSUPPORTED with the reasons if no kernel supports the problem;
 *  errors of hr_gemm_check(). */
HR_API hr_status hr_plan_gemm(hr_device *device, const hr_gemm *gemm, const char *kernel, hr_plan **plan,
                              hr_error *error);

/** Prepares O = attention(Q, K, V) as hr_plan_gemm() does; errors of hr_attention_check() instead of
 *  hr_gemm_check(). */
HR_API hr_status hr_plan_attention(hr_device *device, const hr_attention *attention, const char *kernel, hr_plan **plan,
                                   hr_error *error);

/** Prepares a row-wise operation as hr_plan_gemm() does; errors of hr_rowwise_check() instead of hr_gemm_check(). */
HR_API hr_status hr_plan_rowwise(hr_device *device, const hr_rowwise *rows, const char *kernel, hr_plan **plan,
                                 hr_error *error);

/** Frees a plan; NULL is allowed. */
HR_API void hr_plan_free(hr_plan *plan);

/** The name of the plan's kernel. Static storage. */
HR_API const char *hr_plan_kernel(const hr_plan *plan);

/** Why the better kernels of the table were not chosen: "NAME REASON; …"; "" if there are none. Valid as long as the
 *  plan. */
HR_API const char *hr_plan_passed_over(const hr_plan *plan);

/** The kernel's configuration for this problem ("algo 66, tile 128x256, …, choice 3 of 8"); "" if it has only one.
 *  Valid as long as the plan. */
HR_API const char *hr_plan_configuration(const hr_plan *plan);

/** Bytes of workspace that a run needs; may be 0. */
HR_API size_t hr_plan_workspace_bytes(const hr_plan *plan);

#define HR_WORKSPACE_COUNTER_BYTES ((size_t)256 << 10)

/** Makes `workspace`, which has at least HR_WORKSPACE_COUNTER_BYTES, ready for its first run: puts zeros into its
 *  counters, as part of `stream` (see above). Does nothing on devices without counters. HR_ERROR_BACKEND. */
HR_API hr_status hr_workspace_clear(hr_device *device, void *workspace, void *stream, hr_error *error);

/** The operands of a GEMM plan, with the layout of hr_gemm. */
typedef struct hr_gemm_arguments {
  size_t struct_size; /* sizeof(hr_gemm_arguments), set by hr_gemm_arguments_default() */
  const void *a, *b;
  void *c;          /* every element is written, gaps between strides are not */
  const void *bias; /* [n]; read only with hr_gemm.bias */
} hr_gemm_arguments;

/** All NULL. */
HR_API void hr_gemm_arguments_init(hr_gemm_arguments *arguments, size_t size);
HR_DEFAULT(hr_gemm_arguments)

/** Runs a GEMM plan. */
HR_API hr_status hr_plan_run_gemm(const hr_plan *plan, const hr_gemm_arguments *arguments, void *workspace,
                                  void *stream, hr_error *error);

/** The operands of an attention plan, with the layout of hr_attention. */
typedef struct hr_attention_arguments {
  size_t struct_size;        /* sizeof(hr_attention_arguments), set by hr_attention_arguments_default() */
  const void *q, *k, *v;     /* may be NULL for an operand without rows */
  void *o;                   /* every element is written, gaps between strides are not */
  float *lse;                /* the log-sum-exp, packed; NULL: not requested */
  const float *alibi_slopes; /* [q_heads]; read only with `alibi` */
  /* [batch + 1] each; read only with variable lengths. Sequence b has rows offsets[b] to offsets[b + 1] − 1. Offsets
   * ascend within 0 and the total, and no sequence is longer than q_len or kv_len. Rows of no sequence are neither read
   * nor written. Offsets are checked if the host can read them, and trusted on a GPU. */
  const int32_t *q_offsets, *kv_offsets;
  /* [q_heads], [k_heads], [v_heads], finite and above 0, which is not checked; read only with `head_scales`. */
  const float *q_scales, *k_scales, *v_scales;
  /* Fewer than the plan's sequences and rows; 0: as many. With variable lengths Q and O have q_rows rows, at most
   * q_total, K and V kv_rows, and the log-sum-exp is [q_heads, q_rows]; otherwise these two are not read. */
  int64_t batch, q_rows, kv_rows;
  /* [batch, q_len], with variable lengths [q_rows]: the first key of its sequence that a query sees. Read only with
   * `first_keys`. It does not decrease from a query to the next of its sequence, which is checked if the host can read
   * it: otherwise queries miss keys. */
  const int32_t *first_keys;
} hr_attention_arguments;

/** All NULL. */
HR_API void hr_attention_arguments_init(hr_attention_arguments *arguments, size_t size);
HR_DEFAULT(hr_attention_arguments)

/** Runs an attention plan. The log-sum-exp is an output, too. */
HR_API hr_status hr_plan_run_attention(const hr_plan *plan, const hr_attention_arguments *arguments, void *workspace,
                                       void *stream, hr_error *error);

/** The operands of a plan for a row-wise operation. */
typedef struct hr_rowwise_arguments {
  size_t struct_size;    /* sizeof(hr_rowwise_arguments), set by hr_rowwise_arguments_default() */
  const void *inputs[3]; /* the first of hr_rowwise_inputs() */
  void *output;          /* the first */
  const void *more_inputs[1];
  void *more_outputs[3]; /* of operations that HR_ROWWISE_LIST gives several; the others are not read */
  int64_t step;          /* adamw: from 1, instead of that of the plan; 0: the plan's */
  const float *squares;  /* adamw that clips, of a part of a gradient: the sum of all squares is that of these
                            [squares_count], on the device. NULL: the tensor is the whole gradient */
  int64_t squares_count;
  const int32_t *row_count; /* operations of elements, gather: the first rows that are computed, at most the plan's, a
                               number on the device. NULL: all */
} hr_rowwise_arguments;

/** All NULL. */
HR_API void hr_rowwise_arguments_init(hr_rowwise_arguments *arguments, size_t size);
HR_DEFAULT(hr_rowwise_arguments)

/** Runs a plan for a row-wise operation. */
HR_API hr_status hr_plan_run_rowwise(const hr_plan *plan, const hr_rowwise_arguments *arguments, void *workspace,
                                     void *stream, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
