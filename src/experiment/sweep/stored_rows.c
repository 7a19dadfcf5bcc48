/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the rows of a sweep in the store. */
#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "experiment/stored_run.h"
#include "experiment/sweep/run.h"
#include "hardware/hardware.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Points are found by a hash of their axes: stores and sweeps have thousands of rows and points. */
typedef struct place {
  uint64_t hash;
  size_t index;
} place;

typedef struct finder {
  const hr_sweep *sweep;
  const hr_sweep_options *options;
  const hr_result *base;
  place *places;
  size_t count;
  hr_sweep_row *rows;
  int64_t found;
} finder;

static uint64_t hash_of(const char *text)
{
  return XXH3_64bits(text, strlen(text));
}

static int compare_places(const void *a, const void *b)
{
  const place *x = a, *y = b;
  if (x->hash != y->hash)
    return x->hash < y->hash ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static size_t first_place(const finder *f, uint64_t hash)
{
  size_t low = 0, high = f->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (f->places[middle].hash < hash)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static int take_row(void *context, const hr_result *row)
{
  finder *f = context;
  uint64_t hash = hash_of(row->axes);
  if (!hr_stored_run_has(f->base, row))
    return 0;
  for (size_t i = first_place(f, hash); i < f->count && f->places[i].hash == hash; i++) {
    hr_sweep_point point;
    hr_result wanted = *f->base;
    size_t index = f->places[i].index;
    if (hr_sweep_point_at(f->sweep, index, f->options->dtype, &point, NULL) != HR_OK)
      continue;
    hr_sweep_set_point(&wanted, &point);
    if (strcmp(wanted.axes, row->axes) != 0 || strcmp(wanted.series, row->series) != 0 ||
        strcmp(wanted.problem, row->problem) != 0 || strcmp(wanted.kernel_asked, row->kernel_asked) != 0 ||
        wanted.autotune != row->autotune)
      continue;
    hr_sweep_row *to = &f->rows[index];
    f->found += !to->found;
    to->found = true; /* a later row replaces an earlier one */
    to->measurement = row->measurement;
    to->ceiling_share = row->ceiling_share;
    hr_copy_text(to->date, sizeof to->date, row->date);
  }
  return 0;
}

static hr_status fill_places(finder *f, hr_error *error)
{
  for (size_t i = 0; i < f->count; i++) {
    hr_sweep_point point;
    HR_TRY(hr_sweep_point_at(f->sweep, i, f->options->dtype, &point, error));
    f->places[i] = (place){hash_of(point.axes), i};
  }
  qsort(f->places, f->count, sizeof *f->places, compare_places);
  return HR_OK;
}

hr_status hr_sweep_rows(const hr_sweep *sweep, const hr_device *device, hr_store *store,
                        const hr_sweep_options *options, hr_sweep_row **rows, hr_error *error)
{
  HR_NEED(error, sweep, device, store, options, rows);
  HR_TAKE(hr_sweep_options, options, error);
  hr_hardware hardware;
  hr_result base = hr_sweep_base_row(sweep, device, options, &hardware);
  size_t count = hr_sweep_describe(sweep)->point_count;
  finder f = {.sweep = sweep,
              .options = options,
              .base = &base,
              .count = count,
              .places = malloc(count * sizeof(place)),
              .rows = calloc(count, sizeof(hr_sweep_row))};
  hr_result_filter filter = hr_result_filter_default();
  filter.sweep = base.sweep;
  hr_status status = HR_OK;
  if (!f.places || !f.rows)
    status = hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory for its rows", base.sweep);
  if (status == HR_OK)
    status = fill_places(&f, error);
  if (status == HR_OK)
    status = hr_store_query(store, &filter, take_row, &f, error);
  free(f.places);
  if (status != HR_OK) {
    free(f.rows);
    return status;
  }
  *rows = f.rows;
  return HR_OK;
}
