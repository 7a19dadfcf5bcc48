/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration and a workload (input.h) through description and prediction. */
#include "fuzz.h"
#include "hardware/hardware.h"
#include "input.h"
#include "properties.h"

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
  fuzz_input input;
  if (!fuzz_read_input(data, size, &input))
    return 0;
  if (input.chosen)
    describe(&input.model, &input.workload);
  else
    describe_all_phases(&input.model);
  return 0;
}
