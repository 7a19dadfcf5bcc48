/* SPDX-License-Identifier: Apache-2.0 */
/* Tile handling of the AMX version of flash attention, on processors without AMX: partial tiles, the memory after them,
 * and values left from earlier tiles. */
#include "attention_truth.h"
#include "emulated_tiles_kernels.h"

#include <math.h>

static attention_setup asked_of(int64_t q_len, int64_t kv_len, const int64_t heads[3], int64_t qk_dim, int64_t v_dim)
{
  attention_setup setup = {.a = hr_attention_default()};
  hr_attention *a = &setup.a;
  a->q_len = q_len, a->kv_len = kv_len, a->qk_dim = qk_dim, a->v_dim = v_dim;
  a->q_heads = heads[0], a->k_heads = heads[1], a->v_heads = heads[2];
  a->mask = (q_len + v_dim) % 2 ? HR_MASK_CAUSAL : HR_MASK_NONE;
  setup.seed = (uint64_t)(q_len * 1000 + kv_len + qk_dim + v_dim);
  return setup;
}

/* 1 to 70 rows: less than a tile, one tile, two tiles, a tile and a few rows; keys and head sizes around 16 and 32. */
static void check_part_tiles(hr_device *device, const char *kernel, hr_dtype dtype)
{
  (void)dtype;
  static const int64_t rows[] = {1, 7, 15, 16, 17, 31, 32, 33, 48, 49, 70}, keys[] = {1, 31, 32, 33, 64, 300, 513};
  static const int64_t heads[][3] = {{1, 1, 1}, {6, 1, 3}}, dims[][2] = {{32, 32}, {33, 15}, {64, 80}, {1, 17}};
  for (size_t r = 0; r < (size_t)LENGTH(rows); r++)
    for (size_t k = 0; k < (size_t)LENGTH(keys); k++) {
      const int64_t *d = dims[(r + k) % 4];
      attention_setup setup = asked_of(rows[r], keys[k], heads[(r + k / 2) % 2], d[0], d[1]);
      if (test_takes((int64_t)(r * 7 + k)))
        assert_true(attention_try(device, kernel, &setup, 1 << 20));
    }
}

/* A window of 40 in 700 keys: steps begin and end within a group of keys, and weights of earlier steps must not
 * remain. */
static void check_windows(hr_device *device, const char *kernel, hr_dtype dtype)
{
  (void)dtype;
  static const int64_t heads[3] = {2, 1, 2};
  for (int64_t window = 1; window < 700; window += 39) {
    attention_setup setup = asked_of(130, 700, heads, 64, 64);
    setup.a.mask = HR_MASK_CAUSAL;
    setup.a.window = window;
    if (test_takes(window / 39))
      assert_true(attention_try(device, kernel, &setup, 1 << 20));
  }
}

/* One key whose score exceeds those of the many before it by more than the lazy rescale allows: all earlier weights, of
 * the same step and of earlier steps, must be rescaled to a third of its share. */
static void check_rising_scores(hr_device *device, const char *kernel, hr_dtype dtype)
{
  (void)dtype;
  static const int64_t heads[3] = {1, 1, 1}, high[] = {40, 255, 300, 511, 599};
  for (size_t i = 0; i < (size_t)LENGTH(high); i++) {
    attention_setup setup = asked_of(110, 600, heads, 64, 64);
    attention_call call;
    attention_open(device, &setup, &call);
    for (int64_t key = 0; key < 600; key++)
      attention_set(&call, ARRAY_K, key, 0, 0, key == high[i] ? 8 : 0);
    for (int64_t row = 0; row < 110; row++) /* scores of 8 to 10 times 8, over √64: 11.5 to 14.4 in base 2 */
      attention_set(&call, ARRAY_Q, row, 0, 0, (double)(8 + row % 3));
    assert_true(attention_run(&call, kernel));
    attention_compare(&call, kernel, 1 << 24);
    attention_close(&call);
  }
}

/* Keys that a caller hides by scores far below the limit of 2^30, in all of the first steps, before the only one that
 * counts. */
static void check_hidden_keys(hr_device *device, const char *kernel, hr_dtype dtype)
{
  (void)dtype;
  static const int64_t heads[3] = {1, 1, 1}, visible[] = {0, 63, 64, 511, 512, 1099};
  for (size_t i = 0; i < (size_t)LENGTH(visible); i++) {
    attention_setup setup = asked_of(40, 1100, heads, 64, 64);
    attention_call call;
    attention_open(device, &setup, &call);
    for (int64_t key = 0; key < 1100; key++)
      for (int64_t d = 0; d < 64; d++)
        attention_set(&call, ARRAY_K, key, 0, d, d > 0 ? 0 : key == visible[i] ? 0.5 : -0x1.8p60);
    for (int64_t row = 0; row < 40; row++) /* products that fp32 rounds up, and others that it rounds down */
      attention_set(&call, ARRAY_Q, row, 0, 0, 1 + (double)row / 64);
    assert_true(attention_run(&call, kernel));
    for (int64_t row = 0; row < 40; row++)
      for (int64_t d = 0; d < 64; d++) { /* weight and result are rounded to bf16 */
        double found = attention_result(&call, row, 0, d), expected = call.v[visible[i] * 64 + d];
        if (!(fabs(found - expected) <= 0x1p-7 * fabs(expected)))
          fail_msg("key %d, row %d, column %d: %g, expected %g", (int)visible[i], (int)row, (int)d, found, expected);
      }
    attention_close(&call);
  }
}

/* The distribution of queries over threads decides which steps overlap; it must not change results. */
static void check_thread_counts(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int64_t heads[3] = {4, 2, 2};
  attention_setup setup = asked_of(333, 700, heads, 64, 80);
  char *first = NULL;
  (void)dtype;
  setup.a.mask = HR_MASK_CAUSAL;
  for (int threads = 1; threads <= 64; threads *= 4) {
    attention_call call;
    device->threads = threads; /* a plan partitions its work for this number */
    attention_open(device, &setup, &call);
    assert_true(attention_run(&call, kernel));
    size_t bytes = call.arrays[ARRAY_O].bytes;
    if (!first) {
      first = malloc(bytes);
      assert_non_null(first);
      memcpy(first, call.arrays[ARRAY_O].host, bytes);
    }
    assert_memory_equal(first, call.arrays[ARRAY_O].host, bytes);
    attention_close(&call);
  }
  free(first);
}

static const fact facts[] = {
    FACT(thread_counts_give_the_same_bits, check_thread_counts),
    FACT(tiles_that_are_not_full_give_what_the_formula_gives, check_part_tiles),
    FACT(weights_of_an_earlier_step_do_not_stay, check_windows),
    FACT(a_score_that_rises_leaves_earlier_weights_their_share, check_rising_scores),
    FACT(hidden_keys_before_the_first_visible_one_have_no_weight, check_hidden_keys),
};
const fact_group attention_tiles_facts = {.name = "attention_tiles",
                                          .operation = "attention",
                                          .facts = facts,
                                          .count = LENGTH(facts),
                                          .emulated = &hr_attention_amx_emulated,
                                          .emulated_alone = true};
