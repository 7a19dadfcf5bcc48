/* SPDX-License-Identifier: Apache-2.0 */
/* What the lowering of all operators shares. */
#include "run/tape.h"

#include "base/checked.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* ---- launches and values ---- */

void hr_lowering_fail(hr_lowering *l, hr_status status)
{
  if (l->status == HR_OK)
    l->status = status;
}

bool hr_lowering_grow(hr_lowering *l, void **items, int count, int *room, size_t size)
{
  if (l->status == HR_OK && count == *room) {
    int more = *room > 0 ? 2 * *room : 64;
    void *larger = realloc(*items, (size_t)more * size);
    if (!larger)
      hr_lowering_fail(l, hr_fail(l->error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a step's launches"));
    else
      *items = larger, *room = more;
  }
  return l->status == HR_OK;
}

hr_launch *hr_add_launch(hr_lowering *l, hr_launch_fn run)
{
  hr_run_program *p = l->program;
  void *items = p->launches;
  bool room = hr_lowering_grow(l, &items, p->launch_count, &p->launch_room, sizeof *p->launches);
  p->launches = items;
  if (!room)
    return NULL;
  hr_launch *launch = &p->launches[p->launch_count++];
  memset(launch, 0, sizeof *launch);
  launch->ops[0] = l->op_index;
  launch->op_count = 1;
  launch->run = run;
  return launch;
}

void hr_take_part(hr_lowering *l, size_t op)
{
  if (l->status != HR_OK)
    return;
  hr_launch *launch = &l->program->launches[l->program->launch_count - 1];
  launch->ops[launch->op_count++] = op;
}

static int add_value(hr_lowering *l, size_t bytes, int64_t columns)
{
  hr_run_program *p = l->program;
  void *items = p->values;
  bool room = hr_lowering_grow(l, &items, p->value_count, &p->value_room, sizeof *p->values);
  p->values = items;
  if (!room)
    return -1;
  p->values[p->value_count] =
      (hr_arena_value){.bytes = bytes, .columns = columns, .first = p->launch_count, .last = p->launch_count};
  return p->value_count++;
}

size_t hr_element_bytes(const hr_lowering *l)
{
  return hr_dtype_bytes(l->x->options.dtype);
}

hr_run_view hr_new_view(hr_lowering *l, int64_t rows, int64_t columns)
{
  int value = add_value(l, (size_t)(rows * columns) * hr_element_bytes(l), columns);
  return (hr_run_view){.value = value, .rows = rows, .stride = columns, .columns = columns};
}

hr_run_view hr_new_words(hr_lowering *l, int64_t count)
{
  int value = add_value(l, (size_t)count * sizeof(int32_t), count);
  return (hr_run_view){.value = value, .rows = 1, .stride = count, .columns = count};
}

void hr_bind(hr_lowering *l, size_t member, hr_run_view view)
{
  if (l->status != HR_OK)
    return;
  hr_launch *launch = &l->program->launches[l->program->launch_count - 1];
  launch->operands[launch->operand_count++] =
      (hr_run_operand){member, view.value, (size_t)view.offset * hr_element_bytes(l)};
  l->program->values[view.value].last = l->program->launch_count - 1;
}

int64_t hr_view_alignment(const hr_lowering *l, hr_run_view view)
{
  const int64_t element = (int64_t)hr_element_bytes(l), bytes = view.offset * element;
  int64_t alignment = 16;
  while (bytes % alignment != 0)
    alignment /= 2;
  return hr_max64(alignment, element);
}

const void *hr_own_weight(const hr_lowering *l, int index)
{
  return hr_run_weight(l->x, l->layer, l->op->weights[index]);
}

/* ---- row-wise operations ---- */

static size_t input_member(int i)
{
  return i < 3 ? offsetof(hr_rowwise_arguments, inputs) + (size_t)i * sizeof(void *)
               : offsetof(hr_rowwise_arguments, more_inputs) + (size_t)(i - 3) * sizeof(void *);
}

static size_t output_member(int i)
{
  return i < 1 ? offsetof(hr_rowwise_arguments, output)
               : offsetof(hr_rowwise_arguments, more_outputs) + (size_t)(i - 1) * sizeof(void *);
}

static void bind_operand(hr_lowering *l, size_t member, hr_run_view view, const void *address)
{
  if (!address)
    hr_bind(l, member, view);
  else if (l->status == HR_OK)
    *(const void **)(uintptr_t)((char *)&l->program->launches[l->program->launch_count - 1].arguments + member) =
        address;
}

void hr_add_rowwise_into(hr_lowering *l, hr_rowwise rows, const hr_input_operand *inputs,
                         const hr_output_operand *outputs, int output_count)
{
  rows.dtype = l->x->options.dtype;
  if (rows.x_stride > 0 || rows.y_stride > 0)
    rows.alignment = (int64_t)hr_element_bytes(l);
  hr_launch *launch = hr_add_launch(l, hr_launch_rowwise);
  if (!launch)
    return;
  launch->arguments.rows = hr_rowwise_arguments_default();
  hr_lowering_fail(l, hr_plans_rowwise(l->x->plans, &rows, &launch->plan, l->error));
  for (int i = 0; i < hr_rowwise_inputs(rows.operation); i++)
    bind_operand(l, input_member(i), inputs[i].view, inputs[i].address);
  for (int i = 0; i < output_count; i++)
    bind_operand(l, output_member(i), outputs[i].view, outputs[i].address);
}

hr_run_view hr_add_rowwise(hr_lowering *l, hr_rowwise rows, const hr_input_operand *inputs, int64_t columns)
{
  const hr_run_view out = hr_new_view(l, rows.rows * rows.columns / columns, columns);
  hr_add_rowwise_into(l, rows, inputs, (hr_output_operand[]){{out, NULL}}, 1);
  hr_keep_rowwise(l, &rows, inputs, out);
  return out;
}

hr_rowwise hr_rows_of(hr_rowwise_operation operation, int64_t rows, int64_t columns)
{
  hr_rowwise r = hr_rowwise_default();
  r.operation = operation;
  r.rows = rows, r.columns = columns;
  return r;
}

hr_run_view hr_packed(hr_lowering *l, hr_run_view view)
{
  hr_rowwise r = hr_rows_of(HR_ROWWISE_COPY, view.rows, view.columns);
  r.x_stride = view.stride;
  return hr_is_packed(view) ? view : hr_add_rowwise(l, r, (hr_input_operand[]){hr_of_view(view)}, view.columns);
}

hr_run_view hr_add_pair(hr_lowering *l, hr_rowwise_operation operation, hr_run_view a, hr_run_view b)
{
  const hr_input_operand inputs[] = {hr_of_view(a), hr_of_view(b)};
  const hr_run_view result = hr_add_rowwise(l, hr_rows_of(operation, a.rows, a.columns), inputs, a.columns);
  if (operation == HR_ROWWISE_RESIDUAL)
    l->sum = (hr_run_sum){l->program->launch_count - 1, {a, b}, result};
  return result;
}

hr_run_view hr_add_scaled(hr_lowering *l, hr_run_view x, double factor)
{
  hr_rowwise r = hr_rows_of(HR_ROWWISE_SCALE, x.rows, x.columns);
  r.factor = factor;
  return factor == 0 || factor == 1 ? x : hr_add_rowwise(l, r, (hr_input_operand[]){hr_of_view(x)}, x.columns);
}

hr_run_view hr_rows_multiplied(const hr_lowering *l, hr_run_view x)
{
  int64_t tokens = x.rows / l->op->gemm.m;
  x.offset += (tokens - 1) * x.stride;
  x.stride *= tokens;
  x.rows = l->op->gemm.m;
  return x;
}

#define LOAD 16 /* bytes, of a program for fp8 */

hr_run_view hr_aligned_rows(hr_lowering *l, hr_run_view x)
{
  const hr_run_view rows = hr_rows_multiplied(l, x);
  const bool aligned = hr_view_alignment(l, rows) >= LOAD && rows.stride * (int64_t)hr_element_bytes(l) % LOAD == 0;
  hr_fp8_scales scales;
  if (aligned || !hr_is_fp8(l, &scales))
    return rows;
  hr_rowwise copy = hr_rows_of(HR_ROWWISE_COPY, rows.rows, rows.columns);
  copy.x_stride = rows.stride;
  return hr_add_rowwise(l, copy, (hr_input_operand[]){hr_of_view(rows)}, rows.columns);
}

void hr_add_product(hr_lowering *l, hr_gemm gemm, const hr_product_operands *o)
{
  gemm.bias = o->bias != NULL;
  hr_launch *launch = hr_add_launch(l, hr_launch_gemm);
  if (!launch)
    return;
  launch->arguments.gemm = hr_gemm_arguments_default();
  launch->arguments.gemm.bias = o->bias;
  hr_lowering_fail(l, hr_plans_gemm(l->x->plans, &gemm, &launch->plan, l->error));
  hr_bind(l, offsetof(hr_gemm_arguments, a), o->a);
  bind_operand(l, offsetof(hr_gemm_arguments, b), o->b.view, o->b.address);
  bind_operand(l, offsetof(hr_gemm_arguments, c), o->c.view, o->c.address);
}

hr_run_view hr_add_gemm(hr_lowering *l, hr_run_view x, const void *bias)
{
  hr_gemm g = l->op->gemm;
  const hr_run_view a = hr_rows_multiplied(l, x), out = hr_new_view(l, g.m, g.n);
  const void *weight = hr_own_weight(l, 0);
  g.lda = a.stride;
  g.alignment = hr_view_alignment(l, a);
  hr_add_product(l, g, &(hr_product_operands){a, hr_of_address(weight), {out, NULL}, bias});
  hr_keep_gemm(l, a, weight, bias, out);
  return out;
}

const int32_t *hr_numbers_of(const hr_lowering *l, hr_run_number which)
{
  const int64_t before = l->part * hr_run_number_count(l->x);
  return (const int32_t *)hr_buffer_data(l->program->numbers) + (before + which) * l->rows;
}

hr_run_view hr_add_gather(hr_lowering *l, hr_run_number which, const void *table, int64_t table_rows, int64_t columns)
{
  hr_rowwise r = hr_rows_of(HR_ROWWISE_GATHER, l->rows, columns);
  r.period = table_rows;
  return hr_add_rowwise(l, r, (hr_input_operand[]){hr_of_address(hr_numbers_of(l, which)), hr_of_address(table)},
                        columns);
}

hr_run_view hr_add_weighted_rows(hr_lowering *l, hr_run_view x, hr_input_operand factors)
{
  const hr_run_view packed = hr_packed(l, x);
  hr_rowwise r = hr_rows_of(HR_ROWWISE_COMBINE, x.rows, x.columns);
  r.period = x.rows;
  r.group = 1;
  return hr_add_rowwise(
      l, r, (hr_input_operand[]){hr_of_address(hr_numbers_of(l, HR_NUMBER_ROW)), hr_of_view(packed), factors},
      x.columns);
}

hr_run_view hr_add_softcap(hr_lowering *l, hr_run_view x, double c)
{
  hr_rowwise r = hr_rows_of(HR_ROWWISE_SOFTCAP, x.rows, x.columns);
  r.factor = c;
  return c == 0 ? x : hr_add_rowwise(l, r, (hr_input_operand[]){hr_of_view(x)}, x.columns);
}

static int which_angles(const hr_lowering *l)
{
  return l->group->attention.window > 0 && l->x->angles[1];
}

const hr_buffer *hr_angle_table(const hr_lowering *l)
{
  return l->x->angles[which_angles(l)];
}

hr_run_view hr_angles_of(hr_lowering *l, bool back)
{
  hr_buffer *const *tables = back ? l->x->angles_back : l->x->angles;
  hr_run_view *views = back ? l->angles_back : l->angles;
  const int which = which_angles(l);
  if (views[which].value < 0)
    views[which] =
        hr_add_gather(l, HR_NUMBER_POSITION, hr_buffer_data(tables[which]), l->x->options.tokens, l->x->rotary_dim);
  return views[which];
}
