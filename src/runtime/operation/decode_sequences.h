/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by decode kernels: sequences and their pages, visible keys. */
#ifndef HR_RUNTIME_OPERATION_DECODE_SEQUENCES_H
#define HR_RUNTIME_OPERATION_DECODE_SEQUENCES_H

#include "runtime/operation/attention_sequences.h"
#include "schedule/decode_tiles.h"

#include <headroom/decode.h>

/** Tokens of sequence `sequence`. */
int64_t hr_decode_length(const hr_decode *decode, const hr_decode_arguments *arguments, int64_t sequence);

/** The page that holds token `token` of a sequence. */
int64_t hr_decode_page(const hr_decode *decode, const hr_decode_arguments *arguments, int64_t sequence, int64_t token);

/** Elements from the cache's start to head 0 of a token. `strides`: hr_decode_k_strides() or that of V. */
int64_t hr_decode_token(const hr_decode *decode, const hr_decode_arguments *arguments, const hr_kv_strides *strides,
                        int64_t sequence, int64_t token);

/** The keys that query `query` of a sequence of `length` tokens sees. */
hr_key_range hr_decode_visible(const hr_decode *decode, int64_t length, int64_t query);

/** The keys that any query of a sequence of `length` tokens sees. */
hr_key_range hr_decode_range(const hr_decode *decode, int64_t length);

/** No sequence has more keys that its queries see. */
int64_t hr_decode_keys_max(const hr_decode *decode);

/** Whether a query may see more keys than top_k: otherwise the call is one without top_k. */
bool hr_decode_selects(const hr_decode *decode);

/** For a kernel that reads V of every key: `why` is that it does not select V, if the call does; returns whether. */
bool hr_decode_cannot_select(const hr_decode *decode, char *why, size_t why_size);

/** The scale; 1 / √qk_dim if decode->scale is 0. */
double hr_decode_scale(const hr_decode *decode);

/** Whole, 0 or less: weights of at most 2^top of all keys whose V counts add up to 1 at most, so that O is no larger
 *  than V. */
float hr_decode_top(const hr_decode *decode);

#endif
