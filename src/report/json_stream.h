/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON document whose last member is a list that is written item by item, so that it takes no memory. */
#ifndef HR_REPORT_JSON_STREAM_H
#define HR_REPORT_JSON_STREAM_H

#include "report/json.h"

/** Writes the document, which is freed, and the beginning of the list. */
hr_status hr_json_stream_begin(FILE *out, hr_json document, const char *key, hr_error *error);

/** Writes an item, which is freed; NULL: there was no memory to make it. */
hr_status hr_json_stream_item(FILE *out, bool first, json_t *item, hr_error *error);

/** Ends the list, which is empty or not, and the document. */
void hr_json_stream_end(FILE *out, bool empty);

#endif
