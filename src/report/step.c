/* SPDX-License-Identifier: Apache-2.0 */
/* `step`: a whole step and its operators, predicted and measured. `generate`: ids. */
#include "base/error.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"
#include "report/inputs.h"
#include "report/lines.h"
#include "report/operators.h"

#include <headroom/experimental/step.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* A row whose missing numbers are NAN. */
typedef struct step_row {
  hr_operator op;
  double predicted_ns, measured_ns, share, over_predicted;
} step_row;

static const hr_column columns[] = {
    {"name", "operator", HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, hr_operator_name_cell, step_row, op)},
    {NULL, "size", HR_PLAIN, 2, HR_COMPUTED_OF(TEXT, hr_operator_size_cell, step_row, op)},
    {"count", "runs", HR_PLAIN, 3, HR_MEMBER(step_row, op.count)},
    {"flops", NULL, HR_FLOPS, 0, HR_MEMBER(step_row, op.flops)},
    {"bytes", NULL, HR_BYTES, 0, HR_MEMBER(step_row, op.bytes)},
    {"predicted_ns", "predicted", HR_TIME, 0, HR_MEMBER(step_row, predicted_ns)},
    {"measured_ns", "measured", HR_TIME, 0, HR_MEMBER(step_row, measured_ns)},
    {"measured_over_predicted", "ratio", HR_PLAIN, 1, HR_MEMBER(step_row, over_predicted)},
    {"share", "share", HR_SHARE, 0, HR_MEMBER(step_row, share)},
};

static double or_nan(double value, bool known)
{
  return known ? value : (double)NAN;
}

static hr_table *row_table(const hr_step_times *times)
{
  hr_table *table = HR_TABLE_OF(columns, step_row);
  const bool timed = times->operators_ns > 0;
  for (size_t i = 0; i < times->count; i++) {
    const hr_step_row *from = &times->rows[i];
    const step_row row = {.op = from->op,
                          .predicted_ns = from->predicted_ns,
                          .measured_ns = or_nan(from->measured_ns, timed),
                          .over_predicted = or_nan(from->measured_ns / from->predicted_ns, timed),
                          .share = or_nan(from->share, timed)};
    hr_table_add(table, &row);
  }
  return table;
}

static hr_status write_json(FILE *out, const hr_model *model, const hr_hardware *hardware, const hr_step_times *t,
                            hr_error *error)
{
  bool failed;
  const bool timed = t->operators_ns > 0;
  hr_json json = hr_json_document("step/1", &failed);
  hr_json_put_text(json, "device", hardware->about.name);
  hr_json_put_hardware(json, hardware);
  hr_json_put_model(json, model);
  hr_json_put_workload(json, &t->workload);
  hr_json_put_number(json, "measured_ns", t->measurement.median_ns);
  hr_json_put_number(json, "measured_low_ns", t->measurement.median_low_ns);
  hr_json_put_number(json, "measured_high_ns", t->measurement.median_high_ns);
  hr_json_put_count(json, "samples", t->measurement.samples);
  hr_json_put_number(json, "tokens_per_s", t->tokens_per_s);
  hr_json_put_number(json, "predicted_ns", t->predicted_ns);
  hr_json_put_number(json, "operators_ns", or_nan(t->operators_ns, timed));
  hr_json_put_number(json, "between_share", or_nan(t->between_share, timed));
  hr_json_put_number(json, "load_ns", t->load_ns);
  hr_json_put_count(json, "memory_bytes", t->weight_bytes);
  hr_json_put_count(json, "allocated_bytes", t->allocated_bytes);
  hr_json_put_count(json, "estimated_bytes", t->estimated_bytes);
  hr_json_put_table(json, "operators", row_table(t));
  return hr_json_write(out, json, error);
}

static void print_step(const hr_document *document, const hr_step_times *t)
{
  const hr_measurement *m = &t->measurement;
  char median[HR_NUMBER_SIZE], low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE], predicted[HR_NUMBER_SIZE];
  hr_write_time(median, sizeof median, m->median_ns);
  hr_write_time(low, sizeof low, m->p10_ns);
  hr_write_time(high, sizeof high, m->p90_ns);
  hr_write_time(predicted, sizeof predicted, t->predicted_ns);
  hr_print_field(document, "step", "%s, eight of ten from %s to %s in %" PRId64 " runs; %.4g tokens/s", median, low,
                 high, m->samples, t->tokens_per_s);
  hr_print_field(document, "predicted", "%s; measured %.2f times as long", predicted, m->median_ns / t->predicted_ns);
}

