/* SPDX-License-Identifier: Apache-2.0 */
/* GEMMs of a step: what the matrix units multiply, experts' grouped GEMMs, GEMMs that torch.compile pads, and
 * rounding to 8 bits before them. */
#include "analysis/predict/servers.h"
#include "analysis/predict/terms.h"
#include "base/checked.h"
#include "base/error.h"
#include "hardware/hardware.h"
#include "model/layers/frameworks.h"
#include "model/layers/operator_builder.h"
#include "schedule/linear.h"

#include <headroom/experimental/predict.h>
#include <headroom/experimental/quantization.h>
#include <math.h>

#define ROW_BYTES 16 /* kernels pad the contiguous sizes of operands to multiples of it */

static int64_t padded_size(int64_t size, int64_t element_bytes)
{
  return hr_round_up(size, hr_max64(1, ROW_BYTES / element_bytes));
}

/* The time of the kernels of a GEMM but for its launch. */
static void finish(const hr_hardware *hardware, const hr_operator *op, hr_dtype dtype, double busy_ns, hr_prediction *p)
{
  hr_prediction_finish(hardware, busy_ns, (double)op->flops, hr_predict_peak(hardware, dtype), p);
}

/* The format that the matrix units multiply: that of the activations, as quantized weights are widened to it. int8 and
 * fp4 are predicted as fp8 at their own rate: `other` is then the device with that rate. */
static hr_status set_multiplied(const hr_hardware **hardware, const hr_operator *op, hr_gemm *gemm, hr_hardware *other,
                                hr_error *error)
{
  const hr_activations activations = hr_predict_activations(*hardware, op);
  double rate = 0;
  *gemm = op->gemm;
  if (op->rounds_twice) /* the copies stand as kernels in fp8 need their operands, k elements behind each other */
    gemm->transpose_a = false, gemm->transpose_b = true;
  if (activations == HR_ACTIVATIONS_INT8)
    rate = (*hardware)->int8_ops_per_s;
  if (activations == HR_ACTIVATIONS_FP4)
    rate = (*hardware)->fp4_flops_per_s;
  if (activations == HR_ACTIVATIONS_FP8 || rate > 0)
    gemm->dtype = HR_FP8_E4M3;
  else if (activations != HR_ACTIVATIONS_UNQUANTIZED)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s has no matrix rate for %s, which the activations are quantized to",
                   (*hardware)->about.name, hr_activations_name(op->activations));
  if (rate > 0) {
    *other = **hardware;
    other->dense_flops_per_s[HR_FP8_E4M3] = rate;
    *hardware = other;
  }
  return hr_gemm_check(gemm, error);
}

/* ---- experts ---- */

#define MIN_BYTES 4 /* contiguous sizes are padded if they are multiples of it: no odd size has been measured */

static double or_own(double other, double own)
{
  return other > 0 ? other : own;
}

/* The costs of a framework's kernels for operands of a format. */
static hr_expert_cost expert_cost(const hr_hardware *hardware, const hr_operator *op, hr_dtype dtype)
{
  hr_expert_cost cost = *hr_predict_expert_cost(hardware, op);
  if (hr_dtype_bytes(dtype) > 1)
    return cost;
  cost.matrix_share = or_own(cost.matrix_share_8bit, cost.matrix_share);
  cost.load_share = or_own(cost.load_share_8bit, cost.load_share);
  cost.expert_ns = or_own(cost.expert_ns_8bit, cost.expert_ns);
  return cost;
}

static int64_t grouped_size(int64_t size, int64_t element_bytes)
{
  return size * element_bytes % MIN_BYTES != 0 ? size : padded_size(size, element_bytes);
}

