/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/model.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_MODEL_H
#define HEADROOM_EXPERIMENTAL_MODEL_H

#include <headroom/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/** "none", "mamba", "mamba2", "gated_delta", "lightning", "rg_lru", "convolution". Static storage. */
HR_API const char *hr_recurrence_name(hr_recurrence recurrence);

/** "design", "published", "files". Static storage. */
HR_API const char *hr_origin_name(hr_origin origin);

/** [L] Layers of all groups together. `model` has been checked. */
HR_API int64_t hr_model_layers(const hr_model *model);

/** The group that stands for the model where one has to: of those with attention (also latent attention) the one with
 *  the most layers, of a model without attention the largest one; the first of equals. Points into *model, which has
 *  been checked. */
HR_API const hr_layer_group *hr_model_main_group(const hr_model *model);

#ifdef __cplusplus
}
#endif
#endif
