/* SPDX-License-Identifier: Apache-2.0 */
/* isa_machine.h for x86-64, by CPUID. */
#if defined(__x86_64__)

#include "base/names.h"
#include "runtime/cpu/host/isa_machine.h"

#include <cpuid.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct registers {
  unsigned a, b, c, d;
} registers;

static registers cpuid(unsigned leaf, unsigned subleaf)
{
  registers r = {0, 0, 0, 0};
  if (!__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d))
    r = (registers){0, 0, 0, 0};
  return r;
}

static bool bit(unsigned value, int index)
{
  return (value >> index) & 1;
}

/* Which register sets the operating system saves (XCR0). */
static unsigned saved_state(void)
{
  if (!bit(cpuid(1, 0).c, 27)) /* OSXSAVE */
    return 0;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/* Linux saves the tiles (state component 18) of a process only on request; all its threads may then use them. Source:
 * Documentation/arch/x86/xstate.rst of the kernel, which has the request since version 5.16. */
static bool tiles_granted(void)
{
#if defined(__linux__)
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
  return false;
#endif
}

/* Bits as in Intel's Software Developer's Manual, volume 2A, CPUID; AMD's manual volume 3 has the same. */
static void read_features(hr_isa *isa)
{
  unsigned saved = saved_state();
  bool vectors = (saved & 0x6) == 0x6, wide = (saved & 0xE6) == 0xE6, tiles = (saved & 0x60000) == 0x60000;
  registers seven = cpuid(7, 0), seven_one = cpuid(7, 1);
  unsigned avx512_core = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31); /* F, DQ, BW, VL */
  isa->avx2 = vectors && bit(seven.b, 5) && bit(cpuid(1, 0).c, 12);         /* and FMA */
  isa->avx512 = wide && (seven.b & avx512_core) == avx512_core;
  isa->avx512_bf16 = isa->avx512 && bit(seven_one.a, 5);
  isa->avx512_fp16 = isa->avx512 && bit(seven.d, 23);
  isa->amx_bf16 = isa->avx512 && tiles && bit(seven.d, 22) && bit(seven.d, 24) && tiles_granted();
}

static void read_brand(char *brand, size_t size)
{
  unsigned text[13] = {0};
  if ((unsigned)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u) /* clang's returns an int */
    return;
  for (unsigned i = 0; i < 3; i++) {
    registers r = cpuid(0x80000002u + i, 0);
    memcpy(text + 4 * i, &r, sizeof r);
  }
  const char *start = (const char *)text;
  hr_copy_text(brand, size, start + strspn(start, " "));
  for (size_t length = strlen(brand); length > 0 && brand[length - 1] == ' '; length--)
    brand[length - 1] = '\0';
}

/* Families and ranges of models by their makers' lists. `fma_width`: fp32 lanes that the core multiplies and adds in a
 * cycle, over all its ports: Zen 4 runs a 512-bit instruction as two halves, Zen 5 runs two whole ones. Sources:
 * Intel's and AMD's optimisation guides. */
typedef struct core_type {
  const char *vendor; /* the last word of the vendor string */
  unsigned family, first_model, last_model;
  const char *name;
  int fma_width, bf16_width; /* bf16_width: bf16 multiply-adds in a cycle where avx512_bf16 is there */
} core_type;

static const core_type core_types[] = {
    {"cAMD", 0x17, 0x30, 0xff, "zen2", 16, 0},          {"cAMD", 0x19, 0x00, 0x0f, "zen3", 16, 0},
    {"cAMD", 0x19, 0x10, 0x1f, "zen4", 16, 32},         {"cAMD", 0x19, 0x20, 0x5f, "zen3", 16, 0},
    {"cAMD", 0x19, 0x60, 0xaf, "zen4", 16, 32},         {"cAMD", 0x1a, 0x00, 0xff, "zen5", 32, 64},
    {"ntel", 6, 0x3f, 0x3f, "haswell", 16, 0},          {"ntel", 6, 0x4f, 0x4f, "broadwell", 16, 0},
    {"ntel", 6, 0x55, 0x55, "skylake-server", 32, 64},  {"ntel", 6, 0x6a, 0x6c, "ice-lake-server", 32, 0},
    {"ntel", 6, 0x8f, 0x8f, "sapphire-rapids", 32, 16}, {"ntel", 6, 0xcf, 0xcf, "emerald-rapids", 32, 16},
    {"ntel", 6, 0xad, 0xae, "granite-rapids", 32, 16},
};

static const core_type *find_core_type(void)
{
  registers vendor = cpuid(0, 0), one = cpuid(1, 0);
  unsigned family = (one.a >> 8) & 0xf, model = ((one.a >> 4) & 0xf) | ((one.a >> 12) & 0xf0);
  if (family == 0xf)
    family += (one.a >> 20) & 0xff;
  for (size_t i = 0; i < sizeof core_types / sizeof *core_types; i++) {
    const core_type *type = &core_types[i];
    if (memcmp(type->vendor, &vendor.c, 4) == 0 && type->family == family && type->first_model <= model &&
        model <= type->last_model)
      return type;
  }
  return NULL;
}

/* Two FLOPs a multiply-add. An AMX tile multiplication is 16 × 16 × 32 multiply-adds in 16 cycles. */
void hr_isa_estimate_rates_x86_64(hr_isa *isa)
{
  const core_type *type = find_core_type();
  int most = isa->avx512 ? 32 : isa->avx2 ? 16 : 4; /* what the instruction set allows, where no core is wider */
  int width = type && type->fma_width < most ? type->fma_width : most;
  double *rates = isa->flops_per_cycle;
  memset(isa->flops_per_cycle, 0, sizeof isa->flops_per_cycle);
  rates[HR_FP32] = 2.0 * width;
  rates[HR_FP64] = width;
  if (isa->amx_bf16)
    rates[HR_BF16] = 2.0 * 16 * 16 * 32 / 16;
  else if (isa->avx512_bf16)
    rates[HR_BF16] = 2.0 * (type && type->bf16_width ? type->bf16_width : 2 * width);
  else if (isa->avx512)
    rates[HR_BF16] = rates[HR_FP32] / 2; /* widened to fp32 on the way in: half the rate is an optimistic guess */
}

void hr_isa_detect_x86_64(hr_isa *isa)
{
  read_features(isa);
  read_brand(isa->brand, sizeof isa->brand);
  const core_type *type = find_core_type();
  const char *level = isa->avx512 ? "x86-64-v4" : isa->avx2 ? "x86-64-v3" : "x86-64";
  hr_copy_text(isa->architecture, sizeof isa->architecture, type ? type->name : level);
}

#endif
