/* SPDX-License-Identifier: Apache-2.0 */
#include "model/checkpoint/reader.h"

#include "base/error.h"
#include "base/names.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

hr_checkpoint_reader *hr_checkpoint_reader_new(void)
{
  return calloc(1, sizeof(hr_checkpoint_reader));
}

void hr_checkpoint_reader_free(hr_checkpoint_reader *reader)
{
  if (!reader)
    return;
  free(reader->files);
  hr_tensor_names_free(&reader->names);
  hr_tensor_names_free(&reader->file_names);
  hr_json_members_free(&reader->index);
  hr_safetensors_free(&reader->header);
  free(reader);
}

static hr_status no_memory(const hr_checkpoint_reader *reader, hr_error *error)
{
  if (reader->names.count >= HR_TENSORS_MAX)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: the checkpoint has more than %zu tensors", reader->input,
                   HR_TENSORS_MAX);
  return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading", reader->input);
}

hr_status hr_checkpoint_add_file(hr_checkpoint_reader *reader, const char *name, hr_error *error)
{
  if (reader->file_count == HR_SHARDS_MAX)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: refers to more than %d files", reader->input, HR_SHARDS_MAX);
  if (reader->file_count == reader->file_capacity) {
    int32_t capacity = reader->file_capacity ? 2 * reader->file_capacity : 16;
    void *larger = realloc(reader->files, (size_t)capacity * sizeof *reader->files);
    if (!larger)
      return no_memory(reader, error);
    reader->files = larger;
    reader->file_capacity = capacity;
  }
  hr_copy_text(reader->files[reader->file_count++], HR_SHARD_NAME_SIZE, name);
  return HR_OK;
}

/* ---- the index ---- */

/* A name in the index's own folder, which printing leaves as it is. */
static bool is_file_name(const char *name)
{
  static const char ending[] = ".safetensors";
  size_t length = strlen(name), end = sizeof ending - 1;
  char printed[HR_SHARD_NAME_SIZE];
  hr_copy_text(printed, sizeof printed, name);
  return length > end && length < HR_SHARD_NAME_SIZE && name[0] != '.' && !strchr(name, '/') &&
         strcmp(name + length - end, ending) == 0 && strcmp(printed, name) == 0;
}

/* The number of a file, which is added if it is new. */
static hr_status file_number(hr_checkpoint_reader *reader, const char *name, int32_t *number, hr_error *error)
{
  bool added;
  hr_named_tensor *entry = hr_tensor_names_add(&reader->file_names, name, reader->file_count, &added);
  if (!entry)
    return no_memory(reader, error);
  *number = entry->file;
  return added ? hr_checkpoint_add_file(reader, name, error) : HR_OK;
}

static hr_status take_place(hr_checkpoint_reader *reader, const char *tensor, const char *name, hr_error *error)
{
  int32_t file = 0;
  bool added;
  HR_TRY(file_number(reader, name, &file, error));
  hr_named_tensor *entry = hr_tensor_names_add(&reader->names, tensor, file, &added);
  if (!entry)
    return no_memory(reader, error);
  if (reader->searching && !entry->found)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: weight_map: %.100s: %s has no such tensor", reader->input, tensor,
                   name);
  if (!reader->searching && !added)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: weight_map: %.100s: is given twice", reader->input, tensor);
  return HR_OK;
}

static hr_status take_index_member(void *context, bool inner, const char *name, const json_t *value, hr_error *error)
{
  hr_checkpoint_reader *reader = context;
  char found[64];
  hr_json_found(value, found, sizeof found);
  if (!inner && strcmp(name, "weight_map") == 0)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: weight_map: expected an object, found %s", reader->input, found);
  if (!inner)
    return HR_OK; /* "metadata" */
  if (!json_is_string(value) || !is_file_name(json_string_value(value)))
    return hr_fail(error, HR_ERROR_UNREADABLE,
                   "%s: weight_map: %.100s: expected the name of a .safetensors file in the same folder, found %s",
                   reader->input, name, found);
  return take_place(reader, name, json_string_value(value), error);
}

void hr_checkpoint_index_begin(hr_checkpoint_reader *reader, const char *input)
{
  hr_json_members_free(&reader->index);
  reader->input = input;
  reader->index =
      (hr_json_members){.input = input, .opened = "weight_map", .take = take_index_member, .context = reader};
}

hr_status hr_checkpoint_index_feed(hr_checkpoint_reader *reader, const char *text, size_t length, hr_error *error)
{
  return hr_json_members_feed(&reader->index, text, length, error);
}

hr_status hr_checkpoint_index_end(hr_checkpoint_reader *reader, hr_error *error)
{
  HR_TRY(hr_json_members_end(&reader->index, error));
  if (reader->file_count == 0)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: weight_map: is missing or empty", reader->input);
  return HR_OK;
}

/* ---- headers ---- */

static hr_status take_tensor(void *context, const hr_tensor_entry *tensor, hr_error *error)
{
  hr_checkpoint_reader *reader = context;
  bool added;
  hr_named_tensor *entry = hr_tensor_names_add(&reader->names, tensor->name, reader->file, &added);
  if (!entry)
    return no_memory(reader, error);
  if (entry->found && entry->file == reader->file)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: %.100s: is given twice", reader->input, tensor->name);
  if (entry->file != reader->file)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: %.100s: is also %s %s", reader->input, tensor->name,
                   entry->found ? "in" : "listed by the index in", reader->files[entry->file]);
  entry->found = true;
  HR_TRY(hr_tally_add(&reader->tally, tensor, reader->input, error));
  return reader->take ? reader->take(reader->context, tensor, error) : HR_OK;
}

void hr_checkpoint_header_begin(hr_checkpoint_reader *reader, int32_t file, const char *input, int64_t file_bytes)
{
  hr_safetensors_free(&reader->header);
  reader->file = file;
  reader->input = input;
  hr_safetensors_begin(&reader->header, input, file_bytes, take_tensor, reader);
}

int64_t hr_checkpoint_header_wanted(const hr_checkpoint_reader *reader)
{
  return hr_safetensors_wanted(&reader->header);
}

hr_status hr_checkpoint_header_feed(hr_checkpoint_reader *reader, const char *bytes, size_t count, hr_error *error)
{
  return hr_safetensors_feed(&reader->header, bytes, count, error);
}

hr_status hr_checkpoint_header_end(hr_checkpoint_reader *reader, hr_error *error)
{
  HR_TRY(hr_safetensors_end(&reader->header, error));
  reader->tally.sums.files++;
  return HR_OK;
}

bool hr_checkpoint_lacks_tensors(hr_checkpoint_reader *reader)
{
  for (size_t i = 0; i < reader->names.capacity; i++) {
    if (reader->names.slots[i].used && !reader->names.slots[i].found)
      reader->searching = true;
  }
  return reader->searching;
}

hr_checkpoint hr_checkpoint_sums(const hr_checkpoint_reader *reader)
{
  return hr_tally_sums(&reader->tally);
}
