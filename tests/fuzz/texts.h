/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of texts from an input. Each text ends at a NUL; a row has two texts and a count between them. */
#ifndef HEADROOM_FUZZ_TEXTS_H
#define HEADROOM_FUZZ_TEXTS_H

#include "report/table.h"

#include <stdint.h>

#define FUZZ_ROWS_MAX 4
#define FUZZ_TEXT_MAX 600
#define FUZZ_COLUMNS 3

typedef struct fuzz_texts {
  char texts[2 * FUZZ_ROWS_MAX][FUZZ_TEXT_MAX]; /* those that the input lacks are empty */
  hr_table *table;                              /* of as many rows as the input has texts for, at least one */
} fuzz_texts;

/** The caller frees the table. `texts` has to outlive it. */
void fuzz_read_texts(const uint8_t *data, size_t size, fuzz_texts *texts);

/** Whether `found` is `text` without the spaces at its ends. */
bool fuzz_is_trimmed(const char *found, size_t length, const char *text);

#endif
