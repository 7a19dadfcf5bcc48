/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/predict/step_sums.h"

#include "analysis/predict/step.h"
#include "analysis/predict/terms.h"
#include "base/checked.h"
#include "hardware/hardware.h"
#include "model/layers/frameworks.h"
#include "model/layers/operator_builder.h"
#include "model/layers/shard.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/operators.h>
#include <headroom/experimental/workload.h>
#include <math.h>

static double figure_of(const hr_prediction *p, hr_step_figure figure)
{
  const double figures[HR_STEP_FIGURES] = {p->time_ns, p->low_ns, p->high_ns};
  return figures[figure];
}

/* ---- operators ---- */

static hr_launched_region *region_of(hr_step_sums *sums, const hr_operator *op)
{
  size_t forward = op->in_layer ? 1 : op->id < HR_OP_ATTENTION_NORM ? 0 : 2;
  return &sums->regions[op->pass == HR_PASS_FORWARD ? forward : HR_STEP_REGIONS - 1 - forward];
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

static void add_computed(const hr_subject *subject, const hr_operator *op, const hr_prediction *p, hr_step_sums *sums)
{
  const double count = (double)op->count, flops = count * (double)op->flops;
  const double hidden_ns = hr_hidden_ns(subject->hardware, subject->workload->phase, op, p->time_ns);
  const double peak =
      op->flops > 0 && op->pass != HR_PASS_RECOMPUTE ? peak_of(subject->hardware, subject->workload, op) : 0;
  hr_launched_region *region = region_of(sums, op);
  for (hr_step_figure i = 0; i < HR_STEP_FIGURES; i++) {
    *hr_part_of(&sums->parts[i], op) += count * (figure_of(p, i) - hidden_ns);
    region->device_ns[i] += count * figure_of(p, i);
  }
  if (op->kind == HR_KIND_COMMUNICATION)
    *hr_part_of(&sums->communication, op) += count * (p->time_ns - hidden_ns);
  region->kernels += count * (double)op->kernels;
  *(op->pass == HR_PASS_FORWARD ? &sums->forward_ns : &sums->backward_ns) += count * p->time_ns;
  sums->peak_seconds += peak > 0 ? flops / peak : 0;
}

static void add_replicas(const hr_workload *workload, const hr_operator *op, const hr_prediction *p,
                         hr_replica_times *sums)
{
  const bool gathers = op->id == HR_OP_WEIGHT_ALL_GATHER;
  double *gathered = op->pass == HR_PASS_FORWARD ? sums->gathered_forward : sums->gathered_backward;
  double *sum = op->id == HR_OP_OPTIMIZER ? sums->optimizer : gathers ? gathered : sums->reduced;
  for (hr_step_figure i = 0; i < HR_STEP_FIGURES; i++)
    sum[i] += (double)op->count * figure_of(p, i);
  if (op->id != HR_OP_OPTIMIZER)
    sums->sent += (double)op->count * p->time_ns * (double)hr_replica_runs(op->id, workload);
}

void hr_add_to_step(const hr_subject *subject, const hr_operator *op, const hr_prediction *prediction,
                    hr_step_sums *sums)
{
  sums->operator_count++;
  sums->kernels += op->id == HR_OP_OPTIMIZER ? 0 : op->count * op->kernels;
  if (hr_runs_with_microbatches(op->id))
    add_computed(subject, op, prediction, sums);
  else
    add_replicas(subject->workload, op, prediction, &sums->replicas);
}

/* ---- microbatches ---- */

double *hr_part_of(hr_part_times *times, const hr_operator *op)
{
  if (op->in_layer)
    return &times->layers;
  if (op->id == HR_OP_PIPELINE_SEND)
    return &times->between;
  return op->id < HR_OP_ATTENTION_NORM ? &times->before : &times->behind;
}

/* One microbatch, one stage at a time. */
static double microbatch_ns_of(const hr_part_times *times)
{
  return times->layers + (times->before + times->behind) + times->between;
}

/* The slowest stage and one microbatch. */
static double slowest_stage_ns(const hr_part_times *times, const hr_workload *workload)
{
  int64_t stages = workload->pipeline_stages, parts = hr_virtual_stages(workload);
  if (stages == 1)
    return microbatch_ns_of(times);
  return times->layers / (double)stages + fmax(times->before, times->behind) +
         times->between / (double)(stages * parts - 1) * (double)parts;
}

/* Stage times for which the last stage waits: p − 1, with v parts a v-th of that. */
static double first_microbatch_rounds(const hr_workload *workload)
{
  return ((double)workload->pipeline_stages - 1) / (double)hr_virtual_stages(workload);
}

/* Microbatches that add the time of a stage to that of the first one. */
static double further_microbatches(const hr_workload *workload)
{
  double m = (double)hr_workload_microbatches(workload), p = (double)workload->pipeline_stages;
  return workload->phase == HR_PHASE_DECODE ? fmax(0, m - p) : m - 1;
}

/* The other stages wait until the first of v parts of a microbatch has reached them: a v-th of what a whole one takes.
 * Source: Narayanan et al. 2021 (arXiv 2104.04473), section 2.2. */
double hr_all_microbatches_ns(const hr_part_times *times, const hr_workload *workload)
{
  double microbatch_ns = microbatch_ns_of(times), stage_ns = slowest_stage_ns(times, workload);
  double saved_ns = (1 - 1 / (double)hr_virtual_stages(workload)) * (microbatch_ns - stage_ns);
  return microbatch_ns - saved_ns + further_microbatches(workload) * stage_ns;
}

/* The slowest stage decides how long they take. */
static double stretched_ns(const hr_part_times *times, double stretch, const hr_workload *workload)
{
  hr_part_times all = *times;
  all.layers *= stretch;
  return hr_all_microbatches_ns(&all, workload);
}

static void add_microbatches(const hr_subject *subject, const hr_step_sums *sums, hr_step_about *about)
{
  const hr_workload *workload = subject->workload;
  const hr_part_times *parts = sums->parts;
  int64_t layers = hr_model_layers(subject->model);
  /* Every pipeline stage waits for the one with the most layers. */
  double stretch = (double)hr_round_up(layers, workload->pipeline_stages) / (double)layers;
  hr_part_times times = parts[HR_STEP_EXPECTED];
  times.layers *= stretch;
  about->layer_time_ns = parts[HR_STEP_EXPECTED].layers / (double)layers;
  about->logit_time_ns = times.before + times.behind;
  about->microbatch_time_ns = microbatch_ns_of(&times);
  about->stage_time_ns = slowest_stage_ns(&times, workload);
  about->time_ns = hr_all_microbatches_ns(&times, workload);
  about->communication_ns = stretched_ns(&sums->communication, stretch, workload);
  about->low_ns = stretched_ns(&parts[HR_STEP_LOWEST], stretch, workload);
  about->high_ns = stretched_ns(&parts[HR_STEP_HIGHEST], stretch, workload);
}

/* ---- the host ---- */

/* Time to launch a kernel in eager mode: a decode step of Llama 3.1 8B on an H100 takes 8.4 ms in eager mode and 5.1
 * in a CUDA graph (cloudai.pt, "CUDA Graphs + torch.compile"), and has 1,258 kernels as they are counted here. The
 * device computes the logits when all are launched. */
#define EAGER_LAUNCH_NS 6400.0
#define EAGER_LAUNCH_BAND 1.5 /* between hosts, an estimate */

/* The host launches kernels in order and does not wait for the device, on which none begins before it is launched. So
 * the device ends a region at the end of its own work or of the launches, whichever is later; the layers of a region
 * are alike. Further microbatches add what binds, host or device. */
static double launched_ns(const hr_step_sums *sums, const hr_workload *workload, hr_step_figure figure,
                          double launch_ns)
{
  double host_ns = 0, device_ns = 0, busy_ns = 0;
  for (size_t i = 0; i < HR_STEP_REGIONS; i++) {
    const hr_launched_region *region = &sums->regions[i];
    host_ns += region->kernels * launch_ns;
    busy_ns += region->device_ns[figure];
    device_ns = fmax(device_ns + region->device_ns[figure], host_ns);
  }
  return device_ns + (double)(hr_workload_microbatches(workload) - 1) * fmax(busy_ns, host_ns);
}

static void wait_for_host(const hr_subject *subject, const hr_step_sums *sums, hr_step_about *about)
{
  const hr_workload *workload = subject->workload;
  bool eager = hr_framework_kernels(workload->framework) == HR_FRAMEWORK_EAGER &&
               subject->hardware->about.kind == HR_HARDWARE_GPU;
  const double bands[HR_STEP_FIGURES] = {1, 1 / EAGER_LAUNCH_BAND, EAGER_LAUNCH_BAND};
  double *times[HR_STEP_FIGURES] = {&about->time_ns, &about->low_ns, &about->high_ns};
  about->kernels = (int64_t)ceil((double)sums->kernels / (double)workload->pipeline_stages);
  if (!eager)
    return;
  about->host_ns = (double)about->kernels * EAGER_LAUNCH_NS *
                   ((double)hr_workload_microbatches(workload) +
                    (workload->phase == HR_PHASE_DECODE ? 0 : first_microbatch_rounds(workload)));
  for (hr_step_figure i = 0; i < HR_STEP_FIGURES; i++) {
    double host_ns = about->host_ns * bands[i];
    *times[i] = fmax(*times[i], host_ns);
    if (workload->pipeline_stages == 1) /* stages also wait for each other */
      *times[i] = fmax(*times[i], launched_ns(sums, workload, i, EAGER_LAUNCH_NS * bands[i]));
  }
}

/* ---- communication between replicas ---- */

/* Waits of a step: stages 2 and 3 reduce gradients, stage 3 also gathers weights, with each microbatch; else once, the
 * gradients behind the last backward pass, the weights behind the first forward pass. Source: Li et al. 2020 (arXiv
 * 2006.15704), section 3.2.3, for gradients; Zhao et al. 2023 (arXiv 2304.11277), section 3.3, for weights. */
static double exposed_ns(const hr_step_sums *sums, const hr_workload *workload, hr_step_figure figure)
{
  const hr_replica_times *sent = &sums->replicas;
  double rounds = (double)hr_workload_microbatches(workload) + first_microbatch_rounds(workload);
  double overlap = workload->overlap, stages = (double)workload->pipeline_stages;
  int64_t stage = workload->zero_stage;
  double forward = fmax(0, sent->gathered_forward[figure] - overlap * (sums->forward_ns / stages));
  double backward =
      fmax(0, sent->gathered_backward[figure] + sent->reduced[figure] - overlap * (sums->backward_ns / stages));
  return forward * (stage == 3 ? rounds : 1) + backward * (stage >= 2 ? rounds : 1);
}

/* The optimizer updates the weights behind the last microbatch. */
static void add_replica_times(const hr_subject *subject, const hr_step_sums *sums, hr_step_about *about)
{
  const double *update = sums->replicas.optimizer;
  double *times[HR_STEP_FIGURES] = {&about->time_ns, &about->low_ns, &about->high_ns};
  for (hr_step_figure i = 0; i < HR_STEP_FIGURES; i++) {
    *times[i] += exposed_ns(sums, subject->workload, i);
    *times[i] += update[i];
  }
  about->replica_ns = sums->replicas.sent;
  about->exposed_ns = exposed_ns(sums, subject->workload, HR_STEP_EXPECTED);
  about->optimizer_ns = update[HR_STEP_EXPECTED];
  about->communication_ns += about->exposed_ns;
}

/* ---- rates ---- */

/* Rates of the step: a device has the FLOPs of one of the p stages. */
static void rate_step(const hr_subject *subject, const hr_step_sums *sums, hr_step_about *about)
{
  const hr_workload *workload = subject->workload;
  double m = (double)hr_workload_microbatches(workload), p = (double)workload->pipeline_stages;
  double sequence = workload->phase == HR_PHASE_DECODE ? 1 : (double)workload->sequence;
  double replicas = (double)workload->data_parallel, seconds = about->time_ns / 1e9;
  double devices = replicas * (double)workload->tensor_parallel * p * (double)workload->context_parallel;
  about->tokens_per_s = seconds > 0 ? replicas * m * (double)workload->batch * sequence / seconds : 0;
  about->tokens_per_s_per_device = about->tokens_per_s / devices;
  about->model_efficiency = seconds > 0 ? fmin(m / p * sums->peak_seconds / seconds, 1) : 0;
  double idle_ns = about->time_ns - about->exposed_ns - about->optimizer_ns - m * about->stage_time_ns;
  about->bubble = p > 1 && about->time_ns > 0 ? fmax(0, idle_ns / about->time_ns) : 0;
}

void hr_describe_step(const hr_subject *subject, const hr_step_sums *sums, hr_step_about *about)
{
  *about = (hr_step_about){.operator_count = sums->operator_count};
  add_microbatches(subject, sums, about);
  wait_for_host(subject, sums, about);
  add_replica_times(subject, sums, about);
  rate_step(subject, sums, about);
}
