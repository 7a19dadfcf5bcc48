#include "base/utf8.h"

size_t hr_utf8_decode(const char *text, uint32_t *character)
{
  const unsigned char *byte = (const unsigned char *)text;
  size_t length = byte[0] < 0x80    ? 1
                  : byte[0] >= 0xF8 ? 0
                  : byte[0] >= 0xF0 ? 4
                  : byte[0] >= 0xE0 ? 3
                  : byte[0] >= 0xC0 ? 2
                                    : 0;
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
