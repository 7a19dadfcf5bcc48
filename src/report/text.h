/* Words as people read them; base/quantity.h has the numbers. */
#ifndef HR_REPORT_TEXT_H
#define HR_REPORT_TEXT_H

#include "base/quantity.h"

#include <stdio.h>

/** Writes text wrapped at spaces to `width` columns (0: never), every line after the first indented by `indent`;
 *  the caller has written the first `column` columns of the first line. Ends with a newline. */
void hr_text_wrap(FILE *out, const char *text, int column, int indent, int width);

/** Bytes of `text` that fit into `columns`, ended at a space where there is one; *next is where the rest begins. */
size_t hr_text_line(const char *text, int columns, const char **next);

#endif
