/* Operations on rows by kernels/softmax.cu, norm.cu and elementwise.cu: which entry point, and how many threads a row gets. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/cuda.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACK_BYTES 16
#define PACKS_SHORT 2    /* of a row that a thread keeps in …_short, as in row.cuh */
#define PACKS 8          /* in …_block and …_cluster */
#define THREADS_MOST 512 /* of a block in those */
#define CLUSTER 8        /* blocks, as in row.cuh */
#define THREADS_STREAM 1024
#define BLOCK 256        /* threads of a block that knows no rows, or small ones */
#define BLOCK_SHARED 128 /* of one in which rows have part of a warp each */
#define WARP 32
#define EACH_BLOCKS 8192 /* of operations that know no rows: some per multiprocessor, in a loop */

/* Source, by operation. */
static const char *const sources[HR_ROWS_COUNT] = {
    [HR_ROWS_SOFTMAX] = "softmax",      [HR_ROWS_LAYER_NORM] = "norm",  [HR_ROWS_RMS_NORM] = "norm",
    [HR_ROWS_ROTARY] = "elementwise",   [HR_ROWS_GELU] = "elementwise", [HR_ROWS_SWIGLU] = "elementwise",
    [HR_ROWS_RESIDUAL] = "elementwise",
};

typedef struct launch {
  cu_function function;
  const char *variant; /* what the entry point's name ends in; "" for one without variants */
  int64_t blocks;
  unsigned threads_x, threads_y;
} launch;

typedef struct rows_plan {
  const hr_cuda *cuda;
  launch aligned, any; /* where all addresses are multiples of 16, and where one is not */
} rows_plan;

static bool by_element(hr_rows_operation operation)
{
  return operation == HR_ROWS_GELU || operation == HR_ROWS_SWIGLU || operation == HR_ROWS_RESIDUAL;
}

/* The next power of two at or above. */
static int64_t power_of_two(int64_t wanted)
{
  int64_t power = 1;
  while (power < wanted)
    power *= 2;
  return power;
}

/* Elements of a pack; fp8 is widened and has packs of 8 bytes. */
static int64_t pack_elements(hr_dtype dtype)
{
  return hr_min64(8, PACK_BYTES / (int64_t)hr_dtype_bytes(dtype));
}

static void shape_elements(const hr_rows *r, launch *l)
{
  l->variant = "";
  l->threads_x = BLOCK;
  l->threads_y = 1;
  l->blocks = hr_min64(r->rows * r->columns / pack_elements(r->dtype) / BLOCK + 1, EACH_BLOCKS);
}

static void shape_rotary(const hr_rows *r, launch *l)
{
  int64_t half = r->columns / 2, bytes = (int64_t)hr_dtype_bytes(r->dtype);
  int64_t width = half * bytes % PACK_BYTES == 0 ? PACK_BYTES / bytes : half * bytes % 4 == 0 ? 4 / bytes : 1;
  l->variant = "";
  l->threads_x = (unsigned)hr_min64(power_of_two(hr_ceil_div(half, width)), BLOCK);
  l->threads_y = BLOCK / l->threads_x;
  l->blocks = hr_ceil_div(r->rows, l->threads_y);
}

/* Rows with sums over them. `packs`: that a row has parts of, at most. */
static void shape_team(int64_t rows, int64_t packs, bool clusters, launch *l)
{
  int64_t threads, blocks = 1;
  if (packs <= PACKS_SHORT * WARP) {
    l->variant = "_short";
    threads = power_of_two(hr_ceil_div(packs, PACKS_SHORT));
  } else if (packs <= PACKS * THREADS_MOST) {
    l->variant = "_block";
    threads = packs <= PACKS * WARP ? power_of_two(hr_ceil_div(packs, PACKS)) : hr_ceil_div(packs, PACKS * WARP) * WARP;
  } else if (clusters && packs <= PACKS * THREADS_MOST * CLUSTER) {
    l->variant = "_cluster";
    threads = hr_ceil_div(packs, PACKS * WARP * CLUSTER) * WARP;
    blocks = CLUSTER;
  } else {
    l->variant = "_stream";
    threads = THREADS_STREAM;
  }
  l->threads_x = (unsigned)threads;
  l->threads_y = threads <= WARP ? BLOCK_SHARED / (unsigned)threads : 1;
  l->blocks = hr_ceil_div(rows, l->threads_y) * blocks;
}

