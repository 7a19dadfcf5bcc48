/* SPDX-License-Identifier: Apache-2.0 */
/* The same work on several devices: for people a column a device, for programs a row a device. */
#include "base/error.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"
#include "report/inputs.h"

#include <headroom/experimental/offer.h>
#include <headroom/experimental/report.h>
#include <math.h>
#include <string.h>

#define FROM_TO "from … to"

/* ---- a row a device ---- */

static void whole(const void *member, hr_cell *cell)
{
  double value = *(const double *)member;
  if (isfinite(value) && fabs(value) < 0x1p62)
    hr_cell_set_count(cell, (int64_t)round(value));
}

static void any_devices(const void *member, hr_cell *cell)
{
  double devices = *(const double *)member;
  if (devices == floor(devices) && devices > 0)
    whole(member, cell);
  else if (devices > 0)
    hr_cell_format(cell, "%.1f", devices);
}

/* "1.29 M" */
static void short_number(const void *member, hr_cell *cell)
{
  char text[HR_NUMBER_SIZE];
  double value = *(const double *)member;
  hr_write_short(text, sizeof text, value);
  if (isfinite(value))
    hr_cell_set_text(cell, text);
}

static void three_digits(const void *member, hr_cell *cell)
{
  double value = *(const double *)member;
  if (isfinite(value))
    hr_cell_format(cell, "%.*f", value < 10 ? 2 : value < 100 ? 1 : 0, value);
}

/* "12.1 ms … 15.2 ms", written by `show`. */
static void write_band(const hr_offer_value *of, hr_unit unit, void (*show)(const void *member, hr_cell *cell),
                       hr_cell *cell)
{
  char from[HR_NUMBER_SIZE], to[HR_NUMBER_SIZE], buffer[HR_NUMBER_SIZE];
  const double *ends[] = {&of->low, &of->high};
  char *texts[] = {from, to};
  if (!isfinite(of->low) || !isfinite(of->high))
    return;
  for (size_t i = 0; i < 2; i++) {
    if (show)
      show(ends[i], cell);
    else
      hr_cell_set_number(cell, *ends[i]);
    snprintf(texts[i], HR_NUMBER_SIZE, "%s", hr_cell_show(cell, unit, buffer, sizeof buffer));
  }
  hr_cell_format(cell, "%s … %s", from, to);
}

#define BAND(name, unit, show)                        \
  static void name(const void *member, hr_cell *cell) \
  {                                                   \
    write_band(member, unit, show, cell);             \
  }
BAND(time_band, HR_TIME, NULL)
BAND(count_band, HR_PLAIN, whole)
BAND(short_band, HR_PLAIN, short_number)
BAND(flops_band, HR_FLOPS, NULL)
BAND(rate_band, HR_FLOPS_RATE, NULL)
BAND(number_band, HR_PLAIN, three_digits)

#define OFFER(member) HR_MEMBER(hr_offer, member)
#define COMPUTED(type, function, member) .rare = true, HR_COMPUTED_OF(type, function, hr_offer, member)
static const hr_column begin[] = {
    {"device", NULL, HR_PLAIN, 0, HR_THROUGH(hr_offer, hardware), HR_MEMBER(hr_hardware, about.name)},
    {"price_per_device_hour", NULL, HR_PLAIN, 0, OFFER(price_per_hour)},
    {NULL, "price per hour", HR_PLAIN, 0, COMPUTED(COUNT, three_digits, price_per_hour)},
    {"power_w", NULL, HR_PLAIN, 0, OFFER(power_w)},
    {NULL, "watts", HR_PLAIN, 0, COMPUTED(COUNT, whole, power_w)},
    {"devices", NULL, HR_PLAIN, 0, OFFER(devices)},
    {NULL, "devices", HR_PLAIN, 0, COMPUTED(COUNT, any_devices, devices)},
};

