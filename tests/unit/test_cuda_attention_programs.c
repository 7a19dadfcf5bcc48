/* SPDX-License-Identifier: Apache-2.0 */
/* The attention programs compile for head sizes, masks and alignments of problems, with tiles that fit the shared
 * memory of the GPUs they are for, and for every architecture that they run on. Needs NVRTC, but no GPU. */
#include "programs.h"

#include "base/checked.h"
#include "runtime/cuda/attention/attention.h"
#include "runtime/cuda/attention/backward.h"
#include "runtime/cuda/attention/backward_sm90.h"

/* qk_dim, v_dim */
static const int64_t head_sizes[][2] = {{128, 128}, {64, 64}, {256, 256}, {192, 128}, {7, 19}};

/* Shared memory of a block: 163 KiB on GPUs like the A100, 99 on others of that generation, 227 from Hopper on. */
#define SHARED_MIN (99 << 10)
#define SHARED_MORE (163 << 10)
#define SHARED_MAX (227 << 10)

/* Every third; all with HEADROOM_TEST=thorough. */
static bool has_a_turn(const hr_nvrtc *nvrtc, size_t architecture, size_t turn)
{
  return architecture < count_architectures(nvrtc) && (architecture == turn % 3 || test_asks_for("thorough"));
}

static void build_for_turns(const hr_nvrtc *nvrtc, const char *source, hr_dtype dtype, const char *defines, size_t turn)
{
  for (size_t i = 0; i < 3; i++) {
    if (has_a_turn(nvrtc, i, turn))
      build(nvrtc, source, architectures[i], dtype, defines);
  }
}

/* A soft cap or not, first keys or not. */
static const char *scores(size_t turn)
{
  const hr_attention a = {.softcap = turn % 2 ? 30 : 0, .first_keys = turn / 2 % 2};
  return hr_cuda_attention_score_defines(&a);
}

/* tf32, whose program is mostly the same, for one of the three. */
static void build_tiled(const hr_nvrtc *nvrtc, hr_attention a, hr_dtype dtype, size_t turn)
{
  static const size_t shared[] = {SHARED_MIN, SHARED_MORE, SHARED_MAX};
  char defines[HR_DEFINES_SIZE];
  a.dtype = dtype;
  for (size_t i = 0; i < 3; i++) {
    hr_flash_sm80 tiles = hr_flash_sm80_choose(&a, shared[i]);
    assert_true(tiles.shared_bytes <= shared[i]);
    hr_flash_sm80_defines(&tiles, scores(turn + i), i > 0 && a.qk_dim % 8 == 0, defines);
    if (dtype != HR_TF32 || turn % 3 == i || test_asks_for("thorough"))
      build_for_turns(nvrtc, "attention_flash_sm80", dtype, defines, turn + i);
  }
}

/* For all head sizes, tiles are whole mma tiles and fit; in a pair of warps each has half of V's columns. */
static void tiles_for_every_gpu_fit_its_shared_memory(void **state)
{
  (void)state;
  static const size_t shared[] = {SHARED_MIN, SHARED_MORE, SHARED_MAX};
  static const hr_dtype dtypes[] = {HR_TF32, HR_FP16, HR_BF16};
  for (int64_t qk = 1; qk <= 256; qk++)
    for (int64_t v = 1; v <= 256; v++)
      for (size_t i = 0; i < 9; i++) {
        hr_attention a = hr_attention_default();
        a.qk_dim = qk, a.v_dim = v, a.kv_len = i % 2 ? 512 : 4096;
        a.dtype = dtypes[i % 3];
        hr_flash_sm80 t = hr_flash_sm80_choose(&a, shared[i / 3]);
        assert_true(t.qk >= qk && t.qk < qk + 16 && t.v >= v && t.v <= 256 && t.shared_bytes <= shared[i / 3]);
        assert_true(t.v % (16 * t.row_warps) == 0 && t.kv_tile % (16 * t.row_warps) == 0 && t.warps % t.row_warps == 0);
        assert_true(t.row_warps == 1 || t.stages == 1);
      }
}

