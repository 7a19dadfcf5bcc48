/* SPDX-License-Identifier: Apache-2.0 */
/* `layer`: the operators of one layer, predicted and measured, and their sum against the whole. */
#include "base/error.h"
#include "base/names.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"
#include "report/inputs.h"
#include "report/layer_groups.h"
#include "report/lines.h"
#include "report/measurement.h"
#include "report/operators.h"
#include "report/page.h"

#include <headroom/experimental/hardware.h>
#include <headroom/experimental/plot.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *text_or_null(const char *text)
{
  return text[0] ? text : NULL;
}

typedef struct layer_row {
  hr_layer_row row; /* what was not measured is NAN */
  double ceiling_share;
} layer_row;

/* What was run, as the store names it; empty if nothing was. */
static void problem(const void *row, hr_cell *cell)
{
  const hr_layer_row *r = row;
  hr_result result = hr_result_default();
  if (r->rows.struct_size > 0) {
    hr_result_set_rowwise(&result, &r->rows);
  } else if (r->decode.struct_size > 0) {
    hr_result_set_decode(&result, &r->decode);
  } else {
    hr_operator_problem_cell(&r->op, cell);
    return;
  }
  hr_cell_set_text(cell, result.problem);
}

static void share(const void *member, hr_cell *cell)
{
  const double *share = member;
  hr_cell_set_number(cell, *share);
  cell->style = *share >= 0.1 ? HR_STYLE_BOLD : HR_STYLE_PLAIN;
}

static void source(const void *measured, hr_cell *cell)
{
  hr_cell_set_text(cell, *(const bool *)measured ? "measured" : "predicted");
}

#define ROW(member) HR_OPTIONAL(layer_row, row.member)
static const hr_column columns[] = {
    {"name", "operator", HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, hr_operator_name_cell, layer_row, row.op)},
    {"part", NULL, HR_PLAIN, 0, ROW(part)},
    {"pass", NULL, HR_PLAIN, 0, ROW(op.pass)},
    {NULL, "size", HR_PLAIN, 3, HR_COMPUTED_OF(TEXT, hr_operator_size_cell, layer_row, row.op)},
    {"problem", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, problem, layer_row, row)},
    {"flops", NULL, HR_FLOPS, 0, ROW(op.flops)},
    {"bytes", NULL, HR_BYTES, 0, ROW(op.bytes)},
    {"predicted_ns", "predicted", HR_TIME, 0, ROW(prediction.time_ns)},
    {"measured_ns", "measured", HR_TIME, 0, ROW(measurement.median_ns)},
    {"measured_low_ns", NULL, HR_TIME, 0, ROW(measurement.median_low_ns)},
    {"measured_high_ns", NULL, HR_TIME, 0, ROW(measurement.median_high_ns)},
    {"time_ns", NULL, HR_TIME, 0, ROW(time_ns)},
    {"share", "share", HR_SHARE, 0, HR_COMPUTED_OF(NUMBER, share, layer_row, row.share)},
    {"source", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, source, layer_row, row.measured)},
    {"flops_per_s", "rate", HR_FLOPS_RATE, 2, ROW(measurement.flops_per_s)},
    {"bytes_per_s", "bandwidth", HR_BYTES_RATE, 2, ROW(measurement.bytes_per_s)},
    {"ceiling_share", "of ceiling", HR_SHARE, 1, HR_MEMBER(layer_row, ceiling_share)},
    {"samples", NULL, HR_PLAIN, 0, ROW(measurement.samples)},
    {"kernel", NULL, HR_PLAIN, 0, ROW(measurement.kernel)},
    {"configuration", NULL, HR_PLAIN, 0, ROW(measurement.configuration)},
    {"status", "status", HR_PLAIN, 0, ROW(measurement.status)},
    {"reason", NULL, HR_PLAIN, 0, ROW(measurement.reason)},
};

/* GEMMs and attention have a rate in FLOP/s, other operators one in B/s. */
static layer_row row_of(const hr_layer_row *from, const hr_hardware *hardware)
{
  layer_row to = {.row = *from};
  hr_measurement *m = &to.row.measurement;
  if (!from->measured)
    hr_clear_times(m);
  if (from->op.flops > 0)
    m->bytes_per_s = (double)NAN;
  else
    m->flops_per_s = (double)NAN;
  hr_dtype dtype = from->op.kind == HR_KIND_ATTENTION ? from->op.attention.dtype : from->op.gemm.dtype;
  to.ceiling_share = hr_hardware_ceiling_share(hardware, dtype, m->flops_per_s);
  return to;
}

