/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/memory.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_MEMORY_H
#define HEADROOM_EXPERIMENTAL_MEMORY_H

#include <headroom/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Compares the KV cache of latent attention. Errors of hr_model_check() and hr_workload_check(), and
 *  HR_ERROR_OVERFLOW. */
HR_API hr_status hr_memory_latent_cache(const hr_model *model, const hr_workload *workload, hr_latent_cache *cache,
                                        hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
