/* SPDX-License-Identifier: Apache-2.0 */
/* How Headroom's decode kernels divide the heads of a call, and decode_split.cu its keys, among thread blocks. The
 * kernels' plans and the predictions of their times use the same rules. */
#ifndef HR_SCHEDULE_DECODE_TILES_H
#define HR_SCHEDULE_DECODE_TILES_H

#include <headroom/decode.h>

#define HR_DECODE_WARP_KEYS 16 /* that a warp of decode_split.cu processes at a time */

/** Query heads that are computed together: the fewest whose K heads and V heads nobody else needs, so that each is read
 *  once. */
typedef struct hr_decode_unit {
  int64_t count;   /* units of a sequence */
  int64_t q_heads; /* of a unit */
  int64_t k_heads, v_heads;
} hr_decode_unit;

hr_decode_unit hr_decode_units(const hr_decode *decode);

/** Keys of a sequence of kv_len tokens that at least one query sees. */
int64_t hr_decode_keys_read(const hr_decode *decode);

/** What of a GPU decides a configuration. */
typedef struct hr_decode_gpu {
  int64_t multiprocessors;
  size_t shared_max; /* bytes of a block */
  size_t shared_of_multiprocessor;
  int cluster_max; /* blocks of a cluster; 1: none */
  bool early;      /* hr_cuda_launch_grid_early(): from compute capability 9.0 on */
  bool shares;     /* blocks may have equal shares of all sequences' keys: the program combines by itself */
  bool wgmma;      /* compute capability 9.0 */
} hr_decode_gpu;

/** Tiles and splits of decode_split.cu. */
typedef struct hr_decode_split {
  int qk, v;             /* head sizes, rounded up to 16 */
  int unit_heads, parts; /* query heads that share K and V heads; groups that they are divided into */
  int heads, rows;       /* query heads of a group, of the last part perhaps fewer; rows of Q that they use */
  int tiles;             /* Q tiles of a group; with WGMMA four or eight */
  bool wgmma;            /* the warps of a team multiply their tiles at once */
  int k_heads, v_heads;  /* that its heads read */
  int element_bytes;     /* of K and V */
  bool token_scales;     /* each key has its own */
  int warps, stages;     /* whole teams */
  int min_blocks;        /* resident per multiprocessor */
  int splits;
  int cluster;    /* splits if the blocks of a group are a cluster, otherwise 1 */
  int shares;     /* of all sequences' keys, a block for each group of a sequence; 0: `splits` divides each group's */
  bool apart;     /* another launch combines the splits */
  bool early;     /* the program waits for the kernel before */
  bool lets_next; /* and lets the next one's blocks start ahead of the combining */
  size_t shared_bytes;
} hr_decode_split;

/** Head sizes up to 256. The largest group of query heads that share K and V heads whose rows fit the Q tiles and whose
 *  heads' stages fit shared memory; if a K or V head is needed by several groups, they read it from the L2. */
hr_decode_split hr_decode_split_choose(const hr_decode *decode, const hr_decode_gpu *gpu);

/** Steps of a sequence of kv_len tokens, of which blocks with equal shares have whole numbers: a chunk of each warp. */
int64_t hr_decode_split_steps(const hr_decode_split *tiles, const hr_decode *decode);

int64_t hr_decode_split_blocks(const hr_decode_split *tiles, const hr_decode *decode);

/** Groups of all sequences. */
int64_t hr_decode_split_groups(const hr_decode_split *tiles, const hr_decode *decode);

/** Warps that process the same keys: one for each Q tile, with WGMMA four. */
int hr_decode_team(const hr_decode_split *tiles);

/** Bytes of shared memory of one of its blocks: hr_decode_layout of runtime/cuda/kernels/decode_layout.h. */
size_t hr_decode_split_shared_bytes(const hr_decode_split *tiles);

#endif
