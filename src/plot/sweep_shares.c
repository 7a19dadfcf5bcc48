/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of layers' and steps' times as stacked bars. A part is named as in figures 2 and 11 of the co-design
 * paper. */
#include "analysis/predict/step.h"
#include "hardware/hardware.h"
#include "plot/published.h"
#include "plot/sweep.h"

#include "base/error.h"
#include "base/text.h"
#include "experiment/sweep/sweep.h"

#include <headroom/predict.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 64

/* The operators of a layer by their part in both figures; others are "Other", and "Non-GEMM". */
static const struct {
  const char *name, *part, *gemm_part;
} known_parts[] = {{"qkv_transform", "GEMMs", "QKV"},
                   {"attention", "Flash", "Flash"},
                   {"attention_score", "GEMMs", "Score"},
                   {"attention_over_value", "GEMMs", "AOV"},
                   {"linear_projection", "GEMMs", "Linproj"},
                   {"mlp_up", "GEMMs", "MLP h to 4h"},
                   {"mlp_gate", "GEMMs", "MLP h to 4h"},
                   {"mlp_down", "GEMMs", "MLP 4h to h"},
                   {"logit", "GEMMs", "Logits"},
                   {"softmax", "Softmax", "Non-GEMM"},
                   {"attention_norm", "Norms", "Non-GEMM"},
                   {"mlp_norm", "Norms", "Non-GEMM"},
                   {"final_norm", "Norms", "Non-GEMM"},
                   {"softmax_dropout", "Dropout, residuals", "Non-GEMM"},
                   {"attention_dropout", "Dropout, residuals", "Non-GEMM"},
                   {"mlp_dropout", "Dropout, residuals", "Non-GEMM"},
                   {"attention_residual", "Dropout, residuals", "Non-GEMM"},
                   {"mlp_residual", "Dropout, residuals", "Non-GEMM"}};

/* The words of the published shares. */
static const struct {
  const char *word, *part;
} published_parts[] = {{"DR", "Dropout, residuals"}, {"LN", "Norms"}};

/* The order of the stacks, from below. */
static const char *const part_order[] = {"GEMMs", "Flash", "Softmax", "Dropout, residuals", "Norms", "Other", NULL};
static const char *const gemm_part_order[] = {"QKV",         "Flash",       "Score",  "AOV",      "Linproj",
                                              "MLP h to 4h", "MLP 4h to h", "Logits", "Non-GEMM", NULL};

static const char *part_of(const hr_plot_sweep *plot, const char *name)
{
  bool gemms = plot->view == HR_VIEW_GEMM_SHARES;
  for (size_t i = 0; i < sizeof known_parts / sizeof *known_parts; i++) {
    if (strcmp(known_parts[i].name, name) == 0)
      return gemms ? known_parts[i].gemm_part : known_parts[i].part;
  }
  return gemms ? "Non-GEMM" : "Other";
}

/* One bar: percent of each part. */
typedef struct bar {
  char name[HR_FIGURE_TEXT];
  hr_status status;          /* HR_ERROR_NOISY: of all parts */
  double percent[PARTS_MAX]; /* by the index of the part's series */
} bar;

/* All bars, before they are in the figure's order. */
typedef struct bars {
  hr_plot_sweep *plot;
  bar *items;
  size_t count;
  bool out_of_memory;
} bars;

static void add_part(const hr_plot_sweep *plot, bar *to, const char *part, double percent)
{
  for (size_t i = 0; i < plot->figure->series_count; i++) {
    if (strcmp(plot->figure->series[i].name, part) == 0)
      to->percent[i] += percent;
  }
}

static void keep_bar(bars *all, const char *name, const bar *one)
{
  bar *moved = realloc(all->items, (all->count + 1) * sizeof *moved);
  all->out_of_memory |= !moved;
  if (!moved)
    return;
  all->items = moved;
  all->items[all->count] = *one;
  hr_write_text(moved[all->count].name, sizeof one->name, "%s", name);
  all->count++;
  double sum = 0;
  for (size_t i = 0; i < PARTS_MAX; i++)
    sum += one->percent[i];
  hr_figure_axis *y = &all->plot->figure->y;
  y->most = fmax(y->most, sum - 1e-6);
}

/* "Small (h=2560, a=20), measured": the name around the sizes, which is short enough for a tic, and the sizes. */
typedef struct sized_name {
  char around[HR_FIGURE_TEXT], word[HR_FIGURE_TEXT], sizes[HR_FIGURE_TEXT];
} sized_name;

