/* SPDX-License-Identifier: Apache-2.0 */
/* Measured rows to problems and predictions. */
#include <headroom/validate.h>

#include "analysis/validate/csv_table.h"
#include "analysis/validate/errors.h"
#include "analysis/validate/rows.h"
#include "base/checked.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hr_validate_options hr_validate_options_default(void)
{
  return (hr_validate_options){.struct_size = sizeof(hr_validate_options)};
}

typedef struct validate_work {
  hr_hardware hardware; /* as the present row was measured */
  hr_cache cache;       /* of rows that do not say */
  hr_clock clock;       /* the same */
  const hr_validate_options *options;
  hr_validation *validation;
  size_t capacity;
} validate_work;

static hr_status skip(hr_validation *v, const hr_csv_record *record, const char *why)
{
  if (v->skipped++ == 0)
    snprintf(v->skipped_why, sizeof v->skipped_why, "line %" PRId64 ": %s", record->line, why);
  return HR_OK;
}

static hr_status read_gemm(const hr_csv_record *record, hr_gemm *gemm)
{
  int64_t a, b;
  const struct {
    const char *column;
    int64_t *to;
  } sizes[] = {{"m", &gemm->m}, {"n", &gemm->n}, {"k", &gemm->k}};
  for (size_t i = 0; i < 3; i++)
    HR_TRY(hr_csv_integer(record, sizes[i].column, 1, 0, sizes[i].to));
  HR_TRY(hr_csv_integer(record, "batch", 1, 1, &gemm->batch));
  HR_TRY(hr_csv_integer(record, "transpose_a", 0, 0, &a));
  HR_TRY(hr_csv_integer(record, "transpose_b", 0, 0, &b));
  gemm->transpose_a = a != 0, gemm->transpose_b = b != 0;
  return hr_gemm_check(gemm, record->error);
}

/* `either` or `other` of two columns that mean the same; the first is needed if `fallback` is 0. */
static hr_status read_either(const hr_csv_record *record, const char *either, const char *other, int64_t fallback,
                             int64_t *value)
{
  const char *column = !hr_csv_field(record, either) && hr_csv_field(record, other) ? other : either;
  return hr_csv_integer(record, column, 1, fallback, value);
}

static hr_status read_attention(const hr_csv_record *record, bool decode, bool full, hr_attention *a)
{
  int64_t causal;
  HR_TRY(hr_csv_integer(record, "n", 1, 0, &a->kv_len));
  HR_TRY(hr_csv_integer(record, "m", 1, decode ? 1 : a->kv_len, &a->q_len));
  HR_TRY(hr_csv_integer(record, "batch", 1, 1, &a->batch));
  HR_TRY(hr_csv_integer(record, "q_heads", 1, 0, &a->q_heads));
  HR_TRY(read_either(record, "kv_heads", "k_heads", a->q_heads, &a->k_heads));
  HR_TRY(read_either(record, "head_dim", "k", 0, &a->qk_dim));
  HR_TRY(hr_csv_integer(record, "causal", 0, !full, &causal));
  HR_TRY(hr_csv_integer(record, "window", 0, 0, &a->window));
  a->v_heads = a->k_heads, a->v_dim = a->qk_dim;
  a->mask = causal || decode ? HR_MASK_CAUSAL : HR_MASK_NONE;
  return hr_attention_check(a, record->error);
}

/* Of kinds and formats that have a prediction; otherwise the row is counted. */
static hr_status predict_and_add(validate_work *w, const hr_csv_record *record, hr_validated_row *row)
{
  hr_error why = {.status = HR_OK};
  hr_status status = hr_validated_row_predict(&w->hardware, row, &why);
  if (status == HR_ERROR_UNSUPPORTED)
    return skip(w->validation, record, why.message);
  if (status == HR_OK)
    status = hr_validation_add(w->validation, &w->capacity, row, &why);
  return status == HR_OK
             ? HR_OK
             : hr_fail(record->error, status, "%s: line %" PRId64 ": %s", record->name, record->line, why.message);
}

static hr_status wrong_word(const hr_csv_record *record, const char *column, const char *expected, const char *found)
{
  return hr_fail(record->error, HR_ERROR_INVALID, "%s: line %" PRId64 ": %s: expected %s, found \"%.40s\"",
                 record->name, record->line, column, expected, found);
}

