/* SPDX-License-Identifier: Apache-2.0 */
/* Any texts and numbers in a figure: the gnuplot script ends, is not much longer than they are, has them in quotes that
 * close on their line, and outside of quotes what the library writes.
 *
 * Input: eight bytes that choose the form, the picture, its width, scales, and how many names, series and points there
 * are; then texts, which end at a NUL, and numbers, eight bytes each, in turn. */
#include "expect.h"
#include "fuzz.h"

#include "base/names.h"
#include "figure/figure.h"

#include <math.h>
#include <string.h>

#define SCRIPT_MAX ((size_t)8 << 20)
#define POINTS_MAX 6

typedef struct input {
  const uint8_t *data;
  size_t size;
} input;

static unsigned take_byte(input *in)
{
  if (in->size == 0)
    return 0;
  in->size--;
  return *in->data++;
}

static double take_number(input *in)
{
  double number = 1;
  if (in->size < sizeof number)
    return (double)take_byte(in);
  memcpy(&number, in->data, sizeof number);
  in->data += sizeof number;
  in->size -= sizeof number;
  return number;
}

static void take_text(input *in, char *to, size_t size)
{
  char text[2 * HR_FIGURE_TEXT];
  size_t length = 0;
  for (unsigned c = take_byte(in); c != 0; c = take_byte(in)) {
    if (length + 1 < sizeof text)
      text[length++] = (char)c;
  }
  text[length] = '\0';
  hr_copy_text(to, size, text);
}

/* Points of bars and heatmaps are at names; lines have them anywhere. */
static void add_series(input *in, hr_figure *figure, unsigned points)
{
  char name[HR_FIGURE_TEXT];
  take_text(in, name, sizeof name);
  unsigned kind = take_byte(in);
  size_t series = hr_figure_add_series(figure, name, (hr_figure_mark)(kind % 4), (hr_figure_origin)(kind / 4 % 5));
  for (unsigned i = 0; i < points; i++) {
    hr_figure_point point = hr_figure_value((double)i, take_number(in));
    if (figure->form == HR_FIGURE_LINES && figure->x.scale != HR_FIGURE_SCALE_NAMES)
      point.x = take_number(in);
    if (!isfinite(point.x)) /* where a point is, is known */
      point.x = 1;
    if (!isfinite(point.y)) {
      point.y = NAN;
      point.status = HR_ERROR_OUT_OF_MEMORY;
    }
    point.low = point.y / 2, point.high = point.y * 2;
    take_text(in, point.label, sizeof point.label);
    hr_figure_add_point(figure, series, point);
  }
}

static hr_figure *read_figure(input *in, hr_figure_options *options)
{
  hr_figure *figure = hr_figure_new(), *ended = NULL;
  hr_error error = {.status = HR_OK};
  EXPECT(figure);
  unsigned form = take_byte(in), picture = take_byte(in), scales = take_byte(in), names = take_byte(in),
           series = take_byte(in) % 24, points = take_byte(in) % POINTS_MAX + 1;
  figure->form = (hr_figure_form)(form % 5);
  options->picture = (hr_picture)(picture % 4);
  options->single = picture & 4;
  options->columns = (int)take_byte(in);
  options->rows = (int)take_byte(in);
  figure->x.scale = figure->form == HR_FIGURE_LINES ? (hr_figure_scale)(scales % 4) : HR_FIGURE_SCALE_NAMES;
  figure->y.scale = (hr_figure_scale)(scales / 4 % 3);
  figure->y.from_zero = scales & 32;
  take_text(in, figure->title, sizeof figure->title);
  take_text(in, figure->note, sizeof figure->note);
  take_text(in, figure->x.label, sizeof figure->x.label);
  take_text(in, figure->y.label, sizeof figure->y.label);
  for (unsigned i = 0; figure->x.scale == HR_FIGURE_SCALE_NAMES && i < names + 1; i++) {
    char name[HR_FIGURE_TEXT], numbered[HR_FIGURE_TEXT + 16];
    take_text(in, name, sizeof name);
    snprintf(numbered, sizeof numbered, "%u %s", i, name);
    hr_copy_text(name, sizeof name, numbered); /* a character may be cut */
    hr_figure_name(figure, &figure->x, name);
  }
  for (unsigned i = 0; i < series + 1; i++)
    add_series(in, figure, points);
  take_text(in, figure->source, sizeof figure->source);
  hr_figure_add_rule(figure, scales & 64, take_number(in), figure->source);
  EXPECT(hr_figure_end(figure, &ended, &error) == HR_OK);
  return ended;
}

/* Goes through a string in single quotes; returns what follows it. */
static const char *expect_quoted(const char *at)
{
  for (at++; *at != '\''; at++)
    EXPECT((unsigned char)*at >= 0x20 && *at != 0x7f);
  return at + 1;
}

/* The only string in double quotes is a new line. */
static const char *expect_newline(const char *at)
{
  EXPECT(strncmp(at, "\"\\n\"", 4) == 0);
  return at + 4;
}

static void expect_script(const char *script)
{
  static const char allowed[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 \n.,:;()[]{}<>=+-*/$#%?_&|@";
  for (const char *at = script; *at;) {
    if (*at == '\'') {
      at = expect_quoted(at);
    } else if (*at == '"') {
      at = expect_newline(at);
    } else {
      EXPECT(strchr(allowed, *at));
      EXPECT(strncmp(at, "system", 6) != 0 && strncmp(at, "set output", 10) != 0 && strncmp(at, "load", 4) != 0);
      at++;
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  input in = {data, size};
  hr_figure_options options = hr_figure_options_default();
  hr_error error = {.status = HR_OK};
  hr_figure *figure = read_figure(&in, &options);
  char *script = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&script, &length);
  EXPECT(out);
  hr_status status = hr_figure_write_gnuplot(out, &options, figure, &error);
  EXPECT(fclose(out) == 0);
  EXPECT(status == HR_OK || (status == HR_ERROR_INVALID && error.message[0]));
  if (status == HR_OK) {
    EXPECT(length > 0 && length < SCRIPT_MAX && strlen(script) == length);
    expect_script(script);
  }
  free(script);
  hr_figure_free(figure);
  return 0;
}
