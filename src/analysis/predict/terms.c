/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/predict/terms.h"
#include "analysis/predict/servers.h"
#include "model/layers/frameworks.h"

#include "base/error.h"
#include "base/names.h"
#include "hardware/hardware.h"

#include <headroom/experimental/hardware.h>
#include <headroom/experimental/predict.h>
#include <math.h>

hr_status hr_predict_check_hardware(const hr_hardware *hardware, hr_error *error)
{
  bool tiles = hardware->tile_count >= 1 || hr_hardware_has_families(hardware);
  bool usable = tiles && hardware->multiprocessors >= 1 && hardware->blocks_per_multiprocessor >= 1 &&
                hardware->tile_count <= HR_TILES_MAX && hardware->alignment_count <= HR_ALIGNMENTS_MAX &&
                hardware->attention_count <= HR_ATTENTION_SHARES_MAX &&
                hardware->collective_count <= HR_COLLECTIVE_RATES_MAX && hardware->bandwidth_bytes_per_s > 0 &&
                hardware->bandwidth_share > 0;
  return usable ? HR_OK : hr_hardware_check(hardware, error);
}

hr_status hr_predict_rate(const hr_hardware *hardware, hr_dtype dtype, double *flops_per_s, hr_error *error)
{
  HR_TRY(hr_predict_check_hardware(hardware, error));
  *flops_per_s = hr_hardware_library_flops_per_s(hardware, dtype);
  if (*flops_per_s > 0)
    return HR_OK;
  return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s has no matrix rate for %s; its default is %s", hardware->about.name,
                 hr_dtype_name(dtype), hr_dtype_name(hr_hardware_usual_dtype(hardware)));
}

hr_activations hr_predict_activations(const hr_hardware *hardware, const hr_operator *op)
{
  const bool own = op->framework == HR_FRAMEWORK_HEADROOM || op->rounds_twice;
  const bool keeps = own && op->activations == HR_ACTIVATIONS_FP8;
  return hr_hardware_widens(hardware, op->activations) && !keeps ? HR_ACTIVATIONS_UNQUANTIZED : op->activations;
}

hr_status hr_predict_check_framework(hr_framework framework, hr_error *error)
{
  if ((unsigned)framework > HR_FRAMEWORK_SGLANG)
    return hr_fail(error, HR_ERROR_INVALID, "framework: %d is not in the list", (int)framework);
  if (hr_is_transformers(framework))
    return hr_fail(error, HR_ERROR_INVALID,
                   "framework: %s is of whole steps; a call is of compiled, eager, headroom or a server",
                   hr_framework_name(framework));
  return HR_OK;
}

const char *hr_predict_server_version(const hr_hardware *hardware, hr_framework framework)
{
  const hr_server_cost *cost = hardware ? hr_server_cost_of(hardware, framework) : NULL;
  return cost ? cost->version : "";
}

double hr_predict_peak(const hr_hardware *hardware, hr_dtype dtype)
{
  return fmax(hardware->dense_flops_per_s[hr_hardware_compute_dtype(hardware, dtype)],
              hr_hardware_library_flops_per_s(hardware, dtype));
}

hr_hardware hr_predict_scaled_device(const hr_hardware *hardware, hr_dtype dtype, double matrix_share,
                                     double load_share)
{
  hr_hardware device = *hardware;
  double dense = hardware->dense_flops_per_s[dtype];
  if (matrix_share > 0 && dense > 0)
    device.library_share[dtype] = hr_hardware_library_flops_per_s(hardware, dtype) / dense * matrix_share;
  if (load_share > 0)
    device.load_share = load_share;
  return device;
}

double hr_overlap(double a_ns, double b_ns)
{
  return cbrt(a_ns * a_ns * a_ns + b_ns * b_ns * b_ns);
}

double hr_transfer_ns(const hr_hardware *hardware, double bytes, double share)
{
  return bytes * 1e9 / (hardware->bandwidth_bytes_per_s * (share > 0 ? share : hardware->bandwidth_share));
}

/* A cache is so many times as fast as main memory where a device's file gives no rate of its cache. */
#define CACHE_SPEED 2.0

double hr_cache_rate(const hr_hardware *hardware)
{
  double share = hardware->load_share > 0 ? hardware->load_share : hardware->bandwidth_share;
  if (hardware->cache_bytes_per_s > 0)
    return fmax(hardware->cache_bytes_per_s, hardware->bandwidth_bytes_per_s * share);
  return hardware->bandwidth_bytes_per_s * hardware->bandwidth_share * CACHE_SPEED;
}

bool hr_is_cached(const hr_hardware *hardware, double bytes)
{
  return hardware->about.cache == HR_CACHE_WARM && bytes <= (double)hardware->l2_bytes;
}

