/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/change.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_CHANGE_H
#define HEADROOM_EXPERIMENTAL_CHANGE_H

#include <headroom/change.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What one kind of change costs. Static storage throughout. */
typedef struct hr_change_cost {
  const char *name; /* "vocabulary" */
  hr_change_class change_class;
  const char *cost;   /* a phrase: what it takes, and for new weights what is published about their quality */
  const char *source; /* of what `cost` says; "" if it needs none */
} hr_change_cost;

/** The row of a kind of change; that of HR_CHANGED_OTHER for a value outside of the list. */
HR_API const hr_change_cost *hr_change_cost_of(hr_changed changed);

/** What differs between two shapes and their workloads of one phase: bit i stands for number i of hr_changed. 0 if none
 *  of it does. */
HR_API uint64_t hr_changes_between(const hr_model *before, const hr_workload *workload_before, const hr_model *after,
                                   const hr_workload *workload_after);

/** The costliest of a set of changes: the last one. HR_CHANGED_ATTENTION, which costs nothing, of an empty set. */
HR_API hr_changed hr_costliest_change(uint64_t changes);

#ifdef __cplusplus
}
#endif
#endif
