/* SPDX-License-Identifier: Apache-2.0 */
/* The engines of engines.inc. */
#include "analysis/load/simulation.h"
#include "hardware/hardware.h"

#include <string.h>

#define NS_PER_MS 1e6
#define DEGREES 4 /* 1, 2, 4 and 8 */

/* Shared memory that Blackwell's GPUs of data centers have more than, and others less. */
#define SHARED_BYTES 131072

/* The column of a degree, the next one below, or the last. */
static size_t degree_of(int64_t tensor_parallel)
{
  size_t place = 0;
  while (place < DEGREES - 1 && tensor_parallel >> (place + 1) > 0)
    place++;
  return place;
}

/* Times of an engine on certain devices. */
typedef struct own_times {
  hr_serve_engine engine;
  double step_ms[DEGREES], arrival_ms;
} own_times;

/* NULL: they are those of other devices. */
static const own_times *times_on(const hr_hardware *hardware, hr_serve_engine engine)
{
  static const own_times rows[] = {
#define HR_LOAD_ENGINE(...)
#define HR_LOAD_BLACKWELL(name, t1, t2, t4, t8, arrival_ms) {name, {t1, t2, t4, t8}, arrival_ms},
#include "analysis/load/engines.inc"
#undef HR_LOAD_ENGINE
#undef HR_LOAD_BLACKWELL
  };
  const bool blackwell =
      strcmp(hardware->about.architecture, "blackwell") == 0 && hardware->shared_bytes > SHARED_BYTES;
  for (size_t i = 0; i < sizeof rows / sizeof *rows && blackwell; i++) {
    if (rows[i].engine == engine)
      return &rows[i];
  }
  return NULL;
}

hr_load_engine hr_load_engine_of(const hr_hardware *hardware, hr_serve_engine engine, int64_t tensor_parallel)
{
  static const struct {
    hr_load_engine order;
    double step_ms[DEGREES];
  } rows[HR_SERVE_ENGINE_COUNT] = {
#define HR_LOAD_BLACKWELL(...)
#define HR_LOAD_ENGINE(name, mixes, splits, reserved, t1, t2, t4, t8, sequence_ms, arrival_ms, low, high, ttft_low,   \
                       ttft_high, ttft_busy)                                                                          \
  [name] = {{mixes, splits, false, reserved, 0, (sequence_ms)*NS_PER_MS, (arrival_ms)*NS_PER_MS, low, high, ttft_low, \
             ttft_high, ttft_busy},                                                                                   \
            {t1, t2, t4, t8}},
#include "analysis/load/engines.inc"
#undef HR_LOAD_ENGINE
#undef HR_LOAD_BLACKWELL
  };
  hr_load_engine found = rows[engine].order;
  const own_times *own = times_on(hardware, engine);
  const double *step_ms = own ? own->step_ms : rows[engine].step_ms;
  found.step_ns = step_ms[degree_of(tensor_parallel)] * NS_PER_MS;
  if (own)
    found.arrival_ns = own->arrival_ms * NS_PER_MS;
  found.decodes_first = hr_serve_decodes_first(engine);
  return found;
}
