/* SPDX-License-Identifier: Apache-2.0 */
/* A feed-forward network of routed and shared experts. Sizes: docs/operators.md. */
#include "model/layers/ffn_experts.h"
#include "base/error.h"
#include "model/layers/frameworks.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/operator_tensors.h"
#include "model/layers/sizes.h"
#include "model/layers/weight_roles.h"

#include <inttypes.h>
#include <math.h>

static bool present(const hr_layer_group *layer)
{
  return layer->experts.experts > 0;
}

static hr_status check(const hr_layer_group *layer, hr_error *error)
{
  const hr_ffn_experts *m = &layer->experts;
  HR_TRY(hr_check_range("experts.active", m->active, 1, error));
  HR_TRY(hr_check_range("experts.width", m->width, 1, error));
  HR_TRY(hr_check_at_most("experts.active", m->active, "experts.experts", m->experts, error));
  HR_TRY(hr_check_at_most("experts.held", m->held, "experts.experts", m->experts, error));
  if (m->groups == 0)
    return HR_OK;
  HR_TRY(hr_check_divides("experts.groups", m->groups, "experts.experts", m->experts, error));
  HR_TRY(hr_check_range("experts.active_groups", m->active_groups, 1, error));
  HR_TRY(hr_check_at_most("experts.active_groups", m->active_groups, "experts.groups", m->groups, error));
  return hr_check_at_most("experts.active", m->active, "the experts of experts.active_groups groups",
                          m->experts / m->groups * m->active_groups, error);
}

int64_t hr_experts_held(const hr_ffn_experts *m)
{
  return m->held > 0 ? m->held : m->experts;
}

/* ---- parameters ---- */

/* Width of a routed expert's input and output. */
static int64_t expert_columns(const hr_model *model, const hr_ffn_experts *m)
{
  return m->latent > 0 ? m->latent : model->hidden;
}

/* Counts the parameters of a gated or plain network of this width. */
static hr_checked64 network(int64_t input_size, int64_t width_size, bool gated, bool bias)
{
  hr_checked64 hidden = hr_checked(input_size), width = hr_checked(width_size);
  hr_checked64 up = hr_linear_parameters(hidden, width, bias);
  return hr_plus(hr_times(up, gated ? 2 : 1), hr_linear_parameters(width, hidden, bias));
}

static void linears(const hr_model *model, const hr_layer_group *layer, hr_linears *to)
{
  const hr_ffn_experts *m = &layer->experts;
  hr_checked64 hidden = hr_checked(model->hidden), width = hr_checked(m->width), shared = hr_checked(m->shared_width);
  hr_checked64 columns = hr_checked(expert_columns(model, m));
  size_t first = to->count;
  hr_add_linear(to, HR_LINEAR_EXPERT_UP, columns, width, m->bias);
  if (m->gated)
    hr_add_linear(to, HR_LINEAR_EXPERT_GATE, columns, width, m->bias);
  hr_add_linear(to, HR_LINEAR_EXPERT_DOWN, width, columns, m->bias);
  for (size_t i = first; i < to->count; i++)
    to->items[i].count = hr_experts_held(m);
  if (m->latent > 0) {
    hr_add_linear(to, HR_LINEAR_EXPERT_LATENT_DOWN, hidden, columns, m->latent_bias);
    hr_add_linear(to, HR_LINEAR_EXPERT_LATENT_UP, columns, hidden, m->latent_bias);
  }
  if (m->shared_width == 0)
    return;
  hr_add_linear(to, HR_LINEAR_SHARED_UP, hidden, shared, m->shared_bias);
  if (m->gated)
    hr_add_linear(to, HR_LINEAR_SHARED_GATE, hidden, shared, m->shared_bias);
  hr_add_linear(to, HR_LINEAR_SHARED_DOWN, shared, hidden, m->shared_bias);
}

static void parameters(const hr_model *model, const hr_layer_group *layer, hr_layer_parameters *to)
{
  const hr_ffn_experts *m = &layer->experts;
  hr_checked64 expert = network(expert_columns(model, m), m->width, m->gated, m->bias);
  hr_checked64 router = hr_linear_parameters(hr_checked(model->hidden), hr_checked(m->experts), m->router_bias);
  to->experts = hr_plus(to->experts, hr_times(expert, hr_experts_held(m)));
  to->idle_experts = hr_plus(to->idle_experts, hr_times(expert, m->experts - m->active));
  to->mlp = hr_plus(to->mlp, router);
  if (m->latent > 0)
    to->mlp = hr_plus(to->mlp, network(model->hidden, m->latent, false, m->latent_bias));
  if (m->shared_width > 0)
    to->mlp = hr_plus(to->mlp, network(model->hidden, m->shared_width, m->gated, m->shared_bias));
  if (m->shared_gate)
    to->mlp = hr_plus(to->mlp, hr_checked(model->hidden));
  if (m->output_norm)
    to->norm = hr_plus(to->norm, hr_checked(model->norm_weight ? model->hidden * (model->norm_bias ? 2 : 1) : 0));
}

