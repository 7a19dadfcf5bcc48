/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of attention on the CPU: distributes items over the thread pool and iterates over keys and queries of an
 * item. The arithmetic is in the versions (gradients.h).
 *
 *   workspace: slots of the threads | delta [head][row] | dQ of each part of the keys [part][head][row], fp32
 *   phases:    delta of all queries; items; dQ as the sum of its parts; gradients of sinks */
#include "runtime/cpu/flash/gradients.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cpu/flash/plan.h"
#include "runtime/cpu/host/denormals.h"
#include "runtime/cpu/host/host.h"
#include "runtime/operation/attention_sequences.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Bytes from where a K or V head's part of a slot begins. */
typedef struct head_place {
  size_t transposed, panels, gradient, bytes;
} head_place;

typedef struct gradient_plan {
  const hr_gradient_version *version;
  hr_flash_scores scores;
  float scale;
  bool negate;                               /* Q of the scores: the scale is negative, and to_log2 is not */
  int64_t groups, q_group, k_group, v_group; /* heads of a group: no other reads its K and V heads */
  int64_t parts;                             /* of the keys */
  int64_t qk_words, v_words, qk_columns, v_columns;
  head_place k, v;         /* of one head */
  size_t k_heads, v_heads; /* bytes from the slot's start, and the next ones */
  size_t q_rows, do_rows, q_panels, do_panels, s, dp, ds, p_back, ds_back, slot_bytes;
  size_t delta, dq; /* bytes from the workspace's start */
  hr_thread_pool *pool;
} gradient_plan;

typedef struct gradient_run {
  const gradient_plan *kernel;
  const hr_attention *forward;
  hr_attention gradients; /* strides of dQ, dK, dV and dO */
  const hr_attention_backward_arguments *arguments;
  hr_attention_arguments operands, gradient_operands;
  char *workspace;
  int64_t rows; /* of Q */
  void (*item)(const struct gradient_run *run, int64_t index, char *slot);
  int64_t items;
  atomic_llong next;
} gradient_run;

/* A sequence: its operands, its gradients with dO, and its first row among all of Q. */
typedef struct opened {
  const gradient_run *run;
  hr_sequence of, to;
  int64_t row;
} opened;

static opened open_sequence(const gradient_run *run, int64_t batch)
{
  const hr_attention *t = run->forward;
  return (opened){.run = run,
                  .of = hr_attention_sequence(t, &run->operands, batch),
                  .to = hr_attention_sequence(&run->gradients, &run->gradient_operands, batch),
                  .row = t->variable_lengths ? run->arguments->q_offsets[batch] : batch * t->q_len};
}

static char *row_at(const hr_attention *t, hr_attention_operand which, const void *base, int64_t row, int64_t head)
{
  hr_strides s = hr_attention_strides(t, which);
  return (char *)(uintptr_t)base + (row * s.row + head * s.head) * (int64_t)hr_dtype_bytes(t->dtype);
}

static int64_t row_stride(const hr_attention *t, hr_attention_operand which)
{
  return hr_attention_strides(t, which).row * (int64_t)hr_dtype_bytes(t->dtype);
}

static float *delta_of(const opened *s, int64_t head)
{
  const gradient_run *run = s->run;
  return (float *)(void *)(run->workspace + run->kernel->delta) + head * run->rows + s->row;
}

static float *dq_of(const opened *s, int64_t part, int64_t head)
{
  const gradient_run *run = s->run;
  int64_t row = (part * run->forward->q_heads + head) * run->rows + s->row;
  return (float *)(void *)(run->workspace + run->kernel->dq) + row * run->kernel->qk_columns;
}

static float lse_of(const opened *s, int64_t head, int64_t query)
{
  return s->of.lse[head * s->of.lse_head + query];
}

/* Whether a query adds to any gradient. */
static bool is_live(const opened *s, int64_t head, int64_t query)
{
  hr_key_range keys = hr_attention_visible(s->run->forward, &s->of, query);
  return keys.first < keys.end && lse_of(s, head, query) != -(float)INFINITY;
}

/* ---- delta ---- */

static void delta_item(const gradient_run *run, int64_t index, char *slot)
{
  (void)slot;
  const hr_attention *t = run->forward;
  const opened s = open_sequence(run, index / t->q_heads);
  int64_t head = index % t->q_heads;
  float *delta = delta_of(&s, head);
  for (int64_t query = 0; query < s.of.q_len; query++)
    delta[query] = run->kernel->version->dot(t->dtype, row_at(t, HR_OPERAND_O, s.of.o, query, head),
                                             row_at(&run->gradients, HR_OPERAND_O, s.to.o, query, head), t->v_dim);
}

