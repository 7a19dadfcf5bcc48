/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of processors by the system's numbers, and the affinity of threads. */
#ifndef HR_RUNTIME_CPU_HOST_PROCESSORS_H
#define HR_RUNTIME_CPU_HOST_PROCESSORS_H

#include <stdbool.h>
#include <stdint.h>

#define HR_PROCESSORS_MAX 8192 /* Linux's largest NR_CPUS on x86-64 */

/** An all-zero set is empty. */
typedef struct hr_processors {
  uint64_t words[HR_PROCESSORS_MAX / 64];
} hr_processors;

bool hr_processors_has(const hr_processors *set, int processor);
void hr_processors_add(hr_processors *set, int processor);
void hr_processors_remove(hr_processors *set, int processor);

/** The first processor of the set from number `from` on; -1: there is none. */
int hr_processors_next(const hr_processors *set, int from);
int hr_processors_count(const hr_processors *set);
bool hr_processors_equal(const hr_processors *a, const hr_processors *b);
bool hr_processors_include(const hr_processors *set, const hr_processors *part);
hr_processors hr_processors_in_both(const hr_processors *a, const hr_processors *b);
void hr_processors_add_all(hr_processors *set, const hr_processors *others);

/** Reads a list as Linux writes it, "0-3,8,10-11"; other characters end it. Numbers beyond the largest are left out. */
hr_processors hr_processors_read(const char *list);

/** The affinity of the calling thread; false if the system refuses. */
bool hr_processors_of_thread(hr_processors *set);
bool hr_processors_bind_thread(const hr_processors *set);

/** The same of the process: processors of any thread, and all its threads. */
bool hr_processors_of_process(hr_processors *set);
bool hr_processors_bind_process(const hr_processors *set);

#endif
