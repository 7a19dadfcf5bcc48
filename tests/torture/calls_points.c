/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of points: designed, measured into a store, read back and held against predictions. A point that had no memory
 * has a row that says so, which ends the program as an error does. */
#include "calls.h"

#include <headroom/experimental/points.h>
#include <inttypes.h>
#include <stdlib.h>

#define POINTS 2

static hr_status count_designed(const hr_hardware *hardware, hr_error *error)
{
  hr_point *designed = NULL;
  size_t count = 0;
  hr_status status = hr_points_design(hardware, &designed, &count, error);
  if (status == HR_OK)
    printf("%zu points\n", count);
  free(designed);
  return status;
}

static hr_status had_memory(hr_store *store, hr_error *error)
{
  hr_result_filter filter = hr_result_filter_default();
  filter.only_status = true, filter.status = HR_ERROR_OUT_OF_MEMORY;
  int64_t without = 0;
  hr_status status = hr_store_count(store, &filter, &without, error);
  if (status == HR_OK && without > 0) {
    snprintf(error->message, sizeof error->message, "the row of a point");
    status = HR_ERROR_OUT_OF_MEMORY;
  }
  return status;
}

static hr_status use_points(hr_device *device, const hr_hardware *hardware, hr_error *error)
{
  hr_point points[POINTS];
  for (int i = 0; i < POINTS; i++) {
    points[i] = (hr_point){.kind = HR_INTERVAL_GEMM, .gemm = hr_gemm_default(), .attention = hr_attention_default()};
    points[i].gemm.m = i + 1, points[i].gemm.n = 2, points[i].gemm.k = 4;
    points[i].gemm.dtype = HR_FP32;
  }
  hr_points_options options = hr_points_options_default();
  options.time_limit_ns = 1e6;
  hr_store *store = NULL;
  hr_sweep_progress outcome;
  hr_validated_rows found = {NULL, 0};
  hr_validation *validation = NULL;
  const hr_point_list list = {points, POINTS};
  hr_status status = HR_OK;
  TRY(hr_store_open("scratch", HR_STORE_SCRATCH, &store, error));
  TRY(hr_points_measure(device, store, &list, &options, &outcome, error));
  TRY(had_memory(store, error));
  TRY(hr_points_rows(device, store, &list, &options, &found, error));
  for (size_t i = 0; i < found.count; i++) /* a time may be noisy and have no row: then there is nothing to predict */
    found.rows[i].gemm.dtype = HR_BF16;
  if (found.count > 0)
    TRY(hr_validate_rows(hardware, found.rows, found.count, &validation, error));
  printf("%" PRId64 " rows\n", outcome.measured);
end:
  hr_validation_free(validation);
  free(found.rows);
  hr_store_close(store);
  return status;
}

static hr_status use_all(hr_error *error)
{
  hr_hardware *hardware = hr_hardware_create();
  hr_device *device = NULL;
  hr_status status = hardware ? HR_OK : HR_ERROR_OUT_OF_MEMORY;
  if (!hardware)
    fputs("out of memory\n", stderr);
  TRY(status);
  TRY(hr_resolve_hardware("h200", hardware, error));
  TRY(count_designed(hardware, error));
  TRY(hr_device_open("reference", 0, &device, error));
  TRY(use_points(device, hardware, error));
end:
  hr_hardware_free(hardware);
  hr_device_close(device);
  return status;
}

int main(void)
{
  return calls_end(use_all);
}
