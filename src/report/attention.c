/* One attention call: what each kernel of a device makes of it. */
#include "report/document.h"

#include "base/error.h"
#include "report/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const hr_column columns[] = {
    {"kernel", "kernel", HR_CELL_TEXT, 0},
    {"measured_ns", "time", HR_CELL_TIME, 0},
    {"measured_low_ns", NULL, HR_CELL_TIME, 0},
    {"measured_high_ns", NULL, HR_CELL_TIME, 0},
    {"flops_per_s", "rate", HR_CELL_FLOPS_RATE, 0},
    {"ceiling_share", "of ceiling", HR_CELL_SHARE, 1},
    {"workspace_bytes", "workspace", HR_CELL_BYTES, 2},
    {"peak_bytes", "peak memory", HR_CELL_BYTES, 0},
    {"max_error", "max error", HR_CELL_NUMBER, 3},
    {"rows_checked", NULL, HR_CELL_COUNT, 0},
    {"samples", NULL, HR_CELL_COUNT, 0},
    {"configuration", NULL, HR_CELL_TEXT, 0},
    {"status", "status", HR_CELL_TEXT, 0},
    {"reason", NULL, HR_CELL_TEXT, 0},
};

typedef struct attention_report {
  const hr_attention *attention;
  int64_t flops, bytes;
  const hr_hardware *hardware;
  const hr_prediction *prediction; /* may be NULL */
  const hr_kernel_measurement *runs;
  size_t count;
} attention_report;

static bool has_time(const hr_measurement *m)
{
  return m->samples > 0;
}

/* Bytes are counts, or not known. */
static void put_bytes(hr_table *table, double bytes)
{
  if (isnan(bytes))
    hr_put_none(table);
  else
    hr_put_count(table, (int64_t)bytes);
}

static void put_run(hr_table *table, const attention_report *r, const hr_kernel_measurement *run)
{
  const hr_measurement *m = &run->measurement;
  bool timed = has_time(m);
  hr_put_text(table, run->kernel);
  hr_put(table, timed ? m->median_ns : NAN);
  hr_put(table, timed ? m->median_low_ns : NAN);
  hr_put(table, timed ? m->median_high_ns : NAN);
  hr_put(table, timed ? m->flops_per_s : NAN);
  hr_put(table, timed ? hr_hardware_ceiling_share(r->hardware, r->attention->dtype, m->flops_per_s) : NAN);
  put_bytes(table, m->workspace_bytes);
  put_bytes(table, m->peak_bytes);
  hr_put(table, m->max_error);
  hr_put_count(table, m->rows_checked);
  hr_put_count(table, m->samples);
  hr_put_text(table, m->configuration[0] ? m->configuration : NULL);
  hr_put_text(table, hr_status_name(m->status));
  hr_table_style(table, m->status == HR_OK ? HR_STYLE_GREEN : HR_STYLE_YELLOW);
  hr_put_text(table, m->reason[0] ? m->reason : NULL);
}

static hr_table *run_table(const attention_report *r)
{
  hr_table *table = hr_table_create(columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < r->count; i++)
    put_run(table, r, &r->runs[i]);
  return table;
}

static void put_strides_json(hr_json json, const char *key, hr_strides strides)
{
  hr_json object = hr_json_put_object(json, key);
  hr_json_put_count(object, "batch", strides.batch);
  hr_json_put_count(object, "row", strides.row);
  hr_json_put_count(object, "head", strides.head);
}

