/* SPDX-License-Identifier: Apache-2.0 */
/* A decode call of some slots: its lengths and page table on the device. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/device/kv_cache.h"

#include <inttypes.h>
#include <string.h>

#define GAP_MAX 512 /* numbers that are uploaded again rather than by another call */

/* Changed numbers of the uploaded table, which are uploaded together. */
typedef struct changed_range {
  int64_t first, end;
} changed_range;

static hr_status upload_range(const hr_kv_cache *cache, const changed_range *range, hr_error *error)
{
  if (range->end == range->first)
    return HR_OK;
  return hr_kv_cache_upload(cache, cache->device_table, range->first, cache->uploaded + range->first,
                            range->end - range->first, error);
}

/* Copies the pages of a slot to row `row`; the entries behind them stay what they are, numbers of pages. */
static changed_range change_row(const hr_kv_cache *cache, int64_t row, int64_t slot)
{
  const int32_t *pages = cache->table + slot * cache->pitch;
  int32_t *uploaded = cache->uploaded + row * cache->pitch;
  int64_t first = 0, end = hr_kv_cache_pages_of(cache, cache->lengths[slot]);
  while (first < end && uploaded[first] == pages[first])
    first++;
  while (end > first && uploaded[end - 1] == pages[end - 1])
    end--;
  memcpy(uploaded + first, pages + first, (size_t)(end - first) * sizeof *pages);
  return (changed_range){row * cache->pitch + first, row * cache->pitch + end};
}

static hr_status upload_pages(const hr_kv_cache *cache, int64_t count, const int64_t *slots, hr_error *error)
{
  changed_range range = {0, 0};
  for (int64_t i = 0; i < count; i++) {
    changed_range row = change_row(cache, i, slots[i]);
    if (row.first == row.end)
      continue;
    if (range.end == range.first || row.first - range.end > GAP_MAX) {
      HR_TRY(upload_range(cache, &range, error));
      range = row;
    }
    range.end = row.end;
  }
  return upload_range(cache, &range, error);
}

static hr_status upload_tables(const hr_kv_cache *cache, int64_t count, const int64_t *slots, hr_error *error)
{
  for (int64_t i = 0; i < count; i++)
    cache->list[i] = cache->lengths[slots[i]];
  HR_TRY(hr_kv_cache_upload(cache, cache->device_lengths, 0, cache->list, count, error));
  hr_status status = upload_pages(cache, count, slots, error);
  if (status != HR_OK) /* unknown what the device has: no number is equal to −1 */
    memset(cache->uploaded, 0xFF, (size_t)(cache->options.slots * cache->pitch) * sizeof *cache->uploaded);
  return status;
}

static void describe(const hr_kv_cache *cache, int64_t count, hr_decode *decode)
{
  const hr_kv_cache_options *o = &cache->options;
  decode->batch = count;
  decode->kv_len = o->tokens;
  decode->k_heads = o->k_heads;
  decode->v_heads = o->v_heads;
  decode->qk_dim = o->qk_dim;
  decode->v_dim = o->v_dim;
  decode->dtype = o->dtype;
  decode->page_size = o->page_size;
  decode->page_count = o->pages;
  decode->table_pitch = cache->pitch;
  decode->latent = o->latent;
  decode->k_strides = decode->v_strides = (hr_kv_strides){0};
  decode->cache_format = o->cache_format;
  decode->cache_scales = o->cache_scales;
  decode->k_scale_strides = decode->v_scale_strides = (hr_kv_strides){0};
}

hr_status hr_kv_cache_decode(hr_kv_cache *cache, int64_t count, const int64_t *slots, hr_decode *decode,
                             hr_decode_arguments *arguments, hr_error *error)
{
  HR_NEED(error, cache, slots, decode, arguments);
  HR_TRY(hr_check_struct_size("hr_decode", decode->struct_size, sizeof *decode, error));
  HR_TRY(hr_check_struct_size("hr_decode_arguments", arguments->struct_size, sizeof *arguments, error));
  if (count < 1 || count > cache->options.slots)
    return hr_fail(error, HR_ERROR_INVALID, "count: expected 1 to %" PRId64 ", found %" PRId64, cache->options.slots,
                   count);
  HR_TRY(hr_kv_cache_check_slots(cache, count, slots, error));
  HR_TRY(upload_tables(cache, count, slots, error));
  describe(cache, count, decode);
  arguments->k = hr_buffer_data(cache->k);
  arguments->v = cache->v ? hr_buffer_data(cache->v) : NULL;
  arguments->k_scales = cache->k_scales ? hr_buffer_data(cache->k_scales) : NULL;
  arguments->v_scales = cache->v_scales ? hr_buffer_data(cache->v_scales) : NULL;
  arguments->lengths = hr_buffer_data(cache->device_lengths);
  arguments->pages = hr_buffer_data(cache->device_table);
  arguments->page_starts = NULL;
  return HR_OK;
}
