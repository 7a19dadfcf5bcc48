/* SPDX-License-Identifier: Apache-2.0 */
/* The time of scans and short convolutions of recurrent mixers. */
#include "analysis/predict/terms.h"

#include "base/error.h"

#include <math.h>
#include <string.h>

/* Kernels one after another: launch + bytes at a share of the bandwidth + FLOPs at a share of the library's rate; a
 * decode step, which updates the states, takes launch + bytes. Shares of an H200 by scripts/fit_scans.py, from
 * data/results/h200/scans.csv: mamba_ssm's and flash-linear-attention's Triton kernels. The states of chunks go through
 * memory, which the operator's bytes do not count and the shares contain. */
typedef struct scan_cost {
  double launch_ns, bandwidth_share, matrix_share; /* matrix_share 0: no FLOPs count */
  double update_ns, update_share;
} scan_cost;

static const scan_cost costs[] = {
    [HR_RECURRENCE_SSD] = {13985, 0.227, 0.392, 0, 0},
    [HR_RECURRENCE_GATED_DELTA] = {36175, 0.9, 0.183, 2939, 0.605},
    [HR_RECURRENCE_LIGHTNING] = {9116, 0.9, 0.286, 8385, 0.74},
    [HR_RECURRENCE_CONVOLUTION] = {2567, 0.553, 0, 2567, 0.553},
};

#define COST_COUNT (sizeof costs / sizeof *costs)
#define MEASURED_BAND 1.3 /* of the architecture that the shares were measured on: most rows lie within it */
#define OTHER_BAND 2.0    /* of other GPUs, an estimate */
#define SLOWEST 10.0 /* of kernels without a cost: times the lower bound; chunked scans take 3 to 10 times theirs */

/* Operands and results at the rate of a copy, FLOPs at that of the best GEMM. */
static double lower_bound_ns(const hr_hardware *hardware, const hr_operator *op, double rate, hr_prediction *p)
{
  p->launch_ns = hardware->launch_ns;
  p->memory_ns = hr_transfer_ns(hardware, (double)op->bytes, hardware->bandwidth_share);
  p->matrix_ns = (double)op->flops / rate * 1e9;
  return hr_overlap(p->memory_ns, p->matrix_ns);
}

/* The cost of the kernels; NULL: unknown. */
static const scan_cost *cost_of(const hr_hardware *hardware, const hr_operator *op)
{
  if (hardware->kind != HR_HARDWARE_GPU || (size_t)op->recurrence >= COST_COUNT)
    return NULL;
  const scan_cost *cost = &costs[op->recurrence];
  return (op->updates ? cost->update_ns : cost->launch_ns) > 0 ? cost : NULL;
}

hr_status hr_predict_scan(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction,
                          hr_error *error)
{
  HR_TRY(hr_predict_check_hardware(hardware, error));
  double rate;
  HR_TRY(hr_predict_rate(hardware, op->gemm.dtype, &rate, error));
  hr_prediction p = {.launch_ns = 0};
  double busy_ns = lower_bound_ns(hardware, op, rate, &p), band = SLOWEST, least = 1 + hardware->error_band;
  const scan_cost *cost = cost_of(hardware, op);
  if (cost) {
    p.launch_ns = fmax(hardware->launch_ns, op->updates ? cost->update_ns : cost->launch_ns);
    p.memory_ns = hr_transfer_ns(hardware, (double)op->bytes, op->updates ? cost->update_share : cost->bandwidth_share);
    double useful_ns = p.matrix_ns, share = op->updates ? 0 : cost->matrix_share;
    p.tile_ns = share > 0 ? useful_ns / share - useful_ns : 0;
    busy_ns = p.memory_ns + (share > 0 ? useful_ns / share : 0);
    band = least = strcmp(hardware->architecture, "hopper") == 0 ? MEASURED_BAND : OTHER_BAND;
  }
  hr_prediction_finish(hardware, busy_ns, (double)op->bytes, hardware->bandwidth_bytes_per_s, &p);
  p.low_ns = p.time_ns / least;
  p.high_ns = p.time_ns * band;
  *prediction = p;
  return HR_OK;
}
