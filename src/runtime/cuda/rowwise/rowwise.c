/* SPDX-License-Identifier: Apache-2.0 */
/* Row-wise operations by kernels/softmax.cu, norm.cu and elementwise.cu: tiling and launches. */
#include "runtime/cuda/rowwise/rowwise.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/device/plan.h"
#include "shape/alignment.h"
#include "shape/rowwise.h"

#include <inttypes.h>
#include <stdio.h>

#define WARP 32
#define BLOCK 256               /* threads of a block of elementwise.cu */
#define THREADS_MAX 512         /* of a block with a row in registers */
#define THREADS_RESIDENT 1024   /* of a multiprocessor, with 64 registers each */
#define ELEMENTWISE_BLOCKS 8192 /* of elementwise operations, which loop */
#define MOVING_BLOCKS 16        /* of a multiprocessor, of operations that move rows: four waves */

/* Source and entry point, by operation. */
static const char *const sources[HR_ROWWISE_COUNT][2] = {
    [HR_ROWWISE_SOFTMAX] = {"softmax", "softmax_rows"},
    [HR_ROWWISE_LAYER_NORM] = {"norm", "norm_rows"},
    [HR_ROWWISE_RMS_NORM] = {"norm", "norm_rows"},
    [HR_ROWWISE_ROTARY] = {"elementwise", "rotary"},
    [HR_ROWWISE_GELU] = {"elementwise", "gelu"},
    [HR_ROWWISE_SWIGLU] = {"elementwise", "swiglu"},
    [HR_ROWWISE_RESIDUAL] = {"elementwise", "residual"},
    [HR_ROWWISE_DROPOUT] = {"elementwise", "dropout"},
    [HR_ROWWISE_GELU_TANH] = {"elementwise", "gelu_tanh"},
    [HR_ROWWISE_RELU] = {"elementwise", "relu"},
    [HR_ROWWISE_RELU2] = {"elementwise", "relu2"},
    [HR_ROWWISE_GEGLU] = {"elementwise", "geglu"},
    [HR_ROWWISE_GEGLU_TANH] = {"elementwise", "geglu_tanh"},
    [HR_ROWWISE_SCALE] = {"elementwise", "scale"},
    [HR_ROWWISE_COPY] = {"elementwise", "copy"},
    [HR_ROWWISE_BIAS] = {"elementwise", "bias"},
    [HR_ROWWISE_GATHER] = {"elementwise", "gather"},
    [HR_ROWWISE_SOFTCAP] = {"elementwise", "softcap"},
    [HR_ROWWISE_WEIGHT] = {"elementwise", "weight"},
    [HR_ROWWISE_GATE] = {"elementwise", "gate"},
    [HR_ROWWISE_SINK] = {"elementwise", "sink"},
    [HR_ROWWISE_COMBINE] = {"elementwise", "combine"},
    [HR_ROWWISE_SWIGLU_CLAMPED] = {"elementwise", "swiglu_clamped"},
    [HR_ROWWISE_ROTARY_JOIN] = {"elementwise", "rotary_join"},
};

const char *hr_rowwise_source(hr_rowwise_operation operation)
{
  return sources[operation][0];
}

static const char *entry_point(hr_rowwise_operation operation)
{
  return sources[operation][1];
}

typedef struct launch {
  cu_function function;
  int64_t blocks;
  unsigned threads_x, threads_y, shared_bytes;
  cu_function shift; /* NULL: weights are read in place */
  int64_t shifted_elements;
} launch;

typedef struct rowwise_plan {
  const hr_cuda *cuda;
  launch launch;
} rowwise_plan;

static bool has_rows(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_SOFTMAX || operation == HR_ROWWISE_LAYER_NORM || operation == HR_ROWWISE_RMS_NORM;
}

/* The smallest power of two that is at least `wanted`. */
static int64_t power_of_two(int64_t wanted)
{
  int64_t power = 1;
  while (power < wanted)
    power *= 2;
  return power;
}

