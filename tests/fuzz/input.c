/* SPDX-License-Identifier: Apache-2.0 */
#include "input.h"

#include <string.h>

typedef struct reader {
  const uint8_t *data;
  size_t left;
} reader;

static void read_bytes(reader *from, void *to, size_t size)
{
  if (from->left < size)
    return;
  memcpy(to, from->data, size);
  from->data += size;
  from->left -= size;
}

static int read_choice(reader *from, int choices, int otherwise)
{
  uint8_t byte = (uint8_t)otherwise;
  read_bytes(from, &byte, 1);
  return byte % (choices + 1); /* one beyond the last is tried too */
}

static hr_workload read_workload(reader *from, const hr_model *model)
{
  hr_workload workload = hr_workload_default(model);
  workload.phase = (hr_phase)read_choice(from, HR_PHASE_DECODE + 1, (int)workload.phase);
  workload.attention = (hr_attention_form)read_choice(from, HR_ATTENTION_FUSED + 1, (int)workload.attention);
  workload.dtype = (hr_dtype)read_choice(from, HR_DTYPE_COUNT, (int)workload.dtype);
  workload.dropout = (hr_dropout)read_choice(from, HR_DROPOUT_FORWARD + 1, (int)workload.dropout);
  int64_t *sizes[] = {&workload.batch, &workload.sequence, &workload.context, &workload.tensor_parallel,
                      &workload.pipeline_stages};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    read_bytes(from, sizes[i], sizeof *sizes[i]);
  return workload;
}

bool fuzz_read_input(const uint8_t *data, size_t size, fuzz_input *input)
{
  const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
  size_t length = end ? (size_t)(end - data) : size;
  if (hr_model_from_json(&(hr_input){.text = (const char *)data, .length = length, .name = "config.json"}, NULL, NULL,
                         &input->model, NULL) != HR_OK)
    return false;
  reader rest = {.data = data + length, .left = size - length};
  input->chosen = end != NULL;
  if (end)
    rest.data++, rest.left--;
  input->workload = read_workload(&rest, &input->model);
  return true;
}
