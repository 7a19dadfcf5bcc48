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

/** Where the elements of an operand are: element [b, i, h, d] is b·batch + i·row + h·head + d elements behind its
 *  address, d runs over the head size. All three 0: packed, [batch, length, heads, dim]. */
typedef struct hr_strides {
  int64_t batch; /* from one sequence to the next; with variable lengths unused */
  int64_t row;   /* from one query or key (token) to the next */
  int64_t head;
} hr_strides;

/** One attention call: O = softmax(S) V, per query head. S[i, j] is made in this order:
 *
 *    scale · Q[i] · K[j]
 *    soft cap, if not 0:  softcap · tanh(S / softcap)          (Gemma 2, arXiv 2408.00118, section 2)
 *    ALiBi, if asked for: + slope[head] · (j − position of i)  (Press et al., arXiv 2108.12409, section 3)
 *    mask, window:        keys that are not seen are left out
 *
 *  Query i of q_len stands at position i + kv_len − q_len among the keys: the last query beside the last key.
 *
 *  Shapes: Q [batch, q_len, q_heads, qk_dim], K [batch, kv_len, k_heads, qk_dim], V [batch, kv_len, v_heads, v_dim],
 *  O [batch, q_len, q_heads, v_dim]; the strides say where they lie. Query head i reads K head
 *  i / (q_heads / k_heads) and V head i / (q_heads / v_heads): equal heads are MHA, k_heads == v_heads is GQA, both 1
 *  is MQA, and all different is DiffQKV (SIGMA, arXiv 2501.13629, section 2).
 *
 *  Variable lengths: `batch` sequences of different lengths one after the other, Q [q_total, q_heads, qk_dim],
 *  K [kv_total, k_heads, qk_dim] and so on. Where each begins is told at the run (hr_attention_arguments in device.h);
 *  q_len and kv_len are the largest lengths.
 *
 *  Log-sum-exp, if asked for at the run: log Σ_j exp(S[i, j]) over the keys that query i sees, natural logarithm, fp32,
 *  packed [batch, q_heads, q_len], with variable lengths [q_heads, q_total].
 *
 *  A query that sees no key (masked, or kv_len is 0) has O = 0 and log-sum-exp −inf, whatever V holds. Otherwise
 *  NaN and infinities do what the formula does with them: a query that sees a score that is NaN or +inf, or no score
 *  above −inf, gets NaN (log-sum-exp then: not finite, and −inf in the last case), and a NaN or infinity in V[j] goes
 *  to every query that sees key j. It may also make NaN (0 · NaN) of queries of the same sequence and head that see
 *  other keys but not key j, as fast kernels multiply whole tiles. Q and K of keys that are not seen, gaps between
 *  strides and what lies behind the last row never reach a result. */
typedef struct hr_attention {
  size_t struct_size;           /* sizeof(hr_attention), set by hr_attention_default() */
  int64_t batch, q_len, kv_len; /* lengths may be 0 */
  int64_t q_heads, k_heads, v_heads;
  int64_t qk_dim, v_dim;
  hr_dtype dtype; /* of Q, K, V and O */
  hr_mask mask;
  int64_t window;        /* keys a query sees at most, counted back from its own; 0: all. Needs HR_MASK_CAUSAL */
  float scale;           /* 0: 1 / sqrt(qk_dim) */
  float softcap;         /* 0: none */
  bool alibi;            /* slopes are given at the run */
  bool variable_lengths; /* offsets are given at the run */
  int64_t q_total;       /* with variable lengths: rows of Q and O, of all sequences together; otherwise 0 */
  int64_t kv_total;      /* rows of K and V */
  hr_strides q_strides, k_strides, v_strides, o_strides;
} hr_attention;

/** One head of size 64 over one token, bf16, causal, packed. */
HR_API hr_attention hr_attention_default(void);

/** HR_OK when heads, dims and batch are positive, lengths and strides not negative, K and V heads divide the query
 *  heads, the scale is finite, the soft cap finite and not negative, no two elements of O share a place, no size is
 *  above 2^40 and all counts fit 63 bits (with variable lengths the totals 31); otherwise HR_ERROR_INVALID or
 *  HR_ERROR_OVERFLOW with the field in `error`. */
HR_API hr_status hr_attention_check(const hr_attention *attention, hr_error *error);

