/* Operations on rows by kernels/softmax.cu, norm.cu and elementwise.cu: how rows are cut, and how many threads each
 * gets. */
#include "runtime/cuda/rowwise/rowwise.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/device/plan.h"

#include <inttypes.h>
#include <stdio.h>

#define PACK_BYTES 16
#define LINE_BYTES 128 /* of the caches */
#define WARP 32
#define BLOCK 256             /* threads of a block that knows no rows, or that turns rows */
#define THREADS_MOST 512      /* of a block that keeps a row in registers */
#define THREADS_RESIDENT 1024 /* of a multiprocessor, with 64 registers each */
#define EACH_BLOCKS 8192      /* of operations that know no rows: some per multiprocessor, in a loop */

/* Source and entry point, by operation. */
static const char *const sources[HR_ROWWISE_COUNT][2] = {
    [HR_ROWWISE_SOFTMAX] = {"softmax", "softmax_rows"},  [HR_ROWWISE_LAYER_NORM] = {"norm", "norm_rows"},
    [HR_ROWWISE_RMS_NORM] = {"norm", "norm_rows"},       [HR_ROWWISE_ROTARY] = {"elementwise", "rotary"},
    [HR_ROWWISE_GELU] = {"elementwise", "gelu"},         [HR_ROWWISE_SWIGLU] = {"elementwise", "swiglu"},
    [HR_ROWWISE_RESIDUAL] = {"elementwise", "residual"},
};

const char *hr_row_source(hr_rowwise_operation operation)
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
  cu_function shift; /* NULL: weights are read where they lie */
  int64_t shifted_elements;
} launch;

typedef struct rowwise_plan {
  const hr_cuda *cuda;
  size_t shared_most;
  launch launch; /* where all addresses are multiples of 16 */
} rowwise_plan;

static bool has_rows(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_SOFTMAX || operation == HR_ROWWISE_LAYER_NORM || operation == HR_ROWWISE_RMS_NORM;
}

/* The next power of two at or above. */
static int64_t power_of_two(int64_t wanted)
{
  int64_t power = 1;
  while (power < wanted)
    power *= 2;
  return power;
}

static int64_t pack_elements(hr_dtype dtype)
{
  return PACK_BYTES / (int64_t)hr_dtype_bytes(dtype);
}

/* ---- rows with sums over them ---- */

#define RESERVED 2048           /* bytes of shared memory of a block for sums, and what the driver keeps */
#define STAGED_COLUMNS 1024     /* most of a row that is staged */
#define STAGED_EACH 36          /* columns of a thread there */
#define STAGED_BYTES (17 << 10) /* of a chunk: shared memory of eight blocks and more */
#define SHIFTED_COLUMNS \
  ((int64_t)1 << 20)  /* most of weights that are shifted: 16 bytes of memory for each, and for bias */
#define BLOCKS_MOST 8 /* of a cluster that every GPU with clusters has */

/* Short rows that are no whole packs: as many as are whole packs together, a power of two of them, so that blocks
 * share no sectors of memory. */
static void cut_staged(int64_t columns, int64_t wide, hr_row_cut *cut)
{
  int64_t row_bytes = columns * PACK_BYTES / wide;
  for (cut->chunk = wide; 2 * cut->chunk * row_bytes <= STAGED_BYTES; cut->chunk *= 2) {
  }
  cut->threads = hr_min64(power_of_two(hr_ceil_div(columns, STAGED_EACH)), WARP);
  cut->teams = BLOCK / 2 / cut->threads;
  cut->resident = 8;
  cut->shared_bytes = (size_t)(hr_ceil_div(cut->chunk * row_bytes, PACK_BYTES) * PACK_BYTES);
}

/* Rows that share a block. */
static void cut_short(int64_t packs, int64_t wide, hr_row_cut *cut)
{
  cut->threads = hr_min64(power_of_two(packs), WARP);
  cut->teams = BLOCK / 2 / cut->threads;
  cut->kept = hr_ceil_div(packs, cut->threads);
  int64_t elements = cut->kept * wide;
  cut->resident = elements <= 8 ? 16 : elements <= 16 ? 12 : 8;
}

/* A row a block, in registers: as much as may be of all rows that a multiprocessor has at a time. */
static void cut_block(int64_t packs, hr_row_cut *cut)
{
  double best = 0;
  for (int64_t kept = 4; kept <= 8; kept++) {
    int64_t threads = hr_ceil_div(packs, kept * WARP) * WARP, resident = THREADS_RESIDENT / threads;
    double used = (double)(resident * packs) / (double)(THREADS_RESIDENT * kept);
    if (used > best && threads <= THREADS_MOST) {
      best = used;
      cut->kept = kept;
      cut->threads = threads;
      cut->resident = resident;
    }
  }
}

