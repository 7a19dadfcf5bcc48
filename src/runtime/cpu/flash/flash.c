/* SPDX-License-Identifier: Apache-2.0 */
/* Flash attention on the CPU: distributes items over the thread pool and iterates over the keys of an item. The
 * arithmetic is in the versions (flash.h). */
#include "runtime/cpu/flash/flash.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cpu/flash/blocks.h"
#include "runtime/cpu/flash/plan.h"
#include "runtime/cpu/host/denormals.h"
#include "runtime/cpu/host/host.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LOG2_E 1.4426950408889634
#define LENGTH_MAX ((int64_t)1 << 30) /* positions are 32-bit numbers, differences of them too */

typedef struct flash_run {
  const hr_flash_plan *kernel;
  const hr_attention *problem;
  const hr_attention_arguments *arguments;
  char *workspace;
  atomic_llong next; /* item */
} flash_run;

/* One item, and the arrays of its rows. A segment is the query heads with one K head and one V head. Within a segment
 * rows are ordered query by query, so that neighbours see nearly the same keys. */
typedef struct item {
  const flash_run *run;
  char *slot;
  int64_t batch, first_head, end_head, first_query, queries;
  int64_t q_row, kv_row; /* of the sequence's first query and key in Q and K; 0 but for variable lengths */
  int64_t q_len, kv_len;
  int32_t *first, *end; /* visible keys of a row */
  int32_t *position;
  float *base, *slopes;
} item;

static int64_t segment_end(const item *it, int64_t head)
{
  const hr_attention *t = it->run->problem;
  int64_t k_share = t->q_heads / t->k_heads, v_share = t->q_heads / t->v_heads;
  int64_t end = hr_min64((head / k_share + 1) * k_share, (head / v_share + 1) * v_share);
  return hr_min64(end, it->end_head);
}

static size_t offset(const hr_attention *t, hr_strides strides, int64_t batch, int64_t row, int64_t head)
{
  int64_t at = (t->variable_lengths ? 0 : batch * strides.batch) + row * strides.row + head * strides.head;
  return (size_t)at * hr_dtype_bytes(t->dtype);
}

static const int32_t *first_keys(const item *it)
{
  const hr_attention *t = it->run->problem;
  return it->run->arguments->first_keys + (t->variable_lengths ? it->q_row : it->batch * t->q_len);
}

/* Query i of q_len has position i + kv_len − q_len among the keys. */
static void set_visible(const item *it, int64_t query, int64_t row)
{
  const hr_attention *t = it->run->problem;
  int64_t own = query + it->kv_len - it->q_len, first = 0, end = it->kv_len;
  if (t->mask == HR_MASK_CAUSAL) {
    end = hr_max64(own + 1, 0);
    first = t->window > 0 ? hr_max64(own - hr_min64(t->window, it->kv_len) + 1, 0) : 0;
  }
  if (t->first_keys)
    first = hr_max64(first, first_keys(it)[query]);
  it->first[row] = (int32_t)first;
  it->end[row] = (int32_t)end;
  it->position[row] = (int32_t)own;
}

#define QUERIES_AHEAD 8 /* prefetch distance */

/* Prefetches the row of Q or O that is QUERIES_AHEAD queries further on. */
static void prefetch_row(const item *it, const char *row, hr_strides strides, int64_t query, int64_t dim)
{
  int64_t element = (int64_t)hr_dtype_bytes(it->run->problem->dtype), stride = strides.row * element;
  if (query + QUERIES_AHEAD < it->first_query + it->queries)
    hr_flash_prefetch(row + QUERIES_AHEAD * stride, stride, dim * element);
}

