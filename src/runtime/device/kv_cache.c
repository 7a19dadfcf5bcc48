/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/kv_cache.h"

#include "base/checked.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DIM_MOST ((int64_t)1 << 20)

hr_kv_cache_options hr_kv_cache_options_default(void)
{
  return (hr_kv_cache_options){.struct_size = sizeof(hr_kv_cache_options),
                               .k_heads = 1,
                               .v_heads = 1,
                               .qk_dim = 64,
                               .v_dim = 64,
                               .dtype = HR_BF16,
                               .page_size = 16,
                               .slots = 1,
                               .tokens = 4096};
}

/* ---- options ---- */

static hr_status check_sizes(const hr_kv_cache_options *o, hr_error *error)
{
  bool paged = o->page_size != 0;
  const struct {
    const char *name;
    int64_t value, least, most;
  } sizes[] = {{"k_heads", o->k_heads, 1, DIM_MOST},
               {"v_heads", o->v_heads, 1, DIM_MOST},
               {"qk_dim", o->qk_dim, 1, DIM_MOST},
               {"v_dim", o->v_dim, 1, DIM_MOST},
               {"page_size", o->page_size, paged ? HR_KV_PAGE_MIN : 0, HR_KV_PAGE_MAX},
               {"slots", o->slots, 1, INT32_MAX},
               {"tokens", o->tokens, 1, INT32_MAX},
               {"pages", o->pages, 0, paged ? INT32_MAX : 0}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i].value < sizes[i].least || sizes[i].value > sizes[i].most)
      return hr_fail(error, HR_ERROR_INVALID, "%s: expected %" PRId64 " to %" PRId64 ", found %" PRId64, sizes[i].name,
                     sizes[i].least, sizes[i].most, sizes[i].value);
  }
  return HR_OK;
}

static hr_status check_options(const hr_kv_cache_options *o, hr_error *error)
{
  HR_TRY(hr_check_struct_size("hr_kv_cache_options", o->struct_size, sizeof *o, error));
  HR_TRY(check_sizes(o, error));
  if (o->latent && (o->k_heads != 1 || o->v_heads != 1 || o->v_dim > o->qk_dim))
    return hr_fail(error, HR_ERROR_INVALID,
                   "latent: expected one K head that begins with V, found %" PRId64 " K heads of %" PRId64
                   " and %" PRId64 " V heads of %" PRId64,
                   o->k_heads, o->qk_dim, o->v_heads, o->v_dim);
  if (hr_dtype_bytes(o->dtype) == 0)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %d is not a number format", (int)o->dtype);
  if (o->dtype != HR_FP32 && o->dtype != HR_FP16 && o->dtype != HR_BF16)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "dtype: a KV cache takes fp32, fp16 and bf16, not %s",
                   hr_dtype_name(o->dtype));
  return HR_OK;
}

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
  return 3 * cache->options.slots + 1 + hr_min64(cache->options.pages, cache->options.slots * cache->pitch);
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
  cache->list = part(cache, &end, list_size(cache));
  return end;
}

static hr_status create_numbers(hr_kv_cache *cache, hr_error *error)
{
  cache->numbers = calloc((size_t)divide_numbers(cache), sizeof *cache->numbers);
  if (!cache->numbers)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "no memory for the tables of a KV cache");
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

static hr_status create_rows(const hr_kv_cache *cache, const char *name, int64_t heads, int64_t dim, hr_buffer **buffer,
                             hr_error *error)
{
  const hr_kv_cache_options *o = &cache->options;
  hr_checked64 row = hr_times(hr_checked(heads), dim);
  hr_checked64 bytes = hr_times(hr_times(hr_times(row, o->pages), o->page_size), (int64_t)hr_dtype_bytes(o->dtype));
  if (bytes.overflow || row.value > INT32_MAX)
    return hr_fail(error, HR_ERROR_OVERFLOW, "%s: %" PRId64 " pages of %" PRId64 " tokens of %" PRId64 " × %" PRId64,
                   name, o->pages, o->page_size, heads, dim);
  return hr_buffer_create(cache->device, (size_t)bytes.value, buffer, error);
}

