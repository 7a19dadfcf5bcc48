/* SPDX-License-Identifier: Apache-2.0 */
#include "suggest/suggest.h"

#include "base/names.h"

#include <ctype.h>
#include <headroom/experimental/resolve.h>
#include <stdio.h>
#include <string.h>

#define LETTERS_MAX 64

static int least(int a, int b)
{
  return a < b ? a : b;
}

static bool same(char a, char b)
{
  return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* The optimal string alignment distance, row by row: rows[0] is the row before the last, rows[1] the last. */
int hr_edit_distance(const char *a, const char *b)
{
  int rows[3][LETTERS_MAX + 1];
  size_t width = strnlen(b, LETTERS_MAX), height = strnlen(a, LETTERS_MAX);
  for (size_t j = 0; j <= width; j++)
    rows[1][j] = (int)j;
  for (size_t i = 1; i <= height; i++) {
    rows[2][0] = (int)i;
    for (size_t j = 1; j <= width; j++) {
      int replaced = rows[1][j - 1] + !same(a[i - 1], b[j - 1]);
      rows[2][j] = least(replaced, least(rows[1][j], rows[2][j - 1]) + 1);
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
        rows[2][j] = least(rows[2][j], rows[0][j - 2] + 1);
    }
    memcpy(rows[0], rows[1], sizeof rows[0]);
    memcpy(rows[1], rows[2], sizeof rows[1]);
  }
  return rows[1][width];
}

static bool begins_with(const char *text, const char *start)
{
  size_t i = 0;
  while (start[i] && text[i] && same(text[i], start[i]))
    i++;
  return start[i] == '\0';
}

/* A prefix is near, whatever the length of the rest: "h100" and "h100-sxm". */
static int nearness(const char *wanted, const char *name)
{
  int distance = hr_edit_distance(wanted, name);
  bool prefix = strlen(wanted) >= 2 && (begins_with(name, wanted) || begins_with(wanted, name));
  return prefix ? least(distance, 1) : distance;
}

#define NAMES_MAX 3

void hr_suggest_names(const char *wanted, const char *const *names, size_t count, char *text, size_t size)
{
  if (size == 0)
    return;
  const char *nearest[NAMES_MAX];
  int distances[NAMES_MAX];
  size_t found = 0;
  int limit = least(4, 1 + (int)strnlen(wanted, LETTERS_MAX) / 4);
  for (size_t i = 0; i < count; i++) {
    int distance = nearness(wanted, names[i]);
    if (distance > limit)
      continue;
    size_t place = found < NAMES_MAX ? found++ : NAMES_MAX;
    for (; place > 0 && distances[place - 1] > distance; place--) {
      if (place < NAMES_MAX) {
        distances[place] = distances[place - 1];
        nearest[place] = nearest[place - 1];
      }
    }
    if (place < NAMES_MAX) {
      distances[place] = distance;
      nearest[place] = names[i];
    }
  }
  hr_copy_text(text, size, "");
  for (size_t i = 0; i < found; i++) {
    size_t used = strlen(text);
    const char *before = i == 0 ? "; did you mean " : i + 1 == found ? " or " : ", ";
    snprintf(text + used, size - used, "%s%s%s", before, nearest[i], i + 1 == found ? "?" : "");
  }
}
