/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)256 << 20)

/* The whole file, which the caller frees; "-" is standard input. */
static int read_all(const char *path, char **text, size_t *length)
{
  bool standard = strcmp(path, "-") == 0;
  FILE *file = standard ? stdin : fopen(path, "rb");
  size_t size = 0, capacity = (size_t)1 << 16;
  char *bytes = malloc(capacity);
  if (!file) {
    free(bytes);
    return cli_fail(EXIT_USAGE, "--from: %s: %s", path, strerror(errno));
  }
  while (bytes && size < FILE_BYTES_MAX) {
    size += fread(bytes + size, 1, capacity - size, file);
    if (size < capacity)
      break;
    char *more = realloc(bytes, capacity *= 2);
    if (!more)
      free(bytes);
    bytes = more;
  }
  bool failed = ferror(file) != 0;
  if (!standard)
    fclose(file);
  if (bytes && !failed && size < FILE_BYTES_MAX) {
    *text = bytes, *length = size;
    return CLI_GO_ON;
  }
  free(bytes);
  if (failed)
    return cli_fail(EXIT_USAGE, "--from: %s: cannot be read", path);
  return size >= FILE_BYTES_MAX ? cli_fail(EXIT_USAGE, "--from: %s: expected less than 256 MiB", path)
                                : cli_fail(EXIT_OUTPUT, "out of memory");
}

int cli_validate(const cli_run *run)
{
  const cli_options *given = &run->options;
  hr_hardware hardware;
  hr_validate_options options = hr_validate_options_default();
  hr_validation *validation = NULL;
  hr_error error = {.status = HR_OK};
  cli_output output;
  char *text = NULL;
  size_t length = 0;
  if (run->argument_count > 0)
    return cli_fail(EXIT_USAGE, "validate: expected no argument, found \"%s\"", run->arguments[0]);
  if (!given->from)
    return cli_fail(EXIT_USAGE, "validate: --from FILE.csv names the measured rows");
  if (run->given[CLI_OPTION_framework])
    options.framework = given->framework;
  options.cache_writes = given->cache_writes;
  int code = cli_load_device(run, "h200", &hardware);
  if (code == CLI_GO_ON)
    code = read_all(given->from, &text, &length);
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code == CLI_GO_ON) {
    hr_status status = hr_validate_csv(&hardware, text, length, given->from, &options, &validation, &error);
    if (status == HR_OK)
      status = hr_report_validation(output.stream, &output.options, &hardware, validation, &error);
    code = cli_output_close(&output, status, &error);
  }
  hr_validation_free(validation);
  free(text);
  return code;
}
