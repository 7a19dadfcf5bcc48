/* SPDX-License-Identifier: Apache-2.0 */
#include "json/json.h"

#include "base/error.h"
#include "base/names.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The string whose closing quote is right before `end`; "" if there is none. */
static void name_before(const char *text, size_t end, char *name, size_t size)
{
  name[0] = '\0';
  size_t start = end > 0 ? end - 1 : 0;
  while (start > 0 && text[start - 1] != '"')
    start--;
  if (start == 0)
    return;
  size_t length = end - 1 - start;
  if (length >= size) {
    length = size - 1;
    while (length > 0 && ((unsigned char)text[start + length] & 0xC0) == 0x80)
      length--; /* whole characters only */
  }
  memcpy(name, text + start, length);
  name[length] = '\0';
}

/* The name of the field whose value ends at `end`; "" if the value is not directly in a field. */
static void field_before(const char *text, size_t end, char *field, size_t size)
{
  field[0] = '\0';
  while (end > 0 && !strchr(":,[{", text[end - 1]))
    end--;
  if (end == 0 || text[end - 1] != ':')
    return;
  do
    end--;
  while (end > 0 && text[end - 1] != '"');
  name_before(text, end, field, size);
}

/* Why the text is not JSON. For a repeated field and a number out of range the message names the field, too. */
static hr_status fail_to_parse(const char *text, size_t length, const char *input, json_error_t *problem,
                               hr_error *error)
{
  char field[64] = "";
  size_t at = problem->position >= 0 && (size_t)problem->position < length ? (size_t)problem->position : length;
  enum json_error_code code = json_error_code(problem);
  if (code == json_error_duplicate_key) {
    name_before(text, at, field, sizeof field);
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: line %d: %s: is given twice", input, problem->line, field);
  }
  if (code == json_error_numeric_overflow && problem->position >= 0)
    field_before(text, at, field, sizeof field);
  if (field[0])
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: %s: line %d: %s", input, field, problem->line, problem->text);
  return hr_fail(error, HR_ERROR_UNREADABLE, "%s: line %d: %s", input, problem->line, problem->text);
}

/* How many values a text has, if it is JSON: one follows each comma and each bracket that is not closed at once. */
static size_t count_values(const char *text, size_t length)
{
  size_t count = 1;
  bool quoted = false, opened = false;
  for (size_t i = 0; i < length; i++) {
    char c = text[i];
    if (quoted) {
      i += c == '\\';
      quoted = c != '"';
    } else if (!strchr(" \t\r\n", c)) {
      count += c == ',' || (opened && c != ']' && c != '}');
      opened = c == '[' || c == '{';
      quoted = c == '"';
    }
  }
  return count;
}

/* The length of the NaN, Infinity or -Infinity at `at`, which Python's json writes and JSON has not; 0 if none is. */
static size_t constant_at(const char *text, size_t length, size_t at)
{
  static const char *const constants[] = {"NaN", "Infinity", "-Infinity"};
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
    size_t end = at + strlen(constants[i]);
    if (end <= length && memcmp(text + at, constants[i], end - at) == 0 &&
        (end == length || strchr(",]} \t\r\n", text[end])))
      return end - at;
  }
  return 0;
}

/* Copies a text with these constants as strings, which no field of a number takes: where they do not matter they are
 * ignored. `to` may be NULL. Returns the length. */
static size_t quote_constants(const char *text, size_t length, char *to)
{
  size_t used = 0;
  bool quoted = false;
  char scratch[16];
  for (size_t i = 0, taken; i < length; i += taken) {
    char *out = to ? to + used : scratch;
    size_t constant = quoted || (i > 0 && !strchr(":,[ \t\r\n", text[i - 1])) ? 0 : constant_at(text, length, i);
    taken = constant > 0 ? constant : quoted && text[i] == '\\' && i + 1 < length ? 2 : 1;
    quoted = quoted != (text[i] == '"');
    memcpy(out + (constant > 0), text + i, taken);
    if (constant > 0)
      out[0] = out[constant + 1] = '"';
    used += taken + (constant > 0 ? 2 : 0);
  }
  return used;
}

static hr_status parse(const char *text, size_t length, const char *input, json_t **parsed, hr_error *error)
{
  json_error_t problem;
  bool out_of_memory;
  *parsed = hr_json_load(text, length, &problem, &out_of_memory);
  if (out_of_memory)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading", input);
  return *parsed ? HR_OK : fail_to_parse(text, length, input, &problem, error);
}

static hr_status parse_with_constants(const char *text, size_t length, const char *input, json_t **parsed,
                                      hr_error *error)
{
  size_t quoted_length = quote_constants(text, length, NULL);
  if (quoted_length == length)
    return parse(text, length, input, parsed, error);
  char *quoted = malloc(quoted_length);
  if (!quoted)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading", input);
  quote_constants(text, length, quoted);
  hr_status status = parse(quoted, quoted_length, input, parsed, error);
  free(quoted);
  return status;
}

hr_status hr_json_parse(const char *text, size_t length, const char *input, json_t **root, hr_error *error)
{
  if (length > HR_JSON_BYTES_MAX)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: %zu bytes, more than the limit of %zu", input, length,
                   HR_JSON_BYTES_MAX);
  if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) { /* a byte order mark, which some editors write */
    text += 3;
    length -= 3;
  }
  if (length == 0)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is empty", input);
  if (count_values(text, length) > HR_JSON_VALUES_MAX)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: has more than %d values, which no configuration has", input,
                   HR_JSON_VALUES_MAX);
  json_t *parsed;
  HR_TRY(parse_with_constants(text, length, input, &parsed, error));
  if (!json_is_object(parsed)) {
    char found[64];
    hr_json_found(parsed, found, sizeof found);
    json_decref(parsed);
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: expected a JSON object, found %s", input, found);
  }
  *root = parsed;
  return HR_OK;
}

