/* SPDX-License-Identifier: Apache-2.0 */
/* The options of options.inc as rows. */
#ifndef CLI_OPTION_TABLE_H
#define CLI_OPTION_TABLE_H

#include "cli.h"

typedef struct cli_option_row cli_option_row;

/** Reads `text` into the member of cli_options at `value`. Returns CLI_GO_ON, or EXIT_USAGE after printing why. */
typedef int (*cli_value_reader)(const cli_option_row *row, const char *text, void *value);

struct cli_option_row {
  unsigned groups;
  const char *name;
  char letter; /* 0: none */
  cli_value_reader read;
  size_t offset; /* of the member of cli_options */
  double least, most;
  const char *argument; /* NULL: a flag */
  const char *help;
};

extern const cli_option_row cli_option_rows[CLI_OPTION_COUNT];

/** The first of `groups` (of a command) that has the option; CLI_GROUP_COUNT if none. */
int cli_group_of(const cli_option_row *row, unsigned groups);

#endif
