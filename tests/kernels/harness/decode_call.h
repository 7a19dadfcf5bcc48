/* SPDX-License-Identifier: Apache-2.0 */
/* A decode call on a device, compared with attention over the same tokens in order, without cache and pages. */
#ifndef HR_HARNESS_DECODE_CALL_H
#define HR_HARNESS_DECODE_CALL_H

#include "harness.h"

#include <headroom/decode.h>

typedef enum decode_special {
  DECODE_FINITE,
  DECODE_NAN_IN_K,      /* of the last token of each sequence: an element, or its scale where it has one */
  DECODE_INFINITY_IN_V, /* the same */
  DECODE_SPECIALS
} decode_special;

typedef struct decode_setup {
  hr_decode d;
  const int32_t *lengths; /* [d.batch]; NULL: all kv_len */
  bool shuffled;          /* the page table is passed, in random order; otherwise NULL */
  bool listed;            /* with `shuffled`: page numbers are one list, the last sequence's first, with page_starts */
  bool inline_scales;     /* behind the elements of each head; d has such strides */
  bool unaligned;         /* Q, K and V begin at addresses that are multiples of an element alone */
  decode_special special;
  bool exactly;       /* what is not finite in V must not reach queries that do not see it */
  bool whole_numbers; /* Q and K are −1, 0 and 1: scores are exact, and many are equal */
  uint64_t seed;
} decode_setup;

/** Runs the call and compares O and log-sum-exp: as many rows as take `multiply_adds` multiply-adds of the reference,
 *  at least the first and the last. Everything in the cache that is no token's (behind a sequence's end, unused pages,
 *  gaps) is NaN, O is poisoned, and gaps of O must stay. Returns false if the kernel refuses the problem; fails the
 *  test with the wrong element. */
bool decode_try(hr_device *device, const char *kernel, const decode_setup *setup, int64_t multiply_adds);

/* ---- calls ---- */

#define DECODE_BATCH_MAX 4

/** One query of `heads` (Q, K, V) of `dim` (Q and K, V) over kv_len tokens. */
decode_setup decode_call_of(const int64_t heads[3], const int64_t dim[2], int64_t kv_len, hr_dtype dtype);

/** Pages in random order, in every second call as one list; 0: contiguous. */
void decode_set_pages(decode_setup *setup, int64_t page_size);

/** The cases are distributed over the formats; with HEADROOM_TEST=thorough each format gets all. */
bool decode_has_a_turn(int64_t number, hr_dtype dtype);

/** A random number from first to last; advances the state. */
int64_t decode_drawn(uint64_t *state, int64_t first, int64_t last);

/** Draws what masks or changes scores, and special numbers. */
void decode_draw_scores(decode_setup *setup, uint64_t *state);

/** Draws lengths, which `lengths` keeps, and pages. */
void decode_draw_sequences(decode_setup *setup, uint64_t *state, int32_t lengths[DECODE_BATCH_MAX]);

/** Calls `check` with HEADROOM_TEST_SAMPLES numbers (otherwise `samples`) that HEADROOM_TEST_SEED chooses. */
void decode_each_sample(hr_device *device, const char *kernel, hr_dtype dtype, int64_t samples,
                        void (*check)(hr_device *device, const char *kernel, hr_dtype dtype, uint64_t seed));

#endif
