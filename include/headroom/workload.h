/* SPDX-License-Identifier: Apache-2.0 */
/* The workload of a model: phase, batch, sequence, parallelism. Thread safety: a value; pure functions. */
#ifndef HEADROOM_WORKLOAD_H
#define HEADROOM_WORKLOAD_H

#include <headroom/decode.h>
#include <headroom/dtype.h>
#include <headroom/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hr_phase {
  HR_PHASE_FORWARD, /* all tokens, with logits for each */
  HR_PHASE_TRAIN,   /* forward, and for each GEMM the gradients of its input (dgrad) and weight (wgrad) */
  HR_PHASE_PREFILL, /* all tokens into the KV cache, logits for the last token of each sequence */
  HR_PHASE_DECODE   /* one new token per sequence, with `context` tokens in the KV cache */
} hr_phase;

/** Whether the scores are written to memory. */
typedef enum hr_attention_form {
  HR_ATTENTION_UNFUSED, /* score, softmax and attention over value as separate operators, as in Anthony et al. 2024 */
  HR_ATTENTION_FUSED    /* one kernel that keeps the scores on the chip */
} hr_attention_form;

/** The largest size of a workload; sums of a few sizes never overflow. */
#define HR_WORKLOAD_SIZE_MAX ((int64_t)1 << 40)

/** One step of one device of a tensor-parallel group. */
typedef struct hr_workload {
  size_t struct_size; /* sizeof(hr_workload), set by hr_workload_default() */
  hr_phase phase;
  hr_attention_form attention; /* default fused; hr_hardware_has_fused_attention() says whether a device has kernels */
  hr_dtype dtype;              /* default bf16; hr_hardware_usual_dtype() has the default of a device */
  bool dropout;     /* train: after softmax, projection and MLP; adds to the saved activations, not to the time */
  int64_t batch;    /* [b] sequences in a microbatch */
  int64_t sequence; /* [s] tokens in a sequence; decode ignores it */
  int64_t context;  /* tokens in the KV cache, the new one included; decode only */
  int64_t tensor_parallel; /* [t] */
  int64_t pipeline_stages; /* [p] */
  int64_t expert_parallel; /* [e] devices that the routed experts of a layer are spread over, each whole on one device.
                              1: every expert is split over the t devices. Otherwise a multiple of t that divides the
                              experts: e / t tensor-parallel groups, each with a batch of its own, share the experts */
  hr_kv_format kv_cache;   /* of K and V in the cache of prefill and decode; quantized: one byte each, with a scale for
                            each head, which is not counted */
  double expert_imbalance; /* [R] tokens of the most loaded device, with e = 1 expert, over the mean; 1: balanced */
} hr_workload;

/** Forward, fused, bf16; b, s, t, p from the model's own defaults, else b = 4, s = the smaller of 2048 and
 *  max_positions, t = p = e = R = 1, context = s, a KV cache as a quantized checkpoint has it; dropout for models of
 *  the GPT-2 generation (learned positions, plain MLP). */
HR_API hr_workload hr_workload_default(const hr_model *model);

/** HR_OK if every size is positive and at most 2^40, p is at most the number of layers, and the experts of every layer
 *  can be spread over e devices with the imbalance R; otherwise HR_ERROR_INVALID naming the member. Decode ignores
 *  `sequence`, the other phases `context`. A t that does not divide the heads is allowed: figures are then those of the
 *  most loaded device. */
HR_API hr_status hr_workload_check(const hr_workload *workload, const hr_model *model, hr_error *error);

/** Names as on the command line: "forward", "train", "prefill", "decode"; "unfused", "fused". Static storage. */
HR_API const char *hr_phase_name(hr_phase phase);
HR_API const char *hr_attention_form_name(hr_attention_form form); /* see hr_phase_name() */

/** Reads such a name. HR_ERROR_NOT_FOUND for any other; the output is then untouched. */
HR_API hr_status hr_phase_parse(const char *name, hr_phase *phase);
HR_API hr_status hr_attention_form_parse(const char *name, hr_attention_form *form); /* see hr_phase_parse() */

#ifdef __cplusplus
}
#endif
#endif
