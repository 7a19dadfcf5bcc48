/* A configuration and a workload through everything that is pure. The configuration ends at the first NUL; the bytes
 * behind it choose the workload: phase, attention, dtype, dropout, then b, s, context, t and p in 8 bytes each. What
 * is missing stays as hr_workload_default() has it. */
#include "fuzz.h"
#include "promises.h"

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
  workload.dropout = read_choice(from, 1, workload.dropout);
  int64_t *sizes[] = {&workload.batch, &workload.sequence, &workload.context, &workload.tensor_parallel,
                      &workload.pipeline_stages};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    read_bytes(from, sizes[i], sizeof *sizes[i]);
  return workload;
}

static void describe(const hr_model *model, const hr_workload *workload)
{
  expect_describable(model, workload);
  for (size_t i = 0; i < FUZZ_DEVICES; i++)
    expect_predictable(&fuzz_devices()[i], model, workload);
  expect_reportable(model, workload, workload->phase == HR_PHASE_TRAIN ? &fuzz_devices()[0] : NULL);
}

static void describe_all_phases(const hr_model *model)
{
  hr_workload workload = hr_workload_default(model);
  for (int phase = HR_PHASE_FORWARD; phase <= HR_PHASE_DECODE; phase++)
    for (int form = HR_ATTENTION_UNFUSED; form <= HR_ATTENTION_FUSED; form++) {
      workload.phase = (hr_phase)phase;
      workload.attention = (hr_attention_form)form;
      describe(model, &workload);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
  size_t length = end ? (size_t)(end - data) : size;
  hr_model model;
  if (hr_model_from_json((const char *)data, length, "config.json", NULL, NULL, &model, NULL) != HR_OK)
    return 0;
  if (!end) {
    describe_all_phases(&model);
    return 0;
  }
  reader rest = {.data = end + 1, .left = size - length - 1};
  hr_workload workload = read_workload(&rest, &model);
  describe(&model, &workload);
  return 0;
}
