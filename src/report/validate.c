/* SPDX-License-Identifier: Apache-2.0 */
/* `validate`: errors of predictions by kind and size, and the worst rows. */
#include "base/error.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"
#include "report/document.h"
#include "report/inputs.h"
#include "report/json.h"
#include "report/validated_rows.h"

#include <headroom/experimental/collective.h>
#include <headroom/experimental/hardware.h>
#include <headroom/experimental/model.h>
#include <headroom/experimental/validate.h>
#include <inttypes.h>
#include <math.h>

/* ---- groups ---- */

static void group_kind(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, hr_interval_kind_name(*(const hr_interval_kind *)member));
}

/* The ends are null in the row of all sizes. */
static void least(const void *row, hr_cell *cell)
{
  const hr_validated_group *group = row;
  hr_cell_set_number(cell, isfinite(group->max_ns) || group->min_ns > 0 ? group->min_ns : (double)NAN);
}

static void predicted_size(const void *row, hr_cell *cell)
{
  const hr_validated_group *group = row;
  char low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE];
  hr_write_time(low, sizeof low, group->min_ns);
  hr_write_time(high, sizeof high, group->max_ns);
  if (isfinite(group->max_ns) && group->min_ns > 0)
    hr_cell_format(cell, "%s to %s", low, high);
  else if (isfinite(group->max_ns))
    hr_cell_format(cell, "below %s", high);
  else if (group->min_ns > 0)
    hr_cell_format(cell, "%s and more", low);
  else
    hr_cell_set_text(cell, "all");
}

#define GROUP(member) HR_MEMBER(hr_validated_group, member)
static const hr_column group_columns[] = {
    {"kind", "kind", HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, group_kind, hr_validated_group, kind)},
    {NULL, "predicted time", HR_PLAIN, 0, HR_COMPUTED(TEXT, predicted_size)},
    {"least_ns", NULL, HR_TIME, 0, HR_COMPUTED(NUMBER, least)},
    {"most_ns", NULL, HR_TIME, 0, GROUP(max_ns)},
    {"rows", "rows", HR_PLAIN, 0, GROUP(rows)},
    {"median", "median", HR_SHARE, 0, GROUP(median)},
    {"mean", "mean", HR_SHARE, 0, GROUP(mean)},
    {"p90", "90% within", HR_SHARE, 0, GROUP(p90)},
    {"bias", "bias", HR_GAIN, 0, GROUP(bias)},
    {"coverage", "in the interval", HR_SHARE, 0, GROUP(coverage)},
    {"rank_correlation", "rank correlation", HR_PLAIN, 0, GROUP(rank_correlation)},
};

/* ---- rows ---- */

static bool is_attention(const hr_validated_row *r)
{
  return r->kind >= HR_INTERVAL_ATTENTION && r->kind <= HR_INTERVAL_LATENT_PREFILL;
}

static void format_of(const void *row, hr_cell *cell)
{
  const hr_validated_row *r = row;
  const hr_dtype dtype = is_attention(r)                  ? r->attention.dtype
                         : r->kind == HR_INTERVAL_EXPERTS ? r->experts.dtype
                         : r->kind == HR_INTERVAL_SCAN    ? r->scan.dtype
                                                          : r->gemm.dtype;
  hr_cell_set_text(cell, hr_dtype_name(dtype));
}

