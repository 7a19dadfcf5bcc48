/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the files that a command line names for writing can be written, and none of them is lost. */
#include "cli.h"
#include "output_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct named_file {
  const char *option, *path; /* path: NULL if not given */
} named_file;

#define WRITTEN_COUNT 4

/* What the options name for writing. */
static void list_written(const cli_run *run, named_file list[WRITTEN_COUNT])
{
  const cli_options *o = &run->options;
  const named_file all[WRITTEN_COUNT] = {
      {"output", o->output}, {"output-file", o->output_file}, {"plot", o->plot}, {"write", o->write}};
  memcpy(list, all, sizeof all);
}

static int cannot_write(const char *path, const char *reason)
{
  return cli_fail(EXIT_OUTPUT, "%s: %s", path, reason);
}

/* ---- one file ---- */

/* Whether it is an SQLite file: a store is not replaced by a table. -1 with errno: it cannot be read. */
static int is_database(const char *path)
{
  char begin[16];
  int file = open(path, O_RDONLY | O_CLOEXEC); /* a stream needs memory, and without it a store would be replaced */
  if (file < 0)
    return -1;
  ssize_t size = read(file, begin, sizeof begin);
  int reason = errno;
  close(file);
  errno = reason;
  return size < 0 ? -1 : size == sizeof begin && memcmp(begin, "SQLite format 3", sizeof begin) == 0;
}

/* It is replaced by a new file of its folder. */
static int check_replaced(const char *path)
{
  char *target = cli_output_target(path);
  int reason = target ? cli_check_folder(target) : errno;
  free(target);
  return reason == 0 ? CLI_GO_ON : cannot_write(path, strerror(reason));
}

static int check_regular(const char *path)
{
  int database = is_database(path);
  if (database < 0)
    return cli_fail(EXIT_OUTPUT, "%s: cannot be read, so it may be a database: %s", path, strerror(errno));
  return database ? cannot_write(path, "is a database and is not overwritten") : check_replaced(path);
}

static int check_descriptor(const char *path, int descriptor)
{
  int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0)
    return cannot_write(path, strerror(errno));
  return (flags & O_ACCMODE) == O_RDONLY ? cannot_write(path, "is not open for writing") : CLI_GO_ON;
}

static bool is_stream(const char *path)
{
  return strcmp(path, "-") == 0 || cli_named_descriptor(path) >= 0;
}

int cli_check_file(const char *path)
{
  struct stat about;
  if (is_stream(path))
    return strcmp(path, "-") == 0 ? CLI_GO_ON : check_descriptor(path, cli_named_descriptor(path));
  if (stat(path, &about) != 0)
    return errno == ENOENT ? check_replaced(path) : cannot_write(path, strerror(errno));
  if (S_ISREG(about.st_mode))
    return check_regular(path);
  if (S_ISDIR(about.st_mode))
    return cannot_write(path, strerror(EISDIR));
  return access(path, W_OK) == 0 ? CLI_GO_ON : cannot_write(path, strerror(errno));
}

/* ---- two files ---- */

/* Whether standard output goes to the regular file that `path` names. */
static bool is_redirected_to(const char *path)
{
  struct stat out, about;
  return fstat(STDOUT_FILENO, &out) == 0 && S_ISREG(out.st_mode) && stat(path, &about) == 0 &&
         out.st_dev == about.st_dev && out.st_ino == about.st_ino;
}

static bool is_clash(const named_file *one, const named_file *other)
{
  return one->path && other->path && !is_stream(one->path) && !is_stream(other->path) &&
         cli_is_same_file(one->path, other->path);
}

/* Whether the later of two results would replace the other. */
static int check_pairs(const cli_run *run, const named_file list[WRITTEN_COUNT])
{
  const named_file store = {"db", run->options.db};
  for (size_t i = 0; i < WRITTEN_COUNT; i++) {
    for (size_t j = 0; j < i; j++) {
      if (is_clash(&list[i], &list[j]))
        return cli_fail(EXIT_USAGE, "--%s: %s is the file of --%s", list[i].option, list[i].path, list[j].option);
    }
    if (is_clash(&list[i], &store))
      return cli_fail(EXIT_USAGE, "--%s: %s is the file of --db", list[i].option, list[i].path);
    if (list[i].path && !is_stream(list[i].path) && is_redirected_to(list[i].path))
      return cli_fail(EXIT_USAGE, "--%s: %s is the file of standard output", list[i].option, list[i].path);
  }
  return CLI_GO_ON;
}

static int check_written(const cli_run *run)
{
  named_file list[WRITTEN_COUNT];
  int code = CLI_GO_ON;
  list_written(run, list);
  for (size_t i = 0; i < WRITTEN_COUNT && code == CLI_GO_ON; i++)
    code = list[i].path ? cli_check_file(list[i].path) : CLI_GO_ON;
  return code == CLI_GO_ON ? check_pairs(run, list) : code;
}

static bool is_input(const char *path, const struct stat *out)
{
  struct stat in;
  int failed = strcmp(path, "-") == 0 ? fstat(STDIN_FILENO, &in) : stat(path, &in);
  return !failed && S_ISREG(in.st_mode) && in.st_dev == out->st_dev && in.st_ino == out->st_ino;
}

static int check_input(const char *output, const char *path)
{
  struct stat out;
  if (!output || !path || is_stream(output))
    return CLI_GO_ON;
  if (stat(output, &out) != 0)
    return errno == ENOENT ? CLI_GO_ON : cannot_write(output, strerror(errno));
  return is_input(path, &out) ? cannot_write(output, "is an input of the command and is not overwritten") : CLI_GO_ON;
}

int cli_check_input(const cli_run *run, const char *path)
{
  named_file list[WRITTEN_COUNT];
  int code = CLI_GO_ON;
  list_written(run, list);
  for (size_t i = 0; i < WRITTEN_COUNT && code == CLI_GO_ON; i++)
    code = check_input(list[i].path, path);
  return code;
}

/* ---- the command line ---- */

static bool writes_html(const cli_run *run)
{
  static const char *const commands[] = {"advise", "compare", "layer", "report", "search"};
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    if (strcmp(run->command->name, commands[i]) == 0)
      return true;
  }
  return false;
}

int cli_check_output(const cli_run *run)
{
  if (run->options.format == HR_FORMAT_HTML && !writes_html(run))
    return cli_fail(EXIT_USAGE, "--format html: only advise, compare, layer, report and search write HTML");
  return check_written(run);
}
