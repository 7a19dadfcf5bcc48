/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of an operand. Where the host can access device memory, it begins or ends at a guard page; elsewhere it is
 * between margins that are compared afterwards. */
#ifndef HR_HARNESS_PLACE_H
#define HR_HARNESS_PLACE_H

#include "harness.h"

#include <headroom/buffer.h>

#define POISON 0xFF /* NaN in every format, −1 as an integer */

typedef struct place {
  void *data; /* on the device; NULL for none */
  char *host; /* copy on the host: the values written, and after place_bring() the values found */
  size_t bytes;
  void *map;
  size_t map_bytes;
  hr_buffer *buffer;
  size_t margin;
} place;

/** Where an operand is. */
typedef struct placing {
  size_t alignment; /* bytes; where it ends at a guard page, or is not at_start, no larger power of two */
  bool at_start;    /* begins at the guard page, or aligned; false: ends there */
  size_t shift;     /* bytes from there on, if at_start */
} placing;

/** Makes poisoned memory. */
place place_make(hr_device *device, size_t bytes, placing at);
void place_free(place *p);

/** Frees the memory of a device with its own, but no host's: the values stay. */
void place_free_on_device(place *p);

/** The same bytes at another address. */
void place_send(const place *p);
void place_bring(place *p);

/** The same bytes in newly made memory, up to 1 KiB behind its beginning, with the same offset from a multiple of 16;
 *  `bits` are random and decide where. Returns memory that is in the way meanwhile, to be freed, or NULL. */
hr_buffer *place_again(hr_device *device, const place *old, uint64_t bits, place *p);

/** Fails unless every byte around the operand is still poison, and of its elements every one but those that `written`
 *  marks; NULL: all are. */
void place_assert_rest(const place *p, const bool *written, size_t element, const char *what);

/** Runs a plan with these arguments of its operation. The workspace is poisoned, and clear of counters; on a CPU it
 *  begins or ends at a guard page, and nothing around it may be written. */
hr_status run_arguments(const hr_plan *plan, const hr_arguments *arguments, bool at_start, hr_error *error);

#endif
