/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent mixers: projections, a short convolution, and a scan whose state has a fixed size. Sizes, FLOPs and
 * sources: docs/operators.md. */
#include "base/error.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/mixer_scan_operators.h"
#include "model/layers/scan_widths.h"
#include "model/layers/sizes.h"

static bool present(const hr_layer_group *layer)
{
  return layer->scan.heads > 0;
}

/* ---- sizes ---- */

static bool is_chunked(hr_recurrence recurrence)
{
  return recurrence == HR_RECURRENCE_SSD || recurrence == HR_RECURRENCE_GATED_DELTA ||
         recurrence == HR_RECURRENCE_KIMI_DELTA || recurrence == HR_RECURRENCE_LIGHTNING;
}

/* ---- check ---- */

static hr_status check(const hr_layer_group *layer, hr_error *error)
{
  const hr_mixer_scan *m = &layer->scan;
  bool only_convolution = m->recurrence == HR_RECURRENCE_CONVOLUTION;
  if (m->recurrence == HR_RECURRENCE_NONE || (unsigned)m->recurrence > HR_RECURRENCE_KIMI_DELTA)
    return hr_fail(error, HR_ERROR_INVALID, "scan.recurrence: %d is not a kind of recurrence", (int)m->recurrence);
  HR_TRY(hr_check_range("scan.head_dim", m->head_dim, 1, error));
  if (only_convolution)
    return hr_check_range("scan.kernel", m->kernel, 1, error);
  HR_TRY(hr_check_range("scan.state", m->state, 1, error));
  if (m->recurrence == HR_RECURRENCE_SELECTIVE || m->recurrence == HR_RECURRENCE_KIMI_DELTA)
    HR_TRY(hr_check_range("scan.rank", m->rank, 1, error));
  if (is_chunked(m->recurrence))
    HR_TRY(hr_check_range("scan.chunk", m->chunk, 1, error));
  if (m->recurrence == HR_RECURRENCE_RG_LRU)
    return HR_OK;
  HR_TRY(hr_check_range("scan.groups", m->groups, 1, error));
  return hr_check_divides("scan.groups", m->groups, "scan.heads", m->heads, error);
}

/* ---- parameters ---- */

static hr_checked64 product(hr_checked64 a, hr_checked64 b)
{
  return hr_linear_parameters(a, b, false);
}

/* Beside the projections into and out of the mixer and the convolution. */
static hr_checked64 recurrence_parameters(const hr_mixer_scan *m, int64_t hidden)
{
  hr_checked64 channels = hr_scan_channels(m), heads = hr_checked(m->heads);
  switch (m->recurrence) {
  case HR_RECURRENCE_SELECTIVE: { /* x_proj, dt_proj with bias, A and D */
    hr_checked64 steps = hr_linear_parameters(hr_checked(m->rank), channels, true);
    return hr_plus(hr_plus(product(channels, hr_scan_selected(m)), steps), hr_plus(hr_scan_state(m), channels));
  }
  case HR_RECURRENCE_SSD: return hr_times(heads, 3);         /* A, D and the bias of the step size */
  case HR_RECURRENCE_GATED_DELTA: return hr_times(heads, 2); /* A and the bias of the step size */
  case HR_RECURRENCE_RG_LRU: {                               /* the decay, and two gates, linear within each head */
    hr_checked64 gate = hr_linear_parameters(hr_checked(m->head_dim), hr_checked(m->head_dim), true);
    return hr_plus(channels, hr_times(hr_times(gate, m->heads), 2));
  }
  case HR_RECURRENCE_KIMI_DELTA: { /* the maps to decays, gates and learning rates, A, the bias of the decays */
    hr_checked64 low = product(hr_checked(2 * m->rank), hr_checked(hidden)), keys = hr_scan_keys(m);
    hr_checked64 up = product(hr_plus(keys, channels), hr_checked(m->rank));
    return hr_plus(hr_plus(low, up), hr_plus(product(heads, hr_checked(hidden)), hr_plus(heads, keys)));
  }
  case HR_RECURRENCE_LIGHTNING: /* its decays are fixed */
  case HR_RECURRENCE_CONVOLUTION:
  case HR_RECURRENCE_NONE: break;
  }
  return hr_checked(0);
}

/* The norm of a delta net has one vector for all heads, that of Mamba-1 covers the outputs of x_proj, others all
 * channels. */
static hr_checked64 norm_parameters(const hr_mixer_scan *m)
{
  if (!m->norm || !m->norm_weight)
    return hr_checked(0);
  if (m->recurrence == HR_RECURRENCE_SELECTIVE)
    return hr_scan_selected(m);
  bool delta = m->recurrence == HR_RECURRENCE_GATED_DELTA || m->recurrence == HR_RECURRENCE_KIMI_DELTA;
  return delta ? hr_checked(m->head_dim) : hr_scan_channels(m);
}

