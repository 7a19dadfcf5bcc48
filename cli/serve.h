/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of `headroom serve-plan`. */
#ifndef CLI_SERVE_H
#define CLI_SERVE_H

#include "cli.h"

/** What is planned, on whatever device. */
typedef struct cli_serve_work {
  hr_model model, draft_model; /* the latter with --draft-model alone */
  hr_workload workload;
} cli_serve_work;

/* ---- serve_options.c ---- */

/** A server's --framework sets the engine; refused beside another --engine or --emit. CLI_GO_ON or an exit code. */
int cli_match_engine(cli_run *run);

/** The engine's defaults on the run's device. */
hr_status cli_choose_engine(const cli_run *run, hr_serve_options *serve, hr_error *error);

/** `serve` with what the command line gives. */
hr_serve_options cli_make_serving(const cli_run *run, hr_serve_options serve);

/** Refuses what disaggregated plans or loads alone have. CLI_GO_ON or an exit code. */
int cli_check_prefill(const cli_run *run);

/** Sets the device that prefills, if one is given; the caller frees it. CLI_GO_ON or an exit code. */
int cli_load_prefill_device(const cli_run *run, hr_serve_options *serve, hr_hardware **hardware);

/** Shortens the default prompt to what the model's positions leave room for. */
void cli_fit_prompt(const cli_run *run, const hr_model *model, hr_serve_options *options);

/* ---- serve_emit.c ---- */

/** Refuses what --emit cannot stand with; sets --engine. CLI_GO_ON or an exit code. */
int cli_check_emit(cli_run *run);

/** The model as a server loads it: a repository or a folder. CLI_GO_ON or an exit code. */
int cli_name_served(const cli_run *run, const hr_model *model, char *name, size_t size);

/* ---- serve_devices.c ---- */

/** Plans on each of several devices, side by side; an exit code. */
int cli_serve_each(const cli_run *run, const hr_serve_options *options, const cli_serve_work *work);

/* ---- serve_load.c ---- */

bool cli_has_load(const cli_run *run);

/** Refuses options that need a load, or that no load can have. CLI_GO_ON or an exit code. */
int cli_check_load(const cli_run *run);

/** Simulates the load; `compared`: on one of several devices, each with the fewest copies. Errors of
 *  hr_load_trace_file() and hr_serve_load(). */
hr_status cli_serve_load(const cli_run *run, const cli_serve_work *work, const hr_subject *subject,
                         const hr_serve_options *serve, bool compared, hr_load_result **result, hr_error *error);

/** Simulates the load and closes the output; an exit code. */
int cli_simulate_load(const cli_run *run, const cli_serve_work *work, const hr_serve_options *serve,
                      cli_output *output);

#endif
