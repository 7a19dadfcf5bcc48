/* SPDX-License-Identifier: Apache-2.0 */
/* The linear layers of a layer of the model, from which their parameters and bytes follow. Thread safety: pure
 * functions. */
#ifndef HR_MODEL_LAYERS_LINEARS_H
#define HR_MODEL_LAYERS_LINEARS_H

#include "base/checked.h"

#include <headroom/model.h>
#include <headroom/workload.h>

/** `count` linear layers of one size, from `inputs` to `outputs` features. */
typedef struct hr_linear {
  hr_linear_id id;
  hr_checked64 inputs, outputs;
  int64_t count;
  bool bias;
} hr_linear;

/** Linear layers of a layer with every kind of mixer and network. */
#define HR_LINEARS_MAX 28

typedef struct hr_linears {
  size_t count;
  hr_linear items[HR_LINEARS_MAX];
} hr_linears;

/** Appends a linear layer. */
void hr_add_linear(hr_linears *linears, hr_linear_id id, hr_checked64 inputs, hr_checked64 outputs, bool bias);

/** Parameters of the linear layers, with biases. */
hr_checked64 hr_sum_linears(const hr_linears *linears);

/** Bytes of matrices in a format; `format` NULL: of `element_bytes` each. */
hr_checked64 hr_matrix_bytes(const hr_weight_format *format, hr_checked64 outputs, hr_checked64 inputs, int64_t count,
                             int64_t element_bytes);

/** The format with this number; NULL for 0, the workload's. */
const hr_weight_format *hr_format_at(const hr_model *model, uint8_t number);

/** Whether this library multiplies with the weights of such a linear layer in fp8 as they are; others it widens. */
bool hr_linear_stays_fp8(hr_linear_id id);

/** Whether a workload by this library's kernels reads such weights widened to its dtype, not in `format`: fp8 stays in
 *  linear layers of one device where hr_linear_stays_fp8() and dtype has 16 bits. HR_LINEAR_COUNT: the logits'. */
bool hr_workload_widens(const hr_workload *workload, const hr_weight_format *format, hr_linear_id id);

/** The format of the logits' weights; NULL for the workload's, and for a model without logits. */
const hr_weight_format *hr_format_of_logits(const hr_model *model);

/** HR_ERROR_INVALID naming the member if it is out of range. */
hr_status hr_check_weight_format(const hr_weight_format *format, hr_error *error);

#endif
