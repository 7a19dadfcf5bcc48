/* SPDX-License-Identifier: Apache-2.0 */
/* The program of a decode step's parts: kernels/persistent.cu for their sizes. */
#ifndef HR_RUNTIME_CUDA_PERSISTENT_PROGRAM_H
#define HR_RUNTIME_CUDA_PERSISTENT_PROGRAM_H

#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/persistent/parts.h"
#include "runtime/device/device.h"

/** What the program is compiled for; of attention with heads as kernels/persistent_attention.cuh has them, q_each 0:
 * none. */
typedef struct hr_persistent_sizes {
  int64_t tokens;
  int64_t normed; /* the longest row that is normed */
  int fp8;        /* the sum of the formats of weights that are in fp8 */
  int64_t q_each, groups, k_share, v_share, splits;
  int64_t qk_dim, v_dim, page;
  int64_t experts, active; /* 0: no layer has experts */
  bool partial_slots;      /* some slots have less than HR_PERSISTENT_BYTES of their rows, or fp8 */
  bool cycles;             /* are noted */
} hr_persistent_sizes;

typedef struct hr_cycles_label hr_cycles_label; /* cycles.c */

typedef struct hr_persistent_kernel {
  hr_device *device;
  hr_cuda_kernel kernel;
  hr_persistent_call call;
  void *memory; /* of instructions, and of what is posted */
  size_t bytes;
  char *cycles_path; /* NULL: none are noted */
  hr_cycles_label *cycles_labels;
} hr_persistent_kernel;

/** Builds the program, and sets the call's shared memory. HR_ERROR_UNSUPPORTED for parts that no one program takes or
 *  whose rows leave no room for a ring. */
hr_status hr_persistent_load(hr_persistent_kernel *p, const hr_persistent_part *parts, size_t count,
                             hr_persistent_sizes *sizes, hr_error *error);

#endif
