/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a GEMM: tile and wave quantization, split-K, alignment, memory, launch. docs/prediction.md has the
 * model. */
#include "analysis/predict/terms.h"

#include "base/checked.h"
#include "base/error.h"

#include <math.h>

/* Split-K: each split has at least so many bytes of each row; shorter ones cost more to start than they compute. */
#define SPLIT_BYTES_LEAST 2048
/* Split-K: partial results are reduced through the last-level cache, which is about this much faster than memory. */
#define REDUCTION_SPEED 2.0
/* GEMV: a GEMM of one row or column needs no matrix units. Such a kernel reaches this share of the fp32 rate, because
 * loads and conversions take issue slots too. */
#define GEMV_RATE_SHARE 0.5
/* GEMV: below this alignment, loads are narrower than a vector and reach this share of the bandwidth; an H200 reached
 * 0.4 to 0.8 (data/results/h200/products.csv, m = 1). */
#define VECTOR_BYTES 16
#define GEMV_NARROW_SHARE 0.6
/* The tile that alignment shares refer to. */
#define REFERENCE_TILE_M 128.0
#define REFERENCE_TILE_N 256.0

/* A cache line: no device gains from more alignment. */
#define ALIGNMENT_MAX 128

/* The terms that do not depend on the tile. */
typedef struct gemm_problem {
  const hr_hardware *hardware;
  const hr_gemm *gemm;
  int64_t slots, element_bytes;
  int64_t depth_step;        /* elements of k per step */
  double slot_ns_per_flop;   /* of one slot at the library's rate */
  double slot_ns_per_stored; /* per element of the result: the part of its store that compute does not hide */
  double alignment_share;    /* of the reference tile; 1: aligned */
} gemm_problem;

/* The result cut into tiles of one shape, and its time. */
typedef struct tiling {
  hr_tile tile;
  int64_t tiles, splits, waves;
  double slot_ns;      /* one tile of one split on one slot, aligned */
  double slowdown;     /* by misalignment, at least 1 */
  double reduction_ns; /* of the splits */
  double total_ns;
} tiling;

/* Misaligned operands need narrow loads, which then bound a tile: its time grows with its edge instead of its area, so
 * small tiles lose more. */
static double slowdown_of(hr_tile tile, double alignment_share)
{
  double edge = (double)(tile.m + tile.n) / ((double)tile.m * (double)tile.n);
  double reference = (REFERENCE_TILE_M + REFERENCE_TILE_N) / (REFERENCE_TILE_M * REFERENCE_TILE_N);
  return 1 + (1 / alignment_share - 1) * (edge / reference);
}

static tiling make_tiling(const gemm_problem *problem, hr_tile tile)
{
  const hr_gemm *gemm = problem->gemm;
  tiling way = {.tile = tile, .splits = 1};
  way.tiles = hr_ceil_div(gemm->m, tile.m) * hr_ceil_div(gemm->n, tile.n) * gemm->batch;
  int64_t depth = gemm->k;
  if (way.tiles * 2 <= problem->slots && problem->hardware->kind == HR_HARDWARE_GPU) {
    int64_t least = SPLIT_BYTES_LEAST / problem->element_bytes;
    way.splits = hr_max64(1, hr_min64(problem->slots / way.tiles, gemm->k / least));
    depth = hr_ceil_div(depth, way.splits);
  }
  if (way.splits > 1) {
    double partial_bytes = 2.0 * 4.0 * (double)way.splits * (double)gemm->m * (double)gemm->n * (double)gemm->batch;
    way.reduction_ns = hr_transfer_ns(problem->hardware, partial_bytes, 1) / REDUCTION_SPEED;
  }
  double area = (double)tile.m * (double)tile.n;
  double steps = (double)hr_ceil_div(depth, problem->depth_step);
  way.waves = hr_ceil_div(way.tiles * way.splits, problem->slots);
  way.slot_ns = 2.0 * area * steps * (double)problem->depth_step * problem->slot_ns_per_flop / tile.share +
                area * problem->slot_ns_per_stored;
  way.slowdown = problem->alignment_share < 1 ? slowdown_of(tile, problem->alignment_share) : 1;
  way.total_ns = (double)way.waves * way.slot_ns * way.slowdown + way.reduction_ns;
  return way;
}

static tiling best_tiling(const gemm_problem *problem)
{
  tiling best = {.total_ns = INFINITY};
  for (size_t i = 0; i < problem->hardware->tile_count; i++) {
    tiling way = make_tiling(problem, problem->hardware->tiles[i]);
    if (way.total_ns < best.total_ns)
      best = way;
  }
  return best;
}

/* The largest power of two that divides a dimension, in bytes. */
static int64_t alignment_of(int64_t size, int64_t element_bytes)
{
  return hr_min64(hr_power_of_two_in(size, ALIGNMENT_MAX) * element_bytes, ALIGNMENT_MAX);
}

