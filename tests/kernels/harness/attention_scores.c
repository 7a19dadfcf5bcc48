/* SPDX-License-Identifier: Apache-2.0 */
/* Scores and values over the range of a format, for every attention kernel: one key that decides, however large its
 * score is, gives its row of V; one key alone gives it exactly; O is no larger than V. */
#include "attention_call.h"
#include "emulated_tiles_kernels.h"

#include <float.h>
#include <math.h>

#define QUERIES 24
#define HEADS 2

/* Several steps and chunks of every version on a CPU, a few tiles on a GPU. */
static int64_t keys_of(const hr_device *device)
{
  return device->backend->own_memory ? 150 : 600;
}

/* The key with the largest score of a query. */
static int64_t winner_of(const attention_call *c, int64_t query)
{
  return query * (c->a.kv_len - 1) / (QUERIES - 1);
}

/* Query i has `q` as element i and no other, so that its scores are that times the keys' elements i: `most` for the
 * winner, `other` for all others. */
static void set_scores(attention_call *c, double q, double most, double other)
{
  for (int64_t head = 0; head < HEADS; head++) {
    for (int64_t query = 0; query < QUERIES; query++)
      for (int64_t d = 0; d < QUERIES; d++)
        attention_set(c, ARRAY_Q, query, head, d, d == query ? q : 0);
    for (int64_t key = 0; key < c->a.kv_len; key++)
      for (int64_t d = 0; d < QUERIES; d++)
        attention_set(c, ARRAY_K, key, head, d, key == winner_of(c, d) ? most : other);
  }
}

static attention_setup call_of(const hr_device *device, hr_dtype dtype)
{
  attention_setup setup = {.a = hr_attention_default(), .seed = 70};
  setup.a.dtype = dtype;
  setup.a.mask = HR_MASK_NONE;
  setup.a.scale = 1;
  setup.a.q_len = setup.a.qk_dim = QUERIES, setup.a.kv_len = keys_of(device);
  setup.a.q_heads = setup.a.k_heads = setup.a.v_heads = HEADS, setup.a.v_dim = 40;
  return setup;
}

/* The scale of a head of Q, K or V in fp8. */
static double scale_of(const attention_call *c, int which, int64_t head)
{
  return c->scales[which] ? (double)c->scales[which][head] : 1;
}

static void assert_row_is(const attention_call *c, const char *kernel, int64_t query, int64_t head, int64_t key)
{
  char text[512];
  double allowed = weight_rounding(c->a.dtype);
  for (int64_t d = 0; d < c->a.v_dim; d++) {
    double found = attention_result(c, query, head, d);
    double expected = c->v[(key * HEADS + head) * c->a.v_dim + d] * scale_of(c, 2, head);
    if (!(fabs(found - expected) <= allowed * fabs(expected)))
      fail_msg("%s %s: [query %d, head %d, %d] is %.9g, expected %.9g", kernel, attention_words(c, text), (int)query,
               (int)head, (int)d, found, expected);
  }
}

static void check_scores(hr_device *device, const char *kernel, attention_setup setup, double q, double most,
                         double other, double score)
{
  attention_call c;
  char text[512];
  attention_open(device, &setup, &c);
  set_scores(&c, q, most, other);
  if (attention_run(&c, kernel))
    for (int64_t query = 0; query < QUERIES; query++)
      for (int64_t head = 0; head < HEADS; head++) {
        assert_row_is(&c, kernel, query, head, winner_of(&c, query));
        double lse = attention_lse(&c, 0, query, head),
               expected = score * scale_of(&c, 0, head) * scale_of(&c, 1, head);
        if (!(fabs(lse - expected) <= 0x1p-20 * fabs(expected)))
          fail_msg("%s %s: log-sum-exp [%d, %d] is %.9g, expected %.9g", kernel, attention_words(&c, text), (int)query,
                   (int)head, lse, expected);
      }
  attention_close(&c);
}

/* ---- scores ---- */

