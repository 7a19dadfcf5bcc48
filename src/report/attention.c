/* SPDX-License-Identifier: Apache-2.0 */
/* `attention`: one call, predicted, and measured with each kernel of a device. */
#include "base/error.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "hardware/hardware.h"
#include "report/attention_parts.h"
#include "report/inputs.h"
#include "report/kernel_runs.h"
#include "report/measurement.h"

#include <headroom/experimental/attention_backward.h>
#include <headroom/experimental/hardware.h>
#include <inttypes.h>
#include <math.h>

typedef struct attention_report {
  const hr_attention *attention;
  int64_t flops, bytes;
  const hr_hardware *hardware;
  const hr_prediction *prediction; /* may be NULL */
  const hr_kernel_measurement *runs;
  size_t count;
  bool backward; /* the gradients of the call */
} attention_report;

typedef struct run_row {
  const char *kernel;
  hr_measurement m;
  double ceiling_share, joules_per_tflop;
} run_row;

#define RUN(member) HR_MEMBER(run_row, member)
static const hr_column columns[] = {
    {"kernel", "kernel", HR_PLAIN, 0, RUN(kernel)},
    {"measured_ns", "time", HR_TIME, 0, RUN(m.median_ns)},
    {"measured_low_ns", NULL, HR_TIME, 0, RUN(m.median_low_ns)},
    {"measured_high_ns", NULL, HR_TIME, 0, RUN(m.median_high_ns)},
    {"flops_per_s", "rate", HR_FLOPS_RATE, 0, RUN(m.flops_per_s)},
    {"ceiling_share", "of ceiling", HR_SHARE, 1, RUN(ceiling_share)},
    {"workspace_bytes", "workspace", HR_BYTES, 2, HR_COMPUTED_OF(COUNT, hr_whole_cell, run_row, m.workspace_bytes)},
    {"peak_bytes", "peak memory", HR_BYTES, 0, HR_COMPUTED_OF(COUNT, hr_whole_cell, run_row, m.peak_bytes)},
    {"max_error", "max error", HR_PLAIN, 3, RUN(m.max_error)},
    {"rows_checked", NULL, HR_PLAIN, 0, RUN(m.rows_checked)},
    {NULL, "energy", HR_ENERGY, 4, RUN(m.energy_j), .rare = true},
    {NULL, "J/TFLOP", HR_PLAIN, 5, RUN(joules_per_tflop), .rare = true},
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

static hr_table *run_table(const attention_report *r)
{
  hr_table *table = HR_TABLE_OF(columns, run_row);
  for (size_t i = 0; i < r->count; i++) {
    run_row row = {.kernel = r->runs[i].kernel, .m = hr_known_measurement(&r->runs[i].measurement)};
    row.ceiling_share = hr_hardware_ceiling_share(r->hardware, r->attention->dtype, row.m.flops_per_s);
    row.joules_per_tflop = hr_joules_per_tflop(&row.m);
    hr_table_add(table, &row);
  }
  return table;
}

static void is_causal(const void *member, hr_cell *cell)
{
  hr_cell_set_flag(cell, *(const hr_mask *)member == HR_MASK_CAUSAL);
}

/* `member` is the first of hr_attention. */
static void output_name(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, hr_dtype_name(hr_attention_output_dtype(member)));
}

#define REPORT(member) HR_MEMBER(attention_report, member)
#define ATTENTION HR_THROUGH(attention_report, attention)
#define CALL(member)                                                       \
  {                                                                        \
#member, NULL, HR_PLAIN, 0, ATTENTION, HR_MEMBER(hr_attention, member) \
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
    CALL(window),
    {"flops", NULL, HR_FLOPS, 0, REPORT(flops)},
    {"bytes", NULL, HR_BYTES, 0, REPORT(bytes)},
    CALL(dtype),
    {"causal", NULL, HR_PLAIN, 0, ATTENTION, HR_COMPUTED_OF(FLAG, is_causal, hr_attention, mask)},
    CALL(scale),
    CALL(softcap),
    CALL(alibi),
    {"output", NULL, HR_PLAIN, 0, ATTENTION, HR_COMPUTED_OF(TEXT, output_name, hr_attention, struct_size)},
    CALL(head_scales),
    {"backward", NULL, HR_PLAIN, 0, REPORT(backward)},
};

static void put_strides(hr_json json, const char *key, const hr_attention *attention, hr_attention_operand operand)
{
  hr_strides strides = hr_attention_strides(attention, operand);
  hr_json_put_strides(json, key, &strides);
}

static void put_call(hr_json json, const attention_report *r)
{
  hr_json call = hr_json_put_object(json, "attention");
  hr_json_put_fields(call, call_fields, HR_COUNT_OF(call_fields), r);
  put_strides(call, "q_strides", r->attention, HR_OPERAND_Q);
  put_strides(call, "k_strides", r->attention, HR_OPERAND_K);
  put_strides(call, "v_strides", r->attention, HR_OPERAND_V);
  put_strides(call, "o_strides", r->attention, HR_OPERAND_O);
}

static hr_status write_json(FILE *out, const attention_report *r, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("attention/1", &failed);
  hr_json_put_text(json, "device", r->hardware->about.name);
  hr_json_put_hardware(json, r->hardware);
  put_call(json, r);
  hr_json_put_number(json, "predicted_ns", r->prediction ? r->prediction->time_ns : NAN);
  hr_json_put_table(json, "kernels", run_table(r));
  return hr_json_write(out, json, error);
}