/* Alternately in fp32 and in a dtype of the Tensor Cores. */
static void build_blocked(const hr_nvrtc *nvrtc, hr_attention a, hr_dtype dtype, size_t turn)
{
  char defines[HR_DEFINES_SIZE];
  for (size_t i = 0; i < 2; i++) {
    a.dtype = i == turn % 2 || test_asks_for("thorough") ? dtype : HR_FP32;
    hr_blocked least = hr_blocked_choose(&a, SHARED_MIN), more = hr_blocked_choose(&a, SHARED_MORE);
    assert_true(least.shared_bytes <= SHARED_MIN && more.shared_bytes <= SHARED_MORE);
    hr_blocked_defines(i == 0 ? &least : &more, a.dtype, scores(turn), i == 1 && a.v_dim % 8 == 0, defines);
    build_for_turns(nvrtc, hr_blocked_source(a.dtype), a.dtype, defines, turn + i);
  }
}

static void build_others(const hr_nvrtc *nvrtc, hr_attention a, hr_dtype dtype, size_t turn)
{
  char defines[HR_DEFINES_SIZE];
  hr_flash_fp32 exact = hr_flash_fp32_choose(&a, SHARED_MORE);
  assert_true(exact.shared_bytes <= SHARED_MORE);
  hr_flash_fp32_defines(&exact, scores(turn), turn % 2 == 0 && a.qk_dim % 8 == 0, defines);
  build_for_turns(nvrtc, "attention_flash_fp32", HR_FP32, defines, turn);
  hr_flash_sm90 hopper = hr_flash_sm90_choose(&a);
  assert_true(hopper.shared_bytes <= 227 << 10);
  hr_flash_sm90_defines(&hopper, defines);
  build(nvrtc, "attention_flash_sm90", "sm_90a", dtype, defines);
}

static void attention_compiles_for_every_head_size_and_architecture(void **state)
{
  (void)state;
  hr_nvrtc nvrtc = open_nvrtc();
  for (size_t i = 0; i < sizeof head_sizes / sizeof *head_sizes; i++) {
    hr_attention a = hr_attention_default();
    a.qk_dim = head_sizes[i][0], a.v_dim = head_sizes[i][1];
    hr_dtype dtype = i % 2 ? HR_FP16 : HR_BF16;
    build_tiled(&nvrtc, a, dtype, i);
    build_tiled(&nvrtc, a, HR_TF32, i + 1);
    build_blocked(&nvrtc, a, i % 2 ? HR_TF32 : dtype, i);
    build_others(&nvrtc, a, dtype, i);
  }
  hr_nvrtc_close(&nvrtc);
}

static void gradients_compile_for_every_head_size_and_architecture(void **state)
{
  (void)state;
  static const size_t shared[] = {SHARED_MIN, SHARED_MORE, SHARED_MAX};
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  for (size_t i = 0; i < sizeof head_sizes / sizeof *head_sizes; i++) {
    hr_attention a = hr_attention_default();
    a.qk_dim = head_sizes[i][0], a.v_dim = head_sizes[i][1];
    hr_backward_sm80 tiles = hr_backward_sm80_choose(&a, shared[i % 3]);
    hr_backward_sm80_defines(&tiles, scores(i), a.qk_dim % 8 == 0, defines);
    build_for_turns(&nvrtc, "attention_backward_sm80", i % 2 ? HR_FP16 : HR_BF16, defines, i);
    hr_backward_naive_defines(&a, defines);
    build_for_turns(&nvrtc, "attention_backward_naive", i % 2 ? HR_FP32 : HR_BF16, defines, i);
  }
  hr_nvrtc_close(&nvrtc);
}

/* For all head sizes, tiles are whole mma tiles, and each thread that copies a row term is there. */
static void tiles_of_gradients_fit_the_shared_memory_of_every_gpu(void **state)
{
  (void)state;
  static const size_t shared[] = {SHARED_MIN, SHARED_MORE, SHARED_MAX};
  for (int64_t qk = 1; qk <= 256; qk++)
    for (int64_t v = 1; v <= 256; v++)
      for (size_t i = 0; i < 3; i++) {
        hr_attention a = hr_attention_default();
        a.qk_dim = qk, a.v_dim = v;
        hr_backward_sm80 t = hr_backward_sm80_choose(&a, shared[i]);
        assert_true(t.qk >= qk && t.qk < qk + 16 && t.v >= v && t.v < v + 16 && t.shared_bytes <= shared[i]);
        assert_true(t.others % 16 == 0 && t.others <= 32 * t.warps);
        assert_true((size_t)hr_backward_naive_bytes((int)qk, (int)v) <= SHARED_MIN);
      }
}

