/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of the fields of routed and shared experts. */
#ifndef HR_MODEL_CONFIG_CONFIG_EXPERTS_H
#define HR_MODEL_CONFIG_CONFIG_EXPERTS_H

#include "model/config/config_layers.h"
#include "model/config/families.h"

/** A set of layers by their numbers, counted from 0. */
typedef struct hr_layer_set {
  uint64_t bits[HR_DIFFERING_LAYERS_MAX / 64 + 1];
} hr_layer_set;

bool hr_layer_set_has(const hr_layer_set *set, int64_t index);
void hr_layer_set_put(hr_layer_set *set, int64_t index, bool is_in); /* see hr_layer_set_has() */

/** Reads a list of 0 and 1, one for each layer, into the set; leaves the set if there is no such field. */
hr_status hr_read_layer_flags(const hr_json_reader *reader, const char *field, int64_t layers, hr_layer_set *set);

/** A size, or a list of them that are all equal; `fallback` if it is missing. */
hr_status hr_config_size_of_layers(hr_config *config, const char *field, int64_t fallback, int64_t *value);

/** Reads the sizes of the experts into model->groups[0], which may also have a dense network. */
hr_status hr_config_experts(hr_config *config, const hr_expert_fields *fields, hr_model *model);

/** Reads which of the layers have experts. */
hr_status hr_config_expert_layers(hr_config *config, const hr_expert_fields *fields, int64_t layers, hr_layer_set *set);

/** Whether every layer of the family has experts. */
bool hr_experts_everywhere(const hr_expert_fields *fields);

/** Takes the dense network from layers of the set `experts`, and the experts from the others; for the change
 *  of a pattern. */
void hr_change_to_experts(const void *experts, int64_t index, hr_layer_group *layer);

/** Makes groups of the layers by a pattern and by which of them have experts, if the family has any. `apply` is
 *  hr_config_layers() or hr_config_windows(). */
hr_status hr_config_apply(hr_config *config, const hr_family *family, const hr_layer_pattern *pattern,
                          hr_status (*apply)(hr_config *, const hr_layer_pattern *, hr_model *), hr_model *model);

#endif
