/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layers/operator_builder.h"

#include "model/layers/linears.h"
#include "model/layers/operator_tensors.h"
#include "shape/kv_format.h"

#include <headroom/experimental/workload.h>
#include <string.h>

static const bool in_layer[] = {
#define ROW(enumerator, name, runs_in_layer) runs_in_layer,
    HR_OPERATOR_LIST(ROW)
#undef ROW
};

hr_operator *hr_append_operator(hr_operator_builder *builder, hr_operator_id id, hr_operator_kind kind, hr_pass pass)
{
  if (builder->to->count == HR_OPERATORS_MAX) { /* the list fails in the end; the last one takes what is too much */
    builder->full = true;
    builder->to->count--;
  }
  size_t at = builder->to->count++;
  hr_operator *op = &builder->to->items[at];
  *op = (hr_operator){.id = id,
                      .kind = kind,
                      .pass = pass,
                      .in_layer = in_layer[id],
                      .count = builder->layer ? builder->layer->count : 1,
                      .groups = builder->layer ? (uint64_t)1 << builder->group : 0};
  if (pass == HR_PASS_FORWARD)
    hr_name_tensors(builder, op);
  builder->backward[at] = (hr_backward_facts){0, 1};
  return op;
}

void hr_record_overflow(hr_operator_builder *builder, hr_operator_id id)
{
  if (!builder->overflow)
    builder->overflow_id = id;
  builder->overflow = true;
}

void hr_set_figure(hr_operator_builder *builder, const hr_operator *op, hr_checked64 figure, int64_t *value)
{
  if (hr_checked_take(figure, value) != HR_OK)
    hr_record_overflow(builder, op->id);
}

static hr_checked64 elements(int64_t rows, int64_t columns, int64_t matrices)
{
  return hr_times(hr_times(hr_checked(rows), columns), matrices);
}

void hr_append_gemm(hr_operator_builder *builder, hr_operator_id id, hr_operator_kind kind, hr_pass pass,
                    const hr_gemm_sizes *sizes)
{
  hr_operator *op = hr_append_operator(builder, id, kind, pass);
  hr_dtype dtype = builder->workload->dtype;
  /* The operand that is not shared has one matrix per GEMM of the batch. */
  int64_t batch = hr_max64(sizes->matrices_a, hr_max64(sizes->matrices_b, sizes->matrices_c));
  op->gemm = (hr_gemm){.struct_size = sizeof(hr_gemm),
                       .m = sizes->m,
                       .n = sizes->n,
                       .k = sizes->k,
                       .batch = batch,
                       .dtype = dtype,
                       .transpose_a = sizes->transpose_a,
                       .transpose_b = sizes->transpose_b};
  builder->backward[builder->to->count - 1].matrices_b = sizes->matrices_b;
  hr_checked64 flops = hr_times(hr_times(hr_times(hr_times(hr_checked(2), sizes->m), sizes->n), sizes->k), batch);
  hr_checked64 moved =
      hr_plus(hr_plus(elements(sizes->m, sizes->k, sizes->matrices_a), elements(sizes->k, sizes->n, sizes->matrices_b)),
              elements(sizes->m, sizes->n, sizes->matrices_c));
  hr_set_figure(builder, op, flops, &op->flops);
  hr_set_figure(builder, op, hr_times(moved, (int64_t)hr_dtype_bytes(dtype)), &op->bytes);
}

/* ---- quantized weights ---- */

