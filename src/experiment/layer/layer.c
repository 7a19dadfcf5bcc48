/* The course of measuring a layer: choose the size, time each operator within the budget, then all as one. */
#include <headroom/layer.h>

#include "base/error.h"
#include "base/names.h"
#include "experiment/budget.h"
#include "experiment/operator_problem.h"
#include "runtime/device/clock.h"
#include "runtime/measure/problem_list.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BUDGET_NS 60e9
#define PRECISION 0.01

static const char *const part_names[] = {
#define HR_PART_NAME(enumerator, name, words) name,
    HR_LAYER_PART_LIST(HR_PART_NAME)
#undef HR_PART_NAME
};

static const char *const part_words[] = {
#define HR_PART_WORDS(enumerator, name, words) words,
    HR_LAYER_PART_LIST(HR_PART_WORDS)
#undef HR_PART_WORDS
};

const char *hr_layer_part_name(hr_layer_part part)
{
  return hr_name_of(part_names, HR_PART_COUNT, (int)part);
}

const char *hr_layer_part_words(hr_layer_part part)
{
  return hr_name_of(part_words, HR_PART_COUNT, (int)part);
}

hr_layer_part hr_layer_part_of(const hr_operator *op)
{
  switch (op->kind) {
  case HR_KIND_GEMM: return HR_PART_LINEAR;
  case HR_KIND_BMM:
  case HR_KIND_ATTENTION: return HR_PART_ATTENTION;
  case HR_KIND_COMMUNICATION: return HR_PART_COMMUNICATION;
  case HR_KIND_MEMORY: break;
  }
  switch (op->id) {
  case HR_OP_SOFTMAX: return HR_PART_SOFTMAX;
  case HR_OP_ROTARY: return HR_PART_ROTARY;
  case HR_OP_ACTIVATION: return HR_PART_ACTIVATION;
  case HR_OP_ATTENTION_RESIDUAL:
  case HR_OP_MLP_RESIDUAL: return HR_PART_RESIDUAL;
  default: return HR_PART_NORM;
  }
}

hr_layer_options hr_layer_options_default(void)
{
  return (hr_layer_options){.struct_size = sizeof(hr_layer_options), .budget_ns = BUDGET_NS, .check = true, .seed = 1};
}

typedef struct layering {
  hr_device *device;
  const hr_hardware *hardware;
  const hr_model *model;
  const hr_workload *asked;
  hr_layer_options options;
  hr_step step;
  hr_layer *layer;
  hr_problem problems[HR_OPERATORS_MAX];
  hr_error refusals[HR_OPERATORS_MAX]; /* status HR_OK where there is a problem */
  double done;
  char what[96];
  bool stopped;
} layering;

static int report(void *context)
{
  layering *l = context;
  if (l->options.progress && !l->stopped)
    l->stopped = l->options.progress(l->options.context, l->done, l->what) != 0;
  return l->stopped;
}

/* ---- what is measured ---- */

/* Layers with a window and layers without have operators of one id and pass; the commoner kind stands for all. */
static bool is_rarer_kind(const hr_operators *operators, const hr_operator *op)
{
  for (size_t i = 0; i < operators->count; i++) {
    const hr_operator *other = &operators->items[i];
    if (other == op || other->id != op->id || other->pass != op->pass)
      continue;
    if (other->count > op->count || (other->count == op->count && other < op))
      return true;
  }
  return false;
}

static hr_status list_rows(layering *l, hr_error *error)
{
  hr_layer *layer = l->layer;
  layer->count = 0;
  layer->flops = 0;
  HR_TRY(hr_predict_step(l->hardware, l->model, &layer->workload, &l->step, error));
  for (size_t i = 0; i < l->step.operators.count; i++) {
    const hr_operator *op = &l->step.operators.items[i];
    if (!op->in_layer || is_rarer_kind(&l->step.operators, op))
      continue;
    size_t at = layer->count++;
    hr_layer_row *row = &layer->rows[at];
    *row = (hr_layer_row){.op = *op, .part = hr_layer_part_of(op), .prediction = l->step.predictions[i]};
    layer->flops += op->flops; /* of a step with as many layers the sum fits */
    l->refusals[at] = (hr_error){.status = HR_OK};
    hr_status status = hr_operator_problem(l->model, &layer->workload, op, &l->problems[at], &l->refusals[at]);
    l->refusals[at].status = status;
    if (status == HR_OK && l->problems[at].operation == HR_OPERATION_ROWWISE)
      row->rows = l->problems[at].rows;
  }
  return HR_OK;
}

