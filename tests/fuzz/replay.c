/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over files and folders of inputs, once each: the corpus as an ordinary test, with any compiler.
 * Each input is a copy of exactly its size, so that a sanitizer sees a read beyond it. HEADROOM_TEST_SHARE=n: every nth
 * input of a folder, unless HEADROOM_TEST is "whole". */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int replay_file(const char *path)
{
  FILE *file = fopen(path, "rb");
  struct stat about;
  if (!file || fstat(fileno(file), &about) != 0) {
    perror(path);
    return -1;
  }
  size_t size = (size_t)about.st_size;
  uint8_t *data = malloc(size + (size == 0));
  if (!data || fread(data, 1, size, file) != size) {
    fprintf(stderr, "%s: cannot be read\n", path);
    exit(1);
  }
  fclose(file);
  fprintf(stderr, "%s\n", path); /* the last one printed is the one that broke */
  LLVMFuzzerTestOneInput(data, size);
  free(data);
  return 1;
}

static int is_shown(const struct dirent *entry)
{
  return entry->d_name[0] != '.';
}

static int share(void)
{
  const char *text = getenv("HEADROOM_TEST_SHARE"), *asked = getenv("HEADROOM_TEST");
  int n = text ? (int)strtol(text, NULL, 10) : 1;
  return n < 1 || (asked && strstr(asked, "whole")) ? 1 : n;
}

static int replay(const char *path)
{
  struct dirent **entries;
  int entry_count = scandir(path, &entries, is_shown, alphasort), count = 0, n = share();
  if (entry_count < 0)
    return replay_file(path);
  for (int i = 0; i < entry_count; i++) {
    char inside[4096];
    snprintf(inside, sizeof inside, "%s/%s", path, entries[i]->d_name);
    count += i % n == 0 ? replay_file(inside) : 0;
    free(entries[i]);
  }
  free(entries);
  return count;
}

int main(int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    if (replay(argv[i]) < 1) {
      fprintf(stderr, "%s: no inputs\n", argv[i]);
      return 1;
    }
  }
  return argc < 2;
}