/* The linear layers that an operator computes. */
static const struct {
  hr_operator_id id;
  hr_linear_id linear;
} weights_of[] = {
    {HR_OP_QKV_TRANSFORM, HR_LINEAR_Q},
    {HR_OP_QKV_TRANSFORM, HR_LINEAR_K},
    {HR_OP_QKV_TRANSFORM, HR_LINEAR_V},
    {HR_OP_Q_TRANSFORM, HR_LINEAR_Q},
    {HR_OP_Q_DOWN, HR_LINEAR_Q_DOWN},
    {HR_OP_Q_UP, HR_LINEAR_Q_UP},
    {HR_OP_K_TRANSFORM, HR_LINEAR_K},
    {HR_OP_V_TRANSFORM, HR_LINEAR_V},
    {HR_OP_KV_DOWN, HR_LINEAR_KV_DOWN},
    {HR_OP_KV_UP, HR_LINEAR_KV_UP},
    {HR_OP_INDEX_Q, HR_LINEAR_INDEX_Q},
    {HR_OP_INDEX_K, HR_LINEAR_INDEX_K},
    {HR_OP_IN_PROJ, HR_LINEAR_IN_PROJ},
    {HR_OP_OUT_PROJ, HR_LINEAR_OUT_PROJ},
    {HR_OP_O_DOWN, HR_LINEAR_O_DOWN},
    {HR_OP_LINEAR_PROJECTION, HR_LINEAR_O},
    {HR_OP_MLP_UP, HR_LINEAR_UP},
    {HR_OP_MLP_GATE, HR_LINEAR_GATE},
    {HR_OP_MLP_DOWN, HR_LINEAR_DOWN},
    {HR_OP_EXPERT_UP, HR_LINEAR_EXPERT_UP},
    {HR_OP_EXPERT_GATE, HR_LINEAR_EXPERT_GATE},
    {HR_OP_EXPERT_LATENT_DOWN, HR_LINEAR_EXPERT_LATENT_DOWN},
    {HR_OP_EXPERT_LATENT_UP, HR_LINEAR_EXPERT_LATENT_UP},
    {HR_OP_EXPERT_DOWN, HR_LINEAR_EXPERT_DOWN},
    {HR_OP_SHARED_UP, HR_LINEAR_SHARED_UP},
    {HR_OP_SHARED_GATE, HR_LINEAR_SHARED_GATE},
    {HR_OP_SHARED_DOWN, HR_LINEAR_SHARED_DOWN},
};

bool hr_has_linear_layers(hr_operator_id id)
{
  size_t i = 0;
  while (i < sizeof weights_of / sizeof *weights_of && weights_of[i].id != id)
    i++;
  return i < sizeof weights_of / sizeof *weights_of;
}

bool hr_shares_input(hr_operator_id id)
{
  return id == HR_OP_MLP_GATE || id == HR_OP_SHARED_GATE || id == HR_OP_K_TRANSFORM || id == HR_OP_V_TRANSFORM ||
         id == HR_OP_KV_DOWN || id == HR_OP_EXPERT_GATE;
}

/* The projections of Kimi's scans are the linear layers of attention by their names. */
static hr_operator_id named_operator(const hr_layer_group *layer, hr_operator_id id)
{
  bool kimi = layer && layer->scan.heads > 0 && layer->scan.recurrence == HR_RECURRENCE_KIMI_DELTA;
  if (kimi && id == HR_OP_IN_PROJ)
    return HR_OP_QKV_TRANSFORM;
  return kimi && id == HR_OP_OUT_PROJ ? HR_OP_LINEAR_PROJECTION : id;
}

const hr_weight_format *hr_format_of_operator(const hr_model *model, const hr_layer_group *layer, hr_operator_id id)
{
  uint8_t number = 0;
  bool found = false;
  if (model->quantization.format_count == 0)
    return NULL;
  if (id == HR_OP_LOGIT)
    return hr_format_of_logits(model);
  const hr_operator_id named = named_operator(layer, id);
  for (size_t i = 0; layer && i < sizeof weights_of / sizeof *weights_of; i++) {
    if (weights_of[i].id != named)
      continue;
    uint8_t own = layer->formats[weights_of[i].linear];
    if (found && own != number)
      return NULL;
    number = own;
    found = true;
  }
  return hr_format_at(model, number);
}

/* The format of an operator's weights, NULL where its weights are read in the workload's. */
static const hr_weight_format *format_read(const hr_operator_builder *builder, hr_operator_id id)
{
  const hr_weight_format *format = hr_format_of_operator(builder->model, builder->layer, id);
  const hr_operator_id named = named_operator(builder->layer, id);
  hr_linear_id linear = HR_LINEAR_COUNT;
  for (size_t i = 0; i < sizeof weights_of / sizeof *weights_of; i++)
    linear = weights_of[i].id == named ? weights_of[i].linear : linear;
  return hr_workload_widens(builder->workload, format, linear) ? NULL : format;
}

