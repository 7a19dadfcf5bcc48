/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of a row, and their values between hr_result, the database and text. */
#ifndef HR_RUNTIME_STORE_FIELDS_H
#define HR_RUNTIME_STORE_FIELDS_H

#include <headroom/experimental/store.h>

/** Version of the store's tables, written to the file. A file with a larger one is from a newer program. */
#define HR_STORE_VERSION 15

typedef enum hr_field_kind {
  HR_FIELD_TEXT,
  HR_FIELD_COUNT,   /* int64_t, at least 0 */
  HR_FIELD_NUMBER,  /* double, at least 0; NAN is NULL in the database */
  HR_FIELD_CELSIUS, /* double of any sign; NAN as above */
  HR_FIELD_SINGLE,  /* float */
  HR_FIELD_FLAG,
  HR_FIELD_SEED, /* uint64_t */
  HR_FIELD_DTYPE,
  HR_FIELD_MASK,
  HR_FIELD_OUTPUT,
  HR_FIELD_STATUS,
  HR_FIELD_KV_FORMAT,
  HR_FIELD_KV_SCALES,
  HR_FIELD_KIND
} hr_field_kind;

typedef struct hr_field {
  int since;
  hr_field_kind kind;
  const char *name;
  bool of[HR_RESULT_KIND_COUNT];       /* the kinds of rows that have it */
  size_t offset[HR_RESULT_KIND_COUNT]; /* of the member in hr_result, by kind of row */
  size_t size;                         /* of the member */
} hr_field;

enum {
#define HR_FIELD(since, kind, column, member) HR_FIELD_##column,
#define HR_FIELD_PROBLEM(since, kind, column, member) HR_FIELD_##column,
#define HR_FIELD_GEMM(since, kind, column, member) HR_FIELD_##column,
#define HR_FIELD_ATTENTION(since, kind, column, member) HR_FIELD_##column,
#define HR_FIELD_DECODE(since, kind, column, member) HR_FIELD_##column,
#define HR_FIELD_BOTH(since, kind, column, member) HR_FIELD_##column,
#define HR_FIELD_PASS(since, kind, column, member) HR_FIELD_##column,
#include "runtime/store/fields.inc"
#undef HR_FIELD
#undef HR_FIELD_PROBLEM
#undef HR_FIELD_GEMM
#undef HR_FIELD_ATTENTION
#undef HR_FIELD_DECODE
#undef HR_FIELD_BOTH
#undef HR_FIELD_PASS
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

/** `text` points into the row, the statement or the input. */
typedef struct hr_value {
  hr_value_type type;
  const char *text;
  int64_t integer;
  double number;
} hr_value;

/** The row's value of a field. */
hr_value hr_field_get(const hr_field *field, const hr_result *result);

/** Makes a row of values in the order of hr_fields; numbers may be text, as in CSV. Returns HR_FIELDS on success, else
 *  the index of the first invalid field, with the reason in `why` and *result untouched. */
size_t hr_result_from_values(const hr_value values[HR_FIELDS], hr_result *result, char *why, size_t why_size);

/** The field of this name; NULL if there is none. */
const hr_field *hr_field_find(const char *name);

/** HR_OK if the row can be stored: texts are terminated, counts, times and rates are not negative, percentiles of the
 *  times ascend, enumerators are in their lists, and id and date are well-formed unless the id is empty. The message
 *  begins with the column. */
hr_status hr_result_check(const hr_result *result, hr_error *error);

/** Makes a row what the store keeps: texts valid UTF-8, infinities NAN, the problem canonical, kernels by their current
 *  names. */
void hr_result_normalise(hr_result *result);

#endif
