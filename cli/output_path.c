/* SPDX-License-Identifier: Apache-2.0 */
#include "output_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINKS_MOST 40 /* as Linux follows */

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

/* The path that a link contains; NULL with errno EINVAL or ENOENT if the path is no link. */
static char *behind_link(const char *path)
{
  char link[PATH_MAX];
  ssize_t length = readlink(path, link, sizeof link - 1);
  if (length < 0)
    return NULL;
  link[length] = '\0';
  if (link[0] == '/')
    return strdup(link);
  char *folder = folder_of(path);
  char *behind = folder ? join(folder, link) : NULL;
  free(folder);
  return behind;
}

static bool is_one_folder(const char *resolved, const char *other)
{
  char *real = realpath(other, NULL);
  bool same = real && strcmp(real, resolved) == 0;
  free(real);
  return same;
}

/* Whether the path is an entry of a folder in which the system lists the descriptors of this process. */
static bool is_in_descriptors(const char *path)
{
  char *folder = folder_of(path);
  char *resolved = folder ? realpath(folder, NULL) : NULL;
  bool is = resolved && (is_one_folder(resolved, "/proc/self/fd") || is_one_folder(resolved, "/proc/thread-self/fd"));
  free(resolved);
  free(folder);
  return is;
}

int cli_named_descriptor(const char *path)
{
  int found = -1;
  char *at = strdup(path);
  for (int links = 0; at && found < 0 && links < LINKS_MOST; links++) {
    const char *slash = strrchr(at, '/'), *name = slash ? slash + 1 : at;
    if (name[0] && strlen(name) < 8 && strspn(name, "0123456789") == strlen(name) && is_in_descriptors(at))
      found = (int)strtol(name, NULL, 10);
    char *behind = behind_link(at);
    free(at);
    at = behind;
  }
  free(at);
  return found;
}

char *cli_output_target(const char *path)
{
  char *at = strdup(path);
  for (int links = 0; at; links++) {
    char *behind = behind_link(at);
    if (!behind && errno != ENOMEM)
      return at;
    free(at);
    at = behind;
    if (links == LINKS_MOST) {
      free(at);
      errno = ELOOP;
      return NULL;
    }
  }
  return NULL;
}

char *cli_temporary_beside(const char *target)
{
  char *folder = folder_of(target);
  char *path = folder ? join(folder, ".headroom.XXXXXX") : NULL;
  free(folder);
  return path;
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
