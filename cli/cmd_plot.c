/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "drawings.h"
#include "gnuplot.h"
#include "picture.h"

#include <fcntl.h>
#include <headroom/experimental/hardware.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a picture is made from: the sweep in both sizes, and the places of its rows. */
typedef struct plot_job {
  hr_sweep *sweep, *small;
  hr_plot_source *sources;
  size_t source_count;
  char *peers; /* text of the file */
  hr_plot_options options;
} plot_job;

/* ---- rows: stores, and exported rows in stores of their own ---- */

/* What the legend calls a file: its name without folder and ending; with the folder where two have one name. */
static char *label_of(const char *path, bool whole)
{
  const char *slash = strrchr(path, '/');
  char *label = strdup(slash && !whole ? slash + 1 : path), *dot = label ? strrchr(label, '.') : NULL;
  if (dot && dot > label && !strchr(dot, '/'))
    *dot = '\0';
  return label;
}

static int add_source(const cli_run *run, const char *path, plot_job *job)
{
  hr_plot_source *source = &job->sources[job->source_count];
  int code = cli_open_rows(run, path, &source->store);
  if (code != CLI_GO_ON)
    return code;
  job->source_count++;
  source->label = label_of(path, false);
  return source->label ? CLI_GO_ON : cli_fail(EXIT_OUTPUT, "out of memory for %s", path);
}

/* --db, or the default store if no files are named. Published points and predictions need no store. */
static int add_store(const cli_run *run, plot_job *job)
{
  hr_error error = {.status = HR_OK};
  hr_plot_source *source = &job->sources[job->source_count];
  if (run->options.db)
    return add_source(run, run->options.db, job);
  if (run->argument_count > 1)
    return CLI_GO_ON;
  hr_status status = cli_store_open(NULL, HR_STORE_READ, &source->store, &error);
  if (status != HR_OK)
    return status == HR_ERROR_NOT_FOUND ? CLI_GO_ON : cli_fail_status(status, &error);
  source->label = label_of("results", false);
  job->source_count++;
  return source->label ? CLI_GO_ON : cli_fail(EXIT_OUTPUT, "out of memory");
}

static bool has_namesake(const plot_job *job, size_t index)
{
  for (size_t i = 0; i < job->source_count; i++) {
    if (i != index && strcmp(job->sources[i].label, job->sources[index].label) == 0)
      return true;
  }
  return false;
}

/* The last sources are those of the arguments. */
static int tell_apart(const cli_run *run, plot_job *job)
{
  size_t named = (size_t)run->argument_count - 1, first = job->source_count - named;
  bool alike[64] = {false};
  for (size_t i = 0; i < named && i < 64; i++)
    alike[i] = has_namesake(job, first + i);
  for (size_t i = 0; i < named && i < 64; i++) {
    char *label = alike[i] ? label_of(run->arguments[i + 1], true) : NULL;
    if (alike[i] && !label)
      return cli_fail(EXIT_OUTPUT, "out of memory");
    if (!label)
      continue;
    free((char *)job->sources[first + i].label);
    job->sources[first + i].label = label;
  }
  return CLI_GO_ON;
}

static int open_sources(const cli_run *run, plot_job *job)
{
  job->sources = calloc((size_t)run->argument_count + 1, sizeof *job->sources);
  if (!job->sources)
    return cli_fail(EXIT_OUTPUT, "out of memory for %d files", run->argument_count);
  int code = add_store(run, job);
  for (int i = 1; i < run->argument_count && code == CLI_GO_ON; i++)
    code = add_source(run, run->arguments[i], job);
  return code == CLI_GO_ON ? tell_apart(run, job) : code;
}

/* ---- the sweep and the options ---- */

static int load_sweep(const cli_run *run, plot_job *job)
{
  hr_error error = {.status = HR_OK};
  const char *name = run->arguments[0];
  cli_blocking(true);
  hr_status status = hr_sweep_load(name, false, &job->sweep, &error);
  if (status == HR_OK)
    status = hr_sweep_load(name, true, &job->small, &error);
  cli_blocking(false);
  if (status == HR_ERROR_NOT_FOUND)
    return cli_fail(EXIT_INPUT, "%s%s", error.message, cli_hint(&error, name, "; see headroom sweep list"));
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, &error);
}

static int make_options(const cli_run *run, plot_job *job)
{
  hr_plot_options *options = &job->options;
  *options = hr_plot_options_default();
  if (run->given[CLI_OPTION_view])
    options->view = run->options.view;
  options->device = run->options.of_device;
  options->series = run->options.of_series;
  options->dtype = run->given[CLI_OPTION_dtype] ? hr_dtype_name(run->options.dtype) : NULL;
  options->published = !run->options.no_published;
  if (run->given[CLI_OPTION_dtype])
    options->predicted_dtype = run->options.dtype;
  if (!run->options.predict)
    return CLI_GO_ON;
  int code = cli_resolve_predicted(run, run->hardware);
  options->predicted = run->hardware;
  if (code == CLI_GO_ON && !run->given[CLI_OPTION_dtype])
    options->predicted_dtype = hr_hardware_usual_dtype(run->hardware);
  return code;
}

