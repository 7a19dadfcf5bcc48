/* SPDX-License-Identifier: Apache-2.0 */
/* A KV cache beside a list of the tokens that its slots should have, and the comparison of the two. */
#ifndef HEADROOM_TEST_KV_MODEL_H
#define HEADROOM_TEST_KV_MODEL_H
#include "machine.h"

#include "base/checked.h"
#include "runtime/device/kv_cache.h"
#include "runtime/device/kv_format.h"
#include "runtime/operation/decode_sequences.h"
#include "runtime/operation/operation.h"
#include "shape/number.h"

#include <headroom/buffer.h>
#include <headroom/experimental/decode.h>
#include <headroom/kv_cache.h>
#include <inttypes.h>
#include <math.h>

#define SLOTS_MAX 8
#define TOKENS_MAX 600

typedef struct kv_model {
  hr_device *device;
  hr_kv_cache *cache;
  hr_kv_cache_options o;
  hr_kv_append rotary; /* its members about rotary embedding */
  hr_buffer *cos_table, *sin_table;
  uint64_t tokens[SLOTS_MAX][TOKENS_MAX]; /* seeds of K; those of V are one more */
  int64_t lengths[SLOTS_MAX];             /* −1: not in use */
  uint64_t next;
} kv_model;

static inline size_t kv_width(const kv_model *m, bool k)
{
  return (size_t)(k ? m->o.k_heads * m->o.qk_dim : m->o.v_heads * m->o.v_dim);
}

static inline hr_buffer *kv_upload(hr_device *device, const void *from, size_t bytes)
{
  hr_buffer *buffer = NULL;
  hr_error error;
  assert_ok(hr_buffer_create(device, bytes > 0 ? bytes : 1, &buffer, &error), error);
  if (bytes > 0)
    assert_ok(hr_buffer_write(buffer, from, bytes, &error), error);
  return buffer;
}

static inline double kv_angle(int64_t position, int64_t pair, int64_t pairs)
{
  return (double)position * pow(100, -(double)pair / (double)pairs);
}

static inline hr_buffer *kv_table(const kv_model *m, double (*function)(double))
{
  int64_t half = m->rotary.rotary_dim / 2;
  float *values = calloc((size_t)(m->o.tokens * half + 1), sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < m->o.tokens * half; i++)
    values[i] = (float)function(kv_angle(i / half, i % half, half));
  hr_buffer *table = kv_upload(m->device, values, (size_t)(m->o.tokens * half) * sizeof *values);
  free(values);
  return table;
}

/** The bytes of K or V of the whole cache. */
static inline size_t kv_bytes(const kv_model *m, const hr_decode *d, bool k)
{
  return (size_t)(d->page_count * d->page_size) * kv_width(m, k) * hr_decode_cache_bytes(d);
}

/** Strides of the scales of a quantized cache. */
static inline size_t kv_scale_bytes(const kv_model *m, const hr_decode *d, bool k)
{
  size_t heads = (size_t)(k ? m->o.k_heads : m->o.v_heads);
  bool of_tokens = m->o.cache_scales == HR_KV_SCALE_TOKEN;
  return heads * sizeof(float) * (of_tokens ? (size_t)(d->page_count * d->page_size) : 1);
}

static inline void kv_fill_nan(const kv_model *m, const void *to, size_t bytes)
{
  hr_error error;
  void *nan = malloc(bytes);
  assert_non_null(nan);
  memset(nan, 0xFF, bytes);
  assert_ok(m->device->backend->write(m->device, (void *)(uintptr_t)to, nan, bytes, &error), error);
  free(nan);
}

/* Selects slots and describes a decode call of them. */
static inline hr_status kv_decode(hr_kv_cache *cache, int64_t count, const int64_t *slots, hr_decode *d,
                                  hr_decode_arguments *x, hr_error *error)
{
  hr_status status = hr_kv_cache_select(cache, count, slots, hr_device_stream(cache->device), error);
  return status == HR_OK ? hr_kv_cache_decode(cache, count, d, x, error) : status;
}

