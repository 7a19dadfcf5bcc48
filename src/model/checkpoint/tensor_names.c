/* SPDX-License-Identifier: Apache-2.0 */
#include "model/checkpoint/tensor_names.h"

#include <stdlib.h>
#include <string.h>

/* Open addressing with linear probing in a power of two of slots, at most half of them used. */
static hr_named_tensor *find_slot(hr_named_tensor *slots, size_t capacity, XXH128_hash_t hash)
{
  size_t at = (size_t)hash.low64 & (capacity - 1);
  while (slots[at].used && !XXH128_isEqual(slots[at].hash, hash))
    at = (at + 1) & (capacity - 1);
  return &slots[at];
}

static bool grow(hr_tensor_names *names)
{
  size_t capacity = names->capacity ? 2 * names->capacity : 1024;
  hr_named_tensor *slots = calloc(capacity, sizeof *slots);
  if (!slots)
    return false;
  for (size_t i = 0; i < names->capacity; i++) {
    if (names->slots[i].used)
      *find_slot(slots, capacity, names->slots[i].hash) = names->slots[i];
  }
  free(names->slots);
  names->slots = slots;
  names->capacity = capacity;
  return true;
}

hr_named_tensor *hr_tensor_names_add(hr_tensor_names *names, const char *name, int32_t file, bool *added)
{
  if (names->count >= HR_TENSORS_MAX || (2 * names->count >= names->capacity && !grow(names)))
    return NULL;
  XXH128_hash_t hash = XXH3_128bits(name, strlen(name));
  hr_named_tensor *slot = find_slot(names->slots, names->capacity, hash);
  *added = !slot->used;
  if (*added) {
    *slot = (hr_named_tensor){.hash = hash, .file = file, .used = true};
    names->count++;
  }
  return slot;
}

void hr_tensor_names_free(hr_tensor_names *names)
{
  free(names->slots);
  *names = (hr_tensor_names){0};
}
