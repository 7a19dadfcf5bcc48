/* SPDX-License-Identifier: Apache-2.0 */
/* The feed-forward network that every token passes: up and down, or gate, up and down. */
#include "model/layers/layer_kinds.h"
#include "model/layers/sizes.h"

static bool present(const hr_layer_group *layer)
{
  return layer->dense.width > 0;
}

static hr_status check(const hr_layer_group *layer, hr_error *error)
{
  (void)layer;
  (void)error;
  return HR_OK; /* every width fits every hidden size */
}

static void linears(const hr_model *model, const hr_layer_group *layer, hr_linears *to)
{
  const hr_ffn_dense *m = &layer->dense;
  hr_checked64 hidden = hr_checked(model->hidden), width = hr_checked(m->width);
  hr_add_linear(to, HR_LINEAR_UP, hidden, width, m->bias);
  if (m->gated)
    hr_add_linear(to, HR_LINEAR_GATE, hidden, width, m->bias);
  hr_add_linear(to, HR_LINEAR_DOWN, width, hidden, m->bias);
}

static void parameters(const hr_model *model, const hr_layer_group *layer, hr_layer_parameters *to)
{
  hr_linears list;
  list.count = 0;
  linears(model, layer, &list);
  to->mlp = hr_plus(to->mlp, hr_plus(hr_sum_linears(&list), hr_checked(layer->dense.activation_parameters)));
}

static void shard(hr_layer_group *layer, const hr_workload *workload)
{
  layer->dense.width = hr_ceil_div(layer->dense.width, workload->tensor_parallel);
}

static void operators(hr_operator_builder *builder)
{
  const hr_ffn_dense *m = &builder->layer->dense;
  int64_t rows = builder->shard.rows, hidden = builder->model->hidden, inputs = m->gated ? 2 : 1;
  hr_append_linear(builder, HR_OP_MLP_UP, rows, m->width, hidden);
  if (m->gated)
    hr_append_linear(builder, HR_OP_MLP_GATE, rows, m->width, hidden);
  /* Reads up (and gate), writes the result; backward also reads the gradient and writes one per input. */
  hr_append_rowwise(builder, HR_OP_ACTIVATION, hr_checked(rows), m->width, inputs + 1, 2 * inputs + 1);
  hr_append_linear(builder, HR_OP_MLP_DOWN, rows, hidden, m->width);
}

/* The activation's inputs and its output. */
static hr_checked64 columns_of(const hr_ffn_dense *m)
{
  return hr_times(hr_checked(m->width), m->gated ? 3 : 2);
}

static hr_checked64 saved_bytes(const hr_layer_context *c)
{
  hr_checked64 per_token = hr_times(columns_of(&c->layer->dense), (int64_t)hr_dtype_bytes(c->workload->dtype));
  return hr_times(per_token, c->shard->rows);
}

static hr_checked64 live_elements(const hr_layer_context *c)
{
  return hr_times(hr_plus(hr_checked(c->model->hidden), columns_of(&c->layer->dense)), c->shard->rows);
}

const hr_layer_kind hr_ffn_dense_kind = {
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
