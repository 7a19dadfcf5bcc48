/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/driver/cache.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define MAGIC "headroom kernel 2"
#define HEADER_SIZE 96
#define ENTRY_MAX ((off_t)64 << 20) /* bytes; kernels have some thousands */

void hr_cache_folder(char folder[HR_CACHE_PATH_SIZE])
{
  const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int length = 0;
  if (base && base[0] == '/')
    length = snprintf(folder, HR_CACHE_PATH_SIZE, "%s/headroom", base);
  else if (home && home[0] == '/')
    length = snprintf(folder, HR_CACHE_PATH_SIZE, "%s/.cache/headroom", home);
  if (length <= 0 || length >= HR_CACHE_PATH_SIZE)
    folder[0] = '\0';
}

/* Owned by this user, and not writable by others. */
static bool is_private(const struct stat *about)
{
  return about->st_uid == geteuid() && (about->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static int open_folder(const char *folder)
{
  int descriptor = folder[0] ? open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
  struct stat about;
  if (descriptor >= 0 && (fstat(descriptor, &about) != 0 || !is_private(&about))) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

/* The hash only names the file: the entry holds the whole key, which must match. */
static void name_of(const char *key, char name[64])
{
  snprintf(name, 64, "%016" PRIx64 ".kernel", XXH3_64bits(key, strlen(key)));
}

static bool read_all(int descriptor, char *to, size_t bytes)
{
  while (bytes > 0) {
    ssize_t got = read(descriptor, to, bytes);
    if (got <= 0)
      return false;
    to += got;
    bytes -= (size_t)got;
  }
  return true;
}

static bool write_all(int descriptor, const char *from, size_t bytes)
{
  while (bytes > 0) {
    ssize_t put = write(descriptor, from, bytes);
    if (put <= 0)
      return false;
    from += put;
    bytes -= (size_t)put;
  }
  return true;
}

/* The whole file if it is private and of a plausible size; the caller frees it. */
static char *read_entry(int folder, const char *name, size_t *bytes)
{
  int descriptor = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0)
    return NULL;
  struct stat about;
  char *text = NULL;
  if (fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) && is_private(&about) && about.st_size > HEADER_SIZE &&
      about.st_size <= ENTRY_MAX && (text = malloc((size_t)about.st_size)) != NULL) {
    *bytes = (size_t)about.st_size;
    if (!read_all(descriptor, text, *bytes)) {
      free(text);
      text = NULL;
    }
  }
  close(descriptor);
  return text;
}

/* An entry is header, key, image. The header is text of a fixed length, padded with spaces. */
static void write_header(char header[HEADER_SIZE + 1], size_t key_bytes, const char *image, size_t image_bytes)
{
  memset(header, ' ', HEADER_SIZE + 1);
  int used = snprintf(header, HEADER_SIZE, "%s %zu %zu %016" PRIx64, MAGIC, key_bytes, image_bytes,
                      XXH3_64bits(image, image_bytes));
  header[used] = ' ';
}

bool hr_cache_read(const char *folder, const char *key, char **image, size_t *bytes)
{
  char name[64], header[HEADER_SIZE + 1];
  size_t key_bytes = strlen(key), entry_bytes = 0;
  int descriptor = open_folder(folder);
  if (descriptor < 0)
    return false;
  name_of(key, name);
  char *entry = read_entry(descriptor, name, &entry_bytes);
  close(descriptor);
  if (!entry)
    return false;
  bool right = entry_bytes > HEADER_SIZE + key_bytes;
  if (right) {
    const char *kept = entry + HEADER_SIZE + key_bytes;
    *bytes = entry_bytes - HEADER_SIZE - key_bytes;
    write_header(header, key_bytes, kept, *bytes); /* the header that this key and image would have */
    right = memcmp(entry, header, HEADER_SIZE) == 0 && memcmp(entry + HEADER_SIZE, key, key_bytes) == 0;
    if (right)
      memmove(entry, kept, *bytes);
  }
  if (!right) {
    free(entry);
    return false;
  }
  *image = entry;
  return true;
}

/* Creates the folder and its missing parents. */
static void make_folder(const char *folder)
{
  char path[HR_CACHE_PATH_SIZE];
  snprintf(path, sizeof path, "%s", folder);
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(path, S_IRWXU);
    *slash = '/';
  }
  mkdir(path, S_IRWXU);
}

void hr_cache_write(const char *folder, const char *key, const char *image, size_t bytes)
{
  char name[64], temporary[128], header[HEADER_SIZE + 1];
  if (!folder[0])
    return;
  make_folder(folder);
  int descriptor = open_folder(folder);
  if (descriptor < 0)
    return;
  name_of(key, name);
  /* Unique among processes and threads; the last rename wins, and both files are valid. */
  snprintf(temporary, sizeof temporary, "%s.%ld.%p", name, (long)getpid(), (void *)&temporary);
  int file = openat(descriptor, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file >= 0) {
    write_header(header, strlen(key), image, bytes);
    bool whole =
        write_all(file, header, HEADER_SIZE) && write_all(file, key, strlen(key)) && write_all(file, image, bytes);
    whole = close(file) == 0 && whole;
    if (!whole || renameat(descriptor, temporary, descriptor, name) != 0)
      unlinkat(descriptor, temporary, 0);
  }
  close(descriptor);
}
