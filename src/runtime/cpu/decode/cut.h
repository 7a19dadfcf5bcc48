/* SPDX-License-Identifier: Apache-2.0 */
/* How a decode call is divided into tasks, and the layout of its workspace. */
#ifndef HR_RUNTIME_CPU_DECODE_CUT_H
#define HR_RUNTIME_CPU_DECODE_CUT_H

#include "runtime/cpu/decode/version.h"
#include "runtime/device/plan.h"
#include "runtime/operation/decode_sequences.h"

/** Keys of a split, which begins at a multiple of it. Constant, so that results depend neither on the batch nor on the
 *  number of threads. */
#define HR_SPLIT_KEYS 1024

/** A group is some units of a sequence, whose heads of a token are read together. A task is a group and one split, and
 *  stores its sums, which the last task of the group merges; or, where there are enough groups, a group and all splits
 *  in order. Both add in the same order. */
typedef struct hr_split_cut {
  hr_decode_unit unit;
  int64_t group_units, groups;                             /* of a sequence; the last may have fewer */
  int64_t unit_rows;                                       /* query rows: heads · q_len */
  int64_t k_rows;                                          /* of a K head, with tiles in whole tiles */
  int block;                                               /* keys */
  int64_t q_pitch, o_pitch;                                /* floats */
  int64_t splits;                                          /* of a sequence, at most; 1: a task has all of them */
  bool direct;                                             /* steps, but where O would not be finite */
  int64_t p_pitch;                                         /* bytes of a row of weights, with tiles */
  size_t q, s, p, factor, scratch, part, sums, slot_bytes; /* of a thread, from its slot's start */
  size_t sums_bytes;                                       /* of a group */
  size_t done, stored;                                     /* behind the slots: counters and sums of the tasks */
  size_t bytes;
} hr_split_cut;

/** HR_ERROR_OVERFLOW if the workspace exceeds 63 bits. */
hr_status hr_split_cut_make(const hr_decode *decode, bool tiles, int threads, hr_split_cut *cut, hr_error *error);

/** The most bytes of the workspace of this call and of any with fewer sequences. */
hr_status hr_split_bytes_max(const hr_decode *decode, bool tiles, int threads, size_t *bytes, hr_error *error);

/** The splits of a sequence of `length` tokens: number `first` and on; at least one, which may have no keys. */
typedef struct hr_split_range {
  int64_t first, count;
} hr_split_range;

hr_split_range hr_split_range_of(const hr_decode *decode, int64_t length);

#endif
