/* SPDX-License-Identifier: Apache-2.0 */
#include "report/advice_html.h"

#include "report/page.h"

static void write_line(FILE *out, const char *class_name, const char *a, const char *between, const char *b)
{
  fprintf(out, "<p class=\"%s\">", class_name);
  hr_html_write(out, a);
  hr_html_write(out, a[0] && b[0] ? between : "");
  hr_html_write(out, b);
  fputs("</p>\n", out);
}

void hr_html_finding(const hr_document *document, const hr_finding *f)
{
  FILE *out = document->out;
  const char *severity = f->not_applicable ? "not applicable" : hr_severity_name(f->severity);
  fprintf(out, "<article class=\"finding %s\">\n<h%d>", f->not_applicable ? "none" : hr_severity_name(f->severity),
          3 + document->depth);
  hr_html_write(out, f->rule);
  fputs(" (", out);
  hr_html_write(out, severity);
  fprintf(out, ")</h%d>\n", 3 + document->depth);
  write_line(out, "why", f->why, "", "");
  if (f->suggested[0])
    write_line(out, "change", f->current, " → ", f->suggested);
}

void hr_html_finding_end(const hr_document *document, const hr_finding *f)
{
  FILE *out = document->out;
  if (f->operators[0])
    write_line(out, "cost", "operators", ": ", f->operators);
  if (f->severity > HR_SEVERITY_NONE)
    write_line(out, "cost", hr_change_class_name(f->change_class), ": ", f->cost);
  if (f->severity > HR_SEVERITY_NONE && f->cost_source[0])
    write_line(out, "cost", "source of the cost", ": ", f->cost_source);
  if (f->source)
    write_line(out, "cost", "source of the rule", ": ", f->source);
  fputs("</article>\n", out);
}
