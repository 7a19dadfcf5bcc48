/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU backend, on top of its modules. */
#ifndef HR_RUNTIME_CPU_H
#define HR_RUNTIME_CPU_H

#include "runtime/cpu/host/host.h"

/** Fills `hardware` with estimates from instruction sets, topology and clock; nothing is measured. */
hr_status hr_cpu_detect(const hr_device *device, hr_hardware *hardware, hr_error *error);

#endif
