/* SPDX-License-Identifier: Apache-2.0 */
/* isa_machine.h for aarch64, by the kernel's HWCAP bits and the core's MIDR. */
#if defined(__aarch64__)

#include "base/names.h"
#include "runtime/cpu/host/isa_machine.h"

#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

/* Bits of AT_HWCAP and AT_HWCAP2; newer than some C libraries' headers. Source: Linux, arch/arm64/include/uapi/asm/
 * hwcap.h. */
enum {
  CAPABILITY_ASIMD = 1 << 1,    /* NEON */
  CAPABILITY_ASIMDHP = 1 << 10, /* NEON arithmetic in fp16 */
  CAPABILITY_CPUID = 1 << 11,   /* the kernel emulates reads of MIDR_EL1 */
  CAPABILITY_SVE = 1 << 22,
  CAPABILITY_2_SVE2 = 1 << 1,
  CAPABILITY_2_I8MM = 1 << 13,
  CAPABILITY_2_BF16 = 1 << 14
};

/* Implementer and part number of MIDR_EL1, by their makers' manuals. `fma_width`: fp32 lanes that the core's NEON pipes
 * multiply and add in a cycle; the kernels here use NEON alone, also where SVE is wider. Source: the makers' software
 * optimization guides; Apple publishes none. */
typedef struct core_type {
  unsigned implementer, part;
  const char *name, *brand;
  int fma_width;
} core_type;

static const core_type core_types[] = {
    {0x41, 0xd0c, "neoverse-n1", "Arm Neoverse N1", 8},
    {0x41, 0xd40, "neoverse-v1", "Arm Neoverse V1", 16},
    {0x41, 0xd49, "neoverse-n2", "Arm Neoverse N2", 8},
    {0x41, 0xd4f, "neoverse-v2", "Arm Neoverse V2", 16},
    {0x41, 0xd8e, "neoverse-n3", "Arm Neoverse N3", 8},
    {0x41, 0xd84, "neoverse-v3", "Arm Neoverse V3", 16},
    {0x41, 0xd0b, "cortex-a76", "Arm Cortex-A76", 8},
    {0x46, 0x001, "a64fx", "Fujitsu A64FX", 8},
    {0x61, 0x022, "apple-m1", "Apple M1 (Icestorm)", 8},
    {0x61, 0x023, "apple-m1", "Apple M1 (Firestorm)", 16},
    {0x6d, 0xd49, "neoverse-n2", "Microsoft Cobalt 100", 8},
    {0xc0, 0xac3, "ampere-1", "AmpereOne", 8},
    {0xc0, 0xac4, "ampere-1a", "AmpereOne A", 8},
};

static const core_type *find_core_type(void)
{
  if (!(getauxval(AT_HWCAP) & CAPABILITY_CPUID))
    return NULL;
  uint64_t midr;
  __asm__("mrs %0, MIDR_EL1" : "=r"(midr));
  unsigned implementer = (unsigned)(midr >> 24) & 0xff, part = (unsigned)(midr >> 4) & 0xfff;
  for (size_t i = 0; i < sizeof core_types / sizeof *core_types; i++) {
    if (core_types[i].implementer == implementer && core_types[i].part == part)
      return &core_types[i];
  }
  return NULL;
}

/* The first of the sets that the processor has, best first, that an unknown core is named after. */
static const char *name_by_capabilities(void)
{
  unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  bool has_bf16 = second & CAPABILITY_2_BF16 && second & CAPABILITY_2_I8MM;
  if (second & CAPABILITY_2_SVE2)
    return has_bf16 ? "aarch64-sve2-bf16" : "aarch64-sve2";
  if (first & CAPABILITY_SVE)
    return has_bf16 ? "aarch64-sve-bf16" : "aarch64-sve";
  if (has_bf16)
    return "aarch64-bf16";
  return first & CAPABILITY_ASIMDHP ? "aarch64-fp16" : "aarch64";
}

void hr_isa_detect_aarch64(hr_isa *isa)
{
  const core_type *type = find_core_type();
  isa->neon = getauxval(AT_HWCAP) & CAPABILITY_ASIMD;
  hr_copy_text(isa->brand, sizeof isa->brand, type ? type->brand : "");
  hr_copy_text(isa->architecture, sizeof isa->architecture, type ? type->name : name_by_capabilities());
}

/* fp16 and bf16 have no rate: the kernels widen both to fp32, and oneDNN's GEMM in bf16 needs AVX-512. */
void hr_isa_estimate_rates_aarch64(hr_isa *isa)
{
  const core_type *type = find_core_type();
  int width = type ? type->fma_width : 8; /* two 128-bit pipes, as most cores of servers have at least */
  memset(isa->flops_per_cycle, 0, sizeof isa->flops_per_cycle);
  isa->flops_per_cycle[HR_FP32] = 2.0 * width;
  isa->flops_per_cycle[HR_FP64] = width;
}

#endif
