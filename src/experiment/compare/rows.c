/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* strverscmp, qsort_r, strcasestr */
#include "experiment/compare/rows.h"

#include "base/error.h"
#include "experiment/compare/ratio.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- which rows ---- */

static bool contains(const char *text, const char *part)
{
  return !part || strcasestr(text, part);
}

/* "… dtype=bf16 …" as every problem has it. */
static bool has_dtype(const hr_result *row, const char *dtype)
{
  char word[32];
  int length = snprintf(word, sizeof word, " dtype=%s", dtype ? dtype : "");
  const char *at = dtype ? strstr(row->problem, word) : NULL;
  return !dtype || (at && (at[length] == ' ' || at[length] == '\0'));
}

static bool is_chosen(const hr_result *row, const hr_compare_side *side)
{
  bool until = !side->until || strncmp(row->date, side->until, strlen(side->until)) <= 0;
  return until && contains(row->libraries, side->libraries) && contains(row->driver, side->driver) &&
         contains(row->program, side->program) && contains(row->host, side->host) &&
         contains(row->measurement.kernel, side->kernel) && has_dtype(row, side->dtype);
}

/* ---- what they were measured with ---- */

static bool is_listed(const char *list, const char *text)
{
  size_t length = strlen(text);
  for (const char *at = list; (at = strstr(at, text)); at++) {
    bool begins = at == list || strncmp(at - 2, "; ", 2) == 0;
    if (begins && (at[length] == '\0' || strncmp(at + length, "; ", 2) == 0))
      return true;
  }
  return false;
}

static void add_to_list(char *list, size_t size, const char *text)
{
  size_t used = strlen(list);
  if (text[0] && !is_listed(list, text) && used + strlen(text) + 3 <= size)
    snprintf(list + used, size - used, "%s%s", used ? "; " : "", text);
}

static void add_origin(hr_compared_origin *origin, const hr_result *row)
{
  add_to_list(origin->products, sizeof origin->products, row->product[0] ? row->product : row->device);
  add_to_list(origin->libraries, sizeof origin->libraries, row->libraries);
  add_to_list(origin->drivers, sizeof origin->drivers, row->driver);
  add_to_list(origin->programs, sizeof origin->programs, row->program);
  add_to_list(origin->hosts, sizeof origin->hosts, row->host);
  if (origin->rows++ == 0)
    memcpy(origin->first, row->date, sizeof origin->first);
  memcpy(origin->last, row->date, sizeof origin->last);
}

/* ---- reading ---- */

typedef struct reading {
  const hr_compare_side *side;
  hr_compare_rows *rows;
  hr_compared_origin *origin;
  bool failed; /* memory ran out */
} reading;

static const char *put_text(char **to, const char *text)
{
  char *begin = *to;
  size_t size = strlen(text) + 1;
  memcpy(begin, text, size);
  *to += size;
  return begin;
}

static bool copy_texts(hr_compare_row *to, const hr_result *row)
{
  const char *texts[] = {
      row->sweep, row->series, row->axes, row->problem, row->kernel_asked, row->product, row->measurement.reason};
  size_t size = 0;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    size += strlen(texts[i]) + 1;
  char *at = to->texts = malloc(size);
  if (!at)
    return false;
  to->sweep = put_text(&at, row->sweep);
  to->series = put_text(&at, row->series);
  to->axes = put_text(&at, row->axes);
  to->problem = put_text(&at, row->problem);
  to->kernel_asked = put_text(&at, row->kernel_asked);
  to->product = put_text(&at, row->product);
  to->measured.reason = at;
  put_text(&at, row->measurement.reason);
  return true;
}

static bool has_time(const hr_measurement *m)
{
  return (m->status == HR_OK || m->status == HR_ERROR_NOISY) && isfinite(m->median_ns) && m->median_ns > 0;
}

static hr_compared_row measured_of(const hr_result *row)
{
  const hr_measurement *m = &row->measurement;
  hr_compared_row to = {.status = m->status,
                        .samples = m->samples,
                        .median_ns = (double)NAN,
                        .low_ns = (double)NAN,
                        .high_ns = (double)NAN};
  memcpy(to.date, row->date, sizeof to.date);
  if (has_time(m)) {
    to.median_ns = m->median_ns;
    hr_compared_interval(m, &to.low_ns, &to.high_ns);
  }
  return to;
}

static bool grow(hr_compare_rows *rows)
{
  size_t capacity = rows->capacity ? 2 * rows->capacity : 64;
  hr_compare_row *more = realloc(rows->rows, capacity * sizeof *more);
  if (!more)
    return false;
  rows->rows = more;
  rows->capacity = capacity;
  return true;
}

