/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees of every attention kernel other than accuracy: NaN and infinities, fully masked rows, determinism. */
#include "attention_truth.h"

#include "shape/number.h"

#include <math.h>
#include <stdio.h>

static attention_setup small_call(hr_dtype dtype, int64_t q_len, int64_t kv_len)
{
  attention_setup setup = {.a = hr_attention_default(), .seed = 50};
  setup.a.dtype = dtype;
  setup.a.q_len = q_len, setup.a.kv_len = kv_len;
  setup.a.q_heads = 4, setup.a.k_heads = 1, setup.a.v_heads = 2;
  setup.a.qk_dim = 24, setup.a.v_dim = 40;
  return setup;
}

/* ---- fully masked rows ---- */

/* Queries before the first key are fully masked: the first q_len − kv_len. */
static void check_masked_rows(hr_device *device, const char *kernel, hr_dtype dtype)
{
  const int64_t lengths[][2] = {{5, 2}, {70, 3}, {200, 100}, {9, 0}};
  for (size_t i = 0; i < (size_t)LENGTH(lengths); i++) {
    attention_setup setup = small_call(dtype, lengths[i][0], lengths[i][1]);
    attention_call c;
    attention_open(device, &setup, &c);
    if (attention_run(&c, kernel)) {
      for (int64_t query = 0; query < lengths[i][0]; query++)
        for (int64_t head = 0; head < 4; head++)
          for (int64_t d = 0; d < setup.a.v_dim; d++) {
            double found = attention_result(&c, query, head, d);
            bool sees_none = query < lengths[i][0] - lengths[i][1];
            assert_true(isfinite(found) && (!sees_none || found == 0));
            assert_true(!sees_none || attention_lse(&c, 0, query, head) == -(double)INFINITY);
          }
    }
    attention_close(&c);
  }
}

/* Sequences of 7 queries and 3 keys, whose queries 0 to 3 see no key, and a third of 5 queries and no key. */
static void assert_zeros(const attention_call *c, const char *kernel, int64_t batch, int64_t query, double value)
{
  const bool sees_none = batch == 2 || query < 4;
  for (int64_t head = 0; head < 4; head++) {
    assert_true(!sees_none || attention_lse(c, batch, query, head) == -(double)INFINITY);
    for (int64_t d = 0; d < c->a.v_dim; d++) {
      double found = attention_result(c, batch * 7 + query, head, d);
      if (sees_none ? found != 0 : isfinite(found))
        fail_msg("%s %s: [batch %d, query %d, head %d, %d] is %g where all of V is %g", kernel,
                 hr_dtype_name(c->a.dtype), (int)batch, (int)query, (int)head, (int)d, found, value);
    }
  }
}

/* Kernels multiply whole tiles, in which the weights of these queries are 0, and 0 · NaN is NaN. */
static void check_zeros_beside(hr_device *device, const char *kernel, hr_dtype dtype, double value)
{
  const int32_t q_offsets[] = {0, 7, 14, 19}, kv_offsets[] = {0, 3, 6, 6};
  for (int variable = 0; variable <= 1; variable++) {
    attention_setup setup = small_call(dtype, 7, 3);
    attention_call c;
    setup.a.batch = variable ? 3 : 2;
    setup.a.variable_lengths = variable;
    setup.a.q_total = variable ? 19 : 0, setup.a.kv_total = variable ? 6 : 0;
    setup.q_offsets = q_offsets, setup.kv_offsets = kv_offsets;
    attention_open(device, &setup, &c);
    for (int64_t i = 0; i < 6 * c.a.v_heads * c.a.v_dim; i++)
      attention_set(&c, ARRAY_V, i / c.a.v_dim / c.a.v_heads, i / c.a.v_dim % c.a.v_heads, i % c.a.v_dim, value);
    if (attention_run(&c, kernel)) {
      for (int64_t row = 0; row < (variable ? 19 : 14); row++)
        assert_zeros(&c, kernel, row / 7, row % 7, value);
    }
    attention_close(&c);
  }
}

