/* One sweep: its points with what was measured of them. */
#include "report/document.h"

#include "base/error.h"
#include "report/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const hr_column point_columns[] = {
    {"series", "line", HR_CELL_TEXT, 0},
    {"x", NULL, HR_CELL_COUNT, 0},
    {NULL, "x", HR_CELL_TEXT, 0},
    {"axes", NULL, HR_CELL_TEXT, 0},
    {"problem", NULL, HR_CELL_TEXT, 0},
    {NULL, "size", HR_CELL_TEXT, 3},
    {"status", "status", HR_CELL_TEXT, 0},
    {"reason", NULL, HR_CELL_TEXT, 0},
    {"median_ns", "time", HR_CELL_TIME, 0},
    {"median_low_ns", NULL, HR_CELL_TIME, 0},
    {"median_high_ns", NULL, HR_CELL_TIME, 0},
    {NULL, "±", HR_CELL_SHARE, 2},
    {"flops_per_s", "rate", HR_CELL_FLOPS_RATE, 0},
    {"ceiling_share", "of ceiling", HR_CELL_SHARE, 4},
    {"bytes_per_s", NULL, HR_CELL_BYTES_RATE, 0},
    {"samples", NULL, HR_CELL_COUNT, 0},
    {"kernel", "kernel", HR_CELL_TEXT, 1},
    {"date", NULL, HR_CELL_TEXT, 0},
    {"mean_ns", NULL, HR_CELL_TIME, 0},
    {"stddev_ns", NULL, HR_CELL_TIME, 0},
    {"min_ns", NULL, HR_CELL_TIME, 0},
    {"workspace_bytes", NULL, HR_CELL_NUMBER, 0},
    {"peak_bytes", NULL, HR_CELL_NUMBER, 0},
};

/* For people, of sweeps that compare ways of computing attention: the columns that such tables usually have, and
 * ours. */
static const hr_column attention_columns[] = {
    {NULL, "Kernel", HR_CELL_TEXT, 0}, {NULL, "Tier", HR_CELL_TEXT, 0},     {NULL, "Q_N", HR_CELL_TEXT, 0},
    {NULL, "K_N", HR_CELL_TEXT, 0},    {NULL, "head_dim", HR_CELL_TEXT, 0}, {NULL, "heads", HR_CELL_TEXT, 0},
    {NULL, "batch", HR_CELL_TEXT, 0},  {NULL, "avg_ms", HR_CELL_TEXT, 0},   {NULL, "std_ms", HR_CELL_TEXT, 0},
    {NULL, "min_ms", HR_CELL_TEXT, 0}, {NULL, "TFLOP/s", HR_CELL_TEXT, 0},  {NULL, "peak memory", HR_CELL_TEXT, 0},
};

#define ATTENTION_PREFIX "attention_"

static void write_size(char *to, size_t size, const hr_sweep_point *point)
{
  hr_operator op = {.kind = point->kind == HR_SWEEP_ATTENTION ? HR_KIND_ATTENTION
                            : point->kind == HR_SWEEP_BMM     ? HR_KIND_BMM
                                                              : HR_KIND_GEMM,
                    .gemm = point->gemm,
                    .attention = point->attention};
  if (point->kind == HR_SWEEP_LAYER)
    snprintf(to, size, "h %" PRId64 ", a %" PRId64, point->model.hidden, point->model.q_heads);
  else
    hr_write_operator_size(to, size, &op);
}

/* Half the width of the interval of the median, as a share of it. */
static double spread(const hr_measurement *m)
{
  if (m->samples < 2)
    return (double)NAN;
  return (m->median_high_ns - m->median_low_ns) / 2 / m->median_ns;
}

static void put_point(hr_table *table, const hr_sweep_point *point, const hr_sweep_row *row)
{
  const hr_measurement *m = &row->measurement;
  char size[160];
  write_size(size, sizeof size, point);
  hr_put_text(table, point->series[0] ? point->series : NULL);
  hr_put_count(table, point->x);
  hr_put_text(table, point->x_name);
  hr_put_text(table, point->axes);
  hr_put_text(table, point->problem);
  hr_put_text(table, size);
  hr_put_text(table, hr_status_name(m->status));
  hr_table_style(table, m->status == HR_OK ? HR_STYLE_GREEN : HR_STYLE_YELLOW);
  hr_put_text(table, m->reason[0] ? m->reason : NULL);
  hr_put(table, m->median_ns);
  hr_put(table, m->median_low_ns);
  hr_put(table, m->median_high_ns);
  hr_put(table, spread(m));
  hr_put(table, m->flops_per_s);
  hr_put(table, row->ceiling_share);
  hr_put(table, m->bytes_per_s);
  hr_put_count(table, m->samples);
  hr_put_text(table, m->kernel[0] ? m->kernel : NULL);
  hr_put_text(table, row->date);
  hr_put(table, m->mean_ns);
  hr_put(table, m->stddev_ns);
  hr_put(table, m->min_ns);
  hr_put(table, m->workspace_bytes);
  hr_put(table, m->peak_bytes);
}

