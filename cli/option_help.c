/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a command as text: `headroom COMMAND --help`. */
#include "groups.h"
#include "option_table.h"

#include <string.h>
#include <unistd.h>

#define WIDTH_ELSEWHERE 80
#define HELP_COLUMN 28
#define HELP_SIZE 1200

/* A part of a help text is no longer than the whole. */
#define CLI_OPTION(group, member, long_name, short_name, kind, least, most, argument, help) \
  _Static_assert(sizeof(help) <= HELP_SIZE, "the help of " #member " is cut");
#include "options.inc"
#undef CLI_OPTION

static const char *const headings[CLI_GROUP_COUNT] = {
#define CLI_GROUP(enumerator, bit, heading) [bit] = heading,
    CLI_GROUP_LIST(CLI_GROUP)
#undef CLI_GROUP
};

/* Whether a part of a help text is "NAME: …". */
static bool is_part_of(const char *part, const char *name)
{
  size_t length = strlen(name);
  return strncmp(part, name, length) == 0 && strncmp(part + length, ": ", 2) == 0;
}

static bool is_part_of_any(const char *part)
{
  static const char *const names[] = {
#define CLI_COMMAND(identifier, name, arguments, groups, summary) name,
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

/* The parts of a help text that apply to a command: those without a name, and its own or else that of "else". */
static void select_parts(const char *help, const char *command, char *text, size_t size)
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

void cli_print_words(FILE *out, const char *text, int indent, int column)
{
  int width = cli_width(STDOUT_FILENO, WIDTH_ELSEWHERE) - 1;
  while (*text) {
    int length = (int)strcspn(text, " ");
    bool first = column <= indent;
    if (column < indent)
      column += fprintf(out, "%*s", indent - column, "");
    if (!first && column + 1 + length > width) {
      fprintf(out, "\n%*s", indent, "");
      column = indent;
      first = true;
    }
    column += fprintf(out, "%s%.*s", first ? "" : " ", length, text);
    text += length;
    text += strspn(text, " ");
  }
  fprintf(out, "\n");
}

static void print_option(FILE *out, const cli_option_row *row, const char *command)
{
  char help[HELP_SIZE], letter[8] = "    ";
  select_parts(row->help, command, help, sizeof help);
  if (row->letter)
    snprintf(letter, sizeof letter, "-%c, ", row->letter);
  int column =
      fprintf(out, "  %s--%s%s%s", letter, row->name, row->argument ? " " : "", row->argument ? row->argument : "");
  if (column > HELP_COLUMN - 2) {
    fprintf(out, "\n");
    column = 0;
  }
  cli_print_words(out, help, HELP_COLUMN, column);
}

static const struct {
  const char *command, *text, *line;
} examples[] = {
#define CLI_EXAMPLE(command, text, line) {command, text, line},
#include "examples.inc"
#undef CLI_EXAMPLE
};

static void print_examples(FILE *out, const cli_command *command)
{
  fprintf(out, "\nExamples:\n");
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    if (strcmp(examples[i].command, command->name) == 0)
      fprintf(out, "  # %s\n  %s\n", examples[i].text, examples[i].line);
  }
}

static void print_synonym_hint(FILE *out, const cli_command *command)
{
  for (int i = 0; i < CLI_SYNONYM_COUNT; i++) {
    if (cli_has_synonym(command, &cli_synonyms[i])) {
      fprintf(out, "\nSome options have other names, such as --%s: headroom help names\n", cli_synonyms[i].name);
      return;
    }
  }
}

/* Whether a row before has the same names, for another command's option. */
static bool is_repeated(int index)
{
  const cli_synonym *synonym = &cli_synonyms[index];
  for (int i = 0; i < index; i++) {
    if (strcmp(cli_synonyms[i].name, synonym->name) == 0 &&
        strcmp(cli_option_rows[cli_synonyms[i].row].name, cli_option_rows[synonym->row].name) == 0)
      return true;
  }
  return false;
}

void cli_print_synonyms(FILE *out)
{
  fprintf(out, "%-30s  %-20s  %s\n", "name", "option", "as in");
  for (int i = 0; i < CLI_SYNONYM_COUNT; i++) {
    const char *option = cli_option_rows[cli_synonyms[i].row].name;
    if (!is_repeated(i))
      fprintf(out, "--%-28s  --%-18s  %s\n", cli_synonyms[i].name, option, cli_synonyms[i].users);
  }
}

static void print_help(FILE *out, const cli_command *command)
{
  fprintf(out, "headroom %s: %s\n\nUsage: headroom %s [OPTION...]%s%s\n", command->name, command->summary,
          command->name, command->arguments[0] ? " " : "", command->arguments);
  for (int group = 0; group < CLI_GROUP_COUNT; group++) {
    bool headed = false;
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
      if (cli_group_of(&cli_option_rows[i], command->groups) != group)
        continue;
      if (!headed)
        fprintf(out, "\n%s\n", headings[group]);
      headed = true;
      print_option(out, &cli_option_rows[i], command->name);
    }
  }
  print_examples(out, command);
  print_synonym_hint(out, command);
}

int cli_print_help(const cli_command *command)
{
  cli_output output;
  int code = cli_text_open(&output);
  if (code != CLI_GO_ON)
    return code;
  print_help(output.stream, command);
  return cli_text_close(&output);
}
