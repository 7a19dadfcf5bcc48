/* SPDX-License-Identifier: Apache-2.0 */
/* The decode programs compile for head sizes, groups and layouts of problems, and their tiles fit the shared memory of
 * the GPUs that they are for. Needs NVRTC for the former, but no GPU. */
#include "programs.h"

#include "base/checked.h"
#include "runtime/cuda/decode/decode.h"
#include "runtime/cuda/kernels/decode_latent_layout.h"

static const hr_decode_gpu gpus[] = {{108, 163 << 10, 164 << 10, 1, false, true, false},
                                     {142, 99 << 10, 100 << 10, 1, false, true, false},
                                     {132, 227 << 10, 228 << 10, 16, true, true, true}};

/* q_heads, k_heads, v_heads */
static const int64_t heads[][3] = {{1, 1, 1},   {32, 32, 32},  {32, 8, 8}, {32, 4, 16}, {32, 16, 4},
                                   {32, 1, 32}, {32, 32, 1},   {12, 4, 6}, {71, 1, 1},  {128, 8, 16},
                                   {71, 1, 71}, {127, 127, 1}, {96, 2, 6}};

static hr_decode call_of(const int64_t h[3], int64_t qk_dim, int64_t v_dim)
{
  hr_decode d = hr_decode_default();
  hr_error error;
  d.kv_len = 4096;
  d.q_heads = h[0], d.k_heads = h[1], d.v_heads = h[2];
  d.qk_dim = qk_dim, d.v_dim = v_dim;
  assert_ok(hr_decode_set_pages(&d, 16, &error), error);
  return d;
}

static void check_tiles(const hr_decode *d, const hr_decode_gpu *gpu)
{
  hr_decode_split t = hr_decode_split_choose(d, gpu);
  const hr_decode_shape shape = {
      t.qk,     t.v,       t.rows,          t.tiles,        t.k_heads, t.v_heads, t.warps, hr_decode_team(&t),
      t.stages, t.cluster, t.element_bytes, t.token_scales, t.wgmma};
  assert_int_equal(t.shared_bytes, hr_decode_layout_of(shape).bytes);
  assert_true(t.shared_bytes <= gpu->shared_max &&
              (size_t)t.min_blocks * (t.shared_bytes + 1024) <= gpu->shared_of_multiprocessor);
  assert_true(t.cluster == 1 || (t.cluster == t.splits && t.cluster <= gpu->cluster_max));
  assert_true(t.stages >= 2 && t.warps >= 1 && t.splits >= 1 && t.splits <= HR_DECODE_SPLITS_MAX);
  assert_true(t.rows == t.heads * d->q_len && t.rows <= HR_DECODE_GROUP_ROWS && t.warps % hr_decode_team(&t) == 0);
  assert_int_equal(t.tiles, t.wgmma ? (t.rows > 64 ? 8 : 4) : (t.rows + 15) / 16);
  assert_true(t.warps * t.min_blocks <= (t.qk <= 64 && t.v <= 64 ? 16 : t.qk <= 128 && t.v <= 128 ? 12 : 8));
  assert_true(d->q_heads % t.unit_heads == 0 && t.parts * t.heads >= t.unit_heads &&
              (t.parts - 1) * t.heads < t.unit_heads);
  int64_t k_group = d->q_heads / d->k_heads, v_group = d->q_heads / d->v_heads;
  for (int64_t first = 0; first < d->q_heads; first += t.heads) { /* a group's heads are those that the program reads */
    int64_t part = first % t.unit_heads, heads_here = hr_min64(t.heads, t.unit_heads - part),
            last = first + heads_here - 1;
    int64_t k_heads = last / k_group - first / k_group + 1, v_heads = last / v_group - first / v_group + 1;
    assert_true(k_heads == t.k_heads || (heads_here < t.heads && heads_here == k_heads * k_group));
    assert_true(v_heads == t.v_heads || (heads_here < t.heads && heads_here == v_heads * v_group));
    first -= t.heads - heads_here;
  }
}

