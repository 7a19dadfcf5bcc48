/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/figures.h"

#include "base/error.h"
#include "base/names.h"
#include "base/text.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* In enumerator order. */
static const char *const calibration_names[] = {"estimated", "datasheet", "published", "measured"};
static const char *const ceiling_names[] = {"gemm", "exp", "read", "copy"};
static const char *const interval_names[HR_INTERVAL_KIND_COUNT] = {
    "gemm",      "gemm_misaligned", "bmm",           "attention",  "decode", "latent",    "latent_prefill", "experts",
    "gemm_8bit", "bmm_misaligned",  "own_attention", "own_decode", "scan",   "collective"};
HR_DEFINE_NAME(hr_calibration_name, hr_calibration, calibration_names, HR_CALIBRATION_MEASURED + 1)
HR_DEFINE_NAME(hr_ceiling_kind_name, hr_ceiling_kind, ceiling_names, HR_CEILING_COPY + 1)
HR_DEFINE_NAME(hr_interval_kind_name, hr_interval_kind, interval_names, HR_INTERVAL_KIND_COUNT)

static const char *device_kind_name(hr_hardware_kind kind)
{
  return kind == HR_HARDWARE_GPU ? "gpu" : kind == HR_HARDWARE_CPU ? "cpu" : "unknown";
}

#define HR_BOUNDS(name, least, most, unit)
#define HR_WORDS(name, type, name_of, most)    \
  static const char *name_of_##name(int value) \
  {                                            \
    return name_of((type)value);               \
  }
#include "hardware/figures.inc"

enum {
#define HR_BOUNDS(name, least, most, unit) BOUNDS_##name,
#define HR_WORDS(name, type, name_of, most) BOUNDS_##name,
#include "hardware/figures.inc"
};

static const hr_figure_bounds bounds[] = {
#define HR_BOUNDS(name, least, most, unit) {least, most, unit, NULL},
#define HR_WORDS(name, type, name_of, most) {0, most, "", name_of_##name},
#include "hardware/figures.inc"
};

#define NEEDED .needed = true
#define GIVEN .needed = true, .zero = true
#define OPTIONAL .zero = true
#define OTHERWISE(value) .missing = value
#define OWN(presence) .own = true, presence
#define FIT(rows, presence) presence
#define FIT_SHARE(rows, presence) presence
#define FIT_EXCESS(rows, presence) presence
#define FIT_BUT_FIRST(rows, presence) presence
#define FIT_BUT_LAST(rows, presence) presence
#define AT(member) .offset = offsetof(hr_hardware, member)
#define IS_INTEGER(type) .integer = _Generic((type)0, double : false, default : true)

