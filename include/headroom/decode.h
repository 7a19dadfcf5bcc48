/* SPDX-License-Identifier: Apache-2.0 */
/* Decode attention: the queries of new tokens against a KV cache, which may be the caller's own or that of
 * <headroom/kv_cache.h>.
 *
 * Thread safety: hr_decode is a value, and functions of it are pure. Plans: see <headroom/plan.h>. */
#ifndef HEADROOM_DECODE_H
#define HEADROOM_DECODE_H

#include <headroom/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_DECODE_Q_LEN_MAX 16

/** Elements of K and V in a cache. Enumerator, name, values of a block, bytes of a block with its scales.
 *
 *  This library's kernels and caches read the first HR_KV_READABLE_COUNT. The others are of other programs, and are
 *  counted and predicted alone: their scales stand in the cache, of blocks along each head. Sources: llama.cpp's
 *  --cache-type-k and the block structs of ggml-common.h; NVFP4, 16 values of E2M1 with a scale of E4M3, is
 *  TensorRT-LLM's and ModelOpt's. */
#define HR_KV_FORMAT_LIST(ROW)                                                                                         \
  ROW(HR_KV_UNQUANTIZED, "unquantized", 1, 0) /* hr_decode.dtype */                                                    \
  ROW(HR_KV_FP8, "fp8", 1, 1)                 /* E4M3, as HR_FP8_E4M3: up to ±448, NaN, no infinity; times a scale */ \
  ROW(HR_KV_INT8, "int8", 1, 1)               /* two's complement, times a scale */                                    \
  ROW(HR_KV_Q8_0, "q8_0", 32, 34)                                                                                      \
  ROW(HR_KV_Q5_1, "q5_1", 32, 24)                                                                                      \
  ROW(HR_KV_Q5_0, "q5_0", 32, 22)                                                                                      \
  ROW(HR_KV_Q4_1, "q4_1", 32, 20)                                                                                      \
  ROW(HR_KV_Q4_0, "q4_0", 32, 18)                                                                                      \
  ROW(HR_KV_IQ4_NL, "iq4_nl", 32, 18)                                                                                  \
  ROW(HR_KV_NVFP4, "nvfp4", 16, 9)

typedef enum hr_kv_format {
#define HR_KV_FORMAT_ENUM(enumerator, name, values, bytes) enumerator,
  HR_KV_FORMAT_LIST(HR_KV_FORMAT_ENUM)
#undef HR_KV_FORMAT_ENUM
      HR_KV_FORMAT_COUNT
} hr_kv_format;

#define HR_KV_READABLE_COUNT (HR_KV_INT8 + 1)

/** What a scale of a quantized cache belongs to. Enumerator, name. */
#define HR_KV_SCALES_LIST(ROW)                                                \
  ROW(HR_KV_SCALE_HEAD, "head")   /* a K or V head, with all of its tokens */ \
  ROW(HR_KV_SCALE_TOKEN, "token") /* one token's K or V head */

typedef enum hr_kv_scales {
#define HR_KV_SCALES_ENUM(enumerator, name) enumerator,
  HR_KV_SCALES_LIST(HR_KV_SCALES_ENUM)
#undef HR_KV_SCALES_ENUM
      HR_KV_SCALES_COUNT
} hr_kv_scales;

/** The name of a format ("int8"); "unknown" outside the list. Static storage. */
HR_API const char *hr_kv_format_name(hr_kv_format format);

/** Parses it. HR_ERROR_NOT_FOUND, with *format untouched, for any other text. */
HR_API hr_status hr_kv_format_parse(const char *name, hr_kv_format *format);

/** The name of a kind of scales ("token"); "unknown" outside the list. Static storage. */
HR_API const char *hr_kv_scales_name(hr_kv_scales scales);

/** Parses it. HR_ERROR_NOT_FOUND, with *scales untouched, for any other text. */
HR_API hr_status hr_kv_scales_parse(const char *name, hr_kv_scales *scales);

/** Memory layout of K or V in a cache, in elements: head h of token t of page p begins at p·page + t·token + h·head;
 *  its elements are contiguous. All three 0: [page, token, head, dim], as vLLM's FlashAttention backend and FlashInfer
 *  ("NHD") have it. FlashInfer's "HND" has head = page_size·dim, token = dim. With K and V side by side in one
 *  allocation, [page, 2, …], `page` counts both. */
typedef struct hr_kv_strides {
  int64_t page, token, head;
} hr_kv_strides;