/** Fills the cache, which has no tokens, with NaN. */
static inline void kv_poison(kv_model *m)
{
  int64_t slot;
  hr_error error;
  hr_decode d = hr_decode_default();
  hr_decode_arguments x = hr_decode_arguments_default();
  assert_ok(hr_kv_cache_add(m->cache, &slot, &error), error);
  assert_ok(kv_decode(m->cache, 1, &slot, &d, &x, &error), error);
  bool scales = m->o.cache_format != HR_KV_UNQUANTIZED && m->o.cache_scales == HR_KV_SCALE_TOKEN;
  for (int k = m->o.latent ? 1 : 0; k < 2; k++) {
    kv_fill_nan(m, k ? x.k : x.v, kv_bytes(m, &d, k));
    if (scales)
      kv_fill_nan(m, k ? x.k_scales : x.v_scales, kv_scale_bytes(m, &d, k));
  }
  assert_ok(hr_kv_cache_remove(m->cache, slot, &error), error);
}

/** Calls `check` for each device of this machine; with HEADROOM_TEST=gpu for the GPU alone. */
static inline void each_device(void (*check)(hr_device *device))
{
  const char *const host[] = {"reference", "cpu"}, *const gpu[] = {"cuda:0"};
  bool on_gpu = test_asks_for("gpu");
  for (size_t i = 0; i < (on_gpu ? 1 : 2); i++) {
    hr_device *device;
    hr_error error;
    assert_ok(hr_device_open((on_gpu ? gpu : host)[i], 1, &device, &error), error);
    check(device);
    hr_device_close(device);
  }
}

static inline kv_model three_slots(hr_dtype dtype, int64_t page_size)
{
  kv_model m = {.o = hr_kv_cache_options_default(), .rotary = hr_kv_append_default()};
  m.o.k_heads = 2, m.o.v_heads = 3;
  m.o.qk_dim = 24, m.o.v_dim = 10;
  m.o.dtype = dtype;
  m.o.page_size = page_size;
  m.o.slots = 3, m.o.tokens = 530;
  return m;
}

/** Creates the cache of m->o on the device; m->rotary is set. */
static inline void kv_create(kv_model *m, hr_device *device)
{
  hr_error error;
  m->device = device;
  assert_true(m->o.slots <= SLOTS_MAX && m->o.tokens <= TOKENS_MAX);
  assert_ok(hr_kv_cache_create(device, &m->o, &m->cache, &error), error);
  for (int i = 0; i < SLOTS_MAX; i++)
    m->lengths[i] = -1;
  m->next = 2;
  m->cos_table = kv_table(m, cos);
  m->sin_table = kv_table(m, sin);
  m->rotary.cos = hr_buffer_data(m->cos_table);
  m->rotary.sin = hr_buffer_data(m->sin_table);
  m->rotary.positions = m->o.tokens;
  kv_poison(m);
}

static inline void kv_free(kv_model *m)
{
  hr_kv_cache_free(m->cache);
  hr_buffer_free(m->cos_table);
  hr_buffer_free(m->sin_table);
}

static inline int64_t kv_add(kv_model *m)
{
  int64_t slot;
  hr_error error;
  assert_ok(hr_kv_cache_add(m->cache, &slot, &error), error);
  assert_true(slot >= 0 && slot < m->o.slots && m->lengths[slot] < 0);
  m->lengths[slot] = 0;
  return slot;
}

/* Rows of consecutive seeds, `gap` elements of NaN behind each. */
static inline hr_buffer *kv_rows(const kv_model *m, bool k, int64_t rows, size_t gap)
{
  size_t element = hr_dtype_bytes(m->o.dtype), row = (kv_width(m, k) + gap) * element;
  char *image = malloc((size_t)rows * row + 1);
  assert_non_null(image);
  memset(image, 0xFF, (size_t)rows * row);
  for (int64_t i = 0; i < rows; i++)
    hr_numbers_uniform(m->o.dtype, m->next + 2 * (uint64_t)i + (k ? 0 : 1), 0, kv_width(m, k), image + (size_t)i * row);
  hr_buffer *buffer = kv_upload(m->device, image, (size_t)rows * row);
  free(image);
  return buffer;
}

/** Appends random tokens, in the model only after success. tokens NULL: one each. */
static inline hr_status kv_append(kv_model *m, int64_t count, const int64_t *slots, const int64_t *tokens, size_t gap,
                                  hr_error *error)
{
  int64_t rows = 0;
  for (int64_t i = 0; i < count; i++)
    rows += tokens ? hr_max64(0, tokens[i]) : 1;
  hr_buffer *k = kv_rows(m, true, rows, gap), *v = kv_rows(m, false, rows, gap);
  hr_kv_append a = m->rotary;
  a.count = count, a.slots = slots, a.tokens = tokens;
  a.k = hr_buffer_data(k), a.v = m->o.latent ? NULL : hr_buffer_data(v);
  a.k_row = gap > 0 ? (int64_t)(kv_width(m, true) + gap) : 0;
  a.v_row = gap > 0 ? (int64_t)(kv_width(m, false) + gap) : 0;
  hr_status status = hr_kv_cache_append(m->cache, &a, NULL, error);
  for (int64_t i = 0; i < count && status == HR_OK; i++)
    for (int64_t n = tokens ? tokens[i] : 1; n > 0; n--, m->next += 2)
      m->tokens[slots[i]][m->lengths[slots[i]]++] = m->next;
  hr_buffer_free(k);
  hr_buffer_free(v);
  return status;
}

