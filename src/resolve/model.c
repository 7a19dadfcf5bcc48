/* SPDX-License-Identifier: Apache-2.0 */
/* A model from a name, a file, a directory or text. */
#include <headroom/resolve.h>

#include "base/error.h"
#include "base/names.h"
#include "resolve/hub_cache.h"
#include "resolve/model_place.h"
#include "resolve/read_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Names a model whose configuration was read from a path and has no name: after the folder of its config.json, or the
 * repository whose snapshot the folder is; otherwise after the file without ".json". The folder's links are
 * followed, the file's are not. */
static void name_from_path(const char *path, char *name, size_t size)
{
  const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
  char folder[HR_PATH_SIZE];
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
  char buffer[PATH_MAX]; /* memory that cannot be had must not change the name */
  char *resolved = realpath(folder, buffer);
  const char *last = resolved ? strrchr(resolved, '/') : NULL;
  bool of_folder = strcmp(file, "config.json") == 0 && last && last[1];
  if (!of_folder || !hr_hub_name_of_folder(resolved, name, size))
    hr_copy_text(name, size, of_folder ? last + 1 : file);
  char *ending = strrchr(name, '.');
  if (!of_folder && ending && ending > name && strcmp(ending, ".json") == 0)
    *ending = '\0';
}

/* Whether files of weights are beside a configuration, as safetensors or as PyTorch's own. */
static bool has_weights_beside(const char *config)
{
  static const char *const names[] = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                      "pytorch_model.bin.index.json"};
  const char *slash = strrchr(config, '/');
  char path[HR_PATH_SIZE];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    int length = snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash - config) + 1 : 0, config, names[i]);
    if (length > 0 && (size_t)length < sizeof path && access(path, F_OK) == 0)
      return true;
  }
  return false;
}

static hr_status read_place(const hr_model_place *place, hr_note_fn note, void *context, hr_model *model,
                            hr_error *error)
{
  bool input = place->kind == HR_PLACE_INPUT;
  const char *path = input ? "-" : place->file, *name = input ? "standard input" : place->file;
  char *text;
  size_t length;
  HR_TRY(hr_read_file(path, name, &text, &length, error));
  hr_status status =
      hr_model_from_json(&(hr_input){.text = text, .length = length, .name = name}, note, context, model, error);
  free(text);
  if (status != HR_OK)
    return status;
  if (place->repository[0])
    model->origin = HR_ORIGIN_PUBLISHED;
  if (place->named_weights || (!input && has_weights_beside(path)))
    model->origin = HR_ORIGIN_FILES;
  char unnamed[sizeof model->name];
  hr_copy_text(unnamed, sizeof unnamed, name);
  if (place->repository[0])
    hr_copy_text(model->name, sizeof model->name, place->repository);
  else if (strcmp(model->name, unnamed) == 0) /* the configuration has no name */
    name_from_path(name, model->name, sizeof model->name);
  return HR_OK;
}

static hr_status read_shipped(const char *what, const hr_model_place *place, hr_note_fn note, void *context,
                              hr_model *model, hr_error *error)
{
  const hr_catalog_entry *entry = place->shipped;
  if (place->guessed && note) {
    char message[256];
    snprintf(message, sizeof message, "%.120s: read as the built-in model %s, whose repository has a different name",
             what, entry->name);
    note(context, HR_NOTE_DETAIL, message);
  }
  HR_TRY(hr_model_from_json(&(hr_input){.text = entry->text, .length = entry->length, .name = entry->name}, note,
                            context, model, error));
  hr_copy_text(model->name, sizeof model->name, entry->name);
  if (strcmp(model->family, "short") != 0)
    model->origin = HR_ORIGIN_PUBLISHED;
  return HR_OK;
}

hr_status hr_resolve_model(const char *what, hr_note_fn note, void *context, hr_model *model, hr_error *error)
{
  HR_NEED(error, what, model);
  hr_model_place place;
  HR_TRY(hr_model_place_find(what, &place, error));
  if (place.kind == HR_PLACE_TEXT)
    return hr_model_from_json(&(hr_input){.text = what, .length = strlen(what), .name = "inline model"}, note, context,
                              model, error);
  if (place.kind == HR_PLACE_SHIPPED)
    return read_shipped(what, &place, note, context, model, error);
  return read_place(&place, note, context, model, error);
}