static void check_zeros_beside_all(hr_device *device, const char *kernel, hr_dtype dtype)
{
  check_zeros_beside(device, kernel, dtype, (double)NAN);
  if (dtype != HR_FP8_E4M3)
    check_zeros_beside(device, kernel, dtype, (double)INFINITY);
}

static void check_empty(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for (int mask = HR_MASK_NONE; mask <= HR_MASK_CAUSAL; mask++) {
    attention_setup setup = small_call(dtype, 0, 7);
    setup.a.mask = (hr_mask)mask;
    attention_try(device, kernel, &setup, 1000);
    setup = small_call(dtype, 3, 0);
    setup.a.mask = (hr_mask)mask;
    attention_try(device, kernel, &setup, 1000);
    const int32_t none[] = {0, 0, 0, 0}, some[] = {0, 4, 4, 9};
    setup = small_call(dtype, 5, 5);
    setup.a.mask = (hr_mask)mask;
    setup.a.variable_lengths = true, setup.a.batch = 3;
    setup.q_offsets = some, setup.a.q_total = 9, setup.kv_offsets = none;
    attention_try(device, kernel, &setup, 1000);
    setup.kv_offsets = some, setup.a.kv_total = 9, setup.q_offsets = none, setup.a.q_total = 0;
    attention_try(device, kernel, &setup, 1000);
  }
}

/* ---- NaN and infinities ---- */

/* Key 5 of 40 has the special value; V head 1 is read by query heads 2 and 3. */
#define SPECIAL 5

static void check_row(const attention_call *c, const char *kernel, int64_t query, int64_t head, double expected)
{
  char text[512];
  for (int64_t d = 0; d < c->a.v_dim; d++) {
    double found = attention_result(c, query, head, d);
    if (isnan(expected) ? !isnan(found) : !isfinite(found))
      fail_msg("%s %s: [query %d, head %d, %d] is %g, expected %s", kernel, attention_words(c, text), (int)query,
               (int)head, (int)d, found, isnan(expected) ? "nan" : "a finite number");
  }
}

/* A NaN in K reaches all elements of the queries that see it and no others: scores are masked, not multiplied. */
static void check_nan_in_key(hr_device *device, const char *kernel, hr_dtype dtype)
{
  attention_setup setup = small_call(dtype, 40, 40);
  attention_call c;
  attention_open(device, &setup, &c);
  attention_set(&c, ARRAY_K, SPECIAL, 0, 3, (double)NAN);
  if (attention_run(&c, kernel)) {
    for (int64_t query = 0; query < 40; query++)
      for (int64_t head = 0; head < 4; head++) {
        check_row(&c, kernel, query, head, query >= SPECIAL ? (double)NAN : 0);
        assert_true((query >= SPECIAL) == (isnan(attention_lse(&c, 0, query, head)) != 0));
      }
  }
  attention_close(&c);
}

/* A NaN in V reaches one column of the queries that see it. Queries that do not see it may get NaN in fast kernels, as
 * the contract says, but other heads and columns must not; finite results must be right. */
static void check_special_value(hr_device *device, const char *kernel, hr_dtype dtype, double value)
{
  attention_setup setup = small_call(dtype, 40, 40);
  attention_call c;
  attention_open(device, &setup, &c);
  attention_set(&c, ARRAY_V, SPECIAL, 1, 2, value);
  if (attention_run(&c, kernel)) {
    for (int64_t query = 0; query < 40; query++)
      for (int64_t head = 0; head < 4; head++)
        for (int64_t d = 0; d < c.a.v_dim; d++) {
          double found = attention_result(&c, query, head, d);
          bool touched = head >= 2 && d == 2;
          if (touched && query >= SPECIAL)
            assert_true(isnan(value) ? isnan(found) : found == value);
          else
            assert_true(isfinite(found) || (touched && isnan(found)));
        }
  }
  attention_close(&c);
}

static void check_special_values(hr_device *device, const char *kernel, hr_dtype dtype)
{
  check_special_value(device, kernel, dtype, (double)NAN);
  if (dtype != HR_FP8_E4M3) {
    check_special_value(device, kernel, dtype, (double)INFINITY);
    check_special_value(device, kernel, dtype, -(double)INFINITY);
  }
}

