/* The time of a matrix product: tiles, waves, alignment, memory, launch. */
#include "analysis/predict/parts.h"

#include "base/checked.h"
#include "base/error.h"

#include <math.h>

/* A split of k has at least so many bytes of each row: shorter ones spend more on their start than on the product. */
#define SPLIT_BYTES_LEAST 1024
/* Results of this many rows or columns at most can be had without matrix units, by reading the large operand once. */
#define VECTOR_ROWS_MOST 8
/* Share of the fp32 rate that such a kernel reaches: half, as loads and converts take issue slots too. */
#define VECTOR_RATE_SHARE 0.5

/* Alignments are looked at up to a cache line: no device cares beyond it. */
#define ALIGNMENT_MOST 128

/* One way to lay tiles over the result. Times are of the matrix units at full alignment. */
typedef struct layout {
  hr_tile tile;
  int64_t tiles, splits, waves;
  double depth;     /* k of one tile of one split, rounded up to whole steps */
  double slot_ns;   /* one tile of one split on one slot */
  double matrix_ns; /* waves · slot_ns */
} layout;

static layout lay_out(const hr_hardware *hardware, const hr_gemm *gemm, hr_tile tile, double slot_flops_per_ns,
                      int64_t step, int64_t slots)
{
  layout way = {.tile = tile, .splits = 1};
  way.tiles = hr_ceil_div(gemm->m, tile.m) * hr_ceil_div(gemm->n, tile.n) * gemm->batch;
  int64_t depth = gemm->k;
  if (hardware->kind == HR_HARDWARE_GPU && way.tiles * 2 <= slots) {
    int64_t least = SPLIT_BYTES_LEAST / (int64_t)hr_dtype_bytes(gemm->dtype);
    way.splits = hr_max64(1, hr_min64(slots / way.tiles, gemm->k / least));
    depth = hr_ceil_div(depth, way.splits);
  }
  way.depth = (double)hr_ceil_div(depth, step) * (double)step;
  way.waves = hr_ceil_div(way.tiles * way.splits, slots);
  way.slot_ns = 2.0 * (double)tile.m * (double)tile.n * way.depth / (slot_flops_per_ns * tile.share) +
                hardware->tile_overhead_ns;
  way.matrix_ns = (double)way.waves * way.slot_ns;
  return way;
}

static layout best_layout(const hr_hardware *hardware, const hr_gemm *gemm, double flops_per_s)
{
  int64_t slots = hardware->multiprocessors * hardware->blocks_per_multiprocessor;
  int64_t step = hr_max64(1, hardware->tile_k_bytes / (int64_t)hr_dtype_bytes(gemm->dtype));
  double slot_flops_per_ns = flops_per_s / 1e9 / (double)slots;
  layout best = {.matrix_ns = INFINITY};
  for (size_t i = 0; i < hardware->tile_count; i++) {
    layout way = lay_out(hardware, gemm, hardware->tiles[i], slot_flops_per_ns, step, slots);
    if (way.matrix_ns < best.matrix_ns)
      best = way;
  }
  return best;
}

/* Bytes in the largest power of two that divides a dimension. */
static int64_t alignment_of(int64_t size, int64_t element_bytes)
{
  return hr_min64(hr_power_of_two_in(size, ALIGNMENT_MOST) * element_bytes, ALIGNMENT_MOST);
}

static void set_alignments(const hr_gemm *gemm, hr_prediction *p)
{
  int64_t bytes = (int64_t)hr_dtype_bytes(gemm->dtype);
  p->m_alignment = alignment_of(gemm->m, bytes);
  p->n_alignment = alignment_of(gemm->n, bytes);
  p->k_alignment = alignment_of(gemm->k, bytes);
  int64_t a = gemm->transpose_a ? p->m_alignment : p->k_alignment;
  int64_t b = gemm->transpose_b ? p->k_alignment : p->n_alignment;
  p->alignment = hr_min64(hr_min64(a, b), p->n_alignment);
}

static double alignment_share(const hr_hardware *hardware, bool batched, int64_t bytes)
{
  double share = 1;
  for (size_t i = hardware->alignment_count; i-- > 0;) {
    const hr_alignment_class *class = &hardware->alignments[i];
    share = batched ? class->bmm_share : class->gemm_share;
    if (class->bytes <= bytes)
      break;
  }
  return share;
}

/* Bytes read from memory. Where neither operand of a product fits into half of the last-level cache, tiles that run in
 * one wave share what they read, but waves do not: a wave covers about a square of the result and reads the rows and
 * columns that cross it. */
static double traffic_bytes(const hr_hardware *hardware, const hr_gemm *gemm, const layout *way, double loaded_bytes)
{
  double element = (double)hr_dtype_bytes(gemm->dtype);
  double smaller = (double)hr_min64(gemm->m, gemm->n) * (double)gemm->k * element;
  if (way->waves <= 1 || gemm->batch > 1 || smaller <= (double)hardware->l2_bytes / 2)
    return loaded_bytes;
  double area = (double)way->tiles / (double)way->waves * (double)way->tile.m * (double)way->tile.n;
  double rows = fmin(sqrt(area), (double)gemm->m);
  double columns = fmin(area / rows, (double)gemm->n);
  double wave_bytes = (rows + columns) * (double)gemm->k * element;
  return fmax(loaded_bytes, wave_bytes * (double)way->waves);
}

