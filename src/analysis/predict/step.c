/* SPDX-License-Identifier: Apache-2.0 */
/* A step: every operator times its executions. */
#include "analysis/predict/step.h"

#include "analysis/predict/microbatches.h"
#include "analysis/predict/terms.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"
#include "model/layers/frameworks.h"
#include "model/layers/operator_builder.h"
#include "model/operators/fused.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/operators.h>
#include <headroom/experimental/predict.h>
#include <headroom/experimental/workload.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Every pipeline stage waits for the one with the most layers. */
static double layer_stretch(int64_t layers, int64_t stages)
{
  return (double)hr_round_up(layers, stages) / (double)layers;
}

/* The slowest stage decides how long they take. */
static hr_part_times stretched(const hr_part_times *times, double stretch)
{
  hr_part_times all = *times;
  all.layers *= stretch;
  return all;
}

static void sum_step(const hr_hardware *hardware, hr_step *step, const hr_model *model, const hr_workload *workload)
{
  hr_part_times times = {0, 0, 0, 0}, low = times, high = times, communication = times;
  int64_t layers = hr_model_layers(model), stages = workload->pipeline_stages;
  double stretch = layer_stretch(layers, stages);
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    const hr_prediction *p = &step->predictions[i];
    if (!hr_runs_with_microbatches(op->id))
      continue;
    const double hidden_ns = hr_hidden_ns(hardware, workload->phase, op, p->time_ns), count = (double)op->count;
    *hr_part_of(&times, op) += count * (p->time_ns - hidden_ns);
    *hr_part_of(&low, op) += count * (p->low_ns - hidden_ns);
    *hr_part_of(&high, op) += count * (p->high_ns - hidden_ns);
    if (op->kind == HR_KIND_COMMUNICATION)
      *hr_part_of(&communication, op) += count * (p->time_ns - hidden_ns);
  }
  step->about.layer_time_ns = times.layers / (double)layers;
  step->about.logit_time_ns = times.before + times.behind;
  times = stretched(&times, stretch), communication = stretched(&communication, stretch);
  low = stretched(&low, stretch), high = stretched(&high, stretch);
  step->about.microbatch_time_ns = hr_microbatch_ns(&times);
  step->about.stage_time_ns = hr_slowest_stage_ns(&times, workload);
  step->about.time_ns = hr_all_microbatches_ns(&times, workload);
  step->about.communication_ns = hr_all_microbatches_ns(&communication, workload);
  step->about.low_ns = hr_all_microbatches_ns(&low, workload);
  step->about.high_ns = hr_all_microbatches_ns(&high, workload);
}

/* A figure of a prediction: its time, or an end of its band. */
typedef double (*figure_fn)(const hr_prediction *prediction);

static double expected(const hr_prediction *prediction)
{
  return prediction->time_ns;
}

static double lowest(const hr_prediction *prediction)
{
  return prediction->low_ns;
}

static double highest(const hr_prediction *prediction)
{
  return prediction->high_ns;
}

/* ---- the host ---- */

/* Time to launch a kernel in eager mode: a decode step of Llama 3.1 8B on an H100 takes 8.4 ms in eager mode and 5.1
 * in a CUDA graph (cloudai.pt, "CUDA Graphs + torch.compile"), and has 1,258 kernels as they are counted here. The
 * device computes the logits when all are launched. */
#define EAGER_LAUNCH_NS 6400.0
#define EAGER_LAUNCH_BAND 1.5 /* between hosts, an estimate */

/* Regions of a step in their order: before the layers, the layers, behind them, and the same backward. */
#define REGIONS 6

typedef struct launched_region {
  double device_ns, kernels;
} launched_region;

static size_t region_of(const hr_operator *op)
{
  size_t forward = op->in_layer ? 1 : op->id < HR_OP_ATTENTION_NORM ? 0 : 2;
  return op->pass == HR_PASS_FORWARD ? forward : REGIONS - 1 - forward;
}

/* The host launches kernels in order and does not wait for the device, on which none begins before it is launched. So
 * the device ends a region at the end of its own work or of the launches, whichever is later; the layers of a region
 * are alike. Further microbatches add what binds, host or device. */
