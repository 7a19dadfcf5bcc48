/* SPDX-License-Identifier: Apache-2.0 */
/* `gemm`: one GEMM, predicted and measured. */
#include "base/error.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"
#include "report/inputs.h"
#include "report/lines.h"
#include "report/measurement.h"
#include "shape/gemm_strides.h"

#include <headroom/experimental/hardware.h>
#include <inttypes.h>
#include <math.h>

typedef struct gemm_report {
  const hr_gemm *gemm;
  hr_matrix a, b, c;
  int64_t flops, bytes;
  const hr_hardware *hardware;
  const hr_prediction *prediction;
  const hr_measurement *measurement; /* NULL: not measured */
  double ceiling_share, joules_per_tflop;
} gemm_report;

#define REPORT(member) HR_MEMBER(gemm_report, member), .section = "gemm"
#define GEMM(member) HR_THROUGH(gemm_report, gemm), HR_MEMBER(hr_gemm, member), .section = "gemm"
#define PREDICTION(member) \
  HR_THROUGH(gemm_report, prediction), HR_MEMBER(hr_prediction, member), .section = "prediction"
#define MEASUREMENT(member) \
  HR_THROUGH(gemm_report, measurement), HR_OPTIONAL(hr_measurement, member), .section = "measurement"
#define CONDITIONS(member) \
  HR_THROUGH(gemm_report, measurement), HR_OPTIONAL(hr_measurement, conditions.member), .section = "conditions"

