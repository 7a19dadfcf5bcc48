/* SPDX-License-Identifier: Apache-2.0 */
/* torch.compile pads misaligned GEMMs: operands are copied into ones whose sizes are multiples of 16 bytes, where the
 * GEMM on these is faster even so. The rules are those of PyTorch 2.11, torch/_inductor/fx_passes/pad_mm.py, which
 * measures both; here both are predicted. */
#include "analysis/predict/padding.h"

#include "analysis/predict/terms.h"
#include "base/checked.h"
#include "base/error.h"
#include "hardware/hardware.h"

#define ROW_BYTES 16    /* sizes become multiples of it */
#define MIN_SPEEDUP 1.1 /* that the padded GEMM with its copies needs */

/* Only GEMMs that may be bound by compute are tried: m·n·k over the elements moved has to exceed half of the FLOPs for
 * each byte of the device. */
#define MIN_INTENSITY 0.5

static int64_t padded_size(int64_t size, int64_t element_bytes)
{
  return size == 1 ? 1 : hr_round_up(size, hr_max64(1, ROW_BYTES / element_bytes));
}

static hr_gemm padded_gemm(const hr_gemm *gemm)
{
  hr_gemm padded = *gemm;
  int64_t element_bytes = (int64_t)hr_dtype_bytes(gemm->dtype);
  padded.m = padded_size(gemm->m, element_bytes);
  padded.n = padded_size(gemm->n, element_bytes);
  padded.k = padded_size(gemm->k, element_bytes);
  padded.lda = padded.ldb = padded.ldc = 0;
  padded.stride_a = padded.stride_b = padded.stride_c = 0;
  return padded;
}

/* Quantized weights have fewer bytes, and kernels of their own. */
static bool has_quantized_weights(const hr_operator *op, const hr_gemm *gemm)
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
         op->kind != HR_KIND_GROUPED_GEMM && !has_quantized_weights(op, gemm) && intensity > MIN_INTENSITY * balance;
}

/* A copy reads the operand and writes the padded one. */
static double copy_ns(const hr_hardware *hardware, double elements, double padded_elements, double element_bytes)
{
  return hardware->launch_ns + hr_transfer_ns(hardware, (elements + padded_elements) * element_bytes, 0);
}

static double copies_ns(const hr_hardware *hardware, const hr_gemm *gemm, const hr_gemm *padded)
{
  double bytes = (double)hr_dtype_bytes(gemm->dtype), batch = (double)gemm->batch, sum = 0;
  bool k = padded->k != gemm->k;
  if (k || padded->m != gemm->m)
    sum += copy_ns(hardware, batch * (double)gemm->m * (double)gemm->k, batch * (double)padded->m * (double)padded->k,
                   bytes);
  if (k || padded->n != gemm->n)
    sum += copy_ns(hardware, batch * (double)gemm->k * (double)gemm->n, batch * (double)padded->k * (double)padded->n,
                   bytes);
  return sum;
}

hr_status hr_predict_padded(const hr_hardware *hardware, const hr_operator *op, const hr_gemm *gemm,
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
  hr_prediction_finish(hardware, p.time_ns - p.launch_ns + p.padding_ns, (double)op->flops,
                       hr_predict_peak(hardware, gemm->dtype), &p);
  hr_prediction_set_gemm_interval(hardware, &padded, &p);
  p.m_alignment = prediction->m_alignment, p.n_alignment = prediction->n_alignment;
  p.k_alignment = prediction->k_alignment, p.alignment = prediction->alignment;
  *prediction = p;
  return HR_OK;
}
