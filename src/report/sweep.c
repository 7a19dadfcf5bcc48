/* SPDX-License-Identifier: Apache-2.0 */
/* `sweep NAME`: the points of a sweep with their measurements. */
#include "experiment/sweep/sweep.h"
#include "base/error.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "report/document.h"
#include "report/json.h"
#include "report/operators.h"

#include <headroom/experimental/collective.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct point_row {
  hr_sweep_point point;
  hr_sweep_row measured;
  double change, bytes_change; /* of time and of bytes from the baseline; NAN: none */
} point_row;

/* ---- the points of any sweep ---- */

static void size(const void *row, hr_cell *cell)
{
  const hr_sweep_point *point = row;
  hr_operator op = {.kind = point->kind == HR_SWEEP_ATTENTION ? HR_KIND_ATTENTION
                            : point->kind == HR_SWEEP_BMM     ? HR_KIND_BMM
                                                              : HR_KIND_GEMM,
                    .gemm = point->gemm,
                    .attention = point->attention};
  const hr_decode *d = &point->decode;
  if (point->kind == HR_SWEEP_DECODE)
    hr_cell_format(cell, "q %" PRId64 " kv %" PRId64 " d %" PRId64 " ×%" PRId64, d->q_len, d->kv_len, d->qk_dim,
                   d->batch * d->q_heads);
  else if (point->kind == HR_SWEEP_STEP)
    hr_cell_format(cell, "h %" PRId64 ", a %" PRId64 ", L %" PRId64, point->model.hidden,
                   point->model.groups[0].attention.q_heads, point->model.groups[0].count);
  else if (point->kind == HR_SWEEP_COLLECTIVE)
    hr_cell_format(cell, "%s of %" PRId64, hr_collective_name(point->collective.kind), point->collective.devices);
  else if (point->kind == HR_SWEEP_LAYER)
    hr_cell_format(cell, "h %" PRId64 ", a %" PRId64, point->model.hidden, point->model.groups[0].attention.q_heads);
  else
    hr_operator_size_cell(&op, cell);
}

/* Half the width of the median's interval over the median. */
static void spread(const void *member, hr_cell *cell)
{
  const hr_measurement *m = member;
  if (m->samples >= 2)
    hr_cell_set_number(cell, (m->median_high_ns - m->median_low_ns) / 2 / m->median_ns);
}

#define POINT(member) HR_MEMBER(point_row, point.member)
#define MEASURED(member) HR_OPTIONAL(point_row, measured.measurement.member)
static const hr_column point_columns[] = {
    {"series", "series", HR_PLAIN, 0, HR_OPTIONAL(point_row, point.series)},
    {"x", NULL, HR_PLAIN, 0, POINT(x)},
    {NULL, "x", HR_PLAIN, 0, POINT(x_name)},
    {"axes", NULL, HR_PLAIN, 0, POINT(axes)},
    {"problem", NULL, HR_PLAIN, 0, POINT(problem)},
    {NULL, "size", HR_PLAIN, 3, HR_COMPUTED_OF(TEXT, size, point_row, point)},
    {"status", "status", HR_PLAIN, 0, MEASURED(status)},
    {"reason", NULL, HR_PLAIN, 0, MEASURED(reason)},
    {"median_ns", "time", HR_TIME, 0, MEASURED(median_ns)},
    {"median_low_ns", NULL, HR_TIME, 0, MEASURED(median_low_ns)},
    {"median_high_ns", NULL, HR_TIME, 0, MEASURED(median_high_ns)},
    {NULL, "±", HR_SHARE, 2, HR_COMPUTED_OF(NUMBER, spread, point_row, measured.measurement)},
    {"flops_per_s", "rate", HR_FLOPS_RATE, 0, MEASURED(flops_per_s)},
    {"ceiling_share", "of ceiling", HR_SHARE, 4, HR_MEMBER(point_row, measured.ceiling_share)},
    {"bytes_per_s", NULL, HR_BYTES_RATE, 0, MEASURED(bytes_per_s)},
    {"samples", NULL, HR_PLAIN, 0, MEASURED(samples)},
    {"kernel", "kernel", HR_PLAIN, 1, MEASURED(kernel)},
    {"date", NULL, HR_PLAIN, 0, HR_MEMBER(point_row, measured.date)},
    {"mean_ns", NULL, HR_TIME, 0, MEASURED(mean_ns)},
    {"stddev_ns", NULL, HR_TIME, 0, MEASURED(stddev_ns)},
    {"min_ns", NULL, HR_TIME, 0, MEASURED(min_ns)},
    {"workspace_bytes", NULL, HR_BYTES, 0, MEASURED(workspace_bytes)},
    {"peak_bytes", NULL, HR_BYTES, 0, MEASURED(peak_bytes)},
    {"change", NULL, HR_GAIN, 0, HR_MEMBER(point_row, change)},
    {"bytes_change", NULL, HR_GAIN, 0, HR_MEMBER(point_row, bytes_change)},
    {"selection_error", NULL, HR_PLAIN, 0, MEASURED(selection_error)},
};