/* The fields are in the order of the JSON, whose objects are the sections. */
static const hr_column fields[] = {
    {"device", "device", HR_PLAIN, 0, HR_THROUGH(gemm_report, hardware), HR_MEMBER(hr_hardware, about.name)},
    {"m", "m", HR_PLAIN, 0, GEMM(m)},
    {"n", "n", HR_PLAIN, 0, GEMM(n)},
    {"k", "k", HR_PLAIN, 0, GEMM(k)},
    {"batch", "batch", HR_PLAIN, 0, GEMM(batch)},
    {"dtype", "dtype", HR_PLAIN, 0, GEMM(dtype)},
    {"transpose_a", "Aᵀ", HR_PLAIN, 0, GEMM(transpose_a)},
    {"transpose_b", "Bᵀ", HR_PLAIN, 0, GEMM(transpose_b)},
    {"flops", "work", HR_FLOPS, 0, REPORT(flops)},
    {"bytes", "bytes", HR_BYTES, 0, REPORT(bytes)},
    {"lda", NULL, HR_PLAIN, 0, REPORT(a.leading_dimension)},
    {"ldb", NULL, HR_PLAIN, 0, REPORT(b.leading_dimension)},
    {"ldc", NULL, HR_PLAIN, 0, REPORT(c.leading_dimension)},
    {"stride_a", NULL, HR_PLAIN, 0, REPORT(a.batch_stride)},
    {"stride_b", NULL, HR_PLAIN, 0, REPORT(b.batch_stride)},
    {"stride_c", NULL, HR_PLAIN, 0, REPORT(c.batch_stride)},

    {"bound_by", "bound by", HR_PLAIN, 0, PREDICTION(bound_by)},
    {"predicted_ns", "predicted", HR_TIME, 0, PREDICTION(time_ns)},
    {"predicted_low_ns", NULL, HR_TIME, 0, PREDICTION(low_ns)},
    {"predicted_high_ns", NULL, HR_TIME, 0, PREDICTION(high_ns)},
    {"efficiency", "of peak", HR_SHARE, 0, PREDICTION(efficiency)},
    {"matrix_ns", NULL, HR_TIME, 0, PREDICTION(matrix_ns)},
    {"tile_ns", NULL, HR_TIME, 0, PREDICTION(tile_ns)},
    {"wave_ns", NULL, HR_TIME, 0, PREDICTION(wave_ns)},
    {"alignment_ns", NULL, HR_TIME, 0, PREDICTION(alignment_ns)},
    {"memory_ns", NULL, HR_TIME, 0, PREDICTION(memory_ns)},
    {"launch_ns", NULL, HR_TIME, 0, PREDICTION(launch_ns)},
    {"reduction_ns", NULL, HR_TIME, 0, PREDICTION(reduction_ns)},
    {"clock_ns", NULL, HR_TIME, 0, PREDICTION(clock_ns)},
    {"exposed_ns", NULL, HR_TIME, 0, PREDICTION(exposed_ns)},
    {"tile_waste", "tile waste", HR_SHARE, 0, PREDICTION(tile_waste)},
    {"wave_waste", "wave waste", HR_SHARE, 0, PREDICTION(wave_waste)},
    {"alignment_loss", "alignment loss", HR_SHARE, 0, PREDICTION(alignment_loss)},
    {"tile_m", NULL, HR_PLAIN, 0, PREDICTION(tile_m)},
    {"tile_n", NULL, HR_PLAIN, 0, PREDICTION(tile_n)},
    {"tiles", NULL, HR_PLAIN, 0, PREDICTION(tiles)},
    {"waves", NULL, HR_PLAIN, 0, PREDICTION(waves)},
    {"splits", NULL, HR_PLAIN, 0, PREDICTION(splits)},
    {"m_alignment", NULL, HR_BYTES, 0, PREDICTION(m_alignment)},
    {"n_alignment", NULL, HR_BYTES, 0, PREDICTION(n_alignment)},
    {"k_alignment", NULL, HR_BYTES, 0, PREDICTION(k_alignment)},
    {"alignment", "aligned", HR_BYTES, 0, PREDICTION(alignment)},

    {"status", NULL, HR_PLAIN, 0, MEASUREMENT(status)},
    {"reason", NULL, HR_PLAIN, 0, MEASUREMENT(reason)},
    {"kernel", "kernel", HR_PLAIN, 0, MEASUREMENT(kernel)},
    {"configuration", NULL, HR_PLAIN, 0, MEASUREMENT(configuration)},
    {"choice", NULL, HR_PLAIN, 0, MEASUREMENT(choice)},
    {"choices", NULL, HR_PLAIN, 0, MEASUREMENT(choices)},
    {"choice_speedup", NULL, HR_PLAIN, 0, MEASUREMENT(choice_speedup)},
    {"samples", NULL, HR_PLAIN, 0, MEASUREMENT(samples)},
    {"discarded", NULL, HR_PLAIN, 0, MEASUREMENT(discarded)},
    {"min_ns", NULL, HR_TIME, 0, MEASUREMENT(min_ns)},
    {"p10_ns", NULL, HR_TIME, 0, MEASUREMENT(p10_ns)},
    {"measured_ns", "measured", HR_TIME, 0, MEASUREMENT(median_ns), .json = "median_ns"},
    {"mean_ns", NULL, HR_TIME, 0, MEASUREMENT(mean_ns)},
    {"p90_ns", NULL, HR_TIME, 0, MEASUREMENT(p90_ns)},
    {"max_ns", NULL, HR_TIME, 0, MEASUREMENT(max_ns)},
    {"stddev_ns", NULL, HR_TIME, 0, MEASUREMENT(stddev_ns)},
    {"measured_low_ns", NULL, HR_TIME, 0, MEASUREMENT(median_low_ns), .json = "median_low_ns"},
    {"measured_high_ns", NULL, HR_TIME, 0, MEASUREMENT(median_high_ns), .json = "median_high_ns"},
    {"latency_ns", NULL, HR_TIME, 0, MEASUREMENT(latency_ns)},
    {"measured_flops_per_s", "rate", HR_FLOPS_RATE, 0, MEASUREMENT(flops_per_s), .json = "flops_per_s"},
    {"bytes_per_s", NULL, HR_BYTES_RATE, 0, MEASUREMENT(bytes_per_s)},
    {"ceiling_share", NULL, HR_SHARE, 0, HR_MEMBER(gemm_report, ceiling_share), .section = "measurement"},
    {"warm", NULL, HR_PLAIN, 0, MEASUREMENT(warm)},
    {"buffer_sets", NULL, HR_PLAIN, 0, MEASUREMENT(buffer_sets)},
    {"workspace_bytes", NULL, HR_BYTES, 0, MEASUREMENT(workspace_bytes)},
    {"peak_bytes", NULL, HR_BYTES, 0, MEASUREMENT(peak_bytes)},
    {"max_error", NULL, HR_PLAIN, 0, MEASUREMENT(max_error)},
    {"rows_checked", NULL, HR_PLAIN, 0, MEASUREMENT(rows_checked)},
    {"energy_j", NULL, HR_ENERGY, 0, MEASUREMENT(energy_j)},
    {"joules_per_tflop", NULL, HR_PLAIN, 0, HR_MEMBER(gemm_report, joules_per_tflop), .section = "measurement"},
    {"sustained_ns", NULL, HR_TIME, 0, MEASUREMENT(sustained_ns)},
    {"sustained_power_w", NULL, HR_PLAIN, 0, MEASUREMENT(sustained_power_w)},
    {"sustained_clock_hz", NULL, HR_PLAIN, 0, MEASUREMENT(sustained_clock_hz)},
    {"clock_hz", NULL, HR_PLAIN, 0, CONDITIONS(clock_hz)},
    {"memory_clock_hz", NULL, HR_PLAIN, 0, CONDITIONS(memory_clock_hz)},
    {"power_w", NULL, HR_PLAIN, 0, CONDITIONS(power_w)},
    {"temperature_c", NULL, HR_PLAIN, 0, CONDITIONS(temperature_c)},
    {"throttled_by", NULL, HR_PLAIN, 0, CONDITIONS(throttled_by)},
};

