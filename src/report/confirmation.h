/* SPDX-License-Identifier: Apache-2.0 */
/* The measurements that confirm an advice, in reports. */
#ifndef HR_REPORT_CONFIRMATION_H
#define HR_REPORT_CONFIRMATION_H

#include "report/table.h"

/** Each operator that was measured, as it is and as suggested. The arguments must outlive the table. */
hr_table *hr_comparison_table(const hr_advice *advice, const hr_confirmation *confirmation);

/** Predicted and measured gains of each finding at the measured size. The arguments must outlive
 *  the table. */
hr_table *hr_confirmed_table(const hr_advice *advice, const hr_confirmation *confirmation);

/** The measurement whose status is reported for both of a pair: the one without a time, else the first that is not
 *  HR_OK. */
const hr_measurement *hr_worse_measurement(const hr_comparison *comparison);

#endif
