/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of module names, with which quantized checkpoints list the layers that they leave out or that a format is
 * for: "lm_head", "model.layers.0.self_attn", "model.layers.*.mlp.gate", "re:.*self_attn.*". Thread safety: pure
 * functions. */
#ifndef HR_MODEL_CONFIG_QUANTIZATION_MODULE_PATTERNS_H
#define HR_MODEL_CONFIG_QUANTIZATION_MODULE_PATTERNS_H

#include <headroom/quantization.h>

/** Longest pattern. */
#define HR_MODULE_PATTERN_MAX 128

/** A set of linear layers: bit i is hr_linear_id i. */
typedef uint32_t hr_linear_set;

/** The linear layers that patterns name. */
typedef struct hr_named_modules {
  int64_t layers;
  hr_linear_set
      *linears; /* of each layer; those that a pattern names by themselves or with the module that they are in */
  bool logit;   /* the logits' linear layer */
  int64_t work; /* states, characters and modules that were looked at */
} hr_named_modules;

/** The most work of one hr_named_modules. */
#define HR_MODULE_WORK_MAX 50000000

/** Adds the linear layers that a pattern names. HR_ERROR_UNSUPPORTED, with the reason, for a pattern that is too long,
 *  for a regular expression with more than hr_compile_expression() takes, and past HR_MODULE_WORK_MAX. */
hr_status hr_name_modules(const char *pattern, hr_named_modules *named, hr_error *error);

#endif
