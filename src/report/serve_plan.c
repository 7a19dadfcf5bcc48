/* SPDX-License-Identifier: Apache-2.0 */
/* `serve-plan`: what is best, the Pareto front, the layouts; with -v every point. */
#include "base/error.h"
#include "base/names.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"
#include "report/cache_growth.h"
#include "report/inputs.h"
#include "report/layer_groups.h"
#include "report/lines.h"
#include "report/serve_tables.h"

#include <headroom/experimental/hardware.h>
#include <headroom/experimental/quantization.h>
#include <headroom/experimental/serve.h>
#include <inttypes.h>
#include <string.h>

#define PHRASE_SIZE 256

/* ---- formats ---- */

/* The format in which a layer of weights of `format` is multiplied; NULL: unquantized. */
static const char *multiplied(const hr_weight_format *format, const hr_workload *workload, const hr_hardware *hardware)
{
  const hr_activations rounded = format ? format->activations : HR_ACTIVATIONS_UNQUANTIZED;
  if (rounded == HR_ACTIVATIONS_UNQUANTIZED || hr_hardware_widens(hardware, rounded))
    return hr_dtype_name(hr_hardware_compute_dtype(hardware, workload->dtype));
  if (rounded == HR_ACTIVATIONS_FP8)
    return hr_dtype_name(hr_hardware_compute_dtype(hardware, HR_FP8_E4M3));
  return hr_activations_name(rounded);
}

/* Adds a name to a list unless it is the last one. */
static void append_name(char *to, const char *name)
{
  size_t used = strlen(to), size = strlen(name);
  if (used < size || strcmp(to + used - size, name) != 0)
    hr_append_item(to, PHRASE_SIZE, "%s", name);
}

/** What a plan's numbers are stored in and multiplied in. */
typedef struct formats {
  char weights[PHRASE_SIZE], gemm[PHRASE_SIZE]; /* of the linear layers */
  const char *kv_cache;
} formats;

static formats formats_of(const hr_model *model, const hr_workload *workload, const hr_hardware *hardware)
{
  const hr_quantization *q = &model->quantization;
  bool quantized = workload->kv_cache != HR_KV_UNQUANTIZED;
  formats found = {.kv_cache = quantized ? hr_kv_format_name(workload->kv_cache) : hr_dtype_name(workload->dtype)};
  for (size_t i = 0; i < q->format_count; i++) {
    append_name(found.weights, q->formats[i].name);
    append_name(found.gemm, multiplied(&q->formats[i], workload, hardware));
  }
  if (q->format_count == 0) {
    append_name(found.weights, hr_dtype_name(workload->dtype));
    append_name(found.gemm, multiplied(NULL, workload, hardware));
  }
  return found;
}

void hr_json_put_serve_formats(hr_json json, const hr_model *model, const hr_workload *workload,
                               const hr_hardware *hardware)
{
  formats found = formats_of(model, workload, hardware);
  hr_json to = hr_json_put_object(json, "formats");
  hr_json_put_text(to, "weights", found.weights);
  hr_json_put_text(to, "activations", hr_dtype_name(workload->dtype));
  hr_json_put_text(to, "kv_cache", found.kv_cache);
  hr_json_put_text(to, "gemm", found.gemm);
}

void hr_print_serve_formats(const hr_document *document, const hr_model *model, const hr_workload *workload,
                            const hr_hardware *hardware)
{
  formats found = formats_of(model, workload, hardware);
  hr_print_field(document, "formats", "weights of linear layers %s, activations %s, KV cache %s, GEMMs %s",
                 found.weights, hr_dtype_name(workload->dtype), found.kv_cache, found.gemm);
  if (strstr(found.gemm, "fp8"))
    hr_print_field(document, "",
                   "frameworks' fp8 GEMMs differ, a few take twice the predicted time: TTFT has a wide band");
}

/* ---- JSON ---- */

#define OPTION(member) HR_FIELD(hr_serve_options, member)
static const hr_column option_fields[] = {
    OPTION(prompt_tokens),
    OPTION(output_tokens),
    OPTION(ttft_limit_ns),
    OPTION(tpot_limit_ns),
    OPTION(price_per_device_hour),
    OPTION(memory_share),
    OPTION(batch_max),
    OPTION(devices_max),
    OPTION(prefill_tokens),
    OPTION(page_tokens),
    OPTION(disaggregated),
    OPTION(reserve_bytes),
    OPTION(uniform_pages),
    OPTION(sure),
    OPTION(recommend),
    OPTION(pipeline_stages),
    OPTION(prefill_price_per_device_hour),
};

