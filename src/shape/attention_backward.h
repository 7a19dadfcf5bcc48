/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of attention as a problem. */
#ifndef HR_SHAPE_ATTENTION_BACKWARD_H
#define HR_SHAPE_ATTENTION_BACKWARD_H

#include <headroom/experimental/attention_backward.h>

typedef struct hr_backward {
  hr_attention forward;
  hr_attention_backward options;
} hr_backward;

/** Both structs of a caller in the library's size; `options` may be NULL. HR_ERROR_INVALID as hr_take_struct(). */
hr_status hr_backward_take(const hr_attention *forward, const hr_attention_backward *options, hr_backward *backward,
                           hr_error *error);

/** A forward call whose Q, K, V and O have the strides of dQ, dK, dV and dO. */
hr_attention hr_backward_gradients(const hr_backward *backward);

#endif
