/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of attention: rows of dQ, dK, dV and d_sinks. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/measure/checks.h"
#include "runtime/measure/error_bounds.h"
#include "runtime/operation/attention_sequences.h"
#include "shape/number.h"

#include <math.h>

enum { OUTPUT_DQ, OUTPUT_DK, OUTPUT_DV, OUTPUT_D_SINKS };

/* Log-sum-exps of scores that are all 0, so that weights are of the size that they have in use. */
static void make_lse(const hr_problem *problem, float *to)
{
  const hr_attention *a = &problem->backward.forward;
  const hr_sequence s = {.q_len = a->q_len, .kv_len = a->kv_len};
  for (int64_t i = 0; i < a->batch * a->q_heads * a->q_len; i++) {
    hr_key_range keys = hr_attention_visible(a, &s, i % a->q_len);
    to[i] = keys.first < keys.end ? logf((float)(keys.end - keys.first)) : -INFINITY;
  }
}

static void make_table(const hr_problem *problem, hr_operand_kind kind, uint64_t seed, size_t bytes, void *to)
{
  const hr_problem forward = hr_attention_problem(&problem->backward.forward);
  if (kind == HR_OPERAND_LSE)
    make_lse(problem, to);
  else if (kind == HR_OPERAND_SINKS)
    hr_numbers_uniform(HR_FP32, seed, 0, bytes / sizeof(float), to);
  else
    hr_check_attention.make_table(&forward, kind, seed, bytes, to);
}

static hr_status can_be_timed(const hr_problem *problem, hr_error *error)
{
  const hr_problem forward = hr_attention_problem(&problem->backward.forward);
  return hr_check_attention.can_be_timed(&forward, error);
}

static hr_sample sample(const hr_problem *problem, size_t output)
{
  const hr_attention *a = &problem->backward.forward;
  const int64_t products = 2 * (a->qk_dim + 2 * a->v_dim);
  const int64_t rows[] = {a->batch * a->q_len * a->q_heads, a->batch * a->kv_len * a->k_heads,
                          a->batch * a->kv_len * a->v_heads, a->q_heads};
  const int64_t dims[] = {a->qk_dim, a->qk_dim, a->v_dim, 1};
  const int64_t pairs[] = {a->kv_len, a->q_len * (a->q_heads / a->k_heads), a->q_len * (a->q_heads / a->v_heads),
                           a->batch * a->q_len};
  return hr_sample_of_rows(rows[output], dims[output], pairs[output] * products, hr_reference_backward_scratch(a));
}

static hr_gradient_row place_of(const hr_attention *a, size_t output, int64_t row)
{
  const int64_t heads[] = {a->q_heads, a->k_heads, a->v_heads, a->q_heads};
  const int64_t lengths[] = {a->q_len, a->kv_len, a->kv_len, 1};
  return (hr_gradient_row){row / heads[output] / lengths[output], row / heads[output] % lengths[output],
                           row % heads[output]};
}

static int64_t row_start(const hr_problem *problem, size_t output, int64_t row)
{
  const hr_attention a = hr_backward_gradients(&problem->backward);
  const hr_gradient_row at = place_of(&a, output, row);
  if (output == OUTPUT_D_SINKS)
    return row;
  hr_strides s = hr_attention_strides(&a, (hr_attention_operand)output); /* dQ, dK and dV are where Q, K and V are */
  return at.batch * s.batch + at.token * s.row + at.head * s.head;
}

static hr_status fetch(const hr_checked_range *range, hr_host_set *host, hr_error *error)
{
  int64_t start = row_start(&range->runner->problem, range->of->output, range->row);
  return hr_host_set_fetch_row(range->runner, host, range->of, start, error);
}

static void reference(const hr_checked_range *range, const hr_host_set *host, double *scratch,
                      hr_reference_query *query)
{
  const hr_runner *s = range->runner;
  const hr_backward *b = &s->problem.backward;
  const hr_gradient_row at = place_of(&b->forward, range->of->output, range->row);
  hr_arguments x = hr_problem_arguments(&s->problem, &s->operands, (hr_operand_addresses){host->operands, NULL});
  switch (range->of->output) {
  case OUTPUT_DQ: hr_reference_backward_dq(b, &x.backward, at, scratch, query); break;
  case OUTPUT_DK: hr_reference_backward_dk(b, &x.backward, at, scratch, query); break;
  case OUTPUT_DV: hr_reference_backward_dv(b, &x.backward, at, scratch, query); break;
  default:
    hr_reference_backward_d_sinks(b, &x.backward, at, scratch, query);
    query->out[0] = (double)(float)query->out[0]; /* its format, whatever the problem's */
  }
}

static double bound(const hr_plan *plan, const hr_reference_query *query, int64_t column)
{
  const hr_attention *a = &plan->problem.backward.forward;
  return hr_gradient_error_bound(a, query, column);
}

const hr_check hr_check_attention_backward = {.can_be_timed = can_be_timed,
                                              .make_table = make_table,
                                              .sample = sample,
                                              .row_start = row_start,
                                              .fetch = fetch,
                                              .reference = reference,
                                              .bound = bound};