static double cost_ns(const layering *l, size_t index)
{
  const hr_layer_row *row = &l->layer->rows[index];
  if (l->refusals[index].status != HR_OK)
    return 0;
  return hr_budget_cost_ns(l->device, row->prediction.time_ns, hr_budget_bytes(l->device, (double)row->op.bytes), 1);
}

/* Of the run of all together, which fills what was filled before once more and compares nothing. */
static double whole_run_ns(const layering *l)
{
  double sum = 0;
  for (size_t i = 0; i < l->layer->count; i++) {
    if (l->refusals[i].status == HR_OK)
      sum += l->layer->rows[i].prediction.time_ns;
  }
  return sum;
}

static double all_bytes(const layering *l)
{
  double bytes = 0;
  for (size_t i = 0; i < l->layer->count; i++)
    bytes += l->refusals[i].status == HR_OK ? (double)l->layer->rows[i].op.bytes : 0;
  return bytes;
}

static double whole_cost_ns(const layering *l)
{
  return hr_budget_cost_ns(l->device, whole_run_ns(l), hr_budget_bytes(l->device, all_bytes(l)), 0);
}

static double sum_of_costs(const layering *l, size_t first)
{
  double sum = whole_cost_ns(l);
  for (size_t i = first; i < l->layer->count; i++)
    sum += cost_ns(l, i);
  return sum;
}

static bool fits_memory(const layering *l)
{
  return hr_budget_has_memory(l->device, hr_budget_bytes(l->device, all_bytes(l)));
}

static hr_status choose_size(layering *l, hr_error *error)
{
  hr_layer *layer = l->layer;
  layer->workload = *l->asked;
  HR_TRY(list_rows(l, error));
  double asked_ns = sum_of_costs(l, 0);
  bool memory_short = !fits_memory(l);
  while (!l->options.whole_only && (sum_of_costs(l, 0) > l->options.budget_ns || !fits_memory(l)) &&
         hr_budget_smaller(&layer->workload))
    HR_TRY(list_rows(l, error));
  layer->reduced = hr_budget_note(l->asked, &layer->workload, memory_short, asked_ns, l->options.budget_ns, layer->note,
                                  sizeof layer->note);
  return HR_OK;
}

/* ---- measuring ---- */

static hr_measure_options options_of(layering *l, double limit_ns)
{
  hr_measure_options options = hr_measure_options_default();
  options.time_limit_ns = limit_ns;
  options.precision = PRECISION;
  options.warm = l->options.warm;
  options.check = l->options.check;
  options.seed = l->options.seed;
  options.cancelled = report;
  options.context = l;
  return options;
}

static bool has_time(const hr_measurement *m)
{
  return m->samples > 0 && m->median_ns > 0;
}

/* Where the whole alone is wanted an operator is only compared with the reference, and run. */
static hr_status measure_alone(const layering *l, size_t index, const hr_measure_options *options,
                               hr_measurement *measured, hr_error *error)
{
  const hr_problem_list alone = {.problems = &l->problems[index], .count = 1};
  return l->options.whole_only ? hr_measure_first_run(l->device, alone.problems, options, measured, error)
                               : hr_measure_list(l->device, &alone, options, measured, error);
}

static hr_status measure_rows(layering *l, double start_ns, hr_error *error)
{
  hr_layer *layer = l->layer;
  double all_ns = sum_of_costs(l, 0);
  bool missing = false; /* an operator before had no time */
  for (size_t i = 0; i < layer->count; i++) {
    hr_layer_row *row = &layer->rows[i];
    missing = missing || (i > 0 && !has_time(&layer->rows[i - 1].measurement));
    row->measurement = hr_no_measurement(l->refusals[i].status, l->refusals[i].message);
    if (l->refusals[i].status != HR_OK)
      continue;
    if (missing && l->options.whole_only) {
      row->measurement = hr_no_measurement(HR_ERROR_UNSUPPORTED, "another operator has no time");
      continue;
    }
    row->measurement = hr_no_measurement(HR_ERROR_INTERRUPTED, "stopped before it");
    double reserved_ns = sum_of_costs(l, i), left_ns = l->options.budget_ns - (hr_clock_ns() - start_ns);
    l->done = 1 - reserved_ns / all_ns;
    hr_operator_name(&row->op, l->what, sizeof l->what);
    if (report(l))
      continue;
    hr_measure_options options =
        options_of(l, hr_budget_limit_ns(row->prediction.time_ns, reserved_ns, layer->count - i + 1, left_ns));
    hr_measurement measured;
    hr_status status = measure_alone(l, i, &options, &measured, error);
    if (status != HR_ERROR_INTERRUPTED)
      HR_TRY(status);
    row->tried = status == HR_OK;
    if (row->tried)
      row->measurement = measured;
  }
  return HR_OK;
}

