/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration and a workload (input.h) through advice and a short search on one device. */
#include "fuzz.h"
#include "input.h"
#include "properties.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  fuzz_input input;
  if (fuzz_read_input(data, size, &input))
    expect_advisable(&input.model, &input.workload, &fuzz_devices()[size % FUZZ_DEVICES]);
  return 0;
}
