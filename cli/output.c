/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "output_path.h"
#include "output_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Width of text for a file or a pipe. */
#define WIDTH_ELSEWHERE 120
#define WIDTH_MIN 40

int cli_width(int file, int otherwise)
{
  struct winsize size;
  int64_t columns;
  const char *told = getenv("COLUMNS");
  if (isatty(file) && ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    columns = size.ws_col;
  else if (told && told[0] && strspn(told, "0123456789") == strlen(told) && strlen(told) < 6)
    columns = strtol(told, NULL, 10);
  else
    columns = otherwise;
  return columns < WIDTH_MIN ? WIDTH_MIN : (int)columns;
}

/* See https://no-color.org: any value but the empty one disables colours. */
static bool wants_colour(const cli_run *run, int file)
{
  if (run->options.color != CLI_COLOR_AUTO)
    return run->options.color == CLI_COLOR_ALWAYS;
  const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
  return isatty(file) && !(no_color && no_color[0]) && !(term && strcmp(term, "dumb") == 0);
}

static int cannot_write(const cli_output *output, const char *reason)
{
  return cli_fail(EXIT_OUTPUT, "%s: %s", output->name, reason);
}

/* The mode of the file that is replaced, else that of a new file. */
static mode_t mode_for(const char *target)
{
  struct stat about;
  if (stat(target, &about) == 0)
    return about.st_mode & 0777;
  mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

static int open_stream(cli_output *output, int file, bool owned)
{
  output->file = file;
  output->stream = cli_stream_open(file, owned, &output->state);
  if (output->stream)
    return CLI_GO_ON;
  if (owned)
    close(file);
  return cannot_write(output, strerror(ENOMEM));
}

static int open_beside(cli_output *output, const char *path)
{
  output->target = cli_output_target(path);
  output->temporary = output->target ? cli_temporary_beside(output->target) : NULL;
  if (!output->temporary)
    return cannot_write(output, strerror(errno));
  int file = mkstemp(output->temporary);
  if (file < 0) {
    int reason = errno;
    free(output->temporary);
    output->temporary = NULL;
    return cannot_write(output, strerror(reason));
  }
  cli_unfinished(output->temporary);
  fchmod(file, mode_for(output->target));
  return open_stream(output, file, true);
}

/* Writes on where the stream is, as a shell's redirection does. */
static int open_descriptor(cli_output *output, int descriptor)
{
  if (descriptor == STDOUT_FILENO)
    return open_stream(output, STDOUT_FILENO, false);
  int file = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  return file >= 0 ? open_stream(output, file, true) : cannot_write(output, strerror(errno));
}

static int open_file(cli_output *output, const char *path)
{
  struct stat about;
  int descriptor = cli_named_descriptor(path), code = cli_check_file(path);
  if (code != CLI_GO_ON)
    return code;
  if (descriptor >= 0)
    return open_descriptor(output, descriptor);
  if (stat(path, &about) != 0)
    return errno == ENOENT ? open_beside(output, path) : cannot_write(output, strerror(errno));
  if (S_ISREG(about.st_mode))
    return open_beside(output, path);
  int file = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC); /* a device or a pipe, which waits for a reader */
  if (file < 0 && errno == EINTR && cli_interrupted())
    return EXIT_INTERRUPTED;
  return file >= 0 ? open_stream(output, file, true) : cannot_write(output, strerror(errno));
}

static void release(cli_output *output)
{
  if (output->temporary) {
    unlink(output->temporary);
    cli_unfinished(NULL);
  }
  free(output->temporary);
  free(output->target);
  *output = (cli_output){.stream = NULL};
}

int cli_output_open(const cli_run *run, cli_output *output)
{
  const char *path = run->options.output;
  bool to_file = path && strcmp(path, "-") != 0;
  *output = (cli_output){.name = to_file ? path : "standard output"};
  int code = to_file ? open_file(output, path) : open_stream(output, STDOUT_FILENO, false);
  if (code != CLI_GO_ON) {
    release(output);
    return code;
  }
  hr_report_options *options = &output->options;
  *options = hr_report_options_default();
  options->format = run->options.format;
  options->csv = run->options.csv;
  options->verbose = run->options.verbose;
  options->explain = run->options.explain;
  options->colour = wants_colour(run, output->file);
  if (options->colour && options->format == HR_FORMAT_TABLE)
    cli_stream_pass_colours(output->state);
  options->width = cli_width(output->file, WIDTH_ELSEWHERE);
  return CLI_GO_ON;
}

int cli_text_open(cli_output *output)
{
  *output = (cli_output){.name = "standard output"};
  return open_stream(output, STDOUT_FILENO, false);
}

int cli_text_close(cli_output *output)
{
  const hr_error none = {.status = HR_OK};
  return cli_output_close(output, HR_OK, &none);
}

void cli_output_discard(cli_output *output)
{
  fclose(output->stream);
  release(output);
}

/* Closes the stream; returns 0 or the errno of its first failure. */
static int end_stream(cli_output *output)
{
  bool failed = fflush(output->stream) != 0;
  int reason = cli_stream_error(output->state);
  if (reason == 0 && failed)
    reason = EIO;
  if (reason == 0 && output->temporary && fsync(output->file) != 0) /* or a crash could leave the target empty */
    reason = errno;
  errno = 0;
  if (fclose(output->stream) != 0 && reason == 0)
    reason = errno ? errno : EIO;
  return reason;
}

/* Puts the temporary file into the target's place, durably. */
static int replace_target(cli_output *output)
{
  if (rename(output->temporary, output->target) != 0)
    return cannot_write(output, strerror(errno));
  cli_unfinished(NULL);
  free(output->temporary);
  output->temporary = NULL;
  int reason = cli_sync_folder(output->target);
  return reason == 0 ? EXIT_FINE : cannot_write(output, strerror(reason));
}

/* Prints no message if the reader has left or the user has interrupted. */
static int failed_to_write(const cli_output *output, int reason, const char *otherwise)
{
  if (reason == EINTR)
    return EXIT_INTERRUPTED;
  return reason == EPIPE ? EXIT_OUTPUT : cannot_write(output, reason ? strerror(reason) : otherwise);
}

int cli_output_close(cli_output *output, hr_status status, const hr_error *error)
{
  int code = EXIT_FINE, reason = end_stream(output);
  if (status == HR_ERROR_OUTPUT || (status == HR_OK && reason != 0))
    code = failed_to_write(output, reason, error->message);
  else if (status != HR_OK)
    code = cli_fail_status(status, error);
  if (code == EXIT_FINE && output->temporary)
    code = replace_target(output);
  release(output);
  return code;
}
