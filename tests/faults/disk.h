/* SPDX-License-Identifier: Apache-2.0 */
/* What a disk holds after the power was lost: of the changes that a vfs_log remembers, those that were synced, and some
 * of the others. */
#ifndef HEADROOM_TEST_DISK_H
#define HEADROOM_TEST_DISK_H

#include "vfs.h"

/** Which of the changes that were not synced are kept. */
typedef enum disk_loss {
  DISK_LOSES_ALL,
  DISK_LOSES_NONE,
  DISK_LOSES_SOME /* each sector of 512 bytes, length and name by itself, as a drive that reorders its queue */
} disk_loss;

/** Finds out which change makes which durable; once per log, before disk_after_power_loss(). */
void disk_find_durable(vfs_log *log);

/** Writes the database and its journal as they are when the power goes after the first `count` changes of the log, to
 *  "<folder>/<name>" and "…-journal", or removes what is not there. What a file has where a write was lost beyond its
 *  end is junk. `seed` chooses. Returns false where the files cannot be written. */
bool disk_after_power_loss(const vfs_log *log, size_t count, disk_loss loss, uint64_t seed, const char *path);

#endif