/* What is shown of the work, by its unit; programs have one set of keys. */
static const hr_column of_tokens[] = {
    {NULL, "tokens/s", HR_PLAIN, 0, COMPUTED(COUNT, whole, work_per_s)},
    {NULL, FROM_TO, HR_PLAIN, 0, COMPUTED(COUNT, count_band, work_per_s)},
    {NULL, "tokens per unit of money", HR_PLAIN, 0, COMPUTED(COUNT, short_number, work_per_money)},
    {NULL, FROM_TO, HR_PLAIN, 0, COMPUTED(COUNT, short_band, work_per_money)},
    {NULL, "tokens per joule", HR_PLAIN, 0, COMPUTED(COUNT, three_digits, work_per_joule)},
    {NULL, FROM_TO, HR_PLAIN, 0, COMPUTED(COUNT, number_band, work_per_joule)},
};
static const hr_column of_flops[] = {
    {NULL, "rate", HR_FLOPS_RATE, 0, .rare = true, OFFER(work_per_s.value)},
    {NULL, FROM_TO, HR_PLAIN, 0, COMPUTED(COUNT, rate_band, work_per_s)},
    {NULL, "work per unit of money", HR_FLOPS, 0, .rare = true, OFFER(work_per_money.value)},
    {NULL, FROM_TO, HR_PLAIN, 0, COMPUTED(COUNT, flops_band, work_per_money)},
    {NULL, "work per joule", HR_FLOPS, 0, .rare = true, OFFER(work_per_joule.value)},
    {NULL, FROM_TO, HR_PLAIN, 0, COMPUTED(COUNT, flops_band, work_per_joule)},
};
#define WITH_BAND(name, member)                                                                        \
  {name, NULL, HR_PLAIN, 0, OFFER(member.value)}, {name "_low", NULL, HR_PLAIN, 0, OFFER(member.low)}, \
  {                                                                                                    \
    name "_high", NULL, HR_PLAIN, 0, OFFER(member.high)                                                \
  }
static const hr_column end[] = {
    WITH_BAND("work_per_s", work_per_s),
    WITH_BAND("work_per_money", work_per_money),
    WITH_BAND("work_per_joule", work_per_joule),
    {"gemm_flops_per_s", "GEMM set", HR_FLOPS_RATE, 0, OFFER(gemm_flops_per_s)},
    {"words", NULL, HR_PLAIN, 0, HR_OPTIONAL(hr_offer, words)},
    {"why", NULL, HR_PLAIN, 0, HR_OPTIONAL(hr_offer, why)},
};

/* ---- figures of a command ---- */

static const struct shown_unit {
  hr_unit unit;
  void (*show)(const void *member, hr_cell *cell); /* NULL: by the unit */
  void (*band)(const void *member, hr_cell *cell);
} units[] = {[HR_OFFER_COUNT] = {HR_PLAIN, whole, count_band},
             [HR_OFFER_TIME] = {HR_TIME, NULL, time_band},
             [HR_OFFER_BYTES] = {HR_BYTES, NULL, NULL},
             [HR_OFFER_SHARE] = {HR_SHARE, NULL, NULL},
             [HR_OFFER_NUMBER] = {HR_PLAIN, three_digits, number_band}};

#define KEY_SIZE 48
#define COLUMNS_MAX (7 + 6 + 12 + 1 + 5 * HR_OFFER_FIGURES_MAX)

/* The columns of a table of offers; its rows are offers. */
typedef struct offer_columns {
  hr_column list[COLUMNS_MAX];
  size_t count;
  char low[HR_OFFER_FIGURES_MAX][KEY_SIZE], high[HR_OFFER_FIGURES_MAX][KEY_SIZE];
} offer_columns;

static void add(offer_columns *columns, const hr_column *added, size_t count)
{
  memcpy(&columns->list[columns->count], added, count * sizeof *added);
  columns->count += count;
}

/* "ttft_low_ns": the unit stays at the end. */
static void write_key(char *to, const hr_offer_figure *figure, const char *of_band)
{
  size_t length = strlen(figure->key), unit = figure->unit == HR_OFFER_TIME && length > 3 ? 3 : 0;
  snprintf(to, KEY_SIZE, "%.*s_%s%s", (int)(length - unit), figure->key, of_band, figure->key + length - unit);
}

static void add_figure(offer_columns *columns, const hr_offer_figure *figure, size_t i)
{
  const struct shown_unit *unit = &units[figure->unit];
  size_t at = offsetof(hr_offer, figures) + i * sizeof(hr_offer_value);
  bool counted = figure->unit == HR_OFFER_COUNT || figure->unit == HR_OFFER_BYTES;
  hr_column shown = {NULL,         figure->title,          unit->unit,   0,
                     .rare = true, .type = HR_TYPE_NUMBER, .offset = at, .compute = unit->show};
  hr_column of_band = {
      NULL, FROM_TO, HR_PLAIN, 0, .rare = true, .type = HR_TYPE_COUNT, .offset = at, .compute = unit->band};
  hr_column data = {
      figure->key, NULL, HR_PLAIN, 0, .type = HR_TYPE_NUMBER, .offset = at, .compute = counted ? whole : NULL};
  add(columns, &shown, 1);
  add(columns, &data, 1);
  if (!unit->band || counted)
    return;
  write_key(columns->low[i], figure, "low");
  write_key(columns->high[i], figure, "high");
  add(columns, &of_band, 1);
  data.key = columns->low[i], data.offset = at + offsetof(hr_offer_value, low);
  add(columns, &data, 1);
  data.key = columns->high[i], data.offset = at + offsetof(hr_offer_value, high);
  add(columns, &data, 1);
}

