/* SPDX-License-Identifier: Apache-2.0 */
/* Norms and linear layers of few rows are not launched where they stand in the list: a norm becomes a part of the
 * linear layers that read it, and an activation or a residual a part of the linear layer before it. What anything else
 * reads is launched then. */
#include "run/lower.h"

#include "base/checked.h"
#include "model/layers/weight_shapes.h"
#include "runtime/device/device.h"

static bool fuses(const hr_lowering *l)
{
  return l->x->device->backend->multiply_linear && !l->tape && l->rows <= HR_LINEAR_ROWS_MAX && !l->x->weights.q8;
}

/* A kernel that runs all of them has no beginnings that crowd. */
static int64_t weights_most(const hr_lowering *l)
{
  return l->persists ? INT64_MAX : HR_LINEAR_WEIGHTS_MAX;
}

/* ---- launches ---- */

static bool is_plain(const hr_linear_arguments *x)
{
  return x->norm == HR_ROWWISE_COUNT && x->activation == HR_ROWWISE_COUNT && !x->gate && x->experts == 0;
}

static hr_run_view launch_fused(hr_lowering *l, const hr_run_linear *p)
{
  const hr_linear_arguments *x = &p->linear;
  const hr_run_view y = hr_new_view(l, x->active > 0 ? x->rows / x->active : x->rows, x->n);
  hr_launch *launch = hr_add_launch(l, hr_launch_linear);
  if (!launch)
    return y;
  launch->linear = *x;
  launch->op_count = p->op_count;
  for (int i = 0; i < p->op_count; i++)
    launch->ops[i] = p->ops[i];
  hr_bind(l, offsetof(hr_linear_arguments, x), p->x);
  hr_bind(l, offsetof(hr_linear_arguments, y), y);
  if (p->residual.value >= 0)
    hr_bind(l, offsetof(hr_linear_arguments, residual), p->residual);
  if (x->experts > 0) {
    hr_bind(l, offsetof(hr_linear_arguments, offsets), l->routes[HR_ROUTE_OFFSETS]);
    hr_bind(l, offsetof(hr_linear_arguments, experts_of), l->routes[HR_ROUTE_EXPERTS]);
  }
  if (x->active > 0) {
    hr_bind(l, offsetof(hr_linear_arguments, places), l->routes[HR_ROUTE_PLACES]);
    hr_bind(l, offsetof(hr_linear_arguments, weights), l->routes[HR_ROUTE_WEIGHTS]);
  } else if (x->experts > 0) {
    hr_bind(l, offsetof(hr_linear_arguments, numbers), l->routes[HR_ROUTE_COPIED]);
  }
  return y;
}

/* The operators of the list whose launches are appended. */
static void go_to(hr_lowering *l, size_t op)
{
  l->op_index = op;
  l->op = &l->program->operators.items[op];
}

hr_run_view hr_add_fused(hr_lowering *l, const hr_run_linear *p)
{
  const size_t op = l->op_index;
  go_to(l, p->ops[0]);
  const bool alone = !l->persists && is_plain(&p->linear) && p->residual.value < 0 && !p->linear.scales;
  const hr_run_view y = alone ? hr_add_gemm(l, p->x, p->linear.bias) : launch_fused(l, p);
  go_to(l, op);
  return y;
}

static hr_run_view add_norm(hr_lowering *l, const hr_run_norm *norm)
{
  const size_t op = l->op_index;
  go_to(l, norm->op);
  const hr_run_view y = hr_add_norm(l, norm->rows, norm->inputs);
  go_to(l, op);
  return y;
}

static hr_run_view launched(hr_lowering *l, int tensor)
{
  if (l->norms[tensor].waits)
    l->tensors[tensor] = add_norm(l, &l->norms[tensor]);
  else if (l->linears[tensor].waits)
    l->tensors[tensor] = hr_add_fused(l, &l->linears[tensor]);
  l->norms[tensor].waits = l->linears[tensor].waits = false;
  return l->tensors[tensor];
}

