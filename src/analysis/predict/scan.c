/* SPDX-License-Identifier: Apache-2.0 */
/* The time of scans and short convolutions of recurrent mixers. */
#include "analysis/predict/terms.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"
#include "model/layers/scan_counts.h"
#include "model/layers/sizes.h"

#include <headroom/experimental/predict.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* Kernels one after another: launch + bytes at a share of the bandwidth + FLOPs at a share of the library's rate; a
 * decode step, which updates the states, takes launch + bytes. The bytes contain the states of chunks, which go through
 * memory. One of the kernels goes along the sequence, and takes token_ns a token where heads and sequences are few. The
 * costs are those of an H200 (data/hardware/h200.json). */
typedef struct assumed_cost {
  size_t offset; /* of the device's own */
  hr_scan_cost cost;
} assumed_cost;

#define COST(member) offsetof(hr_hardware, member)
static const assumed_cost costs[] = {
    [HR_RECURRENCE_SSD] = {COST(scan_mamba2), {16400, 0.793, 0.287, 0, 2240, 0.785}},
    [HR_RECURRENCE_GATED_DELTA] = {COST(scan_gated_delta), {25300, 0.9, 0.23, 24, 2940, 0.605}},
    [HR_RECURRENCE_LIGHTNING] = {COST(scan_lightning), {8760, 0.9, 0.582, 13, 8380, 0.74}},
    [HR_RECURRENCE_SELECTIVE] = {COST(scan_mamba), {7450, 0.9, 0.0101, 0, 1630, 0.752}},
    [HR_RECURRENCE_RG_LRU] = {COST(scan_rg_lru), {27400, 0.147, 0, 25, 1720, 0.764}},
    [HR_RECURRENCE_CONVOLUTION] = {COST(scan_convolution), {2570, 0.553, 0, 0, 1770, 0.81}},
    /* Not measured: kernels of a gated delta net with other decays (flash-linear-attention's chunk_kda). */
    [HR_RECURRENCE_KIMI_DELTA] = {COST(scan_gated_delta), {25300, 0.9, 0.23, 24, 2940, 0.605}},
};

#define COST_COUNT (sizeof costs / sizeof *costs)
#define CHAIN_SHARE 0.25   /* of the busy time, that the kernel along the sequence takes, fitted */
#define MEASURED_BAND 1.15 /* of a device's own costs: nine of ten rows lie within it, each by a fit to the others */
#define NEAR_BAND 1.3  /* of other devices of the costs' architecture, and of own costs of another kernel, estimates */
#define OTHER_BAND 2.0 /* of other GPUs, an estimate */
#define SLOWEST 10.0   /* of kernels without a cost: times the lower bound; chunked scans take 3 to 10 times theirs */

static const hr_scan_cost *own_cost(const hr_hardware *hardware, hr_recurrence recurrence)
{
  return (const hr_scan_cost *)(const void *)((const char *)hardware + costs[recurrence].offset);
}

static bool is_known(const hr_scan_cost *cost, bool updates)
{
  return (updates ? cost->update_ns : cost->launch_ns) > 0;
}

/* The cost of the kernels: the device's own, or on a GPU the assumed one, each for sequences and for updates. */
static hr_scan_cost cost_of(const hr_hardware *hardware, hr_recurrence recurrence)
{
  const hr_scan_cost *own = own_cost(hardware, recurrence);
  hr_scan_cost cost = hardware->about.kind == HR_HARDWARE_GPU ? costs[recurrence].cost : (hr_scan_cost){0};
  if (is_known(own, false))
    cost.launch_ns = own->launch_ns, cost.bandwidth_share = own->bandwidth_share, cost.matrix_share = own->matrix_share,
    cost.token_ns = own->token_ns;
  if (is_known(own, true))
    cost.update_ns = own->update_ns, cost.update_share = own->update_share;
  return cost;
}

void hr_scan_costs_assume(hr_hardware *hardware)
{
  for (size_t i = HR_RECURRENCE_NONE + 1; i < COST_COUNT && hardware->about.kind == HR_HARDWARE_GPU; i++) {
    const hr_scan_cost cost = cost_of(hardware, (hr_recurrence)i);
    memcpy((char *)hardware + costs[i].offset, &cost, sizeof cost);
  }
}

/* Operands and results at the rate of a copy, FLOPs at that of the best GEMM. */
static double lower_bound_ns(const hr_hardware *hardware, const hr_operator *op, double rate, hr_prediction *p)
{
  p->launch_ns = hardware->launch_ns;
  p->memory_ns = hr_transfer_ns(hardware, (double)op->bytes, hardware->bandwidth_share);
  p->matrix_ns = (double)op->flops / rate * 1e9;
  return hr_overlap(p->memory_ns, p->matrix_ns);
}

/* Sets the terms; returns the time without the launch. p->matrix_ns is that at the library's rate. */
static double busy_ns_of(const hr_hardware *hardware, const hr_scan_cost *cost, const hr_operator *op, hr_prediction *p)
{
  double matrix_share = op->updates ? 0 : cost->matrix_share;
  double flops_ns = matrix_share > 0 ? p->matrix_ns / matrix_share : 0;
  p->launch_ns = fmax(hardware->launch_ns, op->updates ? cost->update_ns : cost->launch_ns);
  double bytes = (double)(op->moved_bytes > 0 ? op->moved_bytes : op->bytes);
  p->memory_ns = hr_reread_ns(hardware, bytes, op->updates ? cost->update_share : cost->bandwidth_share);
  if (matrix_share > 0)
    p->matrix_ns = fmin(p->matrix_ns, flops_ns);
  p->tile_ns = fmax(0, flops_ns - p->matrix_ns);
  double busy_ns = p->memory_ns + flops_ns;
  double chain_ns = op->updates ? 0 : cost->token_ns * (double)op->sequence;
  p->wave_ns = fmax(0, chain_ns - CHAIN_SHARE * busy_ns);
  return busy_ns + p->wave_ns;
}

