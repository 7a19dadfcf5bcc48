/* SPDX-License-Identifier: Apache-2.0 */
/* Finds sweeps by name, in the built-in catalogue and in files. */
#include "base/error.h"
#include "experiment/sweep/read.h"
#include "resolve/read_file.h"
#include "json/json.h"

#include <headroom/experimental/catalog.h>
#include <headroom/experimental/resolve.h>
#include <stdlib.h>
#include <string.h>

/* Orders "fig9" before "fig10a": digits compare as one number. */
static int compare_names(const char *a, const char *b)
{
  for (;; a++, b++) {
    size_t digits_a = strspn(a, "0123456789"), digits_b = strspn(b, "0123456789");
    if (digits_a > 0 && digits_b > 0) {
      long number_a = strtol(a, NULL, 10), number_b = strtol(b, NULL, 10);
      if (number_a != number_b)
        return number_a < number_b ? -1 : 1;
      a += digits_a;
      b += digits_b;
    }
    if (*a != *b || *a == '\0')
      return *a == *b ? 0 : (unsigned char)*a < (unsigned char)*b ? -1 : 1;
  }
}

static int compare_sweeps(const void *a, const void *b)
{
  return compare_names(hr_sweep_describe(*(hr_sweep *const *)a)->name, hr_sweep_describe(*(hr_sweep *const *)b)->name);
}

/* Appends all sweeps of one built-in file to the `count` sweeps of the list. */
static hr_status add_file(const hr_catalog_entry *entry, bool small, hr_sweep ***sweeps, size_t *count, hr_error *error)
{
  json_t *root;
  HR_TRY(hr_json_parse(entry->text, entry->length, entry->name, &root, error));
  size_t more = hr_sweep_file_count(root);
  hr_sweep **larger = realloc(*sweeps, (*count + more) * sizeof **sweeps);
  hr_status status =
      larger ? HR_OK : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading", entry->name);
  if (larger)
    *sweeps = larger;
  for (size_t i = 0; i < more && status == HR_OK; i++) {
    status = hr_sweep_read(root, entry->name, i, small, &larger[*count], error);
    if (status == HR_OK)
      (*count)++;
  }
  json_decref(root);
  return status;
}

hr_status hr_sweep_catalog(bool small, hr_sweep ***sweeps, size_t *count, hr_error *error)
{
  HR_NEED(error, sweeps, count);
  size_t files, read = 0;
  const hr_catalog_entry *entries = hr_catalog_sweeps(&files);
  hr_sweep **all = NULL;
  for (size_t i = 0; i < files; i++) {
    hr_status status = add_file(&entries[i], small, &all, &read, error);
    if (status != HR_OK) {
      hr_sweep_catalog_free(all, read);
      return status;
    }
  }
  if (read > 0)
    qsort(all, read, sizeof *all, compare_sweeps);
  *sweeps = all;
  *count = read;
  return HR_OK;
}

void hr_sweep_catalog_free(hr_sweep **sweeps, size_t count)
{
  for (size_t i = 0; sweeps && i < count; i++)
    hr_sweep_free(sweeps[i]);
  free(sweeps);
}

static hr_status not_named(const json_t *root, const char *input, const char *which, hr_error *error)
{
  size_t count = hr_sweep_file_count(root);
  const char **names = calloc(count + 1, sizeof *names);
  char near[160] = "";
  size_t named = 0;
  for (size_t i = 0; names && i < count; i++) {
    const char *name = hr_sweep_file_name(root, i);
    if (name)
      names[named++] = name;
  }
  if (names && which)
    hr_suggest_names(which, names, named, near, sizeof near);
  const char *example = named > 0 ? names[0] : "NAME";
  hr_status status = which ? hr_fail(error, HR_ERROR_NOT_FOUND, "%s: has no sweep \"%.80s\"%s", input, which, near)
                           : hr_fail(error, HR_ERROR_INVALID, "%s: has %zu sweeps; name one of them, as in %s#%.80s",
                                     input, count, input, example);
  free(names);
  return status;
}

/* `names` is the set of those before, as the keys of an object. */
static hr_status check_names(const json_t *root, const char *input, json_t *names, hr_error *error)
{
  size_t count = hr_sweep_file_count(root);
  for (size_t i = 0; i < count; i++) {
    const char *name = hr_sweep_file_name(root, i);
    if (name && json_object_get(names, name))
      return hr_fail(error, HR_ERROR_INVALID, "%s: sweeps[%zu]: there is a sweep \"%.80s\" before", input, i, name);
    if (name && json_object_set_new(names, name, json_true()) != 0)
      return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading", input);
  }
  return HR_OK;
}

