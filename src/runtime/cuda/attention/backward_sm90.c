/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of attention by kernels/attention_backward_sm90.cu, after and before attention_backward_rows.cu: tiles,
 * workspace, tensor maps and launches. */
#include "runtime/cuda/attention/backward_sm90.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/attention/attention.h"
#include "runtime/cuda/attention/tensor_map.h"
#include "runtime/cuda/kernels/attention_backward_layout.h"

#include <inttypes.h>
#include <stdio.h>

#define SHARED_MAX ((size_t)227 << 10) /* of a block */
#define STAGES 2
#define STAGES_AHEAD 3 /* where products are issued a tile ahead: two Q tiles are in use */
#define Q_ROWS_MIN 64
#define BY_KEYS_MAX \
  256 /* sum of the head sizes whose dK and dV of 64 keys leave a warpgroup registers for Q tiles of 64 */
#define LONG_Q_TILE_MAX 128 /* the same for 128 */
#define AHEAD_QK_MAX 192    /* the largest heads of which products leave registers to issue them a tile ahead */
#define AHEAD_V_MAX 128
#define HEADS_MAX 4   /* query heads of a work item; of one K and V head for 32, 16 took 1.3 times as long */
#define BAND_ITEMS 2  /* of causal calls, for each multiprocessor */
#define FEW_ITEMS 4   /* of causal calls, for each multiprocessor: in one band */
#define ALIGNMENT 256 /* of parts of the workspace */

/* The third parameter of the program: TMA tensor maps. */
typedef struct tensor_maps {
  cu_tensor_map q, k, v, d_o;
} tensor_maps;

/* Where parts of the workspace begin, in bytes. */
typedef struct workspace {
  size_t dq_sums, kv_sums, v_sums, row_terms, sink_terms, clears, turns, taken, bytes;
} workspace;

/* What a call of this or a smaller problem needs. */
typedef struct division {
  hr_attention_call call;
  hr_backward_call backward;
  workspace space;
  int64_t blocks;                       /* persistent, of one work item after the other */
  int64_t q_blocks, k_blocks, v_blocks; /* of a tile each; k_blocks, v_blocks: 0 without sums */
} division;

typedef struct launch {
  const hr_cuda *cuda;
  int64_t multiprocessors;
  size_t cache_bytes; /* the L2 */
  hr_backward_sm90 tiles;
  cu_function prepare, backward, finish, finish_k, finish_v, add_sinks;
  division of_plan;
} launch;

/* ---- tiles ---- */

static size_t shared_bytes(const hr_backward_sm90 *t)
{
  return (size_t)hr_backward_layout_of(t->qk, t->v, t->keys, t->rows, t->stages, t->split_products).bytes;
}

/* Whether some query may see no key, or a Q tile may have rows of two sequences. */
static bool may_have_empty_rows(const hr_attention *a)
{
  return a->variable_lengths || a->first_keys || (a->mask == HR_MASK_CAUSAL && a->q_len > a->kv_len);
}

/* Columns of dQ for each warpgroup: whole panels for the first. */
static void divide_dq(hr_backward_sm90 *t)
{
  int panel = hr_sm90_panel(2);
  if (t->split_products) {
    t->dq_first = t->qk > 2 * panel ? 2 * panel : t->qk > panel ? panel : t->qk;
    t->dq_second = t->qk - t->dq_first;
  } else {
    t->dq_first = t->dq_second = t->rows == Q_ROWS_MIN ? panel : t->qk;
  }
}

hr_backward_sm90 hr_backward_sm90_choose(const hr_backward *backward)
{
  const hr_attention *a = &backward->forward;
  hr_backward_sm90 t = {.qk = (int)hr_round_up(a->qk_dim, 16),
                        .v = (int)hr_round_up(a->v_dim, 16),
                        .varlen = a->variable_lengths,
                        .clears = may_have_empty_rows(a),
                        .deterministic = backward->options.deterministic,
                        .scores = hr_cuda_attention_score_defines(a)};
  t.split_products = t.qk + t.v > BY_KEYS_MAX || t.qk > 2 * hr_sm90_panel(2);
  t.ahead = t.split_products && t.qk <= AHEAD_QK_MAX && t.v <= AHEAD_V_MAX && !*t.scores;
  t.stages = t.ahead ? STAGES_AHEAD : STAGES;
  t.keys = t.split_products ? 64 : 128;
  t.rows = t.qk + t.v <= LONG_Q_TILE_MAX && t.qk <= hr_sm90_panel(2) ? 128 : Q_ROWS_MIN;
  divide_dq(&t);
  t.shared_bytes = shared_bytes(&t);
  return t;
}

