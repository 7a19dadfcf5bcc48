/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: rows of one type, read through a list of columns and written in every format. */
#ifndef HR_REPORT_TABLE_H
#define HR_REPORT_TABLE_H

#include "report/column.h"

#define HR_COUNT_OF(array) (sizeof(array) / sizeof *(array))

typedef struct hr_table hr_table;

/** A table without rows. `columns` must outlive it. NULL when memory runs out, which all functions below accept: it is
 *  reported when the table is written. */
hr_table *hr_table_create(const hr_column *columns, size_t count, size_t row_size);
#define HR_TABLE_OF(columns, row) hr_table_create(columns, HR_COUNT_OF(columns), sizeof(row))
void hr_table_free(hr_table *table);

/** Adds a copy of a row. What the row points to must outlive the table. */
void hr_table_add(hr_table *table, const void *row);

size_t hr_table_rows(const hr_table *table);
size_t hr_table_width(const hr_table *table);
const hr_column *hr_table_column(const hr_table *table, size_t column);

/** Whether people see the column. */
bool hr_table_shows_column(const hr_table *table, size_t column);

/** Reads a cell. */
void hr_table_read(const hr_table *table, size_t row, size_t column, hr_cell *cell);

/** Reads a cell as people see it; returns cell->text or `buffer`. */
const char *hr_table_show(const hr_table *table, size_t row, size_t column, hr_cell *cell, char *buffer, size_t size);

/** False when memory ran out while the table was filled. */
bool hr_table_is_complete(const hr_table *table);

/** Whether it has no row, and not for want of memory. */
bool hr_table_is_empty(const hr_table *table);

/** Writes the table as options->format says (JSON: hr_json_put_table()). HR_ERROR_OUT_OF_MEMORY if it is not
 *  complete. */
hr_status hr_table_write(const hr_table *table, FILE *out, const hr_report_options *options, hr_error *error);

/** Columns of a terminal that a shown column takes, without the gap beside it. */
int hr_table_natural_width(const hr_table *table, size_t column);

/** Writes the table aligned for a terminal of options->width columns. */
void hr_table_write_aligned(const hr_table *table, FILE *out, const hr_report_options *options);

#endif