/* Several sweeps of one file are a list; each has a name. */
static hr_status check_sweeps(const json_t *root, const char *input, hr_error *error)
{
  const json_t *sweeps = json_object_get(root, "sweeps");
  char found[64];
  hr_json_found(sweeps, found, sizeof found);
  if (sweeps && json_array_size(sweeps) == 0)
    return hr_fail(error, HR_ERROR_INVALID, "%s: sweeps: expected a list of sweeps, found %s", input,
                   json_is_array(sweeps) ? "none in it" : found);
  json_t *names = json_object();
  hr_status status = names ? check_names(root, input, names, error)
                           : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading", input);
  json_decref(names);
  return status;
}

static hr_status read_named(const json_t *root, const char *input, const char *which, bool small, hr_sweep **sweep,
                            hr_error *error)
{
  HR_TRY(check_sweeps(root, input, error));
  size_t count = hr_sweep_file_count(root);
  if (!which && count == 1)
    return hr_sweep_read(root, input, 0, small, sweep, error);
  for (size_t i = 0; which && i < count; i++) {
    const char *name = hr_sweep_file_name(root, i);
    if (name && strcmp(name, which) == 0)
      return hr_sweep_read(root, input, i, small, sweep, error);
  }
  return not_named(root, input, which, error);
}

hr_status hr_sweep_from_json(const hr_input *input, const char *which, bool small, hr_sweep **sweep, hr_error *error)
{
  HR_NEED(error, input, sweep);
  const char *text = input->text, *name = input->name;
  HR_NEED(error, text, name);
  json_t *root;
  HR_TRY(hr_json_parse(text, input->length, name, &root, error));
  hr_status status = read_named(root, name, which, small, sweep, error);
  json_decref(root);
  return status;
}

/* FILE or FILE#NAME. */
static hr_status load_file(const char *what, bool small, hr_sweep **sweep, hr_error *error)
{
  char *path = strdup(what), *text;
  if (!path)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%.200s: out of memory while reading", what);
  char *which = strrchr(path, '#');
  if (which)
    *which++ = '\0';
  size_t length;
  hr_status status = hr_read_file(path, path, &text, &length, error);
  if (status == HR_OK) {
    status = hr_sweep_from_json(&(hr_input){.text = text, .length = length, .name = path}, which, small, sweep, error);
    free(text);
  }
  free(path);
  return status;
}

static bool is_file(const char *what)
{
  const char *end = strrchr(what, '#');
  size_t length = end ? (size_t)(end - what) : strlen(what);
  return strchr(what, '/') || strcmp(what, "-") == 0 || (length >= 5 && strncmp(what + length - 5, ".json", 5) == 0);
}

/* Moves the names that begin with `what` to the front: "fig5" means fig5a rather than fig9. */
static void first_beginning_with(const char *what, const char **names, size_t count)
{
  for (size_t i = 0, front = 0; i < count; i++) {
    if (strncmp(names[i], what, strlen(what)) == 0) {
      const char *name = names[i];
      memmove(names + front + 1, names + front, (i - front) * sizeof *names);
      names[front++] = name;
    }
  }
}

/* Reads only the catalogue file that has the name. */
hr_status hr_sweep_load(const char *what, bool small, hr_sweep **sweep, hr_error *error)
{
  HR_NEED(error, what, sweep);
  if (is_file(what))
    return load_file(what, small, sweep, error);
  size_t files, count = 0;
  const hr_catalog_entry *entries = hr_catalog_sweeps(&files);
  const char *names[256];
  json_t *roots[64] = {NULL};
  bool found = false;
  hr_status status = HR_OK;
  for (size_t i = 0; i < files && i < sizeof roots / sizeof *roots && status == HR_OK && !found; i++) {
    status = hr_json_parse(entries[i].text, entries[i].length, entries[i].name, &roots[i], error);
    for (size_t j = 0; status == HR_OK && !found && j < hr_sweep_file_count(roots[i]) && count < 256; j++) {
      names[count] = hr_sweep_file_name(roots[i], j);
      found = names[count] && strcmp(names[count], what) == 0;
      if (found)
        status = hr_sweep_read(roots[i], entries[i].name, j, small, sweep, error);
      count += names[count] != NULL;
    }
  }
  if (status == HR_OK && !found) {
    char near[160];
    first_beginning_with(what, names, count);
    hr_suggest_names(what, names, count, near, sizeof near);
    status = hr_fail(error, HR_ERROR_NOT_FOUND, "there is no sweep \"%.200s\"%s", what, near);
  }
  for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
    json_decref(roots[i]);
  return status;
}
