/* SPDX-License-Identifier: Apache-2.0 */
/* Points to measure: those of a calibration, a table of kinds with sizes spread evenly over the logarithms, and random
 * ones to hold predictions against. */
#include <headroom/experimental/points.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/random.h"
#include "base/sort.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* A point computes and moves no more than a GPU does in this time at its peak rates, and fits into its memory. CPUs
 * differ too much for their reported clock to say it, and have limits of their own. */
#define DESIGNED_GPU_S 15e-3
#define DRAWN_GPU_S 25e-3
#define CPU_CORE_FLOPS 2e9
#define CPU_BYTES 2e8
#define MEMORY_SHARE 16 /* of the device's memory, one set of operands */

static bool attends(hr_interval_kind kind)
{
  return kind == HR_INTERVAL_ATTENTION || kind == HR_INTERVAL_DECODE;
}

static hr_point empty_point(hr_interval_kind kind)
{
  return (hr_point){.kind = kind, .gemm = hr_gemm_default(), .attention = hr_attention_default()};
}

static bool keeps_limits(const hr_hardware *hardware, const hr_point *point, double gpu_most_s)
{
  const bool gpu = hardware->about.kind == HR_HARDWARE_GPU;
  const bool attention = attends(point->kind);
  int64_t flops, bytes;
  if ((attention ? hr_attention_flops(&point->attention, &flops) : hr_gemm_flops(&point->gemm, &flops)) != HR_OK ||
      (attention ? hr_attention_bytes(&point->attention, &bytes) : hr_gemm_bytes(&point->gemm, &bytes)) != HR_OK)
    return false;
  hr_dtype dtype = attention ? point->attention.dtype : point->gemm.dtype;
  double flops_max =
      gpu ? hardware->dense_flops_per_s[dtype] * gpu_most_s : CPU_CORE_FLOPS * (double)hardware->multiprocessors;
  double bytes_max = gpu ? hardware->bandwidth_bytes_per_s * gpu_most_s : CPU_BYTES;
  return (double)flops <= flops_max && (double)bytes <= fmin(bytes_max, (double)hardware->memory_bytes / MEMORY_SHARE);
}

/* ---- designed ---- */

/* Sizes are multiples of one of these, in elements. */
#define GRANULES 5
static const int64_t aligned_granules[GRANULES] = {8, 64, 16, 128, 32}, odd_granules[GRANULES] = {1, 2, 1, 4, 1};
static const int64_t granules_of_8_bits[GRANULES] = {16, 64, 128, 32, 256};

/* One kind of points. */
typedef struct design_row {
  hr_interval_kind kind;
  hr_dtype dtype;
  int gpu, cpu; /* how many */
  const int64_t *granules;
  bool linear; /* operands as of a linear layer alone, which fp8 needs */
} design_row;

/* Odd sizes, batches and attention in the usual format; others need only their rates. */
static const design_row design[] = {
    {HR_INTERVAL_GEMM, HR_BF16, 130, 14, aligned_granules, false},
    {HR_INTERVAL_GEMM_MISALIGNED, HR_BF16, 60, 4, odd_granules, false},
    {HR_INTERVAL_BMM, HR_BF16, 60, 8, aligned_granules, false},
    {HR_INTERVAL_BMM, HR_BF16, 24, 0, odd_granules, false},
    {HR_INTERVAL_ATTENTION, HR_BF16, 50, 8, aligned_granules, false},
    {HR_INTERVAL_DECODE, HR_BF16, 50, 8, aligned_granules, false},
    {HR_INTERVAL_GEMM, HR_FP16, 16, 0, aligned_granules, false},
    {HR_INTERVAL_GEMM, HR_FP8_E4M3, 20, 0, granules_of_8_bits, true},
    {HR_INTERVAL_GEMM, HR_TF32, 12, 0, aligned_granules, false},
    {HR_INTERVAL_GEMM, HR_FP32, 16, 12, aligned_granules, false},
};

#define ROWS (sizeof design / sizeof *design)

#define TRIES 64 /* for each point: others are too large */