/* Rows in registers and shared memory, two blocks a multiprocessor: cut into the fewest blocks that hold `at_a_time`
 * rows. */
static void cut_long(int64_t packs, int64_t at_a_time, int64_t kept, int64_t blocks_most, size_t shared_most,
                     hr_row_cut *cut)
{
  cut->threads = THREADS_MOST;
  cut->resident = THREADS_RESIDENT / THREADS_MOST;
  cut->rows = at_a_time;
  cut->kept = kept;
  int64_t step_bytes = cut->threads * at_a_time * PACK_BYTES;
  int64_t most = hr_max64(0, ((int64_t)shared_most / cut->resident - RESERVED) / step_bytes);
  for (cut->blocks = 1; cut->blocks < blocks_most; cut->blocks *= 2) {
    if (packs <= cut->blocks * cut->threads * (cut->kept + most))
      break;
  }
  int64_t steps = hr_ceil_div(packs, cut->threads * cut->blocks);
  cut->held = hr_max64(0, hr_min64(most, steps - cut->kept));
  cut->shared_bytes = (size_t)(cut->held * step_bytes);
}

static bool holds(const hr_row_cut *cut, int64_t packs)
{
  return cut->blocks * cut->threads * (cut->kept + cut->held) >= packs;
}

/* Norms of rows that one block does not hold have two at a time, which share what they read of weights. Not layer norms
 * in 16 bits, whose weights and bias take the registers, nor odd rows, but for layer norms of fp32 that two blocks
 * hold. */
static void cut_by_operation(const hr_rowwise *rows, int64_t packs, int capability, size_t shared_most, hr_row_cut *cut)
{
  int64_t blocks_most = capability >= 90 ? BLOCKS_MOST : 1;
  bool layer_norm = rows->operation == HR_ROWWISE_LAYER_NORM, wide = hr_dtype_bytes(rows->dtype) == 4;
  cut_long(packs, 1, 8, blocks_most, shared_most, cut);
  if (rows->operation == HR_ROWWISE_SOFTMAX || (layer_norm && !wide) || (cut->lie == HR_ROW_WHOLE && cut->blocks == 1))
    return;
  hr_row_cut two = *cut;
  cut_long(packs, 2, wide ? 3 : 2, blocks_most, shared_most, &two); /* more spill */
  if (holds(&two, packs) && (cut->lie == HR_ROW_WHOLE || (layer_norm && two.blocks <= 2)))
    *cut = two;
}

/* Weights, and bias, that all rows share. */
static int64_t shared_vectors(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_LAYER_NORM ? 2 : operation == HR_ROWWISE_RMS_NORM ? 1 : 0;
}

hr_row_cut hr_row_cut_choose(const hr_rowwise *rows, bool aligned, int capability, size_t shared_most)
{
  int64_t wide = pack_elements(rows->dtype);
  bool odd = rows->columns % wide != 0, whole = aligned && !odd;
  int64_t lead = whole ? 0 : LINE_BYTES / PACK_BYTES * wide - 1, packs = hr_ceil_div(rows->columns + lead, wide);
  hr_row_cut cut = {.lie = whole     ? HR_ROW_WHOLE
                           : aligned ? HR_ROW_ALIKE
                                     : HR_ROW_ANYHOW,
                    .teams = 1,
                    .blocks = 1,
                    .rows = 1};
  if (!whole && rows->columns <= STAGED_COLUMNS) {
    cut_staged(rows->columns, wide, &cut);
    return cut;
  }
  cut.shifted = odd && rows->columns <= SHIFTED_COLUMNS && shared_vectors(rows->operation) > 0;
  if (packs <= 4 * WARP)
    cut_short(packs, wide, &cut);
  else if (packs <= 8 * THREADS_MOST)
    cut_block(packs, &cut);
  else
    cut_by_operation(rows, packs, capability, shared_most, &cut);
  return cut;
}

/* Elements that all shifts of the weights take: as many shifts as a pack has elements, each of whole packs. */
static int64_t shifted_elements(const hr_rowwise *rows, const hr_row_cut *cut)
{
  int64_t wide = pack_elements(rows->dtype);
  return cut->shifted ? shared_vectors(rows->operation) * wide * hr_ceil_div(rows->columns + wide - 1, wide) * wide : 0;
}

