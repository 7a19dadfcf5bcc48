/* SPDX-License-Identifier: Apache-2.0 */
/* `serve-plan` under a load: the layouts, and what happens in one of them over time. */
#include "base/error.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "hardware/hardware.h"
#include "report/inputs.h"
#include "report/lines.h"
#include "report/serve_tables.h"

#include <headroom/experimental/report.h>
#include <headroom/experimental/serve.h>
#include <inttypes.h>

#define PHRASE_SIZE 256

/* ---- columns ---- */

static void one_digit(const void *member, hr_cell *cell)
{
  hr_cell_format(cell, "%.1f", *(const double *)member);
}

static void positive_count(const void *member, hr_cell *cell)
{
  if (*(const int64_t *)member > 0)
    hr_cell_set_count(cell, *(const int64_t *)member);
}

static void counted_copies(const void *row, hr_cell *cell)
{
  const hr_load_point *point = row;
  if (point->instances > 1 || point->prefill_instances > 0)
    hr_cell_set_count(cell, point->instances);
}

/* Copies and those that prefill add devices of which t says nothing. */
static void all_devices(const void *row, hr_cell *cell)
{
  const hr_load_point *point = row;
  if (point->instances > 1 || point->prefill_instances > 0)
    hr_cell_set_count(cell, point->devices);
}

static void shortfall(const void *row, hr_cell *cell)
{
  const hr_load_point *point = row;
  char missed[PHRASE_SIZE] = "";
  if (!point->keeps_up)
    hr_append_item(missed, sizeof missed, "queue grows");
  if (!point->meets_ttft)
    hr_append_item(missed, sizeof missed, "TTFT");
  if (!point->meets_tpot)
    hr_append_item(missed, sizeof missed, "TPOT");
  if (missed[0])
    hr_cell_set_text(cell, missed);
}

static void may_miss(const void *row, hr_cell *cell)
{
  const hr_load_point *point = row;
  char missed[PHRASE_SIZE] = "";
  if (point->keeps_up && !point->band_keeps_up)
    hr_append_item(missed, sizeof missed, "queue may grow");
  if (point->meets_ttft && !point->band_meets_ttft)
    hr_append_item(missed, sizeof missed, "TTFT");
  if (point->meets_tpot && !point->band_meets_tpot)
    hr_append_item(missed, sizeof missed, "TPOT");
  if (missed[0])
    hr_cell_set_text(cell, missed);
}

#define POINT(member) HR_MEMBER(hr_load_point, member)
#define DATA(member) HR_FIELD(hr_load_point, member)
#define END(name, end, figure, of)                                                \
  {                                                                               \
    name "_" #of "_" #end "_ns", NULL, HR_PLAIN, 0, POINT(figure##_##end##_ns.of) \
  }
#define BAND(name, figure)                                                                     \
  END(name, low, figure, mean), END(name, high, figure, mean), END(name, low, figure, p50),    \
      END(name, high, figure, p50), END(name, low, figure, p90), END(name, high, figure, p90), \
      END(name, low, figure, p99), END(name, high, figure, p99)