/* The next number of a sequence that fills [0, 1) evenly. Source: Halton 1960, Numerische Mathematik 2, 84-90. */
static double halton(int64_t index, int64_t base)
{
  double value = 0, place = 1;
  for (; index > 0; index /= base) {
    place /= (double)base;
    value += place * (double)(index % base);
  }
  return value;
}

/* A size between two, by the logarithm, as a multiple of `granule`; below 8 no multiple of twice the granule, so that
 * the alignment is exactly this one. */
static int64_t size_at(double share, double least, double most, int64_t granule)
{
  int64_t size = (int64_t)(least * exp2(share * log2(most / least)));
  int64_t steps = hr_max64(1, size / granule);
  return granule * (granule < 8 ? steps | 1 : steps);
}

static hr_gemm gemm_at(const design_row *row, int64_t index)
{
  hr_gemm gemm = hr_gemm_default();
  int64_t granule = row->granules[index % GRANULES], aligned = row->granules[0] < 8 ? 8 : granule;
  bool batched = row->kind == HR_INTERVAL_BMM;
  double most = batched ? 4096 : 32768;
  gemm.dtype = row->dtype;
  gemm.m = size_at(halton(index, 2), index % 8 == 7 ? 1 : 16, most, 1) & (index % 4 ? -8 : -1);
  gemm.m = hr_max64(gemm.m, 1);
  gemm.n = size_at(halton(index, 3), 16, most, index % 3 == 1 ? aligned : granule);
  gemm.k = size_at(halton(index, 5), 16, most, index % 3 == 2 ? aligned : granule);
  gemm.batch = batched ? size_at(halton(index, 7), 2, 1024, 1) + 1 : 1;
  gemm.transpose_b = row->linear || index % 2 == 0;
  gemm.transpose_a = !row->linear && !batched && index % 7 == 3;
  return gemm;
}

static hr_attention attention_at(const design_row *row, int64_t index)
{
  static const int64_t dims[] = {128, 64, 128, 64, 256, 128, 80, 64, 192, 128, 96}, groups[] = {1, 4, 8};
  hr_attention a = hr_attention_default();
  bool decode = row->kind == HR_INTERVAL_DECODE;
  a.dtype = row->dtype;
  a.qk_dim = a.v_dim = dims[index % 11];
  a.q_heads = (int64_t)8 << (index % 4);
  a.k_heads = a.v_heads = hr_max64(1, a.q_heads / groups[index % 3]);
  a.kv_len = size_at(halton(index, 2), 16, 32768, 1) & (index % 3 ? -8 : -1);
  a.q_len = decode ? 1 : a.kv_len;
  a.batch = size_at(halton(index, 3), 1, decode ? 256 : 64, 1);
  a.mask = decode || index % 4 ? HR_MASK_CAUSAL : HR_MASK_NONE;
  return a;
}

static hr_point point_at(const design_row *row, int64_t index)
{
  hr_point point = empty_point(row->kind);
  if (attends(row->kind))
    point.attention = attention_at(row, index);
  else
    point.gemm = gemm_at(row, index);
  return point;
}

/* The row as it is for this device. A CPU without bf16 has fp32 in its place, and no second row of that. */
static design_row row_of(const hr_hardware *hardware, size_t i)
{
  design_row row = design[i];
  if (hardware->about.kind == HR_HARDWARE_GPU || hardware->dense_flops_per_s[HR_BF16] > 0)
    return row;
  if (row.dtype == HR_FP32)
    row.cpu = 0;
  if (row.dtype == HR_BF16)
    row.dtype = HR_FP32;
  return row;
}

static int count_of(const hr_hardware *hardware, const design_row *row)
{
  if (!(hardware->dense_flops_per_s[row->dtype] > 0) && row->dtype != HR_FP32)
    return 0;
  return hardware->about.kind == HR_HARDWARE_GPU ? row->gpu : row->cpu;
}

/* A point and its place: points of one row follow each other at equal distances. */
typedef struct placed {
  double place;
  hr_point point;
} placed;

#define APART 1e-6 /* places of two rows, where they would be equal; less than any others are */

