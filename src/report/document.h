/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of every report: where it goes, and the lines, headings and tables it is made of. */
#ifndef HR_REPORT_DOCUMENT_H
#define HR_REPORT_DOCUMENT_H

#include "report/table.h"

typedef struct hr_document {
  FILE *out;
  const hr_report_options *options;
  int depth; /* HTML: of the section, 0: headings are h2 */
  bool has_title;
} hr_document;

/** What a document is: the heading of an HTML page, or in Markdown one that suits a comment of a pull request. A
 *  terminal shows nothing. HTML needs it first. */
void hr_print_title(hr_document *document, const char *format, ...) HR_PRINTF(2, 3);

/** In HTML and Markdown what follows is folded up under this line, until hr_print_details_end(). */
void hr_print_details(const hr_document *document, const char *summary);
void hr_print_details_end(const hr_document *document);

/** hr_document_end() returns `status`, or if that is HR_OK and the stream failed HR_ERROR_OUTPUT with
 *  the system's reason. */
void hr_document_begin(hr_document *document, FILE *out, const hr_report_options *options);
hr_status hr_document_end(hr_document *document, hr_status status, hr_error *error);

/** Prints "label     text", the label in 14 columns and the text wrapped; in Markdown a list item. */
void hr_print_field(const hr_document *document, const char *label, const char *format, ...) HR_PRINTF(3, 4);

/** Prints a field for each column that is not empty, labelled by its title. */
void hr_print_fields(const hr_document *document, const hr_column *columns, size_t count, const void *row);

/** Prints the heading of a section, after an empty line. */
void hr_print_heading(const hr_document *document, const char *format, ...) HR_PRINTF(2, 3);

/** Prints a wrapped paragraph. */
void hr_print_paragraph(const hr_document *document, const char *text);

/** Prints a table and frees it. */
hr_status hr_print_table(const hr_document *document, hr_table *table, hr_error *error);

#endif
