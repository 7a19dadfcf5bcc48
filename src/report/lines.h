/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of text: wrapping to the width of a terminal, and lists within a line. */
#ifndef HR_REPORT_LINES_H
#define HR_REPORT_LINES_H

#include <headroom/status.h>
#include <stdint.h>
#include <stdio.h>

/** Writes text wrapped at spaces to `width` columns (0: no wrapping) and ends it with a newline. The caller has already
 *  written the first `column` columns of the first line; the other lines are indented by `indent`. */
void hr_wrap_text(FILE *out, const char *text, int column, int indent, int width);

/** Bytes of `text` that fit into `columns`, ended at a space if possible, else behind a "_". *next is the start of the
 *  rest. */
size_t hr_wrap_length(const char *text, int columns, const char **next);

/** Appends an item to a list in a line: "matrix 1.20 ms, tiles 30.0 µs". An item that does not fit is cut. */
void hr_append_item(char *line, size_t size, const char *format, ...) HR_PRINTF(3, 4);

/** "" or "s". */
const char *hr_plural(int64_t count);

#endif
