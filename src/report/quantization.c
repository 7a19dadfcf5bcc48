/* SPDX-License-Identifier: Apache-2.0 */
#include "report/quantization.h"

#include "model/layers/layer_weights.h"
#include "report/lines.h"

#include <headroom/experimental/quantization.h>
#include <inttypes.h>

/* Whether a linear layer of some group has the format with this number, and whether all of its groups have. */
typedef struct usage {
  bool some, all;
} usage;

static usage usage_of(const hr_model *model, hr_linear_id id, uint8_t number)
{
  usage found = {false, true};
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_layer_group *group = &model->groups[i];
    hr_linears list;
    hr_list_linears(model, group, &list);
    for (size_t k = 0; k < list.count; k++) {
      if (list.items[k].id != id)
        continue;
      found.some = found.some || group->formats[id] == number;
      found.all = found.all && group->formats[id] == number;
    }
  }
  found.all = found.all && found.some;
  return found;
}

static bool has_logit(const hr_model *model, uint8_t number)
{
  const hr_quantization *q = &model->quantization;
  if (model->head != HR_HEAD_LANGUAGE || (model->tied_embeddings && q->tied_logit == 0))
    return false;
  return (model->tied_embeddings ? q->tied_logit : q->logit) == number;
}

/* "q_proj, up_proj in some layers". */
static void list_layers(char *to, size_t size, const hr_model *model, uint8_t number)
{
  to[0] = '\0';
  for (int id = 0; id < HR_LINEAR_COUNT; id++) {
    usage found = usage_of(model, (hr_linear_id)id, number);
    if (found.some)
      hr_append_item(to, size, "%s%s", hr_linear_name((hr_linear_id)id), found.all ? "" : " in some layers");
  }
  if (has_logit(model, number))
    hr_append_item(to, size, "logits");
}

/* "128 inputs". */
static void write_block(char *to, size_t size, const hr_weight_format *format)
{
  int64_t rows = format->block_outputs, columns = format->block_inputs;
  if (rows == 1 && columns > 0)
    snprintf(to, size, "a scale for %" PRId64 " inputs", columns);
  else if (rows > 0 && columns > 0)
    snprintf(to, size, "a scale for %" PRId64 " × %" PRId64 " weights", rows, columns);
  else
    snprintf(to, size, rows == 1 ? "a scale for each output" : "a scale for each matrix");
}

void hr_print_quantization(const hr_document *document, const hr_model *model)
{
  const hr_quantization *q = &model->quantization;
  char layers[512], block[64];
  for (size_t i = 0; i < q->format_count; i++) {
    const hr_weight_format *format = &q->formats[i];
    list_layers(layers, sizeof layers, model, (uint8_t)(i + 1));
    write_block(block, sizeof block, format);
    hr_print_field(document, i == 0 ? "weights" : "", "%s (%s), %s, activations %s: %s", format->name, q->method, block,
                   hr_activations_name(format->activations), layers[0] ? layers : "no layer");
  }
  list_layers(layers, sizeof layers, model, 0);
  if (q->format_count > 0 && layers[0])
    hr_print_field(document, "", "unquantized: %s", layers);
}

static void put_layers(hr_json json, const hr_model *model, uint8_t number)
{
  json_t *all = json_array(), *some = json_array();
  hr_json_put(json, "linear_layers", all);
  hr_json_put(json, "linear_layers_of_some_groups", some);
  for (int id = 0; all && some && id < HR_LINEAR_COUNT; id++) {
    usage found = usage_of(model, (hr_linear_id)id, number);
    if (found.some && json_array_append_new(found.all ? all : some, json_string(hr_linear_name((hr_linear_id)id))) != 0)
      *json.failed = true;
  }
}

#define FIELD(member) HR_FIELD(hr_weight_format, member)
static const hr_column format_fields[] = {
    FIELD(name),       FIELD(bits),   FIELD(block_inputs), FIELD(block_outputs),
    FIELD(block_bits), FIELD(nested), FIELD(input_bytes),  FIELD(matrix_bytes),
};
#undef FIELD

void hr_json_put_quantization(hr_json json, const hr_model *model)
{
  const hr_quantization *q = &model->quantization;
  if (q->format_count == 0) {
    hr_json_put(json, "quantization", json_null());
    return;
  }
  hr_json object = hr_json_put_object(json, "quantization");
  hr_json_put_text(object, "method", q->method);
  json_t *formats = json_array();
  hr_json_put(object, "formats", formats);
  for (size_t i = 0; formats && i < q->format_count; i++) {
    hr_json one = hr_json_append_object(object, formats);
    hr_json_put_fields(one, format_fields, sizeof format_fields / sizeof *format_fields, &q->formats[i]);
    hr_json_put_text(one, "activations", hr_activations_name(q->formats[i].activations));
    put_layers(one, model, (uint8_t)(i + 1));
    hr_json_put_flag(one, "logits", has_logit(model, (uint8_t)(i + 1)));
  }
}
