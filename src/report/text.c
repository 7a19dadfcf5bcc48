#include "report/text.h"

#include <stdbool.h>
#include <string.h>

/* Decodes the character at `text`; returns its bytes, or 0 if they are not UTF-8 (RFC 3629). */
static size_t decode(const char *text, uint32_t *character)
{
  const unsigned char *byte = (const unsigned char *)text;
  size_t length = byte[0] < 0x80 ? 1 : byte[0] >= 0xF0 ? 4 : byte[0] >= 0xE0 ? 3 : byte[0] >= 0xC0 ? 2 : 0;
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (length == 0)
    return 0;
  uint32_t value = length == 1 ? byte[0] : byte[0] & (0x7Fu >> length);
  for (size_t i = 1; i < length; i++) {
    if ((byte[i] & 0xC0) != 0x80)
      return 0;
    value = value << 6 | (byte[i] & 0x3Fu);
  }
  if (value < least[length] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
    return 0;
  *character = value;
  return length;
}

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
    size_t length = decode(text + i, &character);
    columns += columns_of(character);
    i += length > 0 ? length : 1;
  }
  return columns;
}

static bool is_control(uint32_t character)
{
  return character < 0x20 || (character >= 0x7F && character < 0xA0) || character == 0x2028 || character == 0x2029 ||
         (character >= 0x202A && character <= 0x202E) || (character >= 0x2066 && character <= 0x2069);
}

void hr_text_clean(char *to, size_t size, const char *from)
{
  size_t used = 0;
  while (*from) {
    uint32_t character = '?';
    size_t length = decode(from, &character);
    bool replaced = length == 0 || is_control(character);
    size_t written = replaced ? 1 : length;
    if (used + written >= size)
      break;
    memcpy(to + used, replaced ? "?" : from, written);
    used += written;
    from += length > 0 ? length : 1;
  }
  to[used] = '\0';
}

size_t hr_text_line(const char *text, int columns, const char **next)
{
  size_t end = 0, space = 0;
  int used = 0;
  while (text[end]) {
    uint32_t character = '?';
    size_t length = decode(text + end, &character);
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