static void shape(const void *row, hr_cell *cell)
{
  const hr_validated_row *r = row;
  const hr_gemm *g = &r->gemm;
  const hr_attention *a = &r->attention;
  char window[32] = "";
  if (a->window > 0)
    snprintf(window, sizeof window, ", window %" PRId64, a->window);
  if (r->kind == HR_INTERVAL_COLLECTIVE)
    hr_cell_format(cell, "%s of %" PRId64 ", %s, %" PRId64 " bytes", hr_collective_name(r->collective.kind),
                   r->collective.devices, hr_collective_library_name(r->collective.library), r->collective.bytes);
  else if (r->kind == HR_INTERVAL_SCAN)
    hr_cell_format(cell, "%s, %" PRId64 " × %" PRId64 ", %" PRId64 " heads of %" PRId64 ", state %" PRId64,
                   hr_recurrence_name(r->scan.recurrence), r->scan.batch, r->scan.tokens, r->scan.heads,
                   r->scan.head_dim, r->scan.state);
  else if (r->kind == HR_INTERVAL_EXPERTS)
    hr_cell_format(cell, "%" PRId64 " rows, %" PRId64 " experts %" PRId64 "×%" PRId64, r->experts.rows,
                   r->experts.experts, r->experts.hidden, r->experts.width);
  else if (is_attention(r))
    hr_cell_format(cell, "%" PRId64 " × %" PRId64 " over %" PRId64 ", %" PRId64 "/%" PRId64 " heads of %" PRId64 "%s",
                   a->batch, a->q_len, a->kv_len, a->q_heads, a->k_heads, a->qk_dim, window);
  else if (g->batch > 1)
    hr_cell_format(cell, "%" PRId64 "×%" PRId64 "×%" PRId64 " ×%" PRId64, g->m, g->n, g->k, g->batch);
  else
    hr_cell_format(cell, "%" PRId64 "×%" PRId64 "×%" PRId64, g->m, g->n, g->k);
}

static void set_size_of_kind(const hr_validated_row *r, int64_t of_gemm, int64_t of_attention, int64_t of_scan,
                             hr_cell *cell)
{
  const bool has_none = r->kind == HR_INTERVAL_EXPERTS || r->kind == HR_INTERVAL_COLLECTIVE;
  const int64_t size = is_attention(r) ? of_attention : r->kind == HR_INTERVAL_SCAN ? of_scan : has_none ? -1 : of_gemm;
  if (size >= 0)
    hr_cell_set_count(cell, size);
}

/* Sizes as columns of `--from`; those of another kind stay empty. */
#define SIZE_OF(name, of_gemm, of_attention, of_scan)          \
  static void name(const void *row, hr_cell *cell)             \
  {                                                            \
    const hr_validated_row *r = row;                           \
    set_size_of_kind(r, of_gemm, of_attention, of_scan, cell); \
  }
SIZE_OF(size_m, r->gemm.m, r->attention.q_len, -1)
SIZE_OF(size_n, r->gemm.n, r->attention.kv_len, -1)
SIZE_OF(size_k, r->gemm.k, -1, -1)
SIZE_OF(size_batch, r->gemm.batch, r->attention.batch, r->scan.batch)
SIZE_OF(transpose_a, r->gemm.transpose_a, -1, -1)
SIZE_OF(transpose_b, r->gemm.transpose_b, -1, -1)
SIZE_OF(q_heads, -1, r->attention.q_heads, -1)
SIZE_OF(kv_heads, -1, r->attention.k_heads, -1)
SIZE_OF(head_dim, -1, r->attention.qk_dim, r->scan.head_dim)
SIZE_OF(causal, -1, r->attention.mask == HR_MASK_CAUSAL, -1)
SIZE_OF(window_of, -1, r->attention.window, -1)
SIZE_OF(scan_tokens, -1, -1, r->scan.tokens)
SIZE_OF(scan_heads, -1, -1, r->scan.heads)
SIZE_OF(scan_state, -1, -1, r->scan.state)
SIZE_OF(scan_groups, -1, -1, r->scan.groups)
SIZE_OF(scan_chunk, -1, -1, r->scan.chunk)
#undef SIZE_OF

static void framework(const void *row, hr_cell *cell)
{
  const hr_validated_row *r = row;
  if (is_attention(r))
    hr_cell_set_text(cell, hr_framework_name(r->framework));
}

static void recurrence(const void *row, hr_cell *cell)
{
  const hr_validated_row *r = row;
  if (r->kind == HR_INTERVAL_SCAN)
    hr_cell_set_text(cell, hr_recurrence_name(r->scan.recurrence));
}

