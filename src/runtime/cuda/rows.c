/* Operations on rows by kernels/rows.cu: which of its entry points, and how many threads a row gets. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MOST 1024 /* as in rows.cu */
#define THREADS_SMALL 512
#define HELD 16   /* elements of a row that a thread keeps, as in rows.cu */
#define BLOCK 256 /* threads of a block whose rows need fewer */
#define PACK_BYTES 16
#define EACH_BLOCKS 8192 /* of operations that know no rows: some per multiprocessor, in a loop */

typedef struct launch {
  const hr_cuda *cuda;
  cu_function function;
  const char *variant;
  unsigned blocks, threads_x, threads_y;
} launch;

static bool by_element(hr_rows_operation operation)
{
  return operation == HR_ROWS_GELU || operation == HR_ROWS_SWIGLU || operation == HR_ROWS_RESIDUAL;
}

/* The next power of two at or above, within the largest block. */
static int64_t threads_for(int64_t wanted)
{
  int64_t threads = 1;
  while (threads < wanted && threads < THREADS_MOST)
    threads *= 2;
  return threads;
}

static void shape_launch(const hr_rows *r, launch *l)
{
  int64_t wide = PACK_BYTES / (int64_t)hr_dtype_bytes(r->dtype);
  int64_t aligned = r->operation == HR_ROWS_ROTARY ? r->columns / 2 : r->columns;
  int64_t width = aligned % wide == 0 ? wide : 1, threads, rows_a_block, blocks;
  l->variant = width == wide ? "vector" : "scalar";
  if (by_element(r->operation)) {
    threads = BLOCK;
    rows_a_block = 1;
    blocks = hr_min64(hr_ceil_div(r->rows * r->columns / width, BLOCK), EACH_BLOCKS);
  } else {
    threads = threads_for(hr_ceil_div(aligned / width, r->operation == HR_ROWS_ROTARY ? 1 : hr_max64(1, HELD / width)));
    if (r->operation != HR_ROWS_ROTARY && r->columns > HELD * THREADS_MOST) {
      l->variant = "stream";
      threads = THREADS_MOST;
    } else if (r->operation != HR_ROWS_ROTARY && width > 1 && threads > THREADS_SMALL) {
      l->variant = "long";
    }
    rows_a_block = hr_max64(1, BLOCK / threads);
    blocks = hr_ceil_div(r->rows, rows_a_block);
  }
  l->blocks = (unsigned)hr_max64(1, blocks);
  l->threads_x = (unsigned)threads;
  l->threads_y = (unsigned)rows_a_block;
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  if (problem->rows.rows <= INT32_MAX)
    return true;
  snprintf(why, why_size, "takes fewer than 2^31 rows");
  return false;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void **state, size_t *workspace_bytes,
                         hr_error *error)
{
  const hr_rows *r = &problem->rows;
  char name[64];
  launch *l = calloc(1, sizeof *l);
  if (!l)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: no memory for a plan", device->name);
  l->cuda = device->state;
  shape_launch(r, l);
  bool masked = r->operation == HR_ROWS_SOFTMAX && r->period > 0 && strcmp(l->variant, "stream") != 0;
  snprintf(name, sizeof name, "%s_%s%s", hr_rows_operation_name(r->operation), masked ? "causal_" : "", l->variant);
  hr_status status = hr_cuda_function(l->cuda, "rows", problem->dtype, name, &l->function, error);
  if (status != HR_OK) {
    free(l);
    return status;
  }
  *workspace_bytes = 0;
  *state = l;
  return HR_OK;
}

static hr_status run(const hr_plan *plan, const void *const *inputs, void *output, void *workspace, hr_error *error)
{
  (void)workspace;
  const launch *l = plan->state;
  const hr_rows *r = &plan->problem.rows;
  uint64_t addresses[4] = {0, 0, 0, (uint64_t)(uintptr_t)output};
  for (int i = 0; i < hr_rows_inputs(r->operation); i++)
    addresses[i] = (uint64_t)(uintptr_t)inputs[i];
  for (int i = 0; i < 4; i++) {
    if (addresses[i] % PACK_BYTES != 0)
      return hr_fail(error, HR_ERROR_INVALID, "rows_cuda: an address is no multiple of %d", PACK_BYTES);
  }
  long long rows = r->rows, columns = r->columns, period = r->period, group = r->group;
  void *arguments[] = {&addresses[0], &addresses[1], &addresses[2], &addresses[3], &rows, &columns, &period, &group};
  HR_TRY(hr_cuda_enter(l->cuda, error));
  hr_status status =
      HR_CU(&l->cuda->driver, cuLaunchKernel,
            (l->function, l->blocks, 1, 1, l->threads_x, l->threads_y, 1, 0, l->cuda->stream, arguments, NULL), error);
  hr_cuda_leave(l->cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const launch *l = state;
  snprintf(text, size, "%s, %u blocks of %u × %u threads", l->variant, l->blocks, l->threads_x, l->threads_y);
}

const hr_kernel_functions hr_kernel_rows_cuda = {
    .supports = supports, .prepare = prepare, .run = run, .release = free, .describe = describe};
