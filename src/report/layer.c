/* One layer: its operators with their shares, predicted beside measured, and their sum against the whole. */
#include "report/document.h"

#include "base/error.h"
#include "base/names.h"
#include "report/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const hr_column columns[] = {
    {"name", "operator", HR_CELL_TEXT, 0},
    {"part", NULL, HR_CELL_TEXT, 0},
    {"pass", NULL, HR_CELL_TEXT, 0},
    {NULL, "size", HR_CELL_TEXT, 3},
    {"problem", NULL, HR_CELL_TEXT, 0},
    {"flops", NULL, HR_CELL_FLOPS, 0},
    {"bytes", NULL, HR_CELL_BYTES, 0},
    {"predicted_ns", "predicted", HR_CELL_TIME, 0},
    {"measured_ns", "measured", HR_CELL_TIME, 0},
    {"measured_low_ns", NULL, HR_CELL_TIME, 0},
    {"measured_high_ns", NULL, HR_CELL_TIME, 0},
    {"time_ns", NULL, HR_CELL_TIME, 0},
    {"share", "share", HR_CELL_SHARE, 0},
    {"source", NULL, HR_CELL_TEXT, 0},
    {"flops_per_s", "rate", HR_CELL_FLOPS_RATE, 2},
    {"bytes_per_s", "bandwidth", HR_CELL_BYTES_RATE, 2},
    {"ceiling_share", "of ceiling", HR_CELL_SHARE, 1},
    {"samples", NULL, HR_CELL_COUNT, 0},
    {"kernel", NULL, HR_CELL_TEXT, 0},
    {"configuration", NULL, HR_CELL_TEXT, 0},
    {"status", "status", HR_CELL_TEXT, 0},
    {"reason", NULL, HR_CELL_TEXT, 0},
};

static const char *text_or_none(const char *text)
{
  return text[0] ? text : NULL;
}

/* What was run, as the store says it; NULL of what nothing was run for. */
static const char *problem_of(const hr_layer_row *row, char *to, size_t size)
{
  hr_write_operator_problem(to, size, &row->op);
  if (row->rows.struct_size > 0) {
    hr_result result = hr_result_default();
    hr_result_set_rowwise(&result, &row->rows);
    hr_copy_text(to, size, result.problem);
  }
  return text_or_none(to);
}

static double ceiling_share(const hr_layer_row *row, const hr_hardware *hardware)
{
  hr_dtype dtype = row->op.kind == HR_KIND_ATTENTION ? row->op.attention.dtype : row->op.gemm.dtype;
  return row->measured && row->op.flops > 0 ? hr_hardware_ceiling_share(hardware, dtype, row->measurement.flops_per_s)
                                            : (double)NAN;
}

static void put_row(hr_table *table, const hr_layer_row *row, const hr_hardware *hardware)
{
  const hr_measurement *m = &row->measurement;
  char name[48], size[96], problem[512];
  bool products = row->op.flops > 0;
  hr_operator_name(&row->op, name, sizeof name);
  hr_put_text(table, name);
  hr_put_text(table, hr_layer_part_name(row->part));
  hr_put_text(table, hr_pass_name(row->op.pass));
  hr_write_operator_size(size, sizeof size, &row->op);
  hr_put_text(table, size);
  hr_put_text(table, problem_of(row, problem, sizeof problem));
  hr_put_count(table, row->op.flops);
  hr_put_count(table, row->op.bytes);
  hr_put(table, row->prediction.time_ns);
  hr_put(table, row->measured ? m->median_ns : NAN);
  hr_put(table, row->measured ? m->median_low_ns : NAN);
  hr_put(table, row->measured ? m->median_high_ns : NAN);
  hr_put(table, row->time_ns);
  hr_put(table, row->share);
  hr_table_style(table, row->share >= 0.1 ? HR_STYLE_BOLD : HR_STYLE_PLAIN);
  hr_put_text(table, row->measured ? "measured" : "predicted");
  hr_put(table, row->measured && products ? m->flops_per_s : NAN);
  hr_put(table, row->measured && !products ? m->bytes_per_s : NAN);
  hr_put(table, ceiling_share(row, hardware));
  hr_put_count(table, m->samples);
  hr_put_text(table, text_or_none(m->kernel));
  hr_put_text(table, text_or_none(m->configuration));
  hr_put_text(table, hr_status_name(m->status));
  hr_table_style(table, m->status == HR_OK ? HR_STYLE_GREEN : HR_STYLE_YELLOW);
  hr_put_text(table, text_or_none(m->reason));
}

