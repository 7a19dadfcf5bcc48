/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of ranks that travel while other rows are computed: launches that take each row by itself are divided into
 * pieces of rows, and the sum of one piece is beside the launches of the next. */
#include "run/lower.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/device/device.h"
#include "runtime/device/plan.h"

#include <stdlib.h>

#define TILE_ROWS 128                  /* pieces are multiples, so that no GEMM has a tile more */
#define PIECE_BYTES (INT64_C(8) << 20) /* least ones of a sum */

/* ---- launches of rows ---- */

static bool takes_rows_apart(const hr_rowwise *r)
{
  switch (r->operation) {
  case HR_ROWWISE_RMS_NORM:
  case HR_ROWWISE_LAYER_NORM:
  case HR_ROWWISE_RESIDUAL:
  case HR_ROWWISE_RESIDUAL_RMS_NORM:
  case HR_ROWWISE_RESIDUAL_LAYER_NORM:
  case HR_ROWWISE_SCALE:
  case HR_ROWWISE_GELU:
  case HR_ROWWISE_GELU_TANH:
  case HR_ROWWISE_RELU:
  case HR_ROWWISE_RELU2:
  case HR_ROWWISE_SWIGLU:
  case HR_ROWWISE_GEGLU:
  case HR_ROWWISE_GEGLU_TANH:
  case HR_ROWWISE_SWIGLU_CLAMPED: return r->x_stride == 0 && r->y_stride == 0;
  default: return false;
  }
}

static bool multiplies_rows(const hr_launch *launch)
{
  const hr_gemm *g = &launch->plan->problem.gemm;
  return g->batch == 1 && !g->transpose_a && launch->operand_count == 2;
}

static bool is_sum(const hr_launch *launch)
{
  return launch->run == hr_launch_collective && launch->collective.kind == HR_ALL_REDUCE &&
         launch->collective.columns == 0;
}

/* Whether it takes each of so many rows by itself. */
static bool has_rows(const hr_launch *launch, int64_t rows)
{
  if (is_sum(launch))
    return launch->collective.count % rows == 0;
  if (launch->run == hr_launch_gemm)
    return launch->plan->problem.gemm.m == rows && multiplies_rows(launch);
  return launch->run == hr_launch_rowwise && launch->plan->problem.rows.rows == rows &&
         takes_rows_apart(&launch->plan->problem.rows);
}

/* Elements from one row of the operand to the next. */
static int64_t pitch_of(const hr_launch *launch, const hr_run_operand *operand, int64_t rows)
{
  if (is_sum(launch))
    return launch->collective.count / rows;
  if (launch->run == hr_launch_rowwise)
    return launch->plan->problem.rows.columns;
  const hr_gemm *g = &launch->plan->problem.gemm;
  return operand->member == offsetof(hr_gemm_arguments, a) ? hr_gemm_a(g).leading_dimension
                                                           : hr_gemm_c(g).leading_dimension;
}

/* ---- pieces ---- */

/* The launches of a program that are divided: `first` to `end`, of so many rows. */
typedef struct divided {
  hr_lowering *l;
  hr_launch *old;
  int first, end;
  int64_t rows, each; /* of a piece; the last may have less */
  int pieces;
} divided;

static void take_rows(const divided *d, hr_launch *launch, int64_t first, int64_t count)
{
  hr_lowering *l = d->l;
  for (int i = 0; i < launch->operand_count; i++)
    launch->operands[i].offset +=
        (size_t)(first * pitch_of(launch, &launch->operands[i], d->rows)) * hr_element_bytes(l);
  if (is_sum(launch)) {
    launch->collective.count = launch->collective.count / d->rows * count;
    return;
  }
  const hr_plan *whole = launch->plan;
  launch->plan = NULL;
  if (launch->run == hr_launch_gemm) {
    hr_gemm gemm = whole->problem.gemm;
    gemm.m = count;
    hr_lowering_fail(l, hr_plans_gemm(l->x->plans, &gemm, &launch->plan, l->error));
    return;
  }
  hr_rowwise part = whole->problem.rows;
  part.rows = count;
  hr_lowering_fail(l, hr_plans_rowwise(l->x->plans, &part, &launch->plan, l->error));
}

