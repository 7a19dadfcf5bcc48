/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/predict/misaligned_choice.h"

#include "base/checked.h"

#include <math.h>

#define MULTIPROCESSORS 132 /* of the Hopper GPU whose library was asked */
#define BLOCKS_128 2        /* of a tile of 128 × 128 that run on one */
#define LONG_SPLIT 130      /* elements of k */

/* A node of a tree: rows whose feature exceeds the threshold go on at the node `right`, others at the next one. A leaf
 * has feature −1 and its answer in the last two. */
typedef struct node {
  double threshold;
  int16_t feature;
  uint16_t right, second;
} node;

#include "analysis/predict/misaligned_choices/aligned_2_batched_tiles.inc"
#include "analysis/predict/misaligned_choices/aligned_2_plain_tiles.inc"
#include "analysis/predict/misaligned_choices/aligned_2_splits.inc"
#include "analysis/predict/misaligned_choices/aligned_4_batched_tiles.inc"
#include "analysis/predict/misaligned_choices/aligned_4_plain_tiles.inc"
#include "analysis/predict/misaligned_choices/aligned_4_splits.inc"

/* scripts/learn_choices.py has the same order; only the trees for splits use the last two. */
enum {
  FEATURE_M,
  FEATURE_N,
  FEATURE_K,
  FEATURE_BATCH,
  FEATURE_TRANSPOSE_A,
  FEATURE_TRANSPOSE_B,
  FEATURE_SHORTER,
  FEATURE_TILES_64,
  FEATURE_TILES_128,
  FEATURE_TILES_256,
  FEATURE_WORK,
  FEATURE_COVERED_128,
  FEATURE_COVERED_256,
  FEATURE_COVERED_256_HIGH,
  FEATURE_FILLED_128,
  FEATURE_FILLED_256,
  FEATURE_AREA,
  FEATURE_TILES,
  FEATURE_COUNT
};

static double tiles_of(const hr_gemm *g, int64_t m, int64_t n)
{
  return (double)hr_ceil_div(g->m, m) * (double)hr_ceil_div(g->n, n) * (double)g->batch;
}

/* Returns the share of these tiles' area that is within the result. */
static double covered(const hr_gemm *g, int64_t m, int64_t n)
{
  double result = (double)g->m * (double)g->n * (double)g->batch;
  return result / (tiles_of(g, m, n) * (double)m * (double)n);
}

/* Returns the share of whole waves that is filled. */
static double filled(double waves)
{
  return waves / ceil(waves);
}

static void set_features(const hr_gemm *g, double features[FEATURE_COUNT])
{
  features[FEATURE_M] = (double)g->m;
  features[FEATURE_N] = (double)g->n;
  features[FEATURE_K] = (double)g->k;
  features[FEATURE_BATCH] = (double)g->batch;
  features[FEATURE_TRANSPOSE_A] = g->transpose_a ? 1 : 0;
  features[FEATURE_TRANSPOSE_B] = g->transpose_b ? 1 : 0;
  features[FEATURE_SHORTER] = (double)hr_min64(g->m, g->n);
  features[FEATURE_TILES_64] = tiles_of(g, 64, 64);
  features[FEATURE_TILES_128] = tiles_of(g, 128, 128);
  features[FEATURE_TILES_256] = tiles_of(g, 128, 256);
  features[FEATURE_WORK] = (double)g->m * (double)g->n * (double)g->k * (double)g->batch;
  features[FEATURE_COVERED_128] = covered(g, 128, 128);
  features[FEATURE_COVERED_256] = covered(g, 128, 256);
  features[FEATURE_COVERED_256_HIGH] = covered(g, 256, 128);
  features[FEATURE_FILLED_128] = filled(features[FEATURE_TILES_128] / (MULTIPROCESSORS * BLOCKS_128));
  features[FEATURE_FILLED_256] = filled(features[FEATURE_TILES_256] / MULTIPROCESSORS);
}

static const node *leaf_of(const node *tree, const double features[FEATURE_COUNT])
{
  const node *at = tree;
  while (at->feature >= 0)
    at = features[at->feature] > at->threshold ? tree + at->right : at + 1;
  return at;
}

/* The most splits with which so many tiles fit into `waves`. */
static double max_splits(double tiles, double waves)
{
  return floor(MULTIPROCESSORS * waves / tiles);
}

/* All but 640 of 24,400 split GEMMs whose splits are long have the most splits with which their tiles fit into a
 * number of whole waves: one more would start another wave. The tree only knows about how many there are. */
static int64_t fill_waves(const hr_gemm *gemm, double tiles, int64_t splits)
{
  if (splits < 2 || gemm->k < LONG_SPLIT * splits)
    return splits;
  double waves = floor(tiles * (double)splits / MULTIPROCESSORS);
  double fewer = fmax(1, max_splits(tiles, waves)), more = fmax(1, max_splits(tiles, waves + 1));
  return (int64_t)((double)splits * (double)splits < fewer * more ? fewer : more);
}

hr_misaligned_choice hr_choose_misaligned(const hr_gemm *gemm, bool aligned_2)
{
  double features[FEATURE_COUNT];
  set_features(gemm, features);
  const node *plain = aligned_2 ? aligned_2_plain_tiles : aligned_4_plain_tiles;
  const node *batched = aligned_2 ? aligned_2_batched_tiles : aligned_4_batched_tiles;
  const node *tile = leaf_of(gemm->batch > 1 ? batched : plain, features);
  hr_misaligned_choice choice = {.m = tile->right, .n = tile->second, .splits = 1};
  features[FEATURE_AREA] = (double)choice.m * (double)choice.n;
  features[FEATURE_TILES] = tiles_of(gemm, choice.m, choice.n);
  if (gemm->batch == 1)
    choice.splits =
        fill_waves(gemm, features[FEATURE_TILES],
                   hr_min64(leaf_of(aligned_2 ? aligned_2_splits : aligned_4_splits, features)->right, gemm->k));
  return choice;
}
