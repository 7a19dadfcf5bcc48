/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions of fuzz targets. A failure ends the process, so that a fuzzer keeps the input. */
#ifndef HEADROOM_FUZZ_EXPECT_H
#define HEADROOM_FUZZ_EXPECT_H

#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition)                                                     \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                \
    }                                                                         \
  } while (0)

#endif
