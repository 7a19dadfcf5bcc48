/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layers/split_rules.h"

#include "base/checked.h"
#include "model/layers/linears.h"

#include <string.h>

/* Sources, 2025 and 2026:
 *   awq, gptq           create_weights() of vLLM's awq.py and gptq.py: inputs in groups, outputs in whole int32; Marlin
 *                       kernels, verify_marlin_supports_shape() in marlin_utils.py, the same groups. Qwen2-72B in
 *                       groups of 128 loads on neither 2, 4 nor 8 devices (QwenLM/Qwen3 issue 578)
 *   fp8 with blocks     validate_fp8_block_shape() in fp8_utils.py of vLLM and SGLang: inputs and each output; experts
 *                       of 1536 on 8 devices (vLLM pull request 48173), 18432 on 32 (SGLang issue 3345)
 *   compressed-tensors  groups as Marlin has them, blocks as fp8
 *   nvfp4               groups of 16 inputs (vLLM issue 49949)
 *   mxfp4               experts are padded: create_weights() of vLLM's mxfp4.py rounds up to 64, for kernels of
 *                       FlashInfer and Marlin to 128 or 256
 *   bitsandbytes, nf4   blocks of the flattened matrix: vLLM's bitsandbytes.py asks for whole bytes alone */
static const hr_split_rule rules[] = {
    {.method = "bitsandbytes", .flat = true},        {.format = "nf4", .flat = true},
    {.method = "mxfp4", .expert_granule = 64},       {.method = "--weights", .format = "mxfp4", .expert_granule = 64},
    {.method = "awq", .packs_outputs = true},        {.method = "gptq", .packs_outputs = true},
    {.method = "auto-round", .packs_outputs = true},
};

hr_split_rule hr_split_rule_of(const hr_model *model, const hr_weight_format *format)
{
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    const hr_split_rule *rule = &rules[i];
    if ((!rule->method || strcmp(rule->method, model->quantization.method) == 0) &&
        (!rule->format || strcmp(rule->format, format->name) == 0))
      return *rule;
  }
  return (hr_split_rule){.flat = false};
}

int64_t hr_padded_expert_width(const hr_model *model, const hr_layer_group *layer, int64_t width)
{
  const hr_weight_format *format = hr_format_at(model, layer->formats[HR_LINEAR_EXPERT_DOWN]);
  int64_t granule = format ? hr_split_rule_of(model, format).expert_granule : 0;
  return granule > 0 ? hr_round_up(width, granule) : width;
}
