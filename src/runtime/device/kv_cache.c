/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/kv_cache.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Sets page_size and pages where they are 0. */
static hr_status set_pages(hr_kv_cache *cache, hr_error *error)
{
  hr_kv_cache_options *o = &cache->options;
  bool given = o->pages > 0;
  o->page_size = o->page_size > 0 ? o->page_size : o->tokens;
  cache->pitch = hr_ceil_div(o->tokens, o->page_size);
  int64_t all = cache->pitch * o->slots;
  o->pages = given ? o->pages : all;
  if (all > INT32_MAX || o->pages + 4 * o->slots > INT32_MAX)
    return hr_fail(error, HR_ERROR_OVERFLOW, "%s: %" PRId64 " pages in tables of %" PRId64 " do not fit 31 bits",
                   given ? "pages" : "slots", o->pages, all);
  return HR_OK;
}

/* ---- memory ---- */

static int64_t list_size(const hr_kv_cache *cache)
{
  return (4 + cache->pitch) * cache->options.slots; /* as many parts as slots */
}

/* A part of the array of numbers; before that exists, only counted. */
static int32_t *part(const hr_kv_cache *cache, int64_t *at, int64_t count)
{
  int32_t *first = cache->numbers ? cache->numbers + *at : NULL;
  *at += count;
  return first;
}

static int64_t divide_numbers(hr_kv_cache *cache)
{
  const hr_kv_cache_options *o = &cache->options;
  int64_t end = 0;
  cache->lengths = part(cache, &end, o->slots);
  cache->table = part(cache, &end, o->slots * cache->pitch);
  cache->uploaded = part(cache, &end, o->slots * cache->pitch);
  cache->free_pages = part(cache, &end, o->pages);
  cache->free_slots = part(cache, &end, o->slots);
  cache->listed = part(cache, &end, o->slots);
  cache->selected = part(cache, &end, o->slots);
  cache->list = part(cache, &end, list_size(cache));
  return end;
}

static hr_status create_numbers(hr_kv_cache *cache, hr_error *error)
{
  cache->numbers = calloc((size_t)divide_numbers(cache), sizeof *cache->numbers);
  if (!cache->numbers)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the tables of a KV cache");
  divide_numbers(cache);
  for (int64_t slot = 0; slot < cache->options.slots; slot++) {
    cache->lengths[slot] = -1;
    cache->free_slots[slot] = (int32_t)(cache->options.slots - 1 - slot);
  }
  for (int64_t page = 0; page < cache->options.pages; page++)
    cache->free_pages[page] = (int32_t)(cache->options.pages - 1 - page);
  cache->free_slot_count = cache->options.slots;
  cache->free_page_count = cache->options.pages;
  return HR_OK;
}

static hr_status create_rows(const hr_kv_cache *cache, const char *name, int64_t heads, int64_t dim, size_t element,
                             hr_buffer **buffer, hr_error *error)
{
  const hr_kv_cache_options *o = &cache->options;
  hr_checked64 row = hr_times(hr_checked(heads), dim);
  hr_checked64 bytes = hr_times(hr_times(hr_times(row, o->pages), o->page_size), (int64_t)element);
  if (bytes.overflow || row.value > INT32_MAX)
    return hr_fail(error, HR_ERROR_OVERFLOW, "%s: %" PRId64 " pages of %" PRId64 " tokens of %" PRId64 " × %" PRId64,
                   name, o->pages, o->page_size, heads, dim);
  return hr_buffer_create(cache->device, (size_t)bytes.value, buffer, error);
}

/* Uploads the scales of heads, 1 where `given` is NULL. */
static hr_status upload_scales(hr_buffer *buffer, const float *given, int64_t heads, hr_error *error)
{
  float *scales = malloc((size_t)heads * sizeof *scales);
  if (!scales)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the scales of a KV cache");
  for (int64_t i = 0; i < heads; i++)
    scales[i] = given ? given[i] : 1;
  hr_status status = hr_buffer_write(buffer, scales, (size_t)heads * sizeof *scales, error);
  free(scales);
  return status;
}

static hr_status create_scales(const hr_kv_cache *cache, const char *name, int64_t heads, const float *given,
                               hr_buffer **buffer, hr_error *error)
{
  const hr_kv_cache_options *o = &cache->options;
  if (o->cache_format == HR_KV_UNQUANTIZED)
    return HR_OK;
  if (o->cache_scales == HR_KV_SCALE_TOKEN)
    return create_rows(cache, name, heads, 1, sizeof(float), buffer, error);
  HR_TRY(hr_buffer_create(cache->device, (size_t)heads * sizeof(float), buffer, error));
  return upload_scales(*buffer, given, heads, error);
}

static hr_status create_buffers(hr_kv_cache *cache, hr_error *error)
{
  const hr_kv_cache_options *o = &cache->options;
  size_t element = o->cache_format == HR_KV_UNQUANTIZED ? hr_dtype_bytes(o->dtype) : 1;
  HR_TRY(create_rows(cache, "K", o->k_heads, o->qk_dim, element, &cache->k, error));
  HR_TRY(create_scales(cache, "scales of K", o->k_heads, o->k_scales, &cache->k_scales, error));
  if (!o->latent) {
    HR_TRY(create_rows(cache, "V", o->v_heads, o->v_dim, element, &cache->v, error));
    HR_TRY(create_scales(cache, "scales of V", o->v_heads, o->v_scales, &cache->v_scales, error));
  }
  return HR_OK;
}

