/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/decode/cut.h"

#include "base/checked.h"
#include "base/error.h"

#include <headroom/experimental/decode.h>

#define TASKS_PER_THREAD 4             /* at least, so that a late thread gets less of the work */
#define GROUPS_PER_THREAD 32           /* of which each may be of another length */
#define GROUP_BYTES ((int64_t)1 << 20) /* Q and O of a group, which stay in a core's cache */
#define BLOCK_BYTES ((int64_t)1 << 19) /* K and V of a block with tiles: two of them are in a core's cache */

hr_dtype hr_split_format(const hr_decode *decode)
{
  switch (decode->cache_format) {
  case HR_KV_FP8: return HR_FP8_E4M3;
  case HR_KV_INT8: return (hr_dtype)HR_SPLIT_INT8;
  default: return decode->dtype;
  }
}

hr_split_range hr_split_range_of(const hr_decode *decode, int64_t length)
{
  hr_key_range keys = hr_decode_range(decode, length);
  int64_t first = keys.first / HR_SPLIT_KEYS;
  return (hr_split_range){first, hr_max64(1, hr_ceil_div(keys.end, HR_SPLIT_KEYS) - first)};
}

/* All units where the heads of a token are neighbours in memory; fewer where threads would have no work, or Q and O
 * would not stay in a cache. */
static int64_t choose_group_units(const hr_decode *d, const hr_split_cut *c, int64_t splits, int threads)
{
  hr_kv_strides k = hr_decode_k_strides(d);
  int64_t units = k.head < k.token ? c->unit.count : 1;
  int64_t each = c->unit_rows * (c->q_pitch + 2 * c->o_pitch) * (int64_t)sizeof(float);
  double tasks = (double)d->batch * (double)splits, wanted = (double)TASKS_PER_THREAD * threads;
  while (units > 1 && (tasks * (double)hr_ceil_div(c->unit.count, units) < wanted || units * each > GROUP_BYTES))
    units = (units + 1) / 2;
  return units;
}

static hr_checked64 floats(int64_t a, int64_t b)
{
  return hr_times(hr_times(hr_checked(a), b), sizeof(float));
}

/* Returns the keys of a block. With tiles these are as many as let two blocks stay in a core's cache. The number
 * depends on the call's shape alone, because results must. */
static int choose_block(const hr_decode *d, const hr_split_cut *c, bool tiles)
{
  if (!tiles)
    return HR_SPLIT_BLOCK;
  hr_kv_strides k = hr_decode_k_strides(d);
  int64_t units = k.head < k.token ? c->unit.count : 1;
  int64_t values = d->latent ? 0 : c->unit.v_heads * d->v_dim;
  int64_t token = units * (c->unit.k_heads * d->qk_dim + values) * (int64_t)hr_decode_cache_bytes(d);
  int block = HR_SPLIT_BLOCK_MAX;
  while (block > HR_SPLIT_BLOCK && token > BLOCK_BYTES / block)
    block /= 2;
  return block;
}

/* A block of K, where its rows are no tiles in memory, or of packed V, in bf16. */
static hr_checked64 tile_scratch(const hr_split_cut *c)
{
  return hr_times(hr_checked(hr_max64(c->q_pitch, c->o_pitch)), 2 * (c->block + HR_SPLIT_PAD));
}

static hr_checked64 place_slot(hr_split_cut *c, bool tiles, hr_checked64 rows)
{
  hr_checked64 end = hr_checked(0), sums = hr_plus(hr_times(rows, c->o_pitch + 2), hr_checked(2 * HR_SPLIT_PAD));
  hr_checked64 scratch = hr_larger(floats(HR_SPLIT_SCRATCH_KEYS, c->q_pitch), floats(HR_SPLIT_SCRATCH_VALUES, 1));
  int64_t scores = c->k_rows * c->unit.k_heads;
  if (tiles)
    scratch = tile_scratch(c);
  c->q = hr_place(&end, hr_times(floats(scores, c->q_pitch), c->group_units));
  c->s = hr_place(&end, floats(scores, c->block));
  c->p = hr_place(&end, hr_times(hr_checked(c->unit_rows), c->p_pitch));
  c->factor = hr_place(&end, floats(c->unit_rows, 1));
  c->scratch = hr_place(&end, scratch);
  sums = hr_times(sums, sizeof(float));
  c->part = hr_place(&end, sums);
  c->sums = hr_place(&end, sums);
  c->sums_bytes = c->sums - c->part;
  c->slot_bytes = hr_place(&end, hr_checked(0));
  return end;
}

hr_status hr_split_cut_make(const hr_decode *d, bool tiles, int threads, hr_split_cut *cut, hr_error *error)
{
  hr_split_cut c = {.unit = hr_decode_units(d)};
  c.unit_rows = c.unit.q_heads * d->q_len;
  c.k_rows = hr_round_up(c.unit_rows / c.unit.k_heads, tiles ? HR_SPLIT_TILE : 1);
  c.q_pitch = hr_round_up(d->qk_dim, HR_SPLIT_PAD);
  c.o_pitch = hr_round_up(d->v_dim, HR_SPLIT_PAD);
  if (hr_times(floats(c.unit_rows, c.q_pitch + 2 * c.o_pitch), 4 * c.unit.count).overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the workspace exceeds 63 bits");
  c.block = choose_block(d, &c, tiles);
  c.direct = tiles && c.unit_rows / c.unit.v_heads <= HR_SPLIT_TILE;
  c.p_pitch = tiles ? (c.direct ? 8 : 2) * (c.block + HR_SPLIT_PAD) : 0;
  int64_t keys = hr_decode_keys_max(d);
  int64_t splits = hr_ceil_div(keys, HR_SPLIT_KEYS) + (d->window > 0); /* a window may begin within a split */
  c.group_units = choose_group_units(d, &c, hr_max64(1, splits), threads);
  c.groups = hr_ceil_div(c.unit.count, c.group_units);
  c.splits = d->batch * c.groups < (int64_t)GROUPS_PER_THREAD * threads ? hr_max64(1, splits) : 1;
  hr_checked64 end = place_slot(&c, tiles, hr_times(hr_checked(c.unit_rows), c.group_units));
  end = hr_times(end, threads);
  int64_t groups = c.splits > 1 ? d->batch * c.groups : 0;
  c.done = hr_place(&end, hr_times(hr_checked(groups), sizeof(int64_t)));
  c.stored = hr_place(&end, hr_times(hr_times(hr_checked(groups), c.splits), (int64_t)c.sums_bytes));
  int64_t bytes;
  if (hr_checked_take(end, &bytes) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the workspace exceeds 63 bits");
  c.bytes = (size_t)bytes;
  *cut = c;
  return HR_OK;
}

hr_status hr_split_bytes_max(const hr_decode *d, bool tiles, int threads, size_t *bytes, hr_error *error)
{
  hr_decode fewer = *d;
  hr_split_cut cut;
  /* With more sequences each has one split. */
  int64_t divided = hr_min64(d->batch, (int64_t)GROUPS_PER_THREAD * threads);
  *bytes = 0;
  for (fewer.batch = 1; fewer.batch <= divided; fewer.batch++) {
    HR_TRY(hr_split_cut_make(&fewer, tiles, threads, &cut, error));
    *bytes = cut.bytes > *bytes ? cut.bytes : *bytes;
  }
  HR_TRY(hr_split_cut_make(d, tiles, threads, &cut, error));
  *bytes = cut.bytes > *bytes ? cut.bytes : *bytes;
  return HR_OK;
}