static hr_status write_json(FILE *out, const hr_model *model, const hr_workload *workload, const hr_hardware *hardware,
                            const hr_serve_result *plan, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("serve-plan/2", &failed);
  hr_json_put_text(json, "device", hardware->about.name);
  hr_json_put_hardware(json, hardware);
  hr_json_put_model(json, model);
  hr_json serving = hr_json_put_object(json, "serving");
  hr_json_put_text(serving, "dtype", hr_dtype_name(workload->dtype));
  hr_json_put_text(serving, "kv_cache", hr_kv_format_name(workload->kv_cache));
  hr_json_put_serve_formats(serving, model, workload, hardware);
  hr_json_put_number(serving, "expert_imbalance", workload->expert_imbalance);
  hr_json_put_fields(serving, option_fields, HR_COUNT_OF(option_fields), &plan->options);
  hr_json_put_text(serving, "engine", hr_serve_engine_name(plan->options.engine));
  hr_json_put_prefill(serving, &plan->options);
  hr_json_put_count(serving, "capacity_bytes", plan->capacity_bytes);
  hr_json_put_count(serving, "cached_tokens", plan->cached_tokens);
  hr_json_put_cache_growth(serving, model, workload);
  hr_json_put_serve_point(json, "latency", plan->latency);
  hr_json_put_serve_point(json, "throughput", plan->throughput);
  hr_json_put_serve_point(json, "cheapest", plan->cheapest);
  hr_json_put_serve_point(json, "nearest", plan->nearest);
  hr_json_put_count(json, "devices_needed", plan->devices_needed);
  hr_json_put_text(json, "weights_needed", plan->weights_needed[0] ? plan->weights_needed : NULL);
  hr_json_put_table(json, "fleets", hr_serve_fleet_table(plan));
  hr_json_put_table(json, "layouts", hr_serve_layout_table(plan));
  hr_json_put_table(json, "points", hr_serve_point_table(plan, false));
  return hr_json_write(out, json, error);
}

/* ---- text ---- */

/* "t = 4, batch 64", or "t = 2, e = 8, batch 16 in each of 4 groups". */
static void write_plan(char *to, const hr_serve_point *point)
{
  snprintf(to, PHRASE_SIZE, "t = %" PRId64, point->tensor_parallel);
  if (point->expert_parallel > 1)
    hr_append_item(to, PHRASE_SIZE, "e = %" PRId64, point->expert_parallel);
  if (point->pipeline_stages > 1)
    hr_append_item(to, PHRASE_SIZE, "p = %" PRId64, point->pipeline_stages);
  hr_append_item(to, PHRASE_SIZE, "batch %" PRId64, point->batch);
  if (point->sequences != point->batch) {
    size_t used = strlen(to);
    snprintf(to + used, PHRASE_SIZE - used, " in each of %" PRId64 " groups", point->sequences / point->batch);
  }
}

/* "TTFT 88.6 ms (77.0 ms … 102 ms), TPOT 12.1 ms (10.5 ms … 13.9 ms)". */
static void write_times(char *to, const hr_serve_point *point)
{
  const struct {
    const char *name;
    double ns, low_ns, high_ns;
  } times[] = {{"TTFT", point->ttft_ns, point->ttft_low_ns, point->ttft_high_ns},
               {"TPOT", point->tpot_ns, point->tpot_low_ns, point->tpot_high_ns}};
  to[0] = '\0';
  for (size_t i = 0; i < HR_COUNT_OF(times); i++) {
    char ns[HR_NUMBER_SIZE], low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE];
    hr_write_time(ns, sizeof ns, times[i].ns);
    hr_write_time(low, sizeof low, times[i].low_ns);
    hr_write_time(high, sizeof high, times[i].high_ns);
    if (times[i].ns > 0)
      hr_append_item(to, PHRASE_SIZE, "%s %s (%s … %s)", times[i].name, ns, low, high);
  }
}

static void write_rate(char *to, double per_s)
{
  hr_cell cell;
  char buffer[HR_NUMBER_SIZE];
  hr_serve_rate(&per_s, &cell);
  snprintf(to, HR_NUMBER_SIZE, "%s", hr_cell_show(&cell, HR_PLAIN, buffer, sizeof buffer));
}

