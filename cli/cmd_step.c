/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <inttypes.h>
#include <string.h>

#define USUAL_SEQUENCE 512

typedef struct step_job {
  hr_model model;
  hr_workload workload;
  hr_hardware *hardware;
  hr_communicator_options ranks;
  hr_device *device;
  hr_communicator *communicator; /* NULL: one process */
  hr_store *store;               /* NULL without --save */
} step_job;

/* --weights, else the checkpoint of a model that has one; NULL: random weights. */
const char *cli_weights(const cli_run *run, const hr_model *model)
{
  const char *asked = run->options.run_weights;
  if (asked)
    return strcmp(asked, "random") == 0 ? NULL : asked;
  return model->origin == HR_ORIGIN_FILES ? run->arguments[0] : NULL;
}

int cli_set_weights_format(const cli_run *run, hr_model *model)
{
  const char *asked = run->options.weights_format;
  if (!asked)
    return CLI_GO_ON;
  if (strcmp(asked, "q8_0") != 0 && strcmp(asked, "bf16") != 0)
    return cli_wrong_choice("--weights-format", "q8_0|bf16", asked);
  hr_model_set_weights(model, asked, NULL);
  return CLI_GO_ON;
}

/* The command's own defaults: one sequence, of 512 tokens at most. */
static void set_defaults(const cli_run *run, const hr_model *model, hr_workload *workload)
{
  const bool bounded = model->max_positions > 0 && model->max_positions < USUAL_SEQUENCE;
  if (!run->given[CLI_OPTION_batch])
    workload->batch = 1;
  if (!run->given[CLI_OPTION_seq])
    workload->sequence = bounded ? model->max_positions : USUAL_SEQUENCE;
  if (!run->given[CLI_OPTION_context])
    workload->context = workload->sequence;
}

/* ---- --save ---- */

static hr_status keep(const step_job *job, const hr_step_times *times, hr_error *error)
{
  const hr_workload *w = &times->workload;
  const bool decode = w->phase == HR_PHASE_DECODE;
  hr_result result = hr_result_default();
  hr_result_set_device(&result, job->device, job->hardware);
  result.kind = HR_RESULT_OTHER;
  snprintf(result.sweep, sizeof result.sweep, "step");
  snprintf(result.series, sizeof result.series, "%s", job->model.name);
  int length = snprintf(result.axes, sizeof result.axes, "b=%" PRId64 " phase=%s %s=%" PRId64, w->batch,
                        hr_phase_name(w->phase), decode ? "context" : "s", decode ? w->context : w->sequence);
  if (w->tensor_parallel > 1)
    length += snprintf(result.axes + length, sizeof result.axes - (size_t)length, " t=%" PRId64 "%s",
                       w->tensor_parallel, w->sequence_parallel ? " sequence_parallel=1" : "");
  if (w->expert_parallel > 1)
    length += snprintf(result.axes + length, sizeof result.axes - (size_t)length, " e=%" PRId64, w->expert_parallel);
  if (w->pipeline_stages > 1)
    length += snprintf(result.axes + length, sizeof result.axes - (size_t)length, " p=%" PRId64, w->pipeline_stages);
  if (w->data_parallel > 1)
    length += snprintf(result.axes + length, sizeof result.axes - (size_t)length, " dp=%" PRId64, w->data_parallel);
  if (w->data_parallel > 1 && w->zero_stage > 0)
    length += snprintf(result.axes + length, sizeof result.axes - (size_t)length, " zero=%" PRId64, w->zero_stage);
  if (w->microbatches > 1)
    snprintf(result.axes + length, sizeof result.axes - (size_t)length, " m=%" PRId64, w->microbatches);
  snprintf(result.problem, sizeof result.problem, "step model=%s dtype=%s", job->model.name, hr_dtype_name(w->dtype));
  hr_result_set_measurement(&result, &times->measurement, job->hardware);
  return hr_store_append(job->store, &result, error);
}

/* ---- the command ---- */

