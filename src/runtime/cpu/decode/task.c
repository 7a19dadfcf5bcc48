/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/decode/task.h"

#include "base/checked.h"

#include <headroom/experimental/decode.h>
#include <math.h>
#include <string.h>

/* A group of a sequence: query heads first_head … end_head − 1. Query row (head − first_head) · q_len + query. */
typedef struct task {
  const hr_split_run *run;
  char *slot;
  int64_t sequence, group, length;
  int64_t first_unit, units, first_head;
  bool direct; /* as hr_split_step.direct */
} task;

/* Some keys: addresses of their head 0, and which of them each query sees. */
typedef struct key_block {
  const char *k[HR_SPLIT_BLOCK_MAX], *v[HR_SPLIT_BLOCK_MAX];
  const char *k_scales[HR_SPLIT_BLOCK], *v_scales[HR_SPLIT_BLOCK]; /* of a quantized cache */
  int64_t k_pitch[HR_SPLIT_BLOCK_MAX / HR_SPLIT_TILE];             /* as hr_split_rows.pitch */
  int64_t v_pitch[HR_SPLIT_BLOCK_MAX / HR_SPLIT_TILE];
  int64_t position; /* of the first key */
  int keys, first[HR_DECODE_Q_LEN_MAX], end[HR_DECODE_Q_LEN_MAX];
} key_block;

static hr_split_sums sums_at(const task *t, char *at)
{
  const hr_split_cut *c = &t->run->plan->cut;
  int64_t rows = t->units * c->unit_rows, padded = hr_round_up(rows, HR_SPLIT_PAD);
  float *floats = (float *)(void *)at;
  return (hr_split_sums){
      .rows = rows, .pitch = c->o_pitch, .base = floats, .total = floats + padded, .o = floats + 2 * padded};
}

static void clear(const hr_split_sums *sums)
{
  for (int64_t row = 0; row < sums->rows; row++)
    sums->base[row] = -(float)INFINITY;
  memset(sums->total, 0, (size_t)sums->rows * sizeof(float));
  memset(sums->o, 0, (size_t)(sums->rows * sums->pitch) * sizeof(float));
}

static void load_queries(const task *t)
{
  const hr_split_plan *p = t->run->plan;
  const hr_decode *d = t->run->problem;
  float *to = (float *)(void *)(t->slot + p->cut.q);
  int64_t k_group = p->cut.unit.q_heads / p->cut.unit.k_heads;
  for (int64_t head = 0; head < t->units * p->cut.unit.q_heads; head++)
    for (int64_t query = 0; query < d->q_len; query++) {
      int64_t at = t->sequence * p->q.batch + query * p->q.row + (t->first_head + head) * p->q.head;
      p->version->load(d->dtype, p->quantized,
                       (const char *)t->run->arguments->q + (size_t)at * hr_dtype_bytes(d->dtype), d->qk_dim,
                       head % k_group * d->q_len + query, to + head / k_group * p->cut.k_rows * p->cut.q_pitch);
    }
}

/* ---- keys ---- */

static void find_tokens(const task *t, const void *cache, size_t element, const hr_kv_strides *strides, int64_t first,
                        int keys, const char **to)
{
  const hr_decode *d = t->run->problem;
  size_t step = (size_t)strides->token * element;
  const char *at = NULL;
  for (int64_t i = 0, left = 0; i < keys; i++, left--, at += step) {
    if (left == 0) {
      at = (const char *)cache +
           (size_t)hr_decode_token(d, t->run->arguments, strides, t->sequence, first + i) * element;
      left = d->page_size - (first + i) % d->page_size;
    }
    to[i] = at;
  }
}

static void find_scales(const task *t, int64_t first, key_block *block)
{
  const hr_decode_arguments *x = t->run->arguments;
  const hr_split_plan *p = t->run->plan;
  const float *v = t->run->problem->latent ? x->k_scales : x->v_scales;
  find_tokens(t, x->k_scales, sizeof(float), &p->k_scales, first, block->keys, block->k_scales);
  find_tokens(t, v, sizeof(float), &p->v_scales, first, block->keys, block->v_scales);
  for (int i = 0; i < block->keys; i++) {
    __builtin_prefetch(block->k_scales[i]);
    __builtin_prefetch(block->v_scales[i]);
  }
}

