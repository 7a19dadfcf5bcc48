/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that measure one call by every kernel of a device. */
#ifndef CLI_EVERY_KERNEL_H
#define CLI_EVERY_KERNEL_H

#include "cli.h"

/** A kind of call; `call` points to its struct. */
typedef struct cli_call_kind {
  const char *operation; /* of its kernels, as in hr_kernel_info */
  /** Whether a kernel of another operation computes the call, too; NULL: none does. */
  bool (*also)(const void *call, const hr_kernel_info *kernel);
  void (*set_dtype)(void *call, hr_dtype dtype);
  hr_status (*measure)(hr_device *device, const void *call, const hr_measure_options *options,
                       hr_measurement *measurement, hr_error *error);
  void (*set_result)(hr_result *result, const void *call, const char *kernel);
  hr_status (*predict)(const hr_hardware *hardware, const void *call, hr_prediction *prediction, hr_error *error);
  hr_status (*report)(FILE *out, const hr_report_options *options, const void *call, const hr_hardware *hardware,
                      const hr_prediction *prediction, const hr_kernel_measurement *runs, size_t count,
                      hr_error *error);
  /** The picture of --plot; NULL: the command has no such option. */
  hr_status (*figure)(const void *call, const hr_hardware *hardware, const hr_prediction *prediction,
                      const hr_kernel_measurement *runs, size_t count, hr_figure **figure, hr_error *error);
} cli_call_kind;

/** A positive size that was given, or the default. */
int64_t cli_or_else(int64_t given, int64_t otherwise);

/** Measures a call, which has been checked, by the device's kernels or those of --kernel; stores and reports the
 *  results. Returns the exit code. */
int cli_measure_every_kernel(const cli_run *run, const cli_call_kind *kind, void *call);

#endif
