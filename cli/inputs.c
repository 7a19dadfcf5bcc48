/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that commands share: model, device, workload, number format, kernel, store. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <headroom/experimental/hardware.h>
#include <headroom/experimental/memory.h>
#include <headroom/experimental/resolve.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KERNELS_MAX 64 /* of which similar names are suggested */
#define ENERGY_BUDGET_S 1

/* Names the parts of the model that are left out; -v adds details. */
static void print_note(void *context, hr_note_kind kind, const char *message)
{
  const cli_run *run = context;
  if (kind == HR_NOTE_LEFT_OUT || run->options.verbose)
    cli_fail(0, "note: %s", message);
}

const char *cli_hint(const hr_error *error, const char *name, const char *where)
{
  bool named = strstr(error->message, "did you mean") || strstr(error->message, "has the same shape");
  bool helped = named || strchr(name, '/') || strchr(name, '.');
  return !helped ? where : "";
}

/* A model is a file, or a folder with a config.json. */
static int check_model_file(const cli_run *run, const char *path)
{
  char config[4096];
  int length = snprintf(config, sizeof config, "%s/config.json", path);
  int code = cli_check_input(run, path);
  return code == CLI_GO_ON && length > 0 && (size_t)length < sizeof config ? cli_check_input(run, config) : code;
}

/* Reads the checkpoint beside the configuration, and prints a line where it is of another model. Weights that have not
 * been fetched do not keep a configuration from being used. */
static int load_checkpoint(const cli_run *run, const hr_model *model, hr_checkpoint *checkpoint)
{
  const char *name = run->arguments[0];
  hr_error error = {.status = HR_OK};
  hr_status status = hr_resolve_checkpoint(name, checkpoint, &error);
  bool named = strstr(name, ".safetensors") != NULL;
  if (status == HR_ERROR_NOT_FOUND && !named) {
    *checkpoint = (hr_checkpoint){0};
    cli_fail(0, "note: the checkpoint is not read: %s", error.message);
    return CLI_GO_ON;
  }
  if (status != HR_OK)
    return cli_fail_status(status, &error);
  if (checkpoint->files == 0)
    return CLI_GO_ON;
  hr_checkpoint_comparison comparison;
  status = hr_checkpoint_compare(checkpoint, model, &comparison, &error);
  if (status != HR_OK)
    return cli_fail_status(status, &error);
  if (comparison.match == HR_CHECKPOINT_DIFFERENT)
    cli_fail(0, "note: the checkpoint does not match the configuration: it has %s", comparison.text);
  return CLI_GO_ON;
}

/* No kernel that is measured reads quantized weights. */
static bool measures(const cli_run *run)
{
  return run->options.measure || strcmp(run->command->name, "layer") == 0;
}

static void set_cache_format(const cli_run *run, hr_workload *workload)
{
  if (run->given[CLI_OPTION_kv_cache])
    workload->kv_cache = run->options.kv_cache;
  if (workload->kv_cache != HR_KV_UNQUANTIZED && measures(run)) {
    cli_fail(0,
             "note: quantized KV caches are not measured: attention is measured and predicted with an unquantized one");
    workload->kv_cache = HR_KV_UNQUANTIZED;
  }
}

/* --kv-cache for a model whose layers keep no K and V. The workload has been checked. */
static void note_no_cache(const cli_run *run, const hr_model *model, const hr_workload *workload)
{
  hr_latent_cache cache;
  if (run->given[CLI_OPTION_kv_cache] && hr_memory_latent_cache(model, workload, &cache, NULL) == HR_OK &&
      cache.bytes_per_token == 0)
    cli_fail(0, "note: --kv-cache has no effect: %s has no attention layers, so no KV cache", model->name);
}

/* No framework stores a whole step in 8 bits: for a model, fp8 is the format of weights that no quantization has yet,
 * and of K and V, in training of the GEMMs of linear layers; the rest is in the device's usual format. What is measured
 * has operands of the format. */
static bool asks_for_fp8(const cli_run *run)
{
  return run->given[CLI_OPTION_dtype] && run->options.dtype == HR_FP8_E4M3 && !measures(run);
}

static int store_in_fp8(const cli_run *run, hr_model *model)
{
  if (run->options.phase == HR_PHASE_TRAIN)
    return CLI_GO_ON; /* weights stay: hr_workload.fp8_linears */
  hr_error error = {.status = HR_OK};
  hr_status status = hr_model_store_in_fp8(model, run->options.phase, !run->given[CLI_OPTION_weights],
                                           !run->given[CLI_OPTION_kv_cache], &error);
  return status == HR_OK ? CLI_GO_ON : cli_fail(EXIT_UNSUPPORTED, "--dtype fp8: %s", error.message);
}

