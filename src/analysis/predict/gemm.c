/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a GEMM: tile and wave quantization, split-K, alignment, clock, memory, launch.
 * docs/prediction-model.md has the model. */
#include "analysis/predict/gemm_tiling.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"

#include <headroom/experimental/predict.h>
#include <math.h>

/* GEMV: a GEMM of one row or column needs no matrix units. Such a kernel reaches this share of the fp32 rate, because
 * loads and conversions take issue slots too. */
#define GEMV_RATE_SHARE 0.5
/* GEMV: narrower loads reach this share of the bandwidth that wide ones do (data/results/h200/products.csv, m = 1 and
 * n = 50257 against 50304; batched with 1001 against 1024). */
#define GEMV_MISALIGNED_SHARE 0.78
#define GEMV_BATCHED_MISALIGNED_SHARE 0.4

/* Elements of k that a kernel without matrix units advances at a time (cuBLAS's sgemm, CUTLASS's SIMT kernels). */
#define SIMT_DEPTH 8

/* GEMMs of 8 bit operands store elements of 16 bits. */
#define RESULT_BYTES_MIN 2

/* A register's bytes. */
#define WORD_BYTES 4

/* Batched GEMMs that a library may compute in small tiles: least n, and largest k. */
#define SMALL_TILE_MIN 128
#define SMALL_TILE_DEPTH 512

/* A cache line: no device gains from more alignment. */
#define ALIGNMENT_MAX 128