/* ---- one device ---- */

static void shard(hr_layer_group *layer, const hr_workload *workload)
{
  hr_ffn_experts *m = &layer->experts;
  int64_t t = workload->tensor_parallel, e = workload->expert_parallel;
  m->shared_width = hr_ceil_div(m->shared_width, t);
  if (e > 1)
    m->held = hr_ceil_div(m->experts, e);
  else
    m->width = hr_ceil_div(m->width, t);
}

hr_status hr_check_expert_workload(const hr_ffn_experts *m, const hr_workload *workload, hr_error *error)
{
  int64_t e = workload->expert_parallel, t = workload->tensor_parallel;
  double most = (double)m->experts / (double)m->active; /* one expert is one of every token's */
  if (e > 1 && m->experts % e != 0)
    return hr_fail(error, HR_ERROR_INVALID,
                   "expert_parallel: %" PRId64 " devices cannot share %" PRId64 " experts equally", e, m->experts);
  if (e > 1 && e % t != 0)
    return hr_fail(error, HR_ERROR_INVALID,
                   "expert_parallel: %" PRId64 " is not a multiple of tensor_parallel, %" PRId64
                   "; 1 splits every expert over the tensor-parallel group",
                   e, t);
  if (workload->expert_imbalance > most)
    return hr_fail(error, HR_ERROR_INVALID,
                   "expert_imbalance: %g is more than %g, which one of a token's %" PRId64 " of %" PRId64
                   " experts can have",
                   workload->expert_imbalance, most, m->active, m->experts);
  return HR_OK;
}

/* Experts of the device that n tokens hit. */
static int64_t experts_hit(const hr_ffn_experts *m, double n, int64_t rows)
{
  double held = (double)hr_experts_held(m), missed = 1;
  if (m->active < m->experts)
    missed = -expm1(n * log1p(-(double)m->active / (double)m->experts));
  return hr_max64(1, hr_min64((int64_t)(held * missed + 0.5), rows));
}

/* A single group, which has all of its tokens on each device, only sums its experts' results, as in vLLM and SGLang. */
static bool exchanges_copies(const hr_workload *workload)
{
  const int64_t e = workload->expert_parallel;
  return e > 1 && (e > workload->tensor_parallel || workload->sequence_parallel);
}

hr_status hr_expert_load_of(const hr_ffn_experts *m, const hr_workload *workload, int64_t rows, hr_expert_load *load)
{
  int64_t t = workload->tensor_parallel, e = workload->expert_parallel;
  double tokens = (double)rows; /* of all devices that share the experts */
  load->tokens = exchanges_copies(workload) ? hr_ceil_div(rows, t) : rows;
  HR_TRY(hr_checked_take(hr_times(hr_checked(load->tokens), m->active), &load->sent));
  HR_TRY(hr_checked_take(hr_times(hr_checked(rows), m->active), &load->rows));
  if (e > 1) {
    int64_t groups = e / t;
    tokens *= (double)groups;
    load->rows = hr_ceil_div(load->rows, t);
    double most = tokens * (double)hr_min64(m->active, hr_experts_held(m));
    double loaded = fmin((double)load->rows * workload->expert_imbalance, most);
    if (loaded > 0x1p62)
      return HR_ERROR_OVERFLOW;
    load->rows = hr_max64(load->rows, (int64_t)ceil(loaded));
    load->sent = exchanges_copies(workload) ? load->sent : load->rows;
  }
  load->hit = experts_hit(m, tokens, load->rows);
  return HR_OK;
}

/* ---- operators ---- */

static int64_t inputs_of(const hr_ffn_experts *m)
{
  return m->gated ? 2 : 1;
}

/* Each token that an expert receives is a row of so many elements. */
static hr_checked64 expert_rows(const hr_operator_builder *builder, const hr_ffn_experts *m, int64_t rows)
{
  return hr_times(hr_checked(rows), expert_columns(builder->model, m));
}

/* Each token of the device is a row of `hidden` elements. */
static hr_checked64 hidden_rows(const hr_operator_builder *builder, int64_t rows)
{
  return hr_times(hr_checked(rows), builder->model->hidden);
}

/* The last operator is dispatch, or has rows for experts of other devices, too, where each device has all tokens. */
static void set_chosen(hr_operator_builder *builder, const hr_ffn_experts *m, const hr_expert_load *load)
{
  hr_operator *op = &builder->to->items[builder->to->count - 1];
  const int64_t chosen = load->tokens * m->active;
  const hr_weight_format *format = hr_format_of_operator(builder->model, builder->layer, HR_OP_EXPERT_UP);
  if (format && hr_is_server(builder->workload->framework))
    op->activations = format->activations;
  if (op->id == HR_OP_DISPATCH)
    op->copies = m->active, op->chosen = chosen;
  else if (!exchanges_copies(builder->workload))
    op->chosen = hr_max64(0, chosen - load->rows);
}

