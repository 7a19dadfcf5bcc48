/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <headroom/experimental/resolve.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* `headroom compare A B`: each is a store or an export of rows, or a choice of them: FILE, FILE#KEY=TEXT,…, or
 * KEY=TEXT,… of --db. */

typedef struct choice_key {
  const char *name;
  size_t member;
} choice_key;

static const choice_key keys[] = {
    {"device", offsetof(hr_compare_side, device)},     {"dtype", offsetof(hr_compare_side, dtype)},
    {"library", offsetof(hr_compare_side, libraries)}, {"driver", offsetof(hr_compare_side, driver)},
    {"headroom", offsetof(hr_compare_side, program)},  {"host", offsetof(hr_compare_side, host)},
    {"kernel", offsetof(hr_compare_side, kernel)},     {"since", offsetof(hr_compare_side, since)},
    {"until", offsetof(hr_compare_side, until)},
};

#define KEY_COUNT (sizeof keys / sizeof *keys)

/* One argument, cut in place: the sides' texts are parts of `text`. */
typedef struct side {
  char *text;
  const char *file; /* NULL: --db */
  hr_compare_side rows;
  hr_store *store;
} side;

/* The key that "KEY=TEXT" begins with. */
static const choice_key *key_of(const char *text)
{
  for (size_t i = 0; i < KEY_COUNT; i++) {
    size_t length = strlen(keys[i].name);
    if (strncmp(text, keys[i].name, length) == 0 && text[length] == '=')
      return &keys[i];
  }
  return NULL;
}

static int no_such_key(const char *argument, char *part)
{
  const char *names[KEY_COUNT];
  char near[160];
  for (size_t i = 0; i < KEY_COUNT; i++)
    names[i] = keys[i].name;
  part[strcspn(part, "=")] = '\0';
  hr_suggest_names(part, names, KEY_COUNT, near, sizeof near);
  return cli_fail(
      EXIT_USAGE,
      "compare: %s: expected KEY=TEXT with device, dtype, library, driver, headroom, host, kernel, since or "
      "until, found \"%s\"%s",
      argument, part, near);
}

static int read_choice(const char *argument, char *choice, hr_compare_side *rows)
{
  char *rest = NULL;
  for (char *part = strtok_r(choice, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
    const choice_key *key = key_of(part);
    if (!key)
      return no_such_key(argument, part);
    const char *value = part + strlen(key->name) + 1, **member = (const char **)((char *)rows + key->member);
    if (!value[0] || *member)
      return cli_fail(EXIT_USAGE, "compare: %s: %s %s", argument, key->name, *member ? "is given twice" : "is empty");
    *member = value;
  }
  return CLI_GO_ON;
}

/* A file whose name has a '#' is a file. */
static int read_side(const cli_run *run, const char *argument, side *to)
{
  *to = (side){.text = strdup(argument), .rows = hr_compare_side_default()};
  if (!to->text)
    return cli_fail(EXIT_OUTPUT, "out of memory");
  to->rows.name = argument;
  to->rows.sweep = run->options.of_sweep;
  char *mark = access(argument, F_OK) == 0 ? NULL : strrchr(to->text, '#');
  char *choice = mark ? mark + 1 : !key_of(argument) || access(argument, F_OK) == 0 ? NULL : to->text;
  if (mark)
    *mark = '\0';
  to->file = choice == to->text || !to->text[0] ? run->options.db : to->text;
  return choice ? read_choice(argument, choice, &to->rows) : CLI_GO_ON;
}

static int open_side(const cli_run *run, side *s)
{
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): cli_compare() frees the text */
  return s->file ? cli_open_rows(run, s->file, &s->store) : cli_open_stored_rows(run, &s->store);
}

static int write_comparison(const cli_run *run, const hr_compare_result *result)
{
  cli_output output;
  hr_error error = {.status = HR_OK};
  int code = cli_output_open(run, &output);
  if (code != CLI_GO_ON)
    return code;
  hr_status status = hr_report_comparison(output.stream, &output.options, result, &error);
  code = cli_output_close(&output, status, &error);
  if (code != EXIT_FINE)
    return code;
  if (result->count == 0)
    return EXIT_UNSUPPORTED;
  return hr_compare_is_worse(result, run->options.strict) ? EXIT_FINDINGS : EXIT_FINE;
}

static int compare(const cli_run *run, side sides[2])
{
  int code = CLI_GO_ON;
  for (int i = 0; i < 2 && code == CLI_GO_ON; i++)
    code = read_side(run, run->arguments[i], &sides[i]);
  for (int i = 0; i < 2 && code == CLI_GO_ON; i++)
    code = open_side(run, &sides[i]);
  if (code != CLI_GO_ON)
    return code;
  double tolerance = run->given[CLI_OPTION_tolerance] ? run->options.tolerance : HR_COMPARE_TOLERANCE;
  hr_compare_result *result;
  hr_error error = {.status = HR_OK};
  for (int i = 0; i < 2; i++)
    sides[i].rows.store = sides[i].store;
  hr_status status = hr_compare_stores(&sides[0].rows, &sides[1].rows, tolerance, &result, &error);
  if (status == HR_ERROR_INVALID)
    return cli_fail(EXIT_USAGE, "compare: %s", error.message);
  if (status != HR_OK)
    return cli_fail_status(status, &error);
  code = write_comparison(run, result);
  hr_compare_free(result);
  return code;
}

int cli_compare(const cli_run *run)
{
  if (run->argument_count != 2)
    return cli_fail(EXIT_USAGE,
                    "compare: expected two stores, exports or choices of rows, A and B, found %d argument%s",
                    run->argument_count, run->argument_count == 1 ? "" : "s");
  side sides[2] = {{.text = NULL}};
  int code = compare(run, sides);
  for (int i = 0; i < 2; i++) {
    hr_store_close(sides[i].store);
    free(sides[i].text);
  }
  return code;
}
