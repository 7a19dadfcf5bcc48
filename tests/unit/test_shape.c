/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <headroom/attention.h>
#include <headroom/gemm.h>

static void a_gemm_has_2mnk_flops(void **state)
{
  (void)state;
  hr_gemm gemm = hr_gemm_default();
  gemm.m = 8192, gemm.n = 7680, gemm.k = 2560; /* the QKV GEMM of GPT-3 2.7B at b·s = 4·2048 */
  int64_t flops = 0, bytes = 0;
  assert_int_equal(hr_gemm_flops(&gemm, &flops), HR_OK);
  assert_int_equal(flops, 322122547200); /* 2·8192·7680·2560 */
  assert_int_equal(hr_gemm_bytes(&gemm, &bytes), HR_OK);
  assert_int_equal(bytes, 207093760); /* 2·(8192·2560 + 2560·7680 + 8192·7680) */
}

static void a_gemm_too_large_to_count_is_an_overflow(void **state)
{
  (void)state;
  hr_gemm gemm = hr_gemm_default();
  gemm.m = gemm.n = gemm.k = INT64_MAX / 2;
  int64_t flops = 7;
  assert_int_equal(hr_gemm_flops(&gemm, &flops), HR_ERROR_OVERFLOW);
  assert_int_equal(flops, 7);
  assert_int_equal(hr_gemm_check(&gemm, NULL), HR_ERROR_OVERFLOW);
}

