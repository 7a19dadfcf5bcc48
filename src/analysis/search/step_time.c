/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/search/step_time.h"

#include "analysis/predict/step.h"
#include "model/layers/operator_builder.h"
#include "model/operators/fused.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/operators.h>
#include <headroom/experimental/predict.h>

/* Operator ids are in execution order: from the second norm on, a layer's operators belong to the MLP, whatever their
 * group. */
static hr_search_part part_of(const hr_operator *op)
{
  if (!op->in_layer)
    return HR_SEARCH_PART_OUTSIDE;
  return op->id >= HR_OP_MLP_NORM ? HR_SEARCH_PART_MLP : HR_SEARCH_PART_ATTENTION;
}

double hr_search_part_ns(hr_search_predictor *predictor, const hr_model *model, hr_search_part part)
{
  if (hr_list_operators(model, predictor->workload, &predictor->operators, NULL) != HR_OK)
    return -1;
  if (hr_predict_persists(predictor->hardware, model, predictor->workload))
    hr_persist_operators(&predictor->operators);
  hr_part_times times = {0, 0, 0, 0};
  for (size_t i = 0; i < predictor->operators.count; i++) {
    const hr_operator *op = &predictor->operators.items[i];
    hr_prediction prediction;
    if (part_of(op) != part || !hr_runs_with_microbatches(op->id))
      continue;
    if (hr_predict_step_operator(predictor->hardware, predictor->workload->phase, op, &prediction, NULL) != HR_OK)
      return -1;
    const double hidden_ns = hr_hidden_ns(predictor->hardware, predictor->workload->phase, op, prediction.time_ns);
    *hr_part_of(&times, op) += (double)op->count * (prediction.time_ns - hidden_ns);
  }
  return part == HR_SEARCH_PART_OUTSIDE ? hr_all_microbatches_ns(&times, predictor->workload)
                                        : times.layers / (double)hr_model_layers(model);
}

double hr_search_layer_runs(const hr_workload *workload)
{
  return hr_all_microbatches_ns(&(hr_part_times){.layers = 1}, workload);
}
