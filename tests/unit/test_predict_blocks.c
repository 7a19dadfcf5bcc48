/* SPDX-License-Identifier: Apache-2.0 */
/* Predicted attention and decode calls of Headroom's kernels for GPUs, whose tiles and thread blocks are known. */
#include "test.h"

#include "analysis/predict/flash.h"
#include "analysis/predict/terms.h"
#include "hardware/hardware.h"

#include <headroom/experimental/hardware.h>
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
  assert_near(p.memory_ns, (double)bytes / 900 * (1 + 0.2 * (128.0 / 80 - 1)));
  double busy_ns = p.memory_ns + 2500;
  assert_near(p.wave_ns, 2500);
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

static hr_attention prefill_of(int64_t tokens, int64_t heads, int64_t dim, hr_mask mask)
{
  hr_attention a = hr_attention_default();
  a.dtype = HR_BF16, a.mask = mask, a.q_len = a.kv_len = tokens;
  a.q_heads = a.k_heads = a.v_heads = heads, a.qk_dim = a.v_dim = dim;
  return a;
}

/* 4608 tokens are 24 Q tiles of 192 rows for each of 8 heads: 192 items for 132 workers. The last Q tile of a head sees
 * 36 K/V tiles of 128 keys, one of the mean length 19. */
static void the_last_worker_of_attention_ends_a_quarter_of_an_item_late(void **state)
{
  (void)state;
  hr_attention a = prefill_of(4608, 8, 64, HR_MASK_CAUSAL);
  hr_flash_grid grid = hr_flash_sm90_grid(&a, 132, 50 << 20);
  assert_true(grid.rows == 192 && grid.tiles.keys == 128 && grid.work_items == 192);
  hr_flash_load longest = hr_flash_longest_load(&a, &grid), mean = hr_flash_mean_load(&a, &grid);
  assert_near(longest.tiles, 36);           /* 456 * 8 / 132 + 19 / 4 = 32.4 are less */
  assert_near(mean.tiles, 456 * 8 / 132.0); /* 2 + 3 + 5 + 6 + ... + 36 = 456 */
  assert_near(mean.items, 192 / 132.0);
  assert_near(longest.items, mean.items);
  a.batch = 40;
  grid = hr_flash_sm90_grid(&a, 132, 50 << 20);
  longest = hr_flash_longest_load(&a, &grid), mean = hr_flash_mean_load(&a, &grid);
  assert_near(longest.tiles, mean.tiles + 456 / 24.0 / 4);
  a.batch = 1, a.q_heads = a.k_heads = a.v_heads = 5; /* an item each */
  grid = hr_flash_sm90_grid(&a, 132, 50 << 20);
  longest = hr_flash_longest_load(&a, &grid);
  assert_near(longest.tiles, 36);
  assert_near(longest.items, 1);
  a.window = 256; /* rows 4416 to 4607 see keys 4161 to 4607: tiles 32 to 35 */
  longest = hr_flash_longest_load(&a, &grid);
  assert_near(longest.tiles, 4);
}

static void items_of_one_length_come_in_turn(void **state)
{
  (void)state;
  hr_attention a = prefill_of(8192, 9, 128, HR_MASK_NONE);
  hr_flash_grid grid = hr_flash_sm90_grid(&a, 132, 50 << 20);
  hr_flash_load longest = hr_flash_longest_load(&a, &grid);
  assert_near(longest.items, ceil((double)grid.work_items / (double)grid.at_once));
  assert_near(longest.tiles, longest.items * 8192 / (double)grid.tiles.keys);
}

/* K/V tiles that a work item reads: from the first key that its first row sees to the last of its last row, one where
 * it sees no key. */
static int64_t tiles_of_item(const hr_attention *a, const hr_flash_grid *grid, int64_t item)
{
  int64_t from = item * grid->rows, to = from + grid->rows < a->q_len ? from + grid->rows : a->q_len, tiles = 0;
  int64_t before = a->kv_len - a->q_len, end = a->mask == HR_MASK_CAUSAL ? before + to : a->kv_len;
  int64_t first = a->window > 0 ? before + from + 1 - a->window : 0;
  end = end < 1 ? 1 : end;
  for (int64_t tile = 0; tile * grid->tiles.keys < end; tile++)
    tiles += (tile + 1) * grid->tiles.keys > first;
  return tiles;
}

