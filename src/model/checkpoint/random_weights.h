/* SPDX-License-Identifier: Apache-2.0 */
/* Weights where there is no checkpoint. Thread safety: pure functions. */
#ifndef HR_MODEL_CHECKPOINT_RANDOM_WEIGHTS_H
#define HR_MODEL_CHECKPOINT_RANDOM_WEIGHTS_H

#include "model/checkpoint/weight_reader.h"

/** How a weight is filled: uniform numbers of the seed `key` in −1 … 1, times `bound`, plus `added`. */
typedef struct hr_weight_filling {
  uint64_t key;
  float bound, added;
} hr_weight_filling;

hr_weight_filling hr_weight_filling_of(const hr_weight_request *request, uint64_t seed);

/** Writes elements first … first + count − 1 of a weight as an initialisation has them: matrices uniform with a
 *  variance of 1 / inputs, which keeps the size of what they multiply (LeCun et al. 1998, "Efficient BackProp", section
 *  4.6); norms 1; biases, sinks and numbers of activations 0. An element depends on seed, role, layer and its number
 *  only, whatever is filled before. */
void hr_weight_randomize(const hr_weight_request *request, uint64_t seed, int64_t first, int64_t count, void *to);

#endif
