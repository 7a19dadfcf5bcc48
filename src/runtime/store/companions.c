/* SPDX-License-Identifier: Apache-2.0 */
/* The files that SQLite opens beside a store: its journal, and those of a write-ahead log. */
#include "base/error.h"
#include "runtime/store/defence.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The end of a journal of a transaction on several databases: the name of a file with the names of all their journals,
 * its length, a sum and these bytes (https://sqlite.org/fileformat.html#the_rollback_journal). */
static const unsigned char magic[] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
#define TAIL 16

/* Sets *names if the journal is one: SQLite would roll it back and delete the file that it names, whichever that is.
 * Returns whether it could be read. */
static bool find_name(int journal, bool *names)
{
  unsigned char tail[TAIL];
  struct stat about;
  *names = false;
  if (fstat(journal, &about) != 0)
    return false;
  if (about.st_size < TAIL)
    return true;
  ssize_t got;
  do
    got = pread(journal, tail, TAIL, about.st_size - TAIL);
  while (got < 0 && errno == EINTR);
  *names = got == TAIL && memcmp(tail + TAIL - sizeof magic, magic, sizeof magic) == 0;
  return got >= 0; /* less where a writer has just ended */
}

static int open_to_read(const char *path)
{
  int file;
  do
    file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  while (file < 0 && errno == EINTR);
  return file;
}

static hr_status check_companion(const char *path, hr_error *error)
{
  char reason[HR_REASON_SIZE];
  struct stat about;
  if (lstat(path, &about) != 0)
    return HR_OK;              /* most often there is none */
  if (!S_ISREG(about.st_mode)) /* SQLite would wait for the writer of a pipe */
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is not a regular file", path);
  bool names = false;
  int file = open_to_read(path);
  if (file < 0 && errno == ENOENT) /* a writer has just ended */
    return HR_OK;
  bool readable = file >= 0 && find_name(file, &names);
  int number = errno;
  if (file >= 0)
    close(file);
  if (!readable)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: %s", path, hr_reason(number, reason));
  if (names)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is of a transaction on several files, which no store has part in",
                   path);
  return HR_OK;
}

hr_status hr_store_check_companions(const hr_store *store, hr_error *error)
{
  static const char *const suffixes[] = {"-journal", "-wal", "-shm"};
  const char *name = sqlite3_db_filename(store->database, "main"); /* with links followed, as SQLite does */
  if (!name || !name[0])
    return HR_OK;
  size_t size = strlen(name) + sizeof "-journal";
  char *path = malloc(size);
  if (!path)
    return hr_store_fail(store, SQLITE_NOMEM, false, error);
  hr_status status = HR_OK;
  for (size_t i = 0; status == HR_OK && i < sizeof suffixes / sizeof *suffixes; i++) {
    snprintf(path, size, "%s%s", name, suffixes[i]);
    status = check_companion(path, error);
  }
  free(path);
  return status;
}
