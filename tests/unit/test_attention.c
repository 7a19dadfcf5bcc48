/* SPDX-License-Identifier: Apache-2.0 */
/* Attention problems: strides, layouts, slopes and counts, against numbers computed by hand. */
#include "test.h"

#include <headroom/attention.h>

#include <math.h>
#include <string.h>

static hr_attention diffqkv(void)
{
  hr_attention a = hr_attention_default();
  a.batch = 2, a.q_len = 10, a.kv_len = 10;
  a.q_heads = 8, a.k_heads = 2, a.v_heads = 4;
  a.qk_dim = 16, a.v_dim = 32;
  return a;
}

static void assert_strides(const hr_attention *a, hr_attention_operand which, int64_t batch, int64_t row, int64_t head)
{
  hr_strides s = hr_attention_strides(a, which);
  assert_int_equal(s.batch, batch);
  assert_int_equal(s.row, row);
  assert_int_equal(s.head, head);
}

static int64_t span(const hr_attention *a, hr_attention_operand which)
{
  int64_t elements = -1;
  assert_int_equal(hr_attention_span(a, which, &elements), HR_OK);
  return elements;
}

static void layouts_set_the_strides_that_they_name(void **state)
{
  (void)state;
  hr_error error;
  hr_attention a = diffqkv();
  assert_strides(&a, HR_OPERAND_Q, 1280, 128, 16); /* 8·16 a row, 10 rows */
  assert_strides(&a, HR_OPERAND_V, 1280, 128, 32); /* 4·32 */
  assert_ok(hr_attention_set_layout(&a, HR_LAYOUT_BSHD, &error), error);
  assert_strides(&a, HR_OPERAND_K, 320, 32, 16);
  assert_ok(hr_attention_set_layout(&a, HR_LAYOUT_BHSD, &error), error);
  assert_strides(&a, HR_OPERAND_Q, 1280, 16, 160); /* heads are 10 rows of 16 apart */
  assert_strides(&a, HR_OPERAND_O, 2560, 32, 320);
  assert_int_equal(span(&a, HR_OPERAND_O), 2 * 10 * 8 * 32); /* no gaps */
  assert_ok(hr_attention_set_layout(&a, HR_LAYOUT_PACKED_QKV, &error), error);
  assert_strides(&a, HR_OPERAND_Q, 2880, 288, 16); /* 8·16 + 2·16 + 4·32 = 288 */
  assert_strides(&a, HR_OPERAND_V, 2880, 288, 32);
  assert_strides(&a, HR_OPERAND_O, 2560, 256, 32);
  assert_int_equal(span(&a, HR_OPERAND_K), 2880 + 9 * 288 + 16 + 16); /* to the end of its last head */
  a.q_len = 9;
  assert_int_equal(hr_attention_set_layout(&a, HR_LAYOUT_PACKED_QKV, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "packed_qkv: q_len 9 is not kv_len 10");
  hr_layout layout = HR_LAYOUT_BSHD;
  assert_int_equal(hr_layout_parse("packed_qkv", &layout), HR_OK);
  assert_int_equal(layout, HR_LAYOUT_PACKED_QKV);
  assert_int_equal(hr_layout_parse("sbhd", &layout), HR_ERROR_NOT_FOUND);
}

static void invalid_strides_are_named(void **state)
{
  (void)state;
  hr_error error;
  hr_attention a = diffqkv();
  a.o_strides = (hr_strides){.batch = 2560, .row = 255, .head = 32}; /* a row has 8·32 = 256 */
  assert_int_equal(hr_attention_check(&a, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "o_strides: 2560, 255, 32: elements overlap"));
  a.o_strides.row = 256;
  assert_ok(hr_attention_check(&a, &error), error);
  a.k_strides = (hr_strides){.batch = 0, .row = 16, .head = 0}; /* read again and again is allowed */
  assert_ok(hr_attention_check(&a, &error), error);
  a.k_strides.row = -16;
  assert_int_equal(hr_attention_check(&a, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "k_strides: 0, -16, 0 must not be negative"));
  a.k_strides = (hr_strides){.batch = INT64_MAX / 2, .row = INT64_MAX / 4, .head = 16};
  assert_int_equal(hr_attention_check(&a, &error), HR_ERROR_OVERFLOW);
}

static void invalid_options_are_named(void **state)
{
  (void)state;
  hr_error error;
  hr_attention a = diffqkv();
  a.softcap = -1;
  assert_int_equal(hr_attention_check(&a, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "softcap: expected a finite number of at least 0, found -1");
  a.softcap = 0, a.scale = (float)INFINITY;
  assert_int_equal(hr_attention_check(&a, &error), HR_ERROR_INVALID);
  a.scale = 0, a.q_total = 5;
  assert_int_equal(hr_attention_check(&a, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "q_total: expected at most 0 without variable lengths, found 5");
  a.q_total = 0, a.q_len = -1;
  assert_int_equal(hr_attention_check(&a, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "q_len: expected at least 0, found -1");
  a.q_len = 0;
  assert_ok(hr_attention_check(&a, &error), error);
  assert_int_equal(span(&a, HR_OPERAND_Q), 0);
}

/* This holds for problems without rows, too, because strides and plans are computed from their sizes. */
static void sizes_beyond_63_bits_are_an_overflow(void **state)
{
  (void)state;
  hr_error error;
  hr_attention a = diffqkv();
  a.q_len = a.kv_len = 0;
  a.qk_dim = ((int64_t)1 << 40) + 1;
  assert_int_equal(hr_attention_check(&a, &error), HR_ERROR_OVERFLOW);
  assert_string_equal(error.message, "qk_dim: expected at most 2^40, found 1099511627777");
  a.qk_dim = (int64_t)1 << 40;
  assert_ok(hr_attention_check(&a, &error), error);
  a.q_heads = a.k_heads = a.v_heads = (int64_t)1 << 24;
  assert_int_equal(hr_attention_check(&a, &error), HR_ERROR_OVERFLOW);
  assert_string_equal(error.message, "an attention call of q_len 0, kv_len 0 and 16777216 heads is too large to count");
}

/* Causal: 3 queries over 5 keys see 3 + 4 + 5, 2 over 2 see 1 + 2, 0 over 4 none. */
static void sequences_of_variable_lengths_are_counted_one_by_one(void **state)
{
  (void)state;
  hr_attention a = diffqkv();
  a.variable_lengths = true, a.batch = 3, a.q_total = 6, a.kv_total = 11;
  const int32_t q[] = {1, 4, 6, 6}, kv[] = {0, 5, 7, 11};
  int64_t flops = 0, bytes = 0, lse = 0;
  assert_int_equal(hr_attention_flops(&a, &flops), HR_ERROR_UNSUPPORTED);
  assert_int_equal(hr_attention_flops_of(&a, q, kv, &flops), HR_OK);
  assert_int_equal(flops, 2 * (12 + 3) * (16 + 32) * 8);
  assert_int_equal(hr_attention_bytes(&a, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * (6 * 8 * 16 + 11 * 2 * 16 + 11 * 4 * 32 + 6 * 8 * 32));
  assert_int_equal(hr_attention_lse_elements(&a, &lse), HR_OK);
  assert_int_equal(lse, 6 * 8);
}

/* 3 queries with a window of 4 see the last 3 + 4 - 1 = 6 keys of each of 2 sequences; of K and V 2 and 4 heads. */
static void keys_before_every_window_are_not_read(void **state)
{
  (void)state;
  hr_attention a = diffqkv();
  a.batch = 2, a.q_len = 3, a.kv_len = 100, a.window = 4;
  const int64_t queries = 2 * 3 * 8 * (16 + 32), key = 2 * 16 + 4 * 32;
  int64_t bytes = 0;
  assert_int_equal(hr_attention_bytes(&a, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * (queries + 2 * 6 * key));
  a.window = 99; /* 3 + 99 - 1 = 101: all 100 keys */
  assert_int_equal(hr_attention_bytes(&a, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * (queries + 2 * 100 * key));
  a.window = INT64_MAX;
  assert_int_equal(hr_attention_bytes(&a, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * (queries + 2 * 100 * key));
  a.window = 4, a.variable_lengths = true, a.q_total = 5, a.kv_total = 150; /* at most 5 + 2 * 3 = 11 keys */
  assert_int_equal(hr_attention_bytes(&a, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * (5 * 8 * (16 + 32) + 11 * key));
}

/* Q 2·10·8·16 = 2560, K 2·10·2·16 = 640, V 2·10·4·32 = 2560, O 2·10·8·32 = 5120 elements. */
static void only_fp8_operands_have_scales_and_an_output_of_another_format(void **state)
{
  (void)state;
  hr_error error;
  hr_attention a = diffqkv();
  int64_t bytes;
  a.dtype = HR_FP8_E4M3, a.mask = HR_MASK_NONE;
  assert_int_equal(hr_attention_output_dtype(&a), HR_FP8_E4M3);
  assert_int_equal(hr_attention_bytes(&a, &bytes), HR_OK);
  assert_int_equal(bytes, 2560 + 640 + 2560 + 5120);
  a.output = HR_OUTPUT_BF16, a.head_scales = true;
  assert_int_equal(hr_attention_output_dtype(&a), HR_BF16);
  assert_ok(hr_attention_check(&a, &error), error);
  assert_int_equal(hr_attention_bytes(&a, &bytes), HR_OK);
  assert_int_equal(bytes, 2560 + 640 + 2560 + 2 * 5120);
  a.dtype = HR_BF16;
  assert_int_equal(hr_attention_check(&a, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "head_scales: only with operands in fp8, found bf16");
  a.head_scales = false;
  assert_int_equal(hr_attention_check(&a, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "output: only with operands in fp8, found bf16");
  a.dtype = HR_FP8_E4M3, a.output = (hr_attention_output)3;
  assert_int_equal(hr_attention_check(&a, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "output: 3 is not in the list");
}

static void slopes_are_those_of_the_paper(void **state)
{
  (void)state;
  float slopes[12];
  hr_attention_alibi_slopes(8, slopes);
  for (int i = 0; i < 8; i++)
    assert_true(slopes[i] == ldexpf(1, -(i + 1))); /* 1/2, 1/4, … 1/256 */
  hr_attention_alibi_slopes(12, slopes);           /* those of 8, then 2^−0.5, 2^−1.5, … of 16 */
  assert_true(slopes[7] == 1.0F / 256);
  for (int i = 0; i < 4; i++)
    assert_true(fabs((double)slopes[8 + i] - exp2(-0.5 - i)) < 1e-7);
  hr_attention_alibi_slopes(1, slopes);
  assert_true(slopes[0] == 1.0F / 256);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layouts_set_the_strides_that_they_name),
      cmocka_unit_test(invalid_strides_are_named),
      cmocka_unit_test(invalid_options_are_named),
      cmocka_unit_test(sizes_beyond_63_bits_are_an_overflow),
      cmocka_unit_test(sequences_of_variable_lengths_are_counted_one_by_one),
      cmocka_unit_test(keys_before_every_window_are_not_read),
      cmocka_unit_test(only_fp8_operands_have_scales_and_an_output_of_another_format),
      cmocka_unit_test(slopes_are_those_of_the_paper),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
