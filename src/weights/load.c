/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the weights, block by block through memory of the host. */
#include "weights/weights.h"

#include "base/checked.h"
#include "base/error.h"
#include "model/checkpoint/random_weights.h"
#include "runtime/device/device.h"
#include "runtime/device/q8.h"

#include <headroom/experimental/weights.h>
#include <stdlib.h>
#include <string.h>

typedef struct loading {
  hr_weight_reader *reader; /* NULL: random numbers */
  uint64_t seed;
  void *host; /* room for the largest block */
  size_t room;
  int64_t done, total; /* bytes */
  hr_progress_fn progress;
  void *context;
} loading;

/* It asks for the whole weight. */
static hr_weight_request request_of(const hr_placed_weights *w, const hr_weight_block *block, size_t index,
                                    const hr_weight_slice *slice)
{
  return (hr_weight_request){.role = (hr_weight_role)block->roles[index],
                             .layer = block->layer < 0 ? -1 : w->first_layer + block->layer,
                             .group = slice->group,
                             .count = slice->whole.count,
                             .rows = slice->whole.rows,
                             .columns = slice->whole.columns,
                             .dtype = block->dtype};
}

static hr_status fill_whole(const hr_weight_request *request, const loading *l, void *to, hr_error *error)
{
  if (l->reader)
    return hr_weight_read(l->reader, request, to, error);
  hr_weight_randomize(request, l->seed, 0, request->count * request->rows * request->columns, to);
  return HR_OK;
}

static void copy_slice(const hr_weight_slice *s, const hr_weight_shape *part, size_t element, const char *from,
                       char *to)
{
  const size_t row = (size_t)part->columns * element, matrix = (size_t)part->rows * row;
  for (int64_t m = 0; m < part->count; m++) {
    for (int64_t r = 0; r < part->rows && s->first_row + r < s->whole.rows; r++) {
      const int64_t at =
          ((s->first_matrix + m) * s->whole.rows + s->first_row + r) * s->whole.columns + s->first_column;
      const int64_t there = s->whole.columns - s->first_column; /* a bias of padded rows has fewer */
      memcpy(to + (size_t)m * matrix + (size_t)r * row, from + (size_t)at * element,
             (size_t)(there < part->columns ? there : part->columns) * element);
    }
  }
}

static hr_status fill_slice(const hr_weight_request *request, const hr_weight_slice *slice, const hr_weight_shape *part,
                            const loading *l, void *to, hr_error *error)
{
  const size_t element = hr_dtype_bytes(request->dtype);
  char *whole = malloc((size_t)(request->count * request->rows * request->columns) * element);
  if (!whole)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a weight of all ranks");
  const hr_status status = fill_whole(request, l, whole, error);
  if (status == HR_OK && !slice->zeros)
    copy_slice(slice, part, element, whole, to);
  free(whole);
  return status;
}

/* A bias that the layer does not have is 0 among those of the others. */
static hr_status fill_weight(const hr_placed_weights *w, const hr_weight_block *block, size_t index, const loading *l,
                             void *to, hr_error *error)
{
  const hr_weight_slice slice = hr_weight_slice_of(w, block, index);
  const hr_weight_request request = request_of(w, block, index, &slice);
  const hr_weight_shape *part = &block->shapes[index];
  if (part->rows > 0 && hr_is_whole(&slice, part))
    return fill_whole(&request, l, to, error);
  memset(to, 0, (size_t)block->elements[index] * hr_dtype_bytes(block->dtype));
  return part->rows > 0 ? fill_slice(&request, &slice, part, l, to, error) : HR_OK;
}

static hr_status make_room(loading *l, size_t bytes, hr_error *error)
{
  if (bytes <= l->room)
    return HR_OK;
  void *larger = realloc(l->host, bytes);
  if (!larger)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a weight of %zu bytes", bytes);
  l->host = larger;
  l->room = bytes;
  return HR_OK;
}

/* The rows of a part that are those of the whole weight; 0 behind them: a gradient of their logits stays 0. */
static hr_status fill_rows_on_device(hr_device *device, char *to, hr_uniform u, int64_t padded, hr_error *error)
{
  const size_t row = u.columns * hr_dtype_bytes(u.dtype);
  if (u.rows > 0)
    HR_TRY(device->backend->fill_uniform(device, to, &u, error));
  return padded > 0 ? device->backend->set_bytes(device, to + u.rows * row, 0, (size_t)padded * row, error) : HR_OK;
}