/* Chooses the experts of each token and copies it to each of them. */
static void route(hr_operator_builder *builder, const hr_ffn_experts *m, const hr_expert_load *load)
{
  hr_checked64 moved = hr_plus(expert_rows(builder, m, load->tokens), expert_rows(builder, m, load->sent));
  int64_t columns = expert_columns(builder->model, m);
  hr_append_linear(builder, HR_OP_ROUTER, load->tokens, m->experts, builder->model->hidden);
  /* Reads the logits, writes a weight and a number for each chosen expert; backward writes the logits' gradient. */
  hr_checked64 logits = hr_times(hr_checked(load->tokens), m->experts);
  hr_checked64 chosen = hr_times(hr_times(hr_checked(load->tokens), m->active), 2);
  hr_append_traffic(builder, HR_OP_ROUTER_TOP_K, HR_KIND_MEMORY, m->experts, hr_plus(logits, chosen),
                    hr_plus(hr_times(logits, 2), chosen));
  if (m->latent > 0)
    hr_append_linear(builder, HR_OP_EXPERT_LATENT_DOWN, load->tokens, m->latent, builder->model->hidden);
  hr_append_traffic(builder, HR_OP_DISPATCH, HR_KIND_MEMORY, columns, moved, moved);
  set_chosen(builder, m, load);
}

static void all_to_all(hr_operator_builder *builder, hr_operator_id id, const hr_ffn_experts *m,
                       const hr_expert_load *load)
{
  hr_checked64 message = expert_rows(builder, m, hr_max64(load->sent, load->rows));
  if (!exchanges_copies(builder->workload))
    return;
  hr_append_communication(builder, id, HR_ALL_TO_ALL, builder->workload->expert_parallel, message, message);
  builder->to->items[builder->to->count - 1].copies = m->active;
}

static void routed_experts(hr_operator_builder *builder, const hr_ffn_experts *m, const hr_expert_load *load)
{
  int64_t columns = expert_columns(builder->model, m);
  all_to_all(builder, HR_OP_DISPATCH_ALL_TO_ALL, m, load);
  hr_append_grouped_linear(builder, HR_OP_EXPERT_UP, load->rows, load->hit, m->width, columns);
  if (m->gated)
    hr_append_grouped_linear(builder, HR_OP_EXPERT_GATE, load->rows, load->hit, m->width, columns);
  hr_append_rowwise(builder, HR_OP_EXPERT_ACTIVATION, hr_checked(load->rows), m->width, inputs_of(m) + 1,
                    2 * inputs_of(m) + 1);
  builder->to->items[builder->to->count - 1].rows = load->rows;
  set_chosen(builder, m, load);
  hr_append_grouped_linear(builder, HR_OP_EXPERT_DOWN, load->rows, load->hit, columns, m->width);
  all_to_all(builder, HR_OP_COMBINE_ALL_TO_ALL, m, load);
}

static void shared_experts(hr_operator_builder *builder, const hr_ffn_experts *m)
{
  int64_t rows = builder->shard.rows, hidden = builder->model->hidden;
  hr_append_linear(builder, HR_OP_SHARED_UP, rows, m->shared_width, hidden);
  if (m->gated)
    hr_append_linear(builder, HR_OP_SHARED_GATE, rows, m->shared_width, hidden);
  hr_append_rowwise(builder, HR_OP_SHARED_ACTIVATION, hr_checked(rows), m->shared_width, inputs_of(m) + 1,
                    2 * inputs_of(m) + 1);
  hr_append_linear(builder, HR_OP_SHARED_DOWN, rows, hidden, m->shared_width);
  if (m->shared_gate)
    hr_append_linear(builder, HR_OP_SHARED_OUTPUT_GATE, rows, 1, hidden);
}

/* Reads each token's copies, writes their weighted sum, maps it to the stream's width and adds the shared experts'
 * output. The map may stand before the devices' all-reduce, because it is linear: vLLM's nemotron_h.py has it there. */
static void combine_latent(hr_operator_builder *builder, const hr_ffn_experts *m, const hr_expert_load *load)
{
  hr_checked64 copies = expert_rows(builder, m, load->sent), sums = expert_rows(builder, m, load->tokens);
  hr_append_traffic(builder, HR_OP_COMBINE, HR_KIND_MEMORY, m->latent, hr_plus(copies, sums),
                    hr_plus(hr_times(copies, 2), sums));
  set_chosen(builder, m, load);
  hr_append_linear(builder, HR_OP_EXPERT_LATENT_UP, load->tokens, builder->model->hidden, m->latent);
  if (m->shared_width > 0) /* backward both terms have the sum's gradient */
    hr_append_rowwise(builder, HR_OP_SHARED_ADD, hr_checked(builder->shard.rows), builder->model->hidden, 3, 0);
}