static int64_t pack_elements(hr_dtype dtype)
{
  return HR_ROWWISE_PACK_BYTES / (int64_t)hr_dtype_bytes(dtype);
}

/* ---- operations with a reduction ---- */

#define RESERVED 2048            /* bytes of shared memory of a block for reductions and the driver */
#define STAGED_COLUMNS 1024      /* of the longest staged row */
#define STAGED_THREAD_COLUMNS 36 /* columns of a thread there */
#define STAGED_BYTES (17 << 10)  /* of a block's staged rows: eight blocks and more fit */
#define SHIFTED_COLUMNS \
  ((int64_t)1 << 20)  /* of the longest shifted weights: 16 bytes of memory for each, and for bias */
#define CLUSTER_MAX 8 /* cluster size that every GPU with clusters supports */

/* Short rows that are not whole packs: a power of two of them, which are whole packs together, so that blocks share no
 * sectors of memory. */
static void tile_staged(int64_t columns, int64_t wide, hr_rowwise_tiling *tiling)
{
  int64_t row_bytes = columns * HR_ROWWISE_PACK_BYTES / wide;
  for (tiling->staged_rows = wide; 2 * tiling->staged_rows * row_bytes <= STAGED_BYTES; tiling->staged_rows *= 2) {
  }
  tiling->threads = hr_min64(power_of_two(hr_ceil_div(columns, STAGED_THREAD_COLUMNS)), WARP);
  tiling->groups = BLOCK / 2 / tiling->threads;
  tiling->min_blocks = 8;
  tiling->shared_bytes =
      (size_t)(hr_ceil_div(tiling->staged_rows * row_bytes, HR_ROWWISE_PACK_BYTES) * HR_ROWWISE_PACK_BYTES);
}

/* Several rows per block. */
static void tile_short(int64_t packs, int64_t wide, hr_rowwise_tiling *tiling)
{
  tiling->threads = hr_min64(power_of_two(packs), WARP);
  tiling->groups = BLOCK / 2 / tiling->threads;
  tiling->register_packs = hr_ceil_div(packs, tiling->threads);
  int64_t elements = tiling->register_packs * wide;
  tiling->min_blocks = elements <= 8 ? 16 : elements <= 16 ? 12 : 8;
}

/* A row per block, in registers: the largest share of a multiprocessor's threads in use. */
static void tile_block(int64_t packs, hr_rowwise_tiling *tiling)
{
  double best = 0;
  for (int64_t register_packs = 4; register_packs <= 8; register_packs++) {
    int64_t threads = hr_ceil_div(packs, register_packs * WARP) * WARP, resident = THREADS_RESIDENT / threads;
    double used = (double)(resident * packs) / (double)(THREADS_RESIDENT * register_packs);
    if (used > best && threads <= THREADS_MAX) {
      best = used;
      tiling->register_packs = register_packs;
      tiling->threads = threads;
      tiling->min_blocks = resident;
    }
  }
}

/* Rows in registers and shared memory, two blocks per multiprocessor: the smallest cluster that holds `rows_at_a_time`
 * rows. */
static void tile_long(int64_t packs, int64_t rows_at_a_time, int64_t register_packs, int64_t cluster_max,
                      size_t shared_max, hr_rowwise_tiling *tiling)
{
  tiling->threads = THREADS_MAX;
  tiling->min_blocks = THREADS_RESIDENT / THREADS_MAX;
  tiling->rows = rows_at_a_time;
  tiling->register_packs = register_packs;
  int64_t step_bytes = tiling->threads * rows_at_a_time * HR_ROWWISE_PACK_BYTES;
  int64_t most = hr_max64(0, ((int64_t)shared_max / tiling->min_blocks - RESERVED) / step_bytes);
  for (tiling->cluster = 1; tiling->cluster < cluster_max; tiling->cluster *= 2) {
    if (packs <= tiling->cluster * tiling->threads * (tiling->register_packs + most))
      break;
  }
  int64_t steps = hr_ceil_div(packs, tiling->threads * tiling->cluster);
  tiling->shared_packs = hr_max64(0, hr_min64(most, steps - tiling->register_packs));
  tiling->shared_bytes = (size_t)(tiling->shared_packs * step_bytes);
}

