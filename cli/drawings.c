/* SPDX-License-Identifier: Apache-2.0 */
#include "drawings.h"

#include <headroom/experimental/hardware.h>
#include <string.h>

int cli_resolve_predicted(const cli_run *run, hr_hardware *hardware)
{
  hr_error error = {.status = HR_OK};
  const char *name = run->options.predict;
  hr_status status = hr_resolve_hardware(name, hardware, &error);
  if (status == HR_ERROR_NOT_FOUND)
    return cli_fail(EXIT_USAGE, "--predict: %s%s", error.message, cli_hint(&error, name, "; see headroom devices"));
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, &error);
}

static int end(hr_status status, const hr_error *error)
{
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, error);
}

static int make_heads(const cli_run *run, hr_figure **figure)
{
  hr_error error = {.status = HR_OK};
  hr_model model;
  cli_run rest = *run;
  rest.arguments++;
  rest.argument_count--;
  if (run->options.predict)
    return cli_fail(EXIT_USAGE, "--predict: plot heads draws a model on no device");
  int code = cli_load_model(&rest, &model, NULL);
  if (code != CLI_GO_ON)
    return code;
  hr_workload workload = hr_workload_default(&model);
  if (run->given[CLI_OPTION_dtype] && run->options.dtype != HR_FP8_E4M3) /* fp8: cli_load_model() set the cache */
    workload.dtype = run->options.dtype;
  return end(hr_figure_of_heads(&model, &workload, figure, &error), &error);
}

static int make_tiles(const cli_run *run, hr_figure **figure)
{
  hr_error error = {.status = HR_OK};
  hr_gemm gemm = hr_gemm_default();
  const struct {
    const char *name;
    int64_t *size;
  } sizes[] = {{"M", &gemm.m}, {"N", &gemm.n}, {"K", &gemm.k}};
  if (run->argument_count != 4)
    return cli_fail(EXIT_USAGE, "plot tiles: expected three sizes M N K, found %d", run->argument_count - 1);
  if (!run->options.predict)
    return cli_fail(EXIT_USAGE, "plot tiles: needs the device: --predict h200");
  int code = CLI_GO_ON;
  for (int i = 0; i < 3 && code == CLI_GO_ON; i++)
    code = cli_read_size(sizes[i].name, run->arguments[i + 1], sizes[i].size);
  if (code == CLI_GO_ON)
    code = cli_resolve_predicted(run, run->hardware);
  if (code != CLI_GO_ON)
    return code;
  gemm.dtype = run->given[CLI_OPTION_dtype] ? run->options.dtype : hr_hardware_usual_dtype(run->hardware);
  return end(hr_figure_of_tiles(run->hardware, &gemm, figure, &error), &error);
}

static const struct {
  const char *name;
  int (*make)(const cli_run *run, hr_figure **figure);
} drawings[] = {{"heads", make_heads}, {"tiles", make_tiles}};

#define DRAWING_COUNT (sizeof drawings / sizeof *drawings)

/* The index of the drawing; DRAWING_COUNT: none. */
static size_t drawing_of(const cli_run *run)
{
  size_t i = 0;
  while (i < DRAWING_COUNT && (run->argument_count < 1 || strcmp(run->arguments[0], drawings[i].name) != 0))
    i++;
  return i;
}

bool cli_is_drawing(const cli_run *run)
{
  return drawing_of(run) < DRAWING_COUNT;
}

/* A drawing has no rows. */
static int refuse_rows(const cli_run *run)
{
  static const struct {
    int option;
    const char *name;
  } of_rows[] = {
      {CLI_OPTION_view, "--view"},   {CLI_OPTION_of_series, "--series"},          {CLI_OPTION_of_device, "--device"},
      {CLI_OPTION_peers, "--peers"}, {CLI_OPTION_no_published, "--no-published"}, {CLI_OPTION_db, "--db"}};
  for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows; i++) {
    if (run->given[of_rows[i].option])
      return cli_fail(EXIT_USAGE, "%s: plot %s draws no rows", of_rows[i].name, run->arguments[0]);
  }
  return CLI_GO_ON;
}

int cli_make_drawing(const cli_run *run, hr_figure **figure)
{
  *figure = NULL;
  int code = refuse_rows(run);
  return code == CLI_GO_ON ? drawings[drawing_of(run)].make(run, figure) : code;
}
