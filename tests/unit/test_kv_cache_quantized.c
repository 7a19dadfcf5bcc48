/* SPDX-License-Identifier: Apache-2.0 */
/* Quantized KV caches on the devices of this machine, with HEADROOM_TEST=gpu on the GPU alone: appended tokens within
 * half a step of float64, scales, special numbers. */
#include "kv_model.h"

#include <headroom/experimental/decode.h>

static const float k_head_scales[] = {0.01f, 0.002f}, v_head_scales[] = {0.004f, 0.02f, 0.0005f}; /* some saturate */

/* Number 0 to 3: fp8 and int8, each with scales per head and per token. */
static kv_model quantized(int number, hr_dtype dtype, int64_t page_size)
{
  kv_model m = three_slots(dtype, page_size);
  m.o.cache_format = number % 2 ? HR_KV_INT8 : HR_KV_FP8;
  m.o.cache_scales = number / 2 ? HR_KV_SCALE_TOKEN : HR_KV_SCALE_HEAD;
  m.o.k_scales = k_head_scales, m.o.v_scales = v_head_scales;
  return m;
}

/* ---- append ---- */

/* Counts the rows of a head of K that are no longer all NaN bits. */
static int64_t count_written(const kv_model *m)
{
  int64_t slot = 0, written = 0;
  kv_image image = kv_read(m, 1, &slot);
  const unsigned char *byte = image.x.k;
  for (int64_t row = image.d.page_count * image.d.page_size * m->o.k_heads; row > 0; row--, byte += m->o.qk_dim) {
    int64_t at = 0;
    while (at < m->o.qk_dim && byte[at] == 0xFF)
      at++;
    written += at < m->o.qk_dim;
  }
  kv_image_free(&image);
  return written;
}

static void append_to_three_slots(hr_device *device, int number, hr_dtype dtype, int64_t page_size)
{
  static const int64_t tokens[][3] = {{1, 15, 0}, {1, 1, 1}, {0, 1, 16}, {33, 0, 239}, {0, 0, 0}};
  kv_model m = quantized(number, dtype, page_size);
  hr_error error;
  kv_create(&m, device);
  int64_t slots[3] = {0}, sum = 0;
  for (int i = 0; i < 3; i++)
    slots[i] = kv_add(&m);
  for (size_t step = 0; step < sizeof tokens / sizeof *tokens; step++) {
    assert_ok(kv_append(&m, 3, slots, tokens[step], step % 2 ? 6 : 0, &error), error);
    for (int i = 0; i < 3; i++)
      sum += tokens[step][i];
    assert_int_equal(count_written(&m), sum * m.o.k_heads);
  }
  kv_expect(&m, 1);
  kv_free(&m);
}

static void append_everywhere(hr_device *device)
{
  static const hr_dtype dtypes[] = {HR_FP32, HR_FP16, HR_BF16};
  static const int64_t page_sizes[] = {0, 16, 24, 256};
  for (int i = 0; i < 8; i++)
    append_to_three_slots(device, i % 4, dtypes[i % 3], page_sizes[(i + i / 4) % 4]);
}

static void appended_tokens_are_within_half_a_step(void **state)
{
  (void)state;
  each_device(append_everywhere);
}

static void rotate_everywhere(hr_device *device)
{
  static const int64_t cases[][3] = {{64, 0, 64}, {128, 0, 32}, {80, 16, 64},  {6, 0, 6},    {24, 1, 22},
                                     {18, 2, 2},  {96, 32, 64}, {200, 0, 140}, {256, 0, 256}};
  for (int i = 0; i < 9; i++) {
    kv_model m = quantized(i % 4, i % 2 ? HR_BF16 : HR_FP32, i % 3 ? 16 : 0);
    hr_error error;
    m.o.qk_dim = cases[i][0];
    m.rotary.rotary_first = cases[i][1], m.rotary.rotary_dim = cases[i][2];
    m.rotary.pairs = i / 4 % 2 ? HR_ROTARY_INTERLEAVED : HR_ROTARY_HALF_SPLIT;
    kv_create(&m, device);
    const int64_t slots[] = {kv_add(&m), kv_add(&m)}, tokens[] = {30, 7};
    assert_ok(kv_append(&m, 2, slots, tokens, 0, &error), error);
    assert_ok(kv_append(&m, 2, slots, NULL, 5, &error), error);
    kv_expect(&m, 0);
    kv_free(&m);
  }
}

