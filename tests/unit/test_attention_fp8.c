/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of fp8 operands with a scale per head, against numbers worked out by hand. */
#include "test.h"

#include <headroom/experimental/headroom.h>
#include <math.h>
#include <string.h>

/* E4M3: 1, 2, −1, 0.5 */
enum { ONE = 0x38, TWO = 0x40, MINUS_ONE = 0xB8, HALF = 0x30 };

static float from_bf16(uint16_t bits)
{
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

/* Two query heads that share a K head and have a V head each; one query, two keys, head sizes 2 and 1. */
static hr_attention two_heads(void)
{
  hr_attention a = hr_attention_default();
  a.q_heads = 2, a.k_heads = 1, a.v_heads = 2;
  a.kv_len = 2, a.qk_dim = 2, a.v_dim = 1;
  a.mask = HR_MASK_NONE, a.scale = 1;
  a.dtype = HR_FP8_E4M3, a.output = HR_OUTPUT_BF16, a.head_scales = true;
  a.alignment = 1;
  return a;
}

/* Scores of head 0: 0.5 · 2 · (1·1 + 2·2) = 5 and 0.5 · 2 · (1·(−1) + 2·1) = 1; of head 1: 3 · 2 · (0.5·1) = 3 and −3.
 * Weights of head 0: 1 / (1 + e^−4) = 0.98201 and 0.01799, of head 1: 1 / (1 + e^−6) = 0.99753 and 0.00247.
 * V of head 0: 4 · 1, 4 · (−1), of head 1: 0.25 · 2, 0.25 · 0.5. O: 4 · (0.98201 − 0.01799) = 3.85611,
 * 0.25 · (2 · 0.99753 + 0.5 · 0.00247) = 0.49907. */
static void scales_belong_to_the_heads_of_their_operand(void **state)
{
  (void)state;
  static const uint8_t q[] = {ONE, TWO, HALF, 0}, k[] = {ONE, TWO, MINUS_ONE, ONE}, v[] = {ONE, TWO, MINUS_ONE, HALF};
  static const float q_scales[] = {0.5F, 3}, k_scales[] = {2}, v_scales[] = {4, 0.25F};
  _Alignas(64) static char workspace[4096];
  hr_attention a = two_heads();
  hr_device *device = NULL;
  hr_plan *plan = NULL;
  hr_error error;
  uint16_t o[2] = {0};
  float lse[2] = {0};
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  assert_ok(hr_plan_attention(device, &a, NULL, &plan, &error), error);
  assert_true(hr_plan_workspace_bytes(plan) <= sizeof workspace);
  hr_attention_arguments x = hr_attention_arguments_default();
  x.q = q, x.k = k, x.v = v, x.o = o, x.lse = lse, x.q_scales = q_scales, x.k_scales = k_scales;
  assert_int_equal(hr_plan_run_attention(plan, &x, workspace, NULL, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "v_scales: an address is needed, found NULL");
  x.v_scales = v_scales;
  assert_ok(hr_plan_run_attention(plan, &x, workspace, NULL, &error), error);
  assert_true(fabs((double)from_bf16(o[0]) - 3.85611) <= 3.85611 / 256);
  assert_true(fabs((double)from_bf16(o[1]) - 0.49907) <= 0.49907 / 256);
  assert_true(fabs((double)lse[0] - (5 + log1p(exp(-4)))) < 1e-6);
  assert_true(fabs((double)lse[1] - (3 + log1p(exp(-6)))) < 1e-6);
  hr_plan_free(plan);
  hr_device_close(device);
}

static void decode_kernels_do_not_take_calls_with_scales(void **state)
{
  (void)state;
  hr_attention a = two_heads();
  hr_decode decode = hr_decode_default();
  hr_error error;
  assert_int_equal(hr_decode_from_attention(&a, &decode, &error), HR_ERROR_UNSUPPORTED);
  assert_string_equal(error.message, "decode kernels have no scales of heads and no other format of O");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scales_belong_to_the_heads_of_their_operand),
      cmocka_unit_test(decode_kernels_do_not_take_calls_with_scales),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
