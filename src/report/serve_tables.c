/* SPDX-License-Identifier: Apache-2.0 */
#include "report/serve_tables.h"

#include "base/quantity.h"

#include <math.h>

/* ---- points ---- */

void hr_serve_above_one(const void *member, hr_cell *cell)
{
  const int64_t *value = member;
  if (*value > 1)
    hr_cell_set_count(cell, *value);
}

static void not_zero(const void *member, hr_cell *cell)
{
  const int64_t *value = member;
  if (*value > 0)
    hr_cell_set_count(cell, *value);
}

static void all_sequences(const void *row, hr_cell *cell)
{
  const hr_serve_point *point = row;
  if (point->sequences != point->batch)
    hr_cell_set_count(cell, point->sequences);
}

void hr_serve_rate(const void *member, hr_cell *cell)
{
  double value = *(const double *)member;
  if (value >= 100)
    hr_cell_set_count(cell, (int64_t)(value + 0.5));
  else
    hr_cell_format(cell, "%.*f", value < 10 ? 2 : 1, value);
}

void hr_serve_money(const void *member, hr_cell *cell)
{
  double value = *(const double *)member;
  if (isfinite(value))
    hr_cell_format(cell, "%.*f", value < 0.1 ? 4 : value < 10 ? 3 : value < 100 ? 2 : 0, value);
}

/* Empty where prompts are prefilled on the devices that decode. */
static void prefill_devices(const void *member, hr_cell *cell)
{
  double value = *(const double *)member;
  if (value > 0)
    hr_cell_format(cell, "%.*f", value < 10 ? 2 : 1, value);
}

/* Empty with one output token. */
static void after_the_first(const void *member, hr_cell *cell)
{
  double value = *(const double *)member;
  hr_cell_set_number(cell, value > 0 ? value : NAN);
}

static void missed_limit(const void *row, hr_cell *cell)
{
  const hr_serve_point *point = row;
  if (!point->meets_ttft || !point->meets_tpot)
    hr_cell_set_text(cell, point->meets_ttft ? "TPOT" : point->meets_tpot ? "TTFT" : "TTFT, TPOT");
}

static void tpot_band(const void *row, hr_cell *cell)
{
  const hr_serve_point *point = row;
  char low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE];
  if (point->tpot_ns == 0)
    return;
  hr_write_time(low, sizeof low, point->tpot_low_ns);
  hr_write_time(high, sizeof high, point->tpot_high_ns);
  hr_cell_format(cell, "%s … %s", low, high);
}

const char *hr_serve_may_miss(const hr_serve_point *point)
{
  bool ttft = point->meets_ttft && !point->band_meets_ttft, tpot = point->meets_tpot && !point->band_meets_tpot;
  return ttft && tpot ? "TTFT, TPOT" : ttft ? "TTFT" : tpot ? "TPOT" : NULL;
}

static void may_miss(const void *row, hr_cell *cell)
{
  const char *limits = hr_serve_may_miss(row);
  if (limits)
    hr_cell_set_text(cell, limits);
}

#define POINT(member) HR_MEMBER(hr_serve_point, member)
#define COMPUTED(value, function, member) HR_COMPUTED_OF(value, function, hr_serve_point, member)
#define DATA(member)                          \
  {                                           \
#member, NULL, HR_PLAIN, 0, POINT(member) \
  }
