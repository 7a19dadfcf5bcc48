/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoint beside a configuration: which files it has, and reading their headers. */
#include "resolve/checkpoint_files.h"

#include <headroom/experimental/resolve.h>

#include "base/error.h"
#include "base/names.h"
#include "model/checkpoint/reader.h"
#include "resolve/entries.h"
#include "resolve/model_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX_BYTES_MAX HR_SAFETENSORS_HEADER_MAX
#define CHUNK_BYTES 65536

/* A checkpoint's files: an index, one file, or shards that are numbered in their names. Paths begin with the folder. */
typedef struct checkpoint_files {
  int folder; /* length of the folder's path, with the slash */
  char path[HR_PATH_SIZE];
  hr_checkpoint_reader *reader;
  const hr_checkpoint_visitor *visitor; /* may be NULL */
} checkpoint_files;

/* ---- reading ---- */

typedef struct open_file {
  int file;
  int64_t bytes;
} open_file;

static hr_status open_regular(const char *path, open_file *opened, hr_error *error)
{
  struct stat about;
  char reason[HR_REASON_SIZE];
  opened->file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe without a writer must not hang */
  if (opened->file < 0)
    return hr_fail(error, errno == ENOENT ? HR_ERROR_NOT_FOUND : HR_ERROR_UNREADABLE, "%s: %s", path,
                   hr_reason(errno, reason));
  if (fstat(opened->file, &about) == 0 && S_ISREG(about.st_mode)) {
    opened->bytes = about.st_size;
    return HR_OK;
  }
  close(opened->file);
  return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is not a regular file", path);
}

/* Reads at most `wanted` bytes. *got is 0 at the end of the file. */
static hr_status read_chunk(const open_file *opened, const char *path, char *chunk, int64_t wanted, size_t *got,
                            hr_error *error)
{
  ssize_t count;
  char reason[HR_REASON_SIZE];
  do
    count = read(opened->file, chunk, wanted < CHUNK_BYTES ? (size_t)wanted : CHUNK_BYTES);
  while (count < 0 && errno == EINTR);
  if (count < 0)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: %s", path, hr_reason(errno, reason));
  *got = (size_t)count;
  return HR_OK;
}

static hr_status read_header(checkpoint_files *files, const open_file *opened, int32_t number, hr_error *error)
{
  char chunk[CHUNK_BYTES];
  hr_checkpoint_reader *reader = files->reader;
  hr_checkpoint_header_begin(reader, number, files->path, opened->bytes);
  for (int64_t wanted; (wanted = hr_checkpoint_header_wanted(reader)) > 0;) {
    size_t got;
    HR_TRY(read_chunk(opened, files->path, chunk, wanted, &got, error));
    if (got == 0)
      break;
    HR_TRY(hr_checkpoint_header_feed(reader, chunk, got, error));
  }
  HR_TRY(hr_checkpoint_header_end(reader, error));
  return files->visitor ? files->visitor->file(files->visitor->context, opened->file, files->path, opened->bytes, error)
                        : HR_OK;
}

static hr_status read_index_text(checkpoint_files *files, const open_file *opened, hr_error *error)
{
  char chunk[CHUNK_BYTES];
  if (opened->bytes > INDEX_BYTES_MAX)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: %" PRId64 " bytes, more than an index may have", files->path,
                   opened->bytes);
  hr_checkpoint_index_begin(files->reader, files->path);
  for (;;) {
    size_t got;
    HR_TRY(read_chunk(opened, files->path, chunk, CHUNK_BYTES, &got, error));
    if (got == 0)
      return hr_checkpoint_index_end(files->reader, error);
    HR_TRY(hr_checkpoint_index_feed(files->reader, chunk, got, error));
  }
}

static hr_status read_index(checkpoint_files *files, hr_error *error)
{
  open_file opened;
  HR_TRY(open_regular(files->path, &opened, error));
  hr_status status = read_index_text(files, &opened, error);
  close(opened.file);
  return status;
}

