/* SPDX-License-Identifier: Apache-2.0 */
/* A KV cache: its state, and the work that an append is for a backend. */
#ifndef HR_RUNTIME_DEVICE_KV_CACHE_H
#define HR_RUNTIME_DEVICE_KV_CACHE_H

#include "runtime/device/device.h"

#include <headroom/buffer.h>
#include <headroom/kv_cache.h>

/** What else is done to the heads of new tokens: Q and K are normed and rotated. */
typedef struct hr_kv_heads {
  int64_t q_heads, q_row; /* elements from one token's Q to the next */
  int64_t rotated;        /* elements of a head, at its beginning; 0: none */
  bool interleaved;       /* pairs are neighbours; else halves */
  int64_t norm_stride;    /* from the weight of a head's norm to the next's; 0: all have one */
  double epsilon;
  const void *angles;          /* [positions, rotated]: cosines, then sines */
  const void *q_norm, *k_norm; /* weights of RMS norms; NULL: none */
  const void *q;               /* [tokens, q_heads, qk_dim] */
  void *q_to;                  /* the same, packed */
  void *k_to;                  /* [tokens, k_heads, qk_dim], packed, beside the cache's; NULL: none */
} hr_kv_heads;

/** An append that has been checked and whose pages have been taken. `list`, on the device, says where rows belong. Its
 *  parts follow one another, S = append->count:
 *
 *    starts [S + 1]   first row of each sequence, and the end
 *    positions [S]    of the sequence's first new token
 *    places [S]       where in the list the sequence's page numbers begin
 *    pages            of each sequence: from the page of its first new token to that of its last
 *
 *  so that row r of sequence s, at position p = positions[s] + r − starts[s], belongs to page
 *  list[places[s] + p / page_size − positions[s] / page_size]. */
struct hr_kv_writes {
  const hr_kv_cache_options *options; /* with page_size and pages */
  const hr_kv_append *append;         /* with k_row and v_row */
  const hr_kv_heads *heads;           /* NULL: none; hr_backend.appends_heads takes them */
  int64_t tokens;                     /* all new ones, below 2^31; 0: nothing is written */
  void *k, *v;                        /* the cache; v is NULL with `latent` */
  float *k_scales, *v_scales;         /* of a quantized cache; they are written if each token has its own */
  const int32_t *list;
};

/** hr_kv_cache_write() of a part of what has grown, with heads (NULL: none) of an unquantized cache with K and V on a
 *  device that takes them. */
HR_PRIVATE hr_status hr_kv_cache_write_heads(const hr_kv_cache *cache, const hr_kv_append *append,
                                             const hr_kv_heads *heads, int64_t part, void *stream, hr_error *error);

/** hr_kv_cache_grow() for writes of equal parts of the slots, which have equal numbers of new tokens. */
HR_PRIVATE hr_status hr_kv_cache_grow_parts(hr_kv_cache *cache, const hr_kv_append *append, int64_t parts, void *stream,
                                            hr_error *error);

/** Numbers for the device. */
struct hr_kv_numbers {
  int32_t *to;
  const int32_t *from;
  size_t count;
};

/** hr_backend.append_tokens in host memory. */
hr_status hr_host_append_tokens(const hr_kv_cache *cache, const hr_kv_writes *writes, void *stream, hr_error *error);

/** Ranges of numbers that are sent at once, on a GPU by one launch. */
#define HR_KV_GATHERED_MAX 8

struct hr_kv_cache {
  hr_device *device;
  const hr_kv_cache *slots_of;      /* the cache itself, or the one whose slots it shares: this has the numbers, the
                                       lists and what has grown */
  hr_kv_cache_options options;      /* page_size and pages are set in a contiguous cache, too */
  int64_t pitch;                    /* pages of a slot at its longest */
  int32_t *numbers;                 /* owns the arrays below */
  int32_t *lengths;                 /* [slots]; −1: not in use */
  int32_t *table;                   /* [slots, pitch] */
  int32_t *free_pages, *free_slots; /* stacks */
  int64_t free_page_count, free_slot_count;
  int32_t *listed;   /* [slots] index of a slot in a list that is being checked */
  int32_t *list;     /* of hr_kv_writes, on the host */
  int32_t *selected; /* [slots] lengths of a call, on the host */
  int32_t *uploaded; /* [slots, pitch] what device_table contains */
  bool gathers;
  hr_kv_numbers gathered[HR_KV_GATHERED_MAX];
  size_t gathered_count;
  bool grown; /* by hr_kv_cache_grow(), and not shortened since; then the next four say how */
  int64_t grown_count, grown_tokens;
  int64_t grown_parts;            /* which have a list of their own each */
  int64_t grown_length;           /* of the longest slot that grew */
  hr_buffer *k, *v;               /* v NULL with `latent` */
  hr_buffer *k_scales, *v_scales; /* of a quantized cache */
  hr_buffer *device_list, *device_table, *device_lengths;
  void *append_program, *numbers_program; /* of hr_backend.prepare_cache */
};

/** Errors as hr_kv_cache_create() has them for options out of range. */
hr_status hr_kv_cache_check_options(const hr_kv_cache_options *options, hr_error *error);

/** Pages that `tokens` tokens fill. */
int64_t hr_kv_cache_pages_of(const hr_kv_cache *cache, int64_t tokens);

/** HR_ERROR_INVALID for a cache with the slots of another. */
hr_status hr_kv_cache_check_owner(const hr_kv_cache *cache, hr_error *error);

/** HR_ERROR_INVALID unless slots[0] … slots[count − 1] are in use and differ. */
hr_status hr_kv_cache_check_slots(const hr_kv_cache *cache, int64_t count, const int64_t *slots, hr_error *error);

/** Changes the length of a slot, whose pages are taken from the pool, which has enough, or return to it. */
void hr_kv_cache_resize(hr_kv_cache *cache, int64_t slot, int64_t length);

/** Copies numbers to the device as part of `stream`; see hr_backend.queue_numbers. From gather() to send() they are
 *  kept where they are and copied at once, in one launch where there are few: the host takes 2 to 3 us for each, while
 *  the device waits. */
HR_PRIVATE hr_status hr_kv_cache_upload(hr_kv_cache *cache, const hr_kv_numbers *numbers, void *stream,
                                        hr_error *error);
HR_PRIVATE void hr_kv_cache_gather(hr_kv_cache *cache);
HR_PRIVATE hr_status hr_kv_cache_send(hr_kv_cache *cache, void *stream, hr_error *error);

/** Ends gather() without sending, after a failure. */
HR_PRIVATE void hr_kv_cache_drop(hr_kv_cache *cache);

/** After an upload that failed it is unknown what the device's table has. */
void hr_kv_cache_forget_table(hr_kv_cache *cache);

/** The address of number `first` of a buffer. */
int32_t *hr_kv_cache_numbers(const hr_buffer *buffer, int64_t first);

/** HR_ERROR_INVALID for a stream on a device that has none. */
hr_status hr_check_stream(const hr_device *device, const void *stream, hr_error *error);

#endif