/* Q is positive and K[5] has a −inf element: the score is −inf and the value is ignored; a query that sees only this
 * key gets NaN. With +inf the score is +inf and every query that sees it gets NaN. */
static void check_infinite_scores(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for (int sign = -1; sign <= 1 && dtype != HR_FP8_E4M3; sign += 2) {
    attention_setup setup = small_call(dtype, 40, 40);
    setup.a.window = 1 + SPECIAL; /* query 5 sees keys 0 to 5, query 10 keys 5 to 10, query 11 does not see key 5 */
    attention_call c;
    attention_open(device, &setup, &c);
    for (int64_t i = 0; i < 40 * 4; i++)
      attention_set(&c, ARRAY_Q, i / 4, i % 4, 3, 0.5);
    attention_set(&c, ARRAY_K, SPECIAL, 0, 3, sign * (double)INFINITY);
    if (attention_run(&c, kernel)) {
      for (int64_t query = 0; query < 40; query++)
        for (int64_t head = 0; head < 4; head++) {
          bool sees = query >= SPECIAL && query <= 2 * SPECIAL;
          check_row(&c, kernel, query, head, sees && sign > 0 ? (double)NAN : 0);
          double lse = attention_lse(&c, 0, query, head);
          assert_true(sees && sign > 0 ? isnan(lse) || lse == (double)INFINITY : isfinite(lse));
        }
    }
    attention_close(&c);
  }
}

/* The only score that query 0 sees is −inf. */
static void check_only_minus_infinity(hr_device *device, const char *kernel, hr_dtype dtype)
{
  if (dtype == HR_FP8_E4M3)
    return;
  attention_setup setup = small_call(dtype, 40, 40);
  attention_call c;
  attention_open(device, &setup, &c);
  for (int64_t head = 0; head < 4; head++)
    attention_set(&c, ARRAY_Q, 0, head, 3, 0.5);
  attention_set(&c, ARRAY_K, 0, 0, 3, -(double)INFINITY);
  if (attention_run(&c, kernel)) {
    for (int64_t head = 0; head < 4; head++) {
      check_row(&c, kernel, 0, head, (double)NAN);
      assert_true(attention_lse(&c, 0, 0, head) == -(double)INFINITY);
    }
  }
  attention_close(&c);
}

/* Scores of several hundred: the exponentials overflow unless the row maximum is subtracted. */
static void check_large_scores(hr_device *device, const char *kernel, hr_dtype dtype)
{
  attention_setup setup = small_call(dtype, 33, 90);
  setup.a.scale = 60;
  if (dtype == HR_FP32 || dtype == HR_FP64)
    attention_try(device, kernel, &setup, 1000000);
  setup.a.scale = 0;
  setup.a.alibi = true;
  setup.a.mask = HR_MASK_NONE; /* keys after the query have a positive bias */
  attention_try(device, kernel, &setup, 1000000);
}

/* ---- determinism ---- */

static void run_again(attention_call *c, const char *kernel, void *o, void *lse)
{
  assert_true(attention_run(c, kernel));
  if (memcmp(o, c->arrays[ARRAY_O].host, c->arrays[ARRAY_O].bytes) != 0 ||
      memcmp(lse, c->arrays[ARRAY_LSE].host, c->arrays[ARRAY_LSE].bytes) != 0) {
    char text[512];
    fail_msg("%s %s: results differ with %d threads, or in another run", kernel, attention_words(c, text),
             c->device->threads);
  }
}

/* oneDNN partitions a GEMM by its thread count, on some processors along k, so its own thread count is the only one
 * tested. */
static bool threads_change_bits(const char *kernel)
{
  return strcmp(kernel, "attention_materialized_onednn") == 0;
}

