/* SPDX-License-Identifier: Apache-2.0 */
/* How GEMMs and row-wise operations are differentiated. */
#include "base/checked.h"
#include "base/error.h"
#include "training/buckets.h"
#include "training/gradients.h"
#include "training/training.h"

#include <headroom/experimental/operators.h>

/* ---- GEMMs: y = x Wᵀ + bias ---- */

static void add_product(hr_lowering *l, const hr_product_operands *o)
{
  const int64_t of_a = hr_view_alignment(l, o->a);
  hr_gemm g = l->op->gemm;
  g.lda = o->a.stride;
  g.ldb = o->b.address ? 0 : o->b.view.stride;
  g.alignment = o->b.address ? of_a : hr_min64(of_a, hr_view_alignment(l, o->b.view));
  hr_add_product(l, g, o);
}

static const hr_run_view none = {.value = -1};

/* The gradient of a bias. */
static void sum_rows(hr_lowering *l, hr_run_view dy, const void *bias)
{
  const hr_output_operand to = hr_begin_weight_gradient(l, bias, 1, dy.columns);
  hr_add_rowwise_into(l, hr_rows_of(HR_ROWWISE_BIAS_BACKWARD, dy.rows, dy.columns),
                      (hr_input_operand[]){hr_of_view(dy)}, &to, 1);
  hr_end_weight_gradient(l, bias, &to);
}

/* How several ranks share the linear layer: each has rows of its weight, or columns, whose results are added up.
 * Routers, gates and projections to a rank are on all of them, and have a part of the gradient of their result on
 * each. */
static bool shares_rows(hr_operator_id id)
{
  return id == HR_OP_Q_DOWN || id == HR_OP_KV_DOWN || id == HR_OP_ROUTER || id == HR_OP_SHARED_UP ||
         id == HR_OP_SHARED_GATE || id == HR_OP_SHARED_OUTPUT_GATE || id == HR_OP_QKV_TRANSFORM ||
         id == HR_OP_Q_TRANSFORM || id == HR_OP_K_TRANSFORM || id == HR_OP_V_TRANSFORM || id == HR_OP_MLP_UP ||
         id == HR_OP_MLP_GATE || id == HR_OP_LOGIT;
}

static bool shares_columns(hr_operator_id id)
{
  return id == HR_OP_LINEAR_PROJECTION || id == HR_OP_MLP_DOWN || id == HR_OP_SHARED_DOWN;
}

/* The gradient of its input is a part where that of its result is: it reads a projection to a rank, or is outside of
 * layers and the same on all. */
static bool keeps_parts(hr_operator_id id)
{
  return id == HR_OP_Q_UP || id == HR_OP_KV_UP || id == HR_OP_EMBEDDING_PROJECTION_IN ||
         id == HR_OP_EMBEDDING_PROJECTION_OUT;
}

static void add_input_gradient(hr_lowering *l, const hr_tape_entry *e, hr_run_view dx)
{
  if (shares_rows(l->op->id))
    hr_add_partial_gradient(l, e->gemm.x, dx);
  else
    hr_add_gradient(l, e->gemm.x, dx);
}

void hr_back_gemm(hr_lowering *l, const hr_tape_entry *e, hr_pass pass)
{
  const bool of_ranks = l->x->ranks > 1;
  if (of_ranks && !shares_rows(l->op->id) && !shares_columns(l->op->id) && !keeps_parts(l->op->id))
    hr_lowering_fail(l, hr_fail(l->error, HR_ERROR_UNSUPPORTED, "%s on several devices cannot be trained yet",
                                hr_operator_id_name(l->op->id)));
  const hr_run_view dy = hr_gradient_of(l, e->output), x = e->gemm.x;
  if (pass == HR_PASS_DGRAD) {
    const hr_run_view dx = hr_new_view(l, x.rows, x.columns);
    add_product(l, &(hr_product_operands){dy, hr_of_address(e->gemm.weight), {dx, NULL}, NULL});
    add_input_gradient(l, e, dx);
    return;
  }
  const bool has_bias = e->gemm.bias && !(shares_columns(l->op->id) && l->x->rank > 0); /* rank 0 adds it to the sum */
  const hr_output_operand to = hr_begin_weight_gradient(l, e->gemm.weight, l->op->gemm.m, l->op->gemm.n);
  add_product(l, &(hr_product_operands){dy, hr_of_view(x), to, NULL});
  hr_end_weight_gradient(l, e->gemm.weight, &to);
  if (has_bias)
    sum_rows(l, dy, e->gemm.bias);
}