static void shape_launch(const hr_rows *r, int capability, bool aligned, launch *l)
{
  int64_t wide = pack_elements(r->dtype);
  if (by_element(r->operation))
    shape_elements(r, l);
  else if (r->operation == HR_ROWS_ROTARY)
    shape_rotary(r, l);
  else if (aligned && r->columns % wide == 0)
    shape_team(r->rows, r->columns / wide, capability >= 90, l);
  else
    shape_team(r->rows, hr_ceil_div(r->columns + wide - 1, wide), capability >= 90, l);
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  launch l;
  shape_launch(&problem->rows, ((const hr_cuda *)device->state)->capability, false, &l);
  if (l.blocks <= INT32_MAX)
    return true;
  snprintf(why, why_size, "takes rows of at most 2^31 blocks");
  return false;
}

static hr_status prepare_launch(const hr_cuda *cuda, const hr_rows *r, bool aligned, launch *l, hr_error *error)
{
  char name[64];
  shape_launch(r, cuda->capability, aligned, l);
  snprintf(name, sizeof name, "%s%s", hr_rows_operation_name(r->operation), l->variant);
  hr_dtype dtype = r->dtype == HR_TF32 ? HR_FP32 : r->dtype; /* a format of products only */
  return hr_cuda_function(cuda, sources[r->operation], dtype, NULL, name, &l->function, error);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void **state, size_t *workspace_bytes,
                         hr_error *error)
{
  rows_plan *p = calloc(1, sizeof *p);
  if (!p)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: no memory for a plan", device->name);
  p->cuda = device->state;
  hr_status status = prepare_launch(p->cuda, &problem->rows, true, &p->aligned, error);
  if (status == HR_OK)
    status = prepare_launch(p->cuda, &problem->rows, false, &p->any, error);
  if (status != HR_OK) {
    free(p);
    return status;
  }
  *workspace_bytes = 0;
  *state = p;
  return HR_OK;
}

static hr_status run(const hr_plan *plan, const void *const *inputs, void *output, void *workspace, hr_error *error)
{
  (void)workspace;
  const rows_plan *p = plan->state;
  const hr_rows *r = &plan->problem.rows;
  uint64_t addresses[4] = {0, 0, 0, (uint64_t)(uintptr_t)output}, together = 0;
  for (int i = 0; i < hr_rows_inputs(r->operation); i++)
    addresses[i] = (uint64_t)(uintptr_t)inputs[i];
  for (int i = 0; i < 4; i++)
    together |= addresses[i];
  if (together % hr_dtype_bytes(r->dtype) != 0)
    return hr_fail(error, HR_ERROR_INVALID, "rows_cuda: an address is no multiple of %zu, the size of an element",
                   hr_dtype_bytes(r->dtype));
  const launch *l = together % PACK_BYTES == 0 ? &p->aligned : &p->any;
  bool periodic = r->operation == HR_ROWS_SOFTMAX || r->operation == HR_ROWS_ROTARY;
  long long rows = r->rows, columns = r->columns, period = periodic ? r->period : 0, group = r->group;
  void *arguments[] = {&addresses[0], &addresses[1], &addresses[2], &addresses[3], &rows, &columns, &period, &group};
  HR_TRY(hr_cuda_enter(p->cuda, error));
  hr_status status = HR_CU(
      &p->cuda->driver, cuLaunchKernel,
      (l->function, (unsigned)l->blocks, 1, 1, l->threads_x, l->threads_y, 1, 0, p->cuda->stream, arguments, NULL),
      error);
  hr_cuda_leave(p->cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const launch *l = &((const rows_plan *)state)->aligned;
  snprintf(text, size, "%s%s%" PRId64 " blocks of %u × %u threads", l->variant[0] ? l->variant + 1 : "",
           l->variant[0] ? ", " : "", l->blocks, l->threads_x, l->threads_y);
}

const hr_kernel_functions hr_kernel_rows_cuda = {
    .supports = supports, .prepare = prepare, .run = run, .release = free, .describe = describe};