void hr_backward_sm90_defines(const hr_backward_sm90 *t, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE,
           "HR_QK=%d HR_V=%d HR_Q_TILE=%d HR_STAGES=%d HR_DQ_FIRST=%d HR_DQ_SECOND=%d%s%s%s%s%s%s", t->qk, t->v,
           t->rows, t->stages, t->dq_first, t->dq_second, t->split_products ? " HR_SPLIT_PRODUCTS" : "",
           t->ahead ? " HR_AHEAD" : "", t->varlen ? " HR_VARLEN" : "", t->clears ? " HR_CLEARS" : "",
           t->deterministic ? " HR_DETERMINISTIC" : "", t->scores);
}

void hr_backward_rows_defines(const hr_backward_sm90 *t, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE, "HR_QK=%d HR_V=%d HR_Q_TILE=%d HR_KEYS=%d%s%s", t->qk, t->v, t->rows, t->keys,
           t->varlen ? " HR_VARLEN" : "", t->clears ? " HR_CLEARS" : "");
}

/* ---- what it supports ---- */

static int64_t common_divisor(int64_t a, int64_t b)
{
  return b == 0 ? a : common_divisor(b, a % b);
}

static bool blocks_fit(const hr_attention *a)
{
  hr_checked64 blocks = hr_times(hr_times(hr_checked(hr_ceil_div(a->kv_len, 64)), a->q_heads), a->batch);
  return !blocks.overflow && blocks.value <= INT32_MAX;
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  const hr_cuda *cuda = device->state;
  const hr_attention *a = &problem->backward.forward, gradients = hr_backward_gradients(&problem->backward);
  const char *reason = NULL;
  if (cuda->capability / 10 != 9)
    reason = "is for compute capability 9.0";
  else if (!cuda->driver.cuTensorMapEncodeTiled)
    reason = "needs a driver of CUDA 12 or newer";
  else if (a->output != HR_OUTPUT_AS_OPERANDS && hr_attention_output_dtype(a) != a->dtype)
    reason = "takes O in the format of the operands";
  else if (!hr_cuda_attention_aligned(a) || !hr_cuda_attention_aligned(&gradients))
    reason = "takes addresses, head sizes and strides that are multiples of 16 bytes";
  else if (a->q_len == 0 || a->kv_len == 0 || !hr_tensor_strides_fit(a) || !hr_tensor_strides_fit(&gradients))
    reason = "takes lengths and strides above 0, and strides below 2^40 bytes";
  else if (!blocks_fit(a))
    reason = "takes fewer than 2^31 K/V tiles";
  if (!reason)
    return hr_cuda_attention_dims_fit(a, why, why_size) && hr_cuda_attention_fits(a, Q_ROWS_MIN, why, why_size);
  snprintf(why, why_size, "%s", reason);
  return false;
}

/* ---- a call ---- */

/* Query heads of a work item: those that share both a K and a V head, or half of them and so on, so that they are
 * few and every multiprocessor has one; several work items may add to dK and dV then. Where additions have an order,
 * the least that all of a K and all of a V head's are in. */
static int64_t heads_of_item(const launch *l, const hr_attention *a, const hr_attention_call *c)
{
  int64_t heads = common_divisor(c->k_group, c->v_group);
  if (l->tiles.deterministic)
    return c->k_group / heads * c->v_group;
  int64_t tiles = hr_ceil_div(a->kv_len, l->tiles.keys) * a->batch;
  while (heads % 2 == 0 && (heads > HEADS_MAX || tiles * (a->q_heads / heads) < l->multiprocessors))
    heads /= 2;
  return heads;
}

