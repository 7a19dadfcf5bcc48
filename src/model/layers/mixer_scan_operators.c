/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of a recurrent mixer. */
#include "model/layers/mixer_scan_operators.h"

#include "model/layers/scan_counts.h"
#include "model/layers/scan_widths.h"

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

/* ---- operators ---- */

/* The states are moved as often as a step does. */
static void append_scan(hr_operator_builder *builder, hr_operator_id id, const hr_scan_counts *counts)
{
  int64_t rows = builder->shard.rows, element = (int64_t)hr_dtype_bytes(builder->workload->dtype);
  hr_operator *op = hr_append_operator(builder, id, HR_KIND_SCAN, HR_PASS_FORWARD);
  hr_checked64 inputs = counts->inputs, outputs = counts->outputs;
  const hr_scan_totals totals =
      hr_total_scan(counts, builder->workload->dtype, rows, builder->workload->batch, state_moves(builder),
                    hr_scan_chunks(&builder->layer->scan, builder->shard.q_len, decodes(builder)));
  /* Reads the inputs and the output's gradient, writes the inputs' gradients. */
  hr_checked64 backward = hr_times(hr_times(hr_plus(hr_times(inputs, 2), outputs), rows), element);
  op->gemm.dtype = builder->workload->dtype;
  op->columns = bounded(hr_scan_channels(&builder->layer->scan));
  op->recurrence = id == HR_OP_CONVOLUTION ? HR_RECURRENCE_CONVOLUTION : builder->layer->scan.recurrence;
  op->updates = decodes(builder);
  op->sequence = builder->shard.q_len;
  hr_set_figure(builder, op, totals.flops, &op->flops);
  hr_set_figure(builder, op, totals.bytes, &op->bytes);
  hr_set_figure(builder, op, totals.moved, &op->moved_bytes);
  hr_set_figure(builder, op, backward, &builder->backward[builder->to->count - 1].bytes);
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

/* The decays and the gates of Kimi, each behind `rank` columns of the in-projection, which every device has. */
static void decays_and_gates(hr_operator_builder *builder, const hr_mixer_scan *m)
{
  hr_append_linear(builder, HR_OP_SCAN_DECAY_UP, builder->shard.rows, bounded(hr_scan_keys(m)), m->rank);
  hr_append_linear(builder, HR_OP_SCAN_GATE_UP, builder->shard.rows, bounded(hr_scan_channels(m)), m->rank);
}

void hr_scan_operators(hr_operator_builder *builder)
{
  const hr_mixer_scan *m = &builder->layer->scan;
  int64_t rows = builder->shard.rows, hidden = builder->model->hidden, channels = bounded(hr_scan_channels(m));
  hr_append_linear(builder, HR_OP_IN_PROJ, rows, bounded(hr_scan_projected(m)), hidden);
  if (m->kernel > 0) {
    const hr_scan_counts convolution = hr_count_convolution(m, builder->workload->dtype);
    append_scan(builder, HR_OP_CONVOLUTION, &convolution);
  }
  if (m->recurrence == HR_RECURRENCE_SELECTIVE)
    select_parameters(builder, m);
  if (m->recurrence == HR_RECURRENCE_RG_LRU)
    recurrence_gates(builder, m);
  if (m->recurrence == HR_RECURRENCE_KIMI_DELTA)
    decays_and_gates(builder, m);
  if (m->recurrence != HR_RECURRENCE_CONVOLUTION) {
    const hr_scan_counts scan = hr_count_scan(m, builder->shard.q_len, decodes(builder));
    append_scan(builder, HR_OP_SCAN, &scan);
  }
  if (hr_scan_has_gate(m)) /* reads the scan's output and the gate, writes their product */
    hr_append_rowwise(builder, HR_OP_SCAN_GATE, hr_checked(rows), channels, 3, 5);
  hr_append_linear(builder, HR_OP_OUT_PROJ, rows, hidden, channels);
}
