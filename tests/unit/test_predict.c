/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "hardware/hardware.h"

#include <headroom/experimental/collective.h>
#include <headroom/experimental/predict.h>
#include <math.h>

/* 108 slots of 1 TFLOP/s, one tile shape, no overheads, so that times can be computed by hand. */
static hr_hardware toy(void)
{
  hr_hardware hardware = hr_hardware_default();
  hardware.multiprocessors = 108;
  hardware.blocks_per_multiprocessor = 1;
  hardware.dense_flops_per_s[HR_BF16] = 108e12;
  hardware.library_share[HR_BF16] = 1;
  hardware.bandwidth_bytes_per_s = 1e18; /* memory is never the bound unless a test changes it */
  hardware.bandwidth_share = 1;
  hardware.tile_count = 1;
  hardware.tiles[0] = (hr_tile){128, 256, 1};
  return hardware;
}

static hr_prediction predict(const hr_hardware *hardware, int64_t m, int64_t n, int64_t k, int64_t batch)
{
  hr_gemm gemm = hr_gemm_default();
  gemm.m = m, gemm.n = n, gemm.k = k, gemm.batch = batch;
  hr_prediction prediction;
  hr_error error;
  assert_ok(hr_predict_gemm(hardware, &gemm, &prediction, &error), error);
  return prediction;
}

#define assert_near(value, expected) assert_true(fabs((value) - (expected)) <= 1e-6 * fabs((double)(expected)) + 1e-12)

static void one_tile_more_than_slots_takes_a_second_wave(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  /* A tile is 2·128·256·1024 = 67,108,864 operations: 67,108.864 ns on a slot of 1 TFLOP/s. */
  hr_prediction full = predict(&hardware, 128 * 108, 256, 1024, 1);
  assert_int_equal(full.tiles, 108);
  assert_int_equal(full.waves, 1);
  assert_near(full.time_ns, 67108.864);
  assert_near(full.wave_waste, 0);
  assert_near(full.efficiency, 1);
  hr_prediction over = predict(&hardware, 128 * 109, 256, 1024, 1);
  assert_int_equal(over.tiles, 109);
  assert_int_equal(over.waves, 2);
  assert_near(over.time_ns, 2 * 67108.864);
  assert_near(over.wave_waste, 1 - 109.0 / 216);
  assert_near(over.wave_ns, (1 - 109.0 / 216) * over.time_ns);
}

static void a_cpu_above_its_reported_clock_is_compared_with_its_best_gemm(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.library_share[HR_BF16] = 2; /* 216 TFLOP/s measured where 108 were expected */
  hr_prediction slow = predict(&hardware, 128 * 109, 256, 1024, 1);
  assert_near(slow.time_ns, 67108.864);
  assert_near(slow.efficiency, 109.0 / 216); /* of the measured rate; relative to the dense rate it would exceed 1 */
}

static void a_row_over_the_tile_edge_pays_for_a_whole_tile(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  /* 54 tiles of 128 rows and one more row: 55 rows of tiles by 2. */
  hr_prediction p = predict(&hardware, 128 * 54 + 1, 512, 1024, 1);
  assert_int_equal(p.tiles, 110);
  assert_near(p.tile_waste, 1 - (128.0 * 54 + 1) / (128 * 55));
  assert_int_equal(p.tile_m, 128);
  assert_int_equal(p.tile_n, 256);
}

static void parts_add_up_to_the_matrix_time(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.alignment_count = 2;
  hardware.alignments[0] = (hr_alignment_class){2, 0.25, 0.2, 0};
  hardware.alignments[1] = (hr_alignment_class){16, 1, 1, 0};
  hr_prediction p = predict(&hardware, 5000, 3001, 1000, 1);
  assert_near(p.alignment_loss, 0.75);
  assert_near(p.matrix_ns + p.tile_ns + p.wave_ns + p.alignment_ns, p.time_ns);
  assert_near(p.alignment_ns, 0.75 * p.time_ns);
  assert_int_equal(p.bound_by, HR_BOUND_ALIGNMENT);
}

