/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of the fields of recurrent mixers, and of lists of layers with and without one. */
#ifndef HR_MODEL_CONFIG_CONFIG_SCAN_H
#define HR_MODEL_CONFIG_CONFIG_SCAN_H

#include "model/config/config_layers.h"
#include "model/config/families.h"

/** Reads the sizes of the mixer into model->groups[0].scan; model->hidden has been read. */
hr_status hr_config_scan(hr_config *config, const hr_scan_fields *fields, hr_model *model);

/** The layer without its scan, and without its attention. */
hr_layer_group hr_without_scan(const hr_layer_group *layer);
hr_layer_group hr_without_attention(const hr_layer_group *layer); /* see hr_without_scan() */

/** The pattern of layers with either attention or a scan, made from the only group of *model, which has both. Types are
 *  "full_attention" or "attention" and "linear_attention" or `name` (NULL: "mamba"); the list is in "layer_types" or
 *  "layers_block_type". Without a list every layer is of the first type, attention, unless `type_of` says otherwise. */
hr_layer_pattern hr_scan_pattern(hr_config *config, const hr_model *model, const char *name);

/** Types of hr_scan_pattern(). */
enum { HR_TYPE_ATTENTION, HR_TYPE_SCAN };

/** For the function type_of: whether a layer is of a set. */
size_t hr_scan_unless_in_set(const void *attention_layers, int64_t index);

#endif
