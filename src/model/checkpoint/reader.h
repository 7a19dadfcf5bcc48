/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a checkpoint of one or more safetensors files: optionally the index that says which tensor is in which file
 * (model.safetensors.index.json), then the header of each file. Bytes are fed; nothing here opens a file. */
#ifndef HR_MODEL_CHECKPOINT_READER_H
#define HR_MODEL_CHECKPOINT_READER_H

#include "model/checkpoint/safetensors.h"
#include "model/checkpoint/tally.h"
#include "model/checkpoint/tensor_names.h"

#define HR_SHARDS_MAX 4096
#define HR_SHARD_NAME_SIZE 256

typedef struct hr_checkpoint_reader {
  char (*files)[HR_SHARD_NAME_SIZE]; /* without their folder */
  int32_t file_count, file_capacity;
  int32_t file;            /* the one whose header is being read */
  bool searching;          /* the index is read again, for a tensor that no file has */
  const char *input;       /* the file being read, in messages */
  hr_tensor_entry_fn take; /* set by the caller: receives each tensor, too; NULL: nothing does */
  void *context;
  hr_tensor_names names, file_names;
  hr_tally tally;
  hr_json_members index;
  hr_safetensors header;
} hr_checkpoint_reader;

/** A reader without files; NULL if memory ran out. Freed by hr_checkpoint_reader_free(). */
hr_checkpoint_reader *hr_checkpoint_reader_new(void);
void hr_checkpoint_reader_free(hr_checkpoint_reader *reader);

/** Adds a file by its name. HR_ERROR_UNREADABLE for more than HR_SHARDS_MAX. */
hr_status hr_checkpoint_add_file(hr_checkpoint_reader *reader, const char *name, hr_error *error);

/** Reads an index, which adds its files in the order in which it names them. They are plain names that end in
 *  ".safetensors": an index cannot lead out of its folder. `input` must stay valid until the end. */
void hr_checkpoint_index_begin(hr_checkpoint_reader *reader, const char *input);
hr_status hr_checkpoint_index_feed(hr_checkpoint_reader *reader, const char *text, size_t length, hr_error *error);
hr_status hr_checkpoint_index_end(hr_checkpoint_reader *reader, hr_error *error);

/** Reads the header of file number `file`; see hr_safetensors_feed(). A tensor may be in one file only, of an index in
 *  the one that it names. */
void hr_checkpoint_header_begin(hr_checkpoint_reader *reader, int32_t file, const char *input, int64_t file_bytes);
int64_t hr_checkpoint_header_wanted(const hr_checkpoint_reader *reader);
hr_status hr_checkpoint_header_feed(hr_checkpoint_reader *reader, const char *bytes, size_t count, hr_error *error);
hr_status hr_checkpoint_header_end(hr_checkpoint_reader *reader, hr_error *error);

/** Whether the index has tensors that no file has. Reading the index once more then fails and names the first. */
bool hr_checkpoint_lacks_tensors(hr_checkpoint_reader *reader);

/** The sums over all files. */
hr_checkpoint hr_checkpoint_sums(const hr_checkpoint_reader *reader);

#endif
