#include "base/error.h"
#include "runtime/store/database.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_MS 10000

/* ---- failures ---- */

static hr_status failed_with(const hr_store *store, hr_status status, const char *what, hr_error *error)
{
  return hr_fail(error, status, "%s: %s", store->path, what);
}

/* A file that SQLite cannot make it tries to read at last, and tells of that: there is none. */
static int why_not_made(const char *path)
{
  int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0)
    return errno;
  close(file);
  return ENOENT;
}

/* SQLite's own words, with the system's where a call of the system failed. */
static hr_status failed_in_words(const hr_store *store, hr_status status, const char *what, hr_error *error)
{
  char reason[HR_REASON_SIZE];
  int number = sqlite3_system_errno(store->database);
  if (number == ENOENT && status == HR_ERROR_OUTPUT)
    number = why_not_made(store->path);
  return hr_fail(error, status, "%s: %s: %s", store->path, what,
                 number ? hr_reason(number, reason) : sqlite3_errmsg(store->database));
}

hr_status hr_store_failed(const hr_store *store, int code, bool writing, hr_error *error)
{
  hr_status status = writing ? HR_ERROR_OUTPUT : HR_ERROR_UNREADABLE;
  switch (code & 0xFF) {
  case SQLITE_FULL:
    return failed_with(store, HR_ERROR_OUTPUT,
                       store->version > 0 ? "the disk is full; the rows before are kept" : "the disk is full", error);
  case SQLITE_READONLY:
    return failed_with(store, HR_ERROR_OUTPUT,
                       code == SQLITE_READONLY_DBMOVED ? "was moved or removed meanwhile" : "is read-only", error);
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return hr_fail(error, status, "%s: is locked; another process has not let go of it for %g s", store->path,
                   store->patience_ms / 1e3);
  case SQLITE_NOTADB: return failed_with(store, HR_ERROR_UNREADABLE, "is not a store of results", error);
  case SQLITE_CORRUPT: return failed_with(store, HR_ERROR_UNREADABLE, "is damaged", error);
  case SQLITE_NOMEM: return failed_with(store, HR_ERROR_OUT_OF_MEMORY, "memory ran out", error);
  case SQLITE_CANTOPEN:
  case SQLITE_IOERR: return failed_in_words(store, status, writing ? "cannot be written" : "cannot be read", error);
  default: return hr_fail(error, status, "%s: %s", store->path, sqlite3_errmsg(store->database));
  }
}

/* ---- statements ---- */

hr_status hr_store_execute(hr_store *store, const char *sql, bool writing, hr_error *error)
{
  int code = sqlite3_exec(store->database, sql, NULL, NULL, NULL);
  return code == SQLITE_OK ? HR_OK : hr_store_failed(store, code, writing, error);
}

hr_status hr_store_prepare(hr_store *store, const char *sql, sqlite3_stmt **statement, hr_error *error)
{
  int code = sqlite3_prepare_v2(store->database, sql, -1, statement, NULL);
  return code == SQLITE_OK ? HR_OK : hr_store_failed(store, code, false, error);
}

hr_status hr_store_begin(hr_store *store, hr_error *error)
{
  HR_TRY(hr_store_execute(store, "BEGIN IMMEDIATE", true, error));
  if (!hr_store_is_abandoned(store)) /* nor can it be from here on: that takes a lock */
    return HR_OK;
  sqlite3_exec(store->database, "ROLLBACK", NULL, NULL, NULL);
  HR_TRY(hr_store_make_anew(store, error));
  return hr_store_execute(store, "BEGIN IMMEDIATE", true, error);
}

hr_status hr_store_end(hr_store *store, hr_status status, hr_error *error)
{
  if (status == HR_OK)
    status = hr_store_execute(store, "COMMIT", true, error);
  if (status != HR_OK && !sqlite3_get_autocommit(store->database))
    sqlite3_exec(store->database, "ROLLBACK", NULL, NULL, NULL);
  return status;
}

/* ---- opening ---- */

/* SQLite writes a journal beside the file; it says so only when the first row is there. */
static hr_status check_folder(const char *path, hr_error *error)
{
  char folder[4096], reason[HR_REASON_SIZE];
  const char *slash = strrchr(path, '/');
  size_t length = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
  if (length >= sizeof folder || faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
    return HR_OK; /* too long for the system, too, or read-only, which SQLite says */
  snprintf(folder, sizeof folder, "%.*s", length > 0 ? (int)length : 1, length > 0 ? path : ".");
  if (faccessat(AT_FDCWD, folder, W_OK, AT_EACCESS) == 0)
    return HR_OK;
  return hr_fail(error, HR_ERROR_OUTPUT, "%s: rows cannot be written, as its folder cannot: %s", path,
                 hr_reason(errno, reason));
}

/* What SQLite would say nothing clear about. Files may change afterwards; then its words have to do. */
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
                 ? hr_fail(error, HR_ERROR_NOT_FOUND, "%s: no such file; nothing has been stored there yet", path)
                 : HR_OK;
    return hr_fail(error, failed, "%s: %s", path, hr_reason(errno, reason));
  }
  if (S_ISDIR(about.st_mode))
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is a directory", path);
  if (!S_ISREG(about.st_mode))
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is no regular file", path);
  if (mode == HR_STORE_READ && about.st_size == 0)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is empty; nothing has been stored there yet", path);
  return mode == HR_STORE_WRITE ? check_folder(path, error) : HR_OK;
}

/* The mode of reading, too, opens for writing where it may: SQLite then takes back what a killed writer left half done.
 * Nothing else is written, query_only sees to that. */
