/* SPDX-License-Identifier: Apache-2.0 */
/* A KV cache on a device: K and V of the tokens of several sequences, for the decode calls of <headroom/decode.h>.
 *
 * Thread safety: one thread at a time may use a cache; several threads may use different caches of one device. */
#ifndef HEADROOM_KV_CACHE_H
#define HEADROOM_KV_CACHE_H

#include <headroom/decode.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_KV_PAGE_MIN 16
#define HR_KV_PAGE_MAX 256

#define HR_KV_QUANTIZED_DIM_MAX 4096

/** A cache of one layer. A slot is the place of one sequence. Memory: K [pages, page_size, k_heads, qk_dim] and
 *  V [pages, page_size, v_heads, v_dim]. A contiguous cache has one page of `tokens` tokens per slot. In a paged one
 *  slots take pages from the pool as they grow, and nothing is ever copied.
 *
 *  A quantized cache (hr_decode.cache_format) computes its elements in fp32, after the rotary embedding of K: value /
 *  scale, rounded to nearest, ties to even. With HR_KV_SCALE_TOKEN, scales are [pages, page_size, k_heads] and
 *  [pages, page_size, v_heads], and that of a token's head is its largest absolute value / 448 for fp8, / 127 for int8;
 *  1 if that is below 2^-126, as for zeros, which makes all elements 0; NaN if the head has a NaN or an infinity. With
 *  HR_KV_SCALE_HEAD larger values saturate at ±448 or ±127 times the scale; NaN and infinities become NaN in fp8, while
 *  in int8, which has neither, NaN becomes 0 and infinities saturate. */
typedef struct hr_kv_cache_options {
  size_t struct_size; /* sizeof(hr_kv_cache_options), set by hr_kv_cache_options_default() */
  int64_t k_heads, v_heads;
  int64_t qk_dim, v_dim;
  hr_dtype dtype;            /* fp32, fp16 or bf16: of new tokens, and of an unquantized cache */
  int64_t page_size;         /* tokens of a page, HR_KV_PAGE_MIN to HR_KV_PAGE_MAX; 0: contiguous */
  int64_t slots;             /* most sequences */
  int64_t tokens;            /* most tokens of a slot */
  int64_t pages;             /* of the pool; 0: as many as all slots fill at their longest. Contiguous: 0 */
  bool latent;               /* V is the first v_dim elements of K and takes no memory; see hr_decode.latent */
  hr_kv_format cache_format; /* with fp8 and int8, head sizes are at most HR_KV_QUANTIZED_DIM_MAX */
  hr_kv_scales cache_scales;
  const float *k_scales, *v_scales;   /* with HR_KV_SCALE_HEAD: [k_heads], [v_heads] in the host's memory, normal and
                                       positive, which are copied; NULL: all 1. With `latent`, v_scales is not read */
  const struct hr_kv_cache *slots_of; /* NULL: the cache has slots of its own. Otherwise a cache of another layer, which
                                         outlives this one, on the same device, with the same page_size, slots, tokens
                                         and pages: its slots, their lengths and pages are this cache's, too, and only
                                         it adds, grows, selects, truncates and removes them, for all layers at once */
} hr_kv_cache_options;

/** One K and one V head of 64, bf16, unquantized, pages of 16 tokens, one slot of up to 4096 tokens. */
HR_API void hr_kv_cache_options_init(hr_kv_cache_options *options, size_t size);
HR_DEFAULT(hr_kv_cache_options)

typedef struct hr_kv_cache hr_kv_cache;

/** Allocates a cache without sequences, or with those of `slots_of`. The caller owns *cache and frees it before closing
 *  the device. HR_ERROR_INVALID with the field for options out of range; HR_ERROR_OVERFLOW if the sizes do not fit 63
 *  bits, the pages not 31; HR_ERROR_OUT_OF_MEMORY; HR_ERROR_UNSUPPORTED for another number format, or on a GPU without
 *  NVRTC. */
HR_API hr_status hr_kv_cache_create(hr_device *device, const hr_kv_cache_options *options, hr_kv_cache **cache,
                                    hr_error *error);

/** Frees a cache that no run reads any more; NULL is allowed. */
HR_API void hr_kv_cache_free(hr_kv_cache *cache);

/** Pages that no slot holds; contiguous: slots without tokens. */
HR_API int64_t hr_kv_cache_pages_free(const hr_kv_cache *cache);

/* ---- slots ----
 *
 * After an error nothing has changed. A slot that is not in use is HR_ERROR_INVALID: out of range, never added, or
 * removed before; and so is a change of a cache with the slots of another. */

/** Adds a sequence without tokens. *slot is its number, 0 to slots − 1. HR_ERROR_OUT_OF_MEMORY if all are in use. */
HR_API hr_status hr_kv_cache_add(hr_kv_cache *cache, int64_t *slot, hr_error *error);

/** Removes a sequence. Its pages return to the pool, and a later hr_kv_cache_add() may return its number. */
HR_API hr_status hr_kv_cache_remove(hr_kv_cache *cache, int64_t slot, hr_error *error);

/** The number of a sequence's tokens. */
HR_API hr_status hr_kv_cache_length(const hr_kv_cache *cache, int64_t slot, int64_t *length, hr_error *error);

/** Keeps the first `length` tokens of a sequence, such as those that speculative decoding accepted. Pages beyond them
 *  return to the pool. HR_ERROR_INVALID if the sequence has fewer. */
HR_API hr_status hr_kv_cache_truncate(hr_kv_cache *cache, int64_t slot, int64_t length, hr_error *error);

/* ---- tokens ---- */