static hr_status create_lists(hr_kv_cache *cache, hr_error *error)
{
  const size_t slots = (size_t)cache->options.slots, row_bytes = (size_t)cache->pitch * sizeof(int32_t);
  HR_TRY(hr_buffer_create(cache->device, (size_t)list_size(cache) * sizeof(int32_t), &cache->device_list, error));
  HR_TRY(hr_buffer_create(cache->device, slots * row_bytes, &cache->device_table, error));
  HR_TRY(hr_buffer_create(cache->device, slots * sizeof(int32_t), &cache->device_lengths, error));
  return hr_buffer_write(cache->device_table, cache->uploaded, slots * row_bytes, error);
}

static hr_status prepare(hr_kv_cache *cache, hr_error *error)
{
  const hr_backend *backend = cache->device->backend;
  if (!backend->append_tokens)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: has no KV cache", cache->device->name);
  return backend->prepare_cache ? backend->prepare_cache(cache->device, cache, error) : HR_OK;
}

static hr_status check_shared(const hr_kv_cache *cache, hr_error *error)
{
  const hr_kv_cache *of = cache->slots_of;
  const hr_kv_cache_options *a = &cache->options, *b = &of->options;
  if (of->slots_of != of)
    return hr_fail(error, HR_ERROR_INVALID, "slots_of: has the slots of another cache itself");
  if (of->device != cache->device)
    return hr_fail(error, HR_ERROR_INVALID, "slots_of: is a cache of another device");
  if (a->page_size != b->page_size || a->slots != b->slots || a->tokens != b->tokens || a->pages != b->pages)
    return hr_fail(error, HR_ERROR_INVALID, "slots_of: has other page_size, slots, tokens or pages");
  return HR_OK;
}

static hr_status create(hr_kv_cache *cache, hr_error *error)
{
  HR_TRY(set_pages(cache, error));
  HR_TRY(prepare(cache, error));
  if (cache->slots_of != cache) {
    HR_TRY(check_shared(cache, error));
    return create_buffers(cache, error);
  }
  HR_TRY(create_numbers(cache, error));
  HR_TRY(create_buffers(cache, error));
  return create_lists(cache, error);
}

hr_status hr_kv_cache_create(hr_device *device, const hr_kv_cache_options *options, hr_kv_cache **cache,
                             hr_error *error)
{
  HR_NEED(error, device, options, cache);
  HR_TAKE(hr_kv_cache_options, options, error);
  HR_TRY(hr_kv_cache_check_options(options, error));
  hr_kv_cache *created = calloc(1, sizeof *created);
  if (!created)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a KV cache's description");
  created->device = device;
  created->options = *options;
  created->slots_of = options->slots_of ? options->slots_of : created;
  hr_status status = create(created, error);
  created->options.k_scales = created->options.v_scales = NULL; /* the caller's */
  if (status != HR_OK) {
    hr_kv_cache_free(created);
    return status;
  }
  *cache = created;
  return HR_OK;
}

void hr_kv_cache_free(hr_kv_cache *cache)
{
  if (!cache)
    return;
  hr_buffer *const buffers[] = {cache->k,
                                cache->v,
                                cache->k_scales,
                                cache->v_scales,
                                cache->device_list,
                                cache->device_table,
                                cache->device_lengths};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    hr_buffer_free(buffers[i]);
  free(cache->numbers);
  free(cache);
}

/* ---- slots ---- */

int64_t hr_kv_cache_pages_free(const hr_kv_cache *cache)
{
  return cache->slots_of->free_page_count;
}

int64_t hr_kv_cache_pages_of(const hr_kv_cache *cache, int64_t tokens)
{
  return hr_ceil_div(tokens, cache->options.page_size);
}

hr_status hr_kv_cache_check_owner(const hr_kv_cache *cache, hr_error *error)
{
  return cache->slots_of == cache ? HR_OK
                                  : hr_fail(error, HR_ERROR_INVALID, "slots_of: only that cache changes its slots");
}

static hr_status check_slot(const hr_kv_cache *cache, int64_t slot, hr_error *error)
{
  if (slot < 0 || slot >= cache->options.slots)
    return hr_fail(error, HR_ERROR_INVALID, "slot %" PRId64 ": expected 0 to %" PRId64, slot, cache->options.slots - 1);
  if (cache->lengths[slot] < 0)
    return hr_fail(error, HR_ERROR_INVALID, "slot %" PRId64 " is not in use", slot);
  return HR_OK;
}

