/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of new tokens that are normed and rotated where they are written to the KV cache, against float64; with
 * HEADROOM_TEST=gpu those of a GPU. */
#include "device_tensors.h"

#include "base/checked.h"
#include "runtime/device/buffer.h"
#include "runtime/device/kv_cache.h"

#include <math.h>

enum { SLOTS = 2, PAGE = 16, POSITIONS = 64, SPARE = 6 /* elements between tokens */ };

static const int64_t before[SLOTS] = {3, 0}, added[SLOTS] = {18, 5}; /* tokens */

typedef struct heads_case {
  hr_kv_cache_options o;
  hr_kv_heads heads;
  bool copies_k;
  int64_t shift; /* elements before Q's first */
  hr_kv_cache *cache;
  tensor q, k, v, q_norm, k_norm, angles, q_to, k_to;
} heads_case;

static double rounded(hr_dtype dtype, double value)
{
  double there = 0;
  hr_number_store(dtype, &there, 0, value);
  return hr_number_load(dtype, &there, 0);
}

/* A head at element `from` of a tensor as it should be written; `norm` is the first element of its weight, −1: none. */
static void expect_head(const heads_case *c, const tensor *x, int64_t from, const tensor *weight, int64_t norm,
                        int64_t position, double *y)
{
  const hr_kv_heads *h = &c->heads;
  const int64_t dim = c->o.qk_dim, half = h->rotated / 2;
  double squares = 0, turned[2];
  hr_numbers_load(c->o.dtype, x->host, (size_t)from, (size_t)dim, y);
  for (int64_t i = 0; i < dim; i++)
    squares += y[i] * y[i] / (double)dim;
  for (int64_t i = 0; i < dim && norm >= 0; i++)
    y[i] = rounded(c->o.dtype,
                   y[i] / sqrt(squares + h->epsilon) * hr_number_load(c->o.dtype, weight->host, (size_t)(norm + i)));
  for (int64_t i = 0; i < half; i++) {
    double *first = &y[h->interleaved ? 2 * i : i], *second = &y[h->interleaved ? 2 * i + 1 : half + i];
    const size_t row = (size_t)(position * h->rotated + i);
    const double cosine = hr_number_load(c->o.dtype, c->angles.host, row);
    const double sine = hr_number_load(c->o.dtype, c->angles.host, row + (size_t)half);
    turned[0] = *first * cosine - *second * sine, turned[1] = *second * cosine + *first * sine;
    *first = turned[0], *second = turned[1];
  }
}

/* A norm's results may be rounded to the other neighbour before they are turned. */
static void compare_head(const heads_case *c, const char *what, const void *found, int64_t at, const double *expected)
{
  for (int64_t i = 0; i < c->o.qk_dim; i++) {
    const double x = hr_number_load(c->o.dtype, found, (size_t)(at + i));
    const double bound = hr_dtype_rounding_error(c->o.dtype, 4) + 1e-5;
    if (!(fabs(x - expected[i]) <= bound) && !(isnan(x) && isnan(expected[i])))
      fail_msg("%s %s, dim %d, rotated %d%s: [%d + %d] is %g, exactly %g", hr_dtype_name(c->o.dtype), what,
               (int)c->o.qk_dim, (int)c->heads.rotated, c->heads.interleaved ? ", neighbours" : "", (int)at, (int)i, x,
               expected[i]);
  }
}

/* Tokens of the cache before one of a slot's, as kernels/kv_cache_place.cuh. */
static int64_t place_of(const hr_kv_cache *cache, int64_t slot, int64_t position)
{
  const int32_t *positions = cache->list + SLOTS + 1, *places = positions + SLOTS;
  return (int64_t)cache->list[places[slot] + position / PAGE - positions[slot] / PAGE] * PAGE + position % PAGE;
}

static void compare_token(const heads_case *c, const void *k_cache, const void *v_cache, int64_t slot, int64_t row,
                          int64_t position)
{
  const hr_kv_heads *h = &c->heads;
  const int64_t dim = c->o.qk_dim, k_width = c->o.k_heads * dim, v_width = c->o.v_heads * c->o.v_dim;
  const int64_t place = place_of(c->cache, slot, position);
  double expected[256];
  for (int64_t head = 0; head < h->q_heads; head++) {
    expect_head(c, &c->q, c->shift + row * h->q_row + head * dim, &c->q_norm, h->q_norm ? head * h->norm_stride : -1,
                position, expected);
    compare_head(c, "Q", c->q_to.host, (row * h->q_heads + head) * dim, expected);
  }
  for (int64_t head = 0; head < c->o.k_heads; head++) {
    expect_head(c, &c->k, row * (k_width + SPARE) + head * dim, &c->k_norm, h->k_norm ? head * h->norm_stride : -1,
                position, expected);
    compare_head(c, "K in the cache", k_cache, place * k_width + head * dim, expected);
    if (c->copies_k)
      compare_head(c, "K beside the cache", c->k_to.host, row * k_width + head * dim, expected);
  }
  const size_t element = hr_dtype_bytes(c->o.dtype);
  assert_memory_equal((const char *)v_cache + (size_t)(place * v_width) * element,
                      (const char *)c->v.host + (size_t)(row * (v_width + SPARE)) * element, (size_t)v_width * element);
}

