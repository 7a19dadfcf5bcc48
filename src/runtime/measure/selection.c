/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/measure/selection.h"

#include "runtime/measure/error_bounds.h"

#include <math.h>

typedef struct row_place {
  int64_t sequence, query, head;
} row_place;

static row_place place_of(const hr_decode *d, int64_t row)
{
  return (row_place){row / d->q_heads / d->q_len, row / d->q_heads % d->q_len, row % d->q_heads};
}

void hr_selection_swaps(const hr_runner *runner, const void *const *operands, int64_t row,
                        const hr_reference_query *query, double *scratch, double *swapped)
{
  const hr_decode *d = &runner->problem.decode;
  hr_decode_arguments arguments =
      hr_problem_arguments(&runner->problem, &runner->operands, (hr_operand_addresses){operands, NULL}).decode;
  row_place at = place_of(d, row);
  double score_error = hr_attention_score_error_bound(d->dtype, d->qk_dim, query);
  hr_reference_decode_swaps(d, &arguments, at.sequence, at.query, at.head, score_error, query->lse, scratch, swapped);
}

double hr_selection_error(const hr_runner *runner, const void *const *operands, const int64_t *rows, int64_t count,
                          double *scratch)
{
  const hr_decode *d = &runner->problem.decode;
  hr_decode all = *d;
  all.top_k = 0;
  hr_decode_arguments arguments =
      hr_problem_arguments(&runner->problem, &runner->operands, (hr_operand_addresses){operands, NULL}).decode;
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