static void fill_columns(offer_columns *columns, const hr_offers *offers)
{
  const hr_column words = {NULL, offers->words_title, HR_PLAIN, 0, .rare = true, HR_OPTIONAL(hr_offer, words)};
  columns->count = 0;
  add(columns, begin, HR_COUNT_OF(begin));
  for (size_t i = 0; i < offers->figure_count; i++)
    add_figure(columns, &offers->figures[i], i);
  add(columns, offers->tokens ? of_tokens : of_flops, HR_COUNT_OF(of_tokens));
  add(columns, end, HR_COUNT_OF(end));
  add(columns, &words, 1);
}

static hr_table *offer_table(const offer_columns *columns, const hr_offers *offers)
{
  hr_table *table = hr_table_create(columns->list, columns->count, sizeof(hr_offer));
  for (size_t i = 0; i < offers->count; i++)
    hr_table_add(table, &offers->offers[i]);
  return table;
}

/* ---- a column a device ---- */

#define CELL_SIZE 96
#define GAP 2 /* between columns of a terminal */

typedef struct line {
  char title[40];
  char cells[HR_OFFERS_MAX][CELL_SIZE];
} line;

static void text(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, member);
}

/* Each shown column of `table` becomes a line, bands if they are asked for. `columns` outlives what is returned. */
static hr_table *transpose(const hr_table *table, const hr_offers *offers, bool bands,
                           hr_column columns[HR_OFFERS_MAX + 1])
{
  columns[0] = (hr_column){NULL, "", HR_PLAIN, 0, HR_MEMBER(line, title)};
  for (size_t i = 0; i < offers->count; i++)
    columns[1 + i] = (hr_column){NULL,
                                 offers->offers[i].hardware->about.name,
                                 HR_PLAIN,
                                 0,
                                 .type = HR_TYPE_COUNT,
                                 .offset = offsetof(line, cells) + i * CELL_SIZE,
                                 .compute = text};
  hr_table *lines = hr_table_create(columns, offers->count + 1, sizeof(line));
  for (size_t i = 0; i < hr_table_width(table); i++) {
    line row;
    if (!hr_table_shows_column(table, i) || (!bands && strcmp(hr_table_column(table, i)->title, FROM_TO) == 0))
      continue;
    snprintf(row.title, sizeof row.title, "%s", hr_table_column(table, i)->title);
    for (size_t k = 0; k < offers->count; k++) {
      hr_cell cell;
      char buffer[HR_NUMBER_SIZE];
      snprintf(row.cells[k], CELL_SIZE, "%.95s", hr_table_show(table, k, i, &cell, buffer, sizeof buffer));
    }
    hr_table_add(lines, &row);
  }
  return lines;
}

static bool is_too_wide(const hr_table *lines, const hr_report_options *options)
{
  int width = 0;
  for (size_t i = 0; i < hr_table_width(lines); i++)
    width += hr_table_natural_width(lines, i) + (i > 0 ? GAP : 0);
  return options->format == HR_FORMAT_TABLE && options->width > 0 && width > options->width;
}

/* A terminal that is too narrow for the bands has the predictions alone. */
static hr_status print_lines(const hr_document *document, const hr_offers *offers, const hr_table *table,
                             hr_error *error)
{
  hr_column columns[HR_OFFERS_MAX + 1];
  hr_table *lines = transpose(table, offers, true, columns);
  if (!hr_table_is_complete(lines) || !is_too_wide(lines, document->options))
    return hr_print_table(document, lines, error);
  hr_table_free(lines);
  HR_TRY(hr_print_table(document, transpose(table, offers, false, columns), error));
  hr_print_paragraph(document, "left out at this width: " FROM_TO);
  return HR_OK;
}

/* ---- what is best ---- */