/* A problem of attention_flash_sm90. */
typedef struct hopper_call {
  int64_t qk_dim, v_dim, length, window;
  hr_mask mask;
  float softcap;
  bool alibi, variable_lengths, first_keys;
} hopper_call;

static hr_attention attention_of(const hopper_call *c)
{
  hr_attention a = hr_attention_default();
  a.qk_dim = c->qk_dim, a.v_dim = c->v_dim;
  a.q_len = a.kv_len = c->length;
  a.mask = c->mask, a.window = c->window;
  a.softcap = c->softcap, a.alibi = c->alibi;
  a.variable_lengths = c->variable_lengths;
  a.first_keys = c->first_keys;
  return a;
}

static void the_hopper_program_compiles_for_pairs_masks_caps_and_lengths(void **state)
{
  (void)state;
  const hopper_call calls[] = {
      {64, 64, 128, 0, HR_MASK_CAUSAL, 0, false, false, false},
      {32, 64, 4096, 0, HR_MASK_CAUSAL, 0, false, false, false},
      {64, 128, 512, 300, HR_MASK_CAUSAL, 0, false, false, false},
      {96, 96, 512, 0, HR_MASK_NONE, 30, false, true, false},
      {128, 256, 2048, 0, HR_MASK_CAUSAL, 0, true, false, false},
      {256, 256, 4096, 0, HR_MASK_NONE, 0, false, false, false},
      {256, 256, 2048, 700, HR_MASK_CAUSAL, 50, true, true, false},
      {128, 128, 4096, 0, HR_MASK_CAUSAL, 0, false, false, true},
      {64, 64, 512, 0, HR_MASK_NONE, 30, false, true, true},
  };
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    hr_attention a = attention_of(&calls[i]);
    hr_flash_sm90 tiles = hr_flash_sm90_choose(&a);
    assert_true(tiles.stages >= 2 && tiles.shared_bytes <= 227 << 10);
    hr_flash_sm90_defines(&tiles, defines);
    build(&nvrtc, "attention_flash_sm90", "sm_90a", i % 2 ? HR_FP16 : HR_BF16, defines);
  }
  hr_nvrtc_close(&nvrtc);
}

static hr_backward backward_of(const hopper_call *c, bool deterministic)
{
  hr_backward both = {attention_of(c), hr_attention_backward_default()};
  both.options.deterministic = deterministic;
  return both;
}

static void the_hopper_program_of_gradients_compiles_for_masks_caps_and_lengths(void **state)
{
  (void)state;
  const hopper_call calls[] = {
      {128, 128, 4096, 0, HR_MASK_CAUSAL, 0, false, false, false},
      {64, 64, 4096, 0, HR_MASK_NONE, 0, false, true, false},
      {48, 80, 512, 300, HR_MASK_CAUSAL, 30, true, false, true},
      {192, 128, 4096, 0, HR_MASK_CAUSAL, 0, false, false, false},
      {64, 256, 512, 0, HR_MASK_NONE, 30, false, true, false},
      {256, 256, 2048, 700, HR_MASK_CAUSAL, 0, true, true, true},
  };
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    hr_backward both = backward_of(&calls[i], i % 3 == 1);
    hr_backward_sm90 tiles = hr_backward_sm90_choose(&both);
    hr_backward_sm90_defines(&tiles, defines);
    build(&nvrtc, "attention_backward_sm90", "sm_90a", i % 2 ? HR_FP16 : HR_BF16, defines);
    hr_backward_rows_defines(&tiles, defines);
    build(&nvrtc, "attention_backward_rows", "sm_90a", i % 2 ? HR_FP16 : HR_BF16, defines);
  }
  hr_nvrtc_close(&nvrtc);
}

/* The consumer warpgroups together compute every column of dQ: half of the rows each, or columns from a panel on. */
static void tiles_of_gradients_for_hopper_fit_and_cover_dq(void **state)
{
  (void)state;
  for (int64_t qk = 8; qk <= 256; qk += 8)
    for (int64_t v = 8; v <= 256; v += 8) {
      hopper_call call = {.qk_dim = qk, .v_dim = v, .length = 4096};
      hr_backward both = backward_of(&call, false);
      hr_backward_sm90 t = hr_backward_sm90_choose(&both);
      assert_true(t.qk >= qk && t.qk < qk + 16 && t.v >= v && t.v < v + 16);
      assert_true(t.shared_bytes <= SHARED_MAX && t.stages >= 2);
      assert_true(t.rows == 128 ? t.dq_first == t.qk : t.dq_first + t.dq_second >= t.qk);
      assert_true(t.rows == 128 || t.dq_second == 0 || t.dq_first % 64 == 0);
    }
}

