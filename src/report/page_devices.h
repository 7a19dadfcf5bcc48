/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of a report against each other. */
#ifndef HR_REPORT_PAGE_DEVICES_H
#define HR_REPORT_PAGE_DEVICES_H

#include "experiment/compare/rows.h"
#include "report/document.h"

/** Prints a figure and a table of the ratios of the devices by sweep, each against the device with the most points.
 *  Prints nothing for less than two devices, and none that share no point. `rows` are sorted (hr_compare_latest()). */
hr_status hr_print_devices(const hr_document *document, const hr_compare_rows *rows, hr_error *error);

#endif
