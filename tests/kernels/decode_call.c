/* SPDX-License-Identifier: Apache-2.0 */
#include "decode_call.h"

#include "base/checked.h"
#include "runtime/device/kernel.h"
#include "runtime/device/kv_format.h"
#include "runtime/device/number.h"
#include "runtime/device/plan.h"
#include "runtime/device/problem.h"
#include "runtime/measure/error_bounds.h"

#include <headroom/buffer.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 256 /* bytes before and behind O */
#define POISON 0xFF
#define DEFINITION_FLOPS_MOST 600000

/* Host copies of a call's operands. `tokens`: K and V of each sequence in order, packed, as numbers without scales. */
typedef struct call {
  const decode_setup *setup;
  hr_operands operands;
  void *images[HR_OPERANDS_MAX]; /* as on the device */
  size_t o;                      /* index of O */
  double *queries;               /* [batch][q_len][q_heads][qk_dim] */
  double *k_tokens, *v_tokens;   /* [batch][kv_len][heads][dim] */
  int32_t *pages;
  float *sinks, *lse;
  hr_buffer *buffers[HR_OPERANDS_MAX + 3]; /* and log-sum-exp, lengths, pages */
} call;

static void *poisoned(size_t bytes)
{
  void *image = malloc(bytes);
  assert_non_null(image);
  return memset(image, POISON, bytes);
}

static int64_t length_of(const decode_setup *s, int64_t sequence)
{
  return s->lengths ? s->lengths[sequence] : s->d.kv_len;
}

/* ---- operands ---- */

static void make_pages(call *c)
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

static void *scales_of(const call *c, hr_operand_kind kind)
{
  for (size_t i = 0; i < c->operands.count; i++)
    if (c->operands.kinds[i] == kind)
      return c->images[i];
  return NULL;
}

static cached cached_of(const call *c, bool k)
{
  const hr_decode *d = &c->setup->d;
  hr_operand_kind kind = k ? HR_OPERAND_K_SCALES : HR_OPERAND_V_SCALES;
  cached x = k ? (cached){d->k_heads, d->qk_dim, hr_decode_k_strides(d), hr_decode_k_scale_strides(d), c->images[1],
                          NULL,       false}
               : (cached){d->v_heads, d->v_dim, hr_decode_v_strides(d), hr_decode_v_scale_strides(d), c->images[2],
                          NULL,       false};
  x.whole = k && c->setup->whole_numbers;
  x.scales = c->setup->inline_scales ? (float *)(void *)(x.elements + x.dim) : scales_of(c, kind);
  return x;
}

static bool special_is_a_scale(const hr_decode *d)
{
  return d->cache_format != HR_KV_UNQUANTIZED && d->cache_scales == HR_KV_SCALE_TOKEN;
}