/* The alignment of an operand's rows and matrices. Padding the leading dimension helps only where the rows are aligned
 * in length, too: cuBLASLt chooses no better algorithm for rows of 4097 padded to 4104, except for a transposed A,
 * whose rows run along m (H200, docs/gpu.md). */
static int64_t operand_alignment(hr_matrix matrix, bool along_m, int64_t element_bytes)
{
  int64_t alignment = alignment_of(matrix.leading_dimension, element_bytes);
  if (!along_m)
    alignment = hr_min64(alignment, alignment_of(matrix.columns, element_bytes));
  if (matrix.batch_stride > 0)
    alignment = hr_min64(alignment, alignment_of(matrix.batch_stride, element_bytes));
  return alignment;
}

static const hr_alignment_class *class_of(const hr_hardware *hardware, int64_t bytes)
{
  size_t i = hardware->alignment_count - 1;
  while (i > 0 && hardware->alignments[i].bytes > bytes)
    i--;
  return &hardware->alignments[i];
}

/* Sets the alignments of a prediction and returns the share of full speed at that alignment. */
static double set_alignments(const hr_hardware *hardware, const hr_gemm *gemm, bool batched, hr_prediction *p)
{
  int64_t bytes = (int64_t)hr_dtype_bytes(gemm->dtype);
  p->m_alignment = alignment_of(gemm->m, bytes);
  p->n_alignment = alignment_of(gemm->n, bytes);
  p->k_alignment = alignment_of(gemm->k, bytes);
  int64_t operands = hr_min64(operand_alignment(hr_gemm_a(gemm), gemm->transpose_a, bytes),
                              operand_alignment(hr_gemm_b(gemm), false, bytes));
  int64_t stored = operand_alignment(hr_gemm_c(gemm), false, bytes);
  p->alignment = hr_min64(operands, stored);
  if (hardware->alignment_count == 0)
    return 1;
  if (batched)
    return class_of(hardware, p->alignment)->bmm_share;
  const hr_alignment_class *result = class_of(hardware, stored);
  return fmin(class_of(hardware, operands)->gemm_share,
              result->result_share > 0 ? result->result_share : result->gemm_share);
}

/* Bytes read from memory. If neither operand fits into half of the last-level cache, the result is computed in squares,
 * each of which reads the rows and columns that cross it. A square is one wave of tiles or, if larger, the square whose
 * operands stay in the cache. */
static double traffic_bytes(const hr_hardware *hardware, const hr_gemm *gemm, const tiling *way, double loaded_bytes)
{
  double row_bytes = (double)gemm->k * (double)hr_dtype_bytes(gemm->dtype);
  double m = (double)gemm->m, n = (double)gemm->n, cache = (double)hardware->l2_bytes / 2;
  if (way->waves <= 1 || gemm->batch > 1 || fmin(m, n) * row_bytes <= cache)
    return loaded_bytes;
  double wave = (double)way->tiles / (double)way->waves * (double)way->tile.m * (double)way->tile.n;
  double side = fmax(sqrt(wave), cache / 2 / row_bytes);
  double rows = fmin(side, m), columns = fmin(side * side / rows, n);
  return fmax(loaded_bytes, m * n / (rows * columns) * (rows + columns) * row_bytes);
}

/* Multiprocessors share the power: if some idle, the others clock higher. Power grows with the cube of the clock, so
 * the clock rises by the cube root of the saved share, up to its own limit. */
static double clock_rise(const hr_hardware *hardware, double matrix_ns, double total_ns)
{
  return hardware->boost > 1 ? fmin(hardware->boost, cbrt(total_ns / matrix_ns)) : 1;
}

static void set_tiling(const gemm_problem *problem, const tiling *way, hr_prediction *p)
{
  const hr_gemm *gemm = problem->gemm;
  double units = (double)way->tiles * (double)way->splits, slots = (double)problem->slots;
  double covered = (double)way->tiles * (double)way->tile.m * (double)way->tile.n;
  double result = (double)gemm->m * (double)gemm->n * (double)gemm->batch;
  p->tile_m = way->tile.m;
  p->tile_n = way->tile.n;
  p->tiles = way->tiles;
  p->splits = way->splits;
  p->waves = way->waves;
  p->tile_waste = 1 - result / covered;
  p->wave_waste = 1 - units / ((double)way->waves * slots);
  p->alignment_loss = 1 - 1 / way->slowdown;

  double waves_ns = (double)way->waves * way->slot_ns;
  double rise = clock_rise(problem->hardware, p->matrix_ns, waves_ns);
  double busy_ns = fmax(waves_ns / rise, p->matrix_ns);
  p->tile_ns = fmax(units / slots * way->slot_ns / rise - p->matrix_ns, 0);
  p->wave_ns = fmax(busy_ns - p->matrix_ns - p->tile_ns, 0);
  double stores_ns = covered / slots * problem->slot_ns_per_stored / rise;
  p->store_ns = fmin(stores_ns, p->tile_ns);
  p->alignment_ns = busy_ns * (way->slowdown - 1);
  p->tile_ns += way->reduction_ns;
}

