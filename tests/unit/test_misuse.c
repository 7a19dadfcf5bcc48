/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that break what a header asks for. The sanitizers report overflows and accesses that results do not show. */
#include "test.h"

#include <headroom/experimental/headroom.h>
#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 4000

/* The next of a fixed series of extreme sizes. */
static int64_t extreme(uint64_t *random)
{
  static const int64_t values[] = {INT64_MIN,
                                   INT64_MIN + 1,
                                   -1,
                                   0,
                                   1,
                                   3,
                                   (int64_t)1 << 31,
                                   (int64_t)1 << 32,
                                   ((int64_t)1 << 32) + 1,
                                   (int64_t)1 << 40,
                                   (int64_t)1 << 62,
                                   INT64_MAX - 1,
                                   INT64_MAX};
  *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407u; /* Knuth, MMIX */
  return values[(*random >> 33) % (sizeof values / sizeof *values)];
}

static void fill(int64_t *const fields[], size_t count, uint64_t *random)
{
  for (size_t i = 0; i < count; i++)
    *fields[i] = extreme(random);
}

static void assert_counted(hr_status status)
{
  assert_true(status == HR_OK || status == HR_ERROR_OVERFLOW || status == HR_ERROR_INVALID);
}

static void gemms_of_any_sizes_are_counted_or_refused(void **state)
{
  (void)state;
  uint64_t random = 1;
  for (int round = 0; round < ROUNDS; round++) {
    hr_gemm g = hr_gemm_default();
    int64_t *const fields[] = {&g.m,   &g.n,   &g.k,        &g.batch,    &g.lda,
                               &g.ldb, &g.ldc, &g.stride_a, &g.stride_b, &g.stride_c};
    fill(fields, sizeof fields / sizeof *fields, &random);
    g.transpose_a = round & 1, g.broadcast_b = round & 2;
    int64_t count;
    assert_counted(hr_gemm_flops(&g, &count));
    assert_counted(hr_gemm_bytes(&g, &count));
    assert_counted(hr_gemm_check(&g, NULL));
    (void)hr_gemm_a(&g), (void)hr_gemm_b(&g), (void)hr_gemm_c(&g);
  }
}

static void attention_calls_of_any_sizes_are_counted_or_refused(void **state)
{
  (void)state;
  uint64_t random = 2;
  for (int round = 0; round < ROUNDS; round++) {
    hr_attention a = hr_attention_default();
    int64_t *const fields[] = {&a.batch,  &a.q_len, &a.kv_len, &a.q_heads, &a.k_heads, &a.v_heads,
                               &a.qk_dim, &a.v_dim, &a.window, &a.q_total, &a.kv_total};
    fill(fields, sizeof fields / sizeof *fields, &random);
    int64_t *const strides[] = {&a.q_strides.batch, &a.k_strides.row, &a.o_strides.head, &a.o_strides.row};
    if (round & 1)
      fill(strides, sizeof strides / sizeof *strides, &random);
    a.mask = round & 2 ? HR_MASK_NONE : HR_MASK_CAUSAL;
    int64_t count;
    assert_counted(hr_attention_entries(&a, &count));
    assert_counted(hr_attention_flops(&a, &count));
    assert_counted(hr_attention_bytes(&a, &count));
    assert_counted(hr_attention_lse_elements(&a, &count));
    assert_counted(hr_attention_check(&a, NULL));
    for (hr_attention_operand which = HR_OPERAND_Q; which <= HR_OPERAND_O; which++) {
      (void)hr_attention_strides(&a, which);
      assert_counted(hr_attention_span(&a, which, &count));
    }
  }
}

/* Sums whose parts are near 63 bits, by hand. */
static void attention_entries_near_63_bits_are_counted_or_refused(void **state)
{
  (void)state;
  const int64_t large = INT64_C(1) << 32; /* 1 + 2 + … + 2^32 is above 2^63 */
  hr_attention a = hr_attention_default();
  int64_t entries;
  a.q_len = 3, a.kv_len = large + 1; /* 2^32 + 1, 2^32, 2^32 - 1 */
  assert_int_equal(hr_attention_entries(&a, &entries), HR_OK);
  assert_int_equal(entries, 3 * large);
  a.q_len = a.kv_len = large - 1; /* 2^32 (2^32 - 1) / 2 */
  assert_int_equal(hr_attention_entries(&a, &entries), HR_OK);
  assert_int_equal(entries, (large >> 1) * (large - 1));
  a.q_len = a.kv_len = large;
  assert_int_equal(hr_attention_entries(&a, &entries), HR_ERROR_OVERFLOW);
}

static void decode_calls_of_any_sizes_are_counted_or_refused(void **state)
{
  (void)state;
  uint64_t random = 3;
  for (int round = 0; round < ROUNDS; round++) {
    hr_decode d = hr_decode_default();
    int64_t *const fields[] = {&d.batch, &d.q_len,  &d.kv_len, &d.q_heads,   &d.k_heads,    &d.v_heads,    &d.qk_dim,
                               &d.v_dim, &d.window, &d.top_k,  &d.page_size, &d.page_count, &d.table_pitch};
    fill(fields, sizeof fields / sizeof *fields, &random);
    int64_t count;
    assert_counted(hr_decode_flops(&d, &count));
    assert_counted(hr_decode_bytes(&d, &count));
    assert_counted(hr_decode_check(&d, NULL));
    (void)hr_decode_q_strides(&d), (void)hr_decode_o_strides(&d);
    (void)hr_decode_k_strides(&d), (void)hr_decode_v_strides(&d);
  }
}

