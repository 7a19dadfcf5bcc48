/* SPDX-License-Identifier: Apache-2.0 */
/* Selective V: every decode kernel of the table that selects, against the float64 reference. */
#include "decode_call.h"

#include <stdlib.h>
#include <string.h>

#define MULTIPLY_ADDS ((int64_t)150000) /* of the reference for one call */
#define LENGTH(array) (int64_t)(sizeof(array) / sizeof *(array))

static const int64_t heads[][3] = {{1, 1, 1}, {8, 8, 8}, {8, 1, 1}, {16, 2, 8}, {8, 4, 2}, {12, 4, 6}, {37, 1, 1}};
static const int64_t dims[][2] = {{64, 64}, {128, 128}, {32, 64}, {100, 100}, {256, 192}, {8, 24}};

static decode_setup call_of(const int64_t h[3], const int64_t dim[2], int64_t kv_len, int64_t top_k, hr_dtype dtype)
{
  decode_setup setup = {.d = hr_decode_default(), .seed = 1};
  hr_decode *d = &setup.d;
  d->dtype = dtype;
  d->kv_len = kv_len, d->top_k = top_k;
  d->q_heads = h[0], d->k_heads = h[1], d->v_heads = h[2];
  d->qk_dim = dim[0], d->v_dim = dim[1];
  return setup;
}

static void set_pages(decode_setup *setup, int64_t page_size)
{
  hr_error error;
  assert_ok(hr_decode_set_pages(&setup->d, page_size, &error), error);
  setup->shuffled = page_size > 0;
  setup->listed = setup->seed % 2 == 0;
}

/* The cases are distributed over the formats; with HEADROOM_TEST=thorough each format gets all. */
static bool has_a_turn(int64_t number, hr_dtype dtype)
{
  return (number + (int64_t)dtype) % 3 == 0 || test_asks_for("thorough");
}

/* ---- shapes ---- */

static void check_heads_and_dims(hr_device *device, const char *kernel, hr_dtype dtype)
{
  int64_t ran = 0;
  for (int64_t h = 0; h < LENGTH(heads); h++)
    for (int64_t i = 0; i < LENGTH(dims); i++) {
      if (!has_a_turn(h * 2 + i, dtype) || !test_takes(h * LENGTH(dims) + i))
        continue;
      decode_setup setup = call_of(heads[h], dims[i], 37 + 11 * i, 1 + 5 * h, dtype);
      setup.d.batch = 1 + h % 2;
      setup.d.q_len = i % 3 == 2 ? 3 : 1;
      setup.seed = (uint64_t)(h * 100 + i + 1);
      set_pages(&setup, h % 2 ? 16 : 0);
      ran += decode_try(device, kernel, &setup, MULTIPLY_ADDS / 4);
    }
  assert_true(ran > 0 || !test_takes(1) || !strstr(kernel, "_topk_"));
}

static void every_kernel_selects_for_all_heads_and_dims(void **state)
{
  (void)state;
  decode_each_kernel(check_heads_and_dims);
}

/* ---- lengths and k ---- */

static void check_lengths(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int32_t lengths[] = {513, 0, 64, 1, 17, 300, 2, 3, 15, 16, 31, 33, 63, 65, 129};
  static const int64_t ks[] = {1, 2, 16, 31, 64, 100, 512, 513, 600};
  for (int64_t i = 0; i < LENGTH(ks); i++) {
    if (!has_a_turn(i, dtype) || !test_takes(i))
      continue;
    decode_setup setup = call_of(heads[4], dims[0], 513, ks[i], dtype);
    setup.d.batch = test_takes(1) ? LENGTH(lengths) : LENGTH(lengths) / 2;
    setup.d.q_len = i % 2 ? 1 : 1 + 5 * (i % 4);
    setup.lengths = lengths;
    setup.seed = (uint64_t)i + 1;
    set_pages(&setup, i % 3 == 0 ? 0 : i % 3 == 1 ? 16 : 5);
    decode_try(device, kernel, &setup, 2 * MULTIPLY_ADDS);
  }
}

static void every_kernel_selects_in_ragged_batches(void **state)
{
  (void)state;
  decode_each_kernel(check_lengths);
}

static void check_long(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int64_t cases[][2] = {{2049, 1}, {4099, 100}, {8191, 3000}, {5000, 4999}};
  for (int64_t i = 0; i < LENGTH(cases); i++) {
    if (!has_a_turn(i, dtype) || !test_takes(i))
      continue;
    decode_setup setup = call_of(heads[2 + i % 3], dims[i % 2], cases[i][0], cases[i][1], dtype);
    setup.seed = (uint64_t)i + 1;
    set_pages(&setup, i % 2 ? 16 : 0);
    decode_try(device, kernel, &setup, 4 * MULTIPLY_ADDS);
  }
}

/* More keys than the shared memory of any GPU has room for. */
static void check_very_long(hr_device *device, const char *kernel, hr_dtype dtype)
{
  if (!has_a_turn(0, dtype) || !test_takes(1))
    return;
  decode_setup setup = call_of(heads[0], dims[5], 60001, 700, dtype);
  setup.d.q_heads = 2;
  setup.whole_numbers = true;
  set_pages(&setup, 16);
  decode_try(device, kernel, &setup, MULTIPLY_ADDS);
}

static void every_kernel_selects_from_very_long_contexts(void **state)
{
  (void)state;
  decode_each_kernel(check_very_long);
}

static void every_kernel_selects_from_long_contexts(void **state)
{
  (void)state;
  decode_each_kernel(check_long);
}

