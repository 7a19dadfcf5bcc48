/* SPDX-License-Identifier: Apache-2.0 */
/* Properties that hold for any model and workload, valid or absurd. A violation ends the process. */
#ifndef HEADROOM_FUZZ_PROPERTIES_H
#define HEADROOM_FUZZ_PROPERTIES_H

#include <headroom/experimental/headroom.h>

/** One line of valid UTF-8 without control characters. */
void expect_printable(const char *text);

/** A failure has a status and one printable line; `status` is what the function returned. */
void expect_clear_failure(hr_status status, const hr_error *error);

/** Counts parameters, operators and memory of any model, and checks them against each other. */
void expect_describable(const hr_model *model, const hr_workload *workload);

/** Predicts the step on a device: a clear error, or finite times and shares between 0 and 1. */
void expect_predictable(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload);

/** Writes the description in every format: a clear error, or output that parses and is safe for a terminal. */
void expect_reportable(const hr_model *model, const hr_workload *workload, const hr_hardware *hardware);

/** Advises and searches briefly: a clear error, or valid suggestions that are the same each time. */
void expect_advisable(const hr_model *model, const hr_workload *workload, const hr_hardware *hardware);

/** Plans serving: a clear error, or finite rates of plans that fit. */
void expect_servable(const hr_model *model, const hr_workload *workload, const hr_hardware *hardware);

/** Plans training on up to four devices: a clear error, or ranked layouts that fit. */
void expect_trainable(const hr_model *model, const hr_workload *workload, const hr_hardware *hardware);

/** Shipped devices of four kinds, read once: Hopper, Volta, AMD and a CPU. */
#define FUZZ_DEVICES 4
const hr_hardware *fuzz_devices(void);

#endif
