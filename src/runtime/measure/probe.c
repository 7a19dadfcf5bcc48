/* A device measured for a few seconds: what its instructions reach, what its library reaches in products, what a copy
 * reaches, what a call costs. */
#include "base/error.h"
#include "runtime/device/clock.h"
#include "runtime/measure/settle.h"

#include <headroom/measure.h>
#include <headroom/plan.h>
#include <math.h>
#include <string.h>

#define PROBE_NS 1.2e9         /* for everything but the instruction ceilings */
#define PRODUCT_LIMIT_NS 150e6 /* of the sampling of one product */
#define ERROR_BAND 0.6         /* a time is expected within this of a prediction from probed rates */

/* Sizes of products that the best rate is looked for among, smallest first. Larger ones are tried while time is left:
 * on a few cores the first is enough to fill them, on many it is not. */
static const int64_t sizes[] = {256, 512, 1024, 2048, 4096};
#define GPU_SIZE 8192 /* a GPU is filled by this one alone, within milliseconds */

/* The probe that is under way. */
typedef struct probing {
  hr_device *device;
  hr_progress_range range;
  double done; /* of the range's part */
  const char *what;
} probing;

static int is_stopped(void *context)
{
  const probing *p = context;
  return hr_progress_range_report(&p->range, p->done, p->what, NULL) != HR_OK;
}

static hr_status go_on(probing *p, double first, double end, const char *what, hr_error *error)
{
  p->range.first = first;
  p->range.share = end - first;
  p->done = 0;
  p->what = what;
  return hr_progress_range_report(&p->range, 0, what, error);
}

static hr_measure_options quick(probing *p)
{
  hr_measure_options options = hr_measure_options_default();
  options.time_limit_ns = PRODUCT_LIMIT_NS;
  options.cancelled = is_stopped;
  options.context = p;
  options.precision = 0.02;
  options.samples_min = 3;
  options.samples_max = 200;
  options.check = false; /* the kernel tests and every measurement that is shown do */
  return options;
}

static hr_status time_product(probing *p, hr_gemm gemm, bool warm, hr_measurement *measurement, hr_error *error)
{
  hr_measure_options options = quick(p);
  options.warm = warm;
  return hr_measure_gemm(p->device, &gemm, &options, measurement, error);
}

/* What products of one format reached. */
typedef struct best_product {
  double flops_per_s; /* 0 if the device has no kernel for the format */
  bool settled;       /* at least one size gave figures that can be trusted */
} best_product;

static hr_gemm square(int64_t size, hr_dtype dtype)
{
  hr_gemm gemm = hr_gemm_default();
  gemm.m = gemm.n = gemm.k = size;
  gemm.dtype = dtype;
  gemm.transpose_b = true; /* as a framework's linear layers keep their weights */
  return gemm;
}

static hr_status try_size(probing *p, hr_dtype dtype, int64_t size, hr_measurement *m, best_product *best,
                          hr_error *error)
{
  const bool own_clock = p->device->backend->time_runs;
  /* With the operands where they were: cold ones of a cache of hundreds of megabytes take all the time to make, so that
   * only small products are reached, and memory has a rate of its own. */
  HR_TRY(time_product(p, square(size, dtype), !own_clock, m, error));
  if (!(m->median_ns > 0))
    return HR_OK; /* unsupported or out of memory: what was found until now stands */
  /* On a CPU the least disturbed run shows the ceiling; a GPU is alone, and its first runs are faster than the rest. */
  double time_ns = own_clock ? m->median_ns : m->min_ns;
  best->flops_per_s = fmax(best->flops_per_s, m->flops_per_s * m->median_ns / time_ns);
  best->settled = best->settled || m->status == HR_OK;
  return HR_OK;
}

/* The best rate of square products within `limit_ns`. */
static hr_status find_best(probing *p, hr_dtype dtype, double limit_ns, best_product *best, hr_error *error)
{
  double start = hr_clock_ns();
  hr_measurement m;
  *best = (best_product){0, false};
  if (p->device->backend->time_runs)
    return try_size(p, dtype, GPU_SIZE, &m, best, error);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    double before = hr_clock_ns();
    HR_TRY(try_size(p, dtype, sizes[i], &m, best, error));
    if (!(m.median_ns > 0))
      return HR_OK;
    double took = hr_clock_ns() - before, run = 8 * m.median_ns * 6; /* the next size: 8 times the work, six runs */
    if (hr_clock_ns() - start + fmax(took, run) > limit_ns)
      return HR_OK;
  }
  return HR_OK;
}

/* The library's share of the dense rate, which stays what it is. A rate below the estimate that never settled, or none
 * because not even the first product ended in time, shows only that other programs have the cores: the estimate is the
 * better guess then, and stays one. Returns whether the rate is a measured one. */
static bool set_rate(hr_hardware *hardware, hr_dtype dtype, bool can, const best_product *best)
{
  double estimate = hardware->dense_flops_per_s[dtype] * hardware->library_share[dtype];
  if (can && best->flops_per_s < estimate && !best->settled)
    return false;
  if (best->flops_per_s <= 0) /* no kernel: nothing that a prediction could stand on */
    hardware->dense_flops_per_s[dtype] = 0;
  else if (hardware->dense_flops_per_s[dtype] <= 0) /* units that the description does not know */
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
  HR_TRY(time_product(p, gemm, true, &m, error));
  if (m.median_ns > 0)
    hardware->launch_ns = m.min_ns;
  return HR_OK;
}

