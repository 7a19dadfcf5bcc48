/* SPDX-License-Identifier: Apache-2.0 */
/* Unequal loads of experts: drawn as aiconfigurator draws them (NVIDIA, collector/helper.py, power_law_logits_v3). */
#include "analysis/validate/rows.h"

#include "base/checked.h"
#include "base/random.h"

#include <math.h>
#include <stdint.h>

#define EXPERTS_MAX 1024
#define DRAWS 16
#define FEW_LEAST 0.01 /* ends of the power law where experts outnumber the tokens' choices */
#define FEW_MOST 2.0
#define MOST_SHARE 0.8 /* of the tokens: the other end elsewhere, from one on */

/* One more for the `rest` experts with the most tokens; of equal ones the first. */
static void add_rest(double *loads, int64_t experts, int64_t rest)
{
  bool taken[EXPERTS_MAX] = {false};
  for (; rest > 0; rest--) {
    int64_t most = -1;
    for (int64_t i = 0; i < experts; i++) {
      if (!taken[i] && (most < 0 || loads[i] > loads[most]))
        most = i;
    }
    if (most < 0)
      return;
    loads[most] += taken[most] = true;
  }
}

static void draw(const hr_expert_loads *l, double *loads, uint64_t *state)
{
  const double copies = (double)(l->tokens * l->top_k), power = 1 - l->exponent;
  const bool few = copies <= (double)l->experts;
  const double least = pow(few ? FEW_LEAST : 1, power);
  const double most = pow(few ? FEW_MOST : fmax(1, MOST_SHARE * (double)l->tokens), power);
  double sum = 0, rounded = 0;
  for (int64_t i = 0; i < l->experts; i++)
    sum += loads[i] = pow((most - least) * hr_next_share(state) + least, 1 / power);
  for (int64_t i = 0; i < l->experts; i++)
    rounded += loads[i] = rint(loads[i] / sum * copies);
  add_rest(loads, l->experts, (int64_t)(copies - rounded));
}

void hr_expert_loads_take(const hr_expert_loads *l, hr_expert_call *call)
{
  if (l->experts > EXPERTS_MAX || l->experts % l->devices != 0 || l->tokens > INT32_MAX)
    return;
  double loads[EXPERTS_MAX] = {0}, rows = 0, experts = 0;
  uint64_t state = 0;
  for (int i = 0; i < DRAWS; i++) {
    draw(l, loads, &state);
    double most = 0, with_rows = 0;
    for (int64_t at = 0; at < l->experts;) {
      double sum = 0, any = 0;
      for (int64_t end = at + l->experts / l->devices; at < end; at++) {
        sum += fmin(loads[at], (double)l->tokens); /* an expert has a token once */
        any += loads[at] > 0;
      }
      if (sum > most)
        most = sum, with_rows = any;
    }
    rows += most / DRAWS, experts += with_rows / DRAWS;
  }
  call->rows = hr_max64(1, (int64_t)rint(rows)), call->experts = hr_max64(1, (int64_t)rint(experts));
}
