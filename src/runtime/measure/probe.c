/* SPDX-License-Identifier: Apache-2.0 */
/* Probing a device for a few seconds: instruction ceilings, the library's GEMM rates, copy bandwidth, launch cost. */
#include "base/error.h"
#include "hardware/hardware.h"
#include "runtime/device/clock.h"
#include "runtime/measure/settle.h"

#include <headroom/experimental/measure.h>
#include <headroom/plan.h>
#include <math.h>
#include <string.h>

#define PROBE_NS 1.2e9      /* for everything but the instruction ceilings */
#define GEMM_LIMIT_NS 150e6 /* for the sampling of one GEMM */
#define ERROR_BAND 0.6      /* expected relative error of predictions from probed rates */

/* Sizes of the GEMMs among which the best rate is searched, smallest first, while time is left. A few cores are filled
 * by the smallest, many cores are not. */
static const int64_t sizes[] = {256, 512, 1024, 2048, 4096};
#define GPU_SIZE 8192 /* fills any GPU within milliseconds */

/* A running probe. */
typedef struct probing {
  hr_device *device;
  hr_progress_range range;
  double done; /* of the range */
  const char *what;
} probing;

static int is_stopped(void *context)
{
  const probing *p = context;
  return hr_progress_range_report(&p->range, p->done, p->what, NULL) != HR_OK;
}

static hr_status begin_step(probing *p, double first, double end, const char *what, hr_error *error)
{
  p->range.first = first;
  p->range.share = end - first;
  p->done = 0;
  p->what = what;
  return hr_progress_range_report(&p->range, 0, what, error);
}

static hr_measure_options quick_options(probing *p)
{
  hr_measure_options options = hr_measure_options_default();
  options.time_limit_ns = GEMM_LIMIT_NS;
  options.cancelled = is_stopped;
  options.context = p;
  options.precision = 0.02;
  options.samples_min = 3;
  options.samples_max = 200;
  options.check = false; /* the kernel tests and every reported measurement do */
  return options;
}

static hr_status time_gemm(probing *p, hr_gemm gemm, bool warm, hr_measurement *measurement, hr_error *error)
{
  hr_measure_options options = quick_options(p);
  options.warm = warm;
  return hr_measure_gemm(p->device, &gemm, &options, measurement, error);
}

/* The best rate of GEMMs in one dtype. */
typedef struct best_rate {
  double flops_per_s; /* 0 if the device has no kernel for the format */
  bool settled;       /* at least one size had a precise time */
} best_rate;

static hr_gemm square(int64_t size, hr_dtype dtype)
{
  hr_gemm gemm = hr_gemm_default();
  gemm.m = gemm.n = gemm.k = size;
  gemm.dtype = dtype;
  gemm.transpose_b = true; /* the layout of weights in a framework's linear layers */
  return gemm;
}

static hr_status try_size(probing *p, hr_dtype dtype, int64_t size, hr_measurement *m, best_rate *best, hr_error *error)
{
  const bool own_clock = p->device->backend->time_runs;
  /* CPUs with warm operands: filling cold ones for a cache of hundreds of megabytes would take all the time, so that
   * only small GEMMs would be reached. Memory has its own rate. */
  HR_TRY(time_gemm(p, square(size, dtype), !own_clock, m, error));
  if (!(m->median_ns > 0))
    return HR_OK; /* unsupported or out of memory: the best so far stays */
  /* On a CPU the least disturbed run shows the rate; a GPU is undisturbed, and its first runs are faster than the
   * rest. */
  double time_ns = own_clock ? m->median_ns : m->min_ns;
  best->flops_per_s = fmax(best->flops_per_s, m->flops_per_s * m->median_ns / time_ns);
  best->settled = best->settled || m->status == HR_OK;
  return HR_OK;
}

