/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <utf8proc.h>

size_t hr_utf8_decode(const char *text, uint32_t *character)
{
  utf8proc_int32_t value;
  utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &value); /* stops at a NUL */
  if (length <= 0)
    return 0;
  *character = (uint32_t)value;
  return (size_t)length;
}

int hr_character_width(uint32_t character)
{
  return utf8proc_charwidth((utf8proc_int32_t)character);
}

int hr_display_width(const char *text)
{
  int width = 0;
  while (*text) {
    uint32_t character = '?';
    size_t length = hr_utf8_decode(text, &character);
    width += hr_character_width(character);
    text += length > 0 ? length : 1;
  }
  return width;
}
