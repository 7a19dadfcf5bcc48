/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a safetensors file, as the header of one, and as the index of a checkpoint: a clear error, or sums that
 * agree with each other, and the same whatever pieces the bytes come in.
 *
 * The text as a header ends at the first NUL, and 8 bytes behind it say how many bytes of tensors the file has. */
#include "expect.h"
#include "fuzz.h"
#include "properties.h"

#include "model/checkpoint/weights.h"

#include <stdlib.h>
#include <string.h>

#define SHARD "model-00001-of-00001.safetensors"

typedef struct outcome {
  hr_status status;
  hr_error error;
  hr_checkpoint sums;
} outcome;

static hr_status feed(hr_checkpoint_reader *reader, const uint8_t *data, size_t size, size_t piece, bool index,
                      hr_error *error)
{
  hr_status status = HR_OK;
  for (size_t at = 0; at < size && status == HR_OK; at += piece) {
    size_t count = size - at < piece ? size - at : piece;
    const char *bytes = (const char *)data + at;
    status = index ? hr_checkpoint_index_feed(reader, bytes, count, error)
                   : hr_checkpoint_header_feed(reader, bytes, count, error);
  }
  return status;
}

static hr_status take_tensor(void *context, const hr_tensor_entry *entry, hr_error *error)
{
  return hr_weights_add(context, entry, error);
}

/* Each tensor lies in the file behind the header, and is found by its name. The file's bytes are not touched. */
static void expect_tensors(hr_weights *weights, const uint8_t *at, int64_t file_bytes)
{
  weights->files[0] = (hr_mapped_file){(const char *)at, (size_t)file_bytes};
  hr_weights_sort(weights);
  for (size_t i = 0; i < weights->count; i++) {
    const hr_stored_tensor *stored = &weights->tensors[i];
    EXPECT(stored->offset >= 8 && stored->tensor.bytes <= file_bytes - stored->offset);
    EXPECT(stored->tensor.rank <= HR_TENSOR_DIMS_MAX);
    EXPECT(hr_weights_lookup(weights, stored->tensor.name) == &stored->tensor);
  }
}

/* `start`: the file's first 8 bytes, or NULL if they are in `data`. */
static outcome read_file(const uint8_t *start, const uint8_t *data, size_t size, int64_t file_bytes, size_t piece)
{
  outcome result = {.status = HR_OK};
  hr_checkpoint_reader *reader = hr_checkpoint_reader_new();
  hr_weights *weights = calloc(1, sizeof *weights);
  EXPECT(reader && weights);
  reader->take = take_tensor;
  reader->context = weights;
  EXPECT(hr_checkpoint_add_file(reader, SHARD, &result.error) == HR_OK);
  hr_checkpoint_header_begin(reader, 0, SHARD, file_bytes);
  if (start)
    result.status = feed(reader, start, 8, 8, false, &result.error);
  if (result.status == HR_OK)
    result.status = feed(reader, data, size, piece, false, &result.error);
  if (result.status == HR_OK)
    result.status = hr_checkpoint_header_end(reader, &result.error);
  if (result.status == HR_OK)
    result.sums = hr_checkpoint_sums(reader);
  if (result.status == HR_OK)
    expect_tensors(weights, data, file_bytes);
  hr_weights_clear(weights);
  free(weights);
  hr_checkpoint_reader_free(reader);
  return result;
}

static void expect_same(const outcome *a, const outcome *b)
{
  EXPECT(a->status == b->status);
  EXPECT(a->status == HR_OK || strcmp(a->error.message, b->error.message) == 0);
  EXPECT(memcmp(&a->sums, &b->sums, sizeof a->sums) == 0);
}

static void expect_sums(const hr_checkpoint *sums, int64_t data_bytes)
{
  int64_t tensors = 0, elements = 0, bytes = 0, parts = 0;
  for (int i = 0; i < HR_TENSOR_FORMAT_COUNT; i++) {
    EXPECT(sums->format_tensors[i] >= 0 && sums->format_elements[i] >= 0 && sums->format_bytes[i] >= 0);
    tensors += sums->format_tensors[i];
    elements += sums->format_elements[i];
    bytes += sums->format_bytes[i];
  }
  for (int i = 0; i < HR_CHECKPOINT_PART_COUNT; i++) {
    EXPECT(sums->part_elements[i] >= 0);
    parts += sums->part_elements[i];
  }
  EXPECT(sums->files == 1);
  EXPECT(tensors == sums->tensors && elements == sums->elements && parts == elements);
  EXPECT(bytes == sums->bytes && bytes == data_bytes);
}

