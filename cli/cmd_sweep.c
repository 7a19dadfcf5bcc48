/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "picture.h"

#include <headroom/experimental/device.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Processes of a launcher divide the share of --shard. */
static hr_sweep_choice make_choice(const cli_run *run, const hr_communicator_options *ranks)
{
  hr_sweep_choice choice = hr_sweep_choice_default();
  choice.points = run->options.points;
  choice.shard = ranks->rank + 1;
  choice.shards = ranks->size;
  if (run->given[CLI_OPTION_shard]) {
    choice.shard =
        run->options.shard.index + ranks->rank * run->options.shard.count; /* every count-th point of the order */
    choice.shards = run->options.shard.count * ranks->size;
  }
  if (run->given[CLI_OPTION_seed])
    choice.seed = (uint64_t)run->options.seed;
  return choice;
}

/* ---- list ---- */

static int list_names(void)
{
  hr_sweep **sweeps;
  size_t count;
  hr_error error = {.status = HR_OK};
  hr_status status = hr_sweep_catalog(false, &sweeps, &count, &error);
  if (status != HR_OK)
    return cli_fail_status(status, &error);
  cli_output output;
  int code = cli_text_open(&output);
  for (size_t i = 0; i < count && code == CLI_GO_ON; i++)
    fprintf(output.stream, "%s\n", hr_sweep_describe(sweeps[i])->name);
  hr_sweep_catalog_free(sweeps, count);
  return code == CLI_GO_ON ? cli_text_close(&output) : code;
}

static int list(const cli_run *run)
{
  cli_output output;
  int code = cli_load_device(run, "cpu", run->hardware);
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code != CLI_GO_ON)
    return code;
  hr_sweep **sweeps = NULL;
  size_t count = 0;
  hr_error error = {.status = HR_OK};
  const hr_communicator_options alone = hr_communicator_options_default();
  hr_sweep_choice choice = make_choice(run, &alone);
  hr_status status =
      hr_sweep_catalog(hr_hardware_describe(run->hardware)->kind == HR_HARDWARE_CPU, &sweeps, &count, &error);
  if (status == HR_OK)
    status = hr_report_sweeps(output.stream, &output.options,
                              &(hr_sweeps_report){.sweeps = sweeps,
                                                  .count = count,
                                                  .choice = &choice,
                                                  .hardware = run->hardware,
                                                  .dtype = cli_dtype(run, run->hardware)},
                              &error);
  hr_sweep_catalog_free(sweeps, count);
  return cli_output_close(&output, status, &error);
}

/* ---- running ---- */

typedef struct sweep_job {
  hr_communicator_options ranks;
  hr_sweep *sweep;
  hr_device *device;
  hr_store *store;
  hr_hardware *rates; /* of the device, probed once for all sweeps; NULL: for each */
  hr_sweep_options options;
  cli_progress progress;
  bool timed; /* a point of the sweeps has a time */
} sweep_job;

static void write_left(char *to, size_t size, double seconds)
{
  if (seconds < 100)
    snprintf(to, size, "%.0f s", seconds);
  else if (seconds < 6000)
    snprintf(to, size, "%.0f min", seconds / 60);
  else
    snprintf(to, size, "%.1f h", seconds / 3600);
}

/* While a point is measured nothing is lost if the process ends: those before it are stored.
 *
 * [#####...............]  12/448  3.1/s  2 min left  1 failed  3 noisy  gemm m=… */
static int report(void *context, const hr_sweep_progress *now)
{
  cli_progress *progress = context;
  cli_measuring(!now->storing);
  if (now->probing)
    progress->idle_s = cli_progress_seconds(progress);
  if (!cli_progress_due(progress) || now->total == 0)
    return cli_interrupted();
  char bar[] = "....................", line[512], left[32] = "", failed[40] = "", noisy[40] = "";
  for (int64_t i = 0; i < 20 * now->done / now->total; i++)
    bar[i] = '#';
  double rate = now->measured > 0 ? (double)now->measured / (cli_progress_seconds(progress) - progress->idle_s) : 0;
  if (rate > 0)
    write_left(left, sizeof left, (double)(now->total - now->done) / rate);
  if (now->failed > 0)
    snprintf(failed, sizeof failed, "  %" PRId64 " failed", now->failed);
  if (now->noisy > 0)
    snprintf(noisy, sizeof noisy, "  %" PRId64 " noisy", now->noisy);
  snprintf(line, sizeof line, "[%s]  %" PRId64 "/%" PRId64 "  %.2g/s%s%s%s%s%s  %s", bar, now->done, now->total, rate,
           left[0] ? "  " : "", left, left[0] ? " left" : "", failed, noisy,
           now->probing ? "probing the device" : now->what);
  cli_progress_show(progress, line);
  return cli_interrupted();
}