static void find_pitches(int keys, const char *const *at, int64_t *to)
{
  for (int key = 0; key < keys; key += HR_SPLIT_TILE, at += HR_SPLIT_TILE, to++) {
    *to = key + HR_SPLIT_TILE <= keys ? at[1] - at[0] : 0;
    for (int i = 2; i < HR_SPLIT_TILE && *to != 0; i++)
      if (at[i] - at[i - 1] != *to)
        *to = 0;
  }
}

static void find_keys(const task *t, int64_t first, int64_t end, key_block *block)
{
  const hr_decode *d = t->run->problem;
  const hr_decode_arguments *x = t->run->arguments;
  size_t element = hr_decode_cache_bytes(d);
  block->keys = (int)(end - first);
  block->position = first;
  find_tokens(t, x->k, element, &t->run->plan->k, first, block->keys, block->k);
  find_tokens(t, d->latent ? x->k : x->v, element, &t->run->plan->v, first, block->keys, block->v);
  if (t->run->plan->quantized)
    find_scales(t, first, block);
  if (t->run->plan->version->tiles) {
    find_pitches(block->keys, block->k, block->k_pitch);
    find_pitches(block->keys, block->v, block->v_pitch);
  }
  for (int64_t query = 0; query < d->q_len; query++) {
    hr_key_range seen = hr_decode_visible(d, t->length, query);
    block->first[query] = (int)hr_min64(hr_max64(seen.first - first, 0), block->keys);
    block->end[query] = (int)hr_min64(hr_max64(seen.end - first, 0), block->keys);
  }
}

static hr_split_rows k_rows(const task *t, const key_block *block, int64_t head)
{
  int64_t element = (int64_t)hr_decode_cache_bytes(t->run->problem);
  return (hr_split_rows){block->k, head * t->run->plan->k.head * element, t->run->problem->qk_dim * element,
                         block->keys, block->k_pitch};
}

static hr_split_rows v_rows(const task *t, const key_block *block, int64_t head)
{
  int64_t element = (int64_t)hr_decode_cache_bytes(t->run->problem);
  return (hr_split_rows){block->v, head * t->run->plan->v.head * element, t->run->problem->v_dim * element, block->keys,
                         block->v_pitch};
}

static const hr_split_rows none;

/* Keys from … end − 1 of rows. */
static hr_split_rows some_keys(hr_split_rows rows, int from, int end)
{
  if (rows.keys > 0)
    rows.at += from, rows.keys = end - from;
  return rows;
}

/* ---- a unit and a block ---- */

/* The rows that are prefetched while a unit is computed: first the heads of K, those of V, and `k`. Where heads of a
 * token are neighbours, the unit also prefetches its share of the next block's tokens, with all heads of the group. V
 * of a latent cache has been read as K. */
typedef struct unit_ahead {
  bool heads;      /* of this unit */
  hr_split_rows k; /* of the next unit, or of the next block */
  hr_split_rows later_k, later_v;
} unit_ahead;

/* `next`: the block behind, or NULL. The first block of a split has not been prefetched. */
static unit_ahead plan_ahead(const task *t, int64_t unit, const key_block *block, const key_block *next, bool first)
{
  const hr_split_cut *c = &t->run->plan->cut;
  int64_t k_heads = c->unit.k_heads, v_heads = c->unit.v_heads;
  const bool together = c->group_units > 1, last = unit + 1 == t->units;
  unit_ahead ahead = {.heads = first || !together, .k = none, .later_k = none, .later_v = none};
  if (ahead.heads && !last)
    ahead.k = k_rows(t, block, (t->first_unit + unit + 1) * k_heads);
  if (next && last && !together)
    ahead.k = k_rows(t, next, t->first_unit * k_heads);
  if (next && together) {
    int64_t from = next->keys * unit / t->units, end = next->keys * (unit + 1) / t->units;
    ahead.later_k = some_keys(k_rows(t, next, t->first_unit * k_heads), (int)from, (int)end);
    ahead.later_v = some_keys(v_rows(t, next, t->first_unit * v_heads), (int)from, (int)end);
    ahead.later_k.bytes *= t->units * k_heads;
    ahead.later_v.bytes *= t->units * v_heads;
  }
  return ahead;
}

