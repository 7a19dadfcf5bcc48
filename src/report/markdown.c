/* SPDX-License-Identifier: Apache-2.0 */
#include "report/markdown.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static bool is_ascii_word(char c)
{
  return isalnum((unsigned char)c) && (unsigned char)c < 0x80;
}

/* Bytes of characters outside of ASCII count as letters. */
static bool is_word(char c)
{
  return is_ascii_word(c) || (unsigned char)c >= 0x80;
}

/* "@name" notifies a person and "#12" links an issue, where a comment of a pull request is shown; a backslash does not
 * prevent it, an empty comment behind the character does. */
static bool names_somebody(const char *text, const char *c)
{
  bool begins = c == text || !is_word(c[-1]);
  return (*c == '@' && is_word(c[1])) || (*c == '#' && begins && isdigit((unsigned char)c[1]));
}

void hr_markdown_write(FILE *out, const char *text)
{
  for (const char *c = text; *c; c++) {
    /* attention_flash has no emphasis; beside a space or a quotation mark outside of ASCII an underscore begins some */
    bool inside = c > text && is_ascii_word(c[-1]) && is_ascii_word(c[1]);
    if (strchr("\\`*[]<>|~&$", *c) || (*c == '_' && !inside))
      fputc('\\', out);
    fputc(*c, out);
    if (names_somebody(text, c))
      fputs("<!-- -->", out);
  }
}

void hr_markdown_write_line(FILE *out, const char *text)
{
  size_t digits = strspn(text, "0123456789");
  const char *mark = text + digits; /* of a list, a heading or a rule, which a space or the same byte follows */
  bool begins = digits > 0 ? *mark == '.' || *mark == ')' : *mark && strchr("#-+=", *mark);
  if (begins && (mark[1] == ' ' || mark[1] == '\0' || mark[1] == *mark)) {
    fprintf(out, "%.*s\\%c", (int)digits, text, *mark);
    text = mark + 1;
  }
  hr_markdown_write(out, text);
  fputc('\n', out);
}
