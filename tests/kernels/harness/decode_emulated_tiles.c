/* SPDX-License-Identifier: Apache-2.0 */
/* The AMX version of decode attention with tile instructions in plain C, for processors that have AVX-512 but no
 * AMX. */
#include "emulated_tiles_kernels.h"

#if defined(__x86_64__)

#include "emulated_tiles.h"

#define hr_split_amx hr_split_amx_emulated
#include "runtime/cpu/decode/decode_amx.c"
#include "runtime/cpu/decode/plan.h"

#include <stdio.h>

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  (void)snprintf(why, why_size, "the cache is quantized, or only some keys count");
  return problem->decode.cache_format == HR_KV_UNQUANTIZED && problem->decode.top_k == 0;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *size, hr_error *error)
{
  return hr_split_prepare(device, problem, &hr_split_amx_emulated, state, size, error);
}

static const hr_kernel_functions functions = {
    .state_bytes = sizeof(hr_split_plan), .supports = supports, .prepare = prepare, .run = hr_split_run_plan};

#else

static const hr_kernel_functions functions = {0};

#endif

static const hr_kernel_info info = {"decode_split_amx_emulated", "decode", "cpu", "bf16", "avx512", ""};
const hr_kernel hr_decode_amx_emulated = {&info, &functions};
