/* SPDX-License-Identifier: Apache-2.0 */
/* The ceilings of a device side by side: its data sheet, its instructions, its library. */
#include "report/ceilings.h"

#include "base/quantity.h"
#include "base/text.h"
#include "hardware/hardware.h"

#include <headroom/experimental/hardware.h>
#include <math.h>

#define CAPPED 0.95 /* of the power limit: a loop that draws so much is held by it */

static double datasheet_of(const hr_hardware *hardware, const hr_ceiling *c)
{
  if (c->kind == HR_CEILING_GEMM)
    return hardware->dense_flops_per_s[c->dtype];
  return c->kind == HR_CEILING_EXP || hardware->about.kind != HR_HARDWARE_GPU ? 0 : hardware->bandwidth_bytes_per_s;
}

/* 0 if the library's rate is only estimated. */
static double library_of(const hr_hardware *hardware, const hr_ceiling *c)
{
  if (hardware->about.calibration < HR_CALIBRATION_PUBLISHED)
    return 0;
  if (c->kind == HR_CEILING_GEMM)
    return hardware->dense_flops_per_s[c->dtype] * hardware->library_share[c->dtype];
  return c->kind == HR_CEILING_COPY ? hardware->bandwidth_bytes_per_s * hardware->bandwidth_share : 0;
}

typedef struct ceiling_row {
  const hr_ceiling *ceiling;
  const char *dtype; /* NULL unless it is of GEMMs */
  char subject[32], datasheet[HR_NUMBER_SIZE], instruction[HR_NUMBER_SIZE], library[HR_NUMBER_SIZE];
  char core[HR_NUMBER_SIZE], clock[HR_NUMBER_SIZE], power[HR_NUMBER_SIZE], energy[HR_NUMBER_SIZE];
} ceiling_row;

static void positive(const void *member, hr_cell *cell)
{
  const double *number = member;
  hr_cell_set_number(cell, *number > 0 ? *number : (double)NAN);
}

static void kind(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, hr_ceiling_kind_name(*(const hr_ceiling_kind *)member));
}

#define CEILING HR_THROUGH(ceiling_row, ceiling)
#define SHOWN(member) HR_OPTIONAL(ceiling_row, member)
static const hr_column columns[] = {
    {"kind", NULL, HR_PLAIN, 0, CEILING, HR_COMPUTED_OF(TEXT, kind, hr_ceiling, kind)},
    {"dtype", NULL, HR_PLAIN, 0, HR_MEMBER(ceiling_row, dtype)},
    {"instruction", NULL, HR_PLAIN, 0, CEILING, HR_MEMBER(hr_ceiling, instruction)},
    {"per_s", NULL, HR_PLAIN, 0, CEILING, HR_MEMBER(hr_ceiling, per_s)},
    {"core_per_s", NULL, HR_PLAIN, 0, CEILING, HR_COMPUTED_OF(NUMBER, positive, hr_ceiling, core_per_s)},
    {"clock_hz", NULL, HR_PLAIN, 0, CEILING, HR_COMPUTED_OF(NUMBER, positive, hr_ceiling, clock_hz)},
    {"power_w", NULL, HR_PLAIN, 0, CEILING, HR_COMPUTED_OF(NUMBER, positive, hr_ceiling, power_w)},
    {NULL, "of", HR_PLAIN, 0, SHOWN(subject)},
    {NULL, "data sheet", HR_PLAIN, 0, SHOWN(datasheet)},
    {NULL, "instruction", HR_PLAIN, 0, SHOWN(instruction)},
    {NULL, "library", HR_PLAIN, 0, SHOWN(library)},
    {NULL, "one core", HR_PLAIN, 2, SHOWN(core)},
    {NULL, "by", HR_PLAIN, 1, CEILING, HR_MEMBER(hr_ceiling, instruction)},
    {NULL, "clock", HR_PLAIN, 3, SHOWN(clock)},
    {NULL, "power", HR_PLAIN, 3, SHOWN(power), .rare = true},
    {NULL, "energy", HR_PLAIN, 3, SHOWN(energy), .rare = true},
};

