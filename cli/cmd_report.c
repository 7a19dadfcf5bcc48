/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* `headroom report RESULTS…`: the rows of all files in one store in memory, and the findings of --models. */

#define MODELS_MAX 16

typedef struct page_work {
  hr_store *rows;
  const hr_advice *advice[MODELS_MAX];
  size_t advice_count;
} page_work;

/* The rows of --db or of the default store. */
static int add_stored_rows(const cli_run *run, hr_store *rows)
{
  hr_store *from;
  hr_error error = {.status = HR_OK};
  if (run->options.db)
    return cli_add_rows(run, run->options.db, rows);
  int code = cli_open_store(run, HR_STORE_READ, &from);
  if (code != CLI_GO_ON)
    return code;
  hr_status status = hr_store_copy(rows, from, NULL, &error);
  hr_store_close(from);
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, &error);
}

/* Findings of --models need no rows: without any, a default store that does not exist is none. */
static bool has_stored_rows(const cli_run *run)
{
  hr_store *store;
  if (run->given[CLI_OPTION_db] || !run->options.models)
    return true;
  hr_status status = cli_store_open(NULL, HR_STORE_READ, &store, NULL);
  if (status == HR_OK)
    hr_store_close(store);
  return status != HR_ERROR_NOT_FOUND;
}

static int add_all(const cli_run *run, hr_store *rows)
{
  int code = CLI_GO_ON;
  if ((run->argument_count == 0 && has_stored_rows(run)) || run->given[CLI_OPTION_db])
    code = add_stored_rows(run, rows);
  for (int i = 0; i < run->argument_count && code == CLI_GO_ON; i++)
    code = cli_add_rows(run, run->arguments[i], rows);
  return code;
}

/* ---- findings ---- */

static int advise_one(const cli_run *run, const char *name, page_work *work)
{
  cli_run own = *run;
  const char *arguments[] = {name, NULL};
  hr_model model;
  hr_workload workload;
  hr_advice *advice;
  hr_error error = {.status = HR_OK};
  own.arguments = arguments;
  own.argument_count = 1;
  int code = cli_load_model(&own, &model, NULL);
  if (code == CLI_GO_ON)
    code = cli_make_workload(&own, &model, &workload);
  if (code == CLI_GO_ON)
    code = cli_load_device(&own, "cpu", run->hardware);
  if (code != CLI_GO_ON)
    return code;
  cli_set_formats(&own, run->hardware, &workload);
  hr_status status = hr_advise(run->hardware, &model, &workload, &advice, &error);
  if (status != HR_OK)
    return cli_fail_status(status, &error);
  work->advice[work->advice_count++] = advice;
  return CLI_GO_ON;
}

static int advise_all(const cli_run *run, page_work *work)
{
  char *names = run->options.models ? strdup(run->options.models) : NULL, *rest = NULL;
  int code = run->options.models && !names ? cli_fail(EXIT_OUTPUT, "out of memory") : CLI_GO_ON;
  for (char *name = names ? strtok_r(names, ",", &rest) : NULL; name && code == CLI_GO_ON;
       name = strtok_r(NULL, ",", &rest)) {
    if (work->advice_count == MODELS_MAX)
      code = cli_fail(EXIT_USAGE, "--models: more than %d models", MODELS_MAX);
    else
      code = advise_one(run, name, work);
  }
  free(names);
  return code;
}

/* ---- the page ---- */

static int write_page(const cli_run *run, page_work *work)
{
  cli_output output;
  hr_error error = {.status = HR_OK};
  int code = cli_output_open(run, &output);
  if (code != CLI_GO_ON)
    return code;
  hr_page page = hr_page_default();
  page.sources = run->arguments;
  page.source_count = (size_t)run->argument_count;
  page.advice = work->advice;
  page.advice_count = work->advice_count;
  if (run->options.title)
    page.title = run->options.title;
  hr_status status = hr_report_page(output.stream, &output.options, work->rows, &page, &error);
  return cli_output_close(&output, status, &error);
}

int cli_report(const cli_run *run)
{
  page_work work = {.rows = NULL};
  hr_error error = {.status = HR_OK};
  if (run->given[CLI_OPTION_format] && run->options.format != HR_FORMAT_HTML)
    return cli_fail(EXIT_USAGE, "report: --format is html; results export writes csv and json");
  hr_status status = cli_store_open("the rows of the report", HR_STORE_SCRATCH, &work.rows, &error);
  if (status != HR_OK)
    return cli_fail_status(status, &error);
  int code = advise_all(run, &work);
  if (code == CLI_GO_ON)
    code = add_all(run, work.rows);
  if (code == CLI_GO_ON)
    code = write_page(run, &work);
  for (size_t i = 0; i < work.advice_count; i++)
    hr_advice_free((hr_advice *)(uintptr_t)work.advice[i]);
  hr_store_close(work.rows);
  return code;
}
