/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts that the host code and the programs of all-reduces share. C includes this header, and NVRTC compiles it into
 * the programs. */
#ifndef HR_RUNTIME_CUDA_KERNELS_ALL_REDUCE_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_ALL_REDUCE_LAYOUT_H

#include "runtime/cuda/kernels/attention_layout.h"

enum {
  HR_ALL_REDUCE_RANKS_MAX = 8,
  HR_ALL_REDUCE_THREADS = 512,
  HR_ALL_REDUCE_NORM_THREADS = 512,
  HR_ALL_REDUCE_BLOCKS_MAX = 128, /* of all_reduce_blocks */
  HR_PACKET_BYTES = 16,           /* of a slab, with flags */
  HR_PACKET_DATA = 8,             /* bytes of them */
  HR_SLAB_HEAD = 16384,           /* bytes: the numbers below, and flags of blocks behind 256 bytes */
  HR_VECTOR_BYTES = 16,           /* of all_reduce_blocks, without flags */
  HR_BLOCKS_VECTORS = 1 << 20,    /* of a message: 16 MiB */
  HR_ONE_SHOT_PACKETS = 1 << 17,  /* of a message: 1 MiB */
  HR_TWO_SHOT_PACKETS = 1 << 20,  /* 8 MiB */
  HR_COPIES_RANKS_MAX = 4,        /* of all_reduce_copies */
  HR_COPIES_PLACES = 8,           /* calls that are under way */
  HR_COPIES_BYTES = 16 << 20,     /* of a message */
  HR_COPIES_THREADS = 256         /* of a block */
};

/** Numbers in the head of a rank's slab, 32 bits each: calls of each kind that are over, and blocks of this one. */
typedef enum hr_slab_number { HR_SLAB_ONE_SHOT, HR_SLAB_TWO_SHOT, HR_SLAB_IN_BLOCKS, HR_SLAB_ENDED } hr_slab_number;

/* Behind the head each kind has rooms for two calls in turn, with a part for each rank that sends: of one shot whole
 * messages; of two shots parts of them, to be added up and then the sums. */
HR_LAYOUT_FUNCTION hr_layout_int64 hr_slab_one_shot(int call, int ranks, int from)
{
  return HR_SLAB_HEAD + ((hr_layout_int64)call * ranks + from) * HR_ONE_SHOT_PACKETS * HR_PACKET_BYTES;
}

HR_LAYOUT_FUNCTION hr_layout_int64 hr_slab_two_shot(int call, int shot, int ranks, int from)
{
  const hr_layout_int64 part = HR_TWO_SHOT_PACKETS / ranks + 1;
  return hr_slab_one_shot(2, ranks, 0) + (((hr_layout_int64)call * 2 + shot) * ranks + from) * part * HR_PACKET_BYTES;
}

/* The same of vectors, whose flags are apart: a number for each shot, rank and block. */
HR_LAYOUT_FUNCTION hr_layout_int64 hr_slab_in_blocks(int call, int shot, int ranks, int from)
{
  const hr_layout_int64 part = HR_BLOCKS_VECTORS / ranks + 1;
  return hr_slab_two_shot(2, 0, ranks, 0) +
         (((hr_layout_int64)call * 2 + shot) * ranks + from) * part * HR_VECTOR_BYTES;
}

HR_LAYOUT_FUNCTION hr_layout_int64 hr_slab_flag(int shot, int from, int block)
{
  return 256 + ((hr_layout_int64)(shot * HR_ALL_REDUCE_RANKS_MAX + from) * HR_ALL_REDUCE_BLOCKS_MAX + block) * 4;
}

/* Behind all: whole messages that copy engines bring, for each call that is under way and each other rank. */
HR_LAYOUT_FUNCTION hr_layout_int64 hr_slab_copies(int place, int ranks, int to, int from)
{
  const int other = (from - to + ranks) % ranks - 1;
  return hr_slab_in_blocks(2, 0, ranks, 0) + ((hr_layout_int64)place * (ranks - 1) + other) * HR_COPIES_BYTES;
}

/** Numbers of a place of copies: calls that were sent from here, that were added up here, blocks of the one that is;
 *  and of each other rank the calls that have come from there, and those of this rank that it has added up. */
typedef enum hr_slab_place {
  HR_PLACE_SENT,
  HR_PLACE_TAKEN,
  HR_PLACE_ENDED,
  HR_PLACE_COME = 8,
  HR_PLACE_READ = 16,
  HR_PLACE_NUMBERS = 32
} hr_slab_place;

HR_LAYOUT_FUNCTION hr_layout_int64 hr_slab_number_of_place(int place, int number)
{
  return hr_slab_flag(2, 0, 0) + ((hr_layout_int64)place * HR_PLACE_NUMBERS + number) * 4;
}

HR_LAYOUT_FUNCTION hr_layout_int64 hr_slab_bytes(int ranks)
{
  return ranks > HR_COPIES_RANKS_MAX ? hr_slab_in_blocks(2, 0, ranks, 0)
                                     : hr_slab_copies(HR_COPIES_PLACES, ranks, 0, 1);
}

/** The parameter of all programs. */
typedef struct hr_all_reduce_call {
  HR_DEVICE_POINTER(const element) send;
  HR_DEVICE_POINTER(element) receive;
  HR_DEVICE_POINTER(const element) residual; /* with a norm, as the next two: [rows, columns] */
  HR_DEVICE_POINTER(element) sum;
  HR_DEVICE_POINTER(const element) weight; /* [columns] */
  HR_DEVICE_POINTER(char) slabs[HR_ALL_REDUCE_RANKS_MAX];
  HR_DEVICE_POINTER(volatile int) missing; /* in the host's memory: 1 + a rank that has not come; the host may set it */
  hr_layout_int64 count;                   /* elements */
  hr_layout_int64 columns;
  hr_layout_int64 patience_ns;
  int rank;
  int place;      /* of copies */
  int by_element; /* addresses are no multiples of what a thread moves at once */
  float epsilon;
} hr_all_reduce_call;

#endif