double hr_recent_ns(const hr_hardware *hardware, double bytes, double share)
{
  double cache = (double)hardware->l2_bytes, cached = fmax(0, fmin(bytes, 2 * cache - bytes));
  double rate = hardware->l2_bytes_per_s > 0 ? hardware->l2_bytes_per_s : hr_cache_rate(hardware);
  if (hardware->about.kind != HR_HARDWARE_GPU)
    return hr_transfer_ns(hardware, bytes, share);
  if (share > 0) /* a kernel that reads memory at a part of its rate has as small a part of the cache's */
    rate *= share / hardware->bandwidth_share;
  return fmin(cached * 1e9 / rate, hr_transfer_ns(hardware, cached, share)) +
         hr_transfer_ns(hardware, bytes - cached, share);
}

double hr_reread_ns(const hr_hardware *hardware, double bytes, double share)
{
  return hardware->about.cache == HR_CACHE_WARM ? hr_recent_ns(hardware, bytes, share)
                                                : hr_transfer_ns(hardware, bytes, share);
}

/* The largest term of the time, or the loss that exceeds it. Misalignment binds only from a quarter of the useful time
 * on: below that, "matrix" is the better advice. */
static hr_bound binding(const hr_prediction *p)
{
  /* Stores are memory time; a higher clock makes up for idle slots. */
  double quantization_ns = p->tile_ns - p->store_ns + p->wave_ns + p->reduction_ns + p->clock_ns;
  double compute_ns = p->matrix_ns + quantization_ns + p->alignment_ns;
  if (p->launch_ns + p->pair_ns + p->split_ns >= p->time_ns / 2)
    return HR_BOUND_LAUNCH;
  if (p->memory_ns >= compute_ns)
    return HR_BOUND_MEMORY;
  if (p->alignment_ns > quantization_ns && p->alignment_ns > p->matrix_ns / 4)
    return HR_BOUND_ALIGNMENT;
  return quantization_ns > p->matrix_ns ? HR_BOUND_QUANTIZATION : HR_BOUND_MATRIX;
}

void hr_prediction_finish(const hr_hardware *hardware, double busy_ns, double useful, double useful_per_s,
                          hr_prediction *prediction)
{
  prediction->time_ns = busy_ns + prediction->launch_ns;
  prediction->low_ns = prediction->time_ns / (1 + hardware->error_band);
  prediction->high_ns = prediction->time_ns * (1 + hardware->error_band);
  prediction->efficiency = prediction->time_ns > 0 ? fmin(useful / useful_per_s * 1e9 / prediction->time_ns, 1) : 1;
  prediction->bound_by = binding(prediction);
}

const hr_interval *hr_interval_for(const hr_hardware *hardware, hr_interval_kind kind, hr_dtype dtype, double time_ns)
{
  for (size_t i = 0; i < hardware->interval_count; i++) { /* those of all formats come last */
    const hr_interval *interval = &hardware->intervals[i];
    bool of_format = interval->dtype == dtype || interval->dtype == HR_DTYPE_COUNT;
    if (interval->kind == kind && of_format && time_ns < interval->below_ns)
      return interval;
  }
  return NULL;
}

void hr_prediction_set_interval(const hr_hardware *hardware, hr_interval_kind kind, hr_dtype dtype,
                                hr_prediction *prediction)
{
  const hr_interval *interval = hr_interval_for(hardware, kind, dtype, prediction->time_ns);
  if (!interval)
    return;
  prediction->low_ns = prediction->time_ns * interval->low;
  prediction->high_ns = prediction->time_ns * interval->high;
}

hr_interval_kind hr_interval_kind_of(const hr_gemm *gemm, const hr_prediction *prediction)
{
  if (hr_dtype_bytes(gemm->dtype) == 1)
    return HR_INTERVAL_GEMM_8BIT;
  bool misaligned = prediction->alignment < HR_TMA_BYTES;
  if (gemm->batch > 1)
    return misaligned ? HR_INTERVAL_BMM_MISALIGNED : HR_INTERVAL_BMM;
  return misaligned ? HR_INTERVAL_GEMM_MISALIGNED : HR_INTERVAL_GEMM;
}

const char *hr_prediction_largest_term(const hr_prediction *p)
{
  const struct {
    const char *name;
    double ns;
  } terms[] = {{"matrix", p->matrix_ns},  {"tile", p->tile_ns},
               {"wave", p->wave_ns},      {"alignment", p->alignment_ns},
               {"memory", p->memory_ns},  {"launch", p->launch_ns},
               {"pair", p->pair_ns},      {"split", p->split_ns + p->reduction_ns},
               {"cache", p->cache_ns},    {"rounding", p->rounding_ns},
               {"padding", p->padding_ns}};
  size_t largest = 0;
  for (size_t i = 1; i < sizeof terms / sizeof *terms; i++)
    largest = terms[i].ns > terms[largest].ns ? i : largest;
  return terms[largest].name;
}

static const char *const bound_names[] = {"matrix",       "memory",       "launch", "alignment",
                                          "quantization", "interconnect", "network"};

HR_DEFINE_NAME(hr_bound_name, hr_bound, bound_names, sizeof bound_names / sizeof *bound_names)
