/* SPDX-License-Identifier: Apache-2.0 */
/* Decode kernels: heads and head sizes, lengths around pages and splits, layouts of caches, masks,
 * and random combinations. */
#include "decode_call.h"

#define MULTIPLY_ADDS ((int64_t)150000) /* of the reference for one call */

static const int64_t heads[][3] = {{1, 1, 1},   {8, 8, 8},   {8, 1, 1},  {32, 8, 8}, {16, 2, 8},
                                   {32, 4, 16}, {32, 16, 4}, {12, 3, 6}, {12, 4, 6}, {71, 1, 1}};
static const int64_t dims[][2] = {{64, 64},   {128, 128}, {32, 64},   {128, 64}, {80, 80}, {96, 96},
                                  {100, 100}, {192, 128}, {256, 256}, {64, 128}, {8, 24}};

/* Unquantized in two of six cases. */
static void set_format(decode_setup *setup, int64_t number)
{
  setup->d.cache_format = (hr_kv_format)(number % HR_KV_READABLE_COUNT);
  setup->d.cache_scales = (hr_kv_scales)(number / HR_KV_READABLE_COUNT % HR_KV_SCALES_COUNT);
}

/* ---- shapes ---- */

static void check_heads_and_dims(hr_device *device, const char *kernel, hr_dtype dtype)
{
  int64_t ran = 0;
  for (int64_t h = 0; h < LENGTH(heads); h++)
    for (int64_t i = 0; i < LENGTH(dims); i++) {
      if (!decode_has_a_turn(h * 3 + i, dtype) || !test_takes(h * LENGTH(dims) + i))
        continue;
      decode_setup setup = decode_call_of(heads[h], dims[i], 37 + 11 * i, dtype);
      setup.d.batch = 1 + h % 2;
      setup.d.q_len = i % 3 == 2 ? 3 : 1;
      setup.seed = (uint64_t)(h * 100 + i + 1);
      decode_set_pages(&setup, h % 2 ? 16 : 0);
      ran += decode_try(device, kernel, &setup, MULTIPLY_ADDS / 4);
    }
  /* decode_topk.c and decode_latent.c run the others */
  assert_true(ran > 0 || !test_takes(1) || strstr(kernel, "_topk_") || strstr(kernel, "_latent_"));
}

/* Groups of which Q tiles are not full, units of several groups, of which the last is smaller, and groups of several K
 * or V heads. */
static void check_groups(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int64_t groups[][4] = {{5, 1, 1, 1},  {71, 1, 1, 1}, {14, 2, 2, 16}, {127, 1, 1, 1},
                                      {18, 1, 3, 1}, {48, 1, 3, 1}, {36, 2, 6, 1},  {71, 1, 71, 1},
                                      {71, 1, 1, 3}, {33, 1, 1, 1}, {24, 6, 4, 5},  {42, 6, 1, 1}};
  for (int64_t i = 0; i < LENGTH(groups); i++) {
    if (!decode_has_a_turn(i, dtype) || !test_takes(i))
      continue;
    decode_setup setup = decode_call_of(groups[i], dims[i % 4], 300 + 7 * i, dtype);
    setup.d.batch = 1 + i % 2;
    setup.d.q_len = groups[i][3];
    setup.d.window = i % 5 == 4 ? 40 : 0;
    setup.d.sinks = i % 3 == 1;
    setup.seed = (uint64_t)i + 1;
    set_format(&setup, i % 4 == 3 ? i : 0);
    decode_set_pages(&setup, i % 2 ? 16 : 0);
    decode_try(device, kernel, &setup, MULTIPLY_ADDS);
  }
}

/* More rows than a tile, of enough sequences that a kernel multiplies 64 or 128 at once: half and whole blocks, with
 * everything that masks keys. None is left out, as they have a program of their own. */
static void check_many_rows(hr_device *device, const char *kernel, hr_dtype dtype)
{
  int32_t lengths[40];
  for (int64_t i = 0; i < LENGTH(lengths); i++)
    lengths[i] = (int32_t)(150 - i * 37 % 151);
  static const int64_t q_heads[] = {64, 128, 40, 22, 96};
  for (int64_t i = 0; i < LENGTH(q_heads); i++) {
    if (!decode_has_a_turn(i, dtype))
      continue;
    decode_setup setup = decode_call_of((const int64_t[]){q_heads[i], 1 + i / 3, 1 + i / 3}, dims[i], 150, dtype);
    setup.d.batch = q_heads[i] == 128 ? LENGTH(lengths) : 12;
    setup.d.q_len = 1 + i % 3 % 2;
    setup.d.window = i == 2 ? 70 : 0;
    setup.d.softcap = i == 4 ? 2 : 0;
    setup.d.sinks = i % 2;
    setup.lengths = i > 0 ? lengths : NULL;
    setup.unaligned = i == 3;
    setup.seed = (uint64_t)i + 1;
    decode_set_pages(&setup, (const int64_t[]){0, 16, 5, 64, 0}[i]);
    decode_try(device, kernel, &setup, MULTIPLY_ADDS);
  }
}

