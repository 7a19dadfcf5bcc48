/* Attention problems. Thread safety: hr_attention is a value, the functions are pure. */
#ifndef HEADROOM_ATTENTION_H
#define HEADROOM_ATTENTION_H

#include <headroom/dtype.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hr_mask {
  HR_MASK_NONE,
  HR_MASK_CAUSAL /* aligned to the bottom right: query i sees keys up to i + kv_len - q_len */
} hr_mask;

/** One attention call: O = softmax(scale · Q Kᵀ + mask) V, per query head.
 *
 *  Shapes (row-major, packed): Q [batch, q_len, q_heads, qk_dim], K [batch, kv_len, k_heads, qk_dim],
 *  V [batch, kv_len, v_heads, v_dim], O [batch, q_len, q_heads, v_dim].
 *  Query head i reads K head i / (q_heads / k_heads) and V head i / (q_heads / v_heads). A row that sees no key is 0.
 *  Source: SIGMA (arXiv 2501.13629), section 2; k_heads == v_heads is GQA, both 1 is MQA. */
typedef struct hr_attention {
  size_t struct_size; /* sizeof(hr_attention), set by hr_attention_default() */
  int64_t batch, q_len, kv_len;
  int64_t q_heads, k_heads, v_heads;
  int64_t qk_dim, v_dim;
  hr_dtype dtype; /* of Q, K, V and O */
  hr_mask mask;
  int64_t window; /* keys a query sees at most, counted back from its own; 0: all. Needs HR_MASK_CAUSAL */
  float scale;    /* 0: 1 / sqrt(qk_dim) */
} hr_attention;

/** One head of size 64 over one token, bf16, causal. */
HR_API hr_attention hr_attention_default(void);

/** HR_OK when all sizes are positive, K and V heads divide the query heads and all counts fit 63 bits; otherwise
 *  HR_ERROR_INVALID or HR_ERROR_OVERFLOW with the field in `error`. */
HR_API hr_status hr_attention_check(const hr_attention *attention, hr_error *error);

/** Score entries that the mask leaves, for one head of one batch entry. HR_ERROR_OVERFLOW if they do not fit. */
HR_API hr_status hr_attention_entries(const hr_attention *attention, int64_t *entries);

/** Floating-point operations, counting only unmasked score entries: 2·entries·(qk_dim + v_dim)·q_heads·batch.
 *  HR_ERROR_OVERFLOW if the count does not fit; *flops is then untouched. */
HR_API hr_status hr_attention_flops(const hr_attention *attention, int64_t *flops);

/** Bytes of Q, K, V and O, each moved once. HR_ERROR_OVERFLOW as above. */
HR_API hr_status hr_attention_bytes(const hr_attention *attention, int64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
