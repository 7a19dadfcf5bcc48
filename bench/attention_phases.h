/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of a step of CPU flash attention, as a version does them (src/runtime/cpu/flash). */
#ifndef HR_BENCH_ATTENTION_PHASES_H
#define HR_BENCH_ATTENTION_PHASES_H

#include "runtime/cpu/flash/flash.h"

typedef struct phase_set {
  const char *kernel;
  const char *gemm_needs, *exp_needs; /* of the ceiling loops that bound it, words of hr_isa_has() */
  hr_dtype dtype;
  const hr_flash_version *version;
  void (*scores)(hr_flash_step *step);  /* S = Q Kᵀ, stored */
  void (*weights)(hr_flash_step *step); /* the softmax weights of stored scores */
  void (*values)(hr_flash_step *step);  /* o += P V */
} phase_set;

extern const phase_set phases_avx2, phases_avx512, phases_amx;

#endif
