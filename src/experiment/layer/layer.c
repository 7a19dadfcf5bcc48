/* SPDX-License-Identifier: Apache-2.0 */
/* Measures one layer: chooses the size, times each operator within the budget, then the whole layer. */
#include <headroom/experimental/layer.h>

#include "analysis/predict/step.h"
#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "experiment/budget.h"
#include "experiment/operator_problem.h"
#include "experiment/progress.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/parameters.h"
#include "runtime/device/clock.h"
#include "runtime/measure/problem_list.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/predict.h>
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

HR_DEFINE_NAME(hr_layer_part_name, hr_layer_part, part_names, HR_PART_COUNT)
HR_DEFINE_NAME(hr_layer_part_words, hr_layer_part, part_words, HR_PART_COUNT)

hr_layer_part hr_layer_part_of(const hr_operator *op)
{
  if (op->id == HR_OP_RECURRENCE_GATES)
    return HR_PART_LINEAR;
  switch (op->kind) {
  case HR_KIND_GEMM:
  case HR_KIND_GROUPED_GEMM: return HR_PART_LINEAR;
  case HR_KIND_BMM: /* with weights, or of the scores */
    return op->id == HR_OP_Q_ABSORB || op->id == HR_OP_O_ABSORB || op->id == HR_OP_O_DOWN ? HR_PART_LINEAR
                                                                                          : HR_PART_ATTENTION;
  case HR_KIND_ATTENTION: return HR_PART_ATTENTION;
  case HR_KIND_SCAN: return HR_PART_SCAN;
  case HR_KIND_COMMUNICATION: return HR_PART_COMMUNICATION;
  case HR_KIND_MEMORY: break;
  }
  switch (op->id) {
  case HR_OP_SOFTMAX: return HR_PART_SOFTMAX;
  case HR_OP_ROTARY:
  case HR_OP_K_ROTARY_COPY:
  case HR_OP_O_ROTARY:
  case HR_OP_INDEX_ROTARY: return HR_PART_ROTARY;
  case HR_OP_INDEX_TOP_K:
  case HR_OP_INDEX_COMPRESS:
  case HR_OP_COMPRESS: return HR_PART_ATTENTION;
  case HR_OP_ROUTER_TOP_K:
  case HR_OP_DISPATCH:
  case HR_OP_COMBINE:
  case HR_OP_SHARED_ADD: return HR_PART_ROUTING;
  case HR_OP_EXPERT_ACTIVATION:
  case HR_OP_SHARED_ACTIVATION:
  case HR_OP_ACTIVATION:
  case HR_OP_SCAN_GATE:
  case HR_OP_ATTENTION_GATE: return HR_PART_ACTIVATION;
  case HR_OP_EMBEDDING_DROPOUT:
  case HR_OP_SOFTMAX_DROPOUT:
  case HR_OP_ATTENTION_DROPOUT:
  case HR_OP_MLP_DROPOUT: return HR_PART_DROPOUT;
  case HR_OP_ATTENTION_HC_PRE:
  case HR_OP_MLP_HC_PRE:
  case HR_OP_FINAL_HC_PRE:
  case HR_OP_ATTENTION_RESIDUAL:
  case HR_OP_MLP_RESIDUAL: return HR_PART_RESIDUAL;
  case HR_OP_LOSS: return HR_PART_LOSS;
  case HR_OP_OPTIMIZER: return HR_PART_OPTIMIZER;
  default: return HR_PART_NORM;
  }
}

void hr_layer_options_init(hr_layer_options *options, size_t size)
{
  HR_INIT(options, size,
          (hr_layer_options){.group = HR_LAYER_MAIN_GROUP, .budget_ns = BUDGET_NS, .check = true, .seed = 1});
}

/* One run of hr_layer_measure(). */
typedef struct layer_run {
  hr_device *device;
  const hr_hardware *hardware;
  hr_model model; /* all layers are of the measured group */
  const hr_workload *asked;
  hr_layer_options options;
  hr_step step;
  hr_layer *layer;
  hr_problem problems[HR_OPERATORS_MAX];
  hr_error refusals[HR_OPERATORS_MAX]; /* HR_OK, or why the operator is no problem that a kernel solves */
  hr_problem beside[HR_LAYER_BESIDE_MAX];
  hr_progress progress;
} layer_run;

