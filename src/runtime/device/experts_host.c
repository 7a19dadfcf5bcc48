/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/experts.h"

#include "base/error.h"
#include "runtime/device/device.h"
#include "shape/number.h"

#include <math.h>
#include <string.h>

/* ---- the experts of a token ---- */

/* What the choice of a token goes by. */
typedef struct choice {
  double score[HR_EXPERTS_MAX]; /* of which its weights are made */
  double worth[HR_EXPERTS_MAX]; /* by which it chooses; -inf: not at all */
  bool taken[HR_EXPERTS_MAX];
} choice;

static void softmax(double *x, int64_t count)
{
  double most = -(double)INFINITY, sum = 0;
  for (int64_t i = 0; i < count; i++)
    most = fmax(most, x[i]);
  for (int64_t i = 0; i < count; i++)
    sum += x[i] = exp(x[i] - most);
  for (int64_t i = 0; i < count; i++)
    x[i] /= sum;
}

static void score_experts(const hr_route_arguments *r, int64_t token, choice *c)
{
  hr_numbers_load(r->dtype, r->logits, (size_t)(token * r->experts), (size_t)r->experts, c->score);
  for (int64_t i = 0; r->sigmoid && i < r->experts; i++)
    c->score[i] = 1 / (1 + exp(-c->score[i]));
  if (!r->sigmoid)
    softmax(c->score, r->experts);
  for (int64_t i = 0; i < r->experts; i++)
    c->worth[i] = c->score[i] + (r->bias ? (double)r->bias[i] : 0);
}

/* The index of the largest that is not taken, the first of equal ones, also where all are NaN. */
static int64_t largest_of(const double *x, const bool *taken, int64_t count)
{
  int64_t best = -1;
  for (int64_t i = 0; i < count; i++)
    if (!taken[i] && (best < 0 || x[i] > x[best]))
      best = i;
  return best;
}

static double worth_of_group(const hr_route_arguments *r, const choice *c, int64_t group)
{
  const int64_t size = r->experts / r->groups;
  const double *x = c->worth + group * size;
  double first = -(double)INFINITY, second = first;
  for (int64_t i = 0; i < size; i++) {
    second = fmax(second, fmin(first, x[i]));
    first = fmax(first, x[i]);
  }
  return r->group_pairs && size > 1 ? first + second : first;
}

/* Leaves the experts of the best groups. */
static void choose_groups(const hr_route_arguments *r, choice *c)
{
  const int64_t size = r->groups > 0 ? r->experts / r->groups : 0;
  double worth[HR_EXPERTS_MAX];
  bool kept[HR_EXPERTS_MAX] = {false};
  for (int64_t i = 0; i < r->groups; i++)
    worth[i] = worth_of_group(r, c, i);
  for (int64_t i = 0; r->groups > 0 && i < r->active_groups; i++)
    kept[largest_of(worth, kept, r->groups)] = true;
  for (int64_t i = 0; r->groups > 0 && i < r->experts; i++)
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): a group has experts */
    c->worth[i] = kept[i / size] ? c->worth[i] : -(double)INFINITY;
}

static void choose_experts(const hr_route_arguments *r, int64_t token, choice *c)
{
  float *weights = r->weights + token * r->active;
  double sum = 0, scale = r->scale == 0 ? 1 : r->scale;
  memset(c->taken, 0, (size_t)r->experts);
  for (int64_t i = 0; i < r->active; i++) {
    const int64_t expert = largest_of(c->worth, c->taken, r->experts);
    c->taken[expert] = true;
    r->chosen[token * r->active + i] = (int32_t)expert;
    weights[i] = (float)c->score[expert];
    sum += c->score[expert];
  }
  for (int64_t i = 0; i < r->active; i++)
    weights[i] = (float)(weights[i] / (r->normalized ? sum : 1) * scale);
}

/* ---- the places of all copies ---- */

/* The number of the choice's expert in the order of places. */
static int64_t order_of(const hr_route_arguments *r, int64_t at)
{
  const int64_t expert = r->chosen[at] - r->first;
  return expert < 0 ? expert + r->experts : expert;
}

static void count_copies(const hr_route_arguments *r)
{
  memset(r->offsets, 0, (size_t)(r->experts + 1) * sizeof *r->offsets);
  for (int64_t i = 0; i < r->tokens * r->active; i++)
    r->offsets[order_of(r, i) + 1]++;
  for (int64_t i = 0; i < r->experts; i++)
    r->offsets[i + 1] += r->offsets[i];
}

