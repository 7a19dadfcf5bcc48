/* SPDX-License-Identifier: Apache-2.0 */
/* What a server's memory rules and defaults are.
 *
 * Sources, 2025 and 2026:
 *   vllm       engine/arg_utils.py: gpu_memory_utilization 0.9, block_size 16; max_num_batched_tokens and max_num_seqs
 *              by device; worker/gpu_worker.py: what a profiled step leaves is the cache's
 *   sglang     server_args.py, the heuristics of mem_fraction_static: chunked_prefill_size and cuda_graph_max_bs by
 *              memory, of which 1.5 and 2 MiB each are kept out of it; page_size 1; at least 2048 running requests
 *   trtllm     llm_args.py: free_gpu_memory_fraction 0.9 of what weights and the largest step leave, tokens_per_block
 *              32, max_num_tokens 8192, max_batch_size 2048
 *   turbomind  messages.py of LMDeploy: cache_max_entry_count 0.8 of what the weights leave, cache_block_seq_len 64,
 *              max_prefill_token_num 8192; utils.py: batches of 1024 on an H100 or H200. Its first token takes a decode
 *              step, too: data/results/published/serving_static.csv. InternLM/lmdeploy pull request 4769: it divides by
 *              tensor, context, expert and data parallelism alone */
#include "analysis/serve/plan.h"
#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"

#include <headroom/experimental/serve.h>
#include <string.h>

#define GIB ((int64_t)1 << 30)

/* ---- names ---- */

static const char *const names[] = {
#define ROW(enumerator, name) name,
    HR_SERVE_ENGINE_LIST(ROW)
#undef ROW
};

HR_DEFINE_NAME(hr_serve_engine_name, hr_serve_engine, names, HR_SERVE_ENGINE_COUNT)
HR_DEFINE_PARSE(hr_serve_engine_parse, hr_serve_engine, names, HR_SERVE_ENGINE_COUNT)

/* ---- defaults ---- */

/* Defaults of devices with less than `below` bytes of memory. */
typedef struct class_row {
  int64_t below, prefill_tokens, batch_max, graph_batch;
} class_row;

static const class_row vllm_classes[] = {{70 * GIB, 2048, 256, 0}, {INT64_MAX, 8192, 1024, 0}};
static const class_row sglang_classes[] = {{20 * GIB, 2048, 2048, 8},
                                           {35 * GIB, 2048, 2048, 24},
                                           {60 * GIB, 4096, 2048, 32},
                                           {160 * GIB, 8192, 2048, 256},
                                           {INT64_MAX, 16384, 2048, 512}};
static const class_row trtllm_classes[] = {{INT64_MAX, 8192, 2048, 0}};
static const class_row turbomind_classes[] = {{INT64_MAX, 8192, 1024, 0}};
static const class_row none_classes[] = {{INT64_MAX, 8192, 1024, 0}};

/* Shares of a predicted time per output token between which nine of ten lie; 0: not known. Of the half "fit" of
 * data/results/published/serving_load.csv, Llama of 8 and 70 billion in fp8 and 16 bits on H100, H200 and B200, on
 * 2026-11-30: of n ratios the one of rank 0.95 (n + 1) and its like, but at most 0.97 (docs/notes/serving.md#bands). */
typedef struct engine_band {
  double low, high;
} engine_band;

static const struct engine_row {
  const class_row *classes; /* ascending */
  double share;             /* 0: sglang_share() */
  int64_t page_tokens;
  const char *small; /* devices of this name have the defaults of the first class; NULL: none */
  bool of_free;      /* the share is of what weights, reserve and maybe the step leave, not of all */
  bool counts_step;  /* the largest step is taken off before K and V are allocated */
  bool decodes_first;
  bool lacks_stages; /* of a pipeline */
  engine_band tpot;
} engines[] = {
    [HR_SERVE_VLLM] = {vllm_classes, 0.9, 16, "a100", false, true, false, false, {0.97, 1.30}},
    [HR_SERVE_SGLANG] = {sglang_classes, 0, 1, NULL, false, false, false, false, {0.85, 1.55}},
    [HR_SERVE_TRTLLM] = {trtllm_classes, 0.9, 32, NULL, true, true, false, false, {0.87, 1.25}},
    [HR_SERVE_TURBOMIND] = {turbomind_classes, 0.8, 64, NULL, true, false, true, true},
    [HR_SERVE_NONE] = {none_classes, 1, 1, NULL, false, true, false},
};

static const class_row *class_of(const struct engine_row *engine, const hr_hardware *hardware)
{
  const class_row *row = engine->classes;
  if (engine->small && strncmp(hardware->about.name, engine->small, strlen(engine->small)) == 0)
    return row;
  while (hardware->memory_bytes >= row->below)
    row++;
  return row;
}

