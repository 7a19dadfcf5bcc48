/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checked.h"
#include "runtime/cpu/decode/task.h"
#include "runtime/cpu/decode/topk.h"
#include "runtime/cpu/decode/topk_choose.h"

#include <headroom/experimental/decode.h>
#include <math.h>
#include <string.h>

#define BLOCK HR_SPLIT_BLOCK

static float *floats_at(char *slot, size_t offset)
{
  return (float *)(void *)(slot + offset);
}

/* Scores of a query row, of the keys that any query of the sequence sees. */
static float *scores_of(const hr_topk_run *run, int64_t sequence, int64_t head, int64_t query)
{
  const hr_topk_cut *c = &run->plan->cut;
  int64_t row = (sequence * run->problem->q_heads + head) * run->problem->q_len + query;
  return floats_at(run->workspace, c->scores) + row * c->pitch;
}

/* Some keys of a sequence: from `first` on, or with places the keys first + places[i]. */
typedef struct some_keys {
  int64_t sequence, first;
  const int32_t *places;
  int count;
} some_keys;

/* Addresses of head 0 of the keys' tokens in K, in V or in their scales. */
static void find_tokens(const hr_topk_run *run, const void *cache, size_t element, const hr_kv_strides *strides,
                        const some_keys *keys, const char **to)
{
  const hr_decode *d = run->problem;
  uint32_t size = (uint32_t)d->page_size, known = UINT32_MAX;
  const char *page_start = cache;
  for (int i = 0; i < keys->count; i++) {
    uint32_t token = (uint32_t)(keys->first + (keys->places ? keys->places[i] : i)), page = token / size;
    if (page != known) {
      int64_t at = hr_decode_page(d, run->arguments, keys->sequence, token) * strides->page;
      page_start = (const char *)cache + (size_t)at * element;
      known = page;
    }
    to[i] = page_start + (size_t)((token - page * size) * strides->token) * element;
  }
}

/* Multiplies the products or weights of a step by the scales of its keys in a quantized cache. */
static void scale_keys(const hr_topk_run *run, const float *all, const hr_kv_strides *strides, int64_t head,
                       const some_keys *keys, const hr_split_step *step)
{
  const char *at[BLOCK];
  float scales[BLOCK] = {0};
  find_tokens(run, all, sizeof(float), strides, keys, at);
  for (int i = 0; i < keys->count; i++)
    scales[i] = ((const float *)(const void *)at[i])[head * strides->head];
  run->plan->version->scale_keys(step, scales);
}

/* ---- scores ---- */

/* K rows of a task: block by block, and within a block head by head. */
typedef struct score_task {
  const hr_topk_run *run;
  char *slot;
  int64_t sequence, first_head, heads;
  hr_key_range range; /* that the sequence's queries see */
} score_task;

static void load_queries(const score_task *t)
{
  const hr_topk_plan *p = t->run->plan;
  const hr_decode *d = t->run->problem;
  int64_t k_group = d->q_heads / d->k_heads;
  float *to = floats_at(t->slot, p->cut.q);
  for (int64_t head = t->first_head * k_group; head < (t->first_head + t->heads) * k_group; head++)
    for (int64_t query = 0; query < d->q_len; query++, to += p->cut.q_pitch) {
      int64_t at = t->sequence * p->q.batch + query * p->q.row + head * p->q.head;
      const char *from = (const char *)t->run->arguments->q + (size_t)at * hr_dtype_bytes(d->dtype);
      p->version->load(d->dtype, p->quantized, from, d->qk_dim, 0, to);
      for (int64_t i = 0; p->negated && i < p->cut.q_pitch; i++)
        to[i] = -to[i];
    }
}

/* Keys of a block, and where their K is. */
typedef struct score_keys {
  some_keys keys;
  const char *at[BLOCK];
} score_keys;

static void find_keys(const score_task *t, int64_t first, int64_t end, score_keys *block)
{
  const hr_topk_run *run = t->run;
  int count = (int)hr_max64(0, hr_min64(BLOCK, end - first));
  block->keys = (some_keys){t->sequence, t->range.first + first, NULL, count};
  find_tokens(run, run->arguments->k, hr_decode_cache_bytes(run->problem), &run->plan->k, &block->keys, block->at);
}

