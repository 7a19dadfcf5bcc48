/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/stored_run.h"

#include "base/error.h"
#include "base/names.h"
#include "hardware/hardware.h"

#include <headroom/experimental/store.h>
#include <string.h>

static int report(void *context, double done, const char *what)
{
  (void)done;
  (void)what;
  hr_stored_run *run = context;
  return run->report ? run->report(run->context, &run->now) : 0;
}

void hr_stored_run_begin(hr_stored_run *run, hr_sweep_progress_fn callers, void *context, int64_t total)
{
  run->report = callers, run->context = context;
  run->now = (hr_sweep_progress){.total = total, .what = run->what};
  run->progress = (hr_progress){.report = report, .context = run};
}

hr_result hr_stored_run_base(const hr_device *device, const char *sweep, bool warm, uint64_t seed,
                             hr_hardware *hardware)
{
  hr_result base = hr_result_default();
  *hardware = hr_hardware_default(); /* stays so for the reference, which has no speed to describe */
  hr_device_detect(device, hardware, NULL);
  hr_result_set_device(&base, device, hardware);
  hr_copy_text(base.sweep, sizeof base.sweep, sweep);
  base.measurement.warm = warm;
  base.seed = seed;
  return base;
}

bool hr_stored_run_has(const hr_result *base, const hr_result *row)
{
  return strcmp(row->product, base->product) == 0 && row->threads == base->threads &&
         row->measurement.warm == base->measurement.warm;
}

hr_status hr_stored_run_keep(hr_stored_run *run, hr_store *store, hr_result *row, bool beside, hr_error *error)
{
  bool added = true, noisy = row->measurement.status == HR_ERROR_NOISY;
  run->now.storing = true;
  report(run, 0, NULL);
  run->now.storing = false;
  HR_TRY(beside ? hr_store_append(store, row, error) : hr_store_append_new(store, row, &added, error));
  run->collided = !added;
  run->now.skipped += !added;
  run->now.measured += added;
  run->now.noisy += added && noisy;
  run->now.failed += added && row->measurement.status != HR_OK && !noisy;
  return HR_OK;
}
