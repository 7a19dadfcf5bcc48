/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of a recurrent mixer. FLOPs of the scans, with P channels and N state elements of a head:
 *
 *   token by token   state ← decay · state + input · key, output = state · query
 *   in chunks        a chunk of C tokens: C × C products within it, state in and out as GEMMs
 *
 * Derivations and sources: docs/operators.md. */
#include "analysis/model/mixer_scan_operators.h"

#include "analysis/model/scan_widths.h"

static bool decodes(const hr_operator_builder *builder)
{
  return builder->workload->phase == HR_PHASE_DECODE;
}

/* How often a step moves the states: decode reads and writes them, prefill leaves them for decode. */
static int64_t state_moves(const hr_operator_builder *builder)
{
  if (decodes(builder))
    return 2;
  return builder->workload->phase == HR_PHASE_PREFILL ? 1 : 0;
}

/* A width that the check of the whole model's parameters has bounded. */
static int64_t bounded(hr_checked64 width)
{
  return width.value;
}

/* ---- FLOPs of a scan, all heads, per token ---- */

/* Of each element of the state: Mamba-1 multiplies A by the step size and takes the exponential (2); all multiply by
 * the decay, multiply input and key and add (3), multiply by the query and add (2). A delta net also reads its old
 * value (2). An RG-LRU has no query. */
static int64_t flops_of_element(hr_recurrence recurrence)
{
  switch (recurrence) {
  case HR_RECURRENCE_SELECTIVE:
  case HR_RECURRENCE_GATED_DELTA: return 7;
  case HR_RECURRENCE_RG_LRU: return 3;
  case HR_RECURRENCE_SSD:
  case HR_RECURRENCE_LIGHTNING:
  case HR_RECURRENCE_CONVOLUTION:
  case HR_RECURRENCE_NONE: break;
  }
  return 5;
}

static hr_checked64 recurrent_flops(const hr_mixer_scan *m)
{
  return hr_times(hr_scan_state(m), flops_of_element(m->recurrence));
}

/* Within the chunk 2CN for the scores of each group and 2CP to apply them in each head; 2PN to read the state and 2PN
 * to write it. Source: Dao & Gu 2024 (arXiv 2405.21060), section 6. */
static hr_checked64 ssd_flops(const hr_mixer_scan *m, int64_t chunk)
{
  hr_checked64 scores = hr_times(hr_times(hr_scan_keys(m), 2), chunk);
  hr_checked64 applied = hr_times(hr_times(hr_scan_channels(m), 2), chunk);
  return hr_plus(hr_plus(scores, applied), hr_times(hr_scan_state(m), 4));
}

/* Of each head 2C(3N + 2P) for K Kᵀ, its inverse times K and V, Q Kᵀ and its product with the new values, C²/3 for the
 * triangular inverse, 6PN to correct the values by the state, to read the state and to write it. Source: Yang et al.
 * 2024 (arXiv 2412.06464), section 3.3. */
static hr_checked64 delta_flops(const hr_mixer_scan *m, int64_t chunk)
{
  hr_checked64 widths = hr_plus(hr_times(hr_checked(m->state), 3), hr_times(hr_checked(m->head_dim), 2));
  hr_checked64 products = hr_times(hr_times(widths, 2), chunk);
  hr_checked64 inverse = hr_times(hr_checked(chunk), chunk);
  inverse.value /= 3;
  return hr_plus(hr_times(hr_plus(products, inverse), m->heads), hr_times(hr_scan_state(m), 6));
}

static hr_checked64 scan_flops(const hr_operator_builder *builder, const hr_mixer_scan *m)
{
  int64_t chunk = hr_min64(m->chunk, builder->shard.q_len);
  if (decodes(builder) || m->chunk == 0)
    return recurrent_flops(m);
  return m->recurrence == HR_RECURRENCE_GATED_DELTA ? delta_flops(m, chunk) : ssd_flops(m, chunk);
}

/* ---- bytes of a scan, per token ---- */

/* What it reads: x, B and C, queries and keys, step sizes and gates. */
static hr_checked64 scan_inputs(const hr_mixer_scan *m)
{
  hr_checked64 keys = hr_times(hr_scan_keys(m), 2), channels = hr_scan_channels(m);
  switch (m->recurrence) {
  case HR_RECURRENCE_SELECTIVE: return hr_plus(hr_times(channels, 3), keys); /* x, step sizes, gate */
  case HR_RECURRENCE_SSD:                                                    /* x, step sizes, perhaps the gate */
    return hr_plus(hr_plus(hr_times(channels, hr_scan_has_gate(m) ? 1 : 2), keys), hr_checked(m->heads));
  case HR_RECURRENCE_GATED_DELTA: /* values, decays, learning rates */
    return hr_plus(hr_plus(channels, keys), hr_times(hr_checked(m->heads), 2));
  case HR_RECURRENCE_RG_LRU: return hr_times(channels, 3); /* x and two gates */
  case HR_RECURRENCE_LIGHTNING:
  case HR_RECURRENCE_CONVOLUTION:
  case HR_RECURRENCE_NONE: break;
  }
  return hr_plus(channels, keys);
}

