/* SPDX-License-Identifier: Apache-2.0 */
/* Turns an operator of a step into the problem that a kernel solves. */
#ifndef HR_EXPERIMENT_OPERATOR_PROBLEM_H
#define HR_EXPERIMENT_OPERATOR_PROBLEM_H

#include "runtime/device/device.h"
#include "runtime/operation/operation.h"

#include <headroom/operators.h>

/** The family of kernels that keep the scores on chip, which HR_ATTENTION_FUSED predicts. */
#define HR_FUSED_ATTENTION_KERNELS "attention_flash"

/** Translates an operator of the step of `workload`. HR_ERROR_UNSUPPORTED, with the reason, if no kernel computes it:
 *  communication, scans, embeddings, routing of experts, a residual of three terms, a grouped GEMM of experts with
 *  unequal numbers of tokens. */
hr_status hr_operator_problem(const hr_model *model, const hr_workload *workload, const hr_operator *op,
                              hr_problem *problem, hr_error *error);

/** Whether it is a grouped GEMM whose experts have equally many tokens: a batched GEMM. */
bool hr_operator_has_equal_groups(const hr_operator *op);

/** The family of kernels for decode calls with which a step is measured; latent attention has kernels of its own. */
#define HR_DECODE_KERNELS "decode_split"

/** Makes the fused attention of a decode step a decode call against pages of 16 tokens, as serving engines have, if a
 *  kernel of HR_DECODE_KERNELS on the device takes it, of latent attention any kernel; leaves other problems. Returns
 *  whether it did. */
bool hr_operator_take_decode(hr_device *device, const hr_workload *workload, hr_problem *problem);

/** The kernels with which an attention problem of a step is measured; NULL: any. */
const char *hr_operator_kernels(const hr_problem *problem);

#endif