static const hr_column point_columns[] = {
    {"tensor_parallel", "t", HR_PLAIN, 0, POINT(tensor_parallel)},
    {"expert_parallel", NULL, HR_PLAIN, 0, POINT(expert_parallel)},
    {NULL, "e", HR_PLAIN, 0, .rare = true, COMPUTED(COUNT, hr_serve_above_one, expert_parallel)},
    {NULL, "p", HR_PLAIN, 0, .rare = true, COMPUTED(COUNT, hr_serve_above_one, pipeline_stages)},
    DATA(devices),
    {"batch", "batch", HR_PLAIN, 0, POINT(batch)},
    DATA(sequences),
    {NULL, "in flight", HR_PLAIN, 3, .rare = true, HR_COMPUTED(COUNT, all_sequences)},
    DATA(prefill_batch),
    {"ttft_ns", "TTFT", HR_TIME, 0, POINT(ttft_ns)},
    DATA(ttft_low_ns),
    DATA(ttft_high_ns),
    {"tpot_ns", "TPOT", HR_TIME, 0, COMPUTED(NUMBER, after_the_first, tpot_ns)},
    {"tpot_low_ns", NULL, HR_PLAIN, 0, COMPUTED(NUMBER, after_the_first, tpot_low_ns)},
    {"tpot_high_ns", NULL, HR_PLAIN, 0, COMPUTED(NUMBER, after_the_first, tpot_high_ns)},
    {NULL, "TPOT from … to", HR_PLAIN, 6, HR_COMPUTED(TEXT, tpot_band)},
    DATA(decode_step_ns),
    {"request_ns", "request", HR_TIME, 4, POINT(request_ns)},
    DATA(requests_per_s),
    {NULL, "requests/s", HR_PLAIN, 2, COMPUTED(COUNT, hr_serve_rate, requests_per_s)},
    DATA(requests_per_s_low),
    DATA(requests_per_s_high),
    DATA(output_tokens_per_s),
    {NULL, "tokens/s", HR_PLAIN, 1, COMPUTED(COUNT, hr_serve_rate, output_tokens_per_s)},
    DATA(tokens_per_s),
    {"prefill_devices", NULL, HR_PLAIN, 0, POINT(prefill_devices)},
    {NULL, "prefill devices", HR_PLAIN, 2, .rare = true, COMPUTED(COUNT, prefill_devices, prefill_devices)},
    {NULL, "prefill t", HR_PLAIN, 2, .rare = true, COMPUTED(COUNT, not_zero, prefill_tensor_parallel)},
    DATA(prefill_share),
    DATA(output_tokens_per_s_per_device),
    {NULL, "per device", HR_PLAIN, 0, COMPUTED(COUNT, hr_serve_rate, output_tokens_per_s_per_device)},
    {"memory_bytes", "memory", HR_BYTES, 5, POINT(memory_bytes)},
    DATA(cost_per_million_output_tokens),
    {NULL, "cost/M out", HR_PLAIN, 0, .rare = true, COMPUTED(COUNT, hr_serve_money, cost_per_million_output_tokens)},
    DATA(cost_per_million_tokens),
    {NULL, "cost/M all", HR_PLAIN, 3, .rare = true, COMPUTED(COUNT, hr_serve_money, cost_per_million_tokens)},
    DATA(meets_ttft),
    DATA(meets_tpot),
    DATA(band_meets_ttft),
    DATA(band_meets_tpot),
    DATA(meets_limits),
    {NULL, "misses", HR_PLAIN, 0, .rare = true, HR_COMPUTED(TEXT, missed_limit)},
    {NULL, "may miss", HR_PLAIN, 0, .rare = true, HR_COMPUTED(TEXT, may_miss)},
    DATA(pareto),
    DATA(pipeline_stages),
    DATA(prefill_tensor_parallel),
};

hr_table *hr_serve_point_table(const hr_serve_result *plan, bool front)
{
  hr_table *table = HR_TABLE_OF(point_columns, hr_serve_point);
  if (!front) {
    for (size_t i = 0; i < plan->count; i++)
      hr_table_add(table, &plan->points[i]);
    return table;
  }
  /* On the front more tokens/s per device go with a longer TPOT. */
  double last = -1;
  for (bool more = true; more;) {
    double next = INFINITY;
    for (size_t i = 0; i < plan->count; i++) {
      double per_device = plan->points[i].output_tokens_per_s_per_device;
      if (plan->points[i].pareto && per_device > last && per_device < next)
        next = per_device;
    }
    more = isfinite(next);
    for (size_t i = 0; i < plan->count && more; i++) {
      if (plan->points[i].pareto && plan->points[i].output_tokens_per_s_per_device == next)
        hr_table_add(table, &plan->points[i]);
    }
    last = next;
  }
  return table;
}

/* ---- layouts ---- */

static void no_batch(const void *row, hr_cell *cell)
{
  const hr_serve_layout *layout = row;
  if (layout->largest_batch > 0)
    hr_cell_set_count(cell, layout->largest_batch);
  else
    hr_cell_set_text(cell, layout->splits ? "does not fit" : "does not split");
}

static void how_it_splits(const void *row, hr_cell *cell)
{
  const hr_serve_layout *layout = row;
  if (layout->split[0])
    hr_cell_set_text(cell, layout->split);
}

static void largest_in_flight(const void *row, hr_cell *cell)
{
  const hr_serve_layout *layout = row;
  int64_t groups = layout->devices / (layout->tensor_parallel * layout->pipeline_stages);
  if (groups > 1 && layout->largest_batch > 0)
    hr_cell_set_count(cell, layout->largest_batch * groups);
}

