/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a sweep: measures its points and appends a row to the store for each. */
#include "experiment/sweep/run.h"
#include "experiment/sweep/ranks.h"
#include "experiment/sweep/sweep.h"

#include "base/error.h"
#include "base/kernel_names.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "experiment/stored_run.h"
#include "hardware/hardware.h"
#include "runtime/device/clock.h"
#include "runtime/device/plan.h"

#include <headroom/experimental/layer.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void hr_sweep_options_init(hr_sweep_options *options, size_t size)
{
  HR_INIT(options, size, (hr_sweep_options){.choice = hr_sweep_choice_default(), .dtype = HR_BF16});
}

hr_result hr_sweep_base_row(const hr_sweep *sweep, const hr_device *device, const hr_sweep_options *options,
                            hr_hardware *hardware)
{
  const hr_sweep_about *about = hr_sweep_describe(sweep);
  hr_result base = hr_stored_run_base(device, about->name, options->warm || about->kind == HR_SWEEP_COLLECTIVE,
                                      options->choice.seed, hardware);
  hr_kernel_current_name(options->kernel ? options->kernel : "", base.kernel_asked);
  base.autotune = options->autotune;
  return base;
}

void hr_sweep_set_point(hr_result *result, const hr_sweep_point *point)
{
  hr_copy_text(result->series, sizeof result->series, point->series);
  hr_copy_text(result->axes, sizeof result->axes, point->axes);
  if (point->kind != HR_SWEEP_GEMM && point->kind != HR_SWEEP_BMM)
    result->autotune = 0; /* nothing there is chosen */
  if (point->kernel[0])
    hr_copy_text(result->kernel_asked, sizeof result->kernel_asked, point->kernel);
  if (point->kind == HR_SWEEP_ATTENTION) {
    hr_sweep_set_attention(result, point);
  } else if (point->kind == HR_SWEEP_DECODE) {
    result->decode_part = point->decode_part;
    hr_result_set_decode(result, &point->decode);
  } else if (point->kind == HR_SWEEP_LAYER || point->kind == HR_SWEEP_STEP || point->kind == HR_SWEEP_COLLECTIVE) {
    result->kind = HR_RESULT_OTHER;
    hr_copy_text(result->problem, sizeof result->problem, point->problem);
  } else {
    hr_result_set_gemm(result, &point->gemm);
  }
}

/* One run of hr_sweep_run(). */
typedef struct run_state {
  const hr_sweep_options *options;
  hr_stored_run run;
  bool probed;
  hr_sweep_ranks *ranks;
} run_state;

static hr_measure_options measure_options(run_state *state)
{
  hr_measure_options options = hr_measure_options_default();
  const hr_sweep_options *o = state->options;
  if (o->time_limit_ns > 0)
    options.time_limit_ns = o->time_limit_ns;
  options.warm = o->warm;
  options.seed = o->choice.seed;
  options.kernel = o->kernel;
  options.autotune = o->autotune;
  options.memory_limit_bytes = o->memory_limit_bytes;
  options.cancelled = hr_progress_cancelled;
  options.context = &state->run.progress;
  return options;
}

/* If an operator has no time, the layer has none: its row gives the reason of the first such operator. */
static void take_layer(const hr_layer *layer, hr_measurement *measurement)
{
  const hr_layer_row *missing = NULL;
  for (size_t i = 0; i < layer->count && !missing; i++)
    missing = layer->rows[i].measured ? NULL : &layer->rows[i];
  if (!missing) {
    *measurement = layer->whole;
    return;
  }
  char name[48];
  hr_operator_name(&missing->op, name, sizeof name);
  measurement->status = missing->measurement.status;
  snprintf(measurement->reason, sizeof measurement->reason, "%s: %.100s", name, missing->measurement.reason);
}

/* "qkv_transform=81920 softmax=1000"; "" if not all operators have a time, or if it does not fit. */
static void write_parts(const hr_layer *layer, char *to, size_t size)
{
  size_t used = 0;
  for (size_t i = 0; i < layer->count; i++) {
    char name[48];
    hr_operator_name(&layer->rows[i].op, name, sizeof name);
    int length = hr_write_text(to + used, size - used, "%s%s=%.10g", used > 0 ? " " : "", name, layer->rows[i].time_ns);
    used += (size_t)length;
    if (!layer->rows[i].measured || used >= size) {
      to[0] = '\0';
      return;
    }
  }
}

#define LAYER_SPARE 2 /* all operators together, and what the number of them is off */

