/* SPDX-License-Identifier: Apache-2.0 */
/* Appends: checks, pages, the list of rows. Nothing changes before all checks have passed. */
#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "runtime/device/kv_cache.h"

#include <inttypes.h>

#define ROW_MAX ((int64_t)1 << 40) /* elements between rows: the size of any operand fits 63 bits */

void hr_kv_append_init(hr_kv_append *append, size_t size)
{
  HR_INIT(append, size, (hr_kv_append){0});
}

/* ---- checks ---- */

/* One of the operands, and where its rows are; sets *row if that is 0. */
static hr_status check_rows(const hr_kv_cache_options *o, const char *name, const void *address, int64_t width,
                            int64_t *row, hr_error *error)
{
  size_t element = hr_dtype_bytes(o->dtype);
  *row = *row == 0 ? width : *row;
  if (*row < width || *row > ROW_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "%s_row: expected at least %" PRId64 ", found %" PRId64, name, width, *row);
  if (!address)
    return hr_fail(error, HR_ERROR_INVALID, "%s: an address is needed, found NULL", name);
  if ((uintptr_t)address % element != 0)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected an address that is a multiple of %zu", name, element);
  return HR_OK;
}

static hr_status check_rotary(const hr_kv_cache_options *o, const hr_kv_append *a, hr_error *error)
{
  if (a->rotary_dim == 0)
    return HR_OK;
  if (a->rotary_dim < 0 || a->rotary_dim > o->qk_dim || a->rotary_dim % 2 != 0)
    return hr_fail(error, HR_ERROR_INVALID, "rotary_dim: expected an even number up to %" PRId64 ", found %" PRId64,
                   o->qk_dim, a->rotary_dim);
  if (a->rotary_first < 0 || a->rotary_first > o->qk_dim - a->rotary_dim)
    return hr_fail(error, HR_ERROR_INVALID, "rotary_first: expected 0 to %" PRId64 ", found %" PRId64,
                   o->qk_dim - a->rotary_dim, a->rotary_first);
  if (a->pairs != HR_ROTARY_HALF_SPLIT && a->pairs != HR_ROTARY_INTERLEAVED)
    return hr_fail(error, HR_ERROR_INVALID, "pairs: %d is not a way to pair elements", (int)a->pairs);
  const struct {
    const char *name;
    const float *address;
  } tables[] = {{"cos", a->cos}, {"sin", a->sin}};
  for (size_t i = 0; i < 2; i++) {
    if (!tables[i].address || (uintptr_t)tables[i].address % sizeof(float) != 0)
      return hr_fail(error, HR_ERROR_INVALID, "%s: an address that is a multiple of %zu is needed", tables[i].name,
                     sizeof(float));
  }
  return HR_OK;
}

static int64_t new_tokens(const hr_kv_append *a, int64_t i)
{
  return a->tokens ? a->tokens[i] : 1;
}

/* A slot in use and its new tokens. */
static hr_status check_growth(const hr_kv_cache *cache, const hr_kv_append *a, int64_t i, hr_error *error)
{
  int64_t slot = a->slots[i], length = cache->lengths[slot], tokens = new_tokens(a, i);
  if (tokens < 0)
    return hr_fail(error, HR_ERROR_INVALID, "tokens: expected at least 0, found %" PRId64 " for slot %" PRId64, tokens,
                   slot);
  if (tokens > cache->options.tokens - length)
    return hr_fail(error, HR_ERROR_INVALID,
                   "slot %" PRId64 " has %" PRId64 " of at most %" PRId64 " tokens: %" PRId64 " more do not fit", slot,
                   length, cache->options.tokens, tokens);
  if (a->rotary_dim > 0 && tokens > 0 && length + tokens > a->positions)
    return hr_fail(error, HR_ERROR_INVALID,
                   "positions: slot %" PRId64 " reaches position %" PRId64 ", the tables have %" PRId64, slot,
                   length + tokens - 1, a->positions);
  return HR_OK;
}