/* Lists the linear layers that quantized checkpoints quantize; x_proj, dt_proj and Kimi's maps to decays and gates are
 * small. Those of Kimi have the names of attention's. */
static void linears(const hr_model *model, const hr_layer_group *layer, hr_linears *to)
{
  const hr_mixer_scan *m = &layer->scan;
  if (m->recurrence == HR_RECURRENCE_KIMI_DELTA) {
    hr_add_linear(to, HR_LINEAR_Q, hr_checked(model->hidden), hr_scan_keys(m), false);
    hr_add_linear(to, HR_LINEAR_K, hr_checked(model->hidden), hr_scan_keys(m), false);
    hr_add_linear(to, HR_LINEAR_V, hr_checked(model->hidden), hr_scan_channels(m), false);
    hr_add_linear(to, HR_LINEAR_O, hr_scan_channels(m), hr_checked(model->hidden), false);
    return;
  }
  hr_add_linear(to, HR_LINEAR_IN_PROJ, hr_checked(model->hidden), hr_scan_projected(m), m->in_bias);
  hr_add_linear(to, HR_LINEAR_OUT_PROJ, hr_scan_channels(m), hr_checked(model->hidden), m->out_bias);
}

static void parameters(const hr_model *model, const hr_layer_group *layer, hr_layer_parameters *to)
{
  const hr_mixer_scan *m = &layer->scan;
  hr_checked64 convolved = hr_scan_convolved(m);
  hr_linears list;
  list.count = 0;
  linears(model, layer, &list);
  hr_checked64 sum = hr_sum_linears(&list);
  sum = hr_plus(sum, hr_linear_parameters(hr_checked(m->kernel), convolved, m->conv_bias));
  sum = hr_plus(sum, recurrence_parameters(m, model->hidden));
  to->scan = hr_plus(to->scan, sum);
  to->norm = hr_plus(to->norm, norm_parameters(m));
}

/* ---- one device ---- */

static void shard(hr_layer_group *layer, const hr_workload *workload)
{
  int64_t t = workload->tensor_parallel;
  layer->scan.heads = hr_ceil_div(layer->scan.heads, t);
  layer->scan.groups = hr_ceil_div(layer->scan.groups, t); /* at least 1: replicated where t is larger */
}

/* ---- memory ---- */

/* Counts the outputs of the in-projection, the convolution, x_proj, dt_proj or the gates of an RG-LRU, decays and gates
 * of Kimi, the scan and its gate. The backward pass computes the states once more (docs/operators.md). */
static hr_checked64 saved_bytes(const hr_layer_context *c)
{
  const hr_mixer_scan *m = &c->layer->scan;
  hr_checked64 channels = hr_scan_channels(m);
  bool two = m->recurrence == HR_RECURRENCE_RG_LRU || m->recurrence == HR_RECURRENCE_KIMI_DELTA;
  int64_t wide = (m->recurrence == HR_RECURRENCE_SELECTIVE) + (two ? 2 : 0) +
                 (m->recurrence != HR_RECURRENCE_CONVOLUTION) + hr_scan_has_gate(m);
  hr_checked64 columns = hr_plus(hr_plus(hr_scan_projected(m), hr_scan_convolved(m)), hr_scan_selected(m));
  columns = hr_plus(columns, hr_times(channels, wide));
  return hr_times(hr_times(columns, c->shard->rows), (int64_t)hr_dtype_bytes(c->workload->dtype));
}

/* What the in-projection, the convolution and the scan write, and Kimi's decays and gates. */
static hr_checked64 live_elements(const hr_layer_context *c)
{
  const hr_mixer_scan *m = &c->layer->scan;
  hr_checked64 columns = hr_plus(hr_plus(hr_scan_projected(m), hr_scan_convolved(m)), hr_scan_channels(m));
  if (m->recurrence == HR_RECURRENCE_KIMI_DELTA)
    columns = hr_plus(columns, hr_times(hr_scan_channels(m), 2));
  return hr_times(columns, c->shard->rows);
}

static hr_checked64 state_bytes(const hr_layer_group *layer, const hr_workload *workload)
{
  const hr_mixer_scan *m = &layer->scan;
  hr_checked64 inputs = hr_times(hr_scan_convolved(m), m->kernel);
  return hr_plus(hr_times(inputs, (int64_t)hr_dtype_bytes(workload->dtype)), hr_scan_state_bytes(m));
}

const hr_layer_kind hr_mixer_scan_kind = {
    .is_mixer = true,
    .present = present,
    .check = check,
    .parameters = parameters,
    .linears = linears,
    .shard = shard,
    .operators = hr_scan_operators,
    .saved_bytes = saved_bytes,
    .live_elements = live_elements,
    .state_bytes = state_bytes,
};
