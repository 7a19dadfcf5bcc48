/* SPDX-License-Identifier: Apache-2.0 */
#include "model/checkpoint/weight_reader.h"

#include "base/error.h"
#include "shape/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 512            /* elements converted at a time */
#define SCALE_BLOCK_SIZE 128 /* rows and columns of a scale, where it is of blocks (DeepSeek-V3) */
#define SHAPE_TEXT_SIZE 128

/* The formats that are read. */
static const struct {
  bool read;
  hr_dtype dtype;
} formats[HR_TENSOR_FORMAT_COUNT] = {
    [HR_TENSOR_FP64] = {true, HR_FP64}, [HR_TENSOR_FP32] = {true, HR_FP32},         [HR_TENSOR_FP16] = {true, HR_FP16},
    [HR_TENSOR_BF16] = {true, HR_BF16}, [HR_TENSOR_FP8_E4M3] = {true, HR_FP8_E4M3},
};

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

static void write_dims(char text[SHAPE_TEXT_SIZE], const int64_t *dims, int64_t rank)
{
  size_t used = (size_t)snprintf(text, SHAPE_TEXT_SIZE, "[");
  for (int64_t i = 0; i < rank && used < SHAPE_TEXT_SIZE; i++)
    used += (size_t)snprintf(text + used, SHAPE_TEXT_SIZE - used, "%s%" PRId64, i ? ", " : "", dims[i]);
  if (used < SHAPE_TEXT_SIZE)
    snprintf(text + used, SHAPE_TEXT_SIZE - used, "]");
}

/* ---- what one tensor has of the weight ---- */

typedef struct weight_part {
  const hr_weights_tensor *tensor;
  hr_tensor_row row;
  int64_t matrices;      /* in the tensor */
  int64_t rows, columns; /* of the role, in each */
  int64_t joined_rows;   /* of the tensor, in each */
  bool transposed;
} weight_part;

static void write_expected(char text[SHAPE_TEXT_SIZE], const weight_part *part)
{
  int64_t rows = part->joined_rows, columns = part->columns;
  const int64_t dims[] = {part->matrices, part->transposed ? columns : rows, part->transposed ? rows : columns};
  int64_t skipped = part->matrices == 1;
  write_dims(text, dims + skipped, 3 - skipped - (columns == 1 && !part->transposed));
}

static int64_t elements_of(const hr_weights_tensor *tensor)
{
  int64_t elements = 1; /* of which the reader of the header knows that they fit */
  for (int64_t i = 0; i < tensor->rank; i++)
    elements *= tensor->dims[i];
  return elements;
}

/* Dimensions before the last one may be joined, and those of a vector be any. */
static hr_status check_shape(const weight_part *part, hr_error *error)
{
  const hr_weights_tensor *tensor = part->tensor;
  int64_t last = tensor->rank > 0 ? tensor->dims[tensor->rank - 1] : 1;
  bool vector = part->columns == 1;
  if (elements_of(tensor) == part->matrices * part->joined_rows * part->columns &&
      (vector || last == (part->transposed ? part->joined_rows : part->columns)))
    return HR_OK;
  char expected[SHAPE_TEXT_SIZE], found[SHAPE_TEXT_SIZE];
  write_expected(expected, part);
  write_dims(found, tensor->dims, tensor->rank);
  return hr_fail(error, HR_ERROR_INVALID, "%.200s: expected %s, found %s", tensor->name, expected, found);
}

/* ---- scales ---- */

typedef struct weight_scale {
  const hr_weights_tensor *tensor;           /* NULL: there is none */
  int64_t block_rows, block_columns, blocks; /* blocks in a row */
} weight_scale;

static int64_t blocks_of(int64_t size)
{
  return (size + SCALE_BLOCK_SIZE - 1) / SCALE_BLOCK_SIZE;
}

static const hr_weights_tensor *find_scale(const hr_weights *weights, const char *name)
{
  static const char *const endings[] = {"_scale_inv", "_scale"};
  const hr_weights_tensor *found = NULL;
  for (size_t i = 0; i < 2 && !found; i++) {
    char scale[HR_TENSOR_NAME_SIZE + 16];
    snprintf(scale, sizeof scale, "%.*s%s", HR_TENSOR_NAME_SIZE, name, endings[i]);
    found = hr_weights_lookup(weights, scale);
  }
  return found;
}

