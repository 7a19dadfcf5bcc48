/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of compressed-tensors (a scheme for each group of modules) and of ModelOpt. Layouts:
 * docs/notes/models.md. */
#include "model/config/quantization/config_quantization.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GROUP_MAX ((int64_t)1 << 20)

/* `weights` or `input_activations` of a group. */
typedef struct scheme {
  int64_t bits, group;
  const char *type, *strategy;
  bool symmetric, dynamic;
} scheme;

static hr_status read_scheme(const hr_json_reader *group, const char *field, hr_json_reader *inner, scheme *s)
{
  *inner = *group;
  inner->object = json_object_get(group->object, field);
  inner->path = strcmp(field, "weights") == 0 ? "quantization_config.config_groups.weights."
                                              : "quantization_config.config_groups.input_activations.";
  if (!json_is_object(inner->object))
    return hr_json_fail(group, field, HR_ERROR_INVALID, "expected an object");
  HR_TRY(hr_json_integer(inner, "num_bits", 1, 16, &s->bits));
  HR_TRY(hr_json_integer_or(inner, "group_size", -1, GROUP_MAX, 0, &s->group));
  HR_TRY(hr_json_string_or(inner, "type", "int", &s->type));
  HR_TRY(hr_json_string_or(inner, "strategy", s->group > 0 ? "group" : "tensor", &s->strategy));
  HR_TRY(hr_json_boolean_or(inner, "symmetric", true, &s->symmetric));
  const json_t *dynamic = json_object_get(inner->object, "dynamic"); /* may be "local" */
  s->dynamic = dynamic && !json_is_null(dynamic) && !json_is_false(dynamic);
  s->group = s->group < 0 ? 0 : s->group;
  return HR_OK;
}

static bool is_float(const scheme *s)
{
  return strcmp(s->type, "float") == 0;
}

/* The values that share a scale. */
static hr_status read_blocks(const hr_json_reader *weights, const scheme *s, hr_weight_format *format)
{
  format->block_outputs = 1;
  if (strcmp(s->strategy, "tensor") == 0) {
    format->block_outputs = 0;
  } else if (strstr(s->strategy, "group")) { /* group, tensor_group */
    format->block_inputs = s->group;
    if (s->group < 1)
      return hr_json_fail(weights, "group_size", HR_ERROR_INVALID, "is missing, which strategy \"group\" needs");
  } else if (strcmp(s->strategy, "block") == 0) {
    const json_t *block = json_object_get(weights->object, "block_structure");
    format->block_outputs = json_integer_value(json_array_get(block, 0));
    format->block_inputs = json_integer_value(json_array_get(block, 1));
    if (json_array_size(block) != 2 || format->block_outputs < 1 || format->block_inputs < 1 ||
        format->block_outputs > GROUP_MAX || format->block_inputs > GROUP_MAX)
      return hr_json_fail(weights, "block_structure", HR_ERROR_INVALID, "expected two positive integers");
  } else if (strcmp(s->strategy, "channel") != 0) {
    return hr_json_fail(weights, "strategy", HR_ERROR_UNSUPPORTED,
                        "\"%.40s\" is not supported, only tensor, channel, group and block", s->strategy);
  }
  return HR_OK;
}

/* Values of a few bits are packed into int32, with weight_shape, two int64; wider ones have a byte each. Scales have 16
 * bits, zero points as many as a value; FP4 has scales of 8 bits and of groups of 16 also an fp32 scale of the matrix
 * and one of its inputs. (compressed-tensors, compressors/) */
static hr_status set_weights(const hr_json_reader *weights, const scheme *s, bool quantized_inputs,
                             hr_weight_format *format)
{
  bool fp4 = is_float(s) && s->bits == 4;
  if (is_float(s) && s->bits != 8 && !fp4)
    return hr_json_fail(weights, "num_bits", HR_ERROR_UNSUPPORTED, "%" PRId64 " bits of type float are not supported",
                        s->bits);
  if (!is_float(s) && strcmp(s->type, "int") != 0)
    return hr_json_fail(weights, "type", HR_ERROR_UNSUPPORTED, "\"%.40s\" is not supported, only int and float",
                        s->type);
  format->bits = s->bits;
  format->block_bits = fp4 ? 8 : 16 + (s->symmetric ? 0 : s->bits);
  bool nvfp4 = fp4 && format->block_inputs != 32;
  if (fp4)
    snprintf(format->name, sizeof format->name, "%s", nvfp4 ? "nvfp4" : "mxfp4");
  else
    snprintf(format->name, sizeof format->name, "%s%" PRId64, is_float(s) ? "fp" : "int", s->bits);
  if (nvfp4)
    format->matrix_bytes = quantized_inputs ? 8 : 4;
  else if (!is_float(s) && !quantized_inputs)
    format->matrix_bytes = 16;
  const char *order = json_string_value(json_object_get(weights->object, "actorder"));
  format->input_bytes = order && strcmp(order, "group") == 0 ? 4 : 0;
  return HR_OK;
}