static size_t fill_row(const hr_hardware *hardware, size_t row, placed *to)
{
  design_row now = row_of(hardware, row);
  int64_t wanted = count_of(hardware, &now), used = 0;
  for (int64_t index = 1; used < wanted && index < wanted * TRIES; index++) {
    hr_point point = point_at(&now, index);
    if (keeps_limits(hardware, &point, DESIGNED_GPU_S))
      to[used++].point = point;
  }
  for (int64_t i = 0; i < used; i++)
    to[i].place = ((double)i + 0.5) / (double)used + APART * (double)row;
  return (size_t)used;
}

hr_status hr_points_design(const hr_hardware *hardware, hr_point **points, size_t *count, hr_error *error)
{
  HR_NEED(error, hardware, points, count);
  HR_TRY(hr_hardware_check(hardware, error));
  size_t most = 0, used = 0;
  for (size_t i = 0; i < ROWS; i++)
    most += (size_t)design[i].gpu;
  placed *list = calloc(most, sizeof *list);
  hr_point *found = list ? calloc(most, sizeof *found) : NULL;
  for (size_t i = 0; i < ROWS && found; i++)
    used += fill_row(hardware, i, list + used);
  if (found)
    qsort(list, used, sizeof *list, hr_compare_numbers);
  for (size_t i = 0; i < used; i++)
    found[i] = list[i].point;
  free(list);
  if (!found)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu points", most);
  *points = found, *count = used;
  return HR_OK;
}

/* ---- drawn ---- */

#define SIZE_MIN 16
#define LARGEST_SIZE 32768
#define GRANULE 8 /* elements */
#define GRANULE_OF_8_BITS 16
#define ODD_EVERY 3 /* points of a kind */
#define STREAMS 9   /* of random numbers, one a kind; as many kinds as there were when the shipped points were drawn */
#define TRIES_MAX 10000 /* until a point keeps the limits */

/* Kinds take turns in this order. */
static const hr_interval_kind turns[] = {HR_INTERVAL_GEMM, HR_INTERVAL_BMM,    HR_INTERVAL_GEMM, HR_INTERVAL_ATTENTION,
                                         HR_INTERVAL_GEMM, HR_INTERVAL_DECODE, HR_INTERVAL_GEMM, HR_INTERVAL_BMM};

#define TURN_COUNT (sizeof turns / sizeof *turns)
#define DRAWN_KINDS \
  (1u << HR_INTERVAL_GEMM | 1u << HR_INTERVAL_BMM | 1u << HR_INTERVAL_ATTENTION | 1u << HR_INTERVAL_DECODE)

void hr_points_draw_options_init(hr_points_draw_options *options, size_t size)
{
  HR_INIT(options, size, (hr_points_draw_options){.seed = 1, .kinds = DRAWN_KINDS, .count = 200, .dtype = HR_BF16});
}

static int64_t below(uint64_t *state, int64_t count)
{
  return (int64_t)(hr_next_random(state) % (uint64_t)count);
}

static int64_t log_uniform(uint64_t *state, int64_t least, int64_t most)
{
  double u = hr_next_share(state);
  int64_t value = (int64_t)floor((double)least * exp(u * log((double)(most + 1) / (double)least)));
  return value < least ? least : value > most ? most : value;
}

/* A size or a length. An odd one is moved up if it is a multiple of 8, another one is rounded to one of `granule`. */
static int64_t size_of(uint64_t *state, bool odd, int64_t granule)
{
  int64_t size = log_uniform(state, SIZE_MIN, odd ? LARGEST_SIZE - GRANULE : LARGEST_SIZE);
  if (!odd)
    return (size + granule / 2) / granule * granule;
  return size % GRANULE ? size : size + 1 + below(state, GRANULE - 1);
}

/* Libraries multiply fp8 as linear layers do, in multiples of 16. */
static hr_gemm draw_gemm(uint64_t *state, bool odd, bool batched, hr_dtype dtype)
{
  static const struct {
    bool a, b;
  } transposes[] = {{false, true}, {false, false}, {true, false}}; /* forward, the input's gradient, the weight's */
  hr_gemm g = hr_gemm_default();
  const bool linear = dtype == HR_FP8_E4M3;
  const int64_t pass = linear ? 0 : below(state, 3), granule = linear ? GRANULE_OF_8_BITS : GRANULE;
  g.dtype = dtype;
  g.m = size_of(state, odd && !linear, granule);
  g.n = size_of(state, odd && !linear, granule);
  g.k = size_of(state, odd && !linear, granule);
  g.batch = batched ? log_uniform(state, 2, 1024) : 1;
  g.transpose_a = transposes[pass].a, g.transpose_b = transposes[pass].b;
  return g;
}