/* The best rate of square GEMMs found within `limit_ns`. */
static hr_status find_best(probing *p, hr_dtype dtype, double limit_ns, best_rate *best, hr_error *error)
{
  double start = hr_clock_ns();
  hr_measurement m;
  *best = (best_rate){0, false};
  if (p->device->backend->time_runs)
    return try_size(p, dtype, GPU_SIZE, &m, best, error);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    double before = hr_clock_ns();
    HR_TRY(try_size(p, dtype, sizes[i], &m, best, error));
    if (!(m.median_ns > 0))
      return HR_OK;
    double took = hr_clock_ns() - before, run = 8 * m.median_ns * 6; /* the next size: six runs of 8 times the work */
    if (hr_clock_ns() - start + fmax(took, run) > limit_ns)
      return HR_OK;
  }
  return HR_OK;
}

/* Sets the library's share of the dense rate; the dense rate stays. A rate below the estimate that was never precise
 * (or no rate, since not even the first GEMM ended in time) only shows that other programs used the cores: then the
 * estimate stays. Returns whether the rate is measured. */
static bool set_rate(hr_hardware *hardware, hr_dtype dtype, bool supported, const best_rate *best)
{
  double estimate = hardware->dense_flops_per_s[dtype] * hardware->library_share[dtype];
  if (supported && best->flops_per_s < estimate && !best->settled)
    return false;
  if (best->flops_per_s <= 0) /* no kernel, hence no rate for predictions */
    hardware->dense_flops_per_s[dtype] = 0;
  else if (hardware->dense_flops_per_s[dtype] <= 0) /* a rate that the description lacks */
    hardware->dense_flops_per_s[dtype] = best->flops_per_s;
  double dense = hardware->dense_flops_per_s[dtype];
  hardware->library_share[dtype] = dense > 0 ? best->flops_per_s / dense : 0;
  return true;
}

static hr_status set_launch(probing *p, hr_hardware *hardware, hr_error *error)
{
  hr_gemm gemm = hr_gemm_default();
  gemm.m = gemm.n = gemm.k = 8;
  gemm.dtype = HR_FP32;
  hr_measurement m;
  HR_TRY(time_gemm(p, gemm, true, &m, error));
  if (m.median_ns > 0)
    hardware->launch_ns = m.min_ns;
  return HR_OK;
}

/* A GPU's bandwidth stays that of the data sheet, on which GEMM predictions are based; a CPU's is only an estimate. */
static void set_bandwidth(hr_hardware *hardware, double copy_rate)
{
  double known = hardware->about.kind == HR_HARDWARE_GPU ? hardware->bandwidth_bytes_per_s : 0;
  hardware->bandwidth_bytes_per_s = fmax(known, copy_rate);
  hardware->bandwidth_share = copy_rate / hardware->bandwidth_bytes_per_s;
}

/* A device without its own copy loop gets the library's copy rate as the ceiling. */
static void add_copy(hr_hardware *hardware, double copy_rate)
{
  bool full_or_present = hardware->ceiling_count == 0 || hardware->ceiling_count == HR_CEILINGS_MAX;
  for (size_t i = 0; i < hardware->ceiling_count; i++)
    full_or_present = full_or_present || hardware->ceilings[i].kind == HR_CEILING_COPY;
  if (full_or_present)
    return;
  hardware->ceilings[hardware->ceiling_count++] =
      (hr_ceiling){.kind = HR_CEILING_COPY, .dtype = HR_FP32, .instruction = "memcpy", .per_s = copy_rate};
}

static bool supports_gemm(hr_device *device, hr_dtype dtype)
{
  hr_gemm gemm = square(sizes[0], dtype);
  hr_plan *plan = NULL;
  bool can = hr_plan_gemm(device, &gemm, NULL, &plan, NULL) == HR_OK;
  hr_plan_free(plan);
  return can;
}

/* Probes the dtypes in turn, each for its share of the remaining time. If the device has no kernel for one of the first
 * two, its rate becomes 0; for the others the estimate stays. */
