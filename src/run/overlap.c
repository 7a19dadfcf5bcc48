/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of ranks that travel while other rows are computed: launches that take each row by itself are divided into
 * pieces of rows, and the sum of one piece is beside the launches of the next. */
#include "run/lower.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/device/device.h"
#include "runtime/device/plan.h"
#include "shape/rowwise.h"

#include <stdlib.h>

#define TILE_ROWS 128 /* pieces are multiples, so that no GEMM has a tile more */

/* ---- launches of rows ---- */

/* Dropout goes by the number of an element. */
static bool takes_rows_apart(const hr_rowwise *r)
{
  const bool norms = r->operation == HR_ROWWISE_RMS_NORM || r->operation == HR_ROWWISE_LAYER_NORM ||
                     r->operation == HR_ROWWISE_RESIDUAL_RMS_NORM || r->operation == HR_ROWWISE_RESIDUAL_LAYER_NORM;
  const bool elements = hr_rowwise_by_element(r->operation) && r->operation != HR_ROWWISE_DROPOUT;
  return (norms || elements) && r->x_stride == 0 && r->y_stride == 0;
}

static bool multiplies_rows(const hr_launch *launch)
{
  const hr_gemm *g = &launch->plan->problem.gemm;
  return g->batch == 1 && !g->transpose_a && launch->operand_count == 2;
}

static bool is_sum(const hr_launch *launch)
{
  return launch->run == hr_launch_collective && launch->collective.kind == HR_ALL_REDUCE;
}