#define SHOWN(value, function, member) HR_COMPUTED_OF(value, function, hr_load_point, member)
static const hr_column point_columns[] = {
    {"tensor_parallel", "t", HR_PLAIN, 0, POINT(tensor_parallel)},
    DATA(expert_parallel),
    {NULL, "e", HR_PLAIN, 0, .rare = true, SHOWN(COUNT, hr_serve_above_one, expert_parallel)},
    {NULL, "p", HR_PLAIN, 0, .rare = true, SHOWN(COUNT, hr_serve_above_one, pipeline_stages)},
    {NULL, "instances", HR_PLAIN, 0, .rare = true, HR_COMPUTED(COUNT, counted_copies)},
    {NULL, "prefill instances", HR_PLAIN, 0, .rare = true, SHOWN(COUNT, positive_count, prefill_instances)},
    {NULL, "prefill t", HR_PLAIN, 0, .rare = true, SHOWN(COUNT, positive_count, prefill_tensor_parallel)},
    DATA(devices),
    {NULL, "devices", HR_PLAIN, 0, .rare = true, HR_COMPUTED(COUNT, all_devices)},
    {"ttft_mean_ns", NULL, HR_PLAIN, 0, POINT(ttft_ns.mean)},
    {"ttft_p50_ns", "TTFT p50", HR_TIME, 0, POINT(ttft_ns.p50)},
    {"ttft_p90_ns", "p90", HR_TIME, 0, POINT(ttft_ns.p90)},
    {"ttft_p99_ns", "p99", HR_TIME, 3, POINT(ttft_ns.p99)},
    BAND("ttft", ttft),
    {"tpot_mean_ns", NULL, HR_PLAIN, 0, POINT(tpot_ns.mean)},
    {"tpot_p50_ns", "TPOT p50", HR_TIME, 0, POINT(tpot_ns.p50)},
    {"tpot_p90_ns", "p90", HR_TIME, 0, POINT(tpot_ns.p90)},
    {"tpot_p99_ns", "p99", HR_TIME, 4, POINT(tpot_ns.p99)},
    BAND("tpot", tpot),
    {"queue_mean_ns", NULL, HR_PLAIN, 0, POINT(queue_ns.mean)},
    {"queue_p50_ns", NULL, HR_PLAIN, 0, POINT(queue_ns.p50)},
    {"queue_p90_ns", "queued p90", HR_TIME, 2, POINT(queue_ns.p90)},
    {"queue_p99_ns", NULL, HR_PLAIN, 0, POINT(queue_ns.p99)},
    {"request_mean_ns", NULL, HR_PLAIN, 0, POINT(request_ns.mean)},
    {"request_p50_ns", NULL, HR_PLAIN, 0, POINT(request_ns.p50)},
    {"request_p90_ns", "request p90", HR_TIME, 6, POINT(request_ns.p90)},
    {"request_p99_ns", NULL, HR_PLAIN, 0, POINT(request_ns.p99)},
    DATA(resident_mean),
    {NULL, "in batch", HR_PLAIN, 0, SHOWN(TEXT, one_digit, resident_mean)},
    {"resident_max", "at most", HR_PLAIN, 5, POINT(resident_max)},
    DATA(slots),
    DATA(preempted),
    {NULL, "preempted", HR_PLAIN, 0, .rare = true, SHOWN(COUNT, positive_count, preempted)},
    DATA(requests_per_s),
    {NULL, "requests/s", HR_PLAIN, 1, SHOWN(COUNT, hr_serve_rate, requests_per_s)},
    DATA(output_tokens_per_s),
    {NULL, "tokens/s", HR_PLAIN, 0, SHOWN(COUNT, hr_serve_rate, output_tokens_per_s)},
    DATA(output_tokens_per_s_low),
    DATA(output_tokens_per_s_high),
    DATA(cost_per_million_output_tokens),
    {NULL, "cost/M out", HR_PLAIN, 0, .rare = true, SHOWN(COUNT, hr_serve_money, cost_per_million_output_tokens)},
    {"busy_share", "busy", HR_SHARE, 4, POINT(busy_share)},
    DATA(duration_ns),
    DATA(keeps_up),
    DATA(meets_ttft),
    DATA(meets_tpot),
    DATA(band_keeps_up),
    DATA(band_meets_ttft),
    DATA(band_meets_tpot),
    DATA(pipeline_stages),
    DATA(instances),
    DATA(prefill_instances),
    DATA(prefill_tensor_parallel),
    DATA(prefill_busy_share),
    {NULL, "misses", HR_PLAIN, 0, .rare = true, HR_COMPUTED(TEXT, shortfall)},
    {NULL, "may miss", HR_PLAIN, 0, .rare = true, HR_COMPUTED(TEXT, may_miss)},
};

