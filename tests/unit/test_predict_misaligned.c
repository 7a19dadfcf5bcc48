/* SPDX-License-Identifier: Apache-2.0 */
/* Predicted GEMMs whose rows are aligned to a part of a sector, or whose operands are misaligned. */
#include "hardware/hardware.h"
#include "test.h"

#include <headroom/predict.h>

#include <math.h>

#define assert_near(value, expected) assert_true(fabs((value) - (expected)) <= 1e-6 * fabs((double)(expected)) + 1e-9)

/* 100 slots of 1 TFLOP/s with a large and a small tile; 1 TB/s. */
static hr_hardware toy(void)
{
  hr_hardware hardware = hr_hardware_default();
  hardware.about.kind = HR_HARDWARE_GPU;
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

/* A toy's kernels lose half of their rate, whatever their tile. */
static void misaligned_operands_lose_the_same_with_small_tiles(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hr_prediction small = predict(&hardware, 64, 32, 511, 1), large = predict(&hardware, 1280, 2560, 511, 1);
  assert_true(small.tile_n == 32 && large.tile_n == 256);
  assert_near(small.alignment_loss, 0.5);
  assert_near(large.alignment_loss, 0.5);
}

static void batched_gemms_lose_the_same_with_small_tiles(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.tile_count = 1;
  hardware.tiles[0] = (hr_tile){64, 64, 1};
  hr_prediction p = predict(&hardware, 640, 640, 511, 2);
  assert_near(p.alignment_loss, 0.5);
}

/* B and C of n = 1 are vectors, whose elements are neighbours, although a row of them is a single element. */
static void columns_of_vectors_are_read_at_the_full_rate(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.tile_count = 1; /* a tile of 64 × 32 would be faster than a misaligned vector */
  hr_prediction aligned = predict(&hardware, 2048, 1, 2048, 64), odd = predict(&hardware, 2048, 1, 2047, 64);
  double bytes = 2.0 * 64 * (2048.0 * 2048 + 2 * 2048);
  assert_near(aligned.memory_ns, bytes / 1e3);
  assert_true(odd.memory_ns > 2 * aligned.memory_ns);
}

/* A and B of 64 × 1032 × 4096 have rows of 4096 bytes; rows of C are 1032 elements of bf16: 16 · 129 bytes. */
static void results_of_8_bit_operands_have_elements_of_2_bytes(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hr_gemm gemm = hr_gemm_default();
  hr_prediction p;
  hr_error error;
  hardware.dense_flops_per_s[HR_FP8_E4M3] = 100e12;
  gemm.m = 64, gemm.n = 1032, gemm.k = 4096, gemm.transpose_b = true, gemm.dtype = HR_FP8_E4M3;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &p, &error), error);
  assert_true(p.alignment == 16 && p.alignment_loss == 0);
  gemm.n = 1028;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &p, &error), error);
  assert_true(p.alignment == 8 && p.alignment_loss > 0);
}

/* Kernels for operands aligned to 2 bytes: 32 elements of k a step; a tile of 64 × 64 multiplies 262144 of them at a
 * slot's 1 TFLOP/s. */
static hr_hardware with_aligned_2_kernels(void)
{
  hr_hardware hardware = toy();
  hardware.aligned_2 = (hr_gemm_kernel_cost){.launch_ns = 5000,
                                             .busy_ns = 1000,
                                             .wave_ns = 100,
                                             .latency_ns = 3000,
                                             .store_bytes_per_ns = 16,
                                             .step_ns = 20,
                                             .row_ns = 0.5,
                                             .column_ns = 0.25};
  return hardware;
}

/* Blocks of 64 × 64 on a multiprocessor share its loads and wait together; k of less than a step takes half of one and
 * its share of the other half. */
