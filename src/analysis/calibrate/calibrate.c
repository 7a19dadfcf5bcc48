/* SPDX-License-Identifier: Apache-2.0 */
/* Which figures and rows are fitted, and the error on rows that were not. */
#include <headroom/experimental/calibrate.h>

#include "analysis/calibrate/fit.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"

#include <headroom/experimental/predict.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_OF_FIGURE 6 /* fewer say more about themselves than about the figure */
#define SMALL_WEIGHT 0.5 /* mostly launch and the library's choice of a kernel */
#define FOLDS_MAX 20
#define DIGITS 4
#define MANY_ROWS 500

typedef struct calibration {
  const hr_validation *before; /* predictions before the fit */
  hr_hardware start;
  hr_fit_row *facts;
  hr_parameter parameters[HR_FITTED_FIGURES_MAX];
  hr_fit_problem problem; /* of these */
  hr_calibrate_result *result;
} calibration;

void hr_calibrate_options_init(hr_calibrate_options *options, size_t size)
{
  HR_INIT(options, size, (hr_calibrate_options){0});
}

/* ---- rows ---- */

static hr_dtype dtype_of(const hr_validated_row *row)
{
  if (row->kind == HR_INTERVAL_EXPERTS)
    return row->experts.dtype;
  if (row->kind == HR_INTERVAL_SCAN)
    return row->scan.dtype;
  if (row->kind == HR_INTERVAL_COLLECTIVE)
    return HR_BF16;
  return hr_validated_row_is_attention(row) ? row->attention.dtype : row->gemm.dtype;
}

/* Kind, format, and whether it is small. */
static size_t group_of(const hr_validated_row *row)
{
  size_t small = row->measured_ns < HR_CALIBRATED_SHORT_NS;
  return ((size_t)row->kind * HR_DTYPE_COUNT + (size_t)dtype_of(row)) * 2 + small;
}

/* Each group counts by the root of its size, so that hundreds of rows of one kind do not outweigh the others. */
static void set_weights(calibration *c)
{
  double sizes[HR_INTERVAL_KIND_COUNT * HR_DTYPE_COUNT * 2] = {0};
  const hr_validated_row *rows = c->problem.rows;
  for (size_t i = 0; i < c->problem.count; i++)
    sizes[group_of(&rows[i])]++;
  for (size_t i = 0; i < c->problem.count; i++)
    c->facts[i].weight =
        (rows[i].measured_ns < HR_CALIBRATED_SHORT_NS ? SMALL_WEIGHT : 1) / sqrt(sizes[group_of(&rows[i])]);
}

#define PART_SIZES 10

/* Rows of one matrix with several m stay together: they resemble each other. */
static int64_t part_of(const hr_validated_row *row, int64_t parts)
{
  const hr_attention *a = &row->attention;
  const hr_expert_call *e = &row->experts;
  const hr_scan_call *s = &row->scan;
  const hr_collective *c = &row->collective;
  const int64_t kind = row->kind, gemm[PART_SIZES] = {0, row->gemm.n, row->gemm.k};
  const int64_t attention[PART_SIZES] = {kind,       a->q_len,   a->kv_len, a->batch,
                                         a->q_heads, a->k_heads, a->qk_dim, a->window};
  const int64_t experts[PART_SIZES] = {kind, e->hidden, e->width, e->experts};
  const int64_t scan[PART_SIZES] = {kind,     s->recurrence, s->updates, s->batch, s->tokens,
                                    s->heads, s->head_dim,   s->groups,  s->state, s->chunk};
  const int64_t collective[PART_SIZES] = {kind, c->kind, c->library, c->devices, c->bytes};
  const int64_t *sizes = hr_validated_row_is_attention(row) ? attention
                         : kind == HR_INTERVAL_EXPERTS      ? experts
                         : kind == HR_INTERVAL_SCAN         ? scan
                         : kind == HR_INTERVAL_COLLECTIVE   ? collective
                                                            : gemm;
  return 1 + (int64_t)(hr_hash_sizes(sizes, PART_SIZES) % (uint64_t)parts);
}

static void describe_rows(calibration *c)
{
  const hr_validated_row *rows = c->problem.rows;
  unsigned all = 0;
  for (size_t i = 0; i < c->problem.count; i++) {
    c->facts[i].bits = hr_parameter_row_bits(&rows[i]);
    c->facts[i].part = part_of(&rows[i], c->result->folds);
    all |= c->facts[i].bits;
  }
  set_weights(c);
  hr_parameters_begin(&c->start, all);
  hr_collectives_begin(&c->start, rows, c->problem.count, ROWS_OF_FIGURE);
}

/* ---- figures ---- */

/* The fit to all parts but one, or to all, whose number is 0. They take equally long. */
static const hr_fit_problem *problem_of(calibration *c, int64_t left_out)
{
  c->problem.left_out = left_out;
  c->problem.poll->done = c->problem.done_share * (double)left_out;
  return &c->problem;
}

static hr_status choose_figures(calibration *c, hr_error *error)
{
  hr_parameter all[HR_FITTED_FIGURES_MAX];
  size_t count = hr_parameters_list(&c->start, all);
  const hr_fit_problem *problem = problem_of(c, 0);
  for (size_t i = 0; i < count; i++) {
    int64_t rows;
    HR_TRY(hr_fit_count_rows(problem, &all[i], &rows, error));
    if (rows < ROWS_OF_FIGURE)
      continue;
    hr_fitted_figure *figure = &c->result->figures[c->problem.parameter_count];
    hr_device_figure_name(all[i].figure, all[i].index, figure->name, sizeof figure->name);
    hr_copy_text(figure->field, sizeof figure->field, all[i].figure->object ? all[i].figure->object : figure->name);
    figure->before = hr_parameter_get(&c->start, &all[i]);
    figure->rows = rows;
    c->parameters[c->problem.parameter_count++] = all[i];
  }
  c->result->figure_count = c->problem.parameter_count;
  return HR_OK;
}