/** Common layouts: enumerator, name, what it is. */
#define HR_LAYOUT_LIST(ROW)                                  \
  ROW(HR_LAYOUT_BSHD, "bshd", "[batch, length, heads, dim]") \
  ROW(HR_LAYOUT_BHSD, "bhsd", "[batch, heads, length, dim]") \
  ROW(HR_LAYOUT_PACKED_QKV, "packed_qkv", "Q, K and V side by side in each token's row, as one projection gives them")

typedef enum hr_layout {
#define HR_LAYOUT_ENUM(enumerator, name, sentence) enumerator,
  HR_LAYOUT_LIST(HR_LAYOUT_ENUM)
#undef HR_LAYOUT_ENUM
      HR_LAYOUT_COUNT
} hr_layout;

/** "bshd"; "unknown" outside the list. Static storage. */
HR_API const char *hr_layout_name(hr_layout layout);

/** Reads a name. HR_ERROR_NOT_FOUND for any other; *layout is then untouched. */
HR_API hr_status hr_layout_parse(const char *name, hr_layout *layout);

/** Sets the strides of all four operands, from the sizes that are set already. Packed QKV: a row is the q_heads heads
 *  of Q, then those of K, then those of V, so that K's address is q_heads·qk_dim elements behind Q's and V's
 *  k_heads·qk_dim behind K's; O is [batch, length, heads, dim]. HR_ERROR_INVALID for packed QKV with q_len other than
 *  kv_len, a layout outside the list, or sizes that do not pass hr_attention_check(); HR_ERROR_OVERFLOW. */
HR_API hr_status hr_attention_set_layout(hr_attention *attention, hr_layout layout, hr_error *error);

typedef enum hr_attention_operand { HR_OPERAND_Q, HR_OPERAND_K, HR_OPERAND_V, HR_OPERAND_O } hr_attention_operand;

/** The strides of an operand; packed ones written out. The problem has passed hr_attention_check(). */
HR_API hr_strides hr_attention_strides(const hr_attention *attention, hr_attention_operand operand);

/** Elements from an operand's address to behind its last one, gaps included: what must be there in memory. 0 for an
 *  operand without rows. HR_ERROR_OVERFLOW if they do not fit. */
HR_API hr_status hr_attention_span(const hr_attention *attention, hr_attention_operand operand, int64_t *elements);

/** Elements of the log-sum-exp: batch·q_heads·q_len, with variable lengths q_heads·q_total. HR_ERROR_OVERFLOW. */
HR_API hr_status hr_attention_lse_elements(const hr_attention *attention, int64_t *elements);

/** Score entries that the mask leaves, for one head of one sequence; with variable lengths of one that has the largest
 *  lengths. HR_ERROR_OVERFLOW if they do not fit. */
HR_API hr_status hr_attention_entries(const hr_attention *attention, int64_t *entries);

/** Floating-point operations, counting only unmasked score entries: 2·entries·(qk_dim + v_dim)·q_heads·batch.
 *  HR_ERROR_OVERFLOW if the count does not fit, HR_ERROR_UNSUPPORTED for variable lengths, which
 *  hr_attention_flops_of() counts; *flops is then untouched. */
HR_API hr_status hr_attention_flops(const hr_attention *attention, int64_t *flops);

/** The same for variable lengths: `q_offsets` and `kv_offsets` as at the run, on the host. HR_ERROR_OVERFLOW. */
HR_API hr_status hr_attention_flops_of(const hr_attention *attention, const int32_t *q_offsets,
                                       const int32_t *kv_offsets, int64_t *flops);

/** Bytes of Q, K, V and O, each element moved once. HR_ERROR_OVERFLOW as above. */
HR_API hr_status hr_attention_bytes(const hr_attention *attention, int64_t *bytes);

/** Writes the slopes that ALiBi's authors use, fp32 [q_heads], to the host's `slopes`: head i of n, a power of two, has
 *  2^(−8 (i + 1) / n); for other n those of the next smaller power of two, then every second one of the next larger.
 *  Source: Press et al., arXiv 2108.12409, section 3 and their published code. */
HR_API void hr_attention_alibi_slopes(int64_t q_heads, float *slopes);

#ifdef __cplusplus
}
#endif
#endif
