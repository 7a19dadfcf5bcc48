/* SPDX-License-Identifier: Apache-2.0 */
/* Text in Markdown: names of models, sweeps and kernels come from files of others. */
#ifndef HR_REPORT_MARKDOWN_H
#define HR_REPORT_MARKDOWN_H

#include <stdio.h>

/** Writes text of one line so that it reads the same when rendered (CommonMark, GitHub's extensions): nothing in it
 *  is HTML, a link, an image, emphasis, code, an entity, a formula or the end of a table's cell. Addresses stay as they
 *  are and may become links to themselves. */
void hr_markdown_write(FILE *out, const char *text);

/** Writes the text as a line of its own, which begins no list, heading or rule. */
void hr_markdown_write_line(FILE *out, const char *text);

#endif
