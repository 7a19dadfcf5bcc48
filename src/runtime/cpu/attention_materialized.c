/* Attention with all scores in memory: S = Q Kᵀ as one batched product, a softmax over its rows, O = P V as another. Two
 * matrices of q × kv for every head is what it needs, one where P takes the place of S, as here; that it stops at the
 * memory's end is what it is there to show. Masked scores are computed and thrown away.
 *
 *     Q [batch, k_heads, q_heads / k_heads, q_len, qk_dim]
 *   × K [batch, k_heads, 1,                 qk_dim, kv_len]   read through its strides, shared by the group
 *   → S [batch, q_heads, q_len, ld] fp32                     ld: kv_len rounded up to a cache line
 *   → P in its place, in the operands' format
 *   × V [batch, v_heads, 1, kv_len, v_dim]
 *   → O */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cpu/onednn.h"
#include "runtime/cpu/scores.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LINE 16 /* floats in a cache line */

typedef struct materialized {
  hr_attention a;
  hr_scores scores;
  hr_team *team;
  hr_matmul *score, *value; /* NULL where there is nothing to multiply */
  int64_t ld;
  size_t scores_bytes;
} materialized;

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  if (problem->attention.variable_lengths) {
    snprintf(why, why_size,
             "takes one length for all sequences: oneDNN's products are made for their sizes beforehand");
    return false;
  }
  return true;
}

/* Matrices of rows × columns of an operand, `groups` heads of `heads` next to each other for each of the other
 * factor's. */
static hr_tensor operand(const hr_attention *a, hr_attention_operand which, int64_t heads, int64_t group, int64_t rows,
                         int64_t columns, bool transposed)
{
  hr_strides s = hr_attention_strides(a, which);
  hr_tensor t = {.dtype = a->dtype,
                 .rank = 5,
                 .sizes = {a->batch, heads / group, group, rows, columns},
                 .strides = {s.batch, s.head * group, s.head, transposed ? 1 : s.row, transposed ? s.row : 1}};
  return t;
}

/* The scores, or the weights that have taken their place. */
static hr_tensor scores_tensor(const materialized *m, int64_t groups, hr_dtype dtype)
{
  const hr_attention *a = &m->a;
  int64_t row = m->ld * (int64_t)(sizeof(float) / hr_dtype_bytes(dtype)), head = a->q_len * row;
  return (hr_tensor){.dtype = dtype,
                     .rank = 5,
                     .sizes = {a->batch, groups, a->q_heads / groups, a->q_len, a->kv_len},
                     .strides = {a->q_heads * head, a->q_heads / groups * head, head, row, 1}};
}

static hr_status make_products(materialized *m, const hr_cpu *cpu, int threads, hr_error *error)
{
  const hr_attention *a = &m->a;
  const hr_tensor first[3] = {operand(a, HR_OPERAND_Q, a->q_heads, a->q_heads / a->k_heads, a->q_len, a->qk_dim, false),
                              operand(a, HR_OPERAND_K, a->k_heads, 1, a->qk_dim, a->kv_len, true),
                              scores_tensor(m, a->k_heads, HR_FP32)};
  const hr_tensor second[3] = {
      scores_tensor(m, a->v_heads, m->scores.weights),
      operand(a, HR_OPERAND_V, a->v_heads, 1, a->kv_len, a->v_dim, false),
      operand(a, HR_OPERAND_O, a->q_heads, a->q_heads / a->v_heads, a->q_len, a->v_dim, false)};
  HR_TRY(hr_matmul_create(cpu->onednn, threads, first, &m->score, error));
  return hr_matmul_create(cpu->onednn, threads, second, &m->value, error);
}

