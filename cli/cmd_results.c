/* SPDX-License-Identifier: Apache-2.0 */
#include "option_table.h"

#include <headroom/experimental/resolve.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHOICE = 1, OUTPUT = 2, YES = 4 };

/* `headroom results ACTION`: one row an action, with the number of its arguments: an id or files. */
typedef struct action {
  const char *name;
  int least, most; /* number of arguments */
  const char *expected;
  unsigned uses; /* of the options; others are refused */
  int (*run)(const cli_run *run, const hr_result_filter *filter, int count, const char **arguments);
} action;

static int list(const cli_run *run, const hr_result_filter *filter, int count, const char **arguments);
static int show(const cli_run *run, const hr_result_filter *filter, int count, const char **arguments);
static int export(const cli_run *run, const hr_result_filter *filter, int count, const char **arguments);
static int import(const cli_run *run, const hr_result_filter *filter, int count, const char **arguments);
static int merge(const cli_run *run, const hr_result_filter *filter, int count, const char **arguments);
static int delete (const cli_run *run, const hr_result_filter *filter, int count, const char **arguments);

static const action actions[] = {
    {"list", 0, 0, "no argument (the store is --db FILE)", CHOICE | OUTPUT, list},
    {"show", 1, 1, "one id", OUTPUT, show},
    {"export", 0, 0, "no argument (the store is --db FILE)", CHOICE | OUTPUT, export},
    {"import", 1, INT16_MAX, "a file, or - for standard input", OUTPUT, import},
    {"merge", 1, INT16_MAX, "the file of another store", OUTPUT, merge},
    {"delete", 0, 1, "one id", CHOICE | YES, delete},
};

#define ACTION_COUNT (sizeof actions / sizeof *actions)

/* ---- list, show, export ---- */

typedef hr_status (*write_rows)(const cli_run *run, hr_store *store, const hr_result_filter *filter,
                                const cli_output *output, hr_error *error);

/* Opens the store and the output for `write`. */
static int write_from_store(const cli_run *run, const hr_result_filter *filter, write_rows write)
{
  hr_store *store;
  cli_output output;
  int code = cli_open_store(run, HR_STORE_READ, &store);
  if (code != CLI_GO_ON)
    return code;
  code = cli_output_open(run, &output);
  if (code == CLI_GO_ON) {
    hr_error error = {.status = HR_OK};
    hr_status status = write(run, store, filter, &output, &error);
    code = cli_output_close(&output, status, &error);
  }
  hr_store_close(store);
  return code;
}

static hr_status write_list(const cli_run *run, hr_store *store, const hr_result_filter *filter,
                            const cli_output *output, hr_error *error)
{
  (void)run;
  return hr_report_results(output->stream, &output->options, store, filter, error);
}

static int list(const cli_run *run, const hr_result_filter *filter, int count, const char **arguments)
{
  (void)count;
  (void)arguments;
  return write_from_store(run, filter, write_list);
}

static int keep_row(void *context, const hr_result *result)
{
  *(hr_result *)context = *result;
  return 0;
}

/* The one row whose id begins with `id`. */
static int find_row(hr_store *store, const char *id, hr_result *result)
{
  hr_error error = {.status = HR_OK};
  hr_result_filter filter = hr_result_filter_default();
  filter.id = id;
  int64_t count = 0;
  hr_status status = hr_store_count(store, &filter, &count, &error);
  if (status == HR_OK && count > 1)
    return cli_fail(EXIT_USAGE, "id: %" PRId64 " rows have an id that begins with %s; give more digits", count, id);
  if (status == HR_OK && count == 0)
    return cli_fail(EXIT_INPUT, "%s: no row has the id %s", hr_store_path(store), id);
  if (status == HR_OK)
    status = hr_store_query(store, &filter, keep_row, result, &error);
  if (status == HR_ERROR_INVALID)
    return cli_fail(EXIT_USAGE, "%s", error.message);
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, &error);
}

static int show(const cli_run *run, const hr_result_filter *filter, int count, const char **arguments)
{
  (void)filter;
  (void)count;
  hr_store *store;
  hr_result result;
  cli_output output;
  int code = cli_open_store(run, HR_STORE_READ, &store);
  if (code != CLI_GO_ON)
    return code;
  code = find_row(store, arguments[0], &result);
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code == CLI_GO_ON) {
    hr_error error = {.status = HR_OK};
    hr_status status = hr_report_result(output.stream, &output.options, &result, &error);
    code = cli_output_close(&output, status, &error);
  }
  hr_store_close(store);
  return code;
}

static hr_status write_export(const cli_run *run, hr_store *store, const hr_result_filter *filter,
                              const cli_output *output, hr_error *error)
{
  if (run->options.format == HR_FORMAT_MARKDOWN)
    return hr_report_results(output->stream, &output->options, store, filter, error);
  hr_store_format format = run->options.format == HR_FORMAT_JSON ? HR_STORE_JSON_LINES : HR_STORE_CSV;
  return hr_store_export(store, filter, format, output->stream, error);
}