static hr_status probe_gemms(probing *p, double limit_ns, hr_hardware *hardware, bool *measured, double *found,
                             hr_error *error)
{
  static const hr_dtype dtypes[] = {HR_FP32, HR_BF16, HR_FP16, HR_TF32, HR_FP8_E4M3};
  const size_t count = sizeof dtypes / sizeof *dtypes;
  double start = hr_clock_ns();
  int left = 0;
  for (size_t i = 0; i < count; i++)
    left += supports_gemm(p->device, dtypes[i]);
  for (size_t i = 0; i < count; i++) {
    best_rate best = {0, false};
    double left_ns = limit_ns - (hr_clock_ns() - start);
    bool supported = supports_gemm(p->device, dtypes[i]);
    p->done = (double)i / (double)count;
    if (supported)
      HR_TRY(find_best(p, dtypes[i], left_ns / (double)left--, &best, error));
    if (supported || i < 2)
      *measured = set_rate(hardware, dtypes[i], supported, &best) && *measured;
    *found = fmax(*found, best.flops_per_s);
  }
  return HR_OK;
}

/* Called before the GEMMs, so that a slow library does not take the ceilings' time. There are no ceilings if the device
 * has no benchmark loops or the machine no compiler for them. */
static hr_status probe_ceilings(const probing *p, hr_hardware *hardware, hr_error *error)
{
  hr_device *device = p->device;
  hr_error reason = {.message = ""};
  size_t count = 0;
  if (!device->backend->measure_ceilings)
    return HR_OK;
  hr_status status = device->backend->measure_ceilings(device, &p->range, hardware->ceilings, &count, &reason);
  hardware->ceiling_count = status == HR_OK ? count : 0;
  return status == HR_OK || status == HR_ERROR_UNSUPPORTED ? HR_OK : hr_fail(error, status, "%s", reason.message);
}

/* The rates that predictions are based on: copy, launch, GEMMs. */
static hr_status probe_rates(probing *p, hr_hardware *probed, bool *measured, double *found, hr_error *error)
{
  double start = hr_clock_ns(), copy_rate = 0;
  HR_TRY(begin_step(p, 0.55, 0.65, "copy", error));
  HR_TRY(p->device->backend->copy_rate(p->device, &copy_rate, error));
  set_bandwidth(probed, copy_rate);
  add_copy(probed, copy_rate);
  HR_TRY(begin_step(p, 0.65, 0.7, "a small GEMM", error));
  HR_TRY(set_launch(p, probed, error));
  HR_TRY(begin_step(p, 0.7, 1, "the library's GEMMs", error));
  return probe_gemms(p, PROBE_NS - (hr_clock_ns() - start), probed, measured, found, error);
}

hr_status hr_device_probe(hr_device *device, hr_progress_fn progress, void *context, hr_hardware *hardware,
                          hr_error *error)
{
  HR_NEED(error, device, hardware);
  probing p = {.device = device, .range = {.progress = progress, .context = context}};
  double found = 0;
  bool measured = true;
  hr_hardware probed;
  HR_TRY(hr_device_detect(device, &probed, error));
  if (!device->backend->copy_rate)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: cannot be measured", device->name);
  HR_TRY(begin_step(&p, 0, 0.1, "settling the clock", error));
  hr_measure_options options = quick_options(&p);
  HR_TRY(hr_device_settle(device, &options, error));
  double dense[HR_DTYPE_COUNT], share[HR_DTYPE_COUNT];
  memcpy(dense, probed.dense_flops_per_s, sizeof dense);
  memcpy(share, probed.library_share, sizeof share);
  HR_TRY(begin_step(&p, 0.1, 0.55, "instructions", error));
  HR_TRY(probe_ceilings(&p, &probed, error));
  HR_TRY(probe_rates(&p, &probed, &measured, &found, error));
  if (found <= 0 && probed.ceiling_count == 0)
    return hr_fail(error, HR_ERROR_UNAVAILABLE,
                   "%s: no GEMM kernel could be measured here (`headroom kernels` says why)", device->name);
  if (found <= 0) { /* no library, but instruction ceilings */
    memcpy(probed.dense_flops_per_s, dense, sizeof dense);
    memcpy(probed.library_share, share, sizeof share);
    measured = false;
  }
  if (measured) {
    probed.about.calibration = HR_CALIBRATION_MEASURED;
    probed.error_band = ERROR_BAND;
  }
  *hardware = probed;
  return HR_OK;
}
