/* SPDX-License-Identifier: Apache-2.0 */
/* The AMX version of flash attention with tile instructions in plain C, for processors that have AVX-512 but no
 * AMX. */
#include "emulated_tiles_kernels.h"

#if defined(__x86_64__)

#include "emulated_tiles.h"

#define hr_flash_amx hr_flash_amx_emulated
#include "runtime/cpu/flash/flash_amx.c"
#include "runtime/cpu/flash/plan.h"

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *size, hr_error *error)
{
  return hr_flash_prepare(device, problem, &hr_flash_amx_emulated, state, size, error);
}

static const hr_kernel_functions functions = {
    .state_bytes = sizeof(hr_flash_plan), .prepare = prepare, .run = hr_flash_run};

#else

static const hr_kernel_functions functions = {0};

#endif

static const hr_kernel_info info = {"attention_flash_amx_emulated", "attention", "cpu", "bf16", "avx512", ""};
const hr_kernel hr_attention_amx_emulated = {&info, &functions};
