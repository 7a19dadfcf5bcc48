/* SPDX-License-Identifier: Apache-2.0 */
/* What a processor family implements for isa.c: one file a family, isa_x86_64.c and isa_aarch64.c. */
#ifndef HR_RUNTIME_CPU_HOST_ISA_MACHINE_H
#define HR_RUNTIME_CPU_HOST_ISA_MACHINE_H

#include "runtime/cpu/host/isa.h"

/** Set the instruction sets, the brand and the architecture of a zeroed *isa. */
void hr_isa_detect_x86_64(hr_isa *isa);
void hr_isa_detect_aarch64(hr_isa *isa);

/** Set flops_per_cycle from the core type and the instruction sets that are left. */
void hr_isa_estimate_rates_x86_64(hr_isa *isa);
void hr_isa_estimate_rates_aarch64(hr_isa *isa);

#endif
