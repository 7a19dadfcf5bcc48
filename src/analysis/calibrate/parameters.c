/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/calibrate/parameters.h"

#include "analysis/predict/terms.h"
#include "hardware/figures.h"

#include <math.h>
#include <string.h>

/* The figures of figures.inc whose numbers lie in these bytes of hr_hardware. */
typedef struct parameter_row {
  size_t offset, size;
  unsigned rows; /* 0: not fitted */
  hr_parameter_scale scale;
  size_t first, last; /* of a list's rows, that are left out */
} parameter_row;

#define NEEDED .rows = HR_ROWS_NONE
#define GIVEN NEEDED
#define OPTIONAL NEEDED
#define OTHERWISE(value) NEEDED
#define OWN(fit) fit
#define FIT(bits, presence) .rows = HR_ROWS_##bits
#define FIT_SHARE(bits, presence) FIT(bits, presence), .scale = HR_SCALE_SHARE
#define FIT_EXCESS(bits, presence) FIT(bits, presence), .scale = HR_SCALE_EXCESS
#define FIT_BUT_FIRST(bits, presence) FIT(bits, presence), .first = 1
#define FIT_BUT_LAST(bits, presence) FIT(bits, presence), .last = 1
#define PLACE(member) offsetof(hr_hardware, member), sizeof(((hr_hardware *)NULL)->member)
#define COLUMN(list, count, type, member, fit, bounds) {PLACE(list[0].member), fit},

#define HR_NUMBER(member, fit, bounds) {PLACE(member), fit},
#define HR_COUNT HR_NUMBER
#define HR_FORMATS HR_NUMBER
#define HR_WORD(field, member, words)
#define HR_OBJECT(type, member, numbers, rows) {PLACE(member), FIT(rows, )},
#define HR_LIST(type, member, count, most, numbers) numbers(COLUMN, member, count)
#define HR_FORMER(field, member)
static const parameter_row table[] = {
#include "hardware/figures.inc"
};

unsigned hr_parameter_row_bits(const hr_validated_row *row)
{
  const unsigned kind = 1u << row->kind;
  if (row->framework == HR_FRAMEWORK_HEADROOM && kind & (HR_ROWS_ATTENTION | HR_ROWS_DECODE))
    return kind | HR_ROWS_HEADROOM;
  return kind & HR_ROWS_ATTENTION ? kind | HR_ROWS_FRAMEWORKS : kind;
}

static void set_missing(double *value, double otherwise)
{
  if (!(*value > 0))
    *value = otherwise;
}

static void begin_gemms(hr_hardware *h)
{
  bool gpu = h->about.kind == HR_HARDWARE_GPU;
  set_missing(&h->load_share, h->bandwidth_share);
  set_missing(&h->store_share, h->bandwidth_share);
  set_missing(&h->gemm_launch_ns, h->launch_ns);
  set_missing(&h->gemm_busy_ns, gpu ? 100 : 0);
  set_missing(&h->cache_bytes_per_s, 2 * h->bandwidth_bytes_per_s * h->bandwidth_share);
  set_missing(&h->boost, gpu ? 1.05 : 0); /* a CPU has no such terms */
  set_missing(&h->burst, gpu ? 1.05 : 0);
  set_missing(&h->reach, gpu ? 6 : 0);
  set_missing(&h->split_ns, gpu ? 500 : 0);
  if (gpu && h->split_k_bytes == 0)
    h->split_k_bytes = 512;
  for (size_t i = 0; i < h->alignment_count; i++)
    set_missing(&h->alignments[i].result_share, h->alignments[i].gemm_share);
}

/* Shares of the head sizes that most models have, for a device without any; a CPU has one for all, as its few points
 * would not determine three. */
static void begin_attention(hr_hardware *h, unsigned bits)
{
  static const hr_attention_share unknown[] = {
      {64, 0.6, 0.5, 0, 0, 0, 0, 0}, {128, 0.6, 0.5, 0, 0, 0, 0, 0}, {256, 0.6, 0.5, 0, 0, 0, 0, 0}};
  const size_t all = sizeof unknown / sizeof *unknown, count = h->about.kind == HR_HARDWARE_GPU ? all : 1;
  if (h->attention_count == 0) {
    memcpy(h->attentions, unknown + all - count, count * sizeof *unknown);
    h->attention_count = count;
  }
  for (size_t i = 0; i < h->attention_count && bits & HR_ROWS_HEADROOM; i++)
    set_missing(&h->attentions[i].headroom_share, h->attentions[i].forward_share);
}

/* The kernels of frameworks, of a GPU. */
static void begin_prefill(hr_hardware *h, hr_prefill_cost *cost)
{
  set_missing(&cost->launch_ns, h->launch_ns);
  set_missing(&cost->block_ns, h->attention_block_ns);
  set_missing(&cost->forward_share, 1);
}

/* Headroom's kernels, of a GPU. */
static void begin_own_prefill(hr_hardware *h)
{
  hr_prefill_cost *cost = &h->prefill_headroom;
  set_missing(&cost->launch_ns, h->launch_ns);
  set_missing(&cost->block_ns, 1000);
  set_missing(&cost->element_ns, 10);
  if (strcmp(h->about.architecture, "hopper") == 0) {
    set_missing(&cost->busy_ns, 1000);
    set_missing(&cost->load_share, 0.9);
    for (size_t i = 0; i < h->attention_count; i++)
      set_missing(&h->attentions[i].short_share, h->attentions[i].headroom_share);
  }
}

