/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of an advice in reports. */
#ifndef HR_REPORT_FINDINGS_H
#define HR_REPORT_FINDINGS_H

#include "report/table.h"

/** Whether a report shows the finding: for people, rules without a finding only if options->verbose is set. */
bool hr_finding_is_shown(const hr_finding *finding, const hr_report_options *options);

/** The findings that are shown. `advice` must outlive the table. */
hr_table *hr_finding_table(const hr_advice *advice, const hr_report_options *options);

/** The changes of the model that gain something in its workload, briefly. `advice` must outlive the table. */
hr_table *hr_change_table(const hr_advice *advice);

#endif
