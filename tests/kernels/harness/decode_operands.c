/* SPDX-License-Identifier: Apache-2.0 */
#include "decode_operands.h"

#include "runtime/device/kv_format.h"
#include "shape/number.h"

#include <headroom/experimental/decode.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t decode_length_of(const decode_setup *setup, int64_t sequence)
{
  return setup->lengths ? setup->lengths[sequence] : setup->d.kv_len;
}

static void make_pages(decode_operands *c)
{
  const hr_decode *d = &c->setup->d;
  int64_t count = d->batch * d->table_pitch;
  uint64_t state = c->setup->seed;
  int32_t *order = malloc((size_t)d->page_count * sizeof *order);
  assert_non_null(order);
  assert_true(count <= d->page_count);
  for (int64_t i = 0; i < d->page_count; i++)
    order[i] = (int32_t)i;
  for (int64_t i = d->page_count - 1; i > 0 && c->setup->shuffled; i--) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    int64_t j = (int64_t)((state >> 33) % (uint64_t)(i + 1));
    int32_t page = order[i];
    order[i] = order[j];
    order[j] = page;
  }
  c->pages = malloc((size_t)count * sizeof *c->pages);
  assert_non_null(c->pages);
  memcpy(c->pages, order, (size_t)count * sizeof *c->pages);
  free(order);
}

/* One of K and V: its elements, and the scales of a quantized cache, on the host. */
typedef struct cached {
  int64_t heads, dim;
  hr_kv_strides at, scale_at;
  char *elements;
  float *scales;
  bool whole; /* numbers: −1, 0, 1 */
} cached;

static float *floats_of(const decode_operands *c, hr_operand_kind kind)
{
  for (size_t i = 0; i < c->operands.count; i++)
    if (c->operands.kinds[i] == kind)
      return (float *)(void *)c->places[i].host;
  return NULL;
}

static cached cached_of(const decode_operands *c, bool k)
{
  const hr_decode *d = &c->setup->d;
  hr_operand_kind kind = k ? HR_OPERAND_K_SCALES : HR_OPERAND_V_SCALES;
  cached x =
      k ? (cached){d->k_heads, d->qk_dim, hr_decode_k_strides(d), hr_decode_k_scale_strides(d), c->places[1].host,
                   NULL,       false}
        : (cached){d->v_heads, d->v_dim, hr_decode_v_strides(d), hr_decode_v_scale_strides(d), c->places[2].host,
                   NULL,       false};
  x.whole = k && c->setup->whole_numbers;
  x.scales = c->setup->inline_scales ? (float *)(void *)(x.elements + x.dim) : floats_of(c, kind);
  return x;
}

bool decode_special_is_a_scale(const hr_decode *decode)
{
  return decode->cache_format != HR_KV_UNQUANTIZED && decode->cache_scales == HR_KV_SCALE_TOKEN;
}

/* Where head 0 of a token is. */
static int64_t place_of(const decode_operands *c, hr_kv_strides s, int64_t sequence, int64_t token)
{
  const hr_decode *d = &c->setup->d;
  int64_t page = c->pages[sequence * d->table_pitch + token / d->page_size];
  return page * s.page + token % d->page_size * s.token;
}

static void make_numbers(hr_dtype dtype, bool whole, uint64_t seed, size_t first, size_t count, void *to)
{
  hr_numbers_uniform(dtype, seed, first, count, to);
  for (size_t i = 0; whole && i < count; i++)
    hr_number_store(dtype, to, i, rint(hr_number_load(dtype, to, i)));
}

/* Random elements of a token's head; first: of the list of all tokens. */
static void make_elements(const hr_decode *d, bool whole, uint64_t seed, size_t first, size_t count, void *to)
{
  if (d->cache_format != HR_KV_INT8) {
    make_numbers(d->cache_format == HR_KV_FP8 ? HR_FP8_E4M3 : d->dtype, whole, seed, first, count, to);
    return;
  }
  for (size_t i = 0; i < count; i++) {
    float random;
    hr_numbers_uniform(HR_FP32, seed, first + i, 1, &random);
    ((int8_t *)to)[i] = (int8_t)(int)(random * 128); /* −128 is allowed, though no append writes it */
  }
}

/* A random scale for a token's head, or for a head: of 2^-3 to 2, at elements of the order of 1. */
static float make_scale(const hr_decode *d, uint64_t seed, size_t number)
{
  float random;
  hr_numbers_uniform(HR_FP32, seed + 1000, number, 1, &random);
  return exp2f(2 * random - 1) / (d->cache_format == HR_KV_INT8 ? 127 : 1);
}

