/* SPDX-License-Identifier: Apache-2.0 */
/* The prediction of a measured row, and lists of such rows. */
#include "analysis/validate/rows.h"

#include "base/error.h"
#include "hardware/hardware.h"
#include "model/layers/frameworks.h"

#include <headroom/experimental/predict.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS_OF_POLL 64 /* some 0.3 ms */

bool hr_validated_row_is_attention(const hr_validated_row *row)
{
  return row->kind == HR_INTERVAL_ATTENTION || row->kind == HR_INTERVAL_DECODE || row->kind == HR_INTERVAL_LATENT ||
         row->kind == HR_INTERVAL_LATENT_PREFILL;
}

hr_interval_kind hr_validated_row_interval(const hr_validated_row *row)
{
  if (row->framework == HR_FRAMEWORK_HEADROOM && row->kind == HR_INTERVAL_ATTENTION)
    return HR_INTERVAL_OWN_ATTENTION;
  if (row->framework == HR_FRAMEWORK_HEADROOM && row->kind == HR_INTERVAL_DECODE)
    return HR_INTERVAL_OWN_DECODE;
  return row->kind;
}

static hr_status predict_attention(const hr_hardware *hardware, hr_validated_row *row, hr_error *error)
{
  const hr_attention *a = &row->attention;
  hr_operator op = {.id = HR_OP_ATTENTION, .kind = HR_KIND_ATTENTION, .count = 1, .attention = *a};
  op.framework = row->framework, op.latent = row->kind == HR_INTERVAL_LATENT;
  if (!op.latent && (hr_attention_flops(a, &op.flops) != HR_OK || hr_attention_bytes(a, &op.bytes) != HR_OK))
    return hr_fail(error, HR_ERROR_OVERFLOW, "the call is too large to count");
  if (row->cache_writes && row->kind == HR_INTERVAL_ATTENTION && a->mask != HR_MASK_NONE)
    op.cached_bytes = op.bytes / (a->q_heads + a->k_heads) * a->k_heads * 2;
  return hr_predict_operator(hardware, &op, &row->prediction, error);
}

static hr_status predict_gemm(const hr_hardware *hardware, hr_validated_row *row, hr_error *error)
{
  if (row->kind == HR_INTERVAL_EXPERTS)
    return hr_predict_experts(hardware, &row->experts, row->framework, &row->prediction, error);
  if (row->kind == HR_INTERVAL_SCAN)
    return hr_predict_scan(hardware, &row->scan, &row->prediction, error);
  const hr_gemm *gemm = &row->gemm;
  hr_operator op = {.id = HR_OP_QKV_TRANSFORM, .kind = HR_KIND_GEMM, .count = 1, .gemm = *gemm};
  op.framework = hr_is_server(row->framework) ? row->framework : HR_FRAMEWORK_EAGER;
  op.activations = row->rounded ? HR_ACTIVATIONS_FP8 : HR_ACTIVATIONS_UNQUANTIZED;
  if (hr_gemm_flops(gemm, &op.flops) != HR_OK || hr_gemm_bytes(gemm, &op.bytes) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the GEMM is too large to count");
  HR_TRY(row->rounded ? hr_predict_operator(hardware, &op, &row->prediction, error)
                      : hr_predict_gemm(hardware, gemm, &row->prediction, error));
  row->kind = hr_interval_kind_of(gemm, &row->prediction);
  return HR_OK;
}

/* On a device with as many others on its node as the row says. */
static hr_status predict_collective(const hr_hardware *hardware, hr_validated_row *row, hr_error *error)
{
  hr_hardware placed = *hardware;
  hr_collective *call = &row->collective;
  const int64_t nodes = row->nodes > 1 ? row->nodes : 1;
  placed.devices_per_node = call->devices / nodes;
  if (nodes > 1 && !(placed.network_bytes_per_s > 0))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s has no network, which communication between nodes needs",
                   hardware->about.name);
  if (call->library == HR_LIBRARY_COUNT)
    call->library = hr_predict_library(row->framework);
  return hr_predict_collective(&placed, call, &row->prediction, error);
}

