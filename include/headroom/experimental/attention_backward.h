/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of attention. Thread safety: hr_attention_backward is a value, the functions on it are pure; plans are as
 * in <headroom/plan.h>. */
#ifndef HEADROOM_EXPERIMENTAL_ATTENTION_BACKWARD_H
#define HEADROOM_EXPERIMENTAL_ATTENTION_BACKWARD_H

#include <headroom/plans.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What the gradients of an attention call have besides its own problem, hr_attention, whose terms are used here:
 *
 *     P[i, j]  = exp(S[i, j] − lse[i]) for keys j that query i sees, otherwise 0
 *     δ[i]     = dO[i] · O[i]
 *     dV[j]    = Σ_i P[i, j] dO[i]                     over the query heads that read this V head
 *     dS[i, j] = P[i, j] (dO[i] · V[j] − δ[i]),        with a soft cap times 1 − (capped score / softcap)²
 *     dQ[i]    = scale Σ_j dS[i, j] K[j]
 *     dK[j]    = scale Σ_i dS[i, j] Q[i]               over the query heads that read this K head
 *
 *  (Dao et al., arXiv 2205.14135, appendix B.4; Gemma 2's soft cap by the chain rule, before ALiBi). O and lse, the
 *  log-sum-exp, are inputs, as the forward call wrote them, and are taken as they are. dO has the shape of O; dQ, dK
 *  and dV those of Q, K and V. All are in the format of the problem, which is not fp8.
 *
 *  Sinks (gpt-oss, arXiv 2508.10925): a query head's softmax has one more term, exp(sinks[head]), that reads no
 *  value. lse includes it then, and O is what such a softmax gives. dQ, dK and dV follow from the formulas above,
 *  and
 *
 *     d_sinks[head] = −Σ_i exp(sinks[head] − lse[i]) δ[i]    over the queries of all sequences.
 *
 *  A query that sees no key, whose lse is −inf, has dQ = 0 and adds to nothing, whatever its O and dO contain; a key
 *  that no query sees has dK = dV = 0. Otherwise NaN and infinities propagate as in the formulas, and may reach any
 *  gradient of their own sequence (0 · NaN), since fast kernels multiply whole tiles. No gradient of another
 *  sequence, nor memory between strides and behind the last row, is affected or affects a result. Rows of no
 *  sequence are neither read nor written. */
typedef struct hr_attention_backward {
  size_t struct_size;                                        /* set by hr_attention_backward_default() */
  hr_strides do_strides, dq_strides, dk_strides, dv_strides; /* as those of hr_attention */
  bool sinks;         /* sinks are passed to the run, and their gradient is written */
  bool deterministic; /* runs with the same operands write the same bits; other kernels may add in any order */
} hr_attention_backward;

/** Packed gradients, no sinks, additions in any order. */
HR_API void hr_attention_backward_init(hr_attention_backward *backward, size_t size);
HR_DEFAULT(hr_attention_backward)

/** HR_OK if `forward` passes hr_attention_check(), its format is not fp8, and the strides fit as those of the forward
 *  call do, no two elements of a gradient overlapping. `backward` NULL, here and below: its default. Otherwise
 *  HR_ERROR_INVALID or HR_ERROR_OVERFLOW with the field in `error`. */
HR_API hr_status hr_attention_backward_check(const hr_attention *forward, const hr_attention_backward *backward,
                                             hr_error *error);

/** Floating-point operations of the five products, counting only unmasked score entries:
 *  2·entries·(3·qk_dim + 2·v_dim)·q_heads·batch; 2.5 times those of the forward call with equal head sizes.
 *  HR_ERROR_OVERFLOW and HR_ERROR_UNSUPPORTED as hr_attention_flops(). */
HR_API hr_status hr_attention_backward_flops(const hr_attention *forward, int64_t *flops);

/** Least memory traffic in bytes: Q, K, V, O, dO, dQ, dK and dV once each, as hr_attention_bytes() counts them, and
 *  the log-sum-exp. HR_ERROR_OVERFLOW. */
HR_API hr_status hr_attention_backward_bytes(const hr_attention *forward, int64_t *bytes);

/** Prepares dQ, dK, dV = the gradients, as hr_plan_attention() does; errors of hr_attention_backward_check(). */
HR_API hr_status hr_plan_attention_backward(hr_device *device, const hr_attention *forward,
                                            const hr_attention_backward *backward, const char *kernel, hr_plan **plan,
                                            hr_error *error);

/** The plan that hr_plan_attention_backward() would make with the best kernel, from a cache. */
HR_API hr_status hr_plans_attention_backward(hr_plans *plans, const hr_attention *forward,
                                             const hr_attention_backward *backward, hr_plan **plan, hr_error *error);

/** The operands of such a plan, addresses of the device. */
typedef struct hr_attention_backward_arguments {
  size_t struct_size;                                 /* set by hr_attention_backward_arguments_default() */
  const void *q, *k, *v, *o, *d_o;                    /* may be NULL for an operand without rows */
  const float *lse;                                   /* natural logarithm, packed as hr_attention says */
  void *dq, *dk, *dv;                                 /* every element is written, gaps between strides are not */
  const float *alibi_slopes, *sinks;                  /* [q_heads]; read only with `alibi` and `sinks` */
  float *d_sinks;                                     /* [q_heads]; written only with `sinks` */
  const int32_t *q_offsets, *kv_offsets, *first_keys; /* as in hr_attention_arguments, and the next three */
  int64_t batch, q_rows, kv_rows;
} hr_attention_backward_arguments;

/** All NULL. */
HR_API void hr_attention_backward_arguments_init(hr_attention_backward_arguments *arguments, size_t size);
HR_DEFAULT(hr_attention_backward_arguments)

/** Runs the plan, as hr_plan_run_attention() does its own. */
HR_API hr_status hr_plan_run_attention_backward(const hr_plan *plan, const hr_attention_backward_arguments *arguments,
                                                void *workspace, void *stream, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