/* Random tokens in order, written to their places in the cache, which is NaN elsewhere. */
static double *make_tokens(const decode_operands *c, uint64_t seed, const cached *x)
{
  const hr_decode *d = &c->setup->d;
  size_t element = hr_decode_cache_bytes(d), dim = (size_t)x->dim;
  bool by_token = d->cache_scales == HR_KV_SCALE_TOKEN;
  double *tokens = malloc((size_t)(d->batch * d->kv_len * x->heads * x->dim + 1) * sizeof *tokens);
  assert_non_null(tokens);
  for (int64_t b = 0; b < d->batch; b++)
    for (int64_t t = 0; t < decode_length_of(c->setup, b); t++)
      for (int64_t h = 0; h < x->heads; h++) {
        size_t number = (size_t)((b * d->kv_len + t) * x->heads + h),
               at = (size_t)(place_of(c, x->at, b, t) + h * x->at.head);
        make_elements(d, x->whole, seed, number * dim, dim, x->elements + at * element);
        hr_kv_elements_load(d->cache_format, d->dtype, x->elements, at, dim, tokens + number * dim);
        if (d->cache_format == HR_KV_UNQUANTIZED)
          continue;
        float scale = make_scale(d, seed, by_token ? number : (size_t)h);
        x->scales[place_of(c, x->scale_at, b, t) + h * x->scale_at.head] = scale;
        for (size_t i = 0; i < dim; i++)
          tokens[number * dim + i] *= (double)scale;
      }
  return tokens;
}

/* Makes one element of the last token of each sequence special, or its scale, in the list and in the cache. */
static void set_special(const decode_operands *c, double value, const cached *x, double *tokens)
{
  const hr_decode *d = &c->setup->d;
  hr_dtype dtype = d->cache_format == HR_KV_FP8 ? HR_FP8_E4M3 : d->dtype;
  for (int64_t b = 0; b < d->batch; b++) {
    int64_t t = decode_length_of(c->setup, b) - 1;
    if (t < 0)
      continue;
    double *token = tokens + (b * d->kv_len + t) * x->heads * x->dim;
    if (decode_special_is_a_scale(d)) {
      x->scales[place_of(c, x->scale_at, b, t)] = (float)value;
      for (int64_t i = 0; i < x->dim; i++)
        token[i] *= value;
      continue;
    }
    size_t at = (size_t)place_of(c, x->at, b, t);
    hr_number_store(dtype, x->elements, at, value);
    token[0] = hr_number_load(dtype, x->elements, at);
  }
}

static void make_queries(decode_operands *c)
{
  const hr_decode *d = &c->setup->d;
  hr_strides s = hr_decode_q_strides(d);
  size_t element = hr_dtype_bytes(d->dtype);
  c->queries = malloc((size_t)(d->batch * d->q_len * d->q_heads * d->qk_dim) * sizeof *c->queries);
  assert_non_null(c->queries);
  for (int64_t b = 0; b < d->batch; b++)
    for (int64_t q = 0; q < d->q_len; q++)
      for (int64_t h = 0; h < d->q_heads; h++) {
        size_t first = (size_t)(((b * d->q_len + q) * d->q_heads + h) * d->qk_dim), dim = (size_t)d->qk_dim;
        size_t at = (size_t)(b * s.batch + q * s.row + h * s.head);
        char *to = c->places[0].host + at * element;
        make_numbers(d->dtype, c->setup->whole_numbers, c->setup->seed + 1, first, dim, to);
        hr_numbers_load(d->dtype, c->places[0].host, at, dim, c->queries + first);
      }
}

/* At a guard page, where the host has one: its end is that of the memory. */
static void make_places(hr_device *device, decode_operands *c)
{
  const hr_decode *d = &c->setup->d;
  const hr_problem problem = hr_decode_problem(d);
  const size_t element = hr_dtype_bytes(d->dtype);
  const bool at_start = device->backend->own_memory;
  c->operands = hr_problem_operands(&problem);
  c->o = c->operands.count - 1;
  for (size_t i = 0; i <= c->o; i++) {
    bool shifted = c->setup->unaligned && i < 3 && i != c->o;
    size_t more = c->setup->inline_scales && (i == 1 || i == 2) ? sizeof(float) : 0; /* behind the last head */
    c->places[i] = place_make(device, c->operands.bytes[i] + more,
                              (placing){shifted ? element : 16, at_start || shifted, shifted ? element : 0});
  }
}

void decode_make_operands(hr_device *device, decode_operands *c)
{
  const hr_decode *d = &c->setup->d;
  make_places(device, c);
  make_pages(c);
  make_queries(c);
  const cached k = cached_of(c, true), v = cached_of(c, false);
  c->k_tokens = make_tokens(c, c->setup->seed + 2, &k);
  if (c->setup->special == DECODE_NAN_IN_K)
    set_special(c, (double)NAN, &k, c->k_tokens);
  if (!d->latent) {
    c->v_tokens = make_tokens(c, c->setup->seed + 3, &v);
    if (c->setup->special == DECODE_INFINITY_IN_V)
      set_special(c, (double)INFINITY, &v, c->v_tokens);
  }
  float *sinks = floats_of(c, HR_OPERAND_SINKS);
  if (sinks)
    hr_numbers_uniform(HR_FP32, c->setup->seed + 4, 0, (size_t)d->q_heads, sinks);
  c->sinks = sinks;
  float *slopes = floats_of(c, HR_OPERAND_SLOPES);
  if (slopes)
    hr_attention_alibi_slopes(d->q_heads, slopes);
  c->slopes = slopes;
}

void decode_free_operands(decode_operands *c)
{
  for (size_t i = 0; i < c->operands.count; i++)
    place_free(&c->places[i]);
  place *const others[] = {&c->lse, &c->lengths, &c->page_table, &c->page_starts};
  for (int64_t i = 0; i < LENGTH(others); i++)
    place_free(others[i]);
  free(c->queries);
  free(c->k_tokens);
  free(c->v_tokens);
  free(c->pages);
}