static void tiles_fit_every_gpu_and_hold_whole_heads(void **state)
{
  (void)state;
  for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
    for (int64_t qk = 1; qk <= 256; qk += 15)
      for (int64_t v = 1; v <= 256; v += 17)
        for (int64_t q_len = 1; q_len <= HR_DECODE_Q_LEN_MAX; q_len += 5)
          for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
            hr_decode d = call_of(heads[h], qk, v);
            d.q_len = q_len;
            d.batch = i % 2 ? 1 : 100;
            d.cache_format = (hr_kv_format)((qk + v) % HR_KV_READABLE_COUNT);
            d.cache_scales = (hr_kv_scales)(qk % HR_KV_SCALES_COUNT);
            check_tiles(&d, &gpus[i]);
          }
}

/* The GPU has an H200's multiprocessors, but no WGMMA. Falcon-7B's 71 query heads over one K and V head are padded to 5
 * Q tiles, or where sequences are few to 5 groups of 15; with 3 queries to 2 parts of 36 and 35 heads. 48 are 3 tiles,
 * 128 are 8, 129 are 2 parts of 65. */
static void query_heads_of_a_k_head_are_padded_to_tiles(void **state)
{
  (void)state;
  static const struct {
    int64_t batch, q_heads, q_len;
    int heads, tiles, parts;
  } calls[] = {{64, 71, 1, 71, 5, 1},   {8, 71, 1, 15, 1, 5},   {64, 71, 3, 36, 7, 2}, {64, 48, 1, 48, 3, 1},
               {64, 128, 1, 128, 8, 1}, {64, 129, 1, 65, 5, 2}, {64, 17, 1, 9, 1, 2},  {64, 32, 1, 16, 1, 2}};
  hr_decode_gpu gpu = gpus[2];
  gpu.wgmma = false;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    hr_decode d = call_of((const int64_t[]){calls[i].q_heads, 1, 1}, 64, 64);
    d.batch = calls[i].batch, d.q_len = calls[i].q_len;
    hr_decode_split t = hr_decode_split_choose(&d, &gpu);
    assert_int_equal(t.heads, calls[i].heads);
    assert_int_equal(t.tiles, calls[i].tiles);
    assert_int_equal(t.parts, calls[i].parts);
  }
}

/* On an H200. 17 to 128 query heads over one K and V head are one group of 64 or 128 rows. One block adds a group's
 * splits, which with 8 sequences are 16 of 71 rows, and so they are two groups; with one sequence groups of a tile.
 * Head sizes above 128 have no registers for 128 rows. Quantized caches and several V heads have mma.sync. */
static void many_query_heads_of_a_k_head_are_multiplied_at_once(void **state)
{
  (void)state;
  static const struct {
    int64_t batch, heads[3], q_len, dim;
    hr_kv_format format;
    int group, tiles; /* 0: without WGMMA */
  } calls[] = {{64, {16, 1, 1}, 1, 64, HR_KV_UNQUANTIZED, 16, 0},   {64, {17, 1, 1}, 1, 64, HR_KV_UNQUANTIZED, 17, 4},
               {64, {64, 1, 1}, 1, 64, HR_KV_UNQUANTIZED, 64, 4},   {64, {65, 1, 1}, 1, 64, HR_KV_UNQUANTIZED, 65, 8},
               {64, {128, 1, 1}, 1, 64, HR_KV_UNQUANTIZED, 128, 8}, {64, {71, 1, 1}, 3, 64, HR_KV_UNQUANTIZED, 36, 8},
               {8, {71, 1, 1}, 1, 64, HR_KV_UNQUANTIZED, 36, 4},    {1, {71, 1, 1}, 1, 64, HR_KV_UNQUANTIZED, 15, 0},
               {64, {128, 1, 1}, 1, 256, HR_KV_UNQUANTIZED, 64, 4}, {32, {80, 4, 4}, 1, 128, HR_KV_UNQUANTIZED, 20, 4},
               {64, {71, 1, 1}, 1, 64, HR_KV_FP8, 71, 0},           {64, {64, 1, 8}, 1, 64, HR_KV_UNQUANTIZED, 16, 0}};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    hr_decode d = call_of(calls[i].heads, calls[i].dim, calls[i].dim);
    d.batch = calls[i].batch, d.q_len = calls[i].q_len, d.kv_len = 10000;
    d.cache_format = calls[i].format;
    hr_decode_split t = hr_decode_split_choose(&d, &gpus[2]);
    assert_int_equal(t.heads, calls[i].group);
    assert_int_equal(t.wgmma ? t.tiles : 0, calls[i].tiles);
  }
}

