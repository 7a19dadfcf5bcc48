/* The attention programs compile for head sizes, masks and alignments as problems have them, in tiles that fit the
 * shared memory of the GPUs they are for, and for every architecture that they run on. Needs NVRTC, and no GPU. */
#include "test.h"

#include "runtime/cuda/attention.h"
#include "runtime/cuda/program.h"

#include <stdbool.h>
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

/* Shared memory of a block: 163 KiB in GPUs like the A100, 99 in others of that generation. */
#define SHARED_LEAST (99 << 10)
#define SHARED_MORE (163 << 10)

static const char *const architectures[] = {"sm_80", "sm_90a", "sm_100a"};

static bool thorough(void)
{
  const char *wish = getenv("HEADROOM_TEST");
  return wish && strcmp(wish, "thorough") == 0;
}

/* By turns; all, with HEADROOM_TEST=thorough. */
static bool has_a_turn(const hr_nvrtc *nvrtc, size_t architecture, size_t turn)
{
  if (architecture == 2 && 100 * nvrtc->major + nvrtc->minor < 1208)
    return false; /* not known to it yet */
  return architecture == turn % 3 || thorough();
}

static void build_for_turns(const hr_nvrtc *nvrtc, const char *source, hr_dtype dtype, const char *defines, size_t turn)
{
  for (size_t i = 0; i < 3; i++) {
    if (has_a_turn(nvrtc, i, turn))
      build_attention(nvrtc, source, architectures[i], dtype, defines);
  }
}

/* tf32, whose program is the same for the most part, in one of the two. */
static void build_tiled(const hr_nvrtc *nvrtc, hr_attention a, hr_dtype dtype, size_t turn)
{
  char defines[HR_DEFINES_SIZE];
  a.dtype = dtype;
  hr_flash_sm80 least = hr_flash_sm80_choose(&a, SHARED_LEAST), more = hr_flash_sm80_choose(&a, SHARED_MORE);
  assert_true(least.shared_bytes <= SHARED_LEAST && more.shared_bytes <= SHARED_MORE);
  if (dtype != HR_TF32 || turn % 2 == 0 || thorough()) {
    hr_flash_sm80_defines(&least, turn % 4 == 0, false, defines);
    build_for_turns(nvrtc, "attention_flash_sm80", dtype, defines, turn);
  }
  if (dtype != HR_TF32 || turn % 2 == 1 || thorough()) {
    hr_flash_sm80_defines(&more, turn % 4 == 1, a.qk_dim % 8 == 0, defines);
    build_for_turns(nvrtc, "attention_flash_sm80", dtype, defines, turn + 1);
  }
}

static void build_others(const hr_nvrtc *nvrtc, hr_attention a, hr_dtype dtype, size_t turn)
{
  char defines[HR_DEFINES_SIZE];
  hr_flash_fp32 exact = hr_flash_fp32_choose(&a, SHARED_MORE);
  assert_true(exact.shared_bytes <= SHARED_MORE);
  hr_flash_fp32_defines(&exact, turn % 3 == 2, turn % 2 == 0 && a.qk_dim % 8 == 0, defines);
  build_for_turns(nvrtc, "attention_flash_fp32", HR_FP32, defines, turn);
  hr_flash_sm90 hopper = hr_flash_sm90_choose(&a);
  assert_true(hopper.shared_bytes <= 227 << 10);
  hr_flash_sm90_defines(&hopper, defines);
  build_attention(nvrtc, "attention_flash_sm90", "sm_90a", dtype, defines);
}

static void attention_compiles_for_every_head_size_and_architecture(void **state)
{
  (void)state;
  hr_nvrtc nvrtc;
  hr_error error;
  if (hr_nvrtc_open(&nvrtc, &error) != HR_OK) {
    print_message("%s\n", error.message);
    skip();
  }
  for (size_t i = 0; i < sizeof head_sizes / sizeof *head_sizes; i++) {
    hr_attention a = hr_attention_default();
    a.qk_dim = head_sizes[i][0], a.v_dim = head_sizes[i][1];
    hr_dtype dtype = i % 2 ? HR_FP16 : HR_BF16;
    build_tiled(&nvrtc, a, dtype, i);
    build_tiled(&nvrtc, a, HR_TF32, i + 1);
    build_others(&nvrtc, a, dtype, i);
  }
  hr_nvrtc_close(&nvrtc);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(attention_compiles_for_every_head_size_and_architecture)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
