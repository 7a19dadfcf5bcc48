/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_REPORT_VALIDATED_ROWS_H
#define HR_REPORT_VALIDATED_ROWS_H

#include "report/table.h"

#include <headroom/experimental/validate.h>

/** Every row with its prediction, in columns that hr_validate_csv() reads. The caller owns the table. */
hr_table *hr_validated_row_table(const hr_validation *validation);

#endif
