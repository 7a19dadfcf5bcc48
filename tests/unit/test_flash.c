/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of flash attention on the CPU: its exponential and its memory. */
#include "test.h"

#include "runtime/cpu/flash/blocks.h"
#include "runtime/cpu/host/isa.h"

#include <math.h>

/* Errors in units of 2^-24 (half the spacing of fp32 at 1), relative. */
static const struct {
  const char *needs; /* required instruction set; NULL: none */
  const hr_flash_version *version;
  double allowed;
} versions[] = {
    {NULL, &hr_flash_portable, 2.5},
#if defined(__x86_64__)
    {"avx2", &hr_flash_avx2, 2.5},      {"avx512", &hr_flash_avx512, 2.5}, {"avx512_bf16", &hr_flash_avx512_bf16, 52},
    {"avx512_bf16", &hr_flash_amx, 52},
#elif defined(__aarch64__)
    {"neon", &hr_flash_neon, 2.5},
#endif
};

#define VERSION_COUNT (sizeof versions / sizeof *versions)

static bool there_is(const char *needs)
{
  hr_isa isa;
  hr_error error;
  assert_ok(hr_isa_read(&isa, &error), error);
  return !needs || hr_isa_has(&isa, needs);
}

static double worst_error(const hr_flash_version *version)
{
  float x[1024], y[1024];
  double worst = 0;
  for (int i = 0; i < 1 << 21; i += 1024) {
    for (int j = 0; j < 1024; j++)
      x[j] = y[j] = (float)-(i + j) / 16384; /* −128 … 0 */
    version->exp2(y, 1024);
    for (int j = 0; j < 1024; j++)
      if (x[j] >= -126)
        worst = fmax(worst, fabs((double)y[j] / exp2((double)x[j]) - 1));
  }
  return worst;
}

static void powers_of_two_are_as_accurate_as_the_format_of_the_weights_needs(void **state)
{
  (void)state;
  for (size_t i = 0; i < VERSION_COUNT; i++) {
    if (!there_is(versions[i].needs))
      continue;
    double worst = worst_error(versions[i].version) * 0x1p24;
    if (!(worst <= versions[i].allowed))
      fail_msg("version %d is off by %g, allowed %g", (int)i, worst, versions[i].allowed);
  }
}

static void powers_of_two_of_infinities_and_nan_are_right(void **state)
{
  (void)state;
  for (size_t i = 0; i < VERSION_COUNT; i++) {
    if (!there_is(versions[i].needs))
      continue;
    float x[] = {0, -1, 3, -INFINITY, 127, NAN, -1e30F, -126, -150};
    versions[i].version->exp2(x, 9);
    assert_true(x[0] == 1 && x[1] == 0.5F && x[2] == 8);
    assert_true(x[3] == 0 && x[4] == 0x1p127F && isnan(x[5]));
    assert_true(x[6] == 0 && x[7] == 0x1p-126F && x[8] == 0);
  }
}

static hr_attention shape(int64_t kv_len, const int64_t heads[3], int64_t dim)
{
  hr_attention a = hr_attention_default();
  a.q_len = 1024, a.kv_len = kv_len;
  a.q_heads = heads[0], a.k_heads = heads[1], a.v_heads = heads[2];
  a.qk_dim = a.v_dim = dim;
  return a;
}

static void a_thread_uses_at_most_four_mebibytes_whatever_the_number_of_keys(void **state)
{
  (void)state;
  const int64_t heads[][3] = {{12, 12, 12}, {32, 8, 8}, {32, 4, 16}, {71, 1, 1}, {12, 3, 4}};
  for (size_t v = 0; v < VERSION_COUNT; v++)
    for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
      for (int64_t dim = 32; dim <= 512; dim *= 2) {
        hr_attention few = shape(1024, heads[h], dim), many = shape((int64_t)1 << 29, heads[h], dim);
        hr_flash_blocks blocks = hr_flash_cut(&few, versions[v].version, 4, 2 << 20);
        assert_true(blocks.slot_bytes <= (size_t)4 << 20);
        assert_int_equal(hr_flash_cut(&many, versions[v].version, 4, 2 << 20).slot_bytes, blocks.slot_bytes);
      }
}

static void every_query_of_every_head_is_in_one_work_item(void **state)
{
  (void)state;
  const int64_t heads[][3] = {{1, 1, 1}, {32, 4, 16}, {71, 1, 1}, {12, 3, 4}};
  for (int threads = 1; threads <= 100; threads += 33)
    for (size_t h = 0; h < sizeof heads / sizeof *heads; h++) {
      hr_attention a = shape(100, heads[h], 64);
      hr_flash_blocks b = hr_flash_cut(&a, &hr_flash_portable, threads, 0);
      assert_true(b.groups * b.group_heads == a.q_heads);
      assert_true(b.head_parts * b.item_heads >= b.group_heads && (b.head_parts - 1) * b.item_heads < b.group_heads);
      assert_true(b.query_blocks * b.item_queries >= a.q_len && (b.query_blocks - 1) * b.item_queries < a.q_len);
      assert_true(b.items == b.groups * b.head_parts * b.query_blocks);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(powers_of_two_are_as_accurate_as_the_format_of_the_weights_needs),
      cmocka_unit_test(powers_of_two_of_infinities_and_nan_are_right),
      cmocka_unit_test(a_thread_uses_at_most_four_mebibytes_whatever_the_number_of_keys),
      cmocka_unit_test(every_query_of_every_head_is_in_one_work_item),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