/* Says whose limit it is, which the exit code alone does not say to a reader. */
static int refuse_model(hr_status status, const hr_error *error)
{
  char message[sizeof error->message + 64];
  const char *whose = status == HR_ERROR_UNSUPPORTED ? "; a limit of Headroom, not a fault of the input"
                      : status == HR_ERROR_INVALID || status == HR_ERROR_UNREADABLE ? "; a fault of the input"
                                                                                    : "";
  snprintf(message, sizeof message, "%s%s", error->message, whose);
  return cli_fail_as(status, message);
}

int cli_load_named_model(const cli_run *run, const char *name, hr_model *model)
{
  int code = check_model_file(run, name);
  if (code != CLI_GO_ON)
    return code;
  hr_error error = {.status = HR_OK};
  cli_blocking(true);
  hr_status status = hr_resolve_model(name, print_note, (void *)(uintptr_t)run, model, &error);
  cli_blocking(false);
  if (status == HR_ERROR_NOT_FOUND)
    return cli_fail(EXIT_INPUT, "%s%s", error.message, cli_hint(&error, name, "; see headroom help models"));
  return status == HR_OK ? CLI_GO_ON : refuse_model(status, &error);
}

/* A training step keeps weights in 16 bits, or 32. */
static void train_unquantized(const cli_run *run, hr_model *model)
{
  if (run->options.phase != HR_PHASE_TRAIN || model->quantization.format_count == 0)
    return;
  if (!run->options.quiet)
    cli_fail(0, "note: training keeps weights in --dtype, not in %s%s",
             run->options.weights ? "--weights " : "the checkpoint's ", model->quantization.formats[0].name);
  hr_model_set_weights(model, "bf16", NULL);
}

int cli_load_model(const cli_run *run, hr_model *model, hr_checkpoint *checkpoint)
{
  if (run->argument_count == 0)
    return cli_fail(
        EXIT_USAGE,
        "%s: expected a model: a config.json, a directory, a name from `headroom help models`, or org/name in "
        "the Hugging Face cache",
        run->command->name);
  if (run->argument_count > 1)
    return cli_fail(EXIT_USAGE, "%s: expected one model, found \"%s\" after \"%s\"", run->command->name,
                    run->arguments[1], run->arguments[0]);
  hr_error error = {.status = HR_OK};
  int code = cli_load_named_model(run, run->arguments[0], model);
  if (code != CLI_GO_ON)
    return code;
  if (run->options.weights && hr_model_set_weights(model, run->options.weights, &error) != HR_OK)
    return cli_wrong_choice("--weights", "int4|int8|fp8|mxfp4|nvfp4|nf4|q8_0|bf16", run->options.weights);
  if (asks_for_fp8(run))
    code = store_in_fp8(run, model);
  if (code != CLI_GO_ON)
    return code;
  if (model->quantization.format_count > 0 && measures(run)) {
    cli_fail(0, "note: quantized weights are not measured: GEMMs are measured and predicted with unquantized ones");
    hr_model_set_weights(model, "bf16", NULL);
  }
  hr_checkpoint read;
  code = load_checkpoint(run, model, checkpoint ? checkpoint : &read);
  if (code == CLI_GO_ON)
    train_unquantized(run, model);
  return code;
}

int cli_set_network(const cli_run *run, hr_hardware *hardware)
{
  const cli_options *options = &run->options;
  hr_error error = {.status = HR_OK};
  double latency_ns = run->given[CLI_OPTION_network_latency] ? options->network_latency * 1e3 : -1;
  hr_status status =
      hr_hardware_set_network(hardware, options->devices_per_node, options->network * 1e9, latency_ns, &error);
  return status == HR_OK ? CLI_GO_ON : cli_fail(EXIT_USAGE, "--%s", error.message);
}

static int check_resolved(const cli_run *run, const char *name, hr_status status, const hr_error *error)
{
  const char *option = name == run->options.prefill_device ? "prefill-device" : "device";
  if (status == HR_ERROR_NOT_FOUND)
    return cli_fail(EXIT_USAGE, "--%s: %s%s", option, error->message, cli_hint(error, name, "; see headroom devices"));
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, error);
}