/* A grouped GEMM by the kernels of servers. */
static hr_status predict_grouped(const hr_hardware *hardware, const hr_operator *op, const hr_gemm *gemm,
                                 double loaded_bytes, hr_prediction *prediction, hr_error *error)
{
  const hr_expert_cost cost = expert_cost(hardware, op, gemm->dtype);
  hr_hardware device = hr_predict_scaled_device(hardware, gemm->dtype, cost.matrix_share, cost.load_share);
  const double cached = hardware->l2_bytes_per_s > 0 ? hardware->l2_bytes_per_s : hr_cache_rate(hardware);
  if (cost.load_share > 0) /* a kernel that reads memory at a part of its rate has as small a part of the cache's */
    device.cache_bytes_per_s = cached * cost.load_share / hardware->bandwidth_share;
  int64_t element_bytes = (int64_t)hr_dtype_bytes(gemm->dtype);
  hr_gemm padded = *gemm;
  padded.n = grouped_size(gemm->n, element_bytes), padded.k = grouped_size(gemm->k, element_bytes);
  padded.lda = padded.ldb = padded.ldc = 0;
  HR_TRY(hr_predict_gemm_loading(&device, &padded, true, loaded_bytes, prediction, error));
  double busy_ns = prediction->time_ns - prediction->launch_ns;
  prediction->pair_ns = (double)gemm->batch * cost.expert_ns;
  finish(hardware, op, gemm->dtype, busy_ns + prediction->pair_ns, prediction);
  hr_prediction_set_interval(hardware, HR_INTERVAL_EXPERTS, HR_DTYPE_COUNT, prediction);
  return HR_OK;
}

/* ---- padding ----
 *
 * torch.compile pads misaligned GEMMs: operands are copied into ones whose sizes are multiples of 16 bytes, where the
 * GEMM on these is faster even so. The rules are those of PyTorch 2.11, torch/_inductor/fx_passes/pad_mm.py, which
 * measures both; here both are predicted. */

#define MIN_SPEEDUP 1.1 /* that the padded GEMM with its copies needs */

/* Only GEMMs that may be bound by compute are tried: m·n·k over the elements moved has to exceed half of the FLOPs for
 * each byte of the device. */
#define MIN_INTENSITY 0.5

static hr_gemm padded_gemm(const hr_gemm *gemm)
{
  hr_gemm padded = *gemm;
  int64_t element_bytes = (int64_t)hr_dtype_bytes(gemm->dtype);
  padded.m = gemm->m == 1 ? 1 : padded_size(gemm->m, element_bytes);
  padded.n = gemm->n == 1 ? 1 : padded_size(gemm->n, element_bytes);
  padded.k = gemm->k == 1 ? 1 : padded_size(gemm->k, element_bytes);
  padded.lda = padded.ldb = padded.ldc = 0;
  padded.stride_a = padded.stride_b = padded.stride_c = 0;
  return padded;
}

bool hr_has_quantized_weights(const hr_operator *op, const hr_gemm *gemm)
{
  int64_t bytes;
  return op->activations != HR_ACTIVATIONS_UNQUANTIZED ||
         (op->kind == HR_KIND_GEMM && hr_gemm_bytes(gemm, &bytes) == HR_OK && op->bytes < bytes);
}

static bool may_pad(const hr_hardware *hardware, const hr_operator *op, const hr_gemm *gemm)
{
  bool format = gemm->dtype == HR_FP16 || gemm->dtype == HR_BF16 || gemm->dtype == HR_FP32 || gemm->dtype == HR_TF32;
  double m = (double)gemm->m, n = (double)gemm->n, k = (double)gemm->k;
  double intensity = m * n * k / (m * k + n * k + m * n);
  double balance = hr_predict_peak(hardware, gemm->dtype) / hardware->bandwidth_bytes_per_s;
  return op->framework == HR_FRAMEWORK_COMPILED && hardware->about.kind == HR_HARDWARE_GPU && format &&
         op->kind != HR_KIND_GROUPED_GEMM && !hr_has_quantized_weights(op, gemm) && intensity > MIN_INTENSITY * balance;
}

/* A copy reads an operand of rows × columns and writes the padded one. */
static double copy_ns(const hr_hardware *hardware, const hr_gemm *gemm, double elements, double padded_elements)
{
  double moved = (double)gemm->batch * (elements + padded_elements) * (double)hr_dtype_bytes(gemm->dtype);
  return padded_elements > elements ? hardware->launch_ns + hr_transfer_ns(hardware, moved, 0) : 0;
}

