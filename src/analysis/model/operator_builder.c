/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/model/operator_builder.h"

/* A step lists each operator at most once per pass; score, softmax and attention over value may be listed twice (layers
 * with and without a window). */
_Static_assert(HR_OPERATORS_MAX >= 3 * HR_OPERATOR_ID_COUNT + 6, "the longest step fits the list");

static const bool in_layer[] = {
#define ROW(enumerator, name, runs_in_layer) runs_in_layer,
    HR_OPERATOR_LIST(ROW)
#undef ROW
};

hr_operator *hr_append_operator(hr_operator_builder *builder, hr_operator_id id, hr_operator_kind kind, hr_pass pass,
                                int64_t count)
{
  hr_operator *op = &builder->to->items[builder->to->count++];
  *op = (hr_operator){.id = id, .kind = kind, .pass = pass, .in_layer = in_layer[id], .count = count};
  return op;
}

void hr_set_figure(hr_operator_builder *builder, const hr_operator *op, hr_checked64 figure, int64_t *value)
{
  if (hr_checked_take(figure, value) == HR_OK || builder->overflow)
    return;
  builder->overflow = true;
  builder->overflow_id = op->id;
}

static hr_checked64 elements(int64_t rows, int64_t columns, int64_t matrices)
{
  return hr_times(hr_times(hr_checked(rows), columns), matrices);
}

void hr_append_gemm(hr_operator_builder *builder, hr_operator_id id, hr_operator_kind kind, hr_pass pass, int64_t count,
                    const hr_gemm_sizes *p)
{
  hr_operator *op = hr_append_operator(builder, id, kind, pass, count);
  hr_dtype dtype = builder->workload->dtype;
  /* The operand that is not shared has one matrix per GEMM of the batch. */
  int64_t batch = hr_max64(p->matrices_a, hr_max64(p->matrices_b, p->matrices_c));
  op->gemm = (hr_gemm){.struct_size = sizeof(hr_gemm),
                       .m = p->m,
                       .n = p->n,
                       .k = p->k,
                       .batch = batch,
                       .dtype = dtype,
                       .transpose_a = p->transpose_a,
                       .transpose_b = p->transpose_b};
  hr_checked64 flops = hr_times(hr_times(hr_times(hr_times(hr_checked(2), p->m), p->n), p->k), batch);
  hr_checked64 moved = hr_plus(hr_plus(elements(p->m, p->k, p->matrices_a), elements(p->k, p->n, p->matrices_b)),
                               elements(p->m, p->n, p->matrices_c));
  hr_set_figure(builder, op, flops, &op->flops);
  hr_set_figure(builder, op, hr_times(moved, (int64_t)hr_dtype_bytes(dtype)), &op->bytes);
}

void hr_append_traffic(hr_operator_builder *builder, hr_operator_id id, hr_operator_kind kind, int64_t count,
                       hr_checked64 forward_elements, hr_checked64 backward_elements)
{
  int64_t element_bytes = (int64_t)hr_dtype_bytes(builder->workload->dtype);
  int64_t *backward = &builder->backward_bytes[builder->to->count];
  hr_operator *op = hr_append_operator(builder, id, kind, HR_PASS_FORWARD, count);
  *backward = 0;
  hr_set_figure(builder, op, hr_times(forward_elements, element_bytes), &op->bytes);
  hr_set_figure(builder, op, hr_times(backward_elements, element_bytes), backward);
}
