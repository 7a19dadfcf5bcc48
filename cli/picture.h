/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of what a command has found. */
#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H

#include "cli.h"

/** The kind of picture that a path names by its end; "-" and NULL are text. CLI_GO_ON, or EXIT_USAGE after printing
 *  why; messages name `option`. */
int cli_read_picture(const char *option, const char *path, hr_picture *picture);

/** Draws the figure and ends the output. Returns an exit code. */
int cli_write_picture(const cli_run *run, cli_output *output, hr_picture picture, const hr_figure *figure);

/** Before a command's work: whether what --plot and --width say can be done. CLI_GO_ON or an exit code. */
int cli_check_plot(const cli_run *run);

/** Behind a command that ended with `code`: draws the figure where --plot says, if `status` is HR_OK, and frees it
 *  (NULL is allowed). Returns `code`, or why there is no picture. */
int cli_plot_after(const cli_run *run, int code, hr_status status, hr_figure *figure, const hr_error *error);

#endif
