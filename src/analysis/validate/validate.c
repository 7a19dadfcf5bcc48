/* SPDX-License-Identifier: Apache-2.0 */
/* Measured rows to problems and predictions. */
#include <headroom/experimental/validate.h>

#include "analysis/validate/rows.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "csv/csv.h"
#include "hardware/hardware.h"

#include <headroom/experimental/hardware.h>
#include <headroom/experimental/predict.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hr_validate_options_init(hr_validate_options *options, size_t size)
{
  HR_INIT(options, size, (hr_validate_options){0});
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
  hr_validation_skip(v, "line", record->line, why);
  return HR_OK;
}

/* The server that a source names with its version, such as "aic-vllm-0.24.0", unless a framework other than the default
 * was asked for. The least time of several, "aic-best-vllm", is none of theirs. */
static hr_framework framework_of_source(const char *source, hr_framework asked)
{
  static const hr_framework servers[] = {HR_FRAMEWORK_TRTLLM, HR_FRAMEWORK_VLLM, HR_FRAMEWORK_SGLANG};
  for (size_t i = 0; source && asked == HR_FRAMEWORK_COMPILED && i < sizeof servers / sizeof *servers; i++) {
    const char *name = hr_framework_name(servers[i]), *found = strstr(source, name);
    const char *version = found ? found + strlen(name) : "";
    if (version[0] == '-' && version[1] >= '0' && version[1] <= '9')
      return servers[i];
  }
  return asked;
}

/* How the row was measured: columns that may be missing or empty. */
static hr_status read_conditions(const validate_work *w, const hr_csv_record *record, hr_validated_row *row)
{
  const char *l2 = hr_csv_field(record, "l2"), *clock = hr_csv_field(record, "clock");
  const char *framework = hr_csv_field(record, "framework");
  row->cache = w->cache, row->clock = w->clock;
  row->framework = framework_of_source(hr_csv_field(record, "source"), w->options->framework);
  row->cache_writes = w->options->cache_writes;
  if (row->kind == HR_INTERVAL_EXPERTS && clock && strcmp(clock, "burst") == 0)
    row->cache = HR_CACHE_WARM; /* calls in a row, of the same weights */
  if (l2 && hr_cache_parse(l2, &row->cache) != HR_OK)
    return hr_csv_fail(record, "l2", "cold or warm");
  if (clock && hr_clock_parse(clock, &row->clock) != HR_OK)
    return hr_csv_fail(record, "clock", "settled or burst");
  if (framework && hr_framework_parse(framework, &row->framework) != HR_OK)
    return hr_csv_fail(record, "framework", "headroom, compiled, eager, trtllm, vllm or sglang");
  return HR_OK;
}

static hr_status read_time(const hr_csv_record *record, double *time_ns)
{
  const char *column = hr_csv_field(record, "measured_ns") ? "measured_ns" : "median_ns";
  return hr_csv_positive(record, hr_csv_field(record, column) ? column : "time_ns", time_ns);
}

static hr_status read_row(const validate_work *w, const hr_csv_record *record, hr_read_problem_fn read,
                          hr_validated_row *row)
{
  const char *dtype = hr_csv_field(record, "dtype");
  *row = (hr_validated_row){.line = record->line,
                            .gemm = hr_gemm_default(),
                            .attention = hr_attention_default(),
                            .experts = hr_expert_call_default(),
                            .scan = hr_scan_call_default(),
                            .collective = hr_collective_default()};
  if (dtype && hr_dtype_parse(dtype, &row->gemm.dtype) != HR_OK)
    return hr_csv_fail(record, "dtype", "a number format");
  row->attention.dtype = row->experts.dtype = row->scan.dtype = row->gemm.dtype;
  HR_TRY(read_time(record, &row->measured_ns));
  HR_TRY(read(record, row));
  return read_conditions(w, record, row);
}

static hr_status take_record(void *context, const hr_csv_record *record)
{
  validate_work *w = context;
  hr_validated_row row;
  hr_error why = {.status = HR_OK};
  const char *device = hr_csv_field(record, "device"), *status = hr_csv_field(record, "status");
  hr_read_problem_fn read = hr_problem_reader(record);
  if (!read && !hr_csv_field(record, "kind"))
    return hr_csv_fail(record, "kind", HR_PROBLEM_KINDS);
  if (device && strcmp(device, w->hardware.about.name) != 0)
    return skip(w->validation, record, "another device");
  if (!read)
    return skip(w->validation, record, "a kind other than " HR_PROBLEM_KINDS);
  if (status && strcmp(status, "ok") != 0)
    return skip(w->validation, record, "no time, or a noisy one");
  HR_TRY(read_row(w, record, read, &row));
  hr_status added = hr_validation_add(w->validation, &w->capacity, &w->hardware, &row, "line", &why);
  return added == HR_OK ? HR_OK : hr_fail(record->error, added, "%s: %s", record->name, why.message);
}

hr_status hr_validate_csv(const hr_hardware *hardware, const hr_input *input, const hr_validate_options *options,
                          hr_validation **validation, hr_error *error)
{
  HR_NEED(error, hardware, input, options, validation);
  const char *text = input->text, *name = input->name;
  HR_NEED(error, text, name);
  HR_TAKE(hr_validate_options, options, error);
  HR_TRY(hr_hardware_check(hardware, error));
  hr_validation *v = calloc(1, sizeof *v);
  if (!v)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory", name);
  validate_work work = {.hardware = *hardware,
                        .cache = hardware->about.cache,
                        .clock = hardware->about.clock,
                        .options = options,
                        .validation = v};
  hr_status status = hr_csv_read(text, input->length, name, take_record, &work, error);
  if (status == HR_OK && v->row_count == 0)
    status = hr_fail(error, HR_ERROR_INVALID, "%s: no row of %s to compare; %" PRId64 " were left out%s%s", name,
                     hardware->about.name, v->skipped, v->skipped ? ", the first at " : "", v->skipped_why);
  if (status == HR_OK)
    status = hr_validation_sum_up(v, error);
  if (status == HR_OK)
    *validation = v;
  else
    hr_validation_free(v);
  return status;
}
