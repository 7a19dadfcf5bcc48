/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the gnuplot script of a figure: terminal, title, axes and rules. */
#include "figure/gnuplot.h"

#include "base/error.h"
#include "base/struct_size.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

#define TICS_MAX 24
#define BESIDE_MAX 20        /* entries of a legend beside the picture; more are below it, in columns */
#define BESIDE_COLUMNS 34    /* characters of such an entry; longer ones leave too little of the width */
#define DOUBLE_COLUMNS 96    /* small characters across 7 inches, less what is beside the axes */
#define KEY_SAMPLE_COLUMNS 9 /* of these: what is before an entry */
#define TURNED_COLUMNS 34    /* characters of a line of a turned name */
#define UPRIGHT_COLUMNS 32   /* the same of one that stands upright, where two lines at an angle would overlap */
#define KEY_HEIGHT 0.185     /* inches of an entry of a legend beside the picture */
#define LINE_HEIGHT 0.19     /* inches of a line of the title and of the note */
#define BESIDE_HEIGHT 0.85   /* inches above and below such a legend, without those */
#define TICS_OF_TEXT 9       /* numbers that gnuplot itself puts at an axis, at most */
#define TEXT_ROWS_MIN 21     /* lines of a text for the points, the axes and their labels */
#define BOXES_HEIGHT 1.8     /* inches of the rows of boxes in one column of a paper */
#define UPRIGHT_HEIGHT 1.6   /* inches more than the picture has for names */

static bool is_text(const hr_figure_options *options)
{
  return options->picture == HR_PICTURE_TEXT;
}

/* Characters that fit across the picture. */
static size_t text_columns(const hr_figure_options *options)
{
  if (is_text(options))
    return options->columns > 20 ? (size_t)options->columns - 10 : 10;
  return options->single ? 48 : 76;
}

/* The longest part of the names that is not broken: they may be before a space and behind a "_". */
static size_t longest_word(const hr_figure_axis *axis)
{
  size_t longest = 0;
  for (size_t i = 0; i < axis->name_count; i++) {
    for (const char *at = axis->names[i]; *at;) {
      size_t length = strcspn(at, " _");
      length += at[length] == '_';
      longest = length > longest ? length : longest;
      at += length + strspn(at + length, " ");
    }
  }
  return longest;
}

/* Characters below each name of the x axis, with the legend beside or below the picture. */
static size_t name_columns_with(const hr_figure_options *options, const hr_figure_axis *axis, bool beside)
{
  size_t across = text_columns(options) * (beside || options->single ? 17 : 22) / 20;
  return across / (axis->name_count + !axis->name_count);
}

/* Whether the words of all names fit if the legend gives way. */
static bool needs_width(const hr_figure_options *options, const hr_figure *figure)
{
  const hr_figure_axis *x = &figure->x;
  size_t word = x->scale == HR_FIGURE_SCALE_NAMES ? longest_word(x) : 0;
  return word > name_columns_with(options, x, true) && word <= name_columns_with(options, x, false);
}

static void count_entry(const char *name, size_t *count, size_t *longest)
{
  size_t length = strlen(name);
  *count += length > 0;
  *longest = length > *longest ? length : *longest;
}

static bool has_boxes(const hr_figure *figure)
{
  return figure->form == HR_FIGURE_BARS || figure->form == HR_FIGURE_STACKS;
}

/* The entries of the legend, and the characters of the longest. Fits have no entry. */
static size_t key_entries(const hr_figure *figure, size_t *longest)
{
  size_t count = 0;
  char absent[HR_GNUPLOT_WHY_SIZE];
  *longest = 0;
  for (size_t i = 0; i < figure->series_count; i++)
    count_entry(figure->series[i].name, &count, longest);
  for (size_t i = 0; i < figure->rule_count && figure->form == HR_FIGURE_LINES; i++)
    count_entry(figure->rules[i].label, &count, longest);
  for (size_t i = 0; i < figure->series_count && has_boxes(figure); i++) {
    char name[HR_FIGURE_TEXT + 16];
    hr_gnuplot_noisy_name(&figure->series[i], name, sizeof name);
    if (hr_gnuplot_has_noisy(&figure->series[i]))
      count_entry(name, &count, longest);
  }
  if (figure->form == HR_FIGURE_LINES && hr_gnuplot_noisy(figure))
    count_entry("noisy", &count, longest);
  if ((figure->form == HR_FIGURE_LINES || figure->form == HR_FIGURE_BARS) && hr_gnuplot_absent(figure, absent))
    count_entry(absent, &count, longest);
  return count;
}

