/* SPDX-License-Identifier: Apache-2.0 */
/* FLOPs and bytes of scans and short convolutions. Pure functions. */
#ifndef HR_MODEL_LAYERS_SCAN_COUNTS_H
#define HR_MODEL_LAYERS_SCAN_COUNTS_H

#include "base/checked.h"

#include <headroom/model.h>

typedef struct hr_scan_counts {
  hr_checked64 flops;           /* of a token */
  hr_checked64 inputs, outputs; /* elements of a token */
  hr_checked64 state_bytes;     /* of a sequence */
  hr_checked64 chunk_bytes;     /* that kernels move for the state of each chunk of a sequence */
} hr_scan_counts;

/** What a call computes and moves; `moved`: with the states of chunks. */
typedef struct hr_scan_totals {
  hr_checked64 flops, bytes, moved;
} hr_scan_totals;

/** The totals of `sequences` with `tokens` together, which move their final states so many times. `chunks`: of a
 *  sequence. */
hr_scan_totals hr_total_scan(const hr_scan_counts *counts, hr_dtype dtype, int64_t tokens, int64_t sequences,
                             int64_t state_moves, int64_t chunks);

/** Chunks of a sequence whose states go through memory; 0: token by token. */
int64_t hr_scan_chunks(const hr_mixer_scan *m, int64_t length, bool updates);

/** The scan of a mixer over sequences of `length` tokens, or one token by one. */
hr_scan_counts hr_count_scan(const hr_mixer_scan *m, int64_t length, bool updates);

/** The convolution of a mixer. */
hr_scan_counts hr_count_convolution(const hr_mixer_scan *m, hr_dtype dtype);

#endif