/* The columns of CSV and Markdown, in their order. */
static const char *const table_keys[] = {
    "device",
    "m",
    "n",
    "k",
    "batch",
    "dtype",
    "transpose_a",
    "transpose_b",
    "flops",
    "bytes",
    "predicted_ns",
    "predicted_low_ns",
    "predicted_high_ns",
    "bound_by",
    "efficiency",
    "matrix_ns",
    "tile_ns",
    "wave_ns",
    "alignment_ns",
    "memory_ns",
    "launch_ns",
    "tile_waste",
    "wave_waste",
    "alignment_loss",
    "alignment",
    "tile_m",
    "tile_n",
    "tiles",
    "waves",
    "measured_ns",
    "measured_low_ns",
    "measured_high_ns",
    "measured_flops_per_s",
    "samples",
    "kernel",
    "status",
    "configuration",
    "clock_hz",
    "latency_ns",
    "lda",
    "ldb",
    "ldc",
    "stride_a",
    "stride_b",
    "stride_c",
    "ceiling_share",
    "energy_j",
    "joules_per_tflop",
    "sustained_ns",
    "sustained_power_w",
    "sustained_clock_hz",
    "reduction_ns",
    "clock_ns",
    "exposed_ns",
    "splits",
};

static hr_status write_table(const hr_document *document, const gemm_report *r, hr_error *error)
{
  hr_column columns[HR_COUNT_OF(table_keys)] = {{.key = NULL}};
  hr_columns_select(fields, HR_COUNT_OF(fields), table_keys, HR_COUNT_OF(table_keys), columns);
  hr_table *table = HR_TABLE_OF(columns, gemm_report);
  hr_table_add(table, r);
  return hr_print_table(document, table, error);
}

static void put_section(hr_json json, const char *section, const gemm_report *r)
{
  hr_json_put_section(json, section, fields, HR_COUNT_OF(fields), r);
}

static hr_status write_json(FILE *out, const gemm_report *r, const hr_report_options *options, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("gemm/2", &failed);
  hr_json_put_text(json, "device", r->hardware->about.name);
  hr_json_put_hardware(json, r->hardware);
  put_section(hr_json_put_object(json, "gemm"), "gemm", r);
  put_section(hr_json_put_object(json, "prediction"), "prediction", r);
  hr_json_put_text(json, "library_choice", options->library_choice);
  if (!r->measurement) {
    hr_json_put(json, "measurement", json_null());
    return hr_json_write(out, json, error);
  }
  hr_json measurement = hr_json_put_object(json, "measurement");
  put_section(measurement, "measurement", r);
  put_section(hr_json_put_object(measurement, "conditions"), "conditions", r);
  return hr_json_write(out, json, error);
}

/* ---- for people ---- */