static hr_status check_slots(const hr_kv_cache *cache, const hr_kv_append *a, int64_t *tokens, hr_error *error)
{
  if (a->count < 0 || a->count > cache->options.slots)
    return hr_fail(error, HR_ERROR_INVALID, "count: expected 0 to %" PRId64 ", found %" PRId64, cache->options.slots,
                   a->count);
  if (a->count > 0 && !a->slots)
    return hr_fail(error, HR_ERROR_INVALID, "slots: an address is needed, found NULL");
  HR_TRY(hr_kv_cache_check_slots(cache, a->count, a->slots, error));
  int64_t pages = 0, sum = 0;
  for (int64_t i = 0; i < a->count; i++) {
    HR_TRY(check_growth(cache, a, i, error));
    int64_t length = cache->lengths[a->slots[i]], more = new_tokens(a, i);
    pages += hr_kv_cache_pages_of(cache, length + more) - hr_kv_cache_pages_of(cache, length);
    sum += more;
  }
  if (pages > cache->free_page_count)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY,
                   "%" PRId64 " more pages are needed, %" PRId64 " of %" PRId64 " are free", pages,
                   cache->free_page_count, cache->options.pages);
  if (sum > INT32_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "tokens: %" PRId64 " together do not fit 31 bits", sum);
  *tokens = sum;
  return HR_OK;
}

static hr_status check_operands(const hr_kv_cache_options *o, hr_kv_append *a, hr_error *error)
{
  HR_TRY(check_rows(o, "k", a->k, o->k_heads * o->qk_dim, &a->k_row, error));
  if (!o->latent)
    HR_TRY(check_rows(o, "v", a->v, o->v_heads * o->v_dim, &a->v_row, error));
  return check_rotary(o, a, error);
}

/* ---- work ---- */

/* Where the list of a part of so many slots begins, which does not depend on their lengths. */
static int64_t first_of_part(const hr_kv_cache *cache, int64_t count, int64_t part)
{
  return part * ((3 + cache->pitch) * count + 1);
}

/* Writes the list of hr_kv_writes and returns its length. The slots have their new lengths already. */
static int64_t make_list(const hr_kv_cache *cache, const hr_kv_append *a, int32_t *list)
{
  int32_t *starts = list, *positions = starts + a->count + 1, *places = positions + a->count;
  int64_t end = 3 * a->count + 1, row = 0;
  for (int64_t i = 0; i < a->count; i++) {
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): check_slots() found some */
    int64_t slot = a->slots[i], tokens = new_tokens(a, i), first = cache->lengths[slot] - tokens;
    starts[i] = (int32_t)row;
    positions[i] = (int32_t)first;
    places[i] = (int32_t)end;
    row += tokens;
    int64_t last = tokens > 0 ? hr_kv_cache_pages_of(cache, first + tokens) : 0;
    for (int64_t page = first / cache->options.page_size; page < last; page++)
      list[end++] = cache->table[slot * cache->pitch + page];
  }
  starts[a->count] = (int32_t)row;
  return end;
}

/* The tokens of a part of the last grow(). */
static hr_status write_tokens(const hr_kv_cache *cache, const hr_kv_append *a, const hr_kv_heads *heads, int64_t part,
                              void *stream, hr_error *error)
{
  const hr_kv_cache *of = cache->slots_of;
  hr_kv_append listed = *a;
  listed.count = of->grown_count / of->grown_parts;
  hr_kv_writes writes = {.options = &cache->options,
                         .append = &listed,
                         .heads = heads,
                         .tokens = of->grown_tokens / of->grown_parts,
                         .k = hr_buffer_data(cache->k),
                         .v = cache->v ? hr_buffer_data(cache->v) : NULL,
                         .k_scales = cache->k_scales ? hr_buffer_data(cache->k_scales) : NULL,
                         .v_scales = cache->v_scales ? hr_buffer_data(cache->v_scales) : NULL,
                         .list = hr_kv_cache_numbers(of->device_list, first_of_part(of, listed.count, part))};
  return cache->device->backend->append_tokens(cache, &writes, stream, error);
}

static void resize(hr_kv_cache *cache, const hr_kv_append *a, int64_t sign)
{
  for (int64_t i = 0; i < a->count; i++)
    hr_kv_cache_resize(cache, a->slots[i], cache->lengths[a->slots[i]] + sign * new_tokens(a, i));
}

