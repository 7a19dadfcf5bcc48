/* SPDX-License-Identifier: Apache-2.0 */
#include "run/program.h"

#include "base/checked.h"

#define LINE 64 /* bytes that the places of values are multiples of */

static bool live_together(const hr_run_value *a, const hr_run_value *b)
{
  return !a->address && !b->address && a->first <= b->last && b->first <= a->last;
}

static bool overlap(const hr_run_value *a, const hr_run_value *b)
{
  return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* The lowest place where the value does not meet an earlier one: 0, or behind one of them. */
static void place(hr_run_value *values, int index)
{
  hr_run_value *v = &values[index];
  v->offset = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < index; i++) {
      if (!live_together(v, &values[i]) || !overlap(v, &values[i]))
        continue;
      v->offset = values[i].offset + values[i].bytes;
      moved = true;
    }
  }
}

size_t hr_plan_arena(hr_run_value *values, int count)
{
  size_t bytes = 0;
  for (int i = 0; i < count; i++) {
    values[i].bytes = (values[i].bytes + LINE - 1) / LINE * LINE;
    if (values[i].address)
      continue;
    place(values, i);
    bytes = values[i].offset + values[i].bytes > bytes ? values[i].offset + values[i].bytes : bytes;
  }
  return bytes;
}
