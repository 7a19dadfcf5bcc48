/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

/* The sequences of RFC 3629, section 4, by their first byte; those after the second byte are 80 to BF. */
static const struct {
  unsigned char first, last; /* of the first byte */
  unsigned char from, to;    /* of the second */
  unsigned char length;
} sequences[] = {
    {0x00, 0x7F, 0x00, 0xFF, 1}, {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
    {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
    {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
};

/* The number of continuation bytes that follow, up to `most`: six bits of each are added to *value. */
static size_t continue_with(const unsigned char *bytes, size_t most, uint32_t *value)
{
  size_t count = 0;
  for (; count < most && (bytes[count] & 0xC0) == 0x80; count++)
    *value = *value << 6 | (bytes[count] & 0x3Fu);
  return count;
}

size_t hr_utf8_decode(const char *text, uint32_t *character)
{
  const unsigned char *bytes = (const unsigned char *)text;
  for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
    if (bytes[0] < sequences[i].first || bytes[0] > sequences[i].last)
      continue;
    size_t length = sequences[i].length;
    if (length > 1 && (bytes[1] < sequences[i].from || bytes[1] > sequences[i].to))
      return 0;
    uint32_t value = length == 1 ? bytes[0] : bytes[0] & (0x7Fu >> length);
    if (continue_with(bytes + 1, length - 1, &value) < length - 1)
      return 0;
    *character = value;
    return length;
  }
  return 0;
}