/* Measuring takes time, so that it is offered, not done. */
static void offer_calibration(const cli_run *run, const char *name, const hr_hardware *hardware)
{
  if (!run->options.quiet && strcmp(name, "cpu") == 0 && !hr_hardware_describe(hardware)->calibrated[0])
    cli_fail(0, "note: the rates of this CPU are estimates; `headroom calibrate` measures it in about 20 s");
}

int cli_load_device(const cli_run *run, const char *otherwise, hr_hardware *hardware)
{
  hr_error error = {.status = HR_OK};
  const char *name = run->options.device ? run->options.device : otherwise;
  int code = cli_check_input(run, name);
  if (code != CLI_GO_ON)
    return code;
  cli_blocking(true);
  hr_status status = hr_resolve_hardware(name, hardware, &error);
  cli_blocking(false);
  code = check_resolved(run, name, status, &error);
  if (code != CLI_GO_ON)
    return code;
  offer_calibration(run, name, hardware);
  cli_set_conditions(run, hardware);
  return cli_set_network(run, hardware);
}

int cli_load_uncalibrated(const cli_run *run, const char *otherwise, hr_hardware *hardware, char **file)
{
  hr_error error = {.status = HR_OK};
  const char *name = run->options.device ? run->options.device : otherwise;
  int code = cli_check_input(run, name);
  if (code != CLI_GO_ON)
    return code;
  cli_blocking(true);
  hr_status status = hr_resolve_uncalibrated(name, hardware, file, &error);
  cli_blocking(false);
  code = check_resolved(run, name, status, &error);
  if (code == CLI_GO_ON)
    cli_set_conditions(run, hardware);
  return code;
}

/* Degrees that change nothing alone. */
static void note_without_effect(const hr_workload *w)
{
  if (w->zero_stage > 0 && w->data_parallel == 1 && w->context_parallel == 1)
    cli_fail(0, "note: --zero has no effect: one replica shares with nobody (--data-parallel)");
  if (w->sequence_parallel && w->tensor_parallel == 1)
    cli_fail(0, "note: --sequence-parallel has no effect on one device (--tensor-parallel)");
  if (w->recompute == HR_RECOMPUTE_SELECTIVE && w->attention == HR_ATTENTION_FUSED)
    cli_fail(0, "note: --recompute selective has no effect with fused attention, which keeps no scores");
}

void cli_note_positions(const hr_model *model, int64_t tokens)
{
  if (model->max_positions > 0 && tokens > model->max_positions)
    cli_fail(0, "note: %s has %" PRId64 " positions, but the workload has %" PRId64 " tokens", model->name,
             model->max_positions, tokens);
}

static bool is_transformers(hr_framework framework)
{
  return framework == HR_FRAMEWORK_TRANSFORMERS || framework == HR_FRAMEWORK_TRANSFORMERS_COMPILED;
}

int cli_make_workload(const cli_run *run, const hr_model *model, hr_workload *workload)
{
  const cli_options *options = &run->options;
  *workload = hr_workload_default(model);
  const struct {
    int64_t given;
    int64_t *member;
  } sizes[] = {{options->batch, &workload->batch},
               {options->seq, &workload->sequence},
               {options->tensor_parallel, &workload->tensor_parallel},
               {options->pipeline_stages, &workload->pipeline_stages},
               {options->virtual_stages, &workload->virtual_stages},
               {options->expert_parallel, &workload->expert_parallel},
               {options->context_parallel, &workload->context_parallel},
               {options->data_parallel, &workload->data_parallel},
               {options->microbatches, &workload->microbatches}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i].given > 0)
      *sizes[i].member = sizes[i].given;
  }
  if (run->given[CLI_OPTION_expert_imbalance])
    workload->expert_imbalance = options->expert_imbalance;
  if (run->given[CLI_OPTION_overlap])
    workload->overlap = options->overlap;
  workload->sequence_parallel = options->sequence_parallel;
  workload->zero_stage = options->zero;
  workload->recompute = options->recompute;
  workload->context = options->context > 0 ? options->context : workload->sequence;
  workload->page_size = options->pages;
  if (run->given[CLI_OPTION_phase])
    workload->phase = options->phase;
  if (run->given[CLI_OPTION_attention])
    workload->attention = options->attention;
  if (run->given[CLI_OPTION_dropout])
    workload->dropout = options->dropout;
  if (run->given[CLI_OPTION_framework])
    workload->framework = options->framework;
  workload->flash = options->flash_attention;
  if (run->given[CLI_OPTION_dtype] && !asks_for_fp8(run))
    workload->dtype = options->dtype; /* commands with a device call cli_set_formats() */
  workload->fp8_linears = asks_for_fp8(run) && workload->phase == HR_PHASE_TRAIN;
  set_cache_format(run, workload);
  if (options->context > 0 && workload->phase != HR_PHASE_DECODE)
    return cli_fail(EXIT_USAGE, "--context: needs --phase decode");
  if (options->pages > 0 && workload->phase != HR_PHASE_DECODE)
    return cli_fail(EXIT_USAGE, "--page-size: needs --phase decode");
  if (options->zero > 0 && workload->phase != HR_PHASE_TRAIN)
    return cli_fail(EXIT_USAGE, "--zero: needs --phase train");
  if (options->recompute != HR_RECOMPUTE_NONE && workload->phase != HR_PHASE_TRAIN)
    return cli_fail(EXIT_USAGE, "--recompute: needs --phase train");
  if (workload->fp8_linears && (workload->framework == HR_FRAMEWORK_HEADROOM || is_transformers(workload->framework)))
    return cli_fail(EXIT_USAGE, "--dtype fp8: --framework %s trains in 16 bits",
                    hr_framework_name(workload->framework));
  hr_error error = {.status = HR_OK};
  hr_status status = hr_workload_check(workload, model, &error);
  if (status != HR_OK)
    return cli_fail(EXIT_USAGE, "%s", error.message);
  note_no_cache(run, model, workload);
  note_without_effect(workload);
  cli_note_positions(model, workload->phase == HR_PHASE_DECODE ? workload->context : workload->sequence);
  return CLI_GO_ON;
}

