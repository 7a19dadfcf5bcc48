/* SPDX-License-Identifier: Apache-2.0 */
/* Fields whose values are enumerators, which files keep by name. */
#ifndef HR_RUNTIME_STORE_ENUMERATION_H
#define HR_RUNTIME_STORE_ENUMERATION_H

#include "runtime/store/fields.h"

/** The enumerators of a kind of field, 0 to count - 1. */
typedef struct hr_enumeration {
  const char *(*name)(int value);
  int count;
  const char *expected; /* for messages */
} hr_enumeration;

/** NULL if values of this kind are no enumerators. */
const hr_enumeration *hr_enumeration_of(hr_field_kind kind);

/** Read and write a member of such a kind. */
int hr_enumerator_get(hr_field_kind kind, const void *member);
void hr_enumerator_put(hr_field_kind kind, void *member, int value);

#endif
