/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the command line with popt. */
#include "groups.h"
#include "option_table.h"

#include <popt.h>
#include <stdlib.h>
#include <string.h>

/* The options of a command for popt; their values are the index of the row plus 1. */
static void fill_table(struct poptOption table[CLI_OPTION_COUNT + 1], const cli_command *command)
{
  const struct poptOption end = POPT_TABLEEND;
  for (int i = 0; i < CLI_OPTION_COUNT; i++) {
    const cli_option_row *row = &cli_option_rows[i];
    if (cli_group_of(row, command->groups) < CLI_GROUP_COUNT)
      *table++ = (struct poptOption){.longName = row->name,
                                     .shortName = row->letter,
                                     .argInfo = row->argument ? POPT_ARG_STRING : POPT_ARG_NONE,
                                     .val = i + 1};
  }
  *table = end;
}

static int unknown_option(const cli_command *command, const char *option)
{
  char spelled[CLI_OPTION_COUNT][32];
  const char *names[CLI_OPTION_COUNT];
  size_t count = 0;
  char near[160] = "";
  for (int i = 0; i < CLI_OPTION_COUNT; i++) {
    if (cli_group_of(&cli_option_rows[i], command->groups) == CLI_GROUP_COUNT)
      continue;
    snprintf(spelled[count], sizeof spelled[count], "--%s", cli_option_rows[i].name);
    names[count] = spelled[count];
    count++;
  }
  if (strlen(option) > 4)
    hr_suggest_names(option, names, count, near, sizeof near);
  return cli_fail(EXIT_USAGE, "%s: there is no option %s%s", command->name, option, near[0] ? near : "; see --help");
}

static int read_all(cli_run *run, poptContext context)
{
  int value;
  while ((value = poptGetNextOpt(context)) > 0) {
    const cli_option_row *row = &cli_option_rows[value - 1];
    char *text = row->argument ? poptGetOptArg(context) : NULL;
    free(run->texts[value - 1]);
    run->texts[value - 1] = text; /* members may point into it */
    run->given[value - 1] = true;
    int code = row->read(row, text ? text : "", (char *)&run->options + row->offset);
    if (code != CLI_GO_ON)
      return code;
  }
  if (value == POPT_ERROR_BADOPT)
    return unknown_option(run->command, poptBadOption(context, 0));
  if (value != -1)
    return cli_fail(EXIT_USAGE, "%s: %s: %s", run->command->name, poptBadOption(context, POPT_BADOPTION_NOALIAS),
                    poptStrerror(value));
  return CLI_GO_ON;
}

static int read_environment(cli_run *run)
{
  const char *value = getenv("HEADROOM_PROBE");
  run->probe = !value || strcmp(value, "0") != 0;
  if (run->probe && value && value[0] && strcmp(value, "1") != 0)
    return cli_fail(EXIT_USAGE, "HEADROOM_PROBE: expected 0 or 1, found \"%.40s\"", value);
  return CLI_GO_ON;
}

static int run_with(cli_run *run, cli_command_fn function, poptContext context)
{
  static const char *nothing[] = {NULL};
  const char **left = poptGetArgs(context);
  run->arguments = left ? left : nothing;
  while (run->arguments[run->argument_count])
    run->argument_count++;
  return function(run);
}

int cli_run_command(const cli_command *command, cli_command_fn function, int argc, const char **argv)
{
  struct poptOption table[CLI_OPTION_COUNT + 1];
  cli_run run = {.command = command};
  fill_table(table, command);
  poptContext context = poptGetContext("headroom", argc, argv, table, 0);
  if (!context)
    return cli_fail(EXIT_OUTPUT, "memory ran out");
  int code = read_environment(&run);
  if (code == CLI_GO_ON)
    code = read_all(&run, context);
  if (code == CLI_GO_ON)
    code = run.options.help ? cli_print_help(command) : run_with(&run, function, context);
  poptFreeContext(context);
  for (int i = 0; i < CLI_OPTION_COUNT; i++)
    free(run.texts[i]);
  return code;
}