static sized_name split_name(const char *name)
{
  sized_name parts = {.sizes = ""};
  const char *open = strstr(name, " ("), *close = open ? strchr(open, ')') : NULL;
  if (!close)
    open = close = name + strlen(name);
  hr_write_text(parts.word, sizeof parts.word, "%.*s", (int)(open - name), name);
  hr_write_text(parts.around, sizeof parts.around, "%s%s", parts.word, *close ? close + 1 : "");
  if (*close)
    hr_write_text(parts.sizes, sizeof parts.sizes, "%.*s", (int)(close - open) - 2, open + 2);
  return parts;
}

/* Whether the word of a case stands for one size: those of a CPU have the same words. */
static bool words_say_sizes(const bars *all)
{
  for (size_t i = 0; i < all->count; i++) {
    sized_name one = split_name(all->items[i].name);
    for (size_t j = 0; j < i; j++) {
      sized_name other = split_name(all->items[j].name);
      if (strcmp(one.word, other.word) == 0 && strcmp(one.sizes, other.sizes) != 0)
        return false;
    }
  }
  return true;
}

static void note_sizes(hr_figure *figure, const sized_name *name)
{
  char text[2 * HR_FIGURE_TEXT];
  hr_write_text(text, sizeof text, "%s: %s", name->word, name->sizes);
  size_t used = strlen(figure->note);
  if (name->sizes[0] && !strstr(figure->note, text))
    hr_write_text(figure->note + used, sizeof figure->note - used, "%s%s", used > 0 ? "; " : "", text);
}

/* The sizes of a bar are in its name, or in the note, which has them once. */
static const char *show_name(const bars *all, const bar *from, sized_name *name)
{
  *name = split_name(from->name);
  if (!words_say_sizes(all))
    return from->name;
  note_sizes(all->plot->figure, name);
  return name->around;
}

static void add_bar(const bars *all, const bar *from)
{
  hr_plot_sweep *plot = all->plot;
  sized_name name;
  size_t x = hr_figure_name(plot->figure, &plot->figure->x, show_name(all, from, &name));
  for (size_t i = 0; i < plot->figure->series_count && x != HR_FIGURE_NONE; i++) {
    hr_figure_point point = hr_figure_value((double)x, from->percent[i]);
    point.status = from->status;
    hr_write_text(point.label, sizeof point.label, "%.0f", from->percent[i]);
    if (from->percent[i] > 0)
      hr_figure_add_point(plot->figure, i, point);
  }
}

/* Whether a bar is of this case: its name begins with the case's, and a comma. */
static bool is_of_case(const bar *one, const char *name)
{
  size_t length = strlen(name);
  return strncmp(one->name, name, length) == 0 && one->name[length] == ',';
}

/* Bars of one case stand beside each other: measured, predicted, published. */
static void add_bars(bars *all)
{
  const hr_sweep *sweep = all->plot->sweep;
  for (size_t i = 0; i < sweep->case_count; i++) {
    for (size_t j = 0; j < all->count; j++) {
      if (is_of_case(&all->items[j], sweep->case_names[i]))
        add_bar(all, &all->items[j]);
    }
  }
  for (size_t j = 0; j < all->count; j++) {
    bool known = false;
    for (size_t i = 0; i < sweep->case_count && !known; i++)
      known = is_of_case(&all->items[j], sweep->case_names[i]);
    if (!known)
      add_bar(all, &all->items[j]);
  }
}

/* ---- measured ---- */

/* Takes the next of "qkv_transform=81920 softmax=1000"; returns what follows, NULL behind the last. */
static const char *next_part(const char *text, char *name, size_t size, double *time_ns)
{
  size_t length = strcspn(text, "= ");
  if (text[length] != '=')
    return NULL;
  hr_write_text(name, size, "%.*s", (int)length, text);
  char *rest;
  *time_ns = hr_read_number(text + length + 1, &rest);
  return rest + (*rest == ' ');
}

static void add_row(bars *all, const hr_plot_row *row)
{
  const hr_plot_sweep *plot = all->plot;
  bar one = {.status = row->status == HR_ERROR_NOISY ? HR_ERROR_NOISY : HR_OK};
  char name[HR_FIGURE_TEXT], who[HR_FIGURE_TEXT];
  double sum = 0, time_ns;
  for (const char *at = row->parts; *at;) {
    if (!(at = next_part(at, name, sizeof name, &time_ns)))
      break;
    sum += time_ns;
  }
  for (const char *at = row->parts; *at && sum > 0;) {
    if (!(at = next_part(at, name, sizeof name, &time_ns)))
      break;
    add_part(plot, &one, part_of(plot, name), 100 * time_ns / sum);
  }
  hr_plot_line_name(&plot->rows, row, "measured", who, sizeof who);
  hr_write_text(name, sizeof name, "%s, %s", hr_plot_case(plot, row->cpu, row->x), who);
  if (sum > 0)
    keep_bar(all, name, &one);
}

