/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a GEMM cut into tiles, the splits of k, and their time. */
#ifndef HR_ANALYSIS_PREDICT_GEMM_TILING_H
#define HR_ANALYSIS_PREDICT_GEMM_TILING_H

#include "analysis/predict/gemm_family.h"
#include "analysis/predict/terms.h"
#include "hardware/hardware.h"

/** The terms that do not depend on the tile. */
typedef struct hr_tiling_problem {
  const hr_hardware *hardware;
  const hr_gemm *gemm;
  const hr_tile *shapes; /* tiles of the format */
  size_t shape_count;
  int64_t slots, element_bytes;
  int64_t result_bytes;            /* of an element of the result: 2 for operands of 8 bits */
  int64_t depth_step;              /* elements of k per step */
  double slot_ns_per_flop;         /* of one slot at the library's rate */
  double slot_ns_per_stored;       /* per element of the result: the part of its store that compute does not hide */
  double alignment_share;          /* of full speed; 1: aligned */
  bool by_edge;                    /* smaller tiles lose more than the share: with their edge, not their area */
  const hr_gemm_family *family;    /* whose tiles and cost are taken; NULL: `shapes` */
  const hr_gemm_kernel_cost *cost; /* of the family */
  double load_a, load_b;           /* times as long that loads of A and B take by their alignment; of a family */
  double sector_ns_per_byte;       /* of a result whose rows are parts of sectors; 0: no limit of its own */
  double split_ns;                 /* of splitting k */
  bool whole_k;                    /* without a family: k is not split */
  double row_loads;                /* times as long that reading from memory takes by the rows of B, at least 1 */
  double rate_slowdown;            /* of arithmetic, by rows along k that lie far apart or by small tiles, at least 1 */
  double matrix_ns;                /* useful FLOPs at the library's rate */
  double loaded_bytes;             /* of the operands, each as often as it must be read */
  double highest_clock; /* that a tiling may have over the settled one; misaligned kernels are at their limit */

  /* What all tiles of a family have in common; 0 without one. */
  int64_t parts;        /* of k, at most */
  double memory_min_ns; /* that every tiling takes at least */
  double element_ns;    /* arithmetic and store of an element of the result on its slot */
  double steps_ns;      /* beginnings of the steps along the whole of k */
} hr_tiling_problem;

/** The result cut into tiles of one shape, and its time. */
typedef struct hr_tiling {
  hr_tile tile;
  int64_t cluster_m, cluster_n; /* tiles that share loads */
  int64_t blocks;               /* that a multiprocessor runs at once */
  double step_share;            /* of the time of a step of the family's kernels */
  int64_t tiles, splits, waves;
  double refill_ns;    /* added once, whatever the number of waves */
  double slot_ns;      /* one tile of one split on one slot, aligned */
  double slowdown;     /* by misalignment, at least 1 */
  double reduction_ns; /* of the splits */
  double clock;        /* over the settled clock of large GEMMs, at least 1 */
  double compute_ns;   /* of all waves and the reduction, at that clock */
  double memory_ns;
  double busy_ns;    /* of both, overlapped */
  double started_ns; /* that a launch takes more than the shortest, by the multiprocessors that have a tile */
} hr_tiling;

/** The fastest tiling, as the library's heuristics aim to choose. */
hr_tiling hr_best_tiling(const hr_tiling_problem *problem);

/** The most splits of k that tiles of the device's file may have. */
int64_t hr_max_splits(const hr_tiling_problem *problem, const hr_tiling *tiling);

/** Time to read the operands and write the result. */
double hr_tiling_memory_ns(const hr_tiling_problem *problem, const hr_tiling *tiling);

/** Sets what all tiles of the problem's family have in common, but for the parts of k. */
void hr_set_family_terms(hr_tiling_problem *problem);

/** Sets the time of a tiling of given tile, splits and tiles; false, without it, if that is more than `max_ns`
 *  anyway. */
bool hr_set_tiling_time(const hr_tiling_problem *problem, double max_ns, hr_tiling *tiling);

/** Whether waves of `slow_ns` at the settled clock and a split's reduction take more than `max_ns` whatever is read. */
bool hr_exceeds(const hr_tiling_problem *problem, double slow_ns, double reduction_ns, double max_ns);

#endif
