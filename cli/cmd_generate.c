/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define USUAL_TOKENS 16

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

static hr_status open_executor(const cli_run *run, hr_device *device, const hr_model *model, int64_t tokens,
                               hr_executor **executor, cli_progress *progress, hr_error *error)
{
  hr_executor_options options = hr_executor_options_default();
  options.tokens = tokens;
  if (run->given[CLI_OPTION_dtype])
    options.dtype = run->options.dtype;
  hr_status status = hr_executor_open(device, model, &options, executor, error);
  if (status == HR_OK)
    status = hr_executor_load(*executor, cli_weights(run, model), 1, cli_progress_report, progress, error);
  return status;
}

static int generate(const cli_run *run, hr_device *device, const hr_model *model, const prompt *from,
                    cli_output *output)
{
  const int64_t count = run->options.new_tokens > 0 ? run->options.new_tokens : USUAL_TOKENS;
  hr_error error = {.status = HR_OK};
  hr_executor *executor = NULL;
  hr_generated *generated = NULL;
  hr_executor_input input = hr_executor_input_default();
  cli_progress progress = cli_progress_begin(run);
  input.tokens = from->count;
  input.ids = from->ids;
  cli_blocking(true); /* nothing is left unfinished */
  hr_status status = open_executor(run, device, model, from->count + count, &executor, &progress, &error);
  if (status == HR_OK)
    status = hr_generate(executor, &input, count, &generated, &error);
  cli_blocking(false);
  cli_progress_end(&progress);
  if (status == HR_OK)
    status = hr_report_generated(output->stream, &output->options, model, generated, &error);
  hr_generated_free(generated);
  hr_executor_close(executor);
  return cli_output_close(output, status, &error);
}

int cli_generate(const cli_run *run)
{
  hr_model model;
  hr_device *device = NULL;
  prompt from = {0, NULL};
  cli_output output;
  int code = cli_load_model(run, &model, NULL);
  if (code == CLI_GO_ON)
    code = cli_set_weights_format(run, &model);
  if (code == CLI_GO_ON)
    code = read_prompt(run, &from);
  if (code == CLI_GO_ON)
    code = cli_open_own_device(run, &device);
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code == CLI_GO_ON)
    code = generate(run, device, &model, &from, &output);
  free(from.ids);
  hr_device_close(device);
  return code;
}
