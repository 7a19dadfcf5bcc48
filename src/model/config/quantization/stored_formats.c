/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of quantized checkpoints, a function for each method. Layouts: docs/notes/models.md, with their
 * sources. */
#include "model/config/quantization/config_quantization.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GROUP_MAX ((int64_t)1 << 20)

static hr_weight_format *add_format(hr_stored_formats *stored, const char *prefix, int64_t bits)
{
  hr_weight_format *format = &stored->quantization.formats[stored->quantization.format_count++];
  *format = (hr_weight_format){.bits = bits, .block_outputs = 1};
  snprintf(format->name, sizeof format->name, "%s%" PRId64, prefix, bits);
  return format;
}

static hr_status unsupported(const hr_json_reader *q, const char *field, const char *why)
{
  char found[80];
  hr_json_found(json_object_get(q->object, field), found, sizeof found);
  return hr_json_fail(q, field, HR_ERROR_UNSUPPORTED, "%s %s", found, why);
}

/* −1, or null where it is allowed, is one group of all inputs. */
static hr_status read_group_size(const hr_json_reader *q, const char *field, int64_t fallback, int64_t *size)
{
  HR_TRY(hr_json_integer_or(q, field, -1, GROUP_MAX, fallback, size));
  *size = *size < 0 ? 0 : *size;
  return HR_OK;
}

static bool is_given(const hr_json_reader *q, const char *field)
{
  const json_t *value = json_object_get(q->object, field);
  return json_object_size(value) > 0 || json_array_size(value) > 0;
}

static hr_status refuse_given(const hr_json_reader *q, const char *field)
{
  return is_given(q, field) ? unsupported(q, field, "sets a format for single layers, which is not supported") : HR_OK;
}

static hr_status read_integer_bits(const hr_json_reader *q, const char *field, int64_t *bits)
{
  HR_TRY(hr_json_integer(q, field, 1, 16, bits));
  if (*bits != 2 && *bits != 3 && *bits != 4 && *bits != 8)
    return unsupported(q, field, "bits are not supported, only 2, 3, 4 and 8");
  return HR_OK;
}

/* ---- one function a method ---- */

/* qweight, and for each group a scale of 16 bits and a zero point as wide as a value (AutoAWQ, WQLinear_GEMM). */
static hr_status read_awq(const hr_json_reader *q, hr_stored_formats *stored)
{
  int64_t bits, group;
  bool older = hr_json_has(q, "w_bit");
  HR_TRY(read_integer_bits(q, older ? "w_bit" : "bits", &bits));
  HR_TRY(read_group_size(q, older ? "q_group_size" : "group_size", 128, &group));
  hr_weight_format *format = add_format(stored, "int", bits);
  format->block_inputs = group;
  format->block_bits = 16 + bits;
  stored->excluded = json_object_get(q->object, "modules_to_not_convert");
  return HR_OK;
}

/* GPTQ stores what AWQ does, and g_idx, an int32 for each input, whether or not desc_act orders the inputs (AutoGPTQ,
 * GPTQModel). */
static hr_status read_gptq(const hr_json_reader *q, hr_stored_formats *stored)
{
  int64_t bits, group;
  const char *layout;
  HR_TRY(read_integer_bits(q, "bits", &bits));
  HR_TRY(read_group_size(q, "group_size", 128, &group));
  HR_TRY(hr_json_boolean_or(q, "lm_head", false, &stored->logit));
  HR_TRY(refuse_given(q, "dynamic"));
  HR_TRY(refuse_given(q, "modules_in_block_to_quantize"));
  HR_TRY(hr_json_string_or(q, "checkpoint_format", "gptq", &layout));
  if (strcmp(layout, "gptq") != 0 && strcmp(layout, "gptq_v2") != 0)
    return unsupported(q, "checkpoint_format", "is not supported, only gptq and gptq_v2");
  hr_weight_format *format = add_format(stored, "int", bits);
  format->block_inputs = group;
  format->block_bits = 16 + bits;
  format->input_bytes = 4;
  stored->excluded = json_object_get(q->object, "modules_to_not_convert");
  return HR_OK;
}