/* A fitted figure is not known to more digits. */
static double rounded(double value)
{
  const double unit = value > 0 ? pow(10, floor(log10(value)) - (DIGITS - 1)) : 1;
  return round(value / unit) * unit;
}

static hr_status fit_all(calibration *c, hr_error *error)
{
  hr_hardware *fitted = c->result->hardware;
  HR_TRY(hr_fit(problem_of(c, 0), fitted, error));
  for (size_t i = 0; i < c->problem.parameter_count; i++) {
    hr_parameter_set(fitted, &c->start, &c->parameters[i], rounded(hr_parameter_get(fitted, &c->parameters[i])));
    c->result->figures[i].after = hr_parameter_get(fitted, &c->parameters[i]);
  }
  return HR_OK;
}

/* ---- held-out rows ---- */

/* Fits to the other parts, and predicts the rows of this one. */
static hr_status hold_out(calibration *c, int64_t part, hr_error *error)
{
  hr_hardware fitted;
  HR_TRY(hr_fit(problem_of(c, part), &fitted, error));
  for (size_t i = 0; i < c->problem.count; i++) {
    HR_TRY(hr_row_poll_next(c->problem.poll, error));
    if (c->facts[i].part == part)
      HR_TRY(hr_validated_row_predict(&fitted, &c->result->held_out->rows[i], error));
  }
  return HR_OK;
}

/* A validation of the same rows whose predictions hold_out() replaces. */
static hr_status begin_held_out(calibration *c, hr_error *error)
{
  hr_validation *held = calloc(1, sizeof *held);
  c->result->held_out = held;
  if (held)
    held->rows = malloc(c->problem.count * sizeof *held->rows);
  if (!held || !held->rows)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu rows", c->problem.count);
  held->row_count = c->problem.count;
  memcpy(held->rows, c->problem.rows, held->row_count * sizeof *held->rows);
  return HR_OK;
}

static hr_status run(calibration *c, hr_error *error)
{
  hr_validation *fitted = NULL;
  describe_rows(c);
  HR_TRY(choose_figures(c, error));
  HR_TRY(fit_all(c, error));
  HR_TRY(begin_held_out(c, error));
  for (int64_t part = 1; part <= c->result->folds; part++)
    HR_TRY(hold_out(c, part, error));
  HR_TRY(
      hr_validate_rows_polled(c->result->hardware, c->problem.rows, c->problem.count, c->problem.poll, &fitted, error));
  hr_status status = hr_validation_sum_up(c->result->held_out, error);
  if (status == HR_OK)
    status = hr_calibrate_sum_up(c->before, fitted, c->result, error);
  hr_validation_free(fitted);
  return status;
}

static hr_status calibrate(const hr_hardware *start, const hr_validation *before, hr_row_poll *poll,
                           hr_calibrate_result *result, hr_error *error)
{
  const size_t count = before->row_count;
  calibration c = {.before = before, .start = *start, .facts = malloc(count * sizeof *c.facts), .result = result};
  c.problem = (hr_fit_problem){.start = &c.start,
                               .rows = before->rows,
                               .facts = c.facts,
                               .count = count,
                               .parameters = c.parameters,
                               .poll = poll,
                               .done_share = 1 / (double)(result->folds + 1)};
  hr_status status =
      c.facts ? run(&c, error) : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu rows", count);
  free(c.facts);
  return status;
}

hr_status hr_calibrate(const hr_hardware *start, const hr_validated_row *rows, size_t count,
                       const hr_calibrate_options *options, hr_calibrate_result **result, hr_error *error)
{
  HR_NEED(error, start, rows, options, result);
  HR_TAKE(hr_calibrate_options, options, error);
  if (options->folds != 0 && (options->folds < 2 || options->folds > FOLDS_MAX))
    return hr_fail(error, HR_ERROR_INVALID, "folds: expected 2 to %d, found %" PRId64, FOLDS_MAX, options->folds);
  hr_validation *before = NULL;
  hr_row_poll poll = {.progress = options->progress, .context = options->context};
  hr_calibrate_result *found = calloc(1, sizeof *found);
  if (found)
    found->hardware = hr_hardware_create();
  hr_status status =
      found && found->hardware ? HR_OK : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu rows", count);
  if (status == HR_OK)
    status = hr_validate_rows_polled(start, rows, count, &poll, &before, error);
  if (status == HR_OK && before->row_count < HR_CALIBRATE_ROWS_MIN)
    status = hr_fail(error, HR_ERROR_INVALID, "%zu rows of %s to fit to, at least %d are needed", before->row_count,
                     start->about.name, HR_CALIBRATE_ROWS_MIN);
  if (status == HR_OK) {
    found->rows = (int64_t)before->row_count;
    found->skipped = before->skipped;
    hr_copy_text(found->skipped_why, sizeof found->skipped_why, before->skipped_why);
    found->folds = options->folds > 0 ? options->folds : found->rows >= MANY_ROWS ? 2 : 5;
    status = calibrate(start, before, &poll, found, error);
  }
  hr_validation_free(before);
  if (status == HR_OK)
    *result = found;
  else
    hr_calibrate_result_free(found);
  return status;
}

void hr_calibrate_result_free(hr_calibrate_result *result)
{
  if (!result)
    return;
  hr_validation_free(result->held_out);
  hr_hardware_free(result->hardware);
  free(result);
}
