/* The parts of an advice's report. */
#ifndef HR_REPORT_ADVICE_H
#define HR_REPORT_ADVICE_H

#include "report/document.h"

/** NULL, which JSON has as null, for no text. */
static inline const char *hr_text_or_none(const char *text)
{
  return text && text[0] ? text : NULL;
}

/** Whether a report shows the finding: people see rules that hold only if they ask for more. */
bool hr_finding_is_told(const hr_finding *finding, const hr_report_options *options);

hr_table *hr_finding_table(const hr_advice *advice, const hr_report_options *options);

/** Each operator measured, as it is and as suggested. */
hr_table *hr_measured_table(const hr_advice *advice, const hr_confirmation *confirmation);

/** The half of a pair whose status is told of both: the one without a time, else the first that is not HR_OK. */
const hr_measurement *hr_worse_of(const hr_comparison *comparison);

/** Both gains of each finding at the measured size. */
hr_table *hr_confirmed_table(const hr_advice *advice, const hr_confirmation *confirmation);

/** The whole report for people. `confirmation` may be NULL. */
hr_status hr_tell_advice(const hr_document *document, const hr_advice *advice, const hr_confirmation *confirmation,
                         int64_t parameters, hr_error *error);

#endif