static void the_contiguous_dimensions_set_the_alignment(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  /* Bytes of the largest power of two: m 8 · 2, n 32 · 2, k 2 · 2, in that order below. */
  hr_gemm gemm = hr_gemm_default();
  gemm.m = 8 * 3, gemm.n = 32 * 3, gemm.k = 2 * 3;
  const struct {
    bool transpose_a, transpose_b;
    int64_t bytes;
  } cases[] = {
      {false, false, 4}, /* A [m, k]: k 4; B [k, n]: n 64 */
      {false, true, 4},  /* A: k; B [n, k]: k */
      {true, false, 16}, /* A [k, m]: m 16; B: n 64 */
      {true, true, 4},   /* A: m; B: k */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    gemm.transpose_a = cases[i].transpose_a;
    gemm.transpose_b = cases[i].transpose_b;
    hr_prediction p;
    assert_int_equal(hr_predict_gemm(&hardware, &gemm, &p, NULL), HR_OK);
    assert_int_equal(p.alignment, cases[i].bytes);
    assert_int_equal(p.m_alignment, 16);
    assert_int_equal(p.n_alignment, 64);
    assert_int_equal(p.k_alignment, 4);
  }
  gemm.transpose_a = true, gemm.transpose_b = false, gemm.n = 3; /* C is written along n whatever the operands */
  hr_prediction p;
  assert_int_equal(hr_predict_gemm(&hardware, &gemm, &p, NULL), HR_OK);
  assert_int_equal(p.alignment, 2);
}

static int64_t alignment_with(int64_t lda, int64_t ldc, int64_t stride_b, bool transpose_a)
{
  hr_hardware hardware = toy();
  hr_gemm gemm = hr_gemm_default();
  gemm.m = transpose_a ? 33 : 64, gemm.n = 64, gemm.k = 64, gemm.batch = 2; /* 128 bytes unless a test changes a size */
  gemm.transpose_a = transpose_a;
  gemm.lda = lda, gemm.ldc = ldc, gemm.stride_b = stride_b;
  hr_prediction p;
  assert_int_equal(hr_predict_gemm(&hardware, &gemm, &p, NULL), HR_OK);
  return p.alignment;
}

/* A toy whose only tile has a quarter of the reference tile's area and half of its edge: misaligned operands of a plain
 * GEMM cost 1 / 0.25, a misaligned result 1 + 3 · 2, as small tiles lose more there. A split has 64 elements of k. */
static void misaligned_results_cost_small_tiles_more_than_operands(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.tiles[0] = (hr_tile){64, 128, 1};
  hardware.alignment_count = 2;
  hardware.alignments[0] = (hr_alignment_class){.bytes = 2, .gemm_share = 0.25, .bmm_share = 0.25};
  hardware.alignments[1] = (hr_alignment_class){.bytes = 16, .gemm_share = 1, .bmm_share = 1};
  hr_gemm gemm = hr_gemm_default();
  gemm.m = 64 * 108, gemm.n = 128, gemm.k = 1023, gemm.transpose_b = true;
  hr_prediction p;
  hr_error error;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &p, &error), error);
  assert_near(p.alignment_loss, 0.75);
  gemm.n = 127, gemm.k = 1024;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &p, &error), error);
  assert_near(p.alignment_loss, 6.0 / 7);
}

static void strides_set_the_alignment_if_they_are_worse_than_the_sizes(void **state)
{
  (void)state;
  assert_int_equal(alignment_with(0, 0, 0, false), 128);
  assert_int_equal(alignment_with(68, 0, 0, false), 8);
  assert_int_equal(alignment_with(0, 66, 0, false), 4);
  assert_int_equal(alignment_with(0, 0, 64 * 64 + 1, false), 2);
  assert_int_equal(alignment_with(0, 0, 0, true), 2);   /* rows of A along m = 33 */
  assert_int_equal(alignment_with(40, 0, 0, true), 16); /* which padding improves */
}

static void few_tiles_of_a_long_gemm_are_split_along_k(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  /* One tile and 108 free slots; a split has at least 2 KiB of k, 1024 elements: min(108 / 1, 54) and min(108, 216). */
  assert_int_equal(predict(&hardware, 128, 256, 54 * 1024, 1).splits, 54);
  hr_prediction p = predict(&hardware, 128, 256, 216 * 1024, 1);
  assert_int_equal(p.splits, 108);
  assert_int_equal(p.waves, 1);
  assert_true(p.time_ns < 2 * p.matrix_ns);
  hardware.about.kind = HR_HARDWARE_CPU; /* a CPU core computes the whole k loop */
  assert_int_equal(predict(&hardware, 128, 256, 54 * 1024, 1).splits, 1);
}

static void k_stays_whole_up_to_the_products_of_the_device_file(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.split_gemm_size = 2 * 64 * 16384;
  hr_prediction whole = predict(&hardware, 2, 64, 16384, 1);
  assert_int_equal(whole.splits, 1);
  assert_true(predict(&hardware, 3, 64, 16384, 1).splits > 1);
  hardware.split_gemm_size--;
  hr_prediction split = predict(&hardware, 2, 64, 16384, 1);
  assert_true(split.splits > 1 && split.time_ns < whole.time_ns);
}

