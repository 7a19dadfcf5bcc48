#include "report/document.h"

#include "base/error.h"
#include "report/text.h"
#include "shape/strides.h"

#include <inttypes.h>
#include <math.h>

static const hr_column columns[] = {
    {"device", "device", HR_CELL_TEXT, 0},
    {"m", "m", HR_CELL_COUNT, 0},
    {"n", "n", HR_CELL_COUNT, 0},
    {"k", "k", HR_CELL_COUNT, 0},
    {"batch", "batch", HR_CELL_COUNT, 0},
    {"dtype", "dtype", HR_CELL_TEXT, 0},
    {"transpose_a", "Aᵀ", HR_CELL_FLAG, 0},
    {"transpose_b", "Bᵀ", HR_CELL_FLAG, 0},
    {"flops", "work", HR_CELL_FLOPS, 0},
    {"bytes", "bytes", HR_CELL_BYTES, 0},
    {"predicted_ns", "predicted", HR_CELL_TIME, 0},
    {"predicted_low_ns", NULL, HR_CELL_TIME, 0},
    {"predicted_high_ns", NULL, HR_CELL_TIME, 0},
    {"bound_by", "bound by", HR_CELL_TEXT, 0},
    {"efficiency", "of peak", HR_CELL_SHARE, 0},
    {"matrix_ns", NULL, HR_CELL_TIME, 0},
    {"tile_ns", NULL, HR_CELL_TIME, 0},
    {"wave_ns", NULL, HR_CELL_TIME, 0},
    {"alignment_ns", NULL, HR_CELL_TIME, 0},
    {"memory_ns", NULL, HR_CELL_TIME, 0},
    {"launch_ns", NULL, HR_CELL_TIME, 0},
    {"tile_waste", "tile waste", HR_CELL_SHARE, 0},
    {"wave_waste", "wave waste", HR_CELL_SHARE, 0},
    {"alignment_loss", "alignment loss", HR_CELL_SHARE, 0},
    {"alignment", "aligned", HR_CELL_BYTES, 0},
    {"tile_m", NULL, HR_CELL_COUNT, 0},
    {"tile_n", NULL, HR_CELL_COUNT, 0},
    {"tiles", NULL, HR_CELL_COUNT, 0},
    {"waves", NULL, HR_CELL_COUNT, 0},
    {"measured_ns", "measured", HR_CELL_TIME, 0},
    {"measured_low_ns", NULL, HR_CELL_TIME, 0},
    {"measured_high_ns", NULL, HR_CELL_TIME, 0},
    {"measured_flops_per_s", "rate", HR_CELL_FLOPS_RATE, 0},
    {"samples", NULL, HR_CELL_COUNT, 0},
    {"kernel", "kernel", HR_CELL_TEXT, 0},
    {"status", NULL, HR_CELL_TEXT, 0},
    {"configuration", NULL, HR_CELL_TEXT, 0},
    {"clock_hz", NULL, HR_CELL_NUMBER, 0},
    {"latency_ns", NULL, HR_CELL_TIME, 0},
    {"lda", NULL, HR_CELL_COUNT, 0},
    {"ldb", NULL, HR_CELL_COUNT, 0},
    {"ldc", NULL, HR_CELL_COUNT, 0},
    {"stride_a", NULL, HR_CELL_COUNT, 0},
    {"stride_b", NULL, HR_CELL_COUNT, 0},
    {"stride_c", NULL, HR_CELL_COUNT, 0},
    {"ceiling_share", NULL, HR_CELL_SHARE, 0},
};

typedef struct gemm_report {
  const hr_gemm *gemm;
  int64_t flops, bytes;
  const hr_hardware *hardware;
  const hr_prediction *prediction;
  const hr_measurement *measurement; /* may be NULL */
} gemm_report;

static bool has_time(const hr_measurement *measurement)
{
  return measurement && measurement->samples > 0;
}