/* The offer with most of `member`, and the one after it; NULL if there is none. */
static const hr_offer *most(const hr_offers *offers, size_t member, const hr_offer *but)
{
  const hr_offer *best = NULL;
  double least = 0;
  for (size_t i = 0; i < offers->count; i++) {
    const hr_offer *offer = &offers->offers[i];
    double value = ((const hr_offer_value *)(const void *)((const char *)offer + member))->value;
    if (offer != but && !offer->why[0] && isfinite(value) && value > least)
      best = offer, least = value;
  }
  return best;
}

static const char *bands_of(const hr_offer_value *best, const hr_offer_value *next)
{
  if (!isfinite(best->low) || !isfinite(next->high))
    return "";
  return best->low < next->high ? "; their bands overlap" : "; all of its band is above";
}

static void print_most(const hr_document *document, const hr_offers *offers, const char *label, size_t member)
{
  const hr_offer *best = most(offers, member, NULL), *next = most(offers, member, best);
  if (!best || !next)
    return;
  const hr_offer_value *a = (const hr_offer_value *)(const void *)((const char *)best + member);
  const hr_offer_value *b = (const hr_offer_value *)(const void *)((const char *)next + member);
  hr_print_field(document, label, "%s: %.3g times the work of %s%s", best->hardware->about.name, a->value / b->value,
                 next->hardware->about.name, bands_of(a, b));
}

static void print_rule(const hr_document *document, const hr_offers *offers)
{
  size_t plans = 0;
  for (size_t i = 0; i < offers->count; i++)
    plans += offers->offers[i].devices > 0;
  if (plans > 2 && isfinite(offers->rank_correlation))
    hr_print_field(document, "GEMMs as rule",
                   "rank correlation %.2f of the GEMM set with the work of a device, %zu plans",
                   offers->rank_correlation, plans);
}

static hr_status write_text(hr_document *document, const hr_offers *offers, const hr_table *table, hr_error *error)
{
  hr_print_title(document, "Headroom: %s on %zu devices", offers->about, offers->count);
  if (offers->model)
    hr_print_model(document, offers->model);
  hr_print_field(document, offers->command, "%s", offers->about);
  for (size_t i = 0; i < offers->count; i++)
    hr_print_hardware(document, offers->offers[i].hardware);
  hr_print_heading(document, "Side by side");
  HR_TRY(print_lines(document, offers, table, error));
  hr_print_heading(document, "What is best");
  print_most(document, offers, "per money", offsetof(hr_offer, work_per_money));
  print_most(document, offers, "per joule", offsetof(hr_offer, work_per_joule));
  for (size_t i = 0; i < offers->count; i++) {
    if (offers->offers[i].why[0])
      hr_print_field(document, "note", "%s: %s", offers->offers[i].hardware->about.name, offers->offers[i].why);
  }
  print_rule(document, offers);
  return HR_OK;
}

static hr_status write_json(FILE *out, const hr_offers *offers, hr_table *table, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("offers/1", &failed);
  hr_json_put_text(json, "command", offers->command);
  hr_json_put_text(json, "about", offers->about);
  hr_json_put_text(json, "model", offers->model ? offers->model->name : NULL);
  hr_json_put_text(json, "work", offers->tokens ? "token" : "flop");
  hr_json_put_number(json, "rank_correlation", offers->rank_correlation);
  hr_json_put_table(json, "devices", table);
  return hr_json_write(out, json, error);
}

hr_status hr_report_offers(FILE *out, const hr_report_options *options, const hr_offers *offers, hr_error *error)
{
  HR_NEED(error, out, options, offers);
  HR_NEED(error, offers->offers);
  if (offers->count > HR_OFFERS_MAX || offers->figure_count > HR_OFFER_FIGURES_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "offers: at most %d with %d figures, found %zu with %zu", HR_OFFERS_MAX,
                   HR_OFFER_FIGURES_MAX, offers->count, offers->figure_count);
  HR_TAKE(hr_report_options, options, error);
  offer_columns columns;
  hr_document document;
  fill_columns(&columns, offers);
  hr_document_begin(&document, out, options);
  hr_table *table = offer_table(&columns, offers);
  hr_status status;
  if (options->format == HR_FORMAT_JSON)
    return hr_document_end(&document, write_json(out, offers, table, error), error);
  if (options->format == HR_FORMAT_CSV)
    status = hr_table_write(table, out, options, error);
  else
    status = write_text(&document, offers, table, error);
  hr_table_free(table);
  return hr_document_end(&document, status, error);
}
