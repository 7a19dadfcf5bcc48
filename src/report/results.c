/* Rows of the store: a list, one in full, and what an import or a merge brought. */
#include "base/names.h"
#include "report/document.h"

#include "base/error.h"
#include "report/text.h"
#include "runtime/store/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* For people only: CSV and JSON have the columns of the store. */
static const hr_column list_columns[] = {
    {NULL, "id", HR_CELL_TEXT, 0},     {NULL, "date", HR_CELL_TEXT, 4},       {NULL, "sweep", HR_CELL_TEXT, 3},
    {NULL, "series", HR_CELL_TEXT, 8}, {NULL, "of", HR_CELL_TEXT, 5},         {NULL, "size", HR_CELL_TEXT, 0},
    {NULL, "format", HR_CELL_TEXT, 2}, {NULL, "device", HR_CELL_TEXT, 6},     {NULL, "kernel", HR_CELL_TEXT, 7},
    {NULL, "time", HR_CELL_TIME, 0},   {NULL, "rate", HR_CELL_FLOPS_RATE, 0}, {NULL, "of ceiling", HR_CELL_SHARE, 9},
    {NULL, "status", HR_CELL_TEXT, 0},
};

#define SIZE_SIZE 512

/* "1024×4096×2560 ×32", "4 × q 128 kv 2048, heads 32/4/16 of 128"; of other rows their text. */
static void write_size(char *to, size_t size, const hr_result *result)
{
  const hr_gemm *g = &result->gemm;
  const hr_attention *a = &result->attention;
  int used = 0;
  if (result->kind == HR_RESULT_GEMM)
    used = snprintf(to, size, "%" PRId64 "×%" PRId64 "×%" PRId64, g->m, g->n, g->k);
  else if (result->kind == HR_RESULT_ATTENTION)
    used = snprintf(to, size,
                    "%" PRId64 " × q %" PRId64 " kv %" PRId64 ", heads %" PRId64 "/%" PRId64 "/%" PRId64 " of %" PRId64,
                    a->batch, a->q_len, a->kv_len, a->q_heads, a->k_heads, a->v_heads, a->qk_dim);
  else
    hr_copy_text(to, size, result->problem);
  if (used <= 0 || (size_t)used >= size)
    return;
  if (result->kind == HR_RESULT_GEMM && g->batch != 1)
    snprintf(to + used, size - (size_t)used, " ×%" PRId64, g->batch);
  else if (result->kind == HR_RESULT_ATTENTION && a->v_dim != a->qk_dim)
    snprintf(to + used, size - (size_t)used, "/%" PRId64, a->v_dim);
}

static const char *format_of(const hr_result *result)
{
  if (result->kind == HR_RESULT_OTHER)
    return NULL;
  return hr_dtype_name(result->kind == HR_RESULT_GEMM ? result->gemm.dtype : result->attention.dtype);
}

static const char *or_none(const char *text)
{
  return text[0] ? text : NULL;
}

/* ---- list ---- */

static int put_row(void *context, const hr_result *result)
{
  hr_table *table = context;
  const hr_measurement *m = &result->measurement;
  char id[9], date[17], size[SIZE_SIZE];
  snprintf(id, sizeof id, "%.8s", result->id);
  snprintf(date, sizeof date, "%.16s", result->date); /* to the minute */
  if (strlen(date) > 10)
    date[10] = ' ';
  write_size(size, sizeof size, result);
  hr_put_text(table, id);
  hr_put_text(table, date);
  hr_put_text(table, or_none(result->sweep));
  hr_put_text(table, or_none(result->series));
  hr_put_text(table, hr_result_kind_name(result->kind));
  hr_put_text(table, size);
  hr_put_text(table, format_of(result));
  hr_put_text(table, or_none(result->product[0] ? result->product : result->device));
  hr_put_text(table, or_none(m->kernel));
  hr_put(table, m->median_ns);
  hr_put(table, m->flops_per_s);
  hr_put(table, result->ceiling_share);
  hr_put_text(table, hr_status_name(m->status));
  hr_table_style(table, m->status == HR_OK ? HR_STYLE_GREEN : HR_STYLE_YELLOW);
  return 0;
}

static hr_status write_table(const hr_document *document, hr_store *store, const hr_result_filter *filter,
                             hr_error *error)
{
  hr_table *table = hr_table_create(list_columns, COUNT_OF(list_columns));
  hr_status status = hr_store_query(store, filter, put_row, table, error);
  if (status == HR_OK && (hr_table_rows(table) > 0 || document->options->format != HR_FORMAT_TABLE))
    return hr_put_table(document, table, error);
  if (status == HR_OK)
    hr_put_paragraph(document, "No row of the store is like that.");
  hr_table_free(table);
  return status;
}

