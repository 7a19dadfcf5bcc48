/* SPDX-License-Identifier: Apache-2.0 */
/* Latent attention's decode by kernels/decode_latent_sm90.cu: its row blocks, teams and launch. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/decode/decode.h"
#include "runtime/cuda/kernels/decode_latent_layout.h"
#include "shape/alignment.h"

#include <headroom/experimental/decode.h>
#include <stdio.h>

#define ALIGNMENT_BYTES 16
#define SHARED_MAX ((size_t)227 << 10)      /* of a block */
#define TENSOR_BYTES_MAX ((int64_t)1 << 40) /* strides of a tensor map are smaller */
#define COMBINE_COST_PAIRS 2                /* combining costs as much time as a team takes for these pairs */
#define THREADS 384

/* The second parameter of the program: TMA tensor maps. */
typedef struct tensor_maps {
  cu_tensor_map q, k, k_rest;
} tensor_maps;

typedef struct launch {
  const hr_cuda *cuda;
  hr_decode_latent tiles;
  cu_function decode, combine;
  hr_latent_call call;
} launch;

/* ---- tiles ---- */

static int64_t pairs_of(const hr_decode *d)
{
  hr_key_range range = hr_decode_range(d, d->kv_len);
  int64_t first = range.first / HR_LATENT_PAIR;
  return hr_max64(1, hr_ceil_div(range.end, HR_LATENT_PAIR) - first);
}

/* Whether `teams` teams begin and end their shares within sequences, if all have kv_len tokens. */
static bool teams_share_sequences(const hr_decode *d, int64_t teams)
{
  int64_t pairs = pairs_of(d), all = pairs * d->batch;
  return all % teams != 0 || all / teams % pairs != 0;
}

/* Returns as many teams as run at a time, or fewer if they take no more time, since they share no sequences or have
 * equal shares: fewer parts have to be combined. */
static int choose_teams(const hr_decode *d, int64_t row_blocks, int64_t multiprocessors)
{
  int64_t all = pairs_of(d) * d->batch, most = hr_max64(1, hr_min64(multiprocessors / row_blocks, all)), best = most;
  int64_t least = INT64_MAX;
  for (int64_t teams = most; teams >= 1; teams--) {
    int64_t time = hr_ceil_div(all, teams) + (teams_share_sequences(d, teams) ? COMBINE_COST_PAIRS : 0);
    if (time <= least) {
      least = time;
      best = teams;
    }
  }
  return (int)best;
}

static int choose_box(const hr_decode *d)
{
  int box = HR_LATENT_KEYS;
  while (d->table_pitch > 1 && box > 1 && d->page_size % box != 0)
    box /= 2;
  return box;
}

hr_decode_latent hr_decode_latent_choose(const hr_decode *d, int64_t multiprocessors)
{
  hr_decode_latent t = {.qk = hr_latent_qk_size((int)d->qk_dim, (int)d->v_dim), .v = hr_latent_v_size((int)d->v_dim)};
  t.head_blocks = (int)hr_ceil_div(d->q_heads, HR_LATENT_ROWS);
  t.heads = (int)hr_ceil_div(d->q_heads, t.head_blocks);
  t.queries = (int)hr_min64(d->q_len, HR_LATENT_ROWS / t.heads);
  t.row_blocks = t.head_blocks * (int)hr_ceil_div(d->q_len, t.queries);
  t.teams = choose_teams(d, t.row_blocks, multiprocessors);
  t.box = choose_box(d);
  t.half_boxes = t.box == HR_LATENT_KEYS && d->qk_dim == t.qk;
  t.shared_bytes = (size_t)hr_latent_layout_of(t.qk, t.v).bytes;
  return t;
}

void hr_decode_latent_defines(const hr_decode_latent *t, const hr_decode *d, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE, "HR_QK=%d HR_V=%d HR_V_HALF=%d HR_HEADS=%d HR_QUERIES=%d HR_BOX=%d%s%s", t->qk, t->v,
           t->v / 2, t->heads, t->queries, t->box, t->half_boxes ? " HR_HALF_BOXES" : "",
           d->softcap > 0 || d->scale < 0 ? " HR_SCORE_MOD" : "");
}

/* ---- the plan ---- */

static bool stride_fits(int64_t elements, hr_dtype dtype)
{
  int64_t size = (int64_t)hr_dtype_bytes(dtype);
  return elements > 0 && elements < TENSOR_BYTES_MAX / size && elements * size % ALIGNMENT_BYTES == 0;
}

/* Tensor maps and the stores of O need multiples of 16 bytes. */
static bool strides_fit(const hr_decode *d)
{
  hr_strides q = hr_decode_q_strides(d), o = hr_decode_o_strides(d);
  hr_kv_strides k = hr_decode_k_strides(d);
  const int64_t all[] = {q.batch, q.row, q.head, o.batch, o.row, o.head, k.page, k.token, d->qk_dim, d->v_dim};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!stride_fits(all[i], d->dtype))
      return false;
  return true;
}

