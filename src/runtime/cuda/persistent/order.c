/* SPDX-License-Identifier: Apache-2.0 */
/* The order of instructions. */
#include "runtime/cuda/persistent/instructions.h"

#define AHEAD_MAX 4 /* parts among which the next one is chosen */

/* A part at `position` would stand so many places behind the last of those that it reads from; 0: they are not all
 * there. */
static size_t distance_to_sources(const hr_instruction_list *list, size_t part, size_t position)
{
  const size_t *positions = list->positions;
  size_t distance = position + 1;
  for (size_t i = 0; i < HR_PART_SOURCES; i++) {
    const size_t from = list->sources[part][i];
    if (from != HR_NO_PART && positions[from] == HR_NO_PART)
      return 0;
    if (from != HR_NO_PART && position - positions[from] < distance)
      distance = position - positions[from];
  }
  return distance;
}

/* The first part that need not wait for the instruction before it, else the first that can be next. */
static size_t next_part(const hr_instruction_list *list, size_t first, size_t position)
{
  size_t next = HR_NO_PART;
  for (size_t i = first; i < list->count && i < first + AHEAD_MAX; i++) {
    const size_t distance = list->positions[i] == HR_NO_PART ? distance_to_sources(list, i, position) : 0;
    if (distance > 1)
      return i;
    if (distance == 1 && next == HR_NO_PART)
      next = i;
  }
  return next;
}

/* Where layers are parallel, the up projection goes before attention, which then finds its Q, K and V. Results do not
 * lie in each other's memory, so that each order in which they are there is right. */
void hr_order_instructions(const hr_instruction_list *list)
{
  size_t first = 0;
  for (size_t i = 0; i < list->count; i++)
    list->positions[i] = HR_NO_PART;
  for (size_t position = 0; position < list->count; position++) {
    const size_t part = next_part(list, first, position);
    list->positions[part] = position;
    list->ordered[position] = list->to[part];
    while (first < list->count && list->positions[first] != HR_NO_PART)
      first++;
  }
}
