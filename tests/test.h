/* SPDX-License-Identifier: Apache-2.0 */
/* Included by every unit test: cmocka with the headers that it requires before it.
 *
 * Environment variables of the tests:
 *   HEADROOM_TEST                 words separated by spaces, see test_asks_for(); names of formats: only these
 *   HEADROOM_TEST_SHARE           n: every nth case of a list
 *   HEADROOM_TEST_KERNEL          one kernel, or a family of them
 *   HEADROOM_TEST_SAMPLES, _SEED  number and choice of random calls
 *   HEADROOM_TEST_PROGRAMS        a folder that keeps what NVRTC compiled for the next run
 *   HEADROOM_TEST_CHECKPOINTS     a folder of checkpoints in place of tests/data/checkpoints
 *   HEADROOM_CPU_TOPOLOGY         a folder in place of /sys/devices/system (topology.sh)
 *   HEADROOM_EMULATED_CAPABILITY  compute capability of the emulated GPU, such as 80
 *   HEADROOM_EMULATED_FAULT       a mistake planted in programs for the emulated GPU (emulation/nvrtc.cpp) */
#ifndef HEADROOM_TEST_H
#define HEADROOM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <headroom/dtype.h>
#include <headroom/status.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/** Fails with the error's message unless `call` returns HR_OK. `error` is an hr_error variable. */
#define assert_ok(call, error)                    \
  do {                                            \
    if ((call) != HR_OK)                          \
      fail_msg("%s: %s", #call, (error).message); \
  } while (0)

/** Whether HEADROOM_TEST, words separated by spaces, contains `what`: "thorough" tests every size in every format, of
 *  which otherwise each format gets a share; "gpu" skips CPU kernels; "few" limits the work to what fits under a
 *  sanitizer or an emulated GPU; "whole" ignores HEADROOM_TEST_SHARE; "required" fails where a kernel does not run on
 *  this machine. */
static inline bool test_asks_for(const char *what)
{
  const char *asked = getenv("HEADROOM_TEST");
  return asked && strstr(asked, what) != NULL;
}

/** Whether HEADROOM_TEST names formats, and `dtype` is none of them. Processes can so share the formats. */
static inline bool test_leaves_out(hr_dtype dtype)
{
  bool named = false;
  for (int i = 0; i < HR_DTYPE_COUNT; i++)
    named = named || test_asks_for(hr_dtype_name((hr_dtype)i));
  return named && !test_asks_for(hr_dtype_name(dtype));
}

/** Whether case `number` of a list is tested: all are, or with HEADROOM_TEST_SHARE=n every nth. */
static inline bool test_takes(int64_t number)
{
  const char *share = getenv("HEADROOM_TEST_SHARE");
  long n = share ? strtol(share, NULL, 10) : 1;
  return n <= 1 || number % n == 0 || test_asks_for("whole");
}

#endif