/* ---- operators ---- */

/* `state` are the bytes of one sequence, moved as often as a step does. */
static void append_scan(hr_operator_builder *builder, hr_operator_id id, hr_checked64 flops, hr_checked64 inputs,
                        hr_checked64 outputs, hr_checked64 state)
{
  int64_t rows = builder->shard.rows, element = (int64_t)hr_dtype_bytes(builder->workload->dtype);
  hr_operator *op = hr_append_operator(builder, id, HR_KIND_SCAN, HR_PASS_FORWARD);
  hr_checked64 tokens = hr_times(hr_times(hr_plus(inputs, outputs), rows), element);
  hr_checked64 states = hr_times(hr_times(state, builder->workload->batch), state_moves(builder));
  /* Reads the inputs and the output's gradient, writes the inputs' gradients. */
  hr_checked64 backward = hr_times(hr_times(hr_plus(hr_times(inputs, 2), outputs), rows), element);
  op->gemm.dtype = builder->workload->dtype;
  op->columns = bounded(hr_scan_channels(&builder->layer->scan));
  op->recurrence = id == HR_OP_CONVOLUTION ? HR_RECURRENCE_CONVOLUTION : builder->layer->scan.recurrence;
  op->updates = decodes(builder);
  hr_set_figure(builder, op, hr_times(flops, rows), &op->flops);
  hr_set_figure(builder, op, hr_plus(tokens, states), &op->bytes);
  hr_set_figure(builder, op, backward, &builder->backward[builder->to->count - 1].bytes);
}

/* A short convolution is multiplied by a gate before and behind it. */
static void convolution(hr_operator_builder *builder, const hr_mixer_scan *m)
{
  hr_checked64 channels = hr_scan_convolved(m);
  bool gated = m->recurrence == HR_RECURRENCE_CONVOLUTION;
  hr_checked64 flops = hr_plus(hr_times(hr_times(channels, m->kernel), 2), hr_times(channels, gated ? 2 : 0));
  hr_checked64 state = hr_times(hr_times(channels, m->kernel), (int64_t)hr_dtype_bytes(builder->workload->dtype));
  append_scan(builder, HR_OP_CONVOLUTION, flops, hr_times(channels, gated ? 3 : 1), channels, state);
}

/* Step size, B and C of Mamba-1. A device has only some channels, so the devices add up their parts of x_proj. */
static void select_parameters(hr_operator_builder *builder, const hr_mixer_scan *m)
{
  int64_t rows = builder->shard.rows, t = builder->workload->tensor_parallel;
  int64_t channels = bounded(hr_scan_channels(m)), selected = bounded(hr_scan_selected(m));
  hr_append_linear(builder, HR_OP_X_PROJ, rows, selected, channels);
  hr_checked64 message = hr_times(hr_checked(rows), selected);
  if (t > 1)
    hr_append_communication(builder, HR_OP_X_ALL_REDUCE, HR_ALL_REDUCE, t, message, message);
  if (m->norm)
    hr_append_norm(builder, HR_OP_X_NORM, hr_checked(rows), selected);
  hr_append_linear(builder, HR_OP_DT_PROJ, rows, channels, m->rank);
}

/* Both gates of an RG-LRU: a GEMM for each head. */
static void recurrence_gates(hr_operator_builder *builder, const hr_mixer_scan *m)
{
  hr_gemm_sizes sizes = {.m = builder->shard.rows,
                         .n = 2 * m->head_dim,
                         .k = m->head_dim,
                         .transpose_b = true,
                         .matrices_a = m->heads,
                         .matrices_b = m->heads,
                         .matrices_c = m->heads};
  hr_append_gemm(builder, HR_OP_RECURRENCE_GATES, HR_KIND_BMM, HR_PASS_FORWARD, &sizes);
}

void hr_scan_operators(hr_operator_builder *builder)
{
  const hr_mixer_scan *m = &builder->layer->scan;
  int64_t rows = builder->shard.rows, hidden = builder->model->hidden, channels = bounded(hr_scan_channels(m));
  hr_append_linear(builder, HR_OP_IN_PROJ, rows, bounded(hr_scan_projected(m)), hidden);
  if (m->kernel > 0)
    convolution(builder, m);
  if (m->recurrence == HR_RECURRENCE_SELECTIVE)
    select_parameters(builder, m);
  if (m->recurrence == HR_RECURRENCE_RG_LRU)
    recurrence_gates(builder, m);
  if (m->recurrence != HR_RECURRENCE_CONVOLUTION)
    append_scan(builder, HR_OP_SCAN, scan_flops(builder, m), scan_inputs(m), hr_scan_channels(m),
                hr_scan_state_bytes(m));
  if (hr_scan_has_gate(m)) /* reads the scan's output and the gate, writes their product */
    hr_append_rowwise(builder, HR_OP_SCAN_GATE, hr_checked(rows), channels, 3, 5);
  hr_append_linear(builder, HR_OP_OUT_PROJ, rows, hidden, channels);
}
