/* SPDX-License-Identifier: Apache-2.0 */
#include "clean.h"

#include <string.h>

#define ESCAPE 0x1B
#define DELETE 0x7F
#define BEFORE_C1 0xC2 /* the first of the two bytes of U+0080 … U+00BF, of which U+0080 … U+009F control */

static size_t put(char *to, unsigned char byte)
{
  *to = (char)byte;
  return 1;
}

/* Puts the held bytes, with a question mark for the first. */
static size_t put_held(cli_cleaner *c, char *to)
{
  size_t count = c->held_count;
  memcpy(to, c->held, count);
  to[0] = '?';
  c->held_count = 0;
  return count;
}

static void hold(cli_cleaner *c, unsigned char byte)
{
  c->held[c->held_count++] = (char)byte;
}

static bool is_trailing(unsigned char byte)
{
  return (byte & 0xC0) == 0x80;
}

static bool is_printed(const cli_cleaner *c, unsigned char byte)
{
  return (byte >= ' ' && byte < DELETE) || (!c->one_line && (byte == '\n' || byte == '\t'));
}

/* A byte that belongs to no sequence. */
static size_t take_first(cli_cleaner *c, unsigned char byte, char *to)
{
  bool trails = c->following > 0 && is_trailing(byte);
  c->following = trails ? c->following - 1 : 0;
  if (trails)
    return put(to, byte);
  if (byte == BEFORE_C1 || (byte == ESCAPE && c->colours)) {
    hold(c, byte);
    return 0;
  }
  if (byte > BEFORE_C1 && byte < 0xF5) /* begins a character of 2 to 4 bytes */
    c->following = 1 + (byte >= 0xE0) + (byte >= 0xF0);
  return put(to, c->following > 0 || is_printed(c, byte) ? byte : '?');
}

/* The byte behind BEFORE_C1. */
static size_t take_second(cli_cleaner *c, unsigned char byte, char *to)
{
  if (!is_trailing(byte)) {
    size_t before = put_held(c, to);
    return before + take_first(c, byte, to + before);
  }
  c->held_count = 0;
  if (byte < 0xA0)
    return put(to, '?');
  put(to, BEFORE_C1);
  return 1 + put(to + 1, byte);
}

/* A byte behind ESCAPE: "[", digits and semicolons, "m". */
static size_t take_colour(cli_cleaner *c, unsigned char byte, char *to)
{
  bool begun = c->held_count > 1, within = begun && ((byte >= '0' && byte <= '9') || byte == ';');
  if (c->held_count < sizeof c->held && (within || (!begun && byte == '['))) {
    hold(c, byte);
    return 0;
  }
  size_t before = put_held(c, to);
  if (!begun || byte != 'm')
    return before + take_first(c, byte, to + before);
  to[0] = ESCAPE;
  return before + put(to + before, byte);
}

size_t cli_clean(cli_cleaner *c, const char *text, size_t size, char *to)
{
  size_t used = 0;
  for (size_t i = 0; i < size; i++) {
    unsigned char byte = (unsigned char)text[i];
    if (c->held_count == 0)
      used += take_first(c, byte, to + used);
    else if (c->held[0] == ESCAPE)
      used += take_colour(c, byte, to + used);
    else
      used += take_second(c, byte, to + used);
  }
  return used;
}
