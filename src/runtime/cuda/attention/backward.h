/* SPDX-License-Identifier: Apache-2.0 */
/* Host code of the gradients without additions in memory: attention_backward_naive.cu and attention_backward_sm80.cu,
 * a launch for each gradient, after and before attention_backward_terms.cu. */
#ifndef HR_RUNTIME_CUDA_ATTENTION_BACKWARD_H
#define HR_RUNTIME_CUDA_ATTENTION_BACKWARD_H

#include "runtime/cuda/attention/attention.h"
#include "runtime/cuda/kernels/attention_backward_layout.h"
#include "runtime/cuda/kernels/attention_backward_tiles.h"

/** How a program with the functions dq, dk and dv is configured for a problem. */
typedef struct hr_cuda_backward_config {
  const char *source;
  int64_t rows; /* of a gradient, of a block */
  unsigned threads;
  size_t shared_bytes;
  char defines[HR_DEFINES_SIZE], text[128];
} hr_cuda_backward_config;

/** For blocks of up to `shared_max` bytes of shared memory; `aligned`: addresses, head sizes and strides of operands
 *  and gradients are multiples of 16 bytes. */
typedef hr_cuda_backward_config hr_cuda_backward_configure(const hr_attention *forward, size_t shared_max,
                                                           bool aligned);

enum { HR_CUDA_GRADIENTS = 3 };

typedef struct hr_cuda_backward_plan {
  const hr_cuda *cuda;
  hr_cuda_backward_config config;
  cu_function prepare, add_sinks, gradients[HR_CUDA_GRADIENTS];
} hr_cuda_backward_plan;

/** Whether head sizes are at most HR_CUDA_ATTENTION_DIM_MAX, and lengths fit with tiles of `rows` of every gradient;
 *  if not, `why` says which does not. */
bool hr_cuda_backward_fits(const hr_attention *forward, int64_t rows, char *why, size_t why_size);

/** Functions for hr_kernel_functions. */
hr_status hr_cuda_backward_prepare(hr_device *device, const hr_problem *problem, hr_cuda_backward_configure *configure,
                                   void *state, size_t *workspace_bytes, hr_error *error);
hr_status hr_cuda_backward_run(const hr_plan *plan, const hr_run *run, hr_error *error);

/** The definitions of attention_backward_naive.cu for a problem. */
void hr_backward_naive_defines(const hr_attention *forward, char text[HR_DEFINES_SIZE]);

/** Tiles of attention_backward_sm80.cu. */
typedef struct hr_backward_sm80 {
  int qk, v;      /* head sizes, rounded up to 16 */
  int warps;      /* of a block */
  int m_tiles;    /* of 16 rows, per warp */
  int others;     /* rows of a tile that is looped over */
  int min_blocks; /* resident per multiprocessor: limits registers */
  int stages;     /* of the others */
  size_t shared_bytes;
} hr_backward_sm80;

/** For blocks of up to `shared_max` bytes of shared memory. Head sizes up to 256. */
hr_backward_sm80 hr_backward_sm80_choose(const hr_attention *forward, size_t shared_max);
void hr_backward_sm80_defines(const hr_backward_sm80 *tiles, const char *scores, bool aligned,
                              char text[HR_DEFINES_SIZE]);

#endif
