/* SPDX-License-Identifier: Apache-2.0 */
/* HTML pages: one file that loads nothing. Text from outside is written by hr_html_write() or as JSON whose '<', '>'
 * and '&' are escaped; the content security policy allows the page's own style and scripts, by their hashes. */
#ifndef HR_REPORT_PAGE_H
#define HR_REPORT_PAGE_H

#include "figure/figure.h"
#include "report/table.h"

#include <stdio.h>

/** Writes text so that it is only text, between tags and in attributes in quotes; as hr_copy_text() cleans it. */
void hr_html_write(FILE *out, const char *text);

/** Writes the page up to the beginning of its body, with a heading. */
void hr_page_begin(FILE *out, const char *title);

/** Writes Chart.js, the page's script and the end. */
void hr_page_end(FILE *out);

/** Writes a table whose columns sort. `caption` may be NULL. */
void hr_page_write_table(FILE *out, const hr_table *table, const char *caption);

/** Writes a figure: its title, its note and its numbers, from which the page's script makes the chart, its legend and
 *  its table. HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_page_write_figure(FILE *out, const hr_figure *figure, hr_error *error);

/** The same with a figure that has points, and frees it. */
hr_status hr_page_print_figure(FILE *out, hr_figure *figure, hr_error *error);

#endif