/* ---- blocks of keys ---- */

/* A block of keys of a group of heads. */
typedef struct block {
  opened s;
  char *slot;
  int64_t group, part;
  int64_t first_key;
  int keys;
} block;

static char *k_place(const block *b, int64_t head)
{
  const gradient_plan *f = b->s.run->kernel;
  return b->slot + f->k_heads + (size_t)(head % f->k_group) * f->k.bytes;
}

static char *v_place(const block *b, int64_t head)
{
  const gradient_plan *f = b->s.run->kernel;
  return b->slot + f->v_heads + (size_t)(head % f->v_group) * f->v.bytes;
}

static void begin_k(const block *b, int64_t head)
{
  const gradient_plan *f = b->s.run->kernel;
  const hr_attention *t = b->s.run->forward;
  const char *from = row_at(t, HR_OPERAND_K, b->s.of.k, b->first_key, head);
  char *place = k_place(b, head);
  int64_t stride = row_stride(t, HR_OPERAND_K);
  f->version->pack_transposed(t->dtype, from, stride, b->keys, t->qk_dim, place + f->k.transposed, f->qk_words);
  f->version->pack_panels(t->dtype, from, stride, b->keys, t->qk_dim, place + f->k.panels);
  memset(place + f->k.gradient, 0, (size_t)(b->keys * f->qk_columns) * sizeof(float));
}

static void begin_v(const block *b, int64_t head)
{
  const gradient_plan *f = b->s.run->kernel;
  const hr_attention *t = b->s.run->forward;
  char *place = v_place(b, head);
  f->version->pack_transposed(t->dtype, row_at(t, HR_OPERAND_V, b->s.of.v, b->first_key, head),
                              row_stride(t, HR_OPERAND_V), b->keys, t->v_dim, place + f->v.transposed, f->v_words);
  memset(place + f->v.gradient, 0, (size_t)(b->keys * f->v_columns) * sizeof(float));
}

static void finish_k(const block *b, int64_t head)
{
  const gradient_plan *f = b->s.run->kernel;
  const hr_attention *t = &b->s.run->gradients;
  const float *from = (const float *)(const void *)(k_place(b, head) + f->k.gradient);
  for (int key = 0; key < b->keys; key++)
    f->version->store(from + key * f->qk_columns, f->scale, t->qk_dim, t->dtype,
                      row_at(t, HR_OPERAND_K, b->s.to.k, b->first_key + key, head));
}

static void finish_v(const block *b, int64_t head)
{
  const gradient_plan *f = b->s.run->kernel;
  const hr_attention *t = &b->s.run->gradients;
  const float *from = (const float *)(const void *)(v_place(b, head) + f->v.gradient);
  for (int key = 0; key < b->keys; key++)
    f->version->store(from + key * f->v_columns, 1, t->v_dim, t->dtype,
                      row_at(t, HR_OPERAND_V, b->s.to.v, b->first_key + key, head));
}

/* Packs Q and dO of a tile's rows, from `query` on. */
static void pack_tile(const block *b, int64_t head, int64_t query, int rows)
{
  const gradient_run *run = b->s.run;
  const gradient_plan *f = run->kernel;
  const hr_attention *t = run->forward, *of_do = &run->gradients;
  const char *q = row_at(t, HR_OPERAND_Q, b->s.of.q, query, head);
  const char *d_o = row_at(of_do, HR_OPERAND_O, b->s.to.o, query, head);
  int64_t q_stride = row_stride(t, HR_OPERAND_Q), do_stride = row_stride(of_do, HR_OPERAND_O);
  for (int row = 0; row < rows; row++) {
    f->version->pack_rows(t->dtype, q + row * q_stride, t->qk_dim, f->negate,
                          b->slot + f->q_rows + 4 * row * f->qk_words, f->qk_words);
    f->version->pack_rows(t->dtype, d_o + row * do_stride, t->v_dim, false, b->slot + f->do_rows + 4 * row * f->v_words,
                          f->v_words);
  }
  f->version->pack_panels(t->dtype, q, q_stride, rows, t->qk_dim, b->slot + f->q_panels);
  f->version->pack_panels(t->dtype, d_o, do_stride, rows, t->v_dim, b->slot + f->do_panels);
}

static float *floats_at(char *place, size_t offset)
{
  return (float *)(void *)(place + offset);
}