static int take_row(void *context, const hr_result *row)
{
  reading *r = context;
  hr_compare_rows *rows = r->rows;
  if (!is_chosen(row, r->side))
    return 0;
  hr_compare_row to = {.threads = row->threads,
                       .autotune = row->autotune,
                       .decode_part = row->decode_part,
                       .warm = row->measurement.warm,
                       .flops_per_s = row->measurement.flops_per_s,
                       .order = rows->count,
                       .measured = measured_of(row)};
  r->failed = (rows->count == rows->capacity && !grow(rows)) || !copy_texts(&to, row);
  if (r->failed)
    return 1;
  rows->rows[rows->count++] = to;
  add_origin(r->origin, row);
  return 0;
}

hr_status hr_compare_read(hr_store *store, const hr_compare_side *side, hr_compare_rows *rows,
                          hr_compared_origin *origin, hr_error *error)
{
  hr_result_filter filter = hr_result_filter_default();
  reading r = {.side = side, .rows = rows, .origin = origin};
  hr_dtype dtype;
  filter.sweep = side->sweep;
  filter.device = side->device;
  filter.since = side->until;
  if (hr_result_filter_check(&filter, NULL) != HR_OK) /* the same form of dates */
    return hr_fail(error, HR_ERROR_INVALID, "until: expected a date as in 2026-01-31 or 2026-01-31T23:59, found \"%s\"",
                   side->until);
  filter.since = side->since;
  if (side->dtype && hr_dtype_parse(side->dtype, &dtype) != HR_OK)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: there is no number format \"%s\"", side->dtype);
  snprintf(origin->name, sizeof origin->name, "%s", side->name ? side->name : hr_store_path(store));
  hr_status status = hr_store_query(store, &filter, take_row, &r, error);
  return r.failed ? hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for the rows of %s", origin->name) : status;
}

void hr_compare_rows_free(hr_compare_rows *rows)
{
  for (size_t i = 0; i < rows->count; i++)
    free(rows->rows[i].texts);
  free(rows->rows);
  *rows = (hr_compare_rows){.rows = NULL};
}

/* ---- points ---- */

hr_compare_key hr_compare_varies(const hr_compare_rows *rows)
{
  hr_compare_key key = {.product = false};
  for (size_t i = 1; i < rows->count; i++) {
    key.product = key.product || strcmp(rows->rows[i].product, rows->rows[0].product) != 0;
    key.threads = key.threads || rows->rows[i].threads != rows->rows[0].threads;
  }
  return key;
}

static int order_of(int64_t a, int64_t b)
{
  return (a > b) - (a < b);
}

int hr_compare_points(const hr_compare_row *a, const hr_compare_row *b, hr_compare_key key)
{
  int order = strverscmp(a->sweep, b->sweep); /* fig9 before fig10; 0 only for equal texts */
  if (order == 0)
    order = strverscmp(a->series, b->series);
  if (order == 0)
    order = strverscmp(a->axes, b->axes);
  if (order == 0)
    order = strverscmp(a->problem, b->problem);
  if (order == 0)
    order = strcmp(a->kernel_asked, b->kernel_asked);
  if (order == 0)
    order = order_of(a->autotune, b->autotune);
  if (order == 0)
    order = order_of(a->decode_part, b->decode_part);
  if (order == 0)
    order = order_of(a->warm, b->warm);
  if (order == 0 && key.product)
    order = strcmp(a->product, b->product);
  if (order == 0 && key.threads)
    order = order_of(a->threads, b->threads);
  return order;
}

static int by_point_then_date(const void *a, const void *b, void *context)
{
  const hr_compare_row *x = a, *y = b;
  int order = hr_compare_points(x, y, *(const hr_compare_key *)context);
  return order ? order : (x->order > y->order) - (x->order < y->order);
}

void hr_compare_latest(hr_compare_rows *rows, hr_compare_key key)
{
  size_t kept = 0;
  if (rows->count > 0)
    qsort_r(rows->rows, rows->count, sizeof *rows->rows, by_point_then_date, &key);
  for (size_t i = 0; i < rows->count; i++) {
    if (i + 1 < rows->count && hr_compare_points(&rows->rows[i], &rows->rows[i + 1], key) == 0)
      free(rows->rows[i].texts);
    else
      rows->rows[kept++] = rows->rows[i];
  }
  rows->count = kept;
}