void hr_row_cut_defines(const hr_rowwise *rows, const hr_row_cut *cut, char text[HR_DEFINES_SIZE])
{
  bool causal = rows->operation == HR_ROWWISE_SOFTMAX && rows->period > 0;
  snprintf(text, HR_DEFINES_SIZE,
           "HR_COLUMNS=%" PRId64 " HR_LIE=%d HR_THREADS=%" PRId64 " HR_TEAMS=%" PRId64 " HR_BLOCKS=%" PRId64
           " HR_ROWS=%" PRId64 " HR_KEPT=%" PRId64 " HR_HELD=%" PRId64 " HR_CHUNK=%" PRId64 " HR_RESIDENT=%" PRId64
           " HR_SHIFTED=%d HR_CENTRED=%d HR_CAUSAL=%d",
           rows->columns, (int)cut->lie, cut->threads, cut->teams, cut->blocks, cut->rows, cut->kept, cut->held,
           cut->chunk, cut->resident, cut->shifted, rows->operation == HR_ROWWISE_LAYER_NORM, causal);
}

static hr_status allow_shared(const hr_cuda *cuda, const launch *l, hr_error *error)
{
  if (l->shared_bytes == 0)
    return HR_OK;
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status =
      HR_CU(&cuda->driver, cuFuncSetAttribute, (l->function, CU_FUNCTION_SHARED_MOST, (int)l->shared_bytes), error);
  hr_cuda_leave(cuda);
  return status;
}

static int64_t count_blocks(const hr_rowwise *r, const hr_row_cut *cut)
{
  if (cut->chunk > 0)
    return hr_ceil_div(r->rows, cut->chunk);
  int64_t spacing = cut->lie == HR_ROW_WHOLE ? 1 : LINE_BYTES / (int64_t)hr_dtype_bytes(r->dtype); /* as in row.cuh */
  int64_t groups = cut->rows == 1 ? r->rows : hr_ceil_div(r->rows, spacing * cut->rows) * spacing;
  return hr_ceil_div(groups, cut->teams) * cut->blocks;
}

static hr_status prepare_rows(const hr_cuda *cuda, const hr_rowwise *r, const hr_row_cut *cut, launch *l,
                              hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  hr_row_cut_defines(r, cut, defines);
  l->blocks = count_blocks(r, cut);
  l->threads_x = (unsigned)cut->threads;
  l->threads_y = (unsigned)cut->teams;
  l->shared_bytes = (unsigned)cut->shared_bytes;
  l->shifted_elements = shifted_elements(r, cut);
  hr_dtype dtype = r->dtype == HR_TF32 ? HR_FP32 : r->dtype; /* a format of products only */
  const char *source = hr_row_source(r->operation);
  HR_TRY(hr_cuda_function(cuda, source, dtype, defines, entry_point(r->operation), &l->function, error));
  l->shift = NULL;
  if (cut->shifted)
    HR_TRY(hr_cuda_function(cuda, source, dtype, defines, "shift_vectors", &l->shift, error));
  return allow_shared(cuda, l, error);
}

/* ---- the others ---- */

static void shape_rotary(const hr_rowwise *r, launch *l)
{
  int64_t half = r->columns / 2, bytes = (int64_t)hr_dtype_bytes(r->dtype);
  int64_t width = half * bytes % PACK_BYTES == 0 ? PACK_BYTES / bytes : half * bytes % 4 == 0 ? 4 / bytes : 1;
  l->threads_x = (unsigned)hr_min64(power_of_two(hr_ceil_div(half, width)), BLOCK);
  l->threads_y = BLOCK / l->threads_x;
  l->blocks = hr_ceil_div(r->rows, l->threads_y);
}

static hr_status prepare_elements(const hr_cuda *cuda, const hr_rowwise *r, launch *l, hr_error *error)
{
  l->threads_x = BLOCK;
  l->threads_y = 1;
  l->blocks = hr_min64(r->rows * r->columns / pack_elements(r->dtype) / BLOCK + 1, EACH_BLOCKS);
  if (r->operation == HR_ROWWISE_ROTARY)
    shape_rotary(r, l);
  hr_dtype dtype = r->dtype == HR_TF32 ? HR_FP32 : r->dtype;
  return hr_cuda_function(cuda, hr_row_source(r->operation), dtype, NULL, entry_point(r->operation), &l->function,
                          error);
}

