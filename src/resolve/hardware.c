/* SPDX-License-Identifier: Apache-2.0 */
/* A device from a name or a file. */
#include "hardware/hardware.h"
#include "base/error.h"
#include "base/names.h"
#include "catalog/embedded.h"
#include "resolve/calibration.h"
#include "resolve/entries.h"
#include "resolve/read_file.h"

#include <headroom/device.h>
#include <headroom/experimental/device_file.h>
#include <headroom/experimental/resolve.h>
#include <stdlib.h>
#include <string.h>

static bool is_own_device(const char *what)
{
  return strcmp(what, "cpu") == 0 || strcmp(what, "reference") == 0 || strcmp(what, "cuda") == 0 ||
         strncmp(what, "cuda:", 5) == 0;
}

/* Takes constants from the built-in file of the product, found by the name that the driver reports, and keeps what
 * differs between devices of one product. Returns the file; NULL if there is none. */
static const hr_catalog_entry *know_product(hr_hardware *hardware)
{
  size_t count;
  const hr_catalog_entry *files = hr_catalog_hardware(&count);
  hr_hardware known;
  for (size_t i = 0; i < count; i++) {
    if (!hr_hardware_has_alias(files[i].text, files[i].length, hardware->about.product) ||
        hr_hardware_from_json(&(hr_input){.text = files[i].text, .length = files[i].length, .name = files[i].name},
                              &known, NULL) != HR_OK)
      continue;
    hr_copy_text(known.about.name, sizeof known.about.name, hardware->about.name);
    hr_copy_text(known.about.product, sizeof known.about.product, hardware->about.product);
    known.multiprocessors = hardware->multiprocessors;
    known.memory_bytes = hardware->memory_bytes;
    if (hardware->power_limit_w > 0)
      known.power_limit_w = hardware->power_limit_w;
    *hardware = known;
    return &files[i];
  }
  return NULL;
}

hr_status hr_resolve_probed(hr_device *device, hr_progress_fn progress, void *context, hr_hardware *hardware,
                            hr_error *error)
{
  HR_NEED(error, device, hardware);
  hr_hardware probed;
  HR_TRY(hr_device_probe(device, progress, context, &probed, error));
  hr_hardware known = probed;
  HR_TRY(hr_use_calibration(&known, error));
  if (known.about.calibrated[0] || probed.about.kind != HR_HARDWARE_GPU) {
    *hardware = known;
    return HR_OK;
  }
  know_product(&known);
  for (int i = 0; i < HR_DTYPE_COUNT; i++) {
    double rate = probed.dense_flops_per_s[i] * probed.library_share[i];
    if (rate > 0 && known.dense_flops_per_s[i] > 0)
      known.library_share[i] = rate / known.dense_flops_per_s[i];
  }
  double copy = probed.bandwidth_bytes_per_s * probed.bandwidth_share;
  if (copy > known.bandwidth_bytes_per_s)
    known.bandwidth_bytes_per_s = copy;
  known.bandwidth_share = copy / known.bandwidth_bytes_per_s;
  known.gemm_launch_ns = probed.launch_ns;
  known.about.calibration = HR_CALIBRATION_MEASURED;
  known.ceiling_count = probed.ceiling_count; /* measured on this device */
  memcpy(known.ceilings, probed.ceilings, sizeof known.ceilings);
  *hardware = known;
  return HR_OK;
}

static hr_status hardware_of_machine(const char *what, hr_hardware *hardware, const hr_catalog_entry **product,
                                     hr_error *error)
{
  hr_device *device;
  HR_TRY(hr_device_open(what, 0, &device, error));
  hr_status status = hr_device_detect(device, hardware, error);
  hr_device_close(device);
  if (status == HR_OK && hardware->about.kind == HR_HARDWARE_GPU)
    *product = know_product(hardware);
  return status;
}

static hr_status hardware_from_file(const char *path, hr_hardware *hardware, char **file, hr_error *error)
{
  char *text;
  size_t length;
  HR_TRY(hr_read_file(path, path, &text, &length, error));
  hr_status status = hr_hardware_from_json(&(hr_input){.text = text, .length = length, .name = path}, hardware, error);
  if (status == HR_OK && file)
    *file = text;
  else
    free(text);
  return status;
}

/* Finds a built-in device by its name or by an alias of its file. */
static const hr_catalog_entry *find_device(const hr_catalog_entry *known, size_t count, const char *what)
{
  const hr_catalog_entry *entry = hr_find_entry(known, count, what);
  for (size_t i = 0; i < count && !entry; i++) {
    if (hr_hardware_has_alias(known[i].text, known[i].length, what))
      entry = &known[i];
  }
  return entry;
}

/* The text of a built-in file for the caller. */
static hr_status copy_entry(const hr_catalog_entry *entry, char **file, hr_error *error)
{
  if (!file || !entry)
    return HR_OK;
  *file = malloc(entry->length + 1);
  if (!*file)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for the file of %s", entry->name);
  memcpy(*file, entry->text, entry->length);
  (*file)[entry->length] = '\0';
  return HR_OK;
}

static hr_status resolve(const char *what, hr_hardware *hardware, char **file, hr_error *error)
{
  size_t count;
  const hr_catalog_entry *known = hr_catalog_hardware(&count), *entry = NULL;
  if (is_own_device(what)) {
    HR_TRY(hardware_of_machine(what, hardware, &entry, error));
    return copy_entry(entry, file, error);
  }
  entry = find_device(known, count, what);
  if (entry) {
    HR_TRY(hr_hardware_from_json(&(hr_input){.text = entry->text, .length = entry->length, .name = entry->name},
                                 hardware, error));
    return copy_entry(entry, file, error);
  }
  if (strchr(what, '/') || hr_looks_like_path(what)) {
    hr_status status = hardware_from_file(what, hardware, file, error);
    return status == HR_ERROR_NOT_FOUND ? hr_fail(error, HR_ERROR_UNREADABLE, "%s: no such file", what) : status;
  }
  return hr_fail_not_found("device", what, known, count, error);
}

hr_status hr_resolve_uncalibrated(const char *what, hr_hardware *hardware, char **file, hr_error *error)
{
  HR_NEED(error, what, hardware);
  if (file)
    *file = NULL;
  return resolve(what, hardware, file, error);
}

hr_status hr_resolve_hardware(const char *what, hr_hardware *hardware, hr_error *error)
{
  HR_NEED(error, what, hardware);
  hr_hardware found;
  HR_TRY(resolve(what, &found, NULL, error));
  if (is_own_device(what))
    HR_TRY(hr_use_calibration(&found, error));
  *hardware = found;
  return HR_OK;
}
