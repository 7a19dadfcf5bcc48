/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checked.h"
#include "runtime/device/plan.h"
#include "runtime/operation/attention_sequences.h"
#include "runtime/reference/reference.h"
#include "shape/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

size_t hr_reference_attention_scratch(const hr_attention *attention)
{
  return (size_t)attention->kv_len + (size_t)attention->qk_dim + (size_t)hr_max64(attention->qk_dim, attention->v_dim);
}

/* The computation of one query. */
typedef struct query_row {
  const hr_attention *t;
  hr_sequence sequence;
  hr_key_range keys;
  int64_t position; /* of the query among the keys */
  double slope;     /* of ALiBi; 0 without it */
  double scale;     /* of scores, with those of the heads of Q and K */
  double v_scale;
  double *scores, *q_row, *kv_row;
} query_row;

/* The score of one key: scale · q · K[j], soft cap, ALiBi. *norm becomes the largest norm of the keys so far. */
static double score(const query_row *x, int64_t key, double *norm)
{
  const hr_attention *t = x->t;
  double scale = x->scale, sum = 0, squares = 0;
  for (int64_t d = 0; d < t->qk_dim; d++) {
    double product = x->q_row[d] * x->kv_row[d];
    sum += product;
    squares += product * product;
  }
  *norm = fmax(*norm, fabs(scale) * sqrt(squares));
  double s = scale * sum;
  if (t->softcap > 0)
    s = (double)t->softcap * tanh(s / (double)t->softcap);
  return t->alibi ? s + x->slope * (double)(key - x->position) : s;
}

/* Fills scores[j − first] and returns the largest, ignoring NaN. */
static double score_row(const query_row *x, int64_t head, hr_reference_query *row)
{
  const hr_attention *t = x->t;
  hr_strides strides = hr_attention_strides(t, HR_OPERAND_K);
  int64_t k_head = head / (t->q_heads / t->k_heads);
  double largest = -(double)INFINITY;
  for (int64_t j = x->keys.first; j < x->keys.end; j++) {
    size_t at = (size_t)(j * strides.row + k_head * strides.head);
    hr_numbers_load(t->dtype, x->sequence.k, at, (size_t)t->qk_dim, x->kv_row);
    double s = score(x, j, &row->score_norm);
    x->scores[j - x->keys.first] = s;
    largest = fmax(largest, s);
    if (s != -(double)INFINITY)
      row->largest = fmax(row->largest, fabs(s));
  }
  return largest;
}

static void add_values(const query_row *x, int64_t head, double total, hr_reference_query *row)
{
  const hr_attention *t = x->t;
  hr_strides strides = hr_attention_strides(t, HR_OPERAND_V);
  int64_t v_head = head / (t->q_heads / t->v_heads);
  for (int64_t j = x->keys.first; j < x->keys.end; j++) {
    size_t at = (size_t)(j * strides.row + v_head * strides.head);
    hr_numbers_load(t->dtype, x->sequence.v, at, (size_t)t->v_dim, x->kv_row);
    double weight = x->scores[j - x->keys.first] / total * x->v_scale;
    for (int64_t d = 0; d < t->v_dim; d++)
      row->out[d] += weight * x->kv_row[d];
    for (int64_t d = 0; row->norm && d < t->v_dim; d++)
      row->norm[d] += weight * fabs(x->kv_row[d]);
  }
}

