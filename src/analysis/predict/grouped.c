/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped GEMMs of routed experts by the kernels of inference servers. */
#include "analysis/predict/grouped.h"

#include "analysis/predict/servers.h"
#include "analysis/predict/terms.h"
#include "base/checked.h"
#include "base/error.h"
#include "hardware/hardware.h"
#include "model/layers/frameworks.h"

#include <math.h>

#define ROW_BYTES 16 /* grouped GEMMs pad the contiguous sizes of their operands to it, */
#define MIN_BYTES 4  /* if they are multiples of this: no odd size has been measured */

static int64_t padded_size(int64_t size, int64_t element_bytes)
{
  bool odd = size * element_bytes % MIN_BYTES != 0;
  return odd ? size : hr_round_up(size, hr_max64(1, ROW_BYTES / element_bytes));
}

bool hr_has_expert_cost(const hr_hardware *hardware, const hr_operator *op)
{
  bool framework = op->framework == HR_FRAMEWORK_COMPILED || hr_is_server(op->framework);
  return framework && op->pass == HR_PASS_FORWARD && hr_predict_expert_cost(hardware, op->framework)->routing_ns > 0;
}

static double or_own(double other, double own)
{
  return other > 0 ? other : own;
}

/* The costs of a framework's kernels for operands of a format. */
static hr_expert_cost cost_of(const hr_hardware *hardware, hr_framework framework, hr_dtype dtype)
{
  hr_expert_cost cost = *hr_predict_expert_cost(hardware, framework);
  if (hr_dtype_bytes(dtype) > 1)
    return cost;
  cost.matrix_share = or_own(cost.matrix_share_8bit, cost.matrix_share);
  cost.load_share = or_own(cost.load_share_8bit, cost.load_share);
  cost.expert_ns = or_own(cost.expert_ns_8bit, cost.expert_ns);
  return cost;
}

hr_status hr_predict_grouped(const hr_hardware *hardware, const hr_operator *op, const hr_gemm *gemm,
                             hr_prediction *prediction, hr_error *error)
{
  const hr_expert_cost cost = cost_of(hardware, op->framework, gemm->dtype);
  const hr_hardware device = hr_predict_scaled_device(hardware, gemm->dtype, cost.matrix_share, cost.load_share);
  int64_t element_bytes = (int64_t)hr_dtype_bytes(gemm->dtype);
  hr_gemm padded = *gemm;
  padded.n = padded_size(gemm->n, element_bytes), padded.k = padded_size(gemm->k, element_bytes);
  padded.lda = padded.ldb = padded.ldc = 0;
  double result = (double)gemm->m * (double)gemm->n * (double)gemm->batch * (double)hr_dtype_bytes(gemm->dtype);
  HR_TRY(hr_predict_gemm_loading(&device, &padded, true, fmax((double)op->bytes - result, 0), prediction, error));
  double busy_ns = prediction->time_ns - prediction->launch_ns;
  prediction->pair_ns = (double)gemm->batch * cost.expert_ns;
  hr_prediction_finish(hardware, busy_ns + prediction->pair_ns, (double)op->flops,
                       hr_predict_peak(hardware, gemm->dtype), prediction);
  hr_prediction_set_interval(hardware, HR_INTERVAL_EXPERTS, prediction);
  return HR_OK;
}