static int add_json(void *context, const hr_result *result)
{
  return json_array_append_new(context, hr_result_json(result));
}

static hr_status write_json(FILE *out, hr_store *store, const hr_result_filter *filter, hr_error *error)
{
  bool failed;
  hr_json document = hr_json_document("results", &failed);
  hr_json_put_text(document, "store", hr_store_path(store));
  json_t *list = json_array();
  hr_status status = hr_store_query(store, filter, add_json, list, error);
  if (status == HR_ERROR_INTERRUPTED) {
    json_decref(list);
    list = NULL; /* for hr_json_write() to say */
  } else if (status != HR_OK) {
    json_decref(list);
    json_decref(document.object);
    return status;
  }
  hr_json_put(document, "results", list);
  return hr_json_write(out, document, error);
}

hr_status hr_report_results(FILE *out, const hr_report_options *options, hr_store *store,
                            const hr_result_filter *filter, hr_error *error)
{
  HR_NEED(error, out, options, store);
  hr_document document;
  if (options->format == HR_FORMAT_CSV)
    return hr_store_export(store, filter, HR_STORE_CSV, out, error);
  HR_TRY(hr_document_begin(&document, out, options, error));
  hr_status status = options->format == HR_FORMAT_JSON ? write_json(out, store, filter, error)
                                                       : write_table(&document, store, filter, error);
  return hr_document_end(&document, status, error);
}

/* ---- show ---- */

static void put_text_field(const hr_document *document, const char *label, const char *text)
{
  if (text[0])
    hr_put_field(document, label, "%s", text);
}

static void put_times(const hr_document *document, const hr_result *result)
{
  const hr_measurement *m = &result->measurement;
  char median[HR_NUMBER_SIZE], low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE], rest[HR_NUMBER_SIZE];
  hr_write_time(median, sizeof median, m->median_ns);
  hr_write_time(low, sizeof low, m->median_low_ns);
  hr_write_time(high, sizeof high, m->median_high_ns);
  char interval[160] = "";
  if (isfinite(m->median_low_ns))
    snprintf(interval, sizeof interval, " (%s %s to %s)", hr_interval_words(m), low, high);
  if (isfinite(m->median_ns))
    hr_put_field(document, "time", "median %s%s, %" PRId64 " sample%s, %s", median, interval, m->samples,
                 m->samples == 1 ? "" : "s", m->warm ? "warm" : "cold");
  const struct {
    const char *label;
    double value;
  } times[] = {{"min", m->min_ns}, {"p10", m->p10_ns},       {"mean", m->mean_ns},      {"p90", m->p90_ns},
               {"max", m->max_ns}, {"stddev", m->stddev_ns}, {"latency", m->latency_ns}};
  for (size_t i = 0; i < COUNT_OF(times); i++) {
    hr_write_time(rest, sizeof rest, times[i].value);
    if (isfinite(times[i].value))
      hr_put_field(document, times[i].label, "%s", rest);
  }
}

static void put_rates(const hr_document *document, const hr_result *result)
{
  const hr_measurement *m = &result->measurement;
  char text[HR_NUMBER_SIZE];
  const struct {
    const char *label, *unit;
    double value;
  } rates[] = {{"rate", "FLOP/s", m->flops_per_s}, {"bytes", "B/s", m->bytes_per_s}};
  for (size_t i = 0; i < COUNT_OF(rates); i++) {
    hr_write_rate(text, sizeof text, rates[i].value, rates[i].unit);
    if (isfinite(rates[i].value))
      hr_put_field(document, rates[i].label, "%s", text);
  }
  hr_write_share(text, sizeof text, result->ceiling_share);
  if (isfinite(result->ceiling_share))
    hr_put_field(document, "of ceiling", "%s of the instruction ceiling", text);
  hr_write_share(text, sizeof text, result->library_share);
  if (isfinite(result->library_share))
    hr_put_field(document, "of library", "%s of the library's best product", text);
}

