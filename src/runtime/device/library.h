/* Libraries that are looked for at run time, so that one command runs where they are and where they are not. */
#ifndef HR_RUNTIME_LIBRARY_H
#define HR_RUNTIME_LIBRARY_H

#include <headroom/status.h>
#include <stddef.h>

#define HR_LIBRARY_NAMES_MAX 12

/** A library by the file names that it may have, newest first; what it is for, and how to get it, NULL where the user
 *  has named the file: then the system's reason is told. */
typedef struct hr_library_source {
  const char *title;
  const char *files[HR_LIBRARY_NAMES_MAX]; /* up to the first NULL; those with a slash are tried as paths */
  const char *how_to_get;
} hr_library_source;

/** An entry point and where its address goes: `offset` bytes into the table. */
typedef struct hr_symbol {
  const char *name;
  size_t offset;
} hr_symbol;

/** Loads the first file that there is and finds `count` symbols; their addresses go into *table, a struct of function
 *  pointers. HR_ERROR_UNAVAILABLE, with *handle NULL, names the library or the entry point that is missing. */
hr_status hr_library_open(const hr_library_source *source, const hr_symbol *symbols, size_t count, void *table,
                          void **handle, hr_error *error);

/** Entry points that a library may have: the address, or NULL, of each goes into *table. */
void hr_library_find(void *handle, const hr_symbol *symbols, size_t count, void *table);

/** Finds `count` more symbols of a library that was opened. HR_ERROR_UNAVAILABLE names the one that is missing. */
hr_status hr_library_require(void *handle, const hr_library_source *source, const hr_symbol *symbols, size_t count,
                             void *table, hr_error *error);

/** Gives it back; NULL is allowed. */
void hr_library_close(void *handle);

#endif
