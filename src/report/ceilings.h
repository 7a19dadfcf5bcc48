/* Instruction ceilings in reports. */
#ifndef HR_REPORT_CEILINGS_H
#define HR_REPORT_CEILINGS_H

#include "report/document.h"

/** For people: a row for each ceiling, beside the data sheet's and the library's rate. The caller frees it. */
hr_table *hr_ceiling_table(const hr_hardware *hardware);

#define HR_CEILING_WORDS 256

/** What a CPU's rates above its data sheet say of its clock; false where none is. */
bool hr_ceiling_words(const hr_hardware *hardware, char line[HR_CEILING_WORDS]);

/** Adds "ceilings": a list, empty where none was measured. */
void hr_json_put_ceilings(hr_json document, const hr_hardware *hardware);

#endif
