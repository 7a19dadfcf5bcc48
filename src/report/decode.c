/* SPDX-License-Identifier: Apache-2.0 */
/* `decode`: one call, predicted, and measured with each kernel of a device. */
#include "base/error.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "hardware/hardware.h"
#include "report/attention_parts.h"
#include "report/inputs.h"
#include "report/kernel_runs.h"
#include "report/measurement.h"

#include <headroom/experimental/decode.h>
#include <headroom/experimental/hardware.h>
#include <inttypes.h>
#include <math.h>

typedef struct decode_report {
  const hr_decode *decode;
  int64_t flops, bytes;
  const hr_hardware *hardware;
  const hr_prediction *prediction; /* may be NULL */
  const hr_kernel_measurement *runs;
  size_t count;
} decode_report;

typedef struct run_row {
  const char *kernel;
  hr_measurement m;
  double read_share, ceiling_share, joules_per_tflop;
} run_row;

#define RUN(member) HR_MEMBER(run_row, member)
static const hr_column columns[] = {
    {"kernel", "kernel", HR_PLAIN, 0, RUN(kernel)},
    {"measured_ns", "time", HR_TIME, 0, RUN(m.median_ns)},
    {"measured_low_ns", NULL, HR_TIME, 0, RUN(m.median_low_ns)},
    {"measured_high_ns", NULL, HR_TIME, 0, RUN(m.median_high_ns)},
    {"bytes_per_s", "rate", HR_BYTES_RATE, 0, RUN(m.bytes_per_s)},
    {"read_share", "of bandwidth", HR_SHARE, 1, RUN(read_share)},
    {"flops_per_s", NULL, HR_FLOPS_RATE, 0, RUN(m.flops_per_s)},
    {"ceiling_share", NULL, HR_SHARE, 0, RUN(ceiling_share)},
    {"workspace_bytes", "workspace", HR_BYTES, 2, HR_COMPUTED_OF(COUNT, hr_whole_cell, run_row, m.workspace_bytes)},
    {"peak_bytes", NULL, HR_BYTES, 0, HR_COMPUTED_OF(COUNT, hr_whole_cell, run_row, m.peak_bytes)},
    {"max_error", "max error", HR_PLAIN, 3, RUN(m.max_error)},
    {"rows_checked", NULL, HR_PLAIN, 0, RUN(m.rows_checked)},
    {"selection_error", "error of top-k", HR_SHARE, 4, RUN(m.selection_error), .rare = true},
    {NULL, "energy", HR_ENERGY, 4, RUN(m.energy_j), .rare = true},
    {"samples", NULL, HR_PLAIN, 0, RUN(m.samples)},
    {"configuration", NULL, HR_PLAIN, 0, HR_OPTIONAL(run_row, m.configuration)},
    {"status", "status", HR_PLAIN, 0, RUN(m.status)},
    {"reason", NULL, HR_PLAIN, 0, HR_OPTIONAL(run_row, m.reason)},
    {"energy_j", NULL, HR_ENERGY, 0, RUN(m.energy_j)},
    {"joules_per_tflop", NULL, HR_PLAIN, 0, RUN(joules_per_tflop)},
    {"sustained_ns", NULL, HR_TIME, 0, RUN(m.sustained_ns)},
    {"sustained_power_w", NULL, HR_PLAIN, 0, RUN(m.sustained_power_w)},
    {"sustained_clock_hz", NULL, HR_PLAIN, 0, RUN(m.sustained_clock_hz)},
};

static hr_table *run_table(const decode_report *r)
{
  hr_table *table = HR_TABLE_OF(columns, run_row);
  double bandwidth = hr_hardware_ceiling(r->hardware, HR_CEILING_READ, HR_FP32);
  for (size_t i = 0; i < r->count; i++) {
    run_row row = {.kernel = r->runs[i].kernel, .m = hr_known_measurement(&r->runs[i].measurement)};
    row.read_share = bandwidth > 0 ? row.m.bytes_per_s / bandwidth : (double)NAN;
    row.ceiling_share = hr_hardware_ceiling_share(r->hardware, r->decode->dtype, row.m.flops_per_s);
    row.joules_per_tflop = hr_joules_per_tflop(&row.m);
    hr_table_add(table, &row);
  }
  return table;
}

