/* SPDX-License-Identifier: Apache-2.0 */
#include "output_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40 /* as Linux follows */

/* The folder of a path: "." or the text before the last slash. The caller frees it. */
static char *folder_of(const char *path)
{
  const char *slash = strrchr(path, '/');
  if (!slash)
    return strdup(".");
  return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* FOLDER/NAME in memory that the caller frees. */
static char *join(const char *folder, const char *name)
{
  size_t size = strlen(folder) + strlen(name) + 2;
  char *path = malloc(size);
  if (path)
    snprintf(path, size, "%s/%s", folder, name);
  return path;
}

/* Whether the path is an entry of a folder in which the system lists the descriptors of this process. */
static bool is_in_descriptors(const char *path)
{
  static const char *const lists[] = {"/proc/self/fd", "/proc/thread-self/fd"};
  char folder[PATH_MAX], resolved[PATH_MAX], real[PATH_MAX];
  const char *slash = strrchr(path, '/');
  int length = slash == path ? 1 : slash ? (int)(slash - path) : 1;
  snprintf(folder, sizeof folder, "%.*s", length, slash ? path : ".");
  if (!realpath(folder, resolved))
    return false;
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    if (realpath(lists[i], real) && strcmp(real, resolved) == 0)
      return true;
  }
  return false;
}

/* Replaces the link at `path` by what it contains. Returns whether it is a link; -1 with errno if that is too long. */
static int follow(char path[PATH_MAX])
{
  char link[PATH_MAX];
  ssize_t length = readlink(path, link, sizeof link - 1);
  if (length < 0)
    return 0;
  link[length] = '\0';
  char *slash = strrchr(path, '/'), *at = link[0] == '/' || !slash ? path : slash + 1;
  if ((size_t)(at - path) + (size_t)length >= PATH_MAX) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(at, link, (size_t)length + 1);
  return 1;
}

static bool copy_path(char to[PATH_MAX], const char *path)
{
  return snprintf(to, PATH_MAX, "%s", path) < PATH_MAX;
}

/* Allocates nothing: out of memory it would take an open stream for a file, which would be replaced. */
int cli_named_descriptor(const char *path)
{
  char at[PATH_MAX];
  bool more = copy_path(at, path);
  for (int links = 0; more && links < LINKS_MAX; links++) {
    const char *slash = strrchr(at, '/'), *name = slash ? slash + 1 : at;
    if (name[0] && strlen(name) < 8 && strspn(name, "0123456789") == strlen(name) && is_in_descriptors(at))
      return (int)strtol(name, NULL, 10);
    more = follow(at) > 0;
  }
  return -1;
}

/* Whether the system leads to the same file; else errno. It refuses a link of another user in a folder such as /tmp
 * (proc(5), protected_symlinks). Asked last, so that a link that was exchanged meanwhile is noticed. */
static bool leads_to(const char *path, const char *target)
{
  struct stat named, found;
  if (stat(path, &named) != 0)
    return errno == ENOENT && stat(target, &found) != 0 && errno == ENOENT;
  if (stat(target, &found) == 0 && found.st_dev == named.st_dev && found.st_ino == named.st_ino)
    return true;
  errno = EACCES;
  return false;
}

char *cli_output_target(const char *path)
{
  char at[PATH_MAX];
  errno = ENAMETOOLONG;
  int more = copy_path(at, path) ? 1 : -1;
  for (int links = 0; more > 0 && links <= LINKS_MAX; links++)
    more = follow(at);
  if (more > 0)
    errno = ELOOP;
  return more == 0 && leads_to(path, at) ? strdup(at) : NULL;
}

static const char *name_of(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool is_same_place(const char *one, const char *other)
{
  struct stat first, second;
  char *folder = folder_of(one), *folder_of_other = folder_of(other);
  bool same = strcmp(name_of(one), name_of(other)) == 0 && folder && folder_of_other && stat(folder, &first) == 0 &&
              stat(folder_of_other, &second) == 0 && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
  free(folder);
  free(folder_of_other);
  return same;
}

bool cli_is_same_file(const char *one, const char *other)
{
  struct stat first, second;
  bool exists = stat(one, &first) == 0;
  if (exists != (stat(other, &second) == 0))
    return false;
  if (exists)
    return S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
  char *target = cli_output_target(one), *target_of_other = cli_output_target(other);
  bool same = target && target_of_other && is_same_place(target, target_of_other);
  free(target);
  free(target_of_other);
  return same;
}

char *cli_temporary_beside(const char *target)
{
  char *folder = folder_of(target);
  char *path = folder ? join(folder, ".headroom.XXXXXX") : NULL;
  free(folder);
  return path;
}

int cli_check_folder(const char *target)
{
  char *folder = folder_of(target);
  int reason = !folder ? ENOMEM : access(folder, W_OK | X_OK) == 0 ? 0 : errno;
  free(folder);
  return reason;
}

int cli_sync_folder(const char *target)
{
  char *folder = folder_of(target);
  int file = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, reason = 0;
  if (file >= 0 && fsync(file) != 0 && errno != EINVAL && errno != EROFS) /* not every file system can */
    reason = errno;
  if (file >= 0)
    close(file);
  free(folder);
  return reason;
}
