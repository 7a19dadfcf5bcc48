/* SPDX-License-Identifier: Apache-2.0 */
#include "model/checkpoint/weights.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `more` items of `size` bytes behind `count`; NULL if memory ran out, and nothing has changed. */
static void *reserve(void *items, size_t *capacity, size_t count, size_t more, size_t size)
{
  size_t wanted = *capacity ? *capacity : 256;
  while (wanted < count + more)
    wanted *= 2;
  void *larger = wanted == *capacity ? items : realloc(items, wanted * size);
  *capacity = larger ? wanted : *capacity;
  return larger;
}

static bool reserve_tensor(hr_weights *weights, size_t name_bytes)
{
  void *tensors = reserve(weights->tensors, &weights->capacity, weights->count, 1, sizeof *weights->tensors);
  weights->tensors = tensors ? tensors : weights->tensors;
  char *names = reserve(weights->names, &weights->name_capacity, weights->name_bytes, name_bytes, 1);
  weights->names = names ? names : weights->names;
  return tensors && names;
}

hr_status hr_weights_add(hr_weights *weights, const hr_tensor_entry *entry, hr_error *error)
{
  size_t name_bytes = strlen(entry->name) + 1;
  if (entry->rank > HR_TENSOR_DIMS_MAX)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%.100s: has %" PRId64 " dimensions, at most %d are read", entry->name,
                   entry->rank, HR_TENSOR_DIMS_MAX);
  if (!reserve_tensor(weights, name_bytes))
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%.100s: out of memory while reading", entry->name);
  hr_stored_tensor *stored = &weights->tensors[weights->count++];
  *stored = (hr_stored_tensor){
      .name = weights->name_bytes,
      .file = weights->file_count,
      .offset = entry->offset,
      .tensor = {.format = entry->format, .rank = entry->rank, .bytes = entry->bytes},
  };
  memcpy(stored->tensor.dims, entry->dims, sizeof entry->dims);
  memcpy(weights->names + weights->name_bytes, entry->name, name_bytes);
  weights->name_bytes += name_bytes;
  return HR_OK;
}

static int by_name(const void *a, const void *b)
{
  const hr_stored_tensor *x = a, *y = b;
  return strcmp(x->tensor.name, y->tensor.name);
}

void hr_weights_sort(hr_weights *weights)
{
  for (size_t i = 0; i < weights->count; i++) {
    hr_stored_tensor *stored = &weights->tensors[i];
    stored->tensor.name = weights->names + stored->name;
    stored->tensor.data = weights->files[stored->file].data + stored->offset;
  }
  if (weights->count > 1)
    qsort(weights->tensors, weights->count, sizeof *weights->tensors, by_name);
}

const hr_weights_tensor *hr_weights_lookup(const hr_weights *weights, const char *name)
{
  hr_stored_tensor key = {.tensor.name = name};
  const hr_stored_tensor *found =
      weights->count ? bsearch(&key, weights->tensors, weights->count, sizeof key, by_name) : NULL;
  return found ? &found->tensor : NULL;
}

void hr_write_dims(char text[HR_DIMS_TEXT_SIZE], const int64_t *dims, int64_t rank)
{
  size_t used = (size_t)snprintf(text, HR_DIMS_TEXT_SIZE, "[");
  for (int64_t i = 0; i < rank && used < HR_DIMS_TEXT_SIZE; i++)
    used += (size_t)snprintf(text + used, HR_DIMS_TEXT_SIZE - used, "%s%" PRId64, i ? ", " : "", dims[i]);
  if (used < HR_DIMS_TEXT_SIZE)
    snprintf(text + used, HR_DIMS_TEXT_SIZE - used, "]");
}

int64_t hr_tensor_elements(const hr_weights_tensor *tensor)
{
  int64_t elements = 1; /* of which the reader of the header knows that they fit */
  for (int64_t i = 0; i < tensor->rank; i++)
    elements *= tensor->dims[i];
  return elements;
}

hr_status hr_weights_find(const hr_weights *weights, const char *name, hr_weights_tensor *tensor, hr_error *error)
{
  HR_NEED(error, weights, name, tensor);
  const hr_weights_tensor *found = hr_weights_lookup(weights, name);
  if (!found)
    return hr_fail(error, HR_ERROR_NOT_FOUND, "the checkpoint has no tensor \"%.200s\"", name);
  *tensor = *found;
  return HR_OK;
}

void hr_weights_clear(hr_weights *weights)
{
  free(weights->tensors);
  free(weights->names);
  *weights = (hr_weights){0};
}