/* A GEMM of one row or column: only reading the large operand counts. */
static double gemv_ns(const hr_hardware *hardware, const hr_gemm *gemm, const hr_prediction *p, hr_prediction *vector)
{
  double rate = hardware->dense_flops_per_s[HR_FP32] * GEMV_RATE_SHARE;
  if (hr_min64(gemm->m, gemm->n) > 1 || !(rate > 0))
    return INFINITY;
  double flops = 2.0 * (double)gemm->m * (double)gemm->n * (double)gemm->k * (double)gemm->batch;
  *vector = *p;
  vector->tile_ns = fmax(flops / rate * 1e9 - p->matrix_ns, 0);
  vector->store_ns = vector->wave_ns = vector->alignment_ns = vector->tile_waste = vector->wave_waste =
      vector->alignment_loss = 0;
  vector->tile_m = vector->tile_n = vector->tiles = vector->waves = vector->splits = 0;
  if (p->alignment < VECTOR_BYTES)
    vector->memory_ns /= GEMV_NARROW_SHARE;
  return hr_overlap(vector->matrix_ns + vector->tile_ns, vector->memory_ns);
}

static gemm_problem make_problem(const hr_hardware *hardware, const hr_gemm *gemm, double rate, double share)
{
  gemm_problem problem = {.hardware = hardware, .gemm = gemm, .alignment_share = share};
  problem.slots = hardware->multiprocessors * hardware->blocks_per_multiprocessor;
  problem.element_bytes = (int64_t)hr_dtype_bytes(gemm->dtype);
  problem.depth_step = hr_max64(1, hardware->tile_k_bytes / problem.element_bytes);
  problem.slot_ns_per_flop = (double)problem.slots * 1e9 / rate;
  problem.slot_ns_per_stored = hardware->store_exposed * (double)problem.slots *
                               hr_transfer_ns(hardware, (double)problem.element_bytes, hardware->store_share);
  return problem;
}

hr_status hr_predict_gemm_loading(const hr_hardware *hardware, const hr_gemm *gemm, bool batched, double loaded_bytes,
                                  hr_prediction *prediction, hr_error *error)
{
  HR_TRY(hr_predict_check_hardware(hardware, error));
  double rate = 0;
  HR_TRY(hr_predict_rate(hardware, gemm->dtype, &rate, error));
  double stored = (double)gemm->m * (double)gemm->n * (double)gemm->batch;
  double flops = 2.0 * stored * (double)gemm->k;

  hr_prediction p = {.launch_ns = fmax(hardware->launch_ns, hardware->product_launch_ns)};
  p.matrix_ns = flops / rate * 1e9;
  gemm_problem problem = make_problem(hardware, gemm, rate, set_alignments(hardware, gemm, batched, &p));
  tiling way = best_tiling(&problem);
  set_tiling(&problem, &way, &p);
  p.memory_ns = hr_transfer_ns(hardware, traffic_bytes(hardware, gemm, &way, loaded_bytes), hardware->load_share) +
                hr_transfer_ns(hardware, stored * (double)problem.element_bytes, hardware->store_share);
  double busy_ns = hr_overlap(p.matrix_ns + p.tile_ns + p.wave_ns + p.alignment_ns, p.memory_ns);
  hr_prediction vector;
  double vector_ns = gemv_ns(hardware, gemm, &p, &vector);
  if (vector_ns < busy_ns) {
    p = vector;
    busy_ns = vector_ns;
  }
  hr_prediction_finish(hardware, busy_ns, flops, hr_predict_peak(hardware, gemm->dtype), &p);
  hr_prediction_set_interval(hardware, hr_interval_kind_of(gemm, &p), &p);
  *prediction = p;
  return HR_OK;
}

hr_status hr_predict_gemm(const hr_hardware *hardware, const hr_gemm *gemm, hr_prediction *prediction, hr_error *error)
{
  HR_NEED(error, hardware, gemm, prediction);
  HR_TRY(hr_gemm_check(gemm, error));
  int64_t bytes;
  HR_TRY(hr_gemm_bytes(gemm, &bytes));
  int64_t stored = gemm->m * gemm->n * gemm->batch * (int64_t)hr_dtype_bytes(gemm->dtype);
  return hr_predict_gemm_loading(hardware, gemm, gemm->batch > 1, (double)(bytes - stored), prediction, error);
}