static void compare_all(heads_case *c)
{
  tensor k = {.buffer = c->cache->k, .bytes = hr_buffer_bytes(c->cache->k)};
  tensor v = {.buffer = c->cache->v, .bytes = hr_buffer_bytes(c->cache->v)};
  int64_t row = 0;
  k.host = malloc(k.bytes), v.host = malloc(v.bytes);
  assert_true(k.host && v.host);
  fetch(&k);
  fetch(&v);
  fetch(&c->q_to);
  fetch(&c->k_to);
  for (int64_t slot = 0; slot < SLOTS; slot++)
    for (int64_t i = 0; i < added[slot]; i++)
      compare_token(c, k.host, v.host, slot, row++, before[slot] + i);
  free(k.host);
  free(v.host);
}

static void make_tensors(heads_case *c, int64_t tokens, double special)
{
  hr_error error;
  hr_kv_heads *h = &c->heads;
  const hr_dtype dtype = c->o.dtype;
  const int64_t dim = c->o.qk_dim, heads = hr_max64(h->q_heads, c->o.k_heads);
  h->q_row = h->q_heads * dim + SPARE;
  c->q = random_tensor(dtype, 1, c->shift + tokens * h->q_row);
  c->k = random_tensor(dtype, 2, tokens * (c->o.k_heads * dim + SPARE));
  c->v = random_tensor(dtype, 3, tokens * (c->o.v_heads * c->o.v_dim + SPARE));
  c->q_norm = random_tensor(dtype, 4, heads * dim), c->k_norm = random_tensor(dtype, 5, heads * dim);
  c->angles = random_tensor(dtype, 6, POSITIONS * hr_max64(1, h->rotated));
  c->q_to = tensor_of((size_t)(tokens * h->q_heads * dim) * hr_dtype_bytes(dtype));
  c->k_to = tensor_of((size_t)(tokens * c->o.k_heads * dim) * hr_dtype_bytes(dtype));
  if (special != 0)
    hr_number_store(dtype, c->q.host, (size_t)(c->shift + h->q_row), special);
  assert_ok(hr_buffer_write(c->q.buffer, c->q.host, c->q.bytes, &error), error);
  h->q = (const char *)hr_buffer_data(c->q.buffer) + (size_t)c->shift * hr_dtype_bytes(dtype);
  h->q_to = hr_buffer_data(c->q_to.buffer);
  h->k_to = c->copies_k ? hr_buffer_data(c->k_to.buffer) : NULL;
  h->q_norm = h->q_norm ? hr_buffer_data(c->q_norm.buffer) : NULL;
  h->k_norm = h->k_norm ? hr_buffer_data(c->k_norm.buffer) : NULL;
  h->angles = hr_buffer_data(c->angles.buffer);
}

static void check_heads(heads_case *c, double special)
{
  static const int64_t slots[] = {0, 1};
  hr_error error;
  hr_kv_append a = hr_kv_append_default();
  void *stream = hr_device_stream(device);
  int64_t slot;
  make_tensors(c, added[0] + added[1], special);
  assert_ok(hr_kv_cache_create(device, &c->o, &c->cache, &error), error);
  for (int i = 0; i < SLOTS; i++)
    assert_ok(hr_kv_cache_add(c->cache, &slot, &error), error);
  a.count = SLOTS, a.slots = slots, a.tokens = before;
  assert_ok(hr_kv_cache_grow(c->cache, &a, stream, &error), error);
  a.tokens = added;
  assert_ok(hr_kv_cache_grow(c->cache, &a, stream, &error), error);
  a.k = hr_buffer_data(c->k.buffer), a.v = hr_buffer_data(c->v.buffer);
  a.k_row = c->o.k_heads * c->o.qk_dim + SPARE, a.v_row = c->o.v_heads * c->o.v_dim + SPARE;
  assert_ok(hr_kv_cache_write_heads(c->cache, &a, &c->heads, 0, stream, &error), error);
  compare_all(c);
  hr_kv_cache_free(c->cache);
  tensor *const all[] = {&c->q, &c->k, &c->v, &c->q_norm, &c->k_norm, &c->angles, &c->q_to, &c->k_to};
  for (int i = 0; i < 8; i++)
    tensor_free(all[i]);
}

/* Heads of Q and K, dim, rotated: words and elements, parts that are not rotated, a whole warp's and less. */
static void a_gpu_writes_heads_normed_and_rotated(void **state)
{
  (void)state;
  static const int64_t sizes[][4] = {{4, 2, 128, 128}, {3, 1, 64, 32}, {2, 2, 72, 36}, {5, 1, 80, 70},
                                     {2, 1, 256, 256}, {1, 3, 40, 0},  {4, 4, 33, 6}};
  static const hr_dtype dtypes[] = {HR_BF16, HR_FP32, HR_FP16};
  static const double specials[] = {0, (double)NAN, 0, 0, (double)INFINITY};
  static const int something;
  if (!device->backend->appends_heads)
    return;
  for (int i = 0; i < 42; i++) {
    const int64_t *size = sizes[i % 7];
    heads_case c = {.o = hr_kv_cache_options_default(),
                    .copies_k = i % 2,
                    .shift = i % 5 == 1,
                    .heads = {.q_heads = size[0],
                              .rotated = size[3],
                              .interleaved = i / 7 % 3 == 1,
                              .norm_stride = i % 4 == 3 ? size[2] : 0,
                              .epsilon = 0.125,
                              .q_norm = i % 3 ? &something : NULL,
                              .k_norm = i % 3 ? &something : NULL}};
    c.o.k_heads = c.o.v_heads = size[1], c.o.qk_dim = size[2], c.o.v_dim = size[2];
    c.o.dtype = dtypes[(i + i / 7) % 3];
    c.o.page_size = PAGE, c.o.slots = SLOTS, c.o.tokens = POSITIONS;
    if (test_takes(i))
      check_heads(&c, i % 3 ? specials[i % 5] : 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_gpu_writes_heads_normed_and_rotated)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
