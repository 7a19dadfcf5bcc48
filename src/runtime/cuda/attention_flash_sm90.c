/* Attention by kernels/attention_flash_sm90.cu: how it is cut into tiles, the tensor maps of its copies, and its launch. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/attention.h"

#include <stdio.h>
#include <stdlib.h>

#define DIM_MOST 256
#define ROWS_LEAST 64
#define COUNTER_BYTES 8
#define PANEL 64                             /* columns of a box, 128 bytes */
#define TENSOR_BYTES_MOST ((int64_t)1 << 40) /* strides of a tensor map are smaller */

/* A parameter of the program, as `maps` there. */
typedef struct tensor_maps {
  cu_tensor_map q, k, v;
} tensor_maps;

typedef struct launch {
  const hr_cuda *cuda;
  hr_flash_sm90 tiles;
  cu_function function;
  unsigned blocks;
  cu_address counters; /* two ints, which a run leaves at 0; runs of a device follow each other on its one stream */
  hr_cuda_attention call;
} launch;

static int panels(int dim)
{
  return (dim + PANEL - 1) / PANEL;
}

/* As in the program: Q, then the stages of K and V, then 8 bytes a barrier, then a number a stage. */
static size_t shared_bytes(const hr_flash_sm90 *t)
{
  int row = 2 * PANEL, q = 64 * t->groups * panels(t->qk) * row;
  int stage = t->columns * (panels(t->qk) + panels(t->v)) * row, barriers = 2 + 6 * t->stages;
  int bytes = q + t->stages * stage + 8 * barriers + 4 * t->stages;
  return (size_t)bytes;
}

/* Best first: the first row that a problem fits is taken. Sums of O take v / 2 registers of a thread, scores columns / 2
 * and weights columns / 4, of 240 with two warpgroups and 160 with three; shared memory is 227 KiB. By turns where that
 * was faster on an H200 (docs/attention-hopper.md). */
static const struct {
  int qk_most, v_most;
  bool causal;
  int64_t kv_most;
  int groups, columns;
  bool turns;
} cuts[] = {
    {64, 64, true, 1024, 2, 128, true},          {64, 64, true, INT64_MAX, 3, 128, true},
    {64, 64, false, INT64_MAX, 3, 128, true},    {128, 128, true, INT64_MAX, 2, 128, false},
    {128, 128, false, INT64_MAX, 2, 128, true},  {192, 128, true, INT64_MAX, 2, 128, false},
    {192, 128, false, INT64_MAX, 2, 128, true},  {256, 128, true, INT64_MAX, 2, 96, false},
    {256, 128, false, INT64_MAX, 2, 96, false},  {192, 192, true, INT64_MAX, 2, 112, false},
    {192, 192, false, INT64_MAX, 2, 112, false}, {128, 256, true, INT64_MAX, 2, 96, false},
    {128, 256, false, INT64_MAX, 2, 96, false},  {256, 256, true, INT64_MAX, 2, 80, false},
    {256, 256, false, INT64_MAX, 2, 80, false},
};

hr_flash_sm90 hr_flash_sm90_choose(const hr_attention *a)
{
  hr_flash_sm90 t = {.qk = (int)hr_round_up(a->qk_dim, 16), .v = (int)hr_round_up(a->v_dim, 16), .stages = 2};
  bool causal = a->mask == HR_MASK_CAUSAL;
  size_t i = 0;
  while (t.qk > cuts[i].qk_most || t.v > cuts[i].v_most || causal != cuts[i].causal || a->kv_len > cuts[i].kv_most)
    i++;
  t.groups = cuts[i].groups;
  t.columns = cuts[i].columns;
  t.turns = cuts[i].turns;
  t.dynamic = causal; /* row tiles of many lengths */
  t.shared_bytes = shared_bytes(&t);
  return t;
}

void hr_flash_sm90_defines(const hr_flash_sm90 *t, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE, "HR_QK=%d HR_V=%d HR_GROUPS=%d HR_COLUMNS=%d HR_STAGES=%d%s%s", t->qk, t->v,
           t->groups, t->columns, t->stages, t->turns ? " HR_TURNS" : "", t->dynamic ? " HR_DYNAMIC" : "");
}

