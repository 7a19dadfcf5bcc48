/* SPDX-License-Identifier: Apache-2.0 */
/* Prints simulated times beside those of servers under clients (data/results/published/serving_load.csv), as CSV. */
#include "unit/served_load.h"

int main(void)
{
  static served_load rows[SERVED_LOAD_MAX];
  size_t count = served_load_read(rows);
  printf("part,engine,model,device,weights,t,prompt,output,clients,ttft_ms,simulated,ratio,tpot_ms,simulated,ratio,"
         "ttft_low,ttft_high,tpot_low,tpot_high\n");
  for (size_t i = 0; i < count; i++) {
    const served_load *row = &rows[i];
    hr_load_point point;
    hr_error error = {.message = "it does not fit"};
    if (served_load_simulate(row, &point, &error) != HR_OK) {
      fprintf(stderr, "%s on %s: %s\n", row->model, row->device, error.message);
      return 1;
    }
    double ttft_ms = point.ttft_ns.mean / 1e6, tpot_ms = point.tpot_ns.mean / 1e6;
    printf("%s,%s,%s,%s,%s,%d,%d,%d,%d,%.4g,%.4g,%.3f,%.4g,%.4g,%.3f,%.4g,%.4g,%.4g,%.4g\n", row->part, row->engine,
           row->model, row->device, row->weights, (int)row->tensor_parallel, (int)row->prompt, (int)row->output,
           (int)row->clients, row->ttft_ms, ttft_ms, ttft_ms / row->ttft_ms, row->tpot_ms, tpot_ms,
           tpot_ms / row->tpot_ms, point.ttft_low_ns.mean / 1e6, point.ttft_high_ns.mean / 1e6,
           point.tpot_low_ns.mean / 1e6, point.tpot_high_ns.mean / 1e6);
  }
  return count > 0 ? 0 : 1;
}
