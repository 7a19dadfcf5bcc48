/* SPDX-License-Identifier: Apache-2.0 */
/* The heads that a search tries at a hidden size. */
#ifndef HR_ANALYSIS_SEARCH_HEADS_H
#define HR_ANALYSIS_SEARCH_HEADS_H

#include "analysis/search/space.h"

#define HR_SEARCH_LAYOUTS_MAX 4096

/** The heads at one hidden size: all different. */
typedef struct hr_search_layouts {
  size_t count;
  hr_search_layout layouts[HR_SEARCH_LAYOUTS_MAX];
  uint64_t
      unserved; /* left out since they do not spread over the served degrees; grows from one hidden size to the next */
} hr_search_layouts;

/** The heads of the main layers: of latent attention those of its expanded form. */
hr_mixer_attention hr_search_own_heads(const hr_model *model);

/** Whether heads stay as they are whatever the options are: those of latent attention. */
bool hr_search_keeps_heads(const hr_model *model);

/** Lists the heads at this hidden size that the constraints allow. */
void hr_search_list_layouts(const hr_search_space *space, int64_t hidden, hr_search_layouts *layouts);

/** The model with `hidden`, these heads and the sizes that depend on them; MLP, vocabulary and layers unchanged. False
 *  if a number of heads or a head size would not be an integer. */
bool hr_search_with_heads(const hr_search_space *space, int64_t hidden, const hr_search_layout *layout,
                          hr_model *model);

#endif
