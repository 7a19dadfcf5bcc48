/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of a model's weights in reports. */
#ifndef HR_REPORT_QUANTIZATION_H
#define HR_REPORT_QUANTIZATION_H

#include "report/document.h"
#include "report/json.h"

/** Prints a line for each format and the layers that have it; nothing if no weight is quantized. */
void hr_print_quantization(const hr_document *document, const hr_model *model);

/** Adds the object "quantization"; null if no weight is quantized. */
void hr_json_put_quantization(hr_json json, const hr_model *model);

#endif
