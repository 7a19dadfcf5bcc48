/* SPDX-License-Identifier: Apache-2.0 */
/* The range of a model's sizes, checks of single sizes, and the parameters of a linear layer. */
#ifndef HR_MODEL_LAYERS_SIZES_H
#define HR_MODEL_LAYERS_SIZES_H

#include "base/checked.h"

/** The largest size that a model may have. A size times the bytes of a format never overflows. */
#define HR_MODEL_SIZE_MAX (((int64_t)1 << 40) - 1)

/** HR_ERROR_INVALID naming the size if it is not within least … HR_MODEL_SIZE_MAX. */
hr_status hr_check_range(const char *name, int64_t value, int64_t least, hr_error *error);

/** HR_ERROR_INVALID naming both if the size is above the limit. */
hr_status hr_check_at_most(const char *name, int64_t value, const char *limit_name, int64_t limit, hr_error *error);

/** HR_ERROR_INVALID naming both if `value` does not divide `whole`. */
hr_status hr_check_divides(const char *name, int64_t value, const char *whole_name, int64_t whole, hr_error *error);

/** Parameters of a linear layer from `in` to `out` features. */
hr_checked64 hr_linear_parameters(hr_checked64 in, hr_checked64 out, bool bias);

#endif