static bool has_key_beside(const hr_figure_options *options, const hr_figure *figure)
{
  size_t longest, entries = key_entries(figure, &longest);
  return !is_text(options) && !options->single && entries <= BESIDE_MAX && longest <= BESIDE_COLUMNS &&
         !needs_width(options, figure);
}

/* Characters below each name of the x axis. */
static size_t name_columns(const hr_figure_options *options, const hr_figure *figure)
{
  return name_columns_with(options, &figure->x, is_text(options) || has_key_beside(options, figure));
}

/* Names with words that are too long for that are turned. */
static bool is_turned(const hr_figure_options *options, const hr_figure *figure)
{
  return longest_word(&figure->x) > name_columns(options, figure) && !is_text(options);
}

/* Columns of a legend below the picture. */
static size_t key_columns(const hr_figure_options *options, const hr_figure *figure)
{
  size_t longest;
  key_entries(figure, &longest);
  size_t across = is_text(options) ? text_columns(options) : DOUBLE_COLUMNS,
         fit = across / (longest + KEY_SAMPLE_COLUMNS);
  if (is_text(options))
    return fit > 3 ? 3 : fit + !fit;
  return options->single || fit == 0 ? 1 : fit;
}

/* Whether a heatmap has little width: in one column of a paper, and as text. */
static bool is_narrow(const hr_figure_options *options, const hr_figure *figure)
{
  return figure->form == HR_FIGURE_HEATMAP && (options->single || is_text(options));
}

/* Lines of the names of rows, where they are broken. */
static size_t row_lines(const hr_figure *figure)
{
  size_t most = 1;
  for (size_t i = 0; i < figure->y.name_count; i++) {
    size_t lines = hr_gnuplot_line_count(figure->y.names[i], HR_GNUPLOT_ROW_COLUMNS);
    most = lines > most ? lines : most;
  }
  return most;
}

/* Inches of a heatmap in one column of a paper, whose rows have room for the lines of their names. */
static double rows_height(const hr_figure *figure)
{
  return 1.5 + (double)figure->y.name_count * (0.115 * (double)row_lines(figure) + 0.03);
}

/* Inches by which boxes are higher, so that their rows have room for the lines of their names. */
static double names_height(const hr_figure *figure)
{
  double lines = figure->form == HR_FIGURE_BOXES ? (double)(figure->y.name_count * row_lines(figure)) : 0;
  return fmax(0, 0.16 * lines - BOXES_HEIGHT);
}

/* Characters of a line of the title and of the note. */
static size_t title_columns(const hr_figure_options *options, const hr_figure *figure)
{
  bool beside_names = options->single && figure->y.scale == HR_FIGURE_SCALE_NAMES;
  return beside_names ? text_columns(options) * 3 / 4 : text_columns(options);
}

static double lines_around(const hr_figure_options *options, const hr_figure *figure)
{
  size_t columns = title_columns(options, figure);
  return (double)(hr_gnuplot_line_count(figure->title, columns) + hr_gnuplot_line_count(figure->note, columns));
}

