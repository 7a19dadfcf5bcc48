/* SPDX-License-Identifier: Apache-2.0 */
/* What tells one problem from another: its members without the bytes between them. */
#ifndef HR_RUNTIME_OPERATION_KEY_H
#define HR_RUNTIME_OPERATION_KEY_H

#include "runtime/operation/operation.h"

#define HR_KEY_WORDS 64

typedef struct hr_problem_key {
  size_t words;
  uint64_t hash;
  uint64_t word[HR_KEY_WORDS]; /* the operation, then a word for each member */
} hr_problem_key;

/** The key of a problem that has been checked. */
void hr_problem_key_of(const hr_problem *problem, hr_problem_key *key);

bool hr_problem_keys_equal(const hr_problem_key *a, const hr_problem_key *b);

/** A member of a problem's struct, of 1, 4 or 8 bytes. */
typedef struct hr_problem_member {
  uint16_t offset, size;
} hr_problem_member;

/** The members of an operation's problem, offsets from its struct. */
const hr_problem_member *hr_problem_members(hr_operation operation, size_t *count);

#endif
