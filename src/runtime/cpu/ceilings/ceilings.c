/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the ceiling loops: each on one thread alone, then on all of the device's. */
#include "runtime/cpu/ceilings/ceilings.h"
#include "base/error.h"
#include "base/names.h"
#include "hardware/hardware.h"
#include "runtime/cpu/ceilings/rounds.h"
#include "runtime/device/clock.h"

#include <math.h>
#include <stdlib.h>

#define ROUND_NS 1.5e6 /* long compared with waking a thread, short compared with a scheduler's time slice */
#define STEPS_FIRST 2000

typedef struct job {
  const hr_cpu_loop *loop;
  int64_t steps;
  float *results; /* one for each thread, a cache line apart; stored so that the compiler keeps the loop */
} job;

#define LINE_FLOATS 16

static void work(void *context, int index, int round)
{
  const job *j = context;
  (void)round;
  j->results[LINE_FLOATS * index] = j->loop->run(j->steps);
}

hr_status hr_cpu_time_loop(const hr_cpu *cpu, const hr_cpu_loop *loop, int threads, int rounds, double *per_s,
                           hr_error *error)
{
  double round_ns[HR_CPU_ROUNDS_MAX], best_ns = INFINITY;
  job j = {.loop = loop, .steps = STEPS_FIRST, .results = calloc((size_t)threads * LINE_FLOATS, sizeof(float))};
  if (!j.results)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: not enough memory for threads");
  work(&j, 0, 0); /* some cores power up wide units only when they are used */
  double start = hr_clock_ns();
  work(&j, 0, 0);
  j.steps = (int64_t)(STEPS_FIRST * fmin(fmax(ROUND_NS / (hr_clock_ns() - start), 1), 1e5));
  hr_status status = hr_rounds_run(threads, &cpu->affinity, work, &j, rounds, round_ns, error);
  for (int i = 0; i < rounds; i++)
    best_ns = fmin(best_ns, round_ns[i]);
  if (status == HR_OK)
    *per_s = loop->count * (double)j.steps * threads / best_ns * 1e9;
  free(j.results);
  return status;
}

static hr_status measure_loop(hr_device *device, const hr_cpu_loop *loop, hr_ceiling *ceiling, hr_error *error)
{
  hr_ceiling c = {.kind = loop->kind, .dtype = loop->dtype};
  hr_copy_text(c.instruction, sizeof c.instruction, loop->instruction);
  for (int all = 0; all < 2; all++) {
    int threads = all ? device->threads : 1;
    double *per_s = all ? &c.per_s : &c.core_per_s;
    if (all && threads == 1)
      c.per_s = c.core_per_s;
    else if (loop->read)
      HR_TRY(hr_cpu_read_rate(device, loop->read, threads, per_s, error));
    else
      HR_TRY(hr_cpu_time_loop(hr_cpu_of(device), loop, threads, HR_CPU_ROUNDS_MAX, per_s, error));
  }
  c.per_s = fmax(c.per_s, c.core_per_s); /* other programs had the other cores */
  *ceiling = c;
  return HR_OK;
}

/* Only the widest read is measured: memory limits them all. */
static bool is_skipped(const hr_cpu *cpu, const hr_cpu_loop *loop, const hr_cpu_loop *end)
{
  if (loop->needs && !hr_isa_has(&cpu->isa, loop->needs))
    return true;
  for (const hr_cpu_loop *next = loop + 1; loop->read && next < end; next++) {
    if (next->read && (!next->needs || hr_isa_has(&cpu->isa, next->needs)))
      return true;
  }
  return false;
}

hr_status hr_cpu_measure_ceilings(hr_device *device, const hr_progress_range *range, hr_ceiling *ceilings,
                                  size_t *count, hr_error *error)
{
  size_t loop_count;
  const hr_cpu_loop *loops = hr_cpu_loops(&loop_count);
  for (size_t i = 0; i < loop_count && *count < HR_CEILINGS_MAX; i++) {
    if (is_skipped(hr_cpu_of(device), &loops[i], loops + loop_count))
      continue;
    HR_TRY(hr_progress_range_report(range, (double)i / (double)loop_count, loops[i].instruction, error));
    HR_TRY(measure_loop(device, &loops[i], &ceilings[*count], error));
    ++*count;
  }
  return HR_OK;
}
