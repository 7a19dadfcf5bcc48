/* A device measured for about a second: what its library reaches in products, what a copy reaches, what a call costs. */
#include "base/error.h"
#include "runtime/device/clock.h"
#include "runtime/device/device.h"

#include <headroom/measure.h>
#include <math.h>

#define PROBE_NS 1.2e9         /* for everything */
#define PRODUCT_LIMIT_NS 150e6 /* of the sampling of one product */
#define ERROR_BAND 0.6         /* a time is expected within this of a prediction from probed rates */

/* Sizes of products that the best rate is looked for among, smallest first. Larger ones are tried while time is left:
 * on a few cores the first is enough to fill them, on many it is not. */
static const int64_t sizes[] = {256, 512, 1024, 2048, 4096};

static hr_measure_options quick(double time_limit_ns)
{
  hr_measure_options options = hr_measure_options_default();
  options.time_limit_ns = time_limit_ns;
  options.precision = 0.02;
  options.samples_min = 3;
  options.samples_max = 200;
  options.check = false; /* the kernel tests and every measurement that is shown do */
  return options;
}

static hr_status time_product(hr_device *device, hr_gemm gemm, bool warm, hr_measurement *measurement, hr_error *error)
{
  hr_measure_options options = quick(PRODUCT_LIMIT_NS);
  options.warm = warm;
  return hr_measure_gemm(device, &gemm, &options, measurement, error);
}

/* What products of one format reached. */
typedef struct best_product {
  double flops_per_s; /* 0 if the device has no kernel for the format */
  bool settled;       /* at least one size gave figures that can be trusted */
} best_product;

/* The best rate of square products within `limit_ns`. */
static hr_status find_best(hr_device *device, hr_dtype dtype, double limit_ns, best_product *best, hr_error *error)
{
  double start = hr_clock_ns();
  *best = (best_product){0, false};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    hr_gemm gemm = hr_gemm_default();
    gemm.m = gemm.n = gemm.k = sizes[i];
    gemm.dtype = dtype;
    gemm.transpose_b = true; /* as a framework's linear layers keep their weights */
    hr_measurement m;
    double before = hr_clock_ns();
    HR_TRY(time_product(device, gemm, false, &m, error));
    if (!(m.median_ns > 0))
      return HR_OK; /* unsupported or out of memory: what was found until now stands */
    best->flops_per_s = fmax(best->flops_per_s, m.flops_per_s * m.median_ns / m.min_ns); /* a ceiling is asked for */
    best->settled = best->settled || m.status == HR_OK;
    double took = hr_clock_ns() - before, run = 8 * m.median_ns * 6; /* the next size: 8 times the work, six runs */
    if (hr_clock_ns() - start + fmax(took, run) > limit_ns)
      return HR_OK;
  }
  return HR_OK;
}

/* A measured rate above the estimated one shows the estimate to be too low. One below it that never settled shows only
 * that other programs have the cores: the estimate is the better guess then, and stays one. Returns whether the rate is
 * a measured one. */
static bool set_rate(hr_hardware *hardware, hr_dtype dtype, const best_product *best)
{
  double estimate = hardware->dense_flops_per_s[dtype] * hardware->library_share[dtype];
  if (best->flops_per_s > 0 && best->flops_per_s < estimate && !best->settled)
    return false;
  double dense = best->flops_per_s > 0 ? fmax(hardware->dense_flops_per_s[dtype], best->flops_per_s) : 0;
  hardware->dense_flops_per_s[dtype] = dense;
  hardware->library_share[dtype] = dense > 0 ? best->flops_per_s / dense : 0;
  return true;
}

static hr_status set_launch(hr_device *device, hr_hardware *hardware, hr_error *error)
{
  hr_gemm gemm = hr_gemm_default();
  gemm.m = gemm.n = gemm.k = 8;
  gemm.dtype = HR_FP32;
  hr_measurement m;
  HR_TRY(time_product(device, gemm, true, &m, error));
  if (m.median_ns > 0)
    hardware->launch_ns = m.min_ns;
  return HR_OK;
}

hr_status hr_device_probe(hr_device *device, hr_hardware *hardware, hr_error *error)
{
  static const hr_dtype dtypes[] = {HR_FP32, HR_BF16};
  double start = hr_clock_ns(), copy_rate = 0, found = 0;
  bool measured = true;
  hr_hardware probed;
  HR_TRY(hr_device_detect(device, &probed, error));
  if (!device->backend->copy_rate)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: cannot be measured", device->name);
  HR_TRY(device->backend->copy_rate(device, &copy_rate, error));
  probed.bandwidth_bytes_per_s = copy_rate;
  probed.bandwidth_share = 1;
  HR_TRY(set_launch(device, &probed, error));
  for (size_t i = 0, left = sizeof dtypes / sizeof *dtypes; left > 0; i++, left--) {
    best_product best;
    double left_ns = PROBE_NS - (hr_clock_ns() - start);
    HR_TRY(find_best(device, dtypes[i], left_ns / (double)left, &best, error));
    measured = set_rate(&probed, dtypes[i], &best) && measured;
    found = fmax(found, best.flops_per_s);
  }
  if (found <= 0)
    return hr_fail(error, HR_ERROR_UNAVAILABLE,
                   "%s: has no kernel for products here that could be measured "
                   "(`headroom kernels` says why)",
                   device->name);
  if (measured) {
    probed.calibration = HR_CALIBRATION_MEASURED;
    probed.error_band = ERROR_BAND;
  }
  *hardware = probed;
  return HR_OK;
}
