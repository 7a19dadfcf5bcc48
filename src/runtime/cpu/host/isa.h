/* The processor's instruction set and name, by CPUID. */
#ifndef HR_RUNTIME_CPU_HOST_ISA_H
#define HR_RUNTIME_CPU_HOST_ISA_H

#include <headroom/hardware.h>

typedef struct hr_isa {
  char brand[64];        /* as the processor calls itself; "" where it does not */
  char architecture[32]; /* "zen5", "sapphire-rapids"; "x86-64-v4" and so on for one that the table lacks */
  bool avx2, avx512, avx512_bf16, avx512_fp16, amx_bf16; /* usable: the operating system keeps the registers too */
  bool masked;                                           /* something was taken away */
  double flops_per_cycle[HR_DTYPE_COUNT]; /* of one core, products and sums counted; 0: no fast instructions */
} hr_isa;

/** Asks the processor that it runs on, and the system for AMX: Linux gives a process its tiles only when it asks
 *  (arch_prctl), once for all threads, and may refuse. On other architectures than x86-64 only the name "unknown" is
 *  known.
 *
 *  The environment variable HEADROOM_CPU_MASK takes instruction sets away: it names the last of portable, avx2, avx512,
 *  avx512_bf16, avx512_fp16, amx_bf16 that may be used. HR_ERROR_INVALID for another word. */
hr_status hr_isa_read(hr_isa *isa, hr_error *error);

/** What hr_isa_read() does with HEADROOM_CPU_MASK = `last`; NULL or "" leaves all. */
hr_status hr_isa_mask(hr_isa *isa, const char *last, hr_error *error);

/** Whether a word of hr_kernel_info.needs ("avx512") is there. */
bool hr_isa_has(const hr_isa *isa, const char *name);

#endif