hr_status hr_predict_scan_operator(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction,
                                   hr_error *error)
{
  double rate;
  HR_TRY(hr_predict_rate(hardware, op->gemm.dtype, &rate, error));
  hr_prediction p = {.launch_ns = 0};
  double busy_ns = lower_bound_ns(hardware, op, rate, &p), band = SLOWEST, least = 1 + hardware->error_band;
  const bool listed = (size_t)op->recurrence < COST_COUNT && op->recurrence != HR_RECURRENCE_NONE;
  const hr_scan_cost cost = listed ? cost_of(hardware, op->recurrence) : (hr_scan_cost){0};
  bool own = listed && is_known(own_cost(hardware, op->recurrence), op->updates);
  if (is_known(&cost, op->updates)) {
    busy_ns = busy_ns_of(hardware, &cost, op, &p);
    const bool near = own || strcmp(hardware->about.architecture, "hopper") == 0;
    own = own && op->recurrence != HR_RECURRENCE_KIMI_DELTA;
    band = own ? MEASURED_BAND : near ? NEAR_BAND : OTHER_BAND;
    least = band;
  }
  hr_prediction_finish(hardware, busy_ns, (double)op->bytes, hardware->bandwidth_bytes_per_s, &p);
  p.low_ns = p.time_ns / least;
  p.high_ns = p.time_ns * band;
  if (own)
    hr_prediction_set_interval(hardware, HR_INTERVAL_SCAN, HR_DTYPE_COUNT, &p);
  *prediction = p;
  return HR_OK;
}

/* ---- a scan or a convolution as one call: its operator ---- */

void hr_scan_call_init(hr_scan_call *call, size_t size)
{
  HR_INIT(call, size, (hr_scan_call){.dtype = HR_BF16, .recurrence = HR_RECURRENCE_SSD, .batch = 1});
}

static hr_status check_call(const hr_scan_call *call, hr_error *error)
{
  if (call->recurrence == HR_RECURRENCE_NONE || (unsigned)call->recurrence > HR_RECURRENCE_KIMI_DELTA)
    return hr_fail(error, HR_ERROR_INVALID, "recurrence: %d is not a recurrence", (int)call->recurrence);
  bool keys = call->recurrence != HR_RECURRENCE_RG_LRU && call->recurrence != HR_RECURRENCE_CONVOLUTION;
  const struct {
    const char *name;
    int64_t value, least;
  } sizes[] = {{"batch", call->batch, 1},       {"tokens", call->tokens, 1},    {"heads", call->heads, 1},
               {"head_dim", call->head_dim, 1}, {"groups", call->groups, keys}, {"state", call->state, 1},
               {"chunk", call->chunk, 0}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    HR_TRY(hr_check_range(sizes[i].name, sizes[i].value, sizes[i].least, error));
  if ((unsigned)call->dtype >= HR_DTYPE_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %d is not a number format", (int)call->dtype);
  return HR_OK;
}

/* Counted as the operator of a mixer. The convolution is that before an RG-LRU's scan, of all channels and without
 * gates; Mamba-2's norm applies the gate behind the scan. */
static hr_mixer_scan mixer_of(const hr_scan_call *call)
{
  bool convolution = call->recurrence == HR_RECURRENCE_CONVOLUTION;
  return (hr_mixer_scan){.recurrence = convolution ? HR_RECURRENCE_RG_LRU : call->recurrence,
                         .heads = call->heads,
                         .head_dim = call->head_dim,
                         .groups = call->groups,
                         .state = call->state,
                         .kernel = convolution ? call->state : 0,
                         .chunk = convolution ? 0 : call->chunk,
                         .norm = true};
}

hr_status hr_predict_scan(const hr_hardware *hardware, const hr_scan_call *call, hr_prediction *prediction,
                          hr_error *error)
{
  HR_NEED(error, hardware, call, prediction);
  HR_TAKE(hr_scan_call, call, error);
  HR_TRY(check_call(call, error));
  hr_operator op = {.id = HR_OP_SCAN, .kind = HR_KIND_SCAN, .count = 1, .gemm = hr_gemm_default()};
  op.gemm.dtype = call->dtype, op.recurrence = call->recurrence, op.updates = call->updates;
  const hr_mixer_scan mixer = mixer_of(call);
  const hr_scan_counts counts = call->recurrence == HR_RECURRENCE_CONVOLUTION
                                    ? hr_count_convolution(&mixer, call->dtype)
                                    : hr_count_scan(&mixer, call->tokens, call->updates);
  hr_checked64 rows = hr_times(hr_checked(call->batch), call->tokens);
  const hr_scan_totals totals = hr_total_scan(&counts, call->dtype, rows.value, call->batch, call->updates ? 2 : 1,
                                              hr_scan_chunks(&mixer, call->tokens, call->updates));
  op.sequence = call->tokens;
  if (rows.overflow || hr_checked_take(totals.flops, &op.flops) != HR_OK ||
      hr_checked_take(totals.bytes, &op.bytes) != HR_OK || hr_checked_take(totals.moved, &op.moved_bytes) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the scan is too large to count");
  return hr_predict_scan_operator(hardware, &op, prediction, error);
}