/* A line: the plan, what it is best in, its times. */
static void print_point(const hr_document *document, const char *label, const hr_serve_point *point, const char *figure)
{
  char where[PHRASE_SIZE], times[PHRASE_SIZE];
  const char *limits = hr_serve_may_miss(point);
  write_plan(where, point);
  write_times(times, point);
  hr_print_field(document, label, "%s: %s; %s%s%s%s", where, figure, times,
                 limits ? "; a part of the band is beyond the limit (" : "", limits ? limits : "", limits ? ")" : "");
}

static void write_throughput(char *to, const hr_serve_point *point)
{
  char rate[HR_NUMBER_SIZE];
  write_rate(rate, point->output_tokens_per_s);
  snprintf(to, PHRASE_SIZE, "%s output tokens/s on %" PRId64 " device%s", rate, point->devices,
           hr_plural(point->devices));
  if (point->prefill_devices > 0) {
    write_rate(rate, point->prefill_devices);
    hr_append_item(to, PHRASE_SIZE, "with %s more for the prefill", rate);
  }
}

static void write_cheapest(char *to, const hr_serve_options *options, const hr_serve_point *point)
{
  char rate[HR_NUMBER_SIZE];
  write_rate(rate, point->output_tokens_per_s_per_device);
  snprintf(to, PHRASE_SIZE, "%s output tokens/s per device", rate);
  if (options->price_per_device_hour > 0)
    hr_append_item(to, PHRASE_SIZE, "%.3g per million of them, %.3g per million with prompts",
                   point->cost_per_million_output_tokens, point->cost_per_million_tokens);
  int64_t copies = options->disaggregated ? 1 : options->devices_max / point->devices;
  if (copies > 1) {
    write_rate(rate, point->output_tokens_per_s * (double)copies);
    hr_append_item(to, PHRASE_SIZE, "%s from %" PRId64 " copies on %" PRId64 " devices", rate, copies,
                   copies * point->devices);
  }
}

static void print_best(const hr_document *document, const hr_serve_result *plan)
{
  char figure[PHRASE_SIZE], time[HR_NUMBER_SIZE];
  hr_write_time(time, sizeof time, plan->latency->request_ns);
  snprintf(figure, sizeof figure, "a request takes %s", time);
  print_point(document, "latency", plan->latency, figure);
  write_throughput(figure, plan->throughput);
  print_point(document, "throughput", plan->throughput, figure);
  write_cheapest(figure, &plan->options, plan->cheapest);
  print_point(document, "cheapest", plan->cheapest, figure);
}

static void write_limits(char *to, const hr_serve_options *options)
{
  char time[HR_NUMBER_SIZE];
  to[0] = '\0';
  if (options->ttft_limit_ns > 0) {
    hr_write_time(time, sizeof time, options->ttft_limit_ns);
    hr_append_item(to, PHRASE_SIZE, "TTFT at most %s", time);
  }
  if (options->tpot_limit_ns > 0) {
    hr_write_time(time, sizeof time, options->tpot_limit_ns);
    hr_append_item(to, PHRASE_SIZE, "TPOT at most %s", time);
  }
  if (to[0] && options->sure > 0)
    hr_append_item(to, PHRASE_SIZE, "at the high ends of bands of %" PRId64 "%%", options->sure);
}

static void print_nearest(const hr_document *document, const hr_serve_result *plan)
{
  const hr_serve_point *nearest = plan->nearest;
  const hr_serve_options *options = &plan->options;
  bool sure = options->sure > 0;
  char missed[PHRASE_SIZE] = "";
  const struct {
    const char *name;
    bool met;
    double ns, limit_ns;
  } limits[] = {{"TTFT", sure ? nearest->band_meets_ttft : nearest->meets_ttft,
                 sure ? nearest->ttft_high_ns : nearest->ttft_ns, options->ttft_limit_ns},
                {"TPOT", sure ? nearest->band_meets_tpot : nearest->meets_tpot,
                 sure ? nearest->tpot_high_ns : nearest->tpot_ns, options->tpot_limit_ns}};
  for (size_t i = 0; i < HR_COUNT_OF(limits); i++) {
    if (!limits[i].met)
      hr_append_item(missed, sizeof missed, "%s%s is %.3g times its limit", sure ? "the high end of " : "",
                     limits[i].name, limits[i].ns / limits[i].limit_ns);
  }
  hr_print_field(document, "no plan", "meets the limits");
  print_point(document, "nearest", nearest, missed);
}

