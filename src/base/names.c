/* SPDX-License-Identifier: Apache-2.0 */
#include "base/names.h"

#include "base/utf8.h"

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

/* Control characters, line and paragraph separators, and characters that change the direction of writing. */
static bool is_unprintable(uint32_t character)
{
  return character < 0x20 || (character >= 0x7F && character < 0xA0) || character == 0x2028 || character == 0x2029 ||
         (character >= 0x202A && character <= 0x202E) || (character >= 0x2066 && character <= 0x2069);
}

static bool never(uint32_t character)
{
  (void)character;
  return false;
}

/* Whether the text ends in the middle of the character that begins here. */
static bool is_truncated(const char *text)
{
  unsigned char first = (unsigned char)text[0];
  size_t length = first < 0xC2 || first > 0xF4 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2, present = 1;
  while (present < length && ((unsigned char)text[present] & 0xC0) == 0x80)
    present++;
  return present < length && text[present] == '\0';
}

/* Replaces bytes that are not UTF-8, and `unwanted` characters, by '?'. A truncated last character is dropped. */
static void clean(char *text, bool (*unwanted)(uint32_t character))
{
  char *to = text;
  for (const char *from = text; *from;) {
    uint32_t character = 0;
    size_t length = hr_utf8_decode(from, &character);
    if (length == 0 && is_truncated(from))
      break;
    bool kept = length > 0 && !unwanted(character);
    length = length > 0 ? length : 1;
    memmove(to, kept ? from : "?", kept ? length : 1);
    to += kept ? length : 1;
    from += length;
  }
  *to = '\0';
}

void hr_replace_unprintable(char *text)
{
  clean(text, is_unprintable);
}

void hr_replace_invalid_utf8(char *text)
{
  clean(text, never);
}

void hr_copy_text(char *to, size_t size, const char *from)
{
  if (size == 0)
    return;
  size_t length = strlen(from);
  if (length >= size)
    length = size - 1;
  memcpy(to, from, length);
  to[length] = '\0';
  hr_replace_unprintable(to);
}
