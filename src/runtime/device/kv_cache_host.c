/* SPDX-License-Identifier: Apache-2.0 */
/* Writes new tokens to a KV cache in host memory. */
#include "runtime/device/kv_cache.h"
#include "runtime/device/kv_format.h"
#include "shape/number.h"

#include <string.h>

#define PAIRS 64 /* that are computed together */

static void rotate(size_t count, float *x, float *y, const float *cos, const float *sin)
{
  for (size_t i = 0; i < count; i++) {
    float u = x[i], v = y[i];
    x[i] = u * cos[i] - v * sin[i];
    y[i] = v * cos[i] + u * sin[i];
  }
}

/* Pairs i and `half` + i of the elements from `first` on. */
static void rotate_half_split(hr_dtype dtype, const void *from, void *to, size_t first, size_t half, size_t count,
                              const float *cos, const float *sin)
{
  double loaded[PAIRS];
  float pair[2][PAIRS];
  for (size_t part = 0; part < 2; part++) {
    hr_numbers_load(dtype, from, first + part * half, count, loaded);
    for (size_t i = 0; i < count; i++)
      pair[part][i] = (float)loaded[i];
  }
  rotate(count, pair[0], pair[1], cos, sin);
  for (size_t part = 0; part < 2; part++)
    hr_floats_store(dtype, to, first + part * half, count, pair[part]);
}

/* Pairs 2i and 2i + 1 of the elements from `first` on. */
static void rotate_interleaved(hr_dtype dtype, const void *from, void *to, size_t first, size_t count, const float *cos,
                               const float *sin)
{
  double loaded[2 * PAIRS];
  float x[PAIRS], y[PAIRS], joined[2 * PAIRS];
  hr_numbers_load(dtype, from, first, 2 * count, loaded);
  for (size_t i = 0; i < count; i++)
    x[i] = (float)loaded[2 * i], y[i] = (float)loaded[2 * i + 1];
  rotate(count, x, y, cos, sin);
  for (size_t i = 0; i < count; i++)
    joined[2 * i] = x[i], joined[2 * i + 1] = y[i];
  hr_floats_store(dtype, to, first, 2 * count, joined);
}

static void rotate_head(const hr_kv_writes *w, const void *from, void *to, const float *cos, const float *sin)
{
  const hr_kv_append *a = w->append;
  hr_dtype dtype = w->options->dtype;
  size_t first = (size_t)a->rotary_first, half = (size_t)a->rotary_dim / 2;
  for (size_t i = 0; i < half; i += PAIRS) {
    size_t count = half - i < PAIRS ? half - i : PAIRS;
    if (a->pairs == HR_ROTARY_INTERLEAVED)
      rotate_interleaved(dtype, from, to, first + 2 * i, count, cos + i, sin + i);
    else
      rotate_half_split(dtype, from, to, first + i, half, count, cos + i, sin + i);
  }
}

/* All heads of K of one token. */
static void rotate_token(const hr_kv_writes *w, const char *from, char *to, int64_t position)
{
  const hr_kv_append *a = w->append;
  size_t half = (size_t)a->rotary_dim / 2, head_bytes = (size_t)w->options->qk_dim * hr_dtype_bytes(w->options->dtype);
  const float *cos = a->cos + (size_t)position * half, *sin = a->sin + (size_t)position * half;
  for (int64_t head = 0; head < w->options->k_heads; head++, from += head_bytes, to += head_bytes)
    rotate_head(w, from, to, cos, sin);
}

/* ---- quantized caches ---- */

/* K or V of a token: where it comes from and goes to. */
typedef struct quantized_row {
  const void *from;
  char *to;
  float *scales; /* of the token's heads, or of all tokens' */
  int64_t heads, dim;
} quantized_row;

static void load_floats(hr_dtype dtype, const void *from, size_t first, size_t count, float *to)
{
  double loaded[PAIRS];
  for (size_t at = 0; at < count; at += PAIRS) {
    size_t some = count - at < PAIRS ? count - at : PAIRS;
    hr_numbers_load(dtype, from, first + at, some, loaded);
    for (size_t i = 0; i < some; i++)
      to[at + i] = (float)loaded[i];
  }
}