#define INTERVAL(member) HR_MEMBER(hr_load_interval, member)
#define OF_INTERVAL(value, function, member) HR_COMPUTED_OF(value, function, hr_load_interval, member)
static const hr_column interval_columns[] = {
    {"begin_ns", "from", HR_TIME, 0, INTERVAL(begin_ns)},
    {"end_ns", "to", HR_TIME, 0, INTERVAL(end_ns)},
    {"arrivals", "arrivals", HR_PLAIN, 0, INTERVAL(arrivals)},
    HR_FIELD(hr_load_interval, waiting),
    {NULL, "waiting", HR_PLAIN, 0, OF_INTERVAL(TEXT, one_digit, waiting)},
    HR_FIELD(hr_load_interval, resident),
    {NULL, "in batch", HR_PLAIN, 0, OF_INTERVAL(TEXT, one_digit, resident)},
    HR_FIELD(hr_load_interval, output_tokens_per_s),
    {NULL, "tokens/s", HR_PLAIN, 0, OF_INTERVAL(COUNT, hr_serve_rate, output_tokens_per_s)},
};

static hr_table *point_table(const hr_load_result *load)
{
  hr_table *table = HR_TABLE_OF(point_columns, hr_load_point);
  for (size_t i = 0; i < load->count; i++)
    hr_table_add(table, &load->points[i]);
  return table;
}

static hr_table *timeline_table(const hr_load_point *point)
{
  hr_table *table = HR_TABLE_OF(interval_columns, hr_load_interval);
  for (size_t i = 0; i < HR_LOAD_INTERVALS; i++)
    hr_table_add(table, &point->timeline[i]);
  return table;
}

/* ---- JSON ---- */

/* Missing without one. */
static void draft_model_name(const void *member, hr_cell *cell)
{
  const hr_model *model = *(const hr_model *const *)member;
  if (model)
    hr_cell_set_text(cell, model->name);
}

#define LOAD(member) HR_FIELD(hr_load_options, member)
#define SERVE(member) HR_FIELD(hr_serve_options, member)
static const hr_column load_fields[] = {
    LOAD(rate_per_s),
    LOAD(clients),
    LOAD(requests),
    LOAD(prompt_min),
    LOAD(prompt_max),
    LOAD(output_min),
    LOAD(output_max),
    LOAD(cached),
    LOAD(accept),
    LOAD(draft),
    LOAD(wait_steps),
    LOAD(instances),
    LOAD(prefill_instances),
    {"draft_model", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, draft_model_name, hr_load_options, draft_model)},
};
static const hr_column serve_fields[] = {
    SERVE(ttft_limit_ns), SERVE(tpot_limit_ns), SERVE(sure),           SERVE(memory_share),  SERVE(batch_max),
    SERVE(devices_max),   SERVE(page_tokens),   SERVE(prefill_tokens), SERVE(reserve_bytes), SERVE(disaggregated),
};

static void put_place(hr_json json, const char *key, const hr_load_result *load, const hr_load_point *point)
{
  if (point)
    hr_json_put_count(json, key, point - load->points);
  else
    hr_json_put(json, key, json_null());
}

static hr_status write_json(FILE *out, const hr_subject *subject, const hr_load_result *load, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("serve-load/1", &failed);
  hr_json_put_text(json, "device", subject->hardware->about.name);
  hr_json_put_hardware(json, subject->hardware);
  hr_json_put_model(json, subject->model);
  hr_json requests = hr_json_put_object(json, "load");
  hr_json_put_fields(requests, load_fields, HR_COUNT_OF(load_fields), &load->load);
  hr_json_put_count(requests, "seed", (int64_t)load->load.seed);
  hr_json serving = hr_json_put_object(json, "serving");
  hr_json_put_text(serving, "engine", hr_serve_engine_name(load->serve.engine));
  hr_json_put_fields(serving, serve_fields, HR_COUNT_OF(serve_fields), &load->serve);
  hr_json_put_prefill(serving, &load->serve);
  hr_json_put_serve_formats(serving, subject->model, subject->workload, subject->hardware);
  put_place(json, "best", load, load->best);
  put_place(json, "shown", load, load->shown);
  hr_json_put_table(json, "layouts", point_table(load));
  if (load->shown)
    hr_json_put_table(json, "timeline", timeline_table(load->shown));
  else
    hr_json_put(json, "timeline", json_null());
  return hr_json_write(out, json, error);
}

