/* SPDX-License-Identifier: Apache-2.0 */
/* `search`: the faster shapes found. */
#include "analysis/model/layer_kinds.h"
#include "analysis/model/reshape.h"
#include "base/error.h"
#include "base/quantity.h"
#include "report/inputs.h"

static void gain(const void *member, hr_cell *cell)
{
  const double *value = member;
  hr_cell_set_number(cell, *value);
  cell->style = *value > 0 ? HR_STYLE_GREEN : HR_STYLE_PLAIN;
}

/* Empty where a layer has none. */
static void width(const void *member, hr_cell *cell)
{
  const int64_t *value = member;
  if (*value > 0)
    hr_cell_set_count(cell, *value);
}

/* Heads and expert width are those of the main group of layers. */
typedef struct shape_row {
  const hr_search_shape *shape;
  const hr_layer_group *main;
  hr_mixer_attention heads; /* of latent attention those of its expanded form */
  int64_t layers;
  int64_t mlp_width, active; /* 0: no dense layer, no experts */
} shape_row;

#define OF_SHAPE HR_THROUGH(shape_row, shape)
#define SHAPE(member) OF_SHAPE, HR_MEMBER(hr_search_shape, member)
#define MAIN(member) HR_THROUGH(shape_row, main), HR_MEMBER(hr_layer_group, member)
#define WIDTH(member) HR_THROUGH(shape_row, main), HR_COMPUTED_OF(COUNT, width, hr_layer_group, member)
static const hr_column shape_columns[] = {
    {"hidden", "hidden", HR_PLAIN, 0, SHAPE(model.hidden)},
    {"layers", "layers", HR_PLAIN, 0, HR_MEMBER(shape_row, layers)},
    {"heads", "heads", HR_PLAIN, 0, HR_MEMBER(shape_row, heads.q_heads)},
    {"k_heads", "K heads", HR_PLAIN, 5, HR_MEMBER(shape_row, heads.k_heads)},
    {"v_heads", "V heads", HR_PLAIN, 5, HR_MEMBER(shape_row, heads.v_heads)},
    {"head_dim", "head dim", HR_PLAIN, 4, HR_MEMBER(shape_row, heads.qk_dim)},
    {"v_dim", NULL, HR_PLAIN, 0, HR_MEMBER(shape_row, heads.v_dim)},
    {"mlp_width", "MLP width", HR_PLAIN, 0, .rare = true, HR_COMPUTED_OF(COUNT, width, shape_row, mlp_width)},
    {"expert_width", "expert width", HR_PLAIN, 0, .rare = true, WIDTH(experts.width)},
    {"shared_width", "shared width", HR_PLAIN, 2, .rare = true, WIDTH(experts.shared_width)},
    {"vocabulary", "vocabulary", HR_PLAIN, 0, SHAPE(model.vocabulary)},
    {"parameters", "parameters", HR_PLAIN, 3, SHAPE(parameters)},
    {"active_parameters", "active", HR_PLAIN, 3, .rare = true, HR_COMPUTED_OF(COUNT, width, shape_row, active)},
    {"parameter_change", "change", HR_GAIN, 1, SHAPE(parameter_change)},
    {"step_time_ns", "step", HR_TIME, 2, SHAPE(step_time_ns)},
    {"predicted_gain", "gain", HR_GAIN, 0, OF_SHAPE, HR_COMPUTED_OF(NUMBER, gain, hr_search_shape, predicted_gain)},
    {"pareto", "Pareto", HR_PLAIN, 6, SHAPE(pareto)},
};

/* Of the main layers, else of the largest other group that has a dense network. */
static int64_t dense_width(const hr_model *model)
{
  const hr_layer_group *found = hr_model_main_group(model);
  for (size_t i = 0; i < model->group_count && hr_model_main_group(model)->dense.width == 0; i++) {
    const hr_layer_group *group = &model->groups[i];
    if (group->dense.width > 0 && (found->dense.width == 0 || group->count > found->count))
      found = group;
  }
  return found->dense.width;
}

static int64_t active_parameters(const hr_model *model)
{
  hr_parameters parameters;
  bool counted = hr_model_parameters(model, &parameters, NULL) == HR_OK;
  return counted && parameters.experts > 0 ? parameters.active : 0;
}