static void put_formatted(hr_table *table, const char *format, ...) HR_PRINTF(2, 3);

static void put_formatted(hr_table *table, const char *format, ...)
{
  char text[128];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  hr_put_text(table, text);
}

/* Milliseconds; where there are none, why. */
static void put_ms(hr_table *table, const hr_measurement *m, double time_ns)
{
  char why[64];
  if (m->samples > 0) {
    put_formatted(table, "%.4f", time_ns * 1e-6);
    return;
  }
  snprintf(why, sizeof why, "%s", hr_status_name(m->status));
  for (char *at = why; (at = strchr(at, '_'));)
    *at = ' ';
  hr_put_text(table, why);
  hr_table_style(table, HR_STYLE_YELLOW);
}

static void put_memory(hr_table *table, const hr_measurement *m)
{
  char text[HR_NUMBER_SIZE];
  double bytes = isnan(m->peak_bytes) ? m->workspace_bytes : m->peak_bytes;
  if (m->samples > 0 && !isnan(bytes)) {
    hr_write_bytes(text, sizeof text, bytes);
    hr_put_text(table, text);
  } else {
    hr_put_none(table);
  }
}

/* The line's last word is the tier: "flash XS". */
static void put_attention(hr_table *table, const hr_sweep_point *point, const hr_sweep_row *row)
{
  const hr_attention *a = &point->attention;
  const hr_measurement *m = &row->measurement;
  const char *tier = strrchr(point->series, ' ');
  char heads[80], dims[48];
  bool equal = a->q_heads == a->k_heads && a->q_heads == a->v_heads;
  snprintf(heads, sizeof heads, equal ? "%" PRId64 : "%" PRId64 "/%" PRId64 "/%" PRId64, a->q_heads, a->k_heads,
           a->v_heads);
  snprintf(dims, sizeof dims, a->qk_dim == a->v_dim ? "%" PRId64 : "%" PRId64 "/%" PRId64, a->qk_dim, a->v_dim);
  hr_put_text(table, point->kernel + strlen(ATTENTION_PREFIX));
  put_formatted(table, "%s-seq%" PRId64 "-hd%s-%sh-%" PRId64 "b", tier ? tier + 1 : point->series, a->q_len, dims,
                heads, a->batch);
  put_formatted(table, "%" PRId64, a->q_len);
  put_formatted(table, "%" PRId64, a->kv_len);
  hr_put_text(table, dims);
  hr_put_text(table, heads);
  put_formatted(table, "%" PRId64, a->batch);
  put_ms(table, m, m->mean_ns);
  put_ms(table, m, m->stddev_ns);
  put_ms(table, m, m->min_ns);
  if (m->samples > 0)
    put_formatted(table, "%.3g", m->flops_per_s * 1e-12);
  else
    hr_put_none(table);
  put_memory(table, m);
}

/* The points that have a row, in the order of the file. */
static hr_status fill_table(hr_table *table, bool for_people, const hr_sweep *sweep, const hr_sweep_row *rows,
                            hr_dtype dtype, hr_error *error)
{
  size_t count = hr_sweep_describe(sweep).point_count;
  for (size_t i = 0; i < count; i++) {
    hr_sweep_point point;
    if (!rows[i].found)
      continue;
    HR_TRY(hr_sweep_point_at(sweep, i, dtype, &point, error));
    if (for_people)
      put_attention(table, &point, &rows[i]);
    else
      put_point(table, &point, &rows[i]);
  }
  return HR_OK;
}

/* Whether every point names a way of computing attention, and the table is for people. */
static bool compares_attention(const hr_sweep *sweep, const hr_report_options *options, hr_dtype dtype)
{
  hr_sweep_point point;
  hr_sweep_about about = hr_sweep_describe(sweep);
  bool people = options->format == HR_FORMAT_TABLE || options->format == HR_FORMAT_MARKDOWN;
  for (size_t i = 0; people && i < about.point_count; i++) {
    if (hr_sweep_point_at(sweep, i, dtype, &point, NULL) != HR_OK || !point.kernel[0])
      return false;
  }
  return people && about.kind == HR_SWEEP_ATTENTION;
}

