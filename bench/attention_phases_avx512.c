/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of attention_flash_avx512 alone. Includes the version, whose functions are static. */
#define hr_flash_avx512 phases_version_avx512
#include "runtime/cpu/flash/flash_avx512.c"

#include "attention_phases.h"

static _Alignas(64) row_lanes most[TILE_ROWS];

static void scores(hr_flash_step *step)
{
  gemm_scores(step, most);
}

static void weights(hr_flash_step *step)
{
  softmax(step, most);
}

static void values(hr_flash_step *step)
{
  gemm_values(step);
}

const phase_set phases_avx512 = {"attention_flash_avx512", "avx512", "avx512", HR_FP32,
                                 &phases_version_avx512,   scores,   weights,  values};