static void rotate_row(const hr_kv_append *a, float *row, int64_t position)
{
  size_t half = (size_t)a->rotary_dim / 2;
  const float *cos = a->cos + (size_t)position * half, *sin = a->sin + (size_t)position * half;
  float *first = row + a->rotary_first;
  if (a->pairs == HR_ROTARY_HALF_SPLIT)
    rotate(half, first, first + half, cos, sin);
  for (size_t i = 0; i < half && a->pairs == HR_ROTARY_INTERLEAVED; i++)
    rotate(1, first + 2 * i, first + 2 * i + 1, cos + i, sin + i);
}

static void write_quantized(const hr_kv_writes *w, const quantized_row *r, bool rotated, int64_t position)
{
  const hr_kv_cache_options *o = w->options;
  float row[HR_KV_QUANTIZED_DIM_MAX];
  size_t dim = (size_t)r->dim;
  for (size_t head = 0; head < (size_t)r->heads; head++) {
    load_floats(o->dtype, r->from, head * dim, dim, row);
    if (rotated)
      rotate_row(w->append, row, position);
    if (o->cache_scales == HR_KV_SCALE_TOKEN)
      r->scales[head] = hr_kv_row_scale(o->cache_format, row, dim);
    hr_kv_quantize(o->cache_format, row, dim, r->scales[head], r->to + head * dim);
  }
}

/* Row `row` of the new tokens to place `place` of the cache. */
static void quantize_token(const hr_kv_writes *w, size_t place, int64_t row, int64_t position)
{
  const hr_kv_cache_options *o = w->options;
  const hr_kv_append *a = w->append;
  size_t element = hr_dtype_bytes(o->dtype), scales_place = o->cache_scales == HR_KV_SCALE_TOKEN ? place : 0;
  size_t k_heads = (size_t)o->k_heads, v_heads = (size_t)o->v_heads;
  quantized_row k = {.from = (const char *)a->k + (size_t)(row * a->k_row) * element,
                     .to = (char *)w->k + place * k_heads * (size_t)o->qk_dim,
                     .scales = w->k_scales + scales_place * k_heads,
                     .heads = o->k_heads,
                     .dim = o->qk_dim};
  write_quantized(w, &k, a->rotary_dim > 0, position);
  if (!w->v)
    return;
  quantized_row v = {.from = (const char *)a->v + (size_t)(row * a->v_row) * element,
                     .to = (char *)w->v + place * v_heads * (size_t)o->v_dim,
                     .scales = w->v_scales + scales_place * v_heads,
                     .heads = o->v_heads,
                     .dim = o->v_dim};
  write_quantized(w, &v, false, position);
}

/* ---- tokens ---- */

/* `count` tokens of one page: rows from `row` on, positions from `position` on. */
static void write_page(const hr_kv_writes *w, int64_t page, int64_t row, int64_t position, int64_t count)
{
  const hr_kv_cache_options *o = w->options;
  const hr_kv_append *a = w->append;
  size_t element = hr_dtype_bytes(o->dtype);
  size_t k_bytes = (size_t)(o->k_heads * o->qk_dim) * element, v_bytes = (size_t)(o->v_heads * o->v_dim) * element;
  size_t place = (size_t)(page * o->page_size + position % o->page_size);
  for (int64_t i = 0; i < count; i++, place++) {
    if (o->cache_format != HR_KV_UNQUANTIZED) {
      quantize_token(w, place, row + i, position + i);
      continue;
    }
    const char *k = (const char *)a->k + (size_t)((row + i) * a->k_row) * element;
    char *to = (char *)w->k + place * k_bytes;
    memcpy(to, k, k_bytes);
    if (a->rotary_dim > 0)
      rotate_token(w, k, to, position + i);
    if (w->v)
      memcpy((char *)w->v + place * v_bytes, (const char *)a->v + (size_t)((row + i) * a->v_row) * element, v_bytes);
  }
}

hr_status hr_host_append_tokens(const hr_kv_cache *cache, const hr_kv_writes *writes, void *stream, hr_error *error)
{
  (void)cache;
  (void)stream;
  (void)error;
  int64_t sequences = writes->tokens > 0 ? writes->append->count : 0, size = writes->options->page_size;
  const int32_t *starts = writes->list, *positions = starts + sequences + 1, *places = positions + sequences;
  for (int64_t s = 0; s < sequences; s++) {
    int64_t position = positions[s], page = places[s];
    for (int64_t row = starts[s]; row < starts[s + 1]; page++) {
      int64_t left = starts[s + 1] - row, room = size - position % size, count = left < room ? left : room;
      write_page(writes, writes->list[page], row, position, count);
      row += count, position += count;
    }
  }
  return HR_OK;
}