/* Bytes of Q, dO and sums of dQ of a work item's query heads. */
static double item_bytes(const launch *l, const hr_attention *a, int64_t heads)
{
  double columns = 2.0 * (double)(l->tiles.qk + l->tiles.v) + 4.0 * l->tiles.qk;
  return (double)a->q_len * columns * (double)heads;
}

/* A causal call's K/V tiles are of unequal lengths: long ones of several groups come first, of as many as one and a
 * half times the L2 would hold. Few work items are all in one band, so that no long one begins late. */
static void set_bands(const launch *l, const hr_attention *a, hr_backward_call *b)
{
  int64_t all = b->groups * a->batch, band = 1;
  if (a->mask == HR_MASK_CAUSAL && !l->tiles.deterministic) {
    int64_t held = (int64_t)(1.5 * (double)l->cache_bytes / item_bytes(l, a, b->group_heads));
    band = hr_max64(1, hr_min64(hr_min64(all, held), BAND_ITEMS * l->multiprocessors / b->kv_tiles));
    band = all * b->kv_tiles < FEW_ITEMS * l->multiprocessors ? all : band;
  }
  b->band_groups = (int32_t)band;
  b->bands = (int32_t)hr_max64(0, all / band - 1);
}

/* Reserves `count` elements behind *bytes. */
static size_t reserve(size_t *bytes, int64_t count, size_t element)
{
  size_t at = *bytes;
  *bytes = (size_t)hr_round_up((int64_t)(at + (size_t)count * element), ALIGNMENT);
  return at;
}

/* Entries: of the batch, in the tensors. */
static workspace lay_out(const launch *l, const hr_backward *both, const hr_backward_call *b, int64_t entries)
{
  const hr_backward_sm90 *t = &l->tiles;
  int64_t tiles = b->q_tiles * both->forward.q_heads * entries;
  workspace w = {0};
  w.dq_sums = reserve(&w.bytes, tiles * t->rows * t->qk, sizeof(float));
  w.kv_sums = reserve(&w.bytes, b->cleared, sizeof(float));
  w.row_terms = reserve(&w.bytes, tiles * t->rows * 2, sizeof(float));
  w.sink_terms = reserve(&w.bytes, both->options.sinks ? tiles : 0, sizeof(float));
  w.clears = reserve(&w.bytes, t->clears ? tiles : 0, sizeof(int32_t));
  w.turns = reserve(&w.bytes, t->deterministic ? 2 * tiles : 0, sizeof(int32_t));
  w.taken = reserve(&w.bytes, 1, sizeof(int32_t));
  return w;
}

/* Floats of the sums of dK, or of dV: none if a work item has all query heads of its head. */
static int64_t sums_of(const launch *l, const hr_backward_call *b, int64_t heads, int group, int columns,
                       int64_t entries)
{
  return group <= b->group_heads ? 0 : heads * entries * b->k_tiles * l->tiles.keys * columns;
}

static void set_strides(const hr_attention *gradients, hr_backward_call *b)
{
  b->do_at = hr_attention_strides(gradients, HR_OPERAND_O);
  b->dq_at = hr_attention_strides(gradients, HR_OPERAND_Q);
  b->dk_at = hr_attention_strides(gradients, HR_OPERAND_K);
  b->dv_at = hr_attention_strides(gradients, HR_OPERAND_V);
}

/* Tiles and groups of heads. */
static void count_tiles(const launch *l, const hr_attention *a, const hr_attention_call *c, hr_backward_call *b)
{
  const hr_backward_sm90 *t = &l->tiles;
  b->group_heads = (int32_t)heads_of_item(l, a, c);
  b->groups = (int32_t)(a->q_heads / b->group_heads); /* NOLINT(clang-analyzer-core.DivideZero): one at least */
  b->kv_tiles = b->k_tiles = (int32_t)hr_ceil_div(a->kv_len, t->keys);
  b->q_tiles = c->q_tiles;
  if (a->variable_lengths) {
    b->q_tiles = (int32_t)hr_backward_first_tile(a->q_total, a->batch, t->rows);
    b->k_tiles = (int32_t)hr_backward_first_tile(a->kv_total, a->batch, t->keys);
  }
}