static const char *refusal(const hr_cuda *cuda, const hr_decode *d)
{
  if (!d->latent)
    return "takes latent attention only";
  if (d->cache_format != HR_KV_UNQUANTIZED)
    return "does not take quantized caches";
  if (d->batch_invariant)
    return "does not give the same bits in every batch";
  if (cuda->capability / 10 != 9)
    return "is for compute capability 9.0";
  if (!cuda->driver.cuTensorMapEncodeTiled)
    return "needs a driver of CUDA 12 or newer";
  if (d->qk_dim > 576 || d->v_dim > 512)
    return "takes head sizes up to 576 of K and 512 of V";
  if (choose_box(d) < 8)
    return "takes pages of a multiple of 8 tokens";
  if (!strides_fit(d) || hr_alignment(d->alignment) % ALIGNMENT_BYTES != 0)
    return "takes addresses, head sizes and strides that are multiples of 16 bytes, strides above 0";
  if (d->kv_len == 0 || d->page_count > INT32_MAX || d->kv_len > INT32_MAX / 2 ||
      d->batch > INT32_MAX / hr_max64(d->q_heads * d->q_len, pairs_of(d)))
    return "takes lengths from 1 to 2^30 and fewer than 2^31 pages, heads and blocks of 128 keys of all sequences";
  return NULL;
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  const char *reason = refusal(device->state, &problem->decode);
  if (reason)
    snprintf(why, why_size, "%s", reason);
  return !reason;
}

static hr_latent_call make_call(const hr_decode *d, const hr_decode_latent *t)
{
  return (hr_latent_call){.o_at = hr_decode_o_strides(d),
                          .batch = (int32_t)d->batch,
                          .q_len = (int32_t)d->q_len,
                          .kv_len = (int32_t)d->kv_len,
                          .q_heads = (int32_t)d->q_heads,
                          .v_dim = (int32_t)d->v_dim,
                          .head_blocks = t->head_blocks,
                          .row_blocks = t->row_blocks,
                          .teams = t->teams,
                          .page_size = (int32_t)hr_min64(d->page_size, INT32_MAX),
                          .table_pitch = (int32_t)d->table_pitch,
                          .window = (int32_t)hr_min64(d->window, d->kv_len),
                          .scale = (float)hr_decode_scale(d),
                          .softcap = d->softcap,
                          .top = hr_decode_top(d)};
}

static int64_t partial_rows(const hr_decode_latent *t)
{
  return (int64_t)t->teams * 2 * t->row_blocks * t->heads * t->queries;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  launch *l = state;
  const hr_decode *d = &problem->decode;
  int64_t multiprocessors = 0;
  char defines[HR_DEFINES_SIZE];
  l->cuda = device->state;
  HR_TRY(hr_cuda_attribute(l->cuda, CU_MULTIPROCESSORS, &multiprocessors, error));
  l->tiles = hr_decode_latent_choose(d, multiprocessors);
  l->call = make_call(d, &l->tiles);
  hr_decode_latent_defines(&l->tiles, d, defines);
  HR_TRY(hr_cuda_function_shared(l->cuda, "decode_latent_sm90", d->dtype, defines, "decode", l->tiles.shared_bytes,
                                 &l->decode, error));
  HR_TRY(hr_cuda_function(l->cuda, "decode_latent_sm90", d->dtype, defines, "combine", &l->combine, error));
  *workspace_bytes =
      l->tiles.teams > 1 ? (size_t)partial_rows(&l->tiles) * (size_t)(l->tiles.v + 2) * sizeof(float) : 0;
  return HR_OK;
}

/* A tensor map for boxes of a panel's columns. The stride of a dimension of size 1 is not used, but has to be valid. */
static hr_status describe_tensor(const launch *l, hr_dtype dtype, const void *address, const int64_t sizes[4],
                                 const int64_t strides[3], const int box[2], cu_tensor_map *map, hr_error *error)
{
  uint64_t dims[4], bytes[3];
  uint32_t boxes[4] = {HR_LATENT_PANEL, (uint32_t)box[0], (uint32_t)box[1], 1}, steps[4] = {1, 1, 1, 1};
  for (int i = 0; i < 4; i++)
    dims[i] = (uint64_t)sizes[i];
  for (int i = 0; i < 3; i++)
    bytes[i] = sizes[i + 1] > 1 ? (uint64_t)strides[i] * hr_dtype_bytes(dtype) : ALIGNMENT_BYTES;
  return HR_CU(&l->cuda->driver, cuTensorMapEncodeTiled,
               (map, dtype == HR_FP16 ? CU_TENSOR_FP16 : CU_TENSOR_BF16, 4, (void *)(uintptr_t)address, dims, bytes,
                boxes, steps, 0, CU_SWIZZLE_128, CU_PROMOTE_256, 0),
               error);
}

