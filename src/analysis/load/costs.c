/* SPDX-License-Identifier: Apache-2.0 */
/* The times of steps as a table, so that a simulation of many steps predicts few.
 *
 *   step = linear layers of all rows + attention of prompts + attention of sequences that decode
 *
 * A step that only decodes is decode(rows, least context) + what decode(sequences, context) takes beyond its least
 * context. Prompts in the same step share the linear layers: prefill(tokens + rows) in place of the first term. */
#include "analysis/load/simulation.h"
#include "base/checked.h"
#include "base/error.h"

#include <math.h>
#include <string.h>

/* ---- interpolation ---- */

/* The segment of ascending `x` in which `at` is; the first or the last one outside. */
static size_t segment_of(const double *x, size_t count, double at)
{
  size_t i = 0;
  while (i + 2 < count && at >= x[i + 1])
    i++;
  return i;
}

/* Constant before the first point, and beyond the last one as between the last two. */
static double interpolate(const double *x, const double *y, size_t count, double at)
{
  if (count == 1 || at <= x[0])
    return y[0];
  size_t i = segment_of(x, count, at);
  return y[i] + (y[i + 1] - y[i]) * (at - x[i]) / (x[i + 1] - x[i]);
}

static double decode_ns(const hr_load_costs *costs, double sequences, double context)
{
  double at[HR_LOAD_CONTEXTS] = {0};
  for (size_t i = 0; i < costs->contexts; i++)
    at[i] = interpolate(costs->batch, costs->decode_ns[i], costs->batches, sequences);
  return interpolate(costs->context, at, costs->contexts, context);
}

static double tokens_of(const hr_load_costs *costs, const hr_load_step *step)
{
  return step->prefill_tokens + step->rows / costs->stages;
}

/* Prompts pass the drafter as they pass the model. */
static double drafter_ns(const hr_load_costs *costs, const hr_load_step *step)
{
  const double sequences = step->sequences / costs->stages;
  const hr_load_step prompts = {.prefill_tokens = step->prefill_tokens, .pairs = step->pairs};
  const hr_load_step draft = {.sequences = sequences, .context = step->context, .rows = sequences};
  double ns = step->prefill_tokens > 0 ? hr_load_step_ns(costs->drafter, &prompts) : 0;
  return step->sequences > 0 ? ns + costs->drafts * hr_load_step_ns(costs->drafter, &draft) : ns;
}

double hr_load_step_ns(const hr_load_costs *costs, const hr_load_step *step)
{
  double ns = step->pairs * costs->pair_ns + (costs->drafter ? drafter_ns(costs, step) : 0);
  if (step->sequences > 0)
    ns += decode_ns(costs, step->sequences, step->context) - decode_ns(costs, step->sequences, costs->context[0]);
  if (step->prefill_tokens > 0)
    return ns + interpolate(costs->tokens, costs->prefill_ns, costs->prefills, tokens_of(costs, step));
  return ns + decode_ns(costs, step->rows, costs->context[0]);
}

double hr_load_behind_ns(const hr_load_costs *costs, const hr_load_step *step)
{
  return hr_load_step_ns(costs, step) *
         interpolate(costs->tokens, costs->behind, costs->prefills, tokens_of(costs, step));
}

/* ---- predictions ---- */

/* Appends ascending points from `first` by factors of about 1.5 up to `most`. */
static void extend_grid(double *grid, size_t *count, int64_t first, int64_t most)
{
  for (int64_t value = first; value < most && *count + 1 < HR_LOAD_GRID; value = hr_max64(value + 1, value * 3 / 2))
    grid[(*count)++] = (double)value;
  if (first <= most)
    grid[(*count)++] = (double)most;
}

/* `share` of a time and of the ends of its band. */
static void of_ends(const hr_serve_time *time, double share, double ns[HR_LOAD_ENDS])
{
  ns[HR_LOAD_PREDICTED] = share * time->ns, ns[HR_LOAD_LOW] = share * time->low_ns;
  ns[HR_LOAD_HIGH] = share * time->high_ns;
}

static hr_status fill_decode(hr_serve_state *state, const hr_serve_layout *layout, int64_t rows, int64_t context,
                             hr_load_costs costs[HR_LOAD_ENDS], hr_error *error)
{
  hr_load_costs *grid = &costs[HR_LOAD_PREDICTED];
  grid->batches = grid->contexts = 0;
  extend_grid(grid->batch, &grid->batches, 1, rows);
  const int64_t contexts[HR_LOAD_CONTEXTS] = {1, hr_ceil_div(context, 2), context};
  for (size_t i = 0; i < HR_LOAD_CONTEXTS; i++) {
    if (i > 0 && contexts[i] <= contexts[i - 1])
      continue;
    grid->context[grid->contexts] = (double)contexts[i];
    for (size_t j = 0; j < grid->batches; j++) {
      hr_serve_time time;
      double ns[HR_LOAD_ENDS];
      HR_TRY(hr_serve_predict(state, layout, HR_PHASE_DECODE, (int64_t)grid->batch[j], contexts[i], &time, error));
      of_ends(&time, 1 / grid->stages, ns);
      for (int end = 0; end < HR_LOAD_ENDS; end++)
        costs[end].decode_ns[grid->contexts][j] = ns[end];
    }
    grid->contexts++;
  }
  return HR_OK;
}