/* A copy stays below the data sheet's bandwidth, which products are predicted from; a CPU's is only a guess. */
static void set_bandwidth(hr_hardware *hardware, double copy_rate)
{
  double known = hardware->kind == HR_HARDWARE_GPU ? hardware->bandwidth_bytes_per_s : 0;
  hardware->bandwidth_bytes_per_s = fmax(known, copy_rate);
  hardware->bandwidth_share = copy_rate / hardware->bandwidth_bytes_per_s;
}

/* A device without a copying loop of its own has the library's as the ceiling. */
static void add_copy(hr_hardware *hardware, double copy_rate)
{
  bool there = hardware->ceiling_count == 0 || hardware->ceiling_count == HR_CEILINGS_MAX;
  for (size_t i = 0; i < hardware->ceiling_count; i++)
    there = there || hardware->ceilings[i].kind == HR_CEILING_COPY;
  if (there)
    return;
  hardware->ceilings[hardware->ceiling_count++] =
      (hr_ceiling){.kind = HR_CEILING_COPY, .dtype = HR_FP32, .instruction = "memcpy", .per_s = copy_rate};
}

static bool multiplies(hr_device *device, hr_dtype dtype)
{
  hr_gemm gemm = square(sizes[0], dtype);
  hr_plan *plan = NULL;
  bool can = hr_plan_gemm(device, &gemm, NULL, &plan, NULL) == HR_OK;
  hr_plan_free(plan);
  return can;
}

/* Formats in turn, each with its part of the time that is left. The first two, which everybody asks for, are said to be
 * missing where the device has no kernel for them; of the others the estimate stays. */
static hr_status probe_products(probing *p, double limit_ns, hr_hardware *hardware, bool *measured, double *found,
                                hr_error *error)
{
  static const hr_dtype dtypes[] = {HR_FP32, HR_BF16, HR_FP16, HR_TF32, HR_FP8_E4M3};
  const size_t count = sizeof dtypes / sizeof *dtypes;
  double start = hr_clock_ns();
  int left = 0;
  for (size_t i = 0; i < count; i++)
    left += multiplies(p->device, dtypes[i]);
  for (size_t i = 0; i < count; i++) {
    best_product best = {0, false};
    double left_ns = limit_ns - (hr_clock_ns() - start);
    bool can = multiplies(p->device, dtypes[i]);
    p->done = (double)i / (double)count;
    if (can)
      HR_TRY(find_best(p, dtypes[i], left_ns / (double)left--, &best, error));
    if (can || i < 2)
      *measured = set_rate(hardware, dtypes[i], can, &best) && *measured;
    *found = fmax(*found, best.flops_per_s);
  }
  return HR_OK;
}

/* Before the products, so that a library that is slow leaves them their time. A device without loops, or a machine
 * without the compiler for them, has no such ceilings. */
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

/* What everybody's predictions stand on: a copy, a call, products. */
static hr_status probe_rates(probing *p, hr_hardware *probed, bool *measured, double *found, hr_error *error)
{
  double start = hr_clock_ns(), copy_rate = 0;
  HR_TRY(go_on(p, 0.55, 0.65, "copy", error));
  HR_TRY(p->device->backend->copy_rate(p->device, &copy_rate, error));
  set_bandwidth(probed, copy_rate);
  add_copy(probed, copy_rate);
  HR_TRY(go_on(p, 0.65, 0.7, "a small product", error));
  HR_TRY(set_launch(p, probed, error));
  HR_TRY(go_on(p, 0.7, 1, "the library's products", error));
  return probe_products(p, PROBE_NS - (hr_clock_ns() - start), probed, measured, found, error);
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
  HR_TRY(go_on(&p, 0, 0.1, "until the clock has settled", error));
  hr_measure_options options = quick(&p);
  HR_TRY(hr_device_settle(device, &options, error));
  double dense[HR_DTYPE_COUNT], share[HR_DTYPE_COUNT];
  memcpy(dense, probed.dense_flops_per_s, sizeof dense);
  memcpy(share, probed.library_share, sizeof share);
  HR_TRY(go_on(&p, 0.1, 0.55, "instructions", error));
  HR_TRY(probe_ceilings(&p, &probed, error));
  HR_TRY(probe_rates(&p, &probed, &measured, &found, error));
  if (found <= 0 && probed.ceiling_count == 0)
    return hr_fail(error, HR_ERROR_UNAVAILABLE,
                   "%s: has no kernel for products here that could be measured "
                   "(`headroom kernels` says why)",
                   device->name);
  if (found <= 0) { /* no library, but instructions */
    memcpy(probed.dense_flops_per_s, dense, sizeof dense);
    memcpy(probed.library_share, share, sizeof share);
    measured = false;
  }
  if (measured) {
    probed.calibration = HR_CALIBRATION_MEASURED;
    probed.error_band = ERROR_BAND;
  }
  *hardware = probed;
  return HR_OK;
}