static double copies_ns(const hr_hardware *hardware, const hr_gemm *gemm, const hr_gemm *padded)
{
  double k = (double)gemm->k, padded_k = (double)padded->k;
  return copy_ns(hardware, gemm, (double)gemm->m * k, (double)padded->m * padded_k) +
         copy_ns(hardware, gemm, k * (double)gemm->n, padded_k * (double)padded->n);
}

/* Replaces the prediction of a compiled step's GEMM by that of the padded one and of the copies of its operands, where
 * torch.compile takes that one. */
static hr_status predict_padded(const hr_hardware *hardware, const hr_operator *op, const hr_gemm *gemm,
                                double loaded_bytes, hr_prediction *prediction, hr_error *error)
{
  hr_gemm padded = padded_gemm(gemm);
  bool misaligned = padded.m != gemm->m || padded.n != gemm->n || padded.k != gemm->k;
  if (!misaligned || !may_pad(hardware, op, gemm) || hr_gemm_check(&padded, NULL) != HR_OK)
    return HR_OK;
  hr_prediction p;
  HR_TRY(hr_predict_gemm_loading(hardware, &padded, op->kind != HR_KIND_GEMM, loaded_bytes, &p, error));
  p.padding_ns = copies_ns(hardware, gemm, &padded);
  if (prediction->time_ns <= MIN_SPEEDUP * (p.time_ns + p.padding_ns))
    return HR_OK;
  finish(hardware, op, gemm->dtype, p.time_ns - p.launch_ns + p.padding_ns, &p);
  hr_prediction_set_interval(hardware, hr_interval_kind_of(&padded, &p), padded.dtype, &p);
  p.m_alignment = prediction->m_alignment, p.n_alignment = prediction->n_alignment;
  p.k_alignment = prediction->k_alignment, p.alignment = prediction->alignment;
  *prediction = p;
  return HR_OK;
}

/* ---- rounding ---- */

#define OWN_SHARE 0.95 /* of a copy, as of other kernels of this library */

/* Servers' are of linear layers. This library's kernel is bound by memory (src/runtime/cuda/kernels/fp8.cu). */
static hr_rounding_cost rounding_cost(const hr_hardware *hardware, const hr_operator *op)
{
  if (op->rounds_twice) /* the largest element, then both copies */
    return (hr_rounding_cost){.launch_ns = 2 * hardware->launch_ns, .bandwidth_share = hardware->bandwidth_share};
  if (op->framework == HR_FRAMEWORK_HEADROOM)
    return (hr_rounding_cost){.launch_ns = hardware->launch_ns,
                              .bandwidth_share = hardware->bandwidth_share * OWN_SHARE};
  return op->kind == HR_KIND_GROUPED_GEMM ? hardware->rounding : *hr_predict_rounding_cost(hardware, op->framework);
}

/* A few rows are multiplied as they are, with weights that are widened. */
static bool rounds_itself(const hr_operator *op)
{
  return op->framework == HR_FRAMEWORK_HEADROOM && op->activations == HR_ACTIVATIONS_FP8 &&
         op->gemm.m > HR_LINEAR_ROWS_MAX;
}

/* Whether it is a plain GEMM that takes activations as a kernel of its own rounds them: in eager mode, by inference
 * servers, unless hr_operator.rounded, and by this library for more than eight rows. torch.compile rounds in the norm
 * or activation before. */
static bool rounds_alone(const hr_hardware *hardware, const hr_operator *op)
{
  bool framework = op->framework == HR_FRAMEWORK_EAGER || hr_is_server(op->framework) || rounds_itself(op);
  return op->kind == HR_KIND_GEMM && framework && !op->rounds_twice &&
         hr_predict_activations(hardware, op) != HR_ACTIVATIONS_UNQUANTIZED;
}

