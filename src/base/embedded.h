/* SPDX-License-Identifier: Apache-2.0 */
/* Files that cmake/embed.cmake makes tables of. */
#ifndef HR_BASE_EMBEDDED_H
#define HR_BASE_EMBEDDED_H

#include <stddef.h>

/** A file's name without its ending, and its text. A table ends with a row of zeros. */
typedef struct hr_embedded_file {
  const char *name, *text;
  size_t length;
} hr_embedded_file;

#endif