int cli_set_measured_framework(const cli_run *run, hr_workload *workload)
{
  if (run->given[CLI_OPTION_framework] && run->options.framework != HR_FRAMEWORK_HEADROOM)
    return cli_fail(EXIT_USAGE,
                    "--framework %s: Headroom's own kernels are measured, so the prediction beside them is of "
                    "--framework headroom",
                    hr_framework_name(run->options.framework));
  if (workload->flash != HR_FLASH_NEWEST)
    return cli_fail(EXIT_USAGE, "--flash-attention %s: Headroom's own kernels are measured",
                    hr_flash_library_name(workload->flash));
  workload->framework = HR_FRAMEWORK_HEADROOM;
  return CLI_GO_ON;
}

hr_dtype cli_dtype(const cli_run *run, const hr_hardware *hardware)
{
  return cli_dtype_of(run, hardware, hr_hardware_describe(hardware)->name);
}

hr_dtype cli_dtype_of(const cli_run *run, const hr_hardware *hardware, const char *name)
{
  bool given = run->given[CLI_OPTION_dtype];
  hr_dtype dtype = given ? run->options.dtype : hr_hardware_usual_dtype(hardware);
  hr_dtype computed = hr_hardware_compute_dtype(hardware, dtype);
  if (computed != dtype && !run->options.quiet)
    cli_fail(0, "note: %s has no %s instructions: operands are stored in %s and computed in %s", name,
             hr_dtype_name(dtype), hr_dtype_name(dtype), hr_dtype_name(computed));
  if (!given && dtype != HR_BF16 && !run->options.quiet)
    cli_fail(0, "note: %s has no bf16 instructions: the number format is %s (--dtype chooses another)", name,
             hr_dtype_name(dtype));
  return dtype;
}

void cli_set_formats(const cli_run *run, const hr_hardware *hardware, hr_workload *workload)
{
  workload->dtype = asks_for_fp8(run) ? hr_hardware_usual_dtype(hardware) : cli_dtype(run, hardware);
  if (!run->given[CLI_OPTION_attention] && !hr_hardware_has_fused_attention(hardware, workload->dtype))
    workload->attention = HR_ATTENTION_UNFUSED;
}

int cli_check_measure(const cli_run *run)
{
  static const struct {
    int option;
    const char *name;
  } needing[] = {{CLI_OPTION_kernel, "kernel"},  {CLI_OPTION_autotune, "autotune"}, {CLI_OPTION_save, "save"},
                 {CLI_OPTION_db, "db"},          {CLI_OPTION_warm, "warm"},         {CLI_OPTION_budget, "budget"},
                 {CLI_OPTION_threads, "threads"}};
  for (size_t i = 0; !run->options.measure && i < sizeof needing / sizeof *needing; i++) {
    if (run->given[needing[i].option])
      return cli_fail(EXIT_USAGE, "--%s: needs --measure", needing[i].name);
  }
  return CLI_GO_ON;
}

