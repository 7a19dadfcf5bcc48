/* SPDX-License-Identifier: Apache-2.0 */
/* The table of families: kernels of cuBLAS 13.1 on Hopper. Tiles are those that its heuristic was seen to choose; the
 * blocks of a multiprocessor follow from their registers and shared memory. */
#include "analysis/predict/gemm_family.h"

#include <stddef.h>

#define BY_4_BYTES 4 /* alignments from which there are faster kernels */
#define ANY_MORE INT64_MAX
#define TF32_BYTES 4 /* fp32 is SIMT's */

static const hr_family_tile tma_tiles[] = {
#define TILE(m, n, cluster_m, cluster_n) {m, n, cluster_m, cluster_n, 1, false},
#include "analysis/predict/tma_kernels.inc"
#undef TILE
};

/* cuBLASLt's choices in data/results/h200/gemm-errors.csv, and their halves: its tf32 kernels are older than tma's. */
static const hr_family_tile tf32_tiles[] = {
    {128, 256, 1, 1, 1, false}, {256, 128, 1, 1, 1, false}, {128, 128, 1, 1, 1, false}, {64, 256, 1, 1, 1, false},
    {256, 64, 1, 1, 1, false},  {64, 128, 1, 1, 1, false},  {128, 64, 1, 1, 1, false},  {64, 64, 1, 1, 1, false}};

static const hr_family_tile aligned_4_tiles[] = {
    {128, 256, 1, 1, 1, false}, {256, 128, 1, 1, 1, false}, {256, 64, 1, 1, 1, false}, {64, 256, 1, 1, 1, false},
    {128, 128, 1, 1, 2, false}, {64, 128, 1, 1, 3, false},  {128, 64, 1, 1, 3, false}, {64, 64, 1, 1, 5, false},
    {32, 32, 1, 1, 7, false},   {16, 16, 1, 1, 16, false}};

static const hr_family_tile aligned_2_tiles[] = {{128, 256, 1, 1, 1, false},
                                                 {256, 128, 1, 1, 1, false},
                                                 {128, 128, 1, 1, 2, false},
                                                 {64, 64, 1, 1, 5, false},
                                                 {32, 32, 1, 1, 9, true}};

static const hr_family_tile simt_tiles[] = {
    {256, 128, 1, 1, 1, false}, {128, 256, 1, 1, 1, false}, {128, 128, 1, 1, 2, false}, {64, 256, 1, 1, 2, false},
    {256, 64, 1, 1, 2, false},  {64, 128, 1, 1, 3, false},  {128, 64, 1, 1, 3, false},  {64, 64, 1, 1, 5, false},
    {32, 128, 1, 1, 4, false},  {128, 32, 1, 1, 4, false},  {32, 64, 1, 1, 6, false},   {64, 32, 1, 1, 6, false},
    {32, 32, 1, 1, 8, false}};

#define BLOCK(member) .cost = offsetof(hr_hardware, member)
#define TILES(list) .tiles = list, .tile_count = sizeof list / sizeof *list

/* Operands that TMA loads. */
#define BY_TMA BLOCK(tma), .align_least = HR_TMA_BYTES, .align_below = ANY_MORE, .k_bytes = 128, .splits_always = true

/* How k of operands of 4 bytes is split, with and without Tensor Cores. */
#define SPLITS_OF_4_BYTES .split_from = 1024, .split_part = 512, .split_waves = 8

static const hr_gemm_family families[] = {
    {BLOCK(simt), .simt = true, TILES(simt_tiles), .granule = 1, .k_bytes = 32, SPLITS_OF_4_BYTES},
    {BY_TMA, .element_bytes = TF32_BYTES, TILES(tf32_tiles), .granule = 1, SPLITS_OF_4_BYTES, .split_result = 128 * 128,
     .column_times = 2.25},
    /* How k is split: 61 of 32,900 aligned GEMMs that could be were left whole, 89% had the most parts that fit. */
    {BY_TMA, TILES(tma_tiles), .granule = 32, .split_from = 5120, .split_part = 2560, .split_waves = 1},
    {BLOCK(aligned_4), .align_least = BY_4_BYTES, .align_below = HR_TMA_BYTES, .misaligned = true,
     TILES(aligned_4_tiles), .granule = 1, .k_bytes = 64, .split_from = 880, .split_part = 128, .split_waves = 8},
    {BLOCK(aligned_2), .align_least = 1, .align_below = BY_4_BYTES, .misaligned = true, TILES(aligned_2_tiles),
     .granule = 1, .k_bytes = 64, .split_from = 34, .split_part = 128, .split_waves = 8, .splits_always = true},
};

static bool computes(const hr_gemm_family *family, const hr_hardware *hardware, const hr_gemm *gemm, int64_t alignment)
{
  if (family->simt != hardware->simt_formats[gemm->dtype])
    return false;
  if (family->element_bytes > 0 && family->element_bytes != (int64_t)hr_dtype_bytes(gemm->dtype))
    return false;
  return family->simt || (alignment >= family->align_least && alignment < family->align_below);
}

const hr_gemm_kernel_cost *hr_gemm_family_cost(const hr_hardware *hardware, const hr_gemm_family *family)
{
  return (const void *)((const char *)hardware + family->cost);
}

const hr_gemm_family *hr_gemm_family_of(const hr_hardware *hardware, const hr_gemm *gemm, int64_t alignment)
{
  const hr_gemm_family *family = families, *end = families + sizeof families / sizeof *families;
  while (family < end && !computes(family, hardware, gemm, alignment))
    family++;
  return family < end && hr_gemm_family_cost(hardware, family)->launch_ns > 0 ? family : NULL;
}