/* ---- what is measured ---- */

/* The model with all its layers in one group, so that its step lists the operators of that group only. */
static hr_model of_one_group(const hr_model *model, size_t group)
{
  hr_model one = *model;
  one.groups[0] = model->groups[group];
  one.groups[0].count = hr_model_layers(model);
  one.group_count = 1;
  return one;
}

static hr_status choose_group(layer_run *l, const hr_model *model, hr_error *error)
{
  HR_TRY(hr_model_check(model, error));
  size_t group = l->options.group;
  if (group == HR_LAYER_MAIN_GROUP)
    group = (size_t)(hr_model_main_group(model) - model->groups);
  if (group >= model->group_count)
    return hr_fail(error, HR_ERROR_INVALID, "group: expected 0 to %zu, found %zu", model->group_count - 1, group);
  l->layer->group = group;
  l->model = of_one_group(model, group);
  return HR_OK;
}

/* Makes a row, and its problem where a kernel can solve it. */
static hr_status list_row(layer_run *l, const hr_operator *op, const hr_prediction *prediction, hr_layer_row *row,
                          hr_problem *problem, hr_error *refusal)
{
  *row = (hr_layer_row){.op = *op, .part = hr_layer_part_of(op), .prediction = *prediction, .share = (double)NAN};
  *refusal = (hr_error){.status = HR_OK};
  hr_status status = hr_operator_problem(&l->model, &l->layer->workload, op, problem, refusal);
  refusal->status = status;
  if (status == HR_OK && problem->operation == HR_OPERATION_ROWWISE)
    row->rows = problem->rows;
  return status;
}

static hr_status list_rows(void *context, const hr_workload *workload, hr_error *error)
{
  layer_run *l = context;
  hr_layer *layer = l->layer;
  layer->workload = *workload;
  layer->count = 0;
  layer->flops = 0;
  const hr_subject subject = {.model = &l->model, .workload = &layer->workload, .hardware = l->hardware};
  HR_TRY(hr_fill_step_of(&subject, true, NULL, &l->step, error));
  for (size_t i = 0; i < l->step.operators.count; i++) {
    const hr_operator *op = &l->step.operators.items[i];
    if (!op->in_layer)
      continue;
    size_t at = layer->count++;
    layer->flops += op->flops; /* of a step with as many layers the sum fits */
    list_row(l, op, &l->step.predictions[i], &layer->rows[at], &l->problems[at], &l->refusals[at]);
  }
  return HR_OK;
}

static double cost_ns(const layer_run *l, size_t index)
{
  const hr_layer_row *row = &l->layer->rows[index];
  if (l->refusals[index].status != HR_OK)
    return 0;
  return hr_budget_cost_ns(l->device, row->prediction.time_ns, hr_budget_bytes(l->device, (double)row->op.bytes), 1);
}

/* One run of the whole layer. */
static double whole_run_ns(const layer_run *l)
{
  double sum = 0;
  for (size_t i = 0; i < l->layer->count; i++) {
    if (l->refusals[i].status == HR_OK)
      sum += l->layer->rows[i].prediction.time_ns;
  }
  return sum;
}

static double all_bytes(const layer_run *l)
{
  double bytes = 0;
  for (size_t i = 0; i < l->layer->count; i++)
    bytes += l->refusals[i].status == HR_OK ? (double)l->layer->rows[i].op.bytes : 0;
  return bytes;
}

/* The whole layer fills its buffers again and compares nothing with the reference. */
static double whole_cost_ns(const layer_run *l)
{
  return hr_budget_cost_ns(l->device, whole_run_ns(l), hr_budget_bytes(l->device, all_bytes(l)), 0);
}

static double sum_of_costs(const layer_run *l, size_t first)
{
  double sum = whole_cost_ns(l);
  for (size_t i = first; i < l->layer->count; i++)
    sum += cost_ns(l, i);
  return sum;
}

static double cost_of_all_ns(const void *context)
{
  return sum_of_costs(context, 0);
}

static bool fits_memory(const void *context)
{
  const layer_run *l = context;
  return hr_budget_fits_memory(l->device, hr_budget_bytes(l->device, all_bytes(l)));
}