/** One decode call. For each sequence b of the batch, with length L[b], query i of q_len is that of token
 *  L[b] − q_len + i, whose K and V are in the cache already:
 *
 *    S[j] = scale · Q[i] · K[j];  with a soft cap: softcap · tanh(S[j] / softcap)
 *    with ALiBi (Press et al., arXiv 2108.12409, section 3):  + slope[head] · (j − L[b] + q_len − i)
 *    visible: j ≤ L[b] − q_len + i, and with a window the last `window` of these keys
 *    O[i] = Σ_j exp(S[j]) V[j] / (Σ_j exp(S[j]) + exp(sink[head]))         the sum over visible j; sinks only if set
 *
 *  Shapes: Q [batch, q_len, q_heads, qk_dim], O [batch, q_len, q_heads, v_dim]; strides give other layouts. Query head
 *  h reads K head h / (q_heads / k_heads) and V head h / (q_heads / v_heads) (SIGMA, arXiv 2501.13629, section 2).
 *
 *  The cache: K [pages, page_size, k_heads, qk_dim] and V [pages, page_size, v_heads, v_dim], or as k_strides and
 *  v_strides say. Token t of sequence b is token t % page_size of page table[b][t / page_size]. A contiguous cache is
 *  one page per sequence, of page_size ≥ kv_len tokens. Only page numbers of tokens below L[b] are read.
 *
 *  A quantized cache, cache_format fp8 or int8, has elements of one byte, and K and V are scale · element. Scales are
 *  fp32: k_scales [k_heads] and v_scales [v_heads]; with HR_KV_SCALE_TOKEN k_scales [pages, page_size, k_heads] and
 *  v_scales [pages, page_size, v_heads], or as k_scale_strides and v_scale_strides say. Scales behind the elements of
 *  each head, as vLLM has them, are strides of dim + 4 bytes and of dim / 4 + 1 floats. With a scale that is NaN all
 *  elements are. With `latent`, V has the scales of K. A kernel may keep a token's weight times its V scale in 16 bits,
 *  which limits the range of v_scales (docs/decode-gpu.md).
 *
 *  Latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1, absorbed form): with `latent`, k_heads = v_heads = 1
 *  and V[j] is the first v_dim elements of K[j], so that the cache has no V; v_dim ≤ qk_dim.
 *
 *  Sinks (gpt-oss, arXiv 2508.10925): a score per query head that takes part in the softmax without a V.
 *
 *  Selective V (SIGMA, table 3, "Sel.V-top100"): with top_k > 0, a query head has V only of the top_k visible keys with
 *  the largest S, or of all if it sees no more. Both sums and the log-sum-exp are over these keys alone, so that their
 *  weights (and the sink's) add up to 1. Of equal S the earlier position is chosen first. NaN counts as larger than
 *  +inf, so that it reaches O as it does without top_k. V of keys that are not chosen is never part of a result. Each
 *  query head of each query chooses for itself; of a shared V head those rows are read that any of its query heads
 *  chose.
 *
 *  Log-sum-exp, if requested at the run: log of the denominator, natural logarithm, fp32, packed
 *  [batch, q_len, q_heads].
 *
 *  With batch_invariant O and log-sum-exp of a sequence have the same bits whatever else is in the batch and however
 *  large it is, for the same kernel, device, kv_len, heads and formats. Kernels of CPUs always work so. On a GPU each
 *  sequence is then divided as if it were alone, which costs large batches time (docs/decode-gpu.md). A run repeats its
 *  bits without it, too.
 *
 *  A query that sees no key has O = 0 and log-sum-exp −inf (with sinks, the sink). Tokens from L[b] on are never part
 *  of a result, whatever their memory contains: also NaN and infinities. NaN and infinities of visible tokens propagate
 *  as <headroom/attention.h> says. Scores count as finite up to the largest number of fp32 (2^126 in
 *  decode_latent_sm90), and O is finite where V is, also near the largest number (in decode_latent_sm90 where no score
 *  is beyond 2^22). */
typedef struct hr_decode {
  size_t struct_size; /* sizeof(hr_decode), set by hr_decode_default() */
  int64_t batch;      /* sequences; of a plan, the most of a run */
  int64_t q_len;      /* queries per sequence, 1 to HR_DECODE_Q_LEN_MAX */
  int64_t kv_len;     /* most tokens of a sequence, the new ones included; may be 0 */
  int64_t q_heads, k_heads, v_heads;
  int64_t qk_dim, v_dim;
  hr_dtype dtype;       /* of Q, O and an unquantized cache */
  int64_t page_size;    /* tokens of a page */
  int64_t page_count;   /* pages of the cache; page numbers are below */
  int64_t table_pitch;  /* pages from one row of the page table to the next; at least those of kv_len tokens */
  int64_t window;       /* most keys that a query sees, up to its own; 0: all */
  int64_t top_k;        /* most keys of a query head whose V counts: selective V; 0: all */
  float scale;          /* 0: 1 / sqrt(qk_dim) */
  float softcap;        /* 0: none */
  bool sinks;           /* are passed to the run */
  bool latent;          /* V is part of K */
  bool batch_invariant; /* the same bits in every batch */
  hr_strides q_strides, o_strides; /* all 0: packed */
  hr_kv_strides k_strides, v_strides;
  hr_kv_format cache_format;                      /* default HR_KV_UNQUANTIZED */
  hr_kv_scales cache_scales;                      /* of a quantized cache; default HR_KV_SCALE_HEAD */
  hr_kv_strides k_scale_strides, v_scale_strides; /* with HR_KV_SCALE_TOKEN, in floats; all 0: [page, token, head] */
  int64_t alignment;                              /* of Q, K, V and O: as in hr_gemm */
  bool alibi; /* slopes are passed to the run; not with a soft cap, top_k or latent attention */
} hr_decode;