static int64_t activation_bits(const hr_operator_builder *builder, const hr_weight_format *format)
{
  switch (format->activations) {
  case HR_ACTIVATIONS_FP8:
  case HR_ACTIVATIONS_INT8: return 8;
  case HR_ACTIVATIONS_FP4: return 4;
  case HR_ACTIVATIONS_UNQUANTIZED: break;
  }
  return 8 * (int64_t)hr_dtype_bytes(builder->workload->dtype);
}

/* Sets what the last operator, a linear layer, moves if its weights are quantized. */
static void quantize(hr_operator_builder *builder, int64_t rows, int64_t outputs, int64_t inputs, int64_t count)
{
  hr_operator *op = &builder->to->items[builder->to->count - 1];
  const hr_weight_format *format = format_read(builder, op->id);
  if (!format || builder->workload->phase == HR_PHASE_TRAIN)
    return;
  hr_checked64 weights = hr_matrix_bytes(format, hr_checked(outputs), hr_checked(inputs), count, 0);
  hr_checked64 read = hr_times(elements(rows, inputs, 1), activation_bits(builder, format));
  read.value = hr_ceil_div(read.overflow ? 0 : read.value, 8);
  hr_checked64 written = hr_times(elements(rows, outputs, 1), (int64_t)hr_dtype_bytes(builder->workload->dtype));
  op->activations = format->activations;
  hr_set_figure(builder, op, hr_plus(hr_plus(weights, read), written), &op->bytes);
}

/* ---- linear layers ---- */

void hr_append_linear(hr_operator_builder *builder, hr_operator_id id, int64_t rows, int64_t outputs, int64_t inputs)
{
  hr_gemm_sizes sizes = {
      .m = rows, .n = outputs, .k = inputs, .transpose_b = true, .matrices_a = 1, .matrices_b = 1, .matrices_c = 1};
  hr_append_gemm(builder, id, HR_KIND_GEMM, HR_PASS_FORWARD, &sizes);
  quantize(builder, rows, outputs, inputs, 1);
}

void hr_append_group_linear(hr_operator_builder *builder, hr_operator_id id, int64_t rows, int64_t groups,
                            int64_t outputs, int64_t inputs)
{
  hr_gemm_sizes sizes = {.m = rows,
                         .n = outputs,
                         .k = inputs,
                         .transpose_b = true,
                         .matrices_a = groups,
                         .matrices_b = groups,
                         .matrices_c = groups};
  hr_append_gemm(builder, id, HR_KIND_BMM, HR_PASS_FORWARD, &sizes);
  quantize(builder, rows * groups, outputs, inputs, groups); /* as many elements as O, which was checked */
}

/* Forward and gradients of an expert have the same three matrices, one of them the result: equal FLOPs and bytes. */
static void append_grouped(hr_operator_builder *builder, hr_operator_id id, hr_pass pass, const hr_gemm_sizes *p,
                           int64_t rows, hr_checked64 flops, hr_checked64 bytes)
{
  hr_append_gemm(builder, id, HR_KIND_GROUPED_GEMM, pass, p);
  hr_operator *op = &builder->to->items[builder->to->count - 1];
  op->rows = rows;
  hr_set_figure(builder, op, flops, &op->flops);
  hr_set_figure(builder, op, bytes, &op->bytes);
}

