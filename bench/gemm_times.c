/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts GEMMs for changing device files: the inner loop of scripts/fit_gemms.py.
 *
 *   gemm_times < INPUT
 *
 * The first lines of the input are GEMMs, "dtype m n k batch transpose_a transpose_b clock cache"
 * with 1 for a burst and 1 for a warm cache; then an empty line; then
 * device files of one line each. For each device file it writes a line with the predicted times in ns. */
#include "hardware/hardware.h"

#include <headroom/device_file.h>
#include <headroom/hardware.h>
#include <headroom/predict.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GEMMS_MAX 20000

typedef struct row {
  hr_gemm gemm;
  int clock, cache;
} row;

static bool read_row(const char *line, row *r)
{
  char dtype[16];
  int transpose_a, transpose_b;
  hr_gemm *gemm = &r->gemm;
  *gemm = hr_gemm_default();
  if (sscanf(line, "%15s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %d %d %d %d", dtype, &gemm->m, &gemm->n,
             &gemm->k, &gemm->batch, &transpose_a, &transpose_b, &r->clock, &r->cache) != 9)
    return false;
  gemm->transpose_a = transpose_a != 0, gemm->transpose_b = transpose_b != 0;
  return hr_dtype_parse(dtype, &gemm->dtype) == HR_OK;
}

static int predict_all(const char *text, const row *rows, size_t count)
{
  hr_hardware hardware;
  hr_prediction p;
  hr_error error;
  if (hr_hardware_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "device"}, &hardware, &error) !=
      HR_OK)
    return fprintf(stderr, "gemm_times: %s\n", error.message), 1;
  for (size_t i = 0; i < count; i++) {
    hardware.about.clock = rows[i].clock ? HR_CLOCK_BURST : HR_CLOCK_SETTLED;
    hardware.about.cache = rows[i].cache ? HR_CACHE_WARM : HR_CACHE_COLD;
    if (hr_predict_gemm(&hardware, &rows[i].gemm, &p, &error) != HR_OK)
      return fprintf(stderr, "gemm_times: GEMM %zu: %s\n", i, error.message), 1;
    printf("%.0f ", p.time_ns);
  }
  printf("\n");
  return fflush(stdout) == 0 ? 0 : 1;
}

int main(void)
{
  static row rows[GEMMS_MAX];
  char *line = NULL;
  size_t size = 0, count = 0;
  int failed = 0;
  while (getline(&line, &size, stdin) > 1) {
    if (count == GEMMS_MAX || !read_row(line, &rows[count++])) {
      fprintf(stderr, "gemm_times: line %zu is not a GEMM\n", count);
      return 2;
    }
  }
  while (!failed && getline(&line, &size, stdin) > 1)
    failed = predict_all(line, rows, count);
  free(line);
  return failed;
}
