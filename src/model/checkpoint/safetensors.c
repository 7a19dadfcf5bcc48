/* SPDX-License-Identifier: Apache-2.0 */
#include "model/checkpoint/safetensors.h"

#include "base/checked.h"
#include "base/error.h"
#include "json/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *stored;
  int bits;
} formats[HR_TENSOR_FORMAT_COUNT] = {
#define ROW(enumerator, name, stored, bits) [enumerator] = {stored, bits},
    HR_TENSOR_FORMAT_LIST(ROW)
#undef ROW
};

/* ---- a tensor's entry ---- */

static hr_status read_format(const hr_json_reader *entry, hr_tensor_entry *tensor)
{
  const char *name;
  HR_TRY(hr_json_string_or(entry, "dtype", NULL, &name));
  for (int i = 0; i < HR_TENSOR_FORMAT_COUNT; i++) {
    if (strcmp(formats[i].stored, name) == 0) {
      tensor->format = (hr_tensor_format)i;
      return HR_OK;
    }
  }
  return hr_json_fail(entry, "dtype", HR_ERROR_UNREADABLE, "\"%.40s\" is not a safetensors dtype", name);
}

/* An item of a list of integers from 0 on. */
static hr_status integer_at(const hr_json_reader *entry, const char *field, const json_t *list, size_t index,
                            int64_t *value)
{
  const json_t *item = json_array_get(list, index);
  if (json_is_integer(item) && json_integer_value(item) >= 0) {
    *value = json_integer_value(item);
    return HR_OK;
  }
  char found[64];
  hr_json_found(item, found, sizeof found);
  return hr_json_fail(entry, field, HR_ERROR_UNREADABLE, "expected integers of at least 0, found %s", found);
}

static hr_status list_of(const hr_json_reader *entry, const char *field, const json_t **list)
{
  *list = json_object_get(entry->object, field);
  if (json_is_array(*list))
    return HR_OK;
  char found[64];
  hr_json_found(*list, found, sizeof found);
  return hr_json_fail(entry, field, HR_ERROR_UNREADABLE, "expected a list of integers, found %s", found);
}

/* Elements, and the bytes that they take. */
static hr_status read_shape(const hr_json_reader *entry, hr_tensor_entry *tensor)
{
  const json_t *list;
  HR_TRY(list_of(entry, "shape", &list));
  hr_checked64 elements = hr_checked(1);
  for (size_t i = 0; i < json_array_size(list); i++) {
    int64_t size = 0;
    HR_TRY(integer_at(entry, "shape", list, i, &size));
    elements = hr_times(elements, size);
    if (i < HR_TENSOR_DIMS_MAX)
      tensor->dims[i] = size;
  }
  hr_checked64 bits = hr_times(elements, formats[tensor->format].bits);
  if (bits.overflow)
    return hr_json_fail(entry, "shape", HR_ERROR_UNREADABLE, "its elements do not fit into 63 bits");
  if (bits.value % 8 != 0)
    return hr_json_fail(entry, "shape", HR_ERROR_UNREADABLE,
                        "%" PRId64 " elements of %d bits are not a whole number of bytes", elements.value,
                        formats[tensor->format].bits);
  tensor->rank = (int64_t)json_array_size(list);
  tensor->elements = elements.value;
  tensor->bytes = bits.value / 8;
  return HR_OK;
}

static hr_status read_extent(const hr_json_reader *entry, const hr_tensor_entry *tensor, int64_t data_bytes,
                             hr_tensor_extent *extent)
{
  static const char field[] = "data_offsets";
  const json_t *list;
  HR_TRY(list_of(entry, field, &list));
  if (json_array_size(list) != 2)
    return hr_json_fail(entry, field, HR_ERROR_UNREADABLE, "expected two integers, found %zu", json_array_size(list));
  HR_TRY(integer_at(entry, field, list, 0, &extent->begin));
  HR_TRY(integer_at(entry, field, list, 1, &extent->end));
  if (extent->begin > extent->end || extent->end > data_bytes)
    return hr_json_fail(entry, field, HR_ERROR_UNREADABLE,
                        "%" PRId64 " to %" PRId64 " is outside of the file's %" PRId64 " bytes of tensors",
                        extent->begin, extent->end, data_bytes);
  if (extent->end - extent->begin != tensor->bytes)
    return hr_json_fail(entry, field, HR_ERROR_UNREADABLE, "%" PRId64 " bytes, but its shape takes %" PRId64,
                        extent->end - extent->begin, tensor->bytes);
  return HR_OK;
}

static hr_status keep_extent(hr_safetensors *file, hr_tensor_extent extent, hr_error *error)
{
  if (extent.begin == extent.end)
    return HR_OK;
  if (file->count == file->capacity) {
    size_t capacity = file->capacity ? 2 * file->capacity : 256;
    hr_tensor_extent *larger = realloc(file->extents, capacity * sizeof *larger);
    if (!larger)
      return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading", file->input);
    file->extents = larger;
    file->capacity = capacity;
  }
  file->extents[file->count++] = extent;
  return HR_OK;
}