/* These are for people, of sweeps of decode calls and collectives, which bytes bound. */
static const hr_column decode_columns[] = {
    {NULL, "series", HR_PLAIN, 0, HR_OPTIONAL(point_row, point.series)},
    {NULL, "x", HR_PLAIN, 0, POINT(x_name)},
    {NULL, "size", HR_PLAIN, 3, HR_COMPUTED_OF(TEXT, size, point_row, point)},
    {NULL, "status", HR_PLAIN, 0, MEASURED(status)},
    {NULL, "time", HR_TIME, 0, MEASURED(median_ns)},
    {NULL, "±", HR_SHARE, 2, HR_COMPUTED_OF(NUMBER, spread, point_row, measured.measurement)},
    {NULL, "rate", HR_BYTES_RATE, 0, MEASURED(bytes_per_s)},
    {NULL, "change", HR_GAIN, 0, HR_MEMBER(point_row, change)},
    {NULL, "of bytes", HR_GAIN, 0, HR_MEMBER(point_row, bytes_change)},
    {NULL, "error of top-k", HR_SHARE, 0, MEASURED(selection_error), .rare = true},
    {NULL, "kernel", HR_PLAIN, 1, MEASURED(kernel)},
};

/* ---- sweeps that compare attention kernels, for people: the columns that such tables usually have, and ours ---- */

#define ATTENTION_PREFIX "attention_"

static void kernel_family(const void *row, hr_cell *cell)
{
  hr_cell_set_text(cell, ((const point_row *)row)->point.kernel + strlen(ATTENTION_PREFIX));
}

static void head_dim(const void *row, hr_cell *cell)
{
  const hr_attention *a = &((const point_row *)row)->point.attention;
  if (a->qk_dim == a->v_dim)
    hr_cell_format(cell, "%" PRId64, a->qk_dim);
  else
    hr_cell_format(cell, "%" PRId64 "/%" PRId64, a->qk_dim, a->v_dim);
}

static void heads(const void *row, hr_cell *cell)
{
  const hr_attention *a = &((const point_row *)row)->point.attention;
  if (a->q_heads == a->k_heads && a->q_heads == a->v_heads)
    hr_cell_format(cell, "%" PRId64, a->q_heads);
  else
    hr_cell_format(cell, "%" PRId64 "/%" PRId64 "/%" PRId64, a->q_heads, a->k_heads, a->v_heads);
}

/* "XS-seq128-hd64-8h-4b"; the last word of the line's name is the tier: "flash XS". */
static void tier(const void *row, hr_cell *cell)
{
  const point_row *r = row;
  const char *word = strrchr(r->point.series, ' ');
  hr_cell dims, head_counts;
  head_dim(row, &dims);
  heads(row, &head_counts);
  hr_cell_format(cell, "%s-seq%" PRId64 "-hd%s-%sh-%" PRId64 "b", word ? word + 1 : r->point.series,
                 r->point.attention.q_len, dims.text, head_counts.text, r->point.attention.batch);
}