static int64_t some_number(uint64_t *random)
{
  *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407u; /* Knuth, MMIX */
  return (int64_t)(*random >> 33);
}

static void the_mean_load_is_that_of_all_work_items_counted(void **state)
{
  (void)state;
  static const int64_t dims[] = {64, 128, 256};
  uint64_t random = 11;
  int64_t blind = 0, windows = 0;
  for (int round = 0; round < 3000; round++) {
    hr_attention a = prefill_of(1, 1, dims[some_number(&random) % 3], HR_MASK_CAUSAL);
    a.q_len = 1 + some_number(&random) % (round % 2 ? 9000 : 300), a.kv_len = 1 + some_number(&random) % 3000;
    a.mask = round % 4 ? HR_MASK_CAUSAL : HR_MASK_NONE;
    a.window = a.mask == HR_MASK_CAUSAL && round % 3 ? 1 + some_number(&random) % (round % 5 ? 500 : 9000) : 0;
    hr_flash_grid grid = hr_flash_sm90_grid(&a, 7, 50 << 20);
    double tiles = 0;
    for (int64_t item = 0; item < grid.q_tiles; item++)
      tiles += (double)tiles_of_item(&a, &grid, item);
    hr_flash_load mean = hr_flash_mean_load(&a, &grid);
    assert_near(mean.tiles * (double)grid.at_once, tiles);
    blind += a.q_len > a.kv_len && a.mask == HR_MASK_CAUSAL, windows += a.window > 0;
  }
  assert_true(blind > 500 && windows > 500);
}

/* A counted loop over its 2^40 / 192 Q tiles would take minutes. Without a mask each reads all of K. */
static void the_mean_load_of_the_longest_call_is_that_of_some_items(void **state)
{
  (void)state;
  hr_attention a = prefill_of(INT64_C(1) << 40, 1, 64, HR_MASK_NONE);
  hr_flash_grid grid = hr_flash_sm90_grid(&a, 132, 50 << 20);
  assert_near(hr_flash_mean_load(&a, &grid).tiles, (double)grid.q_tiles * 0x1p33 / 132); /* 2^40 keys, 128 in a tile */
  a.mask = HR_MASK_CAUSAL;                                                               /* half of it */
  assert_near(hr_flash_mean_load(&a, &grid).tiles, (double)grid.q_tiles * 0x1p33 / 132 / 2);
}

/* 2048 tokens without a mask: the Q tiles of 2 heads are fewer than the multiprocessors, and each sees all keys. */
static void attention_on_hopper_takes_its_tiles_and_items(void **state)
{
  (void)state;
  hr_hardware hardware = toy(36, 1e13);
  hr_error error;
  hr_prediction p;
  hr_attention a = prefill_of(2048, 2, 128, HR_MASK_NONE);
  strcpy(hardware.about.architecture, "hopper");
  hardware.attention_count = 1;
  hardware.attentions[0] = (hr_attention_share){.head_dim = 128, .forward_share = 0.5, .headroom_share = 0.8};
  hardware.prefill_headroom =
      (hr_prefill_cost){.launch_ns = 4000, .block_ns = 800, .element_ns = 10, .busy_ns = 900, .load_share = 0.5};
  hr_flash_grid grid = hr_flash_sm90_grid(&a, 36, 0);
  assert_true(grid.work_items <= 36 && grid.tiles.cluster == 1);
  assert_ok(hr_predict_attention_by(&hardware, &a, HR_FRAMEWORK_HEADROOM, &p, &error), error);
  double rate = hr_hardware_library_flops_per_s(&hardware, HR_BF16) * 0.8 / 1e9;
  double tiles_ns = 4 * (double)grid.rows * 2048 * 128 / (rate / 36);
  double longest_ns = tiles_ns + 800 + 10 * 128 * (double)grid.rows / 128;
  double useful_ns = 2 * 4 * 2048.0 * 2048 * 128 / rate;
  double busy_ns = pow(pow(longest_ns, 6) + pow(useful_ns, 6), 1 / 6.0);
  assert_near(p.matrix_ns + p.tile_ns + p.wave_ns, busy_ns);
  assert_near(p.launch_ns, 4000 + 900 * (double)grid.work_items / 36);
  assert_near(p.memory_ns, 4 * 2 * 2048.0 * 128 * 2 / (1e13 / 1e9 * 0.5));
  assert_near(p.time_ns, p.launch_ns + pow(pow(busy_ns, 1.5) + pow(p.memory_ns, 1.5), 2 / 3.0));
  assert_true(p.tile_m == grid.rows && p.tile_n == grid.tiles.keys && p.tiles == grid.work_items && p.waves == 1);
  a.qk_dim = a.v_dim = 100; /* rows that are no multiple of 16 bytes: another kernel */
  assert_ok(hr_predict_attention_by(&hardware, &a, HR_FRAMEWORK_HEADROOM, &p, &error), error);
  assert_true(p.tile_m == 128 && p.memory_ns < 4 * 2 * 2048.0 * 128 * 2 / 9e3);
}

