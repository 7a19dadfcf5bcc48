/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/quantization.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_QUANTIZATION_H
#define HEADROOM_EXPERIMENTAL_QUANTIZATION_H

#include <headroom/quantization.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The name of a linear layer ("experts.up_proj"); "unknown" outside the list. Static storage. */
HR_API const char *hr_linear_name(hr_linear_id id);

/** "unquantized", "fp8", "int8", "fp4"; "unknown" for another value. Static storage. */
HR_API const char *hr_activations_name(hr_activations activations);

/** Bytes of `count` matrices of this size. HR_ERROR_OVERFLOW leaves *bytes untouched; HR_ERROR_INVALID for negative
 *  sizes and members out of range. */
HR_API hr_status hr_weight_format_bytes(const hr_weight_format *format, int64_t outputs, int64_t inputs, int64_t count,
                                        int64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
