/* SPDX-License-Identifier: Apache-2.0 */
#include "disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECTOR 512
#define JUNK 0xA5
#define NAMES 2 /* the database and its journal */

typedef struct content {
  unsigned char *bytes;
  int64_t size;
} content;

typedef struct disk {
  const vfs_log *log;
  size_t count;
  disk_loss loss;
  uint64_t random;
  content *files;
  int file_count;
  int named[NAMES]; /* the file of each name; −1: none */
} disk;

static uint64_t next_random(disk *d)
{
  uint64_t z = d->random += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static bool chance(disk *d)
{
  return d->loss == DISK_LOSES_NONE || (d->loss == DISK_LOSES_SOME && (next_random(d) & 1));
}

static bool is_durable(const disk *d, size_t which)
{
  return d->log->changes[which].durable_from < d->count;
}

static bool resize(content *file, int64_t size)
{
  if (size > file->size) {
    unsigned char *bytes = realloc(file->bytes, (size_t)size);
    if (!bytes)
      return false;
    memset(bytes + file->size, JUNK, (size_t)(size - file->size));
    file->bytes = bytes;
  }
  file->size = size;
  return true;
}

static bool apply_write(disk *d, const vfs_change *change, bool durable)
{
  content *file = &d->files[change->file];
  for (int64_t at = change->at, end = change->at + change->size; at < end;) {
    int64_t next = (at / SECTOR + 1) * SECTOR;
    next = next < end ? next : end;
    if (durable || chance(d)) {
      if (file->size < next && !resize(file, next))
        return false;
      memcpy(file->bytes + at, change->bytes + (at - change->at), (size_t)(next - at));
    }
    at = next;
  }
  return true;
}

static bool apply(disk *d, size_t which)
{
  const vfs_change *change = &d->log->changes[which];
  if (change->kind == VFS_MARK || change->kind == VFS_SYNCED)
    return true;
  bool durable = is_durable(d, which);
  if (change->kind == VFS_WROTE)
    return apply_write(d, change, durable);
  if (!durable && !chance(d))
    return true;
  if (change->kind == VFS_TRUNCATED)
    return resize(&d->files[change->file], change->size);
  if (change->kind == VFS_CREATED)
    d->named[change->journal] = change->file;
  else if (d->named[change->journal] == change->file)
    d->named[change->journal] = -1;
  return true;
}

static bool write_out(const content *file, const char *path)
{
  if (!file)
    return unlink(path) == 0 || access(path, F_OK) != 0;
  FILE *out = fopen(path, "wb");
  if (!out)
    return false;
  bool whole = file->size == 0 || fwrite(file->bytes, 1, (size_t)file->size, out) == (size_t)file->size;
  return fclose(out) == 0 && whole;
}

static bool make(disk *d, const char *path)
{
  for (size_t i = 0; i < d->count; i++) {
    if (!apply(d, i))
      return false;
  }
  bool right = true;
  for (int name = 0; name < NAMES; name++) {
    char full[512];
    snprintf(full, sizeof full, "%.400s%s", path, name ? "-journal" : "");
    right = write_out(d->named[name] < 0 ? NULL : &d->files[d->named[name]], full) && right;
  }
  return right;
}

bool disk_after_power_loss(const vfs_log *log, size_t count, disk_loss loss, uint64_t seed, const char *path)
{
  disk d = {.log = log, .count = count, .loss = loss, .random = seed, .named = {-1, -1}};
  for (size_t i = 0; i < count; i++) {
    if (log->changes[i].kind != VFS_MARK && log->changes[i].file >= d.file_count)
      d.file_count = log->changes[i].file + 1;
  }
  d.files = calloc((size_t)d.file_count + 1, sizeof *d.files);
  bool right = d.files && make(&d, path);
  for (int i = 0; d.files && i < d.file_count; i++)
    free(d.files[i].bytes);
  free(d.files);
  return right;
}

/* A sync makes the contents of its file durable, and names as far as they were changed before: SQLite syncs the folder
 * with a new journal. So does a deletion that is durable itself. */
static bool makes_durable(const vfs_change *later, const vfs_change *change)
{
  bool of_name = change->kind == VFS_CREATED || change->kind == VFS_DELETED;
  if (later->kind == VFS_SYNCED)
    return later->file == change->file || (of_name && later->journal);
  return of_name && later->kind == VFS_DELETED && later->durable;
}

void disk_find_durable(vfs_log *log)
{
  for (size_t which = 0; which < log->count; which++) {
    size_t later = which; /* a durable deletion makes itself durable */
    while (later < log->count && !makes_durable(&log->changes[later], &log->changes[which]))
      later++;
    log->changes[which].durable_from = later < log->count ? later : SIZE_MAX;
  }
}