/* ---- predicted ---- */

/* All executions of an operator of a step, one of a layer's. */
static double part_ns(const hr_sweep_point *point, const hr_step *step, size_t index)
{
  const hr_operator *op = &step->operators.items[index];
  if (point->kind == HR_SWEEP_STEP)
    return step->predictions[index].time_ns * (double)op->count;
  return op->in_layer ? step->predictions[index].time_ns : 0;
}

static void add_step(bars *all, const hr_sweep_point *point, const hr_step *step)
{
  const hr_plot_sweep *plot = all->plot;
  bar one = {.percent = {0}};
  double sum = 0;
  for (size_t i = 0; i < step->operators.count; i++)
    sum += part_ns(point, step, i);
  for (size_t i = 0; i < step->operators.count && sum > 0; i++) {
    char name[48];
    hr_operator_name(&step->operators.items[i], name, sizeof name);
    add_part(plot, &one, part_of(plot, name), 100 * part_ns(point, step, i) / sum);
  }
  char name[HR_FIGURE_TEXT];
  hr_write_text(name, sizeof name, "%s, predicted for %s", point->x_name, plot->options->predicted->about.name);
  keep_bar(all, name, &one);
}

static hr_status add_predicted(bars *all, hr_error *error)
{
  const hr_plot_sweep *plot = all->plot;
  const hr_hardware *hardware = plot->options->predicted;
  const hr_sweep *sweep = hardware->about.kind == HR_HARDWARE_CPU ? plot->small : plot->sweep;
  hr_step *step = malloc(sizeof *step);
  hr_status status = step ? HR_OK : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a layer's operators");
  for (size_t i = 0; i < sweep->point_count && status == HR_OK; i++) {
    hr_sweep_point point;
    status = hr_sweep_point_at(sweep, i, plot->options->predicted_dtype, &point, error);
    if (status == HR_OK)
      status = hr_fill_step(hardware, &point.model, &point.workload, step, error);
    if (status == HR_OK)
      add_step(all, &point, step);
  }
  free(step);
  return status;
}

/* ---- published ---- */

static const char *published_part(const char *word)
{
  for (size_t i = 0; i < sizeof published_parts / sizeof *published_parts; i++) {
    if (strcmp(published_parts[i].word, word) == 0)
      return published_parts[i].part;
  }
  return word;
}

typedef struct reading {
  bars *all;
  char name[HR_FIGURE_TEXT]; /* of the bar */
  bar one;
} reading;

static void end_bar(reading *r)
{
  if (r->name[0])
    keep_bar(r->all, r->name, &r->one);
  r->name[0] = '\0';
  r->one = (bar){.percent = {0}};
}

static void take_share(void *context, const hr_published_row *row)
{
  reading *r = context;
  char name[HR_FIGURE_TEXT];
  if (strcmp(hr_published_text(row, "place"), r->all->plot->about.name) != 0)
    return;
  hr_write_text(name, sizeof name, "%s, paper, %s", hr_published_text(row, "of"), hr_published_accuracy(row, NULL));
  if (strcmp(name, r->name) != 0)
    end_bar(r);
  hr_write_text(r->name, sizeof r->name, "%s", name);
  add_part(r->all->plot, &r->one, published_part(hr_published_text(row, "what")), hr_published_number(row, "value"));
}

static hr_status add_published(bars *all, hr_error *error)
{
  reading r = {.all = all};
  HR_TRY(hr_published_read("codesign-values", take_share, &r, error));
  end_bar(&r);
  return HR_OK;
}

hr_status hr_plot_add_shares(hr_plot_sweep *plot, hr_error *error)
{
  const char *const *order = plot->view == HR_VIEW_GEMM_SHARES ? gemm_part_order : part_order;
  plot->figure->form = HR_FIGURE_STACKS;
  plot->figure->x.scale = HR_FIGURE_SCALE_NAMES;
  for (size_t i = 0; order[i]; i++)
    hr_figure_add_series(plot->figure, order[i], HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  plot->figure->y.most = 100; /* or what a bar of readings sums to */
  bars all = {.plot = plot};
  hr_status status = HR_OK;
  for (size_t i = 0; i < plot->rows.count; i++)
    add_row(&all, &plot->rows.rows[i]);
  if (plot->options->predicted)
    status = add_predicted(&all, error);
  if (status == HR_OK && plot->options->published)
    status = add_published(&all, error);
  if (status == HR_OK && all.out_of_memory)
    status = hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for the bars of a figure");
  if (status == HR_OK)
    add_bars(&all);
  free(all.items);
  return status;
}
