/* SPDX-License-Identifier: Apache-2.0 */
/* The values of each size that a search tries. */
#ifndef HR_ANALYSIS_SEARCH_GRIDS_H
#define HR_ANALYSIS_SEARCH_GRIDS_H

#include "analysis/search/space.h"

/** Fills space->served and space->share: the degrees of tensor parallelism that every shape spreads over, and their
 *  least common multiple; and space->unserved_on. `kept_heads`: query heads that all shapes have, 0 if they vary.
 *  HR_ERROR_INVALID if these do not spread over a degree that was asked for, or if no size up to 2^40 is a multiple of
 *  all. */
hr_status hr_search_list_served(const hr_search_options *options, int64_t kept_heads, hr_search_space *space,
                                hr_error *error);

/** Elements that a device's share of a width is a multiple of: with so many contiguous elements of this format GEMMs
 *  run at full speed. */
int64_t hr_search_granule(const hr_hardware *hardware, hr_dtype dtype);

/** Least common multiple of the blocks of a quantized model's weights, in elements along either side; 1: none. Serving
 *  engines split no block (fp8.py of vLLM refuses such a share, 2025). */
int64_t hr_search_block(const hr_model *model);

/** The step of a grid over `range`: a multiple of `unit` and of `granule` on each of the devices of all served degrees,
 *  or of fewer if that would leave hardly a value in the range or in the part of it that the parameter band allows
 *  (INT64_MAX: all of it). */
int64_t hr_search_step(const hr_search_space *space, int64_t unit, int64_t range, int64_t in_band);

/** Fill the values of hidden, vocabulary and head sizes. */
hr_status hr_search_list_hidden(const hr_search_options *options, hr_search_space *space, hr_error *error);
void hr_search_list_vocabularies(const hr_search_options *options, hr_search_space *space); /* see above */
void hr_search_list_head_dims(const hr_search_options *options, hr_search_space *space);    /* see above */

#endif
