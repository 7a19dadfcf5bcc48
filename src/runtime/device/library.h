/* SPDX-License-Identifier: Apache-2.0 */
/* Shared libraries that are opened at run time, so that one binary runs with and without them. */
#ifndef HR_RUNTIME_LIBRARY_H
#define HR_RUNTIME_LIBRARY_H

#include <headroom/status.h>
#include <stddef.h>

#define HR_LIBRARY_NAMES_MAX 12

/** A library and the file names that it may have, newest first. how_to_get is NULL if the user has named the file: then
 *  messages give the loader's reason. */
typedef struct hr_library_source {
  const char *title;
  const char *files[HR_LIBRARY_NAMES_MAX]; /* up to the first NULL; names with a slash are paths */
  const char *how_to_get;
} hr_library_source;

/** An entry point, whose address is written `offset` bytes into the table. */
typedef struct hr_symbol {
  const char *name;
  size_t offset;
} hr_symbol;

/** Opens the first file that exists and writes the addresses of `count` symbols into *table, a struct of function
 *  pointers. HR_ERROR_UNAVAILABLE, with *handle NULL, names the missing library or entry point. */
hr_status hr_library_open(const hr_library_source *source, const hr_symbol *symbols, size_t count, void *table,
                          void **handle, hr_error *error);

/** Optional entry points: writes the address of each, or NULL, into *table. */
void hr_library_find(void *handle, const hr_symbol *symbols, size_t count, void *table);

/** Writes the addresses of `count` more symbols of an open library. HR_ERROR_UNAVAILABLE names a missing one. */
hr_status hr_library_require(void *handle, const hr_library_source *source, const hr_symbol *symbols, size_t count,
                             void *table, hr_error *error);

/** Closes a library; NULL is allowed. */
void hr_library_close(void *handle);

#endif
