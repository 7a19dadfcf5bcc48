/* SPDX-License-Identifier: Apache-2.0 */
/* Collective communication: a latency, a transfer and its ramp within a node, and the network between nodes. */
#include "analysis/predict/collective_rates.h"
#include "analysis/predict/terms.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"
#include "model/layers/frameworks.h"

#include <headroom/experimental/collective.h>
#include <headroom/experimental/predict.h>
#include <math.h>

#define NETWORK_BAND 1.0 /* networks differ in topology and load; an estimate */
#define RING_BAND \
  1.2 /* no fit: nine of ten of such times are within 0.8 to 2 where there is one (docs/notes/prediction.md) */

/* Ranks on one CPU exchange through its memory: one writes every byte, another reads it. */
static double link_bytes_per_s(const hr_hardware *hardware)
{
  if (hardware->interconnect_bytes_per_s > 0 || hardware->about.kind != HR_HARDWARE_CPU)
    return hardware->interconnect_bytes_per_s;
  return hardware->bandwidth_bytes_per_s * hardware->bandwidth_share / 2;
}

/* ---- within a node ---- */

static hr_status time_in_node(const hr_hardware *hardware, const hr_collective *part, hr_path_time *time,
                              hr_error *error)
{
  *time = (hr_path_time){0, 0, 0};
  if (part->devices < 2 || hr_rates_in_node(hardware, part, time))
    return HR_OK;
  double rate = link_bytes_per_s(hardware), sent = hr_collective_bus_share(part->kind, part->devices);
  if (!(rate > 0))
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "%s has no interconnect rate, which communication between devices needs", hardware->about.name);
  double latency_ns = hardware->interconnect_latency_ns > 0 ? hardware->interconnect_latency_ns : hardware->launch_ns;
  *time = (hr_path_time){latency_ns, sent * (double)part->bytes / rate * 1e9, fmax(hardware->error_band, RING_BAND)};
  return HR_OK;
}

/* ---- between nodes ---- */

/* Devices of the group on each node. Without a size of nodes or a network all devices are one node. */
static int64_t devices_on_a_node(const hr_hardware *hardware, const hr_collective *collective)
{
  if (hardware->devices_per_node < 1 || !(hardware->network_bytes_per_s > 0))
    return collective->devices;
  return hr_min64(hr_max64(hardware->devices_per_node / collective->stride, 1), collective->devices);
}

/* A protocol of NCCL's rings: a step to another node over the network's latency, a step within a node, and how many
 * times as long the transfer takes. Source: NCCL at b647562, src/graph/tuning.cc: between nodes 14.0 and 2.7 us where a
 * step of a tree is 5.0, over NVLink 3.4 and 1.8 · 0.6 us, and LL at a quarter of the rate of Simple. */
typedef struct ring_protocol {
  double network_steps, step_ns, slowdown;
} ring_protocol;

static const ring_protocol ring_protocols[] = {{14.0 / 5.0, 3400, 1}, {2.7 / 5.0, 1080, 4}};

/* The data passes all devices once, by the protocol that takes less time. */
static hr_path_time time_of_ring(const hr_hardware *hardware, int64_t devices, int64_t nodes, double transfer_ns)
{
  hr_path_time best = {INFINITY, 0, NETWORK_BAND};
  for (size_t i = 0; i < sizeof ring_protocols / sizeof *ring_protocols; i++) {
    const ring_protocol *p = &ring_protocols[i];
    double latency_ns =
        (double)(nodes - 1) * p->network_steps * hardware->network_latency_ns + (double)(devices - nodes) * p->step_ns;
    if (latency_ns + p->slowdown * transfer_ns < best.latency_ns + best.transfer_ns)
      best = (hr_path_time){latency_ns, p->slowdown * transfer_ns, NETWORK_BAND};
  }
  return best;
}

/* Predicts a collective of `nodes` peers, one on each node. Each device sends by its own adapter: the n-th devices of
 * all nodes reduce or gather their share of the bytes. An all-to-all goes straight to the devices of all other nodes.
 * Small messages take a tree of ⌈log2 nodes⌉ levels, for an all-reduce up and down. NCCL has no tree for an all-gather
 * and a reduce-scatter: these go around a ring of all devices. */
