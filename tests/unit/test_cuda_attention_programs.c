/* The attention programs compile for head sizes, masks and alignments as problems have them, in tiles that fit the
 * shared memory of the GPUs they are for. Needs NVRTC, and no GPU. */
#include "test.h"

#include "runtime/cuda/attention.h"
#include "runtime/cuda/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* qk_dim, v_dim */
static const int64_t head_sizes[][2] = {{128, 128}, {64, 64}, {256, 256}, {192, 128}, {7, 19}};

static void build_attention(const hr_nvrtc *nvrtc, const char *source, const char *architecture, hr_dtype dtype,
                            const char *defines)
{
  hr_program program = {.source = source, .dtype = dtype, .defines = defines};
  hr_error error;
  char *image = NULL;
  size_t bytes = 0;
  snprintf(program.architecture, sizeof program.architecture, "%s", architecture);
  assert_ok(hr_program_build(nvrtc, &program, "", &image, &bytes, &error), error);
  assert_memory_equal(image, "\177ELF", 4);
  free(image);
}

static void attention_compiles_for_every_head_size(void **state)
{
  (void)state;
  hr_nvrtc nvrtc;
  hr_error error;
  char defines[HR_DEFINES_SIZE];
  if (hr_nvrtc_open(&nvrtc, &error) != HR_OK) {
    print_message("%s\n", error.message);
    skip();
  }
  for (size_t i = 0; i < sizeof head_sizes / sizeof *head_sizes; i++) {
    hr_attention a = hr_attention_default();
    a.qk_dim = head_sizes[i][0], a.v_dim = head_sizes[i][1];
    hr_dtype dtype = i % 2 ? HR_FP16 : HR_BF16;
    /* Shared memory of a block: 163 KiB in GPUs like the A100, 99 in others of that generation. */
    hr_flash_sm80 least = hr_flash_sm80_choose(&a, 99 << 10), more = hr_flash_sm80_choose(&a, 163 << 10);
    assert_true(least.shared_bytes <= 99 << 10 && more.shared_bytes <= 163 << 10);
    hr_flash_sm80_defines(&least, i % 3 == 0, false, defines);
    build_attention(&nvrtc, "attention_flash_sm80", "sm_80", dtype, defines);
    hr_flash_sm80_defines(&more, i % 3 == 1, a.qk_dim % 8 == 0, defines);
    build_attention(&nvrtc, "attention_flash_sm80", i % 2 ? "sm_90a" : "sm_80", dtype, defines);
    hr_flash_fp32 exact = hr_flash_fp32_choose(&a, 163 << 10);
    assert_true(exact.shared_bytes <= 163 << 10);
    hr_flash_fp32_defines(&exact, i % 3 == 2, i % 2 == 0 && a.qk_dim % 8 == 0, defines);
    build_attention(&nvrtc, "attention_flash_fp32", i % 2 ? "sm_90a" : "sm_80", HR_FP32, defines);
    hr_flash_sm90 hopper = hr_flash_sm90_choose(&a);
    assert_true(hopper.shared_bytes <= 227 << 10);
    hr_flash_sm90_defines(&hopper, defines);
    build_attention(&nvrtc, "attention_flash_sm90", "sm_90a", dtype, defines);
  }
  hr_nvrtc_close(&nvrtc);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(attention_compiles_for_every_head_size)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
