/* SPDX-License-Identifier: Apache-2.0 */
/* `plan`: the best layouts of a training run, the Pareto front of time and devices, changes of the model that pay. */
#include "base/error.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"
#include "model/layers/shard.h"
#include "report/findings.h"
#include "report/inputs.h"
#include "report/json.h"
#include "report/lines.h"

#include <inttypes.h>
#include <math.h>

#define JOULES_PER_MWH 3.6e9
#define PHRASE_SIZE 256

/* ---- columns ---- */

static void more_than_one(const void *member, hr_cell *cell)
{
  const int64_t *value = member;
  if (*value > 1)
    hr_cell_set_count(cell, *value);
}

static void positive(const void *member, hr_cell *cell)
{
  const int64_t *value = member;
  if (*value > 0)
    hr_cell_set_count(cell, *value);
}

static void yes(const void *member, hr_cell *cell)
{
  if (*(const bool *)member)
    hr_cell_set_text(cell, "yes");
}

static void recompute_name(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, hr_recompute_name(*(const hr_recompute *)member));
}

static void recomputed(const void *member, hr_cell *cell)
{
  const hr_recompute *recompute = member;
  if (*recompute != HR_RECOMPUTE_NONE)
    recompute_name(member, cell);
}

static void whole(const void *member, hr_cell *cell)
{
  hr_cell_set_count(cell, (int64_t)round(*(const double *)member));
}

static void short_number(const void *member, hr_cell *cell)
{
  double value = *(const double *)member;
  if (isfinite(value))
    hr_cell_format(cell, "%.*f", value < 10 ? 2 : value < 100 ? 1 : 0, value);
}

static void money(const void *member, hr_cell *cell)
{
  double value = *(const double *)member;
  if (isfinite(value) && value < (double)INT64_MAX)
    hr_cell_set_count(cell, (int64_t)round(value));
}

static void megawatt_hours(const void *member, hr_cell *cell)
{
  double value = *(const double *)member / JOULES_PER_MWH;
  short_number(&value, cell);
}

static void frameworks(const void *member, hr_cell *cell)
{
  static const struct {
    unsigned bit;
    const char *name;
  } names[] = {{HR_TRAINING_MEGATRON, "Megatron-LM"}, {HR_TRAINING_TORCHTITAN, "torchtitan"}};
  char text[64] = "";
  for (size_t i = 0; i < HR_COUNT_OF(names); i++) {
    if ((*(const unsigned *)member & names[i].bit) != 0)
      hr_append_item(text, sizeof text, "%s", names[i].name);
  }
  hr_cell_set_text(cell, text);
}