/* ---- text ---- */

/* "512" or "512 … 2,048". */
static void write_span(char *to, int64_t least, int64_t most)
{
  char low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE];
  hr_write_count(low, sizeof low, least);
  hr_write_count(high, sizeof high, most);
  snprintf(to, PHRASE_SIZE, "%s%s%s", low, least < most ? " … " : "", least < most ? high : "");
}

static void write_source(char *to, const hr_load_options *load)
{
  char count[HR_NUMBER_SIZE];
  hr_write_count(count, sizeof count, load->clients);
  if (load->rate_per_s > 0)
    hr_write_text(to, PHRASE_SIZE, "%.6g requests/s at random", load->rate_per_s);
  else if (load->clients > 0)
    snprintf(to, PHRASE_SIZE, "%s client%s, each with one request at a time", count, hr_plural(load->clients));
  else
    snprintf(to, PHRASE_SIZE, "a trace");
}

static void print_load(const hr_document *document, const hr_load_options *load)
{
  char line[PHRASE_SIZE], prompt[PHRASE_SIZE], output[PHRASE_SIZE], count[HR_NUMBER_SIZE], seed[HR_NUMBER_SIZE];
  write_source(line, load);
  write_span(prompt, load->prompt_min, load->prompt_max);
  write_span(output, load->output_min, load->output_max);
  hr_write_count(count, sizeof count, load->requests);
  snprintf(seed, sizeof seed, "; seed %" PRIu64, load->seed);
  bool drawn = load->rate_per_s > 0 || load->clients > 0;
  hr_print_field(document, "load", "%s; %s request%s, prompts of %s tokens, outputs of %s%s", line, count,
                 hr_plural(load->requests), prompt, output, drawn ? seed : "");
  if (load->cached > 0)
    hr_print_field(document, "", "%.3g of each prompt is found in the prefix cache", load->cached);
  if (load->draft > 0)
    hr_print_field(document, "", "%" PRId64 " tokens drafted for a step%s%s, each accepted with probability %.3g",
                   load->draft, load->draft_model ? " by " : "", load->draft_model ? load->draft_model->name : "",
                   load->accept);
}

static void print_server(const hr_document *document, const hr_load_result *load)
{
  char tokens[HR_NUMBER_SIZE], slots[HR_NUMBER_SIZE];
  hr_write_count(tokens, sizeof tokens, load->serve.prefill_tokens);
  hr_write_count(slots, sizeof slots, load->serve.batch > 0 ? load->serve.batch : load->serve.batch_max);
  hr_print_field(document, "server", "%s: prompts in steps of %s tokens, at most %s requests in the batch",
                 hr_serve_engine_name(load->serve.engine), tokens, slots);
  bool own = load->serve.engine != HR_SERVE_NONE;
  hr_print_field(document, "simulated",
                 "steps as predicted and at both ends of their band, with%s the engine's own time%s", own ? "" : "out",
                 load->serve.sure > 0 ? "; limits hold at the high end (--sure)" : "");
}

/* "363 ms (330 ms … 512 ms)". */
static void write_time(char *to, double ns, double low_ns, double high_ns)
{
  char text[HR_NUMBER_SIZE], low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE];
  hr_write_time(text, sizeof text, ns);
  hr_write_time(low, sizeof low, low_ns);
  hr_write_time(high, sizeof high, high_ns);
  snprintf(to, PHRASE_SIZE, "%s (%s … %s)", text, low, high);
}

