/* SPDX-License-Identifier: Apache-2.0 */
#include "report/column.h"

#include "base/names.h"
#include "base/quantity.h"
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

void hr_cell_set_text(hr_cell *cell, const char *text)
{
  cell->type = text ? HR_CELL_TEXT : HR_CELL_NONE;
  hr_copy_text(cell->text, sizeof cell->text, text ? text : "");
}

void hr_cell_format(hr_cell *cell, const char *format, ...)
{
  char text[HR_CELL_TEXT_SIZE];
  va_list arguments;
  va_start(arguments, format);
  hr_write_text_v(text, sizeof text, format, arguments);
  va_end(arguments);
  hr_cell_set_text(cell, text);
}

void hr_cell_set_count(hr_cell *cell, int64_t count)
{
  cell->type = HR_CELL_COUNT;
  cell->count = count;
}

void hr_cell_set_number(hr_cell *cell, double number)
{
  cell->type = isfinite(number) ? HR_CELL_NUMBER : HR_CELL_NONE;
  cell->number = number;
}

void hr_cell_set_flag(hr_cell *cell, bool flag)
{
  cell->type = HR_CELL_FLAG;
  cell->flag = flag;
}

#define NAMED_TYPE_CASE(type, name) \
  case HR_TYPE_##type: hr_cell_set_text(cell, name(*(const type *)member)); break;

static void read_member(hr_member_type type, const void *member, hr_cell *cell)
{
  switch (type) {
  case HR_TYPE_TEXT: hr_cell_set_text(cell, member); break;
  case HR_TYPE_POINTER: hr_cell_set_text(cell, *(const char *const *)member); break;
  case HR_TYPE_COUNT: hr_cell_set_count(cell, *(const int64_t *)member); break;
  case HR_TYPE_SIZE: hr_cell_set_count(cell, (int64_t) * (const size_t *)member); break;
  case HR_TYPE_NUMBER: hr_cell_set_number(cell, *(const double *)member); break;
  case HR_TYPE_FLOAT: hr_cell_set_number(cell, (double)*(const float *)member); break;
  case HR_TYPE_FLAG:
    hr_cell_set_flag(cell, *(const bool *)member);
    break;
    HR_NAMED_TYPES(NAMED_TYPE_CASE)
  }
}

hr_style hr_verdict_style(hr_verdict verdict)
{
  static const hr_style styles[] = {[HR_VERDICT_SAME] = HR_STYLE_PLAIN,
                                    [HR_VERDICT_FASTER] = HR_STYLE_GREEN,
                                    [HR_VERDICT_SLOWER] = HR_STYLE_RED,
                                    [HR_VERDICT_NOISY] = HR_STYLE_YELLOW};
  return (unsigned)verdict < HR_VERDICT_COUNT ? styles[verdict] : HR_STYLE_PLAIN;
}

void hr_column_read(const hr_column *column, const void *row, hr_cell *cell)
{
  cell->type = HR_CELL_NONE;
  cell->style = HR_STYLE_PLAIN;
  const char *base = row;
  if (column->indirect)
    memcpy(&base, base + column->pointer, sizeof base);
  if (!base)
    return;
  const void *member = base + column->offset;
  if (column->compute)
    column->compute(member, cell);
  else
    read_member(column->type, member, cell);
  if (column->type == HR_TYPE_hr_status)
    cell->style = *(const hr_status *)member == HR_OK ? HR_STYLE_GREEN : HR_STYLE_YELLOW;
  if (column->type == HR_TYPE_hr_verdict)
    cell->style = hr_verdict_style(*(const hr_verdict *)member);
  if (column->optional && cell->type == HR_CELL_TEXT && !cell->text[0])
    cell->type = HR_CELL_NONE;
}

bool hr_column_is_left(const hr_column *column)
{
  switch (column->type) {
  case HR_TYPE_COUNT:
  case HR_TYPE_SIZE:
  case HR_TYPE_NUMBER:
  case HR_TYPE_FLOAT: return false;
  default: return true;
  }
}

static void show_number(double value, hr_unit unit, char *buffer, size_t size)
{
  switch (unit) {
  case HR_PLAIN: hr_write_text(buffer, size, "%.3g", value); break;
  case HR_TIME: hr_write_time(buffer, size, value); break;
  case HR_BYTES: hr_write_bytes(buffer, size, value); break;
  case HR_FLOPS: hr_write_rate(buffer, size, value, "FLOP"); break;
  case HR_FLOPS_RATE: hr_write_rate(buffer, size, value, "FLOP/s"); break;
  case HR_BYTES_RATE: hr_write_rate(buffer, size, value, "B/s"); break;
  case HR_ENERGY: hr_write_energy(buffer, size, value); break;
  case HR_SHARE: hr_write_share(buffer, size, value); break;
  case HR_GAIN: hr_write_gain(buffer, size, value); break;
  }
}

const char *hr_cell_show(const hr_cell *cell, hr_unit unit, char *buffer, size_t size)
{
  switch (cell->type) {
  case HR_CELL_NONE: return "-";
  case HR_CELL_TEXT: return cell->text;
  case HR_CELL_FLAG: return cell->flag ? "yes" : "no";
  case HR_CELL_NUMBER: show_number(cell->number, unit, buffer, size); return buffer;
  case HR_CELL_COUNT: break;
  }
  if (unit == HR_FLOPS && cell->count == 0)
    return "-";
  if (unit == HR_PLAIN)
    hr_write_count(buffer, size, cell->count);
  else
    show_number((double)cell->count, unit, buffer, size);
  return buffer;
}

void hr_columns_select(const hr_column *columns, size_t count, const char *const *keys, size_t key_count,
                       hr_column *selected)
{
  for (size_t i = 0; i < key_count; i++) {
    for (size_t k = 0; k < count; k++) {
      if (columns[k].key && strcmp(columns[k].key, keys[i]) == 0)
        selected[i] = columns[k];
    }
  }
}
