/* SPDX-License-Identifier: Apache-2.0 */
/* The points of a calibration: a table of kinds, each with sizes spread evenly over the logarithms. */
#include "experiment/points/limits.h"

#include "base/checked.h"
#include "base/error.h"
#include "hardware/hardware.h"

#include <math.h>
#include <stdlib.h>

/* One kind of points. `granules`: sizes are multiples of one of these, in elements. */
typedef struct design_row {
  hr_interval_kind kind;
  hr_dtype dtype;
  int gpu, cpu; /* how many */
  int64_t granules[5];
  bool linear; /* operands as of a linear layer alone, which fp8 needs */
} design_row;

#define ALIGNED        \
  {                    \
    8, 64, 16, 128, 32 \
  }
#define ODD       \
  {               \
    1, 2, 1, 4, 1 \
  }

/* Odd sizes, batches and attention in the usual format; others need only their rates. */
static const design_row design[] = {
    {HR_INTERVAL_GEMM, HR_BF16, 130, 14, ALIGNED, false},
    {HR_INTERVAL_GEMM_MISALIGNED, HR_BF16, 60, 4, ODD, false},
    {HR_INTERVAL_BMM, HR_BF16, 60, 8, ALIGNED, false},
    {HR_INTERVAL_BMM, HR_BF16, 24, 0, ODD, false},
    {HR_INTERVAL_ATTENTION, HR_BF16, 50, 8, ALIGNED, false},
    {HR_INTERVAL_DECODE, HR_BF16, 50, 8, ALIGNED, false},
    {HR_INTERVAL_GEMM, HR_FP16, 16, 0, ALIGNED, false},
    {HR_INTERVAL_GEMM, HR_FP8_E4M3, 20, 0, {16, 64, 128, 32, 256}, true},
    {HR_INTERVAL_GEMM, HR_TF32, 12, 0, ALIGNED, false},
    {HR_INTERVAL_GEMM, HR_FP32, 16, 12, ALIGNED, false},
};

#define ROWS (sizeof design / sizeof *design)

#define GPU_MOST_S 15e-3 /* of a point */
#define TRIES 64         /* for each point: others are too large */

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
  int64_t granule = row->granules[index % 5], aligned = row->granules[0] < 8 ? 8 : granule;
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
  hr_point point = {.kind = row->kind, .gemm = hr_gemm_default(), .attention = hr_attention_default()};
  if (row->kind == HR_INTERVAL_ATTENTION || row->kind == HR_INTERVAL_DECODE)
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

/* A point and its place: points of one kind follow each other at equal distances. */
typedef struct placed {
  double place;
  size_t row;
  hr_point point;
} placed;

static int by_place(const void *a, const void *b)
{
  const placed *x = a, *y = b;
  if (x->place != y->place)
    return x->place < y->place ? -1 : 1;
  return (x->row > y->row) - (x->row < y->row);
}

static size_t fill_row(const hr_hardware *hardware, size_t row, placed *to)
{
  design_row now = row_of(hardware, row);
  int64_t wanted = count_of(hardware, &now), used = 0;
  for (int64_t index = 1; used < wanted && index < wanted * TRIES; index++) {
    hr_point point = point_at(&now, index);
    if (hr_point_keeps_limits(hardware, &point, GPU_MOST_S))
      to[used++] = (placed){.row = row, .point = point};
  }
  for (int64_t i = 0; i < used; i++)
    to[i].place = ((double)i + 0.5) / (double)used;
  return (size_t)used;
}

hr_status hr_points_design(const hr_hardware *hardware, hr_point **points, size_t *count, hr_error *error)
{
  HR_NEED(error, hardware, points, count);
  HR_TRY(hr_hardware_check(hardware, error));
  size_t most = 1, used = 0;
  for (size_t i = 0; i < ROWS; i++) {
    design_row row = row_of(hardware, i);
    most += (size_t)count_of(hardware, &row);
  }
  placed *list = calloc(most, sizeof *list);
  hr_point *found = calloc(most, sizeof *found);
  for (size_t i = 0; i < ROWS && list; i++)
    used += fill_row(hardware, i, list + used);
  if (list)
    qsort(list, used, sizeof *list, by_place);
  for (size_t i = 0; i < used && list && found; i++)
    found[i] = list[i].point;
  bool enough = list && found;
  free(list);
  if (!enough) {
    free(found);
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu points", most);
  }
  *points = found;
  *count = used;
  return HR_OK;
}
