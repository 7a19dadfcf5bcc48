/* SPDX-License-Identifier: Apache-2.0 */
#include "model/checkpoint/weight_reader.h"

#include "base/error.h"
#include "model/checkpoint/weight_values.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- finding tensors ---- */

static size_t index_of(const hr_weight_reader *reader, const hr_weights_tensor *tensor)
{
  const char *first = (const char *)&reader->weights->tensors[0].tensor;
  return (size_t)((const char *)tensor - first) / sizeof *reader->weights->tensors;
}

/* "model.text." becomes "model.", and that "". */
static void shorten(char *prefix)
{
  size_t length = strlen(prefix);
  prefix[length ? length - 1 : 0] = '\0';
  const char *dot = strrchr(prefix, '.');
  prefix[dot ? dot + 1 - prefix : 0] = '\0';
}

/* A tensor by its row, and its name; of a name that begins with '~' what comes before it is shortened until it is
 * there. */
static const hr_weights_tensor *find(const hr_weight_reader *reader, const hr_tensor_row *row, int64_t layer,
                                     int64_t item, char name[HR_TENSOR_NAME_SIZE])
{
  char prefix[HR_TENSOR_PREFIX_SIZE];
  memcpy(prefix, reader->prefix, sizeof prefix);
  for (;;) {
    hr_write_tensor_name(row, prefix, layer, item, name);
    const hr_weights_tensor *tensor = hr_weights_lookup(reader->weights, name);
    if (tensor || row->name[0] != '~' || !prefix[0])
      return tensor;
    shorten(prefix);
  }
}

/* ---- what one tensor has of the weight ---- */

static void write_expected(char text[HR_DIMS_TEXT_SIZE], const hr_weight_part *part)
{
  int64_t rows = part->joined_rows, columns = part->columns;
  const int64_t dims[] = {part->matrices, part->transposed ? columns : rows, part->transposed ? rows : columns};
  int64_t skipped = part->matrices == 1;
  hr_write_dims(text, dims + skipped, 3 - skipped - (columns == 1 && !part->transposed));
}

/* Dimensions before the last one may be joined, and those of a vector be any. */
static hr_status check_shape(const hr_weight_part *part, hr_error *error)
{
  const hr_weights_tensor *tensor = part->tensor;
  int64_t last = tensor->rank > 0 ? tensor->dims[tensor->rank - 1] : 1;
  bool vector = part->columns == 1;
  if (hr_tensor_elements(tensor) == part->matrices * part->joined_rows * part->columns &&
      (vector || last == (part->transposed ? part->joined_rows : part->columns)))
    return HR_OK;
  char expected[HR_DIMS_TEXT_SIZE], found[HR_DIMS_TEXT_SIZE];
  write_expected(expected, part);
  hr_write_dims(found, tensor->dims, tensor->rank);
  return hr_fail(error, HR_ERROR_INVALID, "%.200s: expected %s, found %s", tensor->name, expected, found);
}

/* ---- a role ---- */

/* The name that the message has of several: that of a tensor which is packed, else the first. */
static hr_status fail_missing(const hr_weight_reader *reader, const hr_weight_request *request,
                              const hr_tensor_row *rows, size_t count, hr_error *error)
{
  static const char *const packed[] = {"_blocks", "_packed"};
  char name[HR_TENSOR_NAME_SIZE], longer[HR_TENSOR_NAME_SIZE + 16], expected[HR_DIMS_TEXT_SIZE];
  for (size_t i = 0; i < 2 * count; i++) {
    find(reader, &rows[i / 2], request->layer, 0, name);
    snprintf(longer, sizeof longer, "%s%s", name, packed[i % 2]);
    if (hr_weights_lookup(reader->weights, longer))
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "%.200s: weights packed into integers are not read", longer);
  }
  find(reader, &rows[0], request->layer, 0, name);
  const int64_t dims[] = {request->count, request->rows, request->columns};
  int64_t skipped = (request->count == 1) + (request->count == 1 && request->rows == 1);
  hr_write_dims(expected, dims + skipped, 3 - skipped);
  return hr_fail(error, HR_ERROR_NOT_FOUND, "%.200s: is missing, expected %s", name, expected);
}

static hr_status read_part(hr_weight_reader *reader, const hr_weight_part *part, const hr_weight_request *request,
                           void *to, int64_t first, hr_error *error)
{
  if (!hr_weight_format_is_read(part->tensor->format))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%.200s: weights in %s are not read", part->tensor->name,
                   hr_tensor_format_name(part->tensor->format));
  HR_TRY(check_shape(part, error));
  reader->used[index_of(reader, part->tensor)] = true;
  return to ? hr_convert_weight(reader->weights, part, request, to, first, error) : HR_OK;
}

/* How many tensors a weight is in: of each expert or head one, or all in one. */
static int64_t tensors_of(const hr_weight_request *request, const hr_tensor_row *row)
{
  if (!strchr(row->name, '*'))
    return 1;
  if (request->role == HR_WEIGHT_Q_NORM)
    return request->group->attention.q_heads;
  return request->role == HR_WEIGHT_K_NORM ? request->group->attention.k_heads : request->count;
}

static hr_weight_part part_of(const hr_weight_request *request, const hr_tensor_row *row, int64_t tensors)
{
  bool vector = request->rows == 1, heads = tensors > request->count;
  int64_t rows = vector ? request->columns : request->rows;
  hr_weight_part part = {
      .row = *row,
      .matrices = heads ? 1 : request->count / tensors,
      .rows = heads ? rows / tensors : rows,
      .columns = vector ? 1 : request->columns,
      .transposed = row->form.transposed && !vector,
  };
  part.joined_rows = hr_joined_rows(row->form.join, request->group, part.rows);
  return part;
}