/* Whether it takes each of so many rows by itself. */
static bool has_rows(const hr_launch *launch, int64_t rows)
{
  if (is_sum(launch))
    return launch->collective.columns == 0 && launch->collective.count % rows == 0;
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
  int begun, ended; /* calls in the launches that were appended */
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

/* ---- sums in two parts ---- */

/* The launch behind a sum adds it to another tensor and takes the norm of that: the operand that is no sum, or NULL. */
static const hr_run_operand *residual_of(const divided *d, int sum)
{
  const hr_launch *next = &d->old[sum + 1];
  if (sum + 1 == d->end || next->run != hr_launch_rowwise ||
      next->plan->problem.rows.operation != HR_ROWWISE_RESIDUAL_RMS_NORM)
    return NULL;
  for (int i = 0; i < 2; i++) {
    if (next->operands[i].value == d->old[sum].operands[1].value)
      return &next->operands[1 - i];
  }
  return NULL;
}

static int64_t row_of(const divided *d, int piece)
{
  return piece * d->each;
}

static int64_t rows_of(const divided *d, int piece)
{
  return hr_min64(d->each, d->rows - row_of(d, piece));
}

/* The end of a sum takes the norm behind it along. The operands of that: two terms, weights outside of the arena, the
 * norm and the new residual. Whether it does. */
static bool take_norm(const divided *d, int sum, int piece, hr_launch *end)
{
  const hr_run_operand *residual = residual_of(d, sum);
  if (!residual || d->old[sum + 1].operand_count != 4)
    return false;
  const hr_launch *next = &d->old[sum + 1];
  const hr_rowwise *norm = &next->plan->problem.rows;
  hr_collective_call call = end->collective;
  call.count = norm->columns * rows_of(d, piece);
  call.columns = norm->columns;
  call.epsilon = norm->epsilon;
  call.norm_weight = next->arguments.rows.inputs[2];
  if (!call.norm_weight || !hr_communicator_takes_norm(d->l->x->options.communicator, &call))
    return false;
  call.count = end->collective.count;
  end->collective = call;
  end->operands[1].value = next->operands[2].value;
  end->operands[2] = *residual;
  end->operands[2].member = offsetof(hr_collective_call, residual);
  end->operands[3] = next->operands[3];
  end->operands[3].member = offsetof(hr_collective_call, residual_sum);
  end->operand_count = 4;
  for (int i = 0; i < next->op_count; i++)
    end->ops[end->op_count++] = next->ops[i];
  return true;
}

/* Returns how many launches it stands for. */
static int append_end(const divided *d, int sum, int piece)
{
  hr_launch *end = hr_add_launch(d->l, hr_launch_collective);
  if (!end)
    return 1;
  *end = d->old[sum];
  end->awaits = 1u << piece;
  end->collective.part = HR_CALL_END;
  end->collective.place = (d->ended + piece) % HR_CALLS_UNDER_WAY;
  const int count = take_norm(d, sum, piece, end) ? 2 : 1;
  take_rows(d, end, row_of(d, piece), rows_of(d, piece));
  return count;
}

static void append_piece(const divided *d, int i, int piece)
{
  hr_launch *launch = hr_add_launch(d->l, d->old[i].run);
  if (!launch)
    return;
  *launch = d->old[i];
  if (is_sum(launch)) {
    launch->beside = piece + 1;
    launch->collective.part = HR_CALL_BEGIN;
    launch->collective.place = (d->begun + piece) % HR_CALLS_UNDER_WAY;
  }
  take_rows(d, launch, row_of(d, piece), rows_of(d, piece));
}

/* Each piece from the end of the sum before (−1: none) up to the next. */
static void append_stage(const divided *d, int sum, int first, int end)
{
  for (int piece = 0; piece < d->pieces; piece++) {
    int i = sum < 0 ? first : sum + append_end(d, sum, piece);
    for (; i < end && d->l->status == HR_OK; i++)
      append_piece(d, i, piece);
  }
}

/* Launches of rows, with a sum or several among them. */
static void append_pieces(divided *d)
{
  int sum = -1, first = d->first;
  do {
    int end = first;
    while (end < d->end && !is_sum(&d->old[end]))
      end++;
    const bool sums = end < d->end;
    append_stage(d, sum, first, end + sums);
    d->ended += sum < 0 ? 0 : d->pieces;
    d->begun += sums ? d->pieces : 0;
    sum = sums ? end : -1;
    first = end + sums;
  } while (sum >= 0);
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

static void append_same(hr_lowering *l, hr_launch *old)
{
  hr_launch *launch = hr_add_launch(l, old->run);
  if (!launch)
    return;
  *launch = *old;
  old->plan = NULL;
}

static void divide(divided *d, int count)
{
  while (d->first < count && d->l->status == HR_OK) {
    d->end = end_of_rows(d->old, count, d->first, d->rows);
    if (d->end == d->first)
      append_same(d->l, &d->old[d->first++]);
    else
      append_pieces(d);
    d->first = d->end > d->first ? d->end : d->first;
  }
}

/* ---- values ---- */

/* What a sum has lives until its end, which has the same operands. */
static void find_lives(hr_run_program *p)
{
  for (int v = 0; v < p->value_count; v++)
    p->values[v].first = p->launch_count, p->values[v].last = 0;
  for (int i = 0; i < p->launch_count; i++) {
    const hr_launch *launch = &p->launches[i];
    for (int k = 0; k < launch->operand_count; k++) {
      hr_arena_value *value = &p->values[launch->operands[k].value];
      value->first = i < value->first ? i : value->first;
      value->last = i > value->last ? i : value->last;
    }
  }
}

/* ---- the program ---- */

int hr_pieces_of(const hr_lowering *l)
{
  const int64_t rows = l->rows, hidden = l->x->model.hidden;
  const hr_executor_options *o = &l->x->options;
  if (l->x->ranks == 1 || hr_run_splits_rows(l->x))
    return 1;
  const int64_t usual = hr_usual_pieces(rows * hidden * (int64_t)hr_element_bytes(l));
  const int64_t pieces = hr_max64(1, hr_min64(o->pieces > 0 ? o->pieces : usual, rows / TILE_ROWS));
  const int64_t count = hr_round_up(hr_ceil_div(rows, pieces), TILE_ROWS) * hidden;
  return o->pieces > 0 || hr_sends_beside(o->communicator, o->dtype, count) ? (int)pieces : 1;
}

void hr_overlap_sums(hr_lowering *l)
{
  hr_run_program *p = l->program;
  const int count = p->launch_count, pieces = hr_pieces_of(l);
  if (l->status != HR_OK || pieces == 1)
    return;
  const int64_t each = hr_round_up(hr_ceil_div(l->rows, pieces), TILE_ROWS);
  divided d = {l, p->launches, 0, 0, l->rows, each, (int)hr_ceil_div(l->rows, each), 0, 0};
  p->launches = NULL;
  p->launch_count = p->launch_room = 0;
  divide(&d, count);
  for (int i = 0; i < count; i++)
    hr_plan_free(d.old[i].plan);
  free(d.old);
  find_lives(p);
}
