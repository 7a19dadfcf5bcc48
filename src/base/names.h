/* SPDX-License-Identifier: Apache-2.0 */
/* Tables from enumerators to names and back. */
#ifndef HR_BASE_NAMES_H
#define HR_BASE_NAMES_H

#include "base/error.h"

#include <headroom/status.h>
#include <stddef.h>

/** names[value], or "unknown" outside the table. */
const char *hr_name_of(const char *const *names, size_t count, int value);

/** Defines `const char *function(type value)`: hr_name_of() of an enumerator. */
#define HR_DEFINE_NAME(function, type, names, count) \
  const char *function(type value)                   \
  {                                                  \
    return hr_name_of(names, count, (int)value);     \
  }

/** Finds the index of `name`. HR_ERROR_NOT_FOUND, with *value untouched, if the table lacks it or `name` is NULL. */
hr_status hr_name_find(const char *const *names, size_t count, const char *name, int *value);

/** Defines `hr_status function(const char *name, type *value)`, which sets *value to the enumerator of a name. Errors
 *  as hr_name_find(); HR_ERROR_INVALID for NULL. */
#define HR_DEFINE_PARSE(function, type, names, count) \
  hr_status function(const char *name, type *value)   \
  {                                                   \
    int found;                                        \
    HR_NEED(NULL, name, value);                       \
    HR_TRY(hr_name_find(names, count, name, &found)); \
    *value = (type)found;                             \
    return HR_OK;                                     \
  }

/** Makes foreign text safe to print on one line: control characters, which a terminal would execute, and bytes that are
 *  not UTF-8 become '?'. A truncated last character is dropped. */
void hr_replace_unprintable(char *text);

/** Replaces bytes that are not UTF-8 by '?'. A truncated last character is dropped; control characters stay. */
void hr_replace_invalid_utf8(char *text);

/** Copies text into an array of `size` bytes, truncated at a whole character and always terminated; then
 *  hr_replace_unprintable(). */
void hr_copy_text(char *to, size_t size, const char *from);

#endif
