/* SPDX-License-Identifier: Apache-2.0 */
#include "texts.h"

#include <string.h>

typedef struct text_row {
  const char *first, *second;
  int64_t count;
} text_row;

static const hr_column columns[FUZZ_COLUMNS] = {{"first", "first", HR_PLAIN, 0, HR_MEMBER(text_row, first)},
                                                {"count", "count", HR_PLAIN, 0, HR_MEMBER(text_row, count)},
                                                {"second", "second", HR_PLAIN, 0, HR_MEMBER(text_row, second)}};

/* Copies the text up to a NUL; *data and *size are what is left. */
static void take_text(const uint8_t **data, size_t *size, char text[FUZZ_TEXT_MAX])
{
  const uint8_t *end = *size > 0 ? memchr(*data, 0, *size) : NULL;
  size_t length = end ? (size_t)(end - *data) : *size, kept = length < FUZZ_TEXT_MAX - 1 ? length : FUZZ_TEXT_MAX - 1;
  if (kept > 0)
    memcpy(text, *data, kept);
  text[kept] = '\0';
  *data += length + (end != NULL);
  *size -= length + (end != NULL);
}

void fuzz_read_texts(const uint8_t *data, size_t size, fuzz_texts *texts)
{
  memset(texts, 0, sizeof *texts);
  texts->table = HR_TABLE_OF(columns, text_row);
  for (int i = 0; i < FUZZ_ROWS_MAX && (size > 0 || i == 0); i++) {
    text_row row = {.first = texts->texts[2 * i], .second = texts->texts[2 * i + 1], .count = 1000 * i};
    take_text(&data, &size, texts->texts[2 * i]);
    take_text(&data, &size, texts->texts[2 * i + 1]);
    hr_table_add(texts->table, &row);
  }
}

bool fuzz_is_trimmed(const char *found, size_t length, const char *text)
{
  size_t wanted = strlen(text);
  while (wanted > 0 && text[0] == ' ')
    text++, wanted--;
  while (wanted > 0 && text[wanted - 1] == ' ')
    wanted--;
  return wanted == length && memcmp(found, text, length) == 0;
}