static hr_attention fp8_attention_of(const hopper_call *c)
{
  hr_attention a = attention_of(c);
  a.dtype = HR_FP8_E4M3;
  a.output = c->length % 4096 ? HR_OUTPUT_FP16 : HR_OUTPUT_BF16;
  a.head_scales = !c->alibi;
  return a;
}

static void the_hopper_program_of_fp8_and_what_transposes_v_compile(void **state)
{
  (void)state;
  const hopper_call calls[] = {
      {64, 64, 4096, 0, HR_MASK_NONE, 0, false, false, false},
      {128, 128, 4096, 0, HR_MASK_NONE, 0, false, false, false},
      {256, 256, 4096, 0, HR_MASK_NONE, 0, false, false, false},
      {128, 128, 2048, 0, HR_MASK_CAUSAL, 0, false, true, false},
      {48, 240, 512, 300, HR_MASK_CAUSAL, 30, true, false, false},
  };
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    hr_attention a = fp8_attention_of(&calls[i]);
    hr_flash_sm90 tiles = hr_flash_sm90_choose(&a);
    hr_flash_sm90_defines(&tiles, defines);
    build(&nvrtc, "attention_flash_sm90", "sm_90a", HR_FP8_E4M3, defines);
    hr_transpose_v_defines(&tiles, defines);
    build(&nvrtc, "attention_transpose_v", "sm_90a", HR_FP8_E4M3, defines);
  }
  hr_nvrtc_close(&nvrtc);
}

/* V is transposed in tiles of 128 keys, whose share of a cluster's block is whole groups of 8 rows. */
static void tiles_of_fp8_for_hopper_fit_its_shared_memory(void **state)
{
  (void)state;
  for (int64_t qk = 16; qk <= 256; qk += 16)
    for (int64_t v = 16; v <= 256; v += 16)
      for (int i = 0; i < 8; i++) {
        hopper_call call = {.qk_dim = qk, .v_dim = v, .length = i % 2 ? 4096 : 500, .variable_lengths = i / 4};
        call.mask = i / 2 % 2 ? HR_MASK_CAUSAL : HR_MASK_NONE;
        hr_attention a = fp8_attention_of(&call);
        hr_flash_sm90 t = hr_flash_sm90_choose(&a);
        assert_true(t.qk >= qk && t.qk % 32 == 0 && t.v == v && t.kv_tile % 32 == 0 && t.teams == 1 && t.stages >= 2);
        assert_true(t.shared_bytes <= 227 << 10 && !(t.varlen && t.stage_o) && t.v % (8 * t.cluster) == 0);
      }
}

/* Sequences from row 5 of lengths 0, 1, 128, 300, 0, 127: each has tiles of its own and one of zeros, the last ends
 * within the count. */
static void sequences_have_tiles_of_transposed_v_of_their_own(void **state)
{
  (void)state;
  const int64_t lengths[] = {0, 1, 128, 300, 0, 127};
  int64_t first = 5, end = 0, count = sizeof lengths / sizeof *lengths;
  for (int64_t i = 0; i < count; i++) {
    int64_t tile = hr_transposed_tile(first, i);
    assert_true(tile >= end);
    end = tile + hr_ceil_div(lengths[i], HR_TRANSPOSED_KEYS) + 1;
    first += lengths[i];
  }
  assert_true(end <= hr_transposed_tile(first, count));
}

/* Every head size has a row of the table, and its tiles fit a block. */
static void tiles_for_hopper_fit_its_shared_memory(void **state)
{
  (void)state;
  static const int64_t lengths[] = {60, 128, 512, 4096};
  for (int64_t qk = 8; qk <= 256; qk += 8)
    for (int64_t v = 8; v <= 256; v += 8)
      for (int i = 0; i < 16; i++) {
        hopper_call call = {.qk_dim = qk, .v_dim = v, .length = lengths[i % 4]};
        call.mask = i / 4 % 2 ? HR_MASK_CAUSAL : HR_MASK_NONE;
        call.variable_lengths = i / 8;
        hr_attention a = attention_of(&call);
        hr_flash_sm90 t = hr_flash_sm90_choose(&a);
        assert_true(t.qk >= qk && t.v >= v && t.kv_tile % 16 == 0 && t.stages >= 2 && t.q_stages >= 1);
        assert_true(t.shared_bytes <= 227 << 10 && !(t.varlen && t.stage_o));
      }
}