static bool holds(const hr_rowwise_tiling *tiling, int64_t packs)
{
  return tiling->cluster * tiling->threads * (tiling->register_packs + tiling->shared_packs) >= packs;
}

/* Norms of rows that do not fit one block process two rows at a time, which share loads of weights. Except layer norms
 * in 16 bits, whose weights and bias need the registers, and unaligned rows, unless they are fp32 layer norms that fit
 * two blocks. */
static void tile_by_operation(const hr_rowwise *rows, int64_t packs, int capability, size_t shared_max,
                              hr_rowwise_tiling *tiling)
{
  int64_t cluster_max = capability >= 90 ? CLUSTER_MAX : 1;
  bool layer_norm = rows->operation == HR_ROWWISE_LAYER_NORM, wide = hr_dtype_bytes(rows->dtype) == 4;
  tile_long(packs, 1, 8, cluster_max, shared_max, tiling);
  if (rows->operation == HR_ROWWISE_SOFTMAX || (layer_norm && !wide) ||
      (tiling->alignment == HR_ROWS_ALIGNED && tiling->cluster == 1))
    return;
  hr_rowwise_tiling two = *tiling;
  tile_long(packs, 2, wide ? 3 : 2, cluster_max, shared_max, &two); /* more packs spill */
  if (holds(&two, packs) && (tiling->alignment == HR_ROWS_ALIGNED || (layer_norm && two.cluster <= 2)))
    *tiling = two;
}

/* Weight vectors: weight, and bias of a layer norm. */
static int64_t shared_vectors(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_LAYER_NORM ? 2 : operation == HR_ROWWISE_RMS_NORM ? 1 : 0;
}

hr_rowwise_tiling hr_rowwise_tiling_choose(const hr_rowwise *rows, bool aligned, int capability, size_t shared_max)
{
  int64_t wide = pack_elements(rows->dtype);
  bool odd = rows->columns % wide != 0, whole = aligned && !odd;
  int64_t lead = whole ? 0 : HR_ROWWISE_LINE_BYTES / HR_ROWWISE_PACK_BYTES * wide - 1,
          packs = hr_ceil_div(rows->columns + lead, wide);
  hr_rowwise_tiling tiling = {.alignment = whole     ? HR_ROWS_ALIGNED
                                           : aligned ? HR_BASE_ALIGNED
                                                     : HR_UNALIGNED,
                              .groups = 1,
                              .cluster = 1,
                              .rows = 1};
  if (!whole && rows->columns <= STAGED_COLUMNS) {
    tile_staged(rows->columns, wide, &tiling);
    return tiling;
  }
  tiling.shifted = odd && rows->columns <= SHIFTED_COLUMNS && shared_vectors(rows->operation) > 0;
  if (packs <= 4 * WARP)
    tile_short(packs, wide, &tiling);
  else if (packs <= 8 * THREADS_MAX)
    tile_block(packs, &tiling);
  else
    tile_by_operation(rows, packs, capability, shared_max, &tiling);
  return tiling;
}

/* Elements of all shifted copies of the weights: one copy, of whole packs, per element of a pack. */
static int64_t shifted_elements(const hr_rowwise *rows, const hr_rowwise_tiling *tiling)
{
  int64_t wide = pack_elements(rows->dtype);
  return tiling->shifted ? shared_vectors(rows->operation) * wide * hr_ceil_div(rows->columns + wide - 1, wide) * wide
                         : 0;
}

