/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "picture.h"
#include "side_by_side.h"

#include <inttypes.h>
#include <string.h>

/* The inputs of an advice and, with --measure, the device that confirms it. */
typedef struct advise_work {
  hr_model model;
  hr_workload workload;
  hr_device *device; /* NULL unless measuring */
} advise_work;

/* With --measure predictions use the measured rates of the device. */
static int probe(const cli_run *run, advise_work *work)
{
  int code = cli_open_own_device(run, &work->device);
  if (code != CLI_GO_ON)
    return code;
  hr_error error = {.status = HR_OK};
  hr_status status = cli_rates(run, work->device, run->hardware, &error);
  return status == HR_OK ? cli_set_network(run, run->hardware) : cli_fail_status(status, &error);
}

static hr_status confirm(const cli_run *run, hr_device *device, hr_advice *advice, hr_confirmation **confirmation,
                         hr_error *error)
{
  cli_progress progress = cli_progress_begin(run);
  hr_confirm_options options = hr_confirm_options_default();
  options.budget_ns = run->options.budget * 1e9;
  options.progress = cli_progress_report, options.context = &progress;
  hr_status status = hr_confirm(device, advice, &options, confirmation, error);
  cli_progress_end(&progress);
  return status;
}

static hr_advise_options make_options(const cli_run *run)
{
  hr_advise_options options = hr_advise_options_default();
  options.design = run->options.design;
  options.trained = run->options.trained;
  options.without_classes = run->given[CLI_OPTION_only] ? ~run->options.only : 0;
  options.without_rules = run->options.ignore;
  options.nodes = run->given[CLI_OPTION_nodes] ? run->options.nodes : 0;
  return options;
}

/* "vocabulary_alignment +28.5%, microbatch +31.5%", of the framework whose step is predicted; "" if nothing is high. */
static void list_failed(const hr_advice *advice, char *text, size_t size)
{
  text[0] = '\0';
  for (size_t i = 0; i < hr_advice_describe(advice)->finding_count; i++) {
    const hr_finding *finding = hr_advice_finding(advice, i);
    size_t used = strlen(text);
    if (finding->own_severity != HR_SEVERITY_HIGH)
      continue;
    used += (size_t)snprintf(text + used, size - used, "%s%s ", used > 0 ? ", " : "", finding->rule);
    if (used >= size)
      return;
    if (finding->cannot_run)
      snprintf(text + used, size - used, "cannot run");
    else
      snprintf(text + used, size - used, "%+.1f%%", 100 * finding->predicted_gain);
  }
}

/* With --strict the rules that fail are named on standard error, wherever the advice goes. */
static int check_strict(const cli_run *run, const hr_advice *advice)
{
  char failed[960];
  if (!run->options.strict)
    return EXIT_FINE;
  list_failed(advice, failed, sizeof failed);
  return failed[0] ? cli_fail(EXIT_FINDINGS, "--strict: %s", failed) : EXIT_FINE;
}

static int advise(const cli_run *run, advise_work *work, cli_output *output)
{
  hr_error error = {.status = HR_OK};
  hr_advice *advice = NULL;
  hr_confirmation *confirmation = NULL;
  hr_advise_options options = make_options(run);
  hr_status status = hr_advise_with(run->hardware, &work->model, &work->workload, &options, &advice, &error);
  if (status == HR_OK && work->device)
    status = confirm(run, work->device, advice, &confirmation, &error);
  if (status == HR_OK)
    status = hr_report_advice(output->stream, &output->options, advice, confirmation, &error);
  int code = cli_output_close(output, status, &error);
  if (code == EXIT_FINE && confirmation && !confirmation->complete && cli_interrupted())
    code = EXIT_INTERRUPTED;
  if (code == EXIT_FINE)
    code = check_strict(run, advice);
  hr_figure *figure = NULL;
  bool draws = run->options.plot && (code == EXIT_FINE || code == EXIT_FINDINGS);
  const hr_advice_about *about = draws ? hr_advice_describe(advice) : NULL;
  status = draws ? hr_figure_of_roofline(about->hardware, about->model, about->workload, about->step, &figure, &error)
                 : HR_OK;
  code = cli_plot_after(run, code, status, figure, &error);
  hr_confirmation_free(confirmation);
  hr_advice_free(advice);
  return code;
}

/* ---- several devices ---- */

static const hr_offer_figure offer_figures[] = {{"step_time_ns", "step", HR_OFFER_TIME},
                                                {"model_efficiency", "of peak", HR_OFFER_SHARE},
                                                {"memory_bytes", "memory", HR_OFFER_BYTES}};