/* "on 8 devices", or "with t = 1" where one layout alone was asked for. */
static void write_tried(char *to, const hr_serve_result *plan)
{
  const hr_serve_layout *only = &plan->layouts[0];
  int64_t devices = plan->options.devices_max;
  if (plan->layout_count > 1)
    snprintf(to, PHRASE_SIZE, "on %" PRId64 " device%s", devices, hr_plural(devices));
  else
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a plan has a layout */
    snprintf(to, PHRASE_SIZE, "with t = %" PRId64, only->tensor_parallel);
  if (plan->layout_count == 1 && only->expert_parallel > 1)
    hr_append_item(to, PHRASE_SIZE, "e = %" PRId64, only->expert_parallel);
  if (only->pipeline_stages > 1)
    hr_append_item(to, PHRASE_SIZE, "p = %" PRId64, only->pipeline_stages);
}

/* The layout that was asked for where none splits; NULL if one does. */
static const hr_serve_layout *unsplit(const hr_serve_result *plan)
{
  for (size_t i = 0; i < plan->layout_count; i++) {
    if (plan->layouts[i].splits)
      return NULL;
  }
  return plan->layouts;
}

static void print_needs(const hr_document *document, const hr_serve_result *plan)
{
  const hr_serve_layout *asked = unsplit(plan);
  if (asked) {
    hr_print_field(document, "no plan", "splits: %s", asked->split);
    return;
  }
  int64_t devices = plan->options.devices_max;
  char tried[PHRASE_SIZE], more[PHRASE_SIZE] = "", narrower[PHRASE_SIZE] = "";
  if (plan->devices_needed > 0)
    snprintf(more, sizeof more, "%" PRId64 " device%s (%s)", plan->devices_needed, hr_plural(plan->devices_needed),
             plan->devices_needed > devices ? "--devices" : "another -t or --expert-parallel");
  if (plan->weights_needed[0])
    snprintf(narrower, sizeof narrower, "weights in %s (--weights)", plan->weights_needed);
  write_tried(tried, plan);
  hr_print_field(document, "no plan", "fits %s%s%s%s%s%s", tried, plan->options.batch > 1 ? " with this batch" : "",
                 more[0] || narrower[0] ? ". One sequence would with " : "", more,
                 more[0] && narrower[0] ? ", or with " : "", narrower);
}

/* "sglang: 2,303 tokens of a sequence", which vLLM's rule begins without a name. */
static void write_kept(char *to, size_t size, const hr_serve_result *plan)
{
  const hr_serve_options *options = &plan->options;
  bool named = options->engine != HR_SERVE_VLLM;
  char cached[HR_NUMBER_SIZE];
  hr_write_count(cached, sizeof cached, plan->cached_tokens);
  snprintf(to, size, "%s%s%s tokens of a sequence%s", named ? hr_serve_engine_name(options->engine) : "",
           named ? ": " : "", cached, options->uniform_pages ? " in all layers" : "");
}

/* Who may take what of a device's memory, by the engine's rule. */
static void print_server(const hr_document *document, const hr_serve_result *plan)
{
  static const char *const taken_before[HR_SERVE_ENGINE_COUNT] = {
      [HR_SERVE_TRTLLM] = "weights, the largest step", [HR_SERVE_TURBOMIND] = "weights"};
  const hr_serve_options *options = &plan->options;
  const char *before = taken_before[options->engine];
  char kept[PHRASE_SIZE], capacity[HR_NUMBER_SIZE], reserve[HR_NUMBER_SIZE];
  write_kept(kept, sizeof kept, plan);
  hr_write_bytes(capacity, sizeof capacity, (double)plan->capacity_bytes);
  hr_write_bytes(reserve, sizeof reserve, (double)options->reserve_bytes);
  const char *apart = options->disaggregated ? "; prompts are prefilled on separate devices" : "";
  if (before)
    hr_print_field(document, "server", "%s; K and V have %.3g of what %s and %s (--reserve) leave of %s%s", kept,
                   options->memory_share, before, reserve, capacity, apart);
  else
    hr_print_field(document, "server", "%s, %s of each device's memory, %s of it reserved (--reserve)%s%s", kept,
                   capacity, reserve, options->engine == HR_SERVE_SGLANG ? ", steps beside it" : "", apart);
}

