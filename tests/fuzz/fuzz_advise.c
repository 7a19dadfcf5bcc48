/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration and a workload (input.h) through advice, a short search, and plans for serving and training. */
#include "fuzz.h"
#include "hardware/hardware.h"
#include "input.h"
#include "properties.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  fuzz_input input;
  if (fuzz_read_input(data, size, &input)) {
    const hr_hardware *hardware = &fuzz_devices()[size % FUZZ_DEVICES];
    expect_advisable(&input.model, &input.workload, hardware);
    expect_servable(&input.model, &input.workload, hardware);
    expect_trainable(&input.model, &input.workload, hardware);
  }
  return 0;
}