static hr_split_rows k_rows(const score_task *t, const score_keys *block, int64_t head)
{
  const hr_decode *d = t->run->problem;
  int64_t element = (int64_t)hr_decode_cache_bytes(d);
  return (hr_split_rows){block->at, (t->first_head + head) * t->run->plan->k.head * element, d->qk_dim * element,
                         block->keys.count, NULL};
}

/* Products of a block with all heads of the task. The K rows of the next block are prefetched with the last head. */
static void score_block(const score_task *t, int64_t first, const score_keys *block, const score_keys *next)
{
  const hr_topk_plan *p = t->run->plan;
  const hr_topk_cut *c = &p->cut;
  const hr_decode *d = t->run->problem;
  hr_split_step step = {.dtype = p->format, .rows = c->k_rows, .q_len = d->q_len, .dim = d->qk_dim};
  step.s = floats_at(t->slot, c->s), step.scratch = floats_at(t->slot, c->scratch);
  for (int64_t i = 0; i < t->heads; i++) {
    int64_t head = t->first_head + i;
    step.q = floats_at(t->slot, c->q) + i * c->k_rows * c->q_pitch;
    step.from = k_rows(t, block, i);
    step.ahead = i + 1 < t->heads ? k_rows(t, block, i + 1) : k_rows(t, next, 0);
    p->version->multiply(&step);
    if (p->quantized)
      scale_keys(t->run, t->run->arguments->k_scales, &p->k_scales, head, &block->keys, &step);
    float *to = scores_of(t->run, t->sequence, head * (d->q_heads / d->k_heads), 0) + first;
    for (int64_t row = 0; row < c->k_rows; row++)
      memcpy(to + row * c->pitch, step.s + row * BLOCK, (size_t)block->keys.count * sizeof(float));
  }
}

void hr_topk_score(const hr_topk_run *run, int64_t index, int thread)
{
  const hr_topk_cut *c = &run->plan->cut;
  score_task t = {.run = run, .slot = run->workspace + (size_t)thread * c->slot_bytes};
  t.sequence = index / c->splits / c->groups;
  t.first_head = index / c->splits % c->groups * c->heads;
  t.heads = hr_min64(c->heads, run->problem->k_heads - t.first_head);
  t.range = hr_decode_range(run->problem, hr_decode_length(run->problem, run->arguments, t.sequence));
  int64_t at = index % c->splits * c->keys, end = hr_min64(at + c->keys, t.range.end - t.range.first);
  score_keys blocks[2];
  if (at >= end)
    return;
  load_queries(&t);
  find_keys(&t, at, end, &blocks[0]);
  for (int now = 0; at < end; at += BLOCK, now = !now) {
    find_keys(&t, at + BLOCK, end, &blocks[!now]);
    score_block(&t, at, &blocks[now], &blocks[!now]);
  }
}

/* ---- the choice, and the chosen V ---- */

/* The keys whose V counts: places from the first visible key on. */
static int64_t choose(const hr_topk_run *run, char *slot, const float *scores, int64_t count)
{
  const hr_topk_cut *c = &run->plan->cut;
  int32_t *places = (int32_t *)(void *)(slot + c->places);
  int64_t chosen = hr_min64(run->problem->top_k, count);
  const hr_topk_scratch scratch = {(uint64_t *)(void *)(slot + c->bits), (uint32_t *)(void *)(slot + c->keys_at)};
  if (chosen < count)
    hr_topk_choose(run->plan->version, scores, count, chosen, &scratch, places);
  else
    for (int64_t i = 0; i < count; i++)
      places[i] = (int32_t)i;
  return chosen;
}

/* A query row. */
typedef struct gather_task {
  const hr_topk_run *run;
  char *slot;
  int64_t sequence, head, query;
  hr_key_range seen;
} gather_task;

