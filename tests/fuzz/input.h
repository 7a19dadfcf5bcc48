/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the bytes of an input into a model and a workload.
 *
 * The configuration ends at the first NUL; the bytes behind it choose the workload: phase, attention, dtype, dropout,
 * then b, s, context, t and p in 8 bytes each. Missing bytes leave the values of hr_workload_default(). */
#ifndef HEADROOM_FUZZ_INPUT_H
#define HEADROOM_FUZZ_INPUT_H

#include <headroom/experimental/headroom.h>

typedef struct fuzz_input {
  hr_model model;
  hr_workload workload;
  bool chosen; /* the input has a workload of its own */
} fuzz_input;

/** False if the configuration is refused. */
bool fuzz_read_input(const uint8_t *data, size_t size, fuzz_input *input);

#endif
