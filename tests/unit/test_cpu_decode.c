/* SPDX-License-Identifier: Apache-2.0 */
/* Decode attention on the CPU: how a call is divided, and that a sequence's result depends on nothing else. */
#include "test.h"

#include "runtime/cpu/decode/cut.h"
#include "shape/number.h"

#include <headroom/buffer.h>
#include <headroom/device.h>
#include <stdlib.h>

/* ---- division ---- */

static hr_split_cut cut_of(int64_t batch, int64_t kv_len, int threads)
{
  hr_decode d = hr_decode_default();
  hr_split_cut cut;
  hr_error error;
  d.batch = batch, d.kv_len = kv_len;
  d.q_heads = 32, d.k_heads = d.v_heads = 8;
  d.qk_dim = d.v_dim = 128;
  assert_ok(hr_decode_set_pages(&d, 16, &error), error);
  assert_ok(hr_split_cut_make(&d, false, threads, &cut, &error), error);
  return cut;
}

static void heads_are_read_together_where_threads_have_enough_tasks(void **state)
{
  (void)state;
  hr_split_cut cut = cut_of(1, 8192, 2); /* 8 splits */
  assert_int_equal(cut.splits, 8);
  assert_int_equal(cut.group_units, 8);
  assert_int_equal(cut.unit_rows, 4);
  cut = cut_of(1, 8192, 8); /* 32 tasks: 4 groups of 2 units */
  assert_int_equal(cut.groups, 4);
  assert_int_equal(cut.group_units, 2);
  cut = cut_of(64, 8192, 2); /* 64 = 32 · 2 groups: no sums in memory */
  assert_int_equal(cut.groups, 1);
  assert_int_equal(cut.splits, 1);
  assert_int_equal(cut.bytes, 2 * cut.slot_bytes);
}

/* Two blocks of K and V, 512 bytes a token and head, stay in a cache of 1 MiB: 32 heads of a token 16 KiB, 32 keys. */
static void blocks_with_tiles_are_as_long_as_a_cache_holds(void **state)
{
  (void)state;
  static const int64_t heads[] = {64, 32, 16, 15, 8, 1}, keys[] = {32, 32, 64, 64, 128, 128};
  hr_error error;
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
    for (int apart = 0; apart < 2; apart++) {
      hr_decode d = hr_decode_default();
      hr_split_cut cut;
      d.kv_len = 8192, d.dtype = HR_BF16;
      d.q_heads = d.k_heads = d.v_heads = heads[i];
      d.qk_dim = d.v_dim = 128;
      assert_ok(hr_decode_set_pages(&d, 0, &error), error);
      if (apart)
        d.k_strides = d.v_strides = (hr_kv_strides){.page = heads[i] * 8192 * 128, .token = 128, .head = 8192 * 128};
      assert_ok(hr_split_cut_make(&d, true, 2, &cut, &error), error);
      assert_int_equal(cut.block, apart ? 128 : keys[i]);
      assert_int_equal(cut.k_rows, 16);
      assert_true(cut.direct);
      assert_ok(hr_split_cut_make(&d, false, 2, &cut, &error), error);
      assert_int_equal(cut.block, 32);
      assert_int_equal(cut.k_rows, 1);
      d.q_len = 16, d.q_heads = 2 * heads[i]; /* 32 query rows a head */
      assert_ok(hr_split_cut_make(&d, true, 2, &cut, &error), error);
      assert_int_equal(cut.k_rows, 32);
      assert_false(cut.direct);
    }
}

static void splits_begin_at_multiples_of_their_size(void **state)
{
  (void)state;
  hr_decode d = hr_decode_default();
  d.q_len = 2;
  static const int64_t cases[][4] = {/* window, length, first split, splits */
                                     {0, 0, 0, 1},       {0, 1, 0, 1},       {0, 1024, 0, 1},   {0, 1025, 0, 2},
                                     {100, 1100, 0, 2},  {100, 1124, 0, 2},  {100, 1125, 1, 1}, {100, 2048, 1, 1},
                                     {1024, 2048, 0, 2}, {1024, 2049, 1, 2}, {5000, 10, 0, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    d.window = cases[i][0];
    hr_split_range range = hr_split_range_of(&d, cases[i][1]);
    if (range.first != cases[i][2] || range.count != cases[i][3])
      fail_msg("case %zu: %d splits from %d on", i, (int)range.count, (int)range.first);
  }
}

static void impossible_sizes_are_refused(void **state)
{
  (void)state;
  hr_decode d = hr_decode_default();
  hr_split_cut cut;
  hr_error error;
  d.q_heads = (int64_t)1 << 38, d.qk_dim = (int64_t)1 << 24;
  assert_int_equal(hr_split_cut_make(&d, false, 2, &cut, &error), HR_ERROR_OVERFLOW);
}

/* ---- bits ---- */

#define BATCH 70 /* more than 32 groups of 2 threads: sums are not stored */
#define LENGTH 2500
#define HEADS 4
#define DIM 32
#define ROW (HEADS * DIM)

static void run(const char *kernel, int64_t batch, int threads, const int32_t *lengths, const float *q, const float *k,
                const float *v, float *o)
{
  hr_device *device;
  hr_plan *plan;
  hr_error error;
  hr_decode d = hr_decode_default();
  d.batch = batch, d.kv_len = LENGTH, d.dtype = HR_FP32;
  d.q_heads = HEADS, d.k_heads = 1, d.v_heads = 2;
  d.qk_dim = d.v_dim = DIM;
  assert_ok(hr_decode_set_pages(&d, 0, &error), error);
  assert_ok(hr_device_open("cpu", threads, &device, &error), error);
  assert_ok(hr_plan_decode(device, &d, kernel, &plan, &error), error);
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
  int32_t lengths[BATCH];
  for (int i = 0; i < BATCH; i++)
    lengths[i] = (i * 517 + 2499) % (LENGTH + 1);
  run("decode_split_portable", BATCH, 2, lengths, q, k, v, o);
  static const int alone[] = {0, 1, 33, BATCH - 1};
  for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
    for (int threads = 1; threads <= 2; threads++) {
      size_t b = (size_t)alone[i];
      float one[ROW];
      run("decode_split_portable", 1, threads, lengths + b, q + b * ROW, k + b * LENGTH * DIM, v + b * LENGTH * 2 * DIM,
          one);
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
      cmocka_unit_test(heads_are_read_together_where_threads_have_enough_tasks),
      cmocka_unit_test(blocks_with_tiles_are_as_long_as_a_cache_holds),
      cmocka_unit_test(splits_begin_at_multiples_of_their_size),
      cmocka_unit_test(impossible_sizes_are_refused),
      cmocka_unit_test(a_result_has_the_same_bits_in_any_batch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