static int64_t v_head(const gather_task *t)
{
  return t->head / (t->run->problem->q_heads / t->run->problem->v_heads);
}

/* The chosen keys from number `first` on. */
static some_keys chosen_keys(const gather_task *t, int64_t first, int64_t chosen)
{
  const int32_t *places = (const int32_t *)(void *)(t->slot + t->run->plan->cut.places);
  return (some_keys){t->sequence, t->seen.first, places + first, (int)hr_max64(0, hr_min64(BLOCK, chosen - first))};
}

static hr_split_rows v_rows(const gather_task *t, const char **at, int64_t first, int64_t chosen)
{
  const hr_decode *d = t->run->problem;
  const hr_topk_plan *p = t->run->plan;
  size_t element = hr_decode_cache_bytes(d);
  some_keys keys = chosen_keys(t, first, chosen);
  find_tokens(t->run, t->run->arguments->v, element, &p->v, &keys, at);
  return (hr_split_rows){at, v_head(t) * p->v.head * (int64_t)element, d->v_dim * (int64_t)element, keys.count, NULL};
}

/* Softmax and P·V of a block of chosen keys. */
static void add_block(const gather_task *t, const float *scores, const some_keys *block, hr_split_step *step)
{
  const hr_topk_plan *p = t->run->plan;
  int keys = block->count, first = 0;
  step->first = &first, step->end = &keys;
  memset(step->s, 0, BLOCK * sizeof(float));
  for (int i = 0; i < keys; i++)
    step->s[i] = scores[block->places[i]];
  p->version->online_softmax(step, &p->scores);
  if (p->quantized)
    scale_keys(t->run, t->run->arguments->v_scales, &p->v_scales, v_head(t), block, step);
  p->version->add_values(step);
}

static void add_chosen(const gather_task *t, const float *scores, int64_t chosen, float *base, float *total)
{
  const hr_topk_cut *c = &t->run->plan->cut;
  const char *rows[2][BLOCK];
  float factor;
  hr_split_step step = {.dtype = t->run->plan->format, .rows = 1, .q_len = 1, .dim = t->run->problem->v_dim};
  step.s = floats_at(t->slot, c->p), step.o = floats_at(t->slot, c->o);
  step.base = base, step.total = total, step.factor = &factor;
  step.scratch = floats_at(t->slot, c->scratch);
  hr_split_rows next = v_rows(t, rows[0], 0, chosen);
  for (int64_t first = 0; first < chosen; first += BLOCK) {
    some_keys block = chosen_keys(t, first, chosen);
    step.from = next;
    next = step.ahead = v_rows(t, rows[first / BLOCK % 2 == 0], first + BLOCK, chosen);
    add_block(t, scores, &block, &step);
  }
}

void hr_topk_gather(const hr_topk_run *run, int64_t index, int thread)
{
  const hr_topk_cut *c = &run->plan->cut;
  const hr_decode *d = run->problem;
  gather_task t = {.run = run, .slot = run->workspace + (size_t)thread * c->slot_bytes};
  t.query = index % d->q_len, t.head = index / d->q_len % d->q_heads, t.sequence = index / d->q_len / d->q_heads;
  int64_t length = hr_decode_length(d, run->arguments, t.sequence);
  t.seen = hr_decode_visible(d, length, t.query);
  int64_t count = hr_max64(0, t.seen.end - t.seen.first);
  float base = -(float)INFINITY, total = 0;
  const float *scores = scores_of(run, t.sequence, t.head, t.query) + (t.seen.first - hr_decode_range(d, length).first);
  memset(floats_at(t.slot, c->o), 0, (size_t)c->o_pitch * sizeof(float));
  if (count > 0)
    add_chosen(&t, scores, choose(run, t.slot, scores, count), &base, &total);
  const hr_split_row row = {.sequence = t.sequence,
                            .head = t.head,
                            .query = t.query,
                            .base = base,
                            .total = total,
                            .in_order = run->plan->quantized,
                            .o = floats_at(t.slot, c->o)};
  hr_split_finish_row(run->plan->version, d, run->arguments, &row);
}
