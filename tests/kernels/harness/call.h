/* SPDX-License-Identifier: Apache-2.0 */
/* A call whose operands are those of the table of operations: random inputs and poisoned outputs, each in a place. */
#ifndef HR_HARNESS_CALL_H
#define HR_HARNESS_CALL_H

#include "place.h"

typedef struct call {
  hr_device *device;
  const char *kernel;
  hr_problem problem;
  hr_operands operands;
  place places[HR_OPERANDS_MAX];
  place *output; /* the first */
} call;

/** Makes the places: operand i begins `shifts[i]` of its elements behind an aligned address (NULL: 0), and an input has
 *  random values of seed + i. Close in any case. */
void call_open(hr_device *device, const char *kernel, const hr_problem *problem, const size_t *shifts, uint64_t seed,
               call *c);
void call_close(call *c);

/** Arguments of the operation with the operands at their places, and nothing else. */
hr_arguments call_arguments(const call *c);

/** Plans and runs. False if the kernel refuses the problem; fails the test on any other error, and if a byte that is
 *  no result was written: `written` as in place_assert_rest(), of every output. */
bool call_run(call *c, const bool *written);

/** Runs a plan of the problem, or with arguments that call_arguments() has begun. */
void call_run_plan(call *c, const hr_plan *plan, const bool *written);
void call_run_with(call *c, const hr_plan *plan, const hr_arguments *arguments, const bool *written);

/** An element of an operand on the host. */
double call_element(const call *c, size_t operand, size_t index);

#endif