/* What a tile reads and writes, but for its rows. */
static hr_gradient_tile tile_of(const block *b, int64_t head)
{
  const gradient_run *run = b->s.run;
  const gradient_plan *f = run->kernel;
  const hr_attention *t = run->forward;
  char *slot = b->slot, *k = k_place(b, head / (t->q_heads / t->k_heads)),
       *v = v_place(b, head / (t->q_heads / t->v_heads));
  return (hr_gradient_tile){.scores = &f->scores,
                            .keys = b->keys,
                            .qk_words = f->qk_words,
                            .v_words = f->v_words,
                            .qk_columns = f->qk_columns,
                            .v_columns = f->v_columns,
                            .q_rows = slot + f->q_rows,
                            .do_rows = slot + f->do_rows,
                            .q_panels = slot + f->q_panels,
                            .do_panels = slot + f->do_panels,
                            .k_panels = k + f->k.panels,
                            .k_transposed = k + f->k.transposed,
                            .v_transposed = v + f->v.transposed,
                            .slope = t->alibi ? run->arguments->alibi_slopes[head] : 0,
                            .s = floats_at(slot, f->s),
                            .dp = floats_at(slot, f->dp),
                            .ds = slot + f->ds,
                            .p_back = slot + f->p_back,
                            .ds_back = slot + f->ds_back,
                            .dk = floats_at(k, f->k.gradient),
                            .dv = floats_at(v, f->v.gradient)};
}

static void set_row(const block *b, int64_t head, int64_t query, hr_gradient_tile *tile, int row)
{
  const gradient_plan *f = b->s.run->kernel;
  hr_key_range keys = hr_attention_visible(b->s.run->forward, &b->s.of, query);
  tile->first[row] = (int32_t)(keys.first - b->first_key);
  tile->end[row] = (int32_t)(keys.end - b->first_key);
  tile->position[row] = (int32_t)(query + b->s.of.kv_len - b->s.of.q_len - b->first_key);
  tile->shift[row] = -lse_of(&b->s, head, query) / f->scores.unit;
  tile->delta[row] = delta_of(&b->s, head)[query];
}

/* Runs a tile of live queries from `query` on, unless none sees a key of the block; returns the query behind it. The
 * first row sees the first keys, the last row the last ones. */
static int64_t run_tile(const block *b, int64_t head, int64_t query, hr_gradient_tile *tile)
{
  const gradient_plan *f = b->s.run->kernel;
  int rows = 0;
  for (; rows < f->version->tile_rows && query + rows < b->s.of.q_len && is_live(&b->s, head, query + rows); rows++)
    set_row(b, head, query + rows, tile, rows);
  if (rows == 0)
    return query + 1;
  if (tile->first[0] < b->keys && tile->end[rows - 1] > 0) {
    pack_tile(b, head, query, rows);
    tile->rows = rows;
    tile->dq = dq_of(&b->s, b->part, head) + query * f->qk_columns;
    f->version->run_tile(tile);
  }
  return query + rows;
}

static void run_block(const block *b)
{
  const gradient_plan *f = b->s.run->kernel;
  for (int64_t head = b->group * f->k_group; head < (b->group + 1) * f->k_group; head++)
    begin_k(b, head);
  for (int64_t head = b->group * f->v_group; head < (b->group + 1) * f->v_group; head++)
    begin_v(b, head);
  for (int64_t head = b->group * f->q_group; head < (b->group + 1) * f->q_group; head++) {
    hr_gradient_tile tile = tile_of(b, head);
    for (int64_t query = 0; query < b->s.of.q_len;)
      query = run_tile(b, head, query, &tile);
  }
  for (int64_t head = b->group * f->k_group; head < (b->group + 1) * f->k_group; head++)
    finish_k(b, head);
  for (int64_t head = b->group * f->v_group; head < (b->group + 1) * f->v_group; head++)
    finish_v(b, head);
}

/* Every parts-th block of a sequence, so that causal parts are alike. */
static void block_item(const gradient_run *run, int64_t index, char *slot)
{
  const gradient_plan *f = run->kernel;
  block b = {.s = open_sequence(run, index / f->parts / f->groups),
             .slot = slot,
             .group = index / f->parts % f->groups,
             .part = index % f->parts};
  int64_t chunk = f->version->chunk;
  for (int64_t head = b.group * f->q_group; head < (b.group + 1) * f->q_group; head++)
    memset(dq_of(&b.s, b.part, head), 0, (size_t)(b.s.of.q_len * f->qk_columns) * sizeof(float));
  for (b.first_key = b.part * chunk; b.first_key < b.s.of.kv_len; b.first_key += f->parts * chunk) {
    b.keys = (int)hr_min64(chunk, b.s.of.kv_len - b.first_key);
    run_block(&b);
  }
}

