/* SPDX-License-Identifier: Apache-2.0 */
/* Predicted GEMMs whose rows are aligned to a part of a sector, or whose operands are misaligned. */
#include "test.h"

#include <headroom/predict.h>

#include <math.h>

#define assert_near(value, expected) assert_true(fabs((value) - (expected)) <= 1e-6 * fabs((double)(expected)) + 1e-9)

/* 100 slots of 1 TFLOP/s with a large and a small tile; 1 TB/s. */
static hr_hardware toy(void)
{
  hr_hardware hardware = hr_hardware_default();
  hardware.kind = HR_HARDWARE_GPU;
  hardware.multiprocessors = 100;
  hardware.blocks_per_multiprocessor = 1;
  hardware.dense_flops_per_s[HR_BF16] = 100e12;
  hardware.dense_flops_per_s[HR_FP32] = 100e12;
  hardware.library_share[HR_BF16] = 1;
  hardware.bandwidth_bytes_per_s = 1e12;
  hardware.bandwidth_share = 1;
  hardware.l2_bytes = 1 << 30; /* operands are read once */
  hardware.tile_count = 2;
  hardware.tiles[0] = (hr_tile){128, 256, 1};
  hardware.tiles[1] = (hr_tile){64, 32, 1};
  hardware.alignment_count = 2;
  hardware.alignments[0] = (hr_alignment_class){.bytes = 2, .gemm_share = 0.5, .bmm_share = 0.5, .result_share = 0.5};
  hardware.alignments[1] = (hr_alignment_class){.bytes = 16, .gemm_share = 1, .bmm_share = 1, .result_share = 1};
  return hardware;
}

static hr_prediction predict(const hr_hardware *hardware, int64_t m, int64_t n, int64_t k, int64_t batch)
{
  hr_gemm gemm = hr_gemm_default();
  hr_prediction p;
  hr_error error;
  gemm.m = m, gemm.n = n, gemm.k = k, gemm.batch = batch;
  assert_ok(hr_predict_gemm(hardware, &gemm, &p, &error), error);
  return p;
}

static void parts_of_sectors_are_written_slower(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.sector_store_share = 0.5;
  hr_prediction parts = predict(&hardware, 8192, 8200, 32, 1), whole = predict(&hardware, 8192, 8208, 32, 1);
  double loaded = 2 * 32 * (8192.0 + 8200), stored = 2 * 8192.0 * 8200;
  assert_near(parts.memory_ns, (loaded + 2 * stored) / 1e3);
  assert_near(whole.memory_ns, 2 * (32 * (8192.0 + 8208) + 8192.0 * 8208) / 1e3);
  hardware.sector_store_share = 0; /* unknown: no loss */
  parts = predict(&hardware, 8192, 8200, 32, 1);
  assert_near(parts.memory_ns, (loaded + stored) / 1e3);
}

static void misaligned_operands_have_no_small_tiles(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hr_prediction aligned = predict(&hardware, 64, 32, 512, 1), misaligned = predict(&hardware, 64, 32, 511, 1);
  assert_true(aligned.tile_m == 64 && aligned.tile_n == 32);
  assert_true(misaligned.tile_m == 128 && misaligned.tile_n == 256);
}

static void misaligned_operands_have_the_largest_tile_where_all_are_small(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.tile_count = 2;
  hardware.tiles[0] = (hr_tile){32, 32, 1};
  hardware.tiles[1] = (hr_tile){16, 16, 1};
  hr_prediction p = predict(&hardware, 640, 640, 511, 1);
  assert_true(p.tile_m == 32 && p.tile_n == 32 && p.tiles == 20 * 20);
  assert_near(p.alignment_loss, 0.5);
}

/* Tiles of 64 × 64 have four thirds of the edge of the reference tile for each quarter of its area: edge / reference is
 * 8/3, of which a batched GEMM loses the root. */
static void small_tiles_of_batched_gemms_lose_the_root_of_their_edge(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.tile_count = 1;
  hardware.tiles[0] = (hr_tile){64, 64, 1};
  hr_prediction p = predict(&hardware, 640, 640, 511, 2);
  assert_near(p.alignment_loss, 1 - 1 / (1 + sqrt(8.0 / 3)));
}

/* Half of an aligned tile's time is its store: 2·64·64·500 operations of a slot of 1 TFLOP/s, and 64·64 elements. */
static void stores_of_misaligned_batched_gemms_have_a_factor_of_their_own(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.tile_count = 1;
  hardware.tiles[0] = (hr_tile){64, 64, 1};
  hardware.store_exposed = 1;
  hardware.bandwidth_bytes_per_s = 2e14 / 1000; /* an element's store is 100 · 2 bytes over it: 1 ns */
  hr_prediction p = predict(&hardware, 640, 640, 499, 2);
  assert_near(p.alignment_loss, 1 - 1 / (1 + sqrt(8.0 / 3)));
  hardware.narrow_store = 3;
  p = predict(&hardware, 640, 640, 499, 2);
  double compute_ns = 2 * 499e-3, slowed_ns = compute_ns * (1 + sqrt(8.0 / 3)) + 3;
  assert_near(p.alignment_loss, 1 - (compute_ns + 1) / slowed_ns);
  p = predict(&hardware, 640, 640, 499, 1); /* not of a plain one */
  assert_near(p.alignment_loss, 0.5);
}