#define LAYOUT(member) HR_MEMBER(hr_serve_layout, member)
static const hr_column layout_columns[] = {
    {"tensor_parallel", "t", HR_PLAIN, 0, LAYOUT(tensor_parallel)},
    {"expert_parallel", NULL, HR_PLAIN, 0, LAYOUT(expert_parallel)},
    {NULL, "e", HR_PLAIN, 0, .rare = true, HR_COMPUTED_OF(COUNT, hr_serve_above_one, hr_serve_layout, expert_parallel)},
    {NULL, "p", HR_PLAIN, 0, .rare = true, HR_COMPUTED_OF(COUNT, hr_serve_above_one, hr_serve_layout, pipeline_stages)},
    {"devices", "devices", HR_PLAIN, 3, LAYOUT(devices)},
    {"weight_bytes", "weights per device", HR_BYTES, 0, LAYOUT(weight_bytes)},
    {"sequence_bytes", "cache of a sequence", HR_BYTES, 2, LAYOUT(sequence_bytes)},
    {"step_bytes", "largest step", HR_BYTES, 4, LAYOUT(step_bytes)},
    {"largest_batch", NULL, HR_PLAIN, 0, LAYOUT(largest_batch)},
    {NULL, "largest batch", HR_PLAIN, 0, HR_COMPUTED(COUNT, no_batch)},
    {NULL, "in flight", HR_PLAIN, 1, .rare = true, HR_COMPUTED(COUNT, largest_in_flight)},
    {"cache_tokens", "tokens that fit", HR_PLAIN, 1, LAYOUT(cache_tokens)},
    {"splits", NULL, HR_PLAIN, 0, LAYOUT(splits)},
    {"split", "", HR_PLAIN, 0, .rare = true, HR_COMPUTED(TEXT, how_it_splits)},
    {"pipeline_stages", NULL, HR_PLAIN, 0, LAYOUT(pipeline_stages)},
};

hr_table *hr_serve_layout_table(const hr_serve_result *plan)
{
  hr_table *table = HR_TABLE_OF(layout_columns, hr_serve_layout);
  for (size_t i = 0; i < plan->layout_count; i++)
    hr_table_add(table, &plan->layouts[i]);
  return table;
}

/* ---- fleets ---- */

#define FLEET(member) HR_MEMBER(hr_serve_fleet, member)
#define OF_POINT(member) HR_THROUGH(hr_serve_fleet, point), POINT(member)
#define OF_POINT_BY(value, function, member) HR_THROUGH(hr_serve_fleet, point), COMPUTED(value, function, member)
static const hr_column fleet_columns[] = {
    {"instances", "instances", HR_PLAIN, 0, FLEET(instances)},
    {"prefill_instances", NULL, HR_PLAIN, 0, FLEET(prefill_instances)},
    {NULL, "prefill instances", HR_PLAIN, 0, .rare = true,
     HR_COMPUTED_OF(COUNT, not_zero, hr_serve_fleet, prefill_instances)},
    {NULL, "prefill t", HR_PLAIN, 0, .rare = true, OF_POINT_BY(COUNT, not_zero, prefill_tensor_parallel)},
    {"tensor_parallel", "t", HR_PLAIN, 0, OF_POINT(tensor_parallel)},
    {"expert_parallel", NULL, HR_PLAIN, 0, OF_POINT(expert_parallel)},
    {NULL, "e", HR_PLAIN, 0, .rare = true, OF_POINT_BY(COUNT, hr_serve_above_one, expert_parallel)},
    {NULL, "p", HR_PLAIN, 0, .rare = true, OF_POINT_BY(COUNT, hr_serve_above_one, pipeline_stages)},
    {"batch", "batch", HR_PLAIN, 0, OF_POINT(batch)},
    {"devices", "devices", HR_PLAIN, 0, FLEET(devices)},
    {"load_share", "load", HR_SHARE, 0, FLEET(load_share)},
    {"ttft_ns", "TTFT", HR_TIME, 1, OF_POINT(ttft_ns)},
    {"tpot_ns", "TPOT", HR_TIME, 1, OF_POINT_BY(NUMBER, after_the_first, tpot_ns)},
    {"request_ns", "request", HR_TIME, 2, OF_POINT(request_ns)},
    {"cost_per_hour", NULL, HR_PLAIN, 0, FLEET(cost_per_hour)},
    {NULL, "cost per hour", HR_PLAIN, 0, .rare = true,
     HR_COMPUTED_OF(COUNT, hr_serve_money, hr_serve_fleet, cost_per_hour)},
    {"cost_per_million_output_tokens", NULL, HR_PLAIN, 0, FLEET(cost_per_million_output_tokens)},
    {NULL, "cost/M out", HR_PLAIN, 0, .rare = true,
     HR_COMPUTED_OF(COUNT, hr_serve_money, hr_serve_fleet, cost_per_million_output_tokens)},
    {"pipeline_stages", NULL, HR_PLAIN, 0, OF_POINT(pipeline_stages)},
};

hr_table *hr_serve_fleet_table(const hr_serve_result *plan)
{
  hr_table *table = HR_TABLE_OF(fleet_columns, hr_serve_fleet);
  for (size_t i = 0; i < plan->fleet_count; i++)
    hr_table_add(table, &plan->fleets[i]);
  return table;
}

void hr_json_put_serve_point(hr_json json, const char *key, const hr_serve_point *point)
{
  if (point)
    hr_json_put_fields(hr_json_put_object(json, key), point_columns, HR_COUNT_OF(point_columns), point);
  else
    hr_json_put(json, key, json_null());
}
