/* SPDX-License-Identifier: Apache-2.0 */
/* Predicted attention and decode calls of Headroom's kernels for GPUs, whose tiles and thread blocks are known. */
#include "test.h"

#include "analysis/predict/terms.h"

#include <math.h>

#define assert_near(value, expected) assert_true(fabs((value) - (expected)) <= 1e-6 * fabs((double)(expected)) + 1e-9)

static hr_hardware toy(int64_t multiprocessors, double bandwidth_bytes_per_s)
{
  hr_hardware hardware = hr_hardware_default();
  hardware.multiprocessors = multiprocessors;
  hardware.blocks_per_multiprocessor = 1;
  hardware.dense_flops_per_s[HR_BF16] = 108e12;
  hardware.library_share[HR_BF16] = 1;
  hardware.bandwidth_bytes_per_s = bandwidth_bytes_per_s;
  hardware.bandwidth_share = 0.9;
  hardware.shared_bytes = 233472;
  hardware.tile_count = 1;
  hardware.tiles[0] = (hr_tile){128, 256, 1};
  return hardware;
}

static hr_decode call_of(int64_t batch, int64_t kv_len)
{
  hr_decode d = hr_decode_default();
  hr_error error;
  d.dtype = HR_BF16;
  d.batch = batch, d.kv_len = kv_len;
  d.q_heads = 32, d.k_heads = d.v_heads = 4, d.qk_dim = d.v_dim = 128;
  assert_ok(hr_decode_set_pages(&d, 16, &error), error);
  return d;
}

/* 20 sequences with 4 K and V heads of 128 are 80 blocks, one on a multiprocessor at a time, whose 228 KiB hold 8 warps
 * with 3 stages of 16 keys once: on 64 of them 1.25, so 2, waves. */
static void decode_blocks_run_in_waves(void **state)
{
  (void)state;
  hr_error error;
  hr_prediction p, one, longer;
  hr_hardware hardware = toy(64, 1e12);
  hr_decode d = call_of(20, 256);
  hardware.decode_headroom = (hr_decode_cost){.launch_ns = 3000, .bandwidth_share = 0.9, .wave_ns = 2500};
  assert_ok(hr_predict_decode(&hardware, &d, &p, &error), error);
  assert_int_equal(p.tiles, 80);
  assert_int_equal(p.waves, 2);
  assert_int_equal(p.splits, 1);
  int64_t bytes = 0;
  assert_ok(hr_decode_bytes(&d, &bytes), error);
  assert_near(p.memory_ns, (double)bytes / 900 * (1 + 0.24 * (128.0 / 80 - 1)));
  double busy_ns = pow(pow(p.memory_ns, 1.25) + pow(2500, 1.25), 0.8);
  assert_near(p.memory_ns + p.wave_ns, busy_ns);
  assert_near(p.time_ns, 3000 + cbrt(pow(busy_ns, 3) + pow(p.matrix_ns + p.tile_ns, 3)));

  d.batch = 16; /* one wave */
  assert_ok(hr_decode_bytes(&d, &bytes), error);
  assert_ok(hr_predict_decode(&hardware, &d, &one, &error), error);
  assert_true(one.waves == 1 && one.wave_ns == 0);
  assert_near(one.memory_ns, (double)bytes / 900);
  hardware.l2_bytes = 1000000, hardware.decode_headroom.fill_share = 0.5;
  assert_ok(hr_predict_decode(&hardware, &d, &longer, &error), error);
  assert_near(longer.memory_ns, one.memory_ns + 500);
  hardware.decode_headroom.read_latency_ns = 2000; /* 2 · 8 stages of 16 keys of 512 bytes are under way */
  assert_ok(hr_predict_decode(&hardware, &d, &longer, &error), error);
  double waiting_ns = (double)bytes / (64 * 131072.0) * 2000;
  assert_near(longer.memory_ns, 500 + cbrt(pow(one.memory_ns, 3) + pow(waiting_ns, 3)));
}