static void batched_gemms_of_simt_formats_take_the_first_tiles(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.simt_formats[HR_BF16] = true;
  hardware.simt_tiles[0] = (hr_tile){.m = 128, .n = 128, .share = 1};
  hardware.simt_tiles[1] = (hr_tile){.m = 64, .n = 64, .share = 1};
  hardware.simt_tile_count = 2;
  assert_int_equal(predict(&hardware, 4096, 64, 4096, 8).tile_n, 64);
  hardware.simt_batched_tiles = 1;
  assert_int_equal(predict(&hardware, 4096, 64, 4096, 8).tile_n, 128);
  assert_int_equal(predict(&hardware, 4096, 64, 4096, 1).tile_n, 64);
}

/* The longest side of these batched GEMMs is k, up to 512. */
static void batched_gemms_of_a_long_k_have_small_tiles(void **state)
{
  (void)state;
  static const struct {
    int64_t m, n, k, batch;
    bool small;
  } cases[] = {{384, 384, 384, 4096, true},
               {384, 384, 384, 1, false},
               {384, 64, 384, 4096, false},
               {384, 384, 256, 4096, false},
               {1024, 1024, 1024, 4096, false}};
  hr_hardware hardware = toy();
  hardware.simt_formats[HR_BF16] = true;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hardware.small_tile_share = 0;
    double before = predict(&hardware, cases[i].m, cases[i].n, cases[i].k, cases[i].batch).time_ns;
    hardware.small_tile_share = 0.25;
    double after = predict(&hardware, cases[i].m, cases[i].n, cases[i].k, cases[i].batch).time_ns;
    assert_true(cases[i].small ? after > 1.5 * before : after == before);
  }
}

static void rows_along_k_that_lie_far_apart_load_slower(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  double near = predict(&hardware, 4096, 4096, 32768, 1).time_ns,
         far = predict(&hardware, 4096, 4096, 131072, 1).time_ns;
  hardware.long_row_bytes = 65536; /* 32768 elements */
  assert_near(predict(&hardware, 4096, 4096, 32768, 1).time_ns, near);
  assert_true(predict(&hardware, 4096, 4096, 131072, 1).time_ns > 1.9 * far);
}

/* Only B [n, k] has such rows. */
static void rows_of_b_that_lie_no_power_of_two_apart_load_slower(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.bandwidth_bytes_per_s = 1e11;
  hr_gemm gemm = hr_gemm_default();
  gemm.m = 16, gemm.n = 8192;
  hr_error error;
  for (int along = 0; along < 2; along++) {
    for (int odd = 0; odd < 2; odd++) {
      hr_prediction before, after;
      gemm.transpose_b = along, gemm.k = odd ? 8192 + 64 : 8192;
      hardware.row_share = 0;
      assert_ok(hr_predict_gemm(&hardware, &gemm, &before, &error), error);
      hardware.row_share = 0.5;
      assert_ok(hr_predict_gemm(&hardware, &gemm, &after, &error), error);
      if (along && odd)
        assert_true(after.time_ns > 1.8 * before.time_ns && after.time_ns < 2 * before.time_ns);
      else
        assert_true(after.time_ns == before.time_ns);
    }
  }
}

static void a_gemm_of_few_rows_is_bound_by_reading_its_weights(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.bandwidth_bytes_per_s = 1e11;
  hr_prediction p = predict(&hardware, 1, 8192, 8192, 1);
  assert_int_equal(p.bound_by, HR_BOUND_MEMORY);
  assert_true(p.time_ns >= 2.0 * 8192 * 8192 / 100); /* 2 bytes an element at 100 bytes a ns */
  assert_true(p.time_ns < 1.3 * 2.0 * 8192 * 8192 / 100);
}

static void an_operand_that_all_batches_share_is_read_once(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.bandwidth_bytes_per_s = 1e9;
  hr_gemm gemm = hr_gemm_default();
  gemm.m = 4, gemm.n = 8, gemm.k = 16, gemm.batch = 10;
  hr_prediction each, shared;
  hr_error error;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &each, &error), error);
  gemm.broadcast_b = true;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &shared, &error), error);
  assert_float_equal(each.memory_ns, 4480, 1e-6);   /* 2·10·(4·16 + 16·8 + 4·8) bytes at one a ns */
  assert_float_equal(shared.memory_ns, 2176, 1e-6); /* 2·(10·(4·16 + 4·8) + 16·8) */
}

static void a_tiny_gemm_is_bound_by_its_launch(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hardware.launch_ns = 3000;
  hr_prediction p = predict(&hardware, 16, 16, 16, 1);
  assert_int_equal(p.bound_by, HR_BOUND_LAUNCH);
  assert_true(p.time_ns >= 3000 && p.time_ns < 6000);
}