/* ---- the comparison ---- */

/** Element `i` of head `head` of K as rotated at `position`, of a row before that; *bound is 0 for copied elements. */
static inline double kv_rotated(const kv_model *m, const double *row, int64_t head, int64_t i, int64_t position,
                                double *bound)
{
  const hr_kv_append *r = &m->rotary;
  int64_t half = r->rotary_dim / 2, at = i - r->rotary_first;
  const double *first = row + head * m->o.qk_dim + r->rotary_first;
  *bound = 0;
  if (at < 0 || at >= r->rotary_dim)
    return row[head * m->o.qk_dim + i];
  bool split = r->pairs == HR_ROTARY_HALF_SPLIT, is_y = split ? at >= half : at % 2 == 1;
  int64_t pair = split ? at % half : at / 2;
  double x = first[split ? pair : 2 * pair], y = first[split ? pair + half : 2 * pair + 1];
  double angle = kv_angle(position, pair, half);
  double c = (double)(float)cos(angle), s = (double)(float)sin(angle), value = is_y ? y * c + x * s : x * c - y * s;
  bool rounded = m->o.cache_format == HR_KV_UNQUANTIZED;
  *bound = (rounded ? hr_dtype_rounding_error(m->o.dtype, value) * 1.001 : 0) + (fabs(x) + fabs(y)) * 0x1p-22;
  return value;
}

/* What the device has. The caller frees all of it. */
typedef struct kv_image {
  hr_decode d;
  hr_decode_arguments x; /* of host memory */
} kv_image;

/** The largest value of a quantized cache's elements. */
static inline double kv_max(const kv_model *m)
{
  return m->o.cache_format == HR_KV_INT8 ? 127 : 448;
}

/* Checks the scale of a head, whose largest value is `most`, and returns what rounding to the format may change `value`
 * by; *value saturates. */
static inline double kv_quantization(const kv_model *m, double scale, double most, double bound, double *value)
{
  bool own = m->o.cache_scales == HR_KV_SCALE_TOKEN;
  if (own && !(fabs(scale * kv_max(m) - most) <= most * 0x1p-20 + bound))
    fail_msg("%s: scale %g of a largest value of %g", hr_kv_format_name(m->o.cache_format), scale, most);
  double largest = scale * kv_max(m), rest = fabs(*value) * 0x1p-20 + bound;
  if (fabs(*value) > largest)
    *value = copysign(largest, *value);
  if (m->o.cache_format == HR_KV_INT8)
    return 0.5 * scale + rest;
  return hr_dtype_rounding_error(HR_FP8_E4M3, *value / scale) * scale + rest;
}

static inline void kv_expect_element(const kv_model *m, const char *tensor, double found, double value, double bound)
{
  if (!(fabs(found - value) <= bound))
    fail_msg("%s %s, %s, pages of %" PRId64 ": %s: %g, expected %g ± %g", hr_dtype_name(m->o.dtype),
             hr_kv_format_name(m->o.cache_format), hr_kv_scales_name(m->o.cache_scales), m->o.page_size, tensor, found,
             value, bound);
}

/* One head: `found` from the cache without its scale, which is 0 of an unquantized cache; `row` as appended. */
static inline void kv_expect_head(const kv_model *m, bool k, const double *row, int64_t head, int64_t position,
                                  const double *found, double scale)
{
  int64_t dim = k ? m->o.qk_dim : m->o.v_dim;
  double values[512], bounds[512], most = 0, largest_bound = 0;
  for (int64_t i = 0; i < dim; i++) {
    bounds[i] = 0;
    values[i] = k ? kv_rotated(m, row, head, i, position, &bounds[i]) : row[head * dim + i];
    most = fmax(most, fabs(values[i]));
    largest_bound = fmax(largest_bound, bounds[i]);
  }
  for (int64_t i = 0; i < dim; i++) {
    double bound = scale == 0 ? bounds[i] : kv_quantization(m, scale, most, largest_bound, &values[i]);
    kv_expect_element(m, k ? "K" : "V", found[i] * (scale == 0 ? 1 : scale), values[i], bound);
  }
}

