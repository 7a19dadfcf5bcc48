/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter counts of a model whose sizes have been checked. */
#ifndef HR_ANALYSIS_MODEL_PARAMETERS_H
#define HR_ANALYSIS_MODEL_PARAMETERS_H

#include <headroom/model.h>

/** The largest size that a model may have. A size times the bytes of a format never overflows. */
#define HR_MODEL_SIZE_MAX (((int64_t)1 << 40) - 1)

/** hr_model_parameters() without checking the sizes; HR_ERROR_OVERFLOW if a count does not fit into 63 bits. */
hr_status hr_count_parameters(const hr_model *model, hr_parameters *parameters, hr_error *error);

#endif
