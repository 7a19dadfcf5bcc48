/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a device file: a clear error, or a device that predictions can use. */
#include "fuzz.h"
#include "hardware/hardware.h"
#include "properties.h"

#include "expect.h"

/* Equal heads, gated MLP, odd sizes, on two devices: every kind of operator except fused attention. */
static hr_model some_model(void)
{
  hr_model model = hr_model_default();
  model.hidden = 2560;
  model.vocabulary = 50257;
  hr_layer_group *layer = &model.groups[0];
  layer->count = 3;
  layer->attention.q_heads = layer->attention.k_heads = layer->attention.v_heads = 32;
  layer->attention.qk_dim = layer->attention.v_dim = 80;
  layer->dense.width = 6827;
  layer->dense.gated = true;
  return model;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  hr_hardware hardware = {.multiprocessors = -7};
  hr_error error = {.status = HR_OK};
  hr_status status = hr_hardware_from_json(
      &(hr_input){.text = (const char *)data, .length = size, .name = "device.json"}, &hardware, &error);
  if (status != HR_OK) {
    expect_clear_failure(status, &error);
    EXPECT(hardware.multiprocessors == -7);
    return 0;
  }
  EXPECT(hr_hardware_check(&hardware, &error) == HR_OK);
  expect_printable(hardware.about.name);
  expect_printable(hardware.about.product);
  expect_printable(hardware.about.architecture);

  hr_model model = some_model();
  hr_workload workload = hr_workload_default(&model);
  for (int phase = HR_PHASE_FORWARD; phase <= HR_PHASE_DECODE; phase++)
    for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++) {
      workload.phase = (hr_phase)phase;
      workload.dtype = (hr_dtype)dtype;
      workload.attention = dtype % 2 ? HR_ATTENTION_FUSED : HR_ATTENTION_UNFUSED;
      workload.tensor_parallel = hardware.interconnect_bytes_per_s > 0 ? 2 : 1;
      expect_predictable(&hardware, &model, &workload);
    }
  return 0;
}