static hr_status connect(hr_store *store, hr_store_mode mode, hr_error *error)
{
  bool writing = mode != HR_STORE_READ;
  int flags = SQLITE_OPEN_READWRITE | (writing ? SQLITE_OPEN_CREATE : 0);
  /* A name like ":memory:" means something to SQLite; ours are files. */
  size_t size = strlen(store->path) + 3;
  char *name = malloc(size);
  if (!name)
    return failed_with(store, HR_ERROR_OUT_OF_MEMORY, "memory ran out", error);
  snprintf(name, size, "%s%s", store->path[0] == '/' ? "" : "./", store->path);
  if (mode == HR_STORE_SCRATCH)
    name[0] = '\0'; /* SQLite's own name for a database that is nobody else's */
  int code = sqlite3_open_v2(name, &store->database, flags, NULL);
  free(name);
  if (code != SQLITE_OK)
    return hr_store_failed(store, code, writing, error);
  sqlite3_extended_result_codes(store->database, 1);
  hr_store_set_patience(store, PATIENCE_MS);
  HR_TRY(hr_store_execute(store, "PRAGMA trusted_schema = 0; PRAGMA temp_store = MEMORY", writing, error));
  HR_TRY(hr_store_prepare_tables(store, writing, error));
  if (writing && sqlite3_db_readonly(store->database, "main") == 1)
    return hr_store_failed(store, SQLITE_READONLY, true, error);
  return writing ? HR_OK : hr_store_execute(store, "PRAGMA query_only = 1", false, error);
}

hr_status hr_store_default_path(char *path, size_t size, hr_error *error)
{
  HR_NEED(error, path);
  const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
  int length;
  if (data && data[0] == '/') /* the specification has relative ones ignored */
    length = snprintf(path, size, "%s/headroom/results.db", data);
  else if (home && home[0] == '/')
    length = snprintf(path, size, "%s/.local/share/headroom/results.db", home);
  else
    return hr_fail(error, HR_ERROR_INVALID,
                   "there is no place for results: neither XDG_DATA_HOME nor HOME is an absolute path; name a file");
  if (length < 0 || (size_t)length >= size)
    return hr_fail(error, HR_ERROR_INVALID, "XDG_DATA_HOME or HOME is longer than a path can be");
  return HR_OK;
}

/* The folders above the file, as far as they are missing; those that we make are for the user alone. */
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
    return true; /* or not known */
  int code = sqlite3_step(statement);
  sqlite3_finalize(statement);
  return code != SQLITE_DONE;
}

static bool is_there(const char *path)
{
  struct stat about;
  return lstat(path, &about) == 0 || errno != ENOENT;
}

hr_status hr_store_open(const char *path, hr_store_mode mode, hr_store **store, hr_error *error)
{
  HR_NEED(error, store);
  char otherwise[4096];
  if (!path) {
    HR_TRY(hr_store_default_path(otherwise, sizeof otherwise, error));
    if (mode == HR_STORE_WRITE)
      HR_TRY(make_folders(otherwise, error));
    path = otherwise;
  }
  if (mode != HR_STORE_SCRATCH)
    HR_TRY(check_file(path, mode, error));
  hr_store *opened = calloc(1, sizeof *opened);
  if (opened) {
    opened->path = strdup(path);
    opened->made = mode == HR_STORE_WRITE && !is_there(path);
  }
  hr_status status = opened && opened->path ? connect(opened, mode, error)
                                            : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: memory ran out", path);
  if (status != HR_OK) {
    hr_store_abandon(opened);
    return status;
  }
  opened->no_row_seen = mode == HR_STORE_WRITE && !has_rows(opened);
  *store = opened;
  return HR_OK;
}

static void disconnect(hr_store *store)
{
  sqlite3_finalize(store->insert);
  sqlite3_finalize(store->has);
  sqlite3_close(store->database);
}

/* The file at the path is no longer the handle's. */
static bool has_moved(const hr_store *store)
{
  int moved = 0;
  return sqlite3_file_control(store->database, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

bool hr_store_is_abandoned(const hr_store *store)
{
  return store->no_row_seen && has_moved(store);
}

hr_status hr_store_make_anew(hr_store *store, hr_error *error)
{
  hr_store anew = {.path = store->path, .made = !is_there(store->path)};
  hr_status status = connect(&anew, HR_STORE_WRITE, error);
  anew.no_row_seen = true;
  if (status == HR_OK)
    hr_store_set_patience(&anew, store->patience_ms);
  disconnect(status == HR_OK ? store : &anew);
  if (status == HR_OK)
    *store = anew;
  return status;
}

/* Another process that has opened the file meanwhile is not robbed of rows: none comes while it is locked, and who
 * writes to it afterwards makes it anew. Where nothing is in the file yet, locking it writes, for which a full
 * disk has no room. */
static void remove_without_rows(hr_store *store)
{
  struct stat about;
  hr_store_set_patience(store, 0);
  int locked = sqlite3_exec(store->database, "BEGIN EXCLUSIVE", NULL, NULL, NULL);
  bool empty = stat(store->path, &about) == 0 && about.st_size == 0;
  bool ours = locked == SQLITE_OK ? empty || !has_rows(store) : empty && (locked & 0xFF) != SQLITE_BUSY;
  if (ours && !has_moved(store))
    unlink(store->path);
  sqlite3_exec(store->database, "ROLLBACK", NULL, NULL, NULL);
}

void hr_store_abandon(hr_store *store)
{
  if (store && store->made && store->path && store->database)
    remove_without_rows(store);
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
  sqlite3_busy_timeout(store->database, milliseconds);
}
