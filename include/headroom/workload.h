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

/** Whose kernels compute a step, and how they are launched (docs/prediction-model.md). */
typedef enum hr_framework {
  HR_FRAMEWORK_COMPILED,              /* FlashAttention and fused row-wise kernels in CUDA graphs */
  HR_FRAMEWORK_EAGER,                 /* FlashAttention, the rest operator by operator, launched by the host */
  HR_FRAMEWORK_HEADROOM,              /* this library's own kernels, which `advise --measure` and `layer` run */
  HR_FRAMEWORK_TRANSFORMERS,          /* Hugging Face transformers 5.17 with sdpa, launched by Python */
  HR_FRAMEWORK_TRANSFORMERS_COMPILED, /* the same by torch.compile, captured as a CUDA graph */
  /* Inference servers, which do not train: as compiled, without its padding, with their own linear layers of 8 bits,
   * experts and attention where the device's file has them, of hr_predict_server_version(). */
  HR_FRAMEWORK_TRTLLM, /* TensorRT-LLM */
  HR_FRAMEWORK_VLLM,
  HR_FRAMEWORK_SGLANG
} hr_framework;

/** Whose fused attention a framework calls in forward, prefill and training. */
typedef enum hr_flash_library {
  HR_FLASH_NEWEST, /* the fastest on the device: cuDNN 9 and FlashAttention-3 on Hopper, -2 on Ampere */
  HR_FLASH_2,      /* FlashAttention-2, since July 2023 */
  HR_FLASH_1,      /* FlashAttention, 2022 */
  HR_FLASH_TRITON  /* the same in Triton, 2022: what MPT's training called by default until 2023 */
} hr_flash_library;

/** Activations that training computes again in the backward pass instead of keeping them. Source: Korthikanti et al.
 *  2022 (arXiv 2205.05198), section 5. */
typedef enum hr_recompute {
  HR_RECOMPUTE_NONE,
  HR_RECOMPUTE_SELECTIVE, /* score, softmax and attention over value; fused attention keeps no scores: no change */
  HR_RECOMPUTE_FULL       /* whole layers: only their inputs are kept */
} hr_recompute;

/** Which steps drop random elements: after softmax, behind the blocks and behind the embedding. */
typedef enum hr_dropout {
  HR_DROPOUT_NONE,
  HR_DROPOUT_TRAIN,  /* training steps */
  HR_DROPOUT_FORWARD /* forward steps, too: as the forward pass of a training step */
} hr_dropout;

/** The largest size of a workload; sums of a few sizes never overflow. */
#define HR_WORKLOAD_SIZE_MAX ((int64_t)1 << 40)

/** One step. data_parallel replicas of context_parallel × tensor_parallel × pipeline_stages devices each process
 *  `microbatches` × `batch` sequences. docs/parallelism.md explains what each degree divides and what it costs. */
typedef struct hr_workload {
  size_t struct_size; /* sizeof(hr_workload), set by hr_workload_default() */
  hr_phase phase;
  hr_attention_form attention; /* default fused; hr_hardware_has_fused_attention() says whether a device has kernels */
  hr_dtype dtype;              /* default bf16; hr_hardware_usual_dtype() has the default of a device */
  hr_dropout dropout;          /* fused attention drops inside its kernel, at no time that is predicted */
  int64_t batch;               /* [b] sequences in a microbatch */
  int64_t sequence;            /* [s] tokens in a sequence; decode ignores it */
  int64_t context;             /* tokens in the KV cache, the new one included; decode only */
  int64_t tensor_parallel;     /* [t] */
  int64_t pipeline_stages;     /* [p] */
  int64_t expert_parallel; /* [e] devices that the routed experts of a layer are spread over, each whole on one device.
                              1: every expert is split over the t devices. Otherwise a multiple of t that divides the
                              experts: e / t tensor-parallel groups, each with a batch of its own, share the experts */
  hr_kv_format kv_cache; /* of K and V in the cache of prefill and decode. fp8 and int8: one byte each, with a scale for
                            each head, which is not counted */
  double expert_imbalance; /* [R] tokens of the most loaded device, with e = 1 expert, over the mean; 1: balanced */
  bool sequence_parallel;  /* norms, residuals and dropout are split by tokens over the t devices; else all t do them */
  int64_t context_parallel; /* [cp] devices that the tokens of a sequence are split over, outside of decode: a multiple
                               of 2·cp, as each device has a part from the front and one from the back */
  int64_t data_parallel;    /* [dp] replicas; with e > t a multiple of the e / t groups that share the experts, or 1 */
  int64_t zero_stage;       /* train: what replicas (dp · cp devices) share instead of each keeping it all: 1 optimizer
                               state, 2 gradients, too, 3 weights, too (FSDP); 0 nothing */
  hr_recompute recompute;   /* train */
  int64_t microbatches;     /* [m] in a step of a replica; 0: hr_workload_microbatches() */
  double overlap;           /* train: share of the forward or backward pass that may hide communication between
                               replicas; 0 … 1, default 0 */
  hr_framework framework;   /* whose step it is; default compiled */
  hr_flash_library flash;   /* of a framework's step with fused attention; default newest */
  int64_t virtual_stages; /* [v] train: parts of the layers of each stage, which it runs in turn (interleaved 1F1B): p·v
                             divides the layers and p the microbatches; 0: as 1 */
  int64_t page_size; /* decode: tokens of a page of the KV cache, which a sequence takes whole; 0: times are those of
                             pages of 16, and memory is that of the tokens */
  bool fp8_linears;  /* train: linear layers inside layers multiply in fp8, forward and for both gradients; weights,
                        gradients and everything else stay in `dtype`, and memory is counted so */
} hr_workload;

