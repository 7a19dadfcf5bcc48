/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of a layer of experts: of copies, of their weighted sum, of gates, of the router's choice, and of the GEMMs
 * of each expert's copies. */
#include "training/gradients.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/device/device.h"
#include "training/experts.h"
#include "training/training.h"

/* The choice of the layer's experts. */
static const hr_tape_route *route_of(const hr_lowering *l)
{
  const hr_tape *t = l->tape;
  const hr_tape_route *found = NULL;
  for (int i = 0; i < t->count; i++) {
    if (t->entries[i].kind == HR_TAPE_ROUTE && t->entries[i].layer == l->layer)
      found = &t->entries[i].route;
  }
  return found;
}

/* ---- copies, their sum, gates ---- */

/* The sum of the gradients of a token's copies, in the order of its choices. */
void hr_back_copies(hr_lowering *l, const hr_tape_entry *e, hr_run_view dy)
{
  const hr_run_view x = e->rows.inputs[1].view, dx = hr_new_view(l, x.rows, x.columns);
  hr_rowwise r = hr_rows_of(HR_ROWWISE_GATHER_SUM, x.rows, x.columns);
  r.period = dy.rows;
  r.group = dy.rows / x.rows;
  const hr_input_operand inputs[] = {hr_of_view(route_of(l)->of[HR_ROUTE_PLACES]), hr_of_view(dy)};
  hr_add_rowwise_into(l, r, inputs, (hr_output_operand[]){{dx, NULL}}, 1);
  hr_add_partial_gradient(l, x, dx);
}

/* The weights' gradients are in the order of the copies. */
void hr_back_combine(hr_lowering *l, const hr_tape_entry *e, hr_run_view dy)
{
  const hr_input_operand *in = e->rows.inputs;
  const hr_run_view x = in[1].view, weights = in[2].view;
  const hr_run_view *route = route_of(l)->of;
  const hr_run_view dx = hr_new_view(l, x.rows, x.columns), dw = hr_new_words(l, x.rows);
  hr_rowwise r = hr_rows_of(HR_ROWWISE_COMBINE_BACKWARD, x.rows, x.columns);
  r.period = dy.rows;
  const hr_input_operand inputs[] = {hr_of_view(route[HR_ROUTE_COPIED]), hr_of_view(dy), hr_of_view(x),
                                     hr_of_view(route[HR_ROUTE_WEIGHTS_OF])};
  hr_add_rowwise_into(l, r, inputs, (hr_output_operand[]){{dx, NULL}, {dw, NULL}}, 2);
  hr_add_gradient(l, x, dx);
  hr_add_gradient(l, weights, dw);
}

void hr_back_gate(hr_lowering *l, const hr_tape_entry *e, hr_run_view dy)
{
  const hr_input_operand *in = e->rows.inputs;
  const hr_run_view x = in[0].view, gate = in[1].view;
  const hr_run_view dx = hr_new_view(l, x.rows, x.columns), dgate = hr_new_view(l, gate.rows, gate.columns);
  hr_add_rowwise_into(l, hr_rows_of(HR_ROWWISE_GATE_BACKWARD, x.rows, x.columns),
                      (hr_input_operand[]){hr_of_view(dy), in[0], in[1]},
                      (hr_output_operand[]){{dx, NULL}, {dgate, NULL}}, 2);
  hr_add_gradient(l, x, dx);
  hr_add_gradient(l, gate, dgate);
}

/* ---- the choice ---- */

void hr_back_route(hr_lowering *l, const hr_tape_entry *e, hr_pass pass)
{
  const hr_tape_route *t = &e->route;
  const hr_run_view dw = hr_gradient_of(l, e->output);
  if (pass != HR_PASS_DGRAD || dw.value < 0)
    return;
  const hr_run_view d_logits = hr_new_view(l, t->logits.rows, t->logits.columns);
  hr_launch *launch = hr_add_launch(l, hr_launch_route_backward);
  if (!launch)
    return;
  launch->route_back = (hr_route_backward_arguments){.sigmoid = t->how.sigmoid,
                                                     .normalized = t->how.normalized,
                                                     .scale = t->how.scale,
                                                     .tokens = t->how.tokens,
                                                     .experts = t->how.experts,
                                                     .active = t->how.active,
                                                     .dtype = t->how.dtype};
  hr_bind(l, offsetof(hr_route_backward_arguments, logits), t->logits);
  hr_bind(l, offsetof(hr_route_backward_arguments, weights), t->of[HR_ROUTE_WEIGHTS]);
  hr_bind(l, offsetof(hr_route_backward_arguments, chosen), t->of[HR_ROUTE_CHOSEN]);
  hr_bind(l, offsetof(hr_route_backward_arguments, places), t->of[HR_ROUTE_PLACES]);
  hr_bind(l, offsetof(hr_route_backward_arguments, d_weights), dw);
  hr_bind(l, offsetof(hr_route_backward_arguments, d_logits), d_logits);
  hr_add_gradient(l, t->logits, d_logits);
}

