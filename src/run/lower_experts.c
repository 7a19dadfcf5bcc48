/* SPDX-License-Identifier: Apache-2.0 */
/* Routed experts, and shared ones: the router's choice, copies of tokens in the order of their experts, their GEMMs,
 * and the sum of the results. */
#include "run/tape.h"

#include "base/checked.h"
#include "base/error.h"
#include "model/layers/ffn_experts.h"
#include "model/layers/weight_shapes.h"
#include "runtime/device/device.h"

/* ---- the router ---- */

static hr_route_arguments route_of(const hr_lowering *l)
{
  const hr_ffn_experts *m = &l->group->experts;
  const hr_router *how = &l->x->model.numerics.router;
  return (hr_route_arguments){.sigmoid = how->sigmoid,
                              .normalized = how->normalized,
                              .group_pairs = how->group_pairs,
                              .scale = how->scale,
                              .tokens = l->rows,
                              .experts = m->experts,
                              .active = m->active,
                              .groups = m->groups,
                              .active_groups = m->active_groups,
                              .first = m->held > 0 ? l->x->rank * m->held : 0,
                              .held = m->held,
                              .dtype = l->x->options.dtype,
                              .bias = how->bias_chooses ? hr_run_weight(l->x, l->layer, HR_WEIGHT_ROUTER_BIAS) : NULL};
}

/* The router of few tokens waits for the choice. A bias that only chooses is none of the logits. */
void hr_lower_router(hr_lowering *l)
{
  const bool adds = l->op->weights[1] && !l->x->model.numerics.router.bias_chooses;
  const void *bias = adds ? hr_own_weight(l, 1) : NULL;
  const hr_device *device = l->x->device;
  hr_run_linear linear;
  if (device->backend->routes_few && hr_begin_linear(l, bias, &linear) &&
      device->backend->routes_few(device, &(hr_router_arguments){route_of(l), linear.linear, NULL}))
    hr_write_linear(l, &linear);
  else
    hr_write_view(l, 0, hr_add_gemm(l, hr_read_view(l, 0), bias));
}

/* The router that waits is part of it, and so is the norm before, which is then there for others. */
static void add_router(hr_lowering *l, const hr_run_linear *p)
{
  const int x = l->program->operators.items[p->ops[0]].reads[0];
  const hr_run_view logits = hr_new_view(l, p->linear.rows, p->linear.n);
  const bool norms = p->linear.norm != HR_ROWWISE_COUNT;
  const hr_run_view normed = norms ? hr_new_view(l, p->linear.rows, p->linear.k) : p->x;
  hr_launch *launch = hr_add_launch(l, hr_launch_router);
  if (!launch)
    return;
  launch->router = (hr_router_arguments){route_of(l), p->linear, NULL};
  for (int i = 0; i < p->op_count; i++)
    hr_take_part(l, p->ops[i]);
  hr_bind(l, offsetof(hr_router_arguments, linear.x), p->x);
  hr_bind(l, offsetof(hr_router_arguments, linear.y), logits);
  if (norms)
    hr_bind(l, offsetof(hr_router_arguments, normed), normed);
  l->norms[x].waits = l->linears[l->op->reads[0]].waits = false;
  l->tensors[x] = normed;
}

static void add_route(hr_lowering *l, hr_run_view logits)
{
  hr_launch *launch = hr_add_launch(l, hr_launch_route);
  if (!launch)
    return;
  launch->route = route_of(l);
  hr_bind(l, offsetof(hr_route_arguments, logits), logits);
}

void hr_lower_routes(hr_lowering *l)
{
  static const size_t members[HR_ROUTE_COUNT] = {[HR_ROUTE_WEIGHTS] = offsetof(hr_route_arguments, weights),
                                                 [HR_ROUTE_CHOSEN] = offsetof(hr_route_arguments, chosen),
                                                 [HR_ROUTE_PLACES] = offsetof(hr_route_arguments, places),
                                                 [HR_ROUTE_COPIED] = offsetof(hr_route_arguments, copied),
                                                 [HR_ROUTE_EXPERTS] = offsetof(hr_route_arguments, experts_of),
                                                 [HR_ROUTE_OFFSETS] = offsetof(hr_route_arguments, offsets),
                                                 [HR_ROUTE_WEIGHTS_OF] = offsetof(hr_route_arguments, weights_of)};
  const int count = l->tape ? HR_ROUTE_COUNT : HR_ROUTE_WEIGHTS_OF;
  const hr_ffn_experts *m = &l->group->experts;
  const hr_run_linear *router = &l->linears[l->op->reads[0]];
  for (int i = 0; i < count; i++)
    l->routes[i] = hr_new_words(l, i == HR_ROUTE_OFFSETS ? m->experts + 1 : l->rows * m->active);
  if (router->waits)
    add_router(l, router);
  else
    add_route(l, hr_read_view(l, 0));
  for (int i = 0; i < count; i++)
    hr_bind(l, members[i], l->routes[i]); /* the first member of both kinds of arguments */
  if (l->tape)
    hr_keep_route(l, hr_read_view(l, 0));
}

void hr_limit_to_own_copies(hr_lowering *l)
{
  hr_run_view end = l->routes[HR_ROUTE_OFFSETS];
  end.offset = l->group->experts.held * (int64_t)(sizeof(int32_t) / hr_element_bytes(l));
  if (l->group->experts.held > 0)
    hr_bind(l, offsetof(hr_rowwise_arguments, row_count), end);
}