void hr_print_prefill_hardware(const hr_document *document, const hr_serve_options *options)
{
  const hr_hardware *hardware = options->prefill_hardware;
  char memory[HR_NUMBER_SIZE];
  if (!hardware)
    return;
  hr_write_bytes(memory, sizeof memory, (double)hardware->memory_bytes);
  hr_print_field(document, "prefill on", "%s: %s, %s", hardware->about.name, hardware->about.product, memory);
}

void hr_json_put_prefill(hr_json json, const hr_serve_options *options)
{
  hr_json_put_text(json, "prefill_device", options->prefill_hardware ? options->prefill_hardware->about.name : NULL);
}

static void print_head(const hr_document *document, const hr_model *model, const hr_workload *workload,
                       const hr_hardware *hardware, const hr_serve_result *plan)
{
  const hr_serve_options *options = &plan->options;
  char prompt[HR_NUMBER_SIZE], output[HR_NUMBER_SIZE], limits[PHRASE_SIZE];
  hr_write_count(prompt, sizeof prompt, options->prompt_tokens);
  hr_write_count(output, sizeof output, options->output_tokens);
  write_limits(limits, options);
  hr_print_model(document, model);
  hr_print_hardware(document, hardware);
  hr_print_prefill_hardware(document, options);
  hr_print_field(document, "requests", "prompts of %s tokens, outputs of %s%s%s", prompt, output, limits[0] ? "; " : "",
                 limits);
  hr_print_serve_formats(document, model, workload, hardware);
  hr_print_cache_growth(document, model, workload, plan->cached_tokens);
  print_server(document, plan);
  hr_print_server_kernels(document, hardware, workload->framework);
  hr_print_field(document, "predicted", "steady load, without queueing and without the server's own overhead");
}

static bool fits(const hr_serve_result *plan)
{
  return plan->count > 0;
}

static hr_status print_fleets(const hr_document *document, const hr_serve_result *plan, hr_error *error)
{
  char rate[HR_NUMBER_SIZE];
  write_rate(rate, plan->options.recommend);
  hr_print_heading(document, "Copies that carry %s requests/s, fewest devices first", rate);
  return hr_print_table(document, hr_serve_fleet_table(plan), error);
}

static hr_status write_text(const hr_document *document, const hr_model *model, const hr_workload *workload,
                            const hr_hardware *hardware, const hr_serve_result *plan, hr_error *error)
{
  print_head(document, model, workload, hardware, plan);
  if (plan->latency)
    print_best(document, plan);
  else if (fits(plan))
    print_nearest(document, plan);
  else
    print_needs(document, plan);
  if (plan->fleet_count > 0)
    HR_TRY(print_fleets(document, plan, error));
  if (fits(plan)) {
    hr_print_heading(document, "Pareto front: no other plan has a shorter %s and more output tokens/s per device",
                     plan->options.output_tokens > 1 ? "TPOT" : "TTFT");
    HR_TRY(hr_print_table(document, hr_serve_point_table(plan, true), error));
  }
  hr_print_heading(document, "Layouts");
  HR_TRY(hr_print_table(document, hr_serve_layout_table(plan), error));
  if (!document->options->verbose || !fits(plan))
    return HR_OK;
  hr_print_heading(document, "All plans");
  return hr_print_table(document, hr_serve_point_table(plan, false), error);
}

hr_status hr_report_serve_plan(FILE *out, const hr_report_options *options, const hr_subject *subject,
                               const hr_serve_result *plan, hr_error *error)
{
  HR_NEED(error, out, options, subject, plan);
  const hr_model *model = subject->model;
  const hr_workload *workload = subject->workload;
  const hr_hardware *hardware = subject->hardware;
  HR_NEED(error, model, workload, hardware);
  HR_TAKE(hr_report_options, options, error);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status;
  if (options->format == HR_FORMAT_JSON)
    status = write_json(out, model, workload, hardware, plan, error);
  else if (options->format == HR_FORMAT_CSV)
    status = hr_print_table(&document, hr_serve_point_table(plan, false), error);
  else
    status = write_text(&document, model, workload, hardware, plan, error);
  return hr_document_end(&document, status, error);
}