static hr_flash_sm90 tiles_of(int64_t dim, int64_t length, hr_mask mask)
{
  hopper_call call = {.qk_dim = dim, .v_dim = dim, .length = length, .mask = mask};
  hr_attention a = attention_of(&call);
  return hr_flash_sm90_choose(&a);
}

/* A tile costs its keys and 16: 197 keys are 2 (112 + 16) = 256 in tiles of 112, 2 (128 + 16) = 288 in tiles of 128, at
 * head size 256 3 (80 + 16) = 288 in tiles of 80, 4 (64 + 16) = 320 in tiles of 64; 512 are 672 and 640. 384 rows are 2
 * Q tiles of 192, 3 of 128. */
static void short_sequences_take_hopper_tiles_that_fit_their_keys(void **state)
{
  (void)state;
  assert_int_equal(tiles_of(128, 197, HR_MASK_NONE).kv_tile, 112);
  assert_int_equal(tiles_of(128, 384, HR_MASK_NONE).kv_tile, 64);
  assert_int_equal(tiles_of(128, 197, HR_MASK_CAUSAL).kv_tile, 64);
  assert_int_equal(tiles_of(256, 197, HR_MASK_NONE).kv_tile, 80);
  assert_int_equal(tiles_of(256, 512, HR_MASK_NONE).kv_tile, 64);
}

static void hopper_blocks_have_two_teams_for_few_rows_and_clusters_for_many(void **state)
{
  (void)state;
  hr_flash_sm90 t = tiles_of(64, 64, HR_MASK_CAUSAL);
  assert_true(t.teams == 2 && t.consumers == 1 && t.cluster == 1);
  t = tiles_of(64, 128, HR_MASK_NONE);
  assert_true(t.teams == 2 && t.consumers == 2 && !t.ping_pong);
  t = tiles_of(64, 256, HR_MASK_CAUSAL); /* a Q tile has all rows */
  assert_true(t.teams == 1 && t.consumers == 4 && t.left_to_right);
  t = tiles_of(64, 128, HR_MASK_CAUSAL);
  assert_true(t.teams == 2 && t.consumers == 2);
  t = tiles_of(64, 640, HR_MASK_CAUSAL);
  assert_true(t.teams == 2 && t.consumers == 2 && t.kv_tile == 64 && t.left_to_right);
  t = tiles_of(64, 2048, HR_MASK_CAUSAL);
  assert_true(t.teams == 1 && t.consumers == 3 && t.kv_tile == 128 && !t.left_to_right);
  assert_int_equal(tiles_of(128, 4096, HR_MASK_NONE).cluster, 2);
  assert_int_equal(tiles_of(128, 4096, HR_MASK_CAUSAL).cluster, 1);
  assert_int_equal(tiles_of(128, 2048, HR_MASK_NONE).cluster, 1);
  assert_int_equal(tiles_of(64, 4096, HR_MASK_NONE).cluster, 1);
}

/* The fewest Q tiles; of as few, the smaller: 256 rows are 2 of 192 or of 128, 300 2 of 192, 3 of 128. */
static void hopper_q_tiles_fit_the_rows_of_short_sequences(void **state)
{
  (void)state;
  assert_int_equal(tiles_of(128, 128, HR_MASK_CAUSAL).consumers, 2);
  assert_int_equal(tiles_of(128, 129, HR_MASK_CAUSAL).consumers, 3);
  assert_int_equal(tiles_of(128, 256, HR_MASK_CAUSAL).consumers, 2);
  assert_int_equal(tiles_of(80, 300, HR_MASK_CAUSAL).consumers, 3);
  assert_int_equal(tiles_of(128, 197, HR_MASK_NONE).consumers, 2);
  assert_int_equal(tiles_of(80, 257, HR_MASK_NONE).consumers, 3);
  hr_flash_sm90 t = tiles_of(128, 512, HR_MASK_NONE);
  assert_true(t.consumers == 3 && t.stages >= 3 && t.q_stages == 1 && t.stage_o);
  t = tiles_of(256, 512, HR_MASK_CAUSAL);
  assert_true(t.consumers == 2 && t.kv_tile == 64 && t.left_to_right);
  assert_int_equal(tiles_of(128, 4096, HR_MASK_CAUSAL).consumers, 3);
}