void hr_lower_dispatch(hr_lowering *l)
{
  const bool weighs = l->x->model.numerics.router.weighs_inputs;
  const hr_run_view in = hr_packed(l, hr_read_view(l, 0));
  const hr_run_view x = weighs ? hr_add_weighted_rows(l, in, hr_of_view(l->routes[HR_ROUTE_WEIGHTS])) : in;
  if (!l->group->experts.bias && hr_wait_for_experts(l, x))
    return;
  hr_rowwise r = hr_rows_of(HR_ROWWISE_GATHER, l->rows * l->group->experts.active, x.columns);
  r.period = x.rows;
  const hr_input_operand inputs[] = {hr_of_view(l->routes[HR_ROUTE_COPIED]), hr_of_view(x)};
  hr_write_view(l, 0, hr_add_rowwise(l, r, inputs, x.columns));
  hr_limit_to_own_copies(l);
}

/* ---- experts ---- */

static hr_launch *add_grouped(hr_lowering *l, const hr_grouped_arguments *arguments, hr_run_view a, hr_run_view c,
                              hr_run_view offsets)
{
  hr_launch *launch = hr_add_launch(l, hr_launch_grouped);
  if (!launch)
    return NULL;
  launch->grouped = *arguments;
  hr_bind(l, offsetof(hr_grouped_arguments, a), a);
  hr_bind(l, offsetof(hr_grouped_arguments, c), c);
  hr_bind(l, offsetof(hr_grouped_arguments, offsets), offsets);
  return launch;
}

/* A launch for each power of two of rows, of which an expert's copies are made up. */
static void add_by_plans(hr_lowering *l, hr_grouped_arguments arguments, hr_run_view a, hr_run_view c,
                         hr_run_view offsets)
{
  hr_gemm g = l->op->gemm;
  g.batch = 1, g.n = arguments.n, g.k = arguments.k;
  g.alignment =
      hr_min64(hr_view_alignment(l, (hr_run_view){.offset = g.n}), hr_view_alignment(l, (hr_run_view){.offset = g.k}));
  for (g.m = 1; g.m <= arguments.most; g.m *= 2) {
    arguments.rows = g.m;
    hr_launch *launch = add_grouped(l, &arguments, a, c, offsets);
    if (launch)
      hr_lowering_fail(l, hr_plans_gemm(l->x->plans, &g, &launch->plan, l->error));
  }
}

void hr_add_grouped(hr_lowering *l, const hr_grouped_arguments *arguments, hr_run_view a, hr_run_view c,
                    hr_run_view offsets)
{
  if (l->x->device->backend->multiply_groups)
    add_grouped(l, arguments, a, c, offsets);
  else
    add_by_plans(l, *arguments, a, c, offsets);
}

/* An expert's bias for each of its copies. */
static hr_run_view with_biases(hr_lowering *l, hr_run_view x, const void *biases)
{
  hr_rowwise r = hr_rows_of(HR_ROWWISE_GATHER, x.rows, x.columns);
  r.period = hr_experts_held(&l->group->experts);
  const hr_input_operand inputs[] = {hr_of_view(l->routes[HR_ROUTE_EXPERTS]), hr_of_address(biases)};
  return hr_add_pair(l, HR_ROWWISE_RESIDUAL, x, hr_add_rowwise(l, r, inputs, x.columns));
}

/* An expert has at most as many copies as there are tokens. */
void hr_lower_grouped(hr_lowering *l)
{
  hr_run_linear linear;
  if (hr_begin_expert_linear(l, &linear)) {
    hr_write_linear(l, &linear);
    return;
  }
  hr_weight_shapes shapes;
  hr_list_weights(&l->x->model, l->group, &shapes);
  const hr_weight_shape *shape = &shapes.of[l->op->weights[0]];
  const hr_run_view a = hr_read_view(l, 0), c = hr_new_view(l, a.rows, shape->rows);
  const hr_grouped_arguments arguments = {.experts = shape->count,
                                          .copies = a.rows,
                                          .most = l->rows,
                                          .mean = hr_max64(1, a.rows / l->group->experts.experts),
                                          .n = shape->rows,
                                          .k = shape->columns,
                                          .dtype = l->x->options.dtype,
                                          .b = hr_own_weight(l, 0)};
  hr_add_grouped(l, &arguments, a, c, l->routes[HR_ROUTE_OFFSETS]);
  hr_keep_grouped(l, &arguments, a, c);
  hr_write_view(l, 0, l->op->weights[1] ? with_biases(l, c, hr_own_weight(l, 1)) : c);
}

/* ---- the sum ---- */

void hr_lower_shared_gate(hr_lowering *l)
{
  const hr_run_view x = hr_read_view(l, 0), gate = hr_add_gemm(l, hr_read_view(l, 1), NULL);
  hr_write_view(l, 0, hr_add_pair(l, HR_ROWWISE_GATE, x, gate));
}

/* The one expert of a token whose input was weighted has its result. */
void hr_lower_combine(hr_lowering *l)
{
  if (hr_combine_linear(l))
    return;
  const hr_run_view x = hr_read_view(l, 0);
  const bool weighed = l->x->model.numerics.router.weighs_inputs;
  hr_rowwise r = hr_rows_of(weighed ? HR_ROWWISE_GATHER : HR_ROWWISE_COMBINE, l->rows, x.columns);
  r.period = x.rows;
  r.group = l->group->experts.active;
  const hr_input_operand inputs[] = {hr_of_view(l->routes[HR_ROUTE_PLACES]), hr_of_view(x),
                                     hr_of_view(l->routes[HR_ROUTE_WEIGHTS])};
  const hr_run_view sum = hr_add_rowwise(l, r, inputs, x.columns);
  hr_write_view(l, 0, l->op->reads[2] ? hr_add_pair(l, HR_ROWWISE_RESIDUAL, sum, hr_read_view(l, 2)) : sum);
}
