/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch by kind of operator; memory-bound operators. */
#include "analysis/predict/servers.h"
#include "analysis/predict/terms.h"
#include "base/error.h"
#include "hardware/hardware.h"
#include "model/layers/frameworks.h"
#include "model/operators/framework.h"
#include "shape/kv_format.h"

#include <headroom/experimental/collective.h>
#include <headroom/experimental/predict.h>
#include <math.h>

/* `busy_ns`: without the launch. The efficiency is that of the scores that are seen. */
static void finish_attention(const hr_hardware *hardware, const hr_operator *op, double busy_ns, hr_prediction *p)
{
  hr_prediction_finish(hardware, busy_ns, (double)op->flops, hr_predict_peak(hardware, op->attention.dtype), p);
  hr_prediction_set_interval(hardware, hr_predict_attention_kind(&op->attention, op->framework), HR_DTYPE_COUNT, p);
}

/* K and V copied into the cache behind the call. */
static void add_cache_writes(const hr_hardware *hardware, const hr_operator *op, hr_prediction *p)
{
  if (op->cached_bytes == 0)
    return;
  p->cache_ns = hr_recent_ns(hardware, (double)op->cached_bytes, 0);
  finish_attention(hardware, op, p->time_ns - p->launch_ns + p->cache_ns, p);
}

/* The call that computes all scores. */
static hr_status predict_masked(const hr_hardware *hardware, const hr_operator *op, hr_prediction *p, hr_error *error)
{
  hr_attention whole = op->attention;
  whole.mask = HR_MASK_NONE;
  whole.window = 0;
  HR_TRY(hr_predict_attention_by(hardware, &whole, op->framework, p, error));
  finish_attention(hardware, op, p->time_ns - p->launch_ns, p);
  return HR_OK;
}

static hr_status predict_attention(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction,
                                   hr_error *error)
{
  hr_decode decode = hr_decode_default();
  bool forward = op->pass == HR_PASS_FORWARD || op->pass == HR_PASS_RECOMPUTE;
  if (op->latent)
    HR_TRY(hr_decode_from_latent(&op->attention, &decode, error));
  if (op->latent ||
      (forward && op->attention.q_len == 1 && hr_decode_from_attention(&op->attention, &decode, NULL) == HR_OK)) {
    decode.cache_format = op->id == HR_OP_INDEX_SCORE ? HR_KV_UNQUANTIZED : op->kv_cache; /* keys of an indexer */
    HR_TRY(hr_decode_set_pages(&decode, op->page_size > 0 ? op->page_size : HR_KV_PAGE_USUAL, error));
    HR_TRY(hr_predict_decode_by(hardware, &decode, op->framework, prediction, error));
    add_cache_writes(hardware, op, prediction);
    return HR_OK;
  }
  /* Eager mode is nobody's server. */
  bool server = op->cached_bytes > 0 && (op->framework == HR_FRAMEWORK_COMPILED || hr_is_server(op->framework));
  hr_hardware older;
  hardware = hr_predict_flash_device(hardware, op, &older);
  if (!forward)
    return hr_predict_gradients(hardware, op, prediction, error);
  HR_TRY(op->masked ? predict_masked(hardware, op, prediction, error)
                    : hr_predict_prefill(hardware, &op->attention, op->framework, server, prediction, error));
  add_cache_writes(hardware, op, prediction);
  return HR_OK;
}

#define HEADROOM_SHARE 0.95 /* of a copy: 85 to 101% for most shapes (docs/notes/rowwise.md) */

static bool is_routing(hr_operator_id id)
{
  return id == HR_OP_DISPATCH || id == HR_OP_EXPERT_ACTIVATION || id == HR_OP_COMBINE;
}

/* A framework's kernels that reduce over rows or compute much per element reach less bandwidth than a copy. Several
 * kernels for one operator are elementwise for the most part. */
static double memory_share(const hr_hardware *hardware, const hr_operator *op)
{
  if (op->framework == HR_FRAMEWORK_HEADROOM && hardware->about.kind == HR_HARDWARE_GPU)
    return hardware->bandwidth_share * HEADROOM_SHARE;
  if (op->id == HR_OP_LOSS) /* its kernels are softmax's */
    return hardware->softmax_share;
  if (op->kernels > 1)
    return hardware->bandwidth_share;
  if (is_routing(op->id) && hr_has_expert_cost(hardware, op) && hr_predict_expert_cost(hardware, op)->moved_share > 0)
    return hr_predict_expert_cost(hardware, op)->moved_share;
  if (op->pass == HR_PASS_BGRAD)
    return hardware->norm_share;
  switch (op->id) {
  case HR_OP_SOFTMAX: return hardware->softmax_share;
  case HR_OP_ACTIVATION:
  case HR_OP_EXPERT_ACTIVATION:
  case HR_OP_SHARED_ACTIVATION: return hardware->activation_share;
  default: return hr_is_norm(op->id) ? hardware->norm_share : hardware->bandwidth_share;
  }
}

