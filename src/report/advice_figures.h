/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of an advice. */
#ifndef HR_REPORT_ADVICE_FIGURES_H
#define HR_REPORT_ADVICE_FIGURES_H

#include "report/document.h"

/** In HTML writes the gains of the findings and the times of the step's operators as figures; elsewhere nothing. Errors
 *  of hr_page_write_figure(). */
hr_status hr_print_advice_figures(const hr_document *document, const hr_advice *advice,
                                  const hr_confirmation *confirmation, hr_error *error);

#endif