static hr_status upload_lists(hr_kv_cache *cache, const hr_kv_append *a, int64_t parts, void *stream, hr_error *error)
{
  hr_kv_append own = *a;
  own.count = a->count / parts;
  for (int64_t part = 0; part < parts; part++) {
    const int64_t first = first_of_part(cache, own.count, part);
    own.slots = a->slots ? a->slots + part * own.count : NULL;
    own.tokens = a->tokens ? a->tokens + part * own.count : NULL;
    const size_t count = (size_t)make_list(cache, &own, cache->list + first);
    const hr_kv_numbers list = {hr_kv_cache_numbers(cache->device_list, first), cache->list + first, count};
    HR_TRY(hr_kv_cache_upload(cache, &list, stream, error));
  }
  return HR_OK;
}

/* After all checks. */
static hr_status grow(hr_kv_cache *cache, const hr_kv_append *a, int64_t parts, int64_t tokens, void *stream,
                      hr_error *error)
{
  resize(cache, a, 1);
  cache->grown = false; /* the lists are written over, even if the upload fails */
  hr_status status = upload_lists(cache, a, parts, stream, error);
  if (status != HR_OK) {
    resize(cache, a, -1);
    return status;
  }
  cache->grown = true;
  cache->grown_count = a->count;
  cache->grown_tokens = tokens;
  cache->grown_parts = parts;
  cache->grown_length = 0;
  for (int64_t i = 0; i < a->count; i++)
    if (new_tokens(a, i) > 0)
      cache->grown_length = hr_max64(cache->grown_length, cache->lengths[a->slots[i]]);
  return HR_OK;
}

hr_status hr_kv_cache_grow_parts(hr_kv_cache *cache, const hr_kv_append *append, int64_t parts, void *stream,
                                 hr_error *error)
{
  HR_TRY(hr_kv_cache_check_owner(cache, error));
  HR_TRY(hr_check_stream(cache->device, stream, error));
  int64_t tokens = 0;
  HR_TRY(check_slots(cache, append, &tokens, error));
  return grow(cache, append, parts, tokens, stream, error);
}

hr_status hr_kv_cache_grow(hr_kv_cache *cache, const hr_kv_append *append, void *stream, hr_error *error)
{
  HR_NEED(error, cache, append);
  HR_TAKE(hr_kv_append, append, error);
  return hr_kv_cache_grow_parts(cache, append, 1, stream, error);
}

hr_status hr_kv_cache_write_heads(const hr_kv_cache *cache, const hr_kv_append *append, const hr_kv_heads *heads,
                                  int64_t part, void *stream, hr_error *error)
{
  HR_TRY(hr_check_stream(cache->device, stream, error));
  const hr_kv_cache *of = cache->slots_of;
  if (!of->grown)
    return hr_fail(error, HR_ERROR_INVALID, "slots: nothing to write before hr_kv_cache_grow()");
  if (of->grown_tokens == 0)
    return HR_OK;
  hr_kv_append a = *append;
  HR_TRY(check_operands(&cache->options, &a, error));
  if (a.rotary_dim > 0 && a.positions < of->grown_length)
    return hr_fail(error, HR_ERROR_INVALID, "positions: expected at least %" PRId64 ", found %" PRId64,
                   of->grown_length, a.positions);
  return write_tokens(cache, &a, heads, part, stream, error);
}

hr_status hr_kv_cache_write(const hr_kv_cache *cache, const hr_kv_append *append, void *stream, hr_error *error)
{
  HR_NEED(error, cache, append);
  HR_TAKE(hr_kv_append, append, error);
  return hr_kv_cache_write_heads(cache, append, NULL, 0, stream, error);
}

hr_status hr_kv_cache_append(hr_kv_cache *cache, const hr_kv_append *append, void *stream, hr_error *error)
{
  HR_NEED(error, cache, append);
  HR_TAKE(hr_kv_append, append, error);
  HR_TRY(hr_kv_cache_check_owner(cache, error));
  HR_TRY(hr_check_stream(cache->device, stream, error));
  hr_kv_append a = *append;
  int64_t tokens = 0;
  HR_TRY(check_slots(cache, &a, &tokens, error));
  if (tokens == 0)
    return HR_OK;
  HR_TRY(check_operands(&cache->options, &a, error));
  HR_TRY(grow(cache, &a, 1, tokens, stream, error));
  hr_status status = write_tokens(cache, &a, NULL, 0, stream, error);
  if (status != HR_OK) {
    resize(cache, &a, -1);
    cache->grown = false;
  }
  return status;
}
