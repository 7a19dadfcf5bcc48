/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/plan.h"
#include "runtime/operation/attention_sequences.h"
#include "runtime/reference/reference.h"
#include "shape/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

size_t hr_reference_backward_scratch(const hr_attention *forward)
{
  return (size_t)(2 * forward->qk_dim + 3 * forward->v_dim);
}

/* A query head of a sequence, with the rows of a query and of a key. */
typedef struct head_rows {
  const hr_attention *t;
  hr_attention gradients; /* strides of dO as O's */
  hr_sequence of, to;     /* the operands, and the gradients and dO in their places */
  int64_t head, query, position;
  double scale, slope, lse;
  double *q, *o, *d_o, *k, *v;
  double delta, delta_norm;
  double least; /* whose rounding is that of any smaller number, of P and dS in the format */
} head_rows;

/* What query and key give: P, dS, and the norms that their errors are proportional to. */
typedef struct weight {
  double p, ds, p_norm, ds_norm;
} weight;

static void open_head(const hr_backward *b, const hr_attention_backward_arguments *x, int64_t batch, int64_t head,
                      double *scratch, head_rows *h)
{
  const hr_attention *t = &b->forward;
  const hr_attention_arguments operands = hr_backward_operands(x), gradients = hr_backward_gradient_operands(x);
  *h = (head_rows){.t = t, .gradients = hr_backward_gradients(b), .head = head, .scale = hr_attention_scale(t)};
  h->least = hr_dtype_rounding_error(t->dtype, 0) / hr_dtype_rounding(t->dtype);
  h->of = hr_attention_sequence(t, &operands, batch);
  h->to = hr_attention_sequence(&h->gradients, &gradients, batch);
  h->slope = t->alibi ? (double)x->alibi_slopes[head] : 0;
  h->q = scratch, h->k = h->q + t->qk_dim, h->v = h->k + t->qk_dim, h->o = h->v + t->v_dim, h->d_o = h->o + t->v_dim;
}

static void load(const hr_attention *t, hr_attention_operand which, const void *from, int64_t token, int64_t head,
                 double *to)
{
  hr_strides s = hr_attention_strides(t, which);
  bool narrow = which == HR_OPERAND_V || which == HR_OPERAND_O;
  hr_numbers_load(t->dtype, from, (size_t)(token * s.row + head * s.head), (size_t)(narrow ? t->v_dim : t->qk_dim), to);
}

static void load_query(head_rows *h, int64_t query)
{
  const hr_attention *t = h->t;
  double squares = 0;
  load(t, HR_OPERAND_Q, h->of.q, query, h->head, h->q);
  load(t, HR_OPERAND_O, h->of.o, query, h->head, h->o);
  load(&h->gradients, HR_OPERAND_O, h->to.o, query, h->head, h->d_o);
  h->query = query;
  h->position = query + h->of.kv_len - h->of.q_len;
  /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): gradients need an LSE */
  h->lse = (double)h->of.lse[h->head * h->of.lse_head + query];
  h->delta = 0;
  for (int64_t d = 0; d < t->v_dim; d++) {
    double product = h->d_o[d] * h->o[d];
    h->delta += product;
    squares += product * product;
  }
  h->delta_norm = sqrt(squares);
}

static void load_key(const head_rows *h, int64_t key)
{
  const hr_attention *t = h->t;
  load(t, HR_OPERAND_K, h->of.k, key, h->head / (t->q_heads / t->k_heads), h->k);
  load(t, HR_OPERAND_V, h->of.v, key, h->head / (t->q_heads / t->v_heads), h->v);
}

static double dot(const double *a, const double *b, int64_t count, double *norm)
{
  double sum = 0, squares = 0;
  for (int64_t d = 0; d < count; d++) {
    sum += a[d] * b[d];
    squares += a[d] * b[d] * a[d] * b[d];
  }
  *norm = sqrt(squares);
  return sum;
}

/* The score, and its derivative by scale · q · k in *slope. */
static double score(const head_rows *h, int64_t key, double *slope, hr_reference_query *row)
{
  const hr_attention *t = h->t;
  double norm, s = h->scale * dot(h->q, h->k, t->qk_dim, &norm);
  *slope = 1;
  if (t->softcap > 0) {
    double capped = tanh(s / (double)t->softcap);
    s = (double)t->softcap * capped;
    *slope = 1 - capped * capped;
  }
  if (t->alibi)
    s += h->slope * (double)(key - h->position);
  row->score_norm = fmax(row->score_norm, fabs(h->scale) * norm);
  row->largest = fmax(row->largest, fmax(fabs(s), fabs(h->lse)));
  return s;
}

