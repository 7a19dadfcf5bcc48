/* SPDX-License-Identifier: Apache-2.0 */
/* A decode call of some slots: its lengths and page table on the device. */
#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "runtime/device/kv_cache.h"

#include <inttypes.h>
#include <string.h>

#define GAP_MAX 512 /* numbers that are uploaded again rather than by another call */

/* Changed numbers of the uploaded table, which are uploaded together. */
typedef struct changed_range {
  int64_t first, end;
} changed_range;

static hr_status upload_range(hr_kv_cache *cache, const changed_range *range, void *stream, hr_error *error)
{
  if (range->end == range->first)
    return HR_OK;
  hr_kv_numbers pages = {hr_kv_cache_numbers(cache->device_table, range->first), cache->uploaded + range->first,
                         (size_t)(range->end - range->first)};
  return hr_kv_cache_upload(cache, &pages, stream, error);
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

static hr_status upload_pages(hr_kv_cache *cache, int64_t count, const int64_t *slots, void *stream, hr_error *error)
{
  changed_range range = {0, 0};
  for (int64_t i = 0; i < count; i++) {
    changed_range row = change_row(cache, i, slots[i]);
    if (row.first == row.end)
      continue;
    if (range.end == range.first || row.first - range.end > GAP_MAX) {
      HR_TRY(upload_range(cache, &range, stream, error));
      range = row;
    }
    range.end = row.end;
  }
  return upload_range(cache, &range, stream, error);
}

static hr_status upload_tables(hr_kv_cache *cache, int64_t count, const int64_t *slots, void *stream, hr_error *error)
{
  for (int64_t i = 0; i < count; i++)
    cache->selected[i] = cache->lengths[slots[i]];
  hr_kv_numbers lengths = {hr_kv_cache_numbers(cache->device_lengths, 0), cache->selected, (size_t)count};
  HR_TRY(hr_kv_cache_upload(cache, &lengths, stream, error));
  hr_status status = upload_pages(cache, count, slots, stream, error);
  if (status != HR_OK)
    hr_kv_cache_forget_table(cache);
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

static hr_status check_count(const hr_kv_cache *cache, const char *name, int64_t count, hr_error *error)
{
  if (count < 1 || count > cache->options.slots)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected 1 to %" PRId64 ", found %" PRId64, name, cache->options.slots,
                   count);
  return HR_OK;
}

hr_status hr_kv_cache_select(hr_kv_cache *cache, int64_t count, const int64_t *slots, void *stream, hr_error *error)
{
  HR_NEED(error, cache, slots);
  HR_TRY(hr_kv_cache_check_owner(cache, error));
  HR_TRY(hr_check_stream(cache->device, stream, error));
  HR_TRY(check_count(cache, "count", count, error));
  HR_TRY(hr_kv_cache_check_slots(cache, count, slots, error));
  return upload_tables(cache, count, slots, stream, error);
}

hr_status hr_kv_cache_decode(const hr_kv_cache *cache, int64_t batch, hr_decode *decode, hr_decode_arguments *arguments,
                             hr_error *error)
{
  HR_NEED(error, cache, decode, arguments);
  HR_TRY(hr_check_struct(decode, sizeof *decode, "hr_decode", error));
  HR_TRY(hr_check_struct(arguments, sizeof *arguments, "hr_decode_arguments", error));
  HR_TRY(check_count(cache, "batch", batch, error));
  describe(cache, batch, decode);
  arguments->k = hr_buffer_data(cache->k);
  arguments->v = cache->v ? hr_buffer_data(cache->v) : NULL;
  arguments->k_scales = cache->k_scales ? hr_buffer_data(cache->k_scales) : NULL;
  arguments->v_scales = cache->v_scales ? hr_buffer_data(cache->v_scales) : NULL;
  arguments->lengths = hr_buffer_data(cache->slots_of->device_lengths);
  arguments->pages = hr_buffer_data(cache->slots_of->device_table);
  arguments->page_starts = NULL;
  return HR_OK;
}