static hr_status build(materialized *m, hr_device *device, size_t *workspace_bytes, hr_error *error)
{
  const hr_attention *a = &m->a;
  const hr_cpu *cpu = device->state;
  hr_checked64 rows = hr_times(hr_times(hr_checked(a->batch), a->q_heads), a->q_len);
  m->ld = hr_round_up(a->kv_len, LINE);
  hr_checked64 bytes = hr_times(rows, m->ld * (int64_t)sizeof(float));
  if (bytes.overflow)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY,
                   "scores of %" PRId64 " × %" PRId64 " for %" PRId64 " heads fit no memory", a->q_len, a->kv_len,
                   a->q_heads);
  HR_TRY(hr_cpu_team(device, &m->team, error));
  if (bytes.value == 0)
    return HR_OK;
  HR_TRY(make_products(m, cpu, device->threads, error));
  size_t first = hr_matmul_workspace_bytes(m->score), second = hr_matmul_workspace_bytes(m->value);
  m->scores_bytes = (size_t)hr_round_up(bytes.value, 64);
  *workspace_bytes = m->scores_bytes + (first > second ? first : second);
  return HR_OK;
}

static void release(void *state)
{
  materialized *m = state;
  if (!m)
    return;
  hr_matmul_free(m->score);
  hr_matmul_free(m->value);
  free(m);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void **state, size_t *workspace_bytes,
                         hr_error *error)
{
  const hr_cpu *cpu = device->state;
  materialized *m = calloc(1, sizeof *m);
  if (!m)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: no memory for a plan");
  m->a = problem->attention;
  m->scores = hr_scores_make(&m->a, &cpu->isa);
  *workspace_bytes = 0;
  hr_status status = build(m, device, workspace_bytes, error);
  if (status != HR_OK) {
    release(m);
    return status;
  }
  *state = m;
  return HR_OK;
}

/* The softmax of all rows, which members draw in turn. */
typedef struct rows {
  const materialized *m;
  const hr_attention_arguments *arguments;
  float *scores;
  atomic_int_fast64_t next;
} rows;

static void softmax_row(const rows *r, int64_t row)
{
  const hr_attention *a = &r->m->a;
  int64_t query = row % a->q_len, head = row / a->q_len % a->q_heads;
  const hr_score_row how = {.seen = hr_attention_visible(a, a->q_len, a->kv_len, query),
                            .slope = a->alibi ? r->arguments->alibi_slopes[head] : 0,
                            .position = query + a->kv_len - a->q_len};
  hr_score_sum sum = hr_scores_softmax(&r->m->scores, &how, r->scores + row * r->m->ld, a->kv_len, true);
  if (r->arguments->lse)
    r->arguments->lse[row] = sum.lse;
}

#define ROWS_AT_A_TIME 16

static void softmax_rows(void *context, int member)
{
  (void)member;
  rows *r = context;
  const hr_attention *a = &r->m->a;
  int64_t count = a->batch * a->q_heads * a->q_len, first;
  while ((first = atomic_fetch_add(&r->next, ROWS_AT_A_TIME)) < count) {
    for (int64_t row = first; row < hr_min64(count, first + ROWS_AT_A_TIME); row++)
      softmax_row(r, row);
  }
}

/* Without keys. */
static void write_nothing_seen(const hr_attention *a, const hr_attention_arguments *x)
{
  hr_strides s = hr_attention_strides(a, HR_OPERAND_O);
  size_t element = hr_dtype_bytes(a->dtype);
  for (int64_t row = 0; row < a->batch * a->q_len * a->q_heads; row++) {
    int64_t head = row % a->q_heads, query = row / a->q_heads % a->q_len, batch = row / a->q_heads / a->q_len;
    int64_t at = batch * s.batch + query * s.row + head * s.head;
    memset((char *)x->o + (size_t)at * element, 0, (size_t)a->v_dim * element);
    if (x->lse)
      x->lse[row] = -INFINITY;
  }
}

static hr_status run(const hr_plan *plan, const hr_attention_arguments *x, void *workspace, hr_error *error)
{
  const materialized *m = plan->state;
  if (!m->score) {
    write_nothing_seen(&m->a, x);
    return HR_OK;
  }
  void *scratch = (char *)workspace + m->scores_bytes;
  HR_TRY(hr_matmul_run(m->score, x->q, x->k, workspace, scratch, error));
  rows r = {.m = m, .arguments = x, .scores = workspace};
  hr_team_run(m->team, softmax_rows, &r);
  return hr_matmul_run(m->value, workspace, x->v, x->o, scratch, error);
}

const hr_kernel_functions hr_kernel_attention_materialized_onednn = {
    .supports = supports, .prepare = prepare, .run_attention = run, .release = release};