/* 132 multiprocessors with 2 blocks of 64 rows each: 264 slots, an L2 of 50 MiB. */
static void causal_heads_are_grouped_in_even_bands_that_fit_the_l2(void **state)
{
  (void)state;
  hr_attention a = hr_attention_default();
  a.batch = 8, a.q_len = a.kv_len = 2048;
  a.q_heads = a.k_heads = a.v_heads = 8;
  a.qk_dim = a.v_dim = 256;
  a.mask = HR_MASK_NONE;
  assert_int_equal(hr_cuda_attention_band(&a, 32, 264, 50 << 20), 1);
  a.mask = HR_MASK_CAUSAL;
  assert_int_equal(hr_cuda_attention_band(&a, 32, 264, 50 << 20),
                   8); /* of 64: 528 / 32 is 16, 25 MiB hold 12 of 2 MiB */
  a.k_heads = a.v_heads = 2;
  assert_int_equal(hr_cuda_attention_band(&a, 32, 264, 50 << 20), 16);
  a.batch = 1, a.q_heads = 7, a.k_heads = a.v_heads = 1;
  assert_int_equal(hr_cuda_attention_band(&a, 132, 264, 50 << 20), 1); /* 4 do not divide 7 */
  assert_int_equal(hr_cuda_attention_band(&a, 1, 264, 50 << 20), 7);
  assert_int_equal(hr_cuda_attention_band(&a, 100000, 264, 0), 1);
  a.q_len = a.kv_len = 0;
  assert_int_equal(hr_cuda_attention_band(&a, 0, 264, 50 << 20), 1);
}

/* Returns the bands of 4 × 64 heads on 132 blocks with tiles of 128 rows and an L2 of 51 MiB. */
static hr_flash_bands hopper_bands(hr_mask mask, int64_t rows, int64_t qk_dim)
{
  hr_attention a = hr_attention_default();
  a.dtype = HR_BF16, a.mask = mask, a.batch = 4;
  a.q_len = rows, a.kv_len = rows <= 512 ? 512 : rows <= 1025 ? 1024 : 2048;
  a.q_heads = a.k_heads = a.v_heads = 64;
  a.qk_dim = qk_dim, a.v_dim = 128;
  return hr_flash_sm90_bands(&a, hr_ceil_div(rows, 128), 132, 51 << 20);
}

/* K and V of a head of 128 and 1024 keys are 0.5 MiB, of 2048 keys 1 MiB. */
static void hopper_bands_fit_a_share_of_the_l2_up_to_2048_rows(void **state)
{
  (void)state;
  assert_int_equal(hopper_bands(HR_MASK_NONE, 1024, 128).heads, 20); /* 20% of the L2, of 4 * 132 / 8 */
  assert_int_equal(hopper_bands(HR_MASK_NONE, 1025, 128).heads, 20);
  assert_int_equal(hopper_bands(HR_MASK_NONE, 2048, 128).heads, 10);
  assert_int_equal(hopper_bands(HR_MASK_NONE, 2048, 64).heads, 27);  /* 40% */
  assert_int_equal(hopper_bands(HR_MASK_NONE, 2049, 128).heads, 31); /* 4 * 132 / 17 */
  hr_attention a = hr_attention_default();
  a.dtype = HR_BF16, a.q_len = a.kv_len = 2048, a.mask = HR_MASK_NONE;
  a.batch = 2, a.q_heads = a.k_heads = a.v_heads = 2, a.qk_dim = a.v_dim = 128;
  assert_int_equal(hr_flash_sm90_bands(&a, 16, 132, 51 << 20).heads, 4); /* all */
  a.batch = 8, a.q_heads = 64, a.k_heads = a.v_heads = 8;
  /* shared K and V: the L2 holds those of 163 heads */
  assert_int_equal(hr_flash_sm90_bands(&a, 16, 132, 51 << 20).heads, 33);
}

