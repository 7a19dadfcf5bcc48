/* SPDX-License-Identifier: Apache-2.0 */
/* What generic code (plans, measuring, tests) has to know of an operation: a row of the table in operations.c, and a
 * problem of any of them. A new operation is a member of hr_problem and of hr_arguments, a row, and a file that fills
 * it; its reference and its error bound are a row of runtime/measure/checks.c. */
#ifndef HR_RUNTIME_OPERATION_OPERATION_H
#define HR_RUNTIME_OPERATION_OPERATION_H

#include "base/private.h"

#include "shape/attention_backward.h"

#include <headroom/attention.h>
#include <headroom/decode.h>
#include <headroom/gemm.h>
#include <headroom/plan.h>
#include <headroom/rowwise.h>

typedef enum hr_operation {
  HR_OPERATION_GEMM,
  HR_OPERATION_ATTENTION,
  HR_OPERATION_ROWWISE,
  HR_OPERATION_DECODE,
  HR_OPERATION_ATTENTION_BACKWARD,
  HR_OPERATION_COUNT
} hr_operation;

/** `operation` says which member of the union is valid. */
typedef struct hr_problem {
  hr_operation operation;
  hr_dtype dtype;
  union {
    hr_gemm gemm;
    hr_attention attention;
    hr_rowwise rows;
    hr_decode decode;
    hr_backward backward;
  };
} hr_problem;

HR_PRIVATE hr_problem hr_gemm_problem(const hr_gemm *gemm);
HR_PRIVATE hr_problem hr_attention_problem(const hr_attention *attention);
HR_PRIVATE hr_problem hr_rowwise_problem(const hr_rowwise *rows);
HR_PRIVATE hr_problem hr_decode_problem(const hr_decode *decode);
HR_PRIVATE hr_problem hr_attention_backward_problem(const hr_backward *backward);

/** The arguments of a run of any operation. */
typedef union hr_arguments {
  hr_gemm_arguments gemm;
  hr_attention_arguments attention;
  hr_rowwise_arguments rows;
  hr_decode_arguments decode;
  hr_attention_backward_arguments backward;
} hr_arguments;

#define HR_OPERANDS_MAX 13

/** What an operand holds. */
typedef enum hr_operand_kind {
  HR_OPERAND_NUMBERS,  /* of the problem's dtype */
  HR_OPERAND_SLOPES,   /* of ALiBi, fp32 */
  HR_OPERAND_SINKS,    /* fp32 */
  HR_OPERAND_PAGES,    /* a page table, int32 */
  HR_OPERAND_CACHE,    /* elements of a quantized cache */
  HR_OPERAND_Q_SCALES, /* fp32, as the next two */
  HR_OPERAND_K_SCALES,
  HR_OPERAND_V_SCALES,
  HR_OPERAND_FIRST_KEYS, /* of queries, int32 */
  HR_OPERAND_ROWS,       /* numbers of rows of a table, int32 */
  HR_OPERAND_LSE,        /* fp32, as the next */
  HR_OPERAND_SINK_GRADIENTS,
  HR_OPERAND_FP32,      /* numbers in fp32, whatever the problem's dtype */
  HR_OPERAND_VARIANCES, /* the same, at least 0 */
  HR_OPERAND_TARGETS    /* of a loss, int32 */
} hr_operand_kind;

/** Inputs first, then outputs, of which most operations have one. `bytes` is from the first element to the end of
 *  the last, gaps between strides included, of an operand without rows those of one element. Offsets of variable
 *  lengths and the lengths of a decode call are not among the operands. */
typedef struct hr_operands {
  size_t count, inputs;
  size_t bytes[HR_OPERANDS_MAX];
  hr_operand_kind kinds[HR_OPERANDS_MAX];
  size_t members[HR_OPERANDS_MAX];  /* where its address is in the operation's arguments, offsetof() */
  size_t replaces[HR_OPERANDS_MAX]; /* of an output: 1 + the input whose address it may have; 0: none */
} hr_operands;

