/* SPDX-License-Identifier: Apache-2.0 */
/* Texts and numbers of a gnuplot script. */
#include "figure/gnuplot.h"

#include "base/text.h"
#include "base/utf8.h"

#include <math.h>
#include <string.h>

void hr_gnuplot_put(FILE *out, const char *format, ...)
{
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  hr_write_text_v(text, sizeof text, format, arguments);
  va_end(arguments);
  fputs(text, out);
}

/* Control characters would end the line, or command a terminal; hr_copy_text() has removed them from every text of a
 * figure, and here they would be removed again. An apostrophe becomes a typographic one: gnuplot 5.4 takes a doubled
 * quote at the beginning of a string for an empty string, and what follows for commands. */
static void put_character(FILE *out, char c)
{
  if (c == '\'')
    fputs("\xE2\x80\x99", out);
  else
    fputc((unsigned char)c < 0x20 || c == 0x7f ? ' ' : c, out);
}

void hr_gnuplot_quote(FILE *out, const char *text)
{
  fputc('\'', out);
  for (; *text; text++)
    put_character(out, *text);
  fputc('\'', out);
}

/* The bytes of the longest beginning of `text` that fits into the columns and ends before a space, behind a "_" (where
 * a name of an operator or a kernel may be broken), or at the end. Where there is no column, it has one character. */
static size_t line_length(const char *text, size_t columns)
{
  size_t at = 0, fits = 0;
  for (size_t used = 0; text[at] && (used < columns || used == 0); used++) {
    uint32_t character;
    size_t length = hr_utf8_decode(text + at, &character);
    at += length > 0 ? length : 1;
    if (text[at] == ' ' || !text[at] || text[at - 1] == '_')
      fits = at;
  }
  return fits > 0 ? fits : at;
}

static void quote_lines(FILE *out, const char *text, size_t columns, bool format)
{
  const char *separator = "'";
  if (!*text)
    fputs("''", out);
  while (*text) {
    size_t length = line_length(text, columns);
    fputs(separator, out);
    for (size_t i = 0; i < length; i++) {
      if (text[i] == '%' && format)
        fputc('%', out);
      put_character(out, text[i]);
    }
    fputc('\'', out);
    separator = ".\"\\n\".'";
    text += length;
    text += strspn(text, " ");
  }
}

size_t hr_gnuplot_line_count(const char *text, size_t columns)
{
  size_t lines = 0;
  do {
    text += line_length(text, columns);
    text += strspn(text, " ");
    lines++;
  } while (*text);
  return lines;
}

void hr_gnuplot_quote_lines(FILE *out, const char *text, size_t columns)
{
  quote_lines(out, text, columns, false);
}

void hr_gnuplot_quote_tic(FILE *out, const char *text, size_t columns)
{
  quote_lines(out, text, columns, true);
}

void hr_gnuplot_number(FILE *out, double number)
{
  if (isfinite(number))
    hr_gnuplot_put(out, " %.9g", number);
  else
    fputs(" NaN", out);
}

void hr_gnuplot_noisy_name(const hr_figure_series *series, char *name, size_t size)
{
  hr_write_text(name, size, "%s%snoisy", series->name, series->name[0] ? ", " : "");
}

/* Okabe and Ito, "Color universal design" (2008), without its yellow, which is hardly visible on white; grey
 * instead. The second eight were searched for: tests/scripts/test_colours.py says how far all are apart. */
const char *hr_gnuplot_colour(size_t colour)
{
  static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
                                        "#000000", "#666666", "#172245", "#4D1D03", "#052BAE", "#422B2D",
                                        "#076725", "#95167D", "#DC0536", "#B0B86B"};
  return colours[colour % (sizeof colours / sizeof *colours)];
}

int hr_gnuplot_marker(size_t style, hr_figure_origin origin)
{
  static const int filled[] = {7, 5, 9, 11, 13}, hollow[] = {6, 4, 8, 10, 12};
  size_t index = (style + style / 5) % 5; /* dashes repeat after 5 styles, with another marker */
  return origin == HR_FIGURE_READ_OFF ? hollow[index] : filled[index];
}
