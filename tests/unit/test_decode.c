/* SPDX-License-Identifier: Apache-2.0 */
/* Decode problems: counts, checks, pages; how the work is divided; a measurement. */
#include "machine.h"

#include "runtime/device/plan.h"
#include "runtime/operation/decode_sequences.h"
#include "runtime/operation/operation.h"
#include "schedule/split_keys.h"

#include <headroom/experimental/decode.h>
#include <headroom/experimental/measure.h>
#include <math.h>
#include <string.h>

/* ---- counts ---- */

static hr_decode sigma(int64_t kv_len)
{
  hr_decode d = hr_decode_default();
  d.batch = 2, d.kv_len = kv_len;
  d.q_heads = 32, d.k_heads = 4, d.v_heads = 16;
  hr_error error;
  assert_ok(hr_decode_set_pages(&d, 16, &error), error);
  return d;
}

static void bytes_count_each_k_and_v_head_once(void **state)
{
  (void)state;
  hr_decode d = sigma(1000);
  int64_t bytes, flops;
  assert_int_equal(hr_decode_bytes(&d, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * 2 * (1000 * (4 + 16) * 64 + 32 * 128));
  assert_int_equal(hr_decode_flops(&d, &flops), HR_OK);
  assert_int_equal(flops, (int64_t)2 * 2 * 128 * 32 * 1000);
  d.window = 100, d.q_len = 3; /* the queries see 100 keys each, 102 together */
  assert_int_equal(hr_decode_bytes(&d, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * 2 * (102 * (4 + 16) * 64 + 3 * 32 * 128));
  assert_int_equal(hr_decode_flops(&d, &flops), HR_OK);
  assert_int_equal(flops, (int64_t)2 * 2 * 128 * 32 * 300);
}

/* SIGMA's claim, arXiv 2501.13629, section 2.2: 4 K heads instead of 16 save 37.5% of the traffic. */
static void fewer_k_heads_save_what_the_paper_says(void **state)
{
  (void)state;
  hr_decode less = sigma(32768), standard = less;
  standard.k_heads = 16;
  int64_t bytes, standard_bytes;
  assert_int_equal(hr_decode_bytes(&less, &bytes), HR_OK);
  assert_int_equal(hr_decode_bytes(&standard, &standard_bytes), HR_OK);
  double saved = 1 - (double)bytes / (double)standard_bytes;
  assert_true(saved > 0.3745 && saved <= 0.375);
}

/* 8 query heads share a K head, 2 a V head: V rows are at most twice top_k, or all. */
static void selected_v_counts_as_if_no_head_chose_the_same(void **state)
{
  (void)state;
  hr_decode d = sigma(1000);
  int64_t bytes, flops;
  d.top_k = 100;
  assert_int_equal(hr_decode_bytes(&d, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * 2 * (1000 * 4 * 64 + 2 * 100 * 16 * 64 + 32 * 128));
  assert_int_equal(hr_decode_flops(&d, &flops), HR_OK);
  assert_int_equal(flops, (int64_t)2 * 2 * 32 * 64 * (1000 + 100));
  d.top_k = 600; /* 1200 rows are no more than 1000 */
  assert_int_equal(hr_decode_bytes(&d, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * 2 * (1000 * (4 + 16) * 64 + 32 * 128));
  d.top_k = 100, d.q_len = 2, d.window = 50; /* each query chooses among 50 keys; together they see 51 */
  assert_int_equal(hr_decode_bytes(&d, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * 2 * (51 * (4 + 16) * 64 + 2 * 32 * 128));
  assert_int_equal(hr_decode_flops(&d, &flops), HR_OK);
  assert_int_equal(flops, (int64_t)2 * 2 * 32 * 64 * (100 + 100));
  d.top_k = (int64_t)1 << 40;
  assert_int_equal(hr_decode_bytes(&d, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * 2 * (51 * (4 + 16) * 64 + 2 * 32 * 128));
}

static void a_call_that_sees_no_more_than_top_k_selects_nothing(void **state)
{
  (void)state;
  hr_decode d = sigma(1000);
  assert_false(hr_decode_selects(&d));
  d.top_k = 999;
  assert_true(hr_decode_selects(&d));
  d.top_k = 1000;
  assert_false(hr_decode_selects(&d));
  d.top_k = 100, d.window = 100;
  assert_false(hr_decode_selects(&d));
}

static void a_latent_cache_has_no_v(void **state)
{
  (void)state;
  hr_decode d = hr_decode_default();
  d.kv_len = d.page_size = 100;
  d.q_heads = 128, d.qk_dim = 576, d.v_dim = 512;
  d.latent = true;
  int64_t bytes;
  hr_error error;
  assert_ok(hr_decode_check(&d, &error), error);
  assert_int_equal(hr_decode_bytes(&d, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * (100 * 576 + 128 * (576 + 512)));
}

static void a_quantized_cache_has_bytes_and_scales(void **state)
{
  (void)state;
  hr_decode d = sigma(1000);
  int64_t bytes;
  d.cache_format = HR_KV_INT8;
  assert_int_equal(hr_decode_bytes(&d, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * (1000 * (4 + 16) * 64 + 2 * 32 * 128) + 4 * (4 + 16));
  d.cache_scales = HR_KV_SCALE_TOKEN;
  assert_int_equal(hr_decode_bytes(&d, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * (1000 * (4 + 16) * (64 + 4) + 2 * 32 * 128));
  d.k_heads = d.v_heads = 1, d.latent = true;
  assert_int_equal(hr_decode_bytes(&d, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * (1000 * (64 + 4) + 2 * 32 * 128));
}

/* ggml-common.h: 32 values with an fp16 scale, and of _1 an fp16 minimum, too. NVFP4: 16 with a scale of 8 bits. */
static void a_block_of_a_cache_counts_its_scale(void **state)
{
  (void)state;
  static const struct {
    hr_kv_format format;
    int64_t of_64; /* bytes of a head of 64 */
  } rows[] = {{HR_KV_Q8_0, 2 * (32 + 2)}, {HR_KV_Q5_1, 2 * (20 + 4)}, {HR_KV_Q5_0, 2 * (20 + 2)},
              {HR_KV_Q4_1, 2 * (16 + 4)}, {HR_KV_Q4_0, 2 * (16 + 2)}, {HR_KV_IQ4_NL, 2 * (16 + 2)},
              {HR_KV_NVFP4, 4 * (8 + 1)}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    hr_decode d = sigma(1000);
    int64_t bytes;
    hr_error error;
    d.cache_format = rows[i].format;
    assert_ok(hr_decode_check(&d, &error), error);
    assert_int_equal(hr_decode_bytes(&d, &bytes), HR_OK);
    assert_int_equal(bytes, 2 * (1000 * (4 + 16) * rows[i].of_64 + 2 * 32 * 128));
  }
}

static void heads_are_whole_blocks_of_a_cache(void **state)
{
  (void)state;
  hr_decode d = sigma(1000);
  hr_error error;
  d.cache_format = HR_KV_Q8_0, d.v_dim = 80;
  assert_int_equal(hr_decode_check(&d, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "cache_format: q8_0 has blocks of 32 values, which do not divide a head of 80");
  d.cache_format = HR_KV_NVFP4;
  assert_ok(hr_decode_check(&d, &error), error);
}

static void strides_of_scales_say_what_has_one(void **state)
{
  (void)state;
  hr_decode d = sigma(1000); /* pages of 16 */
  d.cache_format = HR_KV_FP8;
  hr_kv_strides s = hr_decode_v_scale_strides(&d);
  assert_true(s.page == 0 && s.token == 0 && s.head == 1);
  d.cache_scales = HR_KV_SCALE_TOKEN;
  s = hr_decode_v_scale_strides(&d);
  assert_true(s.page == 16 * 16 && s.token == 16 && s.head == 1);
  d.k_scale_strides = (hr_kv_strides){.page = 7, .token = 3};
  s = hr_decode_k_scale_strides(&d);
  assert_true(s.page == 7 && s.token == 3 && s.head == 0);
}

static void formats_have_names(void **state)
{
  (void)state;
  hr_kv_format format = HR_KV_FORMAT_COUNT;
  hr_kv_scales scales = HR_KV_SCALES_COUNT;
  assert_string_equal(hr_kv_format_name(HR_KV_FP8), "fp8");
  assert_string_equal(hr_kv_scales_name((hr_kv_scales)-1), "unknown");
  assert_int_equal(hr_kv_format_parse("int8", &format), HR_OK);
  assert_int_equal(hr_kv_scales_parse("token", &scales), HR_OK);
  assert_true(format == HR_KV_INT8 && scales == HR_KV_SCALE_TOKEN);
  assert_int_equal(hr_kv_format_parse("int4", &format), HR_ERROR_NOT_FOUND);
  assert_int_equal(hr_kv_scales_parse("", &scales), HR_ERROR_NOT_FOUND);
  assert_true(format == HR_KV_INT8 && scales == HR_KV_SCALE_TOKEN);
}

static void pages_hold_all_sequences(void **state)
{
  (void)state;
  hr_decode d = sigma(33);
  hr_error error;
  assert_int_equal(d.page_size, 16);
  assert_int_equal(d.table_pitch, 3);
  assert_int_equal(d.page_count, 6);
  assert_ok(hr_decode_set_pages(&d, 0, &error), error);
  assert_int_equal(d.page_size, 33);
  assert_int_equal(d.page_count, 2);
  assert_int_equal(hr_decode_set_pages(&d, -1, &error), HR_ERROR_INVALID);
}

/* ---- refusals ---- */

static void assert_refused(hr_decode d, hr_status status, const char *words)
{
  hr_error error = {.message = ""};
  assert_int_equal(hr_decode_check(&d, &error), status);
  if (!strstr(error.message, words))
    fail_msg("\"%s\" does not contain \"%s\"", error.message, words);
}

static void impossible_calls_are_refused_by_name(void **state)
{
  (void)state;
  hr_decode d = sigma(100);
  d.q_len = 17;
  assert_refused(d, HR_ERROR_INVALID, "q_len: expected 1 to 16, found 17");
  d = sigma(100);
  d.k_heads = 5;
  assert_refused(d, HR_ERROR_INVALID, "q_heads 32 is not a multiple of k_heads 5");
  d = sigma(100);
  d.table_pitch = 6;
  assert_refused(d, HR_ERROR_INVALID, "table_pitch: 6 pages of 16 tokens do not hold kv_len 100");
  d = sigma(100);
  d.latent = true;
  assert_refused(d, HR_ERROR_INVALID, "latent: expected one K head");
  d = sigma(100);
  d.top_k = -1;
  assert_refused(d, HR_ERROR_INVALID, "top_k: expected 0 to 1099511627776, found -1");
  d = sigma(100);
  d.latent = true, d.k_heads = d.v_heads = 1, d.top_k = 10;
  assert_refused(d, HR_ERROR_INVALID, "top_k: latent attention");
  d = sigma(100);
  d.softcap = -1;
  assert_refused(d, HR_ERROR_INVALID, "softcap");
  d = sigma(100);
  d.v_strides.token = -1;
  assert_refused(d, HR_ERROR_INVALID, "v_strides");
  d = sigma(100);
  d.o_strides = (hr_strides){.batch = 1, .row = 1, .head = 1};
  assert_refused(d, HR_ERROR_INVALID, "o_strides");
  d = sigma(100);
  d.cache_format = HR_KV_FORMAT_COUNT;
  assert_refused(d, HR_ERROR_INVALID, "cache_format: 10 is not a format");
  d = sigma(100);
  d.cache_scales = (hr_kv_scales)-1;
  assert_refused(d, HR_ERROR_INVALID, "cache_scales: -1 is not a kind of scales");
  d = sigma(100);
  d.cache_format = HR_KV_FP8, d.cache_scales = HR_KV_SCALE_TOKEN;
  d.v_scale_strides.page = -4;
  assert_refused(d, HR_ERROR_INVALID, "v_scale_strides: -4, 0, 0 must not be negative");
  d.v_scale_strides.page = INT64_MAX / 50;
  assert_refused(d, HR_ERROR_OVERFLOW, "v_scale_strides");
  d = sigma(100);
  d.qk_dim = (int64_t)1 << 40;
  d.page_count = INT32_MAX;
  assert_refused(d, HR_ERROR_OVERFLOW, "");
}

static hr_status check_addresses(const hr_decode *d, const hr_decode_arguments *x, hr_error *error)
{
  hr_problem problem = hr_decode_problem(d);
  return hr_operation_decode.check_addresses(&problem, &(hr_arguments){.decode = *x}, error);
}

static hr_status check_tables(const hr_decode *d, const hr_decode_arguments *x, hr_error *error)
{
  hr_problem problem = hr_decode_problem(d);
  return hr_operation_decode.check_tables(&problem, &(hr_arguments){.decode = *x}, error);
}

static void lengths_and_pages_out_of_range_are_refused(void **state)
{
  (void)state;
  hr_decode d = sigma(40);
  int32_t lengths[] = {40, 7}, pages[] = {5, 4, 3, 2, 1, 0};
  hr_decode_arguments x = hr_decode_arguments_default();
  hr_error error;
  x.lengths = lengths, x.pages = pages;
  assert_ok(check_tables(&d, &x, &error), error);
  lengths[1] = 41;
  assert_int_equal(check_tables(&d, &x, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "lengths: sequence 1 has 41 tokens, expected 0 to 40");
  lengths[1] = 7, pages[2] = 6;
  assert_int_equal(check_tables(&d, &x, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "pages: token 32 of sequence 0 is on page 6, expected 0 to 5");
  pages[2] = 3, pages[5] = -9; /* behind the 7 tokens of sequence 1 */
  assert_ok(check_tables(&d, &x, &error), error);
}

/* The starts are FlashInfer's indptr: sequence 0 has the three pages from place 1 on, sequence 1 the one at place 0. */
static void a_list_of_pages_has_starts(void **state)
{
  (void)state;
  hr_decode d = sigma(40);
  int32_t lengths[] = {40, 7}, pages[] = {4, 5, 0, 3}, starts[] = {1, 0};
  hr_decode_arguments x = hr_decode_arguments_default();
  hr_error error;
  x.lengths = lengths, x.pages = pages, x.page_starts = starts;
  assert_ok(check_tables(&d, &x, &error), error);
  assert_int_equal(hr_decode_page(&d, &x, 0, 0), 5);
  assert_int_equal(hr_decode_page(&d, &x, 0, 39), 3);
  assert_int_equal(hr_decode_page(&d, &x, 1, 6), 4);
  pages[3] = 6;
  assert_int_equal(check_tables(&d, &x, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "pages: token 32 of sequence 0 is on page 6, expected 0 to 5");
  starts[1] = -1, pages[3] = 3;
  assert_int_equal(check_tables(&d, &x, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "page_starts: sequence 1 begins at -1, expected 0 or more");
  char o, k;
  x.q = x.k = x.v = &k, x.o = &o, x.pages = NULL;
  assert_int_equal(check_addresses(&d, &x, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "pages: an address is needed, found NULL");
}

static void a_quantized_cache_needs_scales(void **state)
{
  (void)state;
  hr_decode d = hr_decode_default();
  float numbers[64] = {0};
  hr_decode_arguments x = hr_decode_arguments_default();
  hr_error error;
  x.q = x.k = x.v = numbers, x.o = numbers;
  assert_ok(check_addresses(&d, &x, &error), error);
  d.cache_format = HR_KV_INT8;
  assert_int_equal(check_addresses(&d, &x, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "k_scales: an address is needed, found NULL");
  x.k_scales = numbers;
  assert_int_equal(check_addresses(&d, &x, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "v_scales: an address is needed, found NULL");
  d.latent = true;
  assert_ok(check_addresses(&d, &x, &error), error);
  d.latent = false, d.kv_len = 0, x.k_scales = NULL;
  assert_ok(check_addresses(&d, &x, &error), error);
}

/* ---- work ---- */

static void a_unit_has_whole_k_and_v_heads(void **state)
{
  (void)state;
  static const int64_t cases[][7] = {/* heads, then a unit's count and heads */
                                     {32, 32, 32, 32, 1, 1, 1}, {32, 8, 8, 8, 4, 1, 1}, {32, 4, 16, 4, 8, 1, 4},
                                     {32, 16, 4, 4, 8, 4, 1},   {12, 4, 6, 2, 6, 2, 3}, {71, 1, 1, 1, 71, 1, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int64_t *c = cases[i];
    hr_decode d = hr_decode_default();
    d.q_heads = c[0], d.k_heads = c[1], d.v_heads = c[2];
    hr_decode_unit unit = hr_decode_units(&d);
    assert_int_equal(unit.count, c[3]);
    assert_int_equal(unit.q_heads, c[4]);
    assert_int_equal(unit.k_heads, c[5]);
    assert_int_equal(unit.v_heads, c[6]);
  }
}

static void splits_fill_the_workers_and_no_more(void **state)
{
  (void)state;
  assert_int_equal(hr_decode_splits(1000, 4096, 264, 64, 64, 256), 1); /* enough groups */
  assert_int_equal(hr_decode_splits(64, 4096, 264, 64, 64, 256), 4);   /* 256 of 264 */
  assert_int_equal(hr_decode_splits(8, 65536, 264, 64, 64, 256), 32);  /* of 1024 tiles */
  assert_int_equal(hr_decode_splits(1, 100, 264, 64, 64, 256), 2);     /* no more than tiles */
  assert_int_equal(hr_decode_splits(1, 65536, 264, 64, 64, 16), 16);   /* no more than `most` */
  assert_int_equal(hr_decode_splits(1, 0, 264, 64, 64, 256), 1);
}

/* ---- a measurement ---- */

static void a_decode_call_is_timed_and_checked(void **state)
{
  (void)state;
  hr_device *device;
  hr_error error;
  hr_measurement m;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  hr_decode d = sigma(60);
  d.dtype = HR_FP32, d.sinks = true;
  hr_measure_options options = hr_measure_options_default();
  options.samples_max = options.samples_min; /* on a busy machine a time limit would end it */
  options.warm = true;
  for (int latent = 0; latent < 2; latent++) {
    d.latent = latent;
    if (latent)
      d.k_heads = d.v_heads = 1;
    assert_ok(hr_measure_decode(device, &d, &options, &m, &error), error);
    if (m.status != HR_OK && m.status != HR_ERROR_NOISY)
      fail_msg("%s", m.reason);
    assert_int_equal(m.rows_checked, 16);
    assert_true(m.bytes_per_s > 0 && m.flops_per_s > 0);
  }
  for (int i = 0; i < 4; i++) {
    d.cache_format = i % 2 ? HR_KV_INT8 : HR_KV_FP8;
    d.cache_scales = i < 2 ? HR_KV_SCALE_HEAD : HR_KV_SCALE_TOKEN;
    d.latent = i == 3;
    assert_ok(hr_measure_decode(device, &d, &options, &m, &error), error);
    if (m.status != HR_OK && m.status != HR_ERROR_NOISY)
      fail_msg("%s: %s", m.kernel, m.reason);
  }
  d.kv_len = 0;
  assert_ok(hr_measure_decode(device, &d, &options, &m, &error), error);
  assert_int_equal(m.status, HR_ERROR_UNSUPPORTED);
  hr_device_close(device);
}

static void expect_part(hr_device *device, const char *kernel, int part, hr_status status)
{
  hr_error error;
  hr_measurement m;
  hr_decode d = sigma(600);
  hr_measure_options options = hr_measure_options_default();
  options.kernel = kernel;
  options.decode_part = part;
  options.time_limit_ns = 5e6;
  options.samples_max = options.samples_min = 2;
  assert_ok(hr_measure_decode(device, &d, &options, &m, &error), error);
  if (m.status != status && !(status == HR_OK && m.status == HR_ERROR_NOISY))
    fail_msg("%s, part %d: %s", kernel, part, m.reason);
  assert_true(status != HR_OK || (m.median_ns > 0 && isnan(m.bytes_per_s) == (part > 0)));
}

static void a_kernel_of_one_launch_has_no_parts(void **state)
{
  (void)state;
  hr_device *device;
  hr_error error;
  hr_measurement m;
  hr_decode d = sigma(600);
  hr_measure_options options = hr_measure_options_default();
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  expect_part(device, "decode_split", 1, HR_ERROR_UNSUPPORTED);
  options.decode_part = 3;
  assert_int_equal(hr_measure_decode(device, &d, &options, &m, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "decode_part: expected 0, 1 or 2, found 3");
  hr_device_close(device);
}

static void both_launches_of_a_decode_call_are_timed_apart(void **state)
{
  (void)state;
  hr_device *gpu = open_gpu();
  for (int part = 0; part < 3; part++)
    expect_part(gpu, "decode_apart", part, HR_OK);
  expect_part(gpu, "decode_split", 2, HR_ERROR_UNSUPPORTED);
  hr_device_close(gpu);
}

/* ---- attention as decode ---- */

static void an_attention_call_of_few_queries_is_a_decode_call(void **state)
{
  (void)state;
  hr_attention a = hr_attention_default();
  hr_decode d = hr_decode_default();
  hr_error error;
  a.batch = 3, a.q_len = 2, a.kv_len = 50;
  a.q_heads = 8, a.k_heads = 2, a.v_heads = 4;
  a.qk_dim = 32, a.v_dim = 64;
  a.window = 7, a.softcap = 2, a.scale = 0.5F;
  assert_ok(hr_attention_set_layout(&a, HR_LAYOUT_BHSD, &error), error);
  assert_ok(hr_decode_from_attention(&a, &d, &error), error);
  assert_true(d.batch == 3 && d.q_len == 2 && d.kv_len == 50 && d.window == 7 && d.softcap == 2 && d.scale == 0.5F);
  assert_true(d.page_size == 50 && d.page_count == 3 && d.table_pitch == 1);
  assert_true(d.k_strides.page == 2 * 50 * 32 && d.k_strides.head == 50 * 32 && d.k_strides.token == 32);
  assert_true(d.v_strides.page == 4 * 50 * 64 && d.v_strides.head == 50 * 64 && d.v_strides.token == 64);
  assert_true(d.q_strides.batch == 8 * 2 * 32 && d.o_strides.head == 2 * 64);
  int64_t flops = 0, expected = 0;
  assert_int_equal(hr_decode_flops(&d, &flops), HR_OK);
  assert_int_equal(hr_attention_flops(&a, &expected), HR_OK);
  assert_int_equal(flops, expected);
}

static void expect_no_decode(const hr_attention *a, const char *line)
{
  hr_decode d = hr_decode_default();
  hr_error error;
  assert_int_equal(hr_decode_from_attention(a, &d, &error), HR_ERROR_UNSUPPORTED);
  assert_string_equal(error.message, line);
}

static void other_attention_calls_are_no_decode_calls(void **state)
{
  (void)state;
  hr_attention a = hr_attention_default();
  hr_decode d = hr_decode_default();
  hr_error error;
  a.kv_len = 50;
  a.mask = HR_MASK_NONE;
  assert_ok(hr_decode_from_attention(&a, &d, &error), error); /* one query sees all keys with and without a mask */
  a.q_len = 2;
  expect_no_decode(&a, "decode kernels take several queries only with a causal mask");
  a.mask = HR_MASK_CAUSAL;
  a.alibi = true;
  expect_no_decode(&a, "decode kernels have no ALiBi");
  a.q_len = 17;
  expect_no_decode(&a, "decode kernels take 1 to 16 queries");
  a.k_heads = 3;
  assert_int_equal(hr_decode_from_attention(&a, &d, &error), HR_ERROR_INVALID);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_count_each_k_and_v_head_once),
      cmocka_unit_test(fewer_k_heads_save_what_the_paper_says),
      cmocka_unit_test(selected_v_counts_as_if_no_head_chose_the_same),
      cmocka_unit_test(a_call_that_sees_no_more_than_top_k_selects_nothing),
      cmocka_unit_test(a_latent_cache_has_no_v),
      cmocka_unit_test(a_quantized_cache_has_bytes_and_scales),
      cmocka_unit_test(a_block_of_a_cache_counts_its_scale),
      cmocka_unit_test(heads_are_whole_blocks_of_a_cache),
      cmocka_unit_test(strides_of_scales_say_what_has_one),
      cmocka_unit_test(formats_have_names),
      cmocka_unit_test(pages_hold_all_sequences),
      cmocka_unit_test(impossible_calls_are_refused_by_name),
      cmocka_unit_test(an_attention_call_of_few_queries_is_a_decode_call),
      cmocka_unit_test(other_attention_calls_are_no_decode_calls),
      cmocka_unit_test(lengths_and_pages_out_of_range_are_refused),
      cmocka_unit_test(a_list_of_pages_has_starts),
      cmocka_unit_test(a_quantized_cache_needs_scales),
      cmocka_unit_test(a_unit_has_whole_k_and_v_heads),
      cmocka_unit_test(splits_fill_the_workers_and_no_more),
      cmocka_unit_test(a_decode_call_is_timed_and_checked),
      cmocka_unit_test(a_kernel_of_one_launch_has_no_parts),
      cmocka_unit_test(both_launches_of_a_decode_call_are_timed_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
