/* SPDX-License-Identifier: Apache-2.0 */
/* Widths on a terminal. Thread safety: pure functions. */
#ifndef HR_REPORT_WIDTH_H
#define HR_REPORT_WIDTH_H

#include <stdint.h>

/** Columns that a character takes on a terminal: 0 (combining marks), 1 or 2 (East Asian wide characters). */
int hr_character_width(uint32_t character);

/** Columns that a text takes. A byte that is not UTF-8 takes one. */
int hr_display_width(const char *text);

#endif
