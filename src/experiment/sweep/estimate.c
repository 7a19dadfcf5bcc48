/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates how long a sweep takes. */
#include "analysis/predict/step.h"
#include "analysis/predict/terms.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "experiment/budget.h"
#include "experiment/sweep/sweep.h"
#include "hardware/hardware.h"

#include <headroom/experimental/measure.h>
#include <headroom/experimental/predict.h>
#include <headroom/memory.h>
#include <headroom/predict.h>
#include <math.h>
#include <stdlib.h>

/* The interval of a step, in proportion. */
static hr_sweep_time scaled(const hr_step_about *about, double time_ns)
{
  return (hr_sweep_time){time_ns, time_ns * about->low_ns / about->time_ns, time_ns * about->high_ns / about->time_ns};
}

static hr_status predict_layer(const hr_hardware *hardware, const hr_sweep_point *point, hr_sweep_time *time,
                               hr_error *error)
{
  hr_step *step = malloc(sizeof *step);
  if (!step)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for the operators of a layer");
  hr_status status = hr_fill_step(hardware, &point->model, &point->workload, step, error);
  if (status == HR_OK)
    *time = scaled(&step->about, step->about.layer_time_ns);
  free(step);
  return status;
}

/* The steps behind a prefill as many times the one in the middle: attention's time grows linearly with the context. */
static hr_status add_decodes(const hr_hardware *hardware, const hr_sweep_point *point, hr_step *step,
                             hr_sweep_time *time, hr_error *error)
{
  hr_workload decode = point->workload;
  const double count = (double)(point->output - 1);
  decode.phase = HR_PHASE_DECODE;
  decode.context += (point->output + 1) / 2;
  if (point->output < 2)
    return HR_OK;
  HR_TRY(hr_fill_step(hardware, &point->model, &decode, step, error));
  time->ns += count * step->about.time_ns;
  time->low_ns += count * step->about.low_ns;
  time->high_ns += count * step->about.high_ns;
  return HR_OK;
}

static hr_status predict_model(const hr_hardware *hardware, const hr_sweep_point *point, hr_sweep_time *time,
                               hr_error *error)
{
  if (point->no_graph && hardware->about.kind == HR_HARDWARE_GPU)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "launches one by one are not predicted");
  hr_step *step = malloc(sizeof *step);
  if (!step)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for the operators of a step");
  hr_status status = hr_fill_step(hardware, &point->model, &point->workload, step, error);
  if (status == HR_OK) {
    *time = scaled(&step->about, step->about.time_ns);
    status = add_decodes(hardware, point, step, time, error);
  }
  free(step);
  return status;
}

static hr_status predict_attention(const hr_hardware *hardware, const hr_sweep_point *point, hr_prediction *prediction,
                                   hr_error *error)
{
  if (!point->backward)
    return hr_predict_attention_by(hardware, &point->attention, HR_FRAMEWORK_HEADROOM, prediction, error);
  HR_TRY(hr_sweep_check_gradients(point, error));
  return hr_predict_attention_backward(hardware, &point->attention, prediction, error);
}

/* Where a device does not compute in the format, nothing sends it. */
static hr_status predict_collective(const hr_hardware *hardware, const hr_sweep_point *point, hr_prediction *prediction,
                                    hr_error *error)
{
  double rate;
  HR_TRY(hr_predict_rate(hardware, point->gemm.dtype, &rate, error));
  return hr_predict_collective(hardware, &point->collective, prediction, error);
}

hr_status hr_sweep_predict_time(const hr_hardware *hardware, const hr_sweep_point *point, hr_sweep_time *time,
                                hr_error *error)
{
  hr_prediction prediction;
  hr_status status;
  switch (point->kind) {
  case HR_SWEEP_LAYER: return predict_layer(hardware, point, time, error);
  case HR_SWEEP_STEP: return predict_model(hardware, point, time, error);
  case HR_SWEEP_ATTENTION: status = predict_attention(hardware, point, &prediction, error); break;
  case HR_SWEEP_COLLECTIVE: status = predict_collective(hardware, point, &prediction, error); break;
  case HR_SWEEP_DECODE: status = hr_predict_decode(hardware, &point->decode, &prediction, error); break;
  default: status = hr_predict_gemm(hardware, &point->gemm, &prediction, error);
  }
  if (status == HR_OK)
    *time = (hr_sweep_time){prediction.time_ns, prediction.low_ns, prediction.high_ns};
  return status;
}