static double ceiling_share(const gemm_report *r)
{
  return has_time(r->measurement) ? hr_hardware_ceiling_share(r->hardware, r->gemm->dtype, r->measurement->flops_per_s)
                                  : (double)NAN;
}

static void put_measurement(hr_table *table, const hr_measurement *m)
{
  hr_put(table, has_time(m) ? m->median_ns : NAN);
  hr_put(table, has_time(m) ? m->median_low_ns : NAN);
  hr_put(table, has_time(m) ? m->median_high_ns : NAN);
  hr_put(table, has_time(m) ? m->flops_per_s : NAN);
  if (m)
    hr_put_count(table, m->samples);
  else
    hr_put_none(table);
  hr_put_text(table, m && m->kernel[0] ? m->kernel : NULL);
  hr_put_text(table, m ? hr_status_name(m->status) : NULL);
  hr_put_text(table, m && m->configuration[0] ? m->configuration : NULL);
  hr_put(table, has_time(m) ? m->conditions.clock_hz : NAN);
  hr_put(table, has_time(m) ? m->latency_ns : NAN);
}

static hr_table *one_row(const gemm_report *r)
{
  const hr_prediction *p = r->prediction;
  hr_table *table = hr_table_create(columns, sizeof columns / sizeof *columns);
  hr_put_text(table, r->hardware->name);
  hr_put_count(table, r->gemm->m);
  hr_put_count(table, r->gemm->n);
  hr_put_count(table, r->gemm->k);
  hr_put_count(table, r->gemm->batch);
  hr_put_text(table, hr_dtype_name(r->gemm->dtype));
  hr_put_flag(table, r->gemm->transpose_a);
  hr_put_flag(table, r->gemm->transpose_b);
  hr_put_count(table, r->flops);
  hr_put_count(table, r->bytes);
  hr_put(table, p->time_ns);
  hr_put(table, p->low_ns);
  hr_put(table, p->high_ns);
  hr_put_text(table, hr_bound_name(p->bound_by));
  const double shares[] = {p->efficiency, p->matrix_ns, p->tile_ns,    p->wave_ns,    p->alignment_ns,
                           p->memory_ns,  p->launch_ns, p->tile_waste, p->wave_waste, p->alignment_loss};
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
    hr_put(table, shares[i]);
  const int64_t counts[] = {p->alignment, p->tile_m, p->tile_n, p->tiles, p->waves};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    hr_put_count(table, counts[i]);
  put_measurement(table, r->measurement);
  const hr_matrix a = hr_gemm_a(r->gemm), b = hr_gemm_b(r->gemm), c = hr_gemm_c(r->gemm);
  const int64_t strides[] = {a.leading_dimension, b.leading_dimension, c.leading_dimension,
                             a.batch_stride,      b.batch_stride,      c.batch_stride};
  for (size_t i = 0; i < sizeof strides / sizeof *strides; i++)
    hr_put_count(table, strides[i]);
  hr_put(table, ceiling_share(r));
  return table;
}

static void put_conditions_json(hr_json measurement, const hr_measurement *m)
{
  const hr_conditions *c = &m->conditions;
  hr_json conditions = hr_json_put_object(measurement, "conditions");
  hr_json_put_number(conditions, "clock_hz", has_time(m) ? c->clock_hz : NAN);
  hr_json_put_number(conditions, "memory_clock_hz", has_time(m) ? c->memory_clock_hz : NAN);
  hr_json_put_number(conditions, "power_w", has_time(m) ? c->power_w : NAN);
  hr_json_put_number(conditions, "temperature_c", has_time(m) ? c->temperature_c : NAN);
  hr_json_put_text(conditions, "throttled_by", c->throttled_by[0] ? c->throttled_by : NULL);
}