static int check_format(const cli_run *run, hr_picture *picture)
{
  static const char *const names[] = {"text", "svg", "png", "pdf"};
  const char *format = run->options.picture;
  for (int i = 0; format && i < 4; i++) {
    if (strcmp(format, names[i]) == 0) {
      *picture = (hr_picture)i;
      return CLI_GO_ON;
    }
  }
  return format ? cli_wrong_choice("--format", "svg|png|pdf|text", format)
                : cli_read_picture("output", run->options.output, picture);
}

#define PEERS_MAX ((size_t)16 << 20) /* bytes; a row of a call has about 300 */

static int read_peers(const cli_run *run, plot_job *job)
{
  const char *path = run->options.peers;
  int code = path ? cli_check_input(run, path) : CLI_GO_ON;
  if (code != CLI_GO_ON || !path)
    return code;
  job->peers = calloc(1, PEERS_MAX + 1);
  if (!job->peers)
    return cli_fail(EXIT_OUTPUT, "--peers: %s: out of memory", path);
  hr_error error = {.status = HR_OK};
  cli_blocking(true);
  FILE *in = cli_open_to_read(path);
  size_t length = in ? fread(job->peers, 1, PEERS_MAX + 1, in) : 0;
  hr_status status = !in || ferror(in) ? cli_cannot_read(path, &error) : HR_OK;
  if (in)
    fclose(in);
  cli_blocking(false);
  if (status != HR_OK)
    return cli_fail(status == HR_ERROR_OUT_OF_MEMORY ? EXIT_OUTPUT : EXIT_INPUT, "--peers: %s", error.message);
  if (length > PEERS_MAX || strlen(job->peers) < length)
    return cli_fail(EXIT_INPUT, "--peers: %s: %s", path, length > PEERS_MAX ? "is larger than 16 MiB" : "is no text");
  job->options.peers = job->peers;
  job->options.peers_name = path;
  return CLI_GO_ON;
}

/* ---- the command ---- */

static int write_figure(const cli_run *run, hr_picture picture, hr_figure *figure)
{
  cli_output output;
  int code = cli_output_open(run, &output);
  if (code == CLI_GO_ON)
    code = cli_write_picture(run, &output, picture, figure);
  hr_figure_free(figure);
  return code;
}

static int draw(const cli_run *run, plot_job *job, hr_picture picture)
{
  hr_error error = {.status = HR_OK};
  hr_figure *figure = NULL;
  int code = make_options(run, job);
  if (code == CLI_GO_ON)
    code = read_peers(run, job);
  if (code != CLI_GO_ON)
    return code;
  cli_blocking(true); /* predicts up to 100,000 points */
  hr_status status =
      hr_figure_of_sweep(job->sweep, job->small, &(hr_plot_sources){.list = job->sources, .count = job->source_count},
                         &job->options, &figure, &error);
  cli_blocking(false);
  if (status == HR_ERROR_INVALID)
    return cli_fail(EXIT_USAGE, "%s", error.message);
  if (status != HR_OK)
    return cli_fail_status(status, &error);
  return write_figure(run, picture, figure);
}

static int draw_drawing(const cli_run *run, hr_picture picture)
{
  hr_figure *figure;
  int code = cli_make_drawing(run, &figure);
  return code == CLI_GO_ON ? write_figure(run, picture, figure) : code;
}

static void close_job(plot_job *job)
{
  for (size_t i = 0; i < job->source_count; i++) {
    hr_store_close(job->sources[i].store);
    free((char *)job->sources[i].label);
  }
  free(job->sources);
  free(job->peers);
  hr_sweep_free(job->sweep);
  hr_sweep_free(job->small);
}

int cli_plot(const cli_run *run)
{
  plot_job job = {.sweep = NULL};
  hr_picture picture;
  if (run->argument_count < 1)
    return cli_fail(
        EXIT_USAGE,
        "plot: expected a sweep from `headroom sweep list` or a sweep file, then files of rows; or heads or "
        "tiles");
  int code = check_format(run, &picture);
  if (code == CLI_GO_ON)
    code = cli_check_gnuplot();
  if (code == CLI_GO_ON && cli_is_drawing(run))
    return draw_drawing(run, picture);
  if (code == CLI_GO_ON)
    code = load_sweep(run, &job);
  if (code == CLI_GO_ON)
    code = open_sources(run, &job);
  if (code == CLI_GO_ON)
    code = draw(run, &job, picture);
  close_job(&job);
  return code;
}