/* Measures the whole layer as `headroom layer` does: each operator, then all one after another. */
static hr_status measure_layer(hr_device *device, const hr_hardware *hardware, const hr_sweep_point *point,
                               run_state *state, hr_measurement *measurement, char *parts, size_t parts_size,
                               hr_error *error)
{
  hr_layer_options options = hr_layer_options_default();
  options.warm = state->options->warm;
  options.seed = state->options->choice.seed;
  options.whole_only = options.operator_times = true;
  if (state->options->time_limit_ns > 0)
    options.budget_ns = (hr_sweep_layer_operators(point) + LAYER_SPARE) * state->options->time_limit_ns;
  options.progress = hr_progress_of_part;
  options.context = &state->run.progress;
  hr_layer *layer = NULL;
  hr_error reason = {.status = HR_OK};
  hr_status status = hr_layer_measure(
      device, &(hr_subject){.hardware = hardware, .model = &point->model, .workload = &point->workload}, &options,
      &layer, &reason);
  if (status == HR_ERROR_UNSUPPORTED || status == HR_ERROR_INVALID) { /* unknown rates of the device or format */
    measurement->status = HR_ERROR_UNSUPPORTED;
    hr_copy_text(measurement->reason, sizeof measurement->reason, reason.message);
    return HR_OK;
  }
  if (status != HR_OK)
    return hr_fail(error, status, "%s", reason.message);
  bool complete = layer->complete;
  take_layer(layer, measurement);
  write_parts(layer, parts, parts_size);
  hr_layer_free(layer);
  return complete ? HR_OK : hr_fail(error, HR_ERROR_INTERRUPTED, "stopped by the caller");
}

/* A format without gradients is the reason of a row, as an unknown rate is. */
static hr_status measure_gradients(hr_device *device, const hr_sweep_point *point, const hr_measure_options *options,
                                   hr_measurement *measurement, hr_error *error)
{
  hr_error reason = {.status = HR_OK};
  if (hr_sweep_check_gradients(point, &reason) == HR_OK)
    return hr_measure_attention_backward(device, &point->attention, NULL, options, measurement, error);
  measurement->status = HR_ERROR_UNSUPPORTED;
  hr_copy_text(measurement->reason, sizeof measurement->reason, reason.message);
  return HR_OK;
}

static hr_status measure(hr_device *device, const hr_hardware *hardware, const hr_sweep_point *point, run_state *state,
                         hr_measurement *measurement, hr_result *result, hr_error *error)
{
  hr_measure_options options = measure_options(state);
  if (point->kind == HR_SWEEP_LAYER)
    return measure_layer(device, hardware, point, state, measurement, result->parts, sizeof result->parts, error);
  if (point->kind == HR_SWEEP_STEP)
    return hr_sweep_measure_step(device, point, state->options, &state->run.progress, measurement, result->parts,
                                 sizeof result->parts, error);
  if (point->kind == HR_SWEEP_COLLECTIVE)
    return hr_sweep_measure_collective(state->ranks, device, point, state->options, &state->run.progress, measurement,
                                       error);
  if (point->kernel[0])
    options.kernel = point->kernel;
  if (point->kind == HR_SWEEP_ATTENTION && point->backward)
    return measure_gradients(device, point, &options, measurement, error);
  if (point->kind == HR_SWEEP_ATTENTION)
    return hr_measure_attention(device, &point->attention, &options, measurement, error);
  options.decode_part = point->decode_part;
  if (point->kind == HR_SWEEP_DECODE)
    return hr_measure_decode(device, &point->decode, &options, measurement, error);
  return hr_measure_gemm(device, &point->gemm, &options, measurement, error);
}

/* Rows state shares of this device's measured instruction and library ceilings. A sweep that has nothing left to
 * measure does not probe. */
static hr_status probe_once(hr_device *device, run_state *state, hr_hardware *hardware, hr_error *error)
{
  hr_hardware own = hr_hardware_default(), *rates = state->options->rates ? state->options->rates : &own;
  if (state->probed || !state->options->probe)
    return HR_OK;
  state->probed = true;
  state->run.now.probing = rates->multiprocessors == 0;
  hr_status status =
      state->run.now.probing ? hr_device_probe(device, hr_progress_of_part, &state->run.progress, rates, NULL) : HR_OK;
  state->run.now.probing = false;
  if (status == HR_ERROR_INTERRUPTED)
    return hr_fail(error, status, "stopped by the caller");
  if (status == HR_OK)
    *hardware = *rates;
  return HR_OK;
}