static void set_rows(item *it, int64_t head, int64_t end_head)
{
  const flash_run *run = it->run;
  const hr_flash_plan *f = run->kernel;
  const hr_attention *t = run->problem;
  int64_t heads = end_head - head, row = (head - it->first_head) * it->queries;
  for (int64_t query = it->first_query; query < it->first_query + it->queries; query++)
    for (int64_t h = head; h < head + heads; h++, row++) {
      set_visible(it, query, row);
      it->slopes[row] = t->alibi ? run->arguments->alibi_slopes[h] : 0;
      const char *from = (const char *)run->arguments->q + offset(t, f->q, it->batch, it->q_row + query, h);
      prefetch_row(it, from, f->q, query, t->qk_dim);
      f->version->pack_q(t->dtype, from, t->qk_dim, f->negate, it->slot + f->blocks.q + 4 * row * f->blocks.depth,
                         f->blocks.depth);
    }
}

/* Packs Q and initializes the rows. */
static void begin(item *it)
{
  const hr_flash_blocks *b = &it->run->kernel->blocks;
  int64_t rows = (it->end_head - it->first_head) * it->queries, most = b->item_heads * b->item_queries;
  it->first = (int32_t *)(void *)(it->slot + b->row);
  it->end = it->first + most;
  it->position = it->end + most;
  it->base = (float *)(void *)(it->position + most);
  it->slopes = it->base + most;
  memset(it->slot + b->total, 0, (size_t)(4 * rows * HR_FLASH_LANES_MAX));
  for (int64_t row = 0; row < rows; row++)
    it->base[row] = -(float)INFINITY;
  for (int64_t head = it->first_head, next; head < it->end_head; head = next) {
    next = segment_end(it, head);
    set_rows(it, head, next);
  }
}

/* The keys and heads whose packed K and V are in the slot. */
typedef struct packed {
  int64_t first_key;
  int keys;
  int64_t k_head, v_head; /* -1: none */
} packed;

static void pack(const item *it, int64_t head, packed *p)
{
  const flash_run *run = it->run;
  const hr_flash_plan *f = run->kernel;
  const hr_attention *t = run->problem;
  int64_t k_head = head / (t->q_heads / t->k_heads), v_head = head / (t->q_heads / t->v_heads);
  int64_t element = (int64_t)hr_dtype_bytes(t->dtype), row = it->kv_row + p->first_key;
  if (k_head != p->k_head)
    f->version->pack_k(t->dtype, (const char *)run->arguments->k + offset(t, f->k, it->batch, row, k_head),
                       f->k.row * element, p->keys, t->qk_dim, it->slot + f->blocks.k, f->blocks.depth);
  if (v_head != p->v_head)
    f->version->pack_v(t->dtype, (const char *)run->arguments->v + offset(t, f->v, it->batch, row, v_head),
                       f->v.row * element, p->keys, t->v_dim, it->slot + f->blocks.v);
  p->k_head = k_head;
  p->v_head = v_head;
}

/* A step and the arrays of its rows. */
typedef struct kept_step {
  hr_flash_step step;
  int32_t first[HR_FLASH_TILE_ROWS_MAX], end[HR_FLASH_TILE_ROWS_MAX], position[HR_FLASH_TILE_ROWS_MAX];
  float factor[HR_FLASH_TILE_ROWS_MAX], shift[HR_FLASH_TILE_ROWS_MAX];
} kept_step;

/* Iteration over a chunk: a step waits until its successor is known. */
typedef struct walk {
  packed chunk;
  kept_step steps[2];
  int waiting; /* index of the waiting step; -1: none */
} walk;

static void finish_steps(const item *it, walk *w)
{
  if (w->waiting >= 0)
    it->run->kernel->version->run_step(&w->steps[w->waiting].step, NULL);
  w->waiting = -1;
}

static void take_step(const item *it, walk *w, int made)
{
  const hr_flash_version *version = it->run->kernel->version;
  if (w->waiting >= 0)
    version->run_step(&w->steps[w->waiting].step, &w->steps[made].step);
  else if (version->begin_step)
    version->begin_step(&w->steps[made].step);
  w->waiting = made;
}

/* Adds the step of the tile from row `row` on and keys `from` … `end` − 1. The tile's first row sees the first of
 * all its keys. */
