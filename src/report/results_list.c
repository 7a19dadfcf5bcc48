/* SPDX-License-Identifier: Apache-2.0 */
/* `results list`: rows of the store. CSV and JSON have the columns of the store. */
#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "report/document.h"
#include "report/json_stream.h"
#include "runtime/store/format.h"

#include <inttypes.h>
#include <string.h>

static void short_id(const void *row, hr_cell *cell)
{
  hr_cell_format(cell, "%.8s", ((const hr_result *)row)->id);
}

/* Writes the time to the minute: "2026-01-31 23:59". */
static void minute(const void *row, hr_cell *cell)
{
  hr_cell_format(cell, "%.16s", ((const hr_result *)row)->date);
  char *separator = strchr(cell->text, 'T');
  if (separator)
    *separator = ' ';
}

/* "4 × q 128 kv 2048, heads 32/4/16 of 128". */
static void size_of_call(const hr_attention *a, const char *pass, hr_cell *cell)
{
  char v_dim[32] = "";
  if (a->v_dim != a->qk_dim)
    snprintf(v_dim, sizeof v_dim, "/%" PRId64, a->v_dim);
  hr_cell_format(
      cell, "%" PRId64 " × q %" PRId64 " kv %" PRId64 ", heads %" PRId64 "/%" PRId64 "/%" PRId64 " of %" PRId64 "%s%s",
      a->batch, a->q_len, a->kv_len, a->q_heads, a->k_heads, a->v_heads, a->qk_dim, v_dim, pass);
}

/* "1024×4096×2560 ×32", an attention or decode call as above, else the problem as it is stored. */
static void size(const void *row, hr_cell *cell)
{
  const hr_result *result = row;
  const hr_gemm *g = &result->gemm;
  const hr_decode *d = &result->decode;
  char batch[32] = "";
  if (g->batch != 1)
    snprintf(batch, sizeof batch, " ×%" PRId64, g->batch);
  switch (result->kind) {
  case HR_RESULT_GEMM: hr_cell_format(cell, "%" PRId64 "×%" PRId64 "×%" PRId64 "%s", g->m, g->n, g->k, batch); break;
  case HR_RESULT_ATTENTION: size_of_call(&result->attention, result->backward ? ", backward" : "", cell); break;
  case HR_RESULT_DECODE:
    size_of_call(&(hr_attention){.batch = d->batch,
                                 .q_len = d->q_len,
                                 .kv_len = d->kv_len,
                                 .q_heads = d->q_heads,
                                 .k_heads = d->k_heads,
                                 .v_heads = d->v_heads,
                                 .qk_dim = d->qk_dim,
                                 .v_dim = d->v_dim},
                 "", cell);
    break;
  default: hr_cell_set_text(cell, result->problem);
  }
}

static void number_format(const void *row, hr_cell *cell)
{
  const hr_result *result = row;
  switch (result->kind) {
  case HR_RESULT_GEMM: hr_cell_set_text(cell, hr_dtype_name(result->gemm.dtype)); break;
  case HR_RESULT_ATTENTION: hr_cell_set_text(cell, hr_dtype_name(result->attention.dtype)); break;
  case HR_RESULT_DECODE: hr_cell_set_text(cell, hr_dtype_name(result->decode.dtype)); break;
  default: break;
  }
}

static void device(const void *row, hr_cell *cell)
{
  const hr_result *result = row;
  hr_cell_set_text(cell, result->product[0] ? result->product : result->device);
}

#define RESULT(member) HR_OPTIONAL(hr_result, member)
static const hr_column columns[] = {
    {NULL, "id", HR_PLAIN, 0, HR_COMPUTED(TEXT, short_id)},
    {NULL, "date", HR_PLAIN, 4, HR_COMPUTED(TEXT, minute)},
    {NULL, "sweep", HR_PLAIN, 3, RESULT(sweep)},
    {NULL, "series", HR_PLAIN, 8, RESULT(series)},
    {NULL, "operation", HR_PLAIN, 5, RESULT(kind)},
    {NULL, "size", HR_PLAIN, 0, HR_COMPUTED(TEXT, size)},
    {NULL, "dtype", HR_PLAIN, 2, HR_COMPUTED(TEXT, number_format)},
    {NULL, "device", HR_PLAIN, 6, HR_COMPUTED(TEXT, device), .optional = true},
    {NULL, "kernel", HR_PLAIN, 7, RESULT(measurement.kernel)},
    {NULL, "time", HR_TIME, 0, RESULT(measurement.median_ns)},
    {NULL, "rate", HR_FLOPS_RATE, 0, RESULT(measurement.flops_per_s)},
    {NULL, "of ceiling", HR_SHARE, 9, RESULT(ceiling_share)},
    {NULL, "status", HR_PLAIN, 0, RESULT(measurement.status)},
};

static int add_row(void *context, const hr_result *result)
{
  hr_table_add(context, result);
  return 0;
}

static hr_status write_table(const hr_document *document, hr_store *store, const hr_result_filter *filter,
                             hr_error *error)
{
  hr_table *table = HR_TABLE_OF(columns, hr_result);
  hr_status status = hr_store_query(store, filter, add_row, table, error);
  if (status == HR_OK && !(hr_table_is_empty(table) && document->options->format == HR_FORMAT_TABLE))
    return hr_print_table(document, table, error);
  if (status == HR_OK)
    hr_print_paragraph(document, "No row matches.");
  hr_table_free(table);
  return status;
}

/* Rows that are written as they are read. */
typedef struct json_rows {
  FILE *out;
  const hr_store *store;
  int64_t count;
  hr_status status;
  hr_error *error;
} json_rows;

static hr_status begin_json(const json_rows *rows)
{
  bool failed;
  hr_json document = hr_json_document("results/1", &failed);
  hr_json_put_text(document, "store", hr_store_path(rows->store));
  return hr_json_stream_begin(rows->out, document, "results", rows->error);
}

static int add_json(void *context, const hr_result *result)
{
  json_rows *rows = context;
  if (rows->count == 0)
    rows->status = begin_json(rows);
  if (rows->status == HR_OK)
    rows->status = hr_json_stream_item(rows->out, rows->count++ == 0, hr_result_json(result), rows->error);
  return rows->status != HR_OK || ferror(rows->out);
}

static hr_status write_json(FILE *out, hr_store *store, const hr_result_filter *filter, hr_error *error)
{
  json_rows rows = {.out = out, .store = store, .status = HR_OK, .error = error};
  hr_error reading = {.status = HR_OK};
  hr_status status = hr_store_query(store, filter, add_json, &rows, &reading);
  if (rows.status != HR_OK || ferror(out))
    return rows.status; /* hr_document_end() reports the stream */
  if (status != HR_OK)
    return hr_fail(error, status, "%s", reading.message);
  HR_TRY(rows.count == 0 ? begin_json(&rows) : HR_OK);
  hr_json_stream_end(out, rows.count == 0);
  return HR_OK;
}

hr_status hr_report_results(FILE *out, const hr_report_options *options, hr_store *store,
                            const hr_result_filter *filter, hr_error *error)
{
  HR_NEED(error, out, options, store);
  HR_TAKE(hr_report_options, options, error);
  HR_TAKE(hr_result_filter, filter, error);
  hr_document document;
  if (options->format == HR_FORMAT_CSV)
    return hr_store_export(store, filter, HR_STORE_CSV, out, error);
  hr_document_begin(&document, out, options);
  hr_status status = options->format == HR_FORMAT_JSON ? write_json(out, store, filter, error)
                                                       : write_table(&document, store, filter, error);
  return hr_document_end(&document, status, error);
}
