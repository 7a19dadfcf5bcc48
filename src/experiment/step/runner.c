/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/step/runner.h"

#include "base/error.h"
#include "run/program.h"
#include "runtime/device/clock.h"
#include "runtime/device/device.h"
#include "runtime/measure/problem_list.h"
#include "training/training.h"

#include <headroom/experimental/workload.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define SAMPLES_MIN 3
#define SAMPLES_MAX 1000
#define OPERATOR_RUNS 3
#define SAMPLES_OF_INTERVAL 6 /* fewer have no 95% interval */

/* ---- what runs ---- */

static hr_status check_workload(const hr_workload *w, hr_error *error)
{
  const bool trains = w->phase == HR_PHASE_TRAIN;
  if (w->context_parallel > 1)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "a step's devices share each layer, are stages, or replicas that train, found %" PRId64 " others",
                   w->context_parallel);
  if (w->data_parallel > 1 && !trains)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "data_parallel: only training steps have replicas");
  if (w->zero_stage > 1)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "zero_stage: %" PRId64 " cannot be run yet, 0 and 1 can",
                   w->zero_stage);
  if (w->tensor_parallel > 1 && w->data_parallel > 1)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "replicas of several devices cannot be run yet");
  if (w->sequence_parallel && w->phase == HR_PHASE_DECODE && w->batch % w->tensor_parallel != 0)
    return hr_fail(error, HR_ERROR_INVALID,
                   "sequence_parallel: %" PRId64 " sequences, of a token each, do not divide by t = %" PRId64, w->batch,
                   w->tensor_parallel);
  if (w->pipeline_stages > 1 && (w->tensor_parallel > 1 || w->data_parallel > 1))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s cannot be run yet",
                   w->tensor_parallel > 1 ? "stages of several devices" : "replicas of several stages");
  if (w->pipeline_stages > 1 && w->sequence_parallel)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "sequence_parallel: a stage is one device, whose rows are not divided");
  if (w->pipeline_stages > 1 && w->virtual_stages > 1)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "virtual_stages: a stage in parts cannot be run yet");
  if (w->recompute == HR_RECOMPUTE_SELECTIVE)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "a step computes all of a layer again, or nothing");
  if (w->phase != HR_PHASE_TRAIN && w->microbatches > 1 && w->pipeline_stages == 1)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "microbatches: only training steps and stages have several");
  if (w->phase == HR_PHASE_TRAIN && w->sequence < 2)
    return hr_fail(error, HR_ERROR_INVALID, "sequence: training needs 2 tokens");
  if (w->phase == HR_PHASE_DECODE && w->context < 2)
    return hr_fail(error, HR_ERROR_INVALID, "context: decode needs 2 tokens, the new one included");
  return HR_OK;
}

hr_status hr_step_check(const hr_model *model, const hr_workload *workload, hr_error *error)
{
  HR_TRY(check_workload(workload, error));
  HR_TRY(hr_run_check_model(model, error));
  return workload->phase == HR_PHASE_TRAIN ? hr_run_check_training(model, error) : HR_OK;
}

static hr_workload workload_that_runs(const hr_workload *asked)
{
  hr_workload w = *asked;
  w.framework = HR_FRAMEWORK_HEADROOM;
  w.attention = HR_ATTENTION_FUSED;
  w.dropout = HR_DROPOUT_NONE;
  return w;
}

/* ---- preparation ---- */

static bool decodes(const hr_step_runner *r)
{
  return r->workload.phase == HR_PHASE_DECODE;
}

/* Sequences of a replica in a step. */
static int64_t sequences_of(const hr_step_runner *r)
{
  return r->workload.batch * hr_workload_microbatches(&r->workload);
}

/* Ids of all replicas, that depend on the seed: the high bits of a linear congruential generator (Knuth, MMIX). */
static hr_status make_ids(hr_step_runner *r, int64_t vocabulary, uint64_t seed, hr_error *error)
{
  const int64_t microbatches = hr_workload_microbatches(&r->workload);
  const bool fits = r->longest < 1 << 24 && r->workload.batch < 1 << 24 && microbatches < 1 << 14;
  const int64_t batch = fits ? sequences_of(r) * r->workload.data_parallel : 0;
  uint64_t state = seed;
  r->ids = fits ? calloc((size_t)(batch * r->longest), sizeof *r->ids) : NULL;
  if (!r->ids)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the tokens of a step");
  for (int64_t i = 0; i < batch * r->longest; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    r->ids[i] = (int32_t)((state >> 33) % (uint64_t)vocabulary);
  }
  return HR_OK;
}

static hr_team_kind kind_of(const hr_workload *w)
{
  return w->pipeline_stages > 1 ? HR_TEAM_OF_STAGES
         : w->data_parallel > 1 ? HR_TEAM_OF_REPLICAS
                                : HR_TEAM_SHARES_LAYERS;
}