/* Inches; a figure for one column has its legend below and is higher for its width. */
static void picture_size(const hr_figure_options *options, const hr_figure *figure, double *width, double *height)
{
  *width = options->single ? 3.5 : 7;
  *height = options->single ? 3.4 : 4;
  size_t longest, entries = key_entries(figure, &longest);
  if (options->single && figure->x.scale == HR_FIGURE_SCALE_NAMES && is_turned(options, figure))
    *height += UPRIGHT_HEIGHT;
  if (figure->form == HR_FIGURE_HEATMAP && options->single)
    *height = fmax(*height, rows_height(figure));
  else if (figure->form == HR_FIGURE_HEATMAP)
    *height += figure->series_count > 16 ? 0.16 * (double)(figure->series_count - 16) : 0;
  else if (has_key_beside(options, figure)) /* in one column: a second one would leave the picture no width */
    *height = fmax(*height, BESIDE_HEIGHT + LINE_HEIGHT * lines_around(options, figure) + KEY_HEIGHT * (double)entries);
  else if (options->single)
    *height += fmax(0, LINE_HEIGHT * (lines_around(options, figure) - 3)) + fmax(0, 0.16 * ((double)entries - 3)) +
               names_height(figure);
  else if (!options->single && !has_key_beside(options, figure))
    *height += 1 + 0.13 * (double)entries / (double)key_columns(options, figure);
}

/* Lines of a text: those of the caller, and more where title, note and legend would leave the points less than that. */
static int text_rows(const hr_figure_options *options, const hr_figure *figure)
{
  size_t longest, entries = key_entries(figure, &longest), columns = key_columns(options, figure);
  const size_t key_rows = (entries + columns - 1) / columns;
  double needed = TEXT_ROWS_MIN + (double)key_rows;
  if (figure->form == HR_FIGURE_HEATMAP)
    needed = 8 + (double)(figure->y.name_count * row_lines(figure));
  needed += lines_around(options, figure);
  return needed > options->rows ? (int)needed : options->rows;
}

static void put_terminal(FILE *out, const hr_figure_options *options, const hr_figure *figure)
{
  double width, height;
  picture_size(options, figure, &width, &height);
  fputs("set encoding utf8\n", out);
  switch (options->picture) {
  case HR_PICTURE_TEXT:
    hr_gnuplot_put(out, "set terminal dumb noenhanced mono size %d,%d\n", options->columns, text_rows(options, figure));
    break;
  case HR_PICTURE_SVG:
    hr_gnuplot_put(out, "set terminal svg noenhanced size %.0f,%.0f font 'Helvetica,%d' background '#ffffff'\n",
                   width * 96, height * 96, 11);
    break;
  case HR_PICTURE_PNG: /* the font scale and line width are for 300 dots per inch */
    hr_gnuplot_put(out, "set terminal pngcairo noenhanced size %.0f,%.0f font 'Sans,8' fontscale 3.1 linewidth 3 ",
                   width * 300, height * 300);
    fputs("pointscale 3 background '#ffffff'\n", out);
    break;
  case HR_PICTURE_PDF:
    hr_gnuplot_put(out, "set terminal pdfcairo noenhanced size %.2fin,%.2fin font 'Sans,8' linewidth 1.2 ", width,
                   height);
    fputs("pointscale 0.7 background '#ffffff'\n", out);
    break;
  }
}

/* gnuplot leaves room for one line of names: empty lines of the label leave it for the others. */
static void put_room_for_names(FILE *out, const hr_figure_options *options, const hr_figure *figure)
{
  const hr_figure_axis *axis = &figure->x;
  size_t most = 1;
  if (axis->scale != HR_FIGURE_SCALE_NAMES || is_turned(options, figure))
    return;
  for (size_t i = 0; i < axis->name_count; i++) {
    size_t lines = hr_gnuplot_line_count(axis->names[i], name_columns(options, figure));
    most = lines > most ? lines : most;
  }
  for (size_t i = 1; i < most; i++)
    fputs("\"\\n\".", out);
}

static void put_titles(FILE *out, const hr_figure_options *options, const hr_figure *figure)
{
  size_t columns = title_columns(options, figure);
  fputs("set title ", out);
  hr_gnuplot_quote_lines(out, figure->title, columns);
  if ((is_text(options) || is_narrow(options, figure)) && figure->y.label[0]) { /* where gnuplot has no room for it */
    fputs(".\"\\n\".", out);
    hr_gnuplot_quote_lines(out, figure->y.label, columns);
  }
  fputs("\nset xlabel ", out);
  put_room_for_names(out, options, figure);
  hr_gnuplot_quote_lines(out, figure->x.label, columns);
  if (figure->note[0]) {
    if (figure->x.label[0] && !is_text(options)) /* keeps the caption apart from the name of the axis */
      fputs(".\"\\n\"", out);
    fputs(".\"\\n\".", out);
    hr_gnuplot_quote_lines(out, figure->note, columns);
    if (figure->form != HR_FIGURE_HEATMAP && !has_key_beside(options, figure) && !is_text(options))
      fputs(".\"\\n\"", out); /* the legend begins at the last line */
  }
  fputs("\nset ylabel ", out);
  hr_gnuplot_quote_lines(out, figure->form == HR_FIGURE_HEATMAP ? "" : figure->y.label, 60);
  fputs("\n", out);
}