/** Which elements of a head the rotary embedding turns together, of r = rotary_dim elements: i and i + r/2, or 2i and
 *  2i + 1. */
typedef enum hr_rotary_pairs {
  HR_ROTARY_HALF_SPLIT, /* GPT-NeoX, Llama as Hugging Face stores it */
  HR_ROTARY_INTERLEAVED /* GPT-J, the paper (arXiv 2104.09864) */
} hr_rotary_pairs;

/** New tokens of several sequences. Rows are those of slots[0], then those of slots[1], and so on, N together:
 *  K [N, k_heads, qk_dim] and V [N, v_heads, v_dim], of the cache's `dtype`. `slots` and `tokens` are in the
 *  host's memory, the others are device addresses; all are the caller's.
 *
 *  Rotary embedding: pair i of elements rotary_first … rotary_first + rotary_dim − 1 of each K head, (x, y), becomes
 *  (x cos − y sin, y cos + x sin) with cos[p][i] and sin[p][i], where p is the token's position: the slot's length
 *  before the call for its first new token, and so on. It is computed in fp32 and rounded once. Other elements are
 *  copied, or quantized. */
typedef struct hr_kv_append {
  size_t struct_size;     /* sizeof(hr_kv_append), set by hr_kv_append_default() */
  int64_t count;          /* slots; may be 0 */
  const int64_t *slots;   /* [count], each at most once */
  const int64_t *tokens;  /* [count]: new tokens of each, may be 0; NULL: one each */
  const void *k, *v;      /* with `latent`, v is not read */
  int64_t k_row, v_row;   /* elements from one token to the next; 0: packed */
  const float *cos, *sin; /* [positions, rotary_dim / 2]; read only if rotary_dim > 0 */
  int64_t positions;
  int64_t rotary_first, rotary_dim; /* rotary_dim is even; 0: K is rotated already, or not at all */
  hr_rotary_pairs pairs;
} hr_kv_append;

/** No slots, no rotary embedding; half-split pairs. */
HR_API void hr_kv_append_init(hr_kv_append *append, size_t size);
HR_DEFAULT(hr_kv_append)

/** Appends tokens to all of the slots or, after an error, to none. `stream`, here and below, as <headroom/plan.h> says
 *  of runs: on a GPU the work is put there, and the call returns. It must not be captured in a graph
 *  (hr_kv_cache_write() may). HR_ERROR_INVALID for a slot that is not in use or is listed twice, a slot that would have
 *  more than `tokens` tokens, positions beyond the tables, a missing or misaligned address, a stream where there is
 *  none, and fields out of range; HR_ERROR_OUT_OF_MEMORY if the pool has too few pages; HR_ERROR_BACKEND. */
HR_API hr_status hr_kv_cache_append(hr_kv_cache *cache, const hr_kv_append *append, void *stream, hr_error *error);

/* ---- appends in a captured graph ----
 *
 * hr_kv_cache_append() in two halves, so that a graph of a whole step is captured once and launched for every token:
 *
 *   hr_kv_cache_grow(), hr_kv_cache_select()    each step, before the graph is launched, on its stream
 *   hr_kv_cache_write(), hr_plan_run_decode()   captured */

/** Takes room for new tokens, as hr_kv_cache_append() does, and lists their places on the device; what they contain is
 *  undefined until they are written. Of *append it reads count, slots, tokens, rotary_dim and positions. Errors as
 *  hr_kv_cache_append(). */
HR_API hr_status hr_kv_cache_grow(hr_kv_cache *cache, const hr_kv_append *append, void *stream, hr_error *error);

/** Writes the tokens that the last hr_kv_cache_grow() took room for; of *append it reads all but count, slots and
 *  tokens. A graph that captured it writes those of the last hr_kv_cache_grow() before its launch, which has to have as
 *  many slots and as many new tokens in all as the one before the capture. HR_ERROR_INVALID if nothing has grown, or a
 *  slot was removed or truncated since (a captured graph cannot find that out: launched then, it may write to pages of
 *  another slot), and as hr_kv_cache_append() for the operands; HR_ERROR_BACKEND. */
HR_API hr_status hr_kv_cache_write(const hr_kv_cache *cache, const hr_kv_append *append, void *stream, hr_error *error);

/** Selects the slots of the decode calls that follow on `stream`, each at most once: sequence b of the batch is
 *  slots[b]. Writes their lengths and page tables to the device, which are valid until the cache is next changed or
 *  slots are selected again; runs that were started on the stream before still see what was valid then.
 *  HR_ERROR_INVALID for a slot that is not in use or is listed twice, or no slot; HR_ERROR_BACKEND. */
HR_API hr_status hr_kv_cache_select(hr_kv_cache *cache, int64_t count, const int64_t *slots, void *stream,
                                    hr_error *error);

/** Describes decode calls of up to `batch` selected slots. Of *decode it sets batch, kv_len, heads and sizes of K and
 *  V, dtype, pages, strides of K and V, `latent`, and format and scales of the cache; of *arguments k, v, lengths,
 *  pages, page_starts (NULL), k_scales and v_scales. The caller sets the rest: q_len, q_heads, q, …
 *
 *  kv_len is the cache's `tokens`, so that one plan serves as the sequences grow. A caller who wants plans for shorter
 *  sequences lowers it, but not below the longest of them. The addresses are the cache's and never change, so that one
 *  description, one plan and one captured graph serve all steps. HR_ERROR_INVALID unless 1 ≤ batch ≤ slots. */
HR_API hr_status hr_kv_cache_decode(const hr_kv_cache *cache, int64_t batch, hr_decode *decode,
                                    hr_decode_arguments *arguments, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
