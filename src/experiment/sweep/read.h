/* SPDX-License-Identifier: Apache-2.0 */
/* Sweep files: one sweep, or a template with several that differ in a few axes. */
#ifndef HR_EXPERIMENT_SWEEP_READ_H
#define HR_EXPERIMENT_SWEEP_READ_H

#include <headroom/experimental/sweep.h>
#include <jansson.h>

/** How many sweeps a parsed file has, and the name of each, which lives as long as `root`; NULL where it has none. */
size_t hr_sweep_file_count(const json_t *root);
const char *hr_sweep_file_name(const json_t *root, size_t index);

/** Reads the sweep of an index below hr_sweep_file_count(). Errors as hr_sweep_from_json(). */
hr_status hr_sweep_read(const json_t *root, const char *input, size_t index, bool small, hr_sweep **sweep,
                        hr_error *error);

#endif