static hr_table *row_table(const hr_layer *layer, const hr_hardware *hardware)
{
  hr_table *table = hr_table_create(columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < layer->count; i++)
    put_row(table, &layer->rows[i], hardware);
  return table;
}

/* The sum of what the whole consists of; NAN where there is no whole. */
static double whole_over_sum(const hr_layer *layer)
{
  return layer->whole.samples > 0 ? layer->whole.median_ns / layer->measured_ns : (double)NAN;
}

static void put_whole_json(hr_json document, const hr_layer *layer)
{
  const hr_measurement *m = &layer->whole;
  bool timed = m->samples > 0;
  hr_json whole = hr_json_put_object(document, "whole");
  hr_json_put_text(whole, "status", hr_status_name(m->status));
  hr_json_put_text(whole, "reason", text_or_none(m->reason));
  hr_json_put_count(whole, "operators", timed ? layer->measured_count : 0);
  hr_json_put_number(whole, "measured_ns", timed ? m->median_ns : NAN);
  hr_json_put_number(whole, "measured_low_ns", timed ? m->median_low_ns : NAN);
  hr_json_put_number(whole, "measured_high_ns", timed ? m->median_high_ns : NAN);
  hr_json_put_count(whole, "samples", m->samples);
  hr_json_put_number(whole, "over_sum", whole_over_sum(layer));
}

static hr_status write_json(FILE *out, const hr_model *model, const hr_hardware *hardware, const hr_layer *layer,
                            hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("layer", &failed);
  hr_json_put_text(json, "device", hardware->name);
  hr_json_put_hardware(json, hardware);
  hr_json_put_model(json, model);
  hr_json_put_workload(json, &layer->workload);
  hr_json_put_flag(json, "reduced", layer->reduced);
  hr_json_put_text(json, "note", text_or_none(layer->note));
  hr_json_put_flag(json, "complete", layer->complete);
  hr_json_put_count(json, "flops", layer->flops);
  hr_json_put_number(json, "sum_ns", layer->sum_ns);
  hr_json_put_number(json, "measured_sum_ns", layer->measured_ns);
  hr_json_put_number(json, "predicted_sum_ns", layer->predicted_ns);
  hr_json shares = hr_json_put_object(json, "shares");
  for (int part = 0; part < HR_PART_COUNT; part++)
    hr_json_put_number(shares, hr_layer_part_name((hr_layer_part)part), layer->part_ns[part] / layer->sum_ns);
  put_whole_json(json, layer);
  hr_json_put_table(json, "operators", row_table(layer, hardware));
  return hr_json_write(out, json, error);
}

/* "linear maps 70.1%, attention's products 12.3%, …", the largest first. */
static void tell_shares(const hr_document *document, const hr_layer *layer)
{
  char line[512] = "";
  size_t used = 0;
  bool told[HR_PART_COUNT] = {false};
  for (int i = 0; i < HR_PART_COUNT; i++) {
    int largest = -1;
    for (int part = 0; part < HR_PART_COUNT; part++) {
      if (!told[part] && (largest < 0 || layer->part_ns[part] > layer->part_ns[largest]))
        largest = part;
    }
    told[largest] = true;
    if (!(layer->part_ns[largest] > 0))
      break;
    char share[HR_NUMBER_SIZE];
    hr_write_share(share, sizeof share, layer->part_ns[largest] / layer->sum_ns);
    int written = snprintf(line + used, sizeof line - used, "%s%s %s", used ? ", " : "",
                           hr_layer_part_words((hr_layer_part)largest), share);
    used += written > 0 ? (size_t)written : 0;
  }
  hr_put_field(document, "shares", "%s", line);
}