static hr_status create_buffers(hr_kv_cache *cache, hr_error *error)
{
  const hr_kv_cache_options *o = &cache->options;
  size_t slot_bytes = (size_t)o->slots * sizeof(int32_t), row_bytes = (size_t)cache->pitch * sizeof(int32_t);
  HR_TRY(create_rows(cache, "K", o->k_heads, o->qk_dim, &cache->k, error));
  if (!o->latent)
    HR_TRY(create_rows(cache, "V", o->v_heads, o->v_dim, &cache->v, error));
  HR_TRY(hr_buffer_create(cache->device, (size_t)list_size(cache) * sizeof(int32_t), &cache->device_list, error));
  HR_TRY(hr_buffer_create(cache->device, (size_t)o->slots * row_bytes, &cache->device_table, error));
  HR_TRY(hr_buffer_create(cache->device, slot_bytes, &cache->device_lengths, error));
  return hr_buffer_write(cache->device_table, cache->uploaded, (size_t)o->slots * row_bytes, error);
}

/* Lets the backend prepare what it needs, such as a compiled kernel, before there is work. */
static hr_status prepare_appends(const hr_kv_cache *cache, hr_error *error)
{
  hr_device *device = cache->device;
  if (!device->backend->append_tokens)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: has no KV cache", device->name);
  hr_kv_append none = {.struct_size = sizeof none};
  hr_kv_writes writes = {.options = &cache->options, .append = &none};
  return device->backend->append_tokens(device, &writes, error);
}

static hr_status create(hr_kv_cache *cache, hr_error *error)
{
  HR_TRY(set_pages(cache, error));
  HR_TRY(prepare_appends(cache, error));
  HR_TRY(create_numbers(cache, error));
  return create_buffers(cache, error);
}

hr_status hr_kv_cache_create(hr_device *device, const hr_kv_cache_options *options, hr_kv_cache **cache,
                             hr_error *error)
{
  HR_NEED(error, device, options, cache);
  HR_TRY(check_options(options, error));
  hr_kv_cache *created = calloc(1, sizeof *created);
  if (!created)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "no memory for a KV cache's description");
  created->device = device;
  created->options = *options;
  hr_status status = create(created, error);
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
  hr_buffer *const buffers[] = {cache->k, cache->v, cache->device_list, cache->device_table, cache->device_lengths};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    hr_buffer_free(buffers[i]);
  free(cache->numbers);
  free(cache);
}

/* ---- slots ---- */

int64_t hr_kv_cache_pages_free(const hr_kv_cache *cache)
{
  return cache->free_page_count;
}

int64_t hr_kv_cache_pages_of(const hr_kv_cache *cache, int64_t tokens)
{
  return hr_ceil_div(tokens, cache->options.page_size);
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
  if (cache->free_slot_count == 0)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "all %" PRId64 " slots are in use", cache->options.slots);
  *slot = cache->free_slots[--cache->free_slot_count];
  cache->lengths[*slot] = 0;
  return HR_OK;
}

hr_status hr_kv_cache_remove(hr_kv_cache *cache, int64_t slot, hr_error *error)
{
  HR_NEED(error, cache);
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
  HR_TRY(check_slot(cache, slot, error));
  *length = cache->lengths[slot];
  return HR_OK;
}

hr_status hr_kv_cache_truncate(hr_kv_cache *cache, int64_t slot, int64_t length, hr_error *error)
{
  HR_NEED(error, cache);
  HR_TRY(check_slot(cache, slot, error));
  if (length < 0 || length > cache->lengths[slot])
    return hr_fail(error, HR_ERROR_INVALID, "length: slot %" PRId64 " has %d tokens, found %" PRId64, slot,
                   cache->lengths[slot], length);
  hr_kv_cache_resize(cache, slot, length);
  cache->grown = false;
  return HR_OK;
}

hr_status hr_kv_cache_upload(const hr_kv_cache *cache, hr_buffer *to, int64_t first, const int32_t *from, int64_t count,
                             hr_error *error)
{
  const hr_backend *backend = cache->device->backend;
  int32_t *address = (int32_t *)hr_buffer_data(to) + first;
  if (backend->queue_numbers)
    return backend->queue_numbers(cache->device, address, from, (size_t)count, error);
  return backend->write(cache->device, address, from, (size_t)count * sizeof *from, error);
}