static division divide(const launch *l, const hr_backward *both)
{
  const hr_attention *a = &both->forward, gradients = hr_backward_gradients(both);
  const int64_t entries = a->variable_lengths ? 1 : a->batch;
  division d = {.call = hr_cuda_attention_call(a, l->tiles.rows)};
  hr_backward_call *b = &d.backward;
  set_strides(&gradients, b);
  count_tiles(l, a, &d.call, b);
  set_bands(l, a, b);
  int64_t k_sums = sums_of(l, b, a->k_heads, d.call.k_group, l->tiles.qk, entries);
  int64_t v_sums = sums_of(l, b, a->v_heads, d.call.v_group, l->tiles.v, entries);
  b->cleared = k_sums + v_sums;
  d.space = lay_out(l, both, b, entries);
  d.space.v_sums = d.space.kv_sums + (size_t)k_sums * sizeof(float);
  d.blocks = hr_min64(b->kv_tiles * b->groups * a->batch, l->multiprocessors);
  d.q_blocks = d.call.work_items;
  d.k_blocks = k_sums > 0 ? b->kv_tiles * a->k_heads * a->batch : 0;
  d.v_blocks = v_sums > 0 ? b->kv_tiles * a->v_heads * a->batch : 0;
  return d;
}

static hr_status take_function(const launch *l, hr_dtype dtype, const char *name, cu_function *function,
                               hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  hr_backward_rows_defines(&l->tiles, defines);
  return hr_cuda_function(l->cuda, "attention_backward_rows", dtype, defines, name, function, error);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  launch *l = state;
  l->cuda = device->state;
  HR_TRY(hr_cuda_attribute(l->cuda, CU_MULTIPROCESSORS, &l->multiprocessors, error));
  l->cache_bytes = device->cache_bytes;
  l->tiles = hr_backward_sm90_choose(&problem->backward);
  l->of_plan = divide(l, &problem->backward);
  *workspace_bytes = l->of_plan.space.bytes;
  HR_TRY(take_function(l, problem->dtype, "prepare", &l->prepare, error));
  HR_TRY(take_function(l, problem->dtype, "finish", &l->finish, error));
  HR_TRY(take_function(l, problem->dtype, "finish_k", &l->finish_k, error));
  HR_TRY(take_function(l, problem->dtype, "finish_v", &l->finish_v, error));
  if (problem->backward.options.sinks)
    HR_TRY(take_function(l, problem->dtype, "add_sinks", &l->add_sinks, error));
  hr_backward_sm90_defines(&l->tiles, defines);
  return hr_cuda_function_shared(l->cuda, "attention_backward_sm90", problem->dtype, defines, "backward",
                                 l->tiles.shared_bytes, &l->backward, error);
}

/* ---- a run ---- */

static cu_address part(void *memory, size_t at)
{
  return hr_cuda_address(memory) + at;
}

static void set_addresses(const launch *l, const hr_backward *both, const hr_attention_backward_arguments *x,
                          void *memory, division *d)
{
  hr_attention_arguments forward = hr_backward_operands(x);
  hr_backward_call *b = &d->backward;
  hr_cuda_attention_set_addresses(&d->call, &both->forward, &forward);
  b->d_o = hr_cuda_address(x->d_o);
  b->dq = hr_cuda_address(x->dq);
  b->dk = hr_cuda_address(x->dk);
  b->dv = hr_cuda_address(x->dv);
  b->dq_sums = part(memory, d->space.dq_sums);
  b->dk_sums = d->k_blocks > 0 ? part(memory, d->space.kv_sums) : 0;
  b->dv_sums = d->v_blocks > 0 ? part(memory, d->space.v_sums) : 0;
  b->row_terms = part(memory, d->space.row_terms);
  b->clears = part(memory, d->space.clears);
  b->turns = l->tiles.deterministic ? part(memory, d->space.turns) : 0;
  b->taken = part(memory, d->space.taken);
  if (both->options.sinks) {
    b->sinks = hr_cuda_address(x->sinks);
    b->d_sinks = hr_cuda_address(x->d_sinks);
    b->sink_terms = part(memory, d->space.sink_terms);
  }
}

