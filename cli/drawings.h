/* SPDX-License-Identifier: Apache-2.0 */
/* What `headroom plot` draws of a model or a GEMM instead of a sweep. */
#ifndef CLI_DRAWINGS_H
#define CLI_DRAWINGS_H

#include "cli.h"

/** Whether the first argument names a drawing ("heads", "tiles"). */
bool cli_is_drawing(const cli_run *run);

/** Makes the figure of the drawing. CLI_GO_ON, or an exit code after printing why; *figure is then NULL. */
int cli_make_drawing(const cli_run *run, hr_figure **figure);

/** Resolves the device of --predict. CLI_GO_ON or an exit code. */
int cli_resolve_predicted(const cli_run *run, hr_hardware *hardware);

#endif