/* Weighs the query and the key whose rows are loaded. */
static weight weigh(const head_rows *h, int64_t key, hr_reference_query *row)
{
  weight w = {0};
  double slope, norm, dp = dot(h->d_o, h->v, h->t->v_dim, &norm);
  if (h->lse == -(double)INFINITY)
    return w;
  w.p = exp(score(h, key, &slope, row) - h->lse);
  w.ds = w.p * (dp - h->delta) * slope;
  w.ds_norm = w.p * (norm + h->delta_norm + fabs(dp - h->delta)) + h->least;
  w.p_norm = w.p + h->least;
  return w;
}

static void clear(hr_reference_query *row, int64_t count)
{
  memset(row->out, 0, (size_t)count * sizeof *row->out);
  if (row->norm)
    memset(row->norm, 0, (size_t)count * sizeof *row->norm);
  row->largest = row->score_norm = row->lse = 0;
}

static void add(hr_reference_query *row, double factor, double norm, const double *values, int64_t count)
{
  for (int64_t d = 0; d < count; d++)
    row->out[d] += factor * values[d];
  for (int64_t d = 0; row->norm && d < count; d++)
    row->norm[d] += norm * fabs(values[d]);
}

void hr_reference_backward_dq(const hr_backward *b, const hr_attention_backward_arguments *x, hr_gradient_row at,
                              double *scratch, hr_reference_query *row)
{
  head_rows h;
  open_head(b, x, at.batch, at.head, scratch, &h);
  clear(row, h.t->qk_dim);
  hr_key_range keys = hr_attention_visible(h.t, &h.of, at.token);
  if (keys.first < keys.end)
    load_query(&h, at.token);
  for (int64_t j = keys.first; j < keys.end; j++) {
    load_key(&h, j);
    weight w = weigh(&h, j, row);
    add(row, h.scale * w.ds, fabs(h.scale) * w.ds_norm, h.k, h.t->qk_dim);
  }
}

/* Adds what the queries of one head that see a key give to its row of dK, or of dV. */
static void add_queries(const hr_backward *b, const hr_attention_backward_arguments *x, hr_gradient_row at,
                        hr_attention_operand which, double *scratch, hr_reference_query *row)
{
  head_rows h;
  open_head(b, x, at.batch, at.head, scratch, &h);
  load_key(&h, at.token);
  for (int64_t i = 0; i < h.of.q_len; i++) {
    hr_key_range keys = hr_attention_visible(h.t, &h.of, i);
    if (at.token < keys.first || at.token >= keys.end)
      continue;
    load_query(&h, i);
    weight w = weigh(&h, at.token, row);
    if (which == HR_OPERAND_K)
      add(row, h.scale * w.ds, fabs(h.scale) * w.ds_norm, h.q, h.t->qk_dim);
    else if (w.p != 0) /* 0 of a query that sees no key, whatever its dO contains */
      add(row, w.p, w.p_norm, h.d_o, h.t->v_dim);
  }
}

/* The same of all `group` query heads that read the K head, or the V head, of `at`. */
static void add_group(const hr_backward *b, const hr_attention_backward_arguments *x, hr_gradient_row at,
                      hr_attention_operand which, int64_t group, double *scratch, hr_reference_query *row)
{
  const int64_t first = at.head * group;
  clear(row, which == HR_OPERAND_K ? b->forward.qk_dim : b->forward.v_dim);
  for (at.head = first; at.head < first + group; at.head++)
    add_queries(b, x, at, which, scratch, row);
}

void hr_reference_backward_dk(const hr_backward *b, const hr_attention_backward_arguments *x, hr_gradient_row at,
                              double *scratch, hr_reference_query *row)
{
  add_group(b, x, at, HR_OPERAND_K, b->forward.q_heads / b->forward.k_heads, scratch, row);
}

void hr_reference_backward_dv(const hr_backward *b, const hr_attention_backward_arguments *x, hr_gradient_row at,
                              double *scratch, hr_reference_query *row)
{
  add_group(b, x, at, HR_OPERAND_V, b->forward.q_heads / b->forward.v_heads, scratch, row);
}

