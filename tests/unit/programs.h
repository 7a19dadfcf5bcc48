/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests that compile GPU programs. */
#ifndef HR_TESTS_UNIT_PROGRAMS_H
#define HR_TESTS_UNIT_PROGRAMS_H

#include "test.h"

#include "runtime/cuda/driver/program.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const architectures[] = {"sm_80", "sm_90a", "sm_100a"};

/** Opens NVRTC; the caller closes it. Skips the test where there is none. */
static inline hr_nvrtc open_nvrtc(void)
{
  hr_nvrtc nvrtc;
  hr_error error;
  if (hr_nvrtc_open(&nvrtc, &error) != HR_OK) {
    print_message("%s\n", error.message);
    skip();
  }
  return nvrtc;
}

/** The last architectures need NVRTC 12.8. */
static inline size_t count_architectures(const hr_nvrtc *nvrtc)
{
  return 100 * nvrtc->major + nvrtc->minor < 1208 ? 2 : 3;
}

/** Compiles a program, or takes it from the folder that HEADROOM_TEST_PROGRAMS names: a key there has the whole text of
 *  a program, its options and NVRTC's version. */
static inline void build(const hr_nvrtc *nvrtc, const char *source, const char *architecture, hr_dtype dtype,
                         const char *defines)
{
  hr_program program = {.source = source, .dtype = dtype, .defines = defines};
  hr_error error;
  char *image = NULL;
  size_t bytes = 0;
  const char *folder = getenv("HEADROOM_TEST_PROGRAMS");
  snprintf(program.architecture, sizeof program.architecture, "%s", architecture);
  assert_ok(hr_program_build(nvrtc, &program, folder ? folder : "", &image, &bytes, &error), error);
  assert_memory_equal(image, "\177ELF", 4);
  free(image);
}

#endif
