/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of awkward sizes for every CPU kernel, with their operands made. */
#ifndef HR_TEST_CPU_PROBLEMS_H
#define HR_TEST_CPU_PROBLEMS_H

#include "machine.h"

#include "runtime/measure/runner.h"

/** Calls `check` for every CPU kernel that this machine has, each of its formats, and each problem that it takes:
 *  `runner` has the plan, the operands in `buffers` and, from one run, the result in the last of them. Returns how many
 *  times. HEADROOM_TEST_KERNEL: one kernel; HEADROOM_TEST_SHARE: a share of the problems. */
int each_cpu_problem(void (*check)(const hr_runner *runner));

/** The problem, for messages. */
const char *problem_words(const hr_runner *runner, char text[512]);

#endif
