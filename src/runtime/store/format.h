/* Rows as text, with every column. Numbers are written as the thread's locale has it: "C" is for the caller to set. */
#ifndef HR_RUNTIME_STORE_FORMAT_H
#define HR_RUNTIME_STORE_FORMAT_H

#include <headroom/store.h>
#include <jansson.h>

/** The head of a CSV, and a row. */
void hr_csv_head(FILE *out);
void hr_csv_row(FILE *out, const hr_result *result);

/** The row as an object, which the caller owns; NULL when memory ran out. */
json_t *hr_result_json(const hr_result *result);

#endif
