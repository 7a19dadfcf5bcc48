/* SPDX-License-Identifier: Apache-2.0 */
/* Scores and values over the range of a format, for every decode kernel: one key that decides, however large its score
 * is, gives its row of V; one key alone gives it exactly; O is no larger than V. */
#include "call.h"
#include "emulated_tiles_kernels.h"

#include "shape/number.h"

#include <math.h>

#define HEADS 8
#define KEYS 300
#define TOP_K 32

/* What a kernel is for. */
typedef enum use { EVERY_KEY, SELECTED_KEYS, LATENT, USES } use;

typedef struct cache {
  hr_kv_format format;
  hr_kv_scales scales;
} cache;

static const cache caches[] = {
    {HR_KV_UNQUANTIZED, HR_KV_SCALE_HEAD}, {HR_KV_FP8, HR_KV_SCALE_HEAD}, {HR_KV_INT8, HR_KV_SCALE_TOKEN}};

/* ---- a call ---- */

/* Numbers of Q [head][dim], K and V [token][head][dim], of a quantized cache without the scales, which all heads and
 * tokens share; O [head][dim] and the log-sum-exp [head] after the run. */
typedef struct decode_scores {
  hr_device *device;
  const char *kernel;
  hr_decode d;
  double *q, *k, *v, *o;
  float k_scale, v_scale, sink, lse[HEADS];
} decode_scores;

static bool quantized(const decode_scores *c)
{
  return c->d.cache_format != HR_KV_UNQUANTIZED;
}

static int64_t k_elements(const decode_scores *c)
{
  return c->d.kv_len * c->d.k_heads * c->d.qk_dim;
}

static int64_t v_elements(const decode_scores *c)
{
  return c->d.latent ? 0 : c->d.kv_len * c->d.v_heads * c->d.v_dim;
}

static decode_scores open_scores(hr_device *device, const char *kernel, hr_dtype dtype, use what, const cache *format)
{
  decode_scores c = {.device = device, .kernel = kernel, .d = hr_decode_default(), .k_scale = 1, .v_scale = 1};
  hr_error error;
  c.d.dtype = dtype, c.d.kv_len = KEYS, c.d.scale = 1;
  c.d.cache_format = format->format, c.d.cache_scales = format->scales;
  c.d.top_k = what == SELECTED_KEYS ? TOP_K : 0;
  c.d.latent = what == LATENT;
  c.d.q_heads = HEADS, c.d.k_heads = c.d.latent ? 1 : 2, c.d.v_heads = c.d.latent ? 1 : 4;
  c.d.qk_dim = c.d.latent ? 192 : 32, c.d.v_dim = c.d.latent ? 128 : 40;
  assert_ok(hr_decode_set_pages(&c.d, 0, &error), error);
  c.q = calloc((size_t)(HEADS * c.d.qk_dim), sizeof *c.q);
  c.k = calloc((size_t)k_elements(&c), sizeof *c.k);
  c.v = calloc((size_t)v_elements(&c) + 1, sizeof *c.v);
  c.o = calloc((size_t)(HEADS * c.d.v_dim), sizeof *c.o);
  assert_true(c.q && c.k && c.v && c.o);
  return c;
}

static void close_scores(decode_scores *c)
{
  free(c->q);
  free(c->k);
  free(c->v);
  free(c->o);
}

static void store(const decode_scores *c, place *to, bool cached, const double *from, int64_t count)
{
  hr_dtype dtype = cached && c->d.cache_format == HR_KV_FP8 ? HR_FP8_E4M3 : c->d.dtype;
  for (int64_t i = 0; i < count; i++)
    if (cached && c->d.cache_format == HR_KV_INT8)
      to->host[i] = (char)from[i];
    else
      hr_number_store(dtype, to->host, (size_t)i, from[i]);
}

static void store_floats(place *to, float value)
{
  for (size_t i = 0; i < to->bytes / sizeof value; i++)
    hr_number_store(HR_FP32, to->host, i, (double)value);
}

static void store_operands(const decode_scores *c, call *of)
{
  store(c, &of->places[0], false, c->q, HEADS * c->d.qk_dim);
  store(c, &of->places[1], true, c->k, k_elements(c));
  store(c, &of->places[2], true, c->v, v_elements(c)); /* none of latent attention */
  for (size_t i = 0; i < of->operands.count; i++) {
    switch (of->operands.kinds[i]) {
    case HR_OPERAND_K_SCALES: store_floats(&of->places[i], c->k_scale); break;
    case HR_OPERAND_V_SCALES: store_floats(&of->places[i], c->v_scale); break;
    case HR_OPERAND_SINKS: store_floats(&of->places[i], c->sink); break;
    default: break;
    }
  }
}

