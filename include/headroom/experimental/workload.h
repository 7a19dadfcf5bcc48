/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/workload.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_WORKLOAD_H
#define HEADROOM_EXPERIMENTAL_WORKLOAD_H

#include <headroom/workload.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Microbatches of a step: workload->microbatches; if that is 0, p in training with p stages, the fewest with which the
 *  1F1B schedule has work for all stages at once, and else 1. */
HR_API int64_t hr_workload_microbatches(const hr_workload *workload);

/** Whether the step drops elements: phase and `dropout` together. */
HR_API bool hr_workload_drops(const hr_workload *workload);

/** "newest", "2", "1", "triton"; "unknown" for another value. Static storage. */
HR_API const char *hr_flash_library_name(hr_flash_library library);

/** Reads a name of hr_flash_library_name(). HR_ERROR_NOT_FOUND for any other; *library is then untouched. */
HR_API hr_status hr_flash_library_parse(const char *name, hr_flash_library *library);

/** Stores a model in fp8, as no framework does with a whole step: weights that no quantization has yet
 *  (hr_model_set_weights()), unless they keep their format, and with `cache` K and V. HR_ERROR_UNSUPPORTED in training,
 *  with *model untouched. */
HR_API hr_status hr_model_store_in_fp8(hr_model *model, hr_phase phase, bool weights, bool cache, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
