/* SPDX-License-Identifier: Apache-2.0 */
/* Selective V on the CPU: the choice against the reference, also where the sample of the scores misleads, and that a
 * sequence's result depends on nothing else. */
#include "test.h"

#include "base/checked.h"
#include "runtime/cpu/decode/topk.h"
#include "runtime/cpu/decode/topk_choose.h"
#include "runtime/reference/reference.h"
#include "shape/number.h"

#include <headroom/buffer.h>
#include <headroom/device.h>
#include <math.h>
#include <stdlib.h>

/* ---- the choice ---- */

#define MOST 20000

typedef enum data { UNIFORM, FEW_VALUES, ONE_VALUE, SPECIAL, SAMPLE_TOO_LARGE, SAMPLE_TOO_SMALL, DATA } data;

static void make_scores(data kind, int64_t count, uint64_t seed, float *scores)
{
  static const float special[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-30f, -1e-30f};
  int64_t step = count / 1024; /* every step-th score is in the sample */
  hr_numbers_uniform(HR_FP32, seed, 0, (size_t)count, scores);
  for (int64_t i = 0; i < count; i++) {
    bool sampled = step > 0 && i % step == 0;
    if (kind == FEW_VALUES)
      scores[i] = rintf(scores[i] * 3);
    if (kind == ONE_VALUE)
      scores[i] = -0.5f;
    if (kind == SPECIAL && scores[i] > 0.3f)
      scores[i] = special[(int)(scores[i] * 1e4f) % 8];
    if (kind == SAMPLE_TOO_LARGE && sampled)
      scores[i] += 5;
    if (kind == SAMPLE_TOO_SMALL && sampled)
      scores[i] -= 5;
  }
}

static void check_choice(const hr_split_version *version, data kind, int64_t count, int64_t k)
{
  int64_t padded = hr_round_up(count, 64);
  float *scores = calloc((size_t)padded, sizeof *scores);
  double *exact = malloc((size_t)count * sizeof *exact), *expected = malloc((size_t)count * sizeof *expected);
  int32_t *places = malloc((size_t)count * sizeof *places);
  hr_topk_scratch scratch = {malloc((size_t)padded / 8), malloc((size_t)count * sizeof(uint32_t))};
  assert_true(scores && exact && expected && places && scratch.bits && scratch.keys);
  make_scores(kind, count, (uint64_t)(count + k), scores);
  for (int64_t i = 0; i < count; i++)
    exact[i] = (double)scores[i];
  for (int64_t i = count; i < padded; i++)
    scores[i] = 1e30f; /* is no score */
  (void)hr_reference_choose(exact, count, k, expected);
  hr_topk_choose(version, scores, count, k, &scratch, places);
  for (int64_t i = 0; i < k; i++)
    if (places[i] != (int32_t)expected[i])
      fail_msg("data %d, %d of %d: number %d is %d, expected %d", (int)kind, (int)k, (int)count, (int)i, (int)places[i],
               (int)expected[i]);
  free(scores);
  free(exact);
  free(expected);
  free(places);
  free(scratch.bits);
  free(scratch.keys);
}

static void the_choice_is_that_of_the_reference(void **state)
{
  (void)state;
  static const int64_t cases[][2] = {{1, 1},       {2, 1},          {63, 5},      {64, 64},    {65, 64},
                                     {300, 100},   {2047, 30},      {2048, 2000}, {4099, 1},   {4099, 100},
                                     {4099, 4098}, {9000, 4500},    {9000, 25},   {MOST, 100}, {MOST, 15000},
                                     {MOST, MOST}, {MOST, MOST - 1}};
  for (data kind = UNIFORM; kind < DATA; kind++)
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
      check_choice(&hr_split_portable, kind, cases[i][0], cases[i][1]);
}

/* ---- division ---- */

static hr_topk_cut cut_of(int64_t batch, int64_t kv_len, int64_t window, int threads)
{
  hr_decode d = hr_decode_default();
  hr_topk_cut cut;
  hr_error error;
  d.batch = batch, d.kv_len = kv_len, d.window = window, d.top_k = 10;
  d.q_heads = 32, d.k_heads = 4, d.v_heads = 16;
  assert_ok(hr_decode_set_pages(&d, 16, &error), error);
  assert_ok(hr_topk_cut_make(&d, threads, &cut, &error), error);
  return cut;
}

