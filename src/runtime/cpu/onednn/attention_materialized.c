/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with all scores in memory: S = Q Kᵀ as one batched GEMM, softmax over its rows, O = P V as another. It
 * needs one matrix of q_len × kv_len for every head (two if P did not replace S), and shows where that no longer
 * fits. Masked scores are computed and discarded.
 *
 *     Q [batch, k_heads, q_heads / k_heads, q_len, qk_dim]
 *   × K [batch, k_heads, 1,                 qk_dim, kv_len]   transposed by strides, shared by the group
 *   → S [batch, q_heads, q_len, ld] fp32                     ld: kv_len rounded up to a cache line
 *   → P in place, in the operands' format
 *   × V [batch, v_heads, 1, kv_len, v_dim]
 *   → O
 *
 * Operands that oneDNN does not support are first copied as [batch, heads, length, dim], fp16 as fp32, and O is copied
 * out. Variable lengths are padded with zeros to the longest, as a batch is; that costs the memory and the time of
 * sequences that are all as long. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cpu/host/host.h"
#include "runtime/cpu/onednn/gemm.h"
#include "runtime/cpu/onednn/scores.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#define LINE 16 /* floats in a cache line */

typedef struct materialized {
  hr_scores scores;
  hr_onednn *onednn;
  hr_thread_pool *pool;
  int threads;
  hr_matmul *score, *value; /* NULL if there are no scores */
  int64_t ld;
  size_t scratch, q, k, v; /* byte offsets in the workspace; the scores are at 0, O replaces Q */
} materialized;

typedef struct operand {
  int64_t heads, rows, dim; /* of each sequence */
} operand;

static operand operand_of(const hr_attention *a, hr_attention_operand which)
{
  bool key = which == HR_OPERAND_K || which == HR_OPERAND_V;
  return (operand){.heads = which == HR_OPERAND_K   ? a->k_heads
                            : which == HR_OPERAND_V ? a->v_heads
                                                    : a->q_heads,
                   .rows = key ? a->kv_len : a->q_len,
                   .dim = which == HR_OPERAND_V || which == HR_OPERAND_O ? a->v_dim : a->qk_dim};
}

/* Heads in groups of `group`: each group shares one head of the other operand. */
static hr_tensor tensor_of(const materialized *m, hr_attention_operand which, int64_t group, bool transposed)
{
  const hr_attention *a = &m->scores.attention;
  operand o = operand_of(a, which);
  hr_strides s = hr_attention_strides(a, which);
  hr_dtype dtype = m->scores.factors;
  if (m->scores.packed) {
    s = (hr_strides){.batch = o.heads * o.rows * o.dim, .row = o.dim, .head = o.rows * o.dim};
    dtype = which == HR_OPERAND_O ? HR_FP32 : dtype;
  }
  int64_t rows = transposed ? o.dim : o.rows, columns = transposed ? o.rows : o.dim;
  return (hr_tensor){.dtype = dtype,
                     .rank = 5,
                     .sizes = {a->batch, o.heads / group, group, rows, columns},
                     .strides = {s.batch, s.head * group, s.head, transposed ? 1 : s.row, transposed ? s.row : 1}};
}

/* The scores, or the weights that replaced them. */
static hr_tensor scores_tensor(const materialized *m, int64_t groups, hr_dtype dtype)
{
  const hr_attention *a = &m->scores.attention;
  int64_t row = m->ld * (int64_t)(sizeof(float) / hr_dtype_bytes(dtype)), head = a->q_len * row;
  return (hr_tensor){.dtype = dtype,
                     .rank = 5,
                     .sizes = {a->batch, groups, a->q_heads / groups, a->q_len, a->kv_len},
                     .strides = {a->q_heads * head, a->q_heads / groups * head, head, row, 1}};
}

static void free_gemms(materialized *m)
{
  hr_matmul_free(m->score);
  hr_matmul_free(m->value);
  m->score = m->value = NULL;
}

/* Callback of hr_scores_choose_operands(). */
static hr_status create_gemms(void *kernel, hr_error *error)
{
  materialized *m = kernel;
  const hr_attention *a = &m->scores.attention;
  const hr_tensor first[3] = {tensor_of(m, HR_OPERAND_Q, a->q_heads / a->k_heads, false),
                              tensor_of(m, HR_OPERAND_K, 1, true), scores_tensor(m, a->k_heads, HR_FP32)};
  const hr_tensor second[3] = {scores_tensor(m, a->v_heads, m->scores.factors), tensor_of(m, HR_OPERAND_V, 1, false),
                               tensor_of(m, HR_OPERAND_O, a->q_heads / a->v_heads, false)};
  free_gemms(m);
  HR_TRY(hr_matmul_create(m->onednn, m->threads, first, &m->score, error));
  return hr_matmul_create(m->onednn, m->threads, second, &m->value, error);
}