/* The least and largest value on an axis; false if there is none. */
static bool extent(const hr_figure *figure, bool of_x, double *least, double *most)
{
  *least = (double)INFINITY;
  *most = (double)-INFINITY;
  for (size_t i = 0; i < figure->series_count; i++) {
    for (size_t j = 0; j < figure->series[i].count; j++) {
      double value = of_x ? figure->series[i].points[j].x : figure->series[i].points[j].y;
      *least = fmin(*least, value);
      *most = fmax(*most, value);
    }
  }
  return *least <= *most;
}

/* Powers of two as people name sizes: 512, 2k, 64k, 1M. */
static void put_power(FILE *out, double value)
{
  char text[32];
  bool millions = value >= 1 << 20 && fmod(value, 1 << 20) == 0;
  bool thousands = value >= 1 << 10 && fmod(value, 1 << 10) == 0;
  if (millions)
    hr_write_text(text, sizeof text, "%.10gM", value / (1 << 20));
  else
    hr_write_text(text, sizeof text, "%.10g%s", thousands ? value / (1 << 10) : value, thousands ? "k" : "");
  hr_gnuplot_quote_tic(out, text, sizeof text);
  hr_gnuplot_number(out, value);
}

static void put_powers_of_two(FILE *out, const hr_figure *figure, const char *name, bool of_x)
{
  double least, most;
  hr_gnuplot_put(out, "set logscale %s 2\n", name);
  if (!extent(figure, of_x, &least, &most) || least <= 0)
    return;
  double first = floor(log2(least)), last = ceil(log2(most)), step = ceil((last - first + 1) / TICS_MAX);
  hr_gnuplot_put(out, "set %stics (", name);
  for (int tic = 0; first + tic * step <= last; tic++) {
    fputs(tic > 0 ? ", " : "", out);
    put_power(out, exp2(first + tic * step));
  }
  hr_gnuplot_put(out, ")\nset %srange [%.9g:%.9g]\n", name, least * 0.93, most * 1.08);
}

static void put_names(FILE *out, const hr_figure_options *options, const hr_figure *figure, bool is_x)
{
  const hr_figure_axis *axis = is_x ? &figure->x : &figure->y;
  const char *name = is_x ? "x" : "y";
  bool turned = is_x && is_turned(options, figure);
  size_t columns = turned ? (options->single ? UPRIGHT_COLUMNS : TURNED_COLUMNS)
                   : is_x ? name_columns(options, figure)
                   : is_narrow(options, figure) || figure->form == HR_FIGURE_BOXES ? HR_GNUPLOT_ROW_COLUMNS
                                                                                   : HR_FIGURE_TEXT;
  hr_gnuplot_put(out, "set %stics %s (", name,
                 !turned           ? "norotate"
                 : options->single ? "rotate by -90"
                                   : "rotate by -40");
  for (size_t i = 0; i < axis->name_count; i++) {
    fputs(i > 0 ? ", " : "", out);
    hr_gnuplot_quote_tic(out, axis->names[i], columns);
    hr_gnuplot_number(out, (double)i);
  }
  hr_gnuplot_put(out, ")\nset %srange [-0.6:%.1f]\n", name, (double)axis->name_count - 0.4);
}

/* Whether a point has no value: gnuplot then finds no range of its own that holds the point, or none at all. */
static bool has_absent(const hr_figure *figure)
{
  for (size_t i = 0; i < figure->series_count; i++) {
    for (size_t j = 0; j < figure->series[i].count; j++) {
      if (isnan(figure->series[i].points[j].y))
        return true;
    }
  }
  return false;
}