static hr_status set_activations(const hr_json_reader *inner, const scheme *s, hr_weight_format *format)
{
  if (s->bits == 8)
    format->activations = is_float(s) ? HR_ACTIVATIONS_FP8 : HR_ACTIVATIONS_INT8;
  else if (s->bits == 4 && is_float(s))
    format->activations = HR_ACTIVATIONS_FP4;
  else
    return hr_json_fail(inner, "num_bits", HR_ERROR_UNSUPPORTED, "%" PRId64 " bits of type %.20s are not supported",
                        s->bits, s->type);
  if (s->bits == 8 && !s->dynamic) /* input_scale */
    format->matrix_bytes += 2;
  return HR_OK;
}

static hr_status read_group(const hr_json_reader *group, hr_stored_formats *stored)
{
  hr_json_reader inner;
  scheme s = {.type = "", .strategy = ""};
  size_t index = stored->quantization.format_count;
  if (index == HR_WEIGHT_FORMATS_MAX)
    return hr_json_fail(group, "targets", HR_ERROR_UNSUPPORTED, "is of a group beyond the %d that are supported",
                        HR_WEIGHT_FORMATS_MAX);
  hr_weight_format *format = &stored->quantization.formats[index];
  bool inputs = hr_json_has(group, "input_activations");
  HR_TRY(read_scheme(group, "weights", &inner, &s));
  HR_TRY(read_blocks(&inner, &s, format));
  HR_TRY(set_weights(&inner, &s, inputs, format));
  if (inputs) {
    HR_TRY(read_scheme(group, "input_activations", &inner, &s));
    HR_TRY(set_activations(&inner, &s, format));
  }
  const json_t *targets = json_object_get(group->object, "targets");
  stored->targets[index] = targets && !json_is_null(targets) ? targets : NULL;
  stored->quantization.format_count++;
  return HR_OK;
}

static hr_status read_groups(const hr_json_reader *q, hr_stored_formats *stored)
{
  const json_t *groups = json_object_get(q->object, "config_groups");
  const char *name;
  json_t *value;
  if (!json_is_object(groups) || json_object_size(groups) == 0)
    return hr_json_fail(q, "config_groups", HR_ERROR_INVALID, "expected an object with a group of modules");
  json_object_foreach((json_t *)(uintptr_t)groups, name, value)
  {
    hr_json_reader group = {
        .object = value, .input = q->input, .path = "quantization_config.config_groups.", .error = q->error};
    if (!json_is_object(value))
      return hr_json_fail(q, "config_groups", HR_ERROR_INVALID, "expected a group to be an object");
    HR_TRY(read_group(&group, stored));
  }
  return HR_OK;
}

static hr_status read_cache(const hr_json_reader *q, const char *field, hr_stored_formats *stored)
{
  const json_t *cache = json_object_get(q->object, field);
  if (!cache || json_is_null(cache))
    return HR_OK;
  const char *name = json_string_value(cache), *type = json_string_value(json_object_get(cache, "type"));
  bool eight = json_integer_value(json_object_get(cache, "num_bits")) == 8;
  if ((name && strcmp(name, "FP8") == 0) || (eight && type && strcmp(type, "float") == 0))
    stored->quantization.kv_cache = HR_KV_FP8;
  else if (eight && type && strcmp(type, "int") == 0)
    stored->quantization.kv_cache = HR_KV_INT8;
  else if (name && strcmp(name, "NVFP4") == 0)
    stored->quantization.kv_cache = HR_KV_NVFP4;
  else
    return hr_json_fail(q, field, HR_ERROR_UNSUPPORTED,
                        "is not supported; only 8 bits of type float or int, and NVFP4, are");
  return HR_OK;
}

/* Formats that keep pruned weights out of the checkpoint, or compress it in other ways, have other bytes. */
static hr_status refuse_sparse(const hr_json_reader *q)
{
  static const char *const fields[] = {"sparsity_config", "transform_config"};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const json_t *object = json_object_get(q->object, fields[i]);
    const char *format = json_string_value(json_object_get(object, "format"));
    if (json_object_size(object) > 0 && !(format && strcmp(format, "dense") == 0))
      return hr_json_fail(q, fields[i], HR_ERROR_UNSUPPORTED, "is not supported");
  }
  return HR_OK;
}

hr_status hr_read_compressed_tensors(const hr_json_reader *q, hr_stored_formats *stored)
{
  const char *format;
  HR_TRY(refuse_sparse(q));
  HR_TRY(hr_json_string_or(q, "format", "", &format));
  HR_TRY(read_groups(q, stored));
  HR_TRY(read_cache(q, "kv_cache_scheme", stored));
  stored->excluded = json_object_get(q->object, "ignore");
  stored->logit = true;
  return HR_OK;
}

/* ---- ModelOpt ---- */

/* weight_scale and input_scale in fp32; of NVFP4 a scale of 8 bits for each group, an fp32 scale of the matrix and one
 * of its inputs, if they are quantized. (TensorRT Model Optimizer, export/) */
