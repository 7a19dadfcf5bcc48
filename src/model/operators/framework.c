/* SPDX-License-Identifier: Apache-2.0 */
/* What a framework's kernels move and how many it launches, where that is not one kernel that moves the least
 * (docs/prediction-model.md#whose-step). Kernels and bytes of eager mode are counted from Hugging Face transformers'
 * LlamaRMSNorm, apply_rotary_pos_emb, LlamaMLP and eager_attention_forward: each elementwise operation reads and writes
 * its whole operand, norms and softmax in fp32. */
#include "model/operators/framework.h"

#include "base/checked.h"
#include "model/layers/frameworks.h"
#include "shape/kv_format.h"

#include <headroom/experimental/model.h>
#include <string.h>

/* An operator as so many kernels that together move `traffic` times its bytes. */
typedef struct kernel_cost {
  int64_t kernels;
  double traffic;
} kernel_cost;

static const kernel_cost one_kernel = {1, 1};

/* Bytes of an element: to fp32 6, square 8, mean 4, scale 8, to 16 bits 6, weight 4; epsilon and root of the mean are
 * kernels without traffic. Together 36 instead of 4. LayerNorm is one kernel. */
static const kernel_cost eager_rms_norm = {8, 9};
/* Q and K each: two halves joined, one of them negated (2 + 4), two multiplications (8) and a sum (6): 20 instead of
 * 4. */
static const kernel_cost eager_rotary = {10, 5};
/* Q and K each: two multiplications (8), the negated half (2), the gradients of two halves, each zeros that a copy is
 * put into (8), and two sums (12): 30 instead of 4. */
static const kernel_cost eager_rotary_backward = {18, 7.5};
/* The gradients of x and, in a kernel of its own, of the weights: hr_operator.summed_rows. */
static const kernel_cost eager_layer_norm_backward = {2, 1};
/* Where only a part of a head is rotated, the parts are joined again, Q and K each: torch.cat of operands whose rows
 * are apart reads and writes whole heads at a tenth of the bandwidth (H200, PyTorch 2.11, 2026-11-24, fitted to the
 * steps of pythia-6.9b and gpt-j-6b in data/results/h200/steps_torch.csv). */
#define JOINED_HEADS_TRAFFIC 10
/* transformers' Q and K are transposed views, so that torch.cat of their halves has rows apart: bytes are those of the
 * others, its time is that of as many. Where only a part of a head is rotated, the join costs `JOINED` of whole heads.
 * Both fitted to the eager steps of five models (docs/notes/transformers.md#predicted). */
static const kernel_cost transformers_rotary = {10, 23.5};
#define TRANSFORMERS_JOINED_TRAFFIC 5.75
/* NewGELUActivation and BloomGelu in Python: power 4, factor 4, sum 6, factor 4, tanh 4, sum 4, half of x 4, product 6:
 * 36 bytes instead of 4. */
static const kernel_cost transformers_gelu = {8, 9};
/* silu 4 and the multiplication 6 instead of 6 together. */
static const kernel_cost eager_gate = {2, 10.0 / 6};
/* Scale 4, mask 4, to fp32 and softmax 6, to 16 bits 6: 20 instead of 4. */
static const kernel_cost eager_softmax = {4, 5};
/* Masked scores are not read: half of a causal square. */
static const kernel_cost headroom_softmax = {1, 0.75};
/* A byte of mask for each element beside reading and writing it. torch.compile fuses dropout into its neighbours, so
 * that only the mask is left. */
static kernel_cost dropout_cost(const hr_workload *workload)
{
  double element = (double)hr_dtype_bytes(workload->dtype);
  switch (hr_framework_kernels(workload->framework)) {
  case HR_FRAMEWORK_EAGER: return (kernel_cost){1, (2 * element + 1) / (2 * element)};
  case HR_FRAMEWORK_COMPILED: return (kernel_cost){1, 1 / (2 * element)};
  default: return one_kernel;
  }
}

/* PyTorch's cross entropy in fp32. Bytes of a logit: forward to fp32 2 + 4, log_softmax 4 + 4; backward zeros for the
 * gradient of log_softmax 4, log_softmax 4 + 4 + 4, to 16 bits 4 + 2. The loss itself and its gradient are kernels with
 * a few bytes for each token. fp32 logits are not converted. Source: ForCausalLMLoss of Hugging Face transformers. */
static kernel_cost eager_loss(hr_pass pass, double element)
{
  int64_t converts = element < 4 ? 1 : 0;
  double converted = element < 4 ? element + 4 : 0;
  return pass == HR_PASS_DGRAD ? (kernel_cost){3 + converts, (4 + 12 + converted) / (2 * element)}
                               : (kernel_cost){2 + converts, (8 + converted) / element};
}

/* Bytes of a parameter: gradient to fp32 and weight from it 2 · (2 + 4); clipping reads the gradients for their norm 4
 * and scales them 8; torch.optim.AdamW (foreach): decay 8, mean 12, variance 8 + 12, its root 8, bias correction 8,
 * epsilon 8, update 16. Sources: torch/optim/adamw.py and torch/nn/utils/clip_grad.py of PyTorch 2.1. */