static void make_step(const item *it, walk *w, int64_t row, int rows, int64_t from, int64_t end)
{
  const hr_flash_plan *f = it->run->kernel;
  const hr_flash_blocks *b = &f->blocks;
  int made = w->waiting == 0, group = f->version->key_group;
  int64_t chunk = w->chunk.first_key;
  int first_key = (int)(from - chunk) / group * group, end_key = (int)hr_round_up(end - chunk, group);
  int32_t origin = (int32_t)(chunk + first_key);
  kept_step *kept = &w->steps[made];
  for (int i = 0; i < rows; i++) {
    kept->first[i] = it->first[row + i] - origin;
    kept->end[i] = it->end[row + i] - origin;
    kept->position[i] = it->position[row + i] - origin;
  }
  kept->step = (hr_flash_step){.scores = &f->scores,
                               .rows = rows,
                               .first_key = first_key,
                               .keys = end_key - first_key,
                               .depth = b->depth,
                               .values = b->values,
                               .q = it->slot + b->q + 4 * row * b->depth,
                               .k = it->slot + b->k,
                               .v = it->slot + b->v,
                               .first = kept->first,
                               .end = kept->end,
                               .slopes = it->slopes + row,
                               .position = kept->position,
                               .s = (float *)(void *)(it->slot + b->s),
                               .p = it->slot + b->p,
                               .factor = kept->factor,
                               .shift = kept->shift,
                               .base = it->base + row,
                               .total = (float *)(void *)(it->slot + b->total) + row * HR_FLASH_LANES_MAX,
                               .o = (float *)(void *)(it->slot + b->o) + row * b->values,
                               .fresh = from == it->first[row]};
  take_step(it, w, made);
}

/* The rows of a segment and the keys of a chunk. A tile's first row sees the first keys, its last row the last ones. */
static void walk_segment(const item *it, int64_t head, int64_t end_head, walk *w)
{
  const hr_flash_version *version = it->run->kernel->version;
  int64_t row = (head - it->first_head) * it->queries, end_row = (end_head - it->first_head) * it->queries;
  bool first_tile = true;
  for (; row < end_row; row += version->tile_rows) {
    int rows = (int)hr_min64(version->tile_rows, end_row - row);
    int64_t first = hr_max64(it->first[row], w->chunk.first_key);
    int64_t end = hr_min64(it->end[row + rows - 1], w->chunk.first_key + w->chunk.keys);
    if (first >= end)
      continue;
    if (first_tile) {
      finish_steps(it, w); /* K and V of the segment before are still in use */
      pack(it, head, &w->chunk);
    }
    first_tile = false;
    for (int64_t at = first, next; at < end; at = next) {
      next = hr_min64((at / version->step + 1) * version->step, end);
      make_step(it, w, row, rows, at, next);
    }
  }
}

static float row_lse(const hr_flash_plan *f, float base, float sum)
{
  double unit = f->version->unit_logarithm ? f->version->unit_logarithm(&f->scores, base)
                                           : hr_flash_unit_logarithm(&f->scores, base);
  return (float)(unit + log((double)sum));
}

static void finish_row(const item *it, int64_t row, int64_t query, int64_t head)
{
  const flash_run *run = it->run;
  const hr_flash_plan *f = run->kernel;
  const hr_attention *t = run->problem;
  char *to = (char *)run->arguments->o + offset(t, f->o, it->batch, it->q_row + query, head);
  bool sees = it->first[row] < it->end[row];
  prefetch_row(it, to, f->o, query, t->v_dim);
  float sum = 0;
  if (sees) {
    const float *o = (const float *)(const void *)(it->slot + f->blocks.o) + row * f->blocks.values;
    const float *total = (const float *)(const void *)(it->slot + f->blocks.total) + row * HR_FLASH_LANES_MAX;
    sum = f->version->finish(o, total, t->v_dim, t->dtype, to);
  } else {
    memset(to, 0, (size_t)t->v_dim * hr_dtype_bytes(t->dtype));
  }
  if (!run->arguments->lse)
    return;
  int64_t at = t->variable_lengths ? head * t->q_total + it->q_row : (it->batch * t->q_heads + head) * t->q_len;
  run->arguments->lse[at + query] = sees ? row_lse(f, it->base[row], sum) : -(float)INFINITY;
}

