/* SPDX-License-Identifier: Apache-2.0 */
/* The processor's name, instruction sets and FLOPs per cycle: by CPUID on x86-64, by HWCAP and MIDR on aarch64. */
#ifndef HR_RUNTIME_CPU_HOST_ISA_H
#define HR_RUNTIME_CPU_HOST_ISA_H

#include <headroom/hardware.h>
#include <stddef.h>

typedef struct hr_isa {
  char brand[64];        /* the processor's own name; "" where it has none */
  char architecture[32]; /* "zen5", "sapphire-rapids", "neoverse-v2"; "x86-64-v4", "aarch64-sve" for an unknown core */
  bool avx2, avx512, avx512_bf16, avx512_fp16, amx_bf16; /* usable: the operating system saves the registers, too */
  bool neon;
  bool masked;                            /* some of them were removed by a mask */
  double flops_per_cycle[HR_DTYPE_COUNT]; /* of one core; 0: no fast instructions */
} hr_isa;

/** Reads the processor that the caller runs on, and asks the system for AMX: Linux gives a process its tiles only on
 *  request (arch_prctl), once for all threads, and may refuse. On other architectures than x86-64 and aarch64 the name
 *  is "unknown" and no instruction set is set.
 *
 *  The environment variable HEADROOM_CPU_MASK removes instruction sets: it names the last level that may be used, which
 *  includes those before it: portable, avx2, avx512, avx512_bf16, avx512_fp16, amx_bf16; on aarch64 portable, neon.
 *  HR_ERROR_INVALID for another word. */
hr_status hr_isa_read(hr_isa *isa, hr_error *error);

/** Applies HEADROOM_CPU_MASK = `last`; NULL or "" removes nothing. */
hr_status hr_isa_mask(hr_isa *isa, const char *last, hr_error *error);

/** Whether a word of hr_kernel_info.needs ("avx512") is there. */
bool hr_isa_has(const hr_isa *isa, const char *name);

/** The levels of HEADROOM_CPU_MASK above "portable" that this build knows, lowest first; NULL past the last. */
const char *hr_isa_level(size_t index);

#endif