/* Piece by piece from one launch up to another; a sum of ranks is the last. `before`: there was a sum before. */
static void append_stage(const divided *d, int first, int end, bool before)
{
  for (int piece = 0; piece < d->pieces; piece++) {
    const int64_t row = piece * d->each;
    for (int i = first; i < end && d->l->status == HR_OK; i++) {
      hr_launch *launch = hr_add_launch(d->l, d->old[i].run);
      if (!launch)
        return;
      *launch = d->old[i];
      launch->awaits = before && i == first ? 1u << piece : 0;
      launch->beside = is_sum(launch) ? piece + 1 : 0;
      take_rows(d, launch, row, hr_min64(d->each, d->rows - row));
    }
  }
}

/* Launches of rows, with a sum or several among them. Returns the marks that the launch behind them awaits. */
static unsigned append_pieces(const divided *d)
{
  bool before = false;
  int first = d->first;
  for (int i = d->first; i < d->end; i++) {
    if (!is_sum(&d->old[i]))
      continue;
    append_stage(d, first, i + 1, before);
    before = true;
    first = i + 1;
  }
  append_stage(d, first, d->end, before);
  return first == d->end ? (1u << d->pieces) - 1 : 0;
}

/* The end of the launches of rows from `first` on, or `first` if no sum is among them. */
static int end_of_rows(const hr_launch *launches, int count, int first, int64_t rows)
{
  bool sums = false;
  int end = first;
  for (; end < count && has_rows(&launches[end], rows); end++)
    sums = sums || is_sum(&launches[end]);
  return sums ? end : first;
}

static void append_same(hr_lowering *l, hr_launch *old, unsigned awaits)
{
  hr_launch *launch = hr_add_launch(l, old->run);
  if (!launch)
    return;
  *launch = *old;
  launch->awaits = awaits;
  old->plan = NULL;
}

static void divide(divided *d, int count)
{
  unsigned awaits = 0;
  while (d->first < count && d->l->status == HR_OK) {
    d->end = end_of_rows(d->old, count, d->first, d->rows);
    if (d->end > d->first) {
      awaits = append_pieces(d);
      d->first = d->end;
      continue;
    }
    append_same(d->l, &d->old[d->first++], awaits);
    awaits = 0;
  }
}

/* ---- values ---- */

/* The launch that waits for the sum at index `i`. */
static int end_of_sum(const hr_run_program *p, int i)
{
  int end = i + 1;
  while (end < p->launch_count && !(p->launches[end].awaits >> (p->launches[i].beside - 1) & 1))
    end++;
  return end < p->launch_count ? end : p->launch_count - 1;
}

/* What a sum beside other launches has lives until it is awaited. */
static void find_lives(hr_run_program *p)
{
  for (int v = 0; v < p->value_count; v++)
    p->values[v].first = p->launch_count, p->values[v].last = 0;
  for (int i = 0; i < p->launch_count; i++) {
    const hr_launch *launch = &p->launches[i];
    for (int k = 0; k < launch->operand_count; k++) {
      hr_arena_value *value = &p->values[launch->operands[k].value];
      const int last = launch->beside ? end_of_sum(p, i) : i;
      value->first = i < value->first ? i : value->first;
      value->last = last > value->last ? last : value->last;
    }
  }
}

/* ---- the program ---- */

int hr_pieces_of(const hr_lowering *l)
{
  const int64_t rows = l->rows;
  const hr_executor_options *o = &l->x->options;
  if (l->x->ranks == 1)
    return 1;
  const int64_t bytes = rows * l->x->model.hidden * (int64_t)hr_element_bytes(l);
  const int64_t usual = l->x->device->backend->fork ? bytes / PIECE_BYTES : 1;
  const int64_t wanted = o->pieces > 0 ? o->pieces : usual;
  return (int)hr_max64(1, hr_min64(hr_min64(wanted, HR_RUN_PIECES_MAX), rows / TILE_ROWS));
}

void hr_overlap_sums(hr_lowering *l)
{
  hr_run_program *p = l->program;
  const int count = p->launch_count, pieces = hr_pieces_of(l);
  if (l->status != HR_OK || pieces == 1)
    return;
  const int64_t each = hr_round_up(hr_ceil_div(l->rows, pieces), TILE_ROWS);
  divided d = {l, p->launches, 0, 0, l->rows, each, (int)hr_ceil_div(l->rows, each)};
  p->launches = NULL;
  p->launch_count = p->launch_room = 0;
  divide(&d, count);
  for (int i = 0; i < count; i++)
    hr_plan_free(d.old[i].plan);
  free(d.old);
  find_lives(p);
}
