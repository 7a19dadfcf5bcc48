/* SPDX-License-Identifier: Apache-2.0 */
/* An advice as people read it. */
#ifndef HR_REPORT_ADVICE_TEXT_H
#define HR_REPORT_ADVICE_TEXT_H

#include "report/document.h"

/** Prints the whole report, for a terminal or as Markdown. `confirmation` may be NULL. */
hr_status hr_print_advice(const hr_document *document, const hr_advice *advice, const hr_confirmation *confirmation,
                          int64_t parameters, hr_error *error);

#endif