static void begin_own_decode(hr_hardware *h)
{
  hr_decode_cost *cost = &h->decode_headroom;
  bool clusters = strcmp(h->about.architecture, "hopper") == 0 || strcmp(h->about.architecture, "blackwell") == 0;
  set_missing(&cost->wave_ns, 3000);
  set_missing(&cost->combine_ns, 2000);
  set_missing(&cost->cluster_ns, clusters ? 500 : 0);
  set_missing(&cost->read_latency_ns, 2000);
  set_missing(&cost->fill_share, 0.25);
  set_missing(&cost->reach, 1.5);
}

static void begin_decode(hr_hardware *h, hr_decode_cost *cost)
{
  bool gpu = h->about.kind == HR_HARDWARE_GPU;
  set_missing(&cost->launch_ns, h->launch_ns);
  set_missing(&cost->bandwidth_share, h->bandwidth_share);
  set_missing(&cost->pair_ns, gpu ? 500 : 50);
  set_missing(&cost->element_ns, gpu ? 1 : 0.1);
  set_missing(&cost->split_ns, gpu ? 500 : 50);
}

void hr_parameters_begin(hr_hardware *hardware, unsigned bits)
{
  const bool gpu = hardware->about.kind == HR_HARDWARE_GPU, own = bits & HR_ROWS_HEADROOM;
  hr_prefill_cost *const prefill[] = {&hardware->prefill_server, &hardware->prefill_fp8, &hardware->prefill_full};
  if (bits & HR_ROWS_GEMMS)
    begin_gemms(hardware);
  if (bits & HR_ROWS_SCANS)
    hr_scan_costs_assume(hardware);
  if (bits & HR_ROWS_ATTENTION)
    begin_attention(hardware, bits);
  for (size_t i = 0; i < sizeof prefill / sizeof *prefill && bits & HR_ROWS_FRAMEWORKS && gpu; i++)
    begin_prefill(hardware, prefill[i]);
  if (own && bits & HR_ROWS_ATTENTION && gpu)
    begin_own_prefill(hardware);
  if (own && bits & HR_ROWS_DECODE && gpu)
    begin_own_decode(hardware);
  if (bits & HR_ROWS_DECODE)
    begin_decode(hardware, own ? &hardware->decode_headroom : &hardware->decode_framework);
  if (bits & HR_ROWS_DECODE && !own && hardware->decode_fp8.launch_ns == 0)
    hardware->decode_fp8 = hardware->decode_framework;
}

static size_t add_numbers(const hr_hardware *hardware, const parameter_row *row, const hr_device_figure *figure,
                          hr_parameter *to, size_t room)
{
  size_t used = 0;
  const size_t behind = hr_device_figure_numbers(hardware, figure);
  for (size_t i = row->first; i + row->last < behind && used < room; i++) {
    if (row->scale == HR_SCALE_SHARE || hr_device_figure_get(hardware, figure, i) > 0)
      to[used++] = (hr_parameter){.figure = figure, .index = i, .scale = row->scale, .rows = row->rows};
  }
  return used;
}

size_t hr_parameters_list(const hr_hardware *hardware, hr_parameter parameters[HR_FITTED_FIGURES_MAX])
{
  size_t used = 0, count;
  const hr_device_figure *figures = hr_device_figures(&count);
  for (const parameter_row *row = table; row < table + sizeof table / sizeof *table; row++) {
    if (row->rows & HR_ROWS_ON_CPU && hardware->about.kind != HR_HARDWARE_CPU)
      continue;
    for (size_t i = 0; i < count && row->rows != HR_ROWS_NONE; i++) {
      if (!figures[i].former && figures[i].offset >= row->offset && figures[i].offset < row->offset + row->size)
        used += add_numbers(hardware, row, &figures[i], parameters + used, HR_FITTED_FIGURES_MAX - used);
    }
  }
  return used;
}

double hr_parameter_get(const hr_hardware *hardware, const hr_parameter *parameter)
{
  return hr_device_figure_get(hardware, parameter->figure, parameter->index);
}

void hr_parameter_set(hr_hardware *hardware, const hr_hardware *start, const hr_parameter *parameter, double value)
{
  const hr_device_figure *figure = parameter->figure;
  double least = figure->bounds->least, most = figure->bounds->most;
  if (figure->object && strcmp(figure->object, "alignments") == 0) {
    least = parameter->index > 0 ? fmax(least, hr_device_figure_get(hardware, figure, parameter->index - 1)) : least;
    most = fmin(most, hr_device_figure_get(hardware, figure, parameter->index + 1));
  }
  if (figure->offset == offsetof(hr_hardware, cache_bytes_per_s))
    least = fmax(least, hardware->bandwidth_bytes_per_s * hardware->load_share);
  hr_device_figure_set(hardware, figure, parameter->index, fmin(fmax(value, least), fmax(most, least)));
  if (figure->offset == offsetof(hr_hardware, gemm_launch_ns))
    hardware->launch_ns = fmin(start->launch_ns, hardware->gemm_launch_ns);
}

#define EXCESS_MIN 0.01
#define EXCESS_PACE 4 /* an excess may be off by more than a factor of 1 + step */

double hr_parameter_step(const hr_parameter *parameter, double value, double step, bool up)
{
  double excess = fmax(value - 1, EXCESS_MIN), pace = 1 + EXCESS_PACE * step;
  switch (parameter->scale) {
  case HR_SCALE_SHARE: return up ? value + step : value - step;
  case HR_SCALE_EXCESS: return 1 + (up ? excess * pace : excess / pace);
  case HR_SCALE_FACTOR: break;
  }
  if (parameter->figure->integer)
    return up ? fmax(value * (1 + step), value + 1) : fmin(value / (1 + step), value - 1);
  return up ? value * (1 + step) : value / (1 + step);
}
