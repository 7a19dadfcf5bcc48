/* SPDX-License-Identifier: Apache-2.0 */
/* Options that a command does not have: the nearest of its own, or the commands that have them. */
#include "groups.h"
#include "option_table.h"

#include <ctype.h>
#include <headroom/experimental/resolve.h>
#include <string.h>

#define NAME_LENGTH_MAX 48
#define SHORTEST 3         /* letters of a long option for which others are suggested */
#define SHORTEST_SYNONYM 5 /* and for which synonyms are: several have two letters */

typedef struct option_names {
  char spelled[CLI_OPTION_COUNT + CLI_SYNONYM_COUNT][NAME_LENGTH_MAX]; /* "--batch" */
  const char *names[CLI_OPTION_COUNT + CLI_SYNONYM_COUNT];
  size_t count;
} option_names;

static void add_name(option_names *list, const char *name)
{
  snprintf(list->spelled[list->count], NAME_LENGTH_MAX, "--%s", name);
  list->names[list->count] = list->spelled[list->count];
  list->count++;
}

static bool has_long(const cli_command *command, const char *name)
{
  if (cli_has_option(command, name))
    return true;
  for (int i = 0; i < CLI_SYNONYM_COUNT; i++) {
    if (strcmp(cli_synonyms[i].name, name) == 0 && cli_has_synonym(command, &cli_synonyms[i]))
      return true;
  }
  return false;
}

/* An option that is spelt with underscores. */
static bool has_dashed(const cli_command *command, const char *option, char *dashed)
{
  size_t length = strlen(option);
  for (size_t i = 0; i <= length; i++)
    if ((dashed[i] = option[i]) == '_')
      dashed[i] = '-';
  return strncmp(dashed, "--", 2) == 0 && has_long(command, dashed + 2);
}

/* "; did you mean --batch?" from the command's options or, if none is near, from their synonyms; "" if none is. */
static void suggest(const cli_command *command, const char *option, char *near, size_t size)
{
  option_names list = {.count = 0};
  near[0] = '\0';
  if (strlen(option) < 2 + SHORTEST)
    return;
  for (int i = 0; i < CLI_OPTION_COUNT; i++) {
    if (cli_group_of(&cli_option_rows[i], command->groups) != CLI_GROUP_COUNT)
      add_name(&list, cli_option_rows[i].name);
  }
  hr_suggest_names(option, list.names, list.count, near, size);
  if (near[0] || strlen(option) < 2 + SHORTEST_SYNONYM)
    return;
  list.count = 0;
  for (int i = 0; i < CLI_SYNONYM_COUNT; i++) {
    if (cli_has_synonym(command, &cli_synonyms[i]))
      add_name(&list, cli_synonyms[i].name);
  }
  hr_suggest_names(option, list.names, list.count, near, size);
}

/* The option of a command by its letter, in either case. */
static const cli_option_row *row_of_letter(const cli_command *command, char letter, bool any_case)
{
  for (int i = 0; i < CLI_OPTION_COUNT; i++) {
    const cli_option_row *row = &cli_option_rows[i];
    bool same = row->letter == letter || (any_case && row->letter == tolower((unsigned char)letter));
    if (row->letter && same && cli_group_of(row, command->groups) != CLI_GROUP_COUNT)
      return row;
  }
  return NULL;
}

/* "describe, advise and search": the commands that take the option, by its name or by its letter; "" if none does. */
static void find_commands(const char *option, char *text, size_t size)
{
  const cli_command *having[CLI_GROUP_COUNT * 2];
  size_t count, found = 0, used = 0;
  const cli_command *commands = cli_all_commands(&count);
  bool is_long = strncmp(option, "--", 2) == 0;
  for (size_t i = 0; i < count && found < sizeof having / sizeof *having; i++) {
    if (is_long ? has_long(&commands[i], option + 2) : row_of_letter(&commands[i], option[1], false) != NULL)
      having[found++] = &commands[i];
  }
  text[0] = '\0';
  for (size_t i = 0; i < found && used < size; i++) {
    const char *before = i == 0 ? "" : i + 1 == found ? " and " : ", ";
    used += (size_t)snprintf(text + used, size - used, "%s%s", before, having[i]->name);
  }
}

int cli_unknown_option(const cli_command *command, const char *option)
{
  char name[NAME_LENGTH_MAX], dashed[NAME_LENGTH_MAX], near[160] = "", others[160];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(option, "="), option);
  bool is_long = strncmp(name, "--", 2) == 0;
  find_commands(name, others, sizeof others);
  if (others[0])
    return cli_fail(EXIT_USAGE, "%s: unknown option %s; it is an option of %s", command->name, name, others);
  if (has_dashed(command, name, dashed))
    snprintf(near, sizeof near, "; did you mean %s?", dashed);
  else if (is_long)
    suggest(command, name, near, sizeof near);
  const cli_option_row *row = is_long ? NULL : row_of_letter(command, name[1], true);
  if (row)
    snprintf(near, sizeof near, "; did you mean -%c (--%s)?", row->letter, row->name);
  if (near[0])
    return cli_fail(EXIT_USAGE, "%s: unknown option %s%s", command->name, name, near);
  return cli_fail(EXIT_USAGE, "%s: unknown option %s; see headroom %s --help", command->name, name, command->name);
}

int cli_check_dashes(const cli_command *command, int argc, char **argv)
{
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
    char name[NAME_LENGTH_MAX];
    if (argv[i][0] != '-' || argv[i][1] == '-' || strlen(argv[i]) < 3)
      continue;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argv[i] + 1, "="), argv[i] + 1);
    if (has_long(command, name))
      return cli_fail(EXIT_USAGE, "%s: unknown option -%s; did you mean --%s?", command->name, name, name);
  }
  return CLI_GO_ON;
}