static void write_rate(char to[HR_NUMBER_SIZE], const hr_ceiling *c, double per_s)
{
  const char *unit = c->kind == HR_CEILING_GEMM ? "FLOP/s" : c->kind == HR_CEILING_EXP ? "exp/s" : "B/s";
  if (per_s > 0)
    hr_write_rate(to, HR_NUMBER_SIZE, per_s, unit);
}

static ceiling_row row_of(const hr_hardware *hardware, const hr_ceiling *c)
{
  ceiling_row row = {.ceiling = c, .dtype = c->kind == HR_CEILING_GEMM ? hr_dtype_name(c->dtype) : NULL};
  snprintf(row.subject, sizeof row.subject, "%s%s", row.dtype ? row.dtype : hr_ceiling_kind_name(c->kind),
           row.dtype ? " matmul" : "");
  write_rate(row.datasheet, c, datasheet_of(hardware, c));
  write_rate(row.instruction, c, c->per_s);
  write_rate(row.library, c, library_of(hardware, c));
  write_rate(row.core, c, c->core_per_s);
  if (c->clock_hz > 0)
    hr_write_text(row.clock, sizeof row.clock, "%.0f MHz", c->clock_hz * 1e-6);
  if (c->power_w > 0) {
    hr_write_text(row.power, sizeof row.power, "%.0f W", c->power_w);
    hr_write_text(row.energy, sizeof row.energy, "%.3g J/%s", c->power_w / c->per_s * 1e12,
                  c->kind == HR_CEILING_GEMM  ? "TFLOP"
                  : c->kind == HR_CEILING_EXP ? "T exp"
                                              : "TB");
  }
  return row;
}

hr_table *hr_ceiling_table(const hr_hardware *hardware)
{
  hr_table *table = HR_TABLE_OF(columns, ceiling_row);
  for (size_t i = 0; i < hardware->ceiling_count; i++) {
    ceiling_row row = row_of(hardware, &hardware->ceilings[i]);
    hr_table_add(table, &row);
  }
  return table;
}

bool hr_ceiling_power_note(const hr_hardware *hardware, char line[HR_CEILING_NOTE_SIZE])
{
  if (!(hardware->power_limit_w > 0))
    return false;
  const hr_ceiling *most = NULL;
  for (size_t i = 0; i < hardware->ceiling_count; i++) {
    if (!most || hardware->ceilings[i].power_w > most->power_w)
      most = &hardware->ceilings[i];
  }
  if (!most || !(most->power_w > 0))
    hr_write_text(line, HR_CEILING_NOTE_SIZE, "Power limit of %s: %.0f W", hardware->about.name,
                  hardware->power_limit_w);
  else if (most->power_w < CAPPED * hardware->power_limit_w || !(hardware->clock_hz > most->clock_hz))
    hr_write_text(line, HR_CEILING_NOTE_SIZE, "Power limit of %s: %.0f W, which no loop reaches (%s: %.0f W)",
                  hardware->about.name, hardware->power_limit_w, most->instruction, most->power_w);
  else
    hr_write_text(
        line, HR_CEILING_NOTE_SIZE,
        "Power limit of %s: %.0f W. It holds %s at %.0f MHz of %.0f: work at the limit takes time in proportion to its "
        "energy",
        hardware->about.name, hardware->power_limit_w, most->instruction, most->clock_hz * 1e-6,
        hardware->clock_hz * 1e-6);
  return true;
}

bool hr_ceiling_clock_note(const hr_hardware *hardware, char line[HR_CEILING_NOTE_SIZE])
{
  double most = 1;
  for (size_t i = 0; i < hardware->ceiling_count; i++) {
    const hr_ceiling *c = &hardware->ceilings[i];
    double datasheet = datasheet_of(hardware, c);
    if (datasheet > 0)
      most = fmax(most, fmax(c->per_s, library_of(hardware, c)) / datasheet);
  }
  if (hardware->about.kind != HR_HARDWARE_CPU || most < 1.005)
    return false;
  hr_write_text(
      line, HR_CEILING_NOTE_SIZE,
      "The data sheet rates of %s are computed from its instruction set and the %.2f GHz that the system reports. "
      "Rates above them show that the clock was higher: at least %.2f GHz",
      hardware->about.name, hardware->clock_hz * 1e-9, hardware->clock_hz * most * 1e-9);
  return true;
}