/* ---- JSON ---- */

#define REPORT(member) HR_MEMBER(decode_report, member)
#define DECODE HR_THROUGH(decode_report, decode)
#define CALL(member)                                                 \
  {                                                                  \
#member, NULL, HR_PLAIN, 0, DECODE, HR_MEMBER(hr_decode, member) \
  }
static const hr_column call_fields[] = {
    CALL(batch),
    CALL(q_len),
    CALL(kv_len),
    CALL(q_heads),
    CALL(k_heads),
    CALL(v_heads),
    CALL(qk_dim),
    CALL(v_dim),
    CALL(page_size),
    CALL(page_count),
    CALL(table_pitch),
    CALL(window),
    CALL(top_k),
    {"flops", NULL, HR_FLOPS, 0, REPORT(flops)},
    {"bytes", NULL, HR_BYTES, 0, REPORT(bytes)},
    CALL(dtype),
    CALL(scale),
    CALL(softcap),
    CALL(sinks),
    CALL(latent),
    CALL(cache_format),
    CALL(cache_scales),
    CALL(batch_invariant),
};

static void put_cache_strides(hr_json json, const char *key, const hr_kv_strides *strides)
{
  static const hr_column fields[] = {
      HR_FIELD(hr_kv_strides, page),
      HR_FIELD(hr_kv_strides, token),
      HR_FIELD(hr_kv_strides, head),
  };
  hr_json_put_fields(hr_json_put_object(json, key), fields, HR_COUNT_OF(fields), strides);
}

static void put_call(hr_json json, const decode_report *r)
{
  hr_json call = hr_json_put_object(json, "decode");
  hr_strides q = hr_decode_q_strides(r->decode), o = hr_decode_o_strides(r->decode);
  hr_kv_strides k = hr_decode_k_strides(r->decode), v = hr_decode_v_strides(r->decode);
  hr_json_put_fields(call, call_fields, HR_COUNT_OF(call_fields), r);
  hr_json_put_strides(call, "q_strides", &q);
  put_cache_strides(call, "k_strides", &k);
  put_cache_strides(call, "v_strides", &v);
  hr_json_put_strides(call, "o_strides", &o);
  hr_kv_strides k_scales = hr_decode_k_scale_strides(r->decode), v_scales = hr_decode_v_scale_strides(r->decode);
  put_cache_strides(call, "k_scale_strides", &k_scales);
  put_cache_strides(call, "v_scale_strides", &v_scales);
}

static hr_status write_json(FILE *out, const decode_report *r, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("decode/1", &failed);
  hr_json_put_text(json, "device", r->hardware->about.name);
  hr_json_put_hardware(json, r->hardware);
  put_call(json, r);
  hr_json_put_number(json, "predicted_ns", r->prediction ? r->prediction->time_ns : (double)NAN);
  hr_json_put_table(json, "kernels", run_table(r));
  return hr_json_write(out, json, error);
}

/* ---- for people ---- */

static void write_extras(const hr_decode *d, char *to, size_t size)
{
  size_t used = 0;
  to[0] = '\0';
  if (d->window > 0)
    used += (size_t)snprintf(to + used, size - used, ", window %" PRId64, d->window);
  if (d->top_k > 0)
    used += (size_t)snprintf(to + used, size - used, ", V of the top %" PRId64, d->top_k);
  if (d->softcap > 0)
    used += (size_t)hr_write_text(to + used, size - used, ", soft cap %g", (double)d->softcap);
  if (d->scale != 0)
    used += (size_t)hr_write_text(to + used, size - used, ", scale %g", (double)d->scale);
  snprintf(to + used, size - used, "%s%s%s", d->sinks ? ", sinks" : "", d->latent ? ", latent (V is part of K)" : "",
           d->batch_invariant ? ", batch-invariant" : "");
}

