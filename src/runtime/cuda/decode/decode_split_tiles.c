/* SPDX-License-Identifier: Apache-2.0 */
/* The definitions of kernels/decode_split.cu; schedule/decode_tiles.c chooses its tiles and splits. */
#include "base/checked.h"
#include "runtime/cuda/decode/decode.h"
#include "schedule/split_keys.h"

#include <inttypes.h>
#include <stdio.h>

_Static_assert(HR_SPLITS_MAX == HR_DECODE_SPLITS_MAX, "the kernel has room for the splits");
_Static_assert(HR_DECODE_ROWS * 8 == HR_DECODE_GROUP_ROWS, "a group has up to eight Q tiles");
_Static_assert(HR_DECODE_WARP_KEYS == HR_DECODE_KEYS, "the rules' tiles are those of the kernel");

const char *hr_decode_cache_define(const hr_decode *d)
{
  static const char *const defines[HR_KV_READABLE_COUNT] = {"", " HR_CACHE_FP8", " HR_CACHE_INT8"};
  return defines[d->cache_format];
}

void hr_decode_split_defines(const hr_decode_split *t, const hr_decode *d, int copy_bytes, char text[HR_DEFINES_SIZE])
{
  const char *aligned = copy_bytes == 16  ? " HR_ALIGNED HR_COPY_BYTES=16"
                        : copy_bytes == 4 ? " HR_ALIGNED HR_COPY_BYTES=4"
                                          : "";
  bool in_page = d->page_size % HR_DECODE_KEYS == 0 || d->table_pitch == 1;
  snprintf(text, HR_DEFINES_SIZE,
           "HR_Q_LEN=%d HR_HEADS=%d HR_UNIT_HEADS=%d HR_PARTS=%d HR_QK=%d HR_V=%d HR_K_HEADS=%d HR_V_HEADS=%d "
           "HR_K_GROUP=%d HR_V_GROUP=%d "
           "HR_WARPS=%d HR_STAGES=%d HR_MIN_BLOCKS=%d HR_CLUSTER=%d HR_PAGE_SIZE=%" PRId64 "%s%s%s%s%s%s%s%s%s%s",
           (int)d->q_len, t->heads, t->unit_heads, t->parts, t->qk, t->v, t->k_heads, t->v_heads,
           (int)(d->q_heads / d->k_heads), (int)(d->q_heads / d->v_heads), t->warps, t->stages, t->min_blocks,
           t->cluster, d->table_pitch == 1 ? 0 : hr_min64(d->page_size, INT64_C(1) << 30), t->early ? " HR_EARLY" : "",
           t->lets_next ? " HR_LETS_NEXT" : "", d->softcap > 0 ? " HR_SOFTCAP" : "", aligned,
           in_page ? " HR_CHUNK_IN_PAGE" : "", t->apart ? " HR_APART" : "", hr_decode_cache_define(d),
           t->token_scales ? " HR_TOKEN_SCALES" : "", t->shares > 0 ? " HR_SHARES" : "", t->wgmma ? " HR_WGMMA" : "");
}