/* The sum of a negative length's triangle would be positive. */
static void negative_and_huge_lengths_overflow(void **state)
{
  (void)state;
  hr_attention a = hr_attention_default();
  int64_t count = 7;
  a.q_len = -4;
  assert_int_equal(hr_attention_entries(&a, &count), HR_ERROR_OVERFLOW);
  a.q_len = 1, a.kv_len = INT64_MAX;
  assert_int_equal(hr_attention_flops(&a, &count), HR_ERROR_OVERFLOW);
  hr_decode d = hr_decode_default();
  d.q_len = INT64_MAX; /* of which each would be counted for itself */
  assert_int_equal(hr_decode_flops(&d, &count), HR_ERROR_OVERFLOW);
  d.q_len = 1, d.qk_dim = -64;
  assert_int_equal(hr_decode_bytes(&d, &count), HR_ERROR_OVERFLOW);
  assert_int_equal(count, 7);
}

static void no_heads_have_no_slopes(void **state)
{
  (void)state;
  float slopes[2] = {-1, -1};
  hr_attention_alibi_slopes(0, slopes + 1);
  hr_attention_alibi_slopes(INT64_MIN, slopes + 1);
  assert_true(slopes[0] == -1 && slopes[1] == -1);
  hr_attention_alibi_slopes(1, slopes);
  assert_true(slopes[0] == 0.00390625F && slopes[1] == -1); /* 2^(−8 · 1 / 1) */
}

static void texts_of_no_size_are_not_written(void **state)
{
  (void)state;
  char text[2] = "?";
  const char *const names[] = {"llama-2-7b", "llama-2-13b"};
  hr_suggest_names("llama-2-7", names, 2, text, 0);
  assert_string_equal(text, "?");
  hr_suggest_names("llama-2-7", names, 2, text, 1);
  assert_string_equal(text, "");
  hr_operator op = {.id = HR_OP_QKV_TRANSFORM};
  hr_operator_name(&op, text, 0);
  assert_string_equal(text, "");
}

static void a_forked_child_closes_its_copy_of_a_device(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_device_open("cpu", 2, &device, &error), error);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    alarm(20); /* ends a child that waits for threads that it does not have */
    hr_device_close(device);
    _exit(0);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  hr_device_close(device);
}

static void an_output_at_the_address_of_an_input_is_refused(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  static _Alignas(64) float x[64], y[64], z[64];
  _Alignas(64) static unsigned char workspace[65536];
  hr_plan *plan = NULL;

  hr_gemm g = hr_gemm_default();
  g.dtype = HR_FP32;
  assert_ok(hr_plan_gemm(device, &g, NULL, &plan, &error), error);
  assert_true(hr_plan_workspace_bytes(plan) <= sizeof workspace);
  assert_int_equal(
      hr_plan_run_gemm(plan, &(hr_gemm_arguments){sizeof(hr_gemm_arguments), x, y, y, NULL}, workspace, NULL, &error),
      HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "the output has the address of an input"));
  assert_ok(
      hr_plan_run_gemm(plan, &(hr_gemm_arguments){sizeof(hr_gemm_arguments), x, x, y, NULL}, workspace, NULL, &error),
      error);
  hr_plan_free(plan);
  hr_device_close(device);

  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  hr_attention a = hr_attention_default();
  a.dtype = HR_FP32;
  assert_ok(hr_plan_attention(device, &a, "attention_naive", &plan, &error), error);
  assert_true(hr_plan_workspace_bytes(plan) <= sizeof workspace);
  hr_attention_arguments arguments = hr_attention_arguments_default();
  arguments.q = x, arguments.k = y, arguments.v = y, arguments.o = x;
  assert_int_equal(hr_plan_run_attention(plan, &arguments, workspace, NULL, &error), HR_ERROR_INVALID);
  arguments.o = z;
  assert_ok(hr_plan_run_attention(plan, &arguments, workspace, NULL, &error), error);
  hr_plan_free(plan);

  hr_decode d = hr_decode_default();
  d.dtype = HR_FP32;
  assert_ok(hr_plan_decode(device, &d, "decode_naive", &plan, &error), error);
  assert_true(hr_plan_workspace_bytes(plan) <= sizeof workspace);
  hr_decode_arguments of = hr_decode_arguments_default();
  of.q = x, of.k = y, of.v = y, of.o = y;
  assert_int_equal(hr_plan_run_decode(plan, &of, workspace, NULL, &error), HR_ERROR_INVALID);
  of.o = z;
  assert_ok(hr_plan_run_decode(plan, &of, workspace, NULL, &error), error);
  hr_plan_free(plan);
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gemms_of_any_sizes_are_counted_or_refused),
      cmocka_unit_test(attention_calls_of_any_sizes_are_counted_or_refused),
      cmocka_unit_test(attention_entries_near_63_bits_are_counted_or_refused),
      cmocka_unit_test(decode_calls_of_any_sizes_are_counted_or_refused),
      cmocka_unit_test(negative_and_huge_lengths_overflow),
      cmocka_unit_test(no_heads_have_no_slopes),
      cmocka_unit_test(texts_of_no_size_are_not_written),
      cmocka_unit_test(a_forked_child_closes_its_copy_of_a_device),
      cmocka_unit_test(an_output_at_the_address_of_an_input_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