static void add_up(hr_layer *layer)
{
  for (size_t i = 0; i < layer->count; i++) {
    hr_layer_row *row = &layer->rows[i];
    row->measured = has_time(&row->measurement);
    row->time_ns = row->measured ? row->measurement.median_ns : row->prediction.time_ns;
    layer->sum_ns += row->time_ns;
    layer->predicted_ns += row->prediction.time_ns;
    layer->measured_ns += row->measured ? row->time_ns : 0;
    layer->measured_count += row->measured;
    layer->part_ns[row->part] += row->time_ns;
  }
  for (size_t i = 0; i < layer->count; i++)
    layer->rows[i].share = layer->rows[i].time_ns / layer->sum_ns;
}

/* Measured rows alone, so that their sum and the whole are of the same. */
static hr_status measure_whole(layering *l, double start_ns, hr_error *error)
{
  hr_layer *layer = l->layer;
  size_t count = 0;
  for (size_t i = 0; i < layer->count; i++) {
    if (layer->rows[i].measured)
      l->problems[count++] = l->problems[i];
  }
  layer->whole = hr_no_measurement(HR_ERROR_INTERRUPTED, "stopped before it");
  bool wanted = count > 0 && (count == layer->count || !l->options.whole_only);
  if (!wanted && !l->stopped)
    layer->whole = hr_no_measurement(HR_ERROR_UNSUPPORTED, count == 0 ? "no operator was measured" : "not all were");
  double left_ns = l->options.budget_ns - (hr_clock_ns() - start_ns);
  snprintf(l->what, sizeof l->what, "all of them, one after another");
  if (!wanted || report(l))
    return HR_OK;
  double limit_ns = hr_budget_limit_ns(layer->measured_ns, whole_cost_ns(l), 1, left_ns);
  hr_measure_options options = options_of(l, limit_ns);
  hr_measurement measured;
  const hr_problem_list all = {.problems = l->problems, .count = count};
  hr_status status = hr_measure_list(l->device, &all, &options, &measured, error);
  if (status == HR_ERROR_INTERRUPTED)
    return HR_OK;
  if (status == HR_OK)
    layer->whole = measured;
  return status;
}

static hr_status measure_layer(layering *l, hr_error *error)
{
  double start_ns = hr_clock_ns();
  HR_TRY(choose_size(l, error));
  HR_TRY(measure_rows(l, start_ns, error));
  add_up(l->layer);
  HR_TRY(measure_whole(l, start_ns, error));
  l->layer->complete = !l->stopped;
  return HR_OK;
}

hr_status hr_layer_measure(hr_device *device, const hr_hardware *hardware, const hr_model *model,
                           const hr_workload *workload, const hr_layer_options *options, hr_layer **layer,
                           hr_error *error)
{
  HR_NEED(error, device, hardware, model, workload, layer);
  hr_layer_options chosen = options ? *options : hr_layer_options_default();
  HR_TRY(hr_check_struct_size("hr_layer_options", chosen.struct_size, sizeof(hr_layer_options), error));
  if (!(chosen.budget_ns > 0))
    return hr_fail(error, HR_ERROR_INVALID, "budget_ns: expected more than 0");
  layering *l = calloc(1, sizeof *l);
  hr_layer *created = calloc(1, sizeof *created);
  if (!l || !created) {
    free(l);
    free(created);
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "no memory to measure a layer with");
  }
  l->device = device;
  l->hardware = hardware;
  l->model = model;
  l->asked = workload;
  l->options = chosen;
  l->layer = created;
  hr_status status = measure_layer(l, error);
  free(l);
  if (status != HR_OK) {
    free(created);
    return status;
  }
  *layer = created;
  return HR_OK;
}

void hr_layer_free(hr_layer *layer)
{
  free(layer);
}
