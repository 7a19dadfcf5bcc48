/* SPDX-License-Identifier: Apache-2.0 */
/* Families of a library's GEMM kernels: which GEMMs they compute, in which tiles, and how they split k. */
#ifndef HR_ANALYSIS_PREDICT_GEMM_FAMILY_H
#define HR_ANALYSIS_PREDICT_GEMM_FAMILY_H

#include "hardware/hardware.h"

#include <headroom/gemm.h>

/** A tile of a family's kernels. */
typedef struct hr_family_tile {
  int16_t m, n;
  int8_t cluster_m, cluster_n; /* tiles that share loads */
  uint8_t blocks;              /* that a multiprocessor runs at once */
  bool smallest;               /* of misaligned operands: of bf16 for batched GEMMs alone, of fp16 with faster steps */
} hr_family_tile;

/** A row of the table of families. All have the terms of hr_gemm_kernel_cost, which the device's file has by name. */
typedef struct hr_gemm_family {
  size_t cost;           /* offset of the block in hr_hardware */
  int64_t element_bytes; /* of its operands; 0: any */
  int64_t align_least;   /* bytes to which operands and result are aligned: at least, */
  int64_t align_below;   /* and below */
  bool simt;             /* of SIMT formats, whatever the alignment */
  bool misaligned;       /* its loss counts against aligned tiles; the clock is at its limit */
  const hr_family_tile *tiles;
  size_t tile_count;
  int64_t granule;      /* of tiles whose operand is not contiguous along k */
  int64_t k_bytes;      /* a step along k */
  int64_t split_from;   /* bytes of a row along k from which it is split, */
  int64_t split_part;   /* into parts of at least so many, */
  int64_t split_waves;  /* that fill at most so many waves of tiles */
  bool splits_always;   /* where two parts fit into one wave */
  int64_t split_result; /* elements of the largest result that is split in two at least, however short k is */
  double column_times;  /* as long that loads take which are not contiguous along k: WGMMA transposes 2-byte operands
                        * alone; 0: as the block says */
} hr_gemm_family;

/** The cost of a family in the device's file; launch_ns is 0 where the file has none. */
const hr_gemm_kernel_cost *hr_gemm_family_cost(const hr_hardware *hardware, const hr_gemm_family *family);

/** The family that computes a GEMM whose operands and result are aligned to `alignment` bytes; NULL without one whose
 *  cost the device's file has. */
const hr_gemm_family *hr_gemm_family_of(const hr_hardware *hardware, const hr_gemm *gemm, int64_t alignment);

#endif
