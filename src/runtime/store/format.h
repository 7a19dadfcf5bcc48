/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as CSV and JSON, with every column. */
#ifndef HR_RUNTIME_STORE_FORMAT_H
#define HR_RUNTIME_STORE_FORMAT_H

#include <headroom/experimental/store.h>
#include <jansson.h>

/** Write the head of a CSV file, and one row. */
void hr_csv_write_head(FILE *out);
void hr_csv_write_row(FILE *out, const hr_result *result);

/** The row as a JSON object, which the caller owns; NULL if memory ran out. */
json_t *hr_result_json(const hr_result *result);

#endif