/* ---- sums ---- */

static void add_part(const gradient_plan *f, float *sum, const float *part)
{
  for (int64_t d = 0; d < f->qk_columns; d++)
    sum[d] += part[d];
}

static void dq_item(const gradient_run *run, int64_t index, char *slot)
{
  (void)slot;
  const gradient_plan *f = run->kernel;
  const hr_attention *t = &run->gradients;
  const opened s = open_sequence(run, index / t->q_heads);
  int64_t head = index % t->q_heads;
  for (int64_t query = 0; query < s.of.q_len; query++) {
    float *sum = dq_of(&s, 0, head) + query * f->qk_columns;
    for (int64_t part = 1; part < f->parts; part++)
      add_part(f, sum, dq_of(&s, part, head) + query * f->qk_columns);
    f->version->store(sum, f->scale, t->qk_dim, t->dtype, row_at(t, HR_OPERAND_Q, s.to.q, query, head));
  }
}

static void sink_item(const gradient_run *run, int64_t head, char *slot)
{
  (void)slot;
  double sum = 0, sink = (double)run->arguments->sinks[head];
  for (int64_t batch = 0; batch < run->forward->batch; batch++) {
    const opened s = open_sequence(run, batch);
    const float *delta = delta_of(&s, head);
    for (int64_t query = 0; query < s.of.q_len; query++)
      if (is_live(&s, head, query))
        sum -= exp(sink - (double)lse_of(&s, head, query)) * (double)delta[query];
  }
  run->arguments->d_sinks[head] = (float)sum;
}

/* ---- plans and runs ---- */

static void work(void *context, int member)
{
  gradient_run *run = context;
  unsigned before = hr_cpu_flush_denormals();
  for (int64_t i; (i = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed)) < run->items;)
    run->item(run, i, run->workspace + (size_t)member * run->kernel->slot_bytes);
  hr_cpu_restore_denormals(before);
}

static void run_phase(gradient_run *run, void (*item)(const gradient_run *run, int64_t index, char *slot),
                      int64_t items)
{
  run->item = item;
  run->items = items;
  atomic_store(&run->next, 0);
  hr_thread_pool_run(run->kernel->pool, work, run);
}

static int64_t query_rows(const hr_attention *t)
{
  return t->variable_lengths ? t->q_total : t->batch * t->q_len;
}

static hr_status run_gradients(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  (void)error;
  const gradient_plan *f = plan->state;
  const hr_backward *b = &run->problem->backward;
  const hr_attention *t = &b->forward;
  gradient_run all = {.kernel = f,
                      .forward = t,
                      .gradients = hr_backward_gradients(b),
                      .arguments = run->arguments,
                      .operands = hr_backward_operands(run->arguments),
                      .gradient_operands = hr_backward_gradient_operands(run->arguments),
                      .workspace = run->workspace,
                      .rows = query_rows(t)};
  run_phase(&all, delta_item, t->batch * t->q_heads);
  run_phase(&all, block_item, t->batch * f->groups * f->parts);
  run_phase(&all, dq_item, t->batch * t->q_heads);
  if (b->options.sinks)
    run_phase(&all, sink_item, t->q_heads);
  return HR_OK;
}

/* The least number of parts with which the busiest thread has little more than its share of the items. */
static int64_t choose_parts(int64_t items, int64_t blocks, int64_t threads)
{
  int64_t parts = 1;
  while (parts < blocks && 8 * items * parts < 7 * hr_round_up(items * parts, threads))
    parts++;
  return parts;
}

static size_t place(size_t *end, int64_t bytes)
{
  size_t at = *end;
  *end += (size_t)hr_round_up(bytes, 64);
  return at;
}

/* A head's packed rows have `words` words, its gradient `columns` floats. */
static head_place place_head(const hr_gradient_version *version, int64_t words, int64_t columns, bool panels)
{
  head_place h = {.bytes = 0};
  h.transposed = place(&h.bytes, 4 * version->chunk * words);
  if (panels)
    h.panels = place(&h.bytes, 4 * hr_round_up(columns, version->lanes) * version->chunk / version->pair);
  h.gradient = place(&h.bytes, 4 * version->chunk * columns);
  return h;
}

