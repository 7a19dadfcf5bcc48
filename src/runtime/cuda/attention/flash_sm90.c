/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by kernels/attention_flash_sm90.cu: its tiles, tensor maps and launch. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/attention/attention.h"
#include "runtime/cuda/attention/tensor_map.h"

#include <stdio.h>

#define Q_ROWS_MIN 64
#define SHARED_MAX ((size_t)227 << 10) /* of a block */
#define STAGES_KEYS 384                /* loaded ahead, if they fit */
#define FP8_STAGES_KEYS 512

_Static_assert(HR_FLASH_GROUP_ROWS == HR_SM90_GROUP_ROWS, "the rules' work items are those of the kernel");

/* The second parameter of the program: TMA tensor maps. */
typedef struct tensor_maps {
  cu_tensor_map q, k, v, o;
} tensor_maps;

typedef struct launch {
  const hr_cuda *cuda;
  int64_t multiprocessors;
  size_t cache_bytes;
  hr_flash_tiles division;
  hr_flash_sm90 tiles;
  cu_function function;
  cu_function transpose; /* of V in fp8 to `transposed`, whose memory is the workspace */
  hr_transposed_v transposed;
  int64_t transposed_columns; /* of a row */
  unsigned blocks;
  hr_attention_call call;
} launch;

static size_t shared_bytes(const hr_flash_sm90 *t)
{
  hr_sm90_layout l =
      hr_sm90_layout_of(t->qk, t->v, t->consumers, t->kv_tile, t->stages, t->q_stages, t->stage_o, t->element_bytes);
  return (size_t)(t->teams - 1) * (size_t)l.team_bytes + (size_t)l.bytes;
}

/* The first row that leaves room for two stages of K and V is taken, or of tiles of 64 keys and less for three and for
 * O, if any does. A second stage of Q costs causal calls 2% at head size 128, and gains others 0 to 2%. */
static const struct {
  int q_stages;
  bool stage_o;
} buffers[] = {{2, true}, {1, true}, {2, false}, {1, false}};

/* Variable lengths: rows behind a sequence's last belong to the next, which TMA stores would overwrite. */
static bool buffers_fit(const hr_flash_sm90 *t)
{
  return shared_bytes(t) <= SHARED_MAX && !(t->varlen && t->stage_o) && !(t->causal && t->q_stages > 1);
}

static void choose_buffers(hr_flash_sm90 *t)
{
  bool fit = false;
  for (t->stages = t->kv_tile <= 64 ? 3 : 2; !fit && t->stages >= 2; t->stages--)
    for (size_t i = 0; !fit && i < sizeof buffers / sizeof *buffers; i++) {
      t->q_stages = buffers[i].q_stages;
      t->stage_o = buffers[i].stage_o;
      fit = buffers_fit(t) && (t->stages == 2 || t->stage_o);
    }
  for (t->stages = (t->element_bytes == 1 ? FP8_STAGES_KEYS : STAGES_KEYS) / t->kv_tile; shared_bytes(t) > SHARED_MAX;
       t->stages--)
    ;
  t->shared_bytes = shared_bytes(t);
}

hr_flash_sm90 hr_flash_sm90_choose(const hr_attention *a)
{
  int element_bytes = (int)hr_dtype_bytes(a->dtype);
  hr_flash_sm90 t = {.element_bytes = element_bytes,
                     .qk = (int)hr_round_up(a->qk_dim, 32 / element_bytes),
                     .v = (int)hr_round_up(a->v_dim, 16)};
  t.causal = a->mask == HR_MASK_CAUSAL;
  t.window = a->window > 0;
  t.varlen = a->variable_lengths;
  t.scores = hr_cuda_attention_score_defines(a);
  t.head_scales = a->head_scales;
  t.output = hr_cuda_attention_output_define(a);
  hr_flash_tiles tiles = hr_flash_sm90_tiles(a);
  t.teams = tiles.teams;
  t.cluster = tiles.cluster;
  t.consumers = tiles.consumers;
  t.kv_tile = tiles.keys;
  t.ping_pong = tiles.ping_pong;
  t.left_to_right = tiles.left_to_right;
  choose_buffers(&t);
  return t;
}

void hr_flash_sm90_defines(const hr_flash_sm90 *t, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE,
           "HR_QK=%d HR_V=%d HR_TEAMS=%d HR_CONSUMERS=%d HR_CLUSTER=%d HR_KV_TILE=%d HR_STAGES=%d "
           "HR_Q_STAGES=%d%s%s%s%s%s%s%s%s%s",
           t->qk, t->v, t->teams, t->consumers, t->cluster, t->kv_tile, t->stages, t->q_stages,
           t->stage_o ? " HR_STAGE_O" : "", t->ping_pong ? " HR_PING_PONG" : "",
           t->left_to_right ? " HR_LEFT_TO_RIGHT" : "", t->causal ? " HR_CAUSAL" : "", t->window ? " HR_WINDOW" : "",
           t->varlen ? " HR_VARLEN" : "", t->scores, t->head_scales ? " HR_HEAD_SCALES" : "", t->output);
}

