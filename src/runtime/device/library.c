/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/library.h"

#include "base/error.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/* Whether a path names something else than a file: opening a pipe would wait for a writer. */
static bool is_no_file(const char *file)
{
  struct stat about;
  return strchr(file, '/') && stat(file, &about) == 0 && !S_ISREG(about.st_mode);
}

/* Libraries stay loaded after dlclose() (RTLD_NODELETE), since they keep memory and threads: unloading oneDNN would
 * unmap the code of running OpenMP threads, and unloading cuBLASLt and NVRTC leaves leaks. */
static void *open_first(const hr_library_source *source)
{
  for (size_t i = 0; i < HR_LIBRARY_NAMES_MAX && source->files[i]; i++) {
    if (is_no_file(source->files[i]))
      continue;
    void *handle = dlopen(source->files[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle)
      return handle;
  }
  return NULL;
}

/* The loader's message without the file name at its beginning. */
static const char *why_not(const char *file)
{
  const char *reason = dlerror();
  size_t length = strlen(file);
  if (is_no_file(file))
    return "is not a regular file";
  if (!reason)
    return "the dynamic loader gives no reason";
  return strncmp(reason, file, length) == 0 && strncmp(reason + length, ": ", 2) == 0 ? reason + length + 2 : reason;
}

hr_status hr_library_require(void *handle, const hr_library_source *source, const hr_symbol *symbols, size_t count,
                             void *table, hr_error *error)
{
  for (size_t i = 0; i < count; i++) {
    void *address = dlsym(handle, symbols[i].name);
    if (!address)
      return hr_fail(error, HR_ERROR_UNAVAILABLE, "%s (%s) has no %s: it is too old%s%s", source->title,
                     source->files[0], symbols[i].name, source->how_to_get ? "; " : " or another library",
                     source->how_to_get ? source->how_to_get : "");
    memcpy((char *)table + symbols[i].offset, &address, sizeof address);
  }
  return HR_OK;
}

hr_status hr_library_open(const hr_library_source *source, const hr_symbol *symbols, size_t count, void *table,
                          void **handle, hr_error *error)
{
  *handle = NULL;
  void *opened = open_first(source);
  if (!opened)
    return hr_fail(error, HR_ERROR_UNAVAILABLE, "%s (%s) cannot be loaded: %s", source->title, source->files[0],
                   source->how_to_get ? source->how_to_get : why_not(source->files[0]));
  hr_status status = hr_library_require(opened, source, symbols, count, table, error);
  if (status == HR_OK)
    *handle = opened;
  else
    dlclose(opened);
  return status;
}

void hr_library_find(void *handle, const hr_symbol *symbols, size_t count, void *table)
{
  for (size_t i = 0; i < count; i++) {
    void *address = dlsym(handle, symbols[i].name);
    memcpy((char *)table + symbols[i].offset, &address, sizeof address);
  }
}

void hr_library_close(void *handle)
{
  if (handle)
    dlclose(handle);
}