static void lay_out(gradient_plan *f)
{
  const hr_gradient_version *version = f->version;
  const int64_t rows = version->tile_rows, chunk = version->chunk, pair = version->pair;
  size_t end = 0;
  f->k = place_head(version, f->qk_words, f->qk_columns, true);
  f->v = place_head(version, f->v_words, f->v_columns, false);
  f->k_heads = place(&end, f->k_group * (int64_t)f->k.bytes);
  f->v_heads = place(&end, f->v_group * (int64_t)f->v.bytes);
  f->q_rows = place(&end, 4 * rows * f->qk_words);
  f->do_rows = place(&end, 4 * rows * f->v_words);
  f->q_panels = place(&end, 4 * hr_round_up(f->qk_columns, version->lanes) * chunk / pair);
  f->do_panels = place(&end, 4 * hr_round_up(f->v_columns, version->lanes) * chunk / pair);
  f->s = place(&end, 4 * rows * chunk);
  f->dp = place(&end, 4 * rows * chunk);
  f->ds = place(&end, pair == 1 ? 0 : 4 * rows * chunk / pair);
  f->p_back = place(&end, 4 * rows * chunk / pair);
  f->ds_back = place(&end, 4 * rows * chunk / pair);
  f->slot_bytes = end + 64; /* so that two threads' slots share no cache line, whatever the workspace's alignment */
}

static void size_rows(const hr_attention *t, gradient_plan *f)
{
  const hr_gradient_version *version = f->version;
  f->qk_words = hr_round_up(hr_ceil_div(t->qk_dim, version->pair), version->depth_group);
  f->v_words = hr_round_up(hr_ceil_div(t->v_dim, version->pair), version->depth_group);
  f->qk_columns = hr_round_up(t->qk_dim, version->value_group);
  f->v_columns = hr_round_up(t->v_dim, version->value_group);
}

/* Weights are 2^((S − lse / unit) · to_log2). */
static hr_flash_scores score_rules(const hr_attention *t, float scale)
{
  hr_flash_scores scores = hr_flash_score_rules(t, scale);
  scores.add = 0;
  scores.least = -127 / scores.to_log2;
  return scores;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, const hr_gradient_version *version, void *state,
                         size_t *workspace_bytes, hr_error *error)
{
  const hr_attention *t = &problem->backward.forward;
  gradient_plan *f = state;
  HR_TRY(hr_cpu_thread_pool(device, &f->pool, error));
  f->version = version;
  f->scale = (float)hr_attention_scale(t);
  f->negate = f->scale < 0;
  f->scores = score_rules(t, fabsf(f->scale));
  f->groups = hr_flash_groups(t);
  f->q_group = t->q_heads / f->groups, f->k_group = t->k_heads / f->groups, f->v_group = t->v_heads / f->groups;
  f->parts = choose_parts(t->batch * f->groups, hr_ceil_div(t->kv_len, version->chunk), device->threads);
  size_rows(t, f);
  lay_out(f);
  *workspace_bytes = f->slot_bytes * (size_t)device->threads;
  f->delta = place(workspace_bytes, 4 * t->q_heads * query_rows(t));
  f->dq = place(workspace_bytes, 4 * f->parts * t->q_heads * query_rows(t) * f->qk_columns);
  return HR_OK;
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  return hr_flash_takes_lengths(&problem->backward.forward, why, why_size);
}

static void describe(const void *state, char *text, size_t size)
{
  const gradient_plan *f = state;
  snprintf(text, size, "%d keys by %d queries, keys in %" PRId64 " parts", f->version->chunk, f->version->tile_rows,
           f->parts);
}

#if !defined(__x86_64__) /* the rows are there, and say that the machine lacks what they need */
#define hr_gradients_avx2 hr_gradients_portable
#define hr_gradients_avx512 hr_gradients_portable
#define hr_gradients_avx512_bf16 hr_gradients_portable
#endif
#if !defined(__aarch64__)
#define hr_gradients_neon hr_gradients_portable
#endif

#define GRADIENT_KERNEL(name)                                                                                  \
  static hr_status prepare_##name(hr_device *device, const hr_problem *problem, void *state, size_t *size,     \
                                  hr_error *error)                                                             \
  {                                                                                                            \
    return prepare(device, problem, &hr_gradients_##name, state, size, error);                                 \
  }                                                                                                            \
  const hr_kernel_functions hr_kernel_attention_backward_flash_##name = {.state_bytes = sizeof(gradient_plan), \
                                                                         .supports = supports,                 \
                                                                         .prepare = prepare_##name,            \
                                                                         .run = run_gradients,                 \
                                                                         .describe = describe};

GRADIENT_KERNEL(portable)
GRADIENT_KERNEL(neon)
GRADIENT_KERNEL(avx2)
GRADIENT_KERNEL(avx512)
GRADIENT_KERNEL(avx512_bf16)