/* ---- row-wise operations ---- */

static void back_norm(hr_lowering *l, const hr_tape_entry *e, hr_run_view dy)
{
  const hr_input_operand *in = e->rows.inputs;
  const bool rms = e->rows.problem.operation == HR_ROWWISE_RMS_NORM;
  hr_rowwise r = e->rows.problem;
  r.operation = rms ? HR_ROWWISE_RMS_NORM_BACKWARD : HR_ROWWISE_LAYER_NORM_BACKWARD;
  const hr_run_view dx = hr_new_view(l, in[0].view.rows, in[0].view.columns);
  const int count = rms ? 2 : 3; /* with the weight and the bias, of which the model may lack either */
  hr_output_operand outputs[3] = {{dx, NULL}};
  for (int i = 1; i < count; i++)
    outputs[i] = hr_begin_weight_gradient(l, in[i].address, 1, r.columns);
  hr_add_rowwise_into(l, r, (hr_input_operand[]){hr_of_view(dy), in[0], in[1]}, outputs, count);
  for (int i = 1; i < count; i++)
    hr_end_weight_gradient(l, in[i].address, &outputs[i]);
  hr_add_gradient(l, in[0].view, dx);
}

/* Rotated back by a table of the opposite angles. */
static void back_rotary(hr_lowering *l, const hr_tape_entry *e, hr_run_view dy)
{
  const hr_run_view x = e->rows.inputs[0].view, dx = hr_gradient_place(l, x);
  hr_rowwise r = e->rows.problem;
  r.x_stride = 0;
  r.y_stride = hr_is_packed(dx) ? 0 : dx.stride;
  const hr_input_operand inputs[] = {hr_of_view(dy), hr_of_view(hr_angles_of(l, true))};
  hr_add_rowwise_into(l, r, inputs, (hr_output_operand[]){{dx, NULL}}, 1);
  hr_add_gradient(l, x, dx);
}

static void back_activation(hr_lowering *l, const hr_tape_entry *e, hr_rowwise_operation backward, hr_run_view dy)
{
  const hr_input_operand *in = e->rows.inputs;
  const int inputs = hr_rowwise_inputs(e->rows.problem.operation);
  hr_rowwise r = e->rows.problem;
  r.operation = backward;
  hr_output_operand outputs[2];
  for (int i = 0; i < inputs; i++)
    outputs[i] = (hr_output_operand){hr_new_view(l, in[i].view.rows, in[i].view.columns), NULL};
  hr_add_rowwise_into(l, r, (hr_input_operand[]){hr_of_view(dy), in[0], in[1]}, outputs, inputs);
  for (int i = 0; i < inputs; i++)
    hr_add_gradient(l, in[i].view, outputs[i].view);
}

/* Rows of weights: a tied head has its part of their gradient before. */
static void back_gather(hr_lowering *l, const hr_tape_entry *e, hr_run_view dy)
{
  const hr_input_operand *in = e->rows.inputs;
  void *table = hr_run_gradient(l->x, in[1].address);
  const bool has_part = l->x->model.tied_embeddings && l->x->stages == 1 &&
                        in[1].address == hr_run_weight(l->x, -1, HR_WEIGHT_TOKEN_EMBEDDING);
  hr_rowwise r = e->rows.problem;
  r.operation = HR_ROWWISE_GATHER_BACKWARD;
  r.factor = has_part || hr_adds_gradients(l) ? 1 : 0;
  if (!table)
    return;
  hr_add_rowwise_into(l, r, (hr_input_operand[]){in[0], hr_of_view(dy), hr_of_address(table)},
                      (hr_output_operand[]){{none, table}}, 1);
  hr_gradient_is_launched(l, in[1].address);
}

/* A rank has some rows of the table, and a factor of 0 for tokens of others. */
static void back_rows_of_rank(hr_lowering *l, const hr_tape_entry *e, hr_run_view dy)
{
  back_gather(l, e, hr_add_weighted_rows(l, dy, e->rows.inputs[2]));
}

