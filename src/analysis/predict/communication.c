/* SPDX-License-Identifier: Apache-2.0 */
/* The time of an operator's collective by the library that its framework calls. */
#include "base/error.h"
#include "hardware/hardware.h"
#include "model/layers/frameworks.h"

#include <headroom/experimental/collective.h>
#include <headroom/experimental/predict.h>

/* Libraries are in the order of the servers. */
static hr_collective_library of_server(hr_collective_library first, hr_framework framework)
{
  return (hr_collective_library)(first + (framework - HR_FRAMEWORK_TRTLLM));
}

hr_collective_library hr_predict_library(hr_framework framework)
{
  if (hr_is_server(framework))
    return of_server(HR_LIBRARY_TRTLLM, framework);
  return framework == HR_FRAMEWORK_HEADROOM ? HR_LIBRARY_HEADROOM : HR_LIBRARY_NCCL;
}

hr_status hr_predict_communication(const hr_hardware *hardware, const hr_operator *op, hr_collective *collective,
                                   hr_prediction *prediction, hr_error *error)
{
  HR_NEED(error, hardware, op, collective, prediction);
  hr_collective c = hr_collective_default(), low_latency;
  c.kind = op->collective, c.devices = op->devices, c.stride = op->stride, c.bytes = op->bytes;
  c.library = hr_predict_library(op->framework);
  if (op->served && op->framework == HR_FRAMEWORK_COMPILED)
    c.library = HR_LIBRARY_SERVERS;
  c.copies = op->copies;
  const bool deepep = op->copies > 0 && hr_is_server(op->framework);
  if (deepep)
    c.library = of_server(HR_LIBRARY_DEEPEP_TRTLLM, op->framework);
  hr_prediction p, other;
  HR_TRY(hr_predict_collective(hardware, &c, &p, error));
  if (deepep) {
    low_latency = c;
    low_latency.library = of_server(HR_LIBRARY_DEEPEP_LL_TRTLLM, op->framework);
    HR_TRY(hr_predict_collective(hardware, &low_latency, &other, error));
    if (other.time_ns < p.time_ns)
      c = low_latency, p = other;
  }
  hr_collective nccl = c;
  nccl.library = HR_LIBRARY_NCCL;
  HR_TRY(hr_predict_collective(hardware, &nccl, &other, error));
  *collective = other.time_ns == p.time_ns ? nccl : c; /* the library calls NCCL, or has no figures */
  *prediction = p;
  return HR_OK;
}