void hr_transpose_v_defines(const hr_flash_sm90 *t, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE, "HR_V=%d%s", t->v, t->output);
}

/* Tiles of keys in a row of transposed V. */
static int64_t transposed_tiles(const hr_attention *a)
{
  return a->variable_lengths ? hr_transposed_tile(a->kv_total, a->batch) : hr_ceil_div(a->kv_len, HR_TRANSPOSED_KEYS);
}

/* Whether columns of transposed V, and blocks that transpose, can be counted in 31 bits. */
static bool transposed_fits(const hr_attention *a)
{
  hr_checked64 blocks = hr_times(hr_checked((hr_ceil_div(a->kv_len, HR_TRANSPOSED_KEYS) + 1) * a->v_heads), a->batch);
  return transposed_tiles(a) <= INT32_MAX / HR_TRANSPOSED_KEYS && !blocks.overflow && blocks.value <= INT32_MAX;
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
  else if (a->dtype == HR_FP8_E4M3 && a->output == HR_OUTPUT_AS_OPERANDS)
    reason = "writes O of fp8 operands in fp16 or bf16";
  else if (!hr_cuda_attention_aligned(a))
    reason = "takes addresses, head sizes and strides that are multiples of 16 bytes";
  else if (a->q_len == 0 || a->kv_len == 0 || !hr_tensor_strides_fit(a))
    reason = "takes lengths and strides above 0, and strides below 2^40 bytes";
  else if (a->dtype == HR_FP8_E4M3 && !transposed_fits(a))
    reason = "takes fewer than 2^31 keys and tiles of fp8";
  if (!reason)
    return hr_cuda_attention_dims_fit(a, why, why_size) && hr_cuda_attention_fits(a, Q_ROWS_MIN, why, why_size);
  snprintf(why, why_size, "%s", reason);
  return false;
}

/* The work items of the plan's problem, or of a smaller one in the same tiles. */
static void set_call(launch *l, const hr_attention *a, const hr_flash_grid *grid)
{
  l->call = hr_cuda_attention_call(a, grid->rows);
  l->call.band_heads = grid->band_heads;
  l->call.bands = grid->bands;
  l->blocks = (unsigned)grid->blocks;
}

/* V transposed: a row for each of its columns, of all tiles of keys. Returns its bytes. */
static size_t lay_out_transposed(launch *l, const hr_attention *a)
{
  hr_transposed_v *t = &l->transposed;
  bool variable = a->variable_lengths;
  l->transposed_columns = transposed_tiles(a) * HR_TRANSPOSED_KEYS;
  t->row = l->transposed_columns;
  t->head = t->row * l->tiles.v;
  t->entry = t->head * a->v_heads;
  t->tiles = (int)hr_ceil_div(a->kv_len, HR_TRANSPOSED_KEYS) + (variable ? 1 : 0);
  t->v_heads = (int)a->v_heads;
  return (size_t)(t->entry * (variable ? 1 : a->batch));
}

static hr_status prepare_transposed(launch *l, const hr_attention *a, size_t *workspace_bytes, hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  *workspace_bytes = lay_out_transposed(l, a);
  hr_transpose_v_defines(&l->tiles, defines);
  return hr_cuda_function(l->cuda, "attention_transpose_v", a->dtype, defines, "transpose_v", &l->transpose, error);
}

static hr_status prepare_launch(launch *l, const hr_attention *a, size_t cache_bytes, hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  HR_TRY(hr_cuda_attribute(l->cuda, CU_MULTIPROCESSORS, &l->multiprocessors, error));
  hr_flash_grid grid = hr_flash_sm90_grid(a, l->multiprocessors, cache_bytes);
  l->cache_bytes = cache_bytes;
  l->division = grid.tiles;
  l->tiles = hr_flash_sm90_choose(a);
  l->tiles.cluster = grid.tiles.cluster;
  set_call(l, a, &grid);
  hr_flash_sm90_defines(&l->tiles, defines);
  return hr_cuda_function_shared(l->cuda, "attention_flash_sm90", a->dtype, defines, "attention", l->tiles.shared_bytes,
                                 &l->function, error);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  *workspace_bytes = 0;
  launch *l = state;
  l->cuda = device->state;
  HR_TRY(prepare_launch(l, &problem->attention, device->cache_bytes, error));
  return problem->dtype == HR_FP8_E4M3 ? prepare_transposed(l, &problem->attention, workspace_bytes, error) : HR_OK;
}

/* The tensor map of transposed V is [column, row, head, batch entry]. A box has a panel's keys; a block of a cluster
 * loads a share of the rows. */
static hr_status describe_transposed(const launch *l, const void *address, int64_t entries, cu_tensor_map *map,
                                     hr_error *error)
{
  const hr_transposed_v *t = &l->transposed;
  const int64_t elements[3] = {t->row, t->head, t->entry};
  const int64_t sizes[4] = {l->transposed_columns, l->tiles.v, t->v_heads, entries};
  return hr_tensor_map_of_boxes(&l->cuda->driver, HR_FP8_E4M3, address, elements, sizes, l->tiles.v / l->tiles.cluster,
                                1, map, error);
}

