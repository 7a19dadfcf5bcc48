/* SPDX-License-Identifier: Apache-2.0 */
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

/** Memory layout of an operand: element [b, i, h, d] is at offset b·batch + i·row + h·head + d, in elements; d runs
 *  over the head dimension. All three 0: packed, [batch, length, heads, dim]. */
typedef struct hr_strides {
  int64_t batch; /* from one sequence to the next; not used with variable lengths */
  int64_t row;   /* from one query or key (token) to the next */
  int64_t head;
} hr_strides;

/** Number format of O. */
typedef enum hr_attention_output {
  HR_OUTPUT_AS_OPERANDS, /* hr_attention.dtype */
  HR_OUTPUT_BF16,        /* only of fp8 operands, as the next */
  HR_OUTPUT_FP16
} hr_attention_output;

/** One attention call: O = softmax(S) V, per query head. S[i, j] is computed in this order:
 *
 *    scale · Q[i] · K[j]
 *    soft cap, if not 0:  softcap · tanh(S / softcap)          (Gemma 2, arXiv 2408.00118, section 2)
 *    ALiBi, if set:       + slope[head] · (j − position of i)  (Press et al., arXiv 2108.12409, section 3)
 *    mask, window, first keys: keys that the query does not see are excluded
 *
 *  Query i of q_len has position i + kv_len − q_len among the keys, so that the last query and the last key coincide.
 *
 *  Shapes: Q [batch, q_len, q_heads, qk_dim], K [batch, kv_len, k_heads, qk_dim], V [batch, kv_len, v_heads, v_dim],
 *  O [batch, q_len, q_heads, v_dim]; strides give their memory layout. Query head i reads K head
 *  i / (q_heads / k_heads) and V head i / (q_heads / v_heads): equal heads are MHA, k_heads == v_heads is GQA, both 1
 *  is MQA, and all different is DiffQKV (SIGMA, arXiv 2501.13629, section 2).
 *
 *  Variable lengths: `batch` sequences of different lengths are concatenated, Q [q_total, q_heads, qk_dim],
 *  K [kv_total, k_heads, qk_dim] and so on. The run is passed the offsets (hr_attention_arguments in plan.h); q_len and
 *  kv_len are the largest lengths.
 *
 *  First keys: a query sees no key before its own first one, besides what mask and window exclude. They say where its
 *  document, its chunk or, behind padding, its sequence begins.
 *
 *  fp8 (E4M3) operands may have a scale per head, passed to the run: element [b, i, h, d] of Q stands for q_scales[h]
 *  times its value, and K and V likewise with the scales of their own heads. O may be in a wider format. Kernels that
 *  multiply by Tensor Cores round the softmax weights to E4M3, too, 2^-4 of each.
 *
 *  Log-sum-exp, if requested at the run: log Σ_j exp(S[i, j]) over the keys that query i sees, natural logarithm, fp32,
 *  packed [batch, q_heads, q_len]; with variable lengths [q_heads, q_total].
 *
 *  A query that sees no key (masked, or kv_len is 0) has O = 0 and log-sum-exp −inf, whatever V contains. Otherwise
 *  NaN and infinities propagate as in the formula: a query gets NaN if a score that it sees is NaN or +inf, or if
 *  all are −inf (its log-sum-exp is then not finite, and −inf in the last case). A NaN or infinity in V[j] reaches
 *  every query that sees key j. It may also turn queries of the same sequence and head that see other keys but not key
 *  j into NaN (0 · NaN), since fast kernels multiply whole tiles. K of a key that a query does not see never affects
 *  that query; gaps between strides and memory behind the last row affect no result.
 *
 *  Scores count as finite up to the largest number of fp32, and O is finite where V is, V near the largest number of
 *  fp32 and bf16 included. In attention_flash_sm90, attention_flash_sm80 and, but for fp32, attention_blocked_cublaslt
 *  scores end at 2^126 in size, and where one is beyond 2^22, V times the number of keys must stay below the largest
 *  number. */
typedef struct hr_attention {
  size_t struct_size;           /* sizeof(hr_attention), set by hr_attention_default() */
  int64_t batch, q_len, kv_len; /* lengths may be 0; of a plan, bounds of its runs' */
  int64_t q_heads, k_heads, v_heads;
  int64_t qk_dim, v_dim;
  hr_dtype dtype; /* of Q, K, V and, unless `output` says otherwise, O */
  hr_mask mask;
  int64_t window;        /* most keys that a query sees, up to its own position; 0: all. Requires HR_MASK_CAUSAL */
  float scale;           /* 0: 1 / sqrt(qk_dim) */
  float softcap;         /* 0: none */
  bool alibi;            /* slopes are passed to the run */
  bool variable_lengths; /* offsets are passed to the run */
  int64_t q_total;       /* with variable lengths: rows of Q and O of all sequences; otherwise 0 */
  int64_t kv_total;      /* the same of K and V */
  hr_strides q_strides, k_strides, v_strides, o_strides;
  hr_attention_output output; /* format of O */
  bool head_scales;           /* scales of fp8 operands, one per head, are passed to the run */
  int64_t alignment;          /* of Q, K, V and O: as in hr_gemm */
  bool first_keys;            /* the first key that each query sees is passed to the run */
} hr_attention;

/** One head of dimension 64, one token, bf16, causal, packed. */
HR_API void hr_attention_init(hr_attention *attention, size_t size);
HR_DEFAULT(hr_attention)