/* "bf16", or "bf16, int8 cache with a scale per token and head". */
static void write_formats(const hr_decode *d, char *to, size_t size)
{
  const char *of = d->cache_scales == HR_KV_SCALE_TOKEN ? "token and head" : "head";
  if (d->cache_format == HR_KV_UNQUANTIZED)
    snprintf(to, size, "%s", hr_dtype_name(d->dtype));
  else
    snprintf(to, size, "%s, %s cache with a scale per %s", hr_dtype_name(d->dtype), hr_kv_format_name(d->cache_format),
             of);
}

static void print_problem(const hr_document *document, const decode_report *r)
{
  const hr_decode *d = r->decode;
  char pages[64] = "contiguous", formats[96], extras[160];
  if (d->table_pitch > 1 || d->page_size < d->kv_len)
    snprintf(pages, sizeof pages, "pages of %" PRId64 " tokens", d->page_size);
  write_formats(d, formats, sizeof formats);
  write_extras(d, extras, sizeof extras);
  hr_print_field(document, "decode",
                 "batch %" PRId64 ", q %" PRId64 ", kv %" PRId64 ", heads %" PRId64 "/%" PRId64 "/%" PRId64
                 ", head sizes %" PRId64 "/%" PRId64 ", %s, %s%s",
                 d->batch, d->q_len, d->kv_len, d->q_heads, d->k_heads, d->v_heads, d->qk_dim, d->v_dim, pages, formats,
                 extras);
}

static void print_work(const hr_document *document, const decode_report *r)
{
  char work[HR_NUMBER_SIZE], bytes[HR_NUMBER_SIZE];
  hr_write_rate(work, sizeof work, (double)r->flops, "FLOP");
  hr_write_bytes(bytes, sizeof bytes, (double)r->bytes);
  if (r->decode->top_k > 0)
    hr_print_field(document, "work", "%s, at most %s of Q, O, the visible K and the chosen V", work, bytes);
  else
    hr_print_field(document, "work", "%s, %s of Q, O and the visible K and V", work, bytes);
}

/* The prediction, or why there is none. */
static void print_prediction(const hr_document *document, const decode_report *r)
{
  char time[HR_NUMBER_SIZE];
  hr_prediction none;
  hr_error why;
  if (r->prediction) {
    hr_write_time(time, sizeof time, r->prediction->time_ns);
    hr_print_field(document, "predicted", "%s, bound by %s, with K and %sV read once", time,
                   hr_bound_name(r->prediction->bound_by), r->decode->top_k > 0 ? "the chosen " : "");
    hr_print_attention_parts(document, r->prediction);
  } else if (hr_predict_decode(r->hardware, r->decode, &none, &why) != HR_OK) {
    hr_print_field(document, "predicted", "none: %s", why.message);
  }
}

static hr_status write_text(const hr_document *document, const decode_report *r, hr_error *error)
{
  bool csv = document->options->format == HR_FORMAT_CSV;
  if (!csv) {
    print_problem(document, r);
    hr_print_hardware(document, r->hardware);
    print_work(document, r);
    print_prediction(document, r);
    if (r->count == 0) /* of a device that is not here */
      return HR_OK;
    hr_print_heading(document, "Kernels");
  }
  HR_TRY(hr_print_table(document, run_table(r), error));
  if (!csv)
    hr_print_reasons(document, r->runs, r->count);
  return HR_OK;
}

hr_status hr_report_decode(FILE *out, const hr_report_options *options, const hr_decode *decode,
                           const hr_measured_call *call, hr_error *error)
{
  HR_NEED(error, out, options, decode, call);
  const hr_hardware *hardware = call->hardware;
  HR_NEED(error, hardware);
  HR_TAKE(hr_report_options, options, error);
  HR_TAKE(hr_decode, decode, error);
  decode_report r = {
      .decode = decode, .hardware = hardware, .prediction = call->prediction, .runs = call->runs, .count = call->count};
  HR_TRY(hr_decode_check(decode, error));
  HR_TRY(hr_decode_flops(decode, &r.flops));
  HR_TRY(hr_decode_bytes(decode, &r.bytes));
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status = options->format == HR_FORMAT_JSON ? write_json(out, &r, error) : write_text(&document, &r, error);
  return hr_document_end(&document, status, error);
}
