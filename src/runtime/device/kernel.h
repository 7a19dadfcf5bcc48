/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel implements. */
#ifndef HR_RUNTIME_DEVICE_KERNEL_H
#define HR_RUNTIME_DEVICE_KERNEL_H

#include "runtime/device/device.h"
#include "runtime/operation/operation.h"

#include <headroom/plan.h>

#define HR_WORKSPACE_COUNTERS ((int)(HR_WORKSPACE_COUNTER_BYTES / sizeof(int32_t)))

/** How a kernel accumulates the products of an output element, for its error bound. All 0: sequentially, every partial
 *  sum rounded to nearest. */
typedef struct hr_summation {
  int64_t parts;         /* split-K: k is split into this many sums of about the same length; 0 as 1 */
  int64_t rounded_parts; /* how many of these are rounded to the output's dtype before they are combined; 0: all fp32 */
  int64_t cut_every;     /* products between two truncations of an accumulator to fp32; 0: it is rounded instead */
  int64_t narrow;        /* fp8: products accumulated in 14 bits before the sum is promoted to fp32; 0: all */
} hr_summation;

/** One run of a plan. `arguments` are hr_gemm_arguments, hr_attention_arguments … of the plan's operation, which have
 *  been checked: offsets, lengths and pages where the host can read them. Addresses of operands without rows may be
 *  NULL. `counters` are HR_WORKSPACE_COUNTER_BYTES of zeros, which a run leaves 0. */
typedef struct hr_run {
  const hr_problem *problem; /* the plan's, or a smaller one: hr_bound_problem() */
  const void *arguments;
  void *workspace, *counters;
  void *stream; /* of the device's context; NULL: its default stream. Not read by kernels of CPUs */
  int part;     /* of a kernel with `parts`: 1 the first launch, 2 the second, which reads what the last run left in the
                   workspace; 0: all */
} hr_run;

/** `state` is the kernel's own part of a plan: state_bytes bytes, all 0 until prepare fills them, and never written by
 *  a run. */
typedef struct hr_kernel_functions {
  size_t state_bytes; /* 0: NULL is passed as the state */
  /** Whether the kernel can run this problem, whose dtype its row lists; if not, `why` gives the reason. NULL:
   *  always. */
  bool (*supports)(const hr_device *device, const hr_problem *problem, char *why, size_t why_size);
  /** Whether others are known to run a supported problem faster, so that this one takes it only where none does, or by
   *  name; `why` says how that is known. NULL: never. */
  bool (*behind)(const hr_problem *problem, char *why, size_t why_size);
  /** Fills the state and *workspace_bytes, which is 0 before: scratch memory, without counters. May be NULL. */
  hr_status (*prepare)(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                       hr_error *error);
  /** Starts the run: no lock but that of a CPU's thread pool, no allocation, no synchronisation and no compilation. */
  hr_status (*run)(const hr_plan *plan, const hr_run *run, hr_error *error);
  bool counters; /* uses hr_run.counters */
  bool whole;    /* runs all sequences and rows of its plan */
  bool parts;    /* has two launches, of which hr_run.part takes one; HR_ERROR_UNSUPPORTED where a problem needs one */
  /** Frees what the state refers to, also after prepare failed. May be NULL. */
  void (*release)(void *state);
  /** Lists up to `most` configurations of a prepared problem, best first by the kernel's own estimate (*found of them,
   *  at least 1), and switches to number `choice`, from 0, which is the one after prepare. HR_ERROR_NOT_FOUND if there
   *  are fewer. NULL: there is one configuration. */
  hr_status (*choose)(void *state, int64_t choice, int64_t most, int64_t *found, size_t *workspace_bytes,
                      hr_error *error);
  /** How a prepared kernel accumulates; NULL: every partial sum is rounded. */
  hr_summation (*summation)(const void *state);
  /** Describes the configuration of a prepared kernel; may be NULL. */
  void (*describe)(const void *state, char *text, size_t size);
} hr_kernel_functions;

struct hr_kernel {
  const hr_kernel_info *info;
  const hr_kernel_functions *functions;
};

/** Whether `words` ("fp32 bf16"), separated by single spaces, contain `word`. */
bool hr_has_word(const char *words, const char *word);

#endif
