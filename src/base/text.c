/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* The C library has the C locale at hand: this neither allocates nor, therefore, fails. */
typedef struct point_locale {
  locale_t own, before;
} point_locale;

static point_locale begin(void)
{
  point_locale locale = {.own = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0)};
  if (locale.own != (locale_t)0)
    locale.before = uselocale(locale.own);
  return locale;
}

static void end(point_locale locale)
{
  if (locale.own == (locale_t)0)
    return;
  uselocale(locale.before);
  freelocale(locale.own);
}

int hr_write_text_v(char *to, size_t size, const char *format, va_list arguments)
{
  point_locale locale = begin();
  int length = vsnprintf(to, size, format, arguments);
  end(locale);
  return length;
}

int hr_write_text(char *to, size_t size, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  int length = hr_write_text_v(to, size, format, arguments);
  va_end(arguments);
  return length;
}

double hr_read_number(const char *text, char **rest)
{
  point_locale locale = begin();
  double number = strtod(text, rest);
  end(locale);
  return number;
}