static void expect_comparable(const hr_checkpoint *sums)
{
  hr_error error = {.status = HR_OK};
  hr_model model;
  hr_parameters parameters;
  hr_checkpoint_comparison comparison;
  static const char shape[] = "{\"h\":8,\"a\":2,\"L\":1,\"v\":10}";
  EXPECT(hr_model_from_json(&(hr_input){.text = shape, .length = sizeof shape - 1, .name = "model"}, NULL, NULL, &model,
                            &error) == HR_OK);
  EXPECT(hr_model_parameters(&model, &parameters, &error) == HR_OK);
  EXPECT(hr_checkpoint_compare(sums, &model, &comparison, &error) == HR_OK);
  bool equal = comparison.match == HR_CHECKPOINT_EQUAL || comparison.match == HR_CHECKPOINT_EQUAL_WITHOUT;
  bool packed = sums->part_elements[HR_CHECKPOINT_PACKED] > 0;
  EXPECT((comparison.match == HR_CHECKPOINT_NOT_COMPARED) == packed);
  EXPECT(packed || equal == (comparison.elements == parameters.total));
  EXPECT(comparison.match != HR_CHECKPOINT_EQUAL || sums->elements == parameters.total);
  expect_printable(comparison.text);
}

static void try_file(const uint8_t *start, const uint8_t *data, size_t size, int64_t file_bytes, int64_t header_bytes)
{
  outcome whole = read_file(start, data, size, file_bytes, size + 1),
          bytes = read_file(start, data, size, file_bytes, 1);
  expect_same(&whole, &bytes);
  if (whole.status != HR_OK) {
    expect_clear_failure(whole.status, &whole.error);
    return;
  }
  expect_sums(&whole.sums, file_bytes - 8 - header_bytes);
  expect_comparable(&whole.sums);
}

static int64_t little_endian(const uint8_t *bytes, size_t count)
{
  uint64_t value = 0;
  for (size_t i = 0; i < count; i++)
    value |= (uint64_t)bytes[i] << 8 * i;
  return (int64_t)value;
}

static void try_header(const uint8_t *data, size_t size)
{
  const uint8_t *end = memchr(data, 0, size);
  size_t length = end ? (size_t)(end - data) : size, behind = end ? size - length - 1 : 0;
  int64_t data_bytes = end ? little_endian(end + 1, behind < 8 ? behind : 8) & (INT64_MAX >> 1) : 0;
  uint8_t start[8];
  for (int i = 0; i < 8; i++)
    start[i] = (uint8_t)((uint64_t)length >> 8 * i);
  try_file(start, data, length, 8 + (int64_t)length + data_bytes, (int64_t)length);
}

static void try_index(const uint8_t *data, size_t size)
{
  hr_status status[2];
  hr_error error[2];
  hr_checkpoint_reader *readers[2];
  for (int i = 0; i < 2; i++) {
    readers[i] = hr_checkpoint_reader_new();
    EXPECT(readers[i]);
    hr_checkpoint_index_begin(readers[i], "model.safetensors.index.json");
    status[i] = feed(readers[i], data, size, i ? 1 : size + 1, true, &error[i]);
    if (status[i] == HR_OK)
      status[i] = hr_checkpoint_index_end(readers[i], &error[i]);
  }
  EXPECT(status[0] == status[1] && readers[0]->file_count == readers[1]->file_count);
  if (status[0] != HR_OK) {
    expect_clear_failure(status[0], &error[0]);
    EXPECT(strcmp(error[0].message, error[1].message) == 0);
  }
  for (int32_t i = 0; i < readers[0]->file_count; i++) {
    EXPECT(!strchr(readers[0]->files[i], '/') && readers[0]->files[i][0] != '.');
    expect_printable(readers[0]->files[i]);
  }
  EXPECT(status[0] != HR_OK || hr_checkpoint_lacks_tensors(readers[0]));
  for (int i = 0; i < 2; i++)
    hr_checkpoint_reader_free(readers[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  try_file(NULL, data, size, (int64_t)size, size < 8 ? 0 : little_endian(data, 8));
  try_header(data, size);
  try_index(data, size);
  return 0;
}
