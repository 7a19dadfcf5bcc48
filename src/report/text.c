#include "report/text.h"

#include "base/utf8.h"

#include <string.h>

typedef struct character_range {
  uint32_t first, last;
  int columns;
} character_range;

/* The blocks that matter for names; the full tables of Unicode would change with each of its versions. */
static const character_range unusual_widths[] = {
    {0x0300, 0x036F, 0}, {0x1100, 0x115F, 2},   {0x200B, 0x200F, 0},   {0x20D0, 0x20FF, 0},   {0x2E80, 0xA4CF, 2},
    {0xAC00, 0xD7A3, 2}, {0xF900, 0xFAFF, 2},   {0xFE00, 0xFE0F, 0},   {0xFE30, 0xFE6F, 2},   {0xFF00, 0xFF60, 2},
    {0xFFE0, 0xFFE6, 2}, {0x1F300, 0x1F64F, 2}, {0x1F900, 0x1F9FF, 2}, {0x20000, 0x3FFFD, 2},
};

static int columns_of(uint32_t character)
{
  for (size_t i = 0; i < sizeof unusual_widths / sizeof *unusual_widths; i++) {
    if (character >= unusual_widths[i].first && character <= unusual_widths[i].last)
      return unusual_widths[i].columns;
  }
  return 1;
}

int hr_text_columns(const char *text)
{
  int columns = 0;
  for (size_t i = 0; text[i];) {
    uint32_t character = '?';
    size_t length = hr_utf8_decode(text + i, &character);
    columns += columns_of(character);
    i += length > 0 ? length : 1;
  }
  return columns;
}

size_t hr_text_line(const char *text, int columns, const char **next)
{
  size_t end = 0, space = 0;
  int used = 0;
  while (text[end]) {
    uint32_t character = '?';
    size_t length = hr_utf8_decode(text + end, &character);
    used += columns_of(character);
    if (text[end] == ' ')
      space = end;
    if (used > columns && end > 0)
      break;
    end += length > 0 ? length : 1;
  }
  if (text[end] && space > 0)
    end = space;
  *next = text + end + strspn(text + end, " ");
  return end;
}

void hr_text_wrap(FILE *out, const char *text, int column, int indent, int width)
{
  if (width <= 0 || width - indent < 20) {
    fprintf(out, "%s\n", text);
    return;
  }
  for (int start = column; *text || start == column; start = indent) {
    const char *next;
    size_t length = hr_text_line(text, width - start, &next);
    fprintf(out, "%.*s\n", (int)length, text);
    text = next;
    if (!*text)
      return;
    fprintf(out, "%*s", indent, "");
  }
}
