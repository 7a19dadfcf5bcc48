/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers computed from names: "b * a", "32768 / a", "2 * power - power / 64 * 64".
 *
 * The language is + - * / % ( ), decimal integers and names; docs/sweeps.md documents it. Everything is 64 bits and
 * checked: no result wraps around. Division truncates towards zero, as in C. */
#ifndef HR_EXPERIMENT_SWEEP_EXPRESSION_H
#define HR_EXPERIMENT_SWEEP_EXPRESSION_H

#include <headroom/status.h>
#include <stddef.h>
#include <stdint.h>

#define HR_EXPRESSION_STEPS_MAX 48
#define HR_EXPRESSION_NAMES_MAX 32
#define HR_EXPRESSION_WHY_SIZE 160

typedef enum hr_expression_op {
  HR_EXPRESSION_OP_NUMBER, /* pushes a number */
  HR_EXPRESSION_OP_NAME,   /* pushes the value of a name */
  HR_EXPRESSION_OP_ADD,    /* the others pop two numbers and push one */
  HR_EXPRESSION_OP_SUBTRACT,
  HR_EXPRESSION_OP_MULTIPLY,
  HR_EXPRESSION_OP_DIVIDE,
  HR_EXPRESSION_OP_REMAINDER
} hr_expression_op;

/** One step of an expression in postfix order. */
typedef struct hr_expression_step {
  hr_expression_op operation;
  int64_t operand; /* the number, or the index of the name */
} hr_expression_step;

typedef struct hr_expression {
  size_t count;
  hr_expression_step steps[HR_EXPRESSION_STEPS_MAX];
  uint32_t uses; /* bit i: the name of index i occurs */
} hr_expression;

/** An expression of one number. */
hr_expression hr_expression_number(int64_t number);

/** Reads an expression over `count` names (at most HR_EXPRESSION_NAMES_MAX). On failure HR_ERROR_INVALID with the
 *  reason in `why`: `expected a number, a name or "(" at "* 3"`. */
hr_status hr_expression_parse(const char *text, const char *const *names, size_t count, hr_expression *expression,
                              char why[HR_EXPRESSION_WHY_SIZE]);

/** Computes it; values[i] is the value of the name of index i. HR_ERROR_OVERFLOW beyond 64 bits, HR_ERROR_INVALID for a
 *  division by zero, with the reason in `why`. */
hr_status hr_expression_value(const hr_expression *expression, const int64_t *values, int64_t *value,
                              char why[HR_EXPRESSION_WHY_SIZE]);

#endif
