/* SPDX-License-Identifier: Apache-2.0 */
/* Maps the files of a checkpoint. */
#include "model/checkpoint/weights.h"
#include "base/error.h"
#include "resolve/checkpoint_files.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

static hr_status take_tensor(void *context, const hr_tensor_entry *entry, hr_error *error)
{
  return hr_weights_add(context, entry, error);
}

static hr_status take_file(void *context, int descriptor, const char *path, int64_t bytes, hr_error *error)
{
  hr_weights *weights = context;
  char reason[HR_REASON_SIZE];
  void *data = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED)
    return hr_fail(error, errno == ENOMEM ? HR_ERROR_OUT_OF_MEMORY : HR_ERROR_UNREADABLE, "%s: cannot be mapped: %s",
                   path, hr_reason(errno, reason));
  weights->files[weights->file_count++] = (hr_mapped_file){data, (size_t)bytes};
  return HR_OK;
}

static hr_status read_files(hr_weights *weights, const char *what, hr_error *error)
{
  hr_checkpoint_visitor visitor = {take_tensor, take_file, weights};
  hr_checkpoint sums;
  HR_TRY(hr_checkpoint_visit(what, &visitor, &sums, error));
  if (sums.files == 0)
    return hr_fail(error, HR_ERROR_NOT_FOUND, "%.200s: no safetensors file is beside its config.json", what);
  hr_weights_sort(weights);
  return HR_OK;
}

hr_status hr_weights_open(const char *what, hr_weights **weights, hr_error *error)
{
  HR_NEED(error, what, weights);
  hr_weights *opened = calloc(1, sizeof *opened);
  if (!opened)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%.200s: out of memory while reading", what);
  hr_status status = read_files(opened, what, error);
  if (status == HR_OK)
    *weights = opened;
  else
    hr_weights_close(opened);
  return status;
}

void hr_weights_close(hr_weights *weights)
{
  for (size_t i = 0; weights && i < weights->file_count; i++)
    munmap((void *)weights->files[i].data, weights->files[i].bytes);
  if (weights)
    hr_weights_clear(weights);
  free(weights);
}
