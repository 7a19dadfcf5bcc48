/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers with weights in fp8. Few tokens are multiplied by a GEMV that reads the weights as they are, with
 * tokens as they are. More are narrowed to fp8, with a scale for each or for 128 columns of each, as the weights'
 * scales are, and multiplied by the library. Where that has no such product the weights are widened to the step's
 * format. */
#include "run/lower.h"

#include "base/checked.h"
#include "runtime/device/device.h"

#define ROWS_UNIT 16 /* of which the library's rows are multiples */

static hr_run_view add_widening(hr_lowering *l, const hr_fp8_scales *scales)
{
  const hr_gemm *g = &l->op->gemm;
  const hr_run_view wide = hr_new_view(l, g->n, g->k);
  hr_launch *launch = hr_add_launch(l, hr_launch_fp8_widening);
  if (!launch)
    return wide;
  const void *weight = hr_own_weight(l, 0);
  launch->fp8 = (hr_fp8_arguments){.rows = g->n,
                                   .columns = g->k,
                                   .scales = *scales,
                                   .dtype = l->x->options.dtype,
                                   .w = weight,
                                   .w_scales = hr_fp8_scales_at(weight, g->n, g->k)};
  hr_bind(l, offsetof(hr_fp8_arguments, y), wide);
  return wide;
}

static hr_run_view add_widened_gemm(hr_lowering *l, hr_run_view x, const void *bias, const hr_fp8_scales *scales)
{
  hr_gemm g = l->op->gemm;
  const hr_run_view a = hr_rows_multiplied(l, x), out = hr_new_view(l, g.m, g.n), wide = add_widening(l, scales);
  g.lda = a.stride;
  g.alignment = hr_view_alignment(l, a);
  hr_add_product(l, g, &(hr_product_operands){a, hr_of_view(wide), {out, NULL}, bias});
  return out;
}

/* ---- products in fp8 ---- */

static bool same(const hr_fp8_gemm *a, const hr_fp8_gemm *b)
{
  return a->m == b->m && a->n == b->n && a->k == b->k && a->dtype == b->dtype && a->scales.rows == b->scales.rows &&
         a->scales.blocks == b->scales.blocks;
}

/* NULL: the library has none. */
static const void *plan_of(hr_lowering *l, const hr_fp8_gemm *gemm)
{
  hr_run_program *p = l->program;
  hr_device *device = l->x->device;
  for (int i = 0; i < p->fp8_plan_count; i++)
    if (same(&p->fp8_plans[i].gemm, gemm))
      return p->fp8_plans[i].plan;
  void *items = p->fp8_plans;
  const bool room = hr_lowering_grow(l, &items, p->fp8_plan_count, &p->fp8_plan_room, sizeof *p->fp8_plans);
  p->fp8_plans = items;
  if (!room)
    return NULL;
  hr_run_fp8_plan *made = &p->fp8_plans[p->fp8_plan_count++];
  *made = (hr_run_fp8_plan){.gemm = *gemm};
  size_t bytes = 0;
  const hr_status status = device->backend->plan_fp8(device, gemm, &made->plan, &bytes, l->error);
  if (status != HR_OK && status != HR_ERROR_UNSUPPORTED)
    hr_lowering_fail(l, status);
  p->workspace_bytes = bytes > p->workspace_bytes ? bytes : p->workspace_bytes;
  return made->plan;
}

/* Rows that were narrowed last are not narrowed again. */
static void narrow_rows(hr_lowering *l, hr_run_view x, int64_t padded, const hr_fp8_scales *scales)
{
  const hr_run_view before = l->narrowed_from;
  if (before.value == x.value && before.offset == x.offset && before.stride == x.stride && before.rows == x.rows &&
      before.columns == x.columns && l->narrow_blocks == scales->blocks)
    return;
  const int64_t count = scales->blocks ? hr_ceil_div(x.columns, HR_FP8_BLOCK) : 1;
  l->narrowed_from = x, l->narrow_blocks = scales->blocks;
  l->narrow = hr_new_words(l, padded * x.columns / 4);
  l->narrow_scales = hr_new_words(l, padded * count);
  hr_launch *launch = hr_add_launch(l, hr_launch_fp8_narrowing);
  if (!launch)
    return;
  launch->fp8 = (hr_fp8_arguments){.columns = x.columns,
                                   .scales = *scales,
                                   .dtype = l->x->options.dtype,
                                   .tokens = x.rows,
                                   .padded = padded,
                                   .x_row = x.stride};
  hr_bind(l, offsetof(hr_fp8_arguments, x), x);
  hr_bind(l, offsetof(hr_fp8_arguments, narrow), l->narrow);
  hr_bind(l, offsetof(hr_fp8_arguments, x_scales), l->narrow_scales);
}

static hr_run_view with_bias(hr_lowering *l, hr_run_view y, const void *bias)
{
  const hr_input_operand inputs[] = {hr_of_view(y), hr_of_address(bias)};
  return bias ? hr_add_rowwise(l, hr_rows_of(HR_ROWWISE_BIAS, y.rows, y.columns), inputs, y.columns) : y;
}

static hr_run_view add_narrow_gemm(hr_lowering *l, hr_run_view x, const hr_fp8_gemm *gemm, const void *plan)
{
  const hr_run_view rows = hr_aligned_rows(l, x);
  narrow_rows(l, rows, gemm->m, &gemm->scales);
  hr_run_view out = hr_new_view(l, gemm->m, gemm->n);
  out.rows = rows.rows;
  hr_launch *launch = hr_add_launch(l, hr_launch_fp8);
  if (!launch)
    return out;
  launch->fp8 = (hr_fp8_arguments){.w = hr_own_weight(l, 0), .w_scales = gemm->w_scales, .plan = plan};
  hr_bind(l, offsetof(hr_fp8_arguments, narrow), l->narrow);
  hr_bind(l, offsetof(hr_fp8_arguments, x_scales), l->narrow_scales);
  hr_bind(l, offsetof(hr_fp8_arguments, y), out);
  return out;
}

hr_run_view hr_add_fp8_gemm(hr_lowering *l, hr_run_view x, const void *bias)
{
  const hr_gemm *g = &l->op->gemm;
  hr_fp8_gemm gemm = {.m = hr_round_up(g->m, ROWS_UNIT), .n = g->n, .k = g->k, .dtype = l->x->options.dtype};
  hr_is_fp8(l, &gemm.scales);
  if (g->m <= HR_LINEAR_ROWS_MAX)
    return hr_add_fp8_gemv(l, x, bias);
  gemm.w_scales = hr_fp8_scales_at(hr_own_weight(l, 0), g->n, g->k);
  const void *plan = plan_of(l, &gemm);
  return plan ? with_bias(l, add_narrow_gemm(l, x, &gemm, plan), bias) : add_widened_gemm(l, x, bias, &gemm.scales);
}
