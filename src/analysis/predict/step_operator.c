/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/predict/step.h"

#include "analysis/predict/terms.h"
#include "base/error.h"
#include "hardware/hardware.h"
#include "model/operators/fused.h"
#include "schedule/linear.h"
#include "schedule/pieces.h"

#include <headroom/experimental/predict.h>
#include <math.h>
#include <string.h>

/* In a decode step each of this library's kernels begins before the one before it ends, and waits for what that one
 * wrote: this share of the shortest kernel more than when it is called over and over. In a prefill, kernels have
 * more blocks than places, and hide it. Fitted to every other of 21 decode steps of 2026-11-29
 * (docs/notes/step-gpu.md#predicted). */
#define WAIT_SHARE 0.44

/* What copy engines send beside GEMMs is hidden, but both draw on the card's power, a sum of pieces is slower, and the
 * last piece has nothing behind it: in three models on two H200s (docs/notes/ranks.md#sums-beside-other-rows). */
#define HIDDEN_SHARE 0.28

/* A product or attention of the one kernel of a decode step begins when the results that it reads have come from other
 * multiprocessors, which the weights that are copied ahead do not hide; a product longer where its rows do not fill the
 * slots that they are copied to. Each multiprocessor reads all rows of x, and attends to further sequences. Fitted to
 * every other of 31 steps of up to 4 sequences on an H200 (docs/notes/step-gpu.md#predicted). */
#define PERSISTENT_WAIT_NS 1600.0
#define PERSISTENT_PARTIAL_WAIT_NS 3000.0
#define PERSISTENT_ATTENTION_WAIT_NS 1000.0
#define PERSISTENT_SEQUENCE_NS 2000.0
#define PERSISTENT_ROWS_BYTES_PER_S 14e9 /* of a multiprocessor, behind the first row */

/* Nothing is copied ahead while a layer's experts are chosen. Fitted to the only two models with experts that were
 * measured in it. */
#define PERSISTENT_CHOICE_NS 6000.0

/* Weights in fp8 are converted nearly as slowly as the memory brings them. Fitted to two steps of Llama-3.1-8B. */
#define PERSISTENT_FP8_SHARE 0.8 /* of the bandwidth */

#define PERSISTENT_SHARED_BYTES 131072 /* of a multiprocessor: compute capability 12.x has less */

static void add_to_launch(hr_prediction *p, double ns)
{
  p->launch_ns += ns;
  p->time_ns += ns;
  p->low_ns += ns;
  p->high_ns += ns;
}

/* A part of another operator's kernel takes what it reads and writes. */
static double launch_change(const hr_hardware *hardware, hr_phase phase, const hr_operator *op, const hr_prediction *p)
{
  const double least = fmin(p->launch_ns, p->low_ns);
  return op->fused ? -least : phase == HR_PHASE_DECODE ? WAIT_SHARE * hardware->launch_ns : 0;
}

/* What a multiprocessor waits for, and what it reads of x, before it multiplies. */
static double wait_ns_of(const hr_operator *op)
{
  const hr_gemm *g = &op->gemm;
  if (op->kind == HR_KIND_ATTENTION)
    return PERSISTENT_ATTENTION_WAIT_NS + PERSISTENT_SEQUENCE_NS * (double)(op->attention.batch - 1);
  const bool chooses = op->kind == HR_KIND_GROUPED_GEMM && op->id != HR_OP_EXPERT_DOWN;
  const double x_ns = 2.0 * (double)((g->m - 1) * g->k) / PERSISTENT_ROWS_BYTES_PER_S * 1e9;
  const bool full = g->k % HR_LINEAR_SLOT_COLUMNS == 0 && !hr_has_quantized_weights(op, &op->gemm);
  return (full ? PERSISTENT_WAIT_NS : PERSISTENT_PARTIAL_WAIT_NS) + x_ns + (chooses ? PERSISTENT_CHOICE_NS : 0);
}

/* The kernel reads all weights in one go. */
static void predict_persistent(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction)
{
  const double bytes = (double)op->bytes;
  const double memory_ns =
      hr_transfer_ns(hardware, bytes, 0) / (hr_has_quantized_weights(op, &op->gemm) ? PERSISTENT_FP8_SHARE : 1);
  hr_prediction p = {.memory_ns = memory_ns,
                     .exposed_ns = op->kind == HR_KIND_GEMM ? memory_ns : 0,
                     .launch_ns = op->fused ? 0 : wait_ns_of(op),
                     .m_alignment = prediction->m_alignment,
                     .n_alignment = prediction->n_alignment,
                     .k_alignment = prediction->k_alignment,
                     .alignment = prediction->alignment};
  hr_prediction_finish(hardware, memory_ns, bytes, hardware->bandwidth_bytes_per_s, &p);
  *prediction = p;
}

/* Weights in fp8 are a format of the kernel's. */
static bool has_formats_of_kernel(const hr_model *model)
{
  bool all = true;
  for (size_t i = 0; i < model->quantization.format_count; i++)
    all = all && strcmp(model->quantization.formats[i].name, "fp8") == 0;
  return all;
}

bool hr_predict_persists(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload)
{
  const char *architecture = hardware->about.architecture;
  const bool has = strcmp(architecture, "hopper") == 0 || strcmp(architecture, "blackwell") == 0;
  return has && hardware->shared_bytes >= PERSISTENT_SHARED_BYTES && has_formats_of_kernel(model) &&
         workload->kv_cache == HR_KV_UNQUANTIZED && hr_is_persistent(model, workload);
}

hr_status hr_predict_step_operator(const hr_hardware *hardware, hr_phase phase, const hr_operator *op,
                                   hr_prediction *prediction, hr_error *error)
{
  HR_TRY(hr_predict_operator(hardware, op, prediction, error));
  if (op->persistent)
    predict_persistent(hardware, op, prediction);
  else if (op->framework == HR_FRAMEWORK_HEADROOM && op->kind != HR_KIND_COMMUNICATION &&
           hardware->about.kind == HR_HARDWARE_GPU)
    add_to_launch(prediction, launch_change(hardware, phase, op, prediction));
  return HR_OK;
}

double hr_hidden_ns(const hr_hardware *hardware, hr_phase phase, const hr_operator *op, double time_ns)
{
  const bool sums = op->kind == HR_KIND_COMMUNICATION && op->collective == HR_ALL_REDUCE && op->in_layer;
  const bool runs = op->framework == HR_FRAMEWORK_HEADROOM && phase != HR_PHASE_DECODE && phase != HR_PHASE_TRAIN;
  const bool near = hardware->about.kind == HR_HARDWARE_GPU && op->devices <= hardware->devices_per_node;
  return sums && runs && near && hr_sum_travels_beside(op->bytes, op->devices) ? HIDDEN_SHARE * time_ns : 0;
}