void hr_reference_backward_d_sinks(const hr_backward *b, const hr_attention_backward_arguments *x, hr_gradient_row at,
                                   double *scratch, hr_reference_query *row)
{
  head_rows h;
  clear(row, 1);
  for (int64_t batch = 0; batch < b->forward.batch; batch++) {
    open_head(b, x, batch, at.head, scratch, &h);
    for (int64_t i = 0; i < h.of.q_len; i++) {
      hr_key_range keys = hr_attention_visible(h.t, &h.of, i);
      if (keys.first >= keys.end)
        continue;
      load_query(&h, i);
      double p = exp((double)x->sinks[at.head] - h.lse);
      row->largest = fmax(row->largest, fmax(fabs(h.lse), fabs((double)x->sinks[at.head])));
      add(row, -p, p * h.delta_norm / fmax(fabs(h.delta), 1e-300), &h.delta, 1);
    }
  }
}

/* ---- the kernel ---- */

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  (void)device;
  (void)state;
  (void)error;
  const hr_attention *t = &problem->backward.forward;
  *workspace_bytes = (hr_reference_backward_scratch(t) + (size_t)(t->qk_dim + t->v_dim)) * sizeof(double);
  return HR_OK;
}

typedef void gradient(const hr_backward *b, const hr_attention_backward_arguments *x, hr_gradient_row at,
                      double *scratch, hr_reference_query *row);

/* Writes the gradient of one operand of a sequence. */
static void write(const hr_run *run, int64_t batch, hr_attention_operand which)
{
  static gradient *const gradients[] = {[HR_OPERAND_Q] = hr_reference_backward_dq,
                                        [HR_OPERAND_K] = hr_reference_backward_dk,
                                        [HR_OPERAND_V] = hr_reference_backward_dv};
  const hr_backward *b = &run->problem->backward;
  const hr_attention a = hr_backward_gradients(b);
  const hr_attention_arguments operands = hr_backward_gradient_operands(run->arguments);
  hr_sequence s = hr_attention_sequence(&a, &operands, batch);
  hr_strides strides = hr_attention_strides(&a, which);
  const void *const places[] = {[HR_OPERAND_Q] = s.q, [HR_OPERAND_K] = s.k, [HR_OPERAND_V] = s.v};
  const int64_t rows[] = {s.q_len, s.kv_len, s.kv_len}, heads[] = {a.q_heads, a.k_heads, a.v_heads};
  const int64_t dims[] = {a.qk_dim, a.qk_dim, a.v_dim};
  double *scratch = run->workspace;
  hr_reference_query row = {.out = scratch + hr_reference_backward_scratch(&a)};
  for (int64_t i = 0; i < rows[which] * heads[which]; i++) {
    hr_gradient_row at = {batch, i / heads[which], i % heads[which]};
    gradients[which](b, run->arguments, at, scratch, &row);
    for (int64_t d = 0; d < dims[which]; d++)
      hr_number_store(a.dtype, (void *)(uintptr_t)places[which],
                      (size_t)(at.token * strides.row + at.head * strides.head + d), row.out[d]);
  }
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  (void)plan;
  (void)error;
  const hr_backward *b = &run->problem->backward;
  const hr_attention_backward_arguments *x = run->arguments;
  for (int64_t batch = 0; batch < b->forward.batch; batch++)
    for (int which = HR_OPERAND_Q; which <= HR_OPERAND_V; which++)
      write(run, batch, (hr_attention_operand)which);
  for (int64_t head = 0; b->options.sinks && head < b->forward.q_heads; head++) {
    double sum;
    hr_reference_query row = {.out = &sum};
    hr_reference_backward_d_sinks(b, x, (hr_gradient_row){.head = head}, run->workspace, &row);
    x->d_sinks[head] = (float)sum;
  }
  return HR_OK;
}

const hr_kernel_functions hr_kernel_attention_backward_reference = {.prepare = prepare, .run = run};

/* The same as the CPU's last kernel. It refuses problems that would take minutes. */
#define NAIVE_MULTIPLY_ADDS_MAX ((int64_t)1 << 30)

static bool ends_in_seconds(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_attention *t = &problem->backward.forward;
  int64_t entries = 0;
  if (hr_attention_entries(t, &entries) == HR_OK &&
      6 * (double)entries * (double)(t->qk_dim + t->v_dim) * (double)t->q_heads * (double)t->batch <=
          (double)NAIVE_MULTIPLY_ADDS_MAX)
    return true;
  snprintf(why, why_size, "takes at most 2^30 multiply-adds, some seconds");
  return false;
}

const hr_kernel_functions hr_kernel_attention_backward_naive = {
    .supports = ends_in_seconds, .prepare = prepare, .run = run};
