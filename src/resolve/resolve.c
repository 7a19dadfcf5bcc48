/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/resolve.h>

#include <headroom/catalog.h>
#include <headroom/device.h>

#include "base/error.h"
#include "base/names.h"
#include "resolve/read_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define PATH_SIZE 4096

static const hr_catalog_entry *find_entry(const hr_catalog_entry *entries, size_t count, const char *name)
{
  for (size_t i = 0; i < count; i++) {
    if (strcasecmp(entries[i].name, name) == 0)
      return &entries[i];
  }
  return NULL;
}

#define ENTRIES_MAX 512

static hr_status not_found(const char *kind, const char *what, const hr_catalog_entry *entries, size_t count,
                           hr_error *error)
{
  const char *names[ENTRIES_MAX];
  char near[256];
  size_t known = count < ENTRIES_MAX ? count : ENTRIES_MAX;
  for (size_t i = 0; i < known; i++)
    names[i] = entries[i].name;
  hr_suggest_names(what, names, known, near, sizeof near);
  return hr_fail(error, HR_ERROR_NOT_FOUND, "no %s is called \"%.80s\"%s", kind, what, near);
}

/* ---- models ---- */

/* Names a model that was read from a path: after the folder of its config.json, otherwise after the file without
 * ".json". */
static void name_from_path(const char *path, char *name, size_t size)
{
  char parts[PATH_SIZE];
  char *resolved = realpath(path, NULL);
  hr_copy_text(parts, sizeof parts, resolved ? resolved : path);
  free(resolved);
  char *last = strrchr(parts, '/');
  if (last && last > parts && strcmp(last + 1, "config.json") == 0) {
    *last = '\0';
    last = strrchr(parts, '/');
  }
  char *base = last && last[1] ? last + 1 : parts;
  char *ending = strrchr(base, '.');
  if (ending && ending > base && strcmp(ending, ".json") == 0)
    *ending = '\0';
  hr_copy_text(name, size, base);
}

static hr_status model_from_file(const char *path, hr_note_fn note, void *context, hr_model *model, hr_error *error)
{
  char *text;
  size_t length;
  const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
  HR_TRY(hr_read_file(path, name, &text, &length, error));
  hr_status status = hr_model_from_json(text, length, name, note, context, model, error);
  free(text);
  if (status == HR_OK)
    name_from_path(name, model->name, sizeof model->name);
  return status;
}

/* Finds the model whose "_source" is the public repository `name`, with or without its organisation
 * ("meta-llama/Llama-2-7b-hf"). */
static const hr_catalog_entry *find_published(const hr_catalog_entry *models, size_t count, const char *name)
{
  char part[200];
  int length = snprintf(part, sizeof part, "/%s/blob/", name);
  if (length < 0 || (size_t)length >= sizeof part || !name[0])
    return NULL;
  for (size_t i = 0; i < count; i++) {
    for (const char *at = strchr(models[i].text, '/'); at; at = strchr(at + 1, '/')) {
      if (strncasecmp(at, part, (size_t)length) == 0)
        return &models[i];
    }
  }
  return NULL;
}

static const hr_catalog_entry *find_model(const char *what)
{
  size_t count;
  const hr_catalog_entry *models = hr_catalog_models(&count);
  const char *slash = strchr(what, '/');
  bool organisation = slash && slash != what && what[0] != '.' && !strchr(slash + 1, '/');
  const hr_catalog_entry *entry = find_entry(models, count, organisation ? slash + 1 : what);
  return entry ? entry : find_published(models, count, what);
}

static bool looks_like_path(const char *what)
{
  size_t length = strlen(what);
  return what[0] == '/' || what[0] == '.' || (length > 5 && strcmp(what + length - 5, ".json") == 0);
}

static hr_status model_not_found(const char *what, hr_error *error)
{
  size_t count;
  const hr_catalog_entry *models = hr_catalog_models(&count);
  if (looks_like_path(what))
    return hr_fail(error, HR_ERROR_NOT_FOUND, "%s: no such file or directory", what);
  const char *slash = strrchr(what, '/');
  return not_found("model or file", slash && slash[1] ? slash + 1 : what, models, count, error);
}

