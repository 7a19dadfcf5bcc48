/* SPDX-License-Identifier: Apache-2.0 */
/* Debian compiles libjansson.a for programs: its one reference to a variable of the C library, in json_loadf(), which
 * Headroom does not call, cannot be part of a shared library. cmake/wheel.cmake wraps it, and this is what it reads. */
#include <stdio.h>

extern FILE *__wrap_stdin __attribute__((visibility("hidden")));
FILE *__wrap_stdin;