/* Prompts whose attention is measured against that of their parts. */
#define PAIR_PARTS 8
#define PAIR_PROMPT_MIN 1024

/* One long prompt, and as many tokens as short prompts: they differ in their attention alone. */
static hr_status fill_pair(hr_serve_state *state, const hr_serve_layout *layout, int64_t prompt,
                           hr_load_costs costs[HR_LOAD_ENDS], hr_error *error)
{
  hr_serve_time whole, parts;
  double whole_ns[HR_LOAD_ENDS], parts_ns[HR_LOAD_ENDS];
  int64_t part = hr_ceil_div(hr_max64(prompt, PAIR_PROMPT_MIN), PAIR_PARTS);
  HR_TRY(hr_serve_predict(state, layout, HR_PHASE_PREFILL, 1, part * PAIR_PARTS, &whole, error));
  HR_TRY(hr_serve_predict(state, layout, HR_PHASE_PREFILL, PAIR_PARTS, part, &parts, error));
  double pairs = 0.5 * (double)part * (double)part * PAIR_PARTS * (PAIR_PARTS - 1);
  of_ends(&whole, whole.stage_share, whole_ns);
  of_ends(&parts, parts.stage_share, parts_ns);
  for (int end = 0; end < HR_LOAD_ENDS; end++)
    costs[end].pair_ns = fmax(whole_ns[end] - parts_ns[end], 0) / pairs;
  return HR_OK;
}

/* Prompts of equal length, or a part of one, without the attention to what is before them. */
static hr_status fill_prefill(hr_serve_state *state, const hr_serve_layout *layout, int64_t tokens, int64_t prompt,
                              hr_load_costs costs[HR_LOAD_ENDS], hr_error *error)
{
  hr_load_costs *grid = &costs[HR_LOAD_PREDICTED];
  double wanted[HR_LOAD_GRID], last_tokens = 0, last_ns[HR_LOAD_ENDS] = {0};
  size_t points = 0;
  extend_grid(wanted, &points, 1, hr_min64(prompt, tokens));
  extend_grid(wanted, &points, prompt + 1, tokens);
  grid->prefills = 0;
  for (size_t i = 0; i < points; i++) {
    hr_serve_time time;
    double ns[HR_LOAD_ENDS];
    int64_t prompts = hr_ceil_div((int64_t)wanted[i], prompt), length = hr_ceil_div((int64_t)wanted[i], prompts);
    double pairs = 0.5 * (double)prompts * (double)length * (double)length;
    if ((double)(prompts * length) <= last_tokens)
      continue;
    HR_TRY(hr_serve_predict(state, layout, HR_PHASE_PREFILL, prompts, length, &time, error));
    last_tokens = grid->tokens[grid->prefills] = (double)(prompts * length);
    grid->behind[grid->prefills] = 1 / time.stage_share - 1;
    of_ends(&time, time.stage_share, ns);
    /* More tokens never take less time. */
    for (int end = 0; end < HR_LOAD_ENDS; end++)
      last_ns[end] = costs[end].prefill_ns[grid->prefills] = fmax(ns[end] - pairs * costs[end].pair_ns, last_ns[end]);
    grid->prefills++;
  }
  return HR_OK;
}

/* The points of the grid, which the ends share. */
static void copy_grid(const hr_load_costs *from, hr_load_costs *to)
{
  to->batches = from->batches, to->contexts = from->contexts, to->prefills = from->prefills;
  memcpy(to->batch, from->batch, sizeof to->batch);
  memcpy(to->context, from->context, sizeof to->context);
  memcpy(to->tokens, from->tokens, sizeof to->tokens);
  memcpy(to->behind, from->behind, sizeof to->behind);
  to->stages = from->stages;
}

hr_status hr_load_fill_costs(hr_serve_state *state, const hr_serve_layout *layout, int64_t rows, int64_t prompt,
                             int64_t context, hr_load_costs costs[HR_LOAD_ENDS], hr_error *error)
{
  int64_t tokens = hr_max64(state->options.prefill_tokens, prompt) + rows;
  memset(costs, 0, HR_LOAD_ENDS * sizeof *costs);
  costs[HR_LOAD_PREDICTED].stages = (double)layout->pipeline_stages;
  HR_TRY(fill_decode(state, layout, rows, context, costs, error));
  HR_TRY(fill_pair(state, layout, prompt, costs, error));
  HR_TRY(fill_prefill(state, layout, tokens, prompt, costs, error));
  copy_grid(&costs[HR_LOAD_PREDICTED], &costs[HR_LOAD_LOW]);
  copy_grid(&costs[HR_LOAD_PREDICTED], &costs[HR_LOAD_HIGH]);
  return HR_OK;
}

static void scale(const hr_load_costs *from, double by, hr_load_costs *to)
{
  *to = *from;
  to->pair_ns *= by;
  for (size_t i = 0; i < HR_LOAD_GRID; i++) {
    to->prefill_ns[i] *= by;
    for (size_t j = 0; j < HR_LOAD_CONTEXTS; j++)
      to->decode_ns[j][i] *= by;
  }
}

void hr_load_scale_ends(hr_load_costs costs[HR_LOAD_ENDS], double low, double high)
{
  scale(&costs[HR_LOAD_PREDICTED], low, &costs[HR_LOAD_LOW]);
  scale(&costs[HR_LOAD_PREDICTED], high, &costs[HR_LOAD_HIGH]);
}
