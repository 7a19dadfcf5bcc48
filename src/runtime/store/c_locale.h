/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers are written and read with a decimal point, whatever the locale of the process. Call begin before the first
 * number and end after the last; only the calling thread's locale changes. */
#ifndef HR_RUNTIME_STORE_C_LOCALE_H
#define HR_RUNTIME_STORE_C_LOCALE_H

#include "base/error.h"

#include <locale.h>

typedef struct hr_c_locale {
  locale_t own, previous;
} hr_c_locale;

static inline hr_status hr_c_locale_begin(hr_c_locale *locale, hr_error *error)
{
  locale->own = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
  if (locale->own == (locale_t)0)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "memory ran out");
  locale->previous = uselocale(locale->own);
  return HR_OK;
}

static inline void hr_c_locale_end(hr_c_locale *locale)
{
  uselocale(locale->previous);
  freelocale(locale->own);
}

#endif
