/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/predict/collective_rates.h"

#include "base/checked.h"
#include "hardware/hardware.h"

#include <headroom/experimental/collective.h>
#include <math.h>

#define BEYOND_FIT_BAND 1.0 /* more devices than were measured; an estimate */

/* Rates of one library and collective, within a node or between several. */
typedef struct rate_key {
  hr_collective_library library;
  hr_collective_kind kind;
  bool several_nodes;
} rate_key;

bool hr_is_deepep(hr_collective_library library)
{
  return library >= HR_LIBRARY_DEEPEP_TRTLLM && library <= HR_LIBRARY_DEEPEP_LL_SGLANG;
}

static bool is_of(const hr_collective_rate *rate, const rate_key *key)
{
  return rate->library == key->library && rate->kind == key->kind && (rate->nodes > 1) == key->several_nodes;
}

/* Rates of a key differ in their devices, or in their nodes. */
static int64_t size_of(const hr_collective_rate *rate)
{
  return rate->nodes > 1 ? rate->nodes : rate->devices;
}

/* DeepEP sends a token once to each of `size` devices or nodes that has an expert of it: of evenly chosen experts that
 * are size · (1 − (1 − 1/size)^copies) in the mean. Its kernels of low latency send a copy for each expert. */
double hr_collective_sent(const hr_collective *part, int64_t size)
{
  double sent = hr_collective_bus_share(part->kind, size) * (double)part->bytes, n = (double)size;
  bool once = hr_is_deepep(part->library) && part->library <= HR_LIBRARY_DEEPEP_SGLANG;
  if (!once || part->copies < 1 || size < 2)
    return sent;
  double reached = -n * expm1((double)part->copies * log1p(-1 / n));
  return sent * reached / (double)part->copies;
}

static hr_path_time time_of_rate(const hr_collective_rate *rate, const hr_collective *part, int64_t size)
{
  double transfer_ns = hr_collective_sent(part, size) / rate->bus_bytes_per_s * 1e9;
  double ramp_ns = rate->ramp * sqrt(rate->latency_ns * transfer_ns);
  return (hr_path_time){rate->latency_ns, transfer_ns + ramp_ns, rate->error_band};
}

static double total(hr_path_time time)
{
  return time.latency_ns + time.transfer_ns;
}

/* The fastest of the ways that are fitted for `fitted` devices or nodes, for `size` of them. */
static hr_path_time fastest_way(const hr_hardware *hardware, const rate_key *key, const hr_collective *part,
                                int64_t fitted, int64_t size)
{
  hr_path_time best = {INFINITY, INFINITY, 0};
  for (size_t i = 0; i < hardware->collective_count; i++) {
    const hr_collective_rate *rate = &hardware->collectives[i];
    if (!is_of(rate, key) || size_of(rate) != fitted)
      continue;
    hr_path_time time = time_of_rate(rate, part, size);
    if (total(time) < total(best))
      best = time;
  }
  return best;
}

/* The nearest fitted sizes up and down; 0 where there is none. */
static void neighbours(const hr_hardware *hardware, const rate_key *key, int64_t size, int64_t *below, int64_t *above)
{
  *below = *above = 0;
  for (size_t i = 0; i < hardware->collective_count; i++) {
    const int64_t fitted = size_of(&hardware->collectives[i]);
    if (!is_of(&hardware->collectives[i], key))
      continue;
    if (fitted <= size)
      *below = hr_max64(*below, fitted);
    if (fitted >= size)
      *above = *above ? hr_min64(*above, fitted) : fitted;
  }
}

/* Between two fitted sizes the times are interpolated. Beyond the largest the bus bandwidth stays, and the latency
 * grows with the size, as the steps of a ring. */
static bool fitted_time(const hr_hardware *hardware, const rate_key *key, const hr_collective *part, int64_t size,
                        hr_path_time *time)
{
  int64_t below, above;
  neighbours(hardware, key, size, &below, &above);
  if (!below && !above)
    return false;
  if (!below || !above) {
    *time = fastest_way(hardware, key, part, hr_max64(below, above), size);
    if (below)
      time->latency_ns *= (double)size / (double)below;
    time->error_band = fmax(time->error_band, BEYOND_FIT_BAND);
    return true;
  }
  hr_path_time low = fastest_way(hardware, key, part, below, below);
  hr_path_time high = fastest_way(hardware, key, part, above, above);
  double weight = above > below ? (double)(size - below) / (double)(above - below) : 0;
  *time = (hr_path_time){low.latency_ns + weight * (high.latency_ns - low.latency_ns),
                         low.transfer_ns + weight * (high.transfer_ns - low.transfer_ns),
                         fmax(low.error_band, high.error_band)};
  return true;
}

/* The rates of DeepEP as a server calls it, or where there are none, as SGLang does. */
static bool deepep_time(const hr_hardware *hardware, const hr_collective *part, bool several_nodes, int64_t size,
                        hr_path_time *time)
{
  bool once = part->library <= HR_LIBRARY_DEEPEP_SGLANG;
  rate_key key = {part->library, part->kind, several_nodes};
  if (fitted_time(hardware, &key, part, size, time))
    return true;
  key.library = once ? HR_LIBRARY_DEEPEP_SGLANG : HR_LIBRARY_DEEPEP_LL_SGLANG;
  return fitted_time(hardware, &key, part, size, time);
}

bool hr_rates_in_node(const hr_hardware *hardware, const hr_collective *part, hr_path_time *time)
{
  const rate_key own = {part->library, part->kind, false}, nccl = {HR_LIBRARY_NCCL, part->kind, false};
  hr_path_time others;
  if (hr_is_deepep(part->library) && deepep_time(hardware, part, false, part->devices, time))
    return true;
  bool found = fitted_time(hardware, &own, part, part->devices, time);
  if (!fitted_time(hardware, &nccl, part, part->devices, &others))
    return found;
  if (!found || total(others) < total(*time))
    *time = others;
  return true;
}

bool hr_rates_of_nodes(const hr_hardware *hardware, const hr_collective *whole, int64_t nodes, hr_path_time *time)
{
  return hr_is_deepep(whole->library) && deepep_time(hardware, whole, true, nodes, time);
}