static void keys_are_quantized_after_their_rotation(void **state)
{
  (void)state;
  each_device(rotate_everywhere);
}

static void append_latents(hr_device *device)
{
  for (int number = 0; number < 4; number++) {
    kv_model m = quantized(number, HR_BF16, 16);
    hr_error error;
    m.o.latent = true;
    m.o.k_heads = m.o.v_heads = 1;
    m.o.qk_dim = 72, m.o.v_dim = 64;
    m.rotary.rotary_first = 64, m.rotary.rotary_dim = 8;
    kv_create(&m, device);
    const int64_t slots[] = {kv_add(&m), kv_add(&m)}, tokens[] = {17, 2};
    assert_ok(kv_append(&m, 2, slots, tokens, 0, &error), error);
    kv_expect(&m, 0);
    kv_free(&m);
  }
}

static void a_latent_cache_has_the_scales_of_k(void **state)
{
  (void)state;
  each_device(append_latents);
}

/* Slots whose places others had before. */
static void reuse_slots(hr_device *device)
{
  kv_model m = quantized(3, HR_BF16, 16);
  hr_error error;
  m.o.tokens = 100, m.o.pages = 9;
  kv_create(&m, device);
  int64_t slots[] = {kv_add(&m), kv_add(&m)};
  const int64_t tokens[] = {60, 40}, more[] = {80, 3};
  assert_ok(kv_append(&m, 2, slots, tokens, 0, &error), error);
  assert_ok(hr_kv_cache_remove(m.cache, slots[0], &error), error);
  m.lengths[slots[0]] = -1;
  assert_ok(hr_kv_cache_truncate(m.cache, slots[1], 20, &error), error);
  m.lengths[slots[1]] = 20;
  slots[0] = kv_add(&m);
  assert_ok(kv_append(&m, 2, slots, more, 0, &error), error);
  kv_expect(&m, 0);
  kv_free(&m);
}

static void slots_are_reused(void **state)
{
  (void)state;
  each_device(reuse_slots);
}

/* ---- special numbers ---- */

#define DIM 8

/* Appends one token of one fp32 head per row; returns what the cache then has: elements, and scales of tokens. */
static void append_rows(hr_device *device, int number, int64_t rows, float (*values)[DIM], double (*found)[DIM],
                        double *scales)
{
  kv_model m = quantized(number, HR_FP32, 16);
  hr_error error;
  const float one = 1;
  m.o.k_heads = m.o.v_heads = 1, m.o.qk_dim = m.o.v_dim = DIM;
  m.o.k_scales = m.o.v_scales = &one;
  kv_create(&m, device);
  const int64_t slot = kv_add(&m);
  hr_buffer *buffer = kv_upload(device, values, (size_t)rows * sizeof *values);
  hr_kv_append a = hr_kv_append_default();
  a.count = 1, a.slots = &slot, a.tokens = &rows;
  a.k = a.v = hr_buffer_data(buffer);
  assert_ok(hr_kv_cache_append(m.cache, &a, NULL, &error), error);
  m.lengths[slot] = 0; /* the model does not know these */
  kv_image image = kv_read(&m, 1, &slot);
  hr_kv_strides at = hr_decode_v_strides(&image.d), scale_at = hr_decode_v_scale_strides(&image.d);
  for (int64_t i = 0; i < rows; i++) {
    scales[i] = (double)image.x.v_scales[hr_decode_token(&image.d, &image.x, &scale_at, 0, i)];
    hr_kv_elements_load(m.o.cache_format, HR_FP32, image.x.v, (size_t)hr_decode_token(&image.d, &image.x, &at, 0, i),
                        DIM, found[i]);
  }
  kv_image_free(&image);
  hr_buffer_free(buffer);
  kv_free(&m);
}