/* All rows of a unit. */
static hr_split_step unit_step(const task *t, int64_t unit, const key_block *block, const hr_split_sums *sums)
{
  const hr_split_cut *c = &t->run->plan->cut;
  int64_t row = unit * c->unit_rows;
  return (hr_split_step){.dtype = t->run->plan->format,
                         .rows = c->unit_rows,
                         .q_len = t->run->problem->q_len,
                         .k_rows = c->unit_rows / c->unit.k_heads,
                         .block = c->block,
                         .keys = block->keys,
                         .first = block->first,
                         .end = block->end,
                         .q = (float *)(void *)(t->slot + c->q) + unit * c->unit.k_heads * c->k_rows * c->q_pitch,
                         .s = (float *)(void *)(t->slot + c->s),
                         .p = t->slot + c->p,
                         .p_pitch = c->p_pitch,
                         .direct = t->direct,
                         .o = sums->o + row * c->o_pitch,
                         .base = sums->base + row,
                         .total = sums->total + row,
                         .factor = (float *)(void *)(t->slot + c->factor),
                         .scratch = (float *)(void *)(t->slot + c->scratch)};
}

/* Multiplies the scores or weights of a K or V head by the scales of the block's keys, which begin at `at`. */
static void scale_head(const task *t, const key_block *block, const char *const *at, int64_t head_stride, int64_t head,
                       const hr_split_step *step)
{
  float scales[HR_SPLIT_BLOCK];
  for (int i = 0; i < HR_SPLIT_BLOCK; i++)
    scales[i] = i < block->keys ? ((const float *)(const void *)at[i])[head * head_stride] : 0;
  t->run->plan->version->scale_keys(step, scales);
}

/* Adds ALiBi to the products of a K head, which are scaled later. */
static void add_positions(const task *t, const key_block *block, int64_t k_head, const hr_split_step *step)
{
  const hr_decode *d = t->run->problem;
  const float scale = t->run->plan->scores.scale;
  for (int64_t row = 0; row < step->rows; row++) {
    const int64_t q_head = k_head * (d->q_heads / d->k_heads) + row / d->q_len, query = row % d->q_len;
    const float slope = t->run->arguments->alibi_slopes[q_head] / scale;
    const float before = (float)(block->position - (t->length - d->q_len + query)); /* of the block's first key */
    float *s = step->s + row * step->block;
    for (int key = 0; key < block->keys; key++)
      s[key] += slope * (before + (float)key);
  }
}

/* With tiles the softmax takes as long as the products, so that the second half of the next rows is prefetched during
 * it. */
static void leave_half(hr_split_rows *ahead, hr_split_rows *rest)
{
  *rest = some_keys(*ahead, (ahead->keys + 1) / 2, ahead->keys);
  *ahead = some_keys(*ahead, 0, (ahead->keys + 1) / 2);
}

/* `softmax` gets what is prefetched during it. */
static void multiply_heads(const task *t, int64_t unit, const key_block *block, const unit_ahead *ahead,
                           hr_split_step step, hr_split_step *softmax)
{
  const hr_decode *d = t->run->problem;
  const hr_split_cut *c = &t->run->plan->cut;
  int64_t heads = c->unit.k_heads, head = (t->first_unit + unit) * heads;
  step.rows /= heads;
  step.dim = d->qk_dim;
  for (int64_t i = 0; i < heads; i++) {
    step.from = k_rows(t, block, head + i);
    step.ahead = none;
    if (ahead->heads && i + 1 < heads)
      step.ahead = k_rows(t, block, head + i + 1);
    else if (ahead->heads && !d->latent)
      step.ahead = v_rows(t, block, (t->first_unit + unit) * c->unit.v_heads);
    step.later = i == 0 ? ahead->later_k : none;
    if (t->run->plan->version->tiles && i + 1 == heads) {
      leave_half(&step.ahead, &softmax->ahead);
      leave_half(&step.later, &softmax->later);
    }
    t->run->plan->version->multiply(&step);
    if (t->run->plan->quantized)
      scale_head(t, block, block->k_scales, t->run->plan->k_scales.head, head + i, &step);
    if (d->alibi)
      add_positions(t, block, head + i, &step);
    step.q += c->k_rows * c->q_pitch, step.s += c->k_rows * c->block;
  }
}

