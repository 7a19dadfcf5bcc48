/* SPDX-License-Identifier: Apache-2.0 */
/* Building the JSON document of a report. docs/json.md has every key. */
#ifndef HR_REPORT_JSON_H
#define HR_REPORT_JSON_H

#include "report/table.h"

#include <jansson.h>

/** An object that is being built. All objects of a document share `failed`, so that only the end need be checked. */
typedef struct hr_json {
  json_t *object;
  bool *failed;
} hr_json;

/** A document with `schema` and `version`; `name` is that of the schema, a command and a number ("describe/2"), which
 *  rises when a key changes or is removed. The caller passes it to hr_json_write(). */
hr_json hr_json_document(const char *name, bool *failed);

/** Adds a member and takes the reference to `value`; NULL fails the document. */
void hr_json_put(hr_json json, const char *key, json_t *value);

/** Add a member. A NaN, an infinity and a NULL text become null. Text that is not UTF-8 is cleaned. */
void hr_json_put_number(hr_json json, const char *key, double value);
void hr_json_put_count(hr_json json, const char *key, int64_t value);
void hr_json_put_flag(hr_json json, const char *key, bool value);
void hr_json_put_text(hr_json json, const char *key, const char *text);

/** Adds an empty object as a member and returns it. */
hr_json hr_json_put_object(hr_json json, const char *key);

/** Adds an object to a list that is a member, and returns it. */
hr_json hr_json_append_object(hr_json json, json_t *list);

/** Adds those of the columns that have a key, read from `row`. */
void hr_json_put_fields(hr_json json, const hr_column *columns, size_t count, const void *row);

/** The same of the columns whose `section` this is. */
void hr_json_put_section(hr_json json, const char *section, const hr_column *columns, size_t count, const void *row);

/** Adds the table's rows as a list of objects, and frees the table. */
void hr_json_put_table(hr_json json, const char *key, hr_table *table);

/** Writes the document and frees it. HR_ERROR_OUT_OF_MEMORY if building it failed. */
hr_status hr_json_write(FILE *out, hr_json document, hr_error *error);

#endif