static void append_special_tokens(hr_device *device)
{
  float values[][DIM] = {{0, -0.0f},        {1, NAN, 2}, {INFINITY, 1},          {1, -INFINITY},
                         {1e-40f, -1e-39f}, {1e30f, -3}, {0x1p-100f, 0x1p-101f}, {448, 447}};
  double found[8][DIM], scales[8];
  for (int number = 2; number < 4; number++) {
    double most = number == 3 ? 127 : 448;
    append_rows(device, number, 8, values, found, scales);
    assert_true(scales[0] == 1 && found[0][0] == 0 && found[0][1] == 0 && found[0][7] == 0);
    assert_true(isnan(scales[1]) && isnan(scales[2]) && isnan(scales[3]));
    assert_true(scales[4] == 1 && found[4][0] == 0 && found[4][1] == 0);
    assert_true(scales[5] == (double)(1e30f / (float)most) && found[5][0] == most && found[5][1] == 0);
    assert_true(found[6][0] == most &&
                found[6][1] == most / 2 + (number == 3 ? 0.5 : 0)); /* 63.5: the tie goes to 64 */
    assert_true(found[7][0] == most && found[7][2] == 0);
  }
}

static void a_token_without_numbers_is_nan_and_one_of_zeros_has_scale_one(void **state)
{
  (void)state;
  each_device(append_special_tokens);
}

/* Scale 1 for all tokens: rounding to even, saturation, and what a format has no number for. */
static void append_special_elements(hr_device *device)
{
  float values[][DIM] = {{0.5f, 1.5f, -2.5f, 126.5f, 127.5f, 1e9f, -1e9f, -128},
                         {NAN, INFINITY, -INFINITY, 17, 19, -21, 0x1p-10f, 0x1.8p-9f}};
  static const double of_int8[2][DIM] = {{0, 2, -2, 126, 127, 127, -127, -127}, {0, 127, -127, 17, 19, -21, 0, 0}};
  static const double of_fp8[2][DIM] = {{0.5, 1.5, -2.5, 128, 128, 448, -448, -128}, {0, 0, 0, 16, 20, -20, 0, 0x1p-8}};
  double found[2][DIM], scales[2];
  append_rows(device, 0, 2, values, found, scales);
  for (int i = 0; i < 2 * DIM; i++)
    assert_true(i >= DIM && i < DIM + 3 ? isnan(found[1][i - DIM])
                                        : found[i / DIM][i % DIM] == of_fp8[i / DIM][i % DIM]);
  append_rows(device, 1, 2, values, found, scales);
  for (int i = 0; i < 2 * DIM; i++)
    assert_true(found[i / DIM][i % DIM] == of_int8[i / DIM][i % DIM]);
}

static void elements_round_to_even_and_saturate(void **state)
{
  (void)state;
  each_device(append_special_elements);
}

/* ---- options ---- */

static void options_out_of_range_are_refused(void **state)
{
  (void)state;
  hr_device *device;
  hr_kv_cache *cache = NULL;
  hr_error error;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  static const float zero[] = {1, 0}, infinite[] = {INFINITY, 1, 1};
#define REFUSED(expected, text, ...)                                                       \
  do {                                                                                     \
    hr_kv_cache_options o = quantized(0, HR_BF16, 16).o;                                   \
    __VA_ARGS__;                                                                           \
    assert_int_equal(hr_kv_cache_create(device, &o, &cache, &error), HR_ERROR_##expected); \
    assert_string_equal(error.message, text);                                              \
    assert_null(cache);                                                                    \
  } while (0)
  REFUSED(INVALID, "cache_format: 10 is not a format", o.cache_format = HR_KV_FORMAT_COUNT);
  REFUSED(UNSUPPORTED, "cache_format: no kernel of Headroom reads q8_0, which is counted and predicted alone",
          o.cache_format = HR_KV_Q8_0);
  REFUSED(INVALID, "cache_scales: 2 is not a kind of scales", o.cache_scales = HR_KV_SCALES_COUNT);
  REFUSED(INVALID, "k_scales: expected positive normal numbers, found 0 for head 1", o.k_scales = zero);
  REFUSED(INVALID, "v_scales: expected positive normal numbers, found inf for head 0", o.v_scales = infinite);
  REFUSED(UNSUPPORTED, "cache_format: a quantized cache takes head sizes up to 4096, not 4097", o.v_dim = 4097);
#undef REFUSED
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(appended_tokens_are_within_half_a_step),
      cmocka_unit_test(keys_are_quantized_after_their_rotation),
      cmocka_unit_test(a_latent_cache_has_the_scales_of_k),
      cmocka_unit_test(slots_are_reused),
      cmocka_unit_test(a_token_without_numbers_is_nan_and_one_of_zeros_has_scale_one),
      cmocka_unit_test(elements_round_to_even_and_saturate),
      cmocka_unit_test(options_out_of_range_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