hr_status hr_sweep_predict(const hr_hardware *hardware, const hr_sweep_point *point, double *time_ns, hr_error *error)
{
  HR_NEED(error, hardware, point, time_ns);
  hr_sweep_time time = {0, 0, 0};
  hr_status status = hr_sweep_predict_time(hardware, point, &time, error);
  if (status == HR_OK)
    *time_ns = time.ns;
  return status;
}

/* Time for one configuration. docs/measuring.md: warm-up until samples agree, on a GPU 120 ms; then at least 10
 * samples, until the confidence interval is narrow or the time limit is over. A CPU is shared with other programs, so
 * that it needs more samples. Compared with measured times, on an H200 in bf16: 7.1 s for 12 points of fig31, 7.6 s for
 * 12 of fig47; on two cores of a Sapphire Rapids Xeon: 10 s for the 14 points of fig7a, 16 s for the 32 of fig16;
 * 2026-11-21. */
static double measuring_ns(double run_ns, bool gpu)
{
  const double prepare_ns = gpu ? 40e6 : 60e6; /* buffers, random data, checked rows */
  const double warm_up_ns = gpu ? 120e6 : 100e6;
  const double min_ns = gpu ? 0 : 250e6;
  const double samples = gpu ? 15 : 40; /* typical until the interval is narrow enough */
  hr_measure_options options = hr_measure_options_default();
  double sampling_ns = fmin(options.time_limit_ns, fmax(samples * run_ns, min_ns));
  return prepare_ns + fmax(warm_up_ns, 2 * run_ns) + fmax(sampling_ns, (double)options.samples_min * run_ns);
}

/* About: four or five GEMMs, two batched GEMMs of attention, norms, softmax, …; in training with two gradients of each
 * GEMM and one of the others. */
int hr_sweep_layer_operators(const hr_sweep_point *point)
{
  return point->workload.phase == HR_PHASE_TRAIN ? 34 : 13;
}

/* Filling the weights, then the runs. */
static double step_ns(const hr_sweep_point *point, double run_ns, bool gpu)
{
  hr_memory memory;
  const bool known = hr_memory_estimate(&point->model, &point->workload, &memory, NULL) == HR_OK;
  return (known ? hr_budget_fill_ns(gpu, (double)memory.total_bytes) : 0) + measuring_ns(run_ns, gpu);
}

/* A layer's operators are measured one by one, then all together. */
static double point_ns(const hr_sweep_point *point, double run_ns, bool gpu)
{
  if (point->kind == HR_SWEEP_STEP)
    return step_ns(point, run_ns, gpu);
  if (point->kind != HR_SWEEP_LAYER)
    return measuring_ns(run_ns, gpu);
  const int operators = hr_sweep_layer_operators(point);
  return operators * measuring_ns(run_ns / operators, gpu) + measuring_ns(run_ns, gpu);
}

/* The probe before the first point, and the time in which a GPU's clock settles. */
static double beginning_ns(bool gpu)
{
  return gpu ? 4.5e9 : 1.5e9;
}

hr_status hr_sweep_estimate(const hr_sweep *sweep, const hr_sweep_choice *choice, const hr_hardware *hardware,
                            hr_dtype dtype, double *time_ns, hr_error *error)
{
  HR_NEED(error, sweep, choice, hardware, time_ns);
  HR_TAKE(hr_sweep_choice, choice, error);
  size_t *indices, count;
  hr_status status = hr_sweep_order(sweep, choice, &indices, &count, error);
  if (status != HR_OK)
    return status;
  bool gpu = hardware->about.kind == HR_HARDWARE_GPU;
  double sum_ns = 0;
  for (size_t i = 0; i < count && status == HR_OK; i++) {
    hr_sweep_point point;
    double run_ns;
    status = hr_sweep_point_at(sweep, indices[i], dtype, &point, error);
    hr_status predicted = status == HR_OK ? hr_sweep_predict(hardware, &point, &run_ns, error) : status;
    if (predicted == HR_OK)
      sum_ns += point_ns(&point, run_ns, gpu) + (sum_ns > 0 ? 0 : beginning_ns(gpu));
    else if (predicted == HR_ERROR_OUT_OF_MEMORY)
      status = predicted; /* others: the point has no prediction */
  }
  free(indices);
  if (status == HR_OK)
    *time_ns = sum_ns > 0 || count == 0 ? sum_ns : (double)NAN;
  return status;
}