static hr_path_time time_of_network(const hr_hardware *hardware, const hr_collective *collective, int64_t on_node,
                                    int64_t nodes)
{
  double sent = hr_collective_bus_share(collective->kind, nodes) / (double)on_node;
  double levels = ceil(log2((double)nodes)), steps = collective->kind == HR_ALL_REDUCE ? 2 * levels : levels;
  if (collective->kind == HR_ALL_TO_ALL) {
    sent = (double)(collective->devices - on_node) / (double)collective->devices;
    steps = 1;
  }
  const double transfer_ns = sent * (double)collective->bytes / hardware->network_bytes_per_s * 1e9;
  if (collective->kind == HR_ALL_GATHER || collective->kind == HR_REDUCE_SCATTER)
    return time_of_ring(hardware, collective->devices, nodes, transfer_ns);
  return (hr_path_time){steps * hardware->network_latency_ns, transfer_ns, NETWORK_BAND};
}

/* The devices of one node do the same collective; of an all-to-all they exchange only their own part. */
static hr_collective part_in_node(const hr_collective *collective, int64_t on_node)
{
  hr_collective part = *collective;
  part.devices = on_node;
  if (collective->kind == HR_ALL_TO_ALL)
    part.bytes = (int64_t)((double)collective->bytes * (double)on_node / (double)collective->devices);
  return part;
}

static void finish(const hr_hardware *hardware, const hr_collective *part, hr_path_time local, hr_path_time network,
                   hr_prediction *prediction)
{
  hr_prediction p = {.launch_ns = local.latency_ns + network.latency_ns,
                     .memory_ns = fmax(local.transfer_ns, network.transfer_ns)};
  bool by_network = network.transfer_ns > local.transfer_ns;
  double sent = by_network ? network.transfer_ns : hr_collective_sent(part, part->devices);
  double link = by_network ? 1e9 : link_bytes_per_s(hardware);
  hr_prediction_finish(hardware, p.memory_ns, sent, link > 0 ? link : INFINITY, &p);
  double band = fmax(local.error_band, network.error_band);
  p.low_ns = p.time_ns / (1 + band);
  p.high_ns = p.time_ns * (1 + band);
  hr_prediction_set_interval(hardware, HR_INTERVAL_COLLECTIVE, HR_DTYPE_COUNT, &p);
  if (p.bound_by != HR_BOUND_LAUNCH)
    p.bound_by = by_network ? HR_BOUND_NETWORK : HR_BOUND_INTERCONNECT;
  *prediction = p;
}

hr_status hr_predict_collective(const hr_hardware *hardware, const hr_collective *collective, hr_prediction *prediction,
                                hr_error *error)
{
  HR_NEED(error, hardware, collective, prediction);
  HR_TAKE(hr_collective, collective, error);
  HR_TRY(hr_collective_check(collective, error));
  HR_TRY(hr_predict_check_hardware(hardware, error));
  int64_t on_node = devices_on_a_node(hardware, collective), nodes = hr_ceil_div(collective->devices, on_node);
  hr_collective part = part_in_node(collective, on_node);
  hr_path_time local = {0, 0, 0}, network = {0, 0, 0};
  if (nodes < 2 || !hr_rates_of_nodes(hardware, collective, nodes, &network)) {
    HR_TRY(time_in_node(hardware, &part, &local, error));
    if (nodes > 1)
      network = time_of_network(hardware, collective, on_node, nodes);
  }
  finish(hardware, &part, local, network, prediction);
  return HR_OK;
}

/* ---- operators: by the library that their framework calls ---- */

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
  hr_collective c = hr_collective_default();
  c.kind = op->collective, c.devices = op->devices, c.stride = op->stride, c.bytes = op->bytes;
  const bool deepep = op->copies > 0 && hr_is_server(op->framework);
  c.copies = op->copies;
  c.library = op->served && op->framework == HR_FRAMEWORK_COMPILED ? HR_LIBRARY_SERVERS
              : deepep                                             ? of_server(HR_LIBRARY_DEEPEP_TRTLLM, op->framework)
                                                                   : hr_predict_library(op->framework);
  hr_collective low_latency = c, nccl = c;
  low_latency.library = of_server(HR_LIBRARY_DEEPEP_LL_TRTLLM, op->framework);
  nccl.library = HR_LIBRARY_NCCL;
  hr_prediction p, other;
  HR_TRY(hr_predict_collective(hardware, &c, &p, error));
  if (deepep)
    HR_TRY(hr_predict_collective(hardware, &low_latency, &other, error));
  if (deepep && other.time_ns < p.time_ns)
    c = low_latency, p = other;
  HR_TRY(hr_predict_collective(hardware, &nccl, &other, error));
  *collective = other.time_ns == p.time_ns ? nccl : c; /* the library calls NCCL, or has no figures */
  *prediction = p;
  return HR_OK;
}