static hr_status choose_size(layer_run *l, hr_error *error)
{
  hr_layer *layer = l->layer;
  const hr_budget_experiment experiment = {l, list_rows, cost_of_all_ns, fits_memory};
  hr_budget_size size;
  HR_TRY(hr_budget_choose_size(&experiment, l->asked, l->options.budget_ns, l->options.whole_only, &size, error));
  layer->reduced = hr_budget_note(l->asked, &size, l->options.budget_ns, layer->note, sizeof layer->note);
  return HR_OK;
}

/* A plan may have to be compiled, so that this is left until the size is chosen. */
static void take_decode_kernels(layer_run *l)
{
  for (size_t i = 0; i < l->layer->count; i++) {
    if (l->refusals[i].status == HR_OK && hr_operator_take_decode(l->device, &l->layer->workload, &l->problems[i]))
      l->layer->rows[i].decode = l->problems[i].decode;
  }
}

/* ---- measuring ---- */

static hr_measure_options options_of(layer_run *l, double limit_ns)
{
  hr_measure_options options = hr_measure_options_default();
  options.time_limit_ns = limit_ns;
  options.precision = PRECISION;
  options.warm = l->options.warm;
  options.check = l->options.check;
  options.seed = l->options.seed;
  options.cancelled = hr_progress_cancelled;
  options.context = &l->progress;
  return options;
}

static bool has_time(const hr_measurement *m)
{
  return m->samples > 0 && m->median_ns > 0;
}

/* With whole_only an operator is compared with the reference and runs once, unless its time is wanted, too. */
static hr_status measure_alone(const layer_run *l, size_t index, const hr_measure_options *options,
                               hr_measurement *measured, hr_error *error)
{
  const hr_problem_list alone = {.problems = &l->problems[index], .count = 1};
  bool once = l->options.whole_only && !l->options.operator_times;
  return once ? hr_measure_first_run(l->device, alone.problems, options, measured, error)
              : hr_measure_list(l->device, &alone, options, measured, error);
}