/* ---- lengths ---- */

static void check_lengths(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int32_t lengths[] = {0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 300, 511, 513};
  static const int64_t page_sizes[] = {0, 16, 32, 64, 256, 5};
  for (int64_t p = 0; p < LENGTH(page_sizes); p++)
    for (int64_t q_len = 1; q_len <= HR_DECODE_Q_LEN_MAX; q_len += 5) {
      if (!decode_has_a_turn(p + q_len / 5, dtype) || !test_takes(p * 4 + q_len / 5))
        continue;
      decode_setup setup = decode_call_of(heads[5], (const int64_t[]){64, 64}, 513, dtype);
      setup.d.q_heads = 8, setup.d.k_heads = 1 + p % 2, setup.d.v_heads = 4;
      setup.d.batch = LENGTH(lengths);
      setup.d.q_len = q_len;
      setup.lengths = lengths;
      setup.seed = (uint64_t)(p * 10 + q_len);
      decode_set_pages(&setup, page_sizes[p]);
      decode_try(device, kernel, &setup, 4 * MULTIPLY_ADDS);
    }
}

/* A single sequence that a kernel splits, and a length next to every multiple of a tile. */
static void check_splits(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int64_t lengths[] = {1000, 2047, 2048, 2049, 4099, 8191};
  for (int64_t i = 0; i < LENGTH(lengths); i++) {
    if (!test_takes(i))
      continue;
    decode_setup setup = decode_call_of(heads[i % 3 + 2], dims[i % 2], lengths[i], dtype);
    setup.seed = (uint64_t)i + 1;
    decode_set_pages(&setup, i % 2 ? 16 : 0);
    decode_try(device, kernel, &setup, MULTIPLY_ADDS);
  }
}

/* One head of one sequence, so that the number of splits grows with the length: 1 to 133 units of work. */
static void check_split_counts(hr_device *device, const char *kernel, hr_dtype dtype)
{
  bool all = test_asks_for("thorough");
  int64_t unit = device->backend->own_memory ? 128 : 1024, ran = 0;
  for (int64_t n = 1; n <= 133; n += all ? 1 : 44) {
    if (!decode_has_a_turn(n / 44, dtype) || !test_takes(n / 44))
      continue;
    decode_setup setup = decode_call_of(heads[0], dims[0], n * unit - n % 5, dtype);
    setup.seed = (uint64_t)n;
    decode_set_pages(&setup, n % 2 ? 16 : 0);
    ran += decode_try(device, kernel, &setup, 1);
  }
  assert_true(ran > 0 || !all || strstr(kernel, "_topk_") || strstr(kernel, "_latent_"));
}

/* ---- what other caches look like ---- */

static void check_layouts(hr_device *device, const char *kernel, hr_dtype dtype)
{
  enum { HND, K_BESIDE_V, GAPS, LAYOUTS };
  for (int layout = 0; layout < LAYOUTS; layout++) {
    if (!test_takes(layout))
      continue;
    decode_setup setup = decode_call_of(heads[3], dims[0], 100, dtype);
    hr_decode *d = &setup.d;
    d->batch = 3, d->q_len = 2;
    decode_set_pages(&setup, 16);
    int64_t k = d->qk_dim, token = d->k_heads * k, page = d->page_size * token;
    switch (layout) {
    case HND: d->k_strides = d->v_strides = (hr_kv_strides){.page = page, .token = k, .head = d->page_size * k}; break;
    case K_BESIDE_V: d->k_strides = d->v_strides = (hr_kv_strides){.page = 2 * page, .token = token, .head = k}; break;
    default:
      d->k_strides = (hr_kv_strides){.page = page * 2 + 24, .token = token + 8, .head = k};
      d->v_strides = (hr_kv_strides){.page = page * 2 + 9, .token = token + 3, .head = k}; /* no alignment */
      d->q_strides = (hr_strides){.batch = 3 * d->q_heads * (k + 1), .row = d->q_heads * (k + 1), .head = k + 1};
      d->o_strides = (hr_strides){.batch = 3 * d->q_heads * (k + 5), .row = d->q_heads * (k + 5), .head = k + 5};
    }
    d->page_count += 3;
    decode_try(device, kernel, &setup, MULTIPLY_ADDS);
  }
}

/* ---- quantized caches ---- */

