/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/gemm/algorithm.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>

#define SPLIT_K_MAX 64 /* assumed where the kernel itself chooses the split */

/* Thread block tiles by cublasLtMatmulTile_t, rows × columns of a column-major result. */
static const uint16_t tiles[][2] = {
#include "runtime/cuda/gemm/cublaslt_tile_names.inc"
};

/* k of a stage × number of stages, by cublasLtMatmulStages_t. */
static const char *const stages[] = {
    NULL,    "16x1",  "16x2",   "16x3",    "16x4",    "16x5",    "16x6",     "32x1",     "32x2",     "32x3",
    "32x4",  "32x5",  "32x6",   "64x1",    "64x2",    "64x3",    "64x4",     "64x5",     "64x6",     "128x1",
    "128x2", "128x3", "128x4",  "128x5",   "128x6",   "32x10",   "8x4",      "16x10",    "8x5",      NULL,
    NULL,    "8x3",   "8xauto", "16xauto", "32xauto", "64xauto", "128xauto", "256xauto", "768xauto",
};

/* Thread blocks of a cluster by cublasLtClusterShape_t from 2 on; the third size is always 1. */
static const uint8_t clusters[][2] = {
    {1, 1},  {2, 1},  {4, 1}, {1, 2}, {2, 2}, {4, 2},  {1, 4},  {2, 4},  {4, 4},  {8, 1},  {1, 8},  {8, 2},  {2, 8},
    {16, 1}, {1, 16}, {3, 1}, {5, 1}, {6, 1}, {7, 1},  {9, 1},  {10, 1}, {11, 1}, {12, 1}, {13, 1}, {14, 1}, {15, 1},
    {3, 2},  {5, 2},  {6, 2}, {7, 2}, {1, 3}, {2, 3},  {3, 3},  {4, 3},  {5, 3},  {3, 4},  {1, 5},  {2, 5},  {3, 5},
    {1, 6},  {2, 6},  {1, 7}, {2, 7}, {1, 9}, {1, 10}, {1, 11}, {1, 12}, {1, 13}, {1, 14}, {1, 15},
};

/* An attribute of 4 or 2 bytes; 0 if this version of cuBLASLt does not know it. */
static uint32_t config(const hr_cublaslt *lt, const lt_algorithm *algorithm, int attribute, size_t bytes)
{
  uint32_t wide = 0;
  uint16_t narrow = 0;
  size_t written;
  void *value = bytes == sizeof wide ? (void *)&wide : (void *)&narrow;
  if (lt->cublasLtMatmulAlgoConfigGetAttribute(algorithm, attribute, value, bytes, &written) != LT_SUCCESS)
    return 0;
  return bytes == sizeof wide ? wide : narrow;
}

/* Text for a number that has no name here; 0 leaves the choice to the kernel. */
static void number_text(uint32_t number, char text[32])
{
  if (number == 0)
    snprintf(text, 32, "auto");
  else
    snprintf(text, 32, "no. %" PRIu32, number);
}

/* The split-K count; below 1 where the kernel chooses. */
static int32_t splits(const hr_cublaslt *lt, const lt_algorithm *algorithm)
{
  return (int32_t)config(lt, algorithm, LT_CONFIG_SPLIT_K, 4);
}

int64_t hr_algorithm_split_k(const hr_cublaslt *lt, const lt_heuristic *chosen)
{
  int32_t parts = splits(lt, &chosen->algorithm);
  return parts > 1 ? parts : 1;
}

int64_t hr_algorithm_rounded_split_k(const hr_cublaslt *lt, const lt_heuristic *chosen)
{
  const uint32_t in_output_type = LT_REDUCTION_IN_PLACE | LT_REDUCTION_OUTPUT_TYPE;
  int32_t parts = splits(lt, &chosen->algorithm);
  if (parts == 1 || !(config(lt, &chosen->algorithm, LT_CONFIG_REDUCTION, 4) & in_output_type))
    return 0;
  return parts > 1 ? parts : SPLIT_K_MAX;
}

void hr_algorithm_describe(const hr_cublaslt *lt, const lt_heuristic *chosen, bool rounded, char *text, size_t size)
{
  uint32_t id = config(lt, &chosen->algorithm, LT_CONFIG_ID, 4),
           tile = config(lt, &chosen->algorithm, LT_CONFIG_TILE, 4);
  uint32_t stage = config(lt, &chosen->algorithm, LT_CONFIG_STAGES, 4);
  int32_t split = splits(lt, &chosen->algorithm);
  uint32_t cluster = config(lt, &chosen->algorithm, LT_CONFIG_CLUSTER, 2);
  char tile_text[32], cluster_text[32], stage_text[32], split_text[32];
  number_text(tile, tile_text);
  number_text(stage, stage_text);
  number_text(cluster, cluster_text);
  if (tile < sizeof tiles / sizeof *tiles && tiles[tile][0] > 0) /* the result is computed transposed */
    snprintf(tile_text, sizeof tile_text, "%dx%d", tiles[tile][1], tiles[tile][0]);
  if (stage < sizeof stages / sizeof *stages && stages[stage])
    snprintf(stage_text, sizeof stage_text, "%s", stages[stage]);
  if (cluster >= 2 && cluster - 2 < sizeof clusters / sizeof *clusters)
    snprintf(cluster_text, sizeof cluster_text, "%dx%d", clusters[cluster - 2][1], clusters[cluster - 2][0]);
  if (split > 0)
    snprintf(split_text, sizeof split_text, "%" PRId32, split);
  else
    snprintf(split_text, sizeof split_text, "auto");
  hr_write_text(text, size, "algo %u, tile %s, stages %s, cluster %s, split-k %s%s, waves %.2f", id, tile_text,
                stage_text, cluster_text, split_text, rounded ? " rounded" : "", (double)chosen->waves);
}