hr_status hr_kv_cache_check_slots(const hr_kv_cache *cache, int64_t count, const int64_t *slots, hr_error *error)
{
  for (int64_t i = 0; i < count; i++) {
    HR_TRY(check_slot(cache, slots[i], error));
    int32_t *listed = &cache->listed[slots[i]]; /* of any earlier list, so that it is checked against this one */
    if (*listed < i && slots[*listed] == slots[i])
      return hr_fail(error, HR_ERROR_INVALID, "slot %" PRId64 " is listed twice", slots[i]);
    *listed = (int32_t)i;
  }
  return HR_OK;
}

void hr_kv_cache_resize(hr_kv_cache *cache, int64_t slot, int64_t length)
{
  int64_t held = hr_kv_cache_pages_of(cache, cache->lengths[slot]), needed = hr_kv_cache_pages_of(cache, length);
  int32_t *pages = cache->table + slot * cache->pitch;
  for (; held < needed; held++)
    pages[held] = cache->free_pages[--cache->free_page_count];
  for (; held > needed; held--)
    cache->free_pages[cache->free_page_count++] = pages[held - 1];
  cache->lengths[slot] = (int32_t)length;
}

hr_status hr_kv_cache_add(hr_kv_cache *cache, int64_t *slot, hr_error *error)
{
  HR_NEED(error, cache, slot);
  HR_TRY(hr_kv_cache_check_owner(cache, error));
  if (cache->free_slot_count == 0)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "all %" PRId64 " slots are in use", cache->options.slots);
  *slot = cache->free_slots[--cache->free_slot_count];
  cache->lengths[*slot] = 0;
  return HR_OK;
}

hr_status hr_kv_cache_remove(hr_kv_cache *cache, int64_t slot, hr_error *error)
{
  HR_NEED(error, cache);
  HR_TRY(hr_kv_cache_check_owner(cache, error));
  HR_TRY(check_slot(cache, slot, error));
  hr_kv_cache_resize(cache, slot, 0);
  cache->grown = false;
  cache->lengths[slot] = -1;
  cache->free_slots[cache->free_slot_count++] = (int32_t)slot;
  return HR_OK;
}

hr_status hr_kv_cache_length(const hr_kv_cache *cache, int64_t slot, int64_t *length, hr_error *error)
{
  HR_NEED(error, cache, length);
  HR_TRY(check_slot(cache->slots_of, slot, error));
  *length = cache->slots_of->lengths[slot];
  return HR_OK;
}

hr_status hr_kv_cache_truncate(hr_kv_cache *cache, int64_t slot, int64_t length, hr_error *error)
{
  HR_NEED(error, cache);
  HR_TRY(hr_kv_cache_check_owner(cache, error));
  HR_TRY(check_slot(cache, slot, error));
  if (length < 0 || length > cache->lengths[slot])
    return hr_fail(error, HR_ERROR_INVALID, "length: slot %" PRId64 " has %d tokens, found %" PRId64, slot,
                   cache->lengths[slot], length);
  hr_kv_cache_resize(cache, slot, length);
  cache->grown = false;
  return HR_OK;
}

int32_t *hr_kv_cache_numbers(const hr_buffer *buffer, int64_t first)
{
  return (int32_t *)hr_buffer_data(buffer) + first;
}

static hr_status upload_ranges(const hr_kv_cache *cache, const hr_kv_numbers *ranges, size_t count, void *stream,
                               hr_error *error)
{
  const hr_backend *backend = cache->device->backend;
  if (backend->queue_numbers)
    return backend->queue_numbers(cache, ranges, count, stream, error);
  for (size_t i = 0; i < count; i++)
    HR_TRY(
        backend->write(cache->device, ranges[i].to, ranges[i].from, ranges[i].count * sizeof *ranges[i].from, error));
  return HR_OK;
}

void hr_kv_cache_gather(hr_kv_cache *cache)
{
  cache->gathers = true;
  cache->gathered_count = 0;
}

void hr_kv_cache_drop(hr_kv_cache *cache)
{
  cache->gathers = false;
  cache->gathered_count = 0;
  cache->grown = false; /* by lists that may not have arrived */
  hr_kv_cache_forget_table(cache);
}

hr_status hr_kv_cache_send(hr_kv_cache *cache, void *stream, hr_error *error)
{
  const hr_status status = upload_ranges(cache, cache->gathered, cache->gathered_count, stream, error);
  cache->gathers = false;
  if (status != HR_OK)
    hr_kv_cache_drop(cache);
  return status;
}

hr_status hr_kv_cache_upload(hr_kv_cache *cache, const hr_kv_numbers *numbers, void *stream, hr_error *error)
{
  if (!cache->gathers)
    return upload_ranges(cache, numbers, 1, stream, error);
  if (cache->gathered_count == HR_KV_GATHERED_MAX) {
    HR_TRY(hr_kv_cache_send(cache, stream, error));
    hr_kv_cache_gather(cache);
  }
  cache->gathered[cache->gathered_count++] = *numbers;
  return HR_OK;
}

void hr_kv_cache_forget_table(hr_kv_cache *cache)
{
  const size_t count = (size_t)(cache->options.slots * cache->pitch);
  memset(cache->uploaded, 0xFF, count * sizeof *cache->uploaded); /* no number is equal to -1 */
}