static void a_format_without_a_rate_is_unsupported(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hr_gemm gemm = hr_gemm_default();
  gemm.dtype = HR_FP8_E4M3;
  hr_prediction p;
  hr_error error;
  assert_int_equal(hr_predict_gemm(&hardware, &gemm, &p, &error), HR_ERROR_UNSUPPORTED);
  hr_hardware empty = hr_hardware_default();
  gemm.dtype = HR_BF16;
  assert_int_equal(hr_predict_gemm(&empty, &gemm, &p, &error), HR_ERROR_INVALID);
}

static void a_ring_all_reduce_moves_twice_its_message_less_a_share(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hr_operator op = {.kind = HR_KIND_COMMUNICATION,
                    .collective = HR_ALL_REDUCE,
                    .devices = 4,
                    .stride = 1,
                    .bytes = 1000000,
                    .count = 1};
  hr_prediction p;
  hr_error error;
  assert_int_equal(hr_predict_operator(&hardware, &op, &p, &error), HR_ERROR_UNSUPPORTED);
  hardware.interconnect_bytes_per_s = 100e9;
  assert_ok(hr_predict_operator(&hardware, &op, &p, &error), error);
  assert_near(p.time_ns, 15000); /* 2 · 3/4 · 1 MB at 100 bytes a ns */
  assert_int_equal(p.bound_by, HR_BOUND_INTERCONNECT);
  op.devices = 1;
  assert_ok(hr_predict_operator(&hardware, &op, &p, &error), error);
  assert_near(p.time_ns, 0);
}

/* 100 bytes/ns within a node, 10 to other nodes. An all-reduce of 4 devices has 4000 ns, 100 bytes/ns and a ramp of
 * 1.5, one of 8 has 2000 ns and 50 bytes/ns. */
static hr_hardware linked(void)
{
  hr_hardware hardware = toy();
  hardware.interconnect_bytes_per_s = 100e9, hardware.interconnect_latency_ns = 3000;
  hardware.devices_per_node = 8, hardware.network_bytes_per_s = 10e9, hardware.network_latency_ns = 500;
  hardware.collective_count = 2;
  hardware.collectives[0] = (hr_collective_rate){HR_ALL_REDUCE, 4, 4000, 100e9, 1.5, 0.25, 0, HR_LIBRARY_NCCL};
  hardware.collectives[1] = (hr_collective_rate){HR_ALL_REDUCE, 8, 2000, 50e9, 0, 0.5, 0, HR_LIBRARY_NCCL};
  return hardware;
}

static hr_prediction collective_of(hr_collective_kind kind, int64_t devices, int64_t stride, int64_t bytes)
{
  hr_hardware hardware = linked();
  hr_collective c = hr_collective_default();
  hr_prediction p = {0};
  hr_error error;
  c.kind = kind, c.devices = devices, c.stride = stride, c.bytes = bytes;
  assert_ok(hr_hardware_check(&hardware, &error), error);
  assert_ok(hr_predict_collective(&hardware, &c, &p, &error), error);
  return p;
}

static void a_collective_takes_a_latency_a_transfer_and_its_ramp(void **state)
{
  (void)state;
  /* 4 devices: 1.5 · 600,000 bus bytes take 9000 ns; 4000 + 9000 + 1.5 · √(4000 · 9000) = 13,000 + 1.5 · 6000. */
  hr_prediction p = collective_of(HR_ALL_REDUCE, 4, 1, 600000);
  assert_near(p.time_ns, 22000);
  assert_near(p.launch_ns, 4000);
  assert_near(p.high_ns, 22000 * 1.25);
  assert_near(collective_of(HR_ALL_REDUCE, 4, 1, 0).time_ns, 4000);
  /* 8 devices: 2000 + 1.75 · 600,000 / 50 = 23,000; 6 are half way. */
  assert_near(collective_of(HR_ALL_REDUCE, 8, 1, 600000).time_ns, 23000);
  p = collective_of(HR_ALL_REDUCE, 6, 1, 600000);
  assert_near(p.time_ns, 22500);
  assert_near(p.high_ns, 22500 * 1.5);
  /* 2 devices, fewer than measured: the rates of 4; 1.0 · 900,000 bus bytes take 9000 ns. */
  p = collective_of(HR_ALL_REDUCE, 2, 1, 900000);
  assert_near(p.time_ns, 22000);
  assert_near(p.high_ns, 22000 * 2);
  /* No fit of an all-gather: 3000 + 3/4 · 600,000 / 100. */
  assert_near(collective_of(HR_ALL_GATHER, 4, 1, 600000).time_ns, 7500);
  assert_near(collective_of(HR_ALL_REDUCE, 1, 1, 600000).time_ns, 0);
}