static hr_table *row_table(const hr_layer_row *rows, size_t count, const hr_hardware *hardware)
{
  hr_table *table = HR_TABLE_OF(columns, layer_row);
  for (size_t i = 0; i < count; i++) {
    layer_row row = row_of(&rows[i], hardware);
    hr_table_add(table, &row);
  }
  return table;
}

/* The time of the whole over the sum of its operators; NAN if the whole was not measured. */
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
  hr_json_put_text(whole, "reason", text_or_null(m->reason));
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
  hr_json json = hr_json_document("layer/2", &failed);
  hr_json_put_text(json, "device", hardware->about.name);
  hr_json_put_hardware(json, hardware);
  hr_json_put_model(json, model);
  hr_json_put_count(json, "group", (int64_t)layer->group);
  hr_json_put_workload(json, &layer->workload);
  hr_json_put_flag(json, "reduced", layer->reduced);
  hr_json_put_text(json, "note", text_or_null(layer->note));
  hr_json_put_flag(json, "complete", layer->complete);
  hr_json_put_count(json, "flops", layer->flops);
  hr_json_put_number(json, "sum_ns", layer->sum_ns);
  hr_json_put_number(json, "measured_sum_ns", layer->measured_ns);
  hr_json_put_number(json, "predicted_sum_ns", layer->predicted_ns);
  hr_json shares = hr_json_put_object(json, "shares");
  for (int part = 0; part < HR_PART_COUNT; part++)
    hr_json_put_number(shares, hr_layer_part_name((hr_layer_part)part), layer->part_ns[part] / layer->sum_ns);
  put_whole_json(json, layer);
  hr_json_put_table(json, "operators", row_table(layer->rows, layer->count, hardware));
  hr_json_put_table(json, "beside", row_table(layer->beside, layer->beside_count, hardware));
  return hr_json_write(out, json, error);
}

/* The part with the longest time of those not yet `listed`. */
static hr_layer_part longest_part(const hr_layer *layer, const bool listed[HR_PART_COUNT])
{
  int longest = -1;
  for (int part = 0; part < HR_PART_COUNT; part++) {
    if (!listed[part] && (longest < 0 || layer->part_ns[part] > layer->part_ns[longest]))
      longest = part;
  }
  return (hr_layer_part)longest;
}

/* "linear layers 70.1%, attention 12.3%, …", the largest first. */
static void print_shares(const hr_document *document, const hr_layer *layer)
{
  char line[512] = "";
  bool listed[HR_PART_COUNT] = {false};
  for (int i = 0; i < HR_PART_COUNT; i++) {
    hr_layer_part part = longest_part(layer, listed);
    char share[HR_NUMBER_SIZE];
    listed[part] = true;
    if (!(layer->part_ns[part] > 0))
      break;
    hr_write_share(share, sizeof share, layer->part_ns[part] / layer->sum_ns);
    hr_append_item(line, sizeof line, "%s %s", hr_layer_part_words(part), share);
  }
  hr_print_field(document, "shares", "%s", line);
}

static void print_sum(const hr_document *document, const hr_layer *layer)
{
  char sum[HR_NUMBER_SIZE], predicted[HR_NUMBER_SIZE], open[HR_NUMBER_SIZE], rate[HR_NUMBER_SIZE];
  hr_write_time(sum, sizeof sum, layer->sum_ns);
  hr_write_time(predicted, sizeof predicted, layer->predicted_ns);
  hr_write_time(open, sizeof open, layer->sum_ns - layer->measured_ns);
  hr_write_rate(rate, sizeof rate, (double)layer->flops / layer->sum_ns * 1e9, "FLOP/s");
  if (layer->measured_count == (int64_t)layer->count)
    hr_print_field(document, "sum", "%s, %s in GEMMs and attention; predicted %s", sum, rate, predicted);
  else
    hr_print_field(document, "sum", "%s, of which %s is predicted because it was not measured; predicted in all: %s",
                   sum, open, predicted);
}