static hr_status measure_rows(layer_run *l, double start_ns, hr_error *error)
{
  hr_layer *layer = l->layer;
  double all_ns = sum_of_costs(l, 0);
  bool missing = false; /* an earlier operator has no time */
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
    l->progress.done = 1 - reserved_ns / all_ns;
    hr_operator_name(&row->op, l->progress.what, sizeof l->progress.what);
    if (hr_progress_cancelled(&l->progress))
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

/* Runs the operators that were measured, so that their sum and the whole are of the same work. */
static hr_status measure_whole(layer_run *l, double start_ns, hr_error *error)
{
  hr_layer *layer = l->layer;
  size_t count = 0;
  for (size_t i = 0; i < layer->count; i++) {
    if (layer->rows[i].measured)
      l->problems[count++] = l->problems[i];
  }
  layer->whole = hr_no_measurement(HR_ERROR_INTERRUPTED, "stopped before it");
  bool wanted = count > 0 && (count == layer->count || !l->options.whole_only);
  if (!wanted && !l->progress.stopped)
    layer->whole = hr_no_measurement(HR_ERROR_UNSUPPORTED, count == 0 ? "no operator was measured" : "not all were");
  double left_ns = l->options.budget_ns - (hr_clock_ns() - start_ns);
  snprintf(l->progress.what, sizeof l->progress.what, "all of them, one after another");
  if (!wanted || hr_progress_cancelled(&l->progress))
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

/* ---- what a step has once ---- */

/* The optimizer of this layer's parameters: a share of the operator of all. */
static hr_status take_share(const layer_run *l, hr_operator *op, hr_prediction *prediction, hr_error *error)
{
  const hr_layer_group share = hr_shard_layer(&l->model, &l->model.groups[0], &l->layer->workload);
  const hr_checked64 parameters = hr_count_layer(&l->model, &share);
  if (op->id != HR_OP_OPTIMIZER || parameters.overflow || op->columns < 1)
    return HR_OK;
  op->bytes = op->bytes / op->columns * parameters.value;
  op->moved_bytes = op->moved_bytes / op->columns * parameters.value;
  op->columns = parameters.value;
  return hr_predict_operator(l->hardware, op, prediction, error);
}

static hr_status measure_beside_row(layer_run *l, hr_layer_row *row, const hr_problem *problem, double limit_ns,
                                    hr_error *error)
{
  hr_measure_options options = options_of(l, limit_ns);
  hr_measurement measured;
  const hr_problem_list alone = {.problems = problem, .count = 1};
  row->measurement = hr_no_measurement(HR_ERROR_INTERRUPTED, "stopped before it");
  hr_operator_name(&row->op, l->progress.what, sizeof l->progress.what);
  if (hr_progress_cancelled(&l->progress))
    return HR_OK;
  hr_status status = hr_measure_list(l->device, &alone, &options, &measured, error);
  if (status != HR_ERROR_INTERRUPTED)
    HR_TRY(status);
  row->tried = status == HR_OK;
  if (row->tried)
    row->measurement = measured;
  row->measured = has_time(&row->measurement);
  return HR_OK;
}

/* The loss and the optimizer, alone: a layer is repeated, and they are not. */
static hr_status measure_beside(layer_run *l, double start_ns, hr_error *error)
{
  hr_layer *layer = l->layer;
  for (size_t i = 0; i < l->step.operators.count && layer->beside_count < HR_LAYER_BESIDE_MAX; i++) {
    hr_operator op = l->step.operators.items[i];
    hr_prediction prediction = l->step.predictions[i];
    hr_error refusal;
    if (layer->workload.phase != HR_PHASE_TRAIN || (op.id != HR_OP_LOSS && op.id != HR_OP_OPTIMIZER))
      continue;
    HR_TRY(take_share(l, &op, &prediction, error));
    hr_layer_row *row = &layer->beside[layer->beside_count];
    hr_problem *problem = &l->beside[layer->beside_count++];
    const double left_ns = l->options.budget_ns - (hr_clock_ns() - start_ns), run_ns = prediction.time_ns;
    const double bytes = hr_budget_bytes(l->device, (double)op.bytes);
    if (list_row(l, &op, &prediction, row, problem, &refusal) == HR_OK)
      HR_TRY(measure_beside_row(l, row, problem,
                                hr_budget_limit_ns(run_ns, hr_budget_cost_ns(l->device, run_ns, bytes, 1), 1, left_ns),
                                error));
    else
      row->measurement = hr_no_measurement(refusal.status, refusal.message);
    row->time_ns = row->measured ? row->measurement.median_ns : row->prediction.time_ns;
  }
  return HR_OK;
}

static hr_status measure_layer(layer_run *l, const hr_model *model, hr_error *error)
{
  double start_ns = hr_clock_ns();
  HR_TRY(choose_group(l, model, error));
  HR_TRY(choose_size(l, error));
  take_decode_kernels(l);
  HR_TRY(measure_rows(l, start_ns, error));
  add_up(l->layer);
  HR_TRY(measure_whole(l, start_ns, error));
  if (!l->options.whole_only)
    HR_TRY(measure_beside(l, start_ns, error));
  l->layer->complete = !l->progress.stopped;
  return HR_OK;
}

hr_status hr_layer_measure(hr_device *device, const hr_subject *subject, const hr_layer_options *options,
                           hr_layer **layer, hr_error *error)
{
  HR_NEED(error, device, subject, layer);
  const hr_model *model = subject->model;
  const hr_workload *workload = subject->workload;
  const hr_hardware *hardware = subject->hardware;
  HR_NEED(error, hardware, model, workload);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  HR_TAKE(hr_layer_options, options, error);
  hr_layer_options chosen = options ? *options : hr_layer_options_default();
  if (!(chosen.budget_ns > 0))
    return hr_fail(error, HR_ERROR_INVALID, "budget_ns: expected more than 0");
  layer_run *l = calloc(1, sizeof *l);
  hr_layer *created = calloc(1, sizeof *created);
  if (!l || !created) {
    free(l);
    free(created);
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory to measure a layer with");
  }
  l->device = device;
  l->hardware = hardware;
  l->asked = workload;
  l->options = chosen;
  l->progress = (hr_progress){.report = chosen.progress, .context = chosen.context};
  l->layer = created;
  hr_status status = measure_layer(l, model, error);
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