/* Up to 1024 keys there may be tiles of 64, and a share for them. */
static void short_attention_on_hopper_has_its_own_share(void **state)
{
  (void)state;
  hr_hardware hardware = toy(132, 1e13);
  hr_error error;
  hr_prediction p, slow, longer;
  hr_attention a = prefill_of(1024, 64, 64, HR_MASK_CAUSAL);
  strcpy(hardware.about.architecture, "hopper");
  hardware.prefill_headroom = (hr_prefill_cost){.launch_ns = 4000, .block_ns = 800};
  hardware.attention_count = 1;
  hardware.attentions[0] = (hr_attention_share){64, 0.5, 0.5, .headroom_share = 1, .short_share = 1};
  assert_ok(hr_predict_attention_by(&hardware, &a, HR_FRAMEWORK_HEADROOM, &p, &error), error);
  hardware.attentions[0].short_share = 0.5;
  assert_ok(hr_predict_attention_by(&hardware, &a, HR_FRAMEWORK_HEADROOM, &slow, &error), error);
  assert_true(slow.time_ns > 1.4 * p.time_ns);
  a.q_len = a.kv_len = 2048;
  assert_ok(hr_predict_attention_by(&hardware, &a, HR_FRAMEWORK_HEADROOM, &slow, &error), error);
  hardware.attentions[0].short_share = 1;
  assert_ok(hr_predict_attention_by(&hardware, &a, HR_FRAMEWORK_HEADROOM, &longer, &error), error);
  assert_near(slow.time_ns, longer.time_ns);
}

/* Reading takes 1 / 1.021 of the time in pages of 16 without pages, and (1 + 0.021 / 4) / 1.021 in pages of 64. */
static void larger_pages_and_none_take_less_time_to_read(void **state)
{
  (void)state;
  static const struct {
    int64_t page;
    double share;
  } rows[] = {{16, 1}, {0, 1 / 1.021}, {64, (1 + 0.021 / 4) / 1.021}, {1, 1}};
  hr_hardware hardware = toy(64, 1e12);
  hardware.decode_headroom = (hr_decode_cost){.launch_ns = 3000, .bandwidth_share = 0.9, .wave_ns = 2500};
  hr_decode d = call_of(20, 256);
  hr_prediction usual, p;
  hr_error error;
  assert_ok(hr_predict_decode(&hardware, &d, &usual, &error), error);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_ok(hr_decode_set_pages(&d, rows[i].page, &error), error);
    assert_ok(hr_predict_decode(&hardware, &d, &p, &error), error);
    assert_near(p.memory_ns, usual.memory_ns * rows[i].share);
  }
}

/* 8 sequences of 16 tokens, 64 query heads over 8 K heads: a Q tile for each head, or one of 128 rows for the 8 heads
 * of a K head. The other figures are of one head of 1024 tokens and 256 elements, in 16 and in 8 bits. */
