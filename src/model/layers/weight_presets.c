/* SPDX-License-Identifier: Apache-2.0 */
/* Formats of weights by name, for any model. */
#include "base/error.h"
#include "model/layers/layer_kinds.h"

#include <headroom/experimental/workload.h>
#include <stdio.h>
#include <string.h>

/* Scales of int4, int8 and fp8 are of 16 bits, as AWQ and compressed-tensors store them; those of MXFP4 are E8M0 (OCP
 * Microscaling Formats 1.0), of NVFP4 E4M3 with an fp32 scale of the matrix and one of its inputs, of NF4 fp32 with two
 * tables (QLoRA, arXiv 2305.14314, with a second quantization of the scales). q8_0 is block_q8_0 of llama.cpp
 * (ggml-common.h), whose llama-quantize gives it to the logits' weights, too. */
static const hr_weight_format presets[] = {
    {.name = "int4", .bits = 4, .block_inputs = 128, .block_outputs = 1, .block_bits = 16 + 4},
    {.name = "int8", .bits = 8, .block_outputs = 1, .block_bits = 16},
    {.name = "fp8", .bits = 8, .block_outputs = 1, .block_bits = 16, .activations = HR_ACTIVATIONS_FP8},
    {.name = "mxfp4", .bits = 4, .block_inputs = 32, .block_outputs = 1, .block_bits = 8},
    {.name = "nvfp4",
     .bits = 4,
     .block_inputs = 16,
     .block_outputs = 1,
     .block_bits = 8,
     .matrix_bytes = 8,
     .activations = HR_ACTIVATIONS_FP4},
    {.name = "nf4",
     .bits = 4,
     .block_inputs = 64,
     .block_outputs = 1,
     .block_bits = 8,
     .nested = 256,
     .matrix_bytes = (16 + 256) * 4},
    {.name = "q8_0", .bits = 8, .block_inputs = 32, .block_outputs = 1, .block_bits = 16},
};

hr_status hr_model_set_weights(hr_model *model, const char *name, hr_error *error)
{
  HR_NEED(error, model, name);
  size_t count = sizeof presets / sizeof *presets, found = 0;
  bool none = strcmp(name, "bf16") == 0;
  while (found < count && strcmp(presets[found].name, name) != 0)
    found++;
  if (!none && found == count)
    return hr_fail(error, HR_ERROR_NOT_FOUND, "\"%.40s\" is none of bf16, int4, int8, fp8, mxfp4, nvfp4, nf4, q8_0",
                   name);
  hr_kv_format cache = model->quantization.kv_cache;
  model->quantization = (hr_quantization){.kv_cache = cache};
  for (size_t i = 0; i < model->group_count; i++)
    memset(model->groups[i].formats, none ? 0 : 1, sizeof model->groups[i].formats);
  if (none)
    return HR_OK;
  snprintf(model->quantization.method, sizeof model->quantization.method, "--weights");
  model->quantization.format_count = 1;
  model->quantization.formats[0] = presets[found];
  if (strcmp(name, "q8_0") == 0)
    model->quantization.logit = model->quantization.tied_logit = 1;
  return HR_OK;
}

hr_status hr_model_store_in_fp8(hr_model *model, hr_phase phase, bool weights, bool cache, hr_error *error)
{
  HR_NEED(error, model);
  if (phase == HR_PHASE_TRAIN)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "training in fp8 keeps weights in 16 bits and rounds the operands of each GEMM: "
                   "hr_workload.fp8_linears");
  if (cache)
    model->quantization.kv_cache = HR_KV_FP8;
  return weights && model->quantization.format_count == 0 ? hr_model_set_weights(model, "fp8", error) : HR_OK;
}
