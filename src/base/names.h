/* Tables from enumerators to names and back. */
#ifndef HR_BASE_NAMES_H
#define HR_BASE_NAMES_H

#include <headroom/status.h>
#include <stddef.h>

/** names[value], or "unknown" outside the table. */
const char *hr_name_of(const char *const *names, size_t count, int value);

/** The index of `name`; HR_ERROR_NOT_FOUND (and *value untouched) if the table lacks it or `name` is NULL. */
hr_status hr_name_find(const char *const *names, size_t count, const char *name, int *value);

/** Makes text from elsewhere fit to print on one line: control characters, which could steer a terminal, and what is
 *  not UTF-8 become '?'; a last character that was cut is dropped. */
void hr_replace_unprintable(char *text);

/** Makes bytes UTF-8: what is not becomes '?', a last character that was cut is dropped. Control characters stay. */
void hr_replace_invalid_utf8(char *text);

/** Copies text into a fixed array, cut at a whole UTF-8 character if too long, always terminated; hr_replace_unprintable(). */
void hr_copy_text(char *to, size_t size, const char *from);

#endif
