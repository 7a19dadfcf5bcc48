/* SPDX-License-Identifier: Apache-2.0 */
#include "resolve/calibration.h"

#include "base/error.h"
#include "base/names.h"
#include "hardware/hardware.h"
#include "resolve/read_file.h"

#include <ctype.h>
#include <errno.h>
#include <headroom/device_file.h>
#include <headroom/experimental/resolve.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* "NVIDIA H200" as "nvidia-h200". */
static void write_slug(const char *product, char *to, size_t size)
{
  size_t used = 0;
  for (const char *at = product; *at && used + 1 < size; at++) {
    bool plain = isalnum((unsigned char)*at) && (unsigned char)*at < 128;
    if (plain)
      to[used++] = (char)tolower((unsigned char)*at);
    else if (used > 0 && to[used - 1] != '-')
      to[used++] = '-';
  }
  while (used > 0 && to[used - 1] == '-')
    used--;
  to[used] = '\0';
}

hr_status hr_calibration_path(const hr_hardware *hardware, char *path, size_t size, hr_error *error)
{
  HR_NEED(error, hardware, path);
  const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
  char slug[sizeof hardware->about.product];
  int length = -1;
  write_slug(hardware->about.product, slug, sizeof slug);
  if (data && data[0] == '/') /* relative paths are ignored, as the specification demands */
    length = snprintf(path, size, "%s/headroom/calibrations/%s.json", data, slug);
  else if (home && home[0] == '/')
    length = snprintf(path, size, "%s/.local/share/headroom/calibrations/%s.json", home, slug);
  else
    return hr_fail(error, HR_ERROR_INVALID,
                   "no folder for calibrations: neither XDG_DATA_HOME nor HOME is an absolute path; use --write FILE");
  if (length < 0 || (size_t)length >= size)
    return hr_fail(error, HR_ERROR_INVALID, "XDG_DATA_HOME or HOME is longer than a path can be");
  return HR_OK;
}

hr_status hr_calibration_prepare(const char *path, hr_error *error)
{
  HR_NEED(error, path);
  char folder[4096], reason[HR_REASON_SIZE];
  if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder)
    return hr_fail(error, HR_ERROR_OUTPUT, "the path of the calibration is too long");
  for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
      return hr_fail(error, HR_ERROR_OUTPUT, "%s: %s", folder, hr_reason(errno, reason));
    *slash = '/';
  }
  return HR_OK;
}

/* What the machine says now about a device that was calibrated before. */
static void keep_own(const hr_hardware *own, hr_hardware *calibrated)
{
  hr_copy_text(calibrated->about.name, sizeof calibrated->about.name, own->about.name);
  hr_copy_text(calibrated->about.product, sizeof calibrated->about.product, own->about.product);
  hr_copy_text(calibrated->placement, sizeof calibrated->placement, own->placement);
  calibrated->memory_bytes = own->memory_bytes;
  calibrated->numa_nodes = own->numa_nodes;
  if (own->power_limit_w > 0)
    calibrated->power_limit_w = own->power_limit_w;
  if (own->ceiling_count > 0) {
    calibrated->ceiling_count = own->ceiling_count;
    memcpy(calibrated->ceilings, own->ceilings, sizeof own->ceilings);
  }
}

hr_status hr_use_calibration(hr_hardware *hardware, hr_error *error)
{
  char path[4096], *text = NULL;
  size_t length = 0;
  hr_hardware calibrated;
  if (hr_calibration_path(hardware, path, sizeof path, NULL) != HR_OK)
    return HR_OK; /* nothing is kept without a folder */
  hr_status status = hr_read_file(path, path, &text, &length, error);
  if (status == HR_ERROR_NOT_FOUND) {
    if (error)
      error->status = HR_OK;
    return HR_OK;
  }
  if (status == HR_OK)
    status = hr_hardware_from_json(&(hr_input){.text = text, .length = length, .name = path}, &calibrated, error);
  free(text);
  if (status != HR_OK || calibrated.multiprocessors != hardware->multiprocessors)
    return status;
  keep_own(hardware, &calibrated);
  *hardware = calibrated;
  return HR_OK;
}
