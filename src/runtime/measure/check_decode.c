/* SPDX-License-Identifier: Apache-2.0 */
/* A decode call's result. Of one with top_k, either of two scores that are equal within their rounding errors may be
 * chosen. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/measure/checks.h"
#include "runtime/measure/error_bounds.h"
#include "runtime/operation/decode_sequences.h"
#include "shape/number.h"

#include <headroom/experimental/decode.h>
#include <math.h>

#define SELECTED_ROWS_MIN 8 /* rows of a call with top_k, for its selection_error */

typedef struct row_place {
  int64_t sequence, query, head;
} row_place;

static row_place place_of(const hr_decode *d, int64_t row)
{
  return (row_place){row / d->q_heads / d->q_len, row / d->q_heads % d->q_len, row % d->q_heads};
}

static hr_decode_arguments arguments_of(const hr_runner *s, const hr_host_set *host)
{
  return hr_problem_arguments(&s->problem, &s->operands, (hr_operand_addresses){host->operands, NULL}).decode;
}

/* A page table whose pages are in random order (Fisher and Yates). */
static void make_pages(const hr_decode *d, uint64_t seed, int32_t *pages)
{
  uint64_t state = hr_numbers_key(seed);
  int64_t count = d->batch * d->table_pitch;
  for (int64_t i = 0; i < count; i++)
    pages[i] = (int32_t)(i % d->page_count);
  for (int64_t i = hr_min64(count, d->page_count) - 1; i > 0; i--) {
    state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth's linear congruential generator */
    int64_t j = (int64_t)((state >> 33) % (uint64_t)(i + 1));
    int32_t page = pages[i];
    pages[i] = pages[j];
    pages[j] = page;
  }
}

static void make_table(const hr_problem *problem, hr_operand_kind kind, uint64_t seed, size_t bytes, void *to)
{
  const hr_decode *d = &problem->decode;
  if (kind == HR_OPERAND_SINKS)
    hr_numbers_uniform(HR_FP32, seed, 0, (size_t)d->q_heads, to);
  else if (kind == HR_OPERAND_SLOPES)
    hr_attention_alibi_slopes(d->q_heads, to);
  else if (kind == HR_OPERAND_PAGES)
    make_pages(d, seed, to);
  else
    hr_make_scales(d->cache_format, seed, bytes / sizeof(float), to);
}

/* The bytes of random floats serve as int8: three of four are uniform. */
static hr_dtype cache_dtype(const hr_problem *problem)
{
  return problem->decode.cache_format == HR_KV_INT8 ? HR_FP32 : HR_FP8_E4M3;
}

static hr_status can_be_timed(const hr_problem *problem, hr_error *error)
{
  return problem->decode.kv_len > 0 ? HR_OK : hr_fail(error, HR_ERROR_UNSUPPORTED, "kv_len 0 gives nothing to time");
}

static hr_sample sample(const hr_problem *problem, size_t output)
{
  (void)output;
  const hr_decode *d = &problem->decode;
  int64_t products = d->kv_len * (d->qk_dim + d->v_dim);
  if (hr_decode_selects(d))
    products = hr_min64(products, HR_CHECKED_PRODUCTS_MAX / SELECTED_ROWS_MIN);
  return hr_sample_of_rows(d->batch * d->q_len * d->q_heads, d->v_dim, products, hr_reference_decode_scratch(d));
}

static int64_t row_start(const hr_problem *problem, size_t output, int64_t row)
{
  (void)output;
  const hr_decode *d = &problem->decode;
  return hr_query_start(hr_decode_o_strides(d), d->q_len, d->q_heads, row);
}

static hr_status fetch(const hr_checked_range *range, hr_host_set *host, hr_error *error)
{
  int64_t start = row_start(&range->runner->problem, 0, range->row);
  return hr_host_set_fetch_row(range->runner, host, range->of, start, error);
}

static void reference(const hr_checked_range *range, const hr_host_set *host, double *scratch,
                      hr_reference_query *query)
{
  const hr_decode *d = &range->runner->problem.decode;
  hr_decode_arguments arguments = arguments_of(range->runner, host);
  row_place at = place_of(d, range->row);
  hr_reference_decode_row(d, &arguments, at.sequence, at.query, at.head, scratch, query);
}

static double bound(const hr_plan *plan, const hr_reference_query *query, int64_t column)
{
  const hr_problem *p = &plan->problem;
  return hr_attention_error_bound(p->dtype, p->dtype, p->decode.qk_dim, query, column);
}

static bool selects(const hr_problem *problem)
{
  return problem->decode.top_k > 0;
}

static void swaps(const hr_checked_range *range, const hr_host_set *host, const hr_reference_query *query,
                  double *scratch, double *swapped)
{
  const hr_decode *d = &range->runner->problem.decode;
  hr_decode_arguments arguments = arguments_of(range->runner, host);
  row_place at = place_of(d, range->row);
  double score_error = hr_attention_score_error_bound(d->dtype, d->qk_dim, query);
  hr_reference_decode_swaps(d, &arguments, at.sequence, at.query, at.head, score_error, query->lse, scratch, swapped);
}

static double selection_error(const hr_runner *runner, const hr_host_set *host, const int64_t *rows, int64_t count,
                              double *scratch)
{
  const hr_decode *d = &runner->problem.decode;
  hr_decode all = *d;
  all.top_k = 0;
  hr_decode_arguments arguments = arguments_of(runner, host);
  hr_reference_query some = {.out = scratch + hr_reference_decode_scratch(d)}, every = {.out = some.out + d->v_dim};
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < count; i++) {
    row_place at = place_of(d, rows[i]);
    hr_reference_decode_row(d, &arguments, at.sequence, at.query, at.head, scratch, &some);
    hr_reference_decode_row(&all, &arguments, at.sequence, at.query, at.head, scratch, &every);
    for (int64_t j = 0; j < d->v_dim; j++) {
      double off = some.out[j] - every.out[j];
      difference += off * off;
      norm += every.out[j] * every.out[j];
    }
  }
  return sqrt(difference / norm);
}

const hr_check hr_check_decode = {.can_be_timed = can_be_timed,
                                  .make_table = make_table,
                                  .cache_dtype = cache_dtype,
                                  .sample = sample,
                                  .row_start = row_start,
                                  .fetch = fetch,
                                  .reference = reference,
                                  .bound = bound,
                                  .swaps = swaps,
                                  .selects = selects,
                                  .selection_error = selection_error};