/* `output`: NULL for a rank that prints nothing. */
static int measure(const cli_run *run, const step_job *job, cli_output *output)
{
  hr_error error = {.status = HR_OK};
  hr_step_times *times = NULL;
  cli_progress progress = cli_progress_begin(run);
  hr_step_options options = hr_step_options_default();
  options.weights = cli_weights(run, &job->model);
  options.progress = cli_progress_report;
  options.context = &progress;
  options.no_graph = run->options.no_graph;
  options.no_persistent = run->options.no_persistent;
  options.pieces = run->options.pieces;
  options.communicator = job->communicator;
  if (run->options.budget > 0)
    options.budget_ns = run->options.budget * 1e9;
  const hr_subject subject = {.hardware = job->hardware, .model = &job->model, .workload = &job->workload};
  hr_status status = hr_step_measure(job->device, &subject, &options, &times, &error);
  cli_progress_end(&progress);
  if (status == HR_OK && job->store)
    status = keep(job, times, &error);
  if (status == HR_OK && output)
    status = hr_report_step(output->stream, &output->options, &job->model, job->hardware, times, &error);
  hr_step_times_free(times);
  return cli_leave_ranks(job->communicator, output, status, &error);
}

/* A step has ranks of one kind: hr_step_measure() refuses two at once. */
static int64_t ranks_of(const hr_workload *workload)
{
  const int64_t t = workload->tensor_parallel, p = workload->pipeline_stages;
  return t > 1 ? t : p > 1 ? p : workload->data_parallel;
}

/* Why a step is computed in one piece; NULL: it may have several. */
static const char *why_whole(const hr_workload *w)
{
  if (w->phase == HR_PHASE_TRAIN)
    return "a training step is computed whole";
  if (w->pipeline_stages > 1)
    return "stages share no sums (--pipeline-stages)";
  if (w->tensor_parallel == 1)
    return "one device (--tensor-parallel)";
  return w->sequence_parallel ? "ranks divide the rows (--sequence-parallel)" : NULL;
}

static void note_pieces(const cli_run *run, const step_job *job)
{
  const char *why = why_whole(&job->workload);
  if (run->given[CLI_OPTION_pieces] && job->ranks.rank == 0 && why)
    cli_fail(0, "note: --pieces has no effect: %s", why);
}

static int open_job(const cli_run *run, step_job *job)
{
  int code = cli_load_model(run, &job->model, NULL);
  if (code == CLI_GO_ON)
    code = cli_set_weights_format(run, &job->model);
  if (code == CLI_GO_ON)
    code = cli_make_workload(run, &job->model, &job->workload);
  if (code == CLI_GO_ON)
    note_pieces(run, job);
  if (code == CLI_GO_ON)
    code = cli_check_ranks(&job->ranks, ranks_of(&job->workload));
  if (code == CLI_GO_ON)
    code = cli_open_rank_device(run, &job->ranks, &job->device);
  if (code == CLI_GO_ON)
    code = cli_join_ranks(&job->ranks, job->device, &job->communicator);
  if (code == CLI_GO_ON && (run->options.save || run->options.db) && job->ranks.rank == 0)
    code = cli_open_store(run, HR_STORE_WRITE, &job->store);
  if (code != CLI_GO_ON)
    return code;
  hr_error error = {.status = HR_OK};
  hr_status status = cli_rates(run, job->device, job->hardware, &error);
  if (status != HR_OK)
    return cli_fail_status(status, &error);
  set_defaults(run, &job->model, &job->workload);
  job->workload.dtype = cli_dtype(run, job->hardware);
  return CLI_GO_ON;
}

int cli_step(const cli_run *given)
{
  step_job job = {.hardware = given->hardware};
  cli_output output;
  int code = cli_find_ranks(&job.ranks);
  const cli_run own = cli_run_of_rank(given, &job.ranks, true), *run = &own;
  const bool prints = job.ranks.rank == 0;
  if (code == CLI_GO_ON)
    code = open_job(run, &job);
  if (code == CLI_GO_ON && prints)
    code = cli_output_open(run, &output);
  if (code == CLI_GO_ON)
    code = measure(run, &job, prints ? &output : NULL);
  hr_communicator_free(job.communicator);
  hr_store_abandon(job.store);
  hr_device_close(job.device);
  return code;
}
