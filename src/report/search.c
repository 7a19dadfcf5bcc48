/* SPDX-License-Identifier: Apache-2.0 */
/* `search`: the faster shapes found. */
#include "base/error.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "hardware/hardware.h"
#include "model/layers/layer_kinds.h"
#include "model/reshape/reshape.h"
#include "report/inputs.h"
#include "report/page.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/plot.h>
#include <inttypes.h>
#include <string.h>

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

static void differs(const void *member, hr_cell *cell)
{
  const shape_row *row = member;
  hr_cell_set_text(cell, row->shape->differs[0] ? row->shape->differs : "in nothing");
}

#define OF_SHAPE HR_THROUGH(shape_row, shape)
#define SHAPE(member) OF_SHAPE, HR_MEMBER(hr_search_shape, member)
#define MAIN(member) HR_THROUGH(shape_row, main), HR_MEMBER(hr_layer_group, member)
#define WIDTH(member) HR_THROUGH(shape_row, main), HR_COMPUTED_OF(COUNT, width, hr_layer_group, member)
/* People read what differs from the model, whose sizes stand above the table; programs read the sizes. */
static const hr_column shape_columns[] = {
    {"hidden", NULL, HR_PLAIN, 0, SHAPE(model.hidden)},
    {"layers", NULL, HR_PLAIN, 0, HR_MEMBER(shape_row, layers)},
    {"heads", NULL, HR_PLAIN, 0, HR_MEMBER(shape_row, heads.q_heads)},
    {"k_heads", NULL, HR_PLAIN, 0, HR_MEMBER(shape_row, heads.k_heads)},
    {"v_heads", NULL, HR_PLAIN, 0, HR_MEMBER(shape_row, heads.v_heads)},
    {"head_dim", NULL, HR_PLAIN, 0, HR_MEMBER(shape_row, heads.qk_dim)},
    {"v_dim", NULL, HR_PLAIN, 0, HR_MEMBER(shape_row, heads.v_dim)},
    {"mlp_width", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(COUNT, width, shape_row, mlp_width)},
    {"expert_width", NULL, HR_PLAIN, 0, WIDTH(experts.width)},
    {"shared_width", NULL, HR_PLAIN, 0, WIDTH(experts.shared_width)},
    {"vocabulary", NULL, HR_PLAIN, 0, SHAPE(model.vocabulary)},
    {"parameters", NULL, HR_PLAIN, 0, SHAPE(parameters)},
    {"active_parameters", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(COUNT, width, shape_row, active)},
    {"parameter_change", "parameters", HR_GAIN, 0, SHAPE(parameter_change)},
    {"step_time_ns", "step", HR_TIME, 0, SHAPE(step_time_ns)},
    {"predicted_gain", "gain", HR_GAIN, 0, OF_SHAPE, HR_COMPUTED_OF(NUMBER, gain, hr_search_shape, predicted_gain)},
    {"pareto", NULL, HR_PLAIN, 0, SHAPE(pareto)},
    {"cache_change", NULL, HR_GAIN, 0, SHAPE(cache_change)},
    {"class", "class", HR_PLAIN, 0, SHAPE(change_class)},
    {"differs", "differs from the model", HR_PLAIN, 0, HR_COMPUTED(TEXT, differs)},
};

/* Returns the width of the main layers, else of the largest other group that has a dense network. */
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

static shape_row row_of(const hr_search_shape *shape)
{
  const hr_layer_group *main = hr_model_main_group(&shape->model);
  return (shape_row){shape,
                     main,
                     hr_heads_of(main),
                     hr_model_layers(&shape->model),
                     dense_width(&shape->model),
                     active_parameters(&shape->model)};
}

static hr_table *shape_table(const hr_search_result *result)
{
  hr_table *table = HR_TABLE_OF(shape_columns, shape_row);
  for (size_t i = 0; i < result->count; i++) {
    shape_row row = row_of(&result->shapes[i]);
    hr_table_add(table, &row);
  }
  return table;
}