static double blocks_ns(int64_t k, double loads_ns, double latency_ns, double blocks)
{
  double arithmetic_ns = 2 * 64 * 64 * 32e-3, steps = 0.5 + 0.5 * (double)k / 32;
  double step_ns = pow(pow(blocks * arithmetic_ns, 4) + pow(blocks * loads_ns, 4) + pow(latency_ns, 4), 0.25);
  return steps * (step_ns + blocks * 20) + 100 + blocks * 64 * 64 * 2 / 16;
}

static double computed_ns(const hr_prediction *p)
{
  return p->matrix_ns + p->tile_ns + p->wave_ns + p->alignment_ns + p->clock_ns;
}

/* A is contiguous along k, B along n: 64 rows of 0.5 ns and two steps of 32 rows of 0.25 ns. */
static void operands_aligned_to_2_bytes_have_kernels_of_their_own(void **state)
{
  (void)state;
  hr_hardware hardware = with_aligned_2_kernels();
  hr_prediction p = predict(&hardware, 64, 64, 15, 1);
  assert_true(p.tile_m == 64 && p.tile_n == 64 && p.splits == 1);
  assert_near(computed_ns(&p), blocks_ns(15, 64 * 0.5 + 64 * 0.25, 3000, 1));
  assert_near(p.launch_ns, 5010); /* one of 100 slots has a tile */
  assert_true(predict(&hardware, 64, 64, 16, 1).launch_ns == 0);
  p = predict(&hardware, 64, 64, 14, 1); /* of 4 bytes: another family, whose cost is not known */
  assert_true(p.tile_n == 32 && p.launch_ns == 0);
  hardware.aligned_4.launch_ns = 3000;
  assert_true(predict(&hardware, 64, 64, 14, 1).launch_ns == 3000);
}

static void blocks_of_a_multiprocessor_share_its_loads_and_wait_together(void **state)
{
  (void)state;
  hr_hardware hardware = with_aligned_2_kernels();
  hr_prediction p = predict(&hardware, 64, 64, 15, 500), more = predict(&hardware, 64, 64, 15, 700);
  assert_true(p.tile_m == 64 && p.waves == 5 && more.waves == 7); /* 100 slots run 5 blocks each at once */
  assert_near(computed_ns(&p), blocks_ns(15, 48, 3000, 5));
  assert_near(computed_ns(&more), blocks_ns(15, 48, 3000, 5) + blocks_ns(15, 48, 3000, 2));
}

static hr_prediction predict_transposed(const hr_hardware *hardware, int64_t m, int64_t n, int64_t k, bool a, bool b)
{
  hr_gemm gemm = hr_gemm_default();
  hr_prediction p;
  hr_error error;
  gemm.m = m, gemm.n = n, gemm.k = k, gemm.transpose_a = a, gemm.transpose_b = b;
  assert_ok(hr_predict_gemm(hardware, &gemm, &p, &error), error);
  return p;
}

static void loads_of_a_step_depend_on_the_layout_of_each_operand(void **state)
{
  (void)state;
  hr_hardware hardware = with_aligned_2_kernels();
  hardware.aligned_2.row_ns = 50, hardware.aligned_2.column_ns = 25;
  hr_prediction p = predict_transposed(&hardware, 63, 63, 15, false, true);
  assert_near(computed_ns(&p), blocks_ns(15, 2 * 63 * 50.0, 3000, 1));
  p = predict_transposed(&hardware, 63, 63, 15, true, true); /* columns in whole steps */
  assert_near(computed_ns(&p), blocks_ns(15, 64 * 25.0 + 63 * 50.0, 3000, 1));
  hardware.aligned_2.column_ns = 0; /* as row_ns */
  p = predict_transposed(&hardware, 63, 63, 15, true, true);
  assert_near(computed_ns(&p), blocks_ns(15, 64 * 50.0 + 63 * 50.0, 3000, 1));
}

static void short_rows_share_cache_lines(void **state)
{
  (void)state;
  hr_hardware hardware = with_aligned_2_kernels();
  hardware.aligned_2.row_ns = 50, hardware.aligned_2.short_k = 30;
  hr_prediction p = predict_transposed(&hardware, 63, 63, 15, false, true);
  assert_near(computed_ns(&p), blocks_ns(15, 2 * 63 * 50.0 * (1 - exp(-0.5)), 3000, 1));
}