static void print_problem(const hr_document *document, const gemm_report *r)
{
  const hr_gemm *g = r->gemm;
  char work[HR_NUMBER_SIZE], bytes[HR_NUMBER_SIZE], strides[160];
  hr_write_rate(work, sizeof work, (double)r->flops, "FLOP");
  hr_write_bytes(bytes, sizeof bytes, (double)r->bytes);
  hr_gemm_format_strides(g, strides, sizeof strides);
  hr_print_field(document, "GEMM", "m %" PRId64 ", n %" PRId64 ", k %" PRId64 ", batch %" PRId64 ", %s%s%s%s%s; %s, %s",
                 g->m, g->n, g->k, g->batch, hr_dtype_name(g->dtype), g->transpose_a ? ", A transposed" : "",
                 g->transpose_b ? ", B transposed" : "", strides[0] ? "," : "", strides, work, bytes);
}

static void print_time(const hr_document *document, const gemm_report *r)
{
  const hr_prediction *p = r->prediction;
  char time[HR_NUMBER_SIZE], low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE], rate[HR_NUMBER_SIZE];
  hr_write_time(time, sizeof time, p->time_ns);
  hr_write_time(low, sizeof low, p->low_ns);
  hr_write_time(high, sizeof high, p->high_ns);
  hr_write_rate(rate, sizeof rate, (double)r->flops / p->time_ns * 1e9, "FLOP/s");
  hr_print_field(document, "predicted", "%s (%s … %s), %s, %.0f%% of the peak rate, bound by %s", time, low, high, rate,
                 100 * p->efficiency, hr_bound_name(p->bound_by));
}

static void print_parts(const hr_document *document, const hr_prediction *p)
{
  const struct {
    const char *name;
    double time_ns;
  } parts[] = {{"useful FLOPs", p->matrix_ns}, {"tiles", p->tile_ns},      {"waves", p->wave_ns},
               {"alignment", p->alignment_ns}, {"split", p->reduction_ns}, {"clock", p->clock_ns},
               {"memory", p->exposed_ns},      {"launch", p->launch_ns}};
  char line[512] = "", memory[HR_NUMBER_SIZE];
  for (size_t i = 0; i < HR_COUNT_OF(parts); i++) {
    char time[HR_NUMBER_SIZE];
    if (fabs(parts[i].time_ns) < 0.005) /* a rounding error */
      continue;
    hr_write_time(time, sizeof time, parts[i].time_ns);
    hr_append_item(line, sizeof line, "%s %s", parts[i].name, time);
  }
  hr_write_time(memory, sizeof memory, p->memory_ns);
  hr_print_field(document, "parts", "%s; of the %s of memory traffic, compute hides the rest", line, memory);
}

static void print_quantization(const hr_document *document, const hr_prediction *p)
{
  char tile[HR_NUMBER_SIZE], wave[HR_NUMBER_SIZE], loss[HR_NUMBER_SIZE], splits[48] = "";
  if (p->splits > 1)
    snprintf(splits, sizeof splits, ", k split in %" PRId64 ",", p->splits);
  hr_write_share(tile, sizeof tile, p->tile_waste);
  hr_write_share(wave, sizeof wave, p->wave_waste);
  hr_write_share(loss, sizeof loss, p->alignment_loss);
  if (p->tile_m > 0)
    hr_print_field(document, "tiles",
                   "%" PRId64 " of %" PRId64 "×%" PRId64 "%s in %" PRId64 " wave%s; %s of their area and "
                   "%s of the slots are wasted",
                   p->tiles, p->tile_m, p->tile_n, splits, p->waves, p->waves == 1 ? "" : "s", tile, wave);
  hr_print_field(document, "alignment",
                 "m to %" PRId64 ", n to %" PRId64 ", k to %" PRId64 " bytes; the contiguous ones to "
                 "%" PRId64 ", which loses %s",
                 p->m_alignment, p->n_alignment, p->k_alignment, p->alignment, loss);
}

static void print_median(const hr_document *document, const hr_measurement *m)
{
  char median[HR_NUMBER_SIZE], low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE], rate[HR_NUMBER_SIZE];
  hr_write_time(median, sizeof median, m->median_ns);
  hr_write_time(low, sizeof low, m->median_low_ns);
  hr_write_time(high, sizeof high, m->median_high_ns);
  hr_write_rate(rate, sizeof rate, m->flops_per_s, "FLOP/s");
  hr_print_field(document, "measured", "%s median (%s %s to %s), %s, %" PRId64 " sample%s, %s caches, %s", median,
                 hr_interval_words(m), low, high, rate, m->samples, m->samples == 1 ? "" : "s",
                 m->warm ? "warm" : "cold", m->kernel);
}

