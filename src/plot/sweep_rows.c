/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the rows of a sweep from stores, and names their lines. */
#include "plot/sweep_rows.h"

#include "base/error.h"
#include "base/names.h"
#include "base/text.h"
#include "experiment/sweep/sweep.h"

#include <headroom/dtype.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One query. */
typedef struct reading {
  hr_plot_rows *rows;
  const hr_plot_options *options;
  const hr_sweep *sweep;
  const char *x; /* the axis */
  size_t source;
  hr_status status;
  char message[256];
} reading;

bool hr_plot_axis_value(const char *axes, const char *name, double *value)
{
  size_t length = strlen(name);
  for (const char *at = axes; at; at = strchr(at, ' ')) {
    at += *at == ' ';
    if (strncmp(at, name, length) == 0 && at[length] == '=') {
      char *rest;
      *value = hr_read_number(at + length + 1, &rest);
      return rest > at + length + 1 && isfinite(*value) && (*rest == ' ' || *rest == '\0');
    }
  }
  return false;
}

/* The number format of a row, which a layer has in its text only. */
static void copy_dtype(const hr_result *result, char *to, size_t size)
{
  const char *text = strstr(result->problem, " dtype=");
  char word[16] = "";
  if (text)
    hr_copy_text(word, sizeof word, text + strlen(" dtype="));
  word[strcspn(word, " ")] = '\0';
  hr_copy_text(to, size, word);
}

static hr_plot_row row_of(const hr_result *result, size_t source)
{
  const hr_measurement *m = &result->measurement;
  bool timed = m->samples > 0 && m->median_ns > 0;
  hr_plot_row row = {.source = source,
                     .cpu = strncmp(result->device, "cuda", 4) != 0,
                     .warm = m->warm,
                     .threads = result->threads,
                     .autotune = result->autotune,
                     .status = timed || m->status != HR_OK ? m->status : HR_ERROR_UNSUPPORTED,
                     .rate = timed ? m->flops_per_s : (double)NAN,
                     .median = timed ? m->median_ns : (double)NAN,
                     .low = timed ? m->median_low_ns : (double)NAN,
                     .high = timed ? m->median_high_ns : (double)NAN};
  hr_copy_text(row.date, sizeof row.date, result->date);
  hr_copy_text(row.series, sizeof row.series, result->series);
  hr_copy_text(row.axes, sizeof row.axes, result->axes);
  hr_copy_text(row.product, sizeof row.product, result->product[0] ? result->product : result->device);
  hr_copy_text(row.kernel_asked, sizeof row.kernel_asked, result->kernel_asked);
  hr_copy_text(row.parts, sizeof row.parts, result->parts);
  copy_dtype(result, row.dtype, sizeof row.dtype);
  return row;
}

static bool is_wanted(const hr_plot_options *options, const hr_plot_row *row)
{
  return (!options->series || strstr(row->series, options->series)) &&
         (!options->dtype || strcmp(row->dtype, options->dtype) == 0);
}

static size_t order_of(const hr_sweep *sweep, const char *series)
{
  size_t i = 0;
  while (i < sweep->series_count && strcmp(sweep->series[i], series) != 0)
    i++;
  return i;
}

/* Whether a row's x can be drawn: it is a case of the sweep, if x is the case. A CPU's sizes have as many. */
static bool is_of_sweep(const hr_sweep *sweep, const char *x_name, double x)
{
  return strcmp(x_name, "case") != 0 || (x >= 0 && x < (double)sweep->case_count);
}

static int take_row(void *context, const hr_result *result)
{
  reading *r = context;
  hr_plot_rows *rows = r->rows;
  hr_plot_row row = row_of(result, r->source);
  rows->seen++;
  row.order = order_of(r->sweep, row.series);
  if (!is_wanted(r->options, &row))
    return 0;
  if (!hr_plot_axis_value(row.axes, r->x, &row.x) || !is_of_sweep(r->sweep, r->x, row.x)) {
    rows->strange++;
    return 0;
  }
  if (rows->count == rows->capacity) {
    size_t capacity = rows->capacity ? 2 * rows->capacity : 64;
    hr_plot_row *moved = realloc(rows->rows, capacity * sizeof *moved);
    if (!moved) {
      r->status = HR_ERROR_OUT_OF_MEMORY;
      snprintf(r->message, sizeof r->message, "out of memory for %zu rows", capacity);
      return 1;
    }
    rows->rows = moved;
    rows->capacity = capacity;
  }
  rows->rows[rows->count++] = row;
  return 0;
}

static int compare_numbers(double a, double b)
{
  return a < b ? -1 : a > b;
}

/* "h/a = 8" before "h/a = 16": by the first number in it, then as text. */
static int compare_series(const char *a, const char *b)
{
  const char *p = strpbrk(a, "0123456789"), *q = strpbrk(b, "0123456789");
  int order = p && q ? compare_numbers(hr_read_number(p, NULL), hr_read_number(q, NULL)) : 0;
  return order != 0 && strncmp(a, b, (size_t)(p - a)) == 0 ? order : strcmp(a, b);
}