static kernel_cost eager_optimizer(double element)
{
  double converted = element < 4 ? 2 * (element + 4) : 0, least = 2 * element + 24 + (element < 4 ? element : 0);
  return (kernel_cost){12, (12 + 80 + converted) / least};
}

#define NORM_BACKWARD_MOVES 3 /* of each element: hr_append_norm() */

#define EAGER_ATTENTION_KERNELS 4 /* K and V into the cache, the call, heads side by side again */

bool hr_is_norm(hr_operator_id id)
{
  switch (id) {
  case HR_OP_EMBEDDING_NORM:
  case HR_OP_ATTENTION_NORM:
  case HR_OP_RANK_NORM:
  case HR_OP_INDEX_NORM:
  case HR_OP_QK_NORM:
  case HR_OP_X_NORM:
  case HR_OP_ATTENTION_POST_NORM:
  case HR_OP_MLP_NORM:
  case HR_OP_MLP_POST_NORM:
  case HR_OP_FINAL_NORM: return true;
  default: return false;
  }
}

static bool is_dropout(hr_operator_id id)
{
  return id == HR_OP_EMBEDDING_DROPOUT || id == HR_OP_SOFTMAX_DROPOUT || id == HR_OP_ATTENTION_DROPOUT ||
         id == HR_OP_MLP_DROPOUT;
}

static kernel_cost eager_rotary_cost(const hr_mixer_attention *heads, hr_framework framework, hr_pass pass)
{
  bool transformers = hr_is_transformers(framework);
  kernel_cost cost = transformers ? transformers_rotary : eager_rotary;
  if (pass == HR_PASS_DGRAD)
    cost = eager_rotary_backward;
  if (heads->rotary_dim > 0 && heads->rotary_dim < heads->qk_dim) {
    cost.kernels += 2;
    cost.traffic += (transformers ? TRANSFORMERS_JOINED_TRAFFIC : JOINED_HEADS_TRAFFIC) * (double)heads->qk_dim /
                    (double)heads->rotary_dim;
  }
  return cost;
}

/* Whether transformers computes the activation in Python, operation by operation. */
static bool is_python_gelu(const hr_model *model, hr_framework framework)
{
  bool named = strcmp(model->activation, "gelu_new") == 0 || strcmp(model->activation, "gelu_fast") == 0;
  return hr_is_transformers(framework) && (named || model->numerics.gelu_tanh);
}

static kernel_cost eager_activation_cost(const hr_model *model, hr_framework framework, bool gated)
{
  kernel_cost cost = gated ? eager_gate : one_kernel;
  if (is_python_gelu(model, framework) && !gated)
    cost = transformers_gelu;
  return cost;
}

static kernel_cost eager_cost(const hr_model *model, const hr_workload *workload, const hr_operator *op)
{
  double element = (double)hr_dtype_bytes(workload->dtype);
  const hr_layer_group *layer = hr_model_main_group(model);
  if (hr_is_norm(op->id) && model->norm == HR_NORM_RMS)
    return eager_rms_norm;
  if (hr_is_norm(op->id))
    return op->pass == HR_PASS_DGRAD ? eager_layer_norm_backward : one_kernel;
  switch (op->id) {
  case HR_OP_ROTARY: return eager_rotary_cost(&layer->attention, workload->framework, op->pass);
  case HR_OP_ACTIVATION: return eager_activation_cost(model, workload->framework, layer->dense.gated);
  case HR_OP_EXPERT_ACTIVATION:
  case HR_OP_SHARED_ACTIVATION: return layer->experts.gated ? eager_gate : one_kernel;
  case HR_OP_SOFTMAX: return eager_softmax;
  case HR_OP_LOSS: return eager_loss(op->pass, element);
  case HR_OP_OPTIMIZER: return eager_optimizer(element);
  default: return one_kernel;
  }
}

static kernel_cost cost_of(const hr_model *model, const hr_workload *workload, const hr_operator *op)
{
  bool square = op->id == HR_OP_SOFTMAX && workload->phase != HR_PHASE_DECODE;
  if (is_dropout(op->id))
    return dropout_cost(workload);
  if (hr_framework_kernels(workload->framework) == HR_FRAMEWORK_EAGER)
    return eager_cost(model, workload, op);
  return workload->framework == HR_FRAMEWORK_HEADROOM && square ? headroom_softmax : one_kernel;
}

/* Prefill writes K and V of all tokens into the cache, in a framework by a kernel of its own that reads them again. A
 * decode kernel's cost has the few of its new tokens in it. */
