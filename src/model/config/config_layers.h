/* SPDX-License-Identifier: Apache-2.0 */
/* From a list of kinds of layers to a model's groups. */
#ifndef HR_MODEL_CONFIG_CONFIG_LAYERS_H
#define HR_MODEL_CONFIG_CONFIG_LAYERS_H

#include "model/config/config.h"

/** Most layers that are looked at one by one; more than any model has, and few enough to go through in a moment. */
#define HR_DIFFERING_LAYERS_MAX 100000

/** Most kinds that the layers of a family have. */
#define HR_LAYER_TYPES_MAX 6

/** A kind of layer by the name that configurations give it ("full_attention"), and its shape; the count is ignored. */
typedef struct hr_layer_type {
  const char *name;
  hr_layer_group layer;
} hr_layer_type;

/** How the layers of a model differ. Indices count layers from 0. */
typedef struct hr_layer_pattern {
  int64_t layers;
  const char *field; /* a list with one name per layer ("layer_types"), which is read if it is there; may be NULL */
  size_t type_count;
  hr_layer_type types[HR_LAYER_TYPES_MAX];

  /** Which of `types` a layer is if there is no list; NULL: all are types[0]. */
  size_t (*type_of)(const void *context, int64_t index);

  /** Changes a layer beyond its type, as where only some layers have experts; NULL: nothing. */
  void (*change)(const void *context, int64_t index, hr_layer_group *layer);

  const void *context, *change_context; /* of type_of() and of change() */
} hr_layer_pattern;

/** A list with one value per layer, marked as read; *list is NULL if the field is missing. */
hr_status hr_config_layer_list(hr_config *config, const char *field, int64_t layers, const json_t **list);

/** The size of layer `index` in such a list. */
hr_status hr_config_layer_size(const hr_config *config, const char *field, const json_t *list, int64_t index,
                               int64_t *value);

/** Gives the layers the windows of a list that hr_config_window() has read; a shorter list is repeated. Fails if the
 *  layers differ in other ways. */
hr_status hr_config_spread_windows(hr_config *config, hr_model *model);

/** Adds one layer to the groups of *model; fails if there are HR_LAYER_GROUPS_MAX others. */
hr_status hr_config_add_layer(const hr_config *config, hr_model *model, const hr_layer_group *layer);

/** Replaces the groups of *model by those of the pattern. Fails if the list is not one, has another length or an
 *  unknown name, or if the layers differ in more than HR_LAYER_GROUPS_MAX ways. */
hr_status hr_config_layers(hr_config *config, const hr_layer_pattern *pattern, hr_model *model);

/** The pattern of attention with and without a window, made from the only group of *model, which has the window: types
 *  "full_attention" and "sliding_attention", the list in "layer_types". Fill in type_of and context, or leave them:
 *  then every layer has the window if there is one. */
hr_layer_pattern hr_window_pattern(const hr_model *model);

/** Applies a window pattern. A list with sliding layers needs a window. */
hr_status hr_config_windows(hr_config *config, const hr_layer_pattern *pattern, hr_model *model);

#endif