static int export(const cli_run *run, const hr_result_filter *filter, int count, const char **arguments)
{
  (void)count;
  (void)arguments;
  if (run->given[CLI_OPTION_format] && run->options.format == HR_FORMAT_TABLE)
    return cli_fail(EXIT_USAGE, "results export: --format is csv (the default), json (JSON Lines) or markdown");
  return write_from_store(run, filter, write_export);
}

/* ---- import, merge ---- */

static hr_status import_one(hr_store *store, const char *path, hr_store_change *change, hr_error *error)
{
  bool standard_input = strcmp(path, "-") == 0;
  FILE *in = standard_input ? stdin : cli_open_to_read(path);
  if (!in)
    return cli_cannot_read(path, error);
  hr_status status = hr_store_import(store, in, standard_input ? "standard input" : path, change, error);
  if (!standard_input)
    fclose(in);
  return status;
}

typedef hr_status (*take_one)(hr_store *store, const char *path, hr_store_change *change, hr_error *error);

/* The store; if it does not exist a scratch store, so that a refused file does not create it. */
static int open_to_take(const cli_run *run, hr_store **store, bool *scratch)
{
  hr_store *there;
  hr_status found = cli_store_open(run->options.db, HR_STORE_READ, &there, NULL);
  if (found == HR_OK)
    hr_store_close(there);
  *scratch = found == HR_ERROR_NOT_FOUND;
  return cli_open_store(run, *scratch ? HR_STORE_SCRATCH : HR_STORE_WRITE, store);
}

static int keep_scratch(const cli_run *run, hr_store *scratch)
{
  hr_store *store;
  hr_error error = {.status = HR_OK};
  hr_status status = hr_store_open(run->options.db, HR_STORE_WRITE, &store, &error);
  if (status != HR_OK)
    return cli_fail_status(status, &error);
  status =
      hr_store_copy(store, scratch, NULL, &error); /* to its end, also after an interruption: this part is complete */
  hr_store_abandon(store);                         /* removes a new store if the rows could not be copied */
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, &error);
}

/* The files of an import or a merge, in order, each added completely or not at all. */
typedef struct taking {
  int count, taken;
  const char **paths;
  hr_store_change *changes;
  hr_status status; /* of the file that was refused, with its `error` */
  hr_error error;
} taking;

static int take_files(const cli_run *run, taking *t, take_one take)
{
  hr_store *store;
  bool scratch;
  int code = open_to_take(run, &store, &scratch);
  if (code != CLI_GO_ON)
    return code;
  while (t->taken < t->count && t->status == HR_OK && !cli_interrupted()) {
    t->status = take(store, t->paths[t->taken], &t->changes[t->taken], &t->error);
    t->taken += t->status == HR_OK;
  }
  if (scratch && t->taken > 0)
    code = keep_scratch(run, store);
  hr_store_close(store);
  return code;
}

/* Reports the files that were added, even if a later one was refused. */
static int report_taken(cli_output *output, const taking *t)
{
  hr_error error = {.status = HR_OK};
  hr_status status =
      t->taken > 0 ? hr_report_changes(output->stream, &output->options, t->paths, t->changes, (size_t)t->taken, &error)
                   : HR_OK;
  int code = cli_output_close(output, status, &error);
  return code == EXIT_FINE && t->status == HR_OK && t->taken < t->count ? EXIT_INTERRUPTED : code;
}

/* The output is opened before the store changes. */
static int take_and_report(const cli_run *run, taking *t, take_one take)
{
  cli_output output;
  int code = cli_output_open(run, &output);
  if (code != CLI_GO_ON)
    return code;
  code = take_files(run, t, take);
  if (code == CLI_GO_ON)
    return report_taken(&output, t);
  cli_output_discard(&output);
  return code;
}

static int take_all(const cli_run *run, int count, const char **paths, take_one take)
{
  for (int i = 0; i < count; i++) {
    int checked = cli_check_input(run, paths[i]);
    if (checked != CLI_GO_ON)
      return checked;
  }
  taking t = {.count = count, .paths = paths, .status = HR_OK, .error = {.status = HR_OK}};
  t.changes = calloc((size_t)count, sizeof *t.changes);
  if (!t.changes)
    return cli_fail(EXIT_OUTPUT, "out of memory");
  int code = take_and_report(run, &t, take);
  free(t.changes);
  return t.status == HR_OK ? code : cli_fail_status(t.status, &t.error);
}

static int import(const cli_run *run, const hr_result_filter *filter, int count, const char **arguments)
{
  (void)filter;
  return take_all(run, count, arguments, import_one);
}

static int merge(const cli_run *run, const hr_result_filter *filter, int count, const char **arguments)
{
  (void)filter;
  return take_all(run, count, arguments, hr_store_merge);
}

/* ---- delete ---- */

static bool has_filter(const hr_result_filter *filter)
{
  return filter->sweep || filter->device || filter->since || filter->only_status || filter->last > 0;
}

static const char *plural(int64_t count)
{
  return count == 1 ? "" : "s";
}

