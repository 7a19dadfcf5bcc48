/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/enumeration.h"

#include "base/names.h"

static const char *const kind_names[HR_RESULT_KIND_COUNT] = {"gemm", "attention", "decode", "other"};
static const char *const mask_names[] = {[HR_MASK_NONE] = "none", [HR_MASK_CAUSAL] = "causal"};
#define MASK_COUNT (int)(sizeof mask_names / sizeof *mask_names)
static const char *const output_names[] = {
    [HR_OUTPUT_AS_OPERANDS] = "operands", [HR_OUTPUT_BF16] = "bf16", [HR_OUTPUT_FP16] = "fp16"};
#define OUTPUT_COUNT (int)(sizeof output_names / sizeof *output_names)

HR_DEFINE_NAME(hr_result_kind_name, hr_result_kind, kind_names, HR_RESULT_KIND_COUNT)

static const char *dtype_name(int value)
{
  return hr_dtype_name((hr_dtype)value);
}

static const char *mask_name(int value)
{
  return hr_name_of(mask_names, MASK_COUNT, value);
}

static const char *output_name(int value)
{
  return hr_name_of(output_names, OUTPUT_COUNT, value);
}

static const char *status_name(int value)
{
  return hr_status_name((hr_status)value);
}

static const char *kv_format_name(int value)
{
  return hr_kv_format_name((hr_kv_format)value);
}

static const char *kv_scales_name(int value)
{
  return hr_kv_scales_name((hr_kv_scales)value);
}

static const char *kind_name(int value)
{
  return hr_result_kind_name((hr_result_kind)value);
}

static const hr_enumeration enumerations[] = {
    [HR_FIELD_DTYPE] = {dtype_name, HR_DTYPE_COUNT, "a number format"},
    [HR_FIELD_MASK] = {mask_name, MASK_COUNT, "none or causal"},
    [HR_FIELD_OUTPUT] = {output_name, OUTPUT_COUNT, "operands, bf16 or fp16"},
    [HR_FIELD_STATUS] = {status_name, HR_STATUS_COUNT, "a status"},
    [HR_FIELD_KV_FORMAT] = {kv_format_name, HR_KV_READABLE_COUNT, "unquantized, fp8 or int8"},
    [HR_FIELD_KV_SCALES] = {kv_scales_name, HR_KV_SCALES_COUNT, "head or token"},
    [HR_FIELD_KIND] = {kind_name, HR_RESULT_KIND_COUNT, "gemm, attention, decode or other"},
};

const hr_enumeration *hr_enumeration_of(hr_field_kind kind)
{
  return kind >= HR_FIELD_DTYPE ? &enumerations[kind] : NULL;
}

int hr_enumerator_get(hr_field_kind kind, const void *member)
{
  switch (kind) {
  case HR_FIELD_DTYPE: return (int)*(const hr_dtype *)member;
  case HR_FIELD_MASK: return (int)*(const hr_mask *)member;
  case HR_FIELD_OUTPUT: return (int)*(const hr_attention_output *)member;
  case HR_FIELD_STATUS: return (int)*(const hr_status *)member;
  case HR_FIELD_KV_FORMAT: return (int)*(const hr_kv_format *)member;
  case HR_FIELD_KV_SCALES: return (int)*(const hr_kv_scales *)member;
  default: return (int)*(const hr_result_kind *)member;
  }
}

void hr_enumerator_put(hr_field_kind kind, void *member, int value)
{
  switch (kind) {
  case HR_FIELD_DTYPE: *(hr_dtype *)member = (hr_dtype)value; break;
  case HR_FIELD_MASK: *(hr_mask *)member = (hr_mask)value; break;
  case HR_FIELD_OUTPUT: *(hr_attention_output *)member = (hr_attention_output)value; break;
  case HR_FIELD_STATUS: *(hr_status *)member = (hr_status)value; break;
  case HR_FIELD_KV_FORMAT: *(hr_kv_format *)member = (hr_kv_format)value; break;
  case HR_FIELD_KV_SCALES: *(hr_kv_scales *)member = (hr_kv_scales)value; break;
  default: *(hr_result_kind *)member = (hr_result_kind)value; break;
  }
}
