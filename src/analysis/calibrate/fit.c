/* SPDX-License-Identifier: Apache-2.0 */
/* A pattern search along the axes (Hooke and Jeeves 1961, Journal of the ACM 8, 212-229): the loss has kinks where a
 * prediction takes another tile, so that it has no gradient, and an axis needs the rows of its kind only.
 *
 * Why not NLopt: Debian has no archive of it, so the portable command, which is made for GPU machines, could not
 * calibrate; and what it would replace is search() and try_axis() below, while the loss, which is the rest, could not
 * use that an axis touches a part of the rows. */
#include "analysis/calibrate/fit.h"

#include "base/error.h"
#include "hardware/hardware.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP_FIRST 0.1
#define STEP_LAST 3e-3
#define STEP_GROWS 1.4
#define STEP_SHRINKS 0.5
#define ROUNDS_MAX 400
/* The loss grows by this for each unit of a figure's logarithm away from the start: less than any row's gain, so that
 * figures that the rows do not determine keep their start. */
#define PRIOR 5e-4
#define CHANGE 0.1 /* a figure changes by this share to see which rows depend on it */
#define CHANGE_SEEN 1e-3

typedef struct fit_work {
  const hr_fit_problem *problem;
  hr_hardware now;        /* the best so far */
  hr_hardware conditions; /* of the row at hand; otherwise as tried */
  hr_validated_row *rows;
  double *losses, *tried; /* of each row, at the best point and at the one that is tried */
  double *steps;
  double *numbers; /* the memory of losses, tried and steps */
  double weight, done_before;
} fit_work;

static double weight_of(const hr_fit_problem *problem, size_t i)
{
  return problem->facts[i].part == problem->left_out ? 0 : problem->facts[i].weight;
}

static bool concerns(const fit_work *w, const hr_parameter *p, size_t i)
{
  return weight_of(w->problem, i) > 0 && (!p || w->problem->facts[i].bits & p->rows & HR_ROWS_ALL);
}

static double distance(const hr_parameter *p, double value, double start)
{
  return p->scale == HR_SCALE_FACTOR ? fabs(log(value / start)) : fabs(value - start);
}

/* The loss of `device`, whose rows that `p` (NULL: any) does not concern are as at the best point. */
static hr_status loss_of(fit_work *w, const hr_hardware *device, const hr_parameter *p, double *loss, hr_error *error)
{
  const hr_fit_problem *problem = w->problem;
  double sum = 0, prior = 0;
  w->conditions = *device;
  for (size_t i = 0; i < problem->count; i++) {
    w->tried[i] = w->losses[i];
    if (concerns(w, p, i)) {
      HR_TRY(hr_row_poll_next(problem->poll, error));
      HR_TRY(hr_validated_row_predict(&w->conditions, &w->rows[i], error));
      w->tried[i] = weight_of(problem, i) * fabs(log(w->rows[i].prediction.time_ns / w->rows[i].measured_ns));
    }
    sum += w->tried[i];
  }
  for (size_t i = 0; i < problem->parameter_count; i++)
    prior += distance(&problem->parameters[i], hr_parameter_get(device, &problem->parameters[i]),
                      hr_parameter_get(problem->start, &problem->parameters[i]));
  *loss = sum / w->weight + PRIOR * prior;
  return HR_OK;
}

static void take(fit_work *w, const hr_hardware *device, double found, double *best)
{
  double *losses = w->losses;
  w->now = *device;
  w->losses = w->tried;
  w->tried = losses;
  *best = found;
}

/* A step up or down, whichever helps. */
static hr_status try_axis(fit_work *w, size_t axis, double *best, hr_error *error)
{
  const hr_parameter *p = &w->problem->parameters[axis];
  double value = hr_parameter_get(&w->now, p);
  for (int up = 1; up >= 0; up--) {
    hr_hardware device = w->now;
    double found;
    hr_parameter_set(&device, w->problem->start, p, hr_parameter_step(p, value, w->steps[axis], up));
    if (hr_parameter_get(&device, p) == value)
      continue;
    HR_TRY(loss_of(w, &device, p, &found, error));
    if (found < *best - 1e-9) {
      take(w, &device, found, best);
      w->steps[axis] *= STEP_GROWS;
      return HR_OK;
    }
  }
  w->steps[axis] *= STEP_SHRINKS;
  return HR_OK;
}

