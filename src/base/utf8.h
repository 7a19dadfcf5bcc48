/* Characters of UTF-8 text. */
#ifndef HR_BASE_UTF8_H
#define HR_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/** Decodes the character at `text`, which is not its end; returns its bytes, or 0 if they are not UTF-8 (RFC 3629):
 *  *character is then untouched. */
size_t hr_utf8_decode(const char *text, uint32_t *character);

#endif