static void finish(const item *it)
{
  for (int64_t head = it->first_head, next; head < it->end_head; head = next) {
    next = segment_end(it, head);
    int64_t row = (head - it->first_head) * it->queries;
    for (int64_t query = it->first_query; query < it->first_query + it->queries; query++)
      for (int64_t h = head; h < next; h++, row++)
        finish_row(it, row, query, h);
  }
}

static void run_item(item *it)
{
  const hr_flash_version *version = it->run->kernel->version;
  begin(it);
  int64_t rows = (it->end_head - it->first_head) * it->queries;
  int64_t end = it->end[rows - 1], chunk = it->first[0] / version->chunk * version->chunk;
  for (; chunk < end; chunk += version->chunk) {
    walk w = {.chunk = {chunk, (int)hr_min64(version->chunk, end - chunk), -1, -1}, .waiting = -1};
    for (int64_t head = it->first_head, next; head < it->end_head; head = next) {
      next = segment_end(it, head);
      walk_segment(it, head, next, &w);
    }
    finish_steps(it, &w);
  }
  finish(it);
}

/* Later queries first: with a causal mask they see more keys. False if the sequence has no such queries. */
static bool find_item(const flash_run *run, int64_t index, item *it)
{
  const hr_flash_blocks *b = &run->kernel->blocks;
  const hr_attention *t = run->problem;
  int64_t others = run->problem->batch * b->groups * b->head_parts, block = b->query_blocks - 1 - index / others,
          rest = index % others;
  int64_t group = rest / b->head_parts % b->groups, part = rest % b->head_parts;
  it->run = run;
  it->batch = rest / b->head_parts / b->groups;
  it->q_row = it->kv_row = 0;
  it->q_len = t->q_len;
  it->kv_len = t->kv_len;
  if (t->variable_lengths) {
    const int32_t *q = run->arguments->q_offsets + it->batch, *kv = run->arguments->kv_offsets + it->batch;
    it->q_row = q[0];
    it->kv_row = kv[0];
    it->q_len = q[1] - q[0];
    it->kv_len = kv[1] - kv[0];
  }
  it->first_head = group * b->group_heads + part * b->item_heads;
  it->end_head = hr_min64(it->first_head + b->item_heads, (group + 1) * b->group_heads);
  it->first_query = block * b->item_queries;
  it->queries = hr_min64(b->item_queries, it->q_len - it->first_query);
  return it->queries > 0 && it->first_head < it->end_head;
}

static void work(void *context, int member)
{
  flash_run *run = context;
  const hr_flash_plan *f = run->kernel;
  const hr_flash_blocks *b = &f->blocks;
  const int64_t items = run->problem->batch * b->groups * b->head_parts * b->query_blocks;
  unsigned before = hr_cpu_flush_denormals();
  if (f->version->enter)
    f->version->enter();
  for (int64_t i; (i = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed)) < items;) {
    item it = {.slot = run->workspace + (size_t)member * b->slot_bytes};
    if (find_item(run, i, &it))
      run_item(&it);
  }
  if (f->version->leave)
    f->version->leave();
  hr_cpu_restore_denormals(before);
}

hr_status hr_flash_run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  (void)error;
  const hr_flash_plan *f = plan->state;
  flash_run flash = {
      .kernel = f, .problem = &run->problem->attention, .arguments = run->arguments, .workspace = run->workspace};
  hr_thread_pool_run(f->pool, work, &flash);
  return HR_OK;
}

bool hr_flash_takes_lengths(const hr_attention *t, char *why, size_t why_size)
{
  if (t->q_len < LENGTH_MAX && t->kv_len < LENGTH_MAX)
    return true;
  snprintf(why, why_size, "takes lengths below %" PRId64, LENGTH_MAX);
  return false;
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  return hr_flash_takes_lengths(&problem->attention, why, why_size);
}