bool cli_measures_energy(const cli_run *run)
{
  return !run->given[CLI_OPTION_budget] || run->options.budget >= ENERGY_BUDGET_S;
}

int cli_check_table(const cli_run *run)
{
  if (run->given[CLI_OPTION_csv] && run->options.format != HR_FORMAT_CSV)
    return cli_fail(EXIT_USAGE, "--table: needs --format csv; the other formats write every table");
  return CLI_GO_ON;
}

int cli_check_kernel(const cli_run *run)
{
  const char *asked = run->options.kernel, *names[KERNELS_MAX];
  char near[160];
  size_t count, named = 0;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; i < count && asked; i++) {
    if (hr_kernel_is(&kernels[i], asked))
      return CLI_GO_ON;
    if (named < KERNELS_MAX)
      names[named++] = kernels[i].name;
  }
  if (!asked)
    return CLI_GO_ON;
  hr_suggest_names(asked, names, named, near, sizeof near);
  return cli_fail(EXIT_USAGE, "--kernel: there is no kernel \"%s\"%s", asked,
                  near[0] ? near : "; see headroom kernels");
}

hr_status cli_find_device(const char *name, hr_error *error)
{
  hr_hardware *found = hr_hardware_create();
  hr_status status = found ? hr_resolve_hardware(name, found, error) : HR_ERROR_OUT_OF_MEMORY;
  if (!found)
    snprintf(error->message, sizeof error->message, "out of memory for the figures of %.100s", name);
  error->status = status;
  hr_hardware_free(found);
  return status;
}

int cli_open_own_device(const cli_run *run, hr_device **device)
{
  hr_error error = {.status = HR_OK};
  const char *name = run->options.device ? run->options.device : "cpu";
  hr_status status = hr_device_open(name, (int)run->options.threads, device, &error);
  if (status == HR_OK)
    return CLI_GO_ON;
  hr_error unknown = {.status = HR_OK};
  if (status == HR_ERROR_NOT_FOUND && cli_find_device(name, &unknown) == HR_OK)
    return cli_fail(EXIT_UNSUPPORTED,
                    "--device: %s is a device of the catalogue; measuring needs one of this machine, such as cpu",
                    name);
  if (status == HR_ERROR_NOT_FOUND && unknown.status != HR_ERROR_NOT_FOUND)
    return cli_fail_status(unknown.status, &unknown);
  if (status == HR_ERROR_NOT_FOUND)
    return cli_fail(EXIT_USAGE, "--device: %s%s", unknown.message, cli_hint(&unknown, name, "; see headroom devices"));
  if (status == HR_ERROR_INVALID) /* --threads, or HEADROOM_CPU_MASK */
    return cli_fail(EXIT_USAGE, "%s", error.message);
  return cli_fail_status(status, &error);
}

int cli_open_or_load_device(const cli_run *run, hr_device **device, hr_hardware *hardware)
{
  const char *name = run->options.device;
  hr_error error = {.status = HR_OK};
  hr_status status = name ? hr_device_open(name, (int)run->options.threads, device, &error) : HR_ERROR_INVALID;
  if (status == HR_OK)
    return CLI_GO_ON;
  return status == HR_ERROR_NOT_FOUND ? cli_load_device(run, "cpu", hardware) : cli_open_own_device(run, device);
}

hr_status cli_store_open(const char *path, hr_store_mode mode, hr_store **store, hr_error *error)
{
  hr_store_options options = hr_store_options_default();
  options.cancelled = cli_cancelled;
  return hr_store_open_with(path, mode, &options, store, error);
}

int cli_open_store(const cli_run *run, hr_store_mode mode, hr_store **store)
{
  hr_error error = {.status = HR_OK};
  hr_status status = cli_store_open(run->options.db, mode, store, &error);
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, &error);
}

hr_status cli_cannot_read(const char *path, hr_error *error)
{
  error->status = errno == ENOMEM ? HR_ERROR_OUT_OF_MEMORY : HR_ERROR_UNREADABLE;
  snprintf(error->message, sizeof error->message, "%s: %s", path, strerror(errno));
  return error->status;
}

FILE *cli_open_to_read(const char *path)
{
  int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  int flags = file >= 0 ? fcntl(file, F_GETFL) : -1;
  FILE *in = flags >= 0 && fcntl(file, F_SETFL, flags & ~O_NONBLOCK) == 0 ? fdopen(file, "rb") : NULL;
  if (!in && file >= 0)
    close(file);
  return in;
}