static void every_thread_has_scores_to_compute(void **state)
{
  (void)state;
  hr_topk_cut cut = cut_of(1, 8192, 0, 2);
  assert_int_equal(cut.heads, 4);
  assert_int_equal(cut.keys, 1024); /* 8 tasks */
  assert_int_equal(cut.splits, 8);
  cut = cut_of(1, 8192, 0, 64);
  assert_int_equal(cut.keys, 128); /* at least */
  cut = cut_of(1, 1 << 20, 0, 2);
  assert_int_equal(cut.keys, 2048); /* at most */
  cut = cut_of(64, 8192, 100, 2);   /* 64 sequences, of which one query sees 100 keys */
  assert_int_equal(cut.splits, 1);
  assert_true(cut.pitch < 256);
}

static void impossible_sizes_are_refused(void **state)
{
  (void)state;
  hr_decode d = hr_decode_default();
  hr_topk_cut cut;
  hr_error error;
  d.q_heads = (int64_t)1 << 38, d.qk_dim = (int64_t)1 << 24;
  assert_int_equal(hr_topk_cut_make(&d, 2, &cut, &error), HR_ERROR_OVERFLOW);
}

/* ---- bits ---- */

#define BATCH 5
#define LENGTH 2500
#define HEADS 4
#define DIM 32
#define ROW (HEADS * DIM)

static void run(int64_t batch, int threads, const int32_t *lengths, const float *q, const float *k, const float *v,
                float *o)
{
  hr_device *device;
  hr_plan *plan;
  hr_error error;
  hr_decode d = hr_decode_default();
  d.batch = batch, d.kv_len = LENGTH, d.top_k = 130, d.dtype = HR_FP32;
  d.q_heads = HEADS, d.k_heads = 1, d.v_heads = 2;
  d.qk_dim = d.v_dim = DIM;
  assert_ok(hr_decode_set_pages(&d, 0, &error), error);
  assert_ok(hr_device_open("cpu", threads, &device, &error), error);
  assert_ok(hr_plan_decode(device, &d, "decode_topk_portable", &plan, &error), error);
  void *workspace = aligned_alloc(64, (hr_plan_workspace_bytes(plan) + 63) / 64 * 64);
  assert_non_null(workspace);
  hr_decode_arguments x = hr_decode_arguments_default();
  x.q = q, x.k = k, x.v = v, x.o = o, x.lengths = lengths;
  assert_ok(hr_plan_run_decode(plan, &x, workspace, NULL, &error), error);
  free(workspace);
  hr_plan_free(plan);
  hr_device_close(device);
}

static float *numbers(size_t count, uint64_t seed)
{
  float *to = malloc(count * sizeof *to);
  assert_non_null(to);
  hr_numbers_uniform(HR_FP32, seed, 0, count, to);
  return to;
}

static void a_result_has_the_same_bits_in_any_batch(void **state)
{
  (void)state;
  float *q = numbers((size_t)BATCH * ROW, 1), *k = numbers((size_t)BATCH * LENGTH * DIM, 2);
  float *v = numbers((size_t)BATCH * LENGTH * 2 * DIM, 3), *o = numbers((size_t)BATCH * ROW, 4);
  const int32_t lengths[BATCH] = {2500, 129, 130, 131, 2049};
  run(BATCH, 2, lengths, q, k, v, o);
  for (size_t b = 0; b < BATCH; b++)
    for (int threads = 1; threads <= 2; threads++) {
      float one[ROW];
      run(1, threads, lengths + b, q + b * ROW, k + b * LENGTH * DIM, v + b * LENGTH * 2 * DIM, one);
      assert_memory_equal(one, o + b * ROW, sizeof one);
    }
  free(q);
  free(k);
  free(v);
  free(o);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_choice_is_that_of_the_reference),
      cmocka_unit_test(every_thread_has_scores_to_compute),
      cmocka_unit_test(impossible_sizes_are_refused),
      cmocka_unit_test(a_result_has_the_same_bits_in_any_batch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
