/* SPDX-License-Identifier: Apache-2.0 */
/* The decode programs compile for head sizes, groups and layouts of problems, and their tiles fit the shared memory of
 * the GPUs that they are for. Needs NVRTC for the former, but no GPU. */
#include "programs.h"

#include "runtime/cuda/decode/decode.h"
#include "runtime/cuda/kernels/decode_latent_layout.h"

static const hr_decode_gpu gpus[] = {
    {108, 163 << 10, 164 << 10, 1, false}, {142, 99 << 10, 100 << 10, 1, false}, {132, 227 << 10, 228 << 10, 16, true}};

/* q_heads, k_heads, v_heads */
static const int64_t heads[][3] = {{1, 1, 1},   {32, 32, 32}, {32, 8, 8}, {32, 4, 16}, {32, 16, 4},
                                   {32, 1, 32}, {32, 32, 1},  {12, 4, 6}, {71, 1, 1},  {128, 8, 16}};

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
  assert_int_equal(t.shared_bytes, hr_decode_layout_of(t.qk, t.v, t.rows, t.k_heads, t.v_heads, t.warps, t.stages,
                                                       t.cluster, t.element_bytes, t.token_scales)
                                       .bytes);
  assert_true(t.shared_bytes <= gpu->shared_max &&
              (size_t)t.min_blocks * (t.shared_bytes + 1024) <= gpu->shared_of_multiprocessor);
  assert_true(t.cluster == 1 || (t.cluster == t.splits && t.cluster <= gpu->cluster_max));
  assert_true(t.stages >= 2 && t.warps >= 1 && t.splits >= 1 && t.splits <= HR_DECODE_SPLITS_MAX);
  assert_true(t.heads * d->q_len <= HR_DECODE_ROWS && d->q_heads % t.heads == 0);
  int64_t k_group = d->q_heads / d->k_heads, v_group = d->q_heads / d->v_heads;
  for (int64_t first = 0; first < d->q_heads; first += t.heads) { /* a group's heads are those that the program reads */
    int64_t last = first + t.heads - 1;
    assert_int_equal(last / k_group - first / k_group + 1, t.k_heads);
    assert_int_equal(last / v_group - first / v_group + 1, t.v_heads);
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
            d.cache_format = (hr_kv_format)((qk + v) % HR_KV_FORMAT_COUNT);
            d.cache_scales = (hr_kv_scales)(qk % HR_KV_SCALES_COUNT);
            check_tiles(&d, &gpus[i]);
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
               {16, 8192, {32, 1, 1}, 64, HR_KV_UNQUANTIZED, 16, 1},
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
  d->cache_format = (hr_kv_format)((number + architecture) % HR_KV_FORMAT_COUNT);
  d->cache_scales = (hr_kv_scales)(number % HR_KV_SCALES_COUNT);
  if (d->cache_format == HR_KV_FP8 && architecture == 0)
    d->cache_format = HR_KV_INT8;
}

static void the_program_compiles_for_every_architecture(void **state)
{
  (void)state;
  static const int64_t sizes[][2] = {{128, 128}, {64, 64}, {256, 256}, {7, 19}};
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  for (size_t i = 0; i < 4; i++)
    for (size_t a = 0; a < count_architectures(&nvrtc); a++) {
      hr_decode d = call_of(heads[1 + (i + a) % 4], sizes[i][0], sizes[i][1]);
      d.softcap = i % 2 ? 1.0f : 0.0f;
      d.page_size = a == 0 ? 5 : 16;
      d.kv_len = i % 2 ? 4096 : 2048;
      set_cache_format(&d, a, i);
      hr_decode_split t = hr_decode_split_choose(&d, &gpus[a]);
      hr_decode_split_defines(&t, &d, (const int[]){16, 4, 16, 0}[i], defines);
      build(&nvrtc, "decode_split", architectures[a], i % 2 ? HR_FP16 : HR_BF16, defines);
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
      cmocka_unit_test(k_and_v_heads_are_read_once),
      cmocka_unit_test(batch_invariant_work_is_divided_as_for_one_sequence),
      cmocka_unit_test(small_stages_of_long_contexts_have_more_warps),
      cmocka_unit_test(splits_of_few_short_groups_are_clusters),
      cmocka_unit_test(long_calls_read_pieces_of_two_heads_where_one_is_short),
      cmocka_unit_test(the_next_call_starts_early_where_its_blocks_spread),
      cmocka_unit_test(the_program_compiles_for_every_architecture),
      cmocka_unit_test(row_blocks_hold_all_heads_and_queries),
      cmocka_unit_test(teams_have_equal_shares_of_whole_sequences_if_that_costs_little),
      cmocka_unit_test(the_latent_program_compiles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