static double launched_ns(const hr_step *step, const hr_workload *workload, figure_fn figure, double launch_ns)
{
  launched_region regions[REGIONS] = {{0, 0}};
  double host_ns = 0, device_ns = 0, busy_ns = 0;
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    if (!hr_runs_with_microbatches(op->id))
      continue;
    launched_region *region = &regions[region_of(op)];
    region->device_ns += (double)op->count * figure(&step->predictions[i]);
    region->kernels += (double)op->count * (double)op->kernels;
  }
  for (size_t i = 0; i < REGIONS; i++) {
    host_ns += regions[i].kernels * launch_ns;
    busy_ns += regions[i].device_ns;
    device_ns = fmax(device_ns + regions[i].device_ns, host_ns);
  }
  return device_ns + (double)(hr_workload_microbatches(workload) - 1) * fmax(busy_ns, host_ns);
}

/* The stages of a pipeline wait for each other, too: only their whole is compared with the host's time. */
static double bound_ns(const hr_step *step, const hr_workload *workload, figure_fn figure, double band)
{
  double host_ns = step->about.host_ns * band;
  return workload->pipeline_stages > 1 ? host_ns
                                       : fmax(host_ns, launched_ns(step, workload, figure, EAGER_LAUNCH_NS * band));
}

static void wait_for_host(const hr_hardware *hardware, hr_step *step, const hr_workload *workload)
{
  bool eager =
      hr_framework_kernels(workload->framework) == HR_FRAMEWORK_EAGER && hardware->about.kind == HR_HARDWARE_GPU;
  double stages = (double)workload->pipeline_stages;
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    step->about.kernels += op->id == HR_OP_OPTIMIZER ? 0 : op->count * op->kernels;
  }
  step->about.kernels = (int64_t)ceil((double)step->about.kernels / stages);
  if (!eager)
    return;
  step->about.host_ns = (double)step->about.kernels * EAGER_LAUNCH_NS *
                        ((double)hr_workload_microbatches(workload) +
                         (workload->phase == HR_PHASE_DECODE ? 0 : hr_first_microbatch_rounds(workload)));
  step->about.time_ns = fmax(step->about.time_ns, bound_ns(step, workload, expected, 1));
  step->about.low_ns = fmax(step->about.low_ns, bound_ns(step, workload, lowest, 1 / EAGER_LAUNCH_BAND));
  step->about.high_ns = fmax(step->about.high_ns, bound_ns(step, workload, highest, EAGER_LAUNCH_BAND));
}

/* ---- communication between replicas ---- */

/* Times of a device: of its passes over a microbatch, and of what it sends during each: gathered weights forward,
 * weights and gradients backward. */
typedef struct pass_times {
  double forward, backward, gathered_forward, gathered_backward, reduced;
  double sent; /* of all microbatches of the step */
} pass_times;

static pass_times passes_of(const hr_step *step, const hr_workload *workload, figure_fn sent_ns)
{
  pass_times sum = {0, 0, 0, 0, 0, 0};
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    const hr_prediction *p = &step->predictions[i];
    bool between = hr_operator_between_replicas(op->id);
    double time_ns = (double)op->count * (between ? sent_ns(p) : p->time_ns);
    bool forward = op->pass == HR_PASS_FORWARD;
    if (op->id == HR_OP_WEIGHT_ALL_GATHER)
      *(forward ? &sum.gathered_forward : &sum.gathered_backward) += time_ns;
    else if (between)
      sum.reduced += time_ns;
    else if (op->id != HR_OP_OPTIMIZER)
      *(forward ? &sum.forward : &sum.backward) += time_ns / (double)workload->pipeline_stages;
    if (between)
      sum.sent += time_ns * (double)hr_replica_runs(op->id, workload);
  }
  return sum;
}

/* Waits of a step: stages 2 and 3 reduce gradients, stage 3 also gathers weights, with each microbatch; else once, the
 * gradients behind the last backward pass, the weights behind the first forward pass. Source: Li et al. 2020 (arXiv
 * 2006.15704), section 3.2.3, for gradients; Zhao et al. 2023 (arXiv 2304.11277), section 3.3, for weights. */
static double exposed_ns(const pass_times *t, const hr_workload *workload)
{
  double rounds = (double)hr_workload_microbatches(workload) + hr_first_microbatch_rounds(workload);
  int64_t stage = workload->zero_stage;
  double forward = fmax(0, t->gathered_forward - workload->overlap * t->forward);
  double backward = fmax(0, t->gathered_backward + t->reduced - workload->overlap * t->backward);
  return forward * (stage == 3 ? rounds : 1) + backward * (stage >= 2 ? rounds : 1);
}