void hr_rowwise_tiling_defines(const hr_rowwise *rows, const hr_rowwise_tiling *tiling, char text[HR_DEFINES_SIZE])
{
  bool causal = rows->operation == HR_ROWWISE_SOFTMAX && rows->period > 0;
  snprintf(text, HR_DEFINES_SIZE,
           "HR_COLUMNS=%" PRId64 " HR_ALIGNMENT=%d HR_THREADS=%" PRId64 " HR_GROUPS=%" PRId64 " HR_CLUSTER=%" PRId64
           " HR_ROWS=%" PRId64 " HR_REGISTER_PACKS=%" PRId64 " HR_SHARED_PACKS=%" PRId64 " HR_STAGED_ROWS=%" PRId64
           " HR_MIN_BLOCKS=%" PRId64 " HR_SHIFTED=%d HR_CENTRED=%d HR_CAUSAL=%d",
           rows->columns, (int)tiling->alignment, tiling->threads, tiling->groups, tiling->cluster, tiling->rows,
           tiling->register_packs, tiling->shared_packs, tiling->staged_rows, tiling->min_blocks, tiling->shifted,
           rows->operation == HR_ROWWISE_LAYER_NORM, causal);
}

int64_t hr_rowwise_blocks(const hr_rowwise *r, const hr_rowwise_tiling *tiling)
{
  if (tiling->staged_rows > 0)
    return hr_ceil_div(r->rows, tiling->staged_rows);
  int64_t spacing = HR_ROWWISE_SPACING(tiling->alignment, (int64_t)hr_dtype_bytes(r->dtype));
  int64_t groups = tiling->rows == 1 ? r->rows : hr_ceil_div(r->rows, spacing * tiling->rows) * spacing;
  return hr_ceil_div(groups, tiling->groups) * tiling->cluster;
}

static hr_status prepare_rows(const hr_cuda *cuda, const hr_rowwise *r, const hr_rowwise_tiling *tiling, launch *l,
                              hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  hr_rowwise_tiling_defines(r, tiling, defines);
  l->blocks = hr_rowwise_blocks(r, tiling);
  l->threads_x = (unsigned)tiling->threads;
  l->threads_y = (unsigned)tiling->groups;
  l->shared_bytes = (unsigned)tiling->shared_bytes;
  l->shifted_elements = shifted_elements(r, tiling);
  hr_dtype dtype = r->dtype == HR_TF32 ? HR_FP32 : r->dtype; /* a dtype of GEMMs only */
  const char *source = hr_rowwise_source(r->operation);
  HR_TRY(hr_cuda_function_shared(cuda, source, dtype, defines, entry_point(r->operation), tiling->shared_bytes,
                                 &l->function, error));
  l->shift = NULL;
  return tiling->shifted ? hr_cuda_function(cuda, source, dtype, defines, "shift_vectors", &l->shift, error) : HR_OK;
}

/* ---- operations without a reduction ---- */

/* The most of 16, 8 and 4 bytes that divide them, or an element, in elements. */
static int64_t widest(int64_t bytes, int64_t element)
{
  int64_t width = HR_ROWWISE_PACK_BYTES;
  while (width >= 4 && bytes % width != 0)
    width /= 2;
  return width >= 4 ? width / element : 1;
}

/* Where halves are too short for packs, a thread copies two parts of a row, so that a warp has more rows. */
static void shape_rotary(const hr_rowwise *r, launch *l)
{
  const int64_t half = hr_rowwise_rotated(r) / 2, bytes = (int64_t)hr_dtype_bytes(r->dtype);
  const int64_t copied = r->columns - hr_rowwise_rotated(r);
  const bool packs = half * bytes % HR_ROWWISE_PACK_BYTES == 0;
  const int64_t rotating = hr_ceil_div(half, packs                   ? HR_ROWWISE_PACK_BYTES / bytes
                                             : half * bytes % 4 == 0 ? 4 / bytes
                                                                     : 1);
  const int64_t copying = hr_ceil_div(copied, widest(copied * bytes, bytes) * (packs ? 1 : 2));
  l->threads_x = (unsigned)hr_min64(power_of_two(hr_max64(rotating, copying)), BLOCK);
  l->threads_y = BLOCK / l->threads_x;
  l->blocks = hr_ceil_div(r->rows, l->threads_y);
}

