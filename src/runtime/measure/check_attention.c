/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/measure/checks.h"
#include "runtime/measure/error_bounds.h"

#include <inttypes.h>

#define DOCUMENTS 4 /* of a sequence */

/* Where the documents of a sequence begin. */
static void make_first_keys(const hr_attention *a, int32_t *to)
{
  for (int64_t i = 0; i < a->batch * a->q_len; i++) {
    int64_t own = hr_max64(0, i % a->q_len + a->kv_len - a->q_len), document = hr_ceil_div(a->kv_len, DOCUMENTS);
    to[i] = (int32_t)(own / hr_max64(1, document) * document);
  }
}

static void make_table(const hr_problem *problem, hr_operand_kind kind, uint64_t seed, size_t bytes, void *to)
{
  if (kind == HR_OPERAND_SLOPES)
    hr_attention_alibi_slopes(problem->attention.q_heads, to);
  else if (kind == HR_OPERAND_FIRST_KEYS)
    make_first_keys(&problem->attention, to);
  else
    hr_make_scales(HR_KV_FP8, seed, bytes / sizeof(float), to);
}

static hr_status can_be_timed(const hr_problem *problem, hr_error *error)
{
  const hr_attention *a = &problem->attention;
  if (a->variable_lengths)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "variable lengths are given at the run, and cannot be timed");
  if (a->q_len == 0 || a->kv_len == 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "q_len %" PRId64 " and kv_len %" PRId64 " give nothing to time",
                   a->q_len, a->kv_len);
  return HR_OK;
}

static hr_sample sample(const hr_problem *problem, size_t output)
{
  (void)output;
  const hr_attention *a = &problem->attention;
  return hr_sample_of_rows(a->batch * a->q_len * a->q_heads, a->v_dim, a->kv_len * (a->qk_dim + a->v_dim),
                           hr_reference_attention_scratch(a));
}

static int64_t row_start(const hr_problem *problem, size_t output, int64_t row)
{
  (void)output;
  const hr_attention *a = &problem->attention;
  return hr_query_start(hr_attention_strides(a, HR_OPERAND_O), a->q_len, a->q_heads, row);
}

static hr_status fetch(const hr_checked_range *range, hr_host_set *host, hr_error *error)
{
  int64_t start = row_start(&range->runner->problem, 0, range->row);
  return hr_host_set_fetch_row(range->runner, host, range->of, start, error);
}

static void reference(const hr_checked_range *range, const hr_host_set *host, double *scratch,
                      hr_reference_query *query)
{
  const hr_runner *s = range->runner;
  const hr_attention *a = &s->problem.attention;
  const int64_t row = range->row;
  hr_arguments x = hr_problem_arguments(&s->problem, &s->operands, (hr_operand_addresses){host->operands, NULL});
  hr_reference_attention_row(a, &x.attention, row / a->q_heads / a->q_len, row / a->q_heads % a->q_len,
                             row % a->q_heads, scratch, query);
}

static double bound(const hr_plan *plan, const hr_reference_query *query, int64_t column)
{
  const hr_problem *p = &plan->problem;
  return hr_attention_error_bound(p->dtype, hr_problem_output_dtype(p), p->attention.qk_dim, query, column);
}

const hr_check hr_check_attention = {.can_be_timed = can_be_timed,
                                     .make_table = make_table,
                                     .sample = sample,
                                     .row_start = row_start,
                                     .fetch = fetch,
                                     .reference = reference,
                                     .bound = bound};
