/* SPDX-License-Identifier: Apache-2.0 */
/* A layer between SQLite and the files of a store: it lets one call fail, or remembers every change, so that the
 * state of the disk after a loss of power at any moment can be made (disk.h).
 *
 * One process, one thread. While it is installed every database that is opened goes through it. */
#ifndef HEADROOM_TEST_VFS_H
#define HEADROOM_TEST_VFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Calls of SQLite to a file system: enumerator, name, code of the failure. */
#define VFS_CALL_LIST(ROW)                             \
  ROW(VFS_OPEN, "open", SQLITE_CANTOPEN)               \
  ROW(VFS_READ, "read", SQLITE_IOERR_READ)             \
  ROW(VFS_WRITE, "write", SQLITE_IOERR_WRITE)          \
  ROW(VFS_FULL, "write", SQLITE_FULL)                  \
  ROW(VFS_SHORT, "half a write", SQLITE_FULL)          \
  ROW(VFS_SYNC, "sync", SQLITE_IOERR_FSYNC)            \
  ROW(VFS_TRUNCATE, "truncate", SQLITE_IOERR_TRUNCATE) \
  ROW(VFS_DELETE, "delete", SQLITE_IOERR_DELETE)       \
  ROW(VFS_ACCESS, "access", SQLITE_IOERR_ACCESS)       \
  ROW(VFS_SIZE, "size", SQLITE_IOERR_FSTAT)            \
  ROW(VFS_LOCK, "lock", SQLITE_IOERR_LOCK)

typedef enum vfs_call {
#define VFS_ENUM(enumerator, name, code) enumerator,
  VFS_CALL_LIST(VFS_ENUM)
#undef VFS_ENUM
      VFS_CALL_COUNT
} vfs_call;

const char *vfs_call_name(vfs_call call);

/** Makes this layer SQLite's default, and removes it. Databases must be closed before. */
void vfs_install(void);
void vfs_remove(void);

/** From now on the call number `at` (from 1) of this kind fails; `again`: all later ones, too. */
void vfs_fail(vfs_call call, int at, bool again);

/** Nothing fails any more. Returns whether the call was reached. */
bool vfs_mend(void);

/* ---- changes ---- */

typedef enum vfs_change_kind {
  VFS_CREATED,   /* `file` appears under its name */
  VFS_WROTE,     /* `size` bytes at `at` */
  VFS_TRUNCATED, /* to `size` bytes */
  VFS_SYNCED,    /* the file, and its name */
  VFS_DELETED,   /* the name of `file`; `durable`: the folder was synced */
  VFS_MARK       /* by vfs_mark() */
} vfs_change_kind;

typedef struct vfs_change {
  vfs_change_kind kind;
  int file;     /* a number for each creation: a file of the same name that is created anew has another one */
  bool journal; /* the name ends in "-journal" */
  bool durable;
  int64_t at, size;
  unsigned char *bytes;
  uint64_t mark;
  size_t durable_from; /* by disk_find_durable(): the index of the change with which this one is durable */
} vfs_change;

typedef struct vfs_log {
  vfs_change *changes;
  size_t count, capacity;
} vfs_log;

/** Remembers each change of files below `folder` in `log`, which starts empty; NULL: ends it. */
void vfs_record(vfs_log *log, const char *folder);

/** Adds a change that the files do not have: the test's note that a state was acknowledged. */
void vfs_mark(uint64_t mark);

void vfs_log_free(vfs_log *log);

#endif