/* The name of the layout that has these strides, else "strided". */
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

static void print_problem(const hr_document *document, const attention_report *r)
{
  const hr_attention *a = r->attention;
  char work[HR_NUMBER_SIZE], bytes[HR_NUMBER_SIZE], extras[160] = "";
  size_t used = 0;
  if (a->window > 0)
    used += (size_t)snprintf(extras + used, sizeof extras - used, ", window %" PRId64, a->window);
  if (a->softcap > 0)
    used += (size_t)hr_write_text(extras + used, sizeof extras - used, ", soft cap %g", (double)a->softcap);
  if (a->scale != 0)
    used += (size_t)hr_write_text(extras + used, sizeof extras - used, ", scale %g", (double)a->scale);
  if (a->output != HR_OUTPUT_AS_OPERANDS)
    used +=
        (size_t)snprintf(extras + used, sizeof extras - used, ", O in %s", hr_dtype_name(hr_attention_output_dtype(a)));
  if (a->head_scales)
    snprintf(extras + used, sizeof extras - used, ", a scale per head");
  hr_print_field(document, r->backward ? "gradients" : "attention",
                 "batch %" PRId64 ", q %" PRId64 ", kv %" PRId64 ", heads %" PRId64 "/%" PRId64 "/%" PRId64
                 ", head sizes %" PRId64 "/%" PRId64 ", %s, %s, %s%s%s",
                 a->batch, a->q_len, a->kv_len, a->q_heads, a->k_heads, a->v_heads, a->qk_dim, a->v_dim, layout_of(a),
                 hr_dtype_name(a->dtype), a->mask == HR_MASK_CAUSAL ? "causal" : "no mask", extras,
                 a->alibi ? ", ALiBi" : "");
  hr_print_hardware(document, r->hardware);
  hr_write_rate(work, sizeof work, (double)r->flops, "FLOP");
  hr_write_bytes(bytes, sizeof bytes, (double)r->bytes);
  hr_print_field(document, "work", "%s for unmasked scores, %s of Q, K, V and O%s", work, bytes,
                 r->backward ? ", their gradients and the log-sum-exp" : "");
}

/* The prediction, or why there is none. */
static void print_prediction(const hr_document *document, const attention_report *r)
{
  char time[HR_NUMBER_SIZE];
  hr_prediction none;
  hr_error why;
  if (!r->prediction) {
    if (hr_predict_attention_by(r->hardware, r->attention, HR_FRAMEWORK_HEADROOM, &none, &why) != HR_OK)
      hr_print_field(document, "predicted", "none: %s", why.message);
    return;
  }
  hr_write_time(time, sizeof time, r->prediction->time_ns);
  hr_print_field(document, "predicted", "%s, bound by %s, for a fused kernel (scores stay on chip)", time,
                 hr_bound_name(r->prediction->bound_by));
  hr_print_attention_parts(document, r->prediction);
}

static hr_status write_text(const hr_document *document, const attention_report *r, hr_error *error)
{
  bool csv = document->options->format == HR_FORMAT_CSV;
  if (!csv) {
    print_problem(document, r);
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

static hr_status count_work(attention_report *r, hr_error *error)
{
  const hr_attention *a = r->attention;
  HR_TRY(r->backward ? hr_attention_backward_check(a, NULL, error) : hr_attention_check(a, error));
  hr_status flops = r->backward ? hr_attention_backward_flops(a, &r->flops) : hr_attention_flops(a, &r->flops);
  hr_status bytes = r->backward ? hr_attention_backward_bytes(a, &r->bytes) : hr_attention_bytes(a, &r->bytes);
  if (flops != HR_OK || bytes != HR_OK)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "variable lengths are known only when the kernel runs");
  return HR_OK;
}

static hr_status write_report(FILE *out, const hr_report_options *options, const hr_attention *attention, bool backward,
                              const hr_measured_call *call, hr_error *error)
{
  attention_report r = {.attention = attention,
                        .hardware = call->hardware,
                        .prediction = call->prediction,
                        .runs = call->runs,
                        .count = call->count,
                        .backward = backward};
  HR_TRY(count_work(&r, error));
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status = options->format == HR_FORMAT_JSON ? write_json(out, &r, error) : write_text(&document, &r, error);
  return hr_document_end(&document, status, error);
}

hr_status hr_report_attention(FILE *out, const hr_report_options *options, const hr_attention *attention,
                              const hr_measured_call *call, hr_error *error)
{
  HR_NEED(error, out, options, attention, call);
  const hr_hardware *hardware = call->hardware;
  HR_NEED(error, hardware);
  HR_TAKE(hr_report_options, options, error);
  HR_TAKE(hr_attention, attention, error);
  return write_report(out, options, attention, false, call, error);
}

hr_status hr_report_attention_backward(FILE *out, const hr_report_options *options, const hr_attention *forward,
                                       const hr_measured_call *call, hr_error *error)
{
  HR_NEED(error, out, options, forward, call);
  const hr_hardware *hardware = call->hardware;
  HR_NEED(error, hardware);
  HR_TAKE(hr_report_options, options, error);
  HR_TAKE(hr_attention, forward, error);
  return write_report(out, options, forward, true, call, error);
}
