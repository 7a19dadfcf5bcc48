/* SPDX-License-Identifier: Apache-2.0 */
/* `serve-plan --emit`: what it may stand with, and the model as a server names it. */
#include "serve.h"

#include <string.h>
#include <unistd.h>

int cli_check_emit(cli_run *run)
{
  if (!run->given[CLI_OPTION_emit])
    return CLI_GO_ON;
  if (run->given[CLI_OPTION_format] && run->options.format != HR_FORMAT_TABLE)
    return cli_fail(EXIT_USAGE, "--emit: prints a command line, which has no --format");
  if (run->given[CLI_OPTION_engine] && run->options.engine != run->options.emit)
    return cli_fail(EXIT_USAGE, "--emit %s: the plan is by the rules of --engine %s",
                    hr_serve_engine_name(run->options.emit), hr_serve_engine_name(run->options.engine));
  run->options.engine = run->options.emit, run->given[CLI_OPTION_engine] = true;
  return CLI_GO_ON;
}

/* org/name in the address of a built-in model's configuration; false if it is from elsewhere. */
static bool repository_of(const char *text, char *name, size_t size)
{
  static const char begin[] = "https://huggingface.co/", end[] = "/blob/";
  const char *from = strstr(text, begin), *to = from ? strstr(from, end) : NULL;
  if (!to)
    return false;
  from += strlen(begin);
  snprintf(name, size, "%.*s", (int)(to - from), from);
  return true;
}

/* The model as a server loads it: a repository or a folder. */
int cli_name_served(const cli_run *run, const hr_model *model, char *name, size_t size)
{
  const char *typed = run->arguments[0], config[] = "config.json";
  size_t count, length = strlen(typed), end = sizeof config - 1;
  const hr_catalog_entry *models = hr_catalog_models(&count);
  for (size_t i = 0; i < count && !strchr(typed, '/'); i++) {
    if (strcmp(models[i].name, model->name) == 0 && repository_of(models[i].text, name, size))
      return CLI_GO_ON;
  }
  bool file = length >= end && strcmp(typed + length - end, config) == 0;
  if (typed[0] == '{' || strcmp(typed, "-") == 0 || (!file && !strchr(typed, '/') && access(typed, F_OK) != 0))
    return cli_fail(EXIT_USAGE, "--emit: a server needs a repository, org/name, or a folder, not %.80s", typed);
  snprintf(name, size, "%.*s", (int)(file ? length - end : length), typed);
  if (name[0] == '\0')
    snprintf(name, size, ".");
  return CLI_GO_ON;
}
