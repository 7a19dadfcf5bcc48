/* The command line: options.inc as popt's tables, and strict values. */
#include "groups.h"
#include "values.h"

#include <popt.h>
#include <stdlib.h>
#include <string.h>

static const cli_option_row rows[] = {
#define CLI_OPTION(groups, member, name, letter, kind, least, most, argument, help) \
  {groups, name, letter, cli_read_##kind, offsetof(cli_options, member), least, most, argument, help},
#include "options.inc"
#undef CLI_OPTION
};

/* popt's tables of the options of a command, one a group; their values are the index of the row plus 1. */
typedef struct option_tables {
  char help[CLI_OPTION_COUNT][160];
  struct poptOption groups[CLI_GROUP_COUNT + 1];
  struct poptOption options[CLI_GROUP_COUNT][CLI_OPTION_COUNT + 1];
} option_tables;

static const char *const headings[CLI_GROUP_COUNT] = {
#define CLI_GROUP(enumerator, bit, heading) [bit] = heading,
    CLI_GROUP_LIST(CLI_GROUP)
#undef CLI_GROUP
};

/* The first group of the command that the option is in, CLI_GROUP_COUNT if none. */
static int group_of(const cli_option_row *row, unsigned groups)
{
  int group = 0;
  while (group < CLI_GROUP_COUNT && (row->groups & groups & (1u << group)) == 0)
    group++;
  return group;
}

/* Whether a part of a help text is "NAME: …". */
static bool is_part_of(const char *part, const char *name)
{
  size_t length = strlen(name);
  return strncmp(part, name, length) == 0 && strncmp(part + length, ": ", 2) == 0;
}

static bool is_part_of_any(const char *part)
{
  static const char *const names[] = {
#define CLI_COMMAND(name, arguments, groups, summary) #name,
#include "commands.inc"
#undef CLI_COMMAND
      "else"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (is_part_of(part, names[i]))
      return true;
  }
  return false;
}

static const char *next_part(const char *part)
{
  const char *end = strstr(part, "; ");
  return end ? end + 2 : NULL;
}

/* The parts of a help text between "; " that this command says: those without a name, and its own or that of "else". */
static void write_help(const char *help, const char *command, char *text, size_t size)
{
  const char *own = "else";
  for (const char *part = help; part; part = next_part(part))
    own = is_part_of(part, command) ? command : own;
  size_t used = 0;
  text[0] = '\0';
  for (const char *part = help, *next; part; part = next) {
    next = next_part(part);
    bool named = is_part_of_any(part);
    if (named && !is_part_of(part, own))
      continue;
    const char *words = named ? part + strlen(own) + 2 : part;
    int length = next ? (int)(next - words) - 2 : (int)strlen(words);
    if (used < size)
      used += (size_t)snprintf(text + used, size - used, "%s%.*s", used > 0 ? "; " : "", length, words);
  }
}

static void fill_tables(option_tables *tables, const cli_command *command)
{
  const struct poptOption end = POPT_TABLEEND;
  struct poptOption *next[CLI_GROUP_COUNT];
  for (int i = 0; i < CLI_GROUP_COUNT; i++)
    next[i] = tables->options[i];
  for (int i = 0; i < CLI_OPTION_COUNT; i++) {
    int group = group_of(&rows[i], command->groups);
    write_help(rows[i].help, command->name, tables->help[i], sizeof tables->help[i]);
    if (group < CLI_GROUP_COUNT)
      *next[group]++ = (struct poptOption){.longName = rows[i].name,
                                           .shortName = rows[i].letter,
                                           .argInfo = rows[i].argument ? POPT_ARG_STRING : POPT_ARG_NONE,
                                           .arg = NULL,
                                           .val = i + 1,
                                           .descrip = tables->help[i],
                                           .argDescrip = rows[i].argument};
  }
  struct poptOption *group = tables->groups;
  for (int i = 0; i < CLI_GROUP_COUNT; i++) {
    *next[i] = end;
    if (next[i] != tables->options[i])
      *group++ =
          (struct poptOption){.argInfo = POPT_ARG_INCLUDE_TABLE, .arg = tables->options[i], .descrip = headings[i]};
  }
  *group = end;
}

static int unknown_option(const cli_command *command, const char *option)
{
  char spelled[CLI_OPTION_COUNT][32];
  const char *names[CLI_OPTION_COUNT];
  size_t count = 0;
  char near[160] = "";
  for (int i = 0; i < CLI_OPTION_COUNT; i++) {
    if (group_of(&rows[i], command->groups) == CLI_GROUP_COUNT)
      continue;
    snprintf(spelled[count], sizeof spelled[count], "--%s", rows[i].name);
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
    const cli_option_row *row = &rows[value - 1];
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

static int run_with(cli_run *run, cli_command_fn function, poptContext context)
{
  static const char *nothing[] = {NULL};
  const char **left = poptGetArgs(context);
  run->arguments = left ? left : nothing;
  while (run->arguments[run->argument_count])
    run->argument_count++;
  return function(run);
}

/* popt's context of a command with its tables, which live as long. NULL: memory ran out. */
static poptContext open_context(option_tables *tables, char *name, size_t size, const cli_command *command, int argc,
                                const char **argv)
{
  fill_tables(tables, command);
  snprintf(name, size, "headroom %s", command->name);
  argv[0] = name; /* the usage line of the help shows it */
  return poptGetContext("headroom", argc, argv, tables->groups, 0);
}

static int print_help(poptContext context, const cli_command *command)
{
  char usage[64];
  snprintf(usage, sizeof usage, "[OPTION...]%s%s", command->arguments[0] ? " " : "", command->arguments);
  poptSetOtherOptionHelp(context, usage);
  printf("headroom %s: %s\n\n", command->name, command->summary);
  poptPrintHelp(context, stdout, 0);
  return cli_flush(stdout);
}

int cli_print_help(const cli_command *command)
{
  option_tables tables;
  char name[48];
  const char *argv[] = {NULL, NULL};
  poptContext context = open_context(&tables, name, sizeof name, command, 1, argv);
  int code = context ? print_help(context, command) : cli_fail(EXIT_OUTPUT, "memory ran out");
  poptFreeContext(context);
  return code;
}

int cli_run_command(const cli_command *command, cli_command_fn function, int argc, const char **argv)
{
  option_tables tables;
  char name[48];
  cli_run run = {.command = command};
  poptContext context = open_context(&tables, name, sizeof name, command, argc, argv);
  if (!context)
    return cli_fail(EXIT_OUTPUT, "memory ran out");
  int code = read_all(&run, context);
  if (code == CLI_GO_ON)
    code = run.options.help ? print_help(context, command) : run_with(&run, function, context);
  poptFreeContext(context);
  for (int i = 0; i < CLI_OPTION_COUNT; i++)
    free(run.texts[i]);
  return code;
}
