/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of attention_flash_amx alone. Includes the version, whose functions are static. */
#define hr_flash_amx phases_version_amx
#include "runtime/cpu/flash/flash_amx.c"

#include "attention_phases.h"

static void scores(hr_flash_step *step)
{
  for (int key = 0; key < step->keys; key += PART)
    compute_scores(step, key, NULL);
}

/* Two parts' scores are stored; those of the other parts read the same buffers. */
static void weights(hr_flash_step *step)
{
  for (step->weights_done = 0; step->weights_done < step->keys;) {
    weights_job job = begin_weights(step);
    finish_weights(&job);
  }
}

static void values(hr_flash_step *step)
{
  rescale_output(step);
  gemm_values(step);
}

const phase_set phases_amx = {"attention_flash_amx", "amx_bf16", "avx512", HR_BF16,
                              &phases_version_amx,   scores,     weights,  values};