static hr_attention draw_attention(uint64_t *state, bool odd, bool decode, hr_dtype dtype)
{
  static const int64_t sizes[] = {64, 128, 64, 128, 64, 128, 64, 128, 80, 96, 192, 256};
  hr_attention a = hr_attention_default();
  a.dtype = dtype;
  a.kv_len = size_of(state, odd, GRANULE);
  a.q_len = decode ? 1 : a.kv_len;
  a.batch = log_uniform(state, 1, decode ? 256 : 64);
  a.k_heads = a.v_heads = (int64_t)1 << below(state, 6);
  a.q_heads = a.k_heads << below(state, 4);
  a.qk_dim = a.v_dim = sizes[below(state, sizeof sizes / sizeof *sizes)];
  a.mask = decode || below(state, 4) > 0 ? HR_MASK_CAUSAL : HR_MASK_NONE;
  return a;
}

/* The point number `index` of a kind. The streams of two points begin at different places of one permutation. */
static hr_status draw_point(const hr_hardware *hardware, const hr_points_draw_options *options, hr_interval_kind kind,
                            int64_t index, hr_point *point, hr_error *error)
{
  uint64_t state = options->seed;
  bool odd = index % ODD_EVERY == ODD_EVERY - 1;
  state = hr_next_random(&state) + (uint64_t)index * STREAMS + (uint64_t)kind;
  state = hr_next_random(&state);
  *point = empty_point(kind);
  for (int i = 0; i < TRIES_MAX; i++) {
    if (attends(kind))
      point->attention = draw_attention(&state, odd, kind == HR_INTERVAL_DECODE, options->dtype);
    else
      point->gemm = draw_gemm(&state, odd, kind == HR_INTERVAL_BMM, options->dtype);
    if (keeps_limits(hardware, point, DRAWN_GPU_S))
      return HR_OK;
  }
  return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: no %s of %d that were drawn in %s is small enough",
                 hardware->about.name, hr_interval_kind_name(kind), TRIES_MAX, hr_dtype_name(options->dtype));
}

static hr_status check_options(const hr_points_draw_options *options, hr_error *error)
{
  if (options->count < 1 || options->count > HR_POINTS_DRAWN_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "count: expected 1 to %d, found %" PRId64, HR_POINTS_DRAWN_MAX,
                   options->count);
  if (options->kinds == 0 || (options->kinds & ~DRAWN_KINDS))
    return hr_fail(error, HR_ERROR_INVALID, "kinds: expected some of gemm, bmm, attention and decode");
  if ((unsigned)options->dtype >= HR_DTYPE_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: expected a number format of the list");
  return HR_OK;
}

hr_status hr_points_draw(const hr_hardware *hardware, const hr_points_draw_options *options, hr_point **points,
                         size_t *count, hr_error *error)
{
  HR_NEED(error, hardware, options, points, count);
  HR_TAKE(hr_points_draw_options, options, error);
  HR_TRY(hr_hardware_check(hardware, error));
  HR_TRY(check_options(options, error));
  size_t wanted = (size_t)options->count, used = 0;
  int64_t drawn[HR_INTERVAL_KIND_COUNT] = {0};
  hr_point *found = calloc(wanted, sizeof *found);
  if (!found)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu points", wanted);
  hr_status status = HR_OK;
  for (size_t turn = 0; used < wanted && status == HR_OK; turn++) {
    hr_interval_kind kind = turns[turn % TURN_COUNT];
    if (options->kinds & 1u << kind)
      status = draw_point(hardware, options, kind, drawn[kind]++, &found[used++], error);
  }
  if (status == HR_OK)
    *points = found, *count = wanted;
  else
    free(found);
  return status;
}