static void plain_count(const void *member, hr_cell *cell)
{
  hr_cell_format(cell, "%" PRId64, *(const int64_t *)member);
}

/* Milliseconds, or why there are none. */
static void set_ms(hr_cell *cell, const hr_measurement *m, double time_ns)
{
  if (m->samples > 0) {
    hr_cell_format(cell, "%.4f", time_ns * 1e-6);
    return;
  }
  hr_cell_set_text(cell, hr_status_name(m->status));
  for (char *at = cell->text; (at = strchr(at, '_'));)
    *at = ' ';
  cell->style = HR_STYLE_YELLOW;
}

static void mean_ms(const void *member, hr_cell *cell)
{
  set_ms(cell, member, ((const hr_measurement *)member)->mean_ns);
}

static void stddev_ms(const void *member, hr_cell *cell)
{
  set_ms(cell, member, ((const hr_measurement *)member)->stddev_ns);
}

static void min_ms(const void *member, hr_cell *cell)
{
  set_ms(cell, member, ((const hr_measurement *)member)->min_ns);
}

static void tflops(const void *member, hr_cell *cell)
{
  const hr_measurement *m = member;
  if (m->samples > 0)
    hr_cell_format(cell, "%.3g", m->flops_per_s * 1e-12);
}

static void memory(const void *member, hr_cell *cell)
{
  const hr_measurement *m = member;
  double bytes = isnan(m->peak_bytes) ? m->workspace_bytes : m->peak_bytes;
  char text[HR_NUMBER_SIZE];
  hr_write_bytes(text, sizeof text, bytes);
  if (m->samples > 0 && !isnan(bytes))
    hr_cell_set_text(cell, text);
}

#define SIZE(member) HR_COMPUTED_OF(TEXT, plain_count, point_row, point.attention.member)
#define FROM_MEASUREMENT(function) HR_COMPUTED_OF(TEXT, function, point_row, measured.measurement)
static const hr_column attention_columns[] = {
    {NULL, "Kernel", HR_PLAIN, 0, HR_COMPUTED(TEXT, kernel_family)},
    {NULL, "Tier", HR_PLAIN, 0, HR_COMPUTED(TEXT, tier)},
    {NULL, "Q_N", HR_PLAIN, 0, SIZE(q_len)},
    {NULL, "K_N", HR_PLAIN, 0, SIZE(kv_len)},
    {NULL, "head_dim", HR_PLAIN, 0, HR_COMPUTED(TEXT, head_dim)},
    {NULL, "heads", HR_PLAIN, 0, HR_COMPUTED(TEXT, heads)},
    {NULL, "batch", HR_PLAIN, 0, SIZE(batch)},
    {NULL, "avg_ms", HR_PLAIN, 0, FROM_MEASUREMENT(mean_ms)},
    {NULL, "std_ms", HR_PLAIN, 0, FROM_MEASUREMENT(stddev_ms)},
    {NULL, "min_ms", HR_PLAIN, 0, FROM_MEASUREMENT(min_ms)},
    {NULL, "TFLOP/s", HR_PLAIN, 0, FROM_MEASUREMENT(tflops)},
    {NULL, "peak memory", HR_PLAIN, 0, FROM_MEASUREMENT(memory)},
};

/* ---- the document ---- */

static double bytes_of(const hr_sweep_point *point)
{
  int64_t bytes = 0;
  hr_status status = HR_ERROR_UNSUPPORTED;
  switch (point->kind) {
  case HR_SWEEP_GEMM:
  case HR_SWEEP_BMM: status = hr_gemm_bytes(&point->gemm, &bytes); break;
  case HR_SWEEP_ATTENTION: status = hr_attention_bytes(&point->attention, &bytes); break;
  case HR_SWEEP_DECODE: status = hr_decode_bytes(&point->decode, &bytes); break;
  case HR_SWEEP_COLLECTIVE: return (double)point->collective.bytes;
  default: break; /* a layer's are not counted */
  }
  return status == HR_OK ? (double)bytes : (double)NAN;
}