static void put_attention_json(hr_json json, const attention_report *r)
{
  const hr_attention *a = r->attention;
  hr_json attention = hr_json_put_object(json, "attention");
  const struct {
    const char *key;
    int64_t value;
  } counts[] = {{"batch", a->batch},     {"q_len", a->q_len},     {"kv_len", a->kv_len}, {"q_heads", a->q_heads},
                {"k_heads", a->k_heads}, {"v_heads", a->v_heads}, {"qk_dim", a->qk_dim}, {"v_dim", a->v_dim},
                {"window", a->window},   {"flops", r->flops},     {"bytes", r->bytes}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    hr_json_put_count(attention, counts[i].key, counts[i].value);
  hr_json_put_text(attention, "dtype", hr_dtype_name(a->dtype));
  hr_json_put_flag(attention, "causal", a->mask == HR_MASK_CAUSAL);
  hr_json_put_number(attention, "scale", (double)a->scale);
  hr_json_put_number(attention, "softcap", (double)a->softcap);
  hr_json_put_flag(attention, "alibi", a->alibi);
  put_strides_json(attention, "q_strides", hr_attention_strides(a, HR_OPERAND_Q));
  put_strides_json(attention, "k_strides", hr_attention_strides(a, HR_OPERAND_K));
  put_strides_json(attention, "v_strides", hr_attention_strides(a, HR_OPERAND_V));
  put_strides_json(attention, "o_strides", hr_attention_strides(a, HR_OPERAND_O));
}

static hr_status write_json(FILE *out, const attention_report *r, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("attention", &failed);
  hr_json_put_text(json, "device", r->hardware->name);
  hr_json_put_hardware(json, r->hardware);
  put_attention_json(json, r);
  hr_json_put_number(json, "predicted_ns", r->prediction ? r->prediction->time_ns : NAN);
  hr_json_put_table(json, "kernels", run_table(r));
  return hr_json_write(out, json, error);
}

/* The layout whose strides these are; other strides have no name. */
static const char *layout_of(const hr_attention *attention)
{
  for (hr_layout layout = HR_LAYOUT_BSHD; layout < HR_LAYOUT_COUNT; layout++) {
    hr_attention a = *attention;
    bool same = hr_attention_set_layout(&a, layout, NULL) == HR_OK;
    for (hr_attention_operand which = HR_OPERAND_Q; same && which <= HR_OPERAND_O; which++) {
      const hr_strides one = hr_attention_strides(attention, which), other = hr_attention_strides(&a, which);
      same = one.batch == other.batch && one.row == other.row && one.head == other.head;
    }
    if (same)
      return hr_layout_name(layout);
  }
  return "strided";
}

static void tell_problem(const hr_document *document, const attention_report *r)
{
  const hr_attention *a = r->attention;
  char work[HR_NUMBER_SIZE], bytes[HR_NUMBER_SIZE], extras[160] = "";
  size_t used = 0;
  if (a->window > 0)
    used += (size_t)snprintf(extras + used, sizeof extras - used, ", window %" PRId64, a->window);
  if (a->softcap > 0)
    used += (size_t)snprintf(extras + used, sizeof extras - used, ", soft cap %g", (double)a->softcap);
  if (a->scale != 0)
    snprintf(extras + used, sizeof extras - used, ", scale %g", (double)a->scale);
  hr_put_field(document, "attention",
               "batch %" PRId64 ", q %" PRId64 ", kv %" PRId64 ", heads %" PRId64 "/%" PRId64 "/%" PRId64
               ", head sizes %" PRId64 "/%" PRId64 ", %s, %s, %s%s%s",
               a->batch, a->q_len, a->kv_len, a->q_heads, a->k_heads, a->v_heads, a->qk_dim, a->v_dim, layout_of(a),
               hr_dtype_name(a->dtype), a->mask == HR_MASK_CAUSAL ? "causal" : "no mask", extras,
               a->alibi ? ", ALiBi" : "");
  hr_put_hardware(document, r->hardware);
  hr_write_rate(work, sizeof work, (double)r->flops, "FLOP");
  hr_write_bytes(bytes, sizeof bytes, (double)r->bytes);
  hr_put_field(document, "work", "%s in the scores that the mask leaves, %s of Q, K, V and O", work, bytes);
}

/* Or why there is none. */
static void tell_prediction(const hr_document *document, const attention_report *r)
{
  char time[HR_NUMBER_SIZE];
  hr_prediction none;
  hr_error why;
  if (!r->prediction) {
    if (hr_predict_attention(r->hardware, r->attention, &none, &why) != HR_OK)
      hr_put_field(document, "predicted", "no: %s", why.message);
    return;
  }
  hr_write_time(time, sizeof time, r->prediction->time_ns);
  hr_put_field(document, "predicted", "%s, bound by %s, for a kernel that keeps the scores on the chip", time,
               hr_bound_name(r->prediction->bound_by));
}

/* Why a kernel has no time, or a doubtful one. */
static void tell_reasons(const hr_document *document, const attention_report *r)
{
  for (size_t i = 0; i < r->count; i++) {
    const hr_measurement *m = &r->runs[i].measurement;
    const char *kernel = r->runs[i].kernel;
    bool named = strncmp(m->reason, kernel, strlen(kernel)) == 0;
    if (m->reason[0])
      hr_put_field(document, hr_status_name(m->status), "%s%s%s", named ? "" : kernel, named ? "" : ": ", m->reason);
  }
}

static hr_status write_text(const hr_document *document, const attention_report *r, hr_error *error)
{
  bool csv = document->options->format == HR_FORMAT_CSV;
  if (!csv) {
    tell_problem(document, r);
    tell_prediction(document, r);
    hr_put_heading(document, "Kernels");
  }
  HR_TRY(hr_put_table(document, run_table(r), error));
  if (!csv)
    tell_reasons(document, r);
  return HR_OK;
}

hr_status hr_report_attention(FILE *out, const hr_report_options *options, const hr_attention *attention,
                              const hr_hardware *hardware, const hr_prediction *prediction,
                              const hr_kernel_measurement *runs, size_t count, hr_error *error)
{
  HR_NEED(error, out, options, attention, hardware);
  attention_report r = {
      .attention = attention, .hardware = hardware, .prediction = prediction, .runs = runs, .count = count};
  HR_TRY(hr_attention_check(attention, error));
  hr_document document;
  if (hr_attention_flops(attention, &r.flops) != HR_OK || hr_attention_bytes(attention, &r.bytes) != HR_OK)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "variable lengths are known at the run alone");
  HR_TRY(hr_document_begin(&document, out, options, error));
  hr_status status = options->format == HR_FORMAT_JSON ? write_json(out, &r, error) : write_text(&document, &r, error);
  return hr_document_end(&document, status, error);
}
