/* SPDX-License-Identifier: Apache-2.0 */
#include "vfs.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
  sqlite3_vfs layer, *real;
  vfs_call call;
  int at, calls, failures;
  bool armed, again;
  vfs_log *log;
  char folder[256];
  int files, named[2]; /* the file that has the name of the database, of its journal */
} state;

typedef struct layered_file {
  sqlite3_file base;
  int number; /* −1: changes are not remembered */
  bool journal;
  sqlite3_file real[]; /* of the real layer's size */
} layered_file;

static const struct {
  const char *name;
  int code;
} calls[] = {
#define VFS_ROW(enumerator, name, code) {name, code},
    VFS_CALL_LIST(VFS_ROW)
#undef VFS_ROW
};

const char *vfs_call_name(vfs_call call)
{
  return calls[call].name;
}

/* ---- failures ---- */

void vfs_fail(vfs_call call, int at, bool again)
{
  state.call = call;
  state.at = at;
  state.again = again;
  state.calls = state.failures = 0;
  state.armed = true;
}

bool vfs_mend(void)
{
  state.armed = false;
  return state.failures > 0;
}

static bool fails(vfs_call call)
{
  if (!state.armed || state.call != call)
    return false;
  state.calls++;
  bool now = state.again ? state.calls >= state.at : state.calls == state.at;
  state.failures += now;
  return now;
}

/* ---- the record ---- */

void vfs_record(vfs_log *log, const char *folder)
{
  state.log = log;
  state.named[0] = state.named[1] = -1;
  strncpy(state.folder, folder, sizeof state.folder - 1);
}

static void remember(vfs_change change, const void *bytes)
{
  vfs_log *log = state.log;
  if (!log)
    return;
  if (log->count == log->capacity) {
    log->capacity = 2 * log->capacity + 256;
    log->changes = realloc(log->changes, log->capacity * sizeof *log->changes);
    if (!log->changes)
      abort();
  }
  if (bytes) {
    change.bytes = malloc((size_t)change.size);
    if (!change.bytes)
      abort();
    memcpy(change.bytes, bytes, (size_t)change.size);
  }
  log->changes[log->count++] = change;
}

void vfs_mark(uint64_t mark)
{
  remember((vfs_change){.kind = VFS_MARK, .mark = mark}, NULL);
}

void vfs_log_free(vfs_log *log)
{
  for (size_t i = 0; i < log->count; i++)
    free(log->changes[i].bytes);
  free(log->changes);
  *log = (vfs_log){.changes = NULL};
}

static bool is_remembered(const char *name)
{
  return state.log && name && strncmp(name, state.folder, strlen(state.folder)) == 0;
}

static bool is_journal(const char *name)
{
  size_t length = strlen(name);
  return length > 8 && strcmp(name + length - 8, "-journal") == 0;
}

static void remember_file(layered_file *file, vfs_change change, const void *bytes)
{
  change.file = file->number;
  change.journal = file->journal;
  if (file->number >= 0)
    remember(change, bytes);
}

/* ---- files ---- */

#define REAL(file) (((layered_file *)(file))->real)
#define CALL(file, method, ...) REAL(file)->pMethods->method(REAL(file), ##__VA_ARGS__)

static int close_file(sqlite3_file *file)
{
  return CALL(file, xClose);
}

static int read_file(sqlite3_file *file, void *to, int size, sqlite3_int64 at)
{
  return fails(VFS_READ) ? calls[VFS_READ].code : CALL(file, xRead, to, size, at);
}

static int write_file(sqlite3_file *file, const void *from, int size, sqlite3_int64 at)
{
  int code = fails(VFS_WRITE) ? calls[VFS_WRITE].code : fails(VFS_FULL) ? calls[VFS_FULL].code : SQLITE_OK;
  if (code == SQLITE_OK && fails(VFS_SHORT)) {
    code = calls[VFS_SHORT].code;
    CALL(file, xWrite, from, size / 2, at);
  }
  if (code != SQLITE_OK)
    return code;
  remember_file((layered_file *)file, (vfs_change){.kind = VFS_WROTE, .at = at, .size = size}, from);
  return CALL(file, xWrite, from, size, at);
}