/* One sequence of 4096 keys: its 4 groups are split among blocks, which combine them in clusters if there are any. */
static void splits_of_decode_are_combined(void **state)
{
  (void)state;
  hr_error error;
  hr_prediction p, clustered, few;
  hr_hardware hardware = toy(64, 1e12);
  hr_decode d = call_of(1, 4096);
  hardware.decode_headroom = (hr_decode_cost){.launch_ns = 3000, .wave_ns = 2500, .combine_ns = 2000};
  assert_ok(hr_predict_decode(&hardware, &d, &p, &error), error);
  assert_true(p.splits > 1 && p.waves == 1);
  assert_near(p.split_ns, 2000);
  hardware.decode_headroom.cluster_ns = 500;
  assert_ok(hr_predict_decode(&hardware, &d, &clustered, &error), error);
  assert_near(clustered.split_ns, 500);
  hardware.decode_headroom.reach = 0.5; /* half of the bandwidth, where all multiprocessors have a block */
  assert_ok(hr_predict_decode(&hardware, &d, &few, &error), error);
  assert_true(few.memory_ns >= 2 * 0.9 * clustered.memory_ns);
  d.latent = true, d.k_heads = d.v_heads = 1, d.qk_dim = 576, d.v_dim = 512; /* another kernel */
  assert_ok(hr_predict_decode(&hardware, &d, &p, &error), error);
  assert_true(p.wave_ns == 0 && p.tiles == 0);
}

/* 2048 queries without a mask are 16 tiles for each of 2 heads on 36 multiprocessors: each alone. */
static void a_lone_tile_of_headroom_runs_at_its_own_rate(void **state)
{
  (void)state;
  hr_hardware hardware = toy(36, 1e13);
  hr_error error;
  hr_prediction p;
  hr_attention a = hr_attention_default();
  a.dtype = HR_BF16, a.mask = HR_MASK_NONE, a.q_len = a.kv_len = 2048, a.q_heads = a.k_heads = a.v_heads = 2,
  a.qk_dim = a.v_dim = 64;
  hardware.prefill_headroom =
      (hr_prefill_cost){.launch_ns = 4000, .block_ns = 800, .element_ns = 10, .lone_share = 0.5};
  assert_ok(hr_predict_attention_by(&hardware, &a, HR_FRAMEWORK_HEADROOM, &p, &error), error);
  double slot_rate = hr_hardware_library_flops_per_s(&hardware, HR_BF16) * 0.6 / 36e9;
  double lone_ns = 2048.0 * 128 * 4 * 64 / slot_rate / 0.5;
  assert_near(p.matrix_ns + p.tile_ns + p.wave_ns, lone_ns);
  assert_near(p.launch_ns, 4000);
  a.batch = 32; /* the tiles fill the multiprocessors, and each costs 800 + 10 · 64 ns */
  assert_ok(hr_predict_attention_by(&hardware, &a, HR_FRAMEWORK_HEADROOM, &p, &error), error);
  assert_near(p.matrix_ns + p.tile_ns, 1024 / 36.0 * (2048.0 * 128 * 4 * 64 / slot_rate + 1440));
  assert_near(p.wave_ns, 0);
}

/* 80 heads of two tiles, of 2 and 1 units of work, on 132 slots: 80 of these take 2, the others 1 or 2, where equal
 * shares are 240 / 132. */
static void long_tiles_leave_gaps(void **state)
{
  (void)state;
  hr_attention a = hr_attention_default();
  a.mask = HR_MASK_CAUSAL, a.q_len = a.kv_len = 256, a.q_heads = a.k_heads = a.v_heads = 8, a.batch = 10;
  assert_near(hr_predict_longest_first(&a, 128, 128, 132), 2 / (240.0 / 132));
  a.batch = 12; /* 96 heads: 24 of the short tiles are third on a slot */
  assert_near(hr_predict_longest_first(&a, 128, 128, 132), 2 / (288.0 / 132) * 1.5);
  a.q_len = a.kv_len = 200; /* the last tile has 72 rows, which are two warpgroups of 64 */
  assert_near(hr_predict_longest_first(&a, 128, 128, 132), 2 / (288.0 / 132) * 1.5);
  a.window = 64; /* all tiles see 192 keys at most */
  assert_near(hr_predict_longest_first(&a, 128, 128, 132), 3 / (288.0 / 132));
  a.window = 0;
  assert_near(hr_predict_longest_first(&a, 128, 128, 200), 1); /* a slot for each */
  a.batch = 1000;
  assert_near(hr_predict_longest_first(&a, 128, 128, 132), 1);
  a.batch = 12, a.mask = HR_MASK_NONE;
  assert_near(hr_predict_longest_first(&a, 128, 128, 132), 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decode_blocks_run_in_waves),
      cmocka_unit_test(splits_of_decode_are_combined),
      cmocka_unit_test(long_tiles_leave_gaps),
      cmocka_unit_test(a_lone_tile_of_headroom_runs_at_its_own_rate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
