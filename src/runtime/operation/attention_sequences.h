/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by attention kernels on the host: addresses of a sequence, visible keys of a query. */
#ifndef HR_RUNTIME_OPERATION_ATTENTION_SEQUENCES_H
#define HR_RUNTIME_OPERATION_ATTENTION_SEQUENCES_H

#include <headroom/experimental/attention_backward.h>

/** One sequence of a call. Addresses are of row 0, head 0; hr_attention_strides() gives the strides of all
 *  sequences. */
typedef struct hr_sequence {
  int64_t q_len, kv_len;
  const void *q, *k, *v;
  void *o;
  float *lse;                /* of query 0, head 0; NULL if not requested */
  int64_t lse_head;          /* elements from one head to the next */
  const int32_t *first_keys; /* of query 0; NULL: queries begin with any key */
} hr_sequence;

/** Sequence `index`, 0 … batch − 1. The arguments have been checked. */
hr_sequence hr_attention_sequence(const hr_attention *attention, const hr_attention_arguments *arguments,
                                  int64_t index);

/** Keys first … end − 1; none where end ≤ first. */
typedef struct hr_key_range {
  int64_t first, end;
} hr_key_range;

/** The keys that query `query` of a sequence sees. Query i of q_len has position i + kv_len − q_len among the keys. */
hr_key_range hr_attention_visible(const hr_attention *attention, const hr_sequence *sequence, int64_t query);

/** The operands of the forward call among those of its gradients. */
hr_attention_arguments hr_backward_operands(const hr_attention_backward_arguments *arguments);

/** dQ, dK, dV and dO as Q, K, V and O of hr_backward_gradients(); dO is not written. */
hr_attention_arguments hr_backward_gradient_operands(const hr_attention_backward_arguments *arguments);

/** Bytes of an operand, and of the first keys. Buffers are not empty: without rows those of one element. */
size_t hr_attention_operand_bytes(const hr_attention *attention, hr_attention_operand operand);
size_t hr_attention_first_keys_bytes(const hr_attention *attention);

/** The scale; 1 / √qk_dim if attention->scale is 0. */
double hr_attention_scale(const hr_attention *attention);

#endif