/* ---- which files ---- */

static bool set_file(checkpoint_files *files, const char *name)
{
  size_t left = sizeof files->path - (size_t)files->folder;
  int length = snprintf(files->path + files->folder, left, "%s", name);
  return length >= 0 && (size_t)length < left;
}

static bool is_there(checkpoint_files *files, const char *name)
{
  struct stat about;
  return set_file(files, name) && (stat(files->path, &about) == 0 || errno == EACCES);
}

/* "PREFIX-00001-of-00004.safetensors": the length of PREFIX, the digits of the numbers, and how many shards. */
typedef struct shard_numbering {
  int prefix, digits, total_digits;
  long shards;
} shard_numbering;

static bool parse_shard(const char *name, shard_numbering *numbering)
{
  const char *of = strstr(name, "-of-");
  if (!of || !hr_ends_with(name, ".safetensors"))
    return false;
  const char *first = of;
  while (first > name && first[-1] >= '0' && first[-1] <= '9')
    first--;
  size_t total = strspn(of + 4, "0123456789");
  if (first == of || first == name || first[-1] != '-' || total == 0 || total > 6 || of - first > 6 ||
      strcmp(of + 4 + total, ".safetensors") != 0)
    return false;
  numbering->prefix = (int)(first - 1 - name);
  numbering->digits = (int)(of - first);
  numbering->total_digits = (int)total;
  numbering->shards = strtol(of + 4, NULL, 10);
  return numbering->shards > 0 && numbering->shards <= HR_SHARDS_MAX;
}

static void write_shard(char *shard, const char *name, const shard_numbering *numbering, long number)
{
  snprintf(shard, HR_SHARD_NAME_SIZE, "%.*s-%0*ld-of-%0*ld.safetensors", numbering->prefix, name, numbering->digits,
           number, numbering->total_digits, numbering->shards);
}

/* Shards are numbered from 1 to N; some checkpoints begin with 0 and end with N - 1 or N. */
static hr_status add_shards(checkpoint_files *files, const char *name, const shard_numbering *numbering,
                            hr_error *error)
{
  char shard[HR_SHARD_NAME_SIZE];
  write_shard(shard, name, numbering, 0);
  bool zero = is_there(files, shard);
  write_shard(shard, name, numbering, numbering->shards);
  long last = zero && !is_there(files, shard) ? numbering->shards - 1 : numbering->shards;
  for (long i = zero ? 0 : 1; i <= last; i++) {
    write_shard(shard, name, numbering, i);
    HR_TRY(hr_checkpoint_add_file(files->reader, shard, error));
  }
  return HR_OK;
}

/* A shard in the folder, of a checkpoint without an index; "" if there is none. */
static hr_status find_shard(checkpoint_files *files, char *name, shard_numbering *numbering, hr_error *error)
{
  bool found = false;
  name[0] = '\0';
  files->path[files->folder] = '\0';
  DIR *folder = opendir(files->folder > 0 ? files->path : ".");
  if (!folder && errno == ENOMEM)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading", files->path);
  for (const struct dirent *entry; folder && !found && (entry = readdir(folder));) {
    found = strncmp(entry->d_name, "model-", 6) == 0 && parse_shard(entry->d_name, numbering);
    if (found)
      hr_copy_text(name, HR_SHARD_NAME_SIZE, entry->d_name);
  }
  if (folder)
    closedir(folder);
  return HR_OK;
}

static bool index_of(checkpoint_files *files, const char *name, int prefix)
{
  char index[HR_SHARD_NAME_SIZE];
  int length = snprintf(index, sizeof index, "%.*s.safetensors.index.json", prefix, name);
  return length > 0 && (size_t)length < sizeof index && is_there(files, index);
}