/* Groups that read a K head again do so from the L2, in few parts: ⌈n / 16⌉ of n heads at most, or one. */
static void no_number_of_query_heads_reads_its_k_head_once_for_each(void **state)
{
  (void)state;
  for (int64_t batch = 1; batch <= 64; batch *= 4)
    for (int64_t q_heads = 1; q_heads <= 128; q_heads++) {
      hr_decode d = call_of((const int64_t[]){q_heads, 1, 1}, 128, 128);
      d.batch = batch;
      assert_true(hr_decode_split_choose(&d, &gpus[2]).parts <= (q_heads + 15) / 16);
    }
}

/* On an H200, 40 query heads and 8 K heads of 128: 17 sequences have 136 groups for 132 multiprocessors, 34 have 136 of
 * two K heads. 16, 33 and 64 sequences are nearly whole waves. */
static void sequences_of_incomplete_waves_are_read_in_equal_shares(void **state)
{
  (void)state;
  static const struct {
    int64_t batch;
    int shares;
  } calls[] = {{8, 0}, {16, 0}, {17, 16}, {24, 16}, {33, 0}, {34, 33}, {64, 0}, {67, 66}, {136, 66}};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    hr_decode d = call_of((const int64_t[]){40, 8, 8}, 128, 128);
    d.batch = calls[i].batch;
    assert_int_equal(hr_decode_split_choose(&d, &gpus[2]).shares, calls[i].shares);
    hr_decode_gpu without = gpus[2];
    without.shares = false;
    assert_int_equal(hr_decode_split_choose(&d, &without).shares, 0);
    d.batch_invariant = true;
    assert_int_equal(hr_decode_split_choose(&d, &gpus[2]).shares, 0);
  }
}

/* SIGMA's group: 8 query heads, one K head, four V heads. */
static void k_and_v_heads_are_read_once(void **state)
{
  (void)state;
  hr_decode d = call_of(heads[3], 64, 64);
  hr_decode_split t = hr_decode_split_choose(&d, &gpus[2]);
  assert_int_equal(t.heads, 8);
  assert_int_equal(t.k_heads, 1);
  assert_int_equal(t.v_heads, 4);
}

static void batch_invariant_work_is_divided_as_for_one_sequence(void **state)
{
  (void)state;
  for (int64_t batch = 1; batch <= 128; batch *= 2)
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
      hr_decode d = call_of(heads[i], 64, 128);
      d.kv_len = 4096, d.batch_invariant = true;
      hr_decode_split one = hr_decode_split_choose(&d, &gpus[2]);
      d.batch = batch;
      hr_decode_split t = hr_decode_split_choose(&d, &gpus[2]);
      assert_memory_equal(&t, &one, sizeof t);
    }
}

/* On an H200, in fp8: SIGMA's stages have five heads, 4096 tokens of 8 heads are 248 keys of a multiprocessor. */
static void small_stages_of_long_contexts_have_more_warps(void **state)
{
  (void)state;
  static const struct {
    int64_t batch, kv_len, heads[3], dim;
    int warps;
  } calls[] = {{16, 8192, {32, 2, 2}, 128, 12}, {256, 8192, {32, 2, 2}, 128, 6}, {16, 8192, {32, 8, 8}, 128, 8},
               {16, 8192, {32, 8, 8}, 256, 8},  {16, 8192, {32, 4, 16}, 64, 8},  {1, 4096, {32, 8, 8}, 128, 8}};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    hr_decode d = call_of(calls[i].heads, calls[i].dim, calls[i].dim);
    d.batch = calls[i].batch, d.kv_len = calls[i].kv_len;
    d.cache_format = HR_KV_FP8;
    assert_int_equal(hr_decode_split_choose(&d, &gpus[2]).warps, calls[i].warps);
    d.cache_format = HR_KV_UNQUANTIZED;
    assert_true(hr_decode_split_choose(&d, &gpus[2]).warps <= 8);
  }
}