static void the_latency_of_a_step_grows_with_the_tile(void **state)
{
  (void)state;
  hr_hardware hardware = with_aligned_2_kernels();
  hardware.aligned_2.row_latency_ns = 10;
  hr_prediction p = predict(&hardware, 64, 64, 15, 1);
  assert_near(computed_ns(&p), blocks_ns(15, 48, 3000 + 128 * 10, 1));
}

/* The 100 slots are filled by whole waves of parts of 64 elements and more; GEMMs of up to 2^21 products are cut into
 * 16 parts however short. */
static void misaligned_gemms_are_split_until_they_fill_whole_waves(void **state)
{
  (void)state;
  hr_hardware hardware = with_aligned_2_kernels();
  assert_int_equal(predict(&hardware, 64, 64, 101, 1).splits, 16);
  assert_int_equal(predict(&hardware, 64, 64, 3201, 1).splits, 50);
  int64_t splits = predict(&hardware, 64, 64, 64001, 1).splits;
  assert_true(splits >= 100 && splits % 100 == 0);
  assert_int_equal(predict(&hardware, 64, 64, 64001, 2).splits, 1);
  assert_int_equal(predict(&hardware, 64, 64, 15, 1).splits, 1);
}

/* Fp32: 8 elements of k a step. A batched GEMM is not split along k. */
static void simt_formats_have_kernels_of_their_own(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hr_gemm gemm = hr_gemm_default();
  hr_prediction p;
  hr_error error;
  hardware.library_share[HR_FP32] = 1;
  hardware.simt_formats[HR_FP32] = true;
  hardware.simt =
      (hr_gemm_kernel_cost){.launch_ns = 5000, .busy_ns = 1000, .wave_ns = 100, .latency_ns = 3000, .row_ns = 4};
  gemm.dtype = HR_FP32, gemm.m = 32, gemm.n = 32, gemm.k = 8, gemm.transpose_b = true;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &p, &error), error);
  double arithmetic_ns = 2 * 32 * 32 * 8e-3, loads_ns = 2 * 32 * 4;
  assert_true(p.tile_m == 32 && p.tile_n == 32);
  assert_near(computed_ns(&p), 100 + pow(pow(arithmetic_ns, 4) + pow(loads_ns, 4) + pow(3000, 4), 0.25));
  assert_near(p.launch_ns, 5010);
  gemm.k = 8192;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &p, &error), error);
  assert_true(p.splits > 1);
  gemm.batch = 2;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &p, &error), error);
  assert_true(p.splits == 1);
}

/* Hopper's TMA kernels: 132 multiprocessors. */
static hr_hardware with_tma_kernels(void)
{
  hr_hardware hardware = toy();
  hardware.multiprocessors = 132;
  hardware.tile_k_bytes = 128;
  hardware.split_ns = 100;
  hardware.tma = (hr_gemm_kernel_cost){.launch_ns = 2000,
                                       .busy_ns = 500,
                                       .refill_ns = 300,
                                       .step_ns = 40,
                                       .row_ns = 1.5,
                                       .load_16 = 3,
                                       .store_bytes_per_ns = 30};
  return hardware;
}

static void tiles_of_tma_kernels_are_fine_only_along_operands_that_are_contiguous_along_k(void **state)
{
  (void)state;
  hr_hardware hardware = with_tma_kernels();
  assert_true(predict_transposed(&hardware, 8, 2048, 1024, false, true).tile_m == 8);
  assert_true(predict_transposed(&hardware, 8, 2048, 1024, true, true).tile_m % 32 == 0);
  assert_true(predict_transposed(&hardware, 2048, 8, 1024, false, true).tile_n == 8);
  assert_true(predict_transposed(&hardware, 2048, 8, 1024, false, false).tile_n % 32 == 0);
}