static void print_whole(const hr_document *document, const hr_hardware *hardware, const hr_layer *layer)
{
  const hr_measurement *m = &layer->whole;
  const char *how = hardware->about.kind == HR_HARDWARE_GPU ? "as one CUDA graph" : "run one after another";
  char whole[HR_NUMBER_SIZE], sum[HR_NUMBER_SIZE];
  hr_write_time(whole, sizeof whole, m->median_ns);
  hr_write_time(sum, sizeof sum, layer->measured_ns);
  if (m->samples > 0)
    hr_print_field(document, "whole", "%s %s; %.3f of the sum of these %" PRId64 " operators, %s%s%s", whole, how,
                   whole_over_sum(layer), layer->measured_count, sum, m->status != HR_OK ? "; " : "",
                   m->status != HR_OK ? m->reason : "");
  else
    hr_print_field(document, "whole", "%s%s%s", hr_status_sentence(m->status), m->reason[0] ? ": " : "", m->reason);
}

static const char *reason_of(const hr_layer *layer, size_t row)
{
  return layer->rows[row].measurement.reason;
}

static bool was_printed(const hr_layer *layer, size_t row)
{
  for (size_t i = 0; i < row; i++) {
    if (strcmp(reason_of(layer, i), reason_of(layer, row)) == 0)
      return true;
  }
  return false;
}

/* Each reason once, after the operators that have it. */
static void print_reasons(const hr_document *document, const hr_layer *layer)
{
  for (size_t i = 0; i < layer->count; i++) {
    char line[1024] = "", name[48];
    if (!reason_of(layer, i)[0] || was_printed(layer, i))
      continue;
    for (size_t k = i; k < layer->count; k++) {
      hr_operator_name(&layer->rows[k].op, name, sizeof name);
      if (strcmp(reason_of(layer, k), reason_of(layer, i)) == 0)
        hr_append_item(line, sizeof line, "%s", name);
    }
    hr_print_field(document, hr_status_name(layer->rows[i].measurement.status), "%s: %s", line, reason_of(layer, i));
  }
}

static void print_group(const hr_document *document, const hr_model *model, size_t group)
{
  char text[512];
  hr_write_group(text, sizeof text, &model->groups[group]);
  hr_print_field(document, "layer", "of group %zu: %s", group, text);
}

static hr_status write_text(hr_document *document, const hr_model *model, const hr_hardware *hardware,
                            const hr_layer *layer, hr_error *error)
{
  if (document->options->format != HR_FORMAT_CSV) {
    hr_print_title(document, "headroom layer: %s on %s", model->name, hardware->about.name);
    hr_print_model(document, model);
    if (model->group_count > 1)
      print_group(document, model, layer->group);
    hr_print_hardware(document, hardware);
    hr_print_workload(document, &layer->workload);
    if (layer->note[0])
      hr_print_field(document, "size", "%s", layer->note);
    print_shares(document, layer);
    print_sum(document, layer);
    print_whole(document, hardware, layer);
    print_reasons(document, layer);
    if (document->options->format == HR_FORMAT_HTML) {
      hr_figure *figure;
      HR_TRY(hr_figure_of_layer(model, hardware, layer, &figure, error));
      HR_TRY(hr_page_print_figure(document->out, figure, error));
    }
    hr_print_heading(document, "Operators of one layer");
  }
  HR_TRY(hr_print_table(document, row_table(layer->rows, layer->count, hardware), error));
  if (layer->beside_count == 0 || document->options->format == HR_FORMAT_CSV)
    return HR_OK;
  hr_print_heading(document, "Once a step: the loss, and the optimizer of this layer's parameters");
  return hr_print_table(document, row_table(layer->beside, layer->beside_count, hardware), error);
}

hr_status hr_report_layer(FILE *out, const hr_report_options *options, const hr_model *model,
                          const hr_hardware *hardware, const hr_layer *layer, hr_error *error)
{
  HR_NEED(error, out, options, model, hardware, layer);
  HR_TAKE(hr_report_options, options, error);
  HR_TAKE(hr_model, model, error);
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status = options->format == HR_FORMAT_JSON ? write_json(out, model, hardware, layer, error)
                                                       : write_text(&document, model, hardware, layer, error);
  return hr_document_end(&document, status, error);
}
