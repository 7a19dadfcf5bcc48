/* SPDX-License-Identifier: Apache-2.0 */
/* Places in one memory for results that do not all live at the same time. */
#ifndef HR_SCHEDULE_ARENA_H
#define HR_SCHEDULE_ARENA_H

#include <headroom/status.h>
#include <stddef.h>
#include <stdint.h>

/** Memory of a result, from the launch that writes it to the last one that uses it. */
typedef struct hr_arena_value {
  size_t bytes, offset;
  int64_t columns; /* of a row: the caller's own */
  int first, last;
  void *address; /* of its own, outside of the arena; NULL: in the arena */
} hr_arena_value;

/** Gives the values places in an arena of that many bytes, apart from each other where they live at the same time.
 *  HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_plan_arena(hr_arena_value *values, int count, size_t *arena_bytes, hr_error *error);

#endif