static void add_heads(const task *t, int64_t unit, const key_block *block, const unit_ahead *ahead, hr_split_step step)
{
  const hr_split_cut *c = &t->run->plan->cut;
  int64_t heads = c->unit.v_heads, head = (t->first_unit + unit) * heads;
  step.rows /= heads;
  step.dim = t->run->problem->v_dim;
  for (int64_t i = 0; i < heads; i++) {
    step.from = v_rows(t, block, head + i);
    step.ahead = i + 1 == heads ? ahead->k : ahead->heads ? v_rows(t, block, head + i + 1) : none;
    step.later = i == 0 ? ahead->later_v : none;
    if (t->run->plan->quantized)
      scale_head(t, block, block->v_scales, t->run->plan->v_scales.head, head + i, &step);
    t->run->plan->version->add_values(&step);
    step.s += step.rows * c->block, step.o += step.rows * c->o_pitch, step.factor += step.rows;
    step.p = (char *)step.p + step.rows * c->p_pitch;
  }
}

static void run_unit(const task *t, int64_t unit, const key_block *block, const unit_ahead *ahead,
                     const hr_split_sums *sums)
{
  const hr_split_plan *p = t->run->plan;
  hr_split_step step = unit_step(t, unit, block, sums);
  hr_split_step softmax = step;
  multiply_heads(t, unit, block, ahead, step, &softmax);
  p->version->online_softmax(&softmax, &p->scores);
  add_heads(t, unit, block, ahead, step);
}

static void add_split(const task *t, int64_t split, const hr_split_sums *sums)
{
  hr_key_range keys = hr_decode_range(t->run->problem, t->length);
  int64_t end = hr_min64(keys.end, (split + 1) * HR_SPLIT_KEYS);
  key_block blocks[2];
  const int size = t->run->plan->cut.block;
  bool first = true;
  clear(sums);
  int64_t at = hr_max64(keys.first, split * HR_SPLIT_KEYS), now = 0;
  if (at < end)
    find_keys(t, at, hr_min64(end, (at / size + 1) * size), &blocks[0]);
  while (at < end) {
    const key_block *block = &blocks[now];
    at += block->keys;
    now = !now;
    if (at < end)
      find_keys(t, at, hr_min64(end, at + size), &blocks[now]);
    for (int64_t unit = 0; unit < t->units; unit++) {
      unit_ahead ahead = plan_ahead(t, unit, block, at < end ? &blocks[now] : NULL, first);
      run_unit(t, unit, block, &ahead, sums);
    }
    first = false;
  }
}

/* Writes O of all V heads. */
static void end_direct(const task *t, const hr_split_sums *sums)
{
  const hr_split_cut *c = &t->run->plan->cut;
  const key_block none_left = {.keys = 0};
  for (int64_t unit = 0; unit < t->units; unit++) {
    hr_split_step step = unit_step(t, unit, &none_left, sums);
    step.rows /= c->unit.v_heads, step.dim = t->run->problem->v_dim;
    for (int64_t i = 0; i < c->unit.v_heads; i++, step.o += step.rows * c->o_pitch)
      t->run->plan->version->end_direct(&step);
  }
}

/* Sums over the keys of split number `split`; where not finite, computed again without direct steps. */
static void run_split(const task *t, int64_t split, const hr_split_sums *sums)
{
  task same = *t;
  same.direct = t->run->plan->cut.direct;
  add_split(&same, split, sums);
  if (!same.direct)
    return;
  if (t->run->plan->version->is_finite(sums)) {
    end_direct(&same, sums);
    return;
  }
  same.direct = false;
  add_split(&same, split, sums);
}

/* ---- results ---- */

/* Where all scores are −inf, the denominator is 0, so that O is NaN and the log-sum-exp −inf. */
void hr_split_finish_row(const hr_split_version *version, const hr_decode *d, const hr_decode_arguments *x,
                         const hr_split_row *row)
{
  hr_strides strides = hr_decode_o_strides(d);
  int64_t at = row->sequence * strides.batch + row->query * strides.row + row->head * strides.head;
  char *o = (char *)x->o + (size_t)at * hr_dtype_bytes(d->dtype);
  hr_key_range seen = hr_decode_visible(d, hr_decode_length(d, x, row->sequence), row->query);
  double sink = d->sinks ? (double)x->sinks[row->head] : -(double)INFINITY, lse = sink;
  if (seen.first < seen.end) {
    double base = (double)row->base, larger = fmax(base, sink), shift = isinf(larger) ? 0 : larger;
    double weight = exp2(-(double)hr_decode_top(d)) * exp(base - shift);
    double total = (double)row->total * weight + exp(sink - shift);
    version->store(d->dtype, row->in_order, row->o, (float)(hr_split_loaded_unit(d) * weight / total), d->v_dim, o);
    lse = shift + log(total);
  } else {
    memset(o, 0, (size_t)d->v_dim * hr_dtype_bytes(d->dtype));
  }
  if (x->lse)
    x->lse[(row->sequence * d->q_len + row->query) * d->q_heads + row->head] = (float)lse;
}

