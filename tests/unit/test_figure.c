/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "figure/figure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static hr_figure *new_figure(void)
{
  hr_figure *figure = hr_figure_new();
  assert_non_null(figure);
  return figure;
}

static void a_series_is_sorted_by_x_and_keeps_points_without_a_value(void **state)
{
  (void)state;
  hr_figure *figure = new_figure(), *done = NULL;
  size_t line = hr_figure_add_series(figure, "a", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  for (int i = 20; i > 0; i--)
    hr_figure_add_point(figure, line, hr_figure_value(i, 2 * i));
  hr_figure_point missing = hr_figure_value(7.5, (double)NAN);
  missing.status = HR_ERROR_OUT_OF_MEMORY;
  hr_figure_add_point(figure, line, missing);
  assert_int_equal(hr_figure_end(figure, &done, NULL), HR_OK);
  assert_int_equal(hr_figure_point_count(done), 21);
  const hr_figure_series *series = &done->series[0];
  for (size_t i = 1; i < series->count; i++)
    assert_true(series->points[i - 1].x < series->points[i].x);
  assert_int_equal(series->points[7].status, HR_ERROR_OUT_OF_MEMORY); /* behind 1 … 7 */
  assert_true(isnan(series->points[7].y));
  hr_figure_free(done);
}

static void series_and_names_are_found_again_by_their_text(void **state)
{
  (void)state;
  hr_figure *figure = new_figure();
  size_t first = hr_figure_series_named(figure, "one", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  size_t second = hr_figure_series_named(figure, "two", HR_FIGURE_MARK_POINTS, HR_FIGURE_EXACT);
  assert_int_equal(hr_figure_series_named(figure, "one", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED), first);
  assert_int_not_equal(figure->series[first].style, figure->series[second].style);
  assert_int_equal(hr_figure_name(figure, &figure->x, "C1"), 0);
  assert_int_equal(hr_figure_name(figure, &figure->x, "C2"), 1);
  assert_int_equal(hr_figure_name(figure, &figure->x, "C1"), 0);
  hr_figure_free(figure);
}

/* Looking for one among many takes as long as among few: at least half of an index is free. */
static void each_of_many_names_is_found_again_at_its_place(void **state)
{
  (void)state;
  hr_figure *figure = new_figure();
  char name[32];
  for (size_t turn = 0; turn < 2; turn++) {
    for (size_t i = 0; i < 3000; i++) {
      snprintf(name, sizeof name, "number %zu", i);
      assert_int_equal(hr_figure_series_named(figure, name, HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED), i);
      assert_int_equal(hr_figure_name(figure, &figure->y, name), i);
    }
  }
  assert_int_equal(figure->index.count, 3000);
  assert_true(figure->index.capacity >= 2 * figure->index.count);
  assert_true(figure->y.index.capacity >= 2 * figure->y.index.count);
  assert_int_equal(figure->series[2999].style, 2999);
  hr_figure_free(figure);
}

/* A colour goes with the style; sharing it alone leaves dash and marker, and the next series gets the next one. */
static void series_of_one_colour_differ_in_their_style(void **state)
{
  (void)state;
  hr_figure *figure = new_figure();
  for (size_t i = 0; i < 4; i++)
    hr_figure_add_series(figure, "", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  hr_figure_share_colour(figure, 3, 1);
  size_t next = hr_figure_add_series(figure, "", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  assert_int_equal(figure->series[3].colour, 1);
  assert_int_equal(figure->series[3].style, 3);
  assert_int_equal(figure->series[next].colour, 3);
  assert_int_equal(figure->series[next].style, 4);
  hr_figure_share_style(figure, next, 3);
  assert_int_equal(figure->series[next].colour, 1);
  assert_int_equal(figure->series[next].style, 3);
  hr_figure_free(figure);
}

/* A new style is none that a series has, also behind one that took another's. */
static void styles_count_on_behind_a_shared_one(void **state)
{
  (void)state;
  hr_figure *figure = new_figure();
  for (size_t i = 0; i < 3; i++)
    hr_figure_add_series(figure, "line", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  figure->series[2].style = 0;
  size_t next = hr_figure_add_series(figure, "", HR_FIGURE_MARK_BAND, HR_FIGURE_PREDICTED);
  assert_int_equal(figure->series[next].style, 2);
  assert_int_equal(hr_figure_series_named(figure, "line", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED), 0);
  hr_figure_free(figure);
}

static void texts_lose_control_characters(void **state)
{
  (void)state;
  hr_figure *figure = new_figure();
  hr_figure_add_series(figure, "a\x1b[31m\nb", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  hr_figure_add_rule(figure, true, 4, "even\r");
  assert_string_equal(figure->series[0].name, "a?[31m?b");
  assert_string_equal(figure->rules[0].label, "even?");
  hr_figure_free(figure);
}

static void a_path_names_the_kind_of_picture_by_its_end(void **state)
{
  (void)state;
  hr_picture picture = HR_PICTURE_TEXT;
  assert_int_equal(hr_picture_of_path("a/b.SVG", &picture), HR_OK);
  assert_int_equal(picture, HR_PICTURE_SVG);
  assert_int_equal(hr_picture_of_path("b.svg.pdf", &picture), HR_OK);
  assert_int_equal(picture, HR_PICTURE_PDF);
  assert_int_equal(hr_picture_of_path(".png", &picture), HR_ERROR_NOT_FOUND);
  assert_int_equal(hr_picture_of_path("png", &picture), HR_ERROR_NOT_FOUND);
  assert_int_equal(picture, HR_PICTURE_PDF);
}

/* The script of a figure as text that the caller frees. */
static char *script_as(const hr_figure *figure, const hr_figure_options *options)
{
  char *text = NULL;
  size_t length = 0;
  hr_error error = {.status = HR_OK};
  FILE *out = open_memstream(&text, &length);
  assert_non_null(out);
  assert_int_equal(hr_figure_write_gnuplot(out, options, figure, &error), HR_OK);
  fclose(out);
  return text;
}

static char *script_of(const hr_figure *figure, hr_picture picture)
{
  hr_figure_options options = hr_figure_options_default();
  options.picture = picture;
  return script_as(figure, &options);
}

/* What gnuplot would execute or substitute: double quotes, backquotes and @ stand for themselves in single quotes
 * only. */
static void every_text_is_in_single_quotes_in_a_script(void **state)
{
  (void)state;
  static const char hostile[] = "'a'; system('x'); \"`id`\" @b\n!ls";
  hr_figure *figure = new_figure(), *done;
  strcpy(figure->title, "a'; system('x'); \"`id`\" @b");
  strcpy(figure->x.label, "x'y");
  strcpy(figure->note, "it's");
  figure->x.scale = HR_FIGURE_SCALE_NAMES;
  hr_figure_name(figure, &figure->x, hostile);
  hr_figure_name(figure, &figure->x, "50% %g");
  size_t line = hr_figure_add_series(figure, hostile, HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  hr_figure_point point = hr_figure_value(0, 1);
  strcpy(point.label, "l'`id`");
  hr_figure_add_point(figure, line, point);
  hr_figure_add_rule(figure, true, 0, hostile);
  assert_int_equal(hr_figure_end(figure, &done, NULL), HR_OK);
  char *script = script_of(done, HR_PICTURE_SVG);
  bool quoted = false;
  for (const char *c = script; *c; c++) {
    if (*c == '\'')
      quoted = !quoted;
    else if (!quoted) {
      assert_null(strchr("`@!", *c));
      assert_true(*c != '"' || strncmp(c, "\"\\n\"", 4) == 0 || strncmp(c - 3, "\"\\n\"", 4) == 0);
    } else {
      assert_int_not_equal(*c, '\n');
    }
  }
  assert_false(quoted);
  assert_null(strstr(script, "''"
                             "'"));              /* gnuplot would end the string here */
  assert_non_null(strstr(script, "'50%% %%g'")); /* a tic label is a format */
  free(script);
  hr_figure_free(done);
}

static bool has_line(const char *script, const char *begin, const char *text)
{
  const char *line = strstr(script, begin), *found = line ? strstr(line, text) : NULL;
  return found && found < strchr(line, '\n');
}

/* A rule at 3 with values of 1 and 2: gnuplot has to put the end of the axis beyond it. */
static void rules_are_within_the_axis_and_named_in_the_legend(void **state)
{
  (void)state;
  hr_figure *figure = new_figure(), *done;
  size_t line = hr_figure_add_series(figure, "a", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  figure->y.from_zero = false;
  strcpy(figure->y.label, "Time (ms)");
  hr_figure_add_point(figure, line, hr_figure_value(0, 1));
  hr_figure_add_point(figure, line, hr_figure_value(1, 2));
  hr_figure_add_rule(figure, false, 3, "limit");
  assert_int_equal(hr_figure_end(figure, &done, NULL), HR_OK);
  char *script = script_of(done, HR_PICTURE_SVG);
  assert_non_null(strstr(script, "set yrange [* < 2.96:3.04 < *]\n")); /* 4% of what the points span */
  assert_true(has_line(script, "plot ", "title 'limit'"));
  assert_null(strstr(script, "set label"));
  free(script);
  script = script_of(done, HR_PICTURE_TEXT);
  assert_true(has_line(script, "set title", "'Time (ms)'")); /* which the text terminal leaves out at the axis */
  free(script);
  hr_figure_free(done);
}

/* gnuplot draws neighbours of one colour with one dash. */
static void neighbouring_rules_differ_in_colour_and_dash(void **state)
{
  (void)state;
  hr_figure *figure = new_figure(), *done;
  size_t line = hr_figure_add_series(figure, "a", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  hr_figure_add_point(figure, line, hr_figure_value(0, 1));
  hr_figure_add_rule(figure, false, 1, "one");
  hr_figure_add_rule(figure, false, 2, "two");
  assert_int_equal(hr_figure_end(figure, &done, NULL), HR_OK);
  char *script = script_of(done, HR_PICTURE_SVG);
  assert_non_null(strstr(script, "first 1 nohead lc rgb '#606060' dt 2 "));
  assert_non_null(strstr(script, "first 2 nohead lc rgb '#616161' dt 3 "));
  free(script);
  hr_figure_free(done);
}

static void only_a_letter_or_a_digit_stands_in_a_box(void **state)
{
  (void)state;
  hr_figure *figure = new_figure(), *done;
  const char *names[] = {"Keys", "'", "\xc3\xa9", ""}, *letters[] = {"'K'", "'#'", "'#'", "'#'"};
  figure->form = HR_FIGURE_BOXES;
  figure->box_height = 1;
  for (size_t i = 0; i < 4; i++) {
    hr_figure_point point = hr_figure_value(1, (double)i);
    point.low = 0, point.high = 2;
    hr_figure_add_point(figure, hr_figure_add_series(figure, names[i], HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED), point);
  }
  assert_int_equal(hr_figure_end(figure, &done, NULL), HR_OK);
  char *script = script_of(done, HR_PICTURE_TEXT);
  for (size_t i = 0; i < 4; i++) {
    char expected[64];
    snprintf(expected, sizeof expected, "$s%zu using 1:2 with points pt %s title ", i, letters[i]);
    assert_non_null(strstr(script, expected));
  }
  free(script);
  hr_figure_free(done);
}

static void a_caption_is_a_line_below_the_name_of_the_axis(void **state)
{
  (void)state;
  hr_figure *figure = new_figure(), *done;
  size_t line = hr_figure_add_series(figure, "a", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  hr_figure_add_point(figure, line, hr_figure_value(0, 1));
  strcpy(figure->x.label, "Models");
  strcpy(figure->note, "measured");
  assert_int_equal(hr_figure_end(figure, &done, NULL), HR_OK);
  char *script = script_of(done, HR_PICTURE_SVG);
  assert_non_null(strstr(script, "set xlabel 'Models'.\"\\n\".\"\\n\".'measured'\n"));
  free(script);
  hr_figure_free(done);
}

static char *script_with(size_t lines)
{
  hr_figure *figure = new_figure(), *done;
  for (size_t i = 0; i < lines; i++) {
    char name[24];
    snprintf(name, sizeof name, "l%zu", i);
    hr_figure_add_point(figure, hr_figure_add_series(figure, name, HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED),
                        hr_figure_value((double)i, 1));
  }
  assert_int_equal(hr_figure_end(figure, &done, NULL), HR_OK);
  char *script = script_of(done, HR_PICTURE_SVG);
  hr_figure_free(done);
  return script;
}

/* gnuplot would begin a second column where a legend is higher than the picture, which then has no width left. */
static void a_legend_beside_a_picture_fits_its_height(void **state)
{
  (void)state;
  char *script = script_with(14);
  assert_non_null(strstr(script, "size 672,384 ")); /* 7 and 4 inches of 96 */
  assert_non_null(strstr(script, "set key outside right"));
  free(script);
  script = script_with(20);
  assert_non_null(strstr(script, "size 672,473 ")); /* 0.85 + 0.19 · 2 lines + 0.185 · 20 entries */
  assert_non_null(strstr(script, "set key outside right"));
  free(script);
  script = script_with(21);
  assert_non_null(strstr(script, "set key below"));
  free(script);
}

static void a_legend_names_why_values_are_missing_once(void **state)
{
  (void)state;
  hr_figure *figure = new_figure(), *done;
  size_t line = hr_figure_add_series(figure, "a", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  static const hr_status statuses[] = {HR_OK, HR_ERROR_OUT_OF_MEMORY, HR_ERROR_NOT_FOUND, HR_ERROR_OUT_OF_MEMORY};
  for (int i = 0; i < 4; i++) {
    hr_figure_point point = hr_figure_value(i, i == 0 ? 1 : (double)NAN);
    point.status = statuses[i];
    hr_figure_add_point(figure, line, point);
  }
  assert_int_equal(hr_figure_end(figure, &done, NULL), HR_OK);
  char *script = script_of(done, HR_PICTURE_SVG);
  assert_true(has_line(script, "plot ", "title 'no value: out of memory, not run'"));
  free(script);
  hr_figure_free(done);
}

static void noisy_points_are_hollow_and_named_in_the_legend(void **state)
{
  (void)state;
  hr_figure *figure = new_figure(), *done;
  size_t line = hr_figure_add_series(figure, "a", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  for (int i = 0; i < 3; i++) {
    hr_figure_point point = hr_figure_value(i, i + 1);
    point.status = i == 1 ? HR_ERROR_NOISY : HR_OK;
    hr_figure_add_point(figure, line, point);
  }
  assert_int_equal(hr_figure_end(figure, &done, NULL), HR_OK);
  char *script = script_of(done, HR_PICTURE_SVG);
  assert_true(has_line(script, "plot ", "points pt 6 ps 0.6 lc rgb '#0072B2' title 'noisy'")); /* 6: a ring */
  free(script);
  script = script_of(done, HR_PICTURE_TEXT);
  assert_true(has_line(script, "plot ", "pt '~' title 'noisy'"));
  free(script);
  hr_figure_free(done);
}

static void noisy_bars_are_hollow_and_named_in_the_legend(void **state)
{
  (void)state;
  hr_figure *figure = new_figure(), *done;
  figure->form = HR_FIGURE_BARS;
  figure->x.scale = HR_FIGURE_SCALE_NAMES;
  size_t bars = hr_figure_add_series(figure, "a", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  for (int i = 0; i < 2; i++) {
    hr_figure_point point = hr_figure_value((double)hr_figure_name(figure, &figure->x, i == 0 ? "C1" : "C2"), i + 5);
    point.status = i == 1 ? HR_ERROR_NOISY : HR_OK;
    hr_figure_add_point(figure, bars, point);
  }
  assert_int_equal(hr_figure_end(figure, &done, NULL), HR_OK);
  char *script = script_of(done, HR_PICTURE_SVG);
  assert_non_null(strstr(script, "$s0 << END\n -0.02 -0.4 0.36 0 5\nEND\n$n0 << END\n 0.98 0.6 1.36 0 6\nEND\n"));
  assert_true(has_line(script, "plot ", "fs empty lw 2 lc rgb '#0072B2' title 'a, noisy'"));
  free(script);
  hr_figure_free(done);
}

static void a_bar_without_a_value_is_a_dash_and_the_legend_says_why(void **state)
{
  (void)state;
  hr_figure *figure = new_figure(), *done;
  figure->form = HR_FIGURE_BARS;
  figure->x.scale = HR_FIGURE_SCALE_NAMES;
  size_t bars = hr_figure_add_series(figure, "a", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  hr_figure_add_point(figure, bars, hr_figure_value((double)hr_figure_name(figure, &figure->x, "C1"), 5));
  hr_figure_point point = hr_figure_value((double)hr_figure_name(figure, &figure->x, "C2"), (double)NAN);
  point.status = HR_ERROR_OUT_OF_MEMORY;
  hr_figure_add_point(figure, bars, point);
  assert_int_equal(hr_figure_end(figure, &done, NULL), HR_OK);
  char *script = script_of(done, HR_PICTURE_SVG);
  assert_true(has_line(script, "set label '-' at first 1,", "")); /* C2 */
  assert_true(has_line(script, "plot ", "points pt '-' lc rgb '#000000' title 'no value: out of memory'"));
  free(script);
  hr_figure_free(done);
}

/* A bar of two parts, 6 and 4 high, both noisy, beside one of 3 that is not. */
static void noisy_parts_of_stacks_are_hollow_and_named_in_the_legend(void **state)
{
  (void)state;
  hr_figure *figure = new_figure(), *done;
  figure->form = HR_FIGURE_STACKS;
  figure->x.scale = HR_FIGURE_SCALE_NAMES;
  for (int part = 0; part < 2; part++) {
    size_t series = hr_figure_add_series(figure, part == 0 ? "a" : "b", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
    hr_figure_point point = hr_figure_value((double)hr_figure_name(figure, &figure->x, "C1"), part == 0 ? 6 : 4);
    point.status = HR_ERROR_NOISY;
    hr_figure_add_point(figure, series, point);
    if (part == 0)
      hr_figure_add_point(figure, series, hr_figure_value((double)hr_figure_name(figure, &figure->x, "C2"), 3));
  }
  assert_int_equal(hr_figure_end(figure, &done, NULL), HR_OK);
  char *script = script_of(done, HR_PICTURE_SVG);
  assert_non_null(strstr(script, "$s0 << END\n 1 0.65 1.35 0 3\nEND\n$n0 << END\n 0 -0.35 0.35 0 6\nEND\n"));
  assert_non_null(strstr(script, "$s1 << END\nEND\n$n1 << END\n 0 -0.35 0.35 6 10\nEND\n"));
  assert_true(has_line(script, "plot ", "fs empty lw 2 lc rgb '#D55E00' title 'b, noisy'"));
  free(script);
  hr_figure_free(done);
}

static void a_noisy_cell_of_a_heatmap_has_a_tilde_that_the_legend_names(void **state)
{
  (void)state;
  hr_figure *figure = new_figure(), *done;
  figure->form = HR_FIGURE_HEATMAP;
  figure->x.scale = figure->y.scale = HR_FIGURE_SCALE_NAMES;
  size_t row = hr_figure_add_series(figure, "row", HR_FIGURE_MARK_POINTS, HR_FIGURE_MEASURED);
  hr_figure_name(figure, &figure->y, "row");
  for (int i = 0; i < 2; i++) {
    hr_figure_point point = hr_figure_value((double)hr_figure_name(figure, &figure->x, i == 0 ? "1" : "2"), i + 5);
    point.status = i == 1 ? HR_ERROR_NOISY : HR_OK;
    snprintf(point.label, sizeof point.label, "%d ms", i + 5);
    hr_figure_add_point(figure, row, point);
  }
  assert_int_equal(hr_figure_end(figure, &done, NULL), HR_OK);
  char *script = script_of(done, HR_PICTURE_SVG);
  assert_true(has_line(script, "set label '5 ms'", ""));
  assert_true(has_line(script, "set label '~6 ms'", ""));
  assert_true(has_line(script, "plot ", "points pt '~' lc rgb '#000000' title 'noisy'"));
  assert_null(strstr(script, "set key off"));
  free(script);
  hr_figure_free(done);
}

/* The names of rows take a quarter of a column of a paper, which has 48 characters: 36 are left. */
static void a_title_beside_names_of_rows_is_broken_earlier_in_one_column(void **state)
{
  (void)state;
  hr_figure *figure = new_figure(), *done;
  figure->form = HR_FIGURE_BOXES;
  figure->box_height = 0.5;
  figure->y.scale = HR_FIGURE_SCALE_NAMES;
  strcpy(figure->title, "a title of more than 36 characters in one line");
  size_t boxes = hr_figure_add_series(figure, "a", HR_FIGURE_MARK_POINTS, HR_FIGURE_EXACT);
  hr_figure_point box = hr_figure_value(1, (double)hr_figure_name(figure, &figure->y, "row"));
  box.low = 0;
  box.high = 2;
  hr_figure_add_point(figure, boxes, box);
  assert_int_equal(hr_figure_end(figure, &done, NULL), HR_OK);
  hr_figure_options options = hr_figure_options_default();
  for (int single = 0; single < 2; single++) {
    options.picture = HR_PICTURE_SVG;
    options.single = single;
    char *script = script_as(done, &options);
    assert_int_equal(strstr(script, "characters in one line'") != NULL, !single);
    free(script);
  }
  hr_figure_free(done);
}

/* White on the dark half of a logarithmic scale from 1 to 100: above 100 to the power of 0.55, 12.6. */
static void numbers_of_dark_cells_are_white(void **state)
{
  (void)state;
  hr_figure *figure = new_figure(), *done;
  static const double values[] = {1, 12, 13, 100};
  figure->form = HR_FIGURE_HEATMAP;
  figure->x.scale = figure->y.scale = HR_FIGURE_SCALE_NAMES;
  size_t row = hr_figure_add_series(figure, "row", HR_FIGURE_MARK_POINTS, HR_FIGURE_MEASURED);
  hr_figure_name(figure, &figure->y, "row");
  for (int i = 0; i < 4; i++) {
    char name[8] = {(char)('a' + i)};
    hr_figure_point point = hr_figure_value((double)hr_figure_name(figure, &figure->x, name), values[i]);
    strcpy(point.label, name);
    hr_figure_add_point(figure, row, point);
  }
  assert_int_equal(hr_figure_end(figure, &done, NULL), HR_OK);
  char *script = script_of(done, HR_PICTURE_SVG);
  assert_true(has_line(script, "set label 'b'", "#000000") && has_line(script, "set label 'c'", "#FFFFFF"));
  free(script);
  hr_figure_free(done);
}

static void a_figure_without_points_has_no_script(void **state)
{
  (void)state;
  hr_figure *figure = new_figure();
  hr_error error = {.status = HR_OK};
  hr_figure_options options = hr_figure_options_default();
  assert_int_equal(hr_figure_write_gnuplot(stderr, &options, figure, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "the figure has no points");
  hr_figure_free(figure);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_series_is_sorted_by_x_and_keeps_points_without_a_value),
      cmocka_unit_test(series_and_names_are_found_again_by_their_text),
      cmocka_unit_test(each_of_many_names_is_found_again_at_its_place),
      cmocka_unit_test(series_of_one_colour_differ_in_their_style),
      cmocka_unit_test(styles_count_on_behind_a_shared_one),
      cmocka_unit_test(texts_lose_control_characters),
      cmocka_unit_test(every_text_is_in_single_quotes_in_a_script),
      cmocka_unit_test(rules_are_within_the_axis_and_named_in_the_legend),
      cmocka_unit_test(neighbouring_rules_differ_in_colour_and_dash),
      cmocka_unit_test(only_a_letter_or_a_digit_stands_in_a_box),
      cmocka_unit_test(a_caption_is_a_line_below_the_name_of_the_axis),
      cmocka_unit_test(a_legend_beside_a_picture_fits_its_height),
      cmocka_unit_test(a_legend_names_why_values_are_missing_once),
      cmocka_unit_test(noisy_points_are_hollow_and_named_in_the_legend),
      cmocka_unit_test(noisy_bars_are_hollow_and_named_in_the_legend),
      cmocka_unit_test(a_bar_without_a_value_is_a_dash_and_the_legend_says_why),
      cmocka_unit_test(a_title_beside_names_of_rows_is_broken_earlier_in_one_column),
      cmocka_unit_test(noisy_parts_of_stacks_are_hollow_and_named_in_the_legend),
      cmocka_unit_test(a_noisy_cell_of_a_heatmap_has_a_tilde_that_the_legend_names),
      cmocka_unit_test(numbers_of_dark_cells_are_white),
      cmocka_unit_test(a_figure_without_points_has_no_script),
      cmocka_unit_test(a_path_names_the_kind_of_picture_by_its_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
