/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 text. Thread safety: pure functions. */
#ifndef HR_BASE_UTF8_H
#define HR_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/** Decodes the first character of a text that is not empty. Returns its length in bytes; 0, with *character untouched,
 *  if the bytes are not UTF-8 (RFC 3629). */
size_t hr_utf8_decode(const char *text, uint32_t *character);

#endif
