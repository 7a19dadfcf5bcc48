/* SPDX-License-Identifier: Apache-2.0 */
#include "resolve/entries.h"

#include "base/error.h"

#include <headroom/experimental/resolve.h>
#include <string.h>

#define ENTRIES_MAX 512

void hr_suggest_entries(const char *wanted, const hr_catalog_entry *entries, size_t count, char *text, size_t size)
{
  const char *names[ENTRIES_MAX];
  size_t known = count < ENTRIES_MAX ? count : ENTRIES_MAX;
  for (size_t i = 0; i < known; i++)
    names[i] = entries[i].name;
  hr_suggest_names(wanted, names, known, text, size);
}

hr_status hr_fail_not_found(const char *kind, const char *what, const hr_catalog_entry *entries, size_t count,
                            hr_error *error)
{
  char near[256];
  hr_suggest_entries(what, entries, count, near, sizeof near);
  return hr_fail(error, HR_ERROR_NOT_FOUND, "no %s is called \"%.80s\"%s", kind, what, near);
}

bool hr_ends_with(const char *text, const char *ending)
{
  size_t length = strlen(text), end = strlen(ending);
  return length > end && strcmp(text + length - end, ending) == 0;
}

bool hr_looks_like_path(const char *what)
{
  return what[0] == '/' || what[0] == '.' || hr_ends_with(what, ".json") || hr_ends_with(what, ".safetensors");
}