static hr_table *shape_table(const hr_search_result *result)
{
  hr_table *table = HR_TABLE_OF(shape_columns, shape_row);
  for (size_t i = 0; i < result->count; i++) {
    const hr_search_shape *shape = &result->shapes[i];
    const hr_layer_group *main = hr_model_main_group(&shape->model);
    hr_table_add(table, &(shape_row){shape, main, hr_heads_of(main), hr_model_layers(&shape->model),
                                     dense_width(&shape->model), active_parameters(&shape->model)});
  }
  return table;
}

static hr_status write_json(FILE *out, const hr_model *model, const hr_workload *workload, const hr_hardware *hardware,
                            const hr_search_result *result, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("search/2", &failed);
  hr_json_put_text(json, "device", hardware->name);
  hr_json_put_hardware(json, hardware);
  hr_json_put_model(json, model);
  hr_json_put_workload(json, workload);
  hr_json_put_count(json, "parameters", result->base_parameters);
  hr_json_put_number(json, "step_time_ns", result->base_time_ns);
  hr_json_put_count(json, "evaluated", (int64_t)result->evaluated);
  hr_json_put_flag(json, "complete", result->complete);
  hr_json_put_table(json, "shapes", shape_table(result));
  return hr_json_write(out, json, error);
}

static bool has_several_widths(const hr_model *model)
{
  for (size_t i = 0; i < model->group_count; i++) {
    for (hr_ffn_part part = HR_FFN_DENSE; part < HR_FFN_PARTS; part++) {
      int64_t own = hr_ffn_width(&model->groups[i], part);
      if (own > 0 && own != hr_main_mlp_width(model))
        return true;
    }
  }
  return false;
}

static hr_status write_text(const hr_document *document, const hr_model *model, const hr_workload *workload,
                            const hr_hardware *hardware, const hr_search_result *result, hr_error *error)
{
  char time[HR_NUMBER_SIZE], parameters[HR_NUMBER_SIZE], evaluated[HR_NUMBER_SIZE];
  hr_print_model(document, model);
  bool experts = active_parameters(model) > 0;
  hr_write_count(parameters, sizeof parameters, result->base_parameters);
  hr_print_field(document, "parameters", "%s%s", parameters,
                 experts ? ", of all experts; the band is about these" : "");
  hr_print_hardware(document, hardware);
  hr_print_workload(document, workload);
  hr_write_time(time, sizeof time, result->base_time_ns);
  hr_print_field(document, "step", "%s predicted for the model as it is", time);
  hr_write_count(evaluated, sizeof evaluated, (int64_t)result->evaluated);
  hr_print_field(document, "searched", "%s shapes%s", evaluated,
                 result->complete ? "" : ", not all of them: stopped by the limit or by the user");
  if (hr_model_main_group(model)->latent.q_heads > 0)
    hr_print_field(document, "kept", "heads and ranks of latent attention");
  if (has_several_widths(model))
    hr_print_field(document, "scaled", "%s",
                   experts ? "widths of dense layers and shared experts with the expert width"
                           : "MLP widths of other layers with that of the main ones");
  hr_print_heading(document, "Shapes, fastest first");
  if (result->count > 0)
    return hr_print_table(document, shape_table(result), error);
  hr_print_paragraph(document, "No shape is within the bounds.");
  return HR_OK;
}

hr_status hr_report_search(FILE *out, const hr_report_options *options, const hr_model *model,
                           const hr_workload *workload, const hr_hardware *hardware, const hr_search_result *result,
                           hr_error *error)
{
  HR_NEED(error, out, options, model, workload, hardware, result);
  hr_document document;
  HR_TRY(hr_document_begin(&document, out, options, error));
  hr_status status;
  if (options->format == HR_FORMAT_JSON)
    status = write_json(out, model, workload, hardware, result, error);
  else if (options->format == HR_FORMAT_CSV)
    status = hr_print_table(&document, shape_table(result), error);
  else
    status = write_text(&document, model, workload, hardware, result, error);
  return hr_document_end(&document, status, error);
}
