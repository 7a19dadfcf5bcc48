/* SPDX-License-Identifier: Apache-2.0 */
/* One program checks and times every kernel of the table (src/runtime/registry/kernels.inc): facts that hold for every
 * kernel of an operation, and the shapes that are timed. A new operation adds a row to the table of shapes.c and a file
 * with its awkward shapes. */
#ifndef HR_HARNESS_H
#define HR_HARNESS_H

#include "machine.h"

#include "runtime/device/plan.h"

#define LENGTH(array) (int64_t)(sizeof(array) / sizeof *(array))

/* ---- facts ---- */

typedef void kernel_check(hr_device *device, const char *kernel, hr_dtype dtype);

/** What has to be true: `check` of each kernel in each of its formats, or `once` without any. */
typedef struct fact {
  const char *name;
  kernel_check *check;
  void (*once)(void);
} fact;

#define FACT(name, check) \
  {                       \
#name, check, NULL    \
  }
#define FACT_OF_NO_KERNEL(name, once) \
  {                                   \
#name, NULL, once                 \
  }

/** How a kernel's formats share a fact with HEADROOM_TEST_SHARE. */
typedef enum format_shares {
  EACH_FORMAT, /* the check takes a share of its cases */
  EVERY_NTH,   /* as the cases of a list */
  ONE_IN_TURN, /* one format each fact; fp8, which has fewer facts, each */
} format_shares;

/** Facts that are run together. `operation` is NULL for all operations. Kernels of `emulated` (NULL: none)
 *  are not in the table: the AMX versions with tiles in plain C. */
typedef struct fact_group {
  const char *name, *operation;
  const fact *facts;
  int64_t count;
  format_shares shares;
  const hr_kernel *emulated;
  bool emulated_alone;
} fact_group;

/** Runs the facts of a group, or the one called `name`. Returns how many failed. */
int run_facts(const fact_group *group, const char *name);

/** Index of the format among the formats of the kernel, for facts that distribute work over formats; *turns is their
 *  number. */
int turn_of(const char *kernel, hr_dtype dtype, int *turns);

/** HEADROOM_TEST_SEED and _SAMPLES. */
int64_t from_environment(const char *name, int64_t otherwise);

/** The next number of SplitMix64; advances the state. */
uint64_t next_random(uint64_t *state);

/** Whether two floats are one number, or both NaN, or differ by at most `bound`. */
bool is_near(double found, double expected, double bound);

/** Rounding of a row of O that is one of V: none in fp32 and fp64; of weights of 16 or 8 bits, and of fp32 to tf32. */
double weight_rounding(hr_dtype dtype);

/* ---- shapes ---- */

typedef enum member_kind { COUNT_MEMBER, FLAG_MEMBER } member_kind;

/** A member of a problem that a shape may set: "m" in "m=64,n=128". */
typedef struct shape_member {
  const char *name;
  member_kind kind;
  size_t offset; /* in hr_problem */
} shape_member;

typedef void problem_taker(const hr_problem *problem, void *context);

/** What the harness knows of an operation, a row of the table of shapes.c. */
typedef struct operation_cases {
  hr_problem (*plain)(hr_dtype dtype);
  const shape_member *members;
  int64_t member_count;
  bool (*set)(hr_problem *problem, const char *name, const char *value); /* other members; NULL: none */
  hr_status (*check)(const hr_problem *problem, hr_error *error);
  const char *const *shapes;                                         /* that are timed, up to NULL */
  void (*small)(hr_dtype dtype, problem_taker *take, void *context); /* awkward sizes, for checks of any kernel */
} operation_cases;

extern const operation_cases gemm_cases, attention_cases, rowwise_cases, decode_cases, attention_backward_cases;

const operation_cases *cases_of(const hr_kernel_info *kernel);

/** "m=64,n=128,transpose_b=1". HR_ERROR_INVALID names the word that is none of the operation. */
hr_status read_shape(const operation_cases *cases, hr_dtype dtype, const char *text, hr_problem *problem,
                     hr_error *error);

/** The problem, for messages. */
const char *problem_words(const hr_problem *problem, char text[512]);

/* ---- times ---- */

/** What is asked for; NULL: all kernels, their shapes, no peer. */
typedef struct bench_options {
  const char *kernel, *shape, *against, *dtypes;
  uint64_t seed;
  bool probe; /* peaks are measured first: ceilings of instructions, a copy */
} bench_options;

/** Times kernels with the library's own measuring and prints a line for each shape. Returns 0, or 1 after a failure. */
int run_bench(const bench_options *options);

/** Compares a kernel's result at this shape with the reference, in sampled rows, for every kernel that is asked for. */
int check_shape(const bench_options *options);

#endif