/* Whether a tensor map can step by `stride` elements over `size` of them. */
static bool stride_fits(const hr_attention *a, int64_t stride, int64_t size)
{
  return size == 1 || (stride > 0 && stride < TENSOR_BYTES_MOST / (int64_t)hr_dtype_bytes(a->dtype));
}

static bool strides_fit(const hr_attention *a)
{
  const int64_t lengths[] = {a->q_len, a->kv_len, a->kv_len}, heads[] = {a->q_heads, a->k_heads, a->v_heads};
  for (int i = HR_OPERAND_Q; i <= HR_OPERAND_V; i++) {
    hr_strides s = hr_attention_strides(a, (hr_attention_operand)i);
    if (!stride_fits(a, s.batch, a->batch) || !stride_fits(a, s.row, lengths[i]) || !stride_fits(a, s.head, heads[i]))
      return false;
  }
  return true;
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  const hr_cuda *cuda = device->state;
  const hr_attention *a = &problem->attention;
  const char *reason = NULL;
  if (cuda->capability / 10 != 9)
    reason = "is for compute capability 9.0";
  else if (!cuda->driver.cuTensorMapEncodeTiled)
    reason = "needs a driver of CUDA 12 or newer";
  else if (a->qk_dim > DIM_MOST || a->v_dim > DIM_MOST)
    reason = "takes head sizes up to 256";
  else if (a->variable_lengths)
    reason = "takes sequences of one length, as a copied box would reach into the next sequence";
  else if (hr_cuda_attention_modified(a))
    reason = "takes no soft cap, ALiBi or negative scale";
  else if (!hr_cuda_attention_aligned(a))
    reason = "takes head sizes and strides that are multiples of 16 bytes";
  else if (a->q_len == 0 || a->kv_len == 0 || !strides_fit(a))
    reason = "takes lengths and strides above 0, and strides below 2^40 bytes";
  if (!reason)
    return hr_cuda_attention_fits(a, ROWS_LEAST, why, why_size);
  snprintf(why, why_size, "%s", reason);
  return false;
}

static void release(void *state)
{
  launch *l = state;
  if (l && l->counters && hr_cuda_enter(l->cuda, NULL) == HR_OK) {
    l->cuda->driver.cuMemFree_v2(l->counters);
    hr_cuda_leave(l->cuda);
  }
  free(l);
}

/* In the context. */
static hr_status make_counters(launch *l, hr_error *error)
{
  const hr_driver *driver = &l->cuda->driver;
  HR_TRY(HR_CU(driver, cuMemAlloc_v2, (&l->counters, COUNTER_BYTES), error));
  HR_TRY(HR_CU(driver, cuMemsetD8Async, (l->counters, 0, COUNTER_BYTES, l->cuda->stream), error));
  return HR_CU(driver, cuStreamSynchronize, (l->cuda->stream), error);
}

static hr_status prepare_launch(launch *l, const hr_attention *a, size_t cache_bytes, hr_error *error)
{
  int multiprocessors = 0;
  char defines[HR_DEFINES_SIZE];
  HR_TRY(HR_CU(&l->cuda->driver, cuDeviceGetAttribute, (&multiprocessors, CU_MULTIPROCESSORS, l->cuda->device), error));
  l->tiles = hr_flash_sm90_choose(a);
  l->call = hr_cuda_attention_describe(a, 64 * l->tiles.groups);
  l->call.band_heads = (int32_t)hr_cuda_attention_band(a, cache_bytes);
  l->blocks = (unsigned)hr_min64(l->call.items, multiprocessors);
  hr_flash_sm90_defines(&l->tiles, defines);
  HR_TRY(hr_cuda_attention_function(l->cuda, "attention_flash_sm90", a->dtype, defines, l->tiles.shared_bytes,
                                    &l->function, error));
  HR_TRY(hr_cuda_enter(l->cuda, error));
  hr_status status = make_counters(l, error);
  hr_cuda_leave(l->cuda);
  l->call.counters = l->counters;
  return status;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void **state, size_t *workspace_bytes,
                         hr_error *error)
{
  launch *l = calloc(1, sizeof *l);
  if (!l)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: no memory for a plan", device->name);
  l->cuda = device->state;
  hr_status status = prepare_launch(l, &problem->attention, device->cache_bytes, error);
  if (status != HR_OK) {
    release(l);
    return status;
  }
  *workspace_bytes = 0;
  *state = l;
  return HR_OK;
}