/* One note for all processes of a launcher. */
static void choose_dtype(const cli_run *run, sweep_job *job)
{
  const cli_run first = cli_run_of_rank(run, &job->ranks, true);
  bool known = hr_device_detect(job->device, run->hardware, NULL) == HR_OK; /* the reference device has no rates */
  const char *name = known ? hr_hardware_describe(run->hardware)->name : hr_device_name(job->device);
  job->options.dtype = cli_dtype_of(&first, run->hardware, name);
}

static hr_sweep_options make_options(const cli_run *run, sweep_job *job)
{
  hr_sweep_options options = hr_sweep_options_default();
  options.choice = make_choice(run, &job->ranks);
  options.again = run->options.again;
  options.warm = run->options.warm;
  options.kernel = run->options.kernel;
  options.autotune = run->options.autotune;
  options.memory_limit_bytes = run->options.memory_limit << 20;
  options.probe = run->probe;
  options.rates = job->rates;
  options.time_limit_ns = run->options.time_limit * 1e9;
  return options;
}

static void say_how_it_ended(const sweep_job *job, const hr_sweep_progress *now, bool ended)
{
  char who[64] = "";
  if (job->ranks.size > 1)
    snprintf(who, sizeof who, " (rank %" PRId64 " of %" PRId64 ")", job->ranks.rank, job->ranks.size);
  if (ended)
    cli_fail(
        0, "note: %s%s: %" PRId64 " measured (%" PRId64 " failed, %" PRId64 " noisy), %" PRId64 " stored before, in %s",
        hr_sweep_describe(job->sweep)->name, who, now->measured, now->failed, now->noisy, now->skipped,
        hr_store_path(job->store));
  else
    cli_fail(0, "note: %s%s: stopped; %" PRId64 " of %" PRId64 " points are in %s; run the same command to continue",
             hr_sweep_describe(job->sweep)->name, who, now->done, now->total, hr_store_path(job->store));
}

static bool any_time(const hr_sweep_row *rows, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (rows[i].found && rows[i].measurement.samples > 0)
      return true;
  }
  return false;
}

static hr_status write_rows(sweep_job *job, const cli_output *output, hr_error *error)
{
  hr_sweep_row *rows;
  hr_status status = hr_sweep_rows(job->sweep, job->device, job->store, &job->options, &rows, error);
  if (status != HR_OK)
    return status;
  status = hr_report_sweep(
      output->stream, &output->options,
      &(hr_sweep_report){
          .sweep = job->sweep, .rows = rows, .device = hr_device_name(job->device), .dtype = job->options.dtype},
      error);
  job->timed = job->timed || any_time(rows, hr_sweep_describe(job->sweep)->point_count);
  free(rows);
  return status;
}

static int measure(const cli_run *run, sweep_job *job)
{
  hr_error error = {.status = HR_OK};
  hr_sweep_progress outcome = {.total = 0};
  job->progress = cli_progress_begin(run);
  job->progress.enabled =
      job->progress.enabled && job->ranks.rank == 0; /* lines of several processes would overwrite each other */
  job->options.progress = report, job->options.context = &job->progress;
  hr_status status = hr_sweep_run(job->sweep, job->device, job->store, &job->options, &outcome, &error);
  cli_measuring(false);
  cli_progress_end(&job->progress);
  if (!run->options.quiet && (status == HR_OK || outcome.done > 0 || status == HR_ERROR_INTERRUPTED))
    say_how_it_ended(job, &outcome, status == HR_OK);
  if (status == HR_ERROR_NOT_FOUND)
    return cli_fail(EXIT_USAGE, "--kernel: %s", error.message);
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, &error);
}

/* The sweeps to run. On a CPU they have smaller sizes. */
typedef struct sweep_list {
  hr_sweep **sweeps;
  size_t count;
} sweep_list;

/* A hint if a file was meant, such as "gqa.jsn". */
static const char *sweep_hint(const hr_error *error, const char *name)
{
  bool file = access(name, F_OK) == 0 || (strchr(name, '.') && !strchr(name, '/'));
  return file ? "; the name of a sweep file ends in .json or has a /"
              : cli_hint(error, name, "; see headroom sweep list");
}