static void tma_kernels_split_plain_gemms_into_parts_of_1280_or_more(void **state)
{
  (void)state;
  hr_hardware hardware = with_tma_kernels();
  assert_true(predict(&hardware, 64, 64, 2496, 1).splits == 1);
  assert_true(predict(&hardware, 64, 64, 2560, 1).splits == 2);
  assert_true(predict(&hardware, 64, 64, 25600, 2).splits == 1);
}

static hr_prediction predict_format(hr_hardware *hardware, hr_dtype dtype, int64_t m, int64_t n, int64_t k)
{
  hr_gemm gemm = hr_gemm_default();
  hr_prediction p;
  hr_error error;
  hardware->dense_flops_per_s[dtype] = dtype == HR_TF32 ? 50e12 : 100e12;
  hardware->library_share[dtype] = 1;
  gemm.m = m, gemm.n = n, gemm.k = k, gemm.dtype = dtype;
  assert_ok(hr_predict_gemm(hardware, &gemm, &p, &error), error);
  return p;
}

/* 128 × 128 is the area of the largest result that is split whatever k is; others are from k = 256 on, which are 1024
 * bytes: 512 × 64 in two parts of 128. */
static void tf32_gemms_have_tiles_of_64_and_more_and_are_split_from_shorter_k_on(void **state)
{
  (void)state;
  hr_hardware hardware = with_tma_kernels();
  hr_prediction one_tile = predict_format(&hardware, HR_TF32, 16, 1024, 16);
  hr_prediction beyond = predict_format(&hardware, HR_TF32, 16, 1032, 16);
  assert_true(one_tile.splits == 2 && beyond.splits == 1);
  assert_true(one_tile.tile_m >= 64 && one_tile.tile_n >= 64);
  assert_true(predict_format(&hardware, HR_TF32, 512, 64, 248).splits == 1);
  assert_true(predict_format(&hardware, HR_TF32, 512, 64, 256).splits == 2);
}

/* A step in fp16 takes 0.6 of the time, a tile of 32 × 32 stores a quarter of one of 64 × 64, and a wave 100 ns. */
static void plain_misaligned_gemms_in_fp16_have_the_small_tiles_of_batched_ones(void **state)
{
  (void)state;
  hr_hardware hardware = with_aligned_2_kernels();
  hr_prediction bf16 = predict_format(&hardware, HR_BF16, 31, 31, 33);
  hr_prediction fp16 = predict_format(&hardware, HR_FP16, 31, 31, 33);
  assert_true(bf16.tile_m == 64 && bf16.tile_n == 64);
  assert_true(fp16.tile_m == 32 && fp16.tile_n == 32);
  assert_true(fp16.time_ns - fp16.launch_ns - 100 < 0.6 * (bf16.time_ns - bf16.launch_ns - 100));
}

/* 1024 × 1024 × 1024 with rows of 2048 bytes, or of 2064, which are aligned to 16. */
static void loads_of_rows_aligned_to_16_bytes_take_longer(void **state)
{
  (void)state;
  hr_hardware hardware = with_tma_kernels();
  hardware.dense_flops_per_s[HR_BF16] = 1e15; /* loads take longer than arithmetic */
  hardware.tma.row_ns = 6;
  hr_prediction whole = predict(&hardware, 1024, 1024, 1024, 1), parts = predict(&hardware, 1024, 1024, 1032, 1);
  assert_true(whole.alignment_ns == 0 && whole.launch_ns >= 2000 && whole.launch_ns <= 2500);
  assert_true(parts.alignment_ns > 0);
  assert_near(parts.time_ns, parts.matrix_ns + parts.tile_ns + parts.wave_ns + parts.alignment_ns + parts.reduction_ns +
                                 parts.clock_ns + parts.exposed_ns + parts.launch_ns);
}