static hr_status open_executor(hr_step_runner *r, const hr_model *model, const hr_step_options *asked, hr_error *error)
{
  hr_executor_options options = hr_executor_options_default();
  options.dtype = r->workload.dtype;
  options.trains = r->workload.phase == HR_PHASE_TRAIN;
  options.recompute = r->workload.recompute;
  options.zero_stage = r->workload.zero_stage;
  options.slots = hr_phase_keeps_tokens(r->workload.phase) ? sequences_of(r) : 1;
  options.tokens = r->longest + r->decodes;
  options.no_graph = asked->no_graph;
  options.no_persistent = asked->no_persistent;
  options.pieces = asked->pieces;
  options.sequence_parallel = r->workload.sequence_parallel;
  options.expert_parallel = r->workload.expert_parallel;
  HR_TRY(hr_team_open_executors(r->team, model, &options, kind_of(&r->workload), error));
  r->executor = hr_team_first(r->team)->executor;
  const hr_team_weights weights = {asked->weights, asked->seed, asked->progress, asked->context};
  const double start_ns = hr_clock_ns();
  HR_TRY(hr_team_load(r->team, &weights, error));
  r->load_ns = hr_clock_ns() - start_ns;
  return HR_OK;
}

static hr_status step_rank(hr_team_rank *rank, void *context, hr_error *error)
{
  return hr_executor_step(rank->executor, context, NULL, error);
}

/* Fills the caches for a decode step. */
static hr_status prefill(hr_step_runner *r, hr_error *error)
{
  hr_executor_input input = hr_executor_input_default();
  input.batch = r->workload.batch;
  input.tokens = r->longest - 1;
  input.ids = r->ids;
  input.microbatches = hr_workload_microbatches(&r->workload);
  return decodes(r) ? hr_team_do(r->team, step_rank, &input, error) : HR_OK;
}

static hr_status take_output(hr_step_runner *r, int64_t output, hr_error *error)
{
  if (output < 0 || output > 1 << 24 || (output > 0 && r->workload.phase != HR_PHASE_PREFILL))
    return hr_fail(error, HR_ERROR_INVALID, "output: expected tokens behind a prefill, found %" PRId64, output);
  r->decodes = output > 0 ? output - 1 : 0;
  return HR_OK;
}

static void set_input(hr_step_runner *r)
{
  r->input = hr_executor_input_default();
  r->input.phase = r->workload.phase;
  r->input.batch = r->workload.batch;
  r->input.tokens = decodes(r) ? 1 : r->longest;
  r->input.ids = r->ids;
  r->input.microbatches = hr_workload_microbatches(&r->workload);
}

hr_status hr_step_runner_open(hr_step_runner *r, hr_device *device, const hr_model *model, const hr_workload *workload,
                              const hr_step_options *options, hr_error *error)
{
  *r = (hr_step_runner){.workload = workload_that_runs(workload)};
  r->longest = decodes(r) ? workload->context : workload->sequence;
  HR_TRY(hr_step_check(model, workload, error));
  HR_TRY(take_output(r, options->output, error));
  const int64_t ranks = workload->tensor_parallel * workload->pipeline_stages * workload->data_parallel;
  HR_TRY(options->communicator ? hr_team_join(device, options->communicator, ranks, &r->team, error)
                               : hr_team_open(device, ranks, &r->team, error));
  r->device = hr_team_first(r->team)->device;
  r->others_bytes = r->device->buffer_bytes;
  HR_TRY(make_ids(r, model->vocabulary, options->seed, error));
  set_input(r);
  HR_TRY(open_executor(r, model, options, error));
  return prefill(r, error);
}

int64_t hr_step_runner_bytes(const hr_step_runner *r)
{
  return (int64_t)(r->device->buffer_bytes - r->others_bytes);
}

void hr_step_runner_close(hr_step_runner *r)
{
  hr_team_close(r->team);
  free(r->ids);
  *r = (hr_step_runner){.executor = NULL};
}

/* Each replica has sequences of its own. */
static hr_executor_input input_of(const hr_step_runner *r, const hr_team_rank *rank)
{
  hr_executor_input input = r->input;
  if (r->workload.data_parallel > 1)
    input.ids += hr_communicator_rank(rank->communicator) * sequences_of(r) * r->longest;
  return input;
}

static hr_status run_rank(hr_team_rank *rank, void *context, hr_error *error)
{
  hr_step_runner *r = context;
  const hr_executor_input input = input_of(r, rank);
  for (int64_t i = 0; decodes(r) && i < sequences_of(r); i++)
    HR_TRY(hr_executor_truncate(rank->executor, i, r->longest - 1, error));
  const double start_ns = hr_clock_ns();
  HR_TRY(hr_executor_step(rank->executor, &input, NULL, error));
  hr_executor_input next = input;
  next.phase = HR_PHASE_DECODE, next.tokens = 1;
  for (int64_t i = 0; i < r->decodes; i++)
    HR_TRY(hr_executor_step(rank->executor, &next, NULL, error));
  if (r->workload.pipeline_stages > 1) /* of which the first is done before the last */
    HR_TRY(hr_communicator_meet(rank->communicator, error));
  if (rank == hr_team_first(r->team))
    r->run_ns = hr_clock_ns() - start_ns;
  return HR_OK;
}

