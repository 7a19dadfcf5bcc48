/* SPDX-License-Identifier: Apache-2.0 */
/* Selective V: every decode kernel that selects, against the float64 reference. */
#include "decode_call.h"

#define MULTIPLY_ADDS ((int64_t)150000) /* of the reference for one call */

static const int64_t heads[][3] = {{1, 1, 1}, {8, 8, 8}, {8, 1, 1}, {16, 2, 8}, {8, 4, 2}, {12, 4, 6}, {37, 1, 1}};
static const int64_t dims[][2] = {{64, 64}, {128, 128}, {32, 64}, {100, 100}, {256, 192}, {8, 24}};

static decode_setup call_of(const int64_t h[3], const int64_t dim[2], int64_t kv_len, int64_t top_k, hr_dtype dtype)
{
  decode_setup setup = decode_call_of(h, dim, kv_len, dtype);
  setup.d.top_k = top_k;
  return setup;
}

/* ---- shapes ---- */

static void check_heads_and_dims(hr_device *device, const char *kernel, hr_dtype dtype)
{
  int64_t ran = 0;
  for (int64_t h = 0; h < LENGTH(heads); h++)
    for (int64_t i = 0; i < LENGTH(dims); i++) {
      if (!decode_has_a_turn(h * 2 + i, dtype) || !test_takes(h * LENGTH(dims) + i))
        continue;
      decode_setup setup = call_of(heads[h], dims[i], 37 + 11 * i, 1 + 5 * h, dtype);
      setup.d.batch = 1 + h % 2;
      setup.d.q_len = i % 3 == 2 ? 3 : 1;
      setup.seed = (uint64_t)(h * 100 + i + 1);
      decode_set_pages(&setup, h % 2 ? 16 : 0);
      ran += decode_try(device, kernel, &setup, MULTIPLY_ADDS / 4);
    }
  assert_true(ran > 0 || !test_takes(1) || !strstr(kernel, "_topk_"));
}

/* ---- lengths and k ---- */

static void check_lengths(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int32_t lengths[] = {513, 0, 64, 1, 17, 300, 2, 3, 15, 16, 31, 33, 63, 65, 129};
  static const int64_t ks[] = {1, 2, 16, 31, 64, 100, 512, 513, 600};
  for (int64_t i = 0; i < LENGTH(ks); i++) {
    if (!decode_has_a_turn(i, dtype) || !test_takes(i))
      continue;
    decode_setup setup = call_of(heads[4], dims[0], 513, ks[i], dtype);
    setup.d.batch = test_takes(1) ? LENGTH(lengths) : LENGTH(lengths) / 2;
    setup.d.q_len = i % 2 ? 1 : 1 + 5 * (i % 4);
    setup.lengths = lengths;
    setup.seed = (uint64_t)i + 1;
    decode_set_pages(&setup, i % 3 == 0 ? 0 : i % 3 == 1 ? 16 : 5);
    decode_try(device, kernel, &setup, 2 * MULTIPLY_ADDS);
  }
}

static void check_long(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int64_t cases[][2] = {{2049, 1}, {4099, 100}, {8191, 3000}, {5000, 4999}};
  for (int64_t i = 0; i < LENGTH(cases); i++) {
    if (!decode_has_a_turn(i, dtype) || !test_takes(i))
      continue;
    decode_setup setup = call_of(heads[2 + i % 3], dims[i % 2], cases[i][0], cases[i][1], dtype);
    setup.seed = (uint64_t)i + 1;
    decode_set_pages(&setup, i % 2 ? 16 : 0);
    decode_try(device, kernel, &setup, 4 * MULTIPLY_ADDS);
  }
}

/* More keys than the shared memory of any GPU has room for. */
static void check_very_long(hr_device *device, const char *kernel, hr_dtype dtype)
{
  if (!decode_has_a_turn(0, dtype) || !test_takes(1))
    return;
  decode_setup setup = call_of(heads[0], dims[5], 60001, 700, dtype);
  setup.d.q_heads = 2;
  setup.whole_numbers = true;
  decode_set_pages(&setup, 16);
  decode_try(device, kernel, &setup, MULTIPLY_ADDS);
}

