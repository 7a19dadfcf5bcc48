/* SPDX-License-Identifier: Apache-2.0 */
/* Options of searches that several tests share. */
#ifndef HEADROOM_TEST_SEARCHES_H
#define HEADROOM_TEST_SEARCHES_H

#include <headroom/search.h>

/** The space of the co-design paper: any layers, head sizes from 64 to 128, one degree of tensor parallelism. */
static inline hr_search_options paper_search(void)
{
  hr_search_options options = hr_search_options_default();
  options.vary |= HR_SEARCH_LAYERS;
  options.head_dim_min = 64;
  options.head_dim_max = 128;
  options.serve_on_count = 1;
  options.serve_on[0] = 1;
  return options;
}

#endif