/* Random values of fp8 are as large as they can be. */
static float bound_of(const hr_weight_block *block, const hr_weight_filling *how)
{
  return block->fp8 ? HR_FP8_LARGEST : how->bound;
}

static hr_status fill_part_on_device(const hr_placed_weights *w, const hr_weight_block *block, size_t index,
                                     const hr_weight_slice *slice, const hr_weight_filling *how, char *to,
                                     hr_error *error)
{
  const hr_weight_shape *part = &block->shapes[index], *whole = &slice->whole;
  const int64_t there = hr_max64(0, hr_min64(part->rows, whole->rows - slice->first_row));
  hr_uniform u = {.dtype = block->dtype, .seed = how->key, .bound = bound_of(block, how)};
  if (hr_is_whole(slice, part)) {
    u.rows = 1;
    u.columns = u.pitch = (size_t)block->elements[index];
    return w->device->backend->fill_uniform(w->device, to, &u, error);
  }
  u.rows = (size_t)there;
  u.columns = (size_t)part->columns, u.pitch = (size_t)whole->columns;
  for (int64_t m = 0; m < part->count; m++) {
    const int64_t row = (slice->first_matrix + m) * whole->rows + slice->first_row;
    u.first = (size_t)(row * whole->columns + slice->first_column);
    HR_TRY(fill_rows_on_device(w->device, to, u, part->rows - there, error));
    to += (size_t)(part->rows * part->columns) * hr_dtype_bytes(block->dtype);
  }
  return HR_OK;
}

static hr_status write_equal_scales(const hr_placed_weights *w, const hr_weight_block *block, float scale,
                                    hr_error *error)
{
  const size_t bytes = (size_t)(hr_weight_block_bytes(block) - block->total);
  char *to = hr_buffer_data(*hr_weight_buffer(w, block->layer, block->key));
  float *scales = malloc(bytes);
  if (!scales)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the scales of a weight");
  for (size_t i = 0; i < bytes / sizeof *scales; i++)
    scales[i] = scale;
  const hr_status status = w->device->backend->write(w->device, to + block->total, scales, bytes, error);
  free(scales);
  return status;
}

/* Random matrices are made on the device, which takes milliseconds where the host takes seconds.
 * HR_ERROR_UNSUPPORTED: the host has to fill the block. */
static hr_status fill_on_device(const hr_placed_weights *w, const hr_weight_block *block, const loading *l,
                                hr_error *error)
{
  const size_t element = hr_dtype_bytes(block->dtype);
  char *to = hr_buffer_data(*hr_weight_buffer(w, block->layer, block->key));
  for (size_t i = 0; i < block->count; i++) {
    const hr_weight_slice slice = hr_weight_slice_of(w, block, i);
    const hr_weight_request request = request_of(w, block, i, &slice);
    const hr_weight_filling how = hr_weight_filling_of(&request, l->seed);
    if (l->reader || block->q8 || !w->device->backend->fill_uniform || !w->device->backend->set_bytes ||
        how.bound == 0 || block->shapes[i].rows == 0)
      return HR_ERROR_UNSUPPORTED;
    HR_TRY(fill_part_on_device(w, block, i, &slice, &how, to, error));
    to += (size_t)block->elements[i] * element;
    if (block->fp8 && i + 1 == block->count)
      HR_TRY(write_equal_scales(w, block, how.bound / HR_FP8_LARGEST, error));
  }
  return HR_OK;
}

/* A block in fp8: values of each matrix, and scales behind those of all. */
static hr_status fill_fp8(const hr_placed_weights *w, const hr_weight_block *block, loading *l, hr_error *error)
{
  const int64_t columns = block->shapes[0].columns, bytes = hr_weight_block_bytes(block);
  int64_t row = 0;
  if (!l->reader)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: random weights in fp8 cannot be made", w->model->name);
  HR_TRY(make_room(l, (size_t)bytes, error));
  memset(l->host, 0, (size_t)bytes);
  float *scales = (float *)(void *)((char *)l->host + block->total);
  for (size_t i = 0; i < block->count; i++) {
    const hr_weight_slice slice = hr_weight_slice_of(w, block, i);
    const hr_weight_scales to = {.rows = block->scales.rows,
                                 .columns = block->scales.blocks ? HR_FP8_BLOCK : columns,
                                 .stride = block->scales.stride,
                                 .to = scales + row / block->scales.rows * block->scales.stride};
    hr_weight_request request = request_of(w, block, i, &slice);
    request.scales = &to;
    HR_TRY(hr_weight_read(l->reader, &request, (char *)l->host + row * columns, error));
    row += block->shapes[i].rows;
  }
  return hr_buffer_write(*hr_weight_buffer(w, block->layer, block->key), l->host, (size_t)bytes, error);
}