static void put_measurement_json(hr_json document, const gemm_report *r)
{
  const hr_measurement *m = r->measurement;
  if (!m) {
    hr_json_put(document, "measurement", json_null());
    return;
  }
  hr_json json = hr_json_put_object(document, "measurement");
  hr_json_put_text(json, "status", hr_status_name(m->status));
  hr_json_put_text(json, "reason", m->reason[0] ? m->reason : NULL);
  hr_json_put_text(json, "kernel", m->kernel[0] ? m->kernel : NULL);
  hr_json_put_text(json, "configuration", m->configuration[0] ? m->configuration : NULL);
  hr_json_put_count(json, "choice", m->choice);
  hr_json_put_count(json, "choices", m->choices);
  hr_json_put_number(json, "choice_speedup", m->choice > 0 ? m->choice_speedup : NAN);
  hr_json_put_count(json, "samples", m->samples);
  hr_json_put_count(json, "discarded", m->discarded);
  const struct {
    const char *key;
    double value;
  } times[] = {{"min_ns", m->min_ns},
               {"p10_ns", m->p10_ns},
               {"median_ns", m->median_ns},
               {"mean_ns", m->mean_ns},
               {"p90_ns", m->p90_ns},
               {"max_ns", m->max_ns},
               {"stddev_ns", m->stddev_ns},
               {"median_low_ns", m->median_low_ns},
               {"median_high_ns", m->median_high_ns},
               {"latency_ns", m->latency_ns},
               {"flops_per_s", m->flops_per_s},
               {"bytes_per_s", m->bytes_per_s}};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    hr_json_put_number(json, times[i].key, has_time(m) ? times[i].value : NAN);
  hr_json_put_number(json, "ceiling_share", ceiling_share(r));
  hr_json_put_flag(json, "warm", m->warm);
  hr_json_put_count(json, "buffer_sets", m->buffer_sets);
  hr_json_put_number(json, "workspace_bytes", m->workspace_bytes);
  hr_json_put_number(json, "peak_bytes", m->peak_bytes);
  hr_json_put_number(json, "max_error", m->max_error);
  hr_json_put_count(json, "rows_checked", m->rows_checked);
  put_conditions_json(json, m);
}

static void put_gemm_json(hr_json json, const gemm_report *r)
{
  const hr_gemm *g = r->gemm;
  hr_json gemm = hr_json_put_object(json, "gemm");
  hr_json_put_count(gemm, "m", g->m);
  hr_json_put_count(gemm, "n", g->n);
  hr_json_put_count(gemm, "k", g->k);
  hr_json_put_count(gemm, "batch", g->batch);
  hr_json_put_text(gemm, "dtype", hr_dtype_name(g->dtype));
  hr_json_put_flag(gemm, "transpose_a", g->transpose_a);
  hr_json_put_flag(gemm, "transpose_b", g->transpose_b);
  hr_json_put_count(gemm, "flops", r->flops);
  hr_json_put_count(gemm, "bytes", r->bytes);
  const hr_matrix a = hr_gemm_a(g), b = hr_gemm_b(g), c = hr_gemm_c(g);
  hr_json_put_count(gemm, "lda", a.leading_dimension);
  hr_json_put_count(gemm, "ldb", b.leading_dimension);
  hr_json_put_count(gemm, "ldc", c.leading_dimension);
  hr_json_put_count(gemm, "stride_a", a.batch_stride);
  hr_json_put_count(gemm, "stride_b", b.batch_stride);
  hr_json_put_count(gemm, "stride_c", c.batch_stride);
}