static const struct algorithm_row {
  const char *name;
  hr_weight_format format;
} algorithms[] = {
    {"FP8", {.name = "fp8", .bits = 8, .block_bits = 32, .matrix_bytes = 4, .activations = HR_ACTIVATIONS_FP8}},
    {"NVFP4",
     {.name = "nvfp4",
      .bits = 4,
      .block_inputs = 16,
      .block_outputs = 1,
      .block_bits = 8,
      .matrix_bytes = 8,
      .activations = HR_ACTIVATIONS_FP4}},
    {"W4A16_NVFP4",
     {.name = "nvfp4", .bits = 4, .block_inputs = 16, .block_outputs = 1, .block_bits = 8, .matrix_bytes = 4}},
    {"MXFP8", /* E4M3 with an E8M0 scale of each block (MXFP8_DEFAULT_CFG) */
     {.name = "mxfp8",
      .bits = 8,
      .block_inputs = 32,
      .block_outputs = 1,
      .block_bits = 8,
      .activations = HR_ACTIVATIONS_FP8}},
    {"W4A16_AWQ", {.name = "int4", .bits = 4, .block_inputs = 128, .block_outputs = 1, .block_bits = 16}},
};

hr_status hr_read_modelopt_format(const hr_json_reader *q, hr_weight_format *format)
{
  const char *algorithm;
  int64_t group;
  HR_TRY(hr_json_string_or(q, "quant_algo", NULL, &algorithm));
  HR_TRY(hr_json_integer_or(q, "group_size", 1, GROUP_MAX, 0, &group));
  size_t i = 0, count = sizeof algorithms / sizeof *algorithms;
  while (i < count && strcmp(algorithms[i].name, algorithm) != 0)
    i++;
  if (i == count)
    return hr_json_fail(q, "quant_algo", HR_ERROR_UNSUPPORTED,
                        "\"%.40s\" is not supported, only FP8, MXFP8, NVFP4, W4A16_NVFP4 and W4A16_AWQ", algorithm);
  *format = algorithms[i].format;
  if (group > 0 && format->block_inputs > 0)
    format->block_inputs = group;
  return HR_OK;
}

bool hr_same_modelopt_format(const hr_weight_format *a, const hr_weight_format *b)
{
  return strcmp(a->name, b->name) == 0 && a->activations == b->activations && a->block_inputs == b->block_inputs;
}

/* A module's format, added to those of the checkpoint if it is new. */
static hr_status add_module_format(const hr_json_reader *module, hr_quantization *to)
{
  hr_weight_format format;
  HR_TRY(hr_read_modelopt_format(module, &format));
  for (size_t i = 0; i < to->format_count; i++) {
    if (hr_same_modelopt_format(&format, &to->formats[i]))
      return HR_OK;
  }
  if (to->format_count == HR_WEIGHT_FORMATS_MAX)
    return hr_json_fail(module, "quant_algo", HR_ERROR_UNSUPPORTED, "is a format beyond the %d that are supported",
                        HR_WEIGHT_FORMATS_MAX);
  to->formats[to->format_count++] = format;
  return HR_OK;
}

/* Each module is listed with its own format. */
static hr_status read_mixed(const hr_json_reader *inner, hr_stored_formats *stored)
{
  static const char field[] = "quantized_layers";
  const json_t *modules = json_object_get(inner->object, field);
  const char *name;
  json_t *value;
  if (!json_is_object(modules) || json_object_size(modules) == 0)
    return hr_json_fail(inner, field, HR_ERROR_INVALID, "expected an object with the format of each module");
  json_object_foreach((json_t *)(uintptr_t)modules, name, value)
  {
    hr_json_reader module = {
        .object = value, .input = inner->input, .path = "quantization_config.quantized_layers.", .error = inner->error};
    if (!json_is_object(value))
      return hr_json_fail(inner, field, HR_ERROR_INVALID, "expected the format of a module to be an object");
    HR_TRY(add_module_format(&module, &stored->quantization));
  }
  stored->modules = modules;
  return HR_OK;
}

/* Inside of hr_quant_config.json the same fields are in "quantization". */
hr_status hr_read_modelopt(const hr_json_reader *q, hr_stored_formats *stored)
{
  hr_json_reader inner = *q;
  if (json_is_object(json_object_get(q->object, "quantization")))
    inner.object = json_object_get(q->object, "quantization");
  const char *algorithm;
  HR_TRY(hr_json_string_or(&inner, "quant_algo", NULL, &algorithm));
  if (strcmp(algorithm, "MIXED_PRECISION") == 0)
    HR_TRY(read_mixed(&inner, stored));
  else
    HR_TRY(hr_read_modelopt_format(&inner, &stored->quantization.formats[stored->quantization.format_count++]));
  HR_TRY(read_cache(&inner, "kv_cache_scheme", stored));
  HR_TRY(read_cache(&inner, "kv_cache_quant_algo", stored));
  const json_t *excluded = json_object_get(inner.object, "ignore");
  stored->excluded = excluded ? excluded : json_object_get(inner.object, "exclude_modules");
  stored->logit = true;
  return HR_OK;
}