/* Bands of causal calls have a Q tile per block at most, the last one at least. */
static void hopper_bands_of_causal_calls_are_small_but_the_last(void **state)
{
  (void)state;
  hr_flash_bands bands = hopper_bands(HR_MASK_CAUSAL, 512, 128);
  assert_true(bands.heads == 30 && bands.count == 7);                /* 15% of the L2; (256 - 132 / 4) / 30 */
  assert_int_equal(hopper_bands(HR_MASK_CAUSAL, 256, 16).heads, 54); /* 15% of the L2, of 132 / 2 */
  assert_int_equal(hopper_bands(HR_MASK_CAUSAL, 1024, 128).heads, 15);
  bands = hopper_bands(HR_MASK_CAUSAL, 2048, 128);
  assert_true(bands.heads == 7 && bands.count == 35); /* (256 - 9) / 7 */
  bands = hopper_bands(HR_MASK_CAUSAL, 4097, 128);
  assert_true(bands.heads == 32 && bands.count == 7); /* 8 * 132 / 33; (256 - 132 / 33) / 32 */
  hr_attention a = hr_attention_default();
  a.dtype = HR_BF16, a.q_len = a.kv_len = 2048, a.mask = HR_MASK_CAUSAL;
  a.batch = 1, a.q_heads = a.k_heads = a.v_heads = 2, a.qk_dim = a.v_dim = 128;
  bands = hr_flash_sm90_bands(&a, 16, 132, 51 << 20);
  assert_true(bands.heads == 2 && bands.count == 0); /* all are the last band */
  a.kv_len = 1 << 20;
  assert_int_equal(hr_flash_sm90_bands(&a, 16, 132, 51 << 20).heads, 1); /* more than the share holds */
}

/* The first rows of a causal call with more rows than keys have positions before the first key; a window that large,
 * counted back from there, would overflow 32 bits. */
static void a_window_larger_than_all_keys_does_not_overflow(void **state)
{
  (void)state;
  const int64_t windows[] = {INT32_MAX - 1, INT32_MAX, INT64_MAX};
  hr_attention a = hr_attention_default();
  a.q_len = 300, a.kv_len = 100;
  const hr_sequence sequence = {.q_len = a.q_len, .kv_len = a.kv_len};
  for (int i = 0; i < 3; i++) {
    a.window = windows[i];
    assert_int_equal(hr_cuda_attention_call(&a, 64).window, 100);
    for (int64_t query = 0; query < a.q_len; query++) {
      hr_key_range seen = hr_attention_visible(&a, &sequence, query);
      assert_int_equal(seen.first, 0);
      assert_int_equal(seen.end, query < 200 ? 0 : query - 199);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(attention_compiles_for_every_head_size_and_architecture),
      cmocka_unit_test(gradients_compile_for_every_head_size_and_architecture),
      cmocka_unit_test(tiles_of_gradients_fit_the_shared_memory_of_every_gpu),
      cmocka_unit_test(the_hopper_program_compiles_for_pairs_masks_caps_and_lengths),
      cmocka_unit_test(the_hopper_program_of_gradients_compiles_for_masks_caps_and_lengths),
      cmocka_unit_test(tiles_of_gradients_for_hopper_fit_and_cover_dq),
      cmocka_unit_test(the_hopper_program_of_fp8_and_what_transposes_v_compile),
      cmocka_unit_test(tiles_of_fp8_for_hopper_fit_its_shared_memory),
      cmocka_unit_test(sequences_have_tiles_of_transposed_v_of_their_own),
      cmocka_unit_test(tiles_for_every_gpu_fit_its_shared_memory),
      cmocka_unit_test(tiles_for_hopper_fit_its_shared_memory),
      cmocka_unit_test(short_sequences_take_hopper_tiles_that_fit_their_keys),
      cmocka_unit_test(hopper_q_tiles_fit_the_rows_of_short_sequences),
      cmocka_unit_test(hopper_blocks_have_two_teams_for_few_rows_and_clusters_for_many),
      cmocka_unit_test(causal_heads_are_grouped_in_even_bands_that_fit_the_l2),
      cmocka_unit_test(hopper_bands_fit_a_share_of_the_l2_up_to_2048_rows),
      cmocka_unit_test(hopper_bands_of_causal_calls_are_small_but_the_last),
      cmocka_unit_test(a_window_larger_than_all_keys_does_not_overflow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
