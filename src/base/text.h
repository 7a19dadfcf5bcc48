/* SPDX-License-Identifier: Apache-2.0 */
/* Text with numbers in it, and numbers in text: with a decimal point, whatever the process's locale. The names of
 * stored problems contain numbers; a comma in one would make another problem of it. */
#ifndef HR_BASE_TEXT_H
#define HR_BASE_TEXT_H

#include <headroom/status.h>
#include <stdarg.h>
#include <stddef.h>

/** These are snprintf() and vsnprintf() in the C locale. tests/structure/locale.sh finds conversions of floating-point
 *  numbers that go another way. Only the calling thread's locale changes, during the call. */
int hr_write_text(char *to, size_t size, const char *format, ...) HR_PRINTF(3, 4);
int hr_write_text_v(char *to, size_t size, const char *format, va_list arguments) HR_PRINTF(3, 0);

/** This is strtod() in the C locale; `rest` may be NULL. */
double hr_read_number(const char *text, char **rest);

#endif
