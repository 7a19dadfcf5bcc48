/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of collectives that a device's file lacks. */
#include "analysis/calibrate/parameters.h"

#include "analysis/predict/collective_rates.h"
#include "base/checked.h"
#include "hardware/hardware.h"

#include <headroom/experimental/predict.h>
#include <math.h>
#include <string.h>

#define RAMP 1.0 /* at the start */
#define BAND 0.5

/* The rate that the row is of, without its figures. */
static hr_collective_rate key_of(const hr_validated_row *row)
{
  return (hr_collective_rate){.kind = row->collective.kind,
                              .devices = row->collective.devices,
                              .ramp = RAMP,
                              .error_band = BAND,
                              .nodes = row->nodes > 1 ? row->nodes : 0,
                              .library = row->collective.library};
}

static bool is_same(const hr_collective_rate *a, const hr_collective_rate *b)
{
  return hr_collective_rate_order(a, b) == 0 && hr_max64(a->nodes, 1) == hr_max64(b->nodes, 1);
}

static bool has_rate(const hr_hardware *hardware, const hr_collective_rate *key)
{
  for (size_t i = 0; i < hardware->collective_count; i++) {
    if (is_same(&hardware->collectives[i], key))
      return true;
  }
  return false;
}

static void insert(hr_hardware *hardware, const hr_collective_rate *rate)
{
  hr_collective_rate *rates = hardware->collectives;
  size_t at = hardware->collective_count++;
  for (; at > 0 && hr_collective_rate_order(rate, &rates[at - 1]) < 0; at--)
    rates[at] = rates[at - 1];
  rates[at] = *rate;
}

/* Between nodes only DeepEP has rates. */
static bool can_have_rate(const hr_validated_row *row)
{
  return row->kind == HR_INTERVAL_COLLECTIVE && row->collective.devices > 1 && row->collective.bytes > 0 &&
         (row->nodes <= 1 || hr_is_deepep(row->collective.library));
}

static void begin_rate(hr_hardware *hardware, const hr_validated_row *rows, size_t count, hr_collective_rate *rate,
                       int64_t least)
{
  int64_t found = 0;
  rate->latency_ns = INFINITY;
  for (size_t i = 0; i < count; i++) {
    const hr_collective_rate key = key_of(&rows[i]);
    if (!can_have_rate(&rows[i]) || !is_same(&key, rate))
      continue;
    hr_collective call = rows[i].collective;
    call.library = rate->library;
    const double sent = hr_collective_sent(&call, rate->nodes > 1 ? rate->nodes : rate->devices);
    rate->latency_ns = fmin(rate->latency_ns, rows[i].measured_ns);
    rate->bus_bytes_per_s = fmax(rate->bus_bytes_per_s, sent / rows[i].measured_ns * 1e9);
    found++;
  }
  if (found >= least)
    insert(hardware, rate);
}

void hr_collectives_begin(hr_hardware *hardware, const hr_validated_row *rows, size_t count, int64_t least)
{
  for (size_t i = 0; i < count && hardware->collective_count < HR_COLLECTIVE_RATES_MAX; i++) {
    if (!can_have_rate(&rows[i]))
      continue;
    hr_collective_rate rate = key_of(&rows[i]);
    if (!has_rate(hardware, &rate))
      begin_rate(hardware, rows, count, &rate, least);
  }
}
