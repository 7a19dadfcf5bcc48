/* SPDX-License-Identifier: Apache-2.0 */
/* A command's analysis on several devices, -d h100,h200, and the answers side by side. */
#ifndef CLI_SIDE_BY_SIDE_H
#define CLI_SIDE_BY_SIDE_H

#include "cli.h"

/** Fills one device's offer, run->hardware being the device. HR_ERROR_UNSUPPORTED leaves
 *  the others as they are. */
typedef hr_status (*cli_offer_fn)(const cli_run *run, const void *context, hr_offer *offer, hr_error *error);

/** What a command analyses, and what it says of a device. */
typedef struct cli_side {
  const char *about;       /* the work in words */
  const hr_model *model;   /* NULL: none */
  bool tokens;             /* the unit of work; false: FLOP */
  const char *words_title; /* NULL: there are no words */
  const hr_offer_figure *figures;
  size_t figure_count;
  cli_offer_fn fill;
  const void *context;
} cli_side;

/** Whether -d names several devices. */
bool cli_has_several_devices(const cli_run *run);

/** CLI_GO_ON unless -d, --price and --power do not go together, with the command, or with its options. */
int cli_check_devices(const cli_run *run);

/** The only number of an option with one number for each device; 0 if not given. */
double cli_only(const cli_numbers *numbers);

/** Runs the analysis on each device and writes the answers. Returns the exit code. */
int cli_side_by_side(const cli_run *run, const cli_side *side);

/** The same of a single call, whose offers cli_offer_call() fills. */
int cli_calls_side_by_side(const cli_run *run, const char *about, cli_offer_fn fill, const void *context);
void cli_offer_call(hr_offer *offer, const hr_prediction *prediction, double flops);

#endif
