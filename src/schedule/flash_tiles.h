/* SPDX-License-Identifier: Apache-2.0 */
/* How Headroom's attention kernel for Hopper, attention_flash_sm90, divides a call into tiles and work items. The
 * kernel's plans and the predictions of its times use the same rules. */
#ifndef HR_SCHEDULE_FLASH_TILES_H
#define HR_SCHEDULE_FLASH_TILES_H

#include <headroom/attention.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HR_FLASH_GROUP_ROWS 64  /* of a Q tile, that a consumer warpgroup takes */
#define HR_FLASH_SHORT_MAX 1024 /* keys, or rows of a head, of calls that have tilings of their own */
#define HR_FLASH_SHORT_KEYS 64  /* of a K/V tile of most of these tilings */

typedef struct hr_flash_tiles {
  int teams;          /* of consumer warpgroups of a block, each with Q tiles of its own */
  int consumers;      /* warpgroups of a team, HR_FLASH_GROUP_ROWS rows of a Q tile each */
  int cluster;        /* blocks that share K/V tiles */
  int keys;           /* of a K/V tile */
  bool ping_pong;     /* consumers issue their WGMMAs in turn */
  bool left_to_right; /* the order of K/V tiles, otherwise from right to left */
} hr_flash_tiles;

/** Head sizes up to 256. */
hr_flash_tiles hr_flash_sm90_tiles(const hr_attention *attention);

/** Heads are processed in `count` bands of `heads`, then one of what is left. */
typedef struct hr_flash_bands {
  int32_t heads, count;
} hr_flash_bands;

/** The `blocks` take one Q tile at a time: the last Q tiles of all heads of a band come first, then those before. In
 *  small bands K and V are read from memory once, and blocks that read them alternate with blocks that find them in the
 *  L2. Fastest on an H200: 4 Q tiles per block, at least one, and no more than a share of `cache_bytes`, the L2, holds,
 *  where Q tiles of a head are so few that each pair of them would read K and V again. Causal: up to 4096 rows one Q
 *  tile per block at most, above 8; the last band has one per block at least, long ones first, so that blocks end
 *  together. `q_tiles` is at least 1. */
hr_flash_bands hr_flash_sm90_bands(const hr_attention *attention, int64_t q_tiles, int64_t blocks, size_t cache_bytes);

/** A call on a GPU. */
typedef struct hr_flash_grid {
  hr_flash_tiles tiles; /* without clusters where their larger work items would take more rounds */
  int64_t rows;         /* of a work item: a Q tile, or those of a cluster */
  int64_t q_tiles;      /* work items of a head */
  int64_t work_items;
  int64_t at_once; /* that are processed at a time, at most */
  int64_t blocks;
  int32_t band_heads, bands; /* hr_flash_sm90_bands() */
} hr_flash_grid;

/** The grid of a call with these tiles, which may be those of a larger one. */
hr_flash_grid hr_flash_sm90_grid_of(const hr_attention *attention, hr_flash_tiles tiles, int64_t multiprocessors,
                                    size_t cache_bytes);

/** Head sizes up to 256, at least one query and one key. */
hr_flash_grid hr_flash_sm90_grid(const hr_attention *attention, int64_t multiprocessors, size_t cache_bytes);

#endif