/* ---- GEMMs of copies ---- */

static void back_inputs(hr_lowering *l, const hr_tape_entry *e, hr_run_view dy)
{
  const hr_tape_grouped *t = &e->grouped;
  const hr_run_view dx = hr_new_view(l, t->a.rows, t->a.columns);
  hr_grouped_arguments back = t->how;
  back.back = true;
  back.n = t->how.k, back.k = t->how.n;
  hr_add_grouped(l, &back, dy, dx, route_of(l)->of[HR_ROUTE_OFFSETS]);
  hr_add_gradient(l, t->a, dx);
}

/* Operands of the gradients of experts' weights. */
typedef struct gradient_views {
  hr_run_view dy, x;
  hr_output_operand dw;
} gradient_views;

static hr_launch *add_gradients(hr_lowering *l, const hr_grouped_gradient_arguments *arguments,
                                const gradient_views *of)
{
  hr_launch *launch = hr_add_launch(l, hr_launch_grouped_gradient);
  if (!launch)
    return NULL;
  launch->grouped_gradient = *arguments;
  launch->grouped_gradient.dw = of->dw.address;
  hr_bind(l, offsetof(hr_grouped_gradient_arguments, dy), of->dy);
  hr_bind(l, offsetof(hr_grouped_gradient_arguments, x), of->x);
  hr_bind(l, offsetof(hr_grouped_gradient_arguments, offsets), route_of(l)->of[HR_ROUTE_OFFSETS]);
  if (!of->dw.address)
    hr_bind(l, offsetof(hr_grouped_gradient_arguments, dw), of->dw.view);
  return launch;
}

/* A launch for each power of two of rows, of experts with so many copies or fewer, but more than half of them. */
static void add_by_plans(hr_lowering *l, hr_grouped_gradient_arguments arguments, const gradient_views *of,
                         int64_t most)
{
  int64_t room = 1;
  while (room < most)
    room *= 2;
  const hr_run_view padded_dy = hr_new_view(l, room, arguments.n), padded_x = hr_new_view(l, room, arguments.k);
  hr_gemm g = l->op->gemm;
  g.batch = 1, g.m = arguments.n, g.n = arguments.k;
  g.alignment = (int64_t)hr_element_bytes(l);
  for (g.k = 1; g.k <= room; g.k *= 2) {
    arguments.rows = g.k;
    hr_launch *launch = add_gradients(l, &arguments, of);
    if (!launch)
      return;
    hr_lowering_fail(l, hr_plans_gemm(l->x->plans, &g, &launch->plan, l->error));
    hr_bind(l, offsetof(hr_grouped_gradient_arguments, padded_dy), padded_dy);
    hr_bind(l, offsetof(hr_grouped_gradient_arguments, padded_x), padded_x);
  }
}

static void back_weights(hr_lowering *l, const hr_tape_entry *e, hr_run_view dy)
{
  const hr_grouped_arguments *how = &e->grouped.how;
  const hr_grouped_gradient_arguments arguments = {
      .experts = how->experts, .copies = how->copies, .n = how->n, .k = how->k, .dtype = how->dtype};
  const gradient_views of = {dy, e->grouped.a, hr_begin_weight_gradient(l, how->b, how->experts * how->n, how->k)};
  if (l->x->device->backend->group_gradients)
    add_gradients(l, &arguments, &of);
  else
    add_by_plans(l, arguments, &of, how->most);
  hr_end_weight_gradient(l, how->b, &of.dw);
}

void hr_back_grouped(hr_lowering *l, const hr_tape_entry *e, hr_pass pass)
{
  const hr_run_view dy = hr_gradient_of(l, e->output);
  if (pass == HR_PASS_DGRAD)
    back_inputs(l, e, dy);
  else
    back_weights(l, e, dy);
}