/* ---- plans ---- */

/* Shared memory that a block may have; where the driver does not say, what every GPU gives. */
static size_t shared_most(const hr_cuda *cuda)
{
  int bytes = 0;
  return cuda->driver.cuDeviceGetAttribute(&bytes, CU_MAX_SHARED_OPTIN, cuda->device) == CU_SUCCESS && bytes > 0
             ? (size_t)bytes
             : (size_t)48 << 10;
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  const hr_cuda *cuda = device->state;
  const hr_rowwise *r = &problem->rows;
  launch l = {.blocks = 0};
  if (r->operation == HR_ROWWISE_ROTARY)
    shape_rotary(r, &l);
  for (int aligned = 0; aligned < 2 && has_rows(r->operation); aligned++) {
    hr_row_cut cut = hr_row_cut_choose(r, aligned, cuda->capability, shared_most(cuda));
    l.blocks = hr_max64(l.blocks, count_blocks(r, &cut));
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
  p->shared_most = shared_most(cuda);
  hr_row_cut cut = hr_row_cut_choose(r, true, cuda->capability, p->shared_most);
  HR_TRY(has_rows(r->operation) ? prepare_rows(cuda, r, &cut, &p->launch, error)
                                : prepare_elements(cuda, r, &p->launch, error));
  *workspace_bytes = (size_t)p->launch.shifted_elements * hr_dtype_bytes(r->dtype);
  return HR_OK;
}

/* Rows at other addresses: a program that is built when it is first met. */
static hr_status launch_unaligned(const rowwise_plan *p, const hr_rowwise *r, launch *l, hr_error *error)
{
  if (!has_rows(r->operation))
    return HR_OK; /* these look at the addresses */
  hr_row_cut cut = hr_row_cut_choose(r, false, p->cuda->capability, p->shared_most);
  return prepare_rows(p->cuda, r, &cut, l, error);
}

/* In the device's context. The kernel reads what the shifts leave in the workspace. */
static hr_status launch_rows(const rowwise_plan *p, const hr_rowwise *r, const launch *l, uint64_t addresses[4],
                             uint64_t workspace, hr_error *error)
{
  const hr_driver *driver = &p->cuda->driver;
  cu_stream stream = p->cuda->stream;
  long long rows = r->rows, columns = r->columns, period = r->period, group = r->group;
  void *arguments[] = {&addresses[0], &addresses[1], &addresses[2], &addresses[3], &rows, &columns, &period, &group};
  if (l->shift) {
    void *shift[] = {&addresses[0], &addresses[1], &addresses[2], &workspace, &rows, &columns, &period, &group};
    unsigned blocks = (unsigned)hr_ceil_div(l->shifted_elements, BLOCK);
    HR_TRY(HR_CU(driver, cuLaunchKernel, (l->shift, blocks, 1, 1, BLOCK, 1, 1, 0, stream, shift, NULL), error));
    addresses[1] = workspace;
    addresses[2] = workspace + (uint64_t)l->shifted_elements / 2 * hr_dtype_bytes(r->dtype);
  }
  return HR_CU(
      driver, cuLaunchKernel,
      (l->function, (unsigned)l->blocks, 1, 1, l->threads_x, l->threads_y, 1, l->shared_bytes, stream, arguments, NULL),
      error);
}

static hr_status run(const hr_plan *plan, const void *const *inputs, void *output, void *workspace, hr_error *error)
{
  const rowwise_plan *p = plan->state;
  const hr_rowwise *r = &plan->problem.rows;
  uint64_t addresses[4] = {0, 0, 0, (uint64_t)(uintptr_t)output}, together = 0;
  for (int i = 0; i < hr_rowwise_inputs(r->operation); i++)
    addresses[i] = (uint64_t)(uintptr_t)inputs[i];
  for (int i = 0; i < 4; i++)
    together |= addresses[i];
  if (together % hr_dtype_bytes(r->dtype) != 0)
    return hr_fail(error, HR_ERROR_INVALID, "rowwise_cuda: an address is no multiple of %zu, the size of an element",
                   hr_dtype_bytes(r->dtype));
  launch l = p->launch;
  if (together % PACK_BYTES != 0)
    HR_TRY(launch_unaligned(p, r, &l, error));
  HR_TRY(hr_cuda_enter(p->cuda, error));
  hr_status status = launch_rows(p, r, &l, addresses, (uint64_t)(uintptr_t)workspace, error);
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