/* "__metadata__" is an object of texts, which say nothing about the tensors. */
static hr_status check_metadata(const hr_safetensors *file, const json_t *metadata, hr_error *error)
{
  const char *name;
  json_t *text;
  bool right = json_is_object(metadata);
  json_object_foreach((json_t *)metadata, name, text) right = right && json_is_string(text);
  return right ? HR_OK
               : hr_fail(error, HR_ERROR_UNREADABLE, "%s: __metadata__: expected an object of strings", file->input);
}

static hr_status take_member(void *context, bool inner, const char *name, const json_t *value, hr_error *error)
{
  hr_safetensors *file = context;
  (void)inner;
  if (strcmp(name, "__metadata__") == 0)
    return check_metadata(file, value, error);
  char path[120];
  snprintf(path, sizeof path, "%.100s: ", name);
  hr_json_reader entry = {value, file->input, path, error};
  if (!json_is_object(value))
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: %.100s: expected an object", file->input, name);
  hr_tensor_entry tensor = {.name = name};
  hr_tensor_extent extent = {0};
  HR_TRY(read_format(&entry, &tensor));
  HR_TRY(read_shape(&entry, &tensor));
  HR_TRY(read_extent(&entry, &tensor, file->data_bytes, &extent));
  HR_TRY(keep_extent(file, extent, error));
  tensor.offset = 8 + file->header_bytes + extent.begin;
  return file->take(file->context, &tensor, error);
}

/* ---- the file ---- */

void hr_safetensors_begin(hr_safetensors *file, const char *input, int64_t file_bytes, hr_tensor_entry_fn take,
                          void *context)
{
  *file = (hr_safetensors){.input = input, .file_bytes = file_bytes, .take = take, .context = context};
  file->members = (hr_json_members){.input = input, .take = take_member, .context = file};
}

int64_t hr_safetensors_wanted(const hr_safetensors *file)
{
  return (file->taken < 8 ? 8 : 8 + file->header_bytes) - file->taken;
}

static hr_status check_length(hr_safetensors *file, hr_error *error)
{
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--)
    length = length << 8 | file->length[i];
  if (memcmp(file->length, "version ", 8) == 0) /* "version https://git-lfs.github.com/spec/v1" */
    return hr_fail(error, HR_ERROR_NOT_FOUND, "%s: is a Git LFS pointer, not the weights; run git lfs pull",
                   file->input);
  if (length > HR_SAFETENSORS_HEADER_MAX)
    return hr_fail(error, HR_ERROR_UNREADABLE,
                   "%s: is not a safetensors file: its header would have %" PRIu64
                   " bytes, and the format's limit is %d",
                   file->input, length, HR_SAFETENSORS_HEADER_MAX);
  if ((int64_t)length > file->file_bytes - 8)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is truncated: its header has %" PRIu64 " bytes, the file %" PRId64,
                   file->input, length, file->file_bytes);
  file->header_bytes = (int64_t)length;
  file->data_bytes = file->file_bytes - 8 - file->header_bytes;
  return HR_OK;
}

hr_status hr_safetensors_feed(hr_safetensors *file, const char *bytes, size_t count, hr_error *error)
{
  for (; count > 0 && file->taken < 8; count--) {
    file->length[file->taken++] = (unsigned char)*bytes++;
    if (file->taken == 8)
      HR_TRY(check_length(file, error));
  }
  int64_t wanted = file->taken < 8 ? 0 : hr_safetensors_wanted(file);
  size_t used = (int64_t)count < wanted ? count : (size_t)wanted;
  file->taken += (int64_t)used;
  return hr_json_members_feed(&file->members, bytes, used, error);
}

static int by_begin(const void *a, const void *b)
{
  const hr_tensor_extent *x = a, *y = b;
  return (x->begin > y->begin) - (x->begin < y->begin);
}

static hr_status check_extents(hr_safetensors *file, hr_error *error)
{
  int64_t end = 0;
  if (file->count > 1)
    qsort(file->extents, file->count, sizeof *file->extents, by_begin);
  for (size_t i = 0; i < file->count; i++) {
    const hr_tensor_extent *extent = &file->extents[i];
    if (extent->begin < end)
      return hr_fail(error, HR_ERROR_UNREADABLE, "%s: two tensors overlap at byte %" PRId64 " of the tensors",
                     file->input, extent->begin);
    if (extent->begin > end)
      break;
    end = extent->end;
  }
  if (end != file->data_bytes)
    return hr_fail(error, HR_ERROR_UNREADABLE,
                   "%s: byte %" PRId64 " of its %" PRId64 " bytes of tensors belongs to no tensor", file->input, end,
                   file->data_bytes);
  return HR_OK;
}

hr_status hr_safetensors_end(hr_safetensors *file, hr_error *error)
{
  if (hr_safetensors_wanted(file) > 0)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is truncated: %" PRId64 " bytes without a whole header",
                   file->input, file->taken);
  HR_TRY(hr_json_members_end(&file->members, error));
  return check_extents(file, error);
}

void hr_safetensors_free(hr_safetensors *file)
{
  hr_json_members_free(&file->members);
  free(file->extents);
  file->extents = NULL;
  file->count = file->capacity = 0;
}
