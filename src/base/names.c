#include "base/names.h"

#include <stdbool.h>
#include <string.h>

const char *hr_name_of(const char *const *names, size_t count, int value)
{
  return value >= 0 && (size_t)value < count ? names[value] : "unknown";
}

hr_status hr_name_find(const char *const *names, size_t count, const char *name, int *value)
{
  for (size_t i = 0; name && i < count; i++) {
    if (strcmp(names[i], name) == 0) {
      *value = (int)i;
      return HR_OK;
    }
  }
  return HR_ERROR_NOT_FOUND;
}

/* Bytes that a UTF-8 character with this first byte has. */
static size_t character_bytes(unsigned char first)
{
  if (first < 0xC0)
    return 1;
  return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

static void drop_cut_character(char *text)
{
  size_t length = strlen(text), start = length;
  while (start > 0 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
    start--;
  if (start > 0 && start - 1 + character_bytes((unsigned char)text[start - 1]) > length)
    text[start - 1] = '\0';
}

void hr_one_line(char *text)
{
  drop_cut_character(text);
  for (unsigned char *c = (unsigned char *)text; *c; c++) {
    bool second_set = c[0] == 0xC2 && c[1] >= 0x80 && c[1] < 0xA0; /* U+0080 to U+009F, a terminal's short escapes */
    if (second_set)
      c[1] = '?';
    if (second_set || *c < ' ' || *c == 0x7f)
      *c = '?';
  }
}

void hr_copy_text(char *to, size_t size, const char *from)
{
  size_t length = strlen(from);
  if (length >= size)
    length = size - 1;
  memcpy(to, from, length);
  to[length] = '\0';
  hr_one_line(to);
}
