#include "analysis/model/operator_list.h"

/* A step lists an operator once a pass at most; attention's three may stand twice (layers with and without a
 * window). */
_Static_assert(HR_OPERATORS_MAX >= 3 * HR_OPERATOR_ID_COUNT + 6, "the longest step fits the list");

static const bool in_layer[] = {
#define ROW(enumerator, name, runs_in_layer) runs_in_layer,
    HR_OPERATOR_LIST(ROW)
#undef ROW
};

hr_operator *hr_append_operator(hr_operator_list *list, hr_operator_id id, hr_operator_kind kind, hr_pass pass,
                                int64_t count)
{
  hr_operator *op = &list->to->items[list->to->count++];
  *op = (hr_operator){.id = id, .kind = kind, .pass = pass, .in_layer = in_layer[id], .count = count};
  return op;
}

void hr_take_figure(hr_operator_list *list, const hr_operator *op, hr_checked64 figure, int64_t *value)
{
  if (hr_checked_take(figure, value) == HR_OK || list->overflow)
    return;
  list->overflow = true;
  list->overflow_id = op->id;
}

static hr_checked64 elements(int64_t rows, int64_t columns, int64_t matrices)
{
  return hr_times(hr_times(hr_checked(rows), columns), matrices);
}

void hr_append_product(hr_operator_list *list, hr_operator_id id, hr_operator_kind kind, hr_pass pass, int64_t count,
                       const hr_product *p)
{
  hr_operator *op = hr_append_operator(list, id, kind, pass, count);
  hr_dtype dtype = list->workload->dtype;
  /* Whichever operand is shared, the largest count is that of the products. */
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
  hr_take_figure(list, op, flops, &op->flops);
  hr_take_figure(list, op, hr_times(moved, (int64_t)hr_dtype_bytes(dtype)), &op->bytes);
}

void hr_append_moves(hr_operator_list *list, hr_operator_id id, hr_operator_kind kind, int64_t count,
                     hr_checked64 forward_elements, hr_checked64 backward_elements)
{
  int64_t element_bytes = (int64_t)hr_dtype_bytes(list->workload->dtype);
  int64_t *backward = &list->backward_bytes[list->to->count];
  hr_operator *op = hr_append_operator(list, id, kind, HR_PASS_FORWARD, count);
  *backward = 0;
  hr_take_figure(list, op, hr_times(forward_elements, element_bytes), &op->bytes);
  hr_take_figure(list, op, hr_times(backward_elements, element_bytes), backward);
}
