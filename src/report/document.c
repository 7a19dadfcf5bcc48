/* SPDX-License-Identifier: Apache-2.0 */
#include "report/document.h"

#include "base/error.h"
#include "base/names.h"
#include "base/quantity.h"
#include "base/text.h"
#include "report/lines.h"
#include "report/markdown.h"
#include "report/page.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>

static bool is_html(const hr_document *document)
{
  return document->options->format == HR_FORMAT_HTML;
}

static bool is_markdown(const hr_document *document)
{
  return document->options->format == HR_FORMAT_MARKDOWN;
}

void hr_document_begin(hr_document *document, FILE *out, const hr_report_options *options)
{
  *document = (hr_document){.out = out, .options = options};
}

hr_status hr_document_end(hr_document *document, hr_status status, hr_error *error)
{
  char text[HR_REASON_SIZE];
  if (document->has_title && is_html(document))
    hr_page_end(document->out);
  errno = 0;
  int flushed = fflush(document->out);
  int reason = errno;
  if (status == HR_OK && (flushed != 0 || ferror(document->out)))
    return hr_fail(error, HR_ERROR_OUTPUT, "%s", reason ? hr_reason(reason, text) : "the output cannot be written");
  return status;
}

void hr_print_title(hr_document *document, const char *format, ...)
{
  char text[512], clean[512];
  va_list arguments;
  va_start(arguments, format);
  hr_write_text_v(text, sizeof text, format, arguments);
  va_end(arguments);
  hr_copy_text(clean, sizeof clean, text);
  if (is_html(document)) {
    hr_page_begin(document->out, clean);
  } else if (is_markdown(document)) {
    fputs("## ", document->out);
    hr_markdown_write(document->out, clean);
    fputs("\n\n", document->out);
  }
  document->has_title = true;
}

void hr_print_details(const hr_document *document, const char *summary)
{
  if (!is_html(document) && !is_markdown(document))
    return;
  fputs(is_markdown(document) ? "\n<details>\n<summary>" : "<details><summary>", document->out);
  hr_html_write(document->out, summary);
  fputs(is_markdown(document) ? "</summary>\n\n" : "</summary>\n", document->out);
}

void hr_print_details_end(const hr_document *document)
{
  if (is_html(document) || is_markdown(document))
    fputs(is_markdown(document) ? "\n</details>\n" : "</details>\n", document->out);
}

#define LABEL_WIDTH 14

static void print_html_field(FILE *out, const char *label, const char *text)
{
  fputs("<p class=\"field\"><strong>", out);
  hr_html_write(out, label);
  fputs("</strong> <span>", out);
  hr_html_write(out, text);
  fputs("</span></p>\n", out);
}

static void print_field(const hr_document *document, const char *label, const char *text)
{
  if (is_html(document)) {
    print_html_field(document->out, label, text);
    return;
  }
  if (is_markdown(document)) {
    fputs("- ", document->out);
    if (label[0])
      fprintf(document->out, "**%s**: ", label);
    hr_markdown_write_line(document->out, text);
    return;
  }
  hr_style_begin(document->out, document->options, HR_STYLE_DIM);
  fprintf(document->out, "%-*s", LABEL_WIDTH, label);
  hr_style_end(document->out, document->options, HR_STYLE_DIM);
  hr_wrap_text(document->out, text, LABEL_WIDTH, LABEL_WIDTH, document->options->width);
}

void hr_print_field(const hr_document *document, const char *label, const char *format, ...)
{
  char text[1024], clean[1024];
  va_list arguments;
  va_start(arguments, format);
  hr_write_text_v(text, sizeof text, format, arguments);
  va_end(arguments);
  hr_copy_text(clean, sizeof clean, text);
  print_field(document, label, clean);
}

void hr_print_fields(const hr_document *document, const hr_column *columns, size_t count, const void *row)
{
  for (size_t i = 0; i < count; i++) {
    hr_cell cell;
    char buffer[HR_NUMBER_SIZE];
    hr_column_read(&columns[i], row, &cell);
    if (columns[i].title && cell.type != HR_CELL_NONE)
      print_field(document, columns[i].title, hr_cell_show(&cell, columns[i].unit, buffer, sizeof buffer));
  }
}

static void print_html_heading(const hr_document *document, const char *text)
{
  fprintf(document->out, "<h%d>", 2 + document->depth);
  hr_html_write(document->out, text);
  fprintf(document->out, "</h%d>\n", 2 + document->depth);
}

/* A heading that is wider than the terminal continues below. */
static void print_bold_lines(const hr_document *document, const char *text)
{
  int width = document->options->width > 0 ? document->options->width : INT_MAX;
  while (*text) {
    const char *next;
    size_t length = hr_wrap_length(text, width, &next);
    hr_style_begin(document->out, document->options, HR_STYLE_BOLD);
    fprintf(document->out, "%.*s", (int)length, text);
    hr_style_end(document->out, document->options, HR_STYLE_BOLD);
    fprintf(document->out, "\n");
    text = next;
  }
}

void hr_print_heading(const hr_document *document, const char *format, ...)
{
  char text[256], clean[256];
  va_list arguments;
  va_start(arguments, format);
  hr_write_text_v(text, sizeof text, format, arguments);
  va_end(arguments);
  hr_copy_text(clean, sizeof clean, text);
  if (is_html(document)) {
    print_html_heading(document, clean);
    return;
  }
  if (is_markdown(document)) {
    fputs(document->has_title ? "\n### " : "\n## ", document->out);
    hr_markdown_write(document->out, clean);
    fputs("\n\n", document->out);
    return;
  }
  fprintf(document->out, "\n");
  print_bold_lines(document, clean);
}

void hr_print_paragraph(const hr_document *document, const char *text)
{
  char clean[2048];
  hr_copy_text(clean, sizeof clean, text);
  if (is_html(document)) {
    fputs("<p>", document->out);
    hr_html_write(document->out, clean);
    fputs("</p>\n", document->out);
    return;
  }
  if (is_markdown(document)) {
    hr_markdown_write_line(document->out, clean);
    fputc('\n', document->out); /* the next one would be its continuation */
    return;
  }
  hr_wrap_text(document->out, clean, 0, 0, document->options->width);
}

hr_status hr_print_table(const hr_document *document, hr_table *table, hr_error *error)
{
  hr_status status = hr_table_write(table, document->out, document->options, error);
  hr_table_free(table);
  return status;
}
