/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction set masks, and the ceiling loops of each instruction set. Rates are not tested, because they depend on
 * the machine. */
#include "test.h"

#include "hardware/hardware.h"
#include "runtime/cpu/ceilings/loops.h"
#include "runtime/cpu/host/isa.h"

#include <headroom/device.h>
#include <headroom/experimental/hardware.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static hr_isa everything(void)
{
  return (hr_isa){
      .avx2 = true, .avx512 = true, .avx512_bf16 = true, .avx512_fp16 = true, .amx_bf16 = true, .neon = true};
}

static size_t level_count(void)
{
  size_t count = 0;
  while (hr_isa_level(count))
    count++;
  return count;
}

static void a_mask_allows_the_named_instruction_set_and_all_below_it(void **state)
{
  (void)state;
  hr_error error;
  const size_t levels = level_count();
  for (size_t last = 0; last < levels; last++) {
    hr_isa isa = everything();
    assert_ok(hr_isa_mask(&isa, hr_isa_level(last), &error), error);
    for (size_t i = 0; i < levels; i++)
      assert_int_equal(hr_isa_has(&isa, hr_isa_level(i)), i <= last);
    assert_int_equal(isa.masked, last + 1 < levels);
  }
  hr_isa isa = everything();
  assert_ok(hr_isa_mask(&isa, "portable", &error), error);
  for (size_t i = 0; i < levels; i++)
    assert_false(hr_isa_has(&isa, hr_isa_level(i)));
}

static void a_mask_allows_nothing_that_the_processor_lacks(void **state)
{
  (void)state;
  hr_isa isa = {.avx2 = true, .neon = true};
  hr_error error;
  const size_t levels = level_count();
  assert_ok(hr_isa_mask(&isa, hr_isa_level(levels - 1), &error), error);
  assert_true(hr_isa_has(&isa, hr_isa_level(0)));
  for (size_t i = 1; i < levels; i++)
    assert_false(hr_isa_has(&isa, hr_isa_level(i)));
  assert_false(isa.masked);
  isa = everything();
  assert_ok(hr_isa_mask(&isa, NULL, &error), error);
  assert_ok(hr_isa_mask(&isa, "", &error), error);
  assert_true(hr_isa_has(&isa, hr_isa_level(levels - 1)));
}

static void an_unknown_instruction_set_is_refused_by_name(void **state)
{
  (void)state;
  static const char *const words[] = {"avx", "AVX2", "sse", "avx2,avx512", "1"};
  hr_error error;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    hr_isa isa = everything();
    assert_int_equal(hr_isa_mask(&isa, words[i], &error), HR_ERROR_INVALID);
    assert_non_null(strstr(error.message, "HEADROOM_CPU_MASK: expected portable"));
    assert_non_null(strstr(error.message, words[i]));
    assert_true(hr_isa_has(&isa, hr_isa_level(level_count() - 1)));
  }
}

static void the_device_opens_with_the_mask_of_the_environment(void **state)
{
  (void)state;
  hr_device *device;
  hr_hardware free_rates, masked_rates;
  hr_error error;
  unsetenv("HEADROOM_CPU_MASK");
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  assert_ok(hr_device_detect(device, &free_rates, &error), error);
  hr_device_close(device);
  setenv("HEADROOM_CPU_MASK", "portable", 1);
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  assert_ok(hr_device_detect(device, &masked_rates, &error), error);
  hr_device_close(device);
  assert_true(masked_rates.dense_flops_per_s[HR_FP32] <= free_rates.dense_flops_per_s[HR_FP32]);
  assert_true(masked_rates.dense_flops_per_s[HR_BF16] == 0);
  setenv("HEADROOM_CPU_MASK", "mmx", 1);
  assert_int_equal(hr_device_open("cpu", 1, &device, &error), HR_ERROR_INVALID);
  for (size_t i = 0; hr_isa_level(i); i++)
    assert_non_null(strstr(error.message, hr_isa_level(i)));
  assert_non_null(strstr(error.message, "found \"mmx\""));
  unsetenv("HEADROOM_CPU_MASK");
}

static hr_isa here(void)
{
  hr_isa isa;
  hr_error error;
  assert_ok(hr_isa_read(&isa, &error), error);
  return isa;
}

/* The sum after n steps from the loops' initial values: x = 2^-x, in double. */
static double exponentials(int64_t steps, int values)
{
  double sum = 0;
  for (int i = 0; i < values; i++) {
    double x = (float)((i * 37 + 11) % 101) / 101.0f;
    for (int64_t step = 0; step < steps; step++)
      x = exp2(-x);
    sum += x;
  }
  return sum;
}