static int64_t found_of(const hr_sweep *sweep, const hr_sweep_row *rows)
{
  int64_t found = 0;
  for (size_t i = 0; i < hr_sweep_describe(sweep).point_count; i++)
    found += rows[i].found;
  return found;
}

static hr_status write_json(FILE *out, const hr_sweep *sweep, const hr_sweep_row *rows, hr_table *table,
                            const char *device, hr_dtype dtype, hr_error *error)
{
  bool failed;
  hr_sweep_about about = hr_sweep_describe(sweep);
  hr_json json = hr_json_document("sweep", &failed);
  const struct {
    const char *key, *text;
  } texts[] = {{"name", about.name},     {"figure", about.figure},       {"title", about.title},
               {"source", about.source}, {"note", about.note},           {"kind", hr_sweep_kind_name(about.kind)},
               {"x", about.x},           {"x_label", about.x_label},     {"y_label", about.y_label},
               {"device", device},       {"dtype", hr_dtype_name(dtype)}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    hr_json_put_text(json, texts[i].key, texts[i].text[0] ? texts[i].text : NULL);
  hr_json_put_flag(json, "x_log2", about.x_log2);
  hr_json_put_count(json, "points", (int64_t)about.point_count);
  hr_json_put_count(json, "found", found_of(sweep, rows));
  hr_json_put_table(json, "rows", table);
  return hr_json_write(out, json, error);
}

/* Why points have no time, or a doubtful one: of each status how many, and the first one's reason. */
static void tell_reasons(const hr_document *document, const hr_sweep *sweep, const hr_sweep_row *rows, hr_dtype dtype)
{
  size_t points = hr_sweep_describe(sweep).point_count;
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
    hr_put_field(document, hr_status_name((hr_status)status), "%zu point%s, %s%s%s%s%s%s", count, count == 1 ? "" : "s",
                 count == 1 ? "" : "the first ", point.series, point.series[0] ? " at " : "at ", point.x_name,
                 reason[0] ? ": " : "", reason);
  }
}

static hr_status write_text(const hr_document *document, const hr_sweep *sweep, const hr_sweep_row *rows,
                            hr_table *table, const char *device, hr_dtype dtype, hr_error *error)
{
  hr_sweep_about about = hr_sweep_describe(sweep);
  if (document->options->format != HR_FORMAT_CSV) {
    hr_put_field(document, "sweep", "%s%s%s", about.name, about.title[0] ? ": " : "", about.title);
    if (about.source[0])
      hr_put_field(document, "source", "%s", about.source);
    if (about.note[0])
      hr_put_field(document, "note", "%s", about.note);
    hr_put_field(document, "x", "%s%s%s%s", about.x, about.x_label[0] ? " (" : "", about.x_label,
                 about.x_label[0] ? ")" : "");
    hr_put_field(document, "device", "%s, %s", device, hr_dtype_name(dtype));
    hr_put_field(document, "points", "%" PRId64 " of %zu have a row", found_of(sweep, rows), about.point_count);
    tell_reasons(document, sweep, rows, dtype);
    hr_put_heading(document, "Rows");
  }
  return hr_put_table(document, table, error);
}

hr_status hr_report_sweep(FILE *out, const hr_report_options *options, const hr_sweep *sweep, const hr_sweep_row *rows,
                          const char *device, hr_dtype dtype, hr_error *error)
{
  HR_NEED(error, out, options, sweep, rows, device);
  hr_document document;
  HR_TRY(hr_document_begin(&document, out, options, error));
  bool people = compares_attention(sweep, options, dtype);
  hr_table *table = people ? hr_table_create(attention_columns, sizeof attention_columns / sizeof *attention_columns)
                           : hr_table_create(point_columns, sizeof point_columns / sizeof *point_columns);
  hr_status status = fill_table(table, people, sweep, rows, dtype, error);
  if (status != HR_OK)
    hr_table_free(table);
  else if (options->format == HR_FORMAT_JSON)
    status = write_json(out, sweep, rows, table, device, dtype, error);
  else
    status = write_text(&document, sweep, rows, table, device, dtype, error);
  return hr_document_end(&document, status, error);
}