/* How the row was measured: columns that may be missing or empty. */
static hr_status read_conditions(const validate_work *w, const hr_csv_record *record, hr_validated_row *row)
{
  const char *l2 = hr_csv_field(record, "l2"), *clock = hr_csv_field(record, "clock");
  const char *framework = hr_csv_field(record, "framework");
  row->cache = w->cache, row->clock = w->clock;
  row->framework = w->options->framework, row->cache_writes = w->options->cache_writes;
  if (l2 && hr_cache_parse(l2, &row->cache) != HR_OK)
    return wrong_word(record, "l2", "cold or warm", l2);
  if (clock && hr_clock_parse(clock, &row->clock) != HR_OK)
    return wrong_word(record, "clock", "settled or burst", clock);
  if (framework && hr_framework_parse(framework, &row->framework) != HR_OK)
    return wrong_word(record, "framework", "headroom, compiled or eager", framework);
  return HR_OK;
}

static hr_status read_time(const hr_csv_record *record, double *time_ns)
{
  static const char *const names[] = {"median_ns", "measured_ns"};
  const char *column = "time_ns";
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (hr_csv_field(record, names[i]))
      column = names[i];
  }
  return hr_csv_positive(record, column, time_ns);
}

static hr_status take_row(void *context, const hr_csv_record *record)
{
  validate_work *w = context;
  hr_validated_row row = {.line = record->line, .gemm = hr_gemm_default(), .attention = hr_attention_default()};
  const char *kind = hr_csv_field(record, "kind"), *dtype = hr_csv_field(record, "dtype");
  const char *device = hr_csv_field(record, "device");
  bool full = kind && strcmp(kind, "attention_full") == 0;
  bool gemm = kind && (strcmp(kind, "gemm") == 0 || strcmp(kind, "bmm") == 0 || strcmp(kind, "gemm_narrow") == 0);
  bool decode = kind && strcmp(kind, "decode") == 0;
  bool prefill = full || (kind && (strcmp(kind, "attention") == 0 || strcmp(kind, "prefill") == 0));
  if (!kind)
    return hr_fail(record->error, HR_ERROR_INVALID, "%s: line %" PRId64 ": kind: is missing", record->name,
                   record->line);
  if (device && strcmp(device, w->hardware.name) != 0)
    return skip(w->validation, record, "another device");
  if (!gemm && !decode && !prefill)
    return skip(w->validation, record, "a kind other than gemm, bmm, attention and decode");
  if (dtype && hr_dtype_parse(dtype, &row.gemm.dtype) != HR_OK)
    return hr_fail(record->error, HR_ERROR_INVALID, "%s: line %" PRId64 ": dtype: \"%.40s\" is not a number format",
                   record->name, record->line, dtype);
  row.attention.dtype = row.gemm.dtype;
  row.kind = decode ? HR_INTERVAL_DECODE : prefill ? HR_INTERVAL_ATTENTION : HR_INTERVAL_GEMM;
  HR_TRY(read_time(record, &row.measured_ns));
  HR_TRY(gemm ? read_gemm(record, &row.gemm) : read_attention(record, decode, full, &row.attention));
  HR_TRY(read_conditions(w, record, &row));
  return predict_and_add(w, record, &row);
}

hr_status hr_validate_csv(const hr_hardware *hardware, const char *text, size_t length, const char *name,
                          const hr_validate_options *options, hr_validation **validation, hr_error *error)
{
  HR_NEED(error, hardware, text, name, options, validation);
  HR_TRY(hr_check_struct_size("hr_validate_options", options->struct_size, sizeof *options, error));
  HR_TRY(hr_hardware_check(hardware, error));
  hr_validation *v = calloc(1, sizeof *v);
  if (!v)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory", name);
  validate_work work = {
      .hardware = *hardware, .cache = hardware->cache, .clock = hardware->clock, .options = options, .validation = v};
  hr_status status = hr_csv_read(text, length, name, take_row, &work, error);
  if (status == HR_OK && v->row_count == 0)
    status = hr_fail(error, HR_ERROR_INVALID, "%s: no row of %s to compare; %" PRId64 " were left out%s%s", name,
                     hardware->name, v->skipped, v->skipped ? ", the first at " : "", v->skipped_why);
  if (status == HR_OK)
    status = hr_validation_sum_up(v, error);
  if (status == HR_OK)
    *validation = v;
  else
    hr_validation_free(v);
  return status;
}
