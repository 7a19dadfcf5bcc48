/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/host/isa.h"

#include "base/error.h"
#include "base/names.h"
#include "runtime/cpu/host/isa_machine.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The levels are in the order of HEADROOM_CPU_MASK: each includes those before it. */
static const struct {
  const char *name;
  size_t member;
} levels[] = {
#if defined(__aarch64__)
    {"neon", offsetof(hr_isa, neon)},
#else
    {"avx2", offsetof(hr_isa, avx2)},
    {"avx512", offsetof(hr_isa, avx512)},
    {"avx512_bf16", offsetof(hr_isa, avx512_bf16)},
    {"avx512_fp16", offsetof(hr_isa, avx512_fp16)},
    {"amx_bf16", offsetof(hr_isa, amx_bf16)},
#endif
};

#if defined(__aarch64__)
#define LEVEL_NAMES "portable or neon"
#else
#define LEVEL_NAMES "portable, avx2, avx512, avx512_bf16, avx512_fp16 or amx_bf16"
#endif

#define LEVEL_COUNT (sizeof levels / sizeof *levels)

const char *hr_isa_level(size_t index)
{
  return index < LEVEL_COUNT ? levels[index].name : NULL;
}

static bool *flag_of(hr_isa *isa, size_t level)
{
  return (bool *)((char *)isa + levels[level].member);
}

bool hr_isa_has(const hr_isa *isa, const char *name)
{
  hr_isa copy = *isa;
  for (size_t i = 0; i < LEVEL_COUNT; i++) {
    if (strcmp(levels[i].name, name) == 0)
      return *flag_of(&copy, i);
  }
  return false;
}

static hr_status mask_levels(hr_isa *isa, const char *last, hr_error *error)
{
  size_t kept = 0;
  while (kept < LEVEL_COUNT && strcmp(levels[kept].name, last) != 0)
    kept++;
  if (kept == LEVEL_COUNT && strcmp(last, "portable") != 0)
    return hr_fail(error, HR_ERROR_INVALID, "HEADROOM_CPU_MASK: expected " LEVEL_NAMES ", found \"%.40s\"", last);
  for (size_t i = kept == LEVEL_COUNT ? 0 : kept + 1; i < LEVEL_COUNT; i++) {
    isa->masked = isa->masked || *flag_of(isa, i);
    *flag_of(isa, i) = false;
  }
  return HR_OK;
}

static void detect(hr_isa *isa)
{
#if defined(__x86_64__)
  hr_isa_detect_x86_64(isa);
#elif defined(__aarch64__)
  hr_isa_detect_aarch64(isa);
#else
  hr_copy_text(isa->architecture, sizeof isa->architecture, "unknown");
#endif
}

static void estimate_rates(hr_isa *isa)
{
#if defined(__x86_64__)
  hr_isa_estimate_rates_x86_64(isa);
#elif defined(__aarch64__)
  hr_isa_estimate_rates_aarch64(isa);
#else
  isa->flops_per_cycle[HR_FP32] = 2.0 * 8; /* two 128-bit FMA units, as most 64-bit cores have at least */
  isa->flops_per_cycle[HR_FP64] = 2.0 * 4;
#endif
}

hr_status hr_isa_mask(hr_isa *isa, const char *last, hr_error *error)
{
  if (last && last[0])
    HR_TRY(mask_levels(isa, last, error));
  estimate_rates(isa);
  return HR_OK;
}

hr_status hr_isa_read(hr_isa *isa, hr_error *error)
{
  *isa = (hr_isa){.brand = ""};
  detect(isa);
  return hr_isa_mask(isa, getenv("HEADROOM_CPU_MASK"), error);
}