void hr_append_grouped_linear(hr_operator_builder *builder, hr_operator_id id, int64_t rows, int64_t experts,
                              int64_t outputs, int64_t inputs)
{
  hr_gemm_sizes sizes = {.m = hr_ceil_div(rows, experts),
                         .n = outputs,
                         .k = inputs,
                         .transpose_b = true,
                         .matrices_a = experts,
                         .matrices_b = experts,
                         .matrices_c = experts};
  hr_checked64 moved =
      hr_plus(hr_plus(elements(rows, inputs, 1), elements(rows, outputs, 1)), elements(inputs, outputs, experts));
  append_grouped(builder, id, HR_PASS_FORWARD, &sizes, rows, hr_times(elements(rows, outputs, inputs), 2),
                 hr_times(moved, (int64_t)hr_dtype_bytes(builder->workload->dtype)));
  quantize(builder, rows, outputs, inputs, experts);
}

void hr_read_cache(hr_operator_builder *builder, hr_checked64 cached)
{
  const hr_workload *workload = builder->workload;
  hr_operator *op = &builder->to->items[builder->to->count - 1];
  if (workload->phase != HR_PHASE_DECODE)
    return;
  op->page_size = workload->page_size;
  if (workload->kv_cache == HR_KV_UNQUANTIZED)
    return;
  op->kv_cache = workload->kv_cache;
  hr_checked64 before = hr_times(cached, -(int64_t)hr_dtype_bytes(workload->dtype));
  hr_checked64 change = hr_plus(before, hr_kv_bytes(workload->kv_cache, workload->dtype, cached));
  hr_set_figure(builder, op, hr_plus(hr_checked(op->bytes), change), &op->bytes);
}

void hr_append_grouped_gradients(hr_operator_builder *builder, const hr_operator *forward)
{
  const hr_operator f = *forward; /* of a full list the last one is overwritten */
  const hr_gemm *g = &f.gemm;
  hr_gemm_sizes input = {
      .m = g->m, .n = g->k, .k = g->n, .matrices_a = g->batch, .matrices_b = g->batch, .matrices_c = g->batch};
  hr_gemm_sizes weight = {.m = g->n,
                          .n = g->k,
                          .k = g->m,
                          .transpose_a = true,
                          .matrices_a = g->batch,
                          .matrices_b = g->batch,
                          .matrices_c = g->batch};
  append_grouped(builder, f.id, HR_PASS_DGRAD, &input, f.rows, hr_checked(f.flops), hr_checked(f.bytes));
  append_grouped(builder, f.id, HR_PASS_WGRAD, &weight, f.rows, hr_checked(f.flops), hr_checked(f.bytes));
}

void hr_append_communication(hr_operator_builder *builder, hr_operator_id id, hr_collective_kind collective,
                             int64_t devices, hr_checked64 forward_elements, hr_checked64 backward_elements)
{
  hr_append_traffic(builder, id, HR_KIND_COMMUNICATION, 0, forward_elements, backward_elements);
  hr_operator *op = &builder->to->items[builder->to->count - 1];
  op->collective = collective, op->devices = devices, op->stride = 1;
  op->served = builder->workload->phase == HR_PHASE_PREFILL || builder->workload->phase == HR_PHASE_DECODE;
}

void hr_set_stride(hr_operator_builder *builder, hr_checked64 stride)
{
  hr_operator *op = &builder->to->items[builder->to->count - 1];
  op->stride = stride.overflow ? HR_WORKLOAD_SIZE_MAX : hr_min64(stride.value, HR_WORKLOAD_SIZE_MAX);
}

void hr_append_traffic(hr_operator_builder *builder, hr_operator_id id, hr_operator_kind kind, int64_t columns,
                       hr_checked64 forward_elements, hr_checked64 backward_elements)
{
  int64_t element_bytes = (int64_t)hr_dtype_bytes(builder->workload->dtype);
  hr_operator *op = hr_append_operator(builder, id, kind, HR_PASS_FORWARD);
  op->columns = columns;
  hr_set_figure(builder, op, hr_times(forward_elements, element_bytes), &op->bytes);
  hr_set_figure(builder, op, hr_times(backward_elements, element_bytes),
                &builder->backward[builder->to->count - 1].bytes);
}