static void put_prediction_json(hr_json json, const hr_prediction *p)
{
  hr_json prediction = hr_json_put_object(json, "prediction");
  hr_json_put_text(prediction, "bound_by", hr_bound_name(p->bound_by));
  const struct {
    const char *key;
    double value;
  } numbers[] = {{"predicted_ns", p->time_ns},
                 {"predicted_low_ns", p->low_ns},
                 {"predicted_high_ns", p->high_ns},
                 {"efficiency", p->efficiency},
                 {"matrix_ns", p->matrix_ns},
                 {"tile_ns", p->tile_ns},
                 {"wave_ns", p->wave_ns},
                 {"alignment_ns", p->alignment_ns},
                 {"memory_ns", p->memory_ns},
                 {"launch_ns", p->launch_ns},
                 {"tile_waste", p->tile_waste},
                 {"wave_waste", p->wave_waste},
                 {"alignment_loss", p->alignment_loss}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    hr_json_put_number(prediction, numbers[i].key, numbers[i].value);
  const struct {
    const char *key;
    int64_t value;
  } counts[] = {{"tile_m", p->tile_m},
                {"tile_n", p->tile_n},
                {"tiles", p->tiles},
                {"waves", p->waves},
                {"m_alignment", p->m_alignment},
                {"n_alignment", p->n_alignment},
                {"k_alignment", p->k_alignment},
                {"alignment", p->alignment}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    hr_json_put_count(prediction, counts[i].key, counts[i].value);
}

static hr_status write_json(FILE *out, const gemm_report *r, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("gemm", &failed);
  hr_json_put_text(json, "device", r->hardware->name);
  hr_json_put_hardware(json, r->hardware);
  put_gemm_json(json, r);
  put_prediction_json(json, r->prediction);
  put_measurement_json(json, r);
  return hr_json_write(out, json, error);
}

static void tell_times(const hr_document *document, const hr_prediction *p)
{
  const struct {
    const char *what;
    double time_ns;
  } parts[] = {{"useful products", p->matrix_ns}, {"tiles", p->tile_ns},    {"waves", p->wave_ns},
               {"alignment", p->alignment_ns},    {"memory", p->memory_ns}, {"launch", p->launch_ns}};
  char line[512] = "";
  size_t used = 0;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    char time[HR_NUMBER_SIZE];
    if (fabs(parts[i].time_ns) < 0.005) /* what rounding leaves of nothing */
      continue;
    hr_write_time(time, sizeof time, parts[i].time_ns);
    int written = snprintf(line + used, sizeof line - used, "%s%s %s", used ? ", " : "", parts[i].what, time);
    used += written > 0 ? (size_t)written : 0;
  }
  hr_put_field(document, "parts", "%s (memory overlaps with the rest)", line);
}

static void tell_measurement(const hr_document *document, const gemm_report *r)
{
  const hr_measurement *m = r->measurement;
  if (!m)
    return;
  if (m->status != HR_OK)
    hr_put_field(document, "measured", "%s%s%s", hr_status_sentence(m->status), m->reason[0] ? ": " : "", m->reason);
  if (!has_time(m))
    return;
  char median[HR_NUMBER_SIZE], low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE], rate[HR_NUMBER_SIZE], share[HR_NUMBER_SIZE];
  hr_write_time(median, sizeof median, m->median_ns);
  hr_write_time(low, sizeof low, m->median_low_ns);
  hr_write_time(high, sizeof high, m->median_high_ns);
  hr_write_rate(rate, sizeof rate, m->flops_per_s, "FLOP/s");
  hr_put_field(document, "measured", "%s median (%s %s to %s), %s, %" PRId64 " sample%s, %s caches, %s", median,
               hr_interval_words(m), low, high, rate, m->samples, m->samples == 1 ? "" : "s", m->warm ? "warm" : "cold",
               m->kernel);
  if (isfinite(m->latency_ns)) {
    hr_write_time(median, sizeof median, m->latency_ns);
    hr_put_field(document, "alone", "%s, from the call until it is over", median);
  }
  hr_write_share(share, sizeof share, ceiling_share(r));
  if (isfinite(ceiling_share(r)))
    hr_put_field(document, "of ceiling", "%s of what the device's instructions reach", share);
  if (m->configuration[0])
    hr_put_field(document, "algorithm", "%s", m->configuration);
  if (m->choices > 1 && !isnan(m->choice_speedup))
    hr_put_field(document, "autotuned", "%.3f times as fast as the library's first choice", m->choice_speedup);
  const hr_conditions *c = &m->conditions;
  if (!isnan(c->clock_hz))
    hr_put_field(document, "conditions", "%.0f MHz, %.0f W, %.0f °C%s%s", c->clock_hz * 1e-6, c->power_w,
                 c->temperature_c, c->throttled_by[0] ? ", clock held down by: " : "", c->throttled_by);
}

