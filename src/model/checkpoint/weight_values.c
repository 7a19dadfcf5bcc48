/* SPDX-License-Identifier: Apache-2.0 */
#include "model/checkpoint/weight_values.h"

#include "base/error.h"
#include "shape/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CHUNK 512            /* elements converted at a time */
#define SCALE_BLOCK_SIZE 128 /* rows and columns of a scale, where it is of blocks (DeepSeek-V3) */

/* The formats that are read. */
static const struct {
  bool read;
  hr_dtype dtype;
} formats[HR_TENSOR_FORMAT_COUNT] = {
    [HR_TENSOR_FP64] = {true, HR_FP64}, [HR_TENSOR_FP32] = {true, HR_FP32},         [HR_TENSOR_FP16] = {true, HR_FP16},
    [HR_TENSOR_BF16] = {true, HR_BF16}, [HR_TENSOR_FP8_E4M3] = {true, HR_FP8_E4M3},
};

bool hr_weight_format_is_read(hr_tensor_format format)
{
  return formats[format].read;
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

static hr_status read_scale(const hr_weights *weights, const hr_weight_part *part, weight_scale *scale, hr_error *error)
{
  int64_t rows = part->joined_rows, columns = part->columns;
  *scale = (weight_scale){.block_rows = rows, .block_columns = columns, .blocks = 1};
  if (part->tensor->format != HR_TENSOR_FP8_E4M3)
    return HR_OK;
  scale->tensor = find_scale(weights, part->tensor->name);
  if (!scale->tensor)
    return hr_fail(error, HR_ERROR_NOT_FOUND, "%.200s_scale: is missing, the scale of fp8 weights", part->tensor->name);
  int64_t elements = hr_tensor_elements(scale->tensor);
  if (elements == rows && elements > 1)
    scale->block_rows = 1;
  else if (elements != 1)
    *scale = (weight_scale){scale->tensor, SCALE_BLOCK_SIZE, SCALE_BLOCK_SIZE, blocks_of(columns)};
  bool known = elements == 1 || elements == rows || elements == blocks_of(rows) * blocks_of(columns);
  if (known && formats[scale->tensor->format].read && !part->transposed && part->matrices == 1)
    return HR_OK;
  char found[HR_DIMS_TEXT_SIZE];
  hr_write_dims(found, scale->tensor->dims, scale->tensor->rank);
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
static element_run run_from(const hr_weight_part *part, int64_t matrix, int64_t index)
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

static int64_t joined_row(const hr_weight_part *part, const hr_weight_request *request, int64_t row)
{
  return hr_joined_row(part->row.form.join, request->role, request->group, part->rows, row);
}

/* A row, each block of it with its scale. */
static void convert_row(const hr_weight_part *part, const weight_scale *scale, int64_t matrix, int64_t row,
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
static void convert_tile(const hr_weight_part *part, int64_t matrix, int64_t row, int64_t column,
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

static void convert_transposed(const hr_weight_part *part, int64_t matrix, const hr_weight_request *request, void *to,
                               int64_t first)
{
  for (int64_t row = 0; row < part->rows; row += TILE_ROWS) {
    for (int64_t column = 0; column < part->columns; column += TILE_COLUMNS)
      convert_tile(part, matrix, row, column, request, to, first);
  }
}

static void convert_part(const hr_weight_part *part, const weight_scale *scale, const hr_weight_request *request,
                         void *to, int64_t first)
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

/* ---- weights that stay in fp8 ---- */

/* The scales of a block of the request: those of all its rows, and of their blocks in the tensor, are the same. */
static hr_status take_block_scale(const hr_weight_part *part, const weight_scale *scale,
                                  const hr_weight_request *request, int64_t row, int64_t column, hr_error *error)
{
  const hr_weight_scales *to = request->scales;
  const int64_t rows = part->rows - row < to->rows ? part->rows : row + to->rows;
  const int64_t columns = part->columns - column < to->columns ? part->columns : column + to->columns;
  const float first = scale_at(scale, joined_row(part, request, row), column);
  to->to[row / to->rows * to->stride + column / to->columns] = first;
  for (int64_t i = row, before = -1; i < rows; i++) {
    const int64_t from = joined_row(part, request, i);
    if (before >= 0 && from / scale->block_rows == before)
      continue;
    before = from / scale->block_rows;
    for (int64_t j = column; j < columns; j += scale->block_columns) {
      const float other = scale_at(scale, from, j);
      /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-*): equal bits, a NaN's too */
      if (memcmp(&other, &first, sizeof first) != 0)
        return hr_fail(error, HR_ERROR_UNSUPPORTED,
                       "%.200s: expected one scale for rows %" PRId64 " to %" PRId64 ", as the configuration says, "
                       "found several; they can be read as bf16 (--weights-format bf16)",
                       scale->tensor->name, row, rows - 1);
    }
  }
  return HR_OK;
}

static hr_status keep_fp8(const hr_weight_part *part, const weight_scale *scale, const hr_weight_request *request,
                          char *to, hr_error *error)
{
  const hr_weight_scales *scales = request->scales;
  if (part->tensor->format != HR_TENSOR_FP8_E4M3)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "%.200s: expected %s, as the configuration says, found %s; it can be read as bf16 "
                   "(--weights-format bf16)",
                   part->tensor->name, hr_tensor_format_name(HR_TENSOR_FP8_E4M3),
                   hr_tensor_format_name(part->tensor->format));
  for (int64_t row = 0; row < part->rows; row++)
    memcpy(to + row * part->columns, run_from(part, 0, joined_row(part, request, row) * part->columns).from,
           (size_t)part->columns);
  for (int64_t row = 0; row < part->rows; row += scales->rows)
    for (int64_t column = 0; column < part->columns; column += scales->columns)
      HR_TRY(take_block_scale(part, scale, request, row, column, error));
  return HR_OK;
}

hr_status hr_convert_weight(const hr_weights *weights, const hr_weight_part *part, const hr_weight_request *request,
                            void *to, int64_t first, hr_error *error)
{
  weight_scale scale;
  HR_TRY(read_scale(weights, part, &scale, error));
  if (request->scales)
    return keep_fp8(part, &scale, request, to, error);
  convert_part(part, &scale, request, to, first);
  return HR_OK;
}