/* Where head 0 of a token is. */
static int64_t place_of(const call *c, hr_kv_strides s, int64_t sequence, int64_t token)
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
    ((int8_t *)to)[i] = (int8_t)(random * 128); /* −128 is allowed, though no append writes it */
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
static double *make_tokens(const call *c, uint64_t seed, const cached *x)
{
  const hr_decode *d = &c->setup->d;
  size_t element = hr_decode_cache_bytes(d), dim = (size_t)x->dim;
  bool by_token = d->cache_scales == HR_KV_SCALE_TOKEN;
  double *tokens = malloc((size_t)(d->batch * d->kv_len * x->heads * x->dim + 1) * sizeof *tokens);
  assert_non_null(tokens);
  for (int64_t b = 0; b < d->batch; b++)
    for (int64_t t = 0; t < length_of(c->setup, b); t++)
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
static void set_special(const call *c, double value, const cached *x, double *tokens)
{
  const hr_decode *d = &c->setup->d;
  hr_dtype dtype = d->cache_format == HR_KV_FP8 ? HR_FP8_E4M3 : d->dtype;
  for (int64_t b = 0; b < d->batch; b++) {
    int64_t t = length_of(c->setup, b) - 1;
    if (t < 0)
      continue;
    double *token = tokens + (b * d->kv_len + t) * x->heads * x->dim;
    if (special_is_a_scale(d)) {
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

static void make_queries(call *c)
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
        char *to = (char *)c->images[0] + at * element;
        make_numbers(d->dtype, c->setup->whole_numbers, c->setup->seed + 1, first, dim, to);
        hr_numbers_load(d->dtype, c->images[0], at, dim, c->queries + first);
      }
}

static void make_images(call *c)
{
  const hr_decode *d = &c->setup->d;
  c->operands = hr_problem_operands(&(hr_problem){.operation = HR_OPERATION_DECODE, .dtype = d->dtype, .decode = *d});
  c->o = c->operands.count - 1;
  c->operands.bytes[c->o] += 2 * GUARD;
  for (size_t i = 1; i < 3 && c->setup->inline_scales; i++)
    c->operands.bytes[i] += sizeof(float); /* behind the last head */
  for (size_t i = 0; i < c->operands.count; i++)
    c->images[i] = poisoned(c->operands.bytes[i]);
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
  for (size_t i = 2; i < c->o; i++) {
    if (c->operands.kinds[i] == HR_OPERAND_SINKS) {
      c->sinks = c->images[i];
      hr_numbers_uniform(HR_FP32, c->setup->seed + 4, 0, (size_t)d->q_heads, c->sinks);
    }
  }
}

/* ---- the run ---- */

/* `offset` bytes behind the start of a buffer. */
static hr_buffer *upload_at(hr_device *device, const void *from, size_t bytes, size_t offset)
{
  hr_buffer *buffer = NULL;
  hr_error error;
  size_t size = offset + bytes > 0 ? offset + bytes : 1;
  char *image = poisoned(size);
  if (bytes > 0)
    memcpy(image + offset, from, bytes);
  assert_ok(hr_buffer_create(device, size, &buffer, &error), error);
  assert_ok(hr_buffer_write(buffer, image, size, &error), error);
  free(image);
  return buffer;
}

static hr_buffer *upload(hr_device *device, const void *from, size_t bytes)
{
  return upload_at(device, from, bytes, 0);
}

static hr_decode_arguments make_arguments(call *c, hr_device *device, const hr_plan *plan)
{
  const hr_decode *d = &c->setup->d;
  const void *inputs[HR_OPERANDS_MAX];
  size_t rows = (size_t)(d->batch * d->q_len * d->q_heads);
  for (size_t i = 0; i < c->operands.count; i++) {
    size_t offset = c->setup->unaligned && i < 3 && i != c->o ? hr_dtype_bytes(d->dtype) : 0;
    c->buffers[i] = upload_at(device, c->images[i], c->operands.bytes[i], offset);
    inputs[i] = (const char *)hr_buffer_data(c->buffers[i]) + offset;
  }
  hr_decode_arguments x = hr_plan_decode_arguments(plan, inputs, (char *)hr_buffer_data(c->buffers[c->o]) + GUARD);
  if (c->setup->inline_scales) {
    x.k_scales = (const float *)((const char *)x.k + d->qk_dim);
    x.v_scales = (const float *)((const char *)x.v + d->v_dim);
  }
  c->lse = poisoned(rows * sizeof *c->lse);
  c->buffers[c->o + 1] = upload(device, c->lse, rows * sizeof *c->lse);
  x.lse = hr_buffer_data(c->buffers[c->o + 1]);
  if (c->setup->lengths) {
    c->buffers[c->o + 2] = upload(device, c->setup->lengths, (size_t)d->batch * sizeof *c->setup->lengths);
    x.lengths = hr_buffer_data(c->buffers[c->o + 2]);
  }
  x.pages = NULL;
  if (c->setup->shuffled) { /* also where each sequence has one page, which measurements do not shuffle */
    c->buffers[c->o + 3] = upload(device, c->pages, (size_t)(d->batch * d->table_pitch) * sizeof *c->pages);
    x.pages = hr_buffer_data(c->buffers[c->o + 3]);
  }
  return x;
}

static void run(call *c, hr_device *device, const hr_plan *plan)
{
  hr_buffer *workspace = NULL;
  hr_error error;
  hr_decode_arguments x = make_arguments(c, device, plan);
  if (hr_plan_workspace_bytes(plan) > 0) {
    assert_ok(hr_buffer_create(device, hr_plan_workspace_bytes(plan), &workspace, &error), error);
    assert_ok(hr_buffer_poison(workspace, HR_FP32, &error), error);
  }
  assert_ok(hr_plan_run_decode(plan, &x, workspace ? hr_buffer_data(workspace) : NULL, &error), error);
  assert_ok(hr_buffer_read(c->buffers[c->o], c->images[c->o], c->operands.bytes[c->o], &error), error);
  size_t rows = (size_t)(c->setup->d.batch * c->setup->d.q_len * c->setup->d.q_heads);
  assert_ok(hr_buffer_read(c->buffers[c->o + 1], c->lse, rows * sizeof *c->lse, &error), error);
  hr_buffer_free(workspace);
}

/* ---- the comparison ---- */

typedef struct row_place {
  int64_t sequence, query, head;
} row_place;

static char *o_row(const call *c, row_place at)
{
  const hr_decode *d = &c->setup->d;
  hr_strides s = hr_decode_o_strides(d);
  int64_t offset = at.sequence * s.batch + at.query * s.row + at.head * s.head;
  return (char *)c->images[c->o] + GUARD + (size_t)offset * hr_dtype_bytes(d->dtype);
}

/* With top_k: the same tokens without pages, in fp64. Whole numbers leave no doubt about which keys are chosen. */
static void selected_row(const call *c, row_place at, double *scratch, hr_reference_query *row, double *swapped)
{
  hr_decode d = c->setup->d;
  hr_decode_arguments x = hr_decode_arguments_default();
  hr_error error;
  d.dtype = HR_FP64, d.cache_format = HR_KV_UNQUANTIZED;
  d.q_strides = (hr_strides){0}, d.k_strides = d.v_strides = (hr_kv_strides){0};
  assert_ok(hr_decode_set_pages(&d, 0, &error), error);
  x.q = c->queries, x.k = c->k_tokens, x.v = c->v_tokens;
  x.lengths = c->setup->lengths, x.sinks = c->sinks;
  hr_reference_decode_row(&d, &x, at.sequence, at.query, at.head, scratch, row);
  double score_error = hr_attention_score_error_bound(c->setup->d.dtype, d.qk_dim, row);
  if (!c->setup->whole_numbers)
    hr_reference_decode_swaps(&d, &x, at.sequence, at.query, at.head, score_error, row->lse, scratch, swapped);
}

/* The same sequence as one attention call, in fp64. */
static void reference_row(const call *c, row_place at, double *scratch, hr_reference_query *row)
{
  const hr_decode *d = &c->setup->d;
  hr_attention a = hr_attention_default();
  a.q_len = d->q_len, a.kv_len = length_of(c->setup, at.sequence);
  a.q_heads = d->q_heads, a.k_heads = d->k_heads, a.v_heads = d->v_heads;
  a.qk_dim = d->qk_dim, a.v_dim = d->v_dim;
  a.dtype = HR_FP64;
  a.window = d->window;
  a.scale = d->scale, a.softcap = d->softcap;
  if (d->latent)
    a.v_strides = (hr_strides){.batch = 1, .row = d->qk_dim, .head = d->qk_dim};
  int64_t before = at.sequence * d->kv_len;
  hr_attention_arguments x = hr_attention_arguments_default();
  x.q = c->queries + at.sequence * d->q_len * d->q_heads * d->qk_dim;
  x.k = c->k_tokens + before * d->k_heads * d->qk_dim;
  x.v = d->latent ? x.k : c->v_tokens + before * d->v_heads * d->v_dim;
  hr_reference_attention_row(&a, &x, 0, at.query, at.head, scratch, row);
  if (!d->sinks)
    return;
  double sink = (double)c->sinks[at.head], larger = fmax(sink, row->lse);
  double lse = isnan(row->lse) ? row->lse : larger + log(exp(sink - larger) + exp(row->lse - larger));
  double share = isinf(row->lse) ? 1 : exp(row->lse - lse);
  for (int64_t i = 0; i < d->v_dim; i++)
    row->out[i] *= share, row->norm[i] *= share;
  row->lse = lse;
}

/* What is not finite in V of a token that a row does not see may turn its column into NaN: 0 · ∞. One among the scales
 * may do so to all columns. */
static bool may_be_nan(const call *c, row_place at, int64_t column)
{
  const hr_decode *d = &c->setup->d;
  bool in_v = c->setup->special == (d->latent ? DECODE_NAN_IN_K : DECODE_INFINITY_IN_V);
  return in_v && (special_is_a_scale(d) || column == 0) && at.query < d->q_len - 1;
}

static bool near(double found, double expected, double bound)
{
  if (!isfinite(expected))
    return isnan(expected) ? isnan(found) : isnan(found) || found == expected;
  return fabs(found - expected) <= bound;
}

static void compare_row(const call *c, const char *kernel, row_place at, double *scratch, hr_reference_query *row)
{
  const hr_decode *d = &c->setup->d;
  double *swapped = row->norm + d->v_dim; /* 0 without top_k */
  if (d->top_k > 0)
    selected_row(c, at, scratch, row, swapped);
  else
    reference_row(c, at, scratch, row);
  char *o = o_row(c, at);
  for (int64_t i = 0; i < d->v_dim; i++) {
    double found = hr_number_load(d->dtype, o, (size_t)i);
    double bound = isfinite(row->out[i]) ? hr_attention_error_bound(d->dtype, d->qk_dim, row, i) : 0;
    bool either = !isfinite(swapped[i]); /* an infinity of V may be chosen */
    if (!either && !near(found, row->out[i], bound + swapped[i]) && !(isnan(found) && may_be_nan(c, at, i)))
      fail_msg("%s %s: q %" PRId64 " heads %" PRId64 "/%" PRId64 "/%" PRId64 " dims %" PRId64 "/%" PRId64
               " pages of %" PRId64 ", window %" PRId64 ", top_k %" PRId64
               ", sinks %d, soft cap %g, scale %g: sequence "
               "%" PRId64 " of %" PRId64 " tokens, query %" PRId64 ", head %" PRId64 ", column %" PRId64
               ": %g, expected %g ± %g",
               kernel, hr_dtype_name(d->dtype), d->q_len, d->q_heads, d->k_heads, d->v_heads, d->qk_dim, d->v_dim,
               d->page_size, d->window, d->top_k, d->sinks, (double)d->softcap, (double)d->scale, at.sequence,
               length_of(c->setup, at.sequence), at.query, at.head, i, found, row->out[i], bound);
  }
  double lse = (double)c->lse[(at.sequence * d->q_len + at.query) * d->q_heads + at.head];
  double bound = isfinite(row->lse) ? hr_attention_lse_error_bound(d->dtype, d->qk_dim, row) : 0;
  if (!near(lse, row->lse, bound))
    fail_msg("%s %s: sequence %" PRId64 ", query %" PRId64 ", head %" PRId64 ": log-sum-exp %g, expected %g ± %g",
             kernel, hr_dtype_name(d->dtype), at.sequence, at.query, at.head, lse, row->lse, bound);
}

/* Clears the rows of O and then expects poison everywhere. */
static void check_gaps(const call *c, const char *kernel)
{
  const hr_decode *d = &c->setup->d;
  size_t row = (size_t)d->v_dim * hr_dtype_bytes(d->dtype);
  for (int64_t b = 0; b < d->batch; b++)
    for (int64_t q = 0; q < d->q_len; q++)
      for (int64_t h = 0; h < d->q_heads; h++)
        memset(o_row(c, (row_place){b, q, h}), POISON, row);
  const unsigned char *image = c->images[c->o];
  for (size_t i = 0; i < c->operands.bytes[c->o]; i++)
    if (image[i] != POISON)
      fail_msg("%s: byte %zu of %zu, which is no result, was written", kernel, i, c->operands.bytes[c->o]);
}

static void compare(const call *c, const char *kernel, int64_t multiply_adds)
{
  const hr_decode *d = &c->setup->d;
  int64_t rows = d->batch * d->q_len * d->q_heads, cost = hr_max64(1, d->kv_len * (d->qk_dim + d->v_dim));
  int64_t step = hr_max64(1, rows / hr_max64(2, multiply_adds / cost));
  double *scratch = calloc(hr_reference_decode_scratch(d) + 3 * (size_t)d->v_dim, sizeof *scratch);
  assert_non_null(scratch);
  hr_reference_query row = {.out = scratch + hr_reference_decode_scratch(d)};
  row.norm = row.out + d->v_dim;
  for (int64_t i = 0; i < rows; i += i + 1 < rows && i + step >= rows ? rows - 1 - i : step)
    compare_row(c, kernel, (row_place){i / d->q_heads / d->q_len, i / d->q_heads % d->q_len, i % d->q_heads}, scratch,
                &row);
  free(scratch);
  check_gaps(c, kernel);
}

/* The definition is too slow for long contexts, of which it needs no test. */
static bool takes_long(const char *kernel, const hr_decode *d)
{
  int64_t flops = 0;
  bool slow = strcmp(kernel, "decode_naive") == 0 || strcmp(kernel, "decode_reference") == 0;
  return slow && (hr_decode_flops(d, &flops) != HR_OK || flops > DEFINITION_FLOPS_MOST);
}

bool decode_try(hr_device *device, const char *kernel, const decode_setup *setup, int64_t multiply_adds)
{
  call c = {.setup = setup};
  hr_error error;
  assert_ok(hr_decode_check(&setup->d, &error), error);
  if (takes_long(kernel, &setup->d))
    return false;
  hr_plan *plan = NULL;
  hr_status status = hr_plan_decode(device, &setup->d, kernel, &plan, &error);
  if (status == HR_ERROR_UNSUPPORTED)
    return false;
  assert_ok(status, error);
  make_images(&c);
  run(&c, device, plan);
  hr_plan_free(plan);
  compare(&c, kernel, multiply_adds);
  for (size_t i = 0; i < c.operands.count; i++)
    free(c.images[i]);
  for (size_t i = 0; i < sizeof c.buffers / sizeof *c.buffers; i++)
    hr_buffer_free(c.buffers[i]);
  free(c.queries);
  free(c.k_tokens);
  free(c.v_tokens);
  free(c.pages);
  free(c.lse);
  return true;
}

void decode_each_kernel(void (*check)(hr_device *device, const char *kernel, hr_dtype dtype))
{
  size_t count, opened = 0;
  const hr_kernel_info *kernels = hr_kernels(&count);
  const char *asked = getenv("HEADROOM_TEST_KERNEL");
  for (size_t i = 0; i < count; i++) {
    if (strcmp(kernels[i].operation, "decode") != 0 || (asked && !hr_kernel_is(&kernels[i], asked)) ||
        (test_asks_for("gpu") && strcmp(kernels[i].device, "cuda") != 0))
      continue;
    hr_device *device = open_for_kernel(&kernels[i]);
    opened += device != NULL;
    int64_t formats = 0;
    for (int dtype = 0; device && dtype < HR_DTYPE_COUNT; dtype++)
      if (hr_has_word(kernels[i].dtypes, hr_dtype_name((hr_dtype)dtype)) && !test_leaves_out((hr_dtype)dtype) &&
          test_takes(formats++))
        check(device, kernels[i].name, (hr_dtype)dtype);
    hr_device_close(device);
  }
  assert_true(opened > 0 || test_asks_for("gpu"));
}