static void tell_sum(const hr_document *document, const hr_layer *layer)
{
  char sum[HR_NUMBER_SIZE], predicted[HR_NUMBER_SIZE], open[HR_NUMBER_SIZE], rate[HR_NUMBER_SIZE];
  hr_write_time(sum, sizeof sum, layer->sum_ns);
  hr_write_time(predicted, sizeof predicted, layer->predicted_ns);
  hr_write_time(open, sizeof open, layer->sum_ns - layer->measured_ns);
  hr_write_rate(rate, sizeof rate, (double)layer->flops / layer->sum_ns * 1e9, "FLOP/s");
  if (layer->measured_count == (int64_t)layer->count)
    hr_put_field(document, "sum", "%s, %s in its products; predicted %s", sum, rate, predicted);
  else
    hr_put_field(document, "sum",
                 "%s, of which %s is only predicted (what has no measured time below); all predicted: %s", sum, open,
                 predicted);
}

static void tell_whole(const hr_document *document, const hr_hardware *hardware, const hr_layer *layer)
{
  const hr_measurement *m = &layer->whole;
  const char *how = hardware->kind == HR_HARDWARE_GPU ? "as one captured graph" : "run one after another";
  char whole[HR_NUMBER_SIZE], sum[HR_NUMBER_SIZE];
  hr_write_time(whole, sizeof whole, m->median_ns);
  hr_write_time(sum, sizeof sum, layer->measured_ns);
  if (m->samples > 0)
    hr_put_field(document, "whole", "%s %s; %.3f of the sum of these %" PRId64 " operators, %s%s%s", whole, how,
                 whole_over_sum(layer), layer->measured_count, sum, m->status != HR_OK ? "; " : "",
                 m->status != HR_OK ? m->reason : "");
  else
    hr_put_field(document, "whole", "%s%s%s", hr_status_sentence(m->status), m->reason[0] ? ": " : "", m->reason);
}

/* Each reason once, with the operators that it holds for. */
static void tell_reasons(const hr_document *document, const hr_layer *layer)
{
  for (size_t i = 0; i < layer->count; i++) {
    const char *reason = layer->rows[i].measurement.reason;
    char line[1024] = "", name[48];
    size_t used = 0;
    bool before = false;
    for (size_t k = 0; k < layer->count; k++) {
      if (!reason[0] || strcmp(layer->rows[k].measurement.reason, reason) != 0)
        continue;
      before = before || k < i;
      hr_operator_name(&layer->rows[k].op, name, sizeof name);
      if (used + sizeof name + 2 < sizeof line)
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%s", used ? ", " : "", name);
    }
    if (reason[0] && !before)
      hr_put_field(document, hr_status_name(layer->rows[i].measurement.status), "%s: %s", line, reason);
  }
}

static hr_status write_text(const hr_document *document, const hr_model *model, const hr_hardware *hardware,
                            const hr_layer *layer, hr_error *error)
{
  if (document->options->format != HR_FORMAT_CSV) {
    hr_put_model(document, model);
    hr_put_hardware(document, hardware);
    hr_put_workload(document, &layer->workload);
    if (layer->note[0])
      hr_put_field(document, "size", "%s", layer->note);
    tell_shares(document, layer);
    tell_sum(document, layer);
    tell_whole(document, hardware, layer);
    tell_reasons(document, layer);
    hr_put_heading(document, "Operators of one layer");
  }
  return hr_put_table(document, row_table(layer, hardware), error);
}

hr_status hr_report_layer(FILE *out, const hr_report_options *options, const hr_model *model,
                          const hr_hardware *hardware, const hr_layer *layer, hr_error *error)
{
  HR_NEED(error, out, options, model, hardware, layer);
  hr_document document;
  HR_TRY(hr_document_begin(&document, out, options, error));
  hr_status status = options->format == HR_FORMAT_JSON ? write_json(out, model, hardware, layer, error)
                                                       : write_text(&document, model, hardware, layer, error);
  return hr_document_end(&document, status, error);
}
