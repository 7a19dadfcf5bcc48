/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of ranks that travel in pieces of rows, each beside the arithmetic of other rows. */
#ifndef HR_SCHEDULE_PIECES_H
#define HR_SCHEDULE_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#define HR_PIECES_MAX 4
#define HR_PIECE_BYTES (INT64_C(16) << 20)        /* of a message, at most: 8 MiB gained less */
#define HR_PIECES_LEAST_BYTES (INT64_C(24) << 20) /* of what is divided */
#define HR_PIECES_DEVICES_MAX 4                   /* whose copy engines send */

/** Pieces of a sum of so many bytes, with messages that copy engines take; four, which they do not, above 64 MiB. */
static inline int64_t hr_usual_pieces(int64_t bytes)
{
  const int64_t pieces = bytes / HR_PIECE_BYTES + (bytes % HR_PIECE_BYTES != 0);
  return bytes < HR_PIECES_LEAST_BYTES ? 1 : pieces < HR_PIECES_MAX ? pieces : HR_PIECES_MAX;
}

/** Whether they are sent in so many pieces between so many devices that see each other's memory. */
static inline bool hr_sum_travels_beside(int64_t bytes, int64_t devices)
{
  const int64_t pieces = hr_usual_pieces(bytes);
  return devices >= 2 && devices <= HR_PIECES_DEVICES_MAX && pieces > 1 && bytes <= pieces * HR_PIECE_BYTES;
}

#endif
