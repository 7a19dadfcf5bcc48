/* What the library promises about any model and workload, valid or absurd. Broken promises end the process. */
#ifndef HEADROOM_FUZZ_PROPERTIES_H
#define HEADROOM_FUZZ_PROPERTIES_H

#include <headroom/headroom.h>

/** One line that cannot steer a terminal. */
void expect_printable(const char *text);

/** A failure has a status and one printable line; `status` is what the function returned. */
void expect_clear_failure(hr_status status, const hr_error *error);

/** Counts parameters, operators and memory of a model that may or may not be valid, and holds them to each other. */
void expect_describable(const hr_model *model, const hr_workload *workload);

/** Predicts the step on a device: refused clearly, or with times that are finite and shares that are shares. */
void expect_predictable(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload);

/** Writes the description in every format: refused clearly, or readable again and fit for a terminal. */
void expect_reportable(const hr_model *model, const hr_workload *workload, const hr_hardware *hardware);

/** Advises and searches a little: refused clearly, or with suggestions that can exist and are the same each time. */
void expect_advisable(const hr_model *model, const hr_workload *workload, const hr_hardware *hardware);

/** Shipped devices of four kinds, read once: Hopper, Volta, AMD and a CPU. */
#define FUZZ_DEVICES 4
const hr_hardware *fuzz_devices(void);

#endif