/* 512 × 512 has fewer tiles than fill two waves, 16384 × 16384 more with any tile. */
static void tiles_beyond_two_waves_wait_for_a_refill(void **state)
{
  (void)state;
  hr_hardware hardware = with_tma_kernels();
  hr_prediction one = predict(&hardware, 512, 512, 64, 1), many = predict(&hardware, 16384, 16384, 64, 1);
  assert_true(one.waves <= 2 && many.waves > 2);
  hardware.tma.refill_ns += 5000;
  double one_ns = predict(&hardware, 512, 512, 64, 1).time_ns,
         many_ns = predict(&hardware, 16384, 16384, 64, 1).time_ns;
  assert_near(one_ns, one.time_ns);
  assert_true(many_ns > many.time_ns && many_ns <= many.time_ns + 5000);
}

/* Rows of 16 bytes more than a multiple of 32 are stored in parts of sectors: 4104 · 2 = 8208 = 256 · 32 + 16. */
static void parts_of_sectors_are_stored_at_a_rate_of_their_own(void **state)
{
  (void)state;
  hr_hardware hardware = with_tma_kernels();
  hr_prediction parts = predict(&hardware, 4096, 4104, 64, 1), whole = predict(&hardware, 4096, 4112, 64, 1);
  hardware.tma.sector_bytes_per_ns = 1;
  assert_true(predict(&hardware, 4096, 4104, 64, 1).memory_ns >= 2.0 * 4096 * 4104);
  assert_true(predict(&hardware, 4096, 4104, 64, 1).time_ns > parts.time_ns);
  assert_near(predict(&hardware, 4096, 4112, 64, 1).time_ns, whole.time_ns);
}

/* 50 tiles for 100 slots. */
static void a_launch_grows_with_the_busy_multiprocessors(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.tile_count = 1;
  hardware.tile_k_bytes = 128;
  hr_prediction before = predict(&hardware, 640, 2560, 256, 1);
  hardware.gemm_launch_ns = 2000, hardware.gemm_busy_ns = 600;
  hr_prediction after = predict(&hardware, 640, 2560, 256, 1);
  assert_near(after.launch_ns, 2300);
  assert_near(after.tile_ns + after.wave_ns, before.tile_ns + before.wave_ns);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(misaligned_operands_lose_the_same_with_small_tiles),
      cmocka_unit_test(batched_gemms_lose_the_same_with_small_tiles),
      cmocka_unit_test(results_of_8_bit_operands_have_elements_of_2_bytes),
      cmocka_unit_test(operands_aligned_to_2_bytes_have_kernels_of_their_own),
      cmocka_unit_test(simt_formats_have_kernels_of_their_own),
      cmocka_unit_test(blocks_of_a_multiprocessor_share_its_loads_and_wait_together),
      cmocka_unit_test(loads_of_a_step_depend_on_the_layout_of_each_operand),
      cmocka_unit_test(short_rows_share_cache_lines),
      cmocka_unit_test(the_latency_of_a_step_grows_with_the_tile),
      cmocka_unit_test(misaligned_gemms_are_split_until_they_fill_whole_waves),
      cmocka_unit_test(tiles_of_tma_kernels_are_fine_only_along_operands_that_are_contiguous_along_k),
      cmocka_unit_test(tma_kernels_split_plain_gemms_into_parts_of_1280_or_more),
      cmocka_unit_test(tf32_gemms_have_tiles_of_64_and_more_and_are_split_from_shorter_k_on),
      cmocka_unit_test(plain_misaligned_gemms_in_fp16_have_the_small_tiles_of_batched_ones),
      cmocka_unit_test(loads_of_rows_aligned_to_16_bytes_take_longer),
      cmocka_unit_test(tiles_beyond_two_waves_wait_for_a_refill),
      cmocka_unit_test(parts_of_sectors_are_stored_at_a_rate_of_their_own),
      cmocka_unit_test(a_launch_grows_with_the_busy_multiprocessors),
      cmocka_unit_test(columns_of_vectors_are_read_at_the_full_rate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