static hr_status look(hr_store *store, const hr_result *point, const run_state *state, bool *there, hr_error *error)
{
  *there = false;
  return state->options->again ? HR_OK : hr_store_has(store, point, there, error);
}

static hr_status run_point(hr_device *device, hr_store *store, const hr_sweep_point *point, const hr_result *base,
                           hr_hardware *hardware, run_state *state, hr_error *error)
{
  hr_result result = *base;
  bool there;
  hr_sweep_set_point(&result, point);
  hr_copy_text(state->run.what, sizeof state->run.what, result.problem);
  HR_TRY(look(store, &result, state, &there, error));
  if (!there && hr_progress_cancelled(&state->run.progress))
    return HR_ERROR_INTERRUPTED;
  if (!there) {
    HR_TRY(probe_once(device, state, hardware, error));
    HR_TRY(look(store, &result, state, &there, error)); /* again: probing takes seconds */
  }
  if (there) {
    state->run.now.skipped++;
    return HR_OK;
  }
  hr_measurement measurement = result.measurement;
  HR_TRY(measure(device, hardware, point, state, &measurement, &result, error));
  measurement.warm = base->measurement.warm;
  hr_result_set_measurement(&result, &measurement, hardware);
  return hr_stored_run_keep(&state->run, store, &result, state->options->again, error);
}

static hr_status check_options(const hr_sweep_options *options, hr_error *error)
{
  if (options->autotune < 0)
    return hr_fail(error, HR_ERROR_INVALID, "autotune: expected at least 0");
  if (options->time_limit_ns < 0 || isnan(options->time_limit_ns))
    return hr_fail(error, HR_ERROR_INVALID, "time_limit_ns: expected at least 0");
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; options->kernel && i < count; i++) {
    if (hr_kernel_is(&kernels[i], options->kernel))
      return HR_OK;
  }
  return options->kernel ? hr_fail(error, HR_ERROR_NOT_FOUND, "there is no kernel \"%.60s\"", options->kernel) : HR_OK;
}

/* The chosen points in their order. After a collision with another process at a point the run continues from a random
 * point and takes the remaining ones at the end: otherwise two processes with the same command would collide at every
 * point. */
typedef struct tour {
  size_t *indices, count, at;
  bool *visited;
} tour;

static size_t next_of(tour *t, bool elsewhere)
{
  if (elsewhere) /* the clock is the random number: no two processes read it at once */
    t->at = (size_t)(((uint64_t)hr_clock_ns() * UINT64_C(0x9E3779B97F4A7C15)) >> 32) % t->count;
  while (t->visited[t->at])
    t->at = (t->at + 1) % t->count;
  t->visited[t->at] = true;
  return t->indices[t->at];
}

static hr_status run_tour(const hr_sweep *sweep, hr_device *device, hr_store *store, tour *t, run_state *state,
                          hr_error *error)
{
  hr_hardware hardware;
  hr_result base = hr_sweep_base_row(sweep, device, state->options, &hardware);
  for (size_t i = 0; i < t->count; i++) {
    hr_sweep_point point;
    size_t index = next_of(t, state->run.collided);
    state->run.collided = false;
    HR_TRY(hr_sweep_point_at(sweep, index, state->options->dtype, &point, error));
    HR_TRY(run_point(device, store, &point, &base, &hardware, state, error));
    state->run.now.done++;
  }
  return HR_OK;
}

hr_status hr_sweep_run(const hr_sweep *sweep, hr_device *device, hr_store *store, const hr_sweep_options *options,
                       hr_sweep_progress *outcome, hr_error *error)
{
  HR_NEED(error, sweep, device, store, options);
  HR_TAKE(hr_sweep_options, options, error);
  tour t = {.at = 0};
  HR_TRY(check_options(options, error));
  HR_TRY(hr_sweep_order(sweep, &options->choice, &t.indices, &t.count, error));
  run_state state = {.options = options};
  hr_stored_run_begin(&state.run, options->progress, options->context, (int64_t)t.count);
  t.visited = calloc(t.count + 1, sizeof *t.visited);
  state.ranks = hr_sweep_ranks_create();
  hr_status status = t.visited && state.ranks
                         ? run_tour(sweep, device, store, &t, &state, error)
                         : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu points", t.count);
  hr_sweep_ranks_free(state.ranks);
  free(t.visited);
  free(t.indices);
  state.run.now.what = "";
  if (outcome)
    *outcome = state.run.now;
  return state.run.progress.stopped ? HR_ERROR_INTERRUPTED : status;
}