static hr_status read_tensors(hr_weight_reader *reader, const hr_weight_request *request, const hr_tensor_row *row,
                              void *to, hr_error *error)
{
  int64_t tensors = tensors_of(request, row);
  hr_weight_part part = part_of(request, row, tensors);
  for (int64_t i = 0; i < tensors; i++) {
    char name[HR_TENSOR_NAME_SIZE], expected[HR_DIMS_TEXT_SIZE];
    part.tensor = find(reader, row, request->layer, i, name);
    write_expected(expected, &part);
    if (!part.tensor)
      return hr_fail(error, HR_ERROR_NOT_FOUND, "%.200s: is missing, expected %s", name, expected);
    HR_TRY(read_part(reader, &part, request, to, i * part.matrices * part.rows * part.columns, error));
  }
  return HR_OK;
}

hr_status hr_weight_read(hr_weight_reader *reader, const hr_weight_request *request, void *to, hr_error *error)
{
  hr_tensor_row rows[HR_TENSOR_ROWS_MAX];
  size_t count = hr_tensor_rows(reader->model->family, request->role, rows);
  if (count == 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "which tensor of %s has the weight \"%s\" is not known",
                   reader->model->family, hr_role_name(request->role));
  for (size_t i = 0; i < count; i++) {
    char name[HR_TENSOR_NAME_SIZE];
    if (find(reader, &rows[i], request->layer, 0, name))
      return read_tensors(reader, request, &rows[i], to, error);
  }
  return fail_missing(reader, request, rows, count, error);
}

/* ---- all of them ---- */

static bool ends_after_dot(const char *name, const char *ending)
{
  size_t length = strlen(name), end = strlen(ending);
  return length >= end && strcmp(name + length - end, ending) == 0 && (length == end || name[length - end - 1] == '.');
}

static hr_checkpoint_part part_of_checkpoint(const hr_weights_tensor *tensor)
{
  return hr_tensor_part(&(hr_tensor_entry){.name = tensor->name, .format = tensor->format, .rank = tensor->rank});
}

/* What stands before the token embedding stands before all tensors of the language model. */
static hr_status find_prefix(hr_weight_reader *reader, const char *embedding, hr_error *error)
{
  for (size_t i = 0; i < reader->weights->count; i++) {
    const hr_weights_tensor *tensor = &reader->weights->tensors[i].tensor;
    size_t length = strlen(tensor->name) - strlen(embedding);
    if (!ends_after_dot(tensor->name, embedding) || part_of_checkpoint(tensor) != HR_CHECKPOINT_WEIGHTS ||
        length >= HR_TENSOR_PREFIX_SIZE)
      continue;
    memcpy(reader->prefix, tensor->name, length);
    reader->prefix[length] = '\0';
    return HR_OK;
  }
  return hr_fail(error, HR_ERROR_NOT_FOUND, "%s: is missing, the token embedding of %s", embedding,
                 reader->model->family);
}

hr_status hr_weight_reader_begin(hr_weight_reader *reader, const hr_weights *weights, const hr_model *model,
                                 hr_error *error)
{
  hr_tensor_row rows[HR_TENSOR_ROWS_MAX];
  *reader = (hr_weight_reader){.weights = weights, .model = model};
  if (hr_tensor_rows(model->family, HR_WEIGHT_TOKEN_EMBEDDING, rows) == 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "the names of the tensors of %s are not known", model->family);
  HR_TRY(find_prefix(reader, rows[0].name, error));
  reader->used = calloc(weights->count, sizeof *reader->used);
  return reader->used ? HR_OK : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory while reading weights");
}

/* A layer behind the last one that has "eh_proj" is multi-token prediction (DeepSeek-V3). */
static bool is_prediction(const hr_weight_reader *reader, const char *name)
{
  char mark[HR_TENSOR_NAME_SIZE];
  const char *layers = strstr(name, "layers.");
  int digits = layers ? (int)strspn(layers + 7, "0123456789") : 0;
  if (digits == 0)
    return false;
  snprintf(mark, sizeof mark, "%.*s.eh_proj.weight", (int)(layers - name) + 7 + digits, name);
  return hr_weights_lookup(reader->weights, mark) != NULL;
}

static bool is_extra(const hr_weight_reader *reader, size_t index)
{
  const hr_weights_tensor *tensor = &reader->weights->tensors[index].tensor;
  hr_checkpoint_part part = part_of_checkpoint(tensor);
  bool weight = part == HR_CHECKPOINT_WEIGHTS || part == HR_CHECKPOINT_PACKED ||
                (part == HR_CHECKPOINT_HEAD && !reader->model->tied_embeddings);
  return !reader->used[index] && weight && !is_prediction(reader, tensor->name);
}

hr_status hr_weight_reader_end(const hr_weight_reader *reader, hr_error *error)
{
  for (size_t i = 0; i < reader->weights->count; i++) {
    const hr_weights_tensor *tensor = &reader->weights->tensors[i].tensor;
    char found[HR_DIMS_TEXT_SIZE];
    if (!is_extra(reader, i))
      continue;
    hr_write_dims(found, tensor->dims, tensor->rank);
    return hr_fail(error, HR_ERROR_INVALID, "%.200s: expected no such tensor in %s, found %s", tensor->name,
                   reader->model->family, found);
  }
  return HR_OK;
}

void hr_weight_reader_free(hr_weight_reader *reader)
{
  free(reader->used);
  reader->used = NULL;
}