/* FILE or FILE#NAME. */
static int check_file(const cli_run *run, const char *name)
{
  char path[4096];
  const char *end = strrchr(name, '#');
  snprintf(path, sizeof path, "%.*s", (int)(end ? (size_t)(end - name) : strlen(name)), name);
  return cli_check_input(run, path);
}

/* JSON and CSV hold one sweep; tables can follow each other. */
static int check_several(const cli_run *run)
{
  if (run->options.format == HR_FORMAT_JSON || run->options.format == HR_FORMAT_CSV)
    return cli_fail(EXIT_USAGE,
                    "--format: json and csv write one sweep; headroom results export writes the rows of several");
  return run->options.plot ? cli_fail(EXIT_USAGE, "--plot: draws one sweep; headroom plot draws others from the store")
                           : CLI_GO_ON;
}

static int add(sweep_list *list, hr_sweep *sweep)
{
  hr_sweep **more = realloc(list->sweeps, (list->count + 1) * sizeof *more);
  if (!more) {
    hr_sweep_free(sweep);
    return cli_fail(EXIT_OUTPUT, "out of memory for %zu sweeps", list->count + 1);
  }
  list->sweeps = more;
  list->sweeps[list->count++] = sweep;
  return CLI_GO_ON;
}

/* Whether `name` is that of a figure and `part` one of its parts: fig7 and fig7a. */
static bool is_part_of(const char *part, const char *name)
{
  size_t length = strlen(name);
  return strncmp(part, name, length) == 0 && part[length] >= 'a' && part[length] <= 'z' && !part[length + 1] &&
         length > 0 && strchr("0123456789", name[length - 1]);
}

/* All parts of a figure. */
static int add_parts(const char *name, bool small, sweep_list *list)
{
  hr_sweep **all = NULL;
  size_t count = 0;
  hr_error error = {.status = HR_OK};
  hr_status status = hr_sweep_catalog(small, &all, &count, &error);
  int code = status == HR_OK ? CLI_GO_ON : cli_fail_status(status, &error);
  for (size_t i = 0; i < count && code == CLI_GO_ON; i++) {
    if (!is_part_of(hr_sweep_describe(all[i])->name, name))
      continue;
    code = add(list, all[i]);
    all[i] = NULL;
  }
  hr_sweep_catalog_free(all, count);
  return code;
}

static int add_named(const char *name, bool small, sweep_list *list)
{
  hr_error error = {.status = HR_OK};
  hr_sweep *sweep = NULL;
  size_t before = list->count;
  cli_blocking(true);
  hr_status status = hr_sweep_load(name, small, &sweep, &error);
  cli_blocking(false);
  if (status == HR_OK)
    return add(list, sweep);
  if (status != HR_ERROR_NOT_FOUND)
    return cli_fail_status(status, &error);
  int code = add_parts(name, small, list);
  return code == CLI_GO_ON && list->count == before
             ? cli_fail(EXIT_INPUT, "%s%s", error.message, sweep_hint(&error, name))
             : code;
}

static int load_named(const cli_run *run, bool small, sweep_list *list)
{
  int code = CLI_GO_ON;
  for (int i = 0; i < run->argument_count && code == CLI_GO_ON; i++) {
    code = check_file(run, run->arguments[i]);
    if (code == CLI_GO_ON)
      code = add_named(run->arguments[i], small, list);
  }
  return code == CLI_GO_ON && list->count > 1 ? check_several(run) : code;
}

static int load(const cli_run *run, const hr_device *device, sweep_list *list)
{
  hr_error error = {.status = HR_OK};
  bool small = strncmp(hr_device_name(device), "cuda", 4) != 0;
  if (strcmp(run->arguments[0], "all") != 0)
    return load_named(run, small, list);
  hr_status status = hr_sweep_catalog(small, &list->sweeps, &list->count, &error);
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, &error);
}