static const json_t *field_of(const hr_json_reader *reader, const char *field)
{
  const json_t *value = json_object_get(reader->object, field);
  return json_is_null(value) ? NULL : value;
}

bool hr_json_has(const hr_json_reader *reader, const char *field)
{
  return field_of(reader, field) != NULL;
}

void hr_json_found(const json_t *value, char *text, size_t size)
{
  char cut[40];
  snprintf(text, size, "null");
  switch (value ? json_typeof(value) : JSON_NULL) {
  case JSON_OBJECT: snprintf(text, size, "an object"); break;
  case JSON_ARRAY: snprintf(text, size, "a list"); break;
  case JSON_STRING:
    hr_copy_text(cut, sizeof cut, json_string_value(value));
    snprintf(text, size, "\"%s\"%s", cut, strlen(cut) < json_string_length(value) ? "…" : "");
    break;
  case JSON_INTEGER: snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value)); break;
  case JSON_REAL: {
    hr_write_text(text, size, "%.10g", json_real_value(value));
    if (!strpbrk(text, ".e"))
      hr_copy_text(text + strlen(text), size - strlen(text), ".0"); /* 32.0 must not look like an integer */
    break;
  }
  case JSON_TRUE: snprintf(text, size, "true"); break;
  case JSON_FALSE: snprintf(text, size, "false"); break;
  case JSON_NULL: break;
  }
}

hr_status hr_json_fail(const hr_json_reader *reader, const char *field, hr_status status, const char *format, ...)
{
  char message[sizeof reader->error->message];
  va_list arguments;
  va_start(arguments, format);
  hr_write_text_v(message, sizeof message, format, arguments);
  va_end(arguments);
  return hr_fail(reader->error, status, "%s: %s%s: %s", reader->input, reader->path, field, message);
}

static hr_status wrong(const hr_json_reader *reader, const char *field, const char *expected, const json_t *value)
{
  char found[64];
  hr_json_found(value, found, sizeof found);
  return hr_json_fail(reader, field, HR_ERROR_INVALID, "expected %s, found %s", expected, found);
}

static hr_status missing(const hr_json_reader *reader, const char *field)
{
  return hr_json_fail(reader, field, HR_ERROR_INVALID, "is missing");
}

hr_status hr_json_integer(const hr_json_reader *reader, const char *field, int64_t least, int64_t most, int64_t *value)
{
  const json_t *found = field_of(reader, field);
  if (!found)
    return missing(reader, field);
  if (json_is_integer(found) && json_integer_value(found) >= least && json_integer_value(found) <= most) {
    *value = json_integer_value(found);
    return HR_OK;
  }
  char expected[96];
  if (json_is_integer(found) && json_integer_value(found) > most)
    snprintf(expected, sizeof expected, "an integer of at most %" PRId64, most);
  else if (least == 1)
    snprintf(expected, sizeof expected, "a positive integer");
  else
    snprintf(expected, sizeof expected, "an integer of at least %" PRId64, least);
  return wrong(reader, field, expected, found);
}

hr_status hr_json_integer_or(const hr_json_reader *reader, const char *field, int64_t least, int64_t most,
                             int64_t fallback, int64_t *value)
{
  if (hr_json_has(reader, field))
    return hr_json_integer(reader, field, least, most, value);
  *value = fallback;
  return HR_OK;
}

hr_status hr_json_number(const hr_json_reader *reader, const char *field, double least, double most, double *value)
{
  const json_t *found = field_of(reader, field);
  if (!found)
    return missing(reader, field);
  double number = json_number_value(found);
  if (json_is_number(found) && number >= least && number <= most) {
    *value = number;
    return HR_OK;
  }
  char expected[96];
  hr_write_text(expected, sizeof expected, "a number from %g to %g", least, most);
  return wrong(reader, field, expected, found);
}

hr_status hr_json_number_or(const hr_json_reader *reader, const char *field, double least, double most, double fallback,
                            double *value)
{
  if (hr_json_has(reader, field))
    return hr_json_number(reader, field, least, most, value);
  *value = fallback;
  return HR_OK;
}

hr_status hr_json_boolean_or(const hr_json_reader *reader, const char *field, bool fallback, bool *value)
{
  const json_t *found = field_of(reader, field);
  if (found && !json_is_boolean(found))
    return wrong(reader, field, "true or false", found);
  *value = found ? json_is_true(found) : fallback;
  return HR_OK;
}

hr_status hr_json_string_or(const hr_json_reader *reader, const char *field, const char *fallback, const char **value)
{
  const json_t *found = field_of(reader, field);
  if (!found && !fallback)
    return missing(reader, field);
  if (found && !json_is_string(found))
    return wrong(reader, field, "a string", found);
  *value = found ? json_string_value(found) : fallback;
  return HR_OK;
}

hr_status hr_json_choice_or(const hr_json_reader *reader, const char *field, const char *const *names, size_t count,
                            const char *fallback, int *value)
{
  const char *found = NULL;
  char expected[256] = "";
  HR_TRY(hr_json_string_or(reader, field, fallback, &found));
  if (hr_name_find(names, count, found, value) == HR_OK)
    return HR_OK;
  for (size_t i = 0, used = 0; i < count && used < sizeof expected; i++)
    used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%s", i > 0 ? ", " : "", names[i]);
  return hr_json_fail(reader, field, HR_ERROR_INVALID, "expected one of %s, found \"%.40s\"", expected, found);
}