/* A step's activations and its graphs stay out of it. */
static double sglang_share(const hr_hardware *hardware, const class_row *row)
{
  double kept_out = (1.5 * (double)row->prefill_tokens + 2 * (double)row->graph_batch) * 0x1p20;
  double share = 1 - kept_out / (double)hardware->memory_bytes;
  return share > 0 ? share : 0;
}

/* Sets what an engine would have on the device. */
static void set_defaults(hr_serve_options *options, const hr_hardware *hardware)
{
  const struct engine_row *row = &engines[options->engine];
  const class_row *class = class_of(row, hardware);
  options->memory_share = row->share > 0 ? row->share : sglang_share(hardware, class);
  options->prefill_tokens = class->prefill_tokens;
  options->batch_max = class->batch_max;
  options->page_tokens = row->page_tokens;
}

hr_status hr_serve_options_set_engine(hr_serve_options *options, hr_serve_engine engine, const hr_hardware *hardware,
                                      hr_error *error)
{
  HR_NEED(error, options, hardware);
  const hr_serve_options *given = options;
  HR_TAKE(hr_serve_options, given, error);
  if ((unsigned)engine >= HR_SERVE_ENGINE_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "engine: %d is not in the list", (int)engine);
  hr_serve_options changed = *given;
  changed.engine = engine;
  set_defaults(&changed, hardware);
  return hr_give_struct(options, &changed, sizeof changed, "hr_serve_options", error);
}

hr_serve_options hr_serve_prefill_options(const hr_serve_options *options, const hr_hardware *hardware)
{
  hr_serve_options own = *options, there = *options, here = *options;
  if (!own.prefill_hardware)
    return own;
  set_defaults(&there, hardware);
  set_defaults(&here, own.prefill_hardware);
  if (own.memory_share == there.memory_share)
    own.memory_share = here.memory_share;
  if (own.prefill_tokens == there.prefill_tokens)
    own.prefill_tokens = here.prefill_tokens;
  if (own.batch_max == there.batch_max)
    own.batch_max = here.batch_max;
  return own;
}

/* ---- first tokens ---- */

bool hr_serve_decodes_first(hr_serve_engine engine)
{
  return engines[engine].decodes_first;
}

bool hr_serve_has_stages(hr_serve_engine engine)
{
  return !engines[engine].lacks_stages;
}

/* ---- memory ---- */

int64_t hr_serve_capacity(const hr_serve_state *state)
{
  double share = engines[state->options.engine].of_free ? 1 : state->options.memory_share;
  return (int64_t)((double)state->hardware->memory_bytes * share);
}

int64_t hr_serve_room(const hr_serve_state *state, const hr_memory *memory)
{
  const struct engine_row *engine = &engines[state->options.engine];
  int64_t step = engine->counts_step ? memory->activation_bytes : 0;
  int64_t free_bytes = hr_serve_capacity(state) - memory->weight_bytes - state->options.reserve_bytes - step;
  return engine->of_free ? (int64_t)((double)free_bytes * state->options.memory_share) : free_bytes;
}

/* ---- bands ---- */

static bool is_dense(const hr_model *model)
{
  bool experts = false;
  for (size_t i = 0; i < model->group_count; i++)
    experts = experts || model->groups[i].experts.experts > 0;
  return !experts;
}

/* Weights and activations of the rows. */
static bool has_formats(const hr_serve_state *state)
{
  const hr_quantization *q = &state->model->quantization;
  for (size_t i = 0; i < q->format_count; i++) {
    if (strcmp(q->formats[i].name, "fp8") != 0)
      return false;
  }
  return hr_dtype_bytes(state->workload.dtype) == 2;
}

/* Whether it is one of the rows. */
static bool is_served(const hr_hardware *hardware)
{
  static const char *const devices[] = {"h100-sxm", "h200", "b200"};
  bool served = false;
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
    served = served || strcmp(hardware->about.name, devices[i]) == 0;
  return served;
}

hr_serve_time hr_serve_with_band(const hr_serve_state *state, const hr_serve_time *time)
{
  const hr_serve_options *options = &state->options;
  const engine_band band = engines[options->engine].tpot;
  const bool served = state->workload.framework == HR_FRAMEWORK_COMPILED && options->pipeline_stages <= 1 &&
                      !options->disaggregated && is_dense(state->model) && has_formats(state);
  hr_serve_time of = *time;
  if (band.low > 0 && served && is_served(state->hardware))
    of.low_ns = band.low * time->ns, of.high_ns = band.high * time->ns;
  return of;
}