#define LAYOUT(member) HR_MEMBER(hr_training_layout, member)
#define COMPUTED(value, function, member) HR_COMPUTED_OF(value, function, hr_training_layout, member)
static const hr_column columns[] = {
    {"devices", "devices", HR_PLAIN, 1, LAYOUT(devices)},
    {"tensor_parallel", "t", HR_PLAIN, 0, LAYOUT(workload.tensor_parallel)},
    {"pipeline_stages", "p", HR_PLAIN, 0, LAYOUT(workload.pipeline_stages)},
    {"virtual_stages", NULL, HR_PLAIN, 0, LAYOUT(workload.virtual_stages)},
    {NULL, "first", HR_PLAIN, 0, .rare = true, COMPUTED(COUNT, positive, first_stage_layers)},
    {NULL, "last", HR_PLAIN, 0, .rare = true, COMPUTED(COUNT, positive, last_stage_layers)},
    {NULL, "v", HR_PLAIN, 0, .rare = true, COMPUTED(COUNT, more_than_one, workload.virtual_stages)},
    {"context_parallel", NULL, HR_PLAIN, 0, LAYOUT(workload.context_parallel)},
    {NULL, "cp", HR_PLAIN, 0, .rare = true, COMPUTED(COUNT, more_than_one, workload.context_parallel)},
    {"expert_parallel", NULL, HR_PLAIN, 0, LAYOUT(workload.expert_parallel)},
    {NULL, "e", HR_PLAIN, 0, .rare = true, COMPUTED(COUNT, more_than_one, workload.expert_parallel)},
    {"data_parallel", "dp", HR_PLAIN, 0, LAYOUT(workload.data_parallel)},
    {"zero_stage", "ZeRO", HR_PLAIN, 0, LAYOUT(workload.zero_stage)},
    {"sequence_parallel", NULL, HR_PLAIN, 0, LAYOUT(workload.sequence_parallel)},
    {NULL, "SP", HR_PLAIN, 7, .rare = true, COMPUTED(TEXT, yes, workload.sequence_parallel)},
    {"batch", "b", HR_PLAIN, 0, LAYOUT(workload.batch)},
    {"microbatches", "m", HR_PLAIN, 5, LAYOUT(workload.microbatches)},
    {"recompute", NULL, HR_PLAIN, 0, COMPUTED(TEXT, recompute_name, workload.recompute)},
    {NULL, "recompute", HR_PLAIN, 0, .rare = true, COMPUTED(TEXT, recomputed, workload.recompute)},
    {"step_time_ns", "step", HR_TIME, 6, LAYOUT(time_ns)},
    {"step_time_low_ns", NULL, HR_TIME, 0, LAYOUT(low_ns)},
    {"step_time_high_ns", NULL, HR_TIME, 0, LAYOUT(high_ns)},
    {"tokens_per_s", NULL, HR_PLAIN, 0, LAYOUT(tokens_per_s)},
    {NULL, "tokens/s", HR_PLAIN, 0, COMPUTED(COUNT, whole, tokens_per_s)},
    {"tokens_per_s_low", NULL, HR_PLAIN, 0, LAYOUT(tokens_per_s_low)},
    {"tokens_per_s_high", NULL, HR_PLAIN, 0, LAYOUT(tokens_per_s_high)},
    {"communication_share", "comm.", HR_SHARE, 4, LAYOUT(communication_share)},
    {"bubble", "bubble", HR_SHARE, 3, LAYOUT(bubble)},
    {"model_efficiency", "MFU", HR_SHARE, 0, LAYOUT(model_efficiency)},
    {"memory_bytes", "memory", HR_BYTES, 2, LAYOUT(memory_bytes)},
    {"days", NULL, HR_PLAIN, 0, LAYOUT(days)},
    {NULL, "days", HR_PLAIN, 0, .rare = true, COMPUTED(TEXT, short_number, days)},
    {"device_hours", NULL, HR_PLAIN, 0, LAYOUT(device_hours)},
    {"cost", NULL, HR_PLAIN, 0, LAYOUT(cost)},
    {NULL, "cost", HR_PLAIN, 0, .rare = true, COMPUTED(COUNT, money, cost)},
    {"energy_joules", NULL, HR_PLAIN, 0, LAYOUT(energy_joules)},
    {NULL, "MWh", HR_PLAIN, 0, .rare = true, COMPUTED(COUNT, megawatt_hours, energy_joules)},
    {"accepted_by", "accepted by", HR_PLAIN, 8, COMPUTED(TEXT, frameworks, accepted_by)},
    {"best_of_degrees", NULL, HR_PLAIN, 0, LAYOUT(best_of_degrees)},
    {"pareto", NULL, HR_PLAIN, 0, LAYOUT(pareto)},
    {"first_stage_layers", NULL, HR_PLAIN, 0, LAYOUT(first_stage_layers)},
    {"last_stage_layers", NULL, HR_PLAIN, 0, LAYOUT(last_stage_layers)},
};

/* ---- tables ---- */

static hr_table *every_layout(const hr_training_plan *plan)
{
  hr_table *table = HR_TABLE_OF(columns, hr_training_layout);
  for (size_t i = 0; i < plan->layout_count; i++)
    hr_table_add(table, &plan->layouts[i]);
  return table;
}