static void a_size_of_zero_is_named(void **state)
{
  (void)state;
  hr_gemm gemm = hr_gemm_default();
  gemm.n = 0;
  hr_error error;
  assert_int_equal(hr_gemm_check(&gemm, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "n: expected at least 1, found 0");
}

static void omitted_strides_are_packed(void **state)
{
  (void)state;
  hr_gemm g = hr_gemm_default();
  g.m = 3, g.n = 5, g.k = 7, g.batch = 4, g.transpose_b = true;
  hr_matrix a = hr_gemm_a(&g), b = hr_gemm_b(&g), c = hr_gemm_c(&g);
  assert_int_equal(a.leading_dimension, 7);
  assert_int_equal(a.batch_stride, 21);
  assert_int_equal(a.elements, 84); /* 4·3·7 */
  assert_int_equal(b.rows, 5);
  assert_int_equal(b.columns, 7);
  assert_int_equal(b.batch_stride, 35);
  assert_int_equal(c.elements, 60); /* 4·3·5 */
  g.lda = 10;                       /* the batches follow at 3·10 */
  a = hr_gemm_a(&g);
  assert_int_equal(a.batch_stride, 30);
  assert_int_equal(a.elements, 117); /* 3·30 + 2·10 + 7 */
  g.broadcast_a = true;
  a = hr_gemm_a(&g);
  assert_int_equal(a.batch_stride, 0);
  assert_int_equal(a.elements, 27); /* 2·10 + 7 */
}

static void gaps_move_no_bytes_and_a_broadcast_operand_moves_once(void **state)
{
  (void)state;
  hr_gemm g = hr_gemm_default();
  g.m = 3, g.n = 5, g.k = 7, g.batch = 4;
  g.lda = 10, g.ldc = 50, g.stride_b = 100;
  int64_t bytes = 0;
  assert_int_equal(hr_gemm_bytes(&g, &bytes), HR_OK);
  assert_int_equal(bytes, 568); /* 2·4·(3·7 + 7·5 + 3·5) */
  g.stride_b = 0;
  g.broadcast_b = true;
  assert_int_equal(hr_gemm_bytes(&g, &bytes), HR_OK);
  assert_int_equal(bytes, 358); /* 2·(4·(21 + 15) + 35) */
  g.broadcast_b = false;
  g.stride_b = 5; /* overlapping rows of B: 3·5 + 35 elements in all */
  assert_int_equal(hr_gemm_bytes(&g, &bytes), HR_OK);
  assert_int_equal(bytes, 388); /* 2·(4·(21 + 15) + 50) */
}

static void invalid_strides_are_named(void **state)
{
  (void)state;
  const struct {
    hr_gemm g;
    hr_status status;
    const char *message;
  } cases[] = {
      {{.lda = 6}, HR_ERROR_INVALID, "lda: 6 is shorter than a row of A, which has 7"},
      {{.transpose_a = true, .lda = 2}, HR_ERROR_INVALID, "lda: 2 is shorter than a row of A, which has 3"},
      {{.ldb = -1}, HR_ERROR_INVALID, "ldb: expected at least 0, found -1"},
      {{.stride_a = -7}, HR_ERROR_INVALID, "stride_a: expected at least 0, found -7"},
      {{.broadcast_b = true, .stride_b = 35},
       HR_ERROR_INVALID,
       "stride_b: is 35, but B is broadcast: every batch reads the same"},
      {{.stride_c = 14}, /* 2·5 + 5 */
       HR_ERROR_INVALID,
       "stride_c: with 14 the batches of C overlap: expected at least 15, or at least 5 and ldc at least (batch - 1) x "
       "stride_c + n"},
      {{.stride_c = 5, .ldc = 19}, /* 3·5 + 5 */
       HR_ERROR_INVALID,
       "stride_c: with 5 the batches of C overlap: expected at least 43, or at least 5 and ldc at least (batch - 1) x "
       "stride_c + n"},
      {{.stride_c = 5, .ldc = 20}, HR_OK, ""},
      {{.stride_c = 15}, HR_OK, ""},
      {{.stride_a = 1, .stride_b = 1}, HR_OK, ""},
      {{.lda = INT64_MAX / 2},
       HR_ERROR_OVERFLOW,
       "a GEMM of m 3, n 5, k 7, batch 4 is too large to count with these strides"},
      {{.stride_c = INT64_MAX / 2},
       HR_ERROR_OVERFLOW,
       "a GEMM of m 3, n 5, k 7, batch 4 is too large to count with these strides"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_gemm g = cases[i].g;
    g.struct_size = sizeof g, g.m = 3, g.n = 5, g.k = 7, g.batch = 4, g.dtype = HR_BF16;
    hr_error error = {.message = ""};
    assert_int_equal(hr_gemm_check(&g, &error), cases[i].status);
    if (cases[i].status != HR_OK)
      assert_string_equal(error.message, cases[i].message);
  }
}

/* The definition: whether query i of q_len sees key j of kv_len. */
static int64_t entries_by_definition(const hr_attention *a)
{
  int64_t entries = 0;
  for (int64_t i = 0; i < a->q_len; i++) {
    for (int64_t j = 0; j < a->kv_len; j++) {
      int64_t own = i + a->kv_len - a->q_len;
      int seen = a->mask == HR_MASK_NONE || (j <= own && (a->window == 0 || j > own - a->window));
      entries += seen;
    }
  }
  return entries;
}

static void masked_entries_are_counted_as_the_definition_counts_them(void **state)
{
  (void)state;
  const int64_t lengths[] = {1, 2, 3, 7, 8, 13, 64};
  const int64_t windows[] = {0, 1, 2, 5, 64, 100};
  for (size_t q = 0; q < sizeof lengths / sizeof *lengths; q++)
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
      for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
        for (int causal = 0; causal < 2; causal++) {
          hr_attention a = hr_attention_default();
          a.q_len = lengths[q], a.kv_len = lengths[k];
          a.mask = causal ? HR_MASK_CAUSAL : HR_MASK_NONE;
          a.window = causal ? windows[w] : 0;
          int64_t entries = -1;
          assert_int_equal(hr_attention_entries(&a, &entries), HR_OK);
          if (entries != entries_by_definition(&a))
            fail_msg("q %d kv %d window %d causal %d: %d, by definition %d", (int)a.q_len, (int)a.kv_len, (int)a.window,
                     causal, (int)entries, (int)entries_by_definition(&a));
        }
}

static void heads_that_do_not_divide_are_named(void **state)
{
  (void)state;
  hr_attention a = hr_attention_default();
  a.q_heads = 32, a.k_heads = 4, a.v_heads = 12;
  hr_error error;
  assert_int_equal(hr_attention_check(&a, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "q_heads 32 is not a multiple of v_heads 12");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_gemm_has_2mnk_flops),
      cmocka_unit_test(a_gemm_too_large_to_count_is_an_overflow),
      cmocka_unit_test(a_size_of_zero_is_named),
      cmocka_unit_test(omitted_strides_are_packed),
      cmocka_unit_test(gaps_move_no_bytes_and_a_broadcast_operand_moves_once),
      cmocka_unit_test(invalid_strides_are_named),
      cmocka_unit_test(masked_entries_are_counted_as_the_definition_counts_them),
      cmocka_unit_test(heads_that_do_not_divide_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