hr_run_view hr_tensor_view(hr_lowering *l, int tensor)
{
  hr_run_linear *p = &l->linears[tensor];
  if (p->waits && p->beside) {
    p->residual = launched(l, p->beside);
    p->linear.residual_stride = p->residual.stride;
  }
  return launched(l, tensor);
}

hr_run_view hr_read_view(hr_lowering *l, int index)
{
  return hr_tensor_view(l, l->op->reads[index]);
}

void hr_write_view(hr_lowering *l, int index, hr_run_view view)
{
  const int tensor = l->op->writes[index];
  l->norms[tensor].waits = l->linears[tensor].waits = false;
  l->tensors[tensor] = view;
}

/* ---- what waits ---- */

void hr_write_norm(hr_lowering *l, const hr_rowwise *rows, const hr_input_operand inputs[3])
{
  if (!fuses(l) || hr_ends_sum_of_ranks(l, rows, inputs)) {
    hr_write_view(l, 0, hr_add_norm(l, *rows, inputs));
    return;
  }
  hr_write_view(l, 0, (hr_run_view){.value = -1});
  l->norms[l->op->writes[0]] =
      (hr_run_norm){.waits = true, .rows = *rows, .inputs = {inputs[0], inputs[1], inputs[2]}, .op = l->op_index};
}

static void add_op(hr_run_linear *p, size_t op)
{
  if (p->op_count < HR_LAUNCH_OPS)
    p->ops[p->op_count++] = op;
}

/* The norm that the operator's x waits for; NULL: none that a product takes. */
static const hr_run_norm *norm_before(const hr_lowering *l)
{
  const hr_run_norm *norm = &l->norms[l->op->reads[0]];
  const hr_gemm *g = &l->op->gemm;
  const hr_dtype dtype = l->x->options.dtype;
  const bool fits = l->persists
                        ? hr_linear_x_bytes(g->m, g->k) <= HR_LINEAR_X_BYTES_MAX
                        : hr_linear_norm_bytes(norm->rows.operation, g->m, g->k, dtype) <= HR_LINEAR_NORM_BYTES_MAX;
  return norm->waits && fits ? norm : NULL;
}

static void set_scales(const hr_lowering *l, hr_linear_arguments *x)
{
  if (hr_is_fp8(l, &x->shares))
    x->scales = hr_fp8_scales_at(x->weight, x->n, x->k);
}

/* The operator's product with nothing around it. */
static hr_run_linear product_of(const hr_lowering *l, hr_run_view x, int64_t rows, int64_t n, int64_t k)
{
  hr_run_linear p = {.waits = true,
                     .ops = {l->op_index},
                     .op_count = 1,
                     .x = x,
                     .residual = {.value = -1},
                     .linear = {.rows = rows,
                                .n = n,
                                .k = k,
                                .x_stride = x.stride,
                                .alignment = hr_view_alignment(l, x),
                                .dtype = l->x->options.dtype,
                                .norm = HR_ROWWISE_COUNT,
                                .activation = HR_ROWWISE_COUNT,
                                .weight = hr_own_weight(l, 0)}};
  set_scales(l, &p.linear);
  return p;
}

bool hr_begin_linear(hr_lowering *l, const void *bias, hr_run_linear *p)
{
  const hr_gemm *g = &l->op->gemm;
  if (!fuses(l) || g->n * g->k > weights_most(l))
    return false;
  const hr_run_norm *norm = norm_before(l);
  const hr_run_view x = hr_aligned_rows(l, norm ? norm->inputs[0].view : hr_read_view(l, 0));
  *p = product_of(l, x, g->m, g->n, g->k);
  p->linear.bias = bias;
  if (!norm)
    return true;
  p->linear.norm = norm->rows.operation;
  p->linear.epsilon = norm->rows.epsilon;
  p->linear.norm_weight = norm->inputs[1].address, p->linear.norm_bias = norm->inputs[2].address;
  add_op(p, norm->op);
  return true;
}