static hr_status describe_k(const launch *l, const hr_decode *d, const void *k, tensor_maps *maps, hr_error *error)
{
  const hr_decode_latent *t = &l->tiles;
  hr_kv_strides at = hr_decode_k_strides(d);
  const int64_t sizes[] = {d->qk_dim, 1, d->page_size, d->page_count}, strides[] = {0, at.token, at.page};
  if (!t->half_boxes)
    return describe_tensor(l, d->dtype, k, sizes, strides, (const int[]){1, t->box}, &maps->k, error);
  const int64_t panels[] = {HR_LATENT_PANEL, d->page_size, t->qk / HR_LATENT_PANEL, d->page_count};
  const int64_t panel_strides[] = {at.token, HR_LATENT_PANEL, at.page};
  int half = t->v / 2 / HR_LATENT_PANEL, rest = (t->qk - t->v) / HR_LATENT_PANEL;
  HR_TRY(describe_tensor(l, d->dtype, k, panels, panel_strides, (const int[]){t->box, half}, &maps->k, error));
  return describe_tensor(l, d->dtype, k, panels, panel_strides, (const int[]){t->box, rest > 0 ? rest : 1},
                         &maps->k_rest, error);
}

static hr_status describe_tensors(const launch *l, const hr_decode *d, const hr_decode_arguments *x, tensor_maps *maps,
                                  hr_error *error)
{
  hr_strides q = hr_decode_q_strides(d);
  const int64_t sizes[] = {d->qk_dim, d->q_heads, d->q_len, d->batch}, strides[] = {q.head, q.row, q.batch};
  HR_TRY(describe_tensor(l, d->dtype, x->q, sizes, strides, (const int[]){l->tiles.heads, l->tiles.queries}, &maps->q,
                         error));
  *maps = (tensor_maps){.q = maps->q};
  return describe_k(l, d, x->k, maps, error);
}

static hr_latent_call set_addresses(const launch *l, const hr_decode *d, const hr_decode_arguments *x, void *workspace)
{
  hr_latent_call call = l->call;
  call.o = hr_cuda_address(x->o);
  call.lse = hr_cuda_address(x->lse);
  call.lengths = hr_cuda_address(x->lengths);
  call.pages = hr_cuda_address(x->pages);
  call.page_starts = hr_cuda_address(x->page_starts);
  call.sinks = d->sinks ? hr_cuda_address(x->sinks) : 0;
  call.partial_stats = hr_cuda_address(workspace);
  call.partial_o = call.partial_stats + (uint64_t)partial_rows(&l->tiles) * 2 * sizeof(float);
  return call;
}

/* In the device's context. */
static hr_status start(const launch *l, const hr_decode *d, const hr_run *run, hr_error *error)
{
  const hr_decode_latent *t = &l->tiles;
  const hr_decode_arguments *x = run->arguments;
  const hr_cuda_queue queue = {l->cuda, run->stream};
  hr_latent_call call = set_addresses(l, d, x, run->workspace);
  tensor_maps maps;
  call.batch = (int32_t)d->batch;
  HR_TRY(describe_tensors(l, d, x, &maps, error));
  const hr_cuda_kernel decode = {.function = l->decode,
                                 .blocks = (int64_t)t->teams * t->row_blocks,
                                 .threads = THREADS,
                                 .shared_bytes = t->shared_bytes};
  void *parameters[] = {&call, &maps};
  HR_TRY(hr_cuda_launch(&queue, &decode, parameters, error));
  if (t->teams == 1 || (!x->lengths && !teams_share_sequences(d, t->teams)))
    return HR_OK;
  int64_t rows = hr_ceil_div((int64_t)t->heads * t->queries, HR_LATENT_COMBINE_ROWS);
  const hr_cuda_kernel combine = {.function = l->combine,
                                  .blocks = (int64_t)(t->teams - 1) * t->row_blocks * rows,
                                  .threads = HR_LATENT_COMBINE_THREADS};
  return hr_cuda_launch(&queue, &combine, parameters, error);
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const launch *l = plan->state;
  HR_TRY(hr_cuda_enter(l->cuda, error)); /* the driver encodes tensor maps for the current context, too */
  hr_status status = start(l, &run->problem->decode, run, error);
  hr_cuda_leave(l->cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const hr_decode_latent *t = &((const launch *)state)->tiles;
  snprintf(text, size, "%d row blocks of %d heads x %d queries, %d teams, boxes of %d keys", t->row_blocks, t->heads,
           t->queries, t->teams, t->box);
}

const hr_kernel_functions hr_kernel_decode_latent_sm90 = {
    .state_bytes = sizeof(launch), .supports = supports, .prepare = prepare, .run = run, .describe = describe};
