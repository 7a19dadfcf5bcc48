/* SPDX-License-Identifier: Apache-2.0 */
#include "figure/name_index.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define CAPACITY_MIN 16 /* a power of 2 */

static const char *name_at(hr_named named, size_t position)
{
  return (const char *)named.items + position * named.size;
}

/* The slot of the first element of this name, or the free one behind those that share its hash. */
static size_t slot_of(const hr_name_index *index, hr_named named, const char *name)
{
  size_t slot = (size_t)XXH3_64bits(name, strlen(name)) & (index->capacity - 1);
  while (index->slots[slot] > 0 && strcmp(name_at(named, index->slots[slot] - 1), name) != 0)
    slot = (slot + 1) & (index->capacity - 1);
  return slot;
}

size_t hr_name_index_find(const hr_name_index *index, hr_named named, const char *name)
{
  size_t found = index->capacity > 0 ? index->slots[slot_of(index, named, name)] : 0;
  return found > 0 ? found - 1 : SIZE_MAX;
}

/* At most half of the slots are used, so that probes are short. */
static bool make_room(hr_name_index *index, hr_named named)
{
  if (2 * index->count < index->capacity)
    return true;
  hr_name_index larger = {.capacity = index->capacity ? 2 * index->capacity : CAPACITY_MIN, .count = index->count};
  larger.slots = calloc(larger.capacity, sizeof *larger.slots);
  if (!larger.slots)
    return false;
  for (size_t i = 0; i < index->capacity; i++) {
    if (index->slots[i] > 0)
      larger.slots[slot_of(&larger, named, name_at(named, index->slots[i] - 1))] = index->slots[i];
  }
  free(index->slots);
  *index = larger;
  return true;
}

bool hr_name_index_add(hr_name_index *index, hr_named named, size_t position)
{
  if (!make_room(index, named))
    return false;
  size_t slot = slot_of(index, named, name_at(named, position));
  if (index->slots[slot] == 0) {
    index->slots[slot] = position + 1;
    index->count++;
  }
  return true;
}
