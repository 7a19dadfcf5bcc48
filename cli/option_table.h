/* SPDX-License-Identifier: Apache-2.0 */
/* The options of options.inc as rows. */
#ifndef CLI_OPTION_TABLE_H
#define CLI_OPTION_TABLE_H

#include "cli.h"

typedef struct cli_option_row cli_option_row;

/** Reads `text` into the member of cli_options at `value`. Returns CLI_GO_ON, or EXIT_USAGE after printing why. */
typedef int (*cli_value_reader)(const cli_option_row *row, const char *text, void *value);

struct cli_option_row {
  uint64_t groups;
  const char *name;
  char letter; /* 0: none */
  cli_value_reader read;
  size_t offset; /* of the member of cli_options */
  double least, most;
  const char *argument; /* NULL: a flag */
  const char *help;
};

extern const cli_option_row cli_option_rows[CLI_OPTION_COUNT];

/** One row of synonyms.inc. */
typedef struct cli_synonym {
  const char *name;
  int row; /* in cli_option_rows */
  const char *users;
} cli_synonym;

enum {
  CLI_SYNONYM_COUNT = 0
#define CLI_SYNONYM(name, member, users) +1
#include "synonyms.inc"
#undef CLI_SYNONYM
};

extern const cli_synonym cli_synonyms[CLI_SYNONYM_COUNT];

/** Whether an option that is given again adds to its list of names. Lists of sizes are given whole. */
bool cli_adds_values(const cli_option_row *row);

/** Whether a command has an option of its own by this name. */
bool cli_has_option(const cli_command *command, const char *name);

/** Whether a command takes the synonym. */
bool cli_has_synonym(const cli_command *command, const cli_synonym *synonym);

/** The first of `groups` (of a command) that has the option; CLI_GROUP_COUNT if none, or if it is of GROUP_COMMON and
 *  another option of the command has its name. */
int cli_group_of(const cli_option_row *row, uint64_t groups);

/** Prints that a command has no such option (as typed, with or without "=VALUE"), and the nearest, or the commands that
 *  have it. Returns EXIT_USAGE. */
int cli_unknown_option(const cli_command *command, const char *option);

/** Refuses long options with a single dash, of which getopt_long() takes the first letter as a short one. Returns
 *  CLI_GO_ON or EXIT_USAGE. */
int cli_check_dashes(const cli_command *command, int argc, char **argv);

#endif
