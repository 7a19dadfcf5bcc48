/* SPDX-License-Identifier: Apache-2.0 */
#include "resolve/read_file.h"

#include "base/error.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static hr_status too_large(const char *name, hr_error *error)
{
  return hr_fail(error, HR_ERROR_UNREADABLE, "%s: more than %zu MiB", name, HR_JSON_BYTES_MAX >> 20);
}

/* Opens regular files and pipes, which end. A pipe is opened non-blocking, so that a pipe without a writer is empty
 * rather than a hang, and then read blocking. */
static hr_status check_kind(int file, const char *name, hr_error *error)
{
  struct stat about;
  char reason[HR_REASON_SIZE];
  if (fstat(file, &about) != 0)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: %s", name, hr_reason(errno, reason));
  if (S_ISDIR(about.st_mode))
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is a directory", name);
  if (S_ISREG(about.st_mode))
    return about.st_size > (off_t)HR_JSON_BYTES_MAX ? too_large(name, error) : HR_OK;
  if (!S_ISFIFO(about.st_mode) && !S_ISSOCK(about.st_mode))
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is a device, not a file", name);
  int flags = fcntl(file, F_GETFL);
  if (flags >= 0)
    fcntl(file, F_SETFL, flags & ~O_NONBLOCK);
  return HR_OK;
}

static hr_status read_all(int file, const char *name, char **text, size_t *length, hr_error *error)
{
  size_t used = 0, capacity = 1 << 16;
  char *buffer = malloc(capacity + 1);
  while (buffer) {
    ssize_t got = read(file, buffer + used, capacity - used);
    if (got <= 0) {
      if (got == 0) {
        buffer[used] = '\0';
        *text = buffer;
        *length = used;
        return HR_OK;
      }
      int number = errno;
      if (number == EINTR)
        continue;
      char reason[HR_REASON_SIZE];
      free(buffer);
      return hr_fail(error, HR_ERROR_UNREADABLE, "%s: %s", name, hr_reason(number, reason));
    }
    used += (size_t)got;
    if (used > HR_JSON_BYTES_MAX) {
      free(buffer);
      return too_large(name, error);
    }
    if (used == capacity) {
      capacity *= 2;
      char *larger = realloc(buffer, capacity + 1);
      if (!larger)
        free(buffer);
      buffer = larger;
    }
  }
  return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading", name);
}

hr_status hr_read_file(const char *path, const char *name, char **text, size_t *length, hr_error *error)
{
  bool standard_input = strcmp(path, "-") == 0;
  char reason[HR_REASON_SIZE];
  int file = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0)
    return hr_fail(error, errno == ENOENT || errno == ENOTDIR ? HR_ERROR_NOT_FOUND : HR_ERROR_UNREADABLE, "%s: %s",
                   name, hr_reason(errno, reason));
  hr_status status = standard_input ? HR_OK : check_kind(file, name, error);
  if (status == HR_OK)
    status = read_all(file, name, text, length, error);
  if (!standard_input)
    close(file);
  return status;
}