static hr_status compare(const hr_sweep *sweep, const hr_sweep_row *rows, hr_dtype dtype, point_row *row,
                         hr_error *error)
{
  size_t base = hr_sweep_baseline(sweep, row->point.index);
  hr_sweep_point point;
  row->change = row->bytes_change = (double)NAN;
  if (base == SIZE_MAX)
    return HR_OK;
  HR_TRY(hr_sweep_point_at(sweep, base, dtype, &point, error));
  if (point.decode_part != 2) /* combining reads and writes the same whatever K and V are */
    row->bytes_change = bytes_of(&row->point) / bytes_of(&point) - 1;
  const hr_measurement *m = &row->measured.measurement, *of_base = &rows[base].measurement;
  if (rows[base].found && of_base->samples > 0 && m->samples > 0)
    row->change = m->median_ns / of_base->median_ns - 1;
  return HR_OK;
}

/* Adds the points that have a row, in the order of the file. */
static hr_status fill_table(hr_table *table, const hr_sweep *sweep, const hr_sweep_row *rows, hr_dtype dtype,
                            hr_error *error)
{
  size_t count = hr_sweep_describe(sweep)->point_count;
  for (size_t i = 0; i < count; i++) {
    point_row row = {.measured = rows[i]};
    if (!rows[i].found)
      continue;
    HR_TRY(hr_sweep_point_at(sweep, i, dtype, &row.point, error));
    HR_TRY(compare(sweep, rows, dtype, &row, error));
    hr_table_add(table, &row);
  }
  return HR_OK;
}

static bool is_bound_by_bytes(const hr_sweep *sweep)
{
  const hr_sweep_kind kind = hr_sweep_describe(sweep)->kind;
  return kind == HR_SWEEP_DECODE || kind == HR_SWEEP_COLLECTIVE;
}

static bool is_for_people(const hr_report_options *options)
{
  return options->format == HR_FORMAT_TABLE || options->format == HR_FORMAT_MARKDOWN;
}

/* Whether every point names an attention kernel, and the table is for people. */
static bool compares_attention(const hr_sweep *sweep, const hr_report_options *options, hr_dtype dtype)
{
  hr_sweep_point point;
  hr_sweep_about about = *hr_sweep_describe(sweep);
  bool people = is_for_people(options);
  for (size_t i = 0; people && i < about.point_count; i++) {
    if (hr_sweep_point_at(sweep, i, dtype, &point, NULL) != HR_OK || !point.kernel[0])
      return false;
  }
  return people && about.kind == HR_SWEEP_ATTENTION;
}

static int64_t count_found(const hr_sweep *sweep, const hr_sweep_row *rows)
{
  int64_t found = 0;
  for (size_t i = 0; i < hr_sweep_describe(sweep)->point_count; i++)
    found += rows[i].found;
  return found;
}

#define ABOUT(member) HR_OPTIONAL_FIELD(hr_sweep_about, member)
static const hr_column about_fields[] = {
    ABOUT(name), ABOUT(figure), ABOUT(title),   ABOUT(source),  ABOUT(note),
    ABOUT(kind), ABOUT(x),      ABOUT(x_label), ABOUT(y_label), ABOUT(baseline),
};

static hr_status write_json(FILE *out, const hr_sweep *sweep, const hr_sweep_row *rows, hr_table *table,
                            const char *device, hr_dtype dtype, hr_error *error)
{
  bool failed;
  hr_sweep_about about = *hr_sweep_describe(sweep);
  hr_json json = hr_json_document("sweep/1", &failed);
  hr_json_put_fields(json, about_fields, HR_COUNT_OF(about_fields), &about);
  hr_json_put_text(json, "device", device[0] ? device : NULL);
  hr_json_put_text(json, "dtype", hr_dtype_name(dtype));
  hr_json_put_flag(json, "x_log2", about.x_log2);
  hr_json_put_count(json, "points", (int64_t)about.point_count);
  hr_json_put_count(json, "found", count_found(sweep, rows));
  hr_json_put_table(json, "rows", table);
  return hr_json_write(out, json, error);
}