/** HR_OK if heads, dims and batch are positive, lengths and strides not negative, K and V heads divide the query heads,
 *  the scale is finite, the soft cap is finite and not negative, only fp8 operands have scales or another format of O,
 *  no two elements of O overlap, no size exceeds 2^40 and all counts fit 63 bits (with variable lengths the totals 31
 *  bits); otherwise HR_ERROR_INVALID or HR_ERROR_OVERFLOW with the field in `error`. */
HR_API hr_status hr_attention_check(const hr_attention *attention, hr_error *error);

/** The format of O. The problem has passed hr_attention_check(). */
HR_API hr_dtype hr_attention_output_dtype(const hr_attention *attention);

/* Common layouts: enumerator, name, description. */
#define HR_LAYOUT_LIST(ROW)                                  \
  ROW(HR_LAYOUT_BSHD, "bshd", "[batch, length, heads, dim]") \
  ROW(HR_LAYOUT_BHSD, "bhsd", "[batch, heads, length, dim]") \
  ROW(HR_LAYOUT_PACKED_QKV, "packed_qkv",                    \
      "Q, K and V side by side in each token's row, the output of one QKV projection")

typedef enum hr_layout {
#define HR_LAYOUT_ENUM(enumerator, name, sentence) enumerator,
  HR_LAYOUT_LIST(HR_LAYOUT_ENUM)
#undef HR_LAYOUT_ENUM
      HR_LAYOUT_COUNT
} hr_layout;

/** "bshd"; "unknown" outside the list. Static storage. */
HR_API const char *hr_layout_name(hr_layout layout);

/** Parses a name. HR_ERROR_NOT_FOUND, with *layout untouched, for any other text. */
HR_API hr_status hr_layout_parse(const char *name, hr_layout *layout);

/** Sets the strides of all four operands from the sizes, which must be set before. Packed QKV: a row has the heads of
 *  Q, then those of K, then those of V, so that K's address is Q's plus q_heads·qk_dim elements and V's is K's plus
 *  k_heads·qk_dim; O is [batch, length, heads, dim]. HR_ERROR_INVALID for packed QKV with q_len other than kv_len, a
 *  layout outside the list, or sizes that do not pass hr_attention_check(); HR_ERROR_OVERFLOW. */
HR_API hr_status hr_attention_set_layout(hr_attention *attention, hr_layout layout, hr_error *error);

typedef enum hr_attention_operand { HR_OPERAND_Q, HR_OPERAND_K, HR_OPERAND_V, HR_OPERAND_O } hr_attention_operand;

/** The strides of an operand with defaults resolved. The problem has passed hr_attention_check(). */
HR_API hr_strides hr_attention_strides(const hr_attention *attention, hr_attention_operand operand);

/** Size of an operand's memory in elements, from its address to the end of the last element, gaps included. 0 for an
 *  operand without rows. HR_ERROR_OVERFLOW if it does not fit. */
HR_API hr_status hr_attention_span(const hr_attention *attention, hr_attention_operand operand, int64_t *elements);

/** Number of elements of the log-sum-exp: batch·q_heads·q_len, with variable lengths q_heads·q_total.
 *  HR_ERROR_OVERFLOW. */
HR_API hr_status hr_attention_lse_elements(const hr_attention *attention, int64_t *elements);

/** Unmasked score entries of one head of one sequence; with variable lengths of a sequence of the largest lengths.
 *  HR_ERROR_OVERFLOW if they do not fit, or a length is negative or above 2^40. Other sizes that hr_attention_check()
 *  refuses, here and below, have a meaningless count and do no harm. First keys hide no entry here and below: only a
 *  run knows them. */
HR_API hr_status hr_attention_entries(const hr_attention *attention, int64_t *entries);

/** Floating-point operations, counting only unmasked score entries: 2·entries·(qk_dim + v_dim)·q_heads·batch.
 *  HR_ERROR_OVERFLOW if the count does not fit, HR_ERROR_UNSUPPORTED for variable lengths (see
 *  hr_attention_flops_of()); *flops is then untouched. */
HR_API hr_status hr_attention_flops(const hr_attention *attention, int64_t *flops);

/** The same for variable lengths; `q_offsets` and `kv_offsets` as passed to the run, in host memory.
 *  HR_ERROR_OVERFLOW. */
HR_API hr_status hr_attention_flops_of(const hr_attention *attention, const int32_t *q_offsets,
                                       const int32_t *kv_offsets, int64_t *flops);

/** Least memory traffic in bytes, without scales: each element of Q and O once, and K and V of each key that a query
 *  sees once. With a window these are the last q_len + window − 1 of a sequence, at most kv_len; with variable lengths
 *  at most q_total + batch·(window − 1) of all, an upper bound. HR_ERROR_OVERFLOW as above. */
HR_API hr_status hr_attention_bytes(const hr_attention *attention, int64_t *bytes);

/** Writes the slopes of ALiBi's authors to `slopes`, fp32 [q_heads] in host memory: head i of n, a power of two, has
 *  2^(−8 (i + 1) / n); other n use the slopes of the next smaller power of two, then every second one of the next
 *  larger. Nothing for q_heads < 1. Source: Press et al., arXiv 2108.12409, section 3 and their published code. */
HR_API void hr_attention_alibi_slopes(int64_t q_heads, float *slopes);

#ifdef __cplusplus
}
#endif
#endif