/* A tensor map of [dim, heads, length, batch], the innermost first, for boxes of `rows` rows of one head. Strides of
 * dimensions of one element are not used, but have to look like strides. */
static hr_status describe_tensor(const hr_driver *driver, hr_dtype dtype, const void *address, hr_strides at,
                                 const int64_t sizes[4], int rows, cu_tensor_map *map, hr_error *error)
{
  const int64_t elements[3] = {at.head, at.row, at.batch};
  uint64_t dims[4], strides[3];
  uint32_t box[4] = {PANEL, 1, (uint32_t)rows, 1}, steps[4] = {1, 1, 1, 1};
  for (int i = 0; i < 4; i++)
    dims[i] = (uint64_t)sizes[i];
  for (int i = 0; i < 3; i++)
    strides[i] = sizes[i + 1] > 1 ? (uint64_t)elements[i] * hr_dtype_bytes(dtype) : 16;
  return HR_CU(driver, cuTensorMapEncodeTiled,
               (map, dtype == HR_FP16 ? CU_TENSOR_FP16 : CU_TENSOR_BF16, 4, (void *)(uintptr_t)address, dims, strides,
                box, steps, 0, CU_SWIZZLE_128, CU_PROMOTE_256, 0),
               error);
}

static hr_status describe_tensors(const launch *l, const hr_attention *a, const hr_attention_arguments *x,
                                  tensor_maps *maps, hr_error *error)
{
  const hr_driver *driver = &l->cuda->driver;
  const int64_t q[] = {a->qk_dim, a->q_heads, a->q_len, a->batch}, k[] = {a->qk_dim, a->k_heads, a->kv_len, a->batch};
  const int64_t v[] = {a->v_dim, a->v_heads, a->kv_len, a->batch};
  HR_TRY(describe_tensor(driver, a->dtype, x->q, l->call.q_at, q, 64 * l->tiles.groups, &maps->q, error));
  HR_TRY(describe_tensor(driver, a->dtype, x->k, l->call.k_at, k, l->tiles.columns, &maps->k, error));
  return describe_tensor(driver, a->dtype, x->v, l->call.v_at, v, l->tiles.columns, &maps->v, error);
}

static hr_status run(const hr_plan *plan, const hr_attention_arguments *arguments, void *workspace, hr_error *error)
{
  (void)workspace;
  const launch *l = plan->state;
  const hr_attention *a = &plan->problem.attention;
  if (!hr_cuda_attention_addresses_aligned(arguments))
    return hr_flash_sm80_run_unaligned(l->cuda, a, arguments, error);
  tensor_maps maps;
  hr_cuda_attention call = l->call;
  hr_cuda_attention_address(&call, a, arguments);
  HR_TRY(hr_cuda_enter(l->cuda, error)); /* the driver makes tensor maps for the context that is current */
  hr_status status = describe_tensors(l, a, arguments, &maps, error);
  hr_cuda_leave(l->cuda);
  HR_TRY(status);
  hr_cuda_attention_launch started = {.function = l->function,
                                      .blocks = l->blocks,
                                      .threads = 128U * (unsigned)(l->tiles.groups + 1),
                                      .shared_bytes = (unsigned)l->tiles.shared_bytes,
                                      .call = &call,
                                      .maps = &maps};
  return hr_cuda_attention_start(l->cuda, &started, error);
}

static void describe(const void *state, char *text, size_t size)
{
  const launch *l = state;
  snprintf(text, size, "tile %dx%d, head sizes %d and %d, %d stages%s, heads by %d", 64 * l->tiles.groups,
           l->tiles.columns, l->tiles.qk, l->tiles.v, l->tiles.stages, l->tiles.turns ? ", by turns" : "",
           l->call.band_heads);
}

const hr_kernel_functions hr_kernel_attention_flash_sm90 = {
    .supports = supports, .prepare = prepare, .run_attention = run, .release = release, .describe = describe};
