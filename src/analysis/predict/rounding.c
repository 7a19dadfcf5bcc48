/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding activations to 8 bits before a GEMM. */
#include "analysis/predict/rounding.h"

#include "analysis/predict/servers.h"
#include "analysis/predict/terms.h"
#include "hardware/hardware.h"
#include "model/layers/frameworks.h"
#include "schedule/linear.h"

#include <math.h>

#define OWN_SHARE 0.95 /* of a copy, as of other kernels of this library */

/* Servers' are of linear layers. This library's kernel is bound by memory (src/runtime/cuda/kernels/fp8.cu). */
static hr_rounding_cost cost_of(const hr_hardware *hardware, const hr_operator *op)
{
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

bool hr_rounds_alone(const hr_hardware *hardware, const hr_operator *op)
{
  bool framework = op->framework == HR_FRAMEWORK_EAGER || hr_is_server(op->framework) || rounds_itself(op);
  return op->kind == HR_KIND_GEMM && framework && hr_predict_activations(hardware, op) != HR_ACTIVATIONS_UNQUANTIZED;
}

bool hr_has_rounding(const hr_hardware *hardware, const hr_operator *op)
{
  bool second = op->id == HR_OP_MLP_GATE || op->id == HR_OP_SHARED_GATE || op->id == HR_OP_K_TRANSFORM ||
                op->id == HR_OP_V_TRANSFORM || op->id == HR_OP_KV_DOWN || op->id == HR_OP_EXPERT_GATE;
  bool framework = op->framework == HR_FRAMEWORK_COMPILED || hr_is_server(op->framework);
  bool grouped = op->kind == HR_KIND_GROUPED_GEMM && framework &&
                 hr_predict_activations(hardware, op) != HR_ACTIVATIONS_UNQUANTIZED;
  return (grouped || (hr_rounds_alone(hardware, op) && !op->rounded)) && cost_of(hardware, op).launch_ns > 0 && !second;
}

#define ROUNDED_BYTES 3.0      /* of an element: read in 16 bits, written in 8 */
#define ROUNDED_ROWS_AT_ONCE 2 /* of a multiprocessor */

void hr_add_rounding(const hr_hardware *hardware, const hr_operator *op, hr_prediction *p)
{
  if (!hr_has_rounding(hardware, op))
    return;
  const hr_rounding_cost cost = cost_of(hardware, op);
  bool grouped = op->kind == HR_KIND_GROUPED_GEMM;
  double rows = (double)(grouped ? op->rows : op->gemm.m), columns = (double)op->gemm.k;
  double waves = ceil(rows / (ROUNDED_ROWS_AT_ONCE * (double)hardware->multiprocessors));
  double moved_ns = hr_transfer_ns(hardware, ROUNDED_BYTES * rows * columns, cost.bandwidth_share);
  double busy_ns = p->time_ns - p->launch_ns;
  p->rounding_ns = cost.launch_ns + fmax(moved_ns, waves * columns * cost.element_ns);
  hr_prediction_finish(hardware, busy_ns + p->rounding_ns, (double)op->flops, hr_predict_peak(hardware, HR_FP8_E4M3),
                       p);
  hr_prediction_set_interval(hardware, grouped ? HR_INTERVAL_EXPERTS : HR_INTERVAL_GEMM_8BIT, p);
}