hr_status hr_validated_row_predict(hr_hardware *hardware, hr_validated_row *row, hr_error *error)
{
  hardware->about.clock = row->clock;
  hardware->about.cache = row->cache;
  if (row->kind == HR_INTERVAL_COLLECTIVE)
    HR_TRY(predict_collective(hardware, row, error));
  else
    HR_TRY(hr_validated_row_is_attention(row) ? predict_attention(hardware, row, error)
                                              : predict_gemm(hardware, row, error));
  double ratio = row->prediction.time_ns / row->measured_ns;
  row->error = fmax(ratio, 1 / ratio) - 1;
  row->term = hr_prediction_largest_term(&row->prediction);
  return HR_OK;
}

void hr_validation_skip(hr_validation *validation, const char *unit, int64_t number, const char *why)
{
  if (validation->skipped++ == 0)
    snprintf(validation->skipped_why, sizeof validation->skipped_why, "%s %" PRId64 ": %s", unit, number, why);
}

static hr_status append(hr_validation *validation, size_t *capacity, const hr_validated_row *row, hr_error *error)
{
  if (validation->row_count == *capacity) {
    size_t more = *capacity > 0 ? 2 * *capacity : 256;
    hr_validated_row *rows = realloc(validation->rows, more * sizeof *rows);
    if (!rows)
      return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu rows", more);
    validation->rows = rows;
    *capacity = more;
  }
  validation->rows[validation->row_count++] = *row;
  return HR_OK;
}

hr_status hr_validation_add(hr_validation *validation, size_t *capacity, hr_hardware *hardware, hr_validated_row *row,
                            const char *unit, hr_error *error)
{
  hr_error why = {.status = HR_OK};
  hr_status status = hr_validated_row_predict(hardware, row, &why);
  if (status == HR_ERROR_UNSUPPORTED) {
    hr_validation_skip(validation, unit, row->line, why.message);
    return HR_OK;
  }
  if (status == HR_OK)
    status = append(validation, capacity, row, &why);
  return status == HR_OK ? HR_OK : hr_fail(error, status, "%s %" PRId64 ": %s", unit, row->line, why.message);
}

hr_status hr_row_poll_now(const hr_row_poll *poll, hr_error *error)
{
  if (poll->progress && poll->progress(poll->context, poll->done, "fitting") != 0)
    return hr_fail(error, HR_ERROR_INTERRUPTED, "stopped by the caller");
  return HR_OK;
}

hr_status hr_row_poll_next(hr_row_poll *poll, hr_error *error)
{
  return ++poll->rows % ROWS_OF_POLL == 0 ? hr_row_poll_now(poll, error) : HR_OK;
}

static hr_status predict_rows(const hr_hardware *hardware, const hr_validated_row *rows, size_t count,
                              hr_row_poll *poll, hr_validation *validation, hr_error *error)
{
  size_t capacity = 0;
  hr_hardware conditions = *hardware;
  for (size_t i = 0; i < count; i++) {
    hr_validated_row row = rows[i];
    HR_TRY(hr_row_poll_next(poll, error));
    if (!(row.measured_ns > 0) || !isfinite(row.measured_ns))
      return hr_fail(error, HR_ERROR_INVALID, "row %" PRId64 ": measured_ns: expected a number above 0", row.line);
    HR_TRY(hr_validation_add(validation, &capacity, &conditions, &row, "row", error));
  }
  if (validation->row_count == 0)
    return hr_fail(error, HR_ERROR_INVALID, "no row of %s to compare", hardware->about.name);
  return hr_validation_sum_up(validation, error);
}

hr_status hr_validate_rows_polled(const hr_hardware *hardware, const hr_validated_row *rows, size_t count,
                                  hr_row_poll *poll, hr_validation **validation, hr_error *error)
{
  HR_TRY(hr_hardware_check(hardware, error));
  hr_validation *v = calloc(1, sizeof *v);
  if (!v)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu rows", count);
  hr_status status = predict_rows(hardware, rows, count, poll, v, error);
  if (status == HR_OK)
    *validation = v;
  else
    hr_validation_free(v);
  return status;
}

hr_status hr_validate_rows(const hr_hardware *hardware, const hr_validated_row *rows, size_t count,
                           hr_validation **validation, hr_error *error)
{
  HR_NEED(error, hardware, rows, validation);
  hr_row_poll nobody = {.progress = NULL};
  return hr_validate_rows_polled(hardware, rows, count, &nobody, validation, error);
}

void hr_validation_free(hr_validation *validation)
{
  if (!validation)
    return;
  free(validation->rows);
  free(validation->groups);
  free(validation);
}