/* Returns false if the kernel refuses the problem. */
static bool run(decode_scores *c)
{
  call of;
  hr_error error;
  const hr_problem problem = hr_decode_problem(&c->d);
  call_open(c->device, c->kernel, &problem, NULL, 1, &of);
  place lse = place_make(c->device, sizeof c->lse, (placing){.alignment = sizeof(float)});
  hr_plan *plan = NULL;
  hr_status status = hr_plan_decode(c->device, &c->d, c->kernel, &plan, &error);
  if (status == HR_OK) {
    store_operands(c, &of);
    hr_arguments x = call_arguments(&of);
    x.decode.lse = lse.data;
    call_run_with(&of, plan, &x, NULL);
    place_bring(&lse);
    memcpy(c->lse, lse.host, sizeof c->lse);
    hr_numbers_load(c->d.dtype, of.output->host, 0, (size_t)(HEADS * c->d.v_dim), c->o);
  } else if (status != HR_ERROR_UNSUPPORTED) {
    fail_msg("%s: %s", c->kernel, error.message);
  }
  hr_plan_free(plan);
  place_free(&lse);
  call_close(&of);
  return status == HR_OK;
}

/* ---- what a call gives ---- */

/* The stored element, and what it stands for. */
static double *v_element(const decode_scores *c, int64_t key, int64_t head, int64_t dim)
{
  if (c->d.latent)
    return c->k + key * c->d.qk_dim + dim;
  return c->v + (key * c->d.v_heads + head / (HEADS / c->d.v_heads)) * c->d.v_dim + dim;
}

static double value_of(const decode_scores *c, int64_t key, int64_t head, int64_t dim)
{
  return *v_element(c, key, head, dim) * (double)(c->d.latent ? c->k_scale : c->v_scale);
}

static void assert_near(const decode_scores *c, const char *what, int64_t head, double found, double expected,
                        double allowed)
{
  if (!(fabs(found - expected) <= allowed * fabs(expected) + 0x1p-120))
    fail_msg(
        "%s %s, cache %d, top_k %d, latent %d, scale %g, soft cap %g, sinks %d: %s of head %d is %.9g, expected %.9g",
        c->kernel, hr_dtype_name(c->d.dtype), (int)c->d.cache_format, (int)c->d.top_k, c->d.latent, (double)c->d.scale,
        (double)c->d.softcap, c->d.sinks, what, (int)head, found, expected);
}

static void assert_row_is(const decode_scores *c, int64_t head, int64_t key)
{
  for (int64_t i = 0; i < c->d.v_dim; i++)
    assert_near(c, "O", head, c->o[head * c->d.v_dim + i], value_of(c, key, head, i), weight_rounding(c->d.dtype));
}

static void for_each_use(hr_device *device, const char *kernel, hr_dtype dtype, bool (*check)(decode_scores *c))
{
  bool ran = false;
  for (int what = 0; what < USES; what++)
    for (int i = 0; i < LENGTH(caches); i++) {
      decode_scores c = open_scores(device, kernel, dtype, (use)what, &caches[i]);
      ran = check(&c) || ran;
      close_scores(&c);
    }
  assert_true(ran);
}

/* ---- scores ---- */

/* The key with the largest score of a head. */
static int64_t winner_of(const decode_scores *c, int64_t head)
{
  return head * (c->d.kv_len - 1) / (HEADS - 1);
}

/* Small numbers that every format has. */
static double small_number(int64_t i)
{
  return (double)(i * 7 % 15 - 7);
}

/* Head i has `q` as element i and no other, so that its scores are that times the keys' elements i: `most` for the
 * winner, `other` for all others. */
static void set_scores(decode_scores *c, double q, double most, double other)
{
  const hr_decode *d = &c->d;
  c->k_scale = quantized(c) ? ldexpf(1, ilogb(fmax(fabs(most), fabs(other))) - 6) : 1; /* elements are 64 to 127 */
  for (int64_t i = 0; i < k_elements(c); i++) {
    int64_t key = i / d->qk_dim / d->k_heads, dim = i % d->qk_dim;
    double k = key == winner_of(c, dim) ? most : other;
    c->k[i] = dim < HEADS ? k / (double)c->k_scale : small_number(i);
  }
  for (int64_t i = 0; i < v_elements(c); i++)
    c->v[i] = small_number(i);
  for (int64_t i = 0; i < HEADS * d->qk_dim; i++)
    c->q[i] = i / d->qk_dim == i % d->qk_dim ? q : 0;
}

