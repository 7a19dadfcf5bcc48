/* SPDX-License-Identifier: Apache-2.0 */
#include "report/table.h"

#include <stdlib.h>
#include <string.h>

struct hr_table {
  const hr_column *columns;
  char *rows;
  size_t width, row_size;
  size_t count, capacity; /* rows */
  bool failed;
  bool known[]; /* by column: not rare, or a row has a value */
};

hr_table *hr_table_create(const hr_column *columns, size_t count, size_t row_size)
{
  hr_table *table = calloc(1, sizeof *table + count * sizeof *table->known);
  if (!table)
    return NULL;
  table->columns = columns;
  table->width = count;
  table->row_size = row_size;
  for (size_t i = 0; i < count; i++)
    table->known[i] = !columns[i].rare;
  return table;
}

void hr_table_free(hr_table *table)
{
  if (table)
    free(table->rows);
  free(table);
}

static bool make_room(hr_table *table)
{
  if (table->count < table->capacity)
    return true;
  size_t capacity = table->capacity ? 2 * table->capacity : 16;
  char *rows = realloc(table->rows, capacity * table->row_size);
  if (!rows)
    return false;
  table->rows = rows;
  table->capacity = capacity;
  return true;
}

/* Here, as a writer asks for each cell whether its column is shown. */
static void note_known(hr_table *table, const void *row)
{
  for (size_t i = 0; i < table->width; i++) {
    hr_cell cell;
    if (table->known[i])
      continue;
    hr_column_read(&table->columns[i], row, &cell);
    table->known[i] = cell.type != HR_CELL_NONE;
  }
}

void hr_table_add(hr_table *table, const void *row)
{
  if (!table || table->failed)
    return;
  table->failed = !make_room(table);
  if (table->failed)
    return;
  memcpy(table->rows + table->count++ * table->row_size, row, table->row_size);
  note_known(table, row);
}

size_t hr_table_rows(const hr_table *table)
{
  return table ? table->count : 0;
}

size_t hr_table_width(const hr_table *table)
{
  return table ? table->width : 0;
}

const hr_column *hr_table_column(const hr_table *table, size_t column)
{
  return &table->columns[column];
}

bool hr_table_shows_column(const hr_table *table, size_t column)
{
  return table->columns[column].title && table->known[column];
}

void hr_table_read(const hr_table *table, size_t row, size_t column, hr_cell *cell)
{
  hr_column_read(&table->columns[column], table->rows + row * table->row_size, cell);
}

const char *hr_table_show(const hr_table *table, size_t row, size_t column, hr_cell *cell, char *buffer, size_t size)
{
  hr_table_read(table, row, column, cell);
  return hr_cell_show(cell, table->columns[column].unit, buffer, size);
}

bool hr_table_is_complete(const hr_table *table)
{
  return table && !table->failed;
}

bool hr_table_is_empty(const hr_table *table)
{
  return hr_table_is_complete(table) && table->count == 0;
}
