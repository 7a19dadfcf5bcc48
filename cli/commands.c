/* SPDX-License-Identifier: Apache-2.0 */
/* The list of commands, without the functions that run them (main.c). */
#include "groups.h"

#include <headroom/experimental/resolve.h>
#include <string.h>

static const cli_command commands[] = {
#define CLI_COMMAND(identifier, name, arguments, groups, summary) {name, arguments, groups, summary},
#include "commands.inc"
#undef CLI_COMMAND
};

#define COMMAND_COUNT (sizeof commands / sizeof *commands)

const cli_command *cli_find_command(const char *name)
{
  for (size_t i = 0; i < COMMAND_COUNT; i++) {
    if (strcmp(commands[i].name, name) == 0)
      return &commands[i];
  }
  return NULL;
}

const cli_command *cli_all_commands(size_t *count)
{
  *count = COMMAND_COUNT;
  return commands;
}

size_t cli_command_index(const cli_command *command)
{
  return (size_t)(command - commands);
}

int cli_unknown_command(const char *name)
{
  const char *names[COMMAND_COUNT];
  char near[160];
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    names[i] = commands[i].name;
  hr_suggest_names(name, names, COMMAND_COUNT, near, sizeof near);
  return cli_fail(EXIT_USAGE, "there is no command %s%s", name, near[0] ? near : "; see headroom help");
}

#define SUMMARY_COLUMN 14

void cli_print_summary(FILE *out)
{
  fprintf(out, "Usage: headroom COMMAND [OPTION...]\n\n"
               "Predicts and measures how fast a transformer's shape runs on a device, says what\n"
               "limits it, and finds faster shapes.\n\n");
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    cli_print_words(out, commands[i].summary, SUMMARY_COLUMN,
                    fprintf(out, "  %-*s", SUMMARY_COLUMN - 2, commands[i].name));
  fprintf(out, "\nMODEL is a config.json, a directory with one, a name from\n"
               "`headroom help models`, org/name in the local Hugging Face cache, - for\n"
               "standard input, or a short form such as\n"
               "'{\"h\":2560,\"a\":32,\"L\":32,\"v\":50257,\"s\":2048,\"b\":4}'.\n\n"
               "`headroom COMMAND --help` lists a command's options.\n");
}
