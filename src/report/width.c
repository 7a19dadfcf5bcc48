/* SPDX-License-Identifier: Apache-2.0 */
#include "report/width.h"

#include "base/utf8.h"

#include <utf8proc.h>

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
