/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction ceilings in reports. */
#ifndef HR_REPORT_CEILINGS_H
#define HR_REPORT_CEILINGS_H

#include "report/table.h"

/** A row for each ceiling; for people also the rates of the data sheet and of the library. `hardware` must outlive the
 *  table, which the caller frees. */
hr_table *hr_ceiling_table(const hr_hardware *hardware);

#define HR_CEILING_NOTE_SIZE 256

/** Writes what the power limit of a GPU allows. False if the limit is unknown. */
bool hr_ceiling_power_note(const hr_hardware *hardware, char line[HR_CEILING_NOTE_SIZE]);

/** Writes what rates above a CPU's data sheet say about its clock. False if no rate is above it. */
bool hr_ceiling_clock_note(const hr_hardware *hardware, char line[HR_CEILING_NOTE_SIZE]);

#endif