/* Reads each token's copies and the shared experts' output, writes their weighted sum. Backward reads the gradient of
 * the sum, and the copies for the gradients of their weights, and writes a gradient for each term. */
static void combine(hr_operator_builder *builder, const hr_ffn_experts *m, const hr_expert_load *load)
{
  int64_t shared = m->shared_width > 0 ? builder->shard.rows : 0;
  hr_checked64 copies = hidden_rows(builder, load->sent), sums = hidden_rows(builder, load->tokens);
  hr_checked64 terms = hr_plus(copies, hidden_rows(builder, shared));
  hr_append_traffic(builder, HR_OP_COMBINE, HR_KIND_MEMORY, builder->model->hidden, hr_plus(terms, sums),
                    hr_plus(hr_plus(terms, copies), sums));
  set_chosen(builder, m, load);
}

static void operators(hr_operator_builder *builder)
{
  const hr_ffn_experts *m = &builder->layer->experts;
  hr_expert_load load;
  if (hr_expert_load_of(m, builder->workload, builder->shard.rows, &load) != HR_OK) {
    hr_record_overflow(builder, HR_OP_DISPATCH);
    return;
  }
  route(builder, m, &load);
  routed_experts(builder, m, &load);
  if (m->shared_width > 0)
    shared_experts(builder, m);
  if (m->latent > 0)
    combine_latent(builder, m, &load);
  else
    combine(builder, m, &load);
  if (m->output_norm) {
    hr_append_norm(builder, HR_OP_MLP_POST_NORM, hr_checked(builder->shard.stream_rows), builder->model->hidden);
    hr_name_norm(builder, HR_TENSOR_MLP, HR_WEIGHT_EXPERTS_NORM, HR_WEIGHT_EXPERTS_NORM_BIAS);
  }
}

/* ---- memory ---- */

/* Rows of the activation's inputs and output. */
static hr_checked64 activation(const hr_ffn_experts *m, int64_t rows, int64_t width)
{
  return hr_times(hr_times(hr_checked(width), inputs_of(m) + 1), rows);
}

static const hr_checked64 too_large = {.overflow = true};

/* The router's logits, each copy of a token before and behind its expert, and the inputs and output of the activations;
 * the shared experts' output with a gate, and the sum of all with a norm. */
static hr_checked64 saved_bytes(const hr_layer_context *c)
{
  const hr_ffn_experts *m = &c->layer->experts;
  hr_expert_load load;
  if (hr_expert_load_of(m, c->workload, c->shard->rows, &load) != HR_OK)
    return too_large;
  hr_checked64 sum = hr_times(hr_checked(load.tokens), m->experts);
  sum = hr_plus(sum, hr_times(hr_times(hr_checked(load.rows), expert_columns(c->model, m)), 2));
  sum = hr_plus(sum, hr_times(hr_times(hr_checked(load.tokens), m->latent), 2)); /* before and behind all experts */
  sum = hr_plus(sum, activation(m, load.rows, m->width));
  sum = hr_plus(sum, activation(m, c->shard->rows, m->shared_width));
  if (m->shared_gate)
    sum = hr_plus(sum, hr_times(hr_checked(c->model->hidden), c->shard->rows));
  if (m->output_norm)
    sum = hr_plus(sum, hr_times(hr_checked(c->model->hidden), c->shard->rows));
  return hr_times(sum, (int64_t)hr_dtype_bytes(c->workload->dtype));
}

/* The input, and the copies of its tokens with their activations, or the routed experts' sum with the shared experts'
 * activations. */
static hr_checked64 live_elements(const hr_layer_context *c)
{
  const hr_ffn_experts *m = &c->layer->experts;
  hr_expert_load load;
  if (hr_expert_load_of(m, c->workload, c->shard->rows, &load) != HR_OK)
    return too_large;
  hr_checked64 input = hr_times(hr_checked(c->model->hidden), c->shard->rows);
  hr_checked64 copies = hr_times(hr_checked(load.rows), expert_columns(c->model, m));
  hr_checked64 routed = hr_plus(copies, activation(m, load.rows, m->width));
  hr_checked64 shared = hr_plus(input, activation(m, c->shard->rows, m->shared_width));
  return hr_plus(input, m->shared_width > 0 ? hr_larger(routed, shared) : routed);
}

const hr_layer_kind hr_ffn_experts_kind = {
    .is_mixer = false,
    .present = present,
    .check = check,
    .parameters = parameters,
    .linears = linears,
    .shard = shard,
    .operators = operators,
    .saved_bytes = saved_bytes,
    .live_elements = live_elements,
};
