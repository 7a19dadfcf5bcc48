/* SPDX-License-Identifier: Apache-2.0 */
/* Points that are a layer or a whole model. Both go through the short form, so that they are those of
 * `headroom describe '{"h":…}'`. */
#include "base/error.h"
#include "experiment/sweep/sweep.h"

#include <headroom/experimental/workload.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The letters of the short form; behind them what has the value that is missing. v is no size of a layer. */
static const hr_problem_field layer_fields[] = {
    {"h", true, 0},        {"a", true, 0},
    {"b", true, 0},        {"s", true, 0},
    {"t", false, 1},       {"fused", false, 0},
    {"dropout", false, 0}, {"train", false, 0},
    {"llama", false, 0},   {"d_ff", false, 0},
    {"k_heads", false, 0}, {"v_heads", false, 0},
    {"q_rank", false, 0},  {0},
};
enum { LAYER_H, LAYER_A, LAYER_B, LAYER_S, LAYER_T, LAYER_FUSED, LAYER_DROPOUT, LAYER_TRAIN, LAYER_LLAMA, LAYER_D_FF };

static const hr_problem_field step_fields[] = {
    {"h", true, 0},          {"a", true, 0},         {"L", true, 0},       {"v", true, 0},       {"b", false, 1},
    {"s", true, 0},          {"phase", false, 0},    {"output", false, 0}, {"graph", false, 1},  {"llama", false, 0},
    {"positions", false, 0}, {"parallel", false, 0}, {"tied", false, 1},   {"t", false, 1},      {"d_ff", false, 0},
    {"k_heads", false, 0},   {"v_heads", false, 0},  {"q_rank", false, 0}, {"rotary", false, 0}, {0},
};
enum {
  STEP_H,
  STEP_A,
  STEP_L,
  STEP_V,
  STEP_B,
  STEP_S,
  STEP_PHASE,
  STEP_OUTPUT,
  STEP_GRAPH,
  STEP_LLAMA,
  STEP_POSITIONS,
  STEP_PARALLEL,
  STEP_TIED,
  STEP_T,
  STEP_D_FF
};

const hr_problem_field *hr_layer_fields(void)
{
  return layer_fields;
}

const hr_problem_field *hr_step_fields(void)
{
  return step_fields;
}

static const char llama_fields[] = ",\"mlp\":\"swiglu\",\"norm\":\"rms\",\"bias\":false";

/* The sizes from `first` on that are not what is missing, in the form of `format`, which has their names and values. */
static void add_sizes(const char *format, const hr_problem_field *fields, int first, const int64_t *sizes, char *text,
                      size_t size)
{
  for (int i = first; fields[i].name; i++) {
    const size_t length = strlen(text);
    if (sizes[i] != fields[i].otherwise)
      snprintf(text + length, size - length, format, fields[i].name, sizes[i]);
  }
}

static hr_status read_model(const char *text, const char *name, hr_sweep_point *point, hr_error *error)
{
  const hr_input input = {.text = text, .length = strlen(text), .name = name};
  HR_TRY(hr_model_from_json(&input, NULL, NULL, &point->model, error));
  point->workload = hr_workload_default(&point->model);
  point->workload.framework = HR_FRAMEWORK_HEADROOM; /* whose kernels a sweep measures */
  return HR_OK;
}

/* ---- a layer ---- */

/* Writes the problem as the store does: what is 0 is left out, but the letters. */
static void write_layer(hr_sweep_point *point, const int64_t *sizes)
{
  const hr_workload *w = &point->workload;
  snprintf(point->problem, sizeof point->problem,
           "layer h=%" PRId64 " a=%" PRId64 " b=%" PRId64 " s=%" PRId64 " t=%" PRId64 " attention=%s dtype=%s%s%s%s",
           sizes[LAYER_H], sizes[LAYER_A], sizes[LAYER_B], sizes[LAYER_S], sizes[LAYER_T],
           hr_attention_form_name(w->attention), hr_dtype_name(w->dtype),
           hr_workload_drops(w) ? " dropout=forward" : "", w->phase == HR_PHASE_TRAIN ? " phase=train" : "",
           sizes[LAYER_LLAMA] != 0 ? " llama=1" : "");
  add_sizes(" %s=%" PRId64, layer_fields, LAYER_D_FF, sizes, point->problem, sizeof point->problem);
}