/* Variable-length sequences are one batch entry. */
static hr_status describe_tensors(const launch *l, const hr_attention *a, const division *d,
                                  const hr_attention_backward_arguments *x, tensor_maps *maps, hr_error *error)
{
  const hr_driver *driver = &l->cuda->driver;
  const hr_backward_sm90 *t = &l->tiles;
  bool variable = a->variable_lengths;
  int64_t batch = variable ? 1 : a->batch, rows = variable ? a->q_total : a->q_len;
  int64_t keys = variable ? a->kv_total : a->kv_len;
  const int64_t q[] = {a->qk_dim, a->q_heads, rows, batch}, k[] = {a->qk_dim, a->k_heads, keys, batch};
  const int64_t v[] = {a->v_dim, a->v_heads, keys, batch}, o[] = {a->v_dim, a->q_heads, rows, batch};
  HR_TRY(hr_tensor_map_of_rows(driver, a->dtype, x->q, d->call.q_at, q, t->rows, &maps->q, error));
  HR_TRY(hr_tensor_map_of_rows(driver, a->dtype, x->k, d->call.k_at, k, t->keys, &maps->k, error));
  HR_TRY(hr_tensor_map_of_rows(driver, a->dtype, x->v, d->call.v_at, v, t->keys, &maps->v, error));
  return hr_tensor_map_of_rows(driver, a->dtype, x->d_o, d->backward.do_at, o, t->rows, &maps->d_o, error);
}

/* Queues a kernel of attention_backward_rows.cu; none without blocks. */
static hr_status start_rows(const launch *l, const hr_run *run, cu_function function, int64_t blocks, division *d,
                            hr_error *error)
{
  const hr_cuda_queue queue = {l->cuda, run->stream};
  const hr_cuda_kernel kernel = {
      .function = function, .blocks = blocks, .threads = HR_BACKWARD_ROWS_THREADS, .early = true};
  void *parameters[] = {&d->call, &d->backward};
  return blocks > 0 ? hr_cuda_launch(&queue, &kernel, parameters, error) : HR_OK;
}

/* In the device's context, for which the driver encodes tensor maps, too. */
static hr_status start(const launch *l, const hr_backward *both, const hr_run *run, division *d, hr_error *error)
{
  const hr_cuda_queue queue = {l->cuda, run->stream};
  const hr_cuda_kernel kernel = {.function = l->backward,
                                 .blocks = d->blocks,
                                 .threads = HR_BACKWARD_THREADS,
                                 .shared_bytes = l->tiles.shared_bytes,
                                 .early = true};
  tensor_maps maps;
  void *parameters[] = {&d->call, &d->backward, &maps};
  set_addresses(l, both, run->arguments, run->workspace, d);
  HR_TRY(describe_tensors(l, &both->forward, d, run->arguments, &maps, error));
  HR_TRY(start_rows(l, run, l->prepare, d->q_blocks, d, error));
  HR_TRY(hr_cuda_launch(&queue, &kernel, parameters, error));
  HR_TRY(start_rows(l, run, l->finish, d->q_blocks, d, error));
  HR_TRY(start_rows(l, run, l->finish_k, d->k_blocks, d, error));
  HR_TRY(start_rows(l, run, l->finish_v, d->v_blocks, d, error));
  return start_rows(l, run, l->add_sinks, both->options.sinks ? d->call.q_heads : 0, d, error);
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const launch *l = plan->state;
  division d = run->problem == &plan->problem ? l->of_plan : divide(l, &run->problem->backward);
  HR_TRY(hr_cuda_enter(l->cuda, error));
  hr_status status = start(l, &run->problem->backward, run, &d, error);
  hr_cuda_leave(l->cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const launch *l = state;
  const hr_backward_sm90 *t = &l->tiles;
  snprintf(text, size, "tile %dx%d, head sizes %d and %d, %d stages%s%s, bands of %d groups of %d heads", t->rows,
           t->keys, t->qk, t->v, t->stages, t->split_products ? ", products split" : "",
           t->deterministic ? ", in order" : "", l->of_plan.backward.band_groups, l->of_plan.backward.group_heads);
}

const hr_kernel_functions hr_kernel_attention_backward_sm90 = {
    .state_bytes = sizeof(launch), .supports = supports, .prepare = prepare, .run = run, .describe = describe};
