/* Numbers are written and read with a point, whatever the process's locale: begin before the first, end after the
 * last. */
#ifndef HR_RUNTIME_STORE_NUMERALS_H
#define HR_RUNTIME_STORE_NUMERALS_H

#include "base/error.h"

#include <locale.h>

typedef struct hr_numerals {
  locale_t own, previous;
} hr_numerals;

static inline hr_status hr_numerals_begin(hr_numerals *numerals, hr_error *error)
{
  numerals->own = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
  if (numerals->own == (locale_t)0)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "memory ran out");
  numerals->previous = uselocale(numerals->own);
  return HR_OK;
}

static inline void hr_numerals_end(hr_numerals *numerals)
{
  uselocale(numerals->previous);
  freelocale(numerals->own);
}

#endif