/* On an H200. Clusters of 8 do not fit 16 groups: 14 of them run at a time. With 8 groups of long sequences they would
 * leave half of the multiprocessors idle. */
static void splits_of_few_short_groups_are_clusters(void **state)
{
  (void)state;
  static const struct {
    int64_t batch, kv_len, heads[3], dim;
    int splits, cluster;
  } calls[] = {
      {1, 2048, {32, 16, 16}, 128, 4, 4}, {1, 2048, {32, 4, 4}, 128, 16, 16}, {8, 4096, {32, 8, 8}, 128, 2, 2},
      {16, 8192, {32, 8, 8}, 128, 1, 1},  {64, 4096, {64, 8, 8}, 128, 1, 1},  {1, 65536, {32, 8, 8}, 128, 16, 1},
      {16, 32768, {32, 4, 16}, 64, 2, 2}, {1, 128, {32, 8, 8}, 128, 1, 1},    {1, 0, {32, 8, 8}, 128, 1, 1}};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    hr_decode d = call_of(calls[i].heads, calls[i].dim, calls[i].dim);
    d.batch = calls[i].batch, d.kv_len = calls[i].kv_len;
    hr_decode_split t = hr_decode_split_choose(&d, &gpus[2]);
    assert_int_equal(t.splits, calls[i].splits);
    assert_int_equal(t.cluster, calls[i].cluster);
    hr_decode_gpu without = gpus[2];
    without.cluster_max = 1;
    assert_int_equal(hr_decode_split_choose(&d, &without).cluster, 1);
  }
}

/* On an H200: two K heads of 64 in 16 bits are 256 bytes of a token, of 128 elements of one byte, too. SIGMA's four V
 * heads are 512 bytes. 2048 tokens of 16 heads are 248 keys of a multiprocessor, 16384 are 1986. 64 groups are clusters
 * of 2, 32 would be none of 4. */
static void long_calls_read_pieces_of_two_heads_where_one_is_short(void **state)
{
  (void)state;
  static const struct {
    int64_t batch, kv_len, heads[3], dim;
    hr_kv_format format;
    int group, k_heads;
  } calls[] = {{16, 2048, {32, 16, 16}, 64, HR_KV_UNQUANTIZED, 4, 2},
               {1, 16384, {32, 16, 16}, 64, HR_KV_UNQUANTIZED, 4, 2},
               {1, 2048, {32, 16, 16}, 64, HR_KV_UNQUANTIZED, 2, 1},
               {16, 8192, {32, 8, 8}, 64, HR_KV_UNQUANTIZED, 8, 2},
               {16, 8192, {32, 8, 8}, 128, HR_KV_UNQUANTIZED, 4, 1},
               {16, 8192, {32, 8, 8}, 128, HR_KV_FP8, 8, 2},
               {16, 8192, {32, 32, 32}, 128, HR_KV_UNQUANTIZED, 2, 2},
               {16, 32768, {32, 4, 16}, 64, HR_KV_UNQUANTIZED, 8, 1},
               {16, 8192, {32, 1, 1}, 128, HR_KV_UNQUANTIZED, 16, 1},
               {16, 8192, {33, 3, 3}, 64, HR_KV_UNQUANTIZED, 11, 1},
               {8, 4096, {32, 8, 8}, 128, HR_KV_FP8, 4, 1}};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    hr_decode d = call_of(calls[i].heads, calls[i].dim, calls[i].dim);
    d.batch = calls[i].batch, d.kv_len = calls[i].kv_len;
    d.cache_format = calls[i].format;
    hr_decode_split t = hr_decode_split_choose(&d, &gpus[2]);
    assert_int_equal(t.heads, calls[i].group);
    assert_int_equal(t.k_heads, calls[i].k_heads);
  }
}