/* Partial results of a split are written and read in fp32 and added up. */
static double split_bytes(const hr_gemm *gemm, const layout *way)
{
  if (way->splits <= 1)
    return 0;
  return 2.0 * 4.0 * (double)way->splits * (double)gemm->m * (double)gemm->n * (double)gemm->batch;
}

static void set_layout(const layout *way, const hr_gemm *gemm, int64_t slots, hr_prediction *p)
{
  double units = (double)way->tiles * (double)way->splits;
  double covered = (double)way->tiles * (double)way->tile.m * (double)way->tile.n;
  double result = (double)gemm->m * (double)gemm->n * (double)gemm->batch;
  p->tile_m = way->tile.m;
  p->tile_n = way->tile.n;
  p->tiles = way->tiles;
  p->splits = way->splits;
  p->waves = way->waves;
  p->tile_waste = 1 - result / covered;
  p->wave_waste = 1 - units / ((double)way->waves * (double)slots);
  double filled_ns = units / (double)slots * way->slot_ns;
  p->tile_ns = fmax(filled_ns - p->matrix_ns, 0);
  p->wave_ns = way->matrix_ns - filled_ns;
}

/* A product of a few rows needs no matrix units and then no alignment: every thread multiplies what it reads. */
static bool vector_kernel_is_faster(const hr_hardware *hardware, const hr_gemm *gemm, double flops,
                                    hr_prediction *p, double *busy_ns)
{
  double rate = hardware->dense_flops_per_s[HR_FP32] * VECTOR_RATE_SHARE;
  if (hr_min64(gemm->m, gemm->n) > VECTOR_ROWS_MOST || !(rate > 0))
    return false;
  double memory_ns = p->memory_ns, vector_ns = flops / rate * 1e9;
  double vector_busy_ns = hr_overlap(fmax(vector_ns, p->matrix_ns), memory_ns);
  if (vector_busy_ns >= *busy_ns)
    return false;
  p->tile_ns = fmax(vector_ns - p->matrix_ns, 0);
  p->wave_ns = p->alignment_ns = 0;
  p->tile_waste = p->wave_waste = p->alignment_loss = 0;
  p->tile_m = p->tile_n = p->tiles = p->waves = p->splits = 0;
  *busy_ns = vector_busy_ns;
  return true;
}

hr_status hr_predict_product(const hr_hardware *hardware, const hr_gemm *gemm, bool batched, double loaded_bytes,
                             hr_prediction *prediction, hr_error *error)
{
  HR_TRY(hr_predict_usable(hardware, error));
  double rate = 0;
  HR_TRY(hr_predict_rate(hardware, gemm->dtype, &rate, error));
  int64_t slots = hardware->multiprocessors * hardware->blocks_per_multiprocessor;
  double stored = (double)gemm->m * (double)gemm->n * (double)gemm->batch;
  double flops = 2.0 * stored * (double)gemm->k;

  hr_prediction p = {.launch_ns = hardware->launch_ns};
  p.matrix_ns = flops / rate * 1e9;
  layout way = best_layout(hardware, gemm, rate);
  set_layout(&way, gemm, slots, &p);
  set_alignments(gemm, &p);
  double share = alignment_share(hardware, batched, p.alignment);
  p.alignment_loss = 1 - share;
  p.alignment_ns = way.matrix_ns / share - way.matrix_ns;

  double loaded = traffic_bytes(hardware, gemm, &way, loaded_bytes);
  p.memory_ns = hr_transfer_ns(hardware, loaded, hardware->load_share) +
                hr_transfer_ns(hardware, stored * (double)hr_dtype_bytes(gemm->dtype), hardware->store_share);
  double reduction_ns = hr_transfer_ns(hardware, split_bytes(gemm, &way), 0);
  double busy_ns = hr_overlap(way.matrix_ns + p.alignment_ns, p.memory_ns) + reduction_ns;
  if (!vector_kernel_is_faster(hardware, gemm, flops, &p, &busy_ns))
    p.tile_ns += reduction_ns;
  hr_prediction_close(hardware, busy_ns, flops, hardware->dense_flops_per_s[gemm->dtype], &p);
  *prediction = p;
  return HR_OK;
}

hr_status hr_predict_gemm(const hr_hardware *hardware, const hr_gemm *gemm, hr_prediction *prediction,
                          hr_error *error)
{
  HR_TRY(hr_gemm_check(gemm, error));
  double operands = ((double)gemm->m * (double)gemm->k + (double)gemm->k * (double)gemm->n) * (double)gemm->batch;
  return hr_predict_product(hardware, gemm, gemm->batch > 1, operands * (double)hr_dtype_bytes(gemm->dtype),
                            prediction, error);
}