static hr_status read_scale(const hr_weights *weights, const weight_part *part, weight_scale *scale, hr_error *error)
{
  int64_t rows = part->joined_rows, columns = part->columns;
  *scale = (weight_scale){.block_rows = rows, .block_columns = columns, .blocks = 1};
  if (part->tensor->format != HR_TENSOR_FP8_E4M3)
    return HR_OK;
  scale->tensor = find_scale(weights, part->tensor->name);
  if (!scale->tensor)
    return hr_fail(error, HR_ERROR_NOT_FOUND, "%.200s_scale: is missing, the scale of fp8 weights", part->tensor->name);
  int64_t elements = elements_of(scale->tensor);
  if (elements == rows && elements > 1)
    scale->block_rows = 1;
  else if (elements != 1)
    *scale = (weight_scale){scale->tensor, SCALE_BLOCK_SIZE, SCALE_BLOCK_SIZE, blocks_of(columns)};
  bool known = elements == 1 || elements == rows || elements == blocks_of(rows) * blocks_of(columns);
  if (known && formats[scale->tensor->format].read && !part->transposed && part->matrices == 1)
    return HR_OK;
  char found[SHAPE_TEXT_SIZE];
  write_dims(found, scale->tensor->dims, scale->tensor->rank);
  return hr_fail(error, HR_ERROR_INVALID,
                 "%.200s: expected a scale for the tensor, for each of %" PRId64
                 " rows or for blocks of 128 × 128, found %s",
                 scale->tensor->name, rows, found);
}

/* The elements that begin at an address of any alignment. */
static void load(hr_dtype dtype, const char *from, size_t count, double *to)
{
  double aligned[CHUNK];
  memcpy(aligned, from, count * hr_dtype_bytes(dtype));
  hr_numbers_load(dtype, aligned, 0, count, to);
}

static float scale_at(const weight_scale *scale, int64_t row, int64_t column)
{
  if (!scale->tensor)
    return 1;
  hr_dtype dtype = formats[scale->tensor->format].dtype;
  int64_t index = row / scale->block_rows * scale->blocks + column / scale->block_columns;
  double value;
  load(dtype, (const char *)scale->tensor->data + index * (int64_t)hr_dtype_bytes(dtype), 1, &value);
  return (float)value;
}

/* ---- conversion ---- */

typedef struct element_run {
  const char *from;
  hr_dtype from_dtype;
  float scale, added;
} element_run;

static void convert(const element_run *run, int64_t count, hr_dtype dtype, void *to, int64_t first)
{
  int64_t bytes = (int64_t)hr_dtype_bytes(run->from_dtype);
  bool same = run->from_dtype == dtype || (run->from_dtype == HR_FP32 && dtype == HR_TF32);
  if (same && run->scale == 1 && run->added == 0) {
    memcpy((char *)to + first * bytes, run->from, (size_t)(count * bytes));
    return;
  }
  for (int64_t i = 0; i < count; i += CHUNK) {
    double values[CHUNK];
    float floats[CHUNK];
    size_t some = (size_t)(count - i < CHUNK ? count - i : CHUNK);
    load(run->from_dtype, run->from + i * bytes, some, values);
    for (size_t j = 0; j < some; j++)
      floats[j] = (float)values[j] * run->scale + (run->added != 0 ? run->added : -0.0F); /* which leaves −0 */
    hr_floats_store(dtype, to, (size_t)(first + i), some, floats);
  }
}

/* The elements from `index` on of a matrix of the tensor. */
static element_run run_from(const weight_part *part, int64_t matrix, int64_t index)
{
  hr_dtype dtype = formats[part->tensor->format].dtype;
  int64_t start = matrix * part->joined_rows * part->columns + index;
  return (element_run){
      .from = (const char *)part->tensor->data + start * (int64_t)hr_dtype_bytes(dtype),
      .from_dtype = dtype,
      .scale = 1,
      .added = part->row.form.added,
  };
}

static int64_t joined_row(const weight_part *part, const hr_weight_request *request, int64_t row)
{
  return hr_joined_row(part->row.form.join, request->role, request->group, part->rows, row);
}

/* A row, each block of it with its scale. */
static void convert_row(const weight_part *part, const weight_scale *scale, int64_t matrix, int64_t row,
                        const hr_weight_request *request, void *to, int64_t first)
{
  for (int64_t column = 0; column < part->columns; column += scale->block_columns) {
    int64_t left = part->columns - column, some = left < scale->block_columns ? left : scale->block_columns;
    element_run run = run_from(part, matrix, row * part->columns + column);
    run.scale = scale_at(scale, row, column);
    convert(&run, some, request->dtype, to, first + column);
  }
}

#define TILE_ROWS 32 /* elements next to each other in a transposed tensor; the tile is 64 KiB of fp64 at most */
#define TILE_COLUMNS 256

/* Some rows and columns of a transposed matrix, by way of a tile that takes elements as they stand next to each other:
 * row by row, each would cost a line of the cache. */
