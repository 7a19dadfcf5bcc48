/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, closing and removing the file of a store. */
#include "runtime/store/open.h"

#include "base/error.h"
#include "base/struct_size.h"
#include "runtime/store/defence.h"
#include "runtime/store/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_MS 10000

/* SQLite needs to create a journal in the folder, but reports that it cannot only at the first row. */
static hr_status check_folder(const char *path, hr_error *error)
{
  char folder[4096], reason[HR_REASON_SIZE];
  const char *slash = strrchr(path, '/');
  size_t length = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
  if (length >= sizeof folder || faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
    return HR_OK; /* too long for the system, too, or read-only, which SQLite reports */
  snprintf(folder, sizeof folder, "%.*s", length > 0 ? (int)length : 1, length > 0 ? path : ".");
  if (faccessat(AT_FDCWD, folder, W_OK, AT_EACCESS) == 0)
    return HR_OK;
  return hr_fail(error, HR_ERROR_OUTPUT, "%s: its folder cannot be written, which rows need: %s", path,
                 hr_reason(errno, reason));
}

/* Errors that SQLite's messages do not explain. If the file changes afterwards, its messages must do. */
static hr_status check_file(const char *path, hr_store_mode mode, hr_error *error)
{
  struct stat about;
  char reason[HR_REASON_SIZE];
  hr_status failed = mode == HR_STORE_READ ? HR_ERROR_UNREADABLE : HR_ERROR_OUTPUT;
  if (path[0] == '\0')
    return hr_fail(error, HR_ERROR_INVALID, "the store's path is empty");
  if (stat(path, &about) != 0) {
    if (errno == ENOENT)
      return mode == HR_STORE_READ
                 ? hr_fail(error, HR_ERROR_NOT_FOUND, "%s: no such file; nothing is stored there yet", path)
                 : HR_OK;
    return hr_fail(error, failed, "%s: %s", path, hr_reason(errno, reason));
  }
  if (S_ISDIR(about.st_mode))
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is a directory", path);
  if (!S_ISREG(about.st_mode))
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is not a regular file", path);
  if (mode == HR_STORE_READ && about.st_size == 0)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is empty; nothing is stored there yet", path);
  if (about.st_size == 1) /* which SQLite takes for an empty one, and would write to */
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is not a store of results", path);
  return mode == HR_STORE_WRITE ? check_folder(path, error) : HR_OK;
}

/* Reading opens the file for writing, too, where permissions allow it: SQLite then rolls back what a killed writer left
 * unfinished. query_only prevents any other write. */
static hr_status connect(hr_store *store, hr_store_mode mode, hr_error *error)
{
  bool writing = mode != HR_STORE_READ;
  int flags = SQLITE_OPEN_READWRITE | (writing ? SQLITE_OPEN_CREATE : 0);
  /* Names like ":memory:" have a meaning for SQLite; a path with a slash is always a file. */
  size_t size = strlen(store->path) + 3;
  char *name = malloc(size);
  if (!name)
    return hr_store_fail(store, SQLITE_NOMEM, true, error);
  snprintf(name, size, "%s%s", store->path[0] == '/' ? "" : "./", store->path);
  if (mode == HR_STORE_SCRATCH)
    name[0] = '\0'; /* SQLite's name for a private temporary database */
  int code = sqlite3_open_v2(name, &store->database, flags, NULL);
  free(name);
  if (code != SQLITE_OK)
    return hr_store_fail(store, code, writing, error);
  sqlite3_extended_result_codes(store->database, 1);
  hr_status status = hr_store_check_companions(store, error);
  if (status != HR_OK) { /* not a statement may run, also not one that would end an attempt to open it */
    sqlite3_close(store->database);
    store->database = NULL;
    return status;
  }
  HR_TRY(hr_store_defend(store, error));
  HR_TRY(hr_store_prepare_tables(store, writing, error));
  HR_TRY(hr_store_prepare(store, "ROLLBACK", &store->rollback, error)); /* earlier, new tables would have undone it */
  if (writing && sqlite3_db_readonly(store->database, "main") == 1)
    return hr_store_fail(store, SQLITE_READONLY, true, error);
  return writing ? HR_OK : hr_store_execute(store, "PRAGMA query_only = 1", false, error);
}

hr_status hr_store_default_path(char *path, size_t size, hr_error *error)
{
  HR_NEED(error, path);
  const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
  int length;
  if (data && data[0] == '/') /* relative paths are ignored, as the specification demands */
    length = snprintf(path, size, "%s/headroom/results.db", data);
  else if (home && home[0] == '/')
    length = snprintf(path, size, "%s/.local/share/headroom/results.db", home);
  else
    return hr_fail(error, HR_ERROR_INVALID,
                   "no default path for the store: neither XDG_DATA_HOME nor HOME is an absolute path; use --db FILE");
  if (length < 0 || (size_t)length >= size)
    return hr_fail(error, HR_ERROR_INVALID, "XDG_DATA_HOME or HOME is longer than a path can be");
  return HR_OK;
}

/* Creates the missing folders above the file, with access for the user only. */
static hr_status make_folders(const char *file, hr_error *error)
{
  char folder[4096], reason[HR_REASON_SIZE];
  snprintf(folder, sizeof folder, "%s", file);
  for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
      return hr_fail(error, HR_ERROR_OUTPUT, "%s: %s", folder, hr_reason(errno, reason));
    *slash = '/';
  }
  return HR_OK;
}