void hr_reference_attention_row(const hr_attention *t, const hr_attention_arguments *arguments, int64_t batch,
                                int64_t q, int64_t head, double *scratch, hr_reference_query *row)
{
  query_row x = {.t = t, .sequence = hr_attention_sequence(t, arguments, batch)};
  x.keys = hr_attention_visible(t, &x.sequence, q);
  x.position = q + x.sequence.kv_len - x.sequence.q_len;
  x.slope = t->alibi ? (double)arguments->alibi_slopes[head] : 0;
  x.scale = hr_attention_scale(t), x.v_scale = 1;
  if (t->head_scales) {
    x.scale *= (double)arguments->q_scales[head] * (double)arguments->k_scales[head / (t->q_heads / t->k_heads)];
    x.v_scale = (double)arguments->v_scales[head / (t->q_heads / t->v_heads)];
  }
  x.scores = scratch, x.q_row = x.scores + t->kv_len, x.kv_row = x.q_row + t->qk_dim;
  memset(row->out, 0, (size_t)t->v_dim * sizeof *row->out);
  if (row->norm)
    memset(row->norm, 0, (size_t)t->v_dim * sizeof *row->norm);
  row->largest = row->score_norm = 0;
  row->lse = -(double)INFINITY;
  if (x.keys.first >= x.keys.end)
    return;

  hr_strides strides = hr_attention_strides(t, HR_OPERAND_Q);
  hr_numbers_load(t->dtype, x.sequence.q, (size_t)(q * strides.row + head * strides.head), (size_t)t->qk_dim, x.q_row);
  double largest = score_row(&x, head, row), total = 0, shifted = 0;
  double shift =
      isinf(largest) ? 0 : largest; /* for the log-sum-exp, which is −inf rather than NaN if all scores are −inf */
  for (int64_t j = 0; j < x.keys.end - x.keys.first; j++) {
    shifted += exp(x.scores[j] - shift);
    x.scores[j] = exp(x.scores[j] - largest);
    total += x.scores[j];
  }
  row->lse = shift + log(shifted);
  add_values(&x, head, total, row);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  (void)device;
  (void)state;
  (void)error;
  const hr_attention *t = &problem->attention;
  *workspace_bytes = (hr_reference_attention_scratch(t) + (size_t)t->v_dim) * sizeof(double);
  return HR_OK;
}

static void run_query(const hr_attention *t, const hr_attention_arguments *arguments, int64_t batch, int64_t query,
                      int64_t head, double *scratch)
{
  hr_sequence s = hr_attention_sequence(t, arguments, batch);
  hr_strides strides = hr_attention_strides(t, HR_OPERAND_O);
  hr_reference_query row = {.out = scratch + hr_reference_attention_scratch(t)};
  hr_reference_attention_row(t, arguments, batch, query, head, scratch, &row);
  for (int64_t d = 0; d < t->v_dim; d++)
    hr_number_store(hr_attention_output_dtype(t), s.o, (size_t)(query * strides.row + head * strides.head + d),
                    row.out[d]);
  if (s.lse)
    s.lse[head * s.lse_head + query] = (float)row.lse;
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  (void)error;
  const hr_attention_arguments *arguments = run->arguments;
  (void)plan;
  const hr_attention *t = &run->problem->attention;
  for (int64_t batch = 0; batch < t->batch; batch++) {
    int64_t q_len = hr_attention_sequence(t, arguments, batch).q_len;
    for (int64_t query = 0; query < q_len; query++)
      for (int64_t head = 0; head < t->q_heads; head++)
        run_query(t, arguments, batch, query, head, run->workspace);
  }
  return HR_OK;
}

const hr_kernel_functions hr_kernel_attention_reference = {.prepare = prepare, .run = run};

/* The same as the CPU's last kernel. It refuses problems that would take minutes. */
#define NAIVE_MULTIPLY_ADDS_MAX ((int64_t)1 << 30)

static bool ends_in_seconds(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_attention *t = &problem->attention;
  int64_t entries = 0;
  if (hr_attention_entries(t, &entries) == HR_OK &&
      (double)entries * (double)(t->qk_dim + t->v_dim) * (double)t->q_heads * (double)t->batch <=
          (double)NAIVE_MULTIPLY_ADDS_MAX)
    return true;
  snprintf(why, why_size, "takes at most 2^30 multiply-adds, some seconds");
  return false;
}

const hr_kernel_functions hr_kernel_attention_naive = {.supports = ends_in_seconds, .prepare = prepare, .run = run};
