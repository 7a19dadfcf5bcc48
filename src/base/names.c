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

static bool continues(unsigned char byte)
{
  return (byte & 0xC0) == 0x80;
}

/* Bytes that a character with this first byte has; 0 if none begins so. */
static size_t promised_bytes(unsigned char first)
{
  if (first < 0x80)
    return 1;
  if (first < 0xC2)
    return 0;
  return first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
}

/* Bytes of the character at `c`, 0 if it is not UTF-8. The bounds of second bytes are those of RFC 3629, section 4. */
static size_t character_bytes(const unsigned char *c)
{
  size_t length = promised_bytes(c[0]);
  for (size_t i = 1; i < length; i++) {
    if (!continues(c[i]))
      return 0;
  }
  bool wrong = (c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xED && c[1] >= 0xA0) || (c[0] == 0xF0 && c[1] < 0x90) ||
               (c[0] == 0xF4 && c[1] >= 0x90);
  return wrong ? 0 : length;
}

/* The same, but 0 also for one that steers a terminal: U+0080 to U+009F are a second set of controls. */
static size_t printable_bytes(const unsigned char *c)
{
  bool control = c[0] < ' ' || c[0] == 0x7f || (c[0] == 0xC2 && c[1] < 0xA0);
  return control ? 0 : character_bytes(c);
}

static void drop_cut_character(char *text)
{
  size_t length = strlen(text), start = length;
  while (start > 0 && continues((unsigned char)text[start - 1]))
    start--;
  if (start > 0 && start - 1 + promised_bytes((unsigned char)text[start - 1]) > length)
    text[start - 1] = '\0';
}

static void clean(char *text, size_t (*bytes_of)(const unsigned char *))
{
  drop_cut_character(text);
  for (unsigned char *c = (unsigned char *)text; *c;) {
    size_t length = bytes_of(c);
    if (length == 0)
      *c = '?';
    c += length > 0 ? length : 1;
  }
}

void hr_one_line(char *text)
{
  clean(text, printable_bytes);
}

void hr_whole_characters(char *text)
{
  clean(text, character_bytes);
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