static void print_between(const hr_document *document, const hr_step_times *t)
{
  char sum[HR_NUMBER_SIZE], share[HR_NUMBER_SIZE], load[HR_NUMBER_SIZE], memory[HR_NUMBER_SIZE];
  hr_write_time(sum, sizeof sum, t->operators_ns);
  hr_write_share(share, sizeof share, t->between_share);
  hr_write_time(load, sizeof load, t->load_ns);
  hr_write_bytes(memory, sizeof memory, (double)t->weight_bytes);
  if (t->operators_ns > 0 && t->between_share < 0) /* timed one by one: on a GPU between events, which take time, too */
    hr_print_field(document, "operators", "%s one by one, more than together", sum);
  else if (t->operators_ns > 0)
    hr_print_field(document, "operators", "%s in all; %s of the step passes between them", sum, share);
  hr_print_field(document, "weights", "%s with %s, filled in %s", memory,
                 t->workload.phase == HR_PHASE_TRAIN ? "gradients and AdamW's states" : "the KV cache", load);
  hr_write_bytes(memory, sizeof memory, (double)t->allocated_bytes);
  hr_write_bytes(sum, sizeof sum, (double)t->estimated_bytes);
  hr_print_field(document, "memory", "%s allocated; %s estimated", memory, sum);
}

static hr_status write_text(hr_document *document, const hr_model *model, const hr_hardware *hardware,
                            const hr_step_times *times, hr_error *error)
{
  if (document->options->format != HR_FORMAT_CSV) {
    hr_print_title(document, "headroom step: %s on %s", model->name, hardware->about.name);
    hr_print_model(document, model);
    hr_print_hardware(document, hardware);
    hr_print_workload(document, &times->workload);
    print_step(document, times);
    print_between(document, times);
    hr_print_heading(document, "Operators of the step");
  }
  return hr_print_table(document, row_table(times), error);
}

hr_status hr_report_step(FILE *out, const hr_report_options *options, const hr_model *model,
                         const hr_hardware *hardware, const hr_step_times *times, hr_error *error)
{
  HR_NEED(error, out, options, model, hardware, times);
  HR_TAKE(hr_report_options, options, error);
  HR_TAKE(hr_model, model, error);
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status = options->format == HR_FORMAT_JSON ? write_json(out, model, hardware, times, error)
                                                       : write_text(&document, model, hardware, times, error);
  return hr_document_end(&document, status, error);
}

/* ---- generate ---- */

typedef struct id_row {
  int64_t position, id;
} id_row;

static const hr_column id_columns[] = {
    {"position", NULL, HR_PLAIN, 0, HR_MEMBER(id_row, position)},
    {"id", NULL, HR_PLAIN, 0, HR_MEMBER(id_row, id)},
};

static hr_table *id_table(const hr_generated *g)
{
  hr_table *table = HR_TABLE_OF(id_columns, id_row);
  for (int64_t i = 0; i < g->count; i++) {
    const id_row row = {g->prompt_count + i, g->ids[i]};
    hr_table_add(table, &row);
  }
  return table;
}

static hr_status write_ids_json(FILE *out, const hr_model *model, const hr_generated *g, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("generate/1", &failed);
  hr_json_put_model(json, model);
  hr_json_put_count(json, "prompt_tokens", g->prompt_count);
  hr_json_put_number(json, "first_token_ns", g->first_ns);
  hr_json_put_number(json, "token_ns", g->count > 1 ? g->others_ns / (double)(g->count - 1) : (double)NAN);
  hr_json_put_table(json, "tokens", id_table(g));
  return hr_json_write(out, json, error);
}

/* "5,17,0" */
static hr_status write_ids_text(FILE *out, const hr_generated *g)
{
  for (int64_t i = 0; i < g->count; i++)
    fprintf(out, "%s%d", i > 0 ? "," : "", (int)g->ids[i]);
  fputc('\n', out);
  return HR_OK;
}

hr_status hr_report_generated(FILE *out, const hr_report_options *options, const hr_model *model,
                              const hr_generated *generated, hr_error *error)
{
  HR_NEED(error, out, options, model, generated);
  HR_TAKE(hr_report_options, options, error);
  HR_TAKE(hr_model, model, error);
  hr_document document;
  hr_status status;
  hr_document_begin(&document, out, options);
  switch (options->format) {
  case HR_FORMAT_JSON: status = write_ids_json(out, model, generated, error); break;
  case HR_FORMAT_CSV: status = hr_print_table(&document, id_table(generated), error); break;
  default: status = write_ids_text(out, generated);
  }
  return hr_document_end(&document, status, error);
}