/* Stored as GPTQ or as AWQ. */
static hr_status read_auto_round(const hr_json_reader *q, hr_stored_formats *stored)
{
  int64_t bits, group;
  const char *layout;
  HR_TRY(read_integer_bits(q, "bits", &bits));
  HR_TRY(read_group_size(q, "group_size", 128, &group));
  HR_TRY(hr_json_string_or(q, "packing_format", "auto_round:auto_gptq", &layout));
  HR_TRY(refuse_given(q, "extra_config"));
  bool gptq = strstr(layout, "gptq") != NULL;
  if (!gptq && !strstr(layout, "awq"))
    return unsupported(q, "packing_format", "is not supported, only auto_gptq and auto_awq");
  hr_weight_format *format = add_format(stored, "int", bits);
  format->block_inputs = group;
  format->block_bits = 16 + bits;
  format->input_bytes = gptq ? 4 : 0;
  return HR_OK;
}

/* 4 bits: blocks of 64 values of the flattened matrix with an fp32 absmax; with a second quantization it is one byte,
 * and 256 of them share an fp32 absmax. Tables: 16 and, of the second quantization, 256 fp32. 8 bits: an fp32 scale for
 * each output. (bitsandbytes, functional.py; QLoRA, arXiv 2305.14314, section 3) */
static hr_status read_bitsandbytes(const hr_json_reader *q, hr_stored_formats *stored)
{
  bool four, eight, nested;
  const char *kind;
  HR_TRY(hr_json_boolean_or(q, "load_in_4bit", false, &four));
  HR_TRY(hr_json_boolean_or(q, "load_in_8bit", false, &eight));
  HR_TRY(hr_json_boolean_or(q, "bnb_4bit_use_double_quant", false, &nested));
  HR_TRY(hr_json_string_or(q, "bnb_4bit_quant_type", "fp4", &kind));
  if (four == eight)
    return hr_json_fail(q, "load_in_4bit", HR_ERROR_INVALID, "expected one of load_in_4bit and load_in_8bit");
  stored->excluded = json_object_get(q->object, "llm_int8_skip_modules");
  if (eight) {
    add_format(stored, "int", 8)->block_bits = 32;
    return HR_OK;
  }
  if (strcmp(kind, "nf4") != 0 && strcmp(kind, "fp4") != 0)
    return unsupported(q, "bnb_4bit_quant_type", "is not supported, only nf4 and fp4");
  hr_weight_format *format = add_format(stored, kind[0] == 'n' ? "nf" : "fp", 4);
  format->block_inputs = 64;
  format->block_bits = nested ? 8 : 32;
  format->nested = nested ? 256 : 0;
  format->matrix_bytes = nested ? (16 + 256) * 4 : 16 * 4;
  return HR_OK;
}

/* Routed experts in NVFP4 beside other linear layers in fp8 (NVIDIA's DeepSeek-V4). */
static hr_status read_moe_format(const hr_json_reader *q, hr_stored_formats *stored)
{
  static const char field[] = "moe_quant_algo";
  const char *algorithm;
  HR_TRY(hr_json_string_or(q, field, "", &algorithm));
  if (algorithm[0] == '\0')
    return HR_OK;
  if (strcmp(algorithm, "NVFP4") != 0)
    return unsupported(q, field, "is not supported, only NVFP4");
  hr_weight_format *format = add_format(stored, "nvfp", 4);
  format->block_inputs = 16;
  format->block_bits = 8;
  format->matrix_bytes = 8;
  format->activations = HR_ACTIVATIONS_FP4;
  stored->experts = (uint8_t)stored->quantization.format_count;
  return HR_OK;
}

/* weight_scale_inv: fp32 for each block, or one for the matrix; a static scale of the activations is one more.
 * (transformers, quantizer_finegrained_fp8; DeepSeek-V3, arXiv 2412.19437, section 3.3.2) */
static hr_status read_fp8(const hr_json_reader *q, hr_stored_formats *stored)
{
  const char *scheme;
  HR_TRY(hr_json_string_or(q, "activation_scheme", "dynamic", &scheme));
  hr_weight_format *format = add_format(stored, "fp", 8);
  format->block_outputs = 0;
  format->block_bits = 32;
  format->matrix_bytes = strcmp(scheme, "static") == 0 ? 4 : 0;
  format->activations = HR_ACTIVATIONS_FP8;
  stored->excluded = json_object_get(q->object, "modules_to_not_convert");
  if (!stored->excluded)
    stored->excluded = json_object_get(q->object, "ignored_layers");
  HR_TRY(read_moe_format(q, stored));
  if (!hr_json_has(q, "weight_block_size"))
    return HR_OK;
  const json_t *block = json_object_get(q->object, "weight_block_size");
  format->block_outputs = json_integer_value(json_array_get(block, 0));
  format->block_inputs = json_integer_value(json_array_get(block, 1));
  if (json_array_size(block) != 2 || format->block_outputs < 1 || format->block_inputs < 1 ||
      format->block_outputs > GROUP_MAX || format->block_inputs > GROUP_MAX)
    return hr_json_fail(q, "weight_block_size", HR_ERROR_INVALID, "expected two positive integers");
  return HR_OK;
}