/* attention.h states the limits of these kernels. */
static bool fuses_scaling(const char *kernel, hr_dtype dtype)
{
  return strstr(kernel, "attention_flash_sm") || (strstr(kernel, "attention_blocked_cublaslt") && dtype != HR_FP32);
}

/* The largest power of 2 in a score. */
static int exponent_max(const char *kernel, hr_dtype dtype)
{
  return dtype == HR_FP16 ? 30 : dtype == HR_FP8_E4M3 ? 16 : fuses_scaling(kernel, dtype) ? 125 : 127;
}

/* Scores of 2^10 to the largest. An odd significand, so that its product with log2(e) has many digits. */
static void check_sizes(hr_device *device, const char *kernel, hr_dtype dtype)
{
  const double odd = dtype == HR_FP8_E4M3 ? 1.75 : 1.796875;
  attention_setup setup = call_of(device, dtype);
  for (int e = exponent_max(kernel, dtype); e >= 10; e -= device->backend->own_memory ? 20 : 6)
    for (int sign = -1; sign <= 1; sign += 2) {
      double q = ldexp(sign, e / 2), k = ldexp(1, e - e / 2), most = k * (sign > 0 ? odd : 1.25);
      check_scores(device, kernel, setup, q, most, k * (sign > 0 ? 1.25 : odd), q * most);
    }
}

/* Neighbours in the format, of which the larger weighs e^32 times as much as the smaller or more. */
static void check_neighbours(hr_device *device, const char *kernel, hr_dtype dtype)
{
  if (dtype != HR_FP32 && dtype != HR_BF16 && dtype != HR_FP16)
    return;
  const double gap = dtype == HR_FP32 ? 0x1p-23 : dtype == HR_FP16 ? 0x1p-10 : 0x1p-7;
  const double unit = dtype == HR_FP16 ? 0x1p14 : 0x1p20;
  for (int sign = -1; sign <= 1; sign += 2)
    check_scores(device, kernel, call_of(device, dtype), sign * unit, unit * 1.5, unit * (1.5 - sign * gap),
                 sign * unit * unit * 1.5);
}

/* Scores that a scale makes large, one beyond 1 / log2(e) of the largest number too, and a soft cap of 2^60. */
static void check_scale_and_cap(hr_device *device, const char *kernel, hr_dtype dtype)
{
  if (dtype == HR_FP8_E4M3) /* has head scales beside */
    return;
  static const float scales[] = {0x1.6a09e6p30F, -0x1.6a09e6p30F, 0x1.6a09e6p100F, 0x1.6a09e6p-70F};
  attention_setup setup = call_of(device, dtype);
  for (size_t i = 0; i < (size_t)LENGTH(scales); i++) {
    setup.a.scale = scales[i];
    double scale = (double)scales[i], unit = scale < 1 && scale > 0 ? 0x1p40 : 16;
    if (unit > 16 && dtype == HR_FP16)
      continue;
    double sign = scale < 0 ? -1 : 1;
    check_scores(device, kernel, setup, sign * unit, 1.75 * unit, -unit, fabs(scale) * 1.75 * unit * unit);
  }
  setup.a.scale = 1, setup.a.softcap = 0x1p60F;
  if (dtype == HR_FP16)
    return;
  check_scores(device, kernel, setup, 0x1p40, 0x1p31, 0x1p10, 0x1p60);
  check_scores(device, kernel, setup, -0x1p40, 0x1p10, 0x1p31, -0x1p60 * tanh(0x1p-10));
}

/* ---- one key ---- */

/* The softmax of one score is 1, whatever the score is: with a window of 1, of a square's first query, and where there
 * is one key. */
