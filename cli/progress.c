/* SPDX-License-Identifier: Apache-2.0 */
#include "clean.h"
#include "cli.h"

#include <headroom/experimental/resolve.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GRACE_S 2 /* of a run that nothing can stop */

static volatile sig_atomic_t interrupted, blocking, measuring;
static const char *volatile unfinished; /* a file, or NULL */

/* What ends the process, in their order. */
static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
#define SIGNALS (sizeof signals / sizeof *signals)
static volatile sig_atomic_t noted[SIGNALS];

static void remove_unfinished(void)
{
  if (unfinished)
    unlink(unfinished);
}

/* Whether it is the second one of its kind. */
static bool is_second(int number)
{
  for (size_t i = 0; i < SIGNALS; i++) {
    if (signals[i] != number)
      continue;
    if (noted[i])
      return true;
    noted[i] = 1;
  }
  return false;
}

/* Calls only what is safe in a handler. */
static void note_signal(int number)
{
  if (blocking) {
    remove_unfinished();
    _exit(EXIT_INTERRUPTED);
  }
  if (is_second(number)) { /* ends the process as it would without a handler, behind this one */
    remove_unfinished();
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  interrupted = 1;
  if (measuring)
    alarm(GRACE_S);
}

static void give_up(int number)
{
  (void)number;
  if (!measuring)
    return;
  remove_unfinished();
  _exit(EXIT_INTERRUPTED);
}

void cli_unfinished(const char *path)
{
  unfinished = path;
}

void cli_blocking(bool begins)
{
  if (begins && interrupted) /* the signal came just before */
    exit(EXIT_INTERRUPTED);
  blocking = begins;
}

void cli_measuring(bool begins)
{
  measuring = begins;
  if (!begins)
    alarm(0);
  else if (interrupted) /* the signal came just before */
    alarm(GRACE_S);
}

void cli_catch_signals(void)
{
  struct sigaction late = {.sa_handler = give_up, .sa_flags = SA_RESTART};
  sigemptyset(&late.sa_mask);
  sigaction(SIGALRM, &late, NULL);
  struct sigaction action = {.sa_handler = note_signal};
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < SIGNALS; i++) {
    struct sigaction before;
    if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
      sigaction(signals[i], &action, NULL);
  }
}

bool cli_interrupted(void)
{
  return interrupted != 0;
}

int cli_cancelled(void *context)
{
  (void)context;
  return interrupted != 0;
}

cli_progress cli_progress_begin(const cli_run *run)
{
  cli_progress progress = {.enabled = !run->options.quiet && isatty(STDERR_FILENO)};
  clock_gettime(CLOCK_MONOTONIC, &progress.start);
  return progress;
}

static double seconds_since(const struct timespec *start)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) * 1e-9;
}

double cli_progress_seconds(const cli_progress *progress)
{
  return seconds_since(&progress->start);
}

bool cli_progress_due(const cli_progress *progress)
{
  double seconds = seconds_since(&progress->start);
  return progress->enabled && seconds >= 1 && seconds - progress->last_s >= 0.1;
}

void cli_progress_show(cli_progress *progress, const char *line)
{
  struct winsize size;
  char clean[512 + CLI_CLEAN_MORE]; /* names of sweeps are text from outside */
  cli_cleaner cleaner = {.one_line = true};
  int length = (int)cli_clean(&cleaner, line, strnlen(line, 512), clean);
  int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
  fprintf(stderr, "\r\x1b[K%.*s", length < columns ? length : columns - 1, clean);
  fflush(stderr);
  progress->shown = true;
  progress->last_s = seconds_since(&progress->start);
}

int cli_progress_report(void *context, double done, const char *what)
{
  cli_progress *progress = context;
  if (cli_progress_due(progress)) {
    char line[256];
    snprintf(line, sizeof line, "%3.0f%%  %.0f s  %s", 100 * done, seconds_since(&progress->start), what ? what : "");
    cli_progress_show(progress, line);
  }
  return interrupted != 0;
}

void cli_progress_end(cli_progress *progress)
{
  if (progress->shown)
    fprintf(stderr, "\r\x1b[K");
  progress->shown = false;
}

hr_status cli_rates(const cli_run *run, hr_device *device, hr_hardware *hardware, hr_error *error)
{
  hr_status status = run->probe ? cli_probe(run, device, hardware, error)
                                : hr_resolve_hardware(hr_device_name(device), hardware, error);
  if (status == HR_OK)
    cli_set_conditions(run, hardware);
  return status;
}

hr_status cli_probe(const cli_run *run, hr_device *device, hr_hardware *hardware, hr_error *error)
{
  cli_progress progress = cli_progress_begin(run);
  hr_status status = hr_resolve_probed(device, cli_progress_report, &progress, hardware, error);
  cli_progress_end(&progress);
  return status;
}