/* Whether a kernel before the GEMM, or grouped GEMM, rounds its activations. Two GEMMs of one input share it. */
static bool has_rounding(const hr_hardware *hardware, const hr_operator *op)
{
  if (op->rounds_twice)
    return !op->rounded;
  bool framework = op->framework == HR_FRAMEWORK_COMPILED || hr_is_server(op->framework);
  bool grouped = op->kind == HR_KIND_GROUPED_GEMM && framework &&
                 hr_predict_activations(hardware, op) != HR_ACTIVATIONS_UNQUANTIZED;
  const bool alone = rounds_alone(hardware, op) && !op->rounded;
  return (grouped || alone) && rounding_cost(hardware, op).launch_ns > 0 && !hr_shares_input(op->id);
}

#define ROUNDED_BYTES 3.0       /* of an element: read in 16 bits, written in 8 */
#define ROUNDED_TWICE_BYTES 6.0 /* read twice, written twice */
#define ROUNDED_ROWS_AT_ONCE 2  /* of a multiprocessor */

/* Adds what rounding the first operand takes (hr_rounding_cost), if the operator has a kernel for it. A block rounds a
 * row, so that few rows leave multiprocessors idle. */
static void add_rounding(const hr_hardware *hardware, const hr_operator *op, hr_prediction *p)
{
  if (!has_rounding(hardware, op))
    return;
  const hr_rounding_cost cost = rounding_cost(hardware, op);
  bool grouped = op->kind == HR_KIND_GROUPED_GEMM;
  double rows = (double)(grouped ? op->rows : op->gemm.m), columns = (double)op->gemm.k;
  const double bytes = op->rounds_twice ? ROUNDED_TWICE_BYTES : ROUNDED_BYTES;
  double waves = ceil(rows / (ROUNDED_ROWS_AT_ONCE * (double)hardware->multiprocessors));
  double moved_ns = hr_transfer_ns(hardware, bytes * rows * columns, cost.bandwidth_share);
  double busy_ns = p->time_ns - p->launch_ns;
  p->rounding_ns = cost.launch_ns + fmax(moved_ns, waves * columns * cost.element_ns);
  finish(hardware, op, HR_FP8_E4M3, busy_ns + p->rounding_ns, p);
  hr_prediction_set_interval(hardware, grouped ? HR_INTERVAL_EXPERTS : HR_INTERVAL_GEMM_8BIT, HR_DTYPE_COUNT, p);
}

/* `eager` is the device whose 8 bit GEMMs are those of eager mode or of a server. */
static const hr_hardware *eager_device(const hr_hardware *hardware, const hr_operator *op, const hr_gemm *gemm,
                                       hr_hardware *eager)
{
  const double share = hr_predict_rounding_cost(hardware, op->framework)->matrix_share;
  if (op->kind != HR_KIND_GEMM || op->framework == HR_FRAMEWORK_HEADROOM || !rounds_alone(hardware, op) || !(share > 0))
    return hardware;
  *eager = hr_predict_scaled_device(hardware, gemm->dtype, share, 0);
  return eager;
}

hr_status hr_predict_gemm_operator(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction,
                                   hr_error *error)
{
  hr_gemm gemm;
  hr_hardware other, eager;
  HR_TRY(set_multiplied(&hardware, op, &gemm, &other, error));
  double result = (double)gemm.m * (double)gemm.n * (double)gemm.batch * (double)hr_dtype_bytes(gemm.dtype);
  double loaded = fmax((double)op->bytes - result, 0);
  bool grouped = op->kind == HR_KIND_GROUPED_GEMM && hr_has_expert_cost(hardware, op);
  HR_TRY(grouped ? predict_grouped(hardware, op, &gemm, loaded, prediction, error)
                 : hr_predict_gemm_loading(eager_device(hardware, op, &gemm, &eager), &gemm, op->kind != HR_KIND_GEMM,
                                           loaded, prediction, error));
  HR_TRY(predict_padded(hardware, op, &gemm, loaded, prediction, error));
  add_rounding(hardware, op, prediction);
  return HR_OK;
}
