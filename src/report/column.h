/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of reports. A column is bound once to the value it shows, a member of the row or a function of it; terminal,
 * Markdown, CSV and JSON are all written from that one list. */
#ifndef HR_REPORT_COLUMN_H
#define HR_REPORT_COLUMN_H
#include "report/style.h"

#include <headroom/experimental/hardware.h>
#include <headroom/experimental/operators.h>
#include <stddef.h>

/** How people see a number: 12400 ns as "12.4 µs". CSV and JSON have the number itself. */
typedef enum hr_unit {
  HR_PLAIN, /* no unit: text, flags, counts ("50,257"), numbers with three digits */
  HR_TIME,  /* ns */
  HR_BYTES,
  HR_FLOPS,
  HR_FLOPS_RATE,
  HR_BYTES_RATE,
  HR_ENERGY, /* J */
  HR_SHARE,  /* 0 … 1 */
  HR_GAIN    /* time before / time after − 1, and other relative changes */
} hr_unit;

#define HR_CELL_TEXT_SIZE 4096 /* the longest text is a path */

/** A value read from a row. It owns nothing: its text is in the cell itself, cleaned of control characters and cut if
 *  too long. */
typedef struct hr_cell {
  enum { HR_CELL_NONE, HR_CELL_TEXT, HR_CELL_COUNT, HR_CELL_NUMBER, HR_CELL_FLAG } type;
  hr_style style;
  int64_t count;
  double number;
  bool flag;
  char text[HR_CELL_TEXT_SIZE];
} hr_cell;

/** Set the value. A NULL text, and a number that is not finite, make the cell empty: "-", or null in JSON. */
void hr_cell_set_text(hr_cell *cell, const char *text);
void hr_cell_format(hr_cell *cell, const char *format, ...) HR_PRINTF(2, 3);
void hr_cell_set_count(hr_cell *cell, int64_t count);
void hr_cell_set_number(hr_cell *cell, double number);
void hr_cell_set_flag(hr_cell *cell, bool flag);

/** Enumerations that members may have; a report shows their names. */
#define HR_NAMED_TYPES(TYPE)                                 \
  TYPE(hr_attention_form, hr_attention_form_name)            \
  TYPE(hr_change_class, hr_change_class_name)                \
  TYPE(hr_bound, hr_bound_name)                              \
  TYPE(hr_calibration, hr_calibration_name)                  \
  TYPE(hr_clock, hr_clock_name)                              \
  TYPE(hr_cache, hr_cache_name)                              \
  TYPE(hr_dtype, hr_dtype_name)                              \
  TYPE(hr_kv_format, hr_kv_format_name)                      \
  TYPE(hr_kv_scales, hr_kv_scales_name)                      \
  TYPE(hr_layer_part, hr_layer_part_name)                    \
  TYPE(hr_operator_kind, hr_operator_kind_name)              \
  TYPE(hr_pass, hr_pass_name)                                \
  TYPE(hr_phase, hr_phase_name)                              \
  TYPE(hr_result_kind, hr_result_kind_name)                  \
  TYPE(hr_severity, hr_severity_name)                        \
  TYPE(hr_status, hr_status_name) /* green or yellow, too */ \
  TYPE(hr_sweep_kind, hr_sweep_kind_name)                    \
  TYPE(hr_verdict, hr_verdict_name) /* faster green, slower red, noisy yellow */

#define HR_NAMED_TYPE_ENUMERATOR(type, name) HR_TYPE_##type,
typedef enum hr_member_type {
  HR_TYPE_TEXT,    /* char[] */
  HR_TYPE_POINTER, /* const char *, may be NULL */
  HR_TYPE_COUNT,   /* int64_t */
  HR_TYPE_SIZE,    /* size_t */
  HR_TYPE_NUMBER,  /* double */
  HR_TYPE_FLOAT,
  HR_TYPE_FLAG, /* bool */
  HR_NAMED_TYPES(HR_NAMED_TYPE_ENUMERATOR)
} hr_member_type;

typedef struct hr_column {
  const char *key;   /* in CSV and JSON; NULL: for people only */
  const char *title; /* in tables and Markdown; NULL: for programs only */
  hr_unit unit;
  int drop;  /* if the terminal is too narrow, columns with the highest number are dropped first; 0: never */
  bool rare; /* people see it only in a table in which a row has a value */

  /* Where the value is; set by the macros below. */
  hr_member_type type;
  size_t offset;  /* of the member in the row, or in the struct that the row points to */
  bool indirect;  /* the row points to the struct; if that pointer is NULL, the cell is empty */
  size_t pointer; /* offset of this pointer */
  bool optional;  /* an empty text is null */
  void (*compute)(const void *member, hr_cell *cell); /* NULL: the member as it is */

  const char *section; /* hr_json_put_section(): the object that the field belongs to */
  const char *json;    /* key in JSON where it is not `key` */
} hr_column;

#define HR_NAMED_TYPE_ASSOCIATION(type, name) \
  type:                                       \
  HR_TYPE_##type,
#define HR_TYPE_OF(row, member) \
  _Generic(((row *)0)->member,                        \
      HR_NAMED_TYPES(HR_NAMED_TYPE_ASSOCIATION) char *: HR_TYPE_TEXT, \
      const char *: HR_TYPE_POINTER,                  \
      int64_t: HR_TYPE_COUNT,                         \
      size_t: HR_TYPE_SIZE,                           \
      double: HR_TYPE_NUMBER,                         \
      float: HR_TYPE_FLOAT,                           \
      bool: HR_TYPE_FLAG)

/** The end of a column's initialiser: {"flops", "work", HR_FLOPS, 0, HR_MEMBER(hr_operator, flops)}. */
#define HR_MEMBER(row, member) .type = HR_TYPE_OF(row, member), .offset = offsetof(row, member)
#define HR_OPTIONAL(row, member) HR_MEMBER(row, member), .optional = true

/** A computed value, of type TEXT, COUNT, NUMBER or FLAG; the function is given the row, or a member of it. */
#define HR_COMPUTED(value, function) .type = HR_TYPE_##value, .compute = function
#define HR_COMPUTED_OF(value, function, row, member) HR_COMPUTED(value, function), .offset = offsetof(row, member)

/** Before one of the above, which is then of the struct that a member of the row points to. */
#define HR_THROUGH(row, member) .indirect = true, .pointer = offsetof(row, member)

/** A whole column of JSON: the key is the member's name. */
#define HR_FIELD(row, member)                          \
  {                                                    \
#member, NULL, HR_PLAIN, 0, HR_MEMBER(row, member) \
  }
#define HR_OPTIONAL_FIELD(row, member)                   \
  {                                                      \
#member, NULL, HR_PLAIN, 0, HR_OPTIONAL(row, member) \
  }

/** The colour of a verdict: faster green, slower red, noisy yellow. */
hr_style hr_verdict_style(hr_verdict verdict);

/** Reads the value of a row. */
void hr_column_read(const hr_column *column, const void *row, hr_cell *cell);

/** Whether the column is aligned to the left: texts and flags are, numbers are not. */
bool hr_column_is_left(const hr_column *column);

/** The cell as people see it: the cell's own text, or what is written to `buffer` (HR_NUMBER_SIZE bytes). */
const char *hr_cell_show(const hr_cell *cell, hr_unit unit, char *buffer, size_t size);

/** Copies the columns with these keys to `selected`, in this order. */
void hr_columns_select(const hr_column *columns, size_t count, const char *const *keys, size_t key_count,
                       hr_column *selected);

#endif