/* An fp32 scale for each output (FBGEMM). */
static hr_status read_fbgemm(const hr_json_reader *q, hr_stored_formats *stored)
{
  hr_weight_format *format = add_format(stored, "fp", 8);
  format->block_bits = 32;
  format->activations = HR_ACTIVATIONS_FP8;
  stored->excluded = json_object_get(q->object, "modules_to_not_convert");
  return HR_OK;
}

/* Blocks of 32 inputs with an E8M0 scale, of the experts alone (gpt-oss, arXiv 2508.10925, section 2). */
static hr_status read_mxfp4(const hr_json_reader *q, hr_stored_formats *stored)
{
  hr_weight_format *format = add_format(stored, "mxfp", 4);
  format->block_inputs = 32;
  format->block_bits = 8;
  stored->experts_only = true;
  stored->excluded = json_object_get(q->object, "modules_to_not_convert");
  return HR_OK;
}

/* A scale of 16 bits for each output (EETQ). */
static hr_status read_eetq(const hr_json_reader *q, hr_stored_formats *stored)
{
  add_format(stored, "int", 8)->block_bits = 16;
  stored->excluded = json_object_get(q->object, "modules_to_not_convert");
  return HR_OK;
}

/* A scale and a zero point of 16 bits for each group (HQQ); 3 bits are packed with a loss, which is not covered. */
static hr_status read_hqq(const hr_json_reader *q, hr_stored_formats *stored)
{
  const json_t *object = json_object_get(json_object_get(q->object, "quant_config"), "weight_quant_params");
  hr_json_reader inner = {
      .object = object, .input = q->input, .path = "quantization_config.quant_config.", .error = q->error};
  int64_t bits, group;
  if (!json_is_object(object))
    return hr_json_fail(q, "quant_config", HR_ERROR_UNSUPPORTED, "without weight_quant_params is not supported");
  HR_TRY(read_integer_bits(&inner, "nbits", &bits));
  HR_TRY(read_group_size(&inner, "group_size", 64, &group));
  if (bits == 3)
    return unsupported(&inner, "nbits", "bits are not supported");
  hr_weight_format *format = add_format(stored, "int", bits);
  format->block_inputs = group;
  format->block_bits = 32;
  stored->excluded = json_object_get(q->object, "skip_modules");
  return HR_OK;
}

static const struct method_row {
  const char *name;
  hr_status (*read)(const hr_json_reader *q, hr_stored_formats *stored);
} methods[] = {
    {"awq", read_awq},
    {"gptq", read_gptq},
    {"auto-round", read_auto_round},
    {"bitsandbytes", read_bitsandbytes},
    {"fp8", read_fp8},
    {"fbgemm_fp8", read_fbgemm},
    {"compressed-tensors", hr_read_compressed_tensors},
    {"modelopt", hr_read_modelopt},
    {"mxfp4", read_mxfp4},
    {"eetq", read_eetq},
    {"hqq", read_hqq},
};

hr_status hr_read_stored_formats(const hr_json_reader *q, const char *method, hr_stored_formats *stored)
{
  char known[200] = "";
  size_t used = 0;
  snprintf(stored->quantization.method, sizeof stored->quantization.method, "%s", method);
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    if (strcmp(methods[i].name, method) == 0) {
      HR_TRY(methods[i].read(q, stored));
      stored->excluded = json_is_null(stored->excluded) ? NULL : stored->excluded;
      return HR_OK;
    }
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", methods[i].name);
  }
  char found[64];
  json_t *as_text = json_string(method);
  hr_json_found(as_text, found, sizeof found);
  json_decref(as_text);
  return hr_json_fail(q, "quant_method", HR_ERROR_UNSUPPORTED,
                      "the bytes of %s are not supported; those of %s are. Without quantization_config the shape is "
                      "read, and --weights "
                      "says how it is stored",
                      found, known);
}