/* B and C of n = 1 are vectors, whose elements are neighbours, although a row of them is a single element. */
static void columns_of_vectors_are_read_at_the_full_rate(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hr_prediction aligned = predict(&hardware, 2048, 1, 2048, 64), odd = predict(&hardware, 2048, 1, 2047, 64);
  double bytes = 2.0 * 64 * (2048.0 * 2048 + 2 * 2048);
  assert_near(aligned.memory_ns, bytes / 1e3);
  assert_true(odd.memory_ns > 2 * aligned.memory_ns);
}

/* 100 tiles of 128 × 128 for 100 slots: 2·128·128·499 operations take 16351 ns at the full rate, four times as long at
 * 0.25 of it, and 2 ns more for each of 499 steps. */
static void odd_operands_have_kernels_of_their_own(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.odd_tile_count = 1;
  hardware.odd_tiles[0] = (hr_tile){128, 128, 0.25};
  hardware.odd = (hr_narrow_cost){.launch_ns = 5000, .busy_ns = 1000, .step_ns = 2, .store = 3, .result_share = 0.5};
  hr_prediction p = predict(&hardware, 1280, 1280, 499, 1);
  double full_ns = 2 * 128 * 128 * 499e-3, odd_ns = 4 * full_ns + 2 * 499;
  assert_true(p.tile_m == 128 && p.tile_n == 128 && p.waves == 1);
  assert_near(p.alignment_loss, 1 - full_ns / odd_ns);
  assert_near(p.launch_ns, 6000);
  assert_near(predict(&hardware, 640, 1280, 499, 1).launch_ns, 5500); /* half of the slots have a tile */
  assert_true(predict(&hardware, 1280, 1280, 512, 1).launch_ns == 0);
  p = predict(&hardware, 1280, 1280, 498, 1); /* of 4 bytes: another kernel, of which nothing is known */
  assert_true(p.tile_n == 256 && p.launch_ns == 0);
  hardware.narrow_tile_count = 1;
  hardware.narrow_tiles[0] = (hr_tile){64, 256, 0.5};
  hardware.narrow.launch_ns = 3000;
  p = predict(&hardware, 1280, 1280, 498, 1);
  assert_true(p.tile_m == 64 && p.launch_ns == 3000);
  assert_near(p.alignment_loss, 0.5);
}

/* Operands of 512 elements a row, a result of 1279: half of the rate, and the store of 1 ns an element takes three. */
static void an_odd_result_alone_has_a_rate_of_its_own(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hr_gemm gemm = hr_gemm_default();
  hr_prediction p;
  hr_error error;
  hardware.odd_tile_count = 1;
  hardware.odd_tiles[0] = (hr_tile){128, 128, 0.25};
  hardware.odd = (hr_narrow_cost){.launch_ns = 5000, .store = 3, .result_share = 0.5};
  hardware.store_exposed = 1;
  hardware.bandwidth_bytes_per_s = 2e14 / 1000;
  gemm.m = 1280, gemm.n = 1279, gemm.k = 512, gemm.transpose_b = true;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &p, &error), error);
  double full_ns = 2 * 128 * 128 * 512e-3, stored_ns = 128 * 128;
  assert_near(p.alignment_loss, 1 - (full_ns + stored_ns) / (8 * full_ns + 3 * stored_ns));
}

/* 50 tiles for 100 slots, each of 4 steps of 64 elements. */
static void a_launch_grows_with_the_busy_multiprocessors_and_a_tile_with_its_steps(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.tile_count = 1;
  hardware.tile_k_bytes = 128;
  hr_prediction before = predict(&hardware, 640, 2560, 256, 1);
  hardware.product_launch_ns = 2000, hardware.product_busy_ns = 600, hardware.product_step_ns = 5;
  hr_prediction after = predict(&hardware, 640, 2560, 256, 1);
  assert_near(after.launch_ns, 2300);
  assert_near(after.tile_ns + after.wave_ns, before.tile_ns + before.wave_ns + 4 * 5);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_of_sectors_are_written_slower),
      cmocka_unit_test(misaligned_operands_have_no_small_tiles),
      cmocka_unit_test(misaligned_operands_have_the_largest_tile_where_all_are_small),
      cmocka_unit_test(small_tiles_of_batched_gemms_lose_the_root_of_their_edge),
      cmocka_unit_test(stores_of_misaligned_batched_gemms_have_a_factor_of_their_own),
      cmocka_unit_test(odd_operands_have_kernels_of_their_own),
      cmocka_unit_test(an_odd_result_alone_has_a_rate_of_its_own),
      cmocka_unit_test(a_launch_grows_with_the_busy_multiprocessors_and_a_tile_with_its_steps),
      cmocka_unit_test(columns_of_vectors_are_read_at_the_full_rate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
