/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/fields.h"

#include "base/error.h"
#include "base/kernel_names.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "runtime/store/enumeration.h"
#include "runtime/store/result.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_OF(member) sizeof(((hr_result *)0)->member)
#define AT(member) offsetof(hr_result, member)

#define IN(kind, member) [HR_RESULT_##kind] = AT(member)
#define OF(kind) [HR_RESULT_##kind] = true

const hr_field hr_fields[HR_FIELDS] = {
#define HR_FIELD(since, kind, column, member)                                        \
  {since,                                                                            \
   HR_FIELD_##kind,                                                                  \
   #column,                                                                          \
   {OF(GEMM), OF(ATTENTION), OF(DECODE), OF(OTHER)},                                 \
   {IN(GEMM, member), IN(ATTENTION, member), IN(DECODE, member), IN(OTHER, member)}, \
   SIZE_OF(member)},
#define HR_FIELD_PROBLEM(since, kind, column, member)                                   \
  {since,                                                                               \
   HR_FIELD_##kind,                                                                     \
   #column,                                                                             \
   {OF(GEMM), OF(ATTENTION), OF(DECODE)},                                               \
   {IN(GEMM, gemm.member), IN(ATTENTION, attention.member), IN(DECODE, decode.member)}, \
   SIZE_OF(gemm.member)},
#define HR_FIELD_GEMM(since, kind, column, member) \
  {since, HR_FIELD_##kind, #column, {OF(GEMM)}, {IN(GEMM, gemm.member)}, SIZE_OF(gemm.member)},
#define HR_FIELD_ATTENTION(since, kind, column, member) \
  {since, HR_FIELD_##kind, #column, {OF(ATTENTION)}, {IN(ATTENTION, attention.member)}, SIZE_OF(attention.member)},
#define HR_FIELD_DECODE(since, kind, column, member) \
  {since, HR_FIELD_##kind, #column, {OF(DECODE)}, {IN(DECODE, decode.member)}, SIZE_OF(decode.member)},
#define HR_FIELD_BOTH(since, kind, column, member)               \
  {since,                                                        \
   HR_FIELD_##kind,                                              \
   #column,                                                      \
   {OF(ATTENTION), OF(DECODE)},                                  \
   {IN(ATTENTION, attention.member), IN(DECODE, decode.member)}, \
   SIZE_OF(attention.member)},
#define HR_FIELD_PASS(since, kind, column, member) \
  {since, HR_FIELD_##kind, #column, {OF(ATTENTION)}, {IN(ATTENTION, member)}, SIZE_OF(member)},
#include "runtime/store/fields.inc"
#undef HR_FIELD
#undef HR_FIELD_PROBLEM
#undef HR_FIELD_GEMM
#undef HR_FIELD_ATTENTION
#undef HR_FIELD_DECODE
#undef HR_FIELD_BOTH
#undef HR_FIELD_PASS
};

/* ---- from a row ---- */

static hr_value number_value(double number)
{
  return isfinite(number) ? (hr_value){.type = HR_VALUE_NUMBER, .number = number} : (hr_value){.type = HR_VALUE_NONE};
}

hr_value hr_field_get(const hr_field *field, const hr_result *result)
{
  if (!field->of[result->kind])
    return (hr_value){.type = HR_VALUE_NONE};
  const void *member = (const char *)result + field->offset[result->kind];
  switch (field->kind) {
  case HR_FIELD_TEXT: return (hr_value){.type = HR_VALUE_TEXT, .text = member};
  case HR_FIELD_COUNT: return (hr_value){.type = HR_VALUE_INTEGER, .integer = *(const int64_t *)member};
  case HR_FIELD_NUMBER:
  case HR_FIELD_CELSIUS: return number_value(*(const double *)member);
  case HR_FIELD_SINGLE: return number_value((double)*(const float *)member);
  case HR_FIELD_FLAG: return (hr_value){.type = HR_VALUE_FLAG, .integer = *(const bool *)member};
  case HR_FIELD_SEED: return (hr_value){.type = HR_VALUE_SEED, .integer = (int64_t) * (const uint64_t *)member};
  default:
    return (hr_value){.type = HR_VALUE_TEXT,
                      .text = hr_enumeration_of(field->kind)->name(hr_enumerator_get(field->kind, member))};
  }
}

/* ---- to a row ---- */

static bool wrong(char *why, size_t size, const char *expected, const hr_value *value)
{
  char found[48];
  switch (value->type) {
  case HR_VALUE_TEXT:
    hr_copy_text(found, sizeof found - 3, value->text);
    snprintf(why, size, "expected %s, found \"%s\"", expected, found);
    break;
  case HR_VALUE_NUMBER: hr_write_text(why, size, "expected %s, found %.10g", expected, value->number); break;
  case HR_VALUE_FLAG: snprintf(why, size, "expected %s, found %s", expected, value->integer ? "true" : "false"); break;
  default: snprintf(why, size, "expected %s, found %" PRId64, expected, value->integer); break;
  }
  return false;
}

static bool put_text(const hr_field *field, const hr_value *value, char *member, char *why, size_t size)
{
  if (value->type != HR_VALUE_TEXT)
    return wrong(why, size, "a text", value);
  size_t length = strlen(value->text);
  if (length >= field->size) {
    snprintf(why, size, "has %zu bytes, more than %zu", length, field->size - 1);
    return false;
  }
  memcpy(member, value->text, length + 1);
  hr_replace_invalid_utf8(member);
  return true;
}

static bool is_integer_text(const char *text, bool negative)
{
  if (negative && *text == '-')
    text++;
  return *text && strspn(text, "0123456789") == strlen(text);
}

static bool put_count(const hr_value *value, int64_t *member, char *why, size_t size)
{
  static const char expected[] = "a count of at least 0";
  int64_t count = value->integer;
  if (value->type == HR_VALUE_TEXT) {
    errno = 0;
    count = is_integer_text(value->text, false) ? strtoll(value->text, NULL, 10) : -1;
    if (errno == ERANGE)
      return wrong(why, size, "an integer of at most 63 bits", value);
  } else if (value->type != HR_VALUE_INTEGER) {
    return wrong(why, size, expected, value);
  }
  if (count < 0)
    return wrong(why, size, expected, value);
  *member = count;
  return true;
}

static bool put_number(const hr_value *value, double *member, char *why, size_t size)
{
  double number = value->number;
  if (value->type == HR_VALUE_INTEGER) {
    number = (double)value->integer;
  } else if (value->type == HR_VALUE_TEXT) {
    char *end = NULL;
    bool plain = value->text[0] && strspn(value->text, "0123456789.eE+-") == strlen(value->text);
    number = plain ? hr_read_number(value->text, &end) : (double)NAN;
    if (!plain || *end != '\0')
      return wrong(why, size, "a number", value);
  } else if (value->type != HR_VALUE_NUMBER) {
    return wrong(why, size, "a number", value);
  }
  if (!isfinite(number))
    return wrong(why, size, "a finite number", value);
  *member = number;
  return true;
}

static bool put_single(const hr_value *value, float *member, char *why, size_t size)
{
  double number;
  if (!put_number(value, &number, why, size))
    return false;
  if (fabs(number) > 3.4028234663852886e38) /* the largest float */
    return wrong(why, size, "a number of single precision", value);
  *member = (float)number;
  return true;
}

static bool put_flag(const hr_value *value, bool *member, char *why, size_t size)
{
  bool text = value->type == HR_VALUE_TEXT;
  bool yes = text ? strcmp(value->text, "true") == 0 : value->integer == 1;
  bool no = text ? strcmp(value->text, "false") == 0 : value->integer == 0;
  if ((!yes && !no) || (!text && value->type != HR_VALUE_INTEGER && value->type != HR_VALUE_FLAG))
    return wrong(why, size, "true or false", value);
  *member = yes;
  return true;
}

static bool put_seed(const hr_value *value, uint64_t *member, char *why, size_t size)
{
  if (value->type == HR_VALUE_SEED || (value->type == HR_VALUE_INTEGER && value->integer >= 0)) {
    *member = (uint64_t)value->integer;
    return true;
  }
  errno = 0;
  if (value->type != HR_VALUE_TEXT || !is_integer_text(value->text, false))
    return wrong(why, size, "an integer of at least 0", value);
  uint64_t seed = strtoull(value->text, NULL, 10);
  if (errno == ERANGE)
    return wrong(why, size, "an integer of at most 64 bits", value);
  *member = seed;
  return true;
}

static bool put_named(hr_field_kind kind, const hr_value *value, void *member, char *why, size_t size)
{
  const hr_enumeration *names = hr_enumeration_of(kind);
  for (int i = 0; value->type == HR_VALUE_TEXT && i < names->count; i++) {
    if (strcmp(names->name(i), value->text) == 0) {
      hr_enumerator_put(kind, member, i);
      return true;
    }
  }
  return wrong(why, size, names->expected, value);
}

/* Sets the member; HR_VALUE_NONE leaves it. `operation`, which sets the row's kind, precedes the fields of one kind. */
static bool put_field(const hr_field *field, const hr_value *value, hr_result *result, char *why, size_t why_size)
{
  if (value->type == HR_VALUE_NONE)
    return true;
  if (!field->of[result->kind]) {
    char expected[64];
    snprintf(expected, sizeof expected, "no value in a row of operation %s", hr_result_kind_name(result->kind));
    return wrong(why, why_size, expected, value);
  }
  void *member = (char *)result + field->offset[result->kind];
  switch (field->kind) {
  case HR_FIELD_TEXT: return put_text(field, value, member, why, why_size);
  case HR_FIELD_COUNT: return put_count(value, member, why, why_size);
  case HR_FIELD_NUMBER:
  case HR_FIELD_CELSIUS: return put_number(value, member, why, why_size);
  case HR_FIELD_SINGLE: return put_single(value, member, why, why_size);
  case HR_FIELD_FLAG: return put_flag(value, member, why, why_size);
  case HR_FIELD_SEED: return put_seed(value, member, why, why_size);
  default: return put_named(field->kind, value, member, why, why_size);
  }
}

/* Rows from before a kernel was renamed get its current name. */
static void rename_kernels(hr_result *result)
{
  hr_kernel_current_name(result->kernel_asked, result->kernel_asked);
  hr_kernel_current_name(result->measurement.kernel, result->measurement.kernel);
}

size_t hr_result_from_values(const hr_value values[HR_FIELDS], hr_result *result, char *why, size_t why_size)
{
  hr_result row = hr_result_default();
  for (size_t i = 0; i < HR_FIELDS; i++) {
    if (!put_field(&hr_fields[i], &values[i], &row, why, why_size))
      return i;
  }
  rename_kernels(&row);
  hr_result_name_problem(&row);
  *result = row;
  return HR_FIELDS;
}

const hr_field *hr_field_find(const char *name)
{
  for (size_t i = 0; i < HR_FIELDS; i++) {
    if (strcmp(hr_fields[i].name, name) == 0)
      return &hr_fields[i];
  }
  return NULL;
}

/* ---- whole rows ---- */

static bool is_sound(const hr_field *field, const void *member)
{
  if (field->kind == HR_FIELD_TEXT)
    return memchr(member, '\0', field->size) != NULL;
  if (field->kind == HR_FIELD_COUNT)
    return *(const int64_t *)member >= 0;
  if (field->kind == HR_FIELD_NUMBER)
    return !(*(const double *)member < 0);
  const hr_enumeration *names = hr_enumeration_of(field->kind);
  if (!names)
    return true;
  int value = hr_enumerator_get(field->kind, member);
  return value >= 0 && value < names->count;
}

/* Checks that the statistics of the times ascend; unknown ones are skipped. The tolerance is for the mean, whose
 * rounding may put it outside a range of equal times. */
static hr_status check_ascent(const hr_measurement *m, hr_error *error)
{
  static const struct {
    const char *name;
    size_t offset;
  } chains[][5] = {
#define TIME(column) {#column, offsetof(hr_measurement, column)}
      {TIME(min_ns), TIME(p10_ns), TIME(median_ns), TIME(p90_ns), TIME(max_ns)},
      {TIME(min_ns), TIME(median_low_ns), TIME(median_ns), TIME(median_high_ns), TIME(max_ns)},
      {TIME(min_ns), TIME(mean_ns), TIME(max_ns)},
#undef TIME
  };
  for (size_t chain = 0; chain < sizeof chains / sizeof *chains; chain++) {
    double before = 0;
    const char *name = NULL;
    for (size_t i = 0; i < 5 && chains[chain][i].name; i++) {
      double time = *(const double *)((const char *)m + chains[chain][i].offset);
      if (name && time < before * (1 - 1e-9))
        return hr_fail(error, HR_ERROR_INVALID, "%s: is %.10g, less than %s, which is %.10g", chains[chain][i].name,
                       time, name, before);
      if (isfinite(time)) {
        before = time;
        name = chains[chain][i].name;
      }
    }
  }
  return HR_OK;
}

hr_status hr_result_check(const hr_result *result, hr_error *error)
{
  HR_TAKE(hr_result, result, error);
  if ((unsigned)result->kind >= HR_RESULT_KIND_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "operation: expected gemm, attention, decode or other, found %d",
                   (int)result->kind);
  for (size_t i = 0; i < HR_FIELDS; i++) {
    const hr_field *field = &hr_fields[i];
    if (field->of[result->kind] && !is_sound(field, (const char *)result + field->offset[result->kind]))
      return hr_fail(error, HR_ERROR_INVALID, "%s: %s", field->name,
                     hr_enumeration_of(field->kind) ? "is not in its list"
                     : field->kind == HR_FIELD_TEXT ? "is not terminated"
                                                    : "is negative");
  }
  HR_TRY(check_ascent(&result->measurement, error));
  size_t length = strlen(result->id);
  if (length > 0 && (length != 32 || strspn(result->id, "0123456789abcdef") != 32))
    return hr_fail(error, HR_ERROR_INVALID, "id: expected 32 hexadecimal digits, found \"%s\"", result->id);
  if (length > 0 && !hr_is_date(result->date, true))
    return hr_fail(error, HR_ERROR_INVALID, "date: expected one as 2026-01-31T23:59:59.123Z, found \"%s\"",
                   result->date);
  return HR_OK;
}

void hr_result_normalise(hr_result *result)
{
  for (size_t i = 0; i < HR_FIELDS; i++) {
    const hr_field *field = &hr_fields[i];
    void *member = (char *)result + field->offset[result->kind];
    if (!field->of[result->kind])
      continue;
    if (field->kind == HR_FIELD_TEXT)
      hr_replace_invalid_utf8(member);
    else if ((field->kind == HR_FIELD_NUMBER || field->kind == HR_FIELD_CELSIUS) && !isfinite(*(double *)member))
      *(double *)member = (double)NAN;
  }
  rename_kernels(result);
  hr_result_name_problem(result);
}