static void convert_tile(const weight_part *part, int64_t matrix, int64_t row, int64_t column,
                         const hr_weight_request *request, void *to, int64_t first)
{
  char tile[TILE_ROWS][TILE_COLUMNS * sizeof(double)];
  const char *from[TILE_ROWS];
  int64_t rows = part->rows - row < TILE_ROWS ? part->rows - row : TILE_ROWS;
  int64_t columns = part->columns - column < TILE_COLUMNS ? part->columns - column : TILE_COLUMNS;
  element_run run = run_from(part, 0, 0);
  size_t bytes = hr_dtype_bytes(run.from_dtype), step = (size_t)part->joined_rows * bytes;
  for (int64_t i = 0; i < rows; i++)
    from[i] = run_from(part, matrix, column * part->joined_rows + joined_row(part, request, row + i)).from;
  for (int64_t j = 0; j < columns; j++) {
    for (int64_t i = 0; i < rows; i++)
      memcpy(tile[i] + (size_t)j * bytes, from[i] + (size_t)j * step, bytes);
  }
  for (int64_t i = 0; i < rows; i++) {
    run.from = tile[i];
    convert(&run, columns, request->dtype, to, first + (row + i) * part->columns + column);
  }
}

static void convert_transposed(const weight_part *part, int64_t matrix, const hr_weight_request *request, void *to,
                               int64_t first)
{
  for (int64_t row = 0; row < part->rows; row += TILE_ROWS) {
    for (int64_t column = 0; column < part->columns; column += TILE_COLUMNS)
      convert_tile(part, matrix, row, column, request, to, first);
  }
}

static void convert_part(const weight_part *part, const weight_scale *scale, const hr_weight_request *request, void *to,
                         int64_t first)
{
  int64_t size = part->rows * part->columns;
  if (part->row.form.join == HR_JOIN_NONE && !part->transposed && !scale->tensor) {
    element_run run = run_from(part, 0, 0);
    convert(&run, part->matrices * size, request->dtype, to, first);
    return;
  }
  for (int64_t i = 0; part->transposed && i < part->matrices; i++)
    convert_transposed(part, i, request, to, first + i * size);
  for (int64_t i = 0; !part->transposed && i < part->matrices * part->rows; i++)
    convert_row(part, scale, i / part->rows, joined_row(part, request, i % part->rows), request, to,
                first + i * part->columns);
}

/* ---- a role ---- */

/* The name that the message has of several: that of a tensor which is packed, else the first. */
static hr_status fail_missing(const hr_weight_reader *reader, const hr_weight_request *request,
                              const hr_tensor_row *rows, size_t count, hr_error *error)
{
  static const char *const packed[] = {"_blocks", "_packed"};
  char name[HR_TENSOR_NAME_SIZE], longer[HR_TENSOR_NAME_SIZE + 16], expected[SHAPE_TEXT_SIZE];
  for (size_t i = 0; i < 2 * count; i++) {
    find(reader, &rows[i / 2], request->layer, 0, name);
    snprintf(longer, sizeof longer, "%s%s", name, packed[i % 2]);
    if (hr_weights_lookup(reader->weights, longer))
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "%.200s: weights packed into integers are not read", longer);
  }
  find(reader, &rows[0], request->layer, 0, name);
  const int64_t dims[] = {request->count, request->rows, request->columns};
  int64_t skipped = (request->count == 1) + (request->count == 1 && request->rows == 1);
  write_dims(expected, dims + skipped, 3 - skipped);
  return hr_fail(error, HR_ERROR_NOT_FOUND, "%.200s: is missing, expected %s", name, expected);
}

static hr_status read_part(hr_weight_reader *reader, const weight_part *part, const hr_weight_request *request,
                           void *to, int64_t first, hr_error *error)
{
  weight_scale scale;
  if (!formats[part->tensor->format].read)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%.200s: weights in %s are not read", part->tensor->name,
                   hr_tensor_format_name(part->tensor->format));
  HR_TRY(check_shape(part, error));
  HR_TRY(read_scale(reader->weights, part, &scale, error));
  reader->used[index_of(reader, part->tensor)] = true;
  convert_part(part, &scale, request, to, first);
  return HR_OK;
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

static weight_part part_of(const hr_weight_request *request, const hr_tensor_row *row, int64_t tensors)
{
  bool vector = request->rows == 1, heads = tensors > request->count;
  int64_t rows = vector ? request->columns : request->rows;
  weight_part part = {
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
  weight_part part = part_of(request, row, tensors);
  for (int64_t i = 0; i < tensors; i++) {
    char name[HR_TENSOR_NAME_SIZE], expected[SHAPE_TEXT_SIZE];
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
    char found[SHAPE_TEXT_SIZE];
    if (!is_extra(reader, i))
      continue;
    write_dims(found, tensor->dims, tensor->rank);
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
