/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON objects field by field, with errors that name the input, the field and the value found.
 *
 * jansson parses; the limits and the messages are added here. */
#ifndef HR_JSON_H
#define HR_JSON_H

#include <headroom/status.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Parses one JSON object of at most HR_JSON_BYTES_MAX bytes and HR_JSON_VALUES_MAX values, for which jansson takes up
 *  to 230 bytes each. HR_ERROR_UNREADABLE, with the line, for anything else; HR_ERROR_OUT_OF_MEMORY. The caller owns
 *  *root and releases it with json_decref(). */
#define HR_JSON_BYTES_MAX ((size_t)16 << 20)
#define HR_JSON_VALUES_MAX 1000000
hr_status hr_json_parse(const char *text, size_t length, const char *input, json_t **root, hr_error *error);

/** Parses any JSON value; a repeated field is an error. A value that is returned is complete, and the caller owns it.
 *  NULL: *problem says why, or *out_of_memory is set. */
json_t *hr_json_load(const char *text, size_t length, json_error_t *problem, bool *out_of_memory);

/** An object being read. `path` precedes field names in messages ("text_config."; "" at the top). */
typedef struct hr_json_reader {
  const json_t *object;
  const char *input;
  const char *path;
  hr_error *error;
} hr_json_reader;

/** Whether the field exists and is not null. */
bool hr_json_has(const hr_json_reader *reader, const char *field);

/** Reads an integer within [least, most]. A missing or null field is HR_ERROR_INVALID; so is a wrong type or range:
 *  `config.json: num_attention_heads: expected a positive integer, found "32"`. */
hr_status hr_json_integer(const hr_json_reader *reader, const char *field, int64_t least, int64_t most, int64_t *value);

/** The same, but a missing or null field gives `fallback`. */
hr_status hr_json_integer_or(const hr_json_reader *reader, const char *field, int64_t least, int64_t most,
                             int64_t fallback, int64_t *value);

/** Reads a finite number within [least, most]; hr_json_…_or() give `fallback` for a missing or null field. Errors as
 *  hr_json_integer(). */
hr_status hr_json_number(const hr_json_reader *reader, const char *field, double least, double most, double *value);
hr_status hr_json_number_or(const hr_json_reader *reader, const char *field, double least, double most, double fallback,
                            double *value);
hr_status hr_json_boolean_or(const hr_json_reader *reader, const char *field, bool fallback, bool *value);

/** Reads a string; *value lives as long as the object. `fallback` NULL makes the field required. */
hr_status hr_json_string_or(const hr_json_reader *reader, const char *field, const char *fallback, const char **value);

/** Reads one of `count` names and sets *value to its index. `fallback` as in hr_json_string_or(). */
hr_status hr_json_choice_or(const hr_json_reader *reader, const char *field, const char *const *names, size_t count,
                            const char *fallback, int *value);

/** Writes "<input>: <path><field>: <message>" to the reader's error and returns `status`. */
hr_status hr_json_fail(const hr_json_reader *reader, const char *field, hr_status status, const char *format, ...)
    HR_PRINTF(4, 5);

/** Describes a value for a message: `"32"`, `-1`, `null`, `a list`; truncated to `size`. */
void hr_json_found(const json_t *value, char *text, size_t size);

#endif