void hr_append_rowwise(hr_operator_builder *builder, hr_operator_id id, hr_checked64 rows, int64_t columns,
                       int64_t forward_moves, int64_t backward_moves)
{
  hr_checked64 elements_moved = hr_times(rows, columns);
  hr_append_traffic(builder, id, HR_KIND_MEMORY, columns, hr_times(elements_moved, forward_moves),
                    hr_times(elements_moved, backward_moves));
}

void hr_append_dropout(hr_operator_builder *builder, hr_operator_id id, hr_checked64 rows, int64_t columns)
{
  if (hr_workload_drops(builder->workload))
    hr_append_rowwise(builder, id, rows, columns, 2, 2);
}

void hr_append_norm(hr_operator_builder *builder, hr_operator_id id, hr_checked64 rows, int64_t columns)
{
  hr_append_rowwise(builder, id, rows, columns, 2, 3);
}

/* ---- operators of several groups ---- */

static bool same_gemm(const hr_gemm *a, const hr_gemm *b)
{
  return a->m == b->m && a->n == b->n && a->k == b->k && a->batch == b->batch;
}

static bool same_attention(const hr_attention *a, const hr_attention *b)
{
  return a->batch == b->batch && a->q_len == b->q_len && a->kv_len == b->kv_len && a->q_heads == b->q_heads &&
         a->k_heads == b->k_heads && a->v_heads == b->v_heads && a->qk_dim == b->qk_dim && a->v_dim == b->v_dim &&
         a->window == b->window;
}

static bool same_operator(const hr_operator *a, const hr_operator *b)
{
  return a->id == b->id && a->kind == b->kind && a->latent == b->latent && a->flops == b->flops &&
         a->bytes == b->bytes && a->activations == b->activations && a->columns == b->columns &&
         a->collective == b->collective && a->devices == b->devices && a->stride == b->stride &&
         a->copies == b->copies && same_gemm(&a->gemm, &b->gemm) && same_attention(&a->attention, &b->attention) &&
         hr_same_tensors(a, b);
}

/* Compares the backward passes, too: there the all-reduce of a parallel block moves more. */
static bool is_same(const hr_operator_builder *builder, size_t a, size_t b)
{
  const hr_backward_facts *facts = builder->backward;
  return same_operator(&builder->to->items[a], &builder->to->items[b]) && facts[a].bytes == facts[b].bytes &&
         facts[a].matrices_b == facts[b].matrices_b;
}

/* The index behind the last of the first `end` operators whose id is not larger. */
static size_t place_of(const hr_operators *operators, size_t end, const hr_operator *op)
{
  while (end > 0 && operators->items[end - 1].id > op->id)
    end--;
  return end;
}

/* Puts the operator at `from` to `to`, and those up to `end` one further; end ≤ from. */
static void insert(hr_operator_builder *builder, size_t from, size_t to, size_t end)
{
  hr_operator *items = builder->to->items;
  const hr_operator op = items[from];
  const hr_backward_facts facts = builder->backward[from];
  memmove(&items[to + 1], &items[to], (end - to) * sizeof *items);
  memmove(&builder->backward[to + 1], &builder->backward[to], (end - to) * sizeof *builder->backward);
  items[to] = op;
  builder->backward[to] = facts;
}

/* The operator among those before `place` that has the id of the one at `from` and equals it; NULL if there is none. */
static hr_operator *equal_before(hr_operator_builder *builder, size_t place, size_t from)
{
  hr_operator *items = builder->to->items;
  while (place > 0 && items[place - 1].id == items[from].id) {
    if (is_same(builder, place - 1, from))
      return &items[place - 1];
    place--;
  }
  return NULL;
}

void hr_merge_operators(hr_operator_builder *builder, size_t first)
{
  size_t end = first; /* of those that are merged */
  for (size_t from = first; from < builder->to->count; from++) {
    const hr_operator *op = &builder->to->items[from];
    const size_t place = place_of(builder->to, end, op);
    hr_operator *equal = equal_before(builder, place, from);
    if (equal) {
      equal->count += op->count;
      equal->groups |= op->groups;
    } else if (place < from) {
      insert(builder, from, place, end++);
    } else {
      end++;
    }
  }
  builder->to->count = end;
}
