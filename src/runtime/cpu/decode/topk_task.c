/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checked.h"
#include "runtime/cpu/decode/task.h"
#include "runtime/cpu/decode/topk.h"
#include "runtime/cpu/decode/topk_choose.h"

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

/* Addresses of head 0 of tokens `first` and on; `places`: of tokens first + places[i]. */
static void find_tokens(const hr_topk_run *run, const void *cache, const hr_kv_strides *strides, int64_t sequence,
                        int64_t first, const int32_t *places, int count, const char **to)
{
  const hr_decode *d = run->problem;
  size_t element = hr_dtype_bytes(d->dtype);
  uint32_t size = (uint32_t)d->page_size, known = UINT32_MAX;
  const char *page_start = NULL;
  for (int i = 0; i < count; i++) {
    uint32_t token = (uint32_t)(first + (places ? places[i] : i)), page = token / size;
    if (page != known) {
      int64_t at = hr_decode_page(d, run->arguments, sequence, token) * strides->page;
      page_start = (const char *)cache + (size_t)at * element;
      known = page;
    }
    to[i] = page_start + (size_t)((token - page * size) * strides->token) * element;
  }
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
      p->version->load(d->dtype, false, from, d->qk_dim, to);
      for (int64_t i = 0; p->negated && i < p->cut.q_pitch; i++)
        to[i] = -to[i];
    }
}

static hr_split_rows k_rows(const score_task *t, const char *const *at, int keys, int64_t head)
{
  const hr_decode *d = t->run->problem;
  int64_t element = (int64_t)hr_dtype_bytes(d->dtype);
  return (hr_split_rows){at, (t->first_head + head) * t->run->plan->k.head * element, d->qk_dim * element, keys};
}

/* Products of a block with all heads of the task. `next`: K rows of the block behind, prefetched with the last head. */
static void score_block(const score_task *t, int64_t first, const char *const *at, int keys, const char *const *next,
                        int next_keys)
{
  const hr_topk_cut *c = &t->run->plan->cut;
  const hr_decode *d = t->run->problem;
  hr_split_step step = {.dtype = d->dtype, .rows = c->k_rows, .q_len = d->q_len, .dim = d->qk_dim};
  step.s = floats_at(t->slot, c->s), step.scratch = floats_at(t->slot, c->scratch);
  for (int64_t head = 0; head < t->heads; head++) {
    step.q = floats_at(t->slot, c->q) + head * c->k_rows * c->q_pitch;
    step.from = k_rows(t, at, keys, head);
    step.ahead = head + 1 < t->heads ? k_rows(t, at, keys, head + 1) : k_rows(t, next, next_keys, 0);
    t->run->plan->version->multiply(&step);
    float *to = scores_of(t->run, t->sequence, (t->first_head + head) * (d->q_heads / d->k_heads), 0) + first;
    for (int64_t row = 0; row < c->k_rows; row++)
      memcpy(to + row * c->pitch, step.s + row * BLOCK, (size_t)keys * sizeof(float));
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
  const char *rows[2][BLOCK];
  if (at >= end)
    return;
  load_queries(&t);
  int now = 0, keys = (int)hr_min64(BLOCK, end - at);
  find_tokens(run, run->arguments->k, &run->plan->k, t.sequence, t.range.first + at, NULL, keys, rows[0]);
  while (keys > 0) {
    int next = (int)hr_min64(BLOCK, end - at - keys);
    find_tokens(run, run->arguments->k, &run->plan->k, t.sequence, t.range.first + at + keys, NULL, next, rows[!now]);
    score_block(&t, at, rows[now], keys, rows[!now], next);
    at += keys;
    keys = next;
    now = !now;
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

static hr_split_rows v_rows(const gather_task *t, const char **at, int64_t first, int64_t chosen)
{
  const hr_decode *d = t->run->problem;
  const hr_topk_plan *p = t->run->plan;
  int64_t element = (int64_t)hr_dtype_bytes(d->dtype), v_head = t->head / (d->q_heads / d->v_heads);
  int keys = (int)hr_max64(0, hr_min64(BLOCK, chosen - first));
  const int32_t *places = (const int32_t *)(void *)(t->slot + p->cut.places);
  find_tokens(t->run, t->run->arguments->v, &p->v, t->sequence, t->seen.first, places + first, keys, at);
  return (hr_split_rows){at, v_head * p->v.head * element, d->v_dim * element, keys};
}

/* Softmax and P·V of a block of chosen keys. */
static void add_block(const gather_task *t, const float *scores, const int32_t *places, hr_split_step *step)
{
  const hr_split_version *version = t->run->plan->version;
  int keys = step->from.keys, first = 0;
  step->first = &first, step->end = &keys;
  memset(step->s, 0, BLOCK * sizeof(float));
  for (int i = 0; i < keys; i++)
    step->s[i] = scores[places[i]];
  version->online_softmax(step, &t->run->plan->scores);
  version->add_values(step);
}

static void add_chosen(const gather_task *t, const float *scores, int64_t chosen, float *base, float *total)
{
  const hr_topk_cut *c = &t->run->plan->cut;
  const int32_t *places = (const int32_t *)(void *)(t->slot + c->places);
  const char *rows[2][BLOCK];
  float factor;
  hr_split_step step = {.dtype = t->run->problem->dtype, .rows = 1, .q_len = 1, .dim = t->run->problem->v_dim};
  step.s = floats_at(t->slot, c->p), step.o = floats_at(t->slot, c->o);
  step.base = base, step.total = total, step.factor = &factor;
  step.scratch = floats_at(t->slot, c->scratch);
  hr_split_rows next = v_rows(t, rows[0], 0, chosen);
  for (int64_t first = 0; first < chosen; first += BLOCK) {
    step.from = next;
    next = step.ahead = v_rows(t, rows[first / BLOCK % 2 == 0], first + BLOCK, chosen);
    add_block(t, scores, places + first, &step);
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
                            .o = floats_at(t.slot, c->o)};
  hr_split_finish_row(run->plan->version, d, run->arguments, &row);
}
