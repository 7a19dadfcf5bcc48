/* Tables that are filled once and written in every format.
 *
 * A column has a title for people, a key for programs, or both. Cells keep their value, so that people see 12.4 µs
 * where CSV and JSON have 12400. Filling never fails visibly: memory that runs out is reported when writing. */
#ifndef HR_REPORT_TABLE_H
#define HR_REPORT_TABLE_H

#include <headroom/report.h>
#include <jansson.h>

typedef enum hr_cell_kind {
  HR_CELL_TEXT,
  HR_CELL_COUNT,
  HR_CELL_TIME, /* ns */
  HR_CELL_BYTES,
  HR_CELL_FLOPS,
  HR_CELL_FLOPS_RATE,
  HR_CELL_BYTES_RATE,
  HR_CELL_SHARE, /* 0 … 1 */
  HR_CELL_GAIN,  /* time before / time after − 1, and other relative changes */
  HR_CELL_NUMBER,
  HR_CELL_FLAG
} hr_cell_kind;

typedef struct hr_column {
  const char *key;   /* in CSV and JSON; NULL: for people only */
  const char *title; /* in tables and Markdown; NULL: for programs only */
  hr_cell_kind kind;
  int drop; /* a table too wide for the terminal loses the columns of the highest number first; 0: never */
} hr_column;

typedef enum hr_style {
  HR_STYLE_PLAIN,
  HR_STYLE_BOLD,
  HR_STYLE_DIM,
  HR_STYLE_RED,
  HR_STYLE_YELLOW,
  HR_STYLE_CYAN,
  HR_STYLE_GREEN
} hr_style;

typedef struct hr_table hr_table;

/** A table without rows. `columns` must outlive it. NULL when memory runs out, which all functions below accept. */
hr_table *hr_table_create(const hr_column *columns, size_t count);
void hr_table_free(hr_table *table);

/** Fills the next cell, row by row in the order of the columns. NULL text, a NaN and hr_put_none() are an empty cell
 *  (null in JSON). hr_put() takes every kind that is stored as a number. */
void hr_put_text(hr_table *table, const char *text);
void hr_put(hr_table *table, double value);
void hr_put_count(hr_table *table, int64_t value);
void hr_put_flag(hr_table *table, bool value);
void hr_put_none(hr_table *table);

/** How people see the cell that was put last. */
void hr_table_style(hr_table *table, hr_style style);

size_t hr_table_rows(const hr_table *table);

/** Writes as a table, Markdown or CSV. HR_ERROR_OUT_OF_MEMORY if filling or writing ran out. */
hr_status hr_table_write(const hr_table *table, FILE *out, const hr_report_options *options, hr_error *error);

/** The rows as a list of objects with the columns' keys; NULL when memory ran out. */
json_t *hr_table_json(const hr_table *table);

/** Starts and ends a style on a terminal; writes nothing unless options->colour. */
void hr_style_begin(FILE *out, const hr_report_options *options, hr_style style);
void hr_style_end(FILE *out, const hr_report_options *options, hr_style style);

#endif