/* The error of a step shrinks in the next one, because the slope of 2^-x is below 0.7. So the error of a sum is below
 * 2.4e-7 / (1 − 0.7) times its values, and one step shows the polynomial's error alone. */
static void exponentials_agree_with_the_c_library_within_a_few_ulp(void **state)
{
  (void)state;
  size_t count;
  const hr_cpu_loop *loops = hr_cpu_loops(&count);
  hr_isa isa = here();
  for (size_t i = 0; i < count; i++) {
    if (loops[i].kind != HR_CEILING_EXP || (loops[i].needs && !hr_isa_has(&isa, loops[i].needs)))
      continue;
    int values = (int)loops[i].count;
    for (int64_t steps = 1; steps <= 20; steps++) {
      double expected = exponentials(steps, values), got = loops[i].run(steps);
      assert_true(fabs(got - expected) < 8e-7 * expected + 1e-6 * values); /* and of the sum in fp32 */
    }
  }
}

/* The loops multiply and divide alternately, or accumulate the same terms, so the result is linear in the steps. */
static void gemm_loops_run_the_requested_number_of_steps(void **state)
{
  (void)state;
  size_t count;
  const hr_cpu_loop *loops = hr_cpu_loops(&count);
  hr_isa isa = here();
  for (size_t i = 0; i < count; i++) {
    if (loops[i].kind != HR_CEILING_GEMM || (loops[i].needs && !hr_isa_has(&isa, loops[i].needs)))
      continue;
    double none = loops[i].run(0), one = loops[i].run(1), many = loops[i].run(48);
    if (loops[i].dtype == HR_FP32) {
      assert_true(none > 0);
      assert_true(fabs(one - none) < 1e-4 * none && fabs(many - none) < 1e-3 * none);
    } else {
      assert_true(fabs(one - none) > 1e-3);
      assert_true(fabs((many - none) - 48 * (one - none)) < 1e-3 * fabs(many - none));
    }
  }
}

static void a_read_depends_on_every_word(void **state)
{
  (void)state;
  enum { BYTES = 4096 };
  _Alignas(64) unsigned char data[BYTES];
  size_t count;
  const hr_cpu_loop *loops = hr_cpu_loops(&count);
  hr_isa isa = here();
  for (size_t i = 0; i < count; i++) {
    if (!loops[i].read || (loops[i].needs && !hr_isa_has(&isa, loops[i].needs)))
      continue;
    memset(data, 0, sizeof data);
    assert_true(loops[i].read(data, BYTES) == 0);
    for (size_t at = 0; at < BYTES; at += 8) {
      data[at] = 1;
      assert_true(loops[i].read(data, BYTES) != 0);
      data[at] = 0;
    }
    assert_true(loops[i].read(data, 0) == 0);
  }
}

static void the_probe_measures_a_ceiling_for_each_loop_that_can_run(void **state)
{
  (void)state;
  hr_device *device;
  hr_hardware hardware;
  hr_error error;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  assert_ok(hr_device_probe(device, NULL, NULL, &hardware, &error), error);
  hr_device_close(device);
  hr_isa isa = here();
  assert_true(hr_hardware_ceiling(&hardware, HR_CEILING_GEMM, HR_FP32) > 0);
  assert_true(hr_hardware_ceiling(&hardware, HR_CEILING_EXP, HR_FP32) > 0);
  assert_true(hr_hardware_ceiling(&hardware, HR_CEILING_READ, HR_FP32) > 0);
  assert_true(hr_hardware_ceiling(&hardware, HR_CEILING_COPY, HR_FP32) > 0);
  assert_int_equal(hr_hardware_ceiling(&hardware, HR_CEILING_GEMM, HR_BF16) > 0, isa.avx512_bf16 || isa.amx_bf16);
  assert_true(hr_hardware_ceiling(&hardware, HR_CEILING_GEMM, HR_FP64) == 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_mask_allows_the_named_instruction_set_and_all_below_it),
      cmocka_unit_test(a_mask_allows_nothing_that_the_processor_lacks),
      cmocka_unit_test(an_unknown_instruction_set_is_refused_by_name),
      cmocka_unit_test(the_device_opens_with_the_mask_of_the_environment),
      cmocka_unit_test(exponentials_agree_with_the_c_library_within_a_few_ulp),
      cmocka_unit_test(gemm_loops_run_the_requested_number_of_steps),
      cmocka_unit_test(a_read_depends_on_every_word),
      cmocka_unit_test(the_probe_measures_a_ceiling_for_each_loop_that_can_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
