/* SPDX-License-Identifier: Apache-2.0 */
/* The indexer of sparse attention: small heads score every key, and attention reads the keys with the largest scores. */
#ifndef HR_MODEL_LAYERS_INDEXER_H
#define HR_MODEL_LAYERS_INDEXER_H

#include "model/layers/layer_kinds.h"

typedef struct hr_indexer {
  int64_t heads;      /* 0: no indexer */
  int64_t dim;        /* of a head, and of the one key that all heads share */
  int64_t inputs;     /* width of what its queries are made of */
  int64_t rotary_dim; /* elements of a head that are rotated; 0: none */
  int64_t topk;       /* keys that are chosen */
  int64_t block;      /* neighbouring keys that are chosen together, by their largest score */
  bool sums_heads;    /* one choice for all heads of attention, by a weighted sum of the scores (DeepSeek-V3.2); else a
                         choice of each head, whose queries are normalized, too (MiniMax-M3) */
} hr_indexer;

/** Appends the indexer's operators. */
void hr_append_indexer(hr_operator_builder *builder, const hr_indexer *indexer);

/** Elements of its scores, in elements of the step's format. */
hr_checked64 hr_index_elements(const hr_layer_context *context, const hr_indexer *indexer);

#endif
