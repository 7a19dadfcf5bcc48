/* SPDX-License-Identifier: Apache-2.0 */
/* Costs of a simulated server that are easy to add up. */
#ifndef HEADROOM_TEST_LOAD_COSTS_H
#define HEADROOM_TEST_LOAD_COSTS_H

#include "test.h"

#include "analysis/load/simulation.h"

#include <math.h>

static inline void assert_near(double value, double expected, double share)
{
  if (!(fabs(value - expected) <= share * fabs(expected)))
    fail_msg("%.17g instead of %.17g", value, expected);
}

/* Each step with a prompt takes 100 ns, each other one 10 ns. */
static const hr_load_costs plain_costs = {.batches = 1,
                                          .contexts = 1,
                                          .prefills = 1,
                                          .stages = 1,
                                          .batch = {1},
                                          .context = {1},
                                          .decode_ns = {{10}},
                                          .tokens = {1},
                                          .prefill_ns = {100}};

#endif