static void check_bits_of(hr_device *device, const char *kernel, attention_setup setup)
{
  static const int thread_counts[] = {1, 2, 3, 7};
  attention_call c;
  attention_open(device, &setup, &c);
  if (attention_run(&c, kernel)) {
    void *o = malloc(c.arrays[ARRAY_O].bytes), *lse = malloc(c.arrays[ARRAY_LSE].bytes);
    memcpy(o, c.arrays[ARRAY_O].host, c.arrays[ARRAY_O].bytes);
    memcpy(lse, c.arrays[ARRAY_LSE].host, c.arrays[ARRAY_LSE].bytes);
    run_again(&c, kernel, o, lse);
    for (size_t i = 0; i < (size_t)LENGTH(thread_counts) && !device->backend->own_memory; i++) {
      hr_device *other = NULL;
      hr_error error;
      if (hr_device_open(hr_device_name(device), thread_counts[i], &other, &error) != HR_OK)
        break; /* more threads than processors */
      c.device = other;
      if (threads_change_bits(kernel))
        attention_try(other, kernel, &setup, 300000);
      else
        run_again(&c, kernel, o, lse);
      c.device = device;
      hr_device_close(other);
    }
    free(o);
    free(lse);
  }
  attention_close(&c);
}

static void check_bits(hr_device *device, const char *kernel, hr_dtype dtype)
{
  const int32_t q_offsets[] = {0, 9, 9, 100, 250}, kv_offsets[] = {0, 11, 31, 200, 217};
  attention_setup setup = small_call(dtype, 150, 170);
  setup.a.batch = 2;
  const bool slow = attention_takes_long(kernel, &setup.a); /* plain C */
  if (slow)
    setup = small_call(dtype, 9, 11);
  check_bits_of(device, kernel, setup);
  setup.a.variable_lengths = true;
  setup.a.batch = slow ? 1 : 4;
  setup.a.q_total = slow ? 9 : 250, setup.a.kv_total = slow ? 11 : 217;
  setup.q_offsets = q_offsets, setup.kv_offsets = kv_offsets;
  check_bits_of(device, kernel, setup);
}

/* ---- alignment ---- */

/* One operand, then all, at addresses that rule out vector loads and TMA. */
static void check_addresses(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int shifts[] = {1, 2, 4, 8};
  for (int which = 0; which <= 4; which++)
    for (size_t i = 0; i < (size_t)LENGTH(shifts); i++) {
      int moved[4];
      for (int operand = 0; operand < 4; operand++)
        moved[operand] = which == 4 || which == operand ? shifts[i] : 0;
      attention_setup setup = small_call(dtype, 21, 75);
      setup.shifts = moved;
      setup.seed = (uint64_t)which * 10 + i;
      if (!attention_takes_long(kernel, &setup.a) || i == 0)
        attention_try(device, kernel, &setup, 100000);
    }
}

/* Odd sizes of the workspace's parts, so that the next thread's part begins at an odd offset. A cap and slopes access
 * scores one by one, so that sanitizers see each access. */
static void check_odd_sizes(hr_device *device, const char *kernel, hr_dtype dtype)
{
  const int32_t q_offsets[] = {0, 150, 301, 400}, kv_offsets[] = {0, 171, 300, 401};
  attention_setup setup = small_call(dtype, 151, 171);
  setup.a.qk_dim = 23, setup.a.v_dim = 41;
  setup.a.softcap = 20, setup.a.alibi = true;
  setup.a.batch = 3, setup.a.variable_lengths = true;
  setup.a.q_total = 400, setup.a.kv_total = 401;
  setup.q_offsets = q_offsets, setup.kv_offsets = kv_offsets;
  if (!attention_takes_long(kernel, &setup.a))
    attention_try(device, kernel, &setup, 300000);
}

/* ---- arguments ---- */

