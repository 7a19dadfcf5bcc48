/* SPDX-License-Identifier: Apache-2.0 */
#include "report/lines.h"

#include "base/text.h"
#include "base/utf8.h"
#include "report/width.h"

#include <stdarg.h>
#include <string.h>

size_t hr_wrap_length(const char *text, int columns, const char **next)
{
  size_t end = 0, space = 0, part = 0; /* part: behind a "_", where the name of a kernel or an operator may be broken */
  int used = 0;
  while (text[end]) {
    uint32_t character = '?';
    size_t length = hr_utf8_decode(text + end, &character);
    used += hr_character_width(character);
    if (text[end] == ' ')
      space = end;
    if (used > columns && end > 0)
      break;
    end += length > 0 ? length : 1;
    if (text[end - 1] == '_')
      part = end;
  }
  if (text[end] && (space > 0 || part > 0))
    end = space > 0 ? space : part;
  *next = text + end + strspn(text + end, " ");
  return end;
}

#define NARROWEST 20 /* columns that wrapping needs */

void hr_wrap_text(FILE *out, const char *text, int column, int indent, int width)
{
  if (width <= 0 || width - indent < NARROWEST) {
    fprintf(out, "%s\n", text);
    return;
  }
  for (int start = column; *text || start == column; start = indent) {
    const char *next;
    size_t length = hr_wrap_length(text, width - start, &next);
    fprintf(out, "%.*s\n", (int)length, text);
    text = next;
    if (!*text)
      return;
    fprintf(out, "%*s", indent, "");
  }
}

void hr_append_item(char *line, size_t size, const char *format, ...)
{
  size_t used = strlen(line);
  if (used > 0) {
    snprintf(line + used, size - used, ", ");
    used = strlen(line);
  }
  va_list arguments;
  va_start(arguments, format);
  hr_write_text_v(line + used, size - used, format, arguments);
  va_end(arguments);
}

const char *hr_plural(int64_t count)
{
  return count == 1 ? "" : "s";
}