static void add_exposed(hr_step *step, const hr_workload *workload)
{
  const pass_times t = passes_of(step, workload, expected), low = passes_of(step, workload, lowest),
                   high = passes_of(step, workload, highest);
  step->about.replica_ns = t.sent;
  step->about.exposed_ns = exposed_ns(&t, workload);
  step->about.time_ns += step->about.exposed_ns;
  step->about.communication_ns += step->about.exposed_ns;
  step->about.low_ns += exposed_ns(&low, workload);
  step->about.high_ns += exposed_ns(&high, workload);
}

/* The optimizer updates the weights behind the last microbatch. */
static void add_optimizer(hr_step *step)
{
  for (size_t i = 0; i < step->operators.count; i++) {
    if (step->operators.items[i].id != HR_OP_OPTIMIZER)
      continue;
    step->about.optimizer_ns += step->predictions[i].time_ns;
    step->about.low_ns += step->predictions[i].low_ns;
    step->about.high_ns += step->predictions[i].high_ns;
  }
  step->about.time_ns += step->about.optimizer_ns;
}

/* The rate of the format that the operator multiplies. */
static double peak_of(const hr_hardware *hardware, const hr_workload *workload, const hr_operator *op)
{
  if (op->activations == HR_ACTIVATIONS_INT8 && hardware->int8_ops_per_s > 0)
    return hardware->int8_ops_per_s;
  if (op->activations == HR_ACTIVATIONS_FP4 && hardware->fp4_flops_per_s > 0)
    return hardware->fp4_flops_per_s;
  return hr_predict_peak(hardware, op->activations == HR_ACTIVATIONS_FP8 ? HR_FP8_E4M3 : workload->dtype);
}

/* Time of a microbatch's FLOPs at the peak rates. Recomputed ones are not the model's. */
static double peak_seconds(const hr_step *step, const hr_hardware *hardware, const hr_workload *workload)
{
  double seconds = 0;
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    double flops = (double)op->count * (double)op->flops, peak = peak_of(hardware, workload, op);
    seconds += op->pass != HR_PASS_RECOMPUTE && peak > 0 ? flops / peak : 0;
  }
  return seconds;
}

/* Rates of the step: a device has the FLOPs of one of the p stages. */
static void rate_step(hr_step *step, const hr_hardware *hardware, const hr_workload *workload)
{
  double m = (double)hr_workload_microbatches(workload), p = (double)workload->pipeline_stages;
  double sequence = workload->phase == HR_PHASE_DECODE ? 1 : (double)workload->sequence;
  double replicas = (double)workload->data_parallel, seconds = step->about.time_ns / 1e9;
  double devices = replicas * (double)workload->tensor_parallel * p * (double)workload->context_parallel;
  step->about.tokens_per_s = seconds > 0 ? replicas * m * (double)workload->batch * sequence / seconds : 0;
  step->about.tokens_per_s_per_device = step->about.tokens_per_s / devices;
  step->about.model_efficiency = seconds > 0 ? fmin(m / p * peak_seconds(step, hardware, workload) / seconds, 1) : 0;
  double idle_ns =
      step->about.time_ns - step->about.exposed_ns - step->about.optimizer_ns - m * step->about.stage_time_ns;
  step->about.bubble = p > 1 && step->about.time_ns > 0 ? fmax(0, idle_ns / step->about.time_ns) : 0;
}

/* What the numbers of stages and replicas change. */
static bool is_of_microbatch(const hr_operator *op)
{
  return hr_runs_with_microbatches(op->id) && op->id != HR_OP_PIPELINE_SEND;
}

/* Steps of a model have their operators in the same places. */
static bool is_known(const hr_step *known, const hr_step *step, size_t i)
{
  return known && i < known->operators.count &&
         memcmp(&step->operators.items[i], &known->operators.items[i], sizeof step->operators.items[i]) == 0;
}

static hr_status predict_near(const hr_hardware *hardware, hr_phase phase, const hr_step *known, hr_step *step,
                              hr_error *error)
{
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    if (is_known(known, step, i))
      step->predictions[i] = known->predictions[i];
    else
      HR_TRY(hr_predict_step_operator(hardware, phase, op, &step->predictions[i], error));
  }
  return HR_OK;
}