/* The file that the user named, with the other shards if it is one. */
static hr_status add_named(checkpoint_files *files, const char *name, bool *indexed, hr_error *error)
{
  shard_numbering numbering;
  *indexed = hr_ends_with(name, ".index.json");
  if (*indexed)
    return set_file(files, name) ? HR_OK : HR_ERROR_NOT_FOUND;
  if (!parse_shard(name, &numbering))
    return hr_checkpoint_add_file(files->reader, name, error);
  *indexed = index_of(files, name, numbering.prefix);
  return *indexed ? HR_OK : add_shards(files, name, &numbering, error);
}

/* What transformers would load from the folder, in its order. */
static hr_status add_usual(checkpoint_files *files, bool *indexed, hr_error *error)
{
  shard_numbering numbering;
  char shard[HR_SHARD_NAME_SIZE];
  *indexed = false;
  if (is_there(files, "model.safetensors"))
    return hr_checkpoint_add_file(files->reader, "model.safetensors", error);
  *indexed = is_there(files, "model.safetensors.index.json");
  if (*indexed)
    return HR_OK;
  HR_TRY(find_shard(files, shard, &numbering, error));
  return shard[0] ? add_shards(files, shard, &numbering, error) : HR_OK;
}

static hr_status read_files(checkpoint_files *files, hr_error *error)
{
  hr_checkpoint_reader *reader = files->reader;
  for (int32_t i = 0; i < reader->file_count; i++) {
    open_file opened;
    if (!set_file(files, reader->files[i]))
      return hr_fail(error, HR_ERROR_UNREADABLE, "%s: the path is too long", reader->files[i]);
    HR_TRY(open_regular(files->path, &opened, error));
    hr_status status = read_header(files, &opened, i, error);
    close(opened.file);
    HR_TRY(status);
  }
  return HR_OK;
}

static hr_status read_checkpoint(checkpoint_files *files, const char *named, hr_error *error)
{
  bool indexed;
  char index[HR_PATH_SIZE];
  HR_TRY(named ? add_named(files, named, &indexed, error) : add_usual(files, &indexed, error));
  snprintf(index, sizeof index, "%s", files->path + files->folder);
  if (indexed)
    HR_TRY(read_index(files, error));
  HR_TRY(read_files(files, error));
  if (!hr_checkpoint_lacks_tensors(files->reader))
    return HR_OK;
  set_file(files, index);
  return read_index(files, error); /* for the message */
}

static hr_status begin_reading(checkpoint_files *files, hr_error *error)
{
  files->reader = hr_checkpoint_reader_new();
  if (!files->reader)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading", files->path);
  if (files->visitor) {
    files->reader->take = files->visitor->tensor;
    files->reader->context = files->visitor->context;
  }
  return HR_OK;
}

hr_status hr_checkpoint_visit(const char *what, const hr_checkpoint_visitor *visitor, hr_checkpoint *checkpoint,
                              hr_error *error)
{
  hr_model_place place;
  HR_TRY(hr_model_place_find(what, &place, error));
  const char *from = place.named_weights ? what : place.file, *slash = strrchr(from, '/');
  checkpoint_files files = {.folder = slash ? (int)(slash - from) + 1 : 0, .visitor = visitor};
  const char *name = from + files.folder;
  if (place.kind != HR_PLACE_FILE || (!place.named_weights && strcmp(name, "config.json") != 0)) {
    *checkpoint = (hr_checkpoint){0};
    return HR_OK;
  }
  snprintf(files.path, sizeof files.path, "%s", from);
  HR_TRY(begin_reading(&files, error));
  hr_status status = read_checkpoint(&files, place.named_weights ? name : NULL, error);
  if (status == HR_OK)
    *checkpoint = hr_checkpoint_sums(files.reader);
  hr_checkpoint_reader_free(files.reader);
  return status;
}

hr_status hr_resolve_checkpoint(const char *what, hr_checkpoint *checkpoint, hr_error *error)
{
  HR_NEED(error, what, checkpoint);
  return hr_checkpoint_visit(what, NULL, checkpoint, error);
}