static void place_copies(const hr_route_arguments *r)
{
  int32_t next[HR_EXPERTS_MAX];
  memcpy(next, r->offsets, (size_t)r->experts * sizeof *next);
  for (int64_t i = 0; i < r->tokens * r->active; i++) {
    const int64_t expert = order_of(r, i);
    const bool own = r->held == 0 || expert < r->held;
    const int32_t place = next[expert]++;
    r->copied[place] = (int32_t)(i / r->active);
    r->experts_of[place] = own ? (int32_t)expert : -1;
    r->places[i] = own ? place : -1;
    if (r->weights_of)
      r->weights_of[place] = r->weights[i];
  }
}

void hr_host_route(const hr_route_arguments *r)
{
  choice c;
  for (int64_t token = 0; token < r->tokens; token++) {
    score_experts(r, token, &c);
    choose_groups(r, &c);
    choose_experts(r, token, &c);
  }
  count_copies(r);
  place_copies(r);
}

hr_status hr_device_route(hr_device *device, const hr_route_arguments *route, void *stream, hr_error *error)
{
  if (device->backend->route)
    return device->backend->route(device, route, stream, error);
  hr_host_route(route);
  return HR_OK;
}

/* ---- their GEMMs ---- */

static hr_status multiply_by_plan(const hr_plan *plan, const hr_grouped_arguments *x, void *workspace, void *stream,
                                  hr_error *error)
{
  const size_t element = hr_dtype_bytes(x->dtype);
  for (int64_t expert = 0; expert < x->experts; expert++) {
    const int64_t copies = x->offsets[expert + 1] - x->offsets[expert];
    const int64_t first = x->offsets[expert] + copies % x->rows; /* behind those of smaller powers of two */
    hr_gemm_arguments one = hr_gemm_arguments_default();
    if (copies / x->rows % 2 == 0)
      continue;
    one.a = (const char *)x->a + (size_t)(first * x->k) * element;
    one.b = (const char *)x->b + (size_t)(expert * x->n * x->k) * element;
    one.c = (char *)x->c + (size_t)(first * x->n) * element;
    HR_TRY(hr_plan_run_gemm(plan, &one, workspace, stream, error));
  }
  return HR_OK;
}

hr_status hr_device_multiply_groups(hr_device *device, const hr_grouped_arguments *x, const hr_plan *plan,
                                    void *workspace, void *stream, hr_error *error)
{
  return plan ? multiply_by_plan(plan, x, workspace, stream, error)
              : device->backend->multiply_groups(device, x, stream, error);
}

/* ---- gradients ---- */

static double scale_of(const hr_route_backward_arguments *r)
{
  return r->scale == 0 ? 1 : r->scale;
}

static double d_weight_of(const hr_route_backward_arguments *r, int64_t at)
{
  return r->places[at] < 0 ? 0 : (double)r->d_weights[r->places[at]];
}

/* All logits of a softmax, or of weights that are divided by their sum, have the sum of g w in common, where w is the
 * share of a chosen expert before it is scaled and g its gradient. */
static double common_of(const hr_route_backward_arguments *r, int64_t token)
{
  double sum = 0;
  for (int64_t i = token * r->active; i < (token + 1) * r->active; i++)
    sum += d_weight_of(r, i) * (double)r->weights[i];
  return r->sigmoid && !r->normalized ? 0 : sum;
}

/* Experts that were not chosen take part in a softmax whose weights are not divided by their sum. */
static void others_back(const hr_route_backward_arguments *r, int64_t token, double common)
{
  double x[HR_EXPERTS_MAX] = {0};
  if (!r->sigmoid && !r->normalized) {
    hr_numbers_load(r->dtype, r->logits, (size_t)(token * r->experts), (size_t)r->experts, x);
    softmax(x, r->experts);
  }
  for (int64_t i = 0; i < r->experts; i++)
    hr_number_store(r->dtype, r->d_logits, (size_t)(token * r->experts + i), -x[i] * common);
}

/* w (g − common), for a sigmoid times 1 − sigmoid. */
void hr_host_route_backward(const hr_route_backward_arguments *r)
{
  for (int64_t token = 0; token < r->tokens; token++) {
    const double common = common_of(r, token);
    others_back(r, token, common);
    for (int64_t i = token * r->active; i < (token + 1) * r->active; i++) {
      const size_t at = (size_t)(token * r->experts + r->chosen[i]);
      const double share = (double)r->weights[i] / scale_of(r), g = scale_of(r) * d_weight_of(r, i);
      const double rest = r->sigmoid ? 1 / (1 + exp(hr_number_load(r->dtype, r->logits, at))) : 1;
      hr_number_store(r->dtype, r->d_logits, at, share * (g - common) * rest);
    }
  }
}
