/* SPDX-License-Identifier: Apache-2.0 */
/* The engines of engines.inc. */
#include "analysis/load/simulation.h"

#define NS_PER_MS 1e6

/* The column of a degree: 1, 2, 4 or 8, the next one below, or the last. */
static size_t degree_of(int64_t tensor_parallel)
{
  size_t place = 0;
  while (place < 3 && tensor_parallel >> (place + 1) > 0)
    place++;
  return place;
}

hr_load_engine hr_load_engine_of(hr_serve_engine engine, int64_t tensor_parallel)
{
  static const struct {
    hr_load_engine order;
    double step_ms[4];
  } rows[HR_SERVE_ENGINE_COUNT] = {
#define HR_LOAD_ENGINE(name, mixes, splits, reserved, t1, t2, t4, t8, sequence_ms, arrival_ms, low, high, ttft_low,   \
                       ttft_high, ttft_busy)                                                                          \
  [name] = {{mixes, splits, false, reserved, 0, (sequence_ms)*NS_PER_MS, (arrival_ms)*NS_PER_MS, low, high, ttft_low, \
             ttft_high, ttft_busy},                                                                                   \
            {t1, t2, t4, t8}},
#include "analysis/load/engines.inc"
#undef HR_LOAD_ENGINE
  };
  hr_load_engine found = rows[engine].order;
  found.step_ns = rows[engine].step_ms[degree_of(tensor_parallel)] * NS_PER_MS;
  found.decodes_first = hr_serve_decodes_first(engine);
  return found;
}