static void kernels_of_servers_pack_heads_and_wait_for_keys(void **state)
{
  (void)state;
  hr_hardware hardware = toy(64, 1e13);
  hr_error error;
  hr_prediction p, slow;
  hr_attention a = prefill_of(16, 64, 128, HR_MASK_CAUSAL);
  a.batch = 8, a.k_heads = a.v_heads = 8;
  hardware.prefill_server = (hr_prefill_cost){.launch_ns = 4000, .block_ns = 2000};
  assert_ok(hr_predict_prefill(&hardware, &a, HR_FRAMEWORK_COMPILED, true, &p, &error), error);
  assert_true(p.tile_m == 16 && p.tiles == 512);
  hardware.prefill_server.packed_window_share = 1; /* there is no window */
  assert_ok(hr_predict_prefill(&hardware, &a, HR_FRAMEWORK_COMPILED, true, &slow, &error), error);
  assert_true(slow.time_ns == p.time_ns);
  hardware.prefill_server.packed_share = 1;
  assert_ok(hr_predict_prefill(&hardware, &a, HR_FRAMEWORK_COMPILED, true, &p, &error), error);
  assert_true(p.tile_m == 128 && p.tiles == 64 && p.time_ns < slow.time_ns);
  assert_ok(hr_predict_prefill(&hardware, &a, HR_FRAMEWORK_COMPILED, false, &p, &error), error);
  assert_true(p.tile_m == 16 && p.tiles == 512); /* PyTorch's kernel */

  a = prefill_of(1024, 1, 256, HR_MASK_CAUSAL);
  assert_ok(hr_predict_prefill(&hardware, &a, HR_FRAMEWORK_COMPILED, true, &p, &error), error);
  hardware.prefill_server.key_ns = 1000; /* arithmetic alone: 128 · 4 · 256 / (108e3 · 0.6 / 64) = 129 ns */
  assert_ok(hr_predict_prefill(&hardware, &a, HR_FRAMEWORK_COMPILED, true, &slow, &error), error);
  assert_true(slow.time_ns > 1024000 && p.time_ns < 0.3 * 1024000);
  hardware.prefill_server.window_launch_ns = 9000, a.window = 64;
  assert_ok(hr_predict_prefill(&hardware, &a, HR_FRAMEWORK_COMPILED, true, &p, &error), error);
  assert_near(p.launch_ns, 9000);
  assert_near(slow.launch_ns, 4000);

  a.dtype = HR_FP8_E4M3, a.window = 0;
  hardware.dense_flops_per_s[HR_FP8_E4M3] = 216e12, hardware.prefill_fp8 = hardware.prefill_server;
  hardware.attention_count = 1, hardware.attentions[0] = (hr_attention_share){256, .forward_share = 0.5};
  assert_ok(hr_predict_prefill(&hardware, &a, HR_FRAMEWORK_COMPILED, true, &slow, &error), error);
  hardware.attentions[0].fp8_share = 1;
  assert_ok(hr_predict_prefill(&hardware, &a, HR_FRAMEWORK_COMPILED, true, &p, &error), error);
  assert_true(p.time_ns <= slow.time_ns && p.tile_ns < 0.6 * slow.tile_ns);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decode_blocks_run_in_waves),
      cmocka_unit_test(larger_pages_and_none_take_less_time_to_read),
      cmocka_unit_test(splits_of_decode_are_combined),
      cmocka_unit_test(the_last_worker_of_attention_ends_a_quarter_of_an_item_late),
      cmocka_unit_test(items_of_one_length_come_in_turn),
      cmocka_unit_test(the_mean_load_is_that_of_all_work_items_counted),
      cmocka_unit_test(the_mean_load_of_the_longest_call_is_that_of_some_items),
      cmocka_unit_test(attention_on_hopper_takes_its_tiles_and_items),
      cmocka_unit_test(short_attention_on_hopper_has_its_own_share),
      cmocka_unit_test(kernels_of_servers_pack_heads_and_wait_for_keys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
