/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "picture.h"

#include <inttypes.h>

/* The layer, the device and the store, which is NULL without --save. */
typedef struct layer_job {
  hr_model model;
  hr_workload workload;
  hr_hardware *hardware;
  hr_device *device;
  hr_store *store;
} layer_job;

/* There is something to report as soon as the share of finished work is above 0: the first operator is done. */
static int report(void *progress, double done, const char *what)
{
  cli_measuring(done <= 0);
  return cli_progress_report(progress, done, what);
}

static hr_layer_options make_options(const cli_run *run, cli_progress *progress)
{
  hr_layer_options options = hr_layer_options_default();
  if (run->given[CLI_OPTION_group])
    options.group = (size_t)run->options.group;
  options.warm = run->options.warm;
  options.progress = report;
  options.context = progress;
  if (run->options.budget > 0)
    options.budget_ns = run->options.budget * 1e9;
  return options;
}

/* ---- --save ---- */

static hr_result blank_row(const layer_job *job)
{
  hr_result result = hr_result_default();
  hr_result_set_device(&result, job->device, job->hardware);
  snprintf(result.sweep, sizeof result.sweep, "layer");
  snprintf(result.series, sizeof result.series, "%s", job->model.name);
  result.seed = hr_layer_options_default().seed;
  return result;
}

/* " group=1" of a model whose layers differ. */
static void write_group(char *to, size_t size, const layer_job *job, const hr_layer *layer)
{
  to[0] = '\0';
  if (job->model.group_count > 1)
    snprintf(to, size, " group=%zu", layer->group);
}

static void name_point(hr_result *result, const layer_job *job, const hr_layer *layer, const char *operator_name)
{
  const hr_workload *w = &layer->workload;
  bool decode = w->phase == HR_PHASE_DECODE;
  char group[32];
  write_group(group, sizeof group, job, layer);
  snprintf(result->axes, sizeof result->axes,
           "attention=%s b=%" PRId64 "%s operator=%s phase=%s %s=%" PRId64 " t=%" PRId64,
           hr_attention_form_name(w->attention), w->batch, group, operator_name, hr_phase_name(w->phase),
           decode ? "context" : "s", decode ? w->context : w->sequence, w->tensor_parallel);
}

static bool is_gradients(const hr_operator *op)
{
  return op->kind == HR_KIND_ATTENTION && op->pass == HR_PASS_DGRAD;
}

static hr_status keep_row(const layer_job *job, const hr_result *blank, const hr_layer *layer, const hr_layer_row *row,
                          hr_error *error)
{
  hr_result result = *blank;
  char name[48];
  if (row->rows.struct_size > 0)
    hr_result_set_rowwise(&result, &row->rows);
  else if (row->decode.struct_size > 0)
    hr_result_set_decode(&result, &row->decode);
  else if (is_gradients(&row->op))
    hr_result_set_attention_backward(&result, &row->op.attention);
  else if (row->op.kind == HR_KIND_ATTENTION)
    hr_result_set_attention(&result, &row->op.attention);
  else
    hr_result_set_gemm(&result, &row->op.gemm);
  hr_operator_name(&row->op, name, sizeof name);
  name_point(&result, job, layer, name);
  hr_result_set_measurement(&result, &row->measurement, job->hardware);
  return hr_store_append(job->store, &result, error);
}

static hr_status keep_whole(const layer_job *job, const hr_result *blank, const hr_layer *layer, hr_error *error)
{
  hr_result result = *blank;
  char group[32];
  result.kind = HR_RESULT_OTHER;
  name_point(&result, job, layer, "all");
  write_group(group, sizeof group, job, layer);
  snprintf(result.problem, sizeof result.problem, "layer model=%s%s operators=%" PRId64 " dtype=%s", job->model.name,
           group, layer->measured_count, hr_dtype_name(layer->workload.dtype));
  hr_result_set_measurement(&result, &layer->whole, job->hardware);
  return hr_store_append(job->store, &result, error);
}

static hr_status keep_rows(const layer_job *job, const hr_result *blank, const hr_layer *layer,
                           const hr_layer_row *rows, size_t count, hr_error *error)
{
  hr_status status = HR_OK;
  for (size_t i = 0; i < count && status == HR_OK; i++) {
    if (rows[i].tried)
      status = keep_row(job, blank, layer, &rows[i], error);
  }
  return status;
}

