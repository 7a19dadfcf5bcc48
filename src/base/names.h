/* SPDX-License-Identifier: Apache-2.0 */
/* Tables from enumerators to names and back. */
#ifndef HR_BASE_NAMES_H
#define HR_BASE_NAMES_H

#include <headroom/status.h>
#include <stddef.h>

/** names[value], or "unknown" outside the table. */
const char *hr_name_of(const char *const *names, size_t count, int value);

/** Finds the index of `name`. HR_ERROR_NOT_FOUND, with *value untouched, if the table lacks it or `name` is NULL. */
hr_status hr_name_find(const char *const *names, size_t count, const char *name, int *value);

/** Makes foreign text safe to print on one line: control characters, which a terminal would execute, and bytes that are
 *  not UTF-8 become '?'. A truncated last character is dropped. */
void hr_replace_unprintable(char *text);

/** Replaces bytes that are not UTF-8 by '?'. A truncated last character is dropped; control characters stay. */
void hr_replace_invalid_utf8(char *text);

/** Copies text into an array of `size` bytes, truncated at a whole character and always terminated; then
 *  hr_replace_unprintable(). */
void hr_copy_text(char *to, size_t size, const char *from);

#endif