static void more_devices_of_a_node_than_were_measured_take_more_steps(void **state)
{
  (void)state;
  hr_hardware hardware = linked();
  hr_collective c = hr_collective_default();
  hr_prediction p;
  hr_error error;
  hardware.devices_per_node = 16, c.devices = 16, c.bytes = 800000;
  assert_ok(hr_predict_collective(&hardware, &c, &p, &error), error);
  assert_near(p.time_ns, 2000 * 16 / 8 + 1.875 * 800000 / 50);
  assert_near(p.high_ns, p.time_ns * 2);
}

static void devices_of_several_nodes_also_use_the_network(void **state)
{
  (void)state;
  /* 2 nodes of 8: in the node 2000 + 1.75 · 800,000 / 50 = 2000 + 28,000; between them each device reduces 100,000
   * bytes at 10 bytes/ns, 1.0 · 100,000 / 10 = 10,000, in 2 steps of 500 ns. The longer transfer counts. */
  hr_prediction p = collective_of(HR_ALL_REDUCE, 16, 1, 800000);
  assert_near(p.time_ns, 2000 + 1000 + 28000);
  assert_int_equal(p.bound_by, HR_BOUND_INTERCONNECT);
  /* Replicas of 8 devices: 4 nodes with one of the group each, 2 · 3/4 · 800,000 / 10 in 2 · 2 steps. */
  p = collective_of(HR_ALL_REDUCE, 4, 8, 800000);
  assert_near(p.time_ns, 2000 + 120000);
  assert_int_equal(p.bound_by, HR_BOUND_NETWORK);
  assert_near(p.high_ns, p.time_ns * 2);
  /* All-to-all of 16: 8/16 of the bytes leave the node, 7/16 stay in it (a ring, no fit): 3000 + 500 + 40,000. */
  assert_near(collective_of(HR_ALL_TO_ALL, 16, 1, 800000).time_ns, 43500);
  /* Stages of 4 devices share a node, stages of 8 do not. */
  assert_near(collective_of(HR_POINT_TO_POINT, 2, 4, 800000).time_ns, 3000 + 8000);
  assert_near(collective_of(HR_POINT_TO_POINT, 2, 8, 800000).time_ns, 500 + 80000);
}

/* 16 devices on 2 nodes, a ring: within the nodes 3000 + 7/8 · bytes / 100 (no fit); 1 step between nodes and 14 within
 * them. By Simple 2.8 · 500 + 14 · 3400, and 1/2 · bytes / 8 / 10; by LL 0.54 · 500 + 14 · 1080, and four times
 * that. */
static void a_ring_between_nodes_passes_every_device(void **state)
{
  (void)state;
  assert_near(collective_of(HR_ALL_GATHER, 16, 1, 80000000).time_ns, 3000 + 1400 + 47600 + 700000);
  assert_near(collective_of(HR_REDUCE_SCATTER, 16, 1, 80000).time_ns, 3000 + 270 + 15120 + 2000);
}

static double time_by(const hr_hardware *hardware, hr_collective_library library, hr_collective_kind kind,
                      int64_t devices, int64_t bytes)
{
  hr_collective c = hr_collective_default();
  hr_prediction p = {0};
  hr_error error;
  c.kind = kind, c.devices = devices, c.bytes = bytes, c.library = library, c.copies = 2;
  assert_ok(hr_hardware_check(hardware, &error), error);
  assert_ok(hr_predict_collective(hardware, &c, &p, &error), error);
  return p.time_ns;
}

/* vLLM: 1000 ns and 10 bytes/ns one way, 3000 and 25 the other; NCCL as above, 4000, 100 bytes/ns and a ramp. */
static void a_library_takes_its_fastest_way_or_nccls(void **state)
{
  (void)state;
  hr_hardware hardware = linked();
  hardware.collective_count = 4;
  hardware.collectives[2] = (hr_collective_rate){HR_ALL_REDUCE, 4, 1000, 10e9, 0, 0.25, 0, HR_LIBRARY_VLLM};
  hardware.collectives[3] = (hr_collective_rate){HR_ALL_REDUCE, 4, 3000, 25e9, 0, 0.25, 0, HR_LIBRARY_VLLM};
  assert_near(time_by(&hardware, HR_LIBRARY_VLLM, HR_ALL_REDUCE, 4, 10000), 1000 + 1500);
  assert_near(time_by(&hardware, HR_LIBRARY_VLLM, HR_ALL_REDUCE, 4, 100000), 3000 + 6000);
  /* 600,000 bytes: 39,000 by vLLM, 22,000 by NCCL. */
  assert_near(time_by(&hardware, HR_LIBRARY_VLLM, HR_ALL_REDUCE, 4, 600000), 22000);
  assert_near(time_by(&hardware, HR_LIBRARY_TRTLLM, HR_ALL_REDUCE, 4, 600000), 22000);
  assert_near(time_by(&hardware, HR_LIBRARY_VLLM, HR_ALL_GATHER, 4, 600000), 7500);
}