static void back_bias(hr_lowering *l, const hr_tape_entry *e, hr_run_view dy)
{
  const hr_input_operand *in = e->rows.inputs;
  sum_rows(l, dy, in[1].address);
  hr_add_gradient(l, in[0].view, dy);
}

/* The gradient of a weight is a product of two columns, as a GEMM of a batch of them. */
static void back_weight(hr_lowering *l, const hr_tape_entry *e, hr_run_view dy)
{
  const hr_input_operand *in = e->rows.inputs;
  hr_gemm g = hr_gemm_default();
  g.dtype = l->x->options.dtype;
  g.batch = g.lda = g.ldb = dy.columns;
  g.k = dy.rows;
  g.transpose_a = true;
  g.stride_a = g.stride_b = g.stride_c = 1;
  g.alignment = (int64_t)hr_element_bytes(l);
  const hr_output_operand to = hr_begin_weight_gradient(l, in[1].address, 1, dy.columns);
  hr_add_product(l, g, &(hr_product_operands){dy, in[0], to, NULL});
  hr_end_weight_gradient(l, in[1].address, &to);
  const hr_input_operand inputs[] = {hr_of_view(dy), in[1]};
  hr_add_gradient(l, in[0].view, hr_add_rowwise(l, e->rows.problem, inputs, dy.columns));
}

static const hr_rowwise_operation activations[HR_ROWWISE_COUNT] = {
    [HR_ROWWISE_GELU] = HR_ROWWISE_GELU_BACKWARD,       [HR_ROWWISE_GELU_TANH] = HR_ROWWISE_GELU_TANH_BACKWARD,
    [HR_ROWWISE_RELU] = HR_ROWWISE_RELU_BACKWARD,       [HR_ROWWISE_RELU2] = HR_ROWWISE_RELU2_BACKWARD,
    [HR_ROWWISE_SOFTCAP] = HR_ROWWISE_SOFTCAP_BACKWARD, [HR_ROWWISE_SWIGLU] = HR_ROWWISE_SWIGLU_BACKWARD,
    [HR_ROWWISE_GEGLU] = HR_ROWWISE_GEGLU_BACKWARD,     [HR_ROWWISE_GEGLU_TANH] = HR_ROWWISE_GEGLU_TANH_BACKWARD,
};

void hr_back_rowwise(hr_lowering *l, const hr_tape_entry *e, hr_pass pass)
{
  const hr_rowwise_operation operation = e->rows.problem.operation;
  const hr_run_view dy = hr_gradient_of(l, e->output);
  if (pass != HR_PASS_DGRAD || dy.value < 0)
    return;
  switch (operation) {
  case HR_ROWWISE_LAYER_NORM:
  case HR_ROWWISE_RMS_NORM: back_norm(l, e, dy); return;
  case HR_ROWWISE_ROTARY: back_rotary(l, e, dy); return;
  case HR_ROWWISE_ROTARY_JOIN: hr_back_join(l, e, dy); return;
  case HR_ROWWISE_GATHER: (e->rows.inputs[1].address ? back_gather : hr_back_copies)(l, e, dy); return;
  case HR_ROWWISE_COMBINE: (e->rows.inputs[1].address ? back_rows_of_rank : hr_back_combine)(l, e, dy); return;
  case HR_ROWWISE_GATE: hr_back_gate(l, e, dy); return;
  case HR_ROWWISE_BIAS: back_bias(l, e, dy); return;
  case HR_ROWWISE_WEIGHT: back_weight(l, e, dy); return;
  case HR_ROWWISE_SCALE:
    hr_add_gradient(l, e->rows.inputs[0].view, hr_add_scaled(l, dy, e->rows.problem.factor));
    return;
  case HR_ROWWISE_COPY: hr_add_gradient(l, e->rows.inputs[0].view, dy); return;
  case HR_ROWWISE_RESIDUAL:
    for (int i = 0; i < 2; i++)
      hr_add_gradient(l, e->rows.inputs[i].view, dy);
    return;
  default: break;
  }
  if (activations[operation] != 0)
    back_activation(l, e, activations[operation], dy);
  else
    hr_lowering_fail(
        l, hr_fail(l->error, HR_ERROR_UNSUPPORTED, "%s cannot be trained yet", hr_rowwise_operation_name(operation)));
}