/* On an H200. Blocks of 8 warps and three stages of 16 keys of 256 bytes of K and of V have 192 KiB of shared memory
 * of 228, so that one fits; with 128 bytes they have 96. The former may start early, the latter if there are few. */
static void the_next_call_starts_early_where_its_blocks_spread(void **state)
{
  (void)state;
  static const struct {
    int64_t batch, kv_len, heads[3], dim;
    bool lets_next;
  } calls[] = {{1, 2048, {32, 16, 16}, 128, true},
               {16, 8192, {32, 8, 8}, 128, true},
               {1, 2048, {32, 16, 16}, 64, true},
               {8, 1024, {32, 8, 8}, 64, false}};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    hr_decode d = call_of(calls[i].heads, calls[i].dim, calls[i].dim);
    d.batch = calls[i].batch, d.kv_len = calls[i].kv_len;
    assert_int_equal(hr_decode_split_choose(&d, &gpus[2]).lets_next, calls[i].lets_next);
    assert_false(hr_decode_split_choose(&d, &gpus[0]).early || hr_decode_split_choose(&d, &gpus[0]).lets_next);
  }
}

/* fp8 needs instructions of compute capability 8.9, the second architecture. */
static void set_cache_format(hr_decode *d, size_t architecture, size_t number)
{
  d->cache_format = (hr_kv_format)((number + architecture) % HR_KV_READABLE_COUNT);
  d->cache_scales = (hr_kv_scales)(number % HR_KV_SCALES_COUNT);
  if (d->cache_format == HR_KV_FP8 && architecture == 0)
    d->cache_format = HR_KV_INT8;
}

static void the_program_compiles_for_every_architecture(void **state)
{
  (void)state;
  static const int64_t sizes[][2] = {{128, 128}, {64, 64}, {256, 256}, {7, 19}, {64, 64}, {128, 128}};
  static const int64_t batches[] = {1, 1, 1, 1, 64, 17}; /* the last are tiles and equal shares */
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  for (size_t i = 0; i < 6; i++)
    for (size_t a = 0; a < count_architectures(&nvrtc); a++) {
      hr_decode d = call_of(heads[i < 4 ? 1 + (i + a) % 4 : i == 4 ? 8 : 2], sizes[i][0], sizes[i][1]);
      d.batch = batches[i];
      d.softcap = i % 2 ? 1.0f : 0.0f;
      d.page_size = a == 0 ? 5 : 16;
      d.kv_len = i % 2 ? 4096 : 2048;
      set_cache_format(&d, a, i);
      hr_decode_gpu gpu = gpus[a];
      gpu.wgmma = false;
      hr_decode_split t = hr_decode_split_choose(&d, &gpu);
      hr_decode_split_defines(&t, &d, (const int[]){16, 4, 16, 0, 16, 16}[i], defines);
      build(&nvrtc, "decode_split", architectures[a], i % 2 ? HR_FP16 : HR_BF16, defines);
    }
  hr_nvrtc_close(&nvrtc);
}

static void the_program_compiles_with_wgmma(void **state)
{
  (void)state;
  static const struct {
    int64_t batch, q_heads, qk_dim, v_dim, page_size;
    int copy_bytes;
    float softcap;
  } calls[] = {{64, 64, 64, 64, 16, 16, 0},
               {32, 128, 128, 128, 16, 16, 1},
               {20, 71, 40, 24, 5, 0, 0},
               {68, 48, 256, 192, 64, 4, 0}};
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    hr_decode d = call_of((const int64_t[]){calls[i].q_heads, 1, 1}, calls[i].qk_dim, calls[i].v_dim);
    d.batch = calls[i].batch, d.page_size = calls[i].page_size, d.softcap = calls[i].softcap;
    hr_decode_split t = hr_decode_split_choose(&d, &gpus[2]);
    assert_true(t.wgmma);
    hr_decode_split_defines(&t, &d, calls[i].copy_bytes, defines);
    build(&nvrtc, "decode_split", "sm_90a", i % 2 ? HR_FP16 : HR_BF16, defines);
  }
  hr_nvrtc_close(&nvrtc);
}

/* ---- latent attention ---- */

