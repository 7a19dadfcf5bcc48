/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers with weights in q8_0. Few tokens are multiplied by a GEMV that reads the weights as they are; of more,
 * panels of the weights are widened to the step's format, one after another in the same place, which stays in the
 * caches, and each is one GEMM. */
#include "run/lower.h"

#include "base/checked.h"
#include "runtime/device/device.h"

#define PANEL_BYTES ((int64_t)2 << 20) /* of widened weights; tried: docs/notes/step-q8.md */
#define PANEL_ROWS 64                  /* of which the rows of a panel are a multiple: a GEMM's tile */

static void add_gemv(hr_lowering *l, const hr_q8_arguments *arguments, hr_run_view a, hr_run_view out)
{
  const int64_t padded = hr_q8_blocks(arguments->w.columns) * HR_Q8_BLOCK;
  const hr_run_view room = hr_new_words(l, a.rows * padded);
  hr_launch *launch = hr_add_launch(l, hr_launch_q8);
  if (!launch)
    return;
  launch->q8 = *arguments;
  launch->q8.tokens = a.rows;
  launch->q8.x_row = a.stride, launch->q8.y_row = out.stride;
  hr_bind(l, offsetof(hr_q8_arguments, x), a);
  hr_bind(l, offsetof(hr_q8_arguments, y), out);
  hr_bind(l, offsetof(hr_q8_arguments, room), room);
}

static void add_widening(hr_lowering *l, const hr_q8_arguments *arguments, hr_run_view out)
{
  hr_launch *launch = hr_add_launch(l, hr_launch_q8_widening);
  if (!launch)
    return;
  launch->q8 = *arguments;
  launch->q8.tokens = out.rows;
  launch->q8.y_row = out.stride;
  hr_bind(l, offsetof(hr_q8_arguments, y), out);
}

/* C's columns from `first` on, as many as the panel has rows. */
static void add_panel_gemm(hr_lowering *l, hr_run_view a, hr_run_view panel, const void *bias, hr_run_view out)
{
  hr_gemm g = l->op->gemm;
  g.n = panel.rows;
  g.lda = a.stride, g.ldc = out.stride;
  g.alignment = hr_min64(hr_view_alignment(l, a), hr_view_alignment(l, out));
  hr_add_product(l, g, &(hr_product_operands){a, hr_of_view(panel), {out, NULL}, bias});
}

static void add_panels(hr_lowering *l, hr_q8_arguments arguments, hr_run_view a, hr_run_view out)
{
  const int64_t row_bytes = arguments.w.columns * (int64_t)hr_element_bytes(l);
  const int64_t rows = hr_max64(1, PANEL_BYTES / row_bytes / PANEL_ROWS) * PANEL_ROWS;
  const char *bias = arguments.bias;
  for (arguments.first = 0; arguments.first < arguments.w.rows; arguments.first += rows) {
    const int64_t count = hr_min64(rows, arguments.w.rows - arguments.first);
    const hr_run_view panel = hr_new_view(l, count, arguments.w.columns);
    const hr_run_view columns = hr_columns_of(out, arguments.first, count);
    add_widening(l, &arguments, panel);
    add_panel_gemm(l, a, panel, bias ? bias + (size_t)arguments.first * hr_element_bytes(l) : NULL, columns);
  }
}

hr_run_view hr_add_q8_gemm(hr_lowering *l, hr_run_view x, const void *bias)
{
  const hr_gemm *g = &l->op->gemm;
  const hr_run_view a = hr_rows_multiplied(l, x);
  const hr_run_view out = hr_new_view(l, g->m, g->n);
  const hr_q8_arguments arguments = {
      .w = {g->n, g->k, hr_own_weight(l, 0)}, .dtype = l->x->options.dtype, .bias = bias};
  if (g->m <= HR_Q8_TOKENS)
    add_gemv(l, &arguments, a, out);
  else
    add_panels(l, arguments, a, out);
  return out;
}

hr_run_view hr_add_q8_gather(hr_lowering *l, const void *table, int64_t columns)
{
  const hr_run_view out = hr_new_view(l, l->rows, columns);
  const hr_q8_arguments arguments = {.w = {l->x->model.vocabulary, columns, table},
                                     .dtype = l->x->options.dtype,
                                     .numbers = hr_numbers_of(l, HR_NUMBER_ID)};
  add_widening(l, &arguments, out);
  return out;
}