static hr_table *best_layouts(const hr_training_plan *plan, const hr_training_count *count, size_t limit)
{
  hr_table *table = HR_TABLE_OF(columns, hr_training_layout);
  for (size_t i = 0; i < count->fitting && hr_table_rows(table) < limit; i++) {
    const hr_training_layout *layout = &plan->layouts[count->first + i];
    if (layout->best_of_degrees)
      hr_table_add(table, layout);
  }
  return table;
}

static hr_table *front(const hr_training_plan *plan)
{
  hr_table *table = HR_TABLE_OF(columns, hr_training_layout);
  for (size_t i = 0; i < plan->layout_count; i++) {
    if (plan->layouts[i].pareto)
      hr_table_add(table, &plan->layouts[i]);
  }
  return table;
}

#define COUNT(member) HR_FIELD(hr_training_count, member)
static const hr_column count_columns[] = {
    COUNT(devices),
    COUNT(tried),
    COUNT(fitting),
    {"least_memory_bytes", NULL, HR_PLAIN, 0,
     HR_COMPUTED_OF(COUNT, more_than_one, hr_training_count, least_memory_bytes)},
};

static hr_table *count_table(const hr_training_plan *plan)
{
  hr_table *table = HR_TABLE_OF(count_columns, hr_training_count);
  for (size_t i = 0; i < plan->count_of_devices; i++)
    hr_table_add(table, &plan->counts[i]);
  return table;
}

/* ---- JSON ---- */

static void put_number(hr_json json, const char *key, double value)
{
  hr_json_put_number(json, key, value > 0 ? value : (double)NAN);
}

static void put_run(hr_json document, const hr_workload *workload, const hr_training_plan *plan)
{
  const hr_training_options *options = &plan->options;
  hr_json to = hr_json_put_object(document, "training");
  hr_json_put_count(to, "global_batch", options->global_batch);
  hr_json_put_count(to, "sequence", workload->sequence);
  hr_json_put_text(to, "dtype", hr_dtype_name(workload->dtype));
  hr_json_put_flag(to, "fp8_linears", workload->fp8_linears);
  hr_json_put_number(to, "overlap", workload->overlap);
  put_number(to, "tokens", options->tokens);
  put_number(to, "price_per_device_hour", options->price_per_device_hour);
  put_number(to, "power_w", options->power_w);
  hr_json_put_count(to, "capacity_bytes", plan->capacity_bytes);
}

static hr_status write_json(FILE *out, const hr_subject *subject, const hr_training_report *report, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("plan/1", &failed);
  hr_json_put_text(json, "device", subject->hardware->about.name);
  hr_json_put_hardware(json, subject->hardware);
  hr_json_put_model(json, subject->model);
  put_run(json, subject->workload, report->plan);
  hr_json_put_table(json, "counts", count_table(report->plan));
  hr_json_put_table(json, "layouts", every_layout(report->plan));
  if (report->advice)
    hr_json_put_table(json, "changes", hr_change_table(report->advice));
  else
    hr_json_put(json, "changes", json_array());
  return hr_json_write(out, json, error);
}

/* ---- text ---- */

/* "t = 8, p = 2, dp = 4, ZeRO 1, b = 2 in 16 microbatches". */
static void write_degrees(char *to, const hr_workload *w)
{
  const struct {
    const char *name;
    int64_t value;
  } degrees[] = {{"t", w->tensor_parallel},   {"p", w->pipeline_stages}, {"v", w->virtual_stages},
                 {"cp", w->context_parallel}, {"e", w->expert_parallel}, {"dp", w->data_parallel}};
  to[0] = '\0';
  for (size_t i = 0; i < HR_COUNT_OF(degrees); i++) {
    if (degrees[i].value > 1)
      hr_append_item(to, PHRASE_SIZE, "%s = %" PRId64, degrees[i].name, degrees[i].value);
  }
  if (w->zero_stage > 0)
    hr_append_item(to, PHRASE_SIZE, "ZeRO %" PRId64, w->zero_stage);
  if (w->sequence_parallel)
    hr_append_item(to, PHRASE_SIZE, "sequence parallelism");
  if (w->recompute != HR_RECOMPUTE_NONE)
    hr_append_item(to, PHRASE_SIZE, "%s recomputation", hr_recompute_name(w->recompute));
  hr_append_item(to, PHRASE_SIZE, "%" PRId64 " microbatch%s of %" PRId64, w->microbatches,
                 w->microbatches == 1 ? "" : "es", w->batch);
}

