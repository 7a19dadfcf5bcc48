/* SPDX-License-Identifier: Apache-2.0 */
/* The indexer of sparse attention: small heads score every key, and attention reads those with the largest scores. */
#ifndef HR_MODEL_LAYERS_INDEXER_H
#define HR_MODEL_LAYERS_INDEXER_H

#include "model/layers/attention_calls.h"

typedef struct hr_indexer {
  int64_t heads;      /* 0: no indexer */
  int64_t dim;        /* of a head, and of the one key that all heads share */
  int64_t inputs;     /* width of what its queries are made of */
  int64_t rotary_dim; /* elements of a head that are rotated; 0: none */
  int64_t topk;       /* keys that are chosen */
  int64_t block;      /* neighbouring keys that are chosen together, by their largest score */
  int64_t ratio;      /* tokens of a key, made of its own tokens and those before it; 0: each token has one */
  bool sums_heads;    /* one choice for all heads of attention, by a weighted sum of the scores (DeepSeek-V3.2); else a
                         choice of each head, whose queries are normalized, too (MiniMax-M3) */
} hr_indexer;

/** Keys of the last token, if so many tokens have one. */
int64_t hr_keys_of_tokens(int64_t tokens, int64_t ratio);

/** Pairs of a step's tokens of one sequence and the keys that each sees, `most` of them at most; 0: all. A key of
 *  several tokens is seen by the last of them and by those behind it. */
hr_checked64 hr_pairs_of_keys(const hr_operator_builder *builder, int64_t ratio, int64_t most);

/** The sequences of an attention over keys of several tokens: tokens with the same place in a key are a sequence. */
hr_attention_sequences hr_call_of_keys(const hr_operator_builder *builder, int64_t ratio);

/** Appends the indexer's operators. */
void hr_append_indexer(hr_operator_builder *builder, const hr_indexer *indexer);

/** Elements of its scores, in elements of the step's format. */
hr_checked64 hr_index_elements(const hr_layer_context *context, const hr_indexer *indexer);

#endif
