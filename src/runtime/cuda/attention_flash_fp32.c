/* Attention by kernels/attention_flash_fp32.cu: exact fp32, also for tf32, whose products it betters. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/attention.h"

#include <stdio.h>
#include <stdlib.h>

#define DIM_MOST 256
#define ROWS 64
#define THREADS 256
#define COLUMNS_MOST 64
#define COLUMNS_LEAST 16

typedef struct launch {
  const hr_cuda *cuda;
  hr_flash_fp32 tiles;
  cu_function function;
  bool aligned; /* what `function` counts on */
  hr_cuda_attention call;
} launch;

/* As PITCH and the sizes in the program. */
static int64_t pitch(int64_t dim)
{
  return hr_round_up(dim, 32) + 4;
}

static size_t shared_bytes(const hr_flash_fp32 *t)
{
  int64_t q = ROWS * pitch(t->qk), k = t->columns * pitch(t->qk), v = (int64_t)t->columns * t->v;
  return (size_t)(4 * (q + k + v + ROWS * pitch(t->columns)));
}

/* The most columns of which two blocks fit a multiprocessor, which hide each other's copies; else of which one does. */
hr_flash_fp32 hr_flash_fp32_choose(const hr_attention *a, size_t shared_most)
{
  hr_flash_fp32 t = {.qk = (int)hr_round_up(a->qk_dim, 16), .v = (int)hr_round_up(a->v_dim, 16)};
  for (size_t blocks = 2; blocks > 0; blocks--) {
    for (t.columns = COLUMNS_MOST; t.columns >= COLUMNS_LEAST; t.columns /= 2) {
      t.shared_bytes = shared_bytes(&t);
      if (t.shared_bytes <= shared_most / blocks)
        return t;
    }
  }
  return t; /* too large; supports() says so */
}

void hr_flash_fp32_defines(const hr_flash_fp32 *t, bool modified, bool aligned, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE, "HR_QK=%d HR_V=%d HR_COLUMNS=%d%s%s", t->qk, t->v, t->columns,
           modified ? " HR_MODIFIED" : "", aligned ? " HR_ALIGNED" : "");
}

static hr_status find_shared(const hr_cuda *cuda, size_t *bytes, hr_error *error)
{
  int most = 0;
  HR_TRY(HR_CU(&cuda->driver, cuDeviceGetAttribute, (&most, CU_MAX_SHARED_OPTIN, cuda->device), error));
  *bytes = (size_t)most;
  return HR_OK;
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  const hr_attention *a = &problem->attention;
  size_t most = 0;
  if (a->qk_dim > DIM_MOST || a->v_dim > DIM_MOST) {
    snprintf(why, why_size, "takes head sizes up to %d", DIM_MOST);
    return false;
  }
  if (find_shared(device->state, &most, NULL) != HR_OK || hr_flash_fp32_choose(a, most).shared_bytes > most) {
    snprintf(why, why_size, "needs more shared memory for these head sizes than the %zu KiB of a block here",
             most >> 10);
    return false;
  }
  return hr_cuda_attention_fits(a, ROWS, why, why_size);
}

static hr_status prepare_launch(launch *l, const hr_attention *a, bool aligned, hr_error *error)
{
  size_t shared_most = 0;
  char defines[HR_DEFINES_SIZE];
  HR_TRY(find_shared(l->cuda, &shared_most, error));
  l->tiles = hr_flash_fp32_choose(a, shared_most);
  l->aligned = aligned;
  l->call = hr_cuda_attention_describe(a, ROWS);
  hr_flash_fp32_defines(&l->tiles, hr_cuda_attention_modified(a), aligned, defines);
  return hr_cuda_attention_function(l->cuda, "attention_flash_fp32", HR_FP32, defines, l->tiles.shared_bytes,
                                    &l->function, error);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void **state, size_t *workspace_bytes,
                         hr_error *error)
{
  launch *l = calloc(1, sizeof *l);
  if (!l)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: no memory for a plan", device->name);
  l->cuda = device->state;
  hr_status status = prepare_launch(l, &problem->attention, hr_cuda_attention_aligned(&problem->attention), error);
  if (status != HR_OK) {
    free(l);
    return status;
  }
  *workspace_bytes = 0;
  *state = l;
  return HR_OK;
}

static hr_status start(const launch *l, const hr_attention *a, const hr_attention_arguments *arguments, hr_error *error)
{
  hr_cuda_attention call = l->call;
  if (call.items == 0)
    return HR_OK;
  hr_cuda_attention_address(&call, a, arguments);
  hr_cuda_attention_launch started = {.function = l->function,
                                      .blocks = (unsigned)call.items,
                                      .threads = THREADS,
                                      .shared_bytes = (unsigned)l->tiles.shared_bytes,
                                      .call = &call};
  return hr_cuda_attention_start(l->cuda, &started, error);
}

/* Addresses that are less aligned than the strides are met by another build of the program. */
static hr_status run(const hr_plan *plan, const hr_attention_arguments *arguments, void *workspace, hr_error *error)
{
  (void)workspace;
  const launch *l = plan->state;
  const hr_attention *a = &plan->problem.attention;
  launch other = {.cuda = l->cuda};
  if (!l->aligned || hr_cuda_attention_addresses_aligned(arguments))
    return start(l, a, arguments, error);
  HR_TRY(prepare_launch(&other, a, false, error));
  return start(&other, a, arguments, error);
}

static void describe(const void *state, char *text, size_t size)
{
  const launch *l = state;
  snprintf(text, size, "tile %dx%d, head sizes in steps of 16: %d and %d%s", ROWS, l->tiles.columns, l->tiles.qk,
           l->tiles.v, l->aligned ? "" : ", element by element");
}

const hr_kernel_functions hr_kernel_attention_flash_fp32 = {
    .supports = supports, .prepare = prepare, .run_attention = run, .release = free, .describe = describe};