static int count_to_delete(const cli_run *run, hr_store *store, const hr_result_filter *filter)
{
  hr_error error = {.status = HR_OK};
  int64_t count = 0;
  hr_status status = hr_store_count(store, filter, &count, &error);
  if (status == HR_OK && !filter->id && !run->options.yes)
    return cli_fail(EXIT_USAGE, "results delete: this would delete %" PRId64 " row%s%s; add --yes, or give an id",
                    count, plural(count), has_filter(filter) ? "" : ", all of the store");
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, &error);
}

/* The output is opened first: nothing that can fail but the write itself follows the deletion. */
static int delete_rows(const cli_run *run, hr_store *store, const hr_result_filter *filter)
{
  cli_output output;
  hr_error error = {.status = HR_OK};
  int64_t count = 0;
  int code = count_to_delete(run, store, filter);
  if (code == CLI_GO_ON)
    code = cli_text_open(&output);
  if (code != CLI_GO_ON)
    return code;
  hr_status status = hr_store_delete(store, filter, &count, &error);
  if (status != HR_OK) {
    cli_output_discard(&output);
    return cli_fail_status(status, &error);
  }
  if (!run->options.quiet)
    fprintf(output.stream, "%" PRId64 " row%s deleted\n", count, plural(count));
  return cli_text_close(&output);
}

static int delete (const cli_run *run, const hr_result_filter *filter, int count, const char **arguments)
{
  hr_store *store, *reader;
  hr_result result;
  hr_result_filter chosen = *filter;
  int code = cli_open_store(run, HR_STORE_READ, &reader); /* fails if it does not exist; writing would create it */
  if (code != CLI_GO_ON)
    return code;
  if (count > 0)
    code = has_filter(filter)
               ? cli_fail(EXIT_USAGE, "results delete: expected an id or options that choose rows, not both")
               : find_row(reader, arguments[0], &result);
  hr_store_close(reader);
  chosen.id = count > 0 ? result.id : NULL;
  if (code == CLI_GO_ON)
    code = cli_open_store(run, HR_STORE_WRITE, &store);
  if (code != CLI_GO_ON)
    return code;
  code = delete_rows(run, store, &chosen);
  hr_store_close(store);
  return code;
}

/* ---- the command line ---- */

static int make_filter(const cli_run *run, hr_result_filter *filter)
{
  *filter = hr_result_filter_default();
  filter->sweep = run->options.of_sweep;
  filter->device = run->options.of_device;
  filter->since = run->options.since;
  filter->last = run->options.last;
  filter->only_status = run->options.of_status != NULL;
  if (filter->only_status && hr_status_parse(run->options.of_status, &filter->status) != HR_OK) {
    const char *names[HR_STATUS_COUNT];
    char near[160];
    for (int i = 0; i < HR_STATUS_COUNT; i++)
      names[i] = hr_status_name((hr_status)i);
    hr_suggest_names(run->options.of_status, names, HR_STATUS_COUNT, near, sizeof near);
    return cli_fail(EXIT_USAGE, "--status: there is no status \"%s\"%s", run->options.of_status, near);
  }
  hr_error error = {.status = HR_OK};
  return hr_result_filter_check(filter, &error) == HR_OK ? CLI_GO_ON : cli_fail(EXIT_USAGE, "--%s", error.message);
}

static int check_options(const cli_run *run, const action *a)
{
  static const struct {
    int option;
    unsigned use;
  } options[] = {{CLI_OPTION_output, OUTPUT},    {CLI_OPTION_format, OUTPUT}, {CLI_OPTION_of_sweep, CHOICE},
                 {CLI_OPTION_of_device, CHOICE}, {CLI_OPTION_since, CHOICE},  {CLI_OPTION_of_status, CHOICE},
                 {CLI_OPTION_last, CHOICE},      {CLI_OPTION_yes, YES}};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    if (run->given[options[i].option] && !(a->uses & options[i].use))
      return cli_fail(EXIT_USAGE, "results %s: takes no --%s", a->name, cli_option_rows[options[i].option].name);
  }
  return CLI_GO_ON;
}

int cli_results(const cli_run *run)
{
  static const char names[] = "list|show|export|import|merge|delete";
  if (run->argument_count == 0)
    return cli_fail(EXIT_USAGE, "results: expected one of %s", names);
  const char *name = run->arguments[0];
  int count = run->argument_count - 1;
  for (size_t i = 0; i < ACTION_COUNT; i++) {
    if (strcmp(actions[i].name, name) != 0)
      continue;
    if (count < actions[i].least || count > actions[i].most)
      return cli_fail(EXIT_USAGE, "results %s: expected %s, found %s%s%s", name, actions[i].expected,
                      count == 0 ? "none" : "\"", count == 0 ? "" : run->arguments[count], count == 0 ? "" : "\"");
    hr_result_filter filter;
    int code = check_options(run, &actions[i]);
    if (code == CLI_GO_ON)
      code = make_filter(run, &filter);
    return code == CLI_GO_ON ? actions[i].run(run, &filter, count, run->arguments + 1) : code;
  }
  return cli_wrong_choice("results", names, name);
}