static void phase(const void *row, hr_cell *cell)
{
  const hr_validated_row *r = row;
  if (r->kind == HR_INTERVAL_SCAN)
    hr_cell_set_text(cell, r->scan.updates ? "decode" : "prefill");
}

static void collective(const void *row, hr_cell *cell)
{
  const hr_validated_row *r = row;
  if (r->kind == HR_INTERVAL_COLLECTIVE)
    hr_cell_set_text(cell, hr_collective_name(r->collective.kind));
}

static void library(const void *row, hr_cell *cell)
{
  const hr_validated_row *r = row;
  if (r->kind == HR_INTERVAL_COLLECTIVE)
    hr_cell_set_text(cell, hr_collective_library_name(r->collective.library));
}

static void gpus(const void *row, hr_cell *cell)
{
  const hr_validated_row *r = row;
  if (r->kind == HR_INTERVAL_COLLECTIVE)
    hr_cell_set_count(cell, r->collective.devices);
}

static void bytes(const void *row, hr_cell *cell)
{
  const hr_validated_row *r = row;
  if (r->kind == HR_INTERVAL_COLLECTIVE)
    hr_cell_set_count(cell, r->collective.bytes);
}

static void nodes(const void *row, hr_cell *cell)
{
  const hr_validated_row *r = row;
  if (r->kind == HR_INTERVAL_COLLECTIVE)
    hr_cell_set_count(cell, r->nodes > 1 ? r->nodes : 1);
}

static void copies(const void *row, hr_cell *cell)
{
  const hr_validated_row *r = row;
  if (r->kind == HR_INTERVAL_COLLECTIVE)
    hr_cell_set_count(cell, r->collective.copies);
}

static void ratio(const void *row, hr_cell *cell)
{
  const hr_validated_row *r = row;
  hr_cell_set_number(cell, r->prediction.time_ns / r->measured_ns);
}

#define ROW(member) HR_MEMBER(hr_validated_row, member)
static const hr_column row_columns[] = {
    {"line", "line", HR_PLAIN, 3, ROW(line)},
    {"kind", "kind", HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, group_kind, hr_validated_row, kind)},
    {"dtype", "dtype", HR_PLAIN, 2, HR_COMPUTED(TEXT, format_of)},
    {"shape", "shape", HR_PLAIN, 0, HR_COMPUTED(TEXT, shape)},
    {"measured_ns", "measured", HR_TIME, 0, ROW(measured_ns)},
    {"predicted_ns", "predicted", HR_TIME, 0, ROW(prediction.time_ns)},
    {"predicted_low_ns", NULL, HR_TIME, 0, ROW(prediction.low_ns)},
    {"predicted_high_ns", NULL, HR_TIME, 0, ROW(prediction.high_ns)},
    {"ratio", "predicted / measured", HR_PLAIN, 0, HR_COMPUTED(NUMBER, ratio)},
    {"term", "largest term", HR_PLAIN, 0, HR_OPTIONAL(hr_validated_row, term)},
    {"bound_by", "bound by", HR_PLAIN, 1, ROW(prediction.bound_by)},
    {"m", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, size_m)},
    {"n", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, size_n)},
    {"k", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, size_k)},
    {"batch", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, size_batch)},
    {"transpose_a", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, transpose_a)},
    {"transpose_b", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, transpose_b)},
    {"q_heads", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, q_heads)},
    {"kv_heads", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, kv_heads)},
    {"head_dim", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, head_dim)},
    {"causal", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, causal)},
    {"window", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, window_of)},
    {"collective", NULL, HR_PLAIN, 0, HR_COMPUTED(TEXT, collective)},
    {"library", NULL, HR_PLAIN, 0, HR_COMPUTED(TEXT, library)},
    {"gpus", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, gpus)},
    {"bytes", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, bytes)},
    {"nodes", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, nodes)},
    {"copies", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, copies)},
    {"l2", NULL, HR_PLAIN, 0, ROW(cache)},
    {"clock", NULL, HR_PLAIN, 0, ROW(clock)},
    {"framework", NULL, HR_PLAIN, 0, HR_COMPUTED(TEXT, framework)},
    {"recurrence", NULL, HR_PLAIN, 0, HR_COMPUTED(TEXT, recurrence)},
    {"phase", NULL, HR_PLAIN, 0, HR_COMPUTED(TEXT, phase)},
    {"seq", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, scan_tokens)},
    {"heads", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, scan_heads)},
    {"state", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, scan_state)},
    {"groups", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, scan_groups)},
    {"chunk", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, scan_chunk)},
};