static int truncate_file(sqlite3_file *file, sqlite3_int64 size)
{
  if (fails(VFS_TRUNCATE))
    return calls[VFS_TRUNCATE].code;
  remember_file((layered_file *)file, (vfs_change){.kind = VFS_TRUNCATED, .size = size}, NULL);
  return CALL(file, xTruncate, size);
}

static int sync_file(sqlite3_file *file, int flags)
{
  if (fails(VFS_SYNC))
    return calls[VFS_SYNC].code;
  remember_file((layered_file *)file, (vfs_change){.kind = VFS_SYNCED}, NULL);
  return CALL(file, xSync, flags);
}

static int size_of_file(sqlite3_file *file, sqlite3_int64 *size)
{
  return fails(VFS_SIZE) ? calls[VFS_SIZE].code : CALL(file, xFileSize, size);
}

static int lock_file(sqlite3_file *file, int level)
{
  return fails(VFS_LOCK) ? calls[VFS_LOCK].code : CALL(file, xLock, level);
}

static int unlock_file(sqlite3_file *file, int level)
{
  return CALL(file, xUnlock, level);
}

static int check_lock(sqlite3_file *file, int *locked)
{
  return CALL(file, xCheckReservedLock, locked);
}

static int control_file(sqlite3_file *file, int operation, void *argument)
{
  return CALL(file, xFileControl, operation, argument);
}

static int sector_size(sqlite3_file *file)
{
  return CALL(file, xSectorSize);
}

static int characteristics(sqlite3_file *file)
{
  return CALL(file, xDeviceCharacteristics);
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = close_file,
    .xRead = read_file,
    .xWrite = write_file,
    .xTruncate = truncate_file,
    .xSync = sync_file,
    .xFileSize = size_of_file,
    .xLock = lock_file,
    .xUnlock = unlock_file,
    .xCheckReservedLock = check_lock,
    .xFileControl = control_file,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = characteristics,
};

/* ---- names ---- */

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *opened, int flags, int *out_flags)
{
  (void)vfs;
  layered_file *file = (layered_file *)opened;
  *file = (layered_file){.number = -1};
  bool remembered = is_remembered(name), existed = remembered && access(name, F_OK) == 0;
  int code = fails(VFS_OPEN) ? calls[VFS_OPEN].code : state.real->xOpen(state.real, name, file->real, flags, out_flags);
  if (file->real->pMethods)
    file->base.pMethods = &methods;
  if (code != SQLITE_OK || !remembered)
    return code;
  file->journal = is_journal(name);
  if (!existed)
    state.named[file->journal] = state.files++;
  file->number = state.named[file->journal];
  if (!existed)
    remember_file(file, (vfs_change){.kind = VFS_CREATED}, NULL);
  return code;
}

static int delete_file(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
  (void)vfs;
  if (fails(VFS_DELETE))
    return calls[VFS_DELETE].code;
  int code = state.real->xDelete(state.real, name, sync_folder);
  if (code == SQLITE_OK && is_remembered(name)) {
    bool journal = is_journal(name);
    remember(
        (vfs_change){.kind = VFS_DELETED, .file = state.named[journal], .journal = journal, .durable = sync_folder},
        NULL);
  }
  return code;
}

static int access_file(sqlite3_vfs *vfs, const char *name, int flags, int *result)
{
  (void)vfs;
  return fails(VFS_ACCESS) ? calls[VFS_ACCESS].code : state.real->xAccess(state.real, name, flags, result);
}

static int full_name(sqlite3_vfs *vfs, const char *name, int size, char *to)
{
  (void)vfs;
  return state.real->xFullPathname(state.real, name, size, to);
}

void vfs_install(void)
{
  state.real = sqlite3_vfs_find(NULL);
  state.layer = *state.real;
  state.layer.zName = "headroom-faults";
  state.layer.szOsFile = (int)sizeof(layered_file) + state.real->szOsFile;
  state.layer.xOpen = open_file;
  state.layer.xDelete = delete_file;
  state.layer.xAccess = access_file;
  state.layer.xFullPathname = full_name;
  if (sqlite3_vfs_register(&state.layer, 1) != SQLITE_OK)
    abort();
}

void vfs_remove(void)
{
  sqlite3_vfs_unregister(&state.layer);
  sqlite3_vfs_register(state.real, 1);
}