hr_run_view hr_add_fp8_gemv(hr_lowering *l, hr_run_view x, const void *bias)
{
  const hr_gemm *g = &l->op->gemm;
  hr_run_linear p = product_of(l, hr_aligned_rows(l, x), g->m, g->n, g->k);
  p.linear.bias = bias;
  return launch_fused(l, &p);
}

bool hr_wait_for_experts(hr_lowering *l, hr_run_view x)
{
  l->dispatched = fuses(l) ? x : (hr_run_view){.value = -1};
  l->dispatch_op = l->op_index;
  return fuses(l);
}

/* The last one's results are added up. */
bool hr_begin_expert_linear(hr_lowering *l, hr_run_linear *p)
{
  hr_weight_shapes shapes;
  hr_list_weights(&l->x->model, l->group, &shapes);
  const hr_weight_shape *shape = &shapes.of[l->op->weights[0]];
  const int64_t active = l->group->experts.active, copies = l->rows * active;
  const bool down = l->op->id == HR_OP_EXPERT_DOWN, weighed = l->x->model.numerics.router.weighs_inputs;
  if (l->dispatched.value < 0 || (down && (weighed || copies > HR_LINEAR_COPIES_MAX)))
    return false;
  *p = product_of(l, down ? hr_read_view(l, 0) : l->dispatched, copies, shape->rows, shape->columns);
  p->linear.experts = shape->count;
  p->linear.most = l->rows;
  p->linear.active = down ? active : 0;
  if (!down)
    add_op(p, l->dispatch_op);
  return true;
}

bool hr_combine_linear(hr_lowering *l)
{
  hr_run_linear *p = &l->linears[l->op->reads[0]];
  if (!p->waits)
    return false;
  p->waits = false;
  p->beside = l->op->reads[2];
  add_op(p, l->op_index);
  hr_write_linear(l, p);
  l->linears[l->op->writes[0]].waits = true;
  return true;
}

void hr_write_linear(hr_lowering *l, const hr_run_linear *p)
{
  const hr_run_linear kept = *p;
  hr_write_view(l, 0, (hr_run_view){.value = -1});
  l->linears[l->op->writes[0]] = kept;
}

/* ---- what becomes a part ---- */

static bool multiply_the_same(const hr_run_linear *a, const hr_run_linear *b)
{
  return a->x.value == b->x.value && a->x.offset == b->x.offset && a->linear.n == b->linear.n &&
         a->linear.norm_weight == b->linear.norm_weight && a->linear.norm == b->linear.norm &&
         !a->linear.scales == !b->linear.scales && a->linear.shares.rows == b->linear.shares.rows;
}

bool hr_activate_linear(hr_lowering *l, const hr_rowwise *activation)
{
  const bool gated = l->op->reads[1] != HR_TENSOR_NONE;
  hr_run_linear *first = &l->linears[l->op->reads[0]], *second = gated ? &l->linears[l->op->reads[1]] : first;
  if (!first->waits || !second->waits || second->linear.activation != HR_ROWWISE_COUNT)
    return false;
  if (gated && (!multiply_the_same(first, second) || 2 * first->linear.n * first->linear.k > weights_most(l)))
    return false;
  hr_run_linear both = *second;
  if (gated) {
    both.linear.gate = first->linear.weight, both.linear.gate_bias = first->linear.bias;
    both.linear.gate_scales = first->linear.scales;
    add_op(&both, first->ops[0]);
  }
  both.linear.activation = activation->operation;
  both.linear.limit = activation->factor;
  add_op(&both, l->op_index);
  first->waits = second->waits = false;
  hr_write_linear(l, &both);
  return true;
}

bool hr_add_to_residual(hr_lowering *l, int tensor, double factor, hr_run_view *sum)
{
  hr_run_linear *p = &l->linears[tensor];
  if (!p->waits)
    return false;
  p->residual = *sum;
  p->linear.residual_stride = sum->stride;
  p->linear.factor = factor;
  add_op(p, l->op_index);
  p->waits = false;
  *sum = hr_add_fused(l, p);
  return true;
}
