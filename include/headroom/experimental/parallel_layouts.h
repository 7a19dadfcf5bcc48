/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/parallel_layouts.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_PARALLEL_LAYOUTS_H
#define HEADROOM_EXPERIMENTAL_PARALLEL_LAYOUTS_H

#include <headroom/parallel_layouts.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Compares layouts of the same work: batch, sequence, microbatches and the other degrees are those of `workload`.
 *
 *  t is a power of two over which all heads split, and p a power of two of at most the number of layers. They take
 *  up at most `nodes` nodes (0: as many as `workload` does; without devices_per_node 8 devices). Listed are other t
 *  with the p of `workload`, other p with its t, and other p on as many devices. A degree that the other degrees do
 *  not allow is left out. Errors of hr_predict_step() for `workload` itself, HR_ERROR_INVALID if it takes up more
 *  than `nodes`, HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_compare_parallel_layouts(const hr_hardware *hardware, const hr_model *model,
                                             const hr_workload *workload, int64_t nodes, hr_parallel_layouts *layouts,
                                             hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