static hr_decode latent_call(int64_t batch, int64_t q_heads, int64_t q_len)
{
  hr_decode d = call_of((const int64_t[]){q_heads, 1, 1}, 576, 512);
  hr_error error;
  d.latent = true;
  d.batch = batch;
  d.q_len = q_len;
  assert_ok(hr_decode_set_pages(&d, 64, &error), error);
  return d;
}

static void row_blocks_hold_all_heads_and_queries(void **state)
{
  (void)state;
  for (int64_t heads_count = 1; heads_count <= 200; heads_count += 3)
    for (int64_t q_len = 1; q_len <= HR_DECODE_Q_LEN_MAX; q_len++) {
      hr_decode d = latent_call(7, heads_count, q_len);
      hr_decode_latent t = hr_decode_latent_choose(&d, 132);
      assert_true(t.heads * t.queries <= HR_LATENT_ROWS && t.head_blocks * t.heads >= heads_count);
      assert_true(t.row_blocks % t.head_blocks == 0 && t.row_blocks / t.head_blocks * t.queries >= q_len);
      assert_true(t.teams >= 1 && (t.teams == 1 || t.teams * t.row_blocks <= 132));
      assert_true(t.shared_bytes <= (size_t)227 << 10);
    }
}

/* 4096 keys are 32 pairs of tiles. With 128 heads 66 teams have two blocks each; 128 sequences: 64 teams have two whole
 * sequences each, where 66 would share them and have 63 pairs instead of 64. 32 sequences: 64 teams have half a one. */
static void teams_have_equal_shares_of_whole_sequences_if_that_costs_little(void **state)
{
  (void)state;
  hr_decode d = latent_call(128, 128, 1);
  assert_int_equal(hr_decode_latent_choose(&d, 132).teams, 64);
  d.batch = 32;
  assert_int_equal(hr_decode_latent_choose(&d, 132).teams, 64);
  d.batch = 1;
  assert_int_equal(hr_decode_latent_choose(&d, 132).teams, 32);
}

static void the_latent_program_compiles(void **state)
{
  (void)state;
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  hr_decode d = latent_call(128, 128, 1);
  hr_decode_latent t = hr_decode_latent_choose(&d, 132);
  hr_decode_latent_defines(&t, &d, defines);
  build(&nvrtc, "decode_latent_sm90", "sm_90a", HR_BF16, defines);
  if (test_asks_for("thorough")) {
    d.page_size = 16, d.softcap = 1, d.qk_dim = 192, d.v_dim = 128, d.q_len = 3;
    t = hr_decode_latent_choose(&d, 132);
    hr_decode_latent_defines(&t, &d, defines);
    build(&nvrtc, "decode_latent_sm90", "sm_90a", HR_FP16, defines);
  }
  hr_nvrtc_close(&nvrtc);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tiles_fit_every_gpu_and_hold_whole_heads),
      cmocka_unit_test(query_heads_of_a_k_head_are_padded_to_tiles),
      cmocka_unit_test(many_query_heads_of_a_k_head_are_multiplied_at_once),
      cmocka_unit_test(no_number_of_query_heads_reads_its_k_head_once_for_each),
      cmocka_unit_test(sequences_of_incomplete_waves_are_read_in_equal_shares),
      cmocka_unit_test(k_and_v_heads_are_read_once),
      cmocka_unit_test(batch_invariant_work_is_divided_as_for_one_sequence),
      cmocka_unit_test(small_stages_of_long_contexts_have_more_warps),
      cmocka_unit_test(splits_of_few_short_groups_are_clusters),
      cmocka_unit_test(long_calls_read_pieces_of_two_heads_where_one_is_short),
      cmocka_unit_test(the_next_call_starts_early_where_its_blocks_spread),
      cmocka_unit_test(the_program_compiles_for_every_architecture),
      cmocka_unit_test(the_program_compiles_with_wgmma),
      cmocka_unit_test(row_blocks_hold_all_heads_and_queries),
      cmocka_unit_test(teams_have_equal_shares_of_whole_sequences_if_that_costs_little),
      cmocka_unit_test(the_latent_program_compiles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