/* Two experts of a token on 4 devices: 4 · (1 − (3/4)²) = 1.75 devices have one, and a quarter of the tokens stays.
 * 800,000 bytes of two copies: 400,000 · 1.75 · 3/4 = 525,000 bytes at 50 a ns; low latency 600,000. Between 2 nodes
 * 2 · (1 − 1/4) = 1.5 nodes: 400,000 · 1.5 / 2 = 300,000 at 5 a ns, behind 9000 ns, and nothing else. */
static void deepep_sends_a_token_once_to_each_device_or_node(void **state)
{
  (void)state;
  hr_hardware hardware = linked();
  hardware.collective_count = 5;
  hardware.collectives[2] = (hr_collective_rate){HR_ALL_TO_ALL, 4, 7000, 50e9, 0, 0.2, 0, HR_LIBRARY_DEEPEP_SGLANG};
  hardware.collectives[3] = (hr_collective_rate){HR_ALL_TO_ALL, 16, 9000, 5e9, 0, 0.2, 2, HR_LIBRARY_DEEPEP_SGLANG};
  hardware.collectives[4] = (hr_collective_rate){HR_ALL_TO_ALL, 4, 900, 50e9, 0, 0.2, 0, HR_LIBRARY_DEEPEP_LL_SGLANG};
  assert_near(time_by(&hardware, HR_LIBRARY_DEEPEP_SGLANG, HR_ALL_TO_ALL, 4, 800000), 7000 + 10500);
  assert_near(time_by(&hardware, HR_LIBRARY_DEEPEP_VLLM, HR_ALL_TO_ALL, 4, 800000), 7000 + 10500);
  assert_near(time_by(&hardware, HR_LIBRARY_DEEPEP_LL_SGLANG, HR_ALL_TO_ALL, 4, 800000), 900 + 12000);
  assert_near(time_by(&hardware, HR_LIBRARY_DEEPEP_SGLANG, HR_ALL_TO_ALL, 16, 800000), 9000 + 60000);
  hr_operator op = {.kind = HR_KIND_COMMUNICATION, .collective = HR_ALL_TO_ALL, .devices = 4, .stride = 1};
  hr_collective c;
  hr_prediction p;
  hr_error error;
  op.bytes = 800000, op.copies = 2, op.framework = HR_FRAMEWORK_SGLANG;
  assert_ok(hr_predict_communication(&hardware, &op, &c, &p, &error), error);
  assert_int_equal(c.library, HR_LIBRARY_DEEPEP_LL_SGLANG);
  assert_near(p.time_ns, 12900);
  op.framework = HR_FRAMEWORK_COMPILED;
  assert_ok(hr_predict_communication(&hardware, &op, &c, &p, &error), error);
  assert_int_equal(c.library, HR_LIBRARY_NCCL);
  assert_near(p.time_ns, 3000 + 6000);             /* the ring */
  op.framework = HR_FRAMEWORK_VLLM, op.copies = 0; /* no server has one of its own */
  assert_ok(hr_predict_communication(&hardware, &op, &c, &p, &error), error);
  assert_int_equal(c.library, HR_LIBRARY_NCCL);
}