static bool check_scores(decode_scores *c, double q, double most, double other, double score)
{
  set_scores(c, q, most, other);
  if (!run(c))
    return false;
  for (int64_t head = 0; head < HEADS; head++) {
    assert_row_is(c, head, winner_of(c, head));
    assert_near(c, "log-sum-exp", head, (double)c->lse[head], score, 0x1p-20);
  }
  return true;
}

/* Exponents of the largest power of 2 of Q, and of an unquantized K. */
static int exponent_max(hr_dtype dtype)
{
  return dtype == HR_FP16 ? 15 : dtype == HR_FP8_E4M3 ? 8 : 64;
}

/* V of a latent cache whose scale makes scores large is large, too. */
static bool v_overflows(const decode_scores *c)
{
  return c->d.latent && quantized(c) && (c->d.dtype == HR_FP16 || c->d.dtype == HR_FP8_E4M3);
}

/* Scores of 2^10 to almost 2^128, or as far as the format goes. 1.75 and 1.25 are 112 and 80 in a quantized cache. */
static bool check_sizes_of(decode_scores *c)
{
  int most = exponent_max(c->d.dtype), last = most == 64 ? 127 : 2 * most,
      step = c->device->backend->own_memory ? 39 : 13;
  if (strcmp(c->kernel, "decode_latent_sm90") == 0 && last > 125)
    last = 125;
  bool ran = false;
  for (int e = last; e >= 10 && !v_overflows(c); e -= step)
    for (int sign = -1; sign <= 1; sign += 2) {
      double q = ldexp(sign, e / 2), k = ldexp(1, e - e / 2);
      ran = check_scores(c, q, sign > 0 ? 1.75 * k : 1.25 * k, sign > 0 ? 1.25 * k : 1.75 * k,
                         q * k * (sign > 0 ? 1.75 : 1.25));
    }
  return ran;
}

static void check_sizes(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for_each_use(device, kernel, dtype, check_sizes_of);
}

/* Neighbours in the format, of which the larger weighs e^32 times as much as the smaller or more. */
static bool check_neighbours_of(decode_scores *c)
{
  hr_dtype dtype = c->d.dtype;
  double gap = dtype == HR_FP32   ? 0x1p-23
               : dtype == HR_FP16 ? 0x1p-10
                                  : 0x1p-7,
         unit = dtype == HR_FP16 ? 0x1p14 : 0x1p20;
  bool ran = quantized(c) || (dtype != HR_FP32 && dtype != HR_BF16 && dtype != HR_FP16);
  for (int sign = -1; sign <= 1 && !quantized(c) && !ran; sign += 2)
    if (!check_scores(c, sign * unit, unit * 1.5, unit * (1.5 - sign * gap), sign * unit * unit * 1.5))
      return false;
  return true;
}

static void check_neighbours(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for_each_use(device, kernel, dtype, check_neighbours_of);
}

/* Scores that a scale makes large, and a soft cap of 2^60. */
static bool check_scale_and_cap_of(decode_scores *c)
{
  static const float scales[] = {0x1.6a09e6p30F, -0x1.6a09e6p30F, 0x1.6a09e6p100F, 0x1.6a09e6p-70F};
  if (v_overflows(c) || c->d.dtype == HR_FP8_E4M3)
    return true;
  bool ran = false;
  for (int i = 0; i < LENGTH(scales); i++) {
    double scale = (double)scales[i], unit = fabs(scale) < 1 ? 0x1p40 : 16;
    c->d.scale = scales[i];
    if (unit == 16 || c->d.dtype != HR_FP16)
      ran = check_scores(c, (scale < 0 ? -1 : 1) * unit, 1.75 * unit, -unit, fabs(scale) * 1.75 * unit * unit);
  }
  c->d.scale = 1, c->d.softcap = 0x1p60F;
  if (c->d.dtype != HR_FP16 && !quantized(c)) {
    check_scores(c, 0x1p40, 0x1p31, 0x1p10, 0x1p60);
    check_scores(c, -0x1p40, 0x1p10, 0x1p31, -0x1p60 * tanh(0x1p-10));
  }
  return ran;
}