/* Beyond, scores are scaled before their differences are taken: to_log2 and `least` stay well within fp32. */
#define SCALE_MAX 0x1p64F

hr_flash_scores hr_flash_score_rules(const hr_attention *t, float scale)
{
  hr_flash_scores scores = {.unit = scale, .scale = scale, .softcap = t->softcap, .alibi = t->alibi};
  if (t->softcap > 0)
    scores.softcap_scale = scale / t->softcap;
  scores.scaled_first = t->softcap > 0 || t->alibi || scale > SCALE_MAX || scale < 1 / SCALE_MAX;
  if (scores.scaled_first)
    scores.unit = 1;
  int64_t keys = t->variable_lengths ? t->kv_total : t->kv_len;
  scores.to_log2 = (float)(scores.unit * LOG2_E);
  scores.add = (float)hr_log2_of_share(keys);
  scores.least = (-127 - scores.add) / scores.to_log2;
  return scores;
}

hr_status hr_flash_prepare(hr_device *device, const hr_problem *problem, const hr_flash_version *version, void *state,
                           size_t *workspace_bytes, hr_error *error)
{
  const hr_attention *t = &problem->attention;
  hr_flash_plan *f = state;
  HR_TRY(hr_cpu_thread_pool(device, &f->pool, error));
  float scale = t->scale != 0 ? t->scale : (float)(1 / sqrt((double)t->qk_dim));
  f->version = version;
  f->blocks = hr_flash_cut(t, version, device->threads, hr_cpu_of(device)->topology.core_cache_bytes);
  f->negate = scale < 0;
  f->scores = hr_flash_score_rules(t, fabsf(scale));
  f->q = hr_attention_strides(t, HR_OPERAND_Q);
  f->k = hr_attention_strides(t, HR_OPERAND_K);
  f->v = hr_attention_strides(t, HR_OPERAND_V);
  f->o = hr_attention_strides(t, HR_OPERAND_O);
  *workspace_bytes = f->blocks.slot_bytes * (size_t)device->threads;
  return HR_OK;
}

static void describe(const void *state, char *text, size_t size)
{
  const hr_flash_plan *f = state;
  snprintf(text, size, "items of %" PRId64 " queries of %" PRId64 " heads, %d keys at a time", f->blocks.item_queries,
           f->blocks.item_heads, f->version->chunk);
}

#if !defined(__x86_64__) /* the rows are there, and say that the machine lacks what they need */
#define hr_flash_avx2 hr_flash_portable
#define hr_flash_avx512 hr_flash_portable
#define hr_flash_avx512_bf16 hr_flash_portable
#define hr_flash_amx hr_flash_portable
#endif
#if !defined(__aarch64__)
#define hr_flash_neon hr_flash_portable
#endif

#define FLASH_KERNEL(name, version)                                                                           \
  static hr_status prepare_##version(hr_device *device, const hr_problem *problem, void *state, size_t *size, \
                                     hr_error *error)                                                         \
  {                                                                                                           \
    return hr_flash_prepare(device, problem, &hr_##version, state, size, error);                              \
  }                                                                                                           \
  const hr_kernel_functions hr_kernel_attention_##name = {.state_bytes = sizeof(hr_flash_plan),               \
                                                          .supports = supports,                               \
                                                          .prepare = prepare_##version,                       \
                                                          .run = hr_flash_run,                                \
                                                          .describe = describe};

FLASH_KERNEL(flash_portable, flash_portable)
FLASH_KERNEL(flash_neon, flash_neon)
FLASH_KERNEL(flash_avx2, flash_avx2)
FLASH_KERNEL(flash_avx512, flash_avx512)
FLASH_KERNEL(flash_avx512_bf16, flash_avx512_bf16)
FLASH_KERNEL(flash_amx, flash_amx)
