/* SPDX-License-Identifier: Apache-2.0 */
/* Rows to read: of stores, and of exports in stores in memory. */
#include "cli.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static bool is_store(const char *path)
{
  static const char magic[16] = "SQLite format 3";
  char begin[sizeof magic];
  int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  bool is =
      file >= 0 && read(file, begin, sizeof begin) == (ssize_t)sizeof begin && memcmp(begin, magic, sizeof magic) == 0;
  if (file >= 0)
    close(file);
  return is;
}

static hr_status import_rows(const char *path, hr_store *store, hr_error *error)
{
  FILE *in = strcmp(path, "-") == 0 ? stdin : cli_open_to_read(path);
  if (!in)
    return cli_cannot_read(path, error);
  hr_status status = hr_store_import(store, in, in == stdin ? "standard input" : path, NULL, error);
  if (in != stdin)
    fclose(in);
  return status;
}

static hr_status open_rows(const char *path, hr_store **store, hr_error *error)
{
  if (is_store(path))
    return cli_store_open(path, HR_STORE_READ, store, error);
  hr_status status = cli_store_open(path, HR_STORE_SCRATCH, store, error);
  return status == HR_OK ? import_rows(path, *store, error) : status;
}

static hr_status copy_rows(const char *path, hr_store *store, hr_error *error)
{
  hr_store *from;
  hr_status status = cli_store_open(path, HR_STORE_READ, &from, error);
  if (status != HR_OK)
    return status;
  status = hr_store_copy(store, from, NULL, error);
  hr_store_close(from);
  return status;
}

int cli_add_rows(const cli_run *run, const char *path, hr_store *store)
{
  hr_error error = {.status = HR_OK};
  int code = cli_check_input(run, path);
  if (code != CLI_GO_ON)
    return code;
  cli_blocking(true);
  hr_status status = is_store(path) ? copy_rows(path, store, &error) : import_rows(path, store, &error);
  cli_blocking(false);
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, &error);
}

int cli_open_rows(const cli_run *run, const char *path, hr_store **store)
{
  hr_error error = {.status = HR_OK};
  *store = NULL;
  int code = cli_check_input(run, path);
  if (code != CLI_GO_ON)
    return code;
  cli_blocking(true);
  hr_status status = open_rows(path, store, &error);
  cli_blocking(false);
  if (status == HR_OK)
    return CLI_GO_ON;
  hr_store_close(*store);
  *store = NULL;
  return cli_fail_status(status, &error);
}

int cli_open_stored_rows(const cli_run *run, hr_store **store)
{
  return run->options.db ? cli_open_rows(run, run->options.db, store) : cli_open_store(run, HR_STORE_READ, store);
}
