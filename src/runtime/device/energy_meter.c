/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/energy_meter.h"

#include "base/error.h"
#include "runtime/device/clock.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define READS_A_STEP 20 /* power is known to 1 / (reads a step × steps) */

struct hr_energy_meter {
  const hr_device *device;
  pthread_t thread;
  atomic_bool stop;
  double first_ns, first_j, last_ns, last_j; /* at the first and the last step */
  int64_t steps;
  double clock_sum; /* over the steps; NAN once one is unknown */
};

bool hr_energy_is_counted(const hr_device *device)
{
  return device->backend->energy_j && device->backend->energy_step_ns > 0 && !isnan(device->backend->energy_j(device));
}

static void note_step(hr_energy_meter *m, double now_ns, double energy_j)
{
  hr_conditions conditions;
  if (m->steps++ == 0) {
    m->first_ns = now_ns;
    m->first_j = energy_j;
  }
  m->last_ns = now_ns;
  m->last_j = energy_j;
  hr_device_conditions(m->device, &conditions);
  m->clock_sum += conditions.clock_hz;
}

/* The counter advances in steps, so that only the moments at which it changes tell when how much was consumed. */
static void *watch(void *context)
{
  hr_energy_meter *m = context;
  const hr_backend *backend = m->device->backend;
  const struct timespec pause = {.tv_nsec = (long)(backend->energy_step_ns / READS_A_STEP)};
  double before = backend->energy_j(m->device);
  while (!atomic_load(&m->stop)) {
    double energy_j = backend->energy_j(m->device), now_ns = hr_clock_ns();
    if (energy_j != before)
      note_step(m, now_ns, energy_j);
    before = energy_j;
    nanosleep(&pause, NULL);
  }
  return NULL;
}

hr_status hr_energy_meter_start(const hr_device *device, hr_energy_meter **meter, hr_error *error)
{
  *meter = NULL;
  if (!hr_energy_is_counted(device))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: has no energy counter", device->name);
  hr_energy_meter *m = calloc(1, sizeof *m);
  if (!m)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: not enough memory to read its energy", device->name);
  m->device = device;
  atomic_init(&m->stop, false);
  if (pthread_create(&m->thread, NULL, watch, m) != 0) {
    free(m);
    return hr_fail(error, HR_ERROR_UNAVAILABLE, "%s: a thread that reads its energy cannot be started", device->name);
  }
  *meter = m;
  return HR_OK;
}

void hr_energy_meter_stop(hr_energy_meter *m, double *power_w, double *clock_hz)
{
  double power = (double)NAN, clock = (double)NAN;
  if (m) {
    atomic_store(&m->stop, true);
    pthread_join(m->thread, NULL);
    if (m->steps > 1)
      power = (m->last_j - m->first_j) / (m->last_ns - m->first_ns) * 1e9;
    if (m->steps > 0)
      clock = m->clock_sum / (double)m->steps;
    free(m);
  }
  if (power_w)
    *power_w = power;
  if (clock_hz)
    *clock_hz = clock;
}
