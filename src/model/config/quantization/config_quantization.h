/* SPDX-License-Identifier: Apache-2.0 */
/* Reads how a checkpoint's weights are quantized: `quantization_config`. */
#ifndef HR_MODEL_CONFIG_QUANTIZATION_CONFIG_QUANTIZATION_H
#define HR_MODEL_CONFIG_QUANTIZATION_CONFIG_QUANTIZATION_H

#include "model/config/config.h"

#define HR_MODULE_LISTS_MAX (HR_WEIGHT_FORMATS_MAX + 1)

/** What a method says of a checkpoint. */
typedef struct hr_stored_formats {
  hr_quantization quantization;
  const json_t *excluded;                       /* patterns of modules that are not quantized; NULL: none */
  const json_t *targets[HR_WEIGHT_FORMATS_MAX]; /* patterns of modules that have each format; NULL: all */
  const json_t *modules;                        /* an object of modules with a format of each (ModelOpt); NULL: none */
  uint8_t experts;                              /* number of the format of routed experts; 0: that of the others */
  bool experts_only;                            /* other linear layers are not quantized */
  bool logit;                                   /* the logits are quantized where they are not excluded */
} hr_stored_formats;

/** Reads the formats of a method. `q` is the object; HR_ERROR_UNSUPPORTED naming quant_method, or the field, for what
 *  is not covered. */
hr_status hr_read_stored_formats(const hr_json_reader *q, const char *method, hr_stored_formats *stored);

/** The same for compressed-tensors and for ModelOpt. */
hr_status hr_read_compressed_tensors(const hr_json_reader *q, hr_stored_formats *stored);
hr_status hr_read_modelopt(const hr_json_reader *q, hr_stored_formats *stored); /* see hr_read_compressed_tensors() */

/** The format of a ModelOpt object, and whether two of them are one. */
hr_status hr_read_modelopt_format(const hr_json_reader *q, hr_weight_format *format);
bool hr_same_modelopt_format(const hr_weight_format *a, const hr_weight_format *b); /* see hr_read_modelopt_format() */

/** Reads the quantization of the configuration into a model whose layers have been read. Without one it does
 *  nothing. */
hr_status hr_config_quantization(hr_config *config, hr_model *model);

#endif
