/* One row of options.inc and the readers of its value, one for each kind. */
#ifndef CLI_VALUES_H
#define CLI_VALUES_H

#include "cli.h"

typedef struct cli_option_row cli_option_row;

/** Reads `text` into the member of cli_options at `value`. Returns CLI_GO_ON, or EXIT_USAGE after printing why. */
typedef int (*cli_value_reader)(const cli_option_row *row, const char *text, void *value);

struct cli_option_row {
  unsigned groups;
  const char *name;
  char letter;
  cli_value_reader read;
  size_t offset; /* of the member of cli_options */
  double least, most;
  const char *argument, *help;
};

int cli_read_FLAG(const cli_option_row *row, const char *text, void *value);
int cli_read_TEXT(const cli_option_row *row, const char *text, void *value);
int cli_read_INTEGER(const cli_option_row *row, const char *text, void *value);
int cli_read_NUMBER(const cli_option_row *row, const char *text, void *value);
int cli_read_RANGE(const cli_option_row *row, const char *text, void *value); /* MIN:MAX[:STEP] */
int cli_read_SHARD(const cli_option_row *row, const char *text, void *value); /* I/N */
int cli_read_PHASE(const cli_option_row *row, const char *text, void *value);
int cli_read_ATTENTION(const cli_option_row *row, const char *text, void *value);
int cli_read_LAYOUT(const cli_option_row *row, const char *text, void *value);
int cli_read_DTYPE(const cli_option_row *row, const char *text, void *value);
int cli_read_FORMAT(const cli_option_row *row, const char *text, void *value);
int cli_read_CSV(const cli_option_row *row, const char *text, void *value);
int cli_read_COLOR(const cli_option_row *row, const char *text, void *value);

#endif
