/* SPDX-License-Identifier: Apache-2.0 */
/* Published rates of servers (data/results/published/serving.csv) and the plan for each; used by a test and by
 * bench/. */
#ifndef HEADROOM_TEST_SERVED_H
#define HEADROOM_TEST_SERVED_H

#include "hardware/hardware.h"
#include "unit/measured.h"

#include <headroom/resolve.h>
#include <headroom/serve.h>

#define SERVED_FILE HEADROOM_SOURCE_DIR "/data/results/published/serving.csv"
#define SERVED_MAX 512

/** A row; figures that it does not have are 0. */
typedef struct served {
  char source[24], model[32], device[24], weights[8], kv_cache[8];
  int64_t tensor_parallel, prompt, output, batch;
  double output_tokens_per_s, ttft_ms, tpot_ms;
} served;

/** Reads at most SERVED_MAX rows; the count. */
static inline size_t served_read(served *rows)
{
  FILE *file = fopen(SERVED_FILE, "r");
  size_t count = 0;
  char line[256], *f[12];
  while (file && count < SERVED_MAX && fgets(line, sizeof line, file)) {
    if (line[0] == '#' || strncmp(line, "source,", 7) == 0 || measured_split(line, f, 12) != 12)
      continue;
    served *row = &rows[count++];
    *row = (served){.tensor_parallel = strtoll(f[3], NULL, 10),
                    .prompt = strtoll(f[6], NULL, 10),
                    .output = strtoll(f[7], NULL, 10),
                    .batch = strtoll(f[8], NULL, 10),
                    .output_tokens_per_s = strtod(f[9], NULL),
                    .ttft_ms = strtod(f[10], NULL),
                    .tpot_ms = strtod(f[11], NULL)};
    snprintf(row->source, sizeof row->source, "%s", f[0]);
    snprintf(row->model, sizeof row->model, "%s", f[1]);
    snprintf(row->device, sizeof row->device, "%s", f[2]);
    snprintf(row->weights, sizeof row->weights, "%s", f[4]);
    snprintf(row->kv_cache, sizeof row->kv_cache, "%s", f[5]);
  }
  if (file)
    fclose(file);
  return count;
}

/** The plan of a row: of its batch, or with the most tokens per second. A static batch has the whole memory.
 *  HR_ERROR_OUT_OF_MEMORY if the batch does not fit. */
static inline hr_status served_plan(const served *row, hr_serve_point *point, hr_error *error)
{
  hr_model model;
  hr_hardware hardware;
  hr_serve_result *result;
  hr_status status = hr_resolve_model(row->model, NULL, NULL, &model, error);
  if (status == HR_OK)
    status = hr_resolve_hardware(row->device, &hardware, error);
  if (status == HR_OK)
    status = hr_model_set_weights(&model, row->weights, error);
  if (status != HR_OK)
    return status;
  hr_workload workload = hr_workload_default(&model);
  if (strcmp(row->kv_cache, "bf16") != 0)
    status = hr_kv_format_parse(row->kv_cache, &workload.kv_cache);
  hr_serve_options options = hr_serve_options_default();
  options.prompt_tokens = row->prompt;
  options.output_tokens = row->output;
  options.tensor_parallel = row->tensor_parallel;
  options.expert_parallel = 1; /* tensor parallelism alone */
  options.batch = row->batch;
  options.batch_max = 2048; /* TensorRT-LLM 1.0: max_batch_size */
  options.memory_share = row->batch > 0 ? 1 : 0.9;
  if (status == HR_OK)
    status = hr_serve_plan(&hardware, &model, &workload, &options, &result, error);
  if (status != HR_OK)
    return status;
  if (result->throughput)
    *point = *result->throughput;
  else
    status = HR_ERROR_OUT_OF_MEMORY;
  hr_serve_result_free(result);
  return status;
}

#endif
