/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the command line with the C library's getopt_long(), which allocates nothing. */
#include "groups.h"
#include "option_table.h"
#include "side_by_side.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define LONG_OPTION 256                          /* plus the index of the row; a letter stands for itself */
#define SYNONYM (LONG_OPTION + CLI_OPTION_COUNT) /* plus the index of the synonym */

/* The options of a command for getopt_long(). */
typedef struct option_tables {
  struct option names[CLI_OPTION_COUNT + CLI_SYNONYM_COUNT + 1];
  char letters[2 * CLI_OPTION_COUNT + 2];
} option_tables;

static void fill_tables(option_tables *tables, const cli_command *command)
{
  struct option *name = tables->names;
  char *letter = tables->letters;
  *letter++ = ':'; /* a missing argument is reported apart from an unknown option */
  for (int i = 0; i < CLI_OPTION_COUNT; i++) {
    const cli_option_row *row = &cli_option_rows[i];
    if (cli_group_of(row, command->groups) == CLI_GROUP_COUNT)
      continue;
    *name++ = (struct option){row->name, row->argument ? required_argument : no_argument, NULL, LONG_OPTION + i};
    if (row->letter)
      *letter++ = row->letter;
    if (row->letter && row->argument)
      *letter++ = ':';
  }
  for (int i = 0; i < CLI_SYNONYM_COUNT; i++) {
    const cli_synonym *synonym = &cli_synonyms[i];
    int argument = cli_option_rows[synonym->row].argument ? required_argument : no_argument;
    if (cli_has_synonym(command, synonym))
      *name++ = (struct option){synonym->name, argument, NULL, SYNONYM + i};
  }
  *name = (struct option){0};
  *letter = '\0';
}

static int row_of(const cli_command *command, int value)
{
  if (value >= SYNONYM)
    return cli_synonyms[value - SYNONYM].row;
  int row = value >= LONG_OPTION ? value - LONG_OPTION : 0;
  while (value < LONG_OPTION && (cli_option_rows[row].letter != value ||
                                 cli_group_of(&cli_option_rows[row], command->groups) == CLI_GROUP_COUNT))
    row++;
  return row;
}

/* The option that getopt_long() refused or found no argument for; `value` is optopt. */
static int wrong_option(const cli_command *command, int found, int value, const char *text)
{
  char letter[3] = {'-', (char)value, '\0'};
  bool is_long = value == 0 || value >= LONG_OPTION;
  if (found == ':')
    return cli_fail(EXIT_USAGE, "%s: %s: missing argument", command->name, is_long ? text : letter);
  if (value >= LONG_OPTION)
    return cli_fail(EXIT_USAGE, "%s: %s: option does not take an argument", command->name, text);
  return cli_unknown_option(command, is_long ? text : letter);
}

/* getopt_long() accepts the beginning of a name; a later version may have another option that begins so. */
static bool is_whole_name(const char *text, const char *name)
{
  size_t length = strlen(name);
  return strncmp(text, "--", 2) == 0 && strncmp(text + 2, name, length) == 0 && strchr("=", text[2 + length]) != NULL;
}

/* An option that takes one value is given once, by whichever of its names. */
static int check_first(const cli_run *run, int index, const char *text)
{
  const cli_option_row *row = &cli_option_rows[index];
  if (!run->given[index] || !row->argument || cli_adds_values(row))
    return CLI_GO_ON;
  return cli_fail(EXIT_USAGE, "%s: --%s is given twice, now as \"%.80s\"; it takes one value", run->command->name,
                  row->name, text);
}

static int read_option(cli_run *run, int found, const char *last, const char *before)
{
  int index = row_of(run->command, found);
  const cli_option_row *row = &cli_option_rows[index];
  const char *text = row->argument ? optarg : "";
  bool separate = row->argument && text == last;
  const char *name = found >= SYNONYM ? cli_synonyms[found - SYNONYM].name : row->name;
  if (found >= LONG_OPTION && !is_whole_name(separate ? before : last, name))
    return cli_unknown_option(run->command, separate ? before : last);
  if (found < LONG_OPTION && row->argument && !separate && text[0] == '=')
    text++; /* -b=4 */
  int code = check_first(run, index, text);
  run->given[index] = true;
  return code != CLI_GO_ON ? code : row->read(row, text, (char *)&run->options + row->offset);
}

static int read_all(cli_run *run, int argc, char **argv)
{
  option_tables tables;
  fill_tables(&tables, run->command);
  opterr = 0;
  int found, code = cli_check_dashes(run->command, argc, argv);
  while (code == CLI_GO_ON && (found = getopt_long(argc, argv, tables.letters, tables.names, NULL)) != -1) {
    if (found == '?' || found == ':')
      return wrong_option(run->command, found, optopt, argv[optind - 1]);
    code = read_option(run, found, argv[optind - 1], optind > 1 ? argv[optind - 2] : "");
  }
  run->arguments = (const char **)(argv + optind);
  run->argument_count = argc - optind;
  return code;
}

static int read_environment(cli_run *run)
{
  const char *value = getenv("HEADROOM_PROBE");
  run->probe = !value || strcmp(value, "0") != 0;
  if (run->probe && value && value[0] && strcmp(value, "1") != 0)
    return cli_fail(EXIT_USAGE, "HEADROOM_PROBE: expected 0 or 1, found \"%.40s\"", value);
  return CLI_GO_ON;
}

int cli_run_command(const cli_command *command, cli_command_fn function, int argc, char **argv)
{
  cli_run run = {.command = command};
  int code = read_environment(&run);
  if (code == CLI_GO_ON)
    code = read_all(&run, argc, argv);
  if (code == CLI_GO_ON && run.options.help)
    return cli_print_help(command);
  if (code == CLI_GO_ON)
    code = cli_check_devices(&run);
  if (code == CLI_GO_ON)
    code = cli_check_output(&run);
  if (code != CLI_GO_ON)
    return code;
  run.hardware = hr_hardware_create();
  code = run.hardware ? function(&run) : cli_fail(EXIT_OUTPUT, "out of memory for the figures of a device");
  hr_hardware_free(run.hardware);
  return code;
}