static const hr_search_size sizes[] = {
#define SIZE_VALUE(enumerator, bit, name) enumerator,
    HR_SEARCH_SIZE_LIST(SIZE_VALUE)
#undef SIZE_VALUE
};

/* "hidden, heads, mlp": those of `bits`, or the others. */
static void list_sizes(char *to, size_t size, uint32_t bits)
{
  to[0] = '\0';
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t length = strlen(to);
    if (bits & (uint32_t)sizes[i])
      hr_write_text(to + length, size - length, "%s%s", length > 0 ? ", " : "", hr_search_size_name(sizes[i]));
  }
}

/* "1, 2, 4, 8" */
static void list_counts(char *to, size_t size, const int64_t *counts, size_t count)
{
  to[0] = '\0';
  for (size_t i = 0; i < count; i++) {
    size_t length = strlen(to);
    hr_write_text(to + length, size - length, "%s%" PRId64, i > 0 ? ", " : "", counts[i]);
  }
}

static void put_names(hr_json json, const char *key, uint32_t bits)
{
  json_t *list = json_array();
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (bits & (uint32_t)sizes[i])
      *json.failed |= json_array_append_new(list, json_string(hr_search_size_name(sizes[i]))) != 0;
  }
  hr_json_put(json, key, list);
}

static void put_counts(hr_json json, const char *key, const int64_t *counts, size_t count)
{
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++)
    *json.failed |= json_array_append_new(list, json_integer(counts[i])) != 0;
  hr_json_put(json, key, list);
}