static hr_table *group_table(const hr_validation *v)
{
  hr_table *table = HR_TABLE_OF(group_columns, hr_validated_group);
  for (size_t i = 0; i < v->group_count; i++)
    hr_table_add(table, &v->groups[i]);
  return table;
}

static hr_table *worst_table(const hr_validation *v)
{
  hr_table *table = HR_TABLE_OF(row_columns, hr_validated_row);
  for (size_t i = 0; i < v->worst_count; i++)
    hr_table_add(table, &v->rows[v->worst[i]]);
  return table;
}

hr_table *hr_validated_row_table(const hr_validation *v)
{
  hr_table *table = HR_TABLE_OF(row_columns, hr_validated_row);
  for (size_t i = 0; i < v->row_count; i++)
    hr_table_add(table, &v->rows[i]);
  return table;
}

/* ---- the report ---- */

static hr_status write_json(FILE *out, const hr_hardware *hardware, const hr_validation *v, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("validate/1", &failed);
  hr_json_put_text(json, "device", hardware->about.name);
  hr_json_put_count(json, "drawn", v->drawn);
  if (v->drawn > 0)
    hr_json_put_count(json, "seed", (int64_t)v->seed);
  else
    hr_json_put_text(json, "seed", NULL);
  hr_json_put_count(json, "rows", (int64_t)v->row_count);
  hr_json_put_count(json, "skipped", v->skipped);
  hr_json_put_text(json, "skipped_why", v->skipped_why[0] ? v->skipped_why : NULL);
  hr_json_put_table(json, "groups", group_table(v));
  hr_json_put_table(json, "worst", worst_table(v));
  return hr_json_write(out, json, error);
}

static hr_status write_text(hr_document *document, const hr_hardware *hardware, const hr_validation *v, hr_error *error)
{
  hr_print_title(document, "headroom validate: predictions for %s beside measured times", hardware->about.name);
  hr_print_hardware(document, hardware);
  if (v->drawn > 0)
    hr_print_field(document, "points", "%" PRId64 " drawn with --seed %" PRIu64, v->drawn, v->seed);
  hr_print_field(document, "rows", "%zu compared", v->row_count);
  if (v->skipped > 0)
    hr_print_field(document, "left out", "%" PRId64 ", the first at %s", v->skipped, v->skipped_why);
  hr_print_heading(document, "Errors");
  HR_TRY(hr_print_table(document, group_table(v), error));
  hr_print_paragraph(document, "An error is predicted over measured time or its inverse, less 1; the mean is the "
                               "geometric one. A positive bias is predicted too slow. Nine of ten rows should be in "
                               "the interval.");
  hr_print_heading(document, "Worst");
  return hr_print_table(document, worst_table(v), error);
}

hr_status hr_report_validation(FILE *out, const hr_report_options *options, const hr_hardware *hardware,
                               const hr_validation *validation, hr_error *error)
{
  HR_NEED(error, out, options, hardware, validation);
  HR_TAKE(hr_report_options, options, error);
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status;
  if (options->format == HR_FORMAT_JSON)
    status = write_json(out, hardware, validation, error);
  else if (options->format == HR_FORMAT_CSV)
    status = hr_print_table(&document, hr_validated_row_table(validation), error);
  else
    status = write_text(&document, hardware, validation, error);
  return hr_document_end(&document, status, error);
}