/** A row of the table. */
typedef struct hr_operation_row {
  const char *name;                                               /* as hr_kernel_info.operation */
  const char *arguments_name;                                     /* "hr_gemm_arguments" */
  size_t arguments_bytes;                                         /* its size; it begins with its struct_size */
  hr_status (*check)(const hr_problem *problem, hr_error *error); /* hr_gemm_check() … */
  hr_operands (*operands)(const hr_problem *problem);
  /** The format of the output; NULL: that of the problem. */
  hr_dtype (*output)(const hr_problem *problem);
  int64_t (*alignment)(const hr_problem *problem); /* as the problem has it: 0 is the default */
  /** Whether the arguments have fewer sequences or rows than the problem, which are then written to *problem, a copy.
   *  NULL: a run is as large as its plan. */
  bool (*has_bounds)(const hr_problem *problem, const hr_arguments *arguments);
  hr_status (*bound)(hr_problem *problem, const hr_arguments *arguments, hr_error *error);
  /** HR_ERROR_INVALID names the first address that the problem needs and that is NULL. */
  hr_status (*check_addresses)(const hr_problem *problem, const hr_arguments *arguments, hr_error *error);
  /** HR_ERROR_INVALID if offsets, lengths or pages, which the host can read, leave their range. NULL: has none. */
  hr_status (*check_tables)(const hr_problem *problem, const hr_arguments *arguments, hr_error *error);
  hr_status (*flops)(const hr_problem *problem, int64_t *flops); /* NULL: not counted */
  hr_status (*bytes)(const hr_problem *problem, int64_t *bytes);
} hr_operation_row;

extern const hr_operation_row hr_operation_gemm, hr_operation_attention, hr_operation_rowwise, hr_operation_decode,
    hr_operation_attention_backward;

/** The row of an operation of the list. */
const hr_operation_row *hr_operation_of(hr_operation operation);

/** "gemm", "attention", "attention_backward"; "unknown" outside the list. */
const char *hr_operation_name(hr_operation operation);

/** The format of the output. */
hr_dtype hr_problem_output_dtype(const hr_problem *problem);

/** The format of an operand: of numbers, and fp32 of all others. */
hr_dtype hr_operand_dtype(const hr_problem *problem, const hr_operands *operands, size_t operand);

/** The operands of a problem that has been checked, so that the sizes fit. */
hr_operands hr_problem_operands(const hr_problem *problem);

/** An address of arguments, called `name` in messages. */
typedef struct hr_needed_address {
  const char *name;
  const void *address;
  bool needed;
} hr_needed_address;

/** HR_ERROR_INVALID names the first address that is needed and NULL. */
hr_status hr_check_needed(const hr_needed_address *addresses, size_t count, hr_error *error);

/** *size becomes what a run asks for, unless that is 0. HR_ERROR_INVALID if it is negative or more. */
hr_status hr_take_bound(const char *name, int64_t asked, int64_t *size, hr_error *error);

/** Adds an input, or an output behind all inputs. */
void hr_add_output(hr_operands *operands, size_t member, hr_operand_kind kind, size_t bytes);
void hr_add_input(hr_operands *operands, size_t member, hr_operand_kind kind, size_t bytes);

/** Addresses in the order of hr_problem_operands(). */
typedef struct hr_operand_addresses {
  const void *const *inputs;
  void *const *outputs; /* NULL: none, as for the reference, which does not write */
} hr_operand_addresses;

/** Arguments with the operands at these addresses, and nothing else. `operands` are hr_problem_operands(). */
hr_arguments hr_problem_arguments(const hr_problem *problem, const hr_operands *operands,
                                  hr_operand_addresses addresses);

/** Whether a run is smaller than its plan, and if so the problem that it is, in *bounded. HR_ERROR_INVALID for a size
 *  that is negative or beyond the plan's. The arguments have the operation's struct_size. */
hr_status hr_bound_problem(const hr_problem *problem, const void *arguments, hr_problem *bounded, bool *smaller,
                           hr_error *error);

/** Checks arguments of a run: addresses and their alignment, that no operand is an output, too, unless that replaces
 *  it, and where `readable`,
 *  because the host can read them, offsets, lengths and pages. HR_ERROR_INVALID. */
hr_status hr_check_arguments(const hr_problem *problem, const hr_operands *operands, const void *arguments,
                             bool readable, hr_error *error);

#endif
