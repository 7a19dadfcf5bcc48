/* SPDX-License-Identifier: Apache-2.0 */
#include "report/parallel_layouts.h"

#include "base/error.h"
#include "base/quantity.h"
#include "report/lines.h"

#include <headroom/experimental/workload.h>
#include <inttypes.h>

typedef struct layout_row {
  const hr_parallel_layout *layout;
  bool given, fastest, max_per_device, fewest_devices;
} layout_row;

/* Why a row is remarkable, in a few words. */
static void remark(const void *row, hr_cell *cell)
{
  const layout_row *r = row;
  char text[320] = "";
  if (r->given)
    hr_append_item(text, sizeof text, "as given");
  if (!r->layout->heads_split)
    hr_append_item(text, sizeof text, "heads do not split");
  else if (r->layout->split[0])
    hr_append_item(text, sizeof text, "%s", r->layout->split);
  if (r->fastest)
    hr_append_item(text, sizeof text, "lowest latency");
  if (r->max_per_device)
    hr_append_item(text, sizeof text, "best per device");
  if (r->fewest_devices)
    hr_append_item(text, sizeof text, "fewest");
  hr_cell_set_text(cell, text);
}

static void words(const void *member, hr_cell *cell)
{
  const char *split = member;
  if (split[0])
    hr_cell_set_text(cell, split);
}

static void whole(const void *member, hr_cell *cell)
{
  hr_cell_set_count(cell, (int64_t) * (const double *)member);
}

#define LAYOUT HR_THROUGH(layout_row, layout)
#define MEMBER(member) LAYOUT, HR_MEMBER(hr_parallel_layout, member)
static const hr_column columns[] = {
    {"tensor_parallel", "t", HR_PLAIN, 0, MEMBER(workload.tensor_parallel)},
    {"pipeline_stages", "p", HR_PLAIN, 0, MEMBER(workload.pipeline_stages)},
    {"devices", "devices", HR_PLAIN, 4, MEMBER(devices)},
    {"nodes", NULL, HR_PLAIN, 0, MEMBER(nodes)},
    {"step_time_ns", "step", HR_TIME, 0, MEMBER(time_ns)},
    {"step_time_low_ns", NULL, HR_TIME, 0, MEMBER(low_ns)},
    {"step_time_high_ns", NULL, HR_TIME, 0, MEMBER(high_ns)},
    {"tokens_per_s", NULL, HR_PLAIN, 0, MEMBER(tokens_per_s)},
    {"tokens_per_s_per_device", NULL, HR_PLAIN, 0, MEMBER(tokens_per_s_per_device)},
    {NULL, "tokens/s", HR_PLAIN, 1, LAYOUT, HR_COMPUTED_OF(COUNT, whole, hr_parallel_layout, tokens_per_s)},
    {NULL, "per device", HR_PLAIN, 0, LAYOUT,
     HR_COMPUTED_OF(COUNT, whole, hr_parallel_layout, tokens_per_s_per_device)},
    {"communication_share", "comm.", HR_SHARE, 5, MEMBER(communication_share)},
    {"bubble", "bubble", HR_SHARE, 3, MEMBER(bubble)},
    {"memory_bytes", "memory", HR_BYTES, 2, MEMBER(memory_bytes)},
    {"fits", "fits", HR_PLAIN, 0, MEMBER(fits)},
    {"largest_batch", "largest b", HR_PLAIN, 6, MEMBER(largest_batch)},
    {NULL, "", HR_PLAIN, 0, HR_COMPUTED(TEXT, remark)},
    {"given", NULL, HR_PLAIN, 0, HR_MEMBER(layout_row, given)},
    {"fastest", NULL, HR_PLAIN, 0, HR_MEMBER(layout_row, fastest)},
    {"most_per_device", NULL, HR_PLAIN, 0, HR_MEMBER(layout_row, max_per_device)},
    {"fewest_devices", NULL, HR_PLAIN, 0, HR_MEMBER(layout_row, fewest_devices)},
    {"heads_split", NULL, HR_PLAIN, 0, MEMBER(heads_split)},
    {"splits", NULL, HR_PLAIN, 0, MEMBER(splits)},
    {"split", NULL, HR_PLAIN, 0, LAYOUT, HR_COMPUTED_OF(TEXT, words, hr_parallel_layout, split)},
};

hr_table *hr_parallel_layout_table(const hr_parallel_layouts *layouts)
{
  hr_table *table = HR_TABLE_OF(columns, layout_row);
  for (int i = 0; i < (int)layouts->count; i++) {
    layout_row row = {&layouts->items[i], i == layouts->current, i == layouts->fastest, i == layouts->max_per_device,
                      i == layouts->fewest_devices};
    hr_table_add(table, &row);
  }
  return table;
}

void hr_json_put_parallel_layouts(hr_json document, const hr_parallel_layouts *layouts)
{
  hr_json_put_table(document, "layouts", hr_parallel_layout_table(layouts));
}

/* "t = 8", and the stages where there are any: "t = 4, p = 2". */
static void write_degrees(char *to, size_t size, const hr_parallel_layout *layout)
{
  int64_t p = layout->workload.pipeline_stages;
  if (p > 1)
    snprintf(to, size, "t = %" PRId64 ", p = %" PRId64, layout->workload.tensor_parallel, p);
  else
    snprintf(to, size, "t = %" PRId64, layout->workload.tensor_parallel);
}

static void print_best(const hr_document *document, const char *label, const hr_parallel_layout *layout)
{
  char degrees[64], time[HR_NUMBER_SIZE], rate[HR_NUMBER_SIZE];
  write_degrees(degrees, sizeof degrees, layout);
  hr_write_time(time, sizeof time, layout->time_ns);
  hr_write_count(rate, sizeof rate, (int64_t)layout->tokens_per_s_per_device);
  hr_print_field(document, label, "%s: a step of %s, %s tokens/s per device, %" PRId64 " device%s", degrees, time, rate,
                 layout->devices, layout->devices == 1 ? "" : "s");
}

static bool is_worth_showing(const hr_parallel_layouts *layouts, const hr_report_options *options)
{
  const hr_parallel_layout *own = &layouts->items[layouts->current];
  return options->verbose || own->devices > 1 || layouts->nodes > 1 || !own->fits;
}

hr_status hr_print_parallel_layouts(const hr_document *document, const hr_parallel_layouts *layouts, hr_error *error)
{
  if (layouts->count < 2 || layouts->current < 0 || !is_worth_showing(layouts, document->options))
    return HR_OK;
  int64_t m = hr_workload_microbatches(&layouts->items[0].workload);
  hr_print_heading(document, "The same work, %" PRId64 " microbatch%s, on up to %" PRId64 " node%s", m,
                   m == 1 ? "" : "es", layouts->nodes, layouts->nodes == 1 ? "" : "s");
  HR_TRY(hr_print_table(document, hr_parallel_layout_table(layouts), error));
  if (layouts->fastest < 0) {
    bool splits = layouts->items[layouts->current].splits;
    hr_print_paragraph(document, splits ? "None of these fits: it takes more nodes (--nodes), a smaller batch or fewer "
                                          "bytes a weight (--weights)."
                                        : "None of these that splits fits: it takes more nodes (--nodes), a "
                                          "smaller batch or fewer bytes a weight (--weights).");
    return HR_OK;
  }
  print_best(document, "latency", &layouts->items[layouts->fastest]);
  print_best(document, "throughput", &layouts->items[layouts->max_per_device]);
  print_best(document, "smallest", &layouts->items[layouts->fewest_devices]);
  return HR_OK;
}