static hr_status write_json(FILE *out, const hr_model *model, const hr_workload *workload, const hr_hardware *hardware,
                            const hr_search_result *result, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("search/2", &failed);
  hr_json_put_text(json, "device", hardware->about.name);
  hr_json_put_hardware(json, hardware);
  hr_json_put_model(json, model);
  hr_json_put_workload(json, workload);
  hr_json_put_count(json, "parameters", result->base_parameters);
  hr_json_put_number(json, "step_time_ns", result->base_time_ns);
  hr_json_put_count(json, "evaluated", (int64_t)result->evaluated);
  hr_json_put_flag(json, "complete", result->complete);
  put_names(json, "varied", result->varied);
  put_counts(json, "serve_on", result->served, result->served_count);
  put_counts(json, "unserved_on", result->unserved_on, result->unserved_count);
  hr_json_put_count(json, "unserved", (int64_t)result->unserved);
  if (result->has_free) {
    shape_row row = row_of(&result->free);
    hr_json_put_fields(hr_json_put_object(json, "free"), shape_columns, sizeof shape_columns / sizeof *shape_columns,
                       &row);
  } else {
    hr_json_put(json, "free", json_null());
  }
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

/* What was searched, and what every shape of the list has in common. */
static void print_bounds(const hr_document *document, const hr_model *model, const hr_search_result *result)
{
  char evaluated[HR_NUMBER_SIZE], varied[128], kept[128], served[512], unserved[512];
  bool latent = hr_model_main_group(model)->latent.q_heads > 0, experts = active_parameters(model) > 0;
  hr_write_count(evaluated, sizeof evaluated, (int64_t)result->evaluated);
  hr_print_field(document, "searched", "%s shape%s%s", evaluated, result->evaluated == 1 ? "" : "s",
                 result->complete ? "" : ", not all of them: stopped by --max-shapes or by the user");
  list_sizes(varied, sizeof varied, result->varied);
  list_sizes(kept, sizeof kept,
             ~result->varied & ~(uint32_t)(latent ? HR_SEARCH_KV_HEADS | HR_SEARCH_HEADS : HR_SEARCH_KV_HEADS));
  hr_print_field(document, "varied", "%s", varied[0] ? varied : "nothing");
  if (kept[0] || latent)
    hr_print_field(document, "kept", "%s%s%s", kept, kept[0] && latent ? "; " : "",
                   latent ? "heads and ranks of latent attention" : "");
  if (has_several_widths(model))
    hr_print_field(document, "scaled", "%s",
                   experts ? "widths of dense layers and shared experts with the expert width"
                           : "MLP widths of other layers with that of the main ones");
  hr_print_field(document, "class",
                 "free: the weights of a checkpoint stay; retrain: new weights, trained and compared first");
  list_counts(served, sizeof served, result->served, result->served_count);
  list_counts(unserved, sizeof unserved, result->unserved_on, result->unserved_count);
  if (result->served_count > 0)
    hr_print_field(document, "served on", "t = %s: heads, widths and vocabulary divide evenly%s%s", served,
                   unserved[0] ? "; the heads that are kept do not for t = " : "", unserved);
}

static void explain_nothing(const hr_document *document, const hr_search_result *result)
{
  char text[320];
  const char *more = result->varied & HR_SEARCH_LAYERS ? "a shorter --serve-on or a wider --param-band allows more."
                                                       : "--vary layers or a wider --param-band allows more.";
  if (result->evaluated > 0)
    hr_write_text(text, sizeof text, "No shape within the bounds is as fast as the model; %s", more);
  else if (result->unserved > 0)
    hr_write_text(text, sizeof text,
                  "No shape is within the bounds: %" PRIu64
                  " combination%s of hidden size and heads do%s not spread over "
                  "these devices (--serve-on); %s",
                  result->unserved, result->unserved == 1 ? "" : "s", result->unserved == 1 ? "es" : "", more);
  else
    hr_write_text(text, sizeof text, "No shape is within the bounds; %s", more);
  hr_print_paragraph(document, text);
}

static hr_status write_text(hr_document *document, const hr_model *model, const hr_workload *workload,
                            const hr_hardware *hardware, const hr_search_result *result, hr_error *error)
{
  hr_print_title(document, "headroom search: %s on %s", model->name, hardware->about.name);
  char time[HR_NUMBER_SIZE], parameters[HR_NUMBER_SIZE];
  hr_print_model(document, model);
  hr_write_count(parameters, sizeof parameters, result->base_parameters);
  hr_print_field(document, "parameters", "%s%s", parameters,
                 active_parameters(model) > 0 ? ", of all experts; the band is about these" : "");
  hr_print_hardware(document, hardware);
  hr_print_workload(document, workload);
  hr_print_server_kernels(document, hardware, workload->framework);
  hr_write_time(time, sizeof time, result->base_time_ns);
  hr_print_field(document, "step", "%s predicted for the model as it is", time);
  if (result->has_free) {
    hr_write_gain(time, sizeof time, result->free.predicted_gain);
    hr_print_field(document, "for free", "%s with %s alone", time, result->free.differs);
  }
  print_bounds(document, model, result);
  if (document->options->format == HR_FORMAT_HTML) {
    hr_figure *figure;
    HR_TRY(hr_figure_of_search(model, hardware, result, &figure, error));
    HR_TRY(hr_page_print_figure(document->out, figure, error));
  }
  hr_print_heading(document, "Shapes, fastest first");
  if (result->count == 0) {
    explain_nothing(document, result);
    return HR_OK;
  }
  return hr_print_table(document, shape_table(result), error);
}

hr_status hr_report_search(FILE *out, const hr_report_options *options, const hr_subject *subject,
                           const hr_search_result *result, hr_error *error)
{
  HR_NEED(error, out, options, subject, result);
  const hr_model *model = subject->model;
  const hr_workload *workload = subject->workload;
  const hr_hardware *hardware = subject->hardware;
  HR_NEED(error, model, workload, hardware);
  HR_TAKE(hr_report_options, options, error);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status;
  if (options->format == HR_FORMAT_JSON)
    status = write_json(out, model, workload, hardware, result, error);
  else if (options->format == HR_FORMAT_CSV)
    status = hr_print_table(&document, shape_table(result), error);
  else
    status = write_text(&document, model, workload, hardware, result, error);
  return hr_document_end(&document, status, error);
}