static hr_status fill_on_host(const hr_placed_weights *w, const hr_weight_block *block, loading *l, hr_error *error)
{
  const size_t element = hr_dtype_bytes(block->dtype), bytes = (size_t)block->total * element;
  const hr_buffer *buffer = *hr_weight_buffer(w, block->layer, block->key);
  size_t at = 0;
  HR_TRY(make_room(l, bytes, error));
  for (size_t i = 0; i < block->count; i++) {
    HR_TRY(fill_weight(w, block, i, l, (char *)l->host + at * element, error));
    at += (size_t)block->elements[i];
  }
  if (!block->q8)
    return hr_buffer_write(*hr_weight_buffer(w, block->layer, block->key), l->host, bytes, error);
  const int64_t columns = block->shapes[0].columns, rows = block->total / columns;
  hr_q8_quantize(l->host, 0, rows, &(hr_q8_matrix){rows, columns, hr_buffer_data(buffer)});
  return HR_OK;
}

static hr_status load_block(const hr_placed_weights *w, const hr_weight_block *block, void *context, hr_error *error)
{
  loading *l = context;
  if (l->progress && l->progress(l->context, (double)l->done / (double)l->total, "loading weights"))
    return hr_fail(error, HR_ERROR_INTERRUPTED, "interrupted");
  l->done += hr_weight_block_bytes(block);
  const hr_status status = fill_on_device(w, block, l, error);
  if (status != HR_ERROR_UNSUPPORTED)
    return status;
  return block->fp8 ? fill_fp8(w, block, l, error) : fill_on_host(w, block, l, error);
}

static hr_status load_blocks(const hr_placed_weights *w, loading *l, hr_error *error)
{
  HR_TRY(hr_placed_weights_bytes(w, &l->total, error));
  hr_status status = hr_each_weight_block(w, load_block, l, error);
  free(l->host);
  return status;
}

/* A weight of another stage is not read, but it has to be there, too. */
static hr_status expect_block(const hr_placed_weights *w, const hr_weight_block *block, void *context, hr_error *error)
{
  const loading *l = context;
  for (size_t i = 0; i < block->count; i++) {
    const hr_weight_slice slice = hr_weight_slice_of(w, block, i);
    const hr_weight_request request = request_of(w, block, i, &slice);
    if (block->shapes[i].rows > 0)
      HR_TRY(hr_weight_read(l->reader, &request, NULL, error));
  }
  return HR_OK;
}

static hr_status expect_all(const hr_placed_weights *w, loading *l, hr_error *error)
{
  hr_placed_weights all = *w;
  all.model = w->whole;
  all.first_layer = 0;
  all.begins = all.ends = true;
  return w->begins && w->ends ? HR_OK : hr_each_weight_block(&all, expect_block, l, error);
}

static hr_status load_checkpoint(const hr_placed_weights *w, const char *what, loading *l, hr_error *error)
{
  hr_weights *weights;
  hr_weight_reader reader;
  HR_TRY(hr_weights_open(what, &weights, error));
  hr_status status = hr_weight_reader_begin(&reader, weights, w->whole, error);
  if (status == HR_OK) {
    l->reader = &reader;
    status = load_blocks(w, l, error);
    if (status == HR_OK)
      status = expect_all(w, l, error);
    if (status == HR_OK)
      status = hr_weight_reader_end(&reader, error);
    hr_weight_reader_free(&reader);
  }
  hr_weights_close(weights);
  return status;
}

hr_status hr_placed_weights_fill(const hr_placed_weights *weights, const char *what, uint64_t seed,
                                 hr_progress_fn progress, void *context, hr_error *error)
{
  loading l = {.seed = seed, .progress = progress, .context = context};
  return what ? load_checkpoint(weights, what, &l, error) : load_blocks(weights, &l, error);
}
