/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layers/layer_weights.h"

#include "base/error.h"
#include "model/layers/layer_kinds.h"
#include "shape/kv_format.h"

void hr_list_linears(const hr_model *model, const hr_layer_group *layer, hr_linears *linears)
{
  linears->count = 0;
  for (size_t i = 0; i < hr_layer_kind_count(); i++) {
    const hr_layer_kind *kind = hr_layer_kind_at(i);
    if (kind->linears && kind->present(layer))
      kind->linears(model, layer, linears);
  }
}

static hr_checked64 bytes_added(const hr_weight_format *format, hr_checked64 outputs, hr_checked64 inputs,
                                int64_t count, int64_t element_bytes)
{
  if (!format)
    return hr_checked(0);
  hr_checked64 wide = hr_matrix_bytes(NULL, outputs, inputs, count, element_bytes);
  return hr_plus(hr_matrix_bytes(format, outputs, inputs, count, element_bytes), hr_times(wide, -1));
}

hr_checked64 hr_layer_bytes_added(const hr_model *model, const hr_layer_group *layer, const hr_workload *workload)
{
  const int64_t element_bytes = (int64_t)hr_dtype_bytes(workload->dtype);
  hr_checked64 sum = hr_checked(0);
  hr_linears linears;
  if (model->quantization.format_count == 0)
    return sum;
  hr_list_linears(model, layer, &linears);
  for (size_t i = 0; i < linears.count; i++) {
    const hr_linear *one = &linears.items[i];
    const hr_weight_format *format = hr_format_at(model, layer->formats[one->id]);
    if (!hr_workload_widens(workload, format, one->id))
      sum = hr_plus(sum, bytes_added(format, one->outputs, one->inputs, one->count, element_bytes));
  }
  return sum;
}

hr_checked64 hr_logit_bytes_added(const hr_model *model, const hr_workload *workload)
{
  int64_t width = model->embedding_dim > 0 ? model->embedding_dim : model->hidden;
  const hr_weight_format *format = hr_format_of_logits(model);
  if (hr_workload_widens(workload, format, HR_LINEAR_COUNT))
    return hr_checked(0);
  return bytes_added(format, hr_checked(model->vocabulary), hr_checked(width), 1,
                     (int64_t)hr_dtype_bytes(workload->dtype));
}

/* ---- checks ---- */

hr_status hr_check_quantization(const hr_model *model, hr_error *error)
{
  const hr_quantization *q = &model->quantization;
  if (q->format_count > HR_WEIGHT_FORMATS_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "quantization.format_count: expected at most %d, found %zu",
                   HR_WEIGHT_FORMATS_MAX, q->format_count);
  for (size_t i = 0; i < q->format_count; i++) {
    hr_error problem;
    if (hr_check_weight_format(&q->formats[i], &problem) != HR_OK)
      return hr_fail(error, HR_ERROR_INVALID, "quantization.formats[%zu].%s", i, problem.message);
  }
  if (q->logit > q->format_count || q->tied_logit > q->format_count)
    return hr_fail(error, HR_ERROR_INVALID, "quantization.logit: there is no format %d",
                   q->logit > q->format_count ? q->logit : q->tied_logit);
  HR_TRY(hr_kv_format_check("quantization.kv_cache", q->kv_cache, error));
  for (size_t i = 0; i < model->group_count; i++) {
    for (size_t k = 0; k < HR_LINEAR_COUNT; k++) {
      if (model->groups[i].formats[k] > q->format_count)
        return hr_fail(error, HR_ERROR_INVALID, "groups[%zu].formats[%zu]: there is no format %d", i, k,
                       model->groups[i].formats[k]);
    }
  }
  return HR_OK;
}