static bool has_rows(hr_store *store)
{
  sqlite3_stmt *statement;
  if (hr_store_prepare(store, "SELECT 1 FROM results LIMIT 1", &statement, NULL) != HR_OK)
    return true; /* cannot be told */
  int code = sqlite3_step(statement);
  sqlite3_finalize(statement);
  return code != SQLITE_DONE;
}

static bool exists(const char *path)
{
  struct stat about;
  return lstat(path, &about) == 0 || errno != ENOENT;
}

void hr_store_options_init(hr_store_options *options, size_t size)
{
  HR_INIT(options, size, (hr_store_options){.patience_ms = PATIENCE_MS});
}

hr_status hr_store_open(const char *path, hr_store_mode mode, hr_store **store, hr_error *error)
{
  HR_NEED(error, store);
  const hr_store_options options = hr_store_options_default();
  return hr_store_open_with(path, mode, &options, store, error);
}

hr_status hr_store_open_with(const char *path, hr_store_mode mode, const hr_store_options *options, hr_store **store,
                             hr_error *error)
{
  HR_NEED(error, options, store);
  HR_TAKE(hr_store_options, options, error);
  char default_path[4096];
  if (!path) {
    HR_TRY(hr_store_default_path(default_path, sizeof default_path, error));
    if (mode == HR_STORE_WRITE)
      HR_TRY(make_folders(default_path, error));
    path = default_path;
  }
  if (mode != HR_STORE_SCRATCH)
    HR_TRY(check_file(path, mode, error));
  hr_store *opened = calloc(1, sizeof *opened);
  if (opened) {
    opened->path = strdup(path);
    opened->patience_ms = options->patience_ms;
    opened->cancelled = options->cancelled;
    opened->context = options->context;
    opened->created = mode == HR_STORE_WRITE && !exists(path);
  }
  hr_status status = opened && opened->path ? connect(opened, mode, error)
                                            : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory", path);
  if (status != HR_OK) {
    hr_store_abandon(opened);
    return status;
  }
  opened->no_known_rows = mode == HR_STORE_WRITE && !has_rows(opened);
  *store = opened;
  return HR_OK;
}

static void disconnect(hr_store *store)
{
  sqlite3_finalize(store->rollback);
  sqlite3_finalize(store->insert);
  sqlite3_finalize(store->has);
  sqlite3_close(store->database);
}

/* Whether the path no longer names the file that the handle has open. */
static bool has_moved(const hr_store *store)
{
  int moved = 0;
  return sqlite3_file_control(store->database, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

bool hr_store_was_abandoned(const hr_store *store)
{
  return store->no_known_rows && has_moved(store);
}

/* No other process loses rows by this: none can write while the file is locked, and one that writes afterwards
 * recreates the file. Locking an empty file writes to it, which fails on a full disk. */
static void remove_without_rows(hr_store *store)
{
  struct stat about;
  hr_store_set_patience(store, 0);
  store->finishing = true;
  int locked = sqlite3_exec(store->database, "BEGIN EXCLUSIVE", NULL, NULL, NULL);
  bool empty = stat(store->path, &about) == 0 && about.st_size == 0;
  bool ours = locked == SQLITE_OK ? empty || !has_rows(store) : empty && (locked & 0xFF) != SQLITE_BUSY;
  if (ours && !has_moved(store))
    unlink(store->path);
  hr_store_rollback(store, NULL);
}

/* The same for a file that SQLite created and then had no memory to open. The lock is SQLite's exclusive one.
 * Source: sqlite.org/fileformat2.html, 1.4 "The Lock-Byte Page". */
static void remove_unopened(const char *path)
{
  struct stat opened, named;
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0x40000000, .l_len = 512};
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0)
    return;
  if (fcntl(file, F_SETLK, &lock) == 0 && fstat(file, &opened) == 0 && opened.st_size == 0 && stat(path, &named) == 0 &&
      named.st_dev == opened.st_dev && named.st_ino == opened.st_ino)
    unlink(path);
  close(file);
}

static void remove_created(hr_store *store)
{
  if (store->database)
    remove_without_rows(store);
  else
    remove_unopened(store->path);
}

hr_status hr_store_recreate(hr_store *store, hr_error *error)
{
  hr_store created = {.path = store->path,
                      .patience_ms = store->patience_ms,
                      .cancelled = store->cancelled,
                      .context = store->context,
                      .finishing = store->finishing,
                      .created = !exists(store->path)};
  hr_status status = connect(&created, HR_STORE_WRITE, error);
  created.no_known_rows = true;
  if (status != HR_OK && created.created)
    remove_created(&created);
  disconnect(status == HR_OK ? store : &created);
  if (status == HR_OK) {
    *store = created;
    hr_store_set_handlers(store);
  }
  return status;
}

hr_status hr_store_begin(hr_store *store, hr_error *error)
{
  HR_TRY(hr_store_transaction_begin(store, error));
  if (!hr_store_was_abandoned(store)) /* from now on it cannot be: removing the file takes a lock */
    return HR_OK;
  HR_TRY(hr_store_rollback(store, error));
  HR_TRY(hr_store_recreate(store, error));
  return hr_store_transaction_begin(store, error);
}

void hr_store_abandon(hr_store *store)
{
  if (store && store->created && store->path)
    remove_created(store);
  hr_store_close(store);
}

void hr_store_close(hr_store *store)
{
  if (!store)
    return;
  disconnect(store);
  free(store->path);
  free(store);
}

const char *hr_store_path(const hr_store *store)
{
  return store->path;
}

void hr_store_set_patience(hr_store *store, int milliseconds)
{
  store->patience_ms = milliseconds;
}
