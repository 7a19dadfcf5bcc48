/* Kernels, and plans: a problem prepared for one kernel of a device, to be run as often as wanted.
 *
 * Thread safety: an hr_plan is immutable and may be run from several threads at once, each with its own workspace. */
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

/** A kernel of a device, best first. Static storage throughout. */
typedef struct hr_kernel_info {
  const char *name;      /* "gemm_onednn" */
  const char *operation; /* "gemm", "attention" or "rowwise" */
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

/** Prepares an operation on rows, as hr_plan_gemm(); errors of hr_rowwise_check() instead of hr_gemm_check(). */
HR_API hr_status hr_plan_rowwise(hr_device *device, const hr_rowwise *rows, const char *kernel, hr_plan **plan,
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

/** Runs a plan for a row-wise operation: hr_rowwise_inputs() addresses in, one out. `workspace`, asynchrony and errors
 *  as hr_plan_run_gemm(). */
HR_API hr_status hr_plan_run_rowwise(const hr_plan *plan, const void *const *inputs, void *output, void *workspace,
                                     hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
