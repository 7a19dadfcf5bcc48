/* SPDX-License-Identifier: Apache-2.0 */
/* A finding in words in an HTML page. */
#ifndef HR_REPORT_ADVICE_HTML_H
#define HR_REPORT_ADVICE_HTML_H

#include "report/document.h"

/** Begins a finding: rule, reason and change. What is printed until hr_html_finding_end() belongs to it. */
void hr_html_finding(const hr_document *document, const hr_finding *finding);
void hr_html_finding_end(const hr_document *document, const hr_finding *finding);

#endif
