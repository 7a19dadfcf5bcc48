/* SPDX-License-Identifier: Apache-2.0 */
#include "run/program.h"

#include "base/error.h"

#include <stdlib.h>

#define LINE 64 /* bytes that the places of values are multiples of */

static bool live_together(const hr_run_value *a, const hr_run_value *b)
{
  return !a->address && !b->address && a->first <= b->last && b->first <= a->last;
}

static int by_offset(const void *a, const void *b)
{
  const hr_run_value *const *x = a, *const *y = b;
  return ((*x)->offset > (*y)->offset) - ((*x)->offset < (*y)->offset);
}

/* The lowest place where the value does not meet an earlier one that lives with it. `others` has room for all. */
static void place(hr_run_value *values, int index, const hr_run_value **others)
{
  hr_run_value *v = &values[index];
  int count = 0;
  for (int i = 0; i < index; i++) {
    if (live_together(v, &values[i]))
      others[count++] = &values[i];
  }
  qsort(others, (size_t)count, sizeof *others, by_offset);
  v->offset = 0;
  for (int i = 0; i < count && others[i]->offset < v->offset + v->bytes; i++) {
    const size_t end = others[i]->offset + others[i]->bytes;
    v->offset = end > v->offset ? end : v->offset;
  }
}

hr_status hr_plan_arena(hr_run_value *values, int count, size_t *arena_bytes, hr_error *error)
{
  size_t bytes = 0;
  const hr_run_value **others = malloc(((size_t)count + 1) * sizeof *others);
  if (!others)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory to plan that of a step");
  for (int i = 0; i < count; i++) {
    values[i].bytes = (values[i].bytes + LINE - 1) / LINE * LINE;
    if (values[i].address)
      continue;
    place(values, i, others);
    bytes = values[i].offset + values[i].bytes > bytes ? values[i].offset + values[i].bytes : bytes;
  }
  free(others);
  *arena_bytes = bytes;
  return HR_OK;
}
