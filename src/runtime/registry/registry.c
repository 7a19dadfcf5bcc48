/* SPDX-License-Identifier: Apache-2.0 */
/* The devices and kernels of this build: the only place that knows every backend. */
#include "runtime/device/plan.h"

#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"

#include <headroom/experimental/device.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HR_KERNEL(name, operation, device, dtypes, needs, summary) extern const hr_kernel_functions hr_kernel_##name;
#include "runtime/registry/kernels.inc"
#undef HR_KERNEL

static const hr_kernel_info infos[] = {
#define HR_KERNEL(name, operation, device, dtypes, needs, summary) {#name, operation, device, dtypes, needs, summary},
#include "runtime/registry/kernels.inc"
#undef HR_KERNEL
};

enum row {
#define HR_KERNEL(name, operation, device, dtypes, needs, summary) ROW_##name,
#include "runtime/registry/kernels.inc"
#undef HR_KERNEL
  ROW_COUNT
};

static const hr_kernel kernels[] = {
#define HR_KERNEL(name, operation, device, dtypes, needs, summary) {&infos[ROW_##name], &hr_kernel_##name},
#include "runtime/registry/kernels.inc"
#undef HR_KERNEL
};

const hr_kernel_info *hr_kernels(size_t *count)
{
  *count = ROW_COUNT;
  return infos;
}

void hr_libraries(const char *device, hr_library libraries[HR_LIBRARIES_MAX], size_t *count)
{
  *count = 0;
  if (!device || strcmp(device, "cuda") == 0)
    hr_cuda_libraries(libraries, count);
  if (!device || strcmp(device, "cpu") == 0)
    hr_cpu_library(&libraries[(*count)++]);
}

static const hr_backend *const backends[] = {&hr_backend_cpu, &hr_backend_cuda, &hr_backend_reference};

/* Whether a device name is of this backend: "cuda:1" and "cuda", the first GPU, are of "cuda". The other backends have
 * one device. */
static bool names_backend(const char *name, const char *backend)
{
  size_t length = strlen(backend);
  if (strcmp(name, backend) == 0)
    return true;
  if (strcmp(backend, "cuda") != 0 || strncmp(name, backend, length) != 0 || name[length] != ':')
    return false;
  const char *digits = name + length + 1;
  return digits[0] && strlen(digits) <= 4 && strspn(digits, "0123456789") == strlen(digits);
}

static hr_status find_backend(const char *name, const hr_backend **backend, hr_error *error)
{
  for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
    if (names_backend(name, backends[i]->name)) {
      *backend = backends[i];
      return HR_OK;
    }
  }
  return hr_fail(error, HR_ERROR_NOT_FOUND,
                 "\"%.40s\" is not a device of this machine: expected cpu, reference or cuda:N", name);
}

static hr_status open_device(const char *name, const hr_device_options *options, int part, int parts,
                             hr_device **device, hr_error *error)
{
  const hr_backend *backend = NULL;
  HR_TRY(find_backend(name, &backend, error));
  if ((options->stream || options->context) && !backend->stream)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected no %s: only GPUs have one", name,
                   options->stream ? "stream" : "context");
  hr_device *opened = calloc(1, sizeof *opened);
  if (!opened)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: not enough memory to open the device", name);
  opened->backend = backend;
  opened->settled_clock_hz = (double)NAN;
  opened->threads = options->threads;
  opened->stream = options->stream;
  opened->context = options->context;
  opened->part = part;
  opened->parts = parts;
  opened->kernels = kernels;
  opened->kernel_count = ROW_COUNT;
  hr_copy_text(opened->name, sizeof opened->name, strcmp(name, "cuda") == 0 ? "cuda:0" : name);
  hr_status status = backend->open(opened, error);
  if (status != HR_OK) {
    free(opened);
    return status;
  }
  *device = opened;
  return HR_OK;
}

void hr_device_options_init(hr_device_options *options, size_t size)
{
  HR_INIT(options, size, (hr_device_options){0});
}

hr_status hr_device_open_with(const char *name, const hr_device_options *options, hr_device **device, hr_error *error)
{
  HR_NEED(error, name, options, device);
  HR_TAKE(hr_device_options, options, error);
  if (options->threads < 0)
    return hr_fail(error, HR_ERROR_INVALID, "threads: expected at least 0, found %d", options->threads);
  return open_device(name, options, 0, 1, device, error);
}

hr_status hr_device_open(const char *name, int threads, hr_device **device, hr_error *error)
{
  HR_NEED(error, name, device);
  hr_device_options options = hr_device_options_default();
  options.threads = threads;
  return hr_device_open_with(name, &options, device, error);
}

hr_status hr_device_open_part(const char *name, int part, int parts, hr_device **device, hr_error *error)
{
  HR_NEED(error, name, device);
  if (part < 0 || part >= parts)
    return hr_fail(error, HR_ERROR_INVALID, "part: expected 0 … parts − 1, found %d of %d", part, parts);
  hr_device_options options = hr_device_options_default();
  return open_device(name, &options, part, parts, device, error);
}