/* The least and the largest rule of an axis; false if it has none. */
static bool rule_extent(const hr_figure *figure, bool of_x, double *least, double *most)
{
  *least = (double)INFINITY;
  *most = (double)-INFINITY;
  for (size_t i = 0; i < figure->rule_count; i++) {
    if (figure->rules[i].vertical == of_x) {
      *least = fmin(*least, figure->rules[i].at);
      *most = fmax(*most, figure->rules[i].at);
    }
  }
  return *least <= *most;
}

/* An end of a range: this number, or where gnuplot puts it, which is at a rule or beyond it (`format`; NAN: no rule).
 * */
static void put_end(FILE *out, bool fixed, double end, const char *format, double rule)
{
  if (fixed)
    hr_gnuplot_put(out, "%.9g", end);
  else if (isnan(rule))
    fputs("*", out);
  else
    hr_gnuplot_put(out, format, rule);
}

static void put_range(FILE *out, const hr_figure *figure, bool of_x)
{
  const hr_figure_axis *axis = of_x ? &figure->x : &figure->y;
  double least = 0, most = 0, rule_min = 0, rule_max = 0;
  bool found = figure->form == HR_FIGURE_LINES && extent(figure, of_x, &least, &most);
  bool fixed = found && has_absent(figure), ruled = found && rule_extent(figure, of_x, &rule_min, &rule_max);
  double margin = found ? 0.04 * (most > least ? most - least : fabs(most) + 1) : 0;
  if (ruled && fixed) {
    least = fmin(least, rule_min);
    most = fmax(most, rule_max);
  }
  hr_gnuplot_put(out, "set %srange [", of_x ? "x" : "y");
  put_end(out, axis->from_zero || fixed, axis->from_zero ? 0 : least - margin, "* < %.9g",
          ruled ? rule_min - margin : (double)NAN);
  fputs(":", out);
  put_end(out, !isnan(axis->most) || fixed, isnan(axis->most) ? most + margin : axis->most, "%.9g < *",
          ruled ? rule_max + margin : (double)NAN);
  fputs("]\n", out);
}

/* gnuplot's text cuts digits off numbers of an axis that are too close to one another: a narrow one has fewer. */
static void put_text_tics(FILE *out, const hr_figure_options *options, const hr_figure *figure)
{
  static const double nice[] = {1, 2, 5, 10};
  double least, most;
  char number[32];
  if (!extent(figure, true, &least, &most) || !(most > least))
    return;
  hr_write_text(number, sizeof number, "%.0f", most);
  size_t fit = text_columns(options) / (strlen(number) + 2);
  if (fit > TICS_OF_TEXT || fit == 0)
    return;
  double step = (most - least) / (double)fit, power = pow(10, floor(log10(step)));
  for (size_t i = 0; i < sizeof nice / sizeof *nice; i++) {
    if (nice[i] * power >= step) {
      hr_gnuplot_put(out, "set xtics %.9g\n", nice[i] * power);
      return;
    }
  }
}

static void put_log10(FILE *out, const hr_figure *figure, bool of_x)
{
  const char *name = of_x ? "x" : "y";
  double least, most;
  hr_gnuplot_put(out, "set logscale %s 10\nset format %s '%%g'\n", name, name);
  if (rule_extent(figure, of_x, &least, &most) && least > 0)
    hr_gnuplot_put(out, "set %srange [* < %.9g:%.9g < *]\n", name, least * 0.9, most * 1.1);
}

static void put_axis(FILE *out, const hr_figure_options *options, const hr_figure *figure, bool of_x)
{
  const hr_figure_axis *axis = of_x ? &figure->x : &figure->y;
  const char *name = of_x ? "x" : "y";
  switch (axis->scale) {
  case HR_FIGURE_SCALE_LOG2: put_powers_of_two(out, figure, name, of_x); break;
  case HR_FIGURE_SCALE_LOG10: put_log10(out, figure, of_x); break;
  case HR_FIGURE_SCALE_NAMES: put_names(out, options, figure, of_x); break;
  case HR_FIGURE_SCALE_LINEAR:
    put_range(out, figure, of_x);
    if (of_x && is_text(options))
      put_text_tics(out, options, figure);
    break;
  }
}

