/* SPDX-License-Identifier: Apache-2.0 */
/* Measured servers under clients (data/results/published/serving_load.csv) and the simulation of each; used by a test
 * and by bench/. */
#ifndef HEADROOM_TEST_SERVED_LOAD_H
#define HEADROOM_TEST_SERVED_LOAD_H

#include "hardware/hardware.h"
#include "unit/measured.h"

#include <headroom/experimental/load.h>
#include <headroom/experimental/serve.h>
#include <headroom/resolve.h>

#define SERVED_LOAD_FILE HEADROOM_SOURCE_DIR "/data/results/published/serving_load.csv"
#define SERVED_LOAD_MAX 512
#define SERVED_LOAD_FIELDS 17

typedef struct served_load {
  char model[32], device[24], engine[12], weights[8], kv_cache[8], part[8];
  int64_t tensor_parallel, prompt, output, clients, slots, prefill_tokens, wait_steps;
  double shortest, ttft_ms, tpot_ms;
  hr_framework framework; /* that is predicted; not in the file: compiled */
} served_load;

static inline void served_load_words(served_load *row, char **f)
{
  snprintf(row->model, sizeof row->model, "%s", f[0]);
  snprintf(row->device, sizeof row->device, "%s", f[1]);
  snprintf(row->engine, sizeof row->engine, "%s", f[2]);
  snprintf(row->weights, sizeof row->weights, "%s", f[4]);
  snprintf(row->kv_cache, sizeof row->kv_cache, "%s", f[5]);
  snprintf(row->part, sizeof row->part, "%s", f[16]);
}

/** Reads at most SERVED_LOAD_MAX rows; the count. */
static inline size_t served_load_read(served_load *rows)
{
  FILE *file = fopen(SERVED_LOAD_FILE, "r");
  size_t count = 0;
  char line[256], *f[SERVED_LOAD_FIELDS];
  while (file && count < SERVED_LOAD_MAX && fgets(line, sizeof line, file)) {
    if (line[0] == '#' || strncmp(line, "model,", 6) == 0 ||
        measured_split(line, f, SERVED_LOAD_FIELDS) != SERVED_LOAD_FIELDS)
      continue;
    served_load *row = &rows[count++];
    *row = (served_load){.tensor_parallel = strtoll(f[6], NULL, 10),
                         .prompt = strtoll(f[7], NULL, 10),
                         .output = strtoll(f[8], NULL, 10),
                         .shortest = strtod(f[9], NULL),
                         .clients = strtoll(f[10], NULL, 10),
                         .slots = strtoll(f[11], NULL, 10),
                         .prefill_tokens = strtoll(f[12], NULL, 10),
                         .wait_steps = strtoll(f[13], NULL, 10),
                         .ttft_ms = strtod(f[14], NULL),
                         .tpot_ms = strtod(f[15], NULL)};
    served_load_words(row, f);
  }
  if (file)
    fclose(file);
  return count;
}

static inline hr_load_options served_load_options(const served_load *row)
{
  hr_load_options load = hr_load_options_default();
  load.clients = row->clients;
  load.requests = 10 * row->clients;
  load.prompt_min = (int64_t)(row->shortest * (double)row->prompt), load.prompt_max = row->prompt;
  load.output_min = (int64_t)(row->shortest * (double)row->output), load.output_max = row->output;
  load.wait_steps = row->wait_steps;
  return load;
}

static inline hr_status served_load_server(const served_load *row, const hr_hardware *hardware, hr_serve_options *serve,
                                           hr_error *error)
{
  hr_serve_engine engine = HR_SERVE_VLLM;
  hr_status status = hr_serve_engine_parse(row->engine, &engine);
  *serve = hr_serve_options_default();
  if (status == HR_OK)
    status = hr_serve_options_set_engine(serve, engine, hardware, error);
  serve->tensor_parallel = row->tensor_parallel;
  serve->expert_parallel = 1;
  serve->batch = row->slots;
  if (row->prefill_tokens > 0)
    serve->prefill_tokens = row->prefill_tokens;
  return status;
}

/** Simulates a row. */
static inline hr_status served_load_simulate(const served_load *row, hr_load_point *point, hr_error *error)
{
  hr_model model;
  hr_hardware hardware;
  hr_serve_options serve;
  hr_load_result *result;
  hr_load_options load = served_load_options(row);
  hr_status status = hr_resolve_model(row->model, NULL, NULL, &model, error);
  if (status == HR_OK)
    status = hr_resolve_hardware(row->device, &hardware, error);
  if (status == HR_OK)
    status = hr_model_set_weights(&model, row->weights, error);
  if (status == HR_OK)
    status = served_load_server(row, &hardware, &serve, error);
  if (status != HR_OK)
    return status;
  hr_workload workload = hr_workload_default(&model);
  workload.framework = row->framework;
  if (strcmp(row->kv_cache, "bf16") != 0)
    status = hr_kv_format_parse(row->kv_cache, &workload.kv_cache);
  if (status == HR_OK)
    status = hr_serve_load(&(hr_subject){&model, &workload, &hardware}, &serve, &load, &result, error);
  if (status != HR_OK)
    return status;
  if (result->count == 1)
    *point = result->points[0];
  else
    status = HR_ERROR_OUT_OF_MEMORY;
  hr_load_result_free(result);
  return status;
}

#endif