static hr_status predict_operators(const hr_hardware *hardware, hr_phase phase, hr_microbatch *known, hr_step *step,
                                   hr_error *error)
{
  size_t next = 0;
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    bool shared = known && is_of_microbatch(op);
    if (shared && next < known->count) {
      step->predictions[i] = known->predictions[next++];
      continue;
    }
    HR_TRY(hr_predict_step_operator(hardware, phase, op, &step->predictions[i], error));
    if (shared)
      known->predictions[known->count++] = step->predictions[i], next++;
  }
  return HR_OK;
}

static hr_status name_libraries(const hr_hardware *hardware, hr_step *step, hr_error *error)
{
  for (size_t i = 0; i < step->operators.count; i++) {
    hr_collective collective = hr_collective_default();
    hr_prediction prediction;
    if (step->operators.items[i].kind == HR_KIND_COMMUNICATION)
      HR_TRY(hr_predict_communication(hardware, &step->operators.items[i], &collective, &prediction, error));
    step->libraries[i] = (uint8_t)collective.library;
  }
  return HR_OK;
}

/* What follows from the operators' predictions. */
static void sum_all(const hr_subject *subject, hr_step *step)
{
  const hr_workload *workload = subject->workload;
  step->about = (hr_step_about){.operator_count = step->operators.count};
  sum_step(subject->hardware, step, subject->model, workload);
  wait_for_host(subject->hardware, step, workload);
  add_exposed(step, workload);
  add_optimizer(step);
  rate_step(step, subject->hardware, workload);
}

/* A step of one kernel has no operators in common with those that have many. */
static hr_status fill(const hr_subject *subject, bool persists, hr_microbatch *microbatch, hr_step *step,
                      hr_error *error)
{
  const hr_phase phase = subject->workload->phase;
  HR_TRY(hr_operators_list(subject->model, subject->workload, &step->operators, error));
  if (persists)
    hr_persist_operators(&step->operators);
  HR_TRY(predict_operators(subject->hardware, phase, persists ? NULL : microbatch, step, error));
  memset(step->libraries, 0, sizeof step->libraries);
  if (!microbatch) /* no report lists the operators of many steps */
    HR_TRY(name_libraries(subject->hardware, step, error));
  sum_all(subject, step);
  return HR_OK;
}

static bool persists(const hr_subject *s)
{
  return hr_predict_persists(s->hardware, s->model, s->workload);
}

hr_status hr_fill_step_with(const hr_subject *subject, hr_microbatch *microbatch, hr_step *step, hr_error *error)
{
  return fill(subject, persists(subject), microbatch, step, error);
}

hr_status hr_fill_step_near(const hr_subject *subject, const hr_step *known, hr_step *step, hr_error *error)
{
  HR_TRY(hr_operators_list(subject->model, subject->workload, &step->operators, error));
  if (persists(subject))
    hr_persist_operators(&step->operators);
  HR_TRY(predict_near(subject->hardware, subject->workload->phase, known, step, error));
  memset(step->libraries, 0, sizeof step->libraries); /* no report lists the operators of many steps */
  sum_all(subject, step);
  return HR_OK;
}

hr_status hr_fill_step(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload, hr_step *step,
                       hr_error *error)
{
  HR_TRY(hr_hardware_check(hardware, error));
  return hr_fill_step_with(&(hr_subject){.model = model, .workload = workload, .hardware = hardware}, NULL, step,
                           error);
}

hr_status hr_fill_step_apart(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                             hr_step *step, hr_error *error)
{
  const hr_subject subject = {.model = model, .workload = workload, .hardware = hardware};
  HR_TRY(hr_hardware_check(hardware, error));
  return fill(&subject, false, NULL, step, error);
}

hr_status hr_predict_step(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                          hr_step **step, hr_error *error)
{
  HR_NEED(error, hardware, model, workload, step);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  hr_step *filled = malloc(sizeof *filled);
  if (!filled)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the operators of a step");
  hr_status status = hr_fill_step(hardware, model, workload, filled, error);
  if (status == HR_OK)
    *step = filled;
  else
    hr_step_free(filled);
  return status;
}

void hr_step_free(hr_step *step)
{
  free(step);
}

const hr_step_about *hr_step_describe(const hr_step *step)
{
  return &step->about;
}

const hr_operator *hr_step_operator(const hr_step *step, size_t index)
{
  return index < step->operators.count ? &step->operators.items[index] : NULL;
}

const hr_prediction *hr_step_prediction(const hr_step *step, size_t index)
{
  return index < step->operators.count ? &step->predictions[index] : NULL;
}