static double largest_step(const fit_work *w)
{
  double largest = 0;
  for (size_t i = 0; i < w->problem->parameter_count; i++)
    largest = fmax(largest, w->steps[i]);
  return largest;
}

static hr_status report(fit_work *w, double largest, hr_error *error)
{
  double done = fmin(fmax(log(STEP_FIRST / largest) / log(STEP_FIRST / STEP_LAST), 0), 1);
  w->problem->poll->done = w->done_before + w->problem->done_share * done;
  return hr_row_poll_now(w->problem->poll, error);
}

static hr_status search(fit_work *w, hr_error *error)
{
  double best, largest = STEP_FIRST;
  HR_TRY(loss_of(w, &w->now, NULL, &best, error));
  take(w, w->problem->start, best, &best);
  for (int round = 0; round < ROUNDS_MAX && largest > STEP_LAST; round++) {
    for (size_t i = 0; i < w->problem->parameter_count; i++) {
      HR_TRY(report(w, largest, error));
      if (w->steps[i] > STEP_LAST)
        HR_TRY(try_axis(w, i, &best, error));
    }
    largest = largest_step(w);
  }
  return HR_OK;
}

static hr_status begin(fit_work *w, const hr_fit_problem *problem, hr_error *error)
{
  const size_t n = problem->count + 1;
  double *numbers = calloc(2 * n + problem->parameter_count, sizeof *numbers);
  *w = (fit_work){.problem = problem,
                  .now = *problem->start,
                  .conditions = *problem->start,
                  .done_before = problem->poll->done,
                  .rows = malloc(n * sizeof *w->rows),
                  .numbers = numbers};
  if (!w->rows || !numbers)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu rows", problem->count);
  w->losses = numbers, w->tried = numbers + n, w->steps = numbers + 2 * n;
  memcpy(w->rows, problem->rows, problem->count * sizeof *w->rows);
  for (size_t i = 0; i < problem->count; i++)
    w->weight += weight_of(problem, i);
  for (size_t i = 0; i < problem->parameter_count; i++)
    w->steps[i] = STEP_FIRST;
  return HR_OK;
}

static void end(fit_work *w)
{
  free(w->rows);
  free(w->numbers);
}

/* The bits of rows without which a figure is not fitted; 0: any rows do. */
static unsigned needed_bits(const hr_parameter *p)
{
  return (p->rows & HR_ROWS_FRAMEWORKS) | (p->rows & HR_ROWS_WITH_GEMMS ? HR_ROWS_GEMMS : 0u);
}

static hr_status count_rows(fit_work *w, const hr_parameter *p, int64_t *rows, hr_error *error)
{
  int64_t with_need = 0;
  double value = hr_parameter_get(w->problem->start, p), loss;
  bool up = hr_parameter_step(p, value, CHANGE, true) <= p->figure->bounds->most;
  hr_hardware changed = *w->problem->start;
  hr_parameter_set(&changed, w->problem->start, p, hr_parameter_step(p, value, CHANGE, up));
  HR_TRY(loss_of(w, w->problem->start, p, &loss, error));
  take(w, w->problem->start, loss, &loss);
  HR_TRY(loss_of(w, &changed, p, &loss, error));
  *rows = 0;
  for (size_t i = 0; i < w->problem->count; i++) {
    /* A prediction that passes the measured time, and is as far on its other side, is not seen. */
    bool depends = fabs(w->tried[i] - w->losses[i]) > CHANGE_SEEN * weight_of(w->problem, i);
    *rows += depends;
    with_need += depends && w->problem->facts[i].bits & needed_bits(p);
  }
  if (needed_bits(p) != 0 && with_need == 0)
    *rows = 0;
  return HR_OK;
}

hr_status hr_fit_count_rows(const hr_fit_problem *problem, const hr_parameter *parameter, int64_t *rows,
                            hr_error *error)
{
  fit_work w;
  hr_status status = begin(&w, problem, error);
  if (status == HR_OK)
    status = count_rows(&w, parameter, rows, error);
  end(&w);
  return status;
}

hr_status hr_fit(const hr_fit_problem *problem, hr_hardware *fitted, hr_error *error)
{
  fit_work w;
  hr_status status = begin(&w, problem, error);
  if (status == HR_OK)
    status = search(&w, error);
  if (status == HR_OK)
    *fitted = w.now;
  end(&w);
  return status;
}
