/* How the programs softmax.cu and norm.cu are cut for a problem. */
#ifndef HR_RUNTIME_CUDA_ROWWISE_ROWWISE_H
#define HR_RUNTIME_CUDA_ROWWISE_ROWWISE_H

#include "runtime/cuda/driver/program.h"

#include <headroom/rowwise.h>
#include <stdbool.h>
#include <stdint.h>

/** HR_LIE of row.cuh. */
typedef enum hr_row_lie {
  HR_ROW_WHOLE,  /* rows are whole packs of 16 bytes at multiples of 16, in every tensor */
  HR_ROW_ALIKE,  /* x and the result begin at multiples of 16 */
  HR_ROW_ANYHOW, /* addresses are multiples of an element only */
} hr_row_lie;

typedef struct hr_row_cut {
  hr_row_lie lie;
  int64_t threads;  /* of a row in a block */
  int64_t blocks;   /* of a row: a cluster where there is more than one */
  int64_t teams;    /* of a block */
  int64_t rows;     /* that a team has at a time */
  int64_t chunk;    /* rows of a block where they are staged (staged.cuh); 0: they are not */
  int64_t kept;     /* packs that a thread keeps in registers */
  int64_t held;     /* and in shared memory */
  bool shifted;     /* whether weights are shifted to every offset within a pack before */
  int64_t resident; /* blocks of a multiprocessor that registers are held down for */
  size_t shared_bytes;
} hr_row_cut;

/** The cut for a softmax or norm on a device of compute capability `capability` that gives a block `shared_most` bytes
 *  of shared memory, where addresses are multiples of 16 (`aligned`) or of an element only. */
hr_row_cut hr_row_cut_choose(const hr_rowwise *rows, bool aligned, int capability, size_t shared_most);

/** Its definitions for hr_program. */
void hr_row_cut_defines(const hr_rowwise *rows, const hr_row_cut *cut, char text[HR_DEFINES_SIZE]);

/** The source of kernels/ of an operation. Static storage. */
const char *hr_row_source(hr_rowwise_operation operation);

#endif