/* A thread has several of more rows than these blocks take at once, and loads their elements together. */
static hr_status shape_moved(const hr_cuda *cuda, const hr_rowwise *r, launch *l, hr_error *error)
{
  const int64_t packs = hr_ceil_div(r->columns, pack_elements(r->dtype));
  int64_t multiprocessors;
  HR_TRY(hr_cuda_attribute(cuda, CU_MULTIPROCESSORS, &multiprocessors, error));
  l->threads_x = (unsigned)hr_min64(power_of_two(packs), BLOCK);
  l->threads_y = BLOCK / l->threads_x;
  l->blocks = hr_min64(hr_ceil_div(r->rows, l->threads_y), MOVING_BLOCKS * multiprocessors);
  return HR_OK;
}

static bool is_rotary(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_ROTARY || operation == HR_ROWWISE_ROTARY_JOIN;
}

static hr_status prepare_elements(const hr_cuda *cuda, const hr_rowwise *r, launch *l, hr_error *error)
{
  l->threads_x = BLOCK;
  l->threads_y = 1;
  l->blocks = hr_min64(r->rows * r->columns / pack_elements(r->dtype) / BLOCK + 1, ELEMENTWISE_BLOCKS);
  if (is_rotary(r->operation))
    shape_rotary(r, l);
  else if (!hr_rowwise_by_element(r->operation))
    HR_TRY(shape_moved(cuda, r, l, error));
  hr_dtype dtype = r->dtype == HR_TF32 ? HR_FP32 : r->dtype;
  return hr_cuda_function(cuda, hr_rowwise_source(r->operation), dtype, NULL, entry_point(r->operation), &l->function,
                          error);
}

/* ---- plans ---- */

size_t hr_rowwise_shared_max(const hr_cuda *cuda)
{
  int64_t bytes = 0;
  return hr_cuda_attribute(cuda, CU_MAX_SHARED_OPTIN, &bytes, NULL) == HR_OK && bytes > 0 ? (size_t)bytes
                                                                                          : (size_t)48 << 10;
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  const hr_cuda *cuda = device->state;
  const hr_rowwise *r = &problem->rows;
  launch l = {.blocks = 0};
  if (!hr_rowwise_source(r->operation)) {
    snprintf(why, why_size, "computes no gradients, and no residual with its norm");
    return false;
  }
  if (is_rotary(r->operation))
    shape_rotary(r, &l);
  for (int aligned = 0; aligned < 2 && has_rows(r->operation); aligned++) {
    hr_rowwise_tiling tiling = hr_rowwise_tiling_choose(r, aligned, cuda->capability, hr_rowwise_shared_max(cuda));
    l.blocks = hr_max64(l.blocks, hr_rowwise_blocks(r, &tiling));
  }
  if (l.blocks <= INT32_MAX)
    return true;
  snprintf(why, why_size, "takes rows of fewer than 2^31 blocks");
  return false;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  const hr_cuda *cuda = device->state;
  const hr_rowwise *r = &problem->rows;
  rowwise_plan *p = state;
  p->cuda = cuda;
  bool aligned = hr_alignment(r->alignment) % HR_ROWWISE_PACK_BYTES == 0; /* elementwise kernels take any alignment */
  hr_rowwise_tiling tiling = hr_rowwise_tiling_choose(r, aligned, cuda->capability, hr_rowwise_shared_max(cuda));
  HR_TRY(has_rows(r->operation) ? prepare_rows(cuda, r, &tiling, &p->launch, error)
                                : prepare_elements(cuda, r, &p->launch, error));
  *workspace_bytes = (size_t)p->launch.shifted_elements * hr_dtype_bytes(r->dtype);
  return HR_OK;
}

