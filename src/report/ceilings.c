/* The three ceilings of a device side by side: its data sheet, its instructions, its library. */
#include "report/ceilings.h"

#include "report/text.h"

#include <math.h>
#include <stdio.h>

static const hr_column columns[] = {
    {NULL, "of", HR_CELL_TEXT, 0},      {NULL, "data sheet", HR_CELL_TEXT, 0}, {NULL, "instruction", HR_CELL_TEXT, 0},
    {NULL, "library", HR_CELL_TEXT, 0}, {NULL, "one core", HR_CELL_TEXT, 2},   {NULL, "by", HR_CELL_TEXT, 1},
    {NULL, "clock", HR_CELL_TEXT, 3},
};

static const char *unit_of(hr_ceiling_kind kind)
{
  return kind == HR_CEILING_PRODUCT ? "FLOP/s" : kind == HR_CEILING_EXP ? "exp/s" : "B/s";
}

static void put_rate(hr_table *table, double per_s, hr_ceiling_kind kind)
{
  char text[HR_NUMBER_SIZE];
  hr_write_rate(text, sizeof text, per_s, unit_of(kind));
  hr_put_text(table, per_s > 0 ? text : NULL);
}

static double datasheet_of(const hr_hardware *hardware, const hr_ceiling *c)
{
  if (c->kind == HR_CEILING_PRODUCT)
    return hardware->dense_flops_per_s[c->dtype];
  return c->kind == HR_CEILING_EXP || hardware->kind != HR_HARDWARE_GPU ? 0 : hardware->bandwidth_bytes_per_s;
}

/* 0 where it was only estimated. */
static double library_of(const hr_hardware *hardware, const hr_ceiling *c)
{
  if (hardware->calibration < HR_CALIBRATION_PUBLISHED)
    return 0;
  if (c->kind == HR_CEILING_PRODUCT)
    return hardware->dense_flops_per_s[c->dtype] * hardware->library_share[c->dtype];
  return c->kind == HR_CEILING_COPY ? hardware->bandwidth_bytes_per_s * hardware->bandwidth_share : 0;
}

static void put_row(hr_table *table, const hr_hardware *hardware, const hr_ceiling *c)
{
  char what[32], clock[HR_NUMBER_SIZE];
  snprintf(what, sizeof what, "%s%s", c->kind == HR_CEILING_PRODUCT ? hr_dtype_name(c->dtype) : "",
           c->kind == HR_CEILING_PRODUCT ? " products" : hr_ceiling_kind_name(c->kind));
  hr_put_text(table, what);
  put_rate(table, datasheet_of(hardware, c), c->kind);
  put_rate(table, c->per_s, c->kind);
  put_rate(table, library_of(hardware, c), c->kind);
  put_rate(table, c->core_per_s, c->kind);
  hr_put_text(table, c->instruction);
  snprintf(clock, sizeof clock, "%.0f MHz", c->clock_hz * 1e-6);
  hr_put_text(table, c->clock_hz > 0 ? clock : NULL);
}

hr_table *hr_ceiling_table(const hr_hardware *hardware)
{
  hr_table *table = hr_table_create(columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < hardware->ceiling_count; i++)
    put_row(table, hardware, &hardware->ceilings[i]);
  return table;
}

bool hr_ceiling_words(const hr_hardware *hardware, char line[HR_CEILING_WORDS])
{
  double most = 1;
  for (size_t i = 0; i < hardware->ceiling_count; i++) {
    const hr_ceiling *c = &hardware->ceilings[i];
    double datasheet = datasheet_of(hardware, c);
    if (datasheet > 0)
      most = fmax(most, fmax(c->per_s, library_of(hardware, c)) / datasheet);
  }
  if (hardware->kind != HR_HARDWARE_CPU || most < 1.005)
    return false;
  snprintf(
      line, HR_CEILING_WORDS,
      "The data sheet of %s is its instruction set at the %.2f GHz that the system tells. Rates above it show that the "
      "clock was higher: %.2f GHz at least",
      hardware->name, hardware->clock_hz * 1e-9, hardware->clock_hz * most * 1e-9);
  return true;
}

void hr_json_put_ceilings(hr_json document, const hr_hardware *hardware)
{
  json_t *list = json_array();
  hr_json_put(document, "ceilings", list);
  for (size_t i = 0; list && i < hardware->ceiling_count; i++) {
    const hr_ceiling *c = &hardware->ceilings[i];
    hr_json row = {json_object(), document.failed};
    hr_json_put_text(row, "kind", hr_ceiling_kind_name(c->kind));
    hr_json_put_text(row, "dtype", c->kind == HR_CEILING_PRODUCT ? hr_dtype_name(c->dtype) : NULL);
    hr_json_put_text(row, "instruction", c->instruction);
    hr_json_put_number(row, "per_s", c->per_s);
    hr_json_put_number(row, "core_per_s", c->core_per_s > 0 ? c->core_per_s : (double)NAN);
    hr_json_put_number(row, "clock_hz", c->clock_hz > 0 ? c->clock_hz : (double)NAN);
    if (json_array_append_new(list, row.object) != 0)
      *document.failed = true;
  }
}
