/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of heads that a rotated part was joined to, of latent attention. The opposite angles rotate back. */
#include "training/gradients.h"

#include "shape/rowwise.h"

/* Q: both parts of a head stand side by side, and so do their gradients. */
static void back_own(hr_lowering *l, const hr_tape_entry *e, hr_run_view dy)
{
  hr_rowwise r = e->rows.problem;
  const int64_t before = hr_rowwise_x_columns(&r);
  hr_run_view x = e->rows.inputs[0].view;
  x.columns = r.group * r.columns;
  r.x_stride = r.z_stride = dy.stride;
  r.x_row = r.z_row = r.columns;
  const hr_input_operand inputs[] = {hr_of_view(hr_columns_of(dy, 0, before)),
                                     hr_of_view(hr_columns_of(dy, before, r.rotated)),
                                     hr_of_view(hr_angles_of(l, true))};
  const hr_run_view dx = hr_new_view(l, x.rows, x.columns);
  hr_add_rowwise_into(l, r, inputs, (hr_output_operand[]){{dx, NULL}}, 1);
  hr_add_gradient(l, x, dx);
}

/* The columns that were copied, of each head, go among those of V. */
static void back_copied(hr_lowering *l, const hr_tape_entry *e, hr_run_view dy)
{
  const hr_rowwise *joined = &e->rows.problem;
  const hr_run_view x = e->rows.inputs[0].view, dx = hr_gradient_place(l, x);
  hr_rowwise r = hr_rows_of(HR_ROWWISE_COPY, joined->rows, hr_rowwise_x_columns(joined));
  r.x_stride = joined->columns;
  r.y_stride = hr_rowwise_x_row(joined);
  hr_add_rowwise_into(l, r, (hr_input_operand[]){hr_of_view(dy)}, (hr_output_operand[]){{dx, NULL}}, 1);
  hr_add_gradient(l, x, dx);
}

/* The sum of the rotated part over the heads, as a product of each token's heads and ones. */
static hr_run_view sum_of_heads(hr_lowering *l, const hr_rowwise *joined, hr_run_view dy)
{
  const hr_run_view first = hr_columns_of(dy, hr_rowwise_x_columns(joined), joined->rotated);
  const hr_run_view sum = hr_new_view(l, dy.rows, joined->rotated);
  hr_gemm g = hr_gemm_default();
  g.dtype = l->x->options.dtype;
  g.batch = dy.rows, g.m = joined->rotated, g.n = 1, g.k = joined->group;
  g.transpose_a = g.broadcast_b = true;
  g.lda = joined->columns, g.stride_a = dy.stride;
  g.alignment = (int64_t)hr_element_bytes(l);
  hr_add_product(l, g, &(hr_product_operands){first, hr_of_address(hr_buffer_data(l->x->ones)), {sum, NULL}, NULL});
  return sum;
}

/* K: all heads share the rotated part. */
static void back_shared(hr_lowering *l, const hr_tape_entry *e, hr_run_view dy)
{
  const hr_rowwise *joined = &e->rows.problem;
  const hr_run_view z = e->rows.inputs[1].view, sum = sum_of_heads(l, joined, dy), dz = hr_gradient_place(l, z);
  hr_rowwise r = hr_rows_of(HR_ROWWISE_ROTARY, z.rows, z.columns);
  r.period = z.rows;
  r.interleaved = joined->interleaved;
  r.y_stride = hr_is_packed(dz) ? 0 : dz.stride;
  const hr_input_operand inputs[] = {hr_of_view(sum), hr_of_view(hr_angles_of(l, true))};
  hr_add_rowwise_into(l, r, inputs, (hr_output_operand[]){{dz, NULL}}, 1);
  hr_add_gradient(l, z, dz);
}

void hr_back_join(hr_lowering *l, const hr_tape_entry *e, hr_run_view dy)
{
  if (e->rows.problem.z_row > 0) {
    back_own(l, e, dy);
    return;
  }
  back_copied(l, e, dy);
  back_shared(l, e, dy);
}