static int64_t result_bytes_of(const hr_gemm *gemm)
{
  return hr_max64((int64_t)hr_dtype_bytes(gemm->dtype), RESULT_BYTES_MIN);
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

/* Sets the alignments of a prediction and returns the share of full speed at that alignment. Sets *by_edge where it is
 * the reference tile's, so that smaller ones lose more. */
static double set_alignments(const hr_hardware *hardware, const hr_gemm *gemm, bool batched, hr_prediction *p,
                             bool *by_edge)
{
  int64_t bytes = (int64_t)hr_dtype_bytes(gemm->dtype);
  p->m_alignment = alignment_of(gemm->m, bytes);
  p->n_alignment = alignment_of(gemm->n, bytes);
  p->k_alignment = alignment_of(gemm->k, bytes);
  int64_t operands = hr_min64(operand_alignment(hr_gemm_a(gemm), gemm->transpose_a, bytes),
                              operand_alignment(hr_gemm_b(gemm), false, bytes));
  int64_t stored = operand_alignment(hr_gemm_c(gemm), false, result_bytes_of(gemm));
  p->alignment = hr_min64(operands, stored);
  *by_edge = false;
  if (hardware->alignment_count == 0 || hardware->simt_formats[gemm->dtype])
    return 1;
  if (batched)
    return class_of(hardware, p->alignment)->bmm_share;
  double share = class_of(hardware, operands)->gemm_share;
  if (operands < HR_TMA_BYTES)
    return share;
  const hr_alignment_class *result = class_of(hardware, stored);
  *by_edge = stored < HR_TMA_BYTES;
  return fmin(share, result->result_share > 0 ? result->result_share : result->gemm_share);
}

static void set_tiling(const hr_tiling_problem *problem, const hr_tiling *tiling, hr_prediction *p)
{
  const hr_gemm *gemm = problem->gemm;
  double units = (double)tiling->tiles * (double)tiling->splits, slots = (double)problem->slots;
  double covered = (double)tiling->tiles * (double)tiling->tile.m * (double)tiling->tile.n;
  double result = (double)gemm->m * (double)gemm->n * (double)gemm->batch;
  p->tile_m = tiling->tile.m;
  p->tile_n = tiling->tile.n;
  p->tiles = tiling->tiles;
  p->splits = tiling->splits;
  p->waves = tiling->waves;
  p->tile_waste = 1 - result / covered;
  p->wave_waste = 1 - units / ((double)tiling->waves * slots);
  p->alignment_loss = 1 - 1 / tiling->slowdown;

  double waves_ns = (double)tiling->waves * tiling->slot_ns;
  p->tile_ns = fmax(units / slots * tiling->slot_ns - p->matrix_ns, 0);
  p->store_ns = fmin(covered / slots * problem->slot_ns_per_stored, p->tile_ns);
  p->wave_ns = fmax(waves_ns + tiling->refill_ns - p->matrix_ns - p->tile_ns, 0);
  p->alignment_ns = waves_ns * (tiling->slowdown - 1);
  p->reduction_ns = tiling->reduction_ns;
  double slow_ns = p->matrix_ns + p->tile_ns + p->wave_ns + p->alignment_ns;
  p->clock_ns = fmin(tiling->compute_ns - tiling->reduction_ns - slow_ns, 0);
  p->memory_ns = tiling->memory_ns;
  p->exposed_ns = tiling->busy_ns - tiling->compute_ns;
}

/* A column of B or C is a vector, whose elements are neighbours. */
static int64_t gemv_alignment(const hr_gemm *gemm, const hr_prediction *p)
{
  if (gemm->n > 1)
    return p->alignment;
  int64_t matrix = operand_alignment(hr_gemm_a(gemm), gemm->transpose_a, (int64_t)hr_dtype_bytes(gemm->dtype));
  return hr_min64(matrix, hr_min64(p->k_alignment, p->m_alignment));
}

/* A GEMM of one row or column: only reading the large operand counts. Returns the time without the launch. `vector` has
 * the terms that do not depend on tiles. */
static double gemv_ns(const hr_tiling_problem *problem, const hr_tiling *tiling, bool batched, const hr_prediction *p,
                      hr_prediction *vector)
{
  const hr_hardware *hardware = problem->hardware;
  const hr_gemm *gemm = problem->gemm;
  double rate = hardware->dense_flops_per_s[HR_FP32] * GEMV_RATE_SHARE;
  if (hr_min64(gemm->m, gemm->n) > 1 || !(rate > 0))
    return INFINITY;
  double flops = 2.0 * (double)gemm->m * (double)gemm->n * (double)gemm->k * (double)gemm->batch;
  double misaligned = gemm->batch > 1 ? GEMV_BATCHED_MISALIGNED_SHARE : GEMV_MISALIGNED_SHARE;
  vector->launch_ns = p->launch_ns;
  vector->tile_ns = fmax(flops / rate * 1e9 - p->matrix_ns, 0);
  hr_tiling read = *tiling;
  read.splits = batched ? hr_max_splits(problem, tiling) : 1; /* a plain one does not split k */
  vector->memory_ns = hr_tiling_memory_ns(problem, &read);
  if (gemv_alignment(gemm, p) < HR_TMA_BYTES)
    vector->memory_ns /= misaligned;
  double compute_ns = vector->matrix_ns + vector->tile_ns, busy_ns = hr_overlap(compute_ns, vector->memory_ns);
  vector->exposed_ns = busy_ns - compute_ns;
  return busy_ns;
}

/* Alignments from which loads are as fast as any. */
#define FULL_LOAD_BYTES 64

/* Times as long that a family's loads of an operand take: rows aligned to 32 bytes lose half of what those of 16 do.
 * Rows of an operand that is aligned although others are not fall onto the same banks of shared memory. */
static double load_times(const hr_tiling_problem *problem, int64_t alignment)
{
  const double load_16 = problem->cost->load_16;
  bool misaligned = problem->family->misaligned;
  if (alignment < HR_TMA_BYTES || !(load_16 > 0) || (alignment >= FULL_LOAD_BYTES && !misaligned))
    return 1;
  return alignment < 2 * HR_TMA_BYTES || misaligned ? load_16 : (1 + load_16) / 2;
}

/* Sets the family of kernels, where the device's file has its cost. */
static void set_family(const hr_gemm *gemm, const hr_prediction *p, hr_tiling_problem *problem)
{
  const hr_gemm_family *family = hr_gemm_family_of(problem->hardware, gemm, p->alignment);
  if (!family)
    return;
  const hr_gemm_kernel_cost *cost = hr_gemm_family_cost(problem->hardware, family);
  problem->family = family, problem->cost = cost;
  problem->load_a = load_times(problem, operand_alignment(hr_gemm_a(gemm), gemm->transpose_a, problem->element_bytes));
  problem->load_b = load_times(problem, operand_alignment(hr_gemm_b(gemm), false, problem->element_bytes));
  problem->split_ns = cost->split_ns;
  problem->depth_step = hr_max64(1, family->k_bytes / problem->element_bytes);
  /* Rows of the result are parts of sectors; narrower ones are part of the alignment's loss. */
  if (cost->sector_bytes_per_ns > 0 &&
      operand_alignment(hr_gemm_c(gemm), false, problem->result_bytes) == HR_SECTOR_BYTES / 2)
    problem->sector_ns_per_byte = 1 / cost->sector_bytes_per_ns;
}

/* The shortest GEMM, which takes longer the more multiprocessors have a tile. */
static double launch_ns(const hr_tiling_problem *problem, const hr_tiling *tiling)
{
  const hr_hardware *hardware = problem->hardware;
  const hr_gemm_kernel_cost *cost = problem->cost;
  double shortest = fmax(hardware->launch_ns, cost ? cost->launch_ns : hardware->gemm_launch_ns);
  double busy = cost ? cost->busy_ns : hardware->gemm_busy_ns;
  return shortest + busy * fmin(1, (double)(tiling->tiles * tiling->splits) / (double)problem->slots);
}

/* Rows 256 KiB apart are the furthest that were measured (fp32 on an MI210). */
#define ROW_SLOWDOWN_MAX 2.0

/* Each row of a tile lies in memory of its own, which takes an address of its own. */
static double row_slowdown(const hr_hardware *hardware, const hr_gemm *gemm, int64_t element_bytes)
{
  int64_t a = gemm->transpose_a ? 0 : hr_gemm_a(gemm).leading_dimension;
  int64_t b = gemm->transpose_b ? hr_gemm_b(gemm).leading_dimension : 0;
  double apart = (double)hr_max64(a, b) * (double)element_bytes, most = (double)hardware->long_row_bytes;
  return most > 0 && apart > most ? fmin(sqrt(apart / most), ROW_SLOWDOWN_MAX) : 1;
}

/* Times as long that arithmetic takes in tiles smaller than those of the device's file. rocBLAS looks up its tiles in a
 * table of sizes; the names of its kernels on an MI210 in fp32 show tiles of 16 x 16 to 32 x 32 here. */
static double small_tile_slowdown(const hr_hardware *hardware, const hr_gemm *gemm)
{
  bool small = gemm->batch > 1 && gemm->n >= SMALL_TILE_MIN && gemm->k <= SMALL_TILE_DEPTH &&
               gemm->k >= hr_max64(gemm->m, gemm->n);
  return small && hardware->small_tile_share > 0 && hardware->simt_formats[gemm->dtype] ? 1 / hardware->small_tile_share
                                                                                        : 1;
}

/* Times as long that reading the operands from memory takes: some libraries read B's rows along k slower where they do
 * not lie a power of two apart. */
static double row_loads(const hr_hardware *hardware, const hr_gemm *gemm, double element_bytes, double loaded_bytes)
{
  int64_t apart = hr_gemm_b(gemm).leading_dimension;
  bool slow = gemm->transpose_b && gemm->batch == 1 && (apart & (apart - 1)) != 0;
  if (!slow || !(hardware->row_share > 0) || hardware->simt_formats[gemm->dtype])
    return 1;
  double bytes = fmin((double)gemm->n * (double)gemm->k * element_bytes, loaded_bytes);
  return 1 + bytes / loaded_bytes * (1 / hardware->row_share - 1);
}

static hr_tiling_problem make_problem(const hr_hardware *hardware, const hr_gemm *gemm, bool batched, double rate,
                                      hr_prediction *p)
{
  bool simt = hardware->simt_formats[gemm->dtype] && hardware->simt_tile_count > 0;
  hr_tiling_problem problem = {.hardware = hardware, .gemm = gemm};
  problem.shapes = simt ? hardware->simt_tiles : hardware->tiles;
  problem.shape_count = simt ? hardware->simt_tile_count : hardware->tile_count;
  if (simt && batched && hardware->simt_batched_tiles > 0) /* one, whatever the size, of cuBLAS on an Ampere */
    problem.shape_count = (size_t)hr_min64(hardware->simt_batched_tiles, (int64_t)problem.shape_count);
  problem.slots = hardware->multiprocessors * hardware->blocks_per_multiprocessor;
  problem.element_bytes = (int64_t)hr_dtype_bytes(gemm->dtype);
  problem.result_bytes = result_bytes_of(gemm);
  problem.depth_step =
      hardware->simt_formats[gemm->dtype] ? SIMT_DEPTH : hr_max64(1, hardware->tile_k_bytes / problem.element_bytes);
  problem.slot_ns_per_flop = (double)problem.slots * 1e9 / rate;
  problem.split_ns = hardware->split_ns;
  /* An A100 leaves k of 16 × 3 × 30,000,000 whole: 780 ms; n = 2, aligned to 4 bytes, takes 5.7 ms. */
  problem.whole_k = p->alignment < WORD_BYTES && !hardware->simt_formats[gemm->dtype];
  problem.rate_slowdown = row_slowdown(hardware, gemm, problem.element_bytes) * small_tile_slowdown(hardware, gemm);
  return problem;
}

hr_status hr_predict_gemm_loading(const hr_hardware *hardware, const hr_gemm *gemm, bool batched, double loaded_bytes,
                                  hr_prediction *prediction, hr_error *error)
{
  double rate = 0;
  HR_TRY(hr_predict_rate(hardware, gemm->dtype, &rate, error));
  double flops = 2.0 * (double)gemm->m * (double)gemm->n * (double)gemm->batch * (double)gemm->k;

  hr_prediction p = {.matrix_ns = flops / rate * 1e9};
  bool by_edge;
  double share = set_alignments(hardware, gemm, batched, &p, &by_edge);
  hr_tiling_problem problem = make_problem(hardware, gemm, batched, rate, &p);
  problem.alignment_share = share;
  problem.by_edge = by_edge;
  set_family(gemm, &p, &problem);
  const bool at_limit = problem.family && problem.family->misaligned;
  problem.highest_clock = at_limit ? 1 : fmax(hardware->boost, fmax(hardware->burst, 1));
  const double exposed = problem.family ? 1 : hardware->store_exposed; /* compute hides none of a family's stores */
  problem.slot_ns_per_stored =
      exposed * (double)problem.slots * hr_transfer_ns(hardware, (double)problem.result_bytes, hardware->store_share);
  problem.matrix_ns = p.matrix_ns;
  problem.loaded_bytes = loaded_bytes;
  problem.row_loads = row_loads(hardware, gemm, (double)problem.element_bytes, loaded_bytes);
  hr_tiling tiling = hr_best_tiling(&problem);
  hr_prediction vector = p;
  set_tiling(&problem, &tiling, &p);
  p.launch_ns = launch_ns(&problem, &tiling);
  double busy_ns = tiling.busy_ns;
  double vector_ns = gemv_ns(&problem, &tiling, batched, &p, &vector);
  if (vector_ns < busy_ns) {
    p = vector;
    busy_ns = vector_ns;
  }
  hr_prediction_finish(hardware, busy_ns, flops, hr_predict_peak(hardware, gemm->dtype), &p);
  hr_prediction_set_interval(hardware, hr_interval_kind_of(gemm, &p), gemm->dtype, &p);
  *prediction = p;
  return HR_OK;
}

hr_status hr_predict_gemm(const hr_hardware *hardware, const hr_gemm *gemm, hr_prediction *prediction, hr_error *error)
{
  HR_NEED(error, hardware, gemm, prediction);
  HR_TAKE(hr_gemm, gemm, error);
  HR_TRY(hr_gemm_check(gemm, error));
  int64_t bytes;
  HR_TRY(hr_gemm_bytes(gemm, &bytes));
  int64_t stored = gemm->m * gemm->n * gemm->batch * (int64_t)hr_dtype_bytes(gemm->dtype);
  return hr_predict_gemm_loading(hardware, gemm, gemm->batch > 1, (double)(bytes - stored), prediction, error);
}