static inline void kv_expect_row(const kv_model *m, bool k, int64_t slot, const kv_image *image, int64_t b,
                                 int64_t position)
{
  const hr_decode *d = &image->d;
  int64_t dim = k ? m->o.qk_dim : m->o.v_dim, heads = k ? m->o.k_heads : m->o.v_heads;
  hr_kv_strides at = k ? hr_decode_k_strides(d) : hr_decode_v_strides(d);
  hr_kv_strides scale_at = k ? hr_decode_k_scale_strides(d) : hr_decode_v_scale_strides(d);
  const float *scales = k ? image->x.k_scales : image->x.v_scales;
  size_t width = kv_width(m, k);
  double row[512], found[512];
  char bits[512 * sizeof(float)];
  assert_true(width <= 512);
  hr_numbers_uniform(m->o.dtype, m->tokens[slot][position] + (k ? 0 : 1), 0, width, bits);
  hr_numbers_load(m->o.dtype, bits, 0, width, row);
  hr_kv_elements_load(m->o.cache_format, m->o.dtype, k ? image->x.k : image->x.v,
                      (size_t)hr_decode_token(d, &image->x, &at, b, position), width, found);
  for (int64_t head = 0; head < heads; head++) {
    int64_t place = hr_decode_token(d, &image->x, &scale_at, b, position) + head * scale_at.head;
    kv_expect_head(m, k, row, head, position, found + head * dim, scales ? (double)scales[place] : 0);
  }
}

static inline void *kv_download(const kv_model *m, const void *from, size_t bytes)
{
  hr_error error;
  void *to = malloc(bytes);
  assert_non_null(to);
  assert_ok(m->device->backend->read(m->device, to, from, bytes, &error), error);
  return to;
}

static inline kv_image kv_read(const kv_model *m, int64_t count, const int64_t *slots)
{
  hr_error error;
  kv_image image = {.d = hr_decode_default(), .x = hr_decode_arguments_default()};
  assert_ok(kv_decode(m->cache, count, slots, &image.d, &image.x, &error), error);
  image.x.k = kv_download(m, image.x.k, kv_bytes(m, &image.d, true));
  image.x.v = m->o.latent ? NULL : kv_download(m, image.x.v, kv_bytes(m, &image.d, false));
  if (m->o.cache_format != HR_KV_UNQUANTIZED) {
    image.x.k_scales = kv_download(m, image.x.k_scales, kv_scale_bytes(m, &image.d, true));
    image.x.v_scales = m->o.latent ? NULL : kv_download(m, image.x.v_scales, kv_scale_bytes(m, &image.d, false));
  }
  image.x.lengths = kv_download(m, image.x.lengths, (size_t)count * sizeof(int32_t));
  image.x.pages = kv_download(m, image.x.pages, (size_t)(count * image.d.table_pitch) * sizeof(int32_t));
  return image;
}

static inline void kv_image_free(kv_image *image)
{
  const void *const parts[] = {image->x.k,     image->x.v,        image->x.lengths,
                               image->x.pages, image->x.k_scales, image->x.v_scales};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    free((void *)(uintptr_t)parts[i]);
}

/** Expects the model's slots in the cache, listed in turn from `first` on: lengths, pages, every element. */
static inline void kv_expect(const kv_model *m, int64_t first)
{
  int64_t slots[SLOTS_MAX], count = 0;
  for (int64_t i = 0; i < m->o.slots; i++)
    if (m->lengths[(first + i) % m->o.slots] >= 0)
      slots[count++] = (first + i) % m->o.slots;
  if (count == 0)
    return;
  kv_image image = kv_read(m, count, slots);
  hr_error error;
  const hr_problem problem = hr_decode_problem(&image.d);
  assert_ok(hr_operation_decode.check_tables(&problem, &(hr_arguments){.decode = image.x}, &error), error);
  for (int64_t b = 0; b < count; b++) {
    assert_int_equal(image.x.lengths[b], m->lengths[slots[b]]);
    for (int64_t t = 0; t < image.x.lengths[b]; t++) {
      kv_expect_row(m, true, slots[b], &image, b, t);
      if (!m->o.latent)
        kv_expect_row(m, false, slots[b], &image, b, t);
    }
  }
  kv_image_free(&image);
}

#endif
