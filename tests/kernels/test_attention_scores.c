/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of CPU flash attention near the limit that docs/attention-cpu.md states, ±2^30 / log2(e). */
#include "attention_call.h"

#include <math.h>
#include <string.h>

#define KEYS 1100 /* several steps and chunks of every version */
#define QUERIES 24
#define HEADS 2

/* A key's number such that 2^14 times it is the largest score within the limit that the format can express, and the
 * distance to a number that is surely less in fp32: two spacings there, one in the other formats. */
typedef struct key_number {
  double most, gap;
} key_number;

static key_number number_of(hr_dtype dtype)
{
  if (dtype == HR_FP32)
    return (key_number){0x1.62e42ep15, 0x1p-7};
  return dtype == HR_FP16 ? (key_number){0x1.62cp15, 0x1p5} : (key_number){0x1.62p15, 0x1p8};
}

/* The key with the largest score of a query. */
static int64_t winner_of(int64_t query)
{
  return query * (KEYS - 1) / (QUERIES - 1);
}

/* Query i has 2^14 or −2^14 as element i and no other, so that its scores are that times the keys' elements i: `most`
 * for the winner, `other` for all others. */
static void set_scores(attention_call *c, double sign, double most, double other)
{
  for (int64_t head = 0; head < HEADS; head++) {
    for (int64_t query = 0; query < QUERIES; query++)
      for (int64_t d = 0; d < QUERIES; d++)
        attention_set(c, ARRAY_Q, query, head, d, d == query ? sign * 0x1p14 : 0);
    for (int64_t key = 0; key < KEYS; key++)
      for (int64_t d = 0; d < QUERIES; d++)
        attention_set(c, ARRAY_K, key, head, d, key == winner_of(d) ? most : other);
  }
}

static void open_call(hr_device *device, hr_dtype dtype, attention_call *c)
{
  attention_setup setup = {.a = hr_attention_default(), .seed = 70};
  setup.a.dtype = dtype;
  setup.a.mask = HR_MASK_NONE;
  setup.a.scale = 1;
  setup.a.q_len = setup.a.qk_dim = QUERIES, setup.a.kv_len = KEYS;
  setup.a.q_heads = setup.a.k_heads = setup.a.v_heads = HEADS, setup.a.v_dim = 40;
  attention_open(device, &setup, c);
}

/* The softmax in float64 is 1 for the winner and 0 for the others, so that a row of O is a row of V. In fp32 the weight
 * and its sum are rounded; in 16 bits so are the weight and the result. */
static void assert_winners(const attention_call *c, const char *kernel, double score)
{
  double allowed = c->a.dtype == HR_FP32 ? 0x1p-21 : c->a.dtype == HR_FP16 ? 0x1p-10 : 0x1p-7;
  for (int64_t query = 0; query < QUERIES; query++)
    for (int64_t head = 0; head < HEADS; head++) {
      for (int64_t d = 0; d < c->a.v_dim; d++) {
        double found = attention_result(c, query, head, d);
        double expected = c->v[(winner_of(query) * HEADS + head) * c->a.v_dim + d];
        if (!(fabs(found - expected) <= allowed * fabs(expected)))
          fail_msg("%s, %s, scores of %g: [query %d, head %d, %d] is %.9g, expected %.9g", kernel,
                   hr_dtype_name(c->a.dtype), score, (int)query, (int)head, (int)d, found, expected);
      }
      assert_true(fabs(attention_lse(c, 0, query, head) - score) <= 0x1p-23 * fabs(score));
    }
}

static bool is_flash_of_cpu(const hr_device *device, const char *kernel)
{
  return !device->backend->own_memory && strncmp(kernel, "attention_flash", strlen("attention_flash")) == 0;
}

static void check_within(hr_device *device, const char *kernel, hr_dtype dtype)
{
  if (!is_flash_of_cpu(device, kernel))
    return;
  key_number k = number_of(dtype);
  attention_call c;
  open_call(device, dtype, &c);
  set_scores(&c, 1, k.most, k.most - k.gap);
  assert_true(attention_run(&c, kernel));
  assert_winners(&c, kernel, 0x1p14 * k.most);
  set_scores(&c, -1, k.most, k.most + k.gap); /* the others are beyond the limit */
  assert_true(attention_run(&c, kernel));
  assert_winners(&c, kernel, -0x1p14 * k.most);
  attention_close(&c);
}

static void the_largest_score_wins_up_to_the_limit(void **state)
{
  (void)state;
  attention_each_kernel(check_within);
}

/* Keys that a caller hides by scores far below the limit, before and after the key that counts. */
static void check_hidden(hr_device *device, const char *kernel, hr_dtype dtype)
{
  if (!is_flash_of_cpu(device, kernel) || dtype == HR_FP16)
    return;
  attention_call c;
  open_call(device, dtype, &c);
  set_scores(&c, 1, 0.5, -0x1.8p60);
  assert_true(attention_run(&c, kernel));
  assert_winners(&c, kernel, 0x1p13);
  attention_close(&c);
}

static void keys_far_below_the_limit_have_no_weight(void **state)
{
  (void)state;
  attention_each_kernel(check_hidden);
}

static void check_beyond(hr_device *device, const char *kernel, hr_dtype dtype)
{
  if (!is_flash_of_cpu(device, kernel))
    return;
  key_number k = number_of(dtype);
  for (int sign = -1; sign <= 1; sign += 2) {
    attention_call c;
    open_call(device, dtype, &c);
    set_scores(&c, sign, k.most + k.gap, k.most + (1 - 2 * sign) * k.gap);
    assert_true(attention_run(&c, kernel));
    for (int64_t query = 0; query < QUERIES; query++)
      for (int64_t head = 0; head < HEADS; head++)
        for (int64_t d = 0; d < c.a.v_dim; d++)
          assert_true(isnan(attention_result(&c, query, head, d)));
    attention_close(&c);
  }
}

static void rows_beyond_the_limit_are_nan(void **state)
{
  (void)state;
  attention_each_kernel(check_beyond);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_largest_score_wins_up_to_the_limit),
      cmocka_unit_test(keys_far_below_the_limit_have_no_weight),
      cmocka_unit_test(rows_beyond_the_limit_are_nan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