static void check_scale_and_cap(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for_each_use(device, kernel, dtype, check_scale_and_cap_of);
}

/* ---- one key ---- */

/* A window of 1: the last key is all that a query sees. */
static bool check_one_key_of(decode_scores *c)
{
  c->d.window = 1;
  set_scores(c, 4, 2, 1.75);
  c->d.scale = 0.7F;
  bool ran = run(c);
  for (int64_t head = 0; ran && head < HEADS; head++)
    assert_row_is(c, head, c->d.kv_len - 1);
  return ran || c->d.top_k > 0; /* which is then no selection */
}

static void check_one_key(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for_each_use(device, kernel, dtype, check_one_key_of);
}

/* ---- values ---- */

/* decode.h: kernels that keep weights times scales in 16 bits limit the scales of V. */
static bool limits_scales(const decode_scores *c)
{
  return quantized(c) && c->d.cache_scales == HR_KV_SCALE_TOKEN && strstr(c->kernel, "_sm80");
}

/* Scores of `q` and up to `rise` times that more, from key to key, and V of ±7/8 of the largest number, with the signs
 * of its columns: O is that, or with a sink, which weighs as much as a key, n / (n + 1) of it for n keys. */
static bool check_mean(decode_scores *c, double q, double rise, bool sinks)
{
  const hr_decode *d = &c->d;
  double keys = (double)(d->top_k > 0 ? d->top_k : d->kv_len), share = sinks ? keys / (keys + 1) : 1;
  c->d.sinks = sinks, c->sink = (float)q;
  c->k_scale = c->v_scale = quantized(c) ? 0x1p121F : 1;
  for (int64_t i = 0; i < HEADS * d->qk_dim; i++)
    c->q[i] = i % d->qk_dim == d->qk_dim - 1 ? q : 0;
  for (int64_t i = 0; i < k_elements(c); i++)
    c->k[i] = i % d->qk_dim == d->qk_dim - 1 ? 1 + rise * (double)(i / d->qk_dim / d->k_heads) / KEYS : 0;
  for (int64_t key = 0; key < d->kv_len; key++)
    for (int64_t head = 0; head < HEADS; head += HEADS / d->v_heads)
      for (int64_t i = 0; i < d->v_dim; i++)
        *v_element(c, key, head, i) = (i % 2 ? -1 : 1) * (quantized(c) ? 112 : 0x1.cp127);
  if (!run(c))
    return false;
  for (int64_t i = 0; i < HEADS * d->v_dim; i++)
    assert_near(c, "the mean of equal numbers", i / d->v_dim, c->o[i] / 0x1p100,
                (i % d->v_dim % 2 ? -1 : 1) * 0x1.cp27 * share, d->dtype == HR_BF16 ? 0x1p-7 : 0x1p-16);
  return true;
}

static bool check_values_of(decode_scores *c)
{
  bool limited = strcmp(c->kernel, "decode_latent_sm90") == 0;
  if ((c->d.dtype != HR_FP32 && c->d.dtype != HR_BF16) || limits_scales(c))
    return true;
  bool ran = check_mean(c, 0, 0, false) && check_mean(c, 0, 0, true);
  if (ran && !quantized(c)) /* by less than what a kernel rescales for, and by more */
    ran = check_mean(c, 1, 5, false) && check_mean(c, 1, 12, false);
  if (ran && !limited && !quantized(c)) /* also where scores are so large that fp32 has no number between */
    ran = check_mean(c, 0x1p90, 0, false) && check_mean(c, -0x1p30, 0, true);
  return ran;
}

static void check_values(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for_each_use(device, kernel, dtype, check_values_of);
}

static const fact facts[] = {
    FACT(the_largest_score_decides_however_large_it_is, check_sizes),
    FACT(the_larger_of_neighbours_decides, check_neighbours),
    FACT(a_scale_and_a_soft_cap_may_make_scores_large, check_scale_and_cap),
    FACT(one_key_gives_its_value_exactly, check_one_key),
    FACT(a_mean_of_values_near_the_largest_number_is_finite, check_values),
};
const fact_group decode_scores_facts = {.name = "decode_scores",
                                        .operation = "decode",
                                        .facts = facts,
                                        .count = LENGTH(facts),
                                        .shares = EVERY_NTH,
                                        .emulated = &hr_decode_amx_emulated};