static void finish(const task *t, const hr_split_sums *sums)
{
  const hr_decode *d = t->run->problem;
  for (int64_t i = 0; i < sums->rows; i++) {
    const hr_split_row row = {.sequence = t->sequence,
                              .head = t->first_head + i / d->q_len,
                              .query = i % d->q_len,
                              .base = sums->base[i],
                              .total = sums->total[i],
                              .in_order = t->run->plan->quantized,
                              .o = sums->o + i * sums->pitch};
    hr_split_finish_row(t->run->plan->version, d, t->run->arguments, &row);
  }
}

/* ---- tasks ---- */

static atomic_int_fast64_t *counter(const hr_split_run *run, int64_t group)
{
  return (atomic_int_fast64_t *)(void *)(run->workspace + run->plan->cut.done) + group;
}

/* The sums that task number `split` of a group stores. */
static hr_split_sums stored(const task *t, int64_t split)
{
  const hr_split_cut *c = &t->run->plan->cut;
  int64_t group = t->sequence * c->groups + t->group;
  return sums_at(t, t->run->workspace + c->stored + (size_t)(group * c->splits + split) * c->sums_bytes);
}

static void run_all_splits(const task *t, hr_split_range splits)
{
  const hr_split_plan *p = t->run->plan;
  hr_split_sums sums = sums_at(t, t->slot + p->cut.sums), part = sums_at(t, t->slot + p->cut.part);
  clear(&sums);
  for (int64_t i = 0; i < splits.count; i++) {
    run_split(t, splits.first + i, &part);
    p->version->merge(&sums, &part);
  }
  finish(t, &sums);
}

static void run_one_split(const task *t, hr_split_range splits, int64_t split)
{
  const hr_split_plan *p = t->run->plan;
  hr_split_sums part = stored(t, split);
  run_split(t, splits.first + split, &part);
  atomic_int_fast64_t *done = counter(t->run, t->sequence * p->cut.groups + t->group);
  if (atomic_fetch_add_explicit(done, 1, memory_order_acq_rel) + 1 < splits.count)
    return;
  hr_split_sums sums = sums_at(t, t->slot + p->cut.sums);
  clear(&sums);
  for (int64_t i = 0; i < splits.count; i++) {
    part = stored(t, i);
    p->version->merge(&sums, &part);
  }
  finish(t, &sums);
}

int64_t hr_split_tasks(const hr_split_run *run)
{
  return run->problem->batch * run->plan->cut.groups * run->plan->cut.splits;
}

void hr_split_begin(const hr_split_run *run)
{
  const hr_split_cut *c = &run->plan->cut;
  for (int64_t group = 0; c->splits > 1 && group < run->problem->batch * c->groups; group++)
    atomic_init(counter(run, group), 0);
}

void hr_split_task(const hr_split_run *run, int64_t index, int thread)
{
  const hr_split_cut *c = &run->plan->cut;
  int64_t group = index / c->splits, split = index % c->splits;
  task t = {.run = run, .slot = run->workspace + (size_t)thread * c->slot_bytes};
  t.sequence = group / c->groups;
  t.group = group % c->groups;
  t.length = hr_decode_length(run->problem, run->arguments, t.sequence);
  hr_split_range splits = hr_split_range_of(run->problem, t.length);
  if (c->splits > 1 && split >= splits.count)
    return;
  t.first_unit = t.group * c->group_units;
  t.units = hr_min64(c->group_units, c->unit.count - t.first_unit);
  t.first_head = t.first_unit * c->unit.q_heads;
  load_queries(&t);
  if (c->splits > 1)
    run_one_split(&t, splits, split);
  else
    run_all_splits(&t, splits);
}