static void a_wrong_collective_is_refused_by_member(void **state)
{
  (void)state;
  hr_hardware hardware = linked();
  hr_collective c = hr_collective_default();
  hr_prediction p;
  hr_error error;
  c.kind = HR_POINT_TO_POINT, c.devices = 3;
  assert_int_equal(hr_predict_collective(&hardware, &c, &p, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "devices: expected 1 to 2, found 3");
  hr_collective_kind kind = HR_ALL_TO_ALL;
  assert_int_equal(hr_collective_parse("reduce_scatter", &kind), HR_OK);
  assert_int_equal(kind, HR_REDUCE_SCATTER);
  assert_string_equal(hr_collective_name(kind), "reduce_scatter");
  hr_collective_library library = HR_LIBRARY_NCCL;
  assert_int_equal(hr_collective_library_parse("deepep_ll_vllm", &library), HR_OK);
  assert_int_equal(library, HR_LIBRARY_DEEPEP_LL_VLLM);
  assert_int_equal(hr_collective_library_parse("gloo", &library), HR_ERROR_NOT_FOUND);
  c = hr_collective_default(), c.library = HR_LIBRARY_COUNT;
  assert_int_equal(hr_predict_collective(&hardware, &c, &p, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "library: 12 is not in the list");
  hardware.collectives[1].devices = 2;
  assert_int_equal(hr_hardware_check(&hardware, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "collectives[1]: expected an order by library"));
}

/* SIGMA's heads, 8 sequences of 4096 tokens. Bytes: 8·(4096·(4 + 16)·64 + 32·128)·2 = 83,951,616. FLOPs:
 * 2·128·32·4096·8 = 268,435,456. */
static hr_decode sigma_call(void)
{
  hr_decode d = hr_decode_default();
  hr_error error;
  d.batch = 8, d.kv_len = 4096;
  d.q_heads = 32, d.k_heads = 4, d.v_heads = 16;
  assert_ok(hr_decode_set_pages(&d, 16, &error), error);
  return d;
}

static void a_decode_call_on_a_gpu_pads_the_rows_of_each_head(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hr_error error;
  hr_decode d = sigma_call();
  hr_prediction p;
  hardware.bandwidth_bytes_per_s = 1e12;
  hardware.launch_ns = 2000, hardware.decode_framework.launch_ns = 5000;
  assert_ok(hr_predict_decode(&hardware, &d, &p, &error), error);
  assert_near(p.launch_ns, 5000);
  assert_near(p.memory_ns, 83951.616);
  /* 8 rows of a K head and 2 of a V head take 16: 2 and 8 times the FLOPs of K and of V, 5 times all. 108 TFLOP/s, and
   * 60% of them in fused attention. */
  assert_near(p.matrix_ns, 268435456 / 108e3);
  assert_near(p.matrix_ns + p.tile_ns, 5 * 268435456 / 108e3 / 0.6);
  hardware.decode_headroom.launch_ns = 3000;
  double before_ns = p.time_ns;
  assert_ok(hr_predict_decode(&hardware, &d, &p, &error), error);
  assert_near(p.time_ns, before_ns - 2000);
}

/* 8 sequences with 16 V heads are 128 pairs, here on 256 multiprocessors: half of one each, of 1000 + 10 * 64 ns.
 * Half of the multiprocessors are idle, and 4096 keys are 128 doubled 5 times: 5 * 400 / 2 ns. */
static void short_sequences_cost_a_time_per_head_and_long_ones_are_split(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hr_error error;
  hr_decode d = sigma_call();
  hr_prediction p, framework;
  hardware.multiprocessors = 256;
  hardware.decode_headroom =
      (hr_decode_cost){.launch_ns = 3000, .bandwidth_share = 0.5, .pair_ns = 1000, .element_ns = 10, .split_ns = 400};
  assert_ok(hr_predict_decode(&hardware, &d, &p, &error), error);
  assert_near(p.pair_ns, 820);
  assert_near(p.split_ns, 1000);
  double memory_ns = p.memory_ns;
  assert_near(p.time_ns, 3000 + 1000 + cbrt(pow(p.matrix_ns + p.tile_ns, 3) + pow(memory_ns, 3) + pow(820, 3)));
  assert_ok(hr_predict_decode_by(&hardware, &d, HR_FRAMEWORK_COMPILED, &framework, &error), error);
  assert_near(framework.memory_ns, memory_ns * 0.5 / hardware.bandwidth_share);
  assert_near(framework.pair_ns + framework.split_ns, 0);
  d.window = 128; /* keys that are read: no more than one block's */
  assert_ok(hr_predict_decode(&hardware, &d, &p, &error), error);
  assert_near(p.split_ns, 0);
  assert_int_equal(hr_predict_decode_by(&hardware, &d, (hr_framework)8, &p, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "framework: 8 is not in the list");
}

static void tiles_of_short_prompts_are_smaller(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hr_error error;
  hr_attention a = hr_attention_default();
  hr_prediction p;
  const int64_t lengths[][2] = {{2, 16}, {17, 32}, {64, 64}, {100, 128}, {2048, 128}};
  hardware.decode_framework.launch_ns = 1e8; /* no split-KV */
  for (size_t i = 0; i < 5; i++) {
    a.q_len = a.kv_len = lengths[i][0];
    assert_ok(hr_predict_attention(&hardware, &a, &p, &error), error);
    assert_int_equal(p.tile_m, lengths[i][1]);
  }
}

static void fused_attention_of_a_decode_step_is_a_decode_call(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hr_error error;
  hr_decode d = sigma_call();
  hr_prediction decode, step;
  hr_operator op = {.id = HR_OP_ATTENTION, .kind = HR_KIND_ATTENTION, .count = 1, .attention = hr_attention_default()};
  hardware.bandwidth_bytes_per_s = 1e12;
  op.attention.batch = 8, op.attention.kv_len = 4096;
  op.attention.q_heads = 32, op.attention.k_heads = 4, op.attention.v_heads = 16;
  assert_ok(hr_predict_decode(&hardware, &d, &decode, &error), error);
  assert_ok(hr_predict_operator(&hardware, &op, &step, &error), error);
  assert_near(step.time_ns, decode.time_ns);
}

static void a_cpu_pads_no_rows_of_a_decode_call(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hr_error error;
  hr_decode d = hr_decode_default();
  hr_prediction gpu, cpu;
  hardware.dense_flops_per_s[HR_FP32] = 27e12, hardware.library_share[HR_FP32] = 1;
  d.batch = 8, d.kv_len = 4096, d.q_heads = 32, d.k_heads = d.v_heads = 8;
  assert_ok(hr_decode_set_pages(&d, 16, &error), error);
  assert_ok(hr_predict_decode(&hardware, &d, &gpu, &error), error);
  hardware.about.kind = HR_HARDWARE_CPU;
  assert_ok(hr_predict_decode(&hardware, &d, &cpu, &error), error);
  assert_int_equal(cpu.tile_m, 4);
  assert_near(cpu.tile_waste, 0);
  assert_near(cpu.tile_ns + cpu.matrix_ns, 8 * cpu.matrix_ns); /* half of 27 instead of 108 TFLOP/s */
  assert_int_equal(gpu.tile_m, 16);
  assert_near(gpu.tile_waste, 1 - 4 / 16.0);
}

static void latent_attention_reads_its_one_k_head_once(void **state)
{
  (void)state;
  hr_hardware hardware = toy();
  hr_error error;
  hr_decode d = hr_decode_default();
  hr_prediction p;
  hardware.bandwidth_bytes_per_s = 1e12;
  d.batch = 4, d.kv_len = 1000, d.q_heads = 16, d.qk_dim = 576, d.v_dim = 512, d.latent = true;
  assert_ok(hr_decode_set_pages(&d, 64, &error), error);
  assert_ok(hr_predict_decode(&hardware, &d, &p, &error), error);
  assert_near(p.memory_ns, 4747.264); /* 4·(1000·576 + 16·(576 + 512))·2 bytes at 1000 a ns */
  d.kv_len = 0;
  assert_int_equal(hr_predict_decode(&hardware, &d, &p, &error), HR_ERROR_UNSUPPORTED);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_operand_that_all_batches_share_is_read_once),
      cmocka_unit_test(one_tile_more_than_slots_takes_a_second_wave),
      cmocka_unit_test(a_cpu_above_its_reported_clock_is_compared_with_its_best_gemm),
      cmocka_unit_test(a_row_over_the_tile_edge_pays_for_a_whole_tile),
      cmocka_unit_test(parts_add_up_to_the_matrix_time),
      cmocka_unit_test(the_contiguous_dimensions_set_the_alignment),
      cmocka_unit_test(misaligned_results_cost_small_tiles_more_than_operands),
      cmocka_unit_test(strides_set_the_alignment_if_they_are_worse_than_the_sizes),
      cmocka_unit_test(few_tiles_of_a_long_gemm_are_split_along_k),
      cmocka_unit_test(k_stays_whole_up_to_the_products_of_the_device_file),
      cmocka_unit_test(batched_gemms_of_simt_formats_take_the_first_tiles),
      cmocka_unit_test(batched_gemms_of_a_long_k_have_small_tiles),
      cmocka_unit_test(rows_along_k_that_lie_far_apart_load_slower),
      cmocka_unit_test(rows_of_b_that_lie_no_power_of_two_apart_load_slower),
      cmocka_unit_test(a_gemm_of_few_rows_is_bound_by_reading_its_weights),
      cmocka_unit_test(a_tiny_gemm_is_bound_by_its_launch),
      cmocka_unit_test(a_format_without_a_rate_is_unsupported),
      cmocka_unit_test(a_decode_call_on_a_gpu_pads_the_rows_of_each_head),
      cmocka_unit_test(short_sequences_cost_a_time_per_head_and_long_ones_are_split),
      cmocka_unit_test(tiles_of_short_prompts_are_smaller),
      cmocka_unit_test(a_cpu_pads_no_rows_of_a_decode_call),
      cmocka_unit_test(fused_attention_of_a_decode_step_is_a_decode_call),
      cmocka_unit_test(latent_attention_reads_its_one_k_head_once),
      cmocka_unit_test(a_ring_all_reduce_moves_twice_its_message_less_a_share),
      cmocka_unit_test(a_collective_takes_a_latency_a_transfer_and_its_ramp),
      cmocka_unit_test(more_devices_of_a_node_than_were_measured_take_more_steps),
      cmocka_unit_test(devices_of_several_nodes_also_use_the_network),
      cmocka_unit_test(a_ring_between_nodes_passes_every_device),
      cmocka_unit_test(a_library_takes_its_fastest_way_or_nccls),
      cmocka_unit_test(deepep_sends_a_token_once_to_each_device_or_node),
      cmocka_unit_test(a_wrong_collective_is_refused_by_member),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