/* ---- ties ---- */

/* Most scores are equal to many others, so that positions decide. */
static void check_ties(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int64_t ks[] = {1, 7, 64, 150, 299, 2000};
  for (int64_t i = 0; i < LENGTH(ks); i++) {
    if (!decode_has_a_turn(i, dtype) || !test_takes(i))
      continue;
    decode_setup setup = call_of(heads[3], dims[i % 2 ? 5 : 0], ks[i] > 300 ? 3000 : 300, ks[i], dtype);
    setup.whole_numbers = true;
    setup.d.q_len = i % 3 == 0 ? 4 : 1;
    setup.d.scale = i % 2 ? -0.25f : 0;
    setup.seed = (uint64_t)i + 1;
    decode_set_pages(&setup, i % 2 ? 16 : 0);
    decode_try(device, kernel, &setup, 2 * MULTIPLY_ADDS);
  }
}

/* ---- quantized caches ---- */

static void check_quantized(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for (int64_t i = 0; i < 4; i++) {
    if (!decode_has_a_turn(i, dtype) || !test_takes(i))
      continue;
    decode_setup setup = call_of(heads[3], dims[i % 2], 700, 60, dtype);
    setup.d.cache_format = i % 2 ? HR_KV_INT8 : HR_KV_FP8;
    setup.d.cache_scales = i / 2 ? HR_KV_SCALE_TOKEN : HR_KV_SCALE_HEAD;
    setup.d.batch = 2;
    setup.seed = (uint64_t)i + 1;
    decode_set_pages(&setup, i == 3 ? 0 : 16);
    decode_try(device, kernel, &setup, MULTIPLY_ADDS);
  }
}

/* ---- combinations ---- */

static void check_combination(hr_device *device, const char *kernel, hr_dtype dtype, uint64_t seed)
{
  uint64_t r = seed * 0x9E3779B97F4A7C15u;
  int32_t lengths[DECODE_BATCH_MAX];
  int64_t kv_len = decode_drawn(&r, 2, decode_drawn(&r, 0, 3) ? 300 : 3000);
  const int64_t *h = heads[decode_drawn(&r, 0, LENGTH(heads) - 1)], *dim = dims[decode_drawn(&r, 0, LENGTH(dims) - 1)];
  int64_t top_k = decode_drawn(&r, 1, decode_drawn(&r, 0, 1) ? kv_len - 1 : 1 + kv_len / 16);
  decode_setup setup = call_of(h, dim, kv_len, top_k, dtype);
  setup.d.batch = decode_drawn(&r, 1, DECODE_BATCH_MAX);
  setup.d.q_len = decode_drawn(&r, 0, 1) ? 1 : decode_drawn(&r, 1, HR_DECODE_Q_LEN_MAX);
  setup.seed = seed;
  decode_draw_scores(&setup, &r);
  setup.whole_numbers = decode_drawn(&r, 0, 3) == 0;
  decode_draw_sequences(&setup, &r, lengths);
  decode_try(device, kernel, &setup, MULTIPLY_ADDS / 2);
}

static void check_combinations(hr_device *device, const char *kernel, hr_dtype dtype)
{
  decode_each_sample(device, kernel, dtype, 12, check_combination);
}

static const fact facts[] = {
    FACT(every_kernel_selects_for_all_heads_and_dims, check_heads_and_dims),
    FACT(every_kernel_selects_in_ragged_batches, check_lengths),
    FACT(every_kernel_selects_from_long_contexts, check_long),
    FACT(every_kernel_selects_from_very_long_contexts, check_very_long),
    FACT(of_equal_scores_every_kernel_chooses_the_earlier, check_ties),
    FACT(every_kernel_that_takes_quantized_caches_selects_from_them, check_quantized),
    FACT(every_kernel_selects_in_combinations, check_combinations),
};
const fact_group decode_topk_facts = {
    .name = "decode_topk", .operation = "decode", .facts = facts, .count = LENGTH(facts), .shares = EVERY_NTH};