/** Forward, fused, bf16; b, s, t, p from the model's own defaults, else b = 4, s = the smaller of 2048 and
 *  max_positions, t = p = e = R = cp = dp = 1, context = s, no overlap, nothing shared or recomputed, a KV cache as
 *  a quantized checkpoint has it; dropout in training steps for models of
 *  the GPT-2 generation (learned positions, plain MLP). */
HR_API void hr_workload_init(hr_workload *workload, size_t size, const hr_model *model);

static inline hr_workload hr_workload_default(const hr_model *model)
{
  hr_workload workload;
  hr_workload_init(&workload, sizeof workload, model);
  return workload;
}

/** HR_OK if every size is positive and at most 2^40, p is at most the number of layers, the experts of every layer can
 *  be spread over e devices with the imbalance R, and the degrees suit phase, sequence and layers (see hr_workload);
 *  otherwise HR_ERROR_INVALID naming the member. Decode ignores `sequence`, the other phases `context`. A t that does
 *  not divide the heads is allowed: figures are then those of the most loaded device. `model` has been checked. */
HR_API hr_status hr_workload_check(const hr_workload *workload, const hr_model *model, hr_error *error);

/* Names are those of the command line. */

/** "forward", "train", "prefill", "decode"; "unknown" for another value. Static storage. */
HR_API const char *hr_phase_name(hr_phase phase);

/** "unfused", "fused"; "unknown" for another value. Static storage. */
HR_API const char *hr_attention_form_name(hr_attention_form form);

/** What training recomputes: "none", "selective", "full"; "unknown" for another value. Static storage. */
HR_API const char *hr_recompute_name(hr_recompute recompute);

/** Whose step it is: "compiled", "eager", "headroom", "transformers", "transformers-compiled"; "unknown" for another
 *  value. Static storage. */
HR_API const char *hr_framework_name(hr_framework framework);

/** The steps that drop elements: "none", "train", "forward"; "unknown" for another value. Static storage. */
HR_API const char *hr_dropout_name(hr_dropout dropout);

/** Reads a name of hr_phase_name(). HR_ERROR_NOT_FOUND for any other; *phase is then untouched. */
HR_API hr_status hr_phase_parse(const char *name, hr_phase *phase);

/** Reads a name of hr_attention_form_name(). HR_ERROR_NOT_FOUND for any other; *form is then untouched. */
HR_API hr_status hr_attention_form_parse(const char *name, hr_attention_form *form);

/** Reads a name of hr_recompute_name(). HR_ERROR_NOT_FOUND for any other; *recompute is then untouched. */
HR_API hr_status hr_recompute_parse(const char *name, hr_recompute *recompute);

/** Reads a name of hr_framework_name(). HR_ERROR_NOT_FOUND for any other; *framework is then untouched. */
HR_API hr_status hr_framework_parse(const char *name, hr_framework *framework);

/** Reads a name of hr_dropout_name(). HR_ERROR_NOT_FOUND for any other; *dropout is then untouched. */
HR_API hr_status hr_dropout_parse(const char *name, hr_dropout *dropout);

#ifdef __cplusplus
}
#endif
#endif
