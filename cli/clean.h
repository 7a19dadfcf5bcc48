/* SPDX-License-Identifier: Apache-2.0 */
/* Text for a terminal, in which names and messages come from files and must not control it. */
#ifndef CLI_CLEAN_H
#define CLI_CLEAN_H

#include <stdbool.h>
#include <stddef.h>

#define CLI_CLEAN_MORE 24 /* bytes by which a part may become longer: those held back of the part before */

/** Begins as zeros, apart from the first two. A text may come in parts that end anywhere. */
typedef struct cli_cleaner {
  bool colours;  /* those that reports write, ESC [ … m, pass */
  bool one_line; /* line feeds and tabs do not */
  char held[CLI_CLEAN_MORE];
  size_t held_count; /* bytes of a sequence that may be let through when it is complete */
  int following;     /* bytes of a UTF-8 character that are to come */
} cli_cleaner;

/** Writes `text` to `to`, which has room for size + CLI_CLEAN_MORE, with '?' for control characters, also those of 8
 *  bits, and for bytes that are not UTF-8. Returns the number of bytes. */
size_t cli_clean(cli_cleaner *cleaner, const char *text, size_t size, char *to);

#endif