static void check_one_key(hr_device *device, const char *kernel, hr_dtype dtype)
{
  const int64_t most = device->backend->own_memory ? 70 : 300;
  const struct {
    int64_t q_len, kv_len, window, queries; /* that see one key */
  } cases[] = {{most, most, 1, most}, {3, most, 1, 3}, {most, most, 0, 1}, {1, 1, 0, 1}};
  for (size_t i = 0; i < 3 * sizeof cases / sizeof *cases; i++) {
    attention_setup setup = call_of(device, dtype);
    attention_call c;
    setup.a.mask = HR_MASK_CAUSAL, setup.a.window = cases[i / 3].window;
    setup.a.q_len = cases[i / 3].q_len, setup.a.kv_len = cases[i / 3].kv_len;
    setup.a.scale = i % 2 ? 0 : 5; /* scores of −40 to 40 */
    setup.a.softcap = i % 3 == 1 ? 2.5F : 0;
    setup.a.alibi = i % 3 == 2;
    attention_open(device, &setup, &c);
    for (int64_t query = 0, ran = attention_run(&c, kernel); ran && query < cases[i / 3].queries; query++)
      for (int64_t head = 0; head < HEADS; head++)
        assert_row_is(&c, kernel, query, head, query + setup.a.kv_len - setup.a.q_len);
    attention_close(&c);
  }
}

/* ---- values ---- */

/* Scores that rise from key to key: O is a mean of V, whose elements are all ±7/8 of the largest number. */
static void check_mean(hr_device *device, const char *kernel, hr_dtype dtype, double score, double rise)
{
  attention_call c;
  char text[512];
  attention_setup setup = call_of(device, dtype);
  attention_open(device, &setup, &c);
  set_scores(&c, 1, score, score);
  for (int64_t i = 0; rise > 0 && i < c.a.kv_len * HEADS * QUERIES; i++)
    attention_set(&c, ARRAY_K, i / QUERIES / HEADS, i / QUERIES % HEADS, i % QUERIES,
                  rise * (double)(i / QUERIES / HEADS) / (double)c.a.kv_len);
  for (int64_t i = 0; i < c.a.kv_len * HEADS * c.a.v_dim; i++)
    attention_set(&c, ARRAY_V, i / c.a.v_dim / HEADS, i / c.a.v_dim % HEADS, i % c.a.v_dim,
                  (i % 2 ? -1 : 1) * 0x1.cp127);
  if (attention_run(&c, kernel))
    for (int64_t i = 0; i < QUERIES * HEADS * c.a.v_dim; i++) {
      double found = attention_result(&c, i / c.a.v_dim / HEADS, i / c.a.v_dim % HEADS, i % c.a.v_dim);
      if (!(fabs(found / ((i % 2 ? -1 : 1) * 0x1.cp127) - 1) <= (dtype == HR_BF16 ? 0x1p-7 : 0x1p-16)))
        fail_msg("%s %s: %g is the mean of equal numbers of %g", kernel, attention_words(&c, text), found, 0x1.cp127);
    }
  attention_close(&c);
}

static void check_values(hr_device *device, const char *kernel, hr_dtype dtype)
{
  if (dtype != HR_FP32 && dtype != HR_BF16)
    return;
  check_mean(device, kernel, dtype, 0, 0);
  check_mean(device, kernel, dtype, 0, 5); /* by less than what a kernel rescales for */
  check_mean(device, kernel, dtype, 0, 12);
  if (fuses_scaling(kernel, dtype))
    return;
  check_mean(device, kernel, dtype, 0x1p90, 0);
  check_mean(device, kernel, dtype, -0x1p30, 0);
}

static const fact facts[] = {
    FACT(the_largest_score_decides_however_large_it_is, check_sizes),
    FACT(the_larger_of_neighbours_decides, check_neighbours),
    FACT(a_scale_and_a_soft_cap_may_make_scores_large, check_scale_and_cap),
    FACT(one_key_gives_its_value_exactly, check_one_key),
    FACT(a_mean_of_values_near_the_largest_number_is_finite, check_values),
};
const fact_group attention_scores_facts = {.name = "attention_scores",
                                           .operation = "attention",
                                           .facts = facts,
                                           .count = LENGTH(facts),
                                           .emulated = &hr_attention_amx_emulated};
