/* SPDX-License-Identifier: Apache-2.0 */
/* How the programs of row-wise operations are compiled for a problem. */
#ifndef HR_RUNTIME_CUDA_ROWWISE_ROWWISE_H
#define HR_RUNTIME_CUDA_ROWWISE_ROWWISE_H

#include "runtime/cuda/driver/context.h"
#include "runtime/cuda/driver/program.h"
#include "runtime/cuda/kernels/rowwise_layout.h"

#include <headroom/rowwise.h>
#include <stdbool.h>
#include <stdint.h>

/** How softmax.cu or norm.cu is compiled for a problem; rowwise_registers.cuh and rowwise_staged.cuh define the
 *  terms. */
typedef struct hr_rowwise_tiling {
  hr_rowwise_alignment alignment;
  int64_t threads;        /* of a row in a block */
  int64_t cluster;        /* thread blocks of a row */
  int64_t groups;         /* row groups of a block */
  int64_t rows;           /* that a row group processes at a time */
  int64_t staged_rows;    /* of a block that stages rows in shared memory; 0: it does not */
  int64_t register_packs; /* of a thread, for each row */
  int64_t shared_packs;   /* of a thread, for each row */
  bool shifted;           /* whether weights are shifted to every offset within a pack before */
  int64_t min_blocks;     /* resident per multiprocessor: limits registers */
  size_t shared_bytes;
} hr_rowwise_tiling;

/** The tiling of a softmax or norm on a device of compute capability `capability` with up to `shared_max` bytes of
 *  shared memory per block, for addresses that are multiples of 16 (`aligned`) or of an element only. */
hr_rowwise_tiling hr_rowwise_tiling_choose(const hr_rowwise *rows, bool aligned, int capability, size_t shared_max);

/** Its definitions for hr_program. */
void hr_rowwise_tiling_defines(const hr_rowwise *rows, const hr_rowwise_tiling *tiling, char text[HR_DEFINES_SIZE]);

/** Thread blocks of a launch with this tiling. */
int64_t hr_rowwise_blocks(const hr_rowwise *rows, const hr_rowwise_tiling *tiling);

/** Shared memory that a block may use; if the driver does not say, what every GPU gives. */
size_t hr_rowwise_shared_max(const hr_cuda *cuda);

/** The program of kernels/ of an operation; of another's kernels NULL. Static storage. */
const char *hr_rowwise_source(hr_rowwise_operation operation);
const char *hr_rowwise_backward_source(hr_rowwise_operation operation);

/** How rowwise_backward_rows.cu, which defines the terms, is compiled. */
typedef struct hr_rowwise_backward_tiling {
  int64_t threads, groups, packs;
} hr_rowwise_backward_tiling;

hr_rowwise_backward_tiling hr_rowwise_backward_tiling_choose(const hr_rowwise *rows);
void hr_rowwise_backward_defines(const hr_rowwise *rows, const hr_rowwise_backward_tiling *tiling,
                                 char text[HR_DEFINES_SIZE]);

/** How residual_norm.cu, which defines the terms, is compiled. */
typedef struct hr_residual_norm_tiling {
  int64_t threads, packs;
} hr_residual_norm_tiling;

hr_residual_norm_tiling hr_residual_norm_tiling_choose(const hr_rowwise *rows);
void hr_residual_norm_defines(const hr_rowwise *rows, const hr_residual_norm_tiling *tiling,
                              char text[HR_DEFINES_SIZE]);

/** The softmax whose tiling cross_entropy.cu has, and its definitions. */
hr_rowwise hr_rowwise_loss_rows(const hr_rowwise *rows);
void hr_rowwise_loss_defines(const hr_rowwise *rows, const hr_rowwise_tiling *tiling, char text[HR_DEFINES_SIZE]);

#endif