static void put_conditions(const hr_document *document, const hr_result *result)
{
  const hr_measurement *m = &result->measurement;
  const struct {
    const char *label, *unit;
    double value;
  } readings[] = {{"clock", "MHz", m->conditions.clock_hz * 1e-6},
                  {"memory clock", "MHz", m->conditions.memory_clock_hz * 1e-6},
                  {"power", "W", m->conditions.power_w},
                  {"temperature", "°C", m->conditions.temperature_c}};
  for (size_t i = 0; i < COUNT_OF(readings); i++) {
    if (isfinite(readings[i].value))
      hr_put_field(document, readings[i].label, "%.4g %s", readings[i].value, readings[i].unit);
  }
  put_text_field(document, "throttled", m->conditions.throttled_by);
  put_text_field(document, "driver", result->driver);
  put_text_field(document, "libraries", result->libraries);
  if (m->discarded > 0)
    hr_put_field(document, "left out", "%" PRId64 " samples that other programs disturbed", m->discarded);
  hr_put_field(document, "data", "seed %" PRIu64 ", %" PRId64 " buffer set%s", result->seed, m->buffer_sets,
               m->buffer_sets == 1 ? "" : "s");
  if (m->rows_checked > 0 && isfinite(m->max_error))
    hr_put_field(document, "checked", "%" PRId64 " rows, largest difference %.3g", m->rows_checked, m->max_error);
}

static hr_status write_fields(const hr_document *document, const hr_result *result)
{
  const hr_measurement *m = &result->measurement;
  put_text_field(document, "id", result->id);
  put_text_field(document, "date", result->date);
  put_text_field(document, "sweep", result->sweep);
  put_text_field(document, "series", result->series);
  put_text_field(document, "axes", result->axes);
  put_text_field(document, "problem", result->problem);
  if (result->threads > 0)
    hr_put_field(document, "device", "%s: %s, %" PRId64 " threads", result->device, result->product, result->threads);
  else
    hr_put_field(document, "device", "%s%s%s", result->device, result->product[0] ? ": " : "", result->product);
  put_text_field(document, "kernel", m->kernel);
  put_text_field(document, "asked for", result->kernel_asked);
  put_text_field(document, "configuration", m->configuration);
  hr_put_field(document, "status", "%s%s%s", hr_status_name(m->status), m->reason[0] ? ": " : "", m->reason);
  put_times(document, result);
  put_rates(document, result);
  put_conditions(document, result);
  put_text_field(document, "host", result->host);
  put_text_field(document, "headroom", result->program);
  return HR_OK;
}

static hr_status write_one_json(FILE *out, const hr_result *result, hr_error *error)
{
  bool failed;
  hr_json document = hr_json_document("results", &failed);
  hr_json_put(document, "store", json_null());
  json_t *list = json_array();
  if (json_array_append_new(list, hr_result_json(result)) != 0) {
    json_decref(list);
    list = NULL;
  }
  hr_json_put(document, "results", list);
  return hr_json_write(out, document, error);
}

hr_status hr_report_result(FILE *out, const hr_report_options *options, const hr_result *result, hr_error *error)
{
  HR_NEED(error, out, options, result);
  hr_document document;
  hr_status status = HR_OK;
  HR_TRY(hr_document_begin(&document, out, options, error));
  if (options->format == HR_FORMAT_CSV) {
    hr_csv_head(out);
    hr_csv_row(out, result);
  } else if (options->format == HR_FORMAT_JSON) {
    status = write_one_json(out, result, error);
  } else {
    status = write_fields(&document, result);
  }
  return hr_document_end(&document, status, error);
}

/* ---- what came ---- */

static const hr_column change_columns[] = {
    {"file", "file", HR_CELL_TEXT, 0},
    {"added", "added", HR_CELL_COUNT, 0},
    {"present", "already there", HR_CELL_COUNT, 0},
};

hr_status hr_report_changes(FILE *out, const hr_report_options *options, const char *const *names,
                            const hr_store_change *changes, size_t count, hr_error *error)
{
  HR_NEED(error, out, options);
  hr_document document;
  HR_TRY(hr_document_begin(&document, out, options, error));
  hr_table *table = hr_table_create(change_columns, COUNT_OF(change_columns));
  for (size_t i = 0; i < count; i++) {
    hr_put_text(table, names[i]);
    hr_put_count(table, changes[i].added);
    hr_put_count(table, changes[i].present);
  }
  hr_status status;
  if (options->format == HR_FORMAT_JSON) {
    bool failed;
    hr_json json = hr_json_document("results", &failed);
    hr_json_put_table(json, "changes", table);
    status = hr_json_write(out, json, error);
  } else {
    status = hr_put_table(&document, table, error);
  }
  return hr_document_end(&document, status, error);
}
