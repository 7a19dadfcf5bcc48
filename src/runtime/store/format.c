/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/format.h"

#include "base/text.h"
#include "runtime/store/fields.h"

#include <csv.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Writes the fewest digits that read back as the same number. */
static void write_number(FILE *out, double number)
{
  char text[40];
  for (int digits = 15; digits <= 17; digits++) {
    hr_write_text(text, sizeof text, "%.*g", digits, number);
    if (hr_read_number(text, NULL) == number)
      break;
  }
  fputs(text, out);
}

/* ---- CSV ---- */

static void write_csv_text(FILE *out, const char *text)
{
  if (strpbrk(text, ",\"\r\n"))
    csv_fwrite(out, text, strlen(text));
  else
    fputs(text, out);
}

static void write_csv_value(FILE *out, const hr_value *value)
{
  switch (value->type) {
  case HR_VALUE_TEXT: write_csv_text(out, value->text); break;
  case HR_VALUE_INTEGER: fprintf(out, "%" PRId64, value->integer); break;
  case HR_VALUE_SEED: fprintf(out, "%" PRIu64, (uint64_t)value->integer); break;
  case HR_VALUE_NUMBER: write_number(out, value->number); break;
  case HR_VALUE_FLAG: fputs(value->integer ? "true" : "false", out); break;
  case HR_VALUE_NONE: break;
  }
}

void hr_csv_write_row(FILE *out, const hr_result *result)
{
  for (size_t i = 0; i < HR_FIELDS; i++) {
    hr_value value = hr_field_get(&hr_fields[i], result);
    if (i > 0)
      fputc(',', out);
    write_csv_value(out, &value);
  }
  fputc('\n', out);
}

void hr_csv_write_head(FILE *out)
{
  for (size_t i = 0; i < HR_FIELDS; i++)
    fprintf(out, "%s%s", i > 0 ? "," : "", hr_fields[i].name);
  fputc('\n', out);
}

/* ---- JSON ---- */

static json_t *json_value(const hr_value *value)
{
  switch (value->type) {
  case HR_VALUE_TEXT: return value->text[0] ? json_string(value->text) : json_null();
  case HR_VALUE_INTEGER: return json_integer(value->integer);
  case HR_VALUE_NUMBER: return json_real(value->number);
  case HR_VALUE_FLAG: return json_boolean(value->integer);
  case HR_VALUE_SEED: {
    char text[24]; /* many readers of JSON take integers of 63 bits only */
    if (value->integer >= 0)
      return json_integer(value->integer);
    snprintf(text, sizeof text, "%" PRIu64, (uint64_t)value->integer);
    return json_string(text);
  }
  case HR_VALUE_NONE: break;
  }
  return json_null();
}

json_t *hr_result_json(const hr_result *result)
{
  json_t *object = json_object();
  for (size_t i = 0; object && i < HR_FIELDS; i++) {
    hr_value value = hr_field_get(&hr_fields[i], result);
    if (json_object_set_new(object, hr_fields[i].name, json_value(&value)) != 0) {
      json_decref(object);
      object = NULL;
    }
  }
  return object;
}
