/* The command line: options.inc as popt's tables, and strict values. */
#include "groups.h"

#include <inttypes.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>

typedef struct option_row option_row;
typedef int (*value_reader)(const option_row *row, const char *text, void *value);

struct option_row {
  unsigned groups;
  const char *name;
  char letter;
  value_reader read;
  size_t offset; /* of the member of cli_options */
  double least, most;
  const char *argument, *help;
};

static int wrong(const option_row *row, const char *expected, const char *text)
{
  return cli_fail(EXIT_USAGE, "--%s: expected %s, found \"%s\"", row->name, expected, text);
}

/* Digits only: no sign, no space, nothing behind. What is too large for 64 bits becomes the largest. */
static bool read_integer(const char *text, int64_t *value)
{
  if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text))
    return false;
  *value = strtoll(text, NULL, 10);
  return true;
}

static int read_FLAG(const option_row *row, const char *text, void *value)
{
  (void)row;
  (void)text;
  *(bool *)value = true;
  return CLI_GO_ON;
}

static int read_TEXT(const option_row *row, const char *text, void *value)
{
  if (text[0] == '\0')
    return wrong(row, "a name", text);
  *(const char **)value = text;
  return CLI_GO_ON;
}

static int read_INTEGER(const option_row *row, const char *text, void *value)
{
  int64_t number;
  if (!read_integer(text, &number) || (double)number < row->least)
    return wrong(row, row->least < 1 ? "an integer of at least 0" : "a positive integer", text);
  if ((double)number > row->most)
    return cli_fail(EXIT_USAGE, "--%s: expected an integer of at most %.0f, found %s", row->name, row->most, text);
  *(int64_t *)value = number;
  return CLI_GO_ON;
}

static int read_NUMBER(const option_row *row, const char *text, void *value)
{
  char *end;
  bool plain = text[0] != '\0' && strspn(text, "0123456789.eE+-") == strlen(text) && strchr("0123456789.", text[0]);
  double number = strtod(text, &end);
  if (plain && *end == '\0' && number >= row->least && number <= row->most) {
    *(double *)value = number;
    return CLI_GO_ON;
  }
  char expected[64];
  snprintf(expected, sizeof expected, "a number from %g to %g", row->least, row->most);
  return wrong(row, expected, text);
}

/* MIN:MAX, MIN:MAX:STEP where the option's argument says so, or one value. */
static int read_RANGE(const option_row *row, const char *text, void *value)
{
  char copy[80];
  int64_t numbers[3] = {0, 0, 0};
  int count = 0, most = strstr(row->argument, "STEP") ? 3 : 2;
  snprintf(copy, sizeof copy, "%s", text);
  bool good = strlen(text) < sizeof copy;
  for (char *part = copy; good && part;) {
    char *colon = strchr(part, ':');
    if (colon)
      *colon++ = '\0';
    good = count < most && read_integer(part, &numbers[count]) && numbers[count] >= 1 &&
           (double)numbers[count] <= row->most;
    count++;
    part = colon;
  }
  if (count == 1)
    numbers[1] = numbers[0];
  if (!good || numbers[0] > numbers[1]) {
    char expected[64];
    snprintf(expected, sizeof expected, "%s of positive integers", row->argument);
    return wrong(row, expected, text);
  }
  *(cli_range *)value = (cli_range){numbers[0], numbers[1], numbers[2]};
  return CLI_GO_ON;
}

/* I/N with 1 ≤ I ≤ N. */
static int read_SHARD(const option_row *row, const char *text, void *value)
{
  char index[24], *slash = strchr(text, '/');
  cli_shard shard = {0, 0};
  size_t length = slash ? (size_t)(slash - text) : sizeof index;
  snprintf(index, sizeof index, "%.*s", (int)(length < sizeof index ? length : 0), text);
  if (!slash || !read_integer(index, &shard.index) || !read_integer(slash + 1, &shard.count) || shard.index < 1 ||
      shard.index > shard.count || shard.count > SHARDS_MOST)
    return wrong(row, shard.count > SHARDS_MOST ? "I/N with N of at most a million" : "I/N with 1 <= I <= N", text);
  *(cli_shard *)value = shard;
  return CLI_GO_ON;
}

static int read_choice(const option_row *row, const char *text, hr_status status)
{
  char expected[96];
  snprintf(expected, sizeof expected, "one of %s", row->argument);
  return status == HR_OK ? CLI_GO_ON : wrong(row, expected, text);
}

static int read_PHASE(const option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_phase_parse(text, value));
}

static int read_ATTENTION(const option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_attention_form_parse(text, value));
}

static int read_LAYOUT(const option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_layout_parse(text, value));
}

static int read_DTYPE(const option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_dtype_parse(text, value));
}

static int read_FORMAT(const option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_format_parse(text, value));
}

static int read_CSV(const option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_csv_table_parse(text, value));
}

static int read_COLOR(const option_row *row, const char *text, void *value)
{
  static const char *const names[] = {
      [CLI_COLOR_AUTO] = "auto", [CLI_COLOR_ALWAYS] = "always", [CLI_COLOR_NEVER] = "never"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(text, names[i]) == 0) {
      *(cli_color *)value = (cli_color)i;
      return CLI_GO_ON;
    }
  }
  return read_choice(row, text, HR_ERROR_NOT_FOUND);
}

static const option_row rows[] = {
#define CLI_OPTION(groups, member, name, letter, kind, least, most, argument, help) \
  {groups, name, letter, read_##kind, offsetof(cli_options, member), least, most, argument, help},
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
static int group_of(const option_row *row, unsigned groups)
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
    const option_row *row = &rows[value - 1];
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

static int run_with(cli_run *run, poptContext context)
{
  static const char *nothing[] = {NULL};
  const char **left = poptGetArgs(context);
  run->arguments = left ? left : nothing;
  while (run->arguments[run->argument_count])
    run->argument_count++;
  return run->command->run(run);
}

static int print_help(poptContext context, const cli_command *command, FILE *out)
{
  char usage[64];
  snprintf(usage, sizeof usage, "[OPTION...]%s%s", command->arguments[0] ? " " : "", command->arguments);
  poptSetOtherOptionHelp(context, usage);
  fprintf(out, "headroom %s: %s\n\n", command->name, command->summary);
  poptPrintHelp(context, out, 0);
  return cli_flush(out);
}

int cli_run_command(const cli_command *command, int argc, const char **argv)
{
  option_tables tables;
  char name[48];
  cli_run run = {.command = command};
  fill_tables(&tables, command);
  snprintf(name, sizeof name, "headroom %s", command->name);
  argv[0] = name; /* the help's usage line shows it */
  poptContext context = poptGetContext("headroom", argc, argv, tables.groups, 0);
  if (!context)
    return cli_fail(EXIT_OUTPUT, "memory ran out");
  int code = read_all(&run, context);
  if (code == CLI_GO_ON)
    code = run.options.help ? print_help(context, command, stdout) : run_with(&run, context);
  poptFreeContext(context);
  for (int i = 0; i < CLI_OPTION_COUNT; i++)
    free(run.texts[i]);
  return code;
}

int cli_read_size(const char *what, const char *text, int64_t *value)
{
  int64_t number;
  if (!read_integer(text, &number) || number < 1)
    return cli_fail(EXIT_USAGE, "%s: expected a positive integer, found \"%s\"", what, text);
  if (number > SIZE_MOST)
    return cli_fail(EXIT_USAGE, "%s: expected an integer of at most %" PRId64 ", found %s", what, (int64_t)SIZE_MOST,
                    text);
  *value = number;
  return CLI_GO_ON;
}