static int64_t cached_bytes(const hr_model *model, const hr_workload *workload, const hr_operator *op)
{
  const hr_mixer_latent *latent = &hr_model_main_group(model)->latent;
  const hr_attention *a = &op->attention;
  if (workload->phase != HR_PHASE_PREFILL || op->kind != HR_KIND_ATTENTION || op->latent || op->id == HR_OP_INDEX_SCORE)
    return 0;
  if (hr_model_main_group(model)->compressed.q_heads > 0) /* its norm and its compressors write into the cache */
    return 0;
  hr_checked64 token = hr_plus(hr_times(hr_checked(a->k_heads), a->qk_dim), hr_times(hr_checked(a->v_heads), a->v_dim));
  if (latent->q_heads > 0) /* the cache has the latents */
    token = hr_checked(latent->kv_rank + latent->rope_dim);
  hr_checked64 elements = hr_times(hr_times(token, a->batch), a->kv_len);
  hr_checked64 read = hr_times(elements, (int64_t)hr_dtype_bytes(a->dtype));
  hr_checked64 moved = hr_plus(read, hr_kv_bytes(workload->kv_cache, a->dtype, elements));
  return moved.overflow ? INT64_MAX / 2 : hr_min64(moved.value, INT64_MAX / 2);
}

static int64_t bytes_of_kv(const hr_attention *a, double times)
{
  double token = (double)a->k_heads * (double)a->qk_dim + (double)a->v_heads * (double)a->v_dim;
  double bytes = token * (double)a->batch * (double)a->kv_len * (double)hr_dtype_bytes(a->dtype) * times;
  return bytes < 0x1p62 ? (int64_t)bytes : INT64_MAX / 2;
}

/* While it is compiled transformers passes sdpa a mask, launched by Python only where a window or a bias needs one; for
 * a mask it repeats K and V for each query head first, which sdpa then reads. A DynamicCache joins K and V anew in each
 * decode step. Sources: sdpa_attention_forward, use_gqa_in_sdpa and DynamicLayer of transformers 5.17. */
static void take_transformers_attention(const hr_workload *workload, hr_operator *op)
{
  const hr_attention *a = &op->attention;
  bool compiled = op->framework == HR_FRAMEWORK_COMPILED, decode = workload->phase == HR_PHASE_DECODE;
  int64_t groups = a->q_heads / hr_max64(1, hr_max64(a->k_heads, a->v_heads));
  op->masked = compiled || a->window > 0 || a->alibi;
  if (op->masked && groups > 1)
    op->cached_bytes += bytes_of_kv(a, 2.0 * (double)groups);
  if (decode && !compiled)
    op->cached_bytes += bytes_of_kv(a, 2);
}

/* Rows over which eager mode sums the gradients of a LayerNorm's weights. */
static int64_t summed_rows(const hr_model *model, const hr_workload *workload, const hr_operator *op)
{
  bool summed = hr_is_norm(op->id) && op->pass == HR_PASS_DGRAD && model->norm != HR_NORM_RMS &&
                hr_framework_kernels(workload->framework) == HR_FRAMEWORK_EAGER && op->columns > 0;
  return summed ? op->bytes / (NORM_BACKWARD_MOVES * (int64_t)hr_dtype_bytes(workload->dtype) * op->columns) : 0;
}

/* Servers round to fp8 in the norm, activation or attention before a linear layer; scales of blocks, which follow from
 * the rounded values, take a kernel of their own. It holds for TensorRT-LLM, vLLM and SGLang
 * (docs/notes/serving.md). */
static bool rounds_before(const hr_model *model, const hr_operator *op)
{
  for (size_t i = 0; i < model->quantization.format_count; i++) {
    const hr_weight_format *f = &model->quantization.formats[i];
    if (f->activations == HR_ACTIVATIONS_FP8 && f->block_inputs > 0)
      return false;
  }
  return hr_is_server(op->framework) && op->kind == HR_KIND_GEMM && op->activations == HR_ACTIVATIONS_FP8;
}

void hr_apply_framework(const hr_model *model, const hr_workload *workload, hr_operators *operators)
{
  for (size_t i = 0; i < operators->count; i++) {
    hr_operator *op = &operators->items[i];
    op->framework = hr_framework_kernels(workload->framework);
    op->flash = op->kind == HR_KIND_ATTENTION ? workload->flash : HR_FLASH_NEWEST;
    op->kernels = 1;
    op->cached_bytes = cached_bytes(model, workload, op);
    op->rounded = rounds_before(model, op);
    const bool attends = op->kind == HR_KIND_ATTENTION && op->id != HR_OP_INDEX_SCORE;
    if (attends && op->framework == HR_FRAMEWORK_EAGER)
      op->kernels = EAGER_ATTENTION_KERNELS;
    if (attends && hr_is_transformers(workload->framework))
      take_transformers_attention(workload, op);
    if (op->kind != HR_KIND_MEMORY)
      continue;
    kernel_cost cost = cost_of(model, workload, op);
    op->kernels = cost.kernels;
    if (op->pass != HR_PASS_BGRAD)
      op->summed_rows = summed_rows(model, workload, op);
    op->moved_bytes = (int64_t)((double)op->bytes * cost.traffic);
  }
}
