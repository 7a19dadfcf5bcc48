/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_MODEL_LAYERS_ROTARY_FREQUENCY_H
#define HR_MODEL_LAYERS_ROTARY_FREQUENCY_H

#include <headroom/model.h>

/** The angle of a pair of a head's elements at position 1, in radians, as the model stretches it; of a layer with a
 *  window or without. `dim` elements of a head are rotated. */
double hr_rotary_frequency(const hr_numerics *numerics, bool window, int64_t pair, int64_t dim);

#endif
