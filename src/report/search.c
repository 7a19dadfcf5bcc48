#include "report/document.h"

#include "base/error.h"
#include "report/text.h"

static const hr_column shape_columns[] = {
    {"hidden", "hidden", HR_CELL_COUNT, 0},
    {"layers", "layers", HR_CELL_COUNT, 0},
    {"heads", "heads", HR_CELL_COUNT, 0},
    {"k_heads", "K heads", HR_CELL_COUNT, 5},
    {"v_heads", "V heads", HR_CELL_COUNT, 5},
    {"head_dim", "head size", HR_CELL_COUNT, 4},
    {"v_dim", NULL, HR_CELL_COUNT, 0},
    {"mlp_width", "MLP width", HR_CELL_COUNT, 0},
    {"vocabulary", "vocabulary", HR_CELL_COUNT, 0},
    {"parameters", "parameters", HR_CELL_COUNT, 3},
    {"parameter_change", "change", HR_CELL_GAIN, 1},
    {"step_time_ns", "step", HR_CELL_TIME, 2},
    {"predicted_gain", "gain", HR_CELL_GAIN, 0},
    {"pareto", "Pareto", HR_CELL_FLAG, 6},
};

static hr_table *shape_table(const hr_search_result *result)
{
  hr_table *table = hr_table_create(shape_columns, sizeof shape_columns / sizeof *shape_columns);
  for (size_t i = 0; i < result->count; i++) {
    const hr_search_shape *s = &result->shapes[i];
    const hr_model *m = &s->model;
    const int64_t sizes[] = {m->hidden, m->layers, m->q_heads, m->k_heads, m->v_heads};
    for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
      hr_put_count(table, sizes[j]);
    hr_put_count(table, m->qk_dim);
    hr_put_count(table, m->v_dim);
    hr_put_count(table, m->mlp_width);
    hr_put_count(table, m->vocabulary);
    hr_put_count(table, s->parameters);
    hr_put(table, s->parameter_change);
    hr_put(table, s->step_time_ns);
    hr_put(table, s->predicted_gain);
    hr_table_style(table, s->predicted_gain > 0 ? HR_STYLE_GREEN : HR_STYLE_PLAIN);
    hr_put_flag(table, s->pareto);
  }
  return table;
}

static hr_status write_json(FILE *out, const hr_model *model, const hr_workload *workload, const hr_hardware *hardware,
                            const hr_search_result *result, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("search", &failed);
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

static hr_status write_text(const hr_document *document, const hr_model *model, const hr_workload *workload,
                            const hr_hardware *hardware, const hr_search_result *result, hr_error *error)
{
  char time[HR_NUMBER_SIZE], parameters[HR_NUMBER_SIZE], evaluated[HR_NUMBER_SIZE];
  hr_put_model(document, model);
  hr_write_count(parameters, sizeof parameters, result->base_parameters);
  hr_put_field(document, "parameters", "%s", parameters);
  hr_put_hardware(document, hardware);
  hr_put_workload(document, workload);
  hr_write_time(time, sizeof time, result->base_time_ns);
  hr_put_field(document, "step", "%s predicted, as it is", time);
  hr_write_count(evaluated, sizeof evaluated, (int64_t)result->evaluated);
  hr_put_field(document, "searched", "%s shapes%s", evaluated,
               result->complete ? "" : ", not all of them: stopped by the limit or by the user");
  hr_put_heading(document, "Shapes, fastest first");
  if (result->count > 0)
    return hr_put_table(document, shape_table(result), error);
  hr_put_paragraph(document, "No shape lies within the bounds.");
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
    status = hr_put_table(&document, shape_table(result), error);
  else
    status = write_text(&document, model, workload, hardware, result, error);
  return hr_document_end(&document, status, error);
}