/* ---- the workspace ---- */

static hr_checked64 operand_bytes(const hr_attention *a, hr_attention_operand which, size_t element)
{
  operand o = operand_of(a, which);
  return hr_times(hr_times(hr_times(hr_times(hr_checked(a->batch), o.heads), o.rows), o.dim), (int64_t)element);
}

static hr_status fit_no_memory(const hr_attention *a, hr_error *error)
{
  return hr_fail(error, HR_ERROR_OUT_OF_MEMORY,
                 "scores of %" PRId64 " × %" PRId64 " for %" PRId64 " heads do not fit into memory", a->q_len,
                 a->kv_len, a->q_heads);
}

static hr_status lay_out(materialized *m, hr_checked64 scores, size_t *workspace_bytes, hr_error *error)
{
  const hr_attention *a = &m->scores.attention;
  size_t first = hr_matmul_workspace_bytes(m->score), second = hr_matmul_workspace_bytes(m->value);
  hr_checked64 end = hr_checked(0);
  hr_place(&end, scores);
  m->scratch = hr_place(&end, hr_checked((int64_t)(first > second ? first : second)));
  if (m->scores.packed) {
    size_t element = hr_dtype_bytes(m->scores.factors);
    hr_checked64 q = operand_bytes(a, HR_OPERAND_Q, element), o = operand_bytes(a, HR_OPERAND_O, sizeof(float));
    m->q = hr_place(&end, hr_larger(q, o));
    m->k = hr_place(&end, operand_bytes(a, HR_OPERAND_K, element));
    m->v = hr_place(&end, operand_bytes(a, HR_OPERAND_V, element));
  }
  if (end.overflow)
    return fit_no_memory(a, error);
  *workspace_bytes = (size_t)end.value;
  return HR_OK;
}

static void release(void *state)
{
  free_gemms(state);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  const hr_cpu *cpu = hr_cpu_of(device);
  const hr_attention *a = &problem->attention;
  materialized *m = state;
  m->scores = hr_scores_make(a, &cpu->isa);
  HR_TRY(hr_onednn_of(device, &m->onednn, error));
  m->threads = device->threads;
  m->ld = hr_round_up(a->kv_len, LINE);
  hr_checked64 rows = hr_times(hr_times(hr_checked(a->batch), a->q_heads), a->q_len);
  hr_checked64 scores = hr_times(rows, m->ld * (int64_t)sizeof(float));
  bool overflow = scores.overflow; /* with variable lengths the padded copies are larger than the operands */
  for (hr_attention_operand which = HR_OPERAND_Q; which <= HR_OPERAND_O; which++)
    overflow = overflow || operand_bytes(a, which, sizeof(float)).overflow;
  if (overflow)
    return fit_no_memory(a, error);
  HR_TRY(hr_cpu_thread_pool(device, &m->pool, error));
  if (scores.value == 0)
    return HR_OK;
  HR_TRY(hr_scores_choose_operands(&m->scores, create_gemms, m, error));
  return lay_out(m, scores, workspace_bytes, error);
}

static void describe(const void *state, char *text, size_t size)
{
  const materialized *m = state;
  snprintf(text, size, "%s", hr_scores_describe_operands(&m->scores));
}

/* ---- the run ---- */

/* One pass over heads or rows, which threads draw from a counter. */
typedef struct pass {
  const materialized *m;
  const hr_attention_arguments *arguments;
  char *workspace;
  atomic_int_fast64_t next;
} pass;

/* Index: of all heads of Q, then K, then V. */
static void pack_head(const pass *w, hr_attention_operand which, int64_t index, size_t place)
{
  const materialized *m = w->m;
  const hr_attention *a = &m->scores.attention;
  operand o = operand_of(a, which);
  hr_sequence s = hr_attention_sequence(a, w->arguments, index / o.heads);
  int64_t rows = which == HR_OPERAND_Q ? s.q_len : s.kv_len;
  size_t bytes = (size_t)(o.rows * o.dim) * hr_dtype_bytes(m->scores.factors);
  hr_scores_pack(&m->scores, hr_scores_row(&m->scores, which, &s, index % o.heads, 0),
                 hr_attention_strides(a, which).row, o.dim, rows, o.rows, w->workspace + place + (size_t)index * bytes);
}

static void pack_heads(void *context, int member)
{
  (void)member;
  pass *w = context;
  const hr_attention *a = &w->m->scores.attention;
  int64_t q = a->batch * a->q_heads, k = q + a->batch * a->k_heads, v = k + a->batch * a->v_heads, index;
  while ((index = atomic_fetch_add(&w->next, 1)) < v) {
    if (index < q)
      pack_head(w, HR_OPERAND_Q, index, w->m->q);
    else if (index < k)
      pack_head(w, HR_OPERAND_K, index - q, w->m->k);
    else
      pack_head(w, HR_OPERAND_V, index - k, w->m->v);
  }
}