/* For each status but ok: how many points have it, and the reason of the first. */
static void print_reasons(const hr_document *document, const hr_sweep *sweep, const hr_sweep_row *rows, hr_dtype dtype)
{
  size_t points = hr_sweep_describe(sweep)->point_count;
  for (int status = HR_OK + 1; status < HR_STATUS_COUNT; status++) {
    size_t count = 0, first = 0;
    for (size_t i = points; i-- > 0;) {
      bool is = rows[i].found && rows[i].measurement.status == (hr_status)status;
      first = is ? i : first;
      count += is;
    }
    hr_sweep_point point;
    if (count == 0 || hr_sweep_point_at(sweep, first, dtype, &point, NULL) != HR_OK)
      continue;
    const char *reason = rows[first].measurement.reason;
    hr_print_field(document, hr_status_name((hr_status)status), "%zu point%s, %s%s%s%s%s%s", count,
                   count == 1 ? "" : "s", count == 1 ? "" : "the first ", point.series,
                   point.series[0] ? " at " : "at ", point.x_name, reason[0] ? ": " : "", reason);
  }
}

static hr_status write_text(const hr_document *document, const hr_sweep *sweep, const hr_sweep_row *rows,
                            hr_table *table, const char *device, hr_dtype dtype, hr_error *error)
{
  hr_sweep_about about = *hr_sweep_describe(sweep);
  if (document->options->format != HR_FORMAT_CSV) {
    hr_print_field(document, "sweep", "%s%s%s", about.name, about.title[0] ? ": " : "", about.title);
    if (about.source[0])
      hr_print_field(document, "source", "%s", about.source);
    if (about.note[0])
      hr_print_field(document, "note", "%s", about.note);
    hr_print_field(document, "x", "%s%s%s%s", about.x, about.x_label[0] ? " (" : "", about.x_label,
                   about.x_label[0] ? ")" : "");
    if (about.baseline[0])
      hr_print_field(document, "change", "of time, and of bytes, from %s at the same x", about.baseline);
    hr_print_field(document, "device", "%s, %s", device, hr_dtype_name(dtype));
    hr_print_field(document, "points", "%" PRId64 " of %zu have a row", count_found(sweep, rows), about.point_count);
    print_reasons(document, sweep, rows, dtype);
    hr_print_heading(document, "Rows");
  }
  return hr_print_table(document, table, error);
}

static hr_table *create_table(const hr_sweep *sweep, const hr_report_options *options, hr_dtype dtype)
{
  if (compares_attention(sweep, options, dtype))
    return HR_TABLE_OF(attention_columns, point_row);
  if (is_bound_by_bytes(sweep) && is_for_people(options))
    return HR_TABLE_OF(decode_columns, point_row);
  return HR_TABLE_OF(point_columns, point_row);
}

hr_status hr_report_sweep(FILE *out, const hr_report_options *options, const hr_sweep_report *report, hr_error *error)
{
  HR_NEED(error, out, options, report);
  const hr_sweep *sweep = report->sweep;
  const hr_sweep_row *rows = report->rows;
  const char *device = report->device;
  HR_NEED(error, sweep, rows, device);
  const hr_dtype dtype = report->dtype;
  HR_TAKE(hr_report_options, options, error);
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_table *table = create_table(sweep, options, dtype);
  hr_status status = fill_table(table, sweep, rows, dtype, error);
  if (status != HR_OK)
    hr_table_free(table);
  else if (options->format == HR_FORMAT_JSON)
    status = write_json(out, sweep, rows, table, device, dtype, error);
  else
    status = write_text(&document, sweep, rows, table, device, dtype, error);
  return hr_document_end(&document, status, error);
}
