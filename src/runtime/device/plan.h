/* What a kernel fills in, and what the functions of <headroom/plan.h> work on. */
#ifndef HR_RUNTIME_DEVICE_PLAN_H
#define HR_RUNTIME_DEVICE_PLAN_H

#include "runtime/device/device.h"
#include "runtime/device/problem.h"

#include <headroom/plan.h>

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

struct hr_kernel {
  const hr_kernel_info *info;
  const hr_kernel_functions *functions;
};

/** Whether the words of a row ("fp32 bf16") contain `word`. */
bool hr_has_word(const char *words, const char *word);

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

#endif