/* "vocabulary_alignment +28.5%", the finding that gains most. */
static void write_first(const hr_advice *advice, char *text, size_t size)
{
  const hr_finding *first = NULL;
  for (size_t i = 0; i < hr_advice_describe(advice)->finding_count; i++) {
    const hr_finding *finding = hr_advice_finding(advice, i);
    if (finding->has_change && (!first || finding->predicted_gain > first->predicted_gain))
      first = finding;
  }
  if (first)
    snprintf(text, size, "%.70s %+.1f%%", first->rule, 100 * first->predicted_gain);
}

/* A step that does not fit is predicted all the same. */
static void note_memory(const cli_run *run, int64_t bytes, hr_offer *offer)
{
  int64_t usable = hr_hardware_usable_memory_bytes(run->hardware);
  offer->figures[2].value = (double)bytes;
  if (usable > 0 && bytes > usable)
    snprintf(offer->why, sizeof offer->why, "the step does not fit: it needs %.1f GiB of a device, %.1f are usable",
             (double)bytes / 0x1p30, (double)usable / 0x1p30);
}

static void fill_offer(const hr_workload *w, const hr_step_about *step, hr_offer *offer)
{
  double tokens = step->tokens_per_s * step->time_ns;
  offer->devices = (double)(w->tensor_parallel * w->pipeline_stages * w->context_parallel * w->data_parallel);
  offer->figures[0] = (hr_offer_value){step->time_ns, step->low_ns, step->high_ns};
  offer->figures[1].value = step->model_efficiency;
  offer->work_per_s = (hr_offer_value){step->tokens_per_s, tokens / step->high_ns, tokens / step->low_ns};
}

static hr_status offer_step(const cli_run *run, const void *context, hr_offer *offer, hr_error *error)
{
  const advise_work *work = context;
  hr_workload workload = work->workload;
  hr_advise_options options = make_options(run);
  hr_advice *advice = NULL;
  hr_memory memory;
  cli_set_formats(run, run->hardware, &workload);
  hr_status status = hr_advise_with(run->hardware, &work->model, &workload, &options, &advice, error);
  if (status == HR_OK)
    status = hr_memory_estimate(&work->model, &workload, &memory, error);
  if (status == HR_OK) {
    offer->dtype = workload.dtype;
    fill_offer(&workload, hr_step_describe(hr_advice_describe(advice)->step), offer);
    note_memory(run, memory.total_bytes, offer);
    write_first(advice, offer->words, sizeof offer->words);
  }
  hr_advice_free(advice);
  return status;
}

static int advise_each(const cli_run *run, const advise_work *work)
{
  const hr_workload *w = &work->workload;
  char about[128];
  snprintf(about, sizeof about, "%s, %" PRId64 " × %" PRId64 " tokens", hr_phase_name(w->phase), w->batch,
           w->phase == HR_PHASE_DECODE ? w->context : w->sequence);
  return cli_side_by_side(run, &(cli_side){.about = about,
                                           .model = &work->model,
                                           .tokens = true,
                                           .words_title = "first change",
                                           .figures = offer_figures,
                                           .figure_count = sizeof offer_figures / sizeof *offer_figures,
                                           .fill = offer_step,
                                           .context = work});
}

/* ---- the command ---- */

int cli_advise(const cli_run *run)
{
  advise_work work = {.device = NULL};
  int code = cli_check_measure(run);
  if (code == CLI_GO_ON && run->options.design && run->options.trained)
    code = cli_fail(EXIT_USAGE, "advise: --design and --trained exclude each other");
  if (code == CLI_GO_ON)
    code = cli_check_plot(run);
  if (code == CLI_GO_ON)
    code = cli_check_table(run);
  if (code == CLI_GO_ON)
    code = cli_load_model(run, &work.model, NULL);
  if (code == CLI_GO_ON)
    code = cli_make_workload(run, &work.model, &work.workload);
  if (code == CLI_GO_ON && cli_has_several_devices(run))
    return advise_each(run, &work);
  if (code == CLI_GO_ON && run->options.measure)
    code = cli_set_measured_framework(run, &work.workload);
  if (code == CLI_GO_ON && !run->options.measure)
    code = cli_load_device(run, "cpu", run->hardware);
  cli_output output;
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code != CLI_GO_ON)
    return code;
  if (run->options.measure)
    code = probe(run, &work);
  if (code == CLI_GO_ON) {
    cli_set_formats(run, run->hardware, &work.workload);
    code = advise(run, &work, &output);
  } else {
    cli_output_discard(&output);
  }
  hr_device_close(work.device);
  return code;
}