/* Whether boxes would cover a rule; in text it would cover their letters. */
static bool is_boxed(const hr_figure_options *options, const hr_figure *figure)
{
  return figure->form == HR_FIGURE_BOXES && !is_text(options);
}

/* gnuplot's SVG joins arrows of one colour in one path with the dash of the first. Neighbours therefore differ in a
 * shade that no eye sees. The legend names a rule (gnuplot_lines.c), where no other text is in its way. */
static void put_rules(FILE *out, const hr_figure_options *options, const hr_figure *figure)
{
  for (size_t i = 0; i < figure->rule_count; i++) {
    double at = figure->rules[i].at;
    if (figure->rules[i].vertical)
      hr_gnuplot_put(out, "set arrow from first %.9g, graph 0 to first %.9g, graph 1", at, at);
    else
      hr_gnuplot_put(out, "set arrow from graph 0, first %.9g to graph 1, first %.9g", at, at);
    hr_gnuplot_put(out, " nohead lc rgb '%s' dt %zu lw 1 %s\n", i % 2 == 0 ? HR_GNUPLOT_RULE : HR_GNUPLOT_NEXT_RULE,
                   hr_gnuplot_rule_dash(figure, i), is_boxed(options, figure) ? "front" : "back");
  }
}

static void put_key(FILE *out, const hr_figure_options *options, const hr_figure *figure)
{
  if (figure->form == HR_FIGURE_HEATMAP)
    fputs(hr_gnuplot_noisy(figure) ? "set key below left Left reverse noautotitle samplen 1\n" : "set key off\n", out);
  else if (!has_key_beside(options, figure))
    hr_gnuplot_put(out, "set key below left Left reverse noautotitle samplen 2 maxcols %zu font ',%d'\n",
                   key_columns(options, figure), options->picture == HR_PICTURE_SVG ? 9 : 7); /* pixels, else points */
  else
    fputs("set key outside right top Left reverse noautotitle samplen 2.5 spacing 1.05 maxcols 1\n", out);
}

static hr_status check(const hr_figure_options *options, const hr_figure *figure, hr_error *error)
{
  if (options->picture == HR_PICTURE_TEXT && (options->columns < 20 || options->rows < 8))
    return hr_fail(error, HR_ERROR_INVALID, "columns, rows: expected at least 20 and 8, found %d and %d",
                   options->columns, options->rows);
  return hr_figure_point_count(figure) > 0 ? HR_OK : hr_fail(error, HR_ERROR_INVALID, "the figure has no points");
}

hr_status hr_figure_write_gnuplot(FILE *out, const hr_figure_options *options, const hr_figure *figure, hr_error *error)
{
  HR_NEED(error, out, options, figure);
  HR_TAKE(hr_figure_options, options, error);
  HR_TRY(check(options, figure, error));
  put_terminal(out, options, figure);
  fputs("set tics nomirror\nset border 3 lc rgb '#404040'\n", out);
  if (!is_text(options)) /* a grid of characters looks like a line of data */
    fputs("set grid lc rgb '#E0E0E0' lt 1 lw 0.6\n", out);
  put_titles(out, options, figure);
  put_key(out, options, figure);
  put_axis(out, options, figure, true);
  put_axis(out, options, figure, false);
  put_rules(out, options, figure);
  switch (figure->form) {
  case HR_FIGURE_LINES: hr_gnuplot_lines(out, options, figure); break;
  case HR_FIGURE_BARS: hr_gnuplot_bars(out, options, figure); break;
  case HR_FIGURE_STACKS: hr_gnuplot_stacks(out, options, figure); break;
  case HR_FIGURE_BOXES: hr_gnuplot_boxes(out, options, figure); break;
  case HR_FIGURE_HEATMAP: hr_gnuplot_heatmap(out, options, figure); break;
  }
  fputc('\n', out);
  return fflush(out) == 0 && !ferror(out) ? HR_OK : hr_fail(error, HR_ERROR_OUTPUT, "the script cannot be written");
}