/* "t = 2", "t = 2, e = 4", "t = 2, 3 copies" or "t = 2, 3 copies beside 5 that prefill with t = 1". */
static void write_layout(char *to, const hr_load_point *point)
{
  snprintf(to, PHRASE_SIZE, "t = %" PRId64, point->tensor_parallel);
  if (point->expert_parallel > 1)
    hr_append_item(to, PHRASE_SIZE, "e = %" PRId64, point->expert_parallel);
  if (point->pipeline_stages > 1)
    hr_append_item(to, PHRASE_SIZE, "p = %" PRId64, point->pipeline_stages);
  if (point->prefill_instances == 0 && point->instances > 1)
    hr_append_item(to, PHRASE_SIZE, "%" PRId64 " copies", point->instances);
  if (point->prefill_instances > 0)
    hr_append_item(to, PHRASE_SIZE, "%" PRId64 " cop%s beside %" PRId64 " that prefill%s with t = %" PRId64,
                   point->instances, point->instances == 1 ? "y" : "ies", point->prefill_instances,
                   point->prefill_instances == 1 ? "s" : "", point->prefill_tensor_parallel);
}

static void print_best(const hr_document *document, const hr_load_result *load)
{
  const hr_load_point *best = load->best;
  char ttft[PHRASE_SIZE], tpot[PHRASE_SIZE];
  if (!best) {
    hr_print_field(document, "no layout", load->count > 0 ? "keeps up within the limits" : "fits");
    return;
  }
  write_time(ttft, best->ttft_ns.p90, best->ttft_low_ns.p90, best->ttft_high_ns.p90);
  write_time(tpot, best->tpot_ns.p90, best->tpot_low_ns.p90, best->tpot_high_ns.p90);
  bool later = best->tpot_ns.p90 > 0; /* some request has a second token */
  char layout[PHRASE_SIZE];
  write_layout(layout, best);
  hr_print_field(document, "best", "%s: for nine requests of ten TTFT is at most %s%s%s", layout, ttft,
                 later ? ", TPOT at most " : "", later ? tpot : "");
}

static hr_status write_text(const hr_document *document, const hr_subject *subject, const hr_load_result *load,
                            hr_error *error)
{
  hr_print_model(document, subject->model);
  hr_print_hardware(document, subject->hardware);
  hr_print_prefill_hardware(document, &load->serve);
  print_load(document, &load->load);
  hr_print_serve_formats(document, subject->model, subject->workload, subject->hardware);
  print_server(document, load);
  print_best(document, load);
  if (!load->shown)
    return HR_OK;
  hr_print_heading(document, "Layouts");
  HR_TRY(hr_print_table(document, point_table(load), error));
  char layout[PHRASE_SIZE];
  write_layout(layout, load->shown);
  hr_print_heading(document, "Timeline of %s", layout);
  return hr_print_table(document, timeline_table(load->shown), error);
}

hr_status hr_report_serve_load(FILE *out, const hr_report_options *options, const hr_subject *subject,
                               const hr_load_result *load, hr_error *error)
{
  HR_NEED(error, out, options, subject, load);
  HR_NEED(error, subject->model, subject->workload, subject->hardware);
  HR_TAKE(hr_report_options, options, error);
  hr_subject taken = *subject;
  const hr_model *model = subject->model;
  const hr_workload *workload = subject->workload;
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  taken.model = model, taken.workload = workload;
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status;
  if (options->format == HR_FORMAT_JSON)
    status = write_json(out, &taken, load, error);
  else if (options->format == HR_FORMAT_CSV)
    status = hr_print_table(&document, point_table(load), error);
  else
    status = write_text(&document, &taken, load, error);
  return hr_document_end(&document, status, error);
}
