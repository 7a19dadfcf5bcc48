/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layers/linears.h"

#include "base/error.h"
#include "base/names.h"
#include "model/layers/sizes.h"

#include <headroom/experimental/quantization.h>
#include <inttypes.h>
#include <string.h>

/* ---- names ---- */

static const char *const linear_names[] = {
#define ROW(enumerator, name) name,
    HR_LINEAR_LIST(ROW)
#undef ROW
};

HR_DEFINE_NAME(hr_linear_name, hr_linear_id, linear_names, sizeof linear_names / sizeof *linear_names)

static const char *const activation_names[] = {"unquantized", "fp8", "int8", "fp4"};

HR_DEFINE_NAME(hr_activations_name, hr_activations, activation_names,
               sizeof activation_names / sizeof *activation_names)

/* ---- linear layers ---- */

void hr_add_linear(hr_linears *linears, hr_linear_id id, hr_checked64 inputs, hr_checked64 outputs, bool bias)
{
  if (linears->count < HR_LINEARS_MAX)
    linears->items[linears->count++] =
        (hr_linear){.id = id, .inputs = inputs, .outputs = outputs, .count = 1, .bias = bias};
}

hr_checked64 hr_sum_linears(const hr_linears *linears)
{
  hr_checked64 sum = hr_checked(0);
  for (size_t i = 0; i < linears->count; i++) {
    const hr_linear *one = &linears->items[i];
    sum = hr_plus(sum, hr_times(hr_linear_parameters(one->inputs, one->outputs, one->bias), one->count));
  }
  return sum;
}

/* ---- bytes ---- */

static hr_checked64 multiply(hr_checked64 a, hr_checked64 b)
{
  hr_checked64 result = hr_times(a, b.value);
  result.overflow = result.overflow || b.overflow;
  return result;
}

/* Rounded up to whole bytes. */
static hr_checked64 bytes_of_bits(hr_checked64 values, int64_t bits)
{
  hr_checked64 sum = hr_times(values, bits);
  sum.value = sum.overflow ? 0 : hr_ceil_div(sum.value, 8);
  return sum;
}

static int64_t blocks(int64_t size, int64_t block)
{
  return block > 0 ? hr_ceil_div(size, block) : 1;
}

hr_checked64 hr_matrix_bytes(const hr_weight_format *f, hr_checked64 outputs, hr_checked64 inputs, int64_t count,
                             int64_t element_bytes)
{
  hr_checked64 values = multiply(outputs, inputs);
  if (!f)
    return hr_times(hr_times(values, count), element_bytes);
  if (values.overflow)
    return values;
  hr_checked64 scales =
      hr_times(hr_checked(blocks(inputs.value, f->block_inputs)), blocks(outputs.value, f->block_outputs));
  hr_checked64 sum = hr_plus(bytes_of_bits(values, f->bits), bytes_of_bits(scales, f->block_bits));
  if (f->nested > 0 && !scales.overflow)
    sum = hr_plus(sum, hr_times(hr_checked(hr_ceil_div(scales.value, f->nested)), 4));
  sum = hr_plus(sum, hr_times(inputs, f->input_bytes));
  return hr_times(hr_plus(sum, hr_checked(f->matrix_bytes)), count);
}

hr_status hr_check_weight_format(const hr_weight_format *f, hr_error *error)
{
  const struct {
    const char *name;
    int64_t value, least, most;
  } members[] = {{"bits", f->bits, 1, 16},
                 {"block_inputs", f->block_inputs, 0, HR_MODEL_SIZE_MAX},
                 {"block_outputs", f->block_outputs, 0, HR_MODEL_SIZE_MAX},
                 {"block_bits", f->block_bits, 0, 256},
                 {"nested", f->nested, 0, HR_MODEL_SIZE_MAX},
                 {"input_bytes", f->input_bytes, 0, 64},
                 {"matrix_bytes", f->matrix_bytes, 0, 1 << 20}};
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
    HR_TRY(hr_check_range(members[i].name, members[i].value, members[i].least, error));
    HR_TRY(hr_check_at_most(members[i].name, members[i].value, "the most it can be", members[i].most, error));
  }
  if ((unsigned)f->activations > HR_ACTIVATIONS_FP4)
    return hr_fail(error, HR_ERROR_INVALID, "activations: %d is not a format of activations", (int)f->activations);
  return HR_OK;
}

hr_status hr_weight_format_bytes(const hr_weight_format *format, int64_t outputs, int64_t inputs, int64_t count,
                                 int64_t *bytes)
{
  if (!format || !bytes || outputs < 0 || inputs < 0 || count < 0 || hr_check_weight_format(format, NULL) != HR_OK)
    return HR_ERROR_INVALID;
  return hr_checked_take(hr_matrix_bytes(format, hr_checked(outputs), hr_checked(inputs), count, 0), bytes);
}

const hr_weight_format *hr_format_at(const hr_model *model, uint8_t number)
{
  return number > 0 ? &model->quantization.formats[number - 1] : NULL;
}

const hr_weight_format *hr_format_of_logits(const hr_model *model)
{
  const hr_quantization *q = &model->quantization;
  return model->head == HR_HEAD_LANGUAGE ? hr_format_at(model, model->tied_embeddings ? q->tied_logit : q->logit)
                                         : NULL;
}

bool hr_linear_stays_fp8(hr_linear_id id)
{
  static const hr_linear_id kept[] = {
      HR_LINEAR_Q,    HR_LINEAR_K,  HR_LINEAR_V,    HR_LINEAR_O,           HR_LINEAR_Q_DOWN,    HR_LINEAR_Q_UP,
      HR_LINEAR_GATE, HR_LINEAR_UP, HR_LINEAR_DOWN, HR_LINEAR_SHARED_GATE, HR_LINEAR_SHARED_UP, HR_LINEAR_SHARED_DOWN};
  bool found = false;
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    found = found || kept[i] == id;
  return found;
}

bool hr_workload_widens(const hr_workload *w, const hr_weight_format *format, hr_linear_id id)
{
  const bool wide = hr_dtype_bytes(w->dtype) != 2; /* fp32 multiplies no fp8 */
  const bool several = w->tensor_parallel > 1 || w->pipeline_stages > 1 || w->context_parallel > 1 ||
                       w->data_parallel > 1 || w->expert_parallel > 1;
  return w->framework == HR_FRAMEWORK_HEADROOM && format && strcmp(format->name, "fp8") == 0 &&
         (wide || several || !hr_linear_stays_fp8(id));
}