typedef void (*row_fn)(const pass *w, const hr_sequence *sequence, int64_t head, int64_t query, int64_t row);

#define ROWS_AT_A_TIME 16

/* `row` counts over [batch, q_heads, q_len]; queries beyond a shorter sequence's end are skipped. */
static inline __attribute__((always_inline)) void for_rows(pass *w, row_fn work)
{
  const hr_attention *a = &w->m->scores.attention;
  int64_t count = a->batch * a->q_heads * a->q_len, first;
  while ((first = atomic_fetch_add(&w->next, ROWS_AT_A_TIME)) < count) {
    for (int64_t row = first; row < hr_min64(count, first + ROWS_AT_A_TIME); row++) {
      int64_t query = row % a->q_len, head = row / a->q_len % a->q_heads;
      hr_sequence s = hr_attention_sequence(a, w->arguments, row / a->q_len / a->q_heads);
      if (query < s.q_len)
        work(w, &s, head, query, row);
    }
  }
}

static void softmax_row(const pass *w, const hr_sequence *sequence, int64_t head, int64_t query, int64_t row)
{
  const materialized *m = w->m;
  float *scores = (float *)(void *)w->workspace + row * m->ld;
  hr_scores_softmax(&m->scores, w->arguments, sequence, head, query, scores, m->scores.attention.kv_len, true);
}

static void write_row(const pass *w, const hr_sequence *sequence, int64_t head, int64_t query, int64_t row)
{
  const materialized *m = w->m;
  const hr_attention *a = &m->scores.attention;
  hr_key_range seen = hr_attention_visible(a, sequence, query);
  const float *from = (const float *)(const void *)(w->workspace + m->q) + row * a->v_dim;
  hr_scores_write(&m->scores, sequence, head, query, from, seen.first < seen.end ? 1 : 0);
}

/* 0 · NaN and 0 · inf of V have made NaN of a masked row. */
static void clear_masked_row(const pass *w, const hr_sequence *sequence, int64_t head, int64_t query, int64_t row)
{
  (void)row;
  hr_key_range seen = hr_attention_visible(&w->m->scores.attention, sequence, query);
  if (seen.first >= seen.end)
    hr_scores_write_masked(&w->m->scores, sequence, head, query);
}

static void write_masked_row(const pass *w, const hr_sequence *sequence, int64_t head, int64_t query, int64_t row)
{
  (void)row;
  hr_scores_write_masked(&w->m->scores, sequence, head, query);
}

static void softmax_rows(void *context, int member)
{
  (void)member;
  for_rows(context, softmax_row);
}

static void write_rows(void *context, int member)
{
  (void)member;
  for_rows(context, write_row);
}

static void clear_masked_rows(void *context, int member)
{
  (void)member;
  for_rows(context, clear_masked_row);
}

static void write_masked_rows(void *context, int member)
{
  (void)member;
  for_rows(context, write_masked_row);
}

static void run_pass(const materialized *m, const hr_attention_arguments *x, void *workspace, hr_thread_pool_fn work)
{
  pass w = {.m = m, .arguments = x, .workspace = workspace};
  hr_thread_pool_run(m->pool, work, &w);
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const materialized *m = plan->state;
  const hr_attention_arguments *x = run->arguments;
  const hr_attention *a = &m->scores.attention;
  const bool packed = m->scores.packed;
  char *memory = run->workspace;
  if (!m->score) {
    run_pass(m, x, memory, write_masked_rows);
    return HR_OK;
  }
  if (packed)
    run_pass(m, x, memory, pack_heads);
  const void *q = packed ? memory + m->q : x->q, *k = packed ? memory + m->k : x->k;
  const void *v = packed ? memory + m->v : x->v;
  void *o = packed ? memory + m->q : x->o;
  HR_TRY(hr_matmul_run(m->score, q, k, memory, memory + m->scratch, error));
  run_pass(m, x, memory, softmax_rows);
  HR_TRY(hr_matmul_run(m->value, memory, v, o, memory + m->scratch, error));
  if (packed)
    run_pass(m, x, memory, write_rows);
  else if (a->first_keys || (a->mask == HR_MASK_CAUSAL && a->q_len > a->kv_len)) /* a row may be fully masked */
    run_pass(m, x, memory, clear_masked_rows);
  return HR_OK;
}

const hr_kernel_functions hr_kernel_attention_materialized_onednn = {.state_bytes = sizeof(materialized),
                                                                     .prepare = prepare,
                                                                     .run = run,
                                                                     .whole = true,
                                                                     .release = release,
                                                                     .describe = describe};
