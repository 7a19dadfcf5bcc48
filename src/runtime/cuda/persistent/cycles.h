/* SPDX-License-Identifier: Apache-2.0 */
/* Cycles of the phases of each instruction, which the kernel notes where HEADROOM_CYCLES names a file for them:
 * kernels/persistent_cycles.cuh. The file has those of the last run of the last such kernel that was forgotten. */
#ifndef HR_RUNTIME_CUDA_PERSISTENT_CYCLES_H
#define HR_RUNTIME_CUDA_PERSISTENT_CYCLES_H

#include "runtime/cuda/persistent/instructions.h"
#include "runtime/cuda/persistent/program.h"

/** Takes the file's name, if there is one; what is in it stays until a kernel that ran is forgotten. HR_ERROR_INVALID
 *  if it cannot be written to. */
hr_status hr_open_cycles(hr_persistent_kernel *p, hr_error *error);

/** Bytes that the kernel notes, behind its counters; 0: none. */
size_t hr_cycles_bytes(const hr_persistent_kernel *p);

/** Keeps the name of each instruction, in their order. */
void hr_label_cycles(const hr_persistent_kernel *p, const hr_instruction_list *list);

/** Writes the file if the kernel has run, or leaves it empty if it cannot be written; frees what was taken. */
void hr_close_cycles(hr_persistent_kernel *p);

#endif
