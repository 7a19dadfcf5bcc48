/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over files and folders of inputs, once each: the corpus as an ordinary test, with any compiler.
 * Each input is a copy of exactly its size, so that a sanitizer sees a read beyond it. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
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

static int replay(const char *path)
{
  DIR *folder = opendir(path);
  if (!folder)
    return replay_file(path);
  int count = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    char inside[4096];
    if (entry->d_name[0] == '.')
      continue;
    snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
    count += replay_file(inside);
  }
  closedir(folder);
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