int hr_plot_compare_lines(const hr_plot_row *a, const hr_plot_row *b)
{
  int order = compare_numbers((double)a->order, (double)b->order);
  order = order ? order : compare_series(a->series, b->series);
  order = order ? order : strcmp(a->product, b->product);
  order = order ? order : strcmp(a->dtype, b->dtype);
  order = order ? order : compare_numbers((double)a->source, (double)b->source);
  order = order ? order : strcmp(a->kernel_asked, b->kernel_asked);
  order = order ? order : compare_numbers((double)a->threads, (double)b->threads);
  order = order ? order : (int)a->warm - (int)b->warm;
  return order ? order : compare_numbers((double)a->autotune, (double)b->autotune);
}

static int compare_rows(const void *a, const void *b)
{
  const hr_plot_row *p = a, *q = b;
  int order = hr_plot_compare_lines(p, q);
  order = order ? order : compare_numbers(p->x, q->x);
  order = order ? order : strcmp(p->axes, q->axes);
  return order ? order : strcmp(p->date, q->date);
}

/* Keeps the last of the rows of one point, which is the latest. */
static void keep_latest(hr_plot_rows *rows)
{
  size_t kept = 0;
  for (size_t i = 0; i < rows->count; i++) {
    bool again = i + 1 < rows->count && hr_plot_compare_lines(&rows->rows[i], &rows->rows[i + 1]) == 0 &&
                 strcmp(rows->rows[i].axes, rows->rows[i + 1].axes) == 0;
    if (!again)
      rows->rows[kept++] = rows->rows[i];
  }
  rows->count = kept;
}

static void find_differences(hr_plot_rows *rows)
{
  const hr_plot_row *first = rows->rows;
  for (size_t i = 0; i < rows->count; i++) {
    const hr_plot_row *row = &rows->rows[i];
    rows->several_sources |= i > 0 && row->source != row[-1].source && strcmp(row->product, row[-1].product) == 0;
    rows->several_gemms |= strcmp(row->product, first->product) != 0;
    rows->several_dtypes |= strcmp(row->dtype, first->dtype) != 0;
    rows->several_kernels |=
        strcmp(row->kernel_asked, first->kernel_asked) != 0 && strcmp(row->series, first->series) == 0;
    rows->several_threads |= row->threads != first->threads && strcmp(row->product, first->product) == 0;
    rows->several_tunings |= row->autotune != first->autotune;
    *(row->warm ? &rows->some_warm : &rows->some_cold) = true;
  }
}

hr_status hr_plot_read_rows(const hr_sweep *sweep, const hr_plot_source *sources, size_t source_count,
                            const hr_plot_options *options, hr_plot_rows *rows, hr_error *error)
{
  hr_sweep_about about = *hr_sweep_describe(sweep);
  hr_result_filter filter = hr_result_filter_default();
  filter.sweep = about.name;
  filter.device = options->device;
  *rows = (hr_plot_rows){.sources = sources};
  for (size_t i = 0; i < source_count && !options->no_rows; i++) {
    reading r = {.rows = rows, .options = options, .sweep = sweep, .x = about.x, .source = i, .status = HR_OK};
    hr_status status = hr_store_query(sources[i].store, &filter, take_row, &r, error);
    if (r.status != HR_OK)
      status = hr_fail(error, r.status, "%s: %s", sources[i].label, r.message);
    if (status != HR_OK) {
      free(rows->rows);
      rows->rows = NULL;
      return status;
    }
  }
  if (rows->count > 0)
    qsort(rows->rows, rows->count, sizeof *rows->rows, compare_rows);
  keep_latest(rows);
  find_differences(rows);
  return HR_OK;
}

static void add_word(char *to, size_t size, const char *word)
{
  size_t used = strlen(to);
  if (word[0])
    hr_write_text(to + used, size - used, "%s%s", used > 0 ? ", " : "", word);
}

void hr_plot_line_name(const hr_plot_rows *rows, const hr_plot_row *row, const char *otherwise, char *to, size_t size)
{
  char number[48];
  to[0] = '\0';
  add_word(to, size, row->series);
  if (rows->several_gemms)
    add_word(to, size, row->product);
  if (rows->several_dtypes)
    add_word(to, size, row->dtype);
  if (rows->several_sources)
    add_word(to, size, rows->sources[row->source].label);
  if (rows->several_kernels)
    add_word(to, size, row->kernel_asked[0] ? row->kernel_asked : "best kernel");
  if (rows->several_threads) {
    hr_write_text(number, sizeof number, "%lld threads", (long long)row->threads);
    add_word(to, size, number);
  }
  if (rows->several_tunings && row->autotune > 0)
    add_word(to, size, "autotuned");
  if (rows->some_warm && rows->some_cold)
    add_word(to, size, row->warm ? "warm caches" : "cold caches");
  if (!to[0])
    add_word(to, size, otherwise);
}
