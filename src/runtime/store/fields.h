/* The columns of a row, and values on their way between a row, the file and text. */
#ifndef HR_RUNTIME_STORE_FIELDS_H
#define HR_RUNTIME_STORE_FIELDS_H

#include <headroom/store.h>

/** The version of the store's tables. Written to the file; a larger one there is a newer program's. */
#define HR_STORE_VERSION 6

typedef enum hr_field_kind {
  HR_FIELD_TEXT,
  HR_FIELD_COUNT,   /* int64_t, at least 0 */
  HR_FIELD_NUMBER,  /* double, at least 0; NAN is an empty column */
  HR_FIELD_CELSIUS, /* double, which may be negative; NAN likewise */
  HR_FIELD_SINGLE,  /* float */
  HR_FIELD_FLAG,
  HR_FIELD_SEED, /* uint64_t */
  HR_FIELD_DTYPE,
  HR_FIELD_MASK,
  HR_FIELD_STATUS,
  HR_FIELD_KIND
} hr_field_kind;

typedef struct hr_field {
  int since;
  hr_field_kind kind;
  const char *name;
  bool of[HR_RESULT_KIND_COUNT];       /* which rows have it */
  size_t offset[HR_RESULT_KIND_COUNT]; /* of the member, by the row's kind */
  size_t size;                         /* of the member */
} hr_field;

enum {
#define HR_FIELD(since, kind, column, member) HR_FIELD_##column,
#define HR_FIELD_GEMM(since, kind, column, member) HR_FIELD_##column,
#define HR_FIELD_ATTENTION(since, kind, column, member) HR_FIELD_##column,
#define HR_FIELD_BOTH(since, kind, column, gemm_member, attention_member) HR_FIELD_##column,
#include "runtime/store/fields.inc"
#undef HR_FIELD
#undef HR_FIELD_GEMM
#undef HR_FIELD_ATTENTION
#undef HR_FIELD_BOTH
  HR_FIELDS
};

extern const hr_field hr_fields[HR_FIELDS];

typedef enum hr_value_type {
  HR_VALUE_NONE,
  HR_VALUE_TEXT,
  HR_VALUE_INTEGER,
  HR_VALUE_NUMBER,
  HR_VALUE_FLAG, /* in `integer` */
  HR_VALUE_SEED  /* in `integer`, the same 64 bits */
} hr_value_type;

/** `text` points into the row, the statement or the input that the value is from. */
typedef struct hr_value {
  hr_value_type type;
  const char *text;
  int64_t integer;
  double number;
} hr_value;

/** The row's value of a field. */
hr_value hr_field_get(const hr_field *field, const hr_result *result);

/** A row of all values in the order of hr_fields. Numbers in text are read, as CSV has them. HR_FIELDS if all could be
 *  set, else the index of the field that could not, with the reason in `why`. *result is written only when all
 *  could. */
size_t hr_result_from_values(const hr_value values[HR_FIELDS], hr_result *result, char *why, size_t why_size);

/** The field of this name, NULL if there is none. */
const hr_field *hr_field_find(const char *name);

/** Whether the row can be stored: every text ends, counts, times and rates are not negative, a percentile of the times
 *  is not above the next, enumerators are known, and unless there is no id, id and date have their form. The message
 *  begins with the column. */
hr_status hr_result_check(const hr_result *result, hr_error *error);

/** What the store keeps: texts whole UTF-8 characters, infinities NAN, the problem canonical. */
void hr_result_normalise(hr_result *result);

#endif