/* ---- ties ---- */

/* Most scores are equal to many others, so that positions decide. */
static void check_ties(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int64_t ks[] = {1, 7, 64, 150, 299, 2000};
  for (int64_t i = 0; i < LENGTH(ks); i++) {
    if (!has_a_turn(i, dtype) || !test_takes(i))
      continue;
    decode_setup setup = call_of(heads[3], dims[i % 2 ? 5 : 0], ks[i] > 300 ? 3000 : 300, ks[i], dtype);
    setup.whole_numbers = true;
    setup.d.q_len = i % 3 == 0 ? 4 : 1;
    setup.d.scale = i % 2 ? -0.25f : 0;
    setup.seed = (uint64_t)i + 1;
    set_pages(&setup, i % 2 ? 16 : 0);
    decode_try(device, kernel, &setup, 2 * MULTIPLY_ADDS);
  }
}

static void of_equal_scores_every_kernel_chooses_the_earlier(void **state)
{
  (void)state;
  decode_each_kernel(check_ties);
}

/* ---- quantized caches ---- */

static void check_quantized(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for (int64_t i = 0; i < 4; i++) {
    if (!has_a_turn(i, dtype) || !test_takes(i))
      continue;
    decode_setup setup = call_of(heads[3], dims[i % 2], 700, 60, dtype);
    setup.d.cache_format = i % 2 ? HR_KV_INT8 : HR_KV_FP8;
    setup.d.cache_scales = i / 2 ? HR_KV_SCALE_TOKEN : HR_KV_SCALE_HEAD;
    setup.d.batch = 2;
    setup.seed = (uint64_t)i + 1;
    set_pages(&setup, i == 3 ? 0 : 16);
    decode_try(device, kernel, &setup, MULTIPLY_ADDS);
  }
}

static void every_kernel_that_takes_quantized_caches_selects_from_them(void **state)
{
  (void)state;
  decode_each_kernel(check_quantized);
}

/* ---- combinations ---- */

static int64_t drawn(uint64_t *state, int64_t first, int64_t last)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return first + (int64_t)((*state >> 33) % (uint64_t)(last - first + 1));
}

#define BATCH_MAX 4

static decode_setup random_call(uint64_t seed, hr_dtype dtype, int32_t lengths[BATCH_MAX])
{
  static const int64_t page_sizes[] = {0, 16, 32, 256, 7};
  uint64_t r = seed * 0x9E3779B97F4A7C15u;
  int64_t kv_len = drawn(&r, 2, drawn(&r, 0, 3) ? 300 : 3000);
  decode_setup setup = call_of(heads[drawn(&r, 0, LENGTH(heads) - 1)], dims[drawn(&r, 0, LENGTH(dims) - 1)], kv_len,
                               drawn(&r, 1, drawn(&r, 0, 1) ? kv_len - 1 : 1 + kv_len / 16), dtype);
  hr_decode *d = &setup.d;
  d->batch = drawn(&r, 1, BATCH_MAX);
  d->q_len = drawn(&r, 0, 1) ? 1 : drawn(&r, 1, HR_DECODE_Q_LEN_MAX);
  d->window = drawn(&r, 0, 2) ? 0 : drawn(&r, 1, d->kv_len + 5);
  d->softcap = drawn(&r, 0, 2) ? 0 : 0.5f;
  d->scale = drawn(&r, 0, 2) ? 0 : drawn(&r, 0, 1) ? 0.7f : -0.1f;
  d->sinks = drawn(&r, 0, 2) == 0;
  setup.special = drawn(&r, 0, 3) ? DECODE_FINITE : (decode_special)drawn(&r, 0, DECODE_SPECIALS - 1);
  if (dtype == HR_FP8_E4M3)
    setup.special = DECODE_FINITE; /* which has no infinity */
  setup.whole_numbers = drawn(&r, 0, 3) == 0;
  for (int64_t b = 0; b < d->batch; b++)
    lengths[b] = (int32_t)drawn(&r, 0, d->kv_len);
  setup.lengths = drawn(&r, 0, 1) ? lengths : NULL;
  setup.seed = seed;
  set_pages(&setup, page_sizes[drawn(&r, 0, LENGTH(page_sizes) - 1)]);
  return setup;
}

static int64_t from_environment(const char *name, int64_t otherwise)
{
  const char *text = getenv(name);
  return text ? strtol(text, NULL, 10) : otherwise;
}

static void check_combinations(hr_device *device, const char *kernel, hr_dtype dtype)
{
  int32_t lengths[BATCH_MAX];
  int64_t seed = from_environment("HEADROOM_TEST_SEED", 1), samples = from_environment("HEADROOM_TEST_SAMPLES", 12);
  for (int64_t i = 0; i < samples; i++) {
    decode_setup setup = random_call((uint64_t)(seed * 100000 + i), dtype, lengths);
    decode_try(device, kernel, &setup, MULTIPLY_ADDS / 2);
  }
}

static void every_kernel_selects_in_combinations(void **state)
{
  (void)state;
  decode_each_kernel(check_combinations);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kernel_selects_for_all_heads_and_dims),
      cmocka_unit_test(every_kernel_selects_in_ragged_batches),
      cmocka_unit_test(every_kernel_selects_from_long_contexts),
      cmocka_unit_test(every_kernel_selects_from_very_long_contexts),
      cmocka_unit_test(of_equal_scores_every_kernel_chooses_the_earlier),
      cmocka_unit_test(every_kernel_that_takes_quantized_caches_selects_from_them),
      cmocka_unit_test(every_kernel_selects_in_combinations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