/* Scales in their own memory: packed, with gaps; behind the elements of each head as vLLM has them. */
static void check_scales(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for (int64_t i = 0; i < 12; i++) {
    if (!decode_has_a_turn(i, dtype) || !test_takes(i))
      continue;
    decode_setup setup = decode_call_of(heads[i % 2 ? 5 : 3], dims[i % 4], 200 + i, dtype);
    hr_decode *d = &setup.d;
    d->batch = 2, d->q_len = 1 + i % 3;
    setup.seed = (uint64_t)i + 1;
    set_format(&setup, 1 + i % 2 + (i < 4 ? 0 : 3));
    decode_set_pages(&setup, i % 4 == 3 ? 0 : 16);
    int64_t token = d->v_heads + 1, k_head = d->qk_dim + 4, v_head = d->v_dim + 4;
    if (i >= 8) { /* dims[i % 4] are multiples of 4 */
      setup.inline_scales = true;
      d->k_strides = (hr_kv_strides){d->page_size * d->k_heads * k_head, d->k_heads * k_head, k_head};
      d->v_strides = (hr_kv_strides){d->page_size * d->v_heads * v_head, d->v_heads * v_head, v_head};
      d->k_scale_strides = (hr_kv_strides){d->k_strides.page / 4, d->k_strides.token / 4, d->k_strides.head / 4};
      d->v_scale_strides = (hr_kv_strides){d->v_strides.page / 4, d->v_strides.token / 4, d->v_strides.head / 4};
    } else if (i >= 6) {
      d->k_scale_strides = (hr_kv_strides){.page = 1, .token = d->page_count, .head = d->page_count * d->page_size};
      d->v_scale_strides = (hr_kv_strides){.page = d->page_size * token + 3, .token = token, .head = 1};
    }
    decode_try(device, kernel, &setup, MULTIPLY_ADDS);
  }
}

/* ---- latent attention ---- */

static void check_latent(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int64_t sizes[][3] = {{5, 40, 24}, {16, 576, 512}, {128, 576, 512}};
  for (int64_t i = 0; i < LENGTH(sizes); i++) {
    if (!test_takes(i))
      continue;
    decode_setup setup =
        decode_call_of((const int64_t[]){sizes[i][0], 1, 1}, (const int64_t[]){sizes[i][1], sizes[i][2]}, 150, dtype);
    setup.d.latent = true;
    setup.d.batch = 2;
    setup.d.q_len = i == 2 ? 1 : 2;
    set_format(&setup, i == 0 ? 1 + (int64_t)dtype : 0);
    decode_set_pages(&setup, i == 0 ? 0 : 64);
    decode_try(device, kernel, &setup, MULTIPLY_ADDS);
  }
}

/* ---- the range of a format ---- */

/* Scores of ±10^5 to ±10^20, which are finite: so are O and the log-sum-exp. */
static void check_large_scores(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const float scales[] = {1e5f, -1e9f, 3e12f, -1e20f};
  for (int64_t i = 0; i < LENGTH(scales); i++) {
    decode_setup setup = decode_call_of(heads[3], dims[0], i % 2 ? 1 : 300, dtype);
    setup.d.scale = scales[i];
    setup.seed = (uint64_t)i + 1;
    decode_set_pages(&setup, 0);
    decode_try(device, kernel, &setup, MULTIPLY_ADDS);
  }
}

/* ---- combinations ---- */

static void check_combination(hr_device *device, const char *kernel, hr_dtype dtype, uint64_t seed)
{
  uint64_t r = seed * 0x9E3779B97F4A7C15u;
  int32_t lengths[DECODE_BATCH_MAX];
  const int64_t *h = heads[decode_drawn(&r, 0, LENGTH(heads) - 1)], *dim = dims[decode_drawn(&r, 0, LENGTH(dims) - 1)];
  decode_setup setup = decode_call_of(h, dim, decode_drawn(&r, 1, decode_drawn(&r, 0, 3) ? 300 : 3000), dtype);
  setup.d.batch = decode_drawn(&r, 1, DECODE_BATCH_MAX);
  setup.d.q_len = decode_drawn(&r, 0, 1) ? 1 : decode_drawn(&r, 1, HR_DECODE_Q_LEN_MAX);
  set_format(&setup, decode_drawn(&r, 0, 1) ? 0 : decode_drawn(&r, 0, 5));
  setup.seed = seed;
  decode_draw_scores(&setup, &r);
  decode_draw_sequences(&setup, &r, lengths);
  decode_try(device, kernel, &setup, MULTIPLY_ADDS / 2);
}

static void check_combinations(hr_device *device, const char *kernel, hr_dtype dtype)
{
  decode_each_sample(device, kernel, dtype, 16, check_combination);
}

static const fact facts[] = {
    FACT(every_kernel_agrees_with_attention_for_all_heads_and_dims, check_heads_and_dims),
    FACT(every_kernel_agrees_with_attention_for_all_groups, check_groups),
    FACT(every_kernel_agrees_with_attention_for_many_rows, check_many_rows),
    FACT(every_kernel_agrees_with_attention_in_ragged_batches, check_lengths),
    FACT(every_kernel_agrees_with_attention_over_long_contexts, check_splits),
    FACT(every_kernel_agrees_with_attention_for_all_numbers_of_splits, check_split_counts),
    FACT(every_kernel_agrees_with_attention_in_all_layouts, check_layouts),
    FACT(every_kernel_that_takes_scales_agrees_with_attention, check_scales),
    FACT(every_kernel_that_takes_latent_attention_agrees_with_it, check_latent),
    FACT(scores_of_any_size_give_finite_results, check_large_scores),
    FACT(every_kernel_agrees_with_attention_for_combinations, check_combinations),
};
const fact_group decode_facts = {
    .name = "decode", .operation = "decode", .facts = facts, .count = LENGTH(facts), .shares = EVERY_NTH};
