/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded before libc (LD_PRELOAD), fails one call of the system as a broken disk, a full one or a signal does:
 *   FAULT_CALL=fsync FAULT_AT=3 FAULT_ERRNO=5
 * FAULT_AGAIN=1: every later call, too. FAULT_LOG=FILE: a file that is made when the call fails.
 * "shortwrite" writes half of what pwrite() is asked for, "partwrite" half of what write() is, "partread" reads a byte.
 * FAULT_CALL=follow FAULT_LINK=NAME: where NAME is a link, every call that would follow it fails, as it does where the
 * link is another user's in a folder such as /tmp (fs.protected_symlinks); lstat(), readlink() and rename() do not.
 * open(), read() and write() fail for files of the tests only: .db, .json, .safetensors, output, caches. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int calls;

/* Whether this call of `name` is the one to fail. */
static bool fails(const char *name)
{
  const char *call = getenv("FAULT_CALL"), *at = getenv("FAULT_AT"), *number = getenv("FAULT_ERRNO");
  if (!call || !at || strcmp(call, name) != 0)
    return false;
  calls++;
  if (getenv("FAULT_AGAIN") ? calls < atoi(at) : calls != atoi(at))
    return false;
  const char *log = getenv("FAULT_LOG");
  if (log) {
    long file = syscall(SYS_openat, AT_FDCWD, log, O_CREAT | O_WRONLY, 0600);
    if (file >= 0)
      syscall(SYS_close, file);
  }
  errno = number ? atoi(number) : EIO;
  return true;
}

#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

#define ONE(type, name, parameters, arguments)             \
  type name parameters                                     \
  {                                                        \
    return fails(#name) ? (type)-1 : REAL(name) arguments; \
  }

/* SQLite calls the 64-bit names, which are other symbols. */
#define TWO(type, name, as, parameters, arguments)      \
  type name parameters                                  \
  {                                                     \
    return fails(as) ? (type)-1 : REAL(name) arguments; \
  }

ONE(int, fsync, (int file), (file))
ONE(int, fdatasync, (int file), (file))
ONE(int, rename, (const char *from, const char *to), (from, to))
ONE(int, mkstemp, (char *name), (name))
ONE(int, unlink, (const char *path), (path))
TWO(int, ftruncate, "ftruncate", (int file, off_t size), (file, size))
TWO(int, ftruncate64, "ftruncate", (int file, off64_t size), (file, size))
TWO(ssize_t, pread, "pread", (int file, void *to, size_t size, off_t at), (file, to, size, at))
TWO(ssize_t, pread64, "pread", (int file, void *to, size_t size, off64_t at), (file, to, size, at))

static ssize_t write_at(int file, const void *from, size_t size, off64_t at)
{
  if (fails("pwrite"))
    return -1;
  return REAL(pwrite64)(file, from, fails("shortwrite") ? size / 2 : size, at);
}

ssize_t pwrite(int file, const void *from, size_t size, off_t at)
{
  return write_at(file, from, size, at);
}

ssize_t pwrite64(int file, const void *from, size_t size, off64_t at)
{
  return write_at(file, from, size, at);
}

/* ---- files of the tests ---- */

static bool is_own(const char *path)
{
  static const char *const parts[] = {".db", ".json", ".safetensors", "out", ".headroom", ".kernel"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (strstr(path, parts[i]))
      return true;
  }
  return false;
}

static bool is_own_file(int file)
{
  char name[64], path[512];
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  long length = syscall(SYS_readlinkat, AT_FDCWD, name, path, sizeof path - 1);
  path[length > 0 ? length : 0] = '\0';
  return is_own(path);
}

ssize_t read(int file, void *to, size_t size)
{
  bool own = is_own_file(file);
  if (own && fails("read"))
    return -1;
  return syscall(SYS_read, file, to, own && size > 1 && fails("partread") ? 1 : size);
}

ssize_t write(int file, const void *from, size_t size)
{
  bool own = is_own_file(file);
  if (own && fails("write"))
    return -1;
  return syscall(SYS_write, file, from, own && size > 1 && fails("partwrite") ? size / 2 : size);
}

ONE(int, renameat, (int from_folder, const char *from, int to_folder, const char *to),
    (from_folder, from, to_folder, to))

/* Closes the file, too, as Linux does. */
int close(int file)
{
  bool failed = is_own_file(file) && fails("close");
  int number = errno, closed = (int)syscall(SYS_close, file);
  if (failed)
    errno = number;
  return failed ? -1 : closed;
}

/* Whether this call of FAULT_CALL=follow is to fail. */
static bool refuses(const char *path)
{
  const char *link = getenv("FAULT_LINK");
  struct stat about;
  return link && strcmp(path, link) == 0 && lstat(path, &about) == 0 && S_ISLNK(about.st_mode) && fails("follow");
}

int stat(const char *path, struct stat *about)
{
  return refuses(path) || fails("stat") ? -1 : REAL(stat)(path, about);
}

static int open_any(const char *path, int flags, mode_t mode)
{
  if (!(flags & O_NOFOLLOW) && refuses(path))
    return -1;
  return is_own(path) && fails("open") ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_any(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_any(path, flags | O_LARGEFILE, mode);
}