static void write_run(char *to, const hr_training_layout *layout)
{
  hr_cell cell;
  to[0] = '\0';
  const struct {
    const double *value;
    void (*show)(const void *member, hr_cell *cell);
    const char *unit;
  } figures[] = {{&layout->days, short_number, "days"}, {&layout->energy_joules, megawatt_hours, "MWh"}};
  for (size_t i = 0; i < HR_COUNT_OF(figures); i++) {
    figures[i].show(figures[i].value, &cell);
    if (isfinite(*figures[i].value))
      hr_append_item(to, PHRASE_SIZE, "%s %s", cell.text, figures[i].unit);
  }
  if (isfinite(layout->cost)) {
    char cost[HR_NUMBER_SIZE];
    hr_write_count(cost, sizeof cost, (int64_t)round(layout->cost));
    hr_append_item(to, PHRASE_SIZE, "cost %s", cost);
  }
}

static void print_best(const hr_document *document, const hr_training_layout *best)
{
  char degrees[PHRASE_SIZE], run[PHRASE_SIZE], rate[HR_NUMBER_SIZE], low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE];
  write_degrees(degrees, &best->workload);
  write_run(run, best);
  hr_write_count(rate, sizeof rate, (int64_t)round(best->tokens_per_s));
  hr_write_count(low, sizeof low, (int64_t)round(best->tokens_per_s_low));
  hr_write_count(high, sizeof high, (int64_t)round(best->tokens_per_s_high));
  hr_print_field(document, "fastest", "%" PRId64 " device%s, %s: %s tokens/s (%s … %s)%s%s", best->devices,
                 hr_plural(best->devices), degrees, rate, low, high, run[0] ? ", " : "", run);
}

static const char *acceptance_of(unsigned asked)
{
  static const char *const words[] = {"Megatron-LM or torchtitan accepts", "Megatron-LM accepts", "torchtitan accepts",
                                      "Megatron-LM and torchtitan accept"};
  return words[asked % HR_COUNT_OF(words)];
}

static void print_count(const hr_document *document, const hr_training_plan *plan, const hr_training_count *count)
{
  char tried[HR_NUMBER_SIZE], fitting[HR_NUMBER_SIZE], least[HR_NUMBER_SIZE], capacity[HR_NUMBER_SIZE];
  hr_write_count(tried, sizeof tried, (int64_t)count->tried);
  hr_write_count(fitting, sizeof fitting, (int64_t)count->fitting);
  hr_write_bytes(least, sizeof least, (double)count->least_memory_bytes);
  hr_write_bytes(capacity, sizeof capacity, (double)plan->capacity_bytes);
  if (count->fitting > 0)
    hr_print_field(document, "layouts", "%" PRId64 " device%s: %s of %s that %s fit", count->devices,
                   hr_plural(count->devices), fitting, tried, acceptance_of(plan->options.accepted_by));
  else if (count->tried > 0)
    hr_print_field(document, "no layout", "fits %" PRId64 " device%s: %s are needed, %s usable", count->devices,
                   hr_plural(count->devices), least, capacity);
  else
    hr_print_field(document, "no layout",
                   "of %" PRId64
                   " device%s is accepted: the replicas have to divide the global batch (--global-batch), "
                   "t the heads, p the layers",
                   count->devices, hr_plural(count->devices));
}

