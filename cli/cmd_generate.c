/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A prompt of ids, which the caller frees. */
typedef struct prompt {
  int64_t count;
  int32_t *ids;
} prompt;

static int64_t count_ids(const char *text)
{
  int64_t count = 1;
  for (const char *at = text; *at; at++)
    count += *at == ',';
  return count;
}

static int wrong_id(const char *text)
{
  return cli_fail(EXIT_USAGE, "--prompt-ids: expected ids such as 1,2,3, found \"%.*s\"", (int)strcspn(text, ","),
                  text);
}

/* "1,2,3" */
static int read_prompt(const cli_run *run, prompt *to)
{
  const char *text = run->options.prompt_ids;
  if (!text)
    return cli_fail(EXIT_USAGE, "generate: needs --prompt-ids, the prompt as rows of the token embedding");
  to->ids = malloc((size_t)count_ids(text) * sizeof *to->ids);
  if (!to->ids)
    return cli_fail(EXIT_OUTPUT, "not enough memory for the prompt");
  for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    char *end;
    errno = 0;
    const long long id = strtoll(at, &end, 10);
    if (end == at || (*end != ',' && *end != '\0') || errno != 0 || id < 0 || id > INT32_MAX)
      return wrong_id(at);
    to->ids[to->count++] = (int32_t)id;
  }
  return CLI_GO_ON;
}

/* ---- the command ---- */

typedef struct generate_job {
  hr_model model;
  prompt from;
  hr_communicator_options ranks;
  hr_device *device;
  hr_communicator *communicator; /* NULL: one process */
} generate_job;

static int64_t ranks_of(const cli_run *run)
{
  const int64_t t = run->options.tensor_parallel, p = run->options.pipeline_stages;
  return t > 1 ? t : p > 1 ? p : 1;
}

/* `output`: NULL for a rank that prints nothing. */
static int generate(const cli_run *run, const generate_job *job, cli_output *output)
{
  hr_error error = {.status = HR_OK};
  hr_generated *generated = NULL;
  hr_generate_options options = hr_generate_options_default();
  cli_progress progress = cli_progress_begin(run);
  options.prompt = job->from.ids;
  options.prompt_count = job->from.count;
  if (run->options.new_tokens > 0)
    options.count = run->options.new_tokens;
  if (run->given[CLI_OPTION_dtype])
    options.dtype = run->options.dtype;
  options.weights = cli_weights(run, &job->model);
  options.progress = cli_progress_report;
  options.context = &progress;
  if (run->options.tensor_parallel > 0)
    options.tensor_parallel = run->options.tensor_parallel;
  options.expert_parallel = run->options.expert_parallel;
  if (run->options.pipeline_stages > 0)
    options.pipeline_stages = run->options.pipeline_stages;
  options.communicator = job->communicator;
  cli_blocking(true); /* nothing is left unfinished */
  hr_status status = hr_generate_on(job->device, &job->model, &options, &generated, &error);
  cli_blocking(false);
  cli_progress_end(&progress);
  if (status == HR_OK && output)
    status = hr_report_generated(output->stream, &output->options, &job->model, generated, &error);
  hr_generated_free(generated);
  return cli_leave_ranks(job->communicator, output, status, &error);
}

static int open_job(const cli_run *run, generate_job *job)
{
  int code = cli_load_model(run, &job->model, NULL);
  if (code == CLI_GO_ON)
    code = cli_set_weights_format(run, &job->model);
  if (code == CLI_GO_ON)
    code = read_prompt(run, &job->from);
  if (code == CLI_GO_ON)
    code = cli_check_ranks(&job->ranks, ranks_of(run));
  if (code == CLI_GO_ON)
    code = cli_open_rank_device(run, &job->ranks, &job->device);
  return code == CLI_GO_ON ? cli_join_ranks(&job->ranks, job->device, &job->communicator) : code;
}

int cli_generate(const cli_run *given)
{
  generate_job job = {.from = {0, NULL}};
  cli_output output;
  int code = cli_find_ranks(&job.ranks);
  const cli_run own = cli_run_of_rank(given, &job.ranks, true), *run = &own;
  const bool prints = job.ranks.rank == 0;
  if (code == CLI_GO_ON)
    code = open_job(run, &job);
  if (code == CLI_GO_ON && prints)
    code = cli_output_open(run, &output);
  if (code == CLI_GO_ON)
    code = generate(run, &job, prints ? &output : NULL);
  free(job.from.ids);
  hr_communicator_free(job.communicator);
  hr_device_close(job.device);
  return code;
}
