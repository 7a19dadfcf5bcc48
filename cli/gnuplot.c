/* SPDX-License-Identifier: Apache-2.0 */
/* gnuplot reads the script from a temporary file as its standard input and writes the picture and its messages to two
 * others, which have no names: nothing blocks, no shell takes part, and what is killed leaves nothing behind. */
#include "gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "gnuplot"

extern char **environ;

typedef struct drawing {
  FILE *script, *picture, *messages;
} drawing;

static hr_status failed(hr_error *error, hr_status status, const char *what, const char *reason)
{
  error->status = status;
  snprintf(error->message, sizeof error->message, "%s: %s", what, reason);
  return status;
}

static bool is_program(const char *folder, size_t length)
{
  char path[4096];
  if (length == 0 || length + sizeof "/" PROGRAM > sizeof path)
    return false;
  snprintf(path, sizeof path, "%.*s/" PROGRAM, (int)length, folder);
  return access(path, X_OK) == 0;
}

static bool is_on_path(void)
{
  const char *path = getenv("PATH");
  for (const char *at = path; at && *at;) {
    size_t length = strcspn(at, ":");
    if (is_program(at, length))
      return true;
    at += length + (at[length] == ':');
  }
  return false;
}

int cli_check_gnuplot(void)
{
  if (is_on_path())
    return CLI_GO_ON;
  return cli_fail(EXIT_UNSUPPORTED, "pictures are drawn by gnuplot, which is not on the PATH (Debian: gnuplot-nox)");
}

static bool open_files(drawing *files)
{
  *files = (drawing){tmpfile(), NULL, NULL};
  files->picture = files->script ? tmpfile() : NULL;
  files->messages = files->picture ? tmpfile() : NULL;
  return files->messages != NULL;
}

static void close_files(drawing *files)
{
  if (files->script)
    fclose(files->script);
  if (files->picture)
    fclose(files->picture);
  if (files->messages)
    fclose(files->messages);
}

static int start(const drawing *files, pid_t *child)
{
  char *const arguments[] = {PROGRAM, "--default-settings", "-", NULL}; /* no start-up files */
  posix_spawn_file_actions_t actions;
  int reason = posix_spawn_file_actions_init(&actions);
  if (reason != 0)
    return reason;
  reason = posix_spawn_file_actions_adddup2(&actions, fileno(files->script), STDIN_FILENO);
  if (reason == 0)
    reason = posix_spawn_file_actions_adddup2(&actions, fileno(files->picture), STDOUT_FILENO);
  if (reason == 0)
    reason = posix_spawn_file_actions_adddup2(&actions, fileno(files->messages), STDERR_FILENO);
  if (reason == 0)
    reason = posix_spawnp(child, PROGRAM, &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  return reason;
}

/* Waits for gnuplot, which an interruption ends. */
static int wait_for(pid_t child)
{
  int outcome;
  while (waitpid(child, &outcome, 0) < 0) {
    if (errno != EINTR)
      return -1;
    if (cli_interrupted())
      kill(child, SIGTERM);
  }
  return WIFEXITED(outcome) ? WEXITSTATUS(outcome) : -1;
}

/* gnuplot's first line that is not empty, the position in the script, which nobody can see, or a marker of it. */
static hr_status explain(FILE *messages, hr_error *error)
{
  char line[160], text[160] = "it gave no reason";
  rewind(messages);
  while (fgets(line, sizeof line, messages)) {
    line[strcspn(line, "\n")] = '\0';
    if (line[strspn(line, " ^\t")])
      snprintf(text, sizeof text, "%s", line + strspn(line, " \t"));
  }
  return failed(error, HR_ERROR_BACKEND, "gnuplot could not draw the picture", text);
}

static bool copy_bytes(FILE *from, FILE *to)
{
  char bytes[16384];
  size_t count;
  bool any = false;
  while ((count = fread(bytes, 1, sizeof bytes, from)) > 0) {
    any = true;
    if (fwrite(bytes, 1, count, to) < count)
      break; /* the stream's owner says why */
  }
  return any;
}

/* The text terminal begins with a form feed and empty lines and fills every line with spaces: a picture between lines
 * of text has one empty line before it, and no spaces at the ends of lines. */
static bool copy_text(FILE *from, FILE *to)
{
  char line[4096]; /* a line has at most 160 characters */
  bool any = false;
  while (fgets(line, sizeof line, from)) {
    const char *text = line + strspn(line, "\f");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \n", text[length - 1]))
      length--;
    if (length == 0 && !any)
      continue;
    if (!any)
      fputc('\n', to);
    any = true;
    fwrite(text, 1, length, to);
    fputc('\n', to);
  }
  return any;
}

static hr_status copy(FILE *from, FILE *to, bool text, hr_error *error)
{
  rewind(from);
  if (!(text ? copy_text(from, to) : copy_bytes(from, to)))
    return failed(error, HR_ERROR_BACKEND, "gnuplot", "the picture is empty");
  return ferror(from) ? failed(error, HR_ERROR_OUTPUT, "temporary file", strerror(errno)) : HR_OK;
}

static hr_status draw(drawing *files, FILE *out, const hr_figure_options *options, const hr_figure *figure,
                      hr_error *error)
{
  hr_status status = hr_figure_write_gnuplot(files->script, options, figure, error);
  if (status != HR_OK)
    return status;
  if (fflush(files->script) != 0)
    return failed(error, HR_ERROR_OUTPUT, "temporary file", strerror(errno));
  rewind(files->script);
  pid_t child;
  int reason = start(files, &child);
  if (reason != 0)
    return failed(error,
                  reason == ENOENT   ? HR_ERROR_UNAVAILABLE
                  : reason == ENOMEM ? HR_ERROR_OUT_OF_MEMORY
                                     : HR_ERROR_BACKEND,
                  "gnuplot", strerror(reason));
  int outcome = wait_for(child);
  if (cli_interrupted())
    return failed(error, HR_ERROR_INTERRUPTED, "gnuplot", "stopped");
  return outcome == 0 ? copy(files->picture, out, options->picture == HR_PICTURE_TEXT, error)
                      : explain(files->messages, error);
}

hr_status cli_run_gnuplot(FILE *out, const hr_figure_options *options, const hr_figure *figure, hr_error *error)
{
  drawing files;
  hr_status status = open_files(&files) ? draw(&files, out, options, figure, error)
                                        : failed(error, HR_ERROR_OUTPUT, "temporary file", strerror(errno));
  close_files(&files);
  return status;
}