/* Variable-length sequences are one batch entry. */
static hr_status describe_tensors(const launch *l, const hr_attention *a, const hr_attention_arguments *x,
                                  const void *workspace, tensor_maps *maps, hr_error *error)
{
  const hr_driver *driver = &l->cuda->driver;
  bool variable = a->variable_lengths;
  int64_t batch = variable ? 1 : a->batch, rows = variable ? a->q_total : a->q_len;
  int64_t keys = variable ? a->kv_total : a->kv_len;
  const int64_t q[] = {a->qk_dim, a->q_heads, rows, batch}, k[] = {a->qk_dim, a->k_heads, keys, batch};
  const int64_t v[] = {a->v_dim, a->v_heads, keys, batch}, o[] = {a->v_dim, a->q_heads, rows, batch};
  HR_TRY(hr_tensor_map_of_rows(driver, a->dtype, x->q, l->call.q_at, q, HR_SM90_GROUP_ROWS, &maps->q, error));
  HR_TRY(hr_tensor_map_of_rows(driver, a->dtype, x->k, l->call.k_at, k, l->tiles.kv_tile / l->tiles.cluster, &maps->k,
                               error));
  if (l->transpose)
    HR_TRY(describe_transposed(l, workspace, batch, &maps->v, error));
  else
    HR_TRY(hr_tensor_map_of_rows(driver, a->dtype, x->v, l->call.v_at, v, l->tiles.kv_tile / l->tiles.cluster, &maps->v,
                                 error));
  return hr_tensor_map_of_rows(driver, hr_attention_output_dtype(a), x->o, l->call.o_at, o, HR_SM90_STORE_ROWS,
                               &maps->o, error);
}

/* Queues the kernel that transposes V into the workspace. In the device's context, as start(). */
static hr_status transpose(const launch *l, const hr_cuda_queue *queue, hr_attention_call *call, void *workspace,
                           hr_error *error)
{
  hr_transposed_v t = l->transposed;
  int64_t pairs = (int64_t)t.v_heads * (call->heads / call->q_heads);
  t.to = hr_cuda_address(workspace);
  const hr_cuda_kernel kernel = {
      .function = l->transpose, .blocks = pairs * t.tiles, .threads = HR_TRANSPOSED_THREADS, .early = true};
  void *parameters[] = {call, &t};
  return hr_cuda_launch(queue, &kernel, parameters, error);
}

static hr_status start(const launch *l, const hr_attention *a, const hr_run *run, hr_error *error)
{
  const hr_cuda_queue queue = {l->cuda, run->stream};
  tensor_maps maps;
  hr_attention_call call = l->call;
  hr_cuda_attention_set_addresses(&call, a, run->arguments);
  call.counters = hr_cuda_address(run->counters);
  HR_TRY(describe_tensors(l, a, run->arguments, run->workspace, &maps, error));
  if (l->transpose)
    HR_TRY(transpose(l, &queue, &call, run->workspace, error));
  const hr_cuda_kernel kernel = {.function = l->function,
                                 .blocks = l->blocks,
                                 .threads = 128U * (unsigned)(l->tiles.teams * l->tiles.consumers + 1),
                                 .shared_bytes = l->tiles.shared_bytes,
                                 .early = true};
  void *parameters[] = {&call, &maps};
  return hr_cuda_launch(&queue, &kernel, parameters, error);
}

/* The launch of a smaller problem. */
static launch bounded(const launch *all, const hr_attention *a)
{
  launch l = *all;
  hr_flash_grid grid = hr_flash_sm90_grid_of(a, l.division, l.multiprocessors, l.cache_bytes);
  set_call(&l, a, &grid);
  if (l.transpose)
    lay_out_transposed(&l, a);
  return l;
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const launch *l = plan->state;
  launch smaller;
  if (run->problem != &plan->problem) {
    smaller = bounded(l, &run->problem->attention);
    l = &smaller;
  }
  HR_TRY(hr_cuda_enter(l->cuda, error)); /* the driver encodes tensor maps for the current context, too */
  hr_status status = start(l, &run->problem->attention, run, error);
  hr_cuda_leave(l->cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const launch *l = state;
  const hr_flash_sm90 *t = &l->tiles;
  snprintf(text, size, "tile %dx%d%s%s, head sizes %d and %d, %d stages, %d of Q%s%s, bands of %d heads",
           HR_SM90_GROUP_ROWS * t->consumers, t->kv_tile, t->teams > 1 ? " for each of 2 teams" : "",
           t->cluster > 1 ? ", clusters of 2" : "", t->qk, t->v, t->stages, t->q_stages, t->stage_o ? ", O staged" : "",
           t->ping_pong ? ", ping-pong" : "", l->call.band_heads);
}

const hr_kernel_functions hr_kernel_attention_flash_sm90 = {.state_bytes = sizeof(launch),
                                                            .supports = supports,
                                                            .prepare = prepare,
                                                            .run = run,
                                                            .counters = true,
                                                            .describe = describe};