static void write_text(const hr_document *document, const gemm_report *r)
{
  const hr_prediction *p = r->prediction;
  const hr_gemm *g = r->gemm;
  char work[HR_NUMBER_SIZE], bytes[HR_NUMBER_SIZE], time[HR_NUMBER_SIZE], low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE],
      rate[HR_NUMBER_SIZE], tile[HR_NUMBER_SIZE], wave[HR_NUMBER_SIZE], loss[HR_NUMBER_SIZE];
  hr_write_rate(work, sizeof work, (double)r->flops, "FLOP");
  hr_write_bytes(bytes, sizeof bytes, (double)r->bytes);
  char strides[160];
  hr_gemm_write_strides(g, strides, sizeof strides);
  hr_put_field(document, "product",
               "m %" PRId64 ", n %" PRId64 ", k %" PRId64 ", batch %" PRId64 ", %s%s%s%s%s; %s, %s", g->m, g->n, g->k,
               g->batch, hr_dtype_name(g->dtype), g->transpose_a ? ", A transposed" : "",
               g->transpose_b ? ", B transposed" : "", strides[0] ? "," : "", strides, work, bytes);
  hr_put_hardware(document, r->hardware);
  hr_write_time(time, sizeof time, p->time_ns);
  hr_write_time(low, sizeof low, p->low_ns);
  hr_write_time(high, sizeof high, p->high_ns);
  hr_write_rate(rate, sizeof rate, (double)r->flops / p->time_ns * 1e9, "FLOP/s");
  hr_put_field(document, "predicted", "%s (%s … %s), %s, %.0f%% of the peak rate, bound by %s", time, low, high, rate,
               100 * p->efficiency, hr_bound_name(p->bound_by));
  tell_times(document, p);
  hr_write_share(tile, sizeof tile, p->tile_waste);
  hr_write_share(wave, sizeof wave, p->wave_waste);
  hr_write_share(loss, sizeof loss, p->alignment_loss);
  if (p->tile_m > 0)
    hr_put_field(document, "tiles",
                 "%" PRId64 " of %" PRId64 "×%" PRId64 " in %" PRId64 " wave%s; %s of their area and "
                 "%s of the slots are wasted",
                 p->tiles, p->tile_m, p->tile_n, p->waves, p->waves == 1 ? "" : "s", tile, wave);
  hr_put_field(document, "alignment",
               "m to %" PRId64 ", n to %" PRId64 ", k to %" PRId64 " bytes; the contiguous ones to "
               "%" PRId64 ", which loses %s",
               p->m_alignment, p->n_alignment, p->k_alignment, p->alignment, loss);
  tell_measurement(document, r);
}

hr_status hr_report_gemm(FILE *out, const hr_report_options *options, const hr_gemm *gemm, const hr_hardware *hardware,
                         const hr_prediction *prediction, const hr_measurement *measurement, hr_error *error)
{
  HR_NEED(error, out, options, gemm, hardware, prediction);
  gemm_report r = {.gemm = gemm, .hardware = hardware, .prediction = prediction, .measurement = measurement};
  HR_TRY(hr_gemm_check(gemm, error));
  HR_TRY(hr_gemm_flops(gemm, &r.flops));
  HR_TRY(hr_gemm_bytes(gemm, &r.bytes));
  hr_document document;
  HR_TRY(hr_document_begin(&document, out, options, error));
  hr_status status = HR_OK;
  if (options->format == HR_FORMAT_JSON)
    status = write_json(out, &r, error);
  else if (options->format == HR_FORMAT_TABLE)
    write_text(&document, &r);
  else
    status = hr_put_table(&document, one_row(&r), error);
  return hr_document_end(&document, status, error);
}