hr_status hr_make_layer_point(const int64_t *sizes, hr_dtype dtype, hr_sweep_point *point, hr_error *error)
{
  char text[512], given[256] = "";
  add_sizes(",\"%s\":%" PRId64, layer_fields, LAYER_D_FF, sizes, given, sizeof given);
  snprintf(text, sizeof text,
           "{\"h\":%" PRId64 ",\"a\":%" PRId64 ",\"b\":%" PRId64 ",\"s\":%" PRId64 ",\"t\":%" PRId64
           ",\"L\":1,\"v\":50304,\"positions\":\"%s\"%s%s}",
           sizes[LAYER_H], sizes[LAYER_A], sizes[LAYER_B], sizes[LAYER_S], sizes[LAYER_T],
           sizes[LAYER_LLAMA] ? "rotary" : "learned", sizes[LAYER_LLAMA] ? llama_fields : "", given);
  HR_TRY(read_model(text, "layer", point, error));
  point->workload.attention = sizes[LAYER_FUSED] != 0 ? HR_ATTENTION_FUSED : HR_ATTENTION_UNFUSED;
  point->workload.dropout = sizes[LAYER_DROPOUT] != 0 ? HR_DROPOUT_FORWARD : HR_DROPOUT_NONE;
  point->workload.phase = sizes[LAYER_TRAIN] != 0 ? HR_PHASE_TRAIN : point->workload.phase;
  point->workload.dtype = dtype;
  write_layer(point, sizes);
  return hr_workload_check(&point->workload, &point->model, error);
}

/* ---- a whole model ---- */

static const hr_phase phases[] = {HR_PHASE_FORWARD, HR_PHASE_PREFILL, HR_PHASE_DECODE, HR_PHASE_TRAIN};
static const char *const positions[] = {"learned", "rotary", "alibi"};

static hr_status check_choice(const int64_t *sizes, int field, int64_t count, hr_error *error)
{
  if (sizes[field] >= 0 && sizes[field] < count)
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID, "%s: expected 0 to %" PRId64 ", found %" PRId64, step_fields[field].name,
                 count - 1, sizes[field]);
}

static hr_status check_step(const int64_t *sizes, hr_error *error)
{
  HR_TRY(check_choice(sizes, STEP_PHASE, sizeof phases / sizeof *phases, error));
  HR_TRY(check_choice(sizes, STEP_POSITIONS, sizeof positions / sizeof *positions, error));
  HR_TRY(check_choice(sizes, STEP_GRAPH, 2, error));
  HR_TRY(check_choice(sizes, STEP_OUTPUT, 1 << 24, error));
  if (sizes[STEP_OUTPUT] > 0 && phases[sizes[STEP_PHASE]] != HR_PHASE_PREFILL)
    return hr_fail(error, HR_ERROR_INVALID, "output: needs phase 1, prefill");
  return HR_OK;
}

/* Learned positions have a row for each token, those of the output included. */
static hr_status read_step_model(const int64_t *sizes, hr_sweep_point *point, hr_error *error)
{
  char text[512], given[256] = "";
  int64_t rows;
  if (__builtin_add_overflow(sizes[STEP_S], sizes[STEP_OUTPUT], &rows))
    return hr_fail(error, HR_ERROR_OVERFLOW, "s: %" PRId64 " is too large", sizes[STEP_S]);
  add_sizes(",\"%s\":%" PRId64, step_fields, STEP_D_FF, sizes, given, sizeof given);
  snprintf(text, sizeof text,
           "{\"h\":%" PRId64 ",\"a\":%" PRId64 ",\"L\":%" PRId64 ",\"v\":%" PRId64 ",\"b\":%" PRId64 ",\"s\":%" PRId64
           ",\"final_norm\":true,\"norms\":2,\"positions\":\"%s\",\"parallel\":%s,\"tied\":%s%s%s}",
           sizes[STEP_H], sizes[STEP_A], sizes[STEP_L], sizes[STEP_V], sizes[STEP_B], rows,
           positions[sizes[STEP_POSITIONS]], sizes[STEP_PARALLEL] ? "true" : "false",
           sizes[STEP_TIED] ? "true" : "false", sizes[STEP_LLAMA] ? llama_fields : "", given);
  return read_model(text, "step", point, error);
}

static void write_step(hr_sweep_point *point, const int64_t *sizes)
{
  snprintf(point->problem, sizeof point->problem,
           "step h=%" PRId64 " a=%" PRId64 " L=%" PRId64 " v=%" PRId64 " b=%" PRId64 " s=%" PRId64 " phase=%s dtype=%s",
           sizes[STEP_H], sizes[STEP_A], sizes[STEP_L], sizes[STEP_V], sizes[STEP_B], sizes[STEP_S],
           hr_phase_name(point->workload.phase), hr_dtype_name(point->workload.dtype));
  add_sizes(" %s=%" PRId64, step_fields, STEP_OUTPUT, sizes, point->problem, sizeof point->problem);
}

hr_status hr_make_step_point(const int64_t *sizes, hr_dtype dtype, hr_sweep_point *point, hr_error *error)
{
  HR_TRY(check_step(sizes, error));
  HR_TRY(read_step_model(sizes, point, error));
  hr_workload *w = &point->workload;
  w->phase = phases[sizes[STEP_PHASE]];
  w->sequence = w->context = sizes[STEP_S];
  w->tensor_parallel = sizes[STEP_T];
  w->attention = HR_ATTENTION_FUSED;
  w->dropout = HR_DROPOUT_NONE;
  w->dtype = dtype;
  point->output = sizes[STEP_OUTPUT];
  point->no_graph = sizes[STEP_GRAPH] == 0;
  write_step(point, sizes);
  return hr_workload_check(w, &point->model, error);
}
