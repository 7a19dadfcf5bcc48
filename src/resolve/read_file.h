/* SPDX-License-Identifier: Apache-2.0 */
/* Reading whole files with a limit. */
#ifndef HR_RESOLVE_READ_FILE_H
#define HR_RESOLVE_READ_FILE_H

#include <headroom/status.h>
#include <stddef.h>

/** Reads a regular file, or a pipe that has a writer, to its end. "-" is standard input. Refuses more than
 *  HR_JSON_BYTES_MAX bytes without reading them. Signals do not end it. On HR_OK the caller frees *text, which has a
 *  NUL after `length` bytes. HR_ERROR_NOT_FOUND if there is no such file; HR_ERROR_UNREADABLE,
 *  HR_ERROR_OUT_OF_MEMORY; `name` is the file's name in messages. */
hr_status hr_read_file(const char *path, const char *name, char **text, size_t *length, hr_error *error);

#endif