#define COST(object, member, presence, name) \
  {#object, #member, HR_PLACE_OBJECT, AT(object.member), presence, .bounds = &bounds[BOUNDS_##name]},
#define ROW(list, count, type, member, presence, name)                                   \
  {#list,                                                                                \
   #member,                                                                              \
   HR_PLACE_LIST,                                                                        \
   AT(list[0].member),                                                                   \
   presence,                                                                             \
   .stride = sizeof(((hr_hardware *)NULL)->list[0]),                                     \
   .count_offset = offsetof(hr_hardware, count),                                         \
   .most = sizeof(((hr_hardware *)NULL)->list) / sizeof(((hr_hardware *)NULL)->list[0]), \
   IS_INTEGER(type),                                                                     \
   .bounds = &bounds[BOUNDS_##name]},

#define HR_NUMBER(member, presence, name) {NULL, #member, AT(member), presence, .bounds = &bounds[BOUNDS_##name]},
#define HR_COUNT(member, presence, name) \
  {NULL, #member, AT(member), presence, .integer = true, .bounds = &bounds[BOUNDS_##name]},
#define HR_WORD(field, member, words) \
  {NULL, #field, AT(member), OWN(NEEDED), .integer = true, .bounds = &bounds[BOUNDS_##words]},
#define HR_FORMATS(member, presence, name) \
  {#member, NULL, HR_PLACE_FORMATS, AT(member), presence, .stride = sizeof(double), .bounds = &bounds[BOUNDS_##name]},
#define HR_OBJECT(type, member, numbers, rows) numbers(COST, member)
#define HR_LIST(type, member, count, most, numbers) numbers(ROW, member, count)
#define HR_FORMER(field, member) {NULL, #field, AT(member), OPTIONAL, .former = true, .bounds = &bounds[BOUNDS_TIME]},
static const hr_device_figure figures[] = {
#include "hardware/figures.inc"
};

const hr_device_figure *hr_device_figures(size_t *count)
{
  *count = sizeof figures / sizeof *figures;
  return figures;
}

size_t hr_device_figure_numbers(const hr_hardware *hardware, const hr_device_figure *figure)
{
  size_t count = figure->place == HR_PLACE_FORMATS ? HR_DTYPE_COUNT : 1;
  if (figure->place == HR_PLACE_LIST)
    memcpy(&count, (const char *)hardware + figure->count_offset, sizeof count);
  return count;
}

void hr_device_figure_resize(hr_hardware *hardware, const hr_device_figure *figure, size_t rows)
{
  memcpy((char *)hardware + figure->count_offset, &rows, sizeof rows);
}

double hr_device_figure_get(const hr_hardware *hardware, const hr_device_figure *figure, size_t index)
{
  const char *at = (const char *)hardware + figure->offset + index * figure->stride;
  double number;
  int64_t count;
  int word;
  if (figure->bounds->name)
    return memcpy(&word, at, sizeof word), word;
  memcpy(&number, at, sizeof number);
  memcpy(&count, at, sizeof count);
  return figure->integer ? (double)count : number;
}

void hr_device_figure_set(hr_hardware *hardware, const hr_device_figure *figure, size_t index, double value)
{
  char *at = (char *)hardware + figure->offset + index * figure->stride;
  if (figure->bounds->name)
    memcpy(at, &(int){(int)value}, sizeof(int));
  else if (figure->integer)
    memcpy(at, &(int64_t){llround(value)}, sizeof(int64_t));
  else
    memcpy(at, &value, sizeof value);
}

bool hr_device_figure_allows(const hr_device_figure *figure, double value)
{
  return (value == 0 && figure->zero) || (value >= figure->bounds->least && value <= figure->bounds->most);
}

void hr_device_figure_name(const hr_device_figure *figure, size_t index, char *to, size_t size)
{
  switch (figure->place) {
  case HR_PLACE_ALONE: hr_write_text(to, size, "%s", figure->field); return;
  case HR_PLACE_FORMATS: hr_write_text(to, size, "%s.%s", figure->object, hr_dtype_name((hr_dtype)index)); return;
  case HR_PLACE_OBJECT: hr_write_text(to, size, "%s.%s", figure->object, figure->field); return;
  case HR_PLACE_LIST: hr_write_text(to, size, "%s[%zu].%s", figure->object, index, figure->field); return;
  }
}

static hr_status check_number(const hr_device_figure *figure, size_t index, double value, hr_error *error)
{
  char name[64];
  if (hr_device_figure_allows(figure, value))
    return HR_OK;
  hr_device_figure_name(figure, index, name, sizeof name);
  return hr_fail(error, HR_ERROR_INVALID, "%s: expected %s%g to %g, found %.10g", name, figure->zero ? "0 or " : "",
                 figure->bounds->least, figure->bounds->most, value);
}

static hr_status check_count(const hr_hardware *hardware, const hr_device_figure *figure, hr_error *error)
{
  const size_t count = hr_device_figure_numbers(hardware, figure);
  if (figure->place != HR_PLACE_LIST || count <= figure->most)
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID, "%s (count): expected at most %zu, found %zu", figure->object, figure->most,
                 count);
}

hr_status hr_device_figures_check(const hr_hardware *hardware, hr_error *error)
{
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
    const hr_device_figure *figure = &figures[i];
    HR_TRY(check_count(hardware, figure, error));
    for (size_t at = 0; at < hr_device_figure_numbers(hardware, figure) && !figure->former; at++)
      HR_TRY(check_number(figure, at, hr_device_figure_get(hardware, figure, at), error));
  }
  return HR_OK;
}

static hr_status find_number(const hr_hardware *hardware, const char *name, const hr_device_figure **found,
                             size_t *index, hr_error *error)
{
  char own[64];
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
    const hr_device_figure *figure = &figures[i];
    for (size_t at = 0; at < hr_device_figure_numbers(hardware, figure) && !figure->former && !figure->bounds->name;
         at++) {
      hr_device_figure_name(figure, at, own, sizeof own);
      if (strcmp(own, name) != 0)
        continue;
      *found = figure, *index = at;
      return HR_OK;
    }
  }
  return hr_fail(error, HR_ERROR_NOT_FOUND, "%s has no figure \"%.60s\"",
                 hardware->about.name[0] ? hardware->about.name : "the device", name);
}

hr_status hr_hardware_number(const hr_hardware *hardware, const char *figure, double *value, hr_error *error)
{
  HR_NEED(error, hardware, figure, value);
  const hr_device_figure *found;
  size_t index;
  HR_TRY(find_number(hardware, figure, &found, &index, error));
  *value = hr_device_figure_get(hardware, found, index);
  return HR_OK;
}

hr_status hr_hardware_set_number(hr_hardware *hardware, const char *figure, double value, hr_error *error)
{
  HR_NEED(error, hardware, figure);
  const hr_device_figure *found;
  size_t index;
  HR_TRY(find_number(hardware, figure, &found, &index, error));
  HR_TRY(check_number(found, index, value, error));
  hr_device_figure_set(hardware, found, index, value);
  return HR_OK;
}