static void print_head(const hr_document *document, const hr_subject *subject, const hr_training_plan *plan)
{
  const hr_training_options *options = &plan->options;
  char step[HR_NUMBER_SIZE], sequence[HR_NUMBER_SIZE], tokens[HR_NUMBER_SIZE], steps[HR_NUMBER_SIZE];
  double of_step = (double)options->global_batch * (double)subject->workload->sequence;
  hr_print_model(document, subject->model);
  hr_print_hardware(document, subject->hardware);
  hr_write_count(sequence, sizeof sequence, subject->workload->sequence);
  hr_write_short(step, sizeof step, of_step);
  hr_write_short(tokens, sizeof tokens, options->tokens);
  hr_write_count(steps, sizeof steps, (int64_t)ceil(options->tokens / of_step));
  if (options->tokens > 0)
    hr_print_field(document, "training", "global batch of %" PRId64 " × %s tokens: %s a step, %s steps for %s tokens",
                   options->global_batch, sequence, step, steps, tokens);
  else
    hr_print_field(document, "training", "global batch of %" PRId64 " × %s tokens: %s a step", options->global_batch,
                   sequence, step);
  if (subject->workload->fp8_linears)
    hr_print_field(document, "formats", "GEMMs of linear layers fp8, all else %s",
                   hr_dtype_name(subject->workload->dtype));
  for (size_t i = 0; i < plan->count_of_devices; i++)
    print_count(document, plan, &plan->counts[i]);
}

static hr_status print_layouts(const hr_document *document, const hr_training_report *report, hr_error *error)
{
  const hr_training_plan *plan = report->plan;
  for (size_t i = 0; i < plan->count_of_devices; i++) {
    const hr_training_count *count = &plan->counts[i];
    if (count->fitting == 0)
      continue;
    hr_print_heading(document, "%" PRId64 " device%s: the fastest layout of each t, p, cp and e", count->devices,
                     hr_plural(count->devices));
    HR_TRY(hr_print_table(document, best_layouts(plan, count, report->limit), error));
  }
  if (plan->count_of_devices > 1) {
    hr_print_heading(document, "Pareto front of time and devices");
    HR_TRY(hr_print_table(document, front(plan), error));
  }
  if (!document->options->verbose)
    return HR_OK;
  hr_print_heading(document, "All layouts");
  return hr_print_table(document, every_layout(plan), error);
}

static hr_status print_changes(const hr_document *document, const hr_training_report *report, hr_error *error)
{
  hr_table *table = report->advice ? hr_change_table(report->advice) : NULL;
  if (!table)
    return HR_OK;
  hr_print_heading(document, "Changes of the model that pay in the fastest layout");
  if (hr_table_is_empty(table)) {
    hr_table_free(table);
    hr_print_paragraph(document, "None: no rule of advise suggests one.");
    return HR_OK;
  }
  return hr_print_table(document, table, error);
}

static hr_status write_text(const hr_document *document, const hr_subject *subject, const hr_training_report *report,
                            hr_error *error)
{
  const hr_training_layout *best = hr_training_plan_best(report->plan);
  print_head(document, subject, report->plan);
  if (!best)
    return HR_OK;
  print_best(document, best);
  HR_TRY(print_layouts(document, report, error));
  return print_changes(document, report, error);
}

hr_status hr_report_training(FILE *out, const hr_report_options *options, const hr_subject *subject,
                             const hr_training_report *report, hr_error *error)
{
  HR_NEED(error, out, options, subject, report);
  const hr_model *model = subject->model;
  const hr_workload *workload = subject->workload;
  HR_NEED(error, model, workload, subject->hardware, report->plan);
  HR_TAKE(hr_report_options, options, error);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  const hr_subject taken = {.model = model, .workload = workload, .hardware = subject->hardware};
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status;
  if (options->format == HR_FORMAT_JSON)
    status = write_json(out, &taken, report, error);
  else if (options->format == HR_FORMAT_CSV)
    status = hr_print_table(&document, every_layout(report->plan), error);
  else
    status = write_text(&document, &taken, report, error);
  return hr_document_end(&document, status, error);
}