/* Draws the rows of the device's product from the store: those that exist when the process ends. */
static int draw(const cli_run *run, const sweep_job *job, int code)
{
  hr_error error = {.status = HR_OK};
  hr_sweep *sizes[2] = {NULL, NULL};
  hr_figure *figure = NULL;
  hr_plot_options options = hr_plot_options_default();
  const hr_plot_source source = {job->store, "results"};
  if (hr_device_detect(job->device, run->hardware, NULL) == HR_OK)
    options.device = hr_hardware_describe(run->hardware)->product;
  options.dtype = hr_dtype_name(job->options.dtype);
  cli_blocking(true); /* the rows are stored and printed */
  hr_status status = hr_sweep_load(run->arguments[0], false, &sizes[0], &error);
  if (status == HR_OK)
    status = hr_sweep_load(run->arguments[0], true, &sizes[1], &error);
  if (status == HR_OK)
    status = hr_figure_of_sweep(sizes[0], sizes[1], &(hr_plot_sources){.list = &source, .count = 1}, &options, &figure,
                                &error);
  cli_blocking(false);
  hr_sweep_free(sizes[0]);
  hr_sweep_free(sizes[1]);
  return cli_plot_after(run, code, status, figure, &error);
}

/* Only the first of several processes prints the rows, those that exist when it ends. */
static int run_sweeps(const cli_run *run, sweep_job *job, const sweep_list *list)
{
  cli_output output;
  hr_error error = {.status = HR_OK};
  hr_status written = HR_OK;
  bool prints = job->ranks.rank == 0;
  int code = prints ? cli_output_open(run, &output) : CLI_GO_ON;
  if (code != CLI_GO_ON)
    return code;
  for (size_t i = 0; i < list->count && code == CLI_GO_ON && written == HR_OK; i++) {
    job->sweep = list->sweeps[i];
    code = measure(run, job);
    if (prints && code == CLI_GO_ON && i > 0)
      fputc('\n', output.stream);
    if (prints && code == CLI_GO_ON)
      written = write_rows(job, &output, &error);
    if (prints)
      fflush(output.stream); /* an interruption while the next sweep is measured leaves it */
  }
  if (!prints)
    return code == CLI_GO_ON ? EXIT_FINE : code;
  if (code != CLI_GO_ON) {
    cli_output_discard(&output);
    return code;
  }
  code = cli_output_close(&output, written, &error);
  if (code == EXIT_FINE && !job->timed && job->ranks.size == 1) /* mpirun would end the other processes */
    return cli_fail(EXIT_UNSUPPORTED, "sweep: no point could be measured; the status of each says why");
  return code == EXIT_FINE && run->options.plot ? draw(run, job, code) : code;
}

static int check_arguments(const cli_run *run)
{
  if (run->argument_count < 1)
    return cli_fail(EXIT_USAGE, "sweep: expected names from `headroom sweep list`, sweep files, `all` or `list`");
  bool several = run->argument_count > 1 || strcmp(run->arguments[0], "all") == 0;
  for (int i = 0; i < run->argument_count && run->argument_count > 1; i++) {
    if (strcmp(run->arguments[i], "list") == 0 || strcmp(run->arguments[i], "all") == 0)
      return cli_fail(EXIT_USAGE, "sweep: %s takes no other name", run->arguments[i]);
  }
  int code = several ? check_several(run) : CLI_GO_ON;
  if (code != CLI_GO_ON)
    return code;
  return run->options.plot || run->given[CLI_OPTION_width] ? cli_check_plot(run) : CLI_GO_ON;
}

int cli_sweep(const cli_run *run)
{
  if (run->options.list)
    return list_names();
  int code = check_arguments(run);
  if (code != CLI_GO_ON)
    return code;
  if (strcmp(run->arguments[0], "list") == 0)
    return list(run);
  sweep_job job = {.rates = NULL};
  code = cli_find_ranks(&job.ranks);
  if (code != CLI_GO_ON)
    return code;
  job.rates = hr_hardware_create();
  sweep_list sweeps = {.sweeps = NULL};
  job.options = make_options(run, &job);
  const cli_run own = cli_run_of_rank(run, &job.ranks, false);
  run = &own;
  code = cli_check_kernel(run);
  if (code == CLI_GO_ON)
    code = cli_open_rank_device(run, &job.ranks, &job.device);
  if (code == CLI_GO_ON)
    code = load(run, job.device, &sweeps);
  if (code == CLI_GO_ON)
    choose_dtype(run, &job);
  if (code == CLI_GO_ON)
    code = cli_open_store(run, HR_STORE_WRITE, &job.store);
  if (code == CLI_GO_ON)
    code = run_sweeps(run, &job, &sweeps);
  hr_store_abandon(job.store); /* removes a new file without rows */
  hr_sweep_catalog_free(sweeps.sweeps, sweeps.count);
  hr_device_close(job.device);
  hr_hardware_free(job.rates);
  return code;
}