/* Stores each operator that was tried, with its time or status, and the whole layer. */
static hr_status keep(const layer_job *job, const hr_layer *layer, hr_error *error)
{
  const hr_result blank = blank_row(job);
  hr_status status = keep_rows(job, &blank, layer, layer->rows, layer->count, error);
  if (status == HR_OK)
    status = keep_rows(job, &blank, layer, layer->beside, layer->beside_count, error);
  bool whole = layer->measured_count > 0 && layer->whole.status != HR_ERROR_INTERRUPTED;
  return status == HR_OK && whole ? keep_whole(job, &blank, layer, error) : status;
}

/* ---- the command ---- */

static int measure(const cli_run *run, const layer_job *job, cli_output *output)
{
  hr_error error = {.status = HR_OK}, not_kept = {.status = HR_OK};
  hr_layer *layer = NULL;
  cli_progress progress = cli_progress_begin(run);
  hr_layer_options options = make_options(run, &progress);
  hr_status status = hr_layer_measure(
      job->device, &(hr_subject){.hardware = job->hardware, .model = &job->model, .workload = &job->workload}, &options,
      &layer, &error);
  cli_measuring(false);
  cli_progress_end(&progress);
  hr_status kept = layer && job->store ? keep(job, layer, &not_kept) : HR_OK;
  if (status == HR_OK)
    status = hr_report_layer(output->stream, &output->options, &job->model, job->hardware, layer, &error);
  int code = cli_output_close(output, status, &error);
  if (kept != HR_OK) {
    int failure = cli_fail_status(kept, &not_kept);
    code = code == EXIT_FINE ? failure : code;
  }
  if (code == EXIT_FINE && layer && !layer->complete && cli_interrupted())
    code = EXIT_INTERRUPTED;
  if (code == EXIT_FINE && layer && layer->measured_count == 0)
    code = EXIT_UNSUPPORTED;
  hr_figure *figure = NULL;
  status = run->options.plot && code == EXIT_FINE
               ? hr_figure_of_layer(&job->model, job->hardware, layer, &figure, &error)
               : HR_OK;
  code = cli_plot_after(run, code, status, figure, &error);
  hr_layer_free(layer);
  return code;
}

static int check_group(const cli_run *run, const hr_model *model)
{
  int64_t last = (int64_t)model->group_count - 1;
  if (last == 0 && run->options.group > 0)
    return cli_fail(EXIT_USAGE, "--group: the layers of %s are one group, 0; found %" PRId64, model->name,
                    run->options.group);
  if (run->options.group > last)
    return cli_fail(EXIT_USAGE, "--group: expected 0 to %" PRId64 ", the groups of layers of %s, found %" PRId64, last,
                    model->name, run->options.group);
  return CLI_GO_ON;
}

/* Opens the store before measuring, so that no measurement is lost. Predictions use the probed rates. */
static int open_job(const cli_run *run, layer_job *job)
{
  int code = cli_load_model(run, &job->model, NULL);
  if (code == CLI_GO_ON)
    code = check_group(run, &job->model);
  if (code == CLI_GO_ON)
    code = cli_make_workload(run, &job->model, &job->workload);
  if (code == CLI_GO_ON)
    code = cli_set_measured_framework(run, &job->workload);
  if (code == CLI_GO_ON)
    code = cli_open_own_device(run, &job->device);
  if (code == CLI_GO_ON && (run->options.save || run->options.db))
    code = cli_open_store(run, HR_STORE_WRITE, &job->store);
  if (code != CLI_GO_ON)
    return code;
  hr_error error = {.status = HR_OK};
  hr_status status = cli_rates(run, job->device, job->hardware, &error);
  if (status != HR_OK)
    return cli_fail_status(status, &error);
  cli_set_formats(run, job->hardware, &job->workload);
  return cli_set_network(run, job->hardware);
}

int cli_layer(const cli_run *run)
{
  layer_job job = {.hardware = run->hardware};
  cli_output output;
  int code = cli_check_plot(run);
  if (code == CLI_GO_ON)
    code = open_job(run, &job);
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code == CLI_GO_ON)
    code = measure(run, &job, &output);
  hr_store_abandon(job.store); /* removes a new file without rows */
  hr_device_close(job.device);
  return code;
}
