/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of module names, with which quantized checkpoints list the layers that they leave out or that a format is
 * for: "lm_head", "model.layers.0.self_attn", "model.layers.*.mlp.gate", "re:.*self_attn.*". Thread safety: pure
 * functions. */
#ifndef HR_ANALYSIS_MODEL_MODULE_PATTERNS_H
#define HR_ANALYSIS_MODEL_MODULE_PATTERNS_H

#include <headroom/quantization.h>

/** Longest pattern. */
#define HR_MODULE_PATTERN_MAX 256

/** HR_ERROR_UNSUPPORTED, with the reason, for a regular expression with more than alternatives, classes, `.` and
 *  quantifiers, and for a pattern that is too long. */
hr_status hr_check_module_pattern(const char *pattern, hr_error *error);

/** Whether a checked pattern names the linear layer `id` of layer `layer`, by itself or with the module that it is
 *  in. */
bool hr_module_matches(const char *pattern, int64_t layer, hr_linear_id id);

/** Whether a checked pattern names the logits' linear layer. */
bool hr_module_is_logit(const char *pattern);

#endif
