/* SPDX-License-Identifier: Apache-2.0 */
/* The predicted time of a step as three parts that vary independently, so that a search predicts each part once:
 *
 *   step = runs · layers · (attention part + MLP part) + outside part
 *
 * The attention part depends on hidden and heads, the MLP part on hidden and MLP width, the outside part on hidden and
 * vocabulary. Where a model has several groups of layers, the parts of a layer are means, which also depend on the
 * number of layers. With p stages `layers` is p·⌈layers/p⌉, as in hr_predict_step(); `runs` and the outside part are of
 * all microbatches. What replicas wait for and what eager mode launches is not in the sum. */
#ifndef HR_ANALYSIS_SEARCH_STEP_TIME_H
#define HR_ANALYSIS_SEARCH_STEP_TIME_H

#include <headroom/predict.h>

typedef enum hr_search_part { HR_SEARCH_PART_ATTENTION, HR_SEARCH_PART_MLP, HR_SEARCH_PART_OUTSIDE } hr_search_part;

/** The device and workload to predict for. `operators` is scratch space. */
typedef struct hr_search_predictor {
  const hr_hardware *hardware;
  const hr_workload *workload;
  hr_operators operators;
} hr_search_predictor;

/** Time of a part of one layer and microbatch, the mean of all layers, or of everything outside the layers in a step,
 *  in ns; negative if it cannot be predicted. The model and the workload have been checked. */
double hr_search_part_ns(hr_search_predictor *predictor, const hr_model *model, hr_search_part part);

/** How many times a step waits for the layers of a microbatch: 1 + (m − 1) / p. */
double hr_search_layer_runs(const hr_workload *workload);

#endif