/* The number that the kernel takes. */
static double number_of(const hr_rowwise *r)
{
  switch (r->operation) {
  case HR_ROWWISE_SCALE: return r->factor;
  case HR_ROWWISE_SOFTCAP:
  case HR_ROWWISE_SWIGLU_CLAMPED: return hr_rowwise_cap(r);
  default: return hr_rowwise_epsilon(r);
  }
}

static hr_rowwise_call call_of(const hr_rowwise *r)
{
  return (hr_rowwise_call){.rows = r->rows,
                           .columns = r->columns,
                           .period = r->period,
                           .group = r->group,
                           .seed = r->seed,
                           .dropped = (unsigned)hr_rowwise_dropped(r),
                           .number = (float)number_of(r),
                           .x_stride = r->x_stride,
                           .rotated = hr_rowwise_rotated(r),
                           .x_row = hr_rowwise_x_row(r),
                           .z_row = r->z_row,
                           .z_stride = hr_rowwise_z_stride(r),
                           .y_stride = r->y_stride,
                           .interleaved = r->interleaved};
}

/* In the device's context. The kernel reads the shifted weights from the workspace. */
static hr_status launch_rows(const rowwise_plan *p, const hr_rowwise *r, uint64_t addresses[4], const hr_run *run,
                             hr_error *error)
{
  const launch *l = &p->launch;
  const hr_cuda_queue queue = {p->cuda, run->stream};
  const hr_rowwise_arguments *x = run->arguments;
  hr_rowwise_call call = call_of(r);
  call.row_count = hr_cuda_address(x->row_count);
  uint64_t workspace = hr_cuda_address(run->workspace);
  void *arguments[] = {&addresses[0], &addresses[1], &addresses[2], &addresses[3], &call};
  if (l->shift) {
    const hr_cuda_kernel kernel = {
        .function = l->shift, .blocks = hr_ceil_div(l->shifted_elements, BLOCK), .threads = BLOCK};
    void *shift[] = {&addresses[0], &addresses[1], &addresses[2], &workspace, &call};
    HR_TRY(hr_cuda_launch(&queue, &kernel, shift, error));
    addresses[1] = workspace;
    addresses[2] = workspace + (uint64_t)l->shifted_elements / 2 * hr_dtype_bytes(r->dtype);
  }
  const hr_cuda_kernel kernel = {.function = l->function,
                                 .blocks = l->blocks,
                                 .threads = l->threads_x,
                                 .threads_y = l->threads_y,
                                 .shared_bytes = l->shared_bytes,
                                 .early = p->cuda->capability >= 90};
  return hr_cuda_launch(&queue, &kernel, arguments, error);
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const rowwise_plan *p = plan->state;
  const hr_rowwise *r = &plan->problem.rows;
  const hr_rowwise_arguments *x = run->arguments;
  uint64_t addresses[4] = {0, 0, 0, hr_cuda_address(x->output)};
  for (int i = 0; i < hr_rowwise_inputs(r->operation); i++)
    addresses[i] = hr_cuda_address(x->inputs[i]);
  HR_TRY(hr_cuda_enter(p->cuda, error));
  hr_status status = launch_rows(p, r, addresses, run, error);
  hr_cuda_leave(p->cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const launch *l = &((const rowwise_plan *)state)->launch;
  int length = snprintf(text, size, "%" PRId64 " blocks of %u × %u threads", l->blocks, l->threads_x, l->threads_y);
  if (l->shared_bytes > 0 && length > 0 && (size_t)length < size)
    snprintf(text + length, size - (size_t)length, ", %u bytes shared", l->shared_bytes);
}

const hr_kernel_functions hr_kernel_rowwise_cuda = {
    .state_bytes = sizeof(rowwise_plan), .supports = supports, .prepare = prepare, .run = run, .describe = describe};