/* Time and energy of a run that follows others for seconds. */
static void print_energy(const hr_document *document, const gemm_report *r)
{
  const hr_measurement *m = r->measurement;
  char energy[HR_NUMBER_SIZE], time[HR_NUMBER_SIZE];
  if (isnan(m->energy_j))
    return;
  hr_write_energy(energy, sizeof energy, m->energy_j);
  hr_write_time(time, sizeof time, m->sustained_ns);
  hr_print_field(document, "sustained", "%s, %s, %.3g J/TFLOP, %.0f W at %.0f MHz", time, energy, r->joules_per_tflop,
                 m->sustained_power_w, m->sustained_clock_hz * 1e-6);
}

static void print_measurement(const hr_document *document, const gemm_report *r)
{
  const hr_measurement *m = r->measurement;
  char latency[HR_NUMBER_SIZE], share[HR_NUMBER_SIZE];
  if (m->status != HR_OK)
    hr_print_field(document, "measured", "%s%s%s", hr_status_sentence(m->status), m->reason[0] ? ": " : "", m->reason);
  if (m->samples == 0)
    return;
  print_median(document, m);
  hr_write_time(latency, sizeof latency, m->latency_ns);
  if (isfinite(m->latency_ns))
    hr_print_field(document, "latency", "%s for one run alone, launch included", latency);
  hr_write_share(share, sizeof share, r->ceiling_share);
  if (isfinite(r->ceiling_share))
    hr_print_field(document, "of ceiling", "%s of the instruction ceiling", share);
  print_energy(document, r);
  if (m->configuration[0])
    hr_print_field(document, "algorithm", "%s", m->configuration);
  if (m->choices > 1 && !isnan(m->choice_speedup))
    hr_print_field(document, "autotuned", "%.3f times as fast as the library's first choice", m->choice_speedup);
  const hr_conditions *c = &m->conditions;
  if (!isnan(c->clock_hz))
    hr_print_field(document, "conditions", "%.0f MHz, %.0f W, %.0f °C%s%s", c->clock_hz * 1e-6, c->power_w,
                   c->temperature_c, c->throttled_by[0] ? ", clock limited by: " : "", c->throttled_by);
}

static void write_text(const hr_document *document, const gemm_report *r)
{
  print_problem(document, r);
  hr_print_hardware(document, r->hardware);
  print_time(document, r);
  print_parts(document, r->prediction);
  print_quantization(document, r->prediction);
  if (document->options->library_choice)
    hr_print_field(document, "library", "%s", document->options->library_choice);
  if (r->measurement)
    print_measurement(document, r);
}

hr_status hr_report_gemm(FILE *out, const hr_report_options *options, const hr_gemm *gemm, const hr_measured_call *call,
                         hr_error *error)
{
  HR_NEED(error, out, options, gemm, call);
  const hr_hardware *hardware = call->hardware;
  const hr_prediction *prediction = call->prediction;
  HR_NEED(error, hardware, prediction);
  HR_TAKE(hr_report_options, options, error);
  HR_TAKE(hr_gemm, gemm, error);
  gemm_report r = {.gemm = gemm,
                   .hardware = hardware,
                   .prediction = prediction,
                   .ceiling_share = (double)NAN,
                   .joules_per_tflop = (double)NAN};
  HR_TRY(hr_gemm_check(gemm, error));
  HR_TRY(hr_gemm_flops(gemm, &r.flops));
  HR_TRY(hr_gemm_bytes(gemm, &r.bytes));
  r.a = hr_gemm_a(gemm), r.b = hr_gemm_b(gemm), r.c = hr_gemm_c(gemm);
  hr_measurement known;
  if (call->count > 0) {
    known = hr_known_measurement(&call->runs[0].measurement);
    r.measurement = &known;
    r.ceiling_share = hr_hardware_ceiling_share(hardware, gemm->dtype, known.flops_per_s);
    r.joules_per_tflop = hr_joules_per_tflop(&known);
  }
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status = HR_OK;
  if (options->format == HR_FORMAT_JSON)
    status = write_json(out, &r, options, error);
  else if (options->format == HR_FORMAT_TABLE)
    write_text(&document, &r);
  else
    status = write_table(&document, &r, error);
  return hr_document_end(&document, status, error);
}