hr_status hr_step_runner_run(hr_step_runner *r, double *time_ns, hr_error *error)
{
  HR_TRY(hr_team_do(r->team, run_rank, r, error));
  *time_ns = r->run_ns;
  return HR_OK;
}

typedef struct operator_times {
  const hr_step_runner *runner;
  double *sums_ns; /* of rank 0 */
} operator_times;

static hr_status time_rank(hr_team_rank *rank, void *context, hr_error *error)
{
  const operator_times *t = context;
  double others_ns[HR_OPERATORS_MAX] = {0};
  const bool counts = rank == hr_team_first(t->runner->team);
  for (int i = 0; i < OPERATOR_RUNS; i++)
    HR_TRY(hr_executor_time_operators(rank->executor, counts ? t->sums_ns : others_ns, error));
  return HR_OK;
}

/* No process leaves while another still waits for its last message. */
static hr_status time_ranks(const operator_times *times, hr_error *error)
{
  bool over = true;
  HR_TRY(hr_team_do(times->runner->team, time_rank, (void *)(uintptr_t)times, error));
  return hr_team_agree(times->runner->team, &over, error);
}

hr_status hr_step_runner_time(const hr_step_runner *r, size_t count, double *times_ns, bool *timed, hr_error *error)
{
  double sums_ns[HR_OPERATORS_MAX] = {0};
  const operator_times times = {r, sums_ns};
  *timed = hr_executor_operators(r->executor)->count == count && r->workload.pipeline_stages == 1;
  const hr_status status = *timed ? time_ranks(&times, error) : HR_OK;
  *timed = *timed && status == HR_OK;
  for (size_t i = 0; i < count && *timed; i++)
    times_ns[i] = sums_ns[i] / OPERATOR_RUNS;
  return status == HR_ERROR_UNSUPPORTED ? HR_OK : status;
}

/* ---- samples ---- */

typedef struct step_samples {
  double times_ns[2][SAMPLES_MAX], ratios[SAMPLES_MAX];
  int64_t count;
} step_samples;

static hr_status run_round(hr_step_runner *const *runners, int count, step_samples *s, hr_error *error)
{
  for (int i = 0; i < count; i++)
    HR_TRY(hr_step_runner_run(runners[i], &s->times_ns[i][s->count], error));
  s->ratios[s->count] = count > 1 ? s->times_ns[0][s->count] / s->times_ns[1][s->count] : 1;
  s->count++;
  return HR_OK;
}

/* Statistics of a copy, as sorting would part the samples of a round. */
static hr_measurement statistics_of(const double *samples, int64_t count)
{
  double sorted[SAMPLES_MAX];
  hr_measurement m = hr_no_measurement(HR_OK, "");
  for (int64_t i = 0; i < count; i++)
    sorted[i] = samples[i];
  hr_statistics(sorted, count, &m);
  return m;
}

static bool is_precise(const step_samples *s, double precision)
{
  if (precision == 0 || s->count < SAMPLES_OF_INTERVAL)
    return false;
  const hr_measurement m = statistics_of(s->ratios, s->count);
  return fmax(m.median_high_ns - m.median_ns, m.median_ns - m.median_low_ns) <= precision * m.median_ns;
}

static hr_status sample(hr_step_runner *const *runners, int count, const hr_step_sampling *limits, step_samples *s,
                        hr_error *error)
{
  HR_TRY(run_round(runners, count, s, error));
  s->count = 0;
  const double start_ns = hr_clock_ns();
  while (s->count < SAMPLES_MAX) {
    const double spent_ns = hr_clock_ns() - start_ns;
    bool over = s->count >= SAMPLES_MIN && (spent_ns > limits->limit_ns || is_precise(s, limits->precision));
    HR_TRY(hr_team_agree(runners[0]->team, &over, error));
    if (over)
      break;
    if (limits->progress && limits->progress(limits->context, spent_ns / limits->limit_ns, "steps"))
      return hr_fail(error, HR_ERROR_INTERRUPTED, "interrupted");
    HR_TRY(run_round(runners, count, s, error));
  }
  return HR_OK;
}

static void compare(const step_samples *s, int count, hr_comparison *c)
{
  const hr_measurement ratio = statistics_of(s->ratios, s->count);
  c->before = statistics_of(s->times_ns[0], s->count);
  c->after = count > 1 ? statistics_of(s->times_ns[1], s->count) : hr_no_measurement(HR_OK, "");
  c->ratio = ratio.median_ns, c->ratio_low = ratio.median_low_ns, c->ratio_high = ratio.median_high_ns;
}

hr_status hr_step_sample(hr_step_runner *const *runners, int count, const hr_step_sampling *sampling,
                         hr_comparison *comparison, hr_error *error)
{
  step_samples *s = calloc(1, sizeof *s);
  if (!s)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the samples of a step");
  hr_status status = sample(runners, count, sampling, s, error);
  if (status == HR_OK)
    compare(s, count, comparison);
  free(s);
  return status;
}