hr_status hr_resolve_model(const char *what, hr_note_fn note, void *context, hr_model *model, hr_error *error)
{
  HR_NEED(error, what, model);
  if (what[0] == '{')
    return hr_model_from_json(what, strlen(what), "inline model", note, context, model, error);
  if (strcmp(what, "-") == 0)
    return model_from_file(what, note, context, model, error);
  struct stat about;
  bool exists = stat(what, &about) == 0;
  if (!exists && errno == EACCES) /* for the message of reading it */
    return model_from_file(what, note, context, model, error);
  char config[PATH_SIZE];
  int length =
      snprintf(config, sizeof config, "%s%sconfig.json", what, what[0] && what[strlen(what) - 1] == '/' ? "" : "/");
  bool fits = length > 0 && (size_t)length < sizeof config;
  bool folder = exists && S_ISDIR(about.st_mode);
  bool has_config = folder && fits && (stat(config, &about) == 0 || errno == EACCES);
  if (exists && (!folder || has_config))
    return model_from_file(folder ? config : what, note, context, model, error);
  const hr_catalog_entry *entry = find_model(what);
  if (entry) {
    HR_TRY(hr_model_from_json(entry->text, entry->length, entry->name, note, context, model, error));
    hr_copy_text(model->name, sizeof model->name, entry->name);
    return HR_OK;
  }
  if (folder)
    return hr_fail(error, HR_ERROR_NOT_FOUND, "%s: the directory has no config.json", what);
  return model_not_found(what, error);
}

/* ---- devices ---- */

static bool is_own_device(const char *what)
{
  return strcmp(what, "cpu") == 0 || strcmp(what, "reference") == 0 || strcmp(what, "cuda") == 0 ||
         strncmp(what, "cuda:", 5) == 0;
}

/* Takes constants from the built-in file of the product, found by the name that the driver reports, and keeps what
 * differs between devices of one product. */
static void know_product(hr_hardware *hardware)
{
  size_t count;
  const hr_catalog_entry *files = hr_catalog_hardware(&count);
  hr_hardware known;
  for (size_t i = 0; i < count; i++) {
    if (!hr_hardware_has_alias(files[i].text, files[i].length, hardware->product) ||
        hr_hardware_from_json(files[i].text, files[i].length, files[i].name, &known, NULL) != HR_OK)
      continue;
    hr_copy_text(known.name, sizeof known.name, hardware->name);
    hr_copy_text(known.product, sizeof known.product, hardware->product);
    known.multiprocessors = hardware->multiprocessors;
    known.memory_bytes = hardware->memory_bytes;
    *hardware = known;
    return;
  }
}

hr_status hr_resolve_probed(hr_device *device, hr_progress_fn progress, void *context, hr_hardware *hardware,
                            hr_error *error)
{
  HR_NEED(error, device, hardware);
  hr_hardware probed;
  HR_TRY(hr_device_probe(device, progress, context, &probed, error));
  if (probed.kind != HR_HARDWARE_GPU) {
    *hardware = probed;
    return HR_OK;
  }
  hr_hardware known = probed;
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
  known.product_launch_ns = probed.launch_ns;
  known.calibration = HR_CALIBRATION_MEASURED;
  known.ceiling_count = probed.ceiling_count; /* measured on this device */
  memcpy(known.ceilings, probed.ceilings, sizeof known.ceilings);
  *hardware = known;
  return HR_OK;
}

static hr_status hardware_of_machine(const char *what, hr_hardware *hardware, hr_error *error)
{
  hr_device *device;
  HR_TRY(hr_device_open(what, 0, &device, error));
  hr_status status = hr_device_detect(device, hardware, error);
  hr_device_close(device);
  if (status == HR_OK && hardware->kind == HR_HARDWARE_GPU)
    know_product(hardware);
  return status;
}

static hr_status hardware_from_file(const char *path, hr_hardware *hardware, hr_error *error)
{
  char *text;
  size_t length;
  HR_TRY(hr_read_file(path, path, &text, &length, error));
  hr_status status = hr_hardware_from_json(text, length, path, hardware, error);
  free(text);
  return status;
}

/* Finds a built-in device by its name or by an alias of its file. */
static const hr_catalog_entry *find_device(const hr_catalog_entry *known, size_t count, const char *what)
{
  const hr_catalog_entry *entry = find_entry(known, count, what);
  for (size_t i = 0; i < count && !entry; i++) {
    if (hr_hardware_has_alias(known[i].text, known[i].length, what))
      entry = &known[i];
  }
  return entry;
}

hr_status hr_resolve_hardware(const char *what, hr_hardware *hardware, hr_error *error)
{
  HR_NEED(error, what, hardware);
  if (is_own_device(what))
    return hardware_of_machine(what, hardware, error);
  size_t count;
  const hr_catalog_entry *known = hr_catalog_hardware(&count);
  const hr_catalog_entry *entry = find_device(known, count, what);
  if (entry)
    return hr_hardware_from_json(entry->text, entry->length, entry->name, hardware, error);
  if (strchr(what, '/') || looks_like_path(what)) {
    hr_status status = hardware_from_file(what, hardware, error);
    return status == HR_ERROR_NOT_FOUND ? hr_fail(error, HR_ERROR_UNREADABLE, "%s: no such file", what) : status;
  }
  return not_found("device", what, known, count, error);
}