static void missing_and_invalid_arguments_are_named(void)
{
  hr_device *device = NULL;
  hr_plan *plan = NULL;
  hr_error error;
  attention_setup setup = small_call(HR_FP32, 4, 4);
  setup.a.alibi = setup.a.variable_lengths = setup.a.first_keys = true;
  setup.a.batch = 2, setup.a.q_total = 6, setup.a.kv_total = 6;
  const int32_t right[] = {0, 2, 6}, too_long[] = {0, 5, 6}, beyond[] = {1, 4, 7}, falling[] = {3, 2, 6};
  setup.q_offsets = setup.kv_offsets = right;
  attention_call c;
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  attention_open(device, &setup, &c);
  assert_ok(hr_plan_attention(device, &c.a, NULL, &plan, &error), error);
  void *workspace = aligned_alloc(64, (hr_plan_workspace_bytes(plan) + 63) / 64 * 64);
  assert_ok(hr_plan_run_attention(plan, &c.arguments, workspace, NULL, &error), error);

  const void **const needed[] = {&c.arguments.q,
                                 &c.arguments.k,
                                 &c.arguments.v,
                                 (const void **)(void *)&c.arguments.o,
                                 (const void **)(void *)&c.arguments.alibi_slopes,
                                 (const void **)(void *)&c.arguments.q_offsets,
                                 (const void **)(void *)&c.arguments.kv_offsets,
                                 (const void **)(void *)&c.arguments.first_keys};
  const char *const names[] = {"q", "k", "v", "o", "alibi_slopes", "q_offsets", "kv_offsets", "first_keys"};
  for (size_t i = 0; i < (size_t)LENGTH(needed); i++) {
    const void *kept = *needed[i];
    char expected[64];
    snprintf(expected, sizeof expected, "%s: an address is needed, found NULL", names[i]);
    *needed[i] = NULL;
    assert_int_equal(hr_plan_run_attention(plan, &c.arguments, workspace, NULL, &error), HR_ERROR_INVALID);
    assert_string_equal(error.message, expected);
    *needed[i] = kept;
  }
  const int32_t *const wrong[] = {too_long, beyond, falling};
  for (size_t i = 0; i < 3; i++) {
    c.arguments.kv_offsets = wrong[i];
    assert_int_equal(hr_plan_run_attention(plan, &c.arguments, workspace, NULL, &error), HR_ERROR_INVALID);
    assert_non_null(strstr(error.message, "kv_offsets: sequence "));
  }
  c.arguments.kv_offsets = right;
  const int32_t falls[] = {2, 3, 0, 1, 1, 0}; /* from sequence to sequence it may */
  c.arguments.first_keys = falls;
  assert_int_equal(hr_plan_run_attention(plan, &c.arguments, workspace, NULL, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "first_keys: query 3 of sequence 1 begins with key 0, before 1, where the query "
                                     "before it begins");
  assert_int_equal(hr_plan_run_attention(plan, &c.arguments, NULL, NULL, &error), HR_ERROR_INVALID);
  assert_int_equal(hr_plan_run_attention(plan, NULL, workspace, NULL, &error), HR_ERROR_INVALID);
  free(workspace);
  hr_plan_free(plan);
  attention_close(&c);
  hr_device_close(device);
}

static const fact facts[] = {
    FACT(a_query_that_sees_no_key_gives_zeros_and_minus_infinity, check_masked_rows),
    FACT(a_query_that_sees_no_key_gives_zeros_whatever_the_values_are, check_zeros_beside_all),
    FACT(lengths_may_be_zero, check_empty),
    FACT(a_nan_in_a_key_reaches_the_queries_that_see_it_and_no_others, check_nan_in_key),
    FACT(a_nan_or_infinity_in_a_value_reaches_the_queries_that_see_it, check_special_values),
    FACT(infinite_scores_give_what_the_formula_gives, check_infinite_scores),
    FACT(a_query_whose_only_score_is_minus_infinity_gets_nan, check_only_minus_infinity),
    FACT(large_scores_do_not_overflow, check_large_scores),
    FACT(runs_and_thread_counts_give_the_same_bits, check_bits),
    FACT(operands_may_begin_at_any_element, check_addresses),
    FACT(odd_sizes_leave_every_thread_aligned_memory, check_odd_sizes),
    FACT_OF_NO_KERNEL(missing_and_invalid_arguments_are_named, missing_and_invalid_arguments_are_named),
};
const fact_group attention_edges_facts = {
    .name = "attention_edges", .operation = "attention", .facts = facts, .count = LENGTH(facts), .shares = ONE_IN_TURN};