/** One sequence of one token, one head of 64, bf16, one page of one token. */
HR_API void hr_decode_init(hr_decode *decode, size_t size);
HR_DEFAULT(hr_decode)

/** Sets page_size, page_count and table_pitch from batch and kv_len: pages of `page_size` tokens, as many as all
 *  sequences fill at their longest; 0: contiguous, one page per sequence. HR_ERROR_INVALID for a negative size;
 *  HR_ERROR_OVERFLOW. */
HR_API hr_status hr_decode_set_pages(hr_decode *decode, int64_t page_size, hr_error *error);

/** HR_OK if sizes are positive and at most 2^40 (lengths below 2^31), 1 ≤ q_len ≤ HR_DECODE_Q_LEN_MAX, K and V heads
 *  divide the query heads, top_k is 0 for latent attention, table_pitch covers kv_len, strides are not negative, no two
 *  elements of O overlap, formats are in their lists, and all counts fit 63 bits; otherwise HR_ERROR_INVALID or
 *  HR_ERROR_OVERFLOW with the field in `error`. */
HR_API hr_status hr_decode_check(const hr_decode *decode, hr_error *error);

/** The attention call as a decode call with the same operands in place: K and V are a contiguous cache. The log-sum-exp
 *  alone has another layout for more than one query. *decode has been initialised; all of it is written.
 *  HR_ERROR_UNSUPPORTED with the reason for more than HR_DECODE_Q_LEN_MAX queries or none, several queries without a
 *  causal mask, ALiBi, first keys, variable lengths, scales of fp8 heads and another format of O; errors of
 *  hr_attention_check() and hr_decode_check(). */
HR_API hr_status hr_decode_from_attention(const hr_attention *attention, hr_decode *decode, hr_error *error);

/** The same with `latent`: the call's one K head begins with its V head, whose strides are not used. Errors of
 *  hr_decode_from_attention(), and of hr_decode_check() for other heads. */
HR_API hr_status hr_decode_from_latent(const hr_attention *attention, hr_decode *decode, hr_error *error);

/** Floating-point operations if all sequences have kv_len tokens: 2·qk_dim per query head and visible key, and 2·v_dim
 *  per query head and key whose V counts. HR_ERROR_OVERFLOW, also for sizes that are negative or above 2^40 and for
 *  more than HR_DECODE_Q_LEN_MAX queries. */
HR_API hr_status hr_decode_flops(const hr_decode *decode, int64_t *flops);

/** Least memory traffic in bytes if all sequences have kv_len tokens: Q and O, and K and V of each token that a query
 *  sees, once per K head and V head, with their scales. With top_k the V rows of a V head are counted as if no two of
 *  its query heads and queries chose the same key, at most all that they see. Rows are gathered, so that memory moves
 *  whole sectors: what is counted moves if a row has 64 bytes or a multiple. HR_ERROR_OVERFLOW as above. */
HR_API hr_status hr_decode_bytes(const hr_decode *decode, int64_t *bytes);

/** The operands of a run: device addresses, owned by the caller. */
typedef struct hr_decode_arguments {
  size_t struct_size; /* sizeof(hr_decode_arguments), set by hr_decode_arguments_default() */
  const void *q;
  const void *k, *v;      /* page 0 of the cache; with `latent`, v is not read. May be NULL if kv_len is 0 */
  void *o;                /* every element is written, gaps between strides are not */
  float *lse;             /* NULL: not requested */
  const int32_t *lengths; /* [batch], 0 to kv_len: tokens of each sequence, the new ones included. NULL: all kv_len */
  const int32_t *pages;   /* [batch, table_pitch]: the page table. NULL: sequence b has pages b·table_pitch and on */
  const float *sinks;     /* [q_heads]; read only with `sinks` */
  const float *k_scales, *v_scales; /* of a quantized cache; with `latent`, v_scales is not read */
  const int32_t *page_starts; /* [batch]: where in `pages` a sequence's page numbers begin, if they are one list for all
                                 sequences, as FlashInfer's indices with indptr. NULL: at b·table_pitch */
  int64_t batch;              /* sequences, at most the plan's; 0: as many */
  const float *alibi_slopes;  /* [q_heads]; read only with `alibi` */
} hr_decode_arguments;

/** All NULL. */
HR_API void hr_decode_arguments_init(hr_decode_arguments *arguments, size_t size);
HR_DEFAULT(hr_decode_arguments)

/** Prepares a decode call as hr_plan_gemm() does; errors of hr_decode_check() instead of hr_gemm_check(). On a GPU a
 *  plan for several sequences may have other programs for fewer, which are compiled with it. */
HR_API hr_status hr_plan_decode(hr_device *device, const hr_decode *decode, const char *kernel, hr_plan **plan,
                                hr_error *error);

/** Runs a decode plan, as <headroom/plan.h> says of runs; HR_ERROR_INVALID also for page_starts without pages. */
HR_API hr_status hr_plan_run_decode(const hr_plan *plan, const hr_decode_arguments *arguments, void *workspace,
                                    void *stream, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