/* PyTorch's sums over rows, GPU kernels that neither bandwidth nor compute binds: a block sums 32 columns of the
 * gradients of a LayerNorm's weights, row after row, and reads x and dy again; a bias's gradient takes two steps.
 * Measured in training steps of gpt2, gpt2-xl, opt-1.3b and pythia-410m (H100, PyTorch 2.11). */
#define NORM_ROW_NS 4.9
#define BIAS_SUM_NS 5000.0

static double summed_ns(const hr_hardware *hardware, const hr_operator *op)
{
  if (op->summed_rows == 0 || hardware->about.kind != HR_HARDWARE_GPU)
    return 0;
  if (op->pass == HR_PASS_BGRAD)
    return BIAS_SUM_NS;
  return fmax((double)op->summed_rows * NORM_ROW_NS, hr_transfer_ns(hardware, 2.0 / 3 * (double)op->bytes, 0));
}

#define RESULT_BYTES 2   /* of an element: experts' results have 16 bits */
#define CHOSEN_AT_ONCE 8 /* experts of a token, that the fused kernels of servers choose and sort */

static double routing_ns(const hr_expert_cost *cost, const hr_operator *op)
{
  double further = fmax(0, (double)op->copies - CHOSEN_AT_ONCE),
         tokens = (double)op->chosen / fmax(1, (double)op->copies);
  return cost->routing_ns + cost->sort_ns * ceil(further / CHOSEN_AT_ONCE) + cost->choice_ns * tokens * further;
}

/* What servers' kernels move for experts of other devices: they have a place for each copy of each token. */
static double remote_bytes(const hr_hardware *hardware, const hr_operator *op)
{
  if (op->id == HR_OP_DISPATCH || op->chosen == 0 || !hr_has_expert_cost(hardware, op))
    return 0;
  double copy =
      op->id == HR_OP_COMBINE ? RESULT_BYTES * (double)op->columns : (double)op->bytes / fmax(1, (double)op->rows);
  return hr_predict_expert_cost(hardware, op)->remote_share * copy * (double)op->chosen;
}

static hr_status predict_memory(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction,
                                hr_error *error)
{
  HR_TRY(hr_predict_check_hardware(hardware, error));
  double kernels = fmax(1, (double)op->kernels);
  double moved = (double)(op->moved_bytes > 0 ? op->moved_bytes : op->bytes);
  hr_prediction p = {.launch_ns = hardware->launch_ns * kernels};
  if (op->id == HR_OP_DISPATCH && hr_has_expert_cost(hardware, op))
    p.launch_ns = fmax(p.launch_ns, routing_ns(hr_predict_expert_cost(hardware, op), op));
  moved += remote_bytes(hardware, op);
  p.memory_ns = hr_transfer_ns(hardware, moved, memory_share(hardware, op)) + summed_ns(hardware, op);
  hr_prediction_finish(hardware, p.memory_ns, (double)op->bytes, hardware->bandwidth_bytes_per_s, &p);
  *prediction = p;
  return HR_OK;
}

static hr_status predict_communication(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction,
                                       hr_error *error)
{
  hr_collective collective;
  return hr_predict_communication(hardware, op, &collective, prediction, error);
}

typedef hr_status (*predict_fn)(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction,
                                hr_error *error);

static const predict_fn by_kind[] = {
    [HR_KIND_GEMM] = hr_predict_gemm_operator,       [HR_KIND_BMM] = hr_predict_gemm_operator,
    [HR_KIND_ATTENTION] = predict_attention,         [HR_KIND_MEMORY] = predict_memory,
    [HR_KIND_COMMUNICATION] = predict_communication, [HR_KIND_GROUPED_GEMM] = hr_predict_gemm_operator,
    [HR_KIND_SCAN] = hr_predict_scan_operator,
};

hr_status hr_predict_operator(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction,
                              hr_error *error)
{
  HR_NEED(error, hardware, op, prediction);
  if ((unsigned)op->kind >= sizeof by_kind / sizeof *by_kind)
    return hr_fail(error, HR_ERROR_INVALID, "kind: %d is not an operator kind", (int)op->kind);
  return by_kind[op->kind](hardware, op, prediction, error);
}
